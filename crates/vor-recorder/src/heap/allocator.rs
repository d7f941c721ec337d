//! The allocator that programs install: it calls an inner allocator and tracks its objects.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;

use super::{exact, sampled};
use crate::allocations::{EXACT, local};

/// Default mean interval of heap samples, in allocated bytes.
///
/// ```
/// # mod vor { pub mod heap {
/// #     pub use vor_recorder::heap::{DEFAULT_SAMPLE_BYTES, TrackingAllocator};
/// # } }
/// use vor::heap::{DEFAULT_SAMPLE_BYTES, TrackingAllocator};
///
/// // Four times as many samples as usual.
/// #[global_allocator]
/// static ALLOCATOR: TrackingAllocator =
///     TrackingAllocator::system().sampled(DEFAULT_SAMPLE_BYTES / 4);
/// ```
pub const DEFAULT_SAMPLE_BYTES: u64 = 512 << 10;

/// A global allocator that counts the calls of an inner allocator.
///
/// It counts allocations and frees per thread, which costs about a nanosecond for both. A
/// reallocation counts as a free and an allocation. Scopes show the allocations in them; frames
/// show the sums of the process as the metrics `alloc_MB` and `allocs`. [`sampled`](Self::sampled)
/// and [`exact`](Self::exact) also track which scopes allocated the live heap, for
/// [`heap_snapshot`](super::heap_snapshot).
///
/// With the feature `off` it only calls the inner allocator.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::heap; }
/// #[global_allocator]
/// static ALLOCATOR: vor::heap::TrackingAllocator =
///     vor::heap::TrackingAllocator::system().sampled(512 << 10);
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TrackingAllocator<A = System> {
    inner: A,
    heap: Heap,
}

/// The tracking of the live heap.
#[derive(Clone, Copy, Debug)]
enum Heap {
    Nothing,
    /// One sample per interval, in bytes.
    Sampled(u64),
    Exact,
}

impl TrackingAllocator<System> {
    /// Calls the system's allocator, as a program without a custom global allocator does.
    #[must_use]
    pub const fn system() -> Self {
        Self::new(System)
    }
}

impl<A> TrackingAllocator<A> {
    /// Calls `inner`.
    #[must_use]
    pub const fn new(inner: A) -> Self {
        Self {
            inner,
            heap: Heap::Nothing,
        }
    }

    /// Tracks the live heap by samples, on average one per `interval_bytes` allocated; at least 1
    /// and at most 2^48. See [`DEFAULT_SAMPLE_BYTES`].
    ///
    /// Objects smaller than the interval are sampled by chance, larger ones almost always. The
    /// estimates of a snapshot are unbiased.
    #[must_use]
    pub const fn sampled(mut self, interval_bytes: u64) -> Self {
        let interval_bytes = match interval_bytes {
            0 => 1,
            bytes if bytes > 1 << 48 => 1 << 48,
            bytes => bytes,
        };
        // `EXACT` is beyond all intervals.
        debug_assert!(interval_bytes < EXACT);
        self.heap = Heap::Sampled(interval_bytes);
        self
    }

    /// Tracks every live object, with four bytes after each that name its stack of scopes.
    #[must_use]
    pub const fn exact(mut self) -> Self {
        self.heap = Heap::Exact;
        self
    }
}

impl<A: GlobalAlloc> TrackingAllocator<A> {
    /// Allocates with `allocate`, which returns the memory for a layout or null.
    ///
    /// # Safety
    ///
    /// As for [`GlobalAlloc::alloc`].
    #[expect(unsafe_code, reason = "an allocator is unsafe to write")]
    #[inline(always)]
    unsafe fn allocate(&self, layout: Layout, allocate: impl FnOnce(Layout) -> *mut u8) -> *mut u8 {
        if cfg!(feature = "off") {
            return allocate(layout);
        }
        let bytes = layout.size();
        if let Heap::Exact = self.heap {
            let Some(with_trailer) = exact::with_trailer(layout) else {
                return null_mut();
            };
            let object = allocate(with_trailer);
            if !object.is_null() {
                // SAFETY: The object was just allocated with room for the trailer.
                unsafe { exact::allocated(object, bytes) };
            }
            return object;
        }
        let object = allocate(layout);
        if !object.is_null() {
            self.count(object, bytes);
        }
        object
    }

