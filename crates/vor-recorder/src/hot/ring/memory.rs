//! The memory of a ring: slots that take no memory until they are used.
//!
//! Where there is `mmap`, the pages come directly from the system. An allocator may reuse memory,
//! which it then has to clear. Then each new thread would touch its whole ring of some megabytes
//! and keep it resident, for the few records of a short task. With
//! [shared memory](crate::hot::shared) the pages belong to the file, and outlive this value.

#![expect(unsafe_code, reason = "pages from the system are raw memory")]

use std::ops::Deref;
use std::ptr::NonNull;

use crate::hot::ring::Slot;
use crate::sync::UnsafeCell;

/// A fixed number of cells that two threads share.
#[derive(Debug)]
pub(super) struct Cells<T> {
    first: NonNull<T>,
    len: usize,
    owner: Owner,
}

/// The owner of the memory of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// This value: pages of the system.
    Pages,
    /// This value: a boxed slice.
    Box,
    /// The maker of the pages, who never unmaps them.
    Other,
}

/// The slots of a ring.
pub(super) type Slots = Cells<UnsafeCell<Slot>>;

// SAFETY: The memory belongs to this value alone, or to nobody else for as long as it lives,
// wherever it is. The value hands out references to cells of plain integers; `Ring`, which shares
// the cells between threads, states why that is sound.
unsafe impl<T: Send> Send for Cells<T> {}

impl<T> Cells<T> {
    /// No cells.
    #[cfg(not(loom))]
    pub(super) const fn none() -> Self {
        Self {
            first: NonNull::dangling(),
            len: 0,
            owner: Owner::Box,
        }
    }

    pub(super) fn boxed(cells: Box<[T]>) -> Self {
        let len = cells.len();
        Self {
            first: NonNull::from(Box::leak(cells)).cast(),
            len,
            owner: Owner::Box,
        }
    }

    /// Takes cells in pages that are never unmapped.
    ///
    /// # Safety
    ///
    /// There must be `len` initialised cells at `first`, and no other value may use them.
    pub(super) unsafe fn in_pages(first: NonNull<T>, len: usize) -> Self {
        Self {
            first,
            len,
            owner: Owner::Other,
        }
    }
}

impl Slots {
    pub(super) fn zeroed(len: usize) -> Self {
        match map(len) {
            Some(first) => Self {
                first,
                len,
                owner: Owner::Pages,
            },
            None => Self::boxed(boxed(len)),
        }
    }
}

impl<T> Deref for Cells<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        // SAFETY: `first` is the first of `len` initialised cells, which live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for Cells<T> {
    fn drop(&mut self) {
        match self.owner {
            Owner::Other => {}
            Owner::Pages => unmap(self.first.cast(), self.len * size_of::<T>()),
            Owner::Box => {
                let cells = std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.len);
                // SAFETY: `boxed` leaked a box of this very slice, and the exclusive access says
                // that no reference to it is left. A box of no cells is a dangling pointer, as in
                // `none`.
                drop(unsafe { Box::from_raw(cells) });
            }
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
fn unmap(first: NonNull<u8>, bytes: usize) {
    // SAFETY: `map` made exactly these pages, and the caller uses them no more.
    unsafe { libc::munmap(first.as_ptr().cast(), bytes) };
}

#[cfg(not(all(unix, not(loom), not(miri))))]
fn map(_: usize) -> Option<NonNull<UnsafeCell<Slot>>> {
    None
}

#[cfg(not(all(unix, not(loom), not(miri))))]
fn unmap(_: NonNull<u8>, _: usize) {}

#[cfg(not(loom))]
fn boxed(len: usize) -> Box<[UnsafeCell<Slot>]> {
    // SAFETY: All-zero bytes are a valid `UnsafeCell<Slot>`, which is transparent over integers.
    unsafe { Box::<[UnsafeCell<Slot>]>::new_zeroed_slice(len).assume_init() }
}

#[cfg(loom)]
fn boxed(len: usize) -> Box<[UnsafeCell<Slot>]> {
    (0..len).map(|_| UnsafeCell::new([0, 0])).collect()
}
