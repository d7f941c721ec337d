//! The memory of a ring: slots that take no memory until they are used.
//!
//! Where there is `mmap`, the pages come directly from the system. An allocator may reuse memory,
//! which it then has to clear. Then each new thread would touch its whole ring of some megabytes
//! and keep it resident, for the few records of a short task.

#![expect(unsafe_code, reason = "pages from the system are raw memory")]

use std::ops::Deref;
use std::ptr::NonNull;

use crate::hot::ring::Slot;
use crate::sync::UnsafeCell;

/// A fixed number of zeroed slots.
#[derive(Debug)]
pub(super) struct Slots {
    first: NonNull<UnsafeCell<Slot>>,
    len: usize,
    /// Whether the memory is pages of the system. Otherwise it is a boxed slice.
    is_mapped: bool,
}

// SAFETY: The memory belongs to this value alone, wherever it is. The value hands out references to
// cells of plain integers; `Ring`, which shares the cells between threads, states why that is
// sound.
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
        // SAFETY: `first` is the first of `len` initialised cells, which live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if self.is_mapped {
            unmap(self.first, self.len);
        } else {
            let slots = std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.len);
            // SAFETY: `zeroed` leaked a box of this very slice, and the exclusive access says that
            // no reference to it is left. A box of no slots is a dangling pointer, as in `none`.
            drop(unsafe { Box::from_raw(slots) });
        }
    }
}

/// Maps pages of the system; `None` if the system refuses.
#[cfg(all(unix, not(loom), not(miri)))]
fn map(len: usize) -> Option<NonNull<UnsafeCell<Slot>>> {
    let bytes = len.checked_mul(size_of::<Slot>())?;
    // SAFETY: New private pages at an address of the system's choice overlap nothing that exists.
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
    // SAFETY: `map` made exactly these pages, and the caller uses them no more.
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
    // SAFETY: All-zero bytes are a valid `UnsafeCell<Slot>`, which is transparent over integers.
    unsafe { Box::<[UnsafeCell<Slot>]>::new_zeroed_slice(len).assume_init() }
}

#[cfg(loom)]
fn boxed(len: usize) -> Box<[UnsafeCell<Slot>]> {
    (0..len).map(|_| UnsafeCell::new([0, 0])).collect()
}
