//! Memory for columns of millions of rows.
//!
//! The system allocates and clears memory page by page, at the first write. For columns of ten
//! million rows this took two fifths of the CPU time with small pages, and a quarter with large
//! ones. Some systems use large pages only on request.

use vor_capture::reader::Columns;

/// Makes an empty vector with room for exactly `items` items, in large pages if the system has
/// them.
#[must_use]
pub(super) fn large_vec<T>(items: usize) -> Vec<T> {
    let mut empty = Vec::new();
    empty.reserve_exact(items);
    use_large_pages(&empty);
    empty
}

/// Makes empty columns with room for exactly `spans` spans, in large pages if the system has them.
pub(super) fn large_columns(spans: usize) -> Columns {
    Columns {
        sites: large_vec(spans),
        depths: large_vec(spans),
        start_ns: large_vec(spans),
        dur_ns: large_vec(spans),
        self_ns: large_vec(spans),
        ..Columns::default()
    }
}

/// Requests large pages for the allocation of a vector. A failure has no consequence.
#[cfg(target_os = "linux")]
fn use_large_pages<T>(room: &Vec<T>) {
    /// Smaller allocations are not worth a system call.
    const LARGE_BYTES: usize = 4 << 20;
    const PAGE_BYTES: usize = 4096;

    let bytes = room.capacity().saturating_mul(size_of::<T>());
    if bytes < LARGE_BYTES {
        return;
    }
    let before = room.as_ptr().addr().wrapping_neg() % PAGE_BYTES;
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: the range begins at a page and ends with the vector's allocation, which the vector
    // keeps meanwhile; the advice changes no byte of it.
    unsafe {
        let begin = room.as_ptr().byte_add(before).cast_mut();
        libc::madvise(begin.cast(), bytes - before, libc::MADV_HUGEPAGE);
    }
}

#[cfg(not(target_os = "linux"))]
fn use_large_pages<T>(_: &Vec<T>) {}
