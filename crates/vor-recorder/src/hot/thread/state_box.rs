//! The memory of a thread's state: the heap, or pages of a file of shared memory.

use std::ops::Deref;
use std::ptr::NonNull;

use super::state::ThreadState;
use crate::hot::ring::Ring;
use crate::os::shared_file::Reserve;

/// Bytes before the ring in pages: the state, in whole pages.
const STATE_BYTES: usize = size_of::<ThreadState>().next_multiple_of(4096);

/// A state that stays at its address.
#[derive(Debug)]
pub(crate) struct StateBox {
    state: NonNull<ThreadState>,
    is_in_pages: bool,
}

#[expect(unsafe_code, reason = "a raw pointer says nothing about its value")]
// SAFETY: It owns the state, as a box does, and a state is `Send` and `Sync`.
unsafe impl Send for StateBox {}
#[expect(unsafe_code, reason = "a raw pointer says nothing about its value")]
// SAFETY: as above; it only gives out shared references.
unsafe impl Sync for StateBox {}

const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<ThreadState>();
};

impl StateBox {
    pub(crate) fn new(ring_slots: usize) -> Self {
        let state = Box::new(ThreadState::new(Ring::new(ring_slots)));
        Self {
            state: NonNull::from(Box::leak(state)),
            is_in_pages: false,
        }
    }

    /// Returns how many bytes [`in_pages`](Self::in_pages) needs.
    pub(crate) fn bytes_in_pages(ring_slots: usize) -> usize {
        STATE_BYTES + Ring::bytes_in_pages(ring_slots)
    }

    /// Returns how many of these bytes must have memory from the beginning.
    pub(crate) fn first_bytes_in_pages(ring_slots: usize) -> usize {
        STATE_BYTES + Ring::first_bytes_in_pages(ring_slots)
    }

    /// Makes a state in pages of a file. `file` provides the memory of these bytes.
    ///
    /// # Safety
    ///
    /// The pages must be zero, aligned to a page, never unmapped, and used by nothing else.
    #[expect(unsafe_code, reason = "the pages are raw memory")]
    pub(crate) unsafe fn in_pages(first: NonNull<u8>, ring_slots: usize, file: Reserve) -> Self {
        let state = first.cast::<ThreadState>();
        // SAFETY: The caller provides `bytes_in_pages` bytes, of which the ring gets those after
        // the state, and the state those before. A page is aligned for it.
        unsafe {
            let file = file.after(STATE_BYTES as u64);
            let ring = Ring::in_pages(first.add(STATE_BYTES), ring_slots, file);
            state.write(ThreadState::new(ring));
        }
        // Threads and handlers get its address as a number.
        let _ = first.as_ptr().expose_provenance();
        Self {
            state,
            is_in_pages: true,
        }
    }

    pub(crate) fn as_ptr(&self) -> *const ThreadState {
        self.state.as_ptr()
    }
}

impl Deref for StateBox {
    type Target = ThreadState;

    #[inline(always)]
    fn deref(&self) -> &ThreadState {
        #[expect(unsafe_code, reason = "a raw pointer is dereferenced")]
        // SAFETY: The state is initialised, and lives until `self` is dropped.
        unsafe {
            self.state.as_ref()
        }
    }
}

impl Drop for StateBox {
    fn drop(&mut self) {
        if self.is_in_pages {
            // It stays: the pages are not unmapped, and whoever recovers them reads it.
            return;
        }
        #[expect(unsafe_code, reason = "the box was taken apart")]
        // SAFETY: `new` leaked this box, and the exclusive access says that no reference is left.
        unsafe {
            drop(Box::from_raw(self.state.as_ptr()));
        }
    }
}