    /// Counts an object without a trailer.
    #[inline(always)]
    fn count(&self, object: *mut u8, bytes: usize) {
        let local = local::own();
        match self.heap {
            Heap::Sampled(interval) => sampled::allocated(local, object, bytes, interval),
            _ => _ = local.allocated(bytes),
        }
    }

    /// Reallocates an object with a trailer.
    ///
    /// # Safety
    ///
    /// As for [`GlobalAlloc::realloc`].
    #[expect(unsafe_code, reason = "as above")]
    #[inline(always)]
    unsafe fn realloc_with_trailer(
        &self,
        object: *mut u8,
        layout: Layout,
        new_bytes: usize,
    ) -> *mut u8 {
        let new_layout = Layout::from_size_align(new_bytes, layout.align());
        let new_layout = new_layout.ok().and_then(exact::with_trailer);
        let Some(new) = new_layout else {
            return null_mut();
        };
        // SAFETY: This allocator made the object, with this layout and a trailer. The check above
        // ensures that the new size fits a layout.
        let (owner, moved) = unsafe {
            (
                exact::owner(object, layout.size()),
                self.inner
                    .realloc(object, exact::with_its_trailer(layout), new.size()),
            )
        };
        if !moved.is_null() {
            exact::freed(owner, layout.size());
            // SAFETY: The object has room for the trailer after its new size.
            unsafe { exact::allocated(moved, new_bytes) };
        }
        moved
    }
}

#[expect(unsafe_code, reason = "a global allocator is unsafe to implement")]
// SAFETY: Every call calls the inner allocator with the same arguments. In the exact mode each size
// includes that of the trailer, so each object is freed with the layout with which it was
// allocated. Tracking accesses only the trailer of an object, and does not unwind.
unsafe impl<A: GlobalAlloc> GlobalAlloc for TrackingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        unsafe { self.allocate(layout, |layout| self.inner.alloc(layout)) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        unsafe { self.allocate(layout, |layout| self.inner.alloc_zeroed(layout)) }
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        if cfg!(feature = "off") {
            // SAFETY: as promised by the caller.
            return unsafe { self.inner.dealloc(object, layout) };
        }
        let bytes = layout.size();
        match self.heap {
            Heap::Nothing => local::own().freed(bytes),
            Heap::Sampled(_) => {
                let local = local::own();
                let _ = sampled::take(local, object);
                local.freed(bytes);
            }
            // SAFETY: This allocator made the object with a trailer, and with this layout.
            Heap::Exact => unsafe {
                exact::freed(exact::owner(object, bytes), bytes);
                return self.inner.dealloc(object, exact::with_its_trailer(layout));
            },
        }
        // SAFETY: as promised by the caller.
        unsafe { self.inner.dealloc(object, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if cfg!(feature = "off") {
            // SAFETY: as promised by the caller.
            return unsafe { self.inner.realloc(object, layout, new_bytes) };
        }
        if let Heap::Exact = self.heap {
            // SAFETY: as promised by the caller.
            return unsafe { self.realloc_with_trailer(object, layout, new_bytes) };
        }
        // Before the object moves: another thread may get its old address immediately afterwards.
        let sample = match self.heap {
            Heap::Sampled(_) => sampled::take(local::own(), object),
            _ => None,
        };
        // SAFETY: as promised by the caller.
        let moved = unsafe { self.inner.realloc(object, layout, new_bytes) };
        if moved.is_null() {
            sampled::put_back(object, sample);
        } else {
            local::own().freed(layout.size());
            self.count(moved, new_bytes);
        }
        moved
    }
}
