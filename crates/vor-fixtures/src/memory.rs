//! An allocator that counts the live bytes, their peak and the allocations of each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The counting allocator. A test installs it with `#[global_allocator]`.
pub struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of live bytes.
pub fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Returns the number of allocations of this thread.
pub fn thread_allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Returns the peak of live bytes.
pub fn peak_bytes() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// Runs `work`, and returns the growth of live bytes from its start to its peak.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = live_bytes();
    PEAK.store(before, Ordering::Relaxed);
    work();
    peak_bytes() - before
}

#[expect(unsafe_code, reason = "an allocator can only be counted from inside")]
// SAFETY: every call goes to the system's allocator unchanged; counting does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending is not one of the measured threads.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is also that of the system's
        // allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `ptr` came from `alloc` above, and therefore from the system's allocator, with
        // this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}
