//! The exact heap of a thread: objects and bytes by stack, and a cache of the current stack.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

use crate::sync::sum::Sum;
use crate::sync::{AtomicPtr, AtomicU32, Ordering, const_fn};

/// Most stacks; an allocation in any further stack counts for the outer scope.
pub(crate) const MAX_STACKS: usize = 1 << 16;

/// The memory of a thread's table: 1 MiB of addresses.
const TABLE: Layout = Layout::new::<[Live; MAX_STACKS]>();

/// Objects and bytes of one stack: those that a thread allocated minus those that it freed. Wraps
/// around if a thread frees objects of others.
///
/// Incremented by its thread only, read by snapshots (relaxed).
#[derive(Debug, Default)]
pub(crate) struct Live {
    objects: Sum,
    bytes: Sum,
}

impl Live {
    #[inline(always)]
    pub(crate) fn add(&self, objects: u64, bytes: u64) {
        self.objects.add(objects);
        self.bytes.add(bytes);
    }

    #[inline(always)]
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.objects.read(), self.bytes.read())
    }
}

/// A thread's [`Live`] by stack. Its thread grows it under the lock of the list of threads, and
/// snapshots read it under that lock.
///
/// It reserves addresses for all stacks at the start, and the system provides the pages that are
/// used. So the table never moves, even while a signal handler has interrupted an addition.
#[derive(Debug)]
pub(crate) struct LiveTable {
    /// Written by the thread under the lock. Read by the thread without the lock, and by others
    /// under it. All accesses are relaxed.
    start: AtomicPtr<Live>,
    /// Number of entries in use; otherwise like `start`.
    len: AtomicU32,
}

impl LiveTable {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self {
                start: AtomicPtr::new(null_mut()),
                len: AtomicU32::new(0),
            }
        }
    }

    /// Returns the number of stacks with an entry.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns the entry of a stack.
    ///
    /// # Safety
    ///
    /// `stack` is below [`len`](Self::len), and the caller is the table's thread or holds the lock.
    #[expect(unsafe_code, reason = "the table is memory of the system's allocator")]
    #[inline(always)]
    pub(crate) unsafe fn at(&self, stack: u32) -> &Live {
        // SAFETY: `grow` made at least `len` entries from `start` on; they are freed only at the
        // end of their thread.
        unsafe { &*self.start.load(Ordering::Relaxed).add(stack as usize) }
    }

    fn get(&self, stack: u32) -> Option<&Live> {
        #[expect(unsafe_code, reason = "as above")]
        // SAFETY: The entry exists, and all callers are the table's own thread or hold the lock.
        (stack < self.len()).then(|| unsafe { self.at(stack) })
    }

    /// Adds if the stack has an entry. Must be called by the thread.
    pub(crate) fn add(&self, stack: u32, objects: u64, bytes: u64) -> bool {
        let live = self.get(stack);
        if let Some(live) = live {
            live.add(objects, bytes);
        }
        live.is_some()
    }

    /// Returns the nonzero entries: stack, objects and bytes. Must be called with the lock.
    pub(crate) fn read(&self) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let all = (0..self.len()).filter_map(|stack| {
            let (objects, bytes) = self.get(stack)?.read();
            Some((stack, objects, bytes))
        });
        all.filter(|(_, objects, bytes)| (*objects, *bytes) != (0, 0))
    }

    /// Makes room for `stack`; returns `false` if it cannot. Must be called by the thread, with the
    /// lock.
    pub(crate) fn grow(&self, stack: u32) -> bool {
        let needed = stack as usize + 1;
        if needed > MAX_STACKS {
            return false;
        }
        if self.start.load(Ordering::Relaxed).is_null() {
            #[expect(unsafe_code, reason = "memory from the system's allocator")]
            // SAFETY: The layout is not empty, and zeros are a valid and empty `Live`.
            let start = unsafe { System.alloc_zeroed(TABLE) }.cast::<Live>();
            if start.is_null() {
                return false;
            }
            self.start.store(start, Ordering::Relaxed);
        }
        let len = needed.next_power_of_two().max(16) as u32;
        self.len.fetch_max(len, Ordering::Relaxed);
        true
    }

    /// Frees the memory. Must be called with the lock, by the thread or after it has ended.
    pub(crate) fn free(&self) {
        self.len.store(0, Ordering::Relaxed);
        let start = self.start.swap(null_mut(), Ordering::Relaxed);
        if !start.is_null() {
            #[expect(unsafe_code, reason = "as in `grow`")]
            // SAFETY: `grow` allocated this memory with this layout, and no pointer to it remains.
            unsafe {
                System.dealloc(start.cast(), TABLE);
            }
        }
    }
}

/// A cached edge of the tree of stacks: parent and site, and the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) key: u64,
    pub(crate) stack: u32,
}

/// Edges in a thread's cache.
const EDGES: usize = 64;

/// The number of this thread's current stack, and the scope for which it was found.
#[derive(Debug)]
pub(crate) struct StackCache {
    pub(crate) top: Cell<u32>,
    pub(crate) start_ticks: Cell<u64>,
    pub(crate) stack: Cell<u32>,
    /// Edges by a hash; null before the first.
    edges: Cell<*mut Edge>,
    /// Whether the number is being looked up. An allocation of a signal handler meanwhile belongs
    /// to no scope.
    pub(crate) is_in_lookup: Cell<bool>,
}

impl StackCache {
    pub(crate) const fn new() -> Self {
        Self {
            top: Cell::new(0),
            start_ticks: Cell::new(0),
            stack: Cell::new(0),
            edges: Cell::new(null_mut()),
            is_in_lookup: Cell::new(false),
        }
    }

    /// Returns the position of an edge in the cache; `None` if there is no memory for it.
    pub(crate) fn edge(&self, key: u64) -> Option<*mut Edge> {
        if self.edges.get().is_null() {
            let layout = Layout::array::<Edge>(EDGES).ok()?;
            #[expect(unsafe_code, reason = "memory from the system's allocator")]
            // SAFETY: The layout is not empty, and zeros are valid edges without a key.
            self.edges
                .set(unsafe { System.alloc_zeroed(layout) }.cast::<Edge>());
        }
        let place = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % EDGES;
        let edges = self.edges.get();
        // The position is inside the memory.
        (!edges.is_null()).then(|| edges.wrapping_add(place))
    }

    /// Frees the memory, at the end of the thread.
    pub(crate) fn free(&self) {
        let edges = self.edges.replace(null_mut());
        if let (false, Ok(layout)) = (edges.is_null(), Layout::array::<Edge>(EDGES)) {
            #[expect(unsafe_code, reason = "as in `edge`")]
            // SAFETY: `edge` allocated this memory with this layout, and no reference to it
            // outlives a call of `child`.
            unsafe {
                System.dealloc(edges.cast(), layout);
            }
        }
    }
}
