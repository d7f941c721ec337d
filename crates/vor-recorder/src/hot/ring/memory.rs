//! The memory of a ring: slots that cost nothing until they are used.
//!
//! Where there is `mmap`, the pages come straight from the system. An allocator may hand out memory
//! that was used before, which it then has to clear: a ring of some megabytes would be touched from
//! end to end by each new thread, and stay resident, for the few records of a short task.

#![expect(unsafe_code, reason = "pages from the system are raw memory")]

use std::ops::Deref;
use std::ptr::NonNull;

use crate::hot::ring::Slot;
use crate::sync::UnsafeCell;

/// Zeroed slots of a fixed number.
#[derive(Debug)]
pub(super) struct Slots {
    first: NonNull<UnsafeCell<Slot>>,
    len: usize,
    /// Whether the memory is the system's pages; else it is a boxed slice.
    is_mapped: bool,
}

// SAFETY: the memory belongs to this value alone, wherever it is, and what it gives out are
// references to cells, which are plain integers. Whoever shares the cells between threads answers
// for that: `Ring` does.
unsafe impl Send for Slots {}

impl Slots {
    /// No slots.
    #[cfg(not(loom))]
    pub(super) const fn none() -> Self {
        Self {
            first: NonNull::dangling(),
            len: 0,
            is_mapped: false,
        }
    }

    pub(super) fn zeroed(len: usize) -> Self {
        match map(len) {
            Some(first) => Self {
                first,
                len,
                is_mapped: true,
            },
            None => Self {
                first: NonNull::from(Box::leak(boxed(len))).cast(),
                len,
                is_mapped: false,
            },
        }
    }
}

impl Deref for Slots {
    type Target = [UnsafeCell<Slot>];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        // SAFETY: `first` begins `len` initialised cells, which live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if self.is_mapped {
            unmap(self.first, self.len);
        } else {
            let slots = std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.len);
            // SAFETY: `zeroed` leaked a box of this very slice, and nobody uses it any more; of no
            // slots, a box is a dangling pointer too.
            drop(unsafe { Box::from_raw(slots) });
        }
    }
}

/// Takes pages from the system; `None` where there are none to be had.
#[cfg(all(unix, not(loom), not(miri)))]
fn map(len: usize) -> Option<NonNull<UnsafeCell<Slot>>> {
    let bytes = len.checked_mul(size_of::<Slot>())?;
    // SAFETY: new private pages at a place of the system's choice touch nothing that exists.
    let pages = unsafe {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE,
        );
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0)
    };
    // New pages read as zeros, which are valid cells of plain integers, and are aligned to more
    // than a slot.
    if pages == libc::MAP_FAILED {
        None
    } else {
        NonNull::new(pages.cast())
    }
}

#[cfg(all(unix, not(loom), not(miri)))]
fn unmap(first: NonNull<UnsafeCell<Slot>>, len: usize) {
    // SAFETY: `map` made exactly these pages, and nobody uses them any more.
    unsafe { libc::munmap(first.as_ptr().cast(), len * size_of::<Slot>()) };
}

#[cfg(not(all(unix, not(loom), not(miri))))]
fn map(_: usize) -> Option<NonNull<UnsafeCell<Slot>>> {
    None
}

#[cfg(not(all(unix, not(loom), not(miri))))]
fn unmap(_: NonNull<UnsafeCell<Slot>>, _: usize) {}

#[cfg(not(loom))]
fn boxed(len: usize) -> Box<[UnsafeCell<Slot>]> {
    // SAFETY: all-zero bytes are a valid `UnsafeCell<[u64; 2]>`, which is transparent over plain
    // integers.
    unsafe { Box::<[UnsafeCell<Slot>]>::new_zeroed_slice(len).assume_init() }
}

#[cfg(loom)]
fn boxed(len: usize) -> Box<[UnsafeCell<Slot>]> {
    (0..len).map(|_| UnsafeCell::new([0, 0])).collect()
}
