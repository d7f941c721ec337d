//! Memory for columns of millions of rows.
//!
//! The system gives memory page by page, when it is first written to, and clears each. For columns
//! of ten million rows that was two fifths of the time of the processor with small pages, and a
//! quarter with large ones, which some systems give only to those who ask.

use vor_capture::reader::Columns;

/// Makes an empty vector with room for exactly so many items, in large pages where the system has
/// such.
#[must_use]
pub(super) fn large_vec<T>(items: usize) -> Vec<T> {
    let mut items_to_come = Vec::new();
    items_to_come.reserve_exact(items);
    ask(&items_to_come);
    items_to_come
}

/// Makes empty columns with room for exactly so many spans, in large pages where the system has
/// such.
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

/// Asks for large pages under the room of a vector. Nothing depends on the answer.
#[cfg(target_os = "linux")]
fn ask<T>(room: &Vec<T>) {
    /// What is smaller does not ask: it is not worth a call of the system.
    const LARGE_BYTES: usize = 4 << 20;
    const PAGE_BYTES: usize = 4096;

    let bytes = room.capacity().saturating_mul(size_of::<T>());
    if bytes < LARGE_BYTES {
        return;
    }
    let before = room.as_ptr().addr().wrapping_neg() % PAGE_BYTES;
    #[expect(unsafe_code, reason = "a call of the system")]
    // SAFETY: the range begins at a page and ends with the vector's allocation, which the vector
    // keeps meanwhile; the advice changes no byte of it.
    unsafe {
        let begin = room.as_ptr().byte_add(before).cast_mut();
        libc::madvise(begin.cast(), bytes - before, libc::MADV_HUGEPAGE);
    }
}

#[cfg(not(target_os = "linux"))]
fn ask<T>(_: &Vec<T>) {}
