//! What a thread keeps of the exact heap: objects and bytes by stack, and the stack that it looked
//! up last.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

use crate::sync::Ordering;
use crate::sync::global::{AtomicPtr, AtomicU32};
use crate::sync::sum::Sum;

/// Stacks that are told apart; what is allocated in later ones is the outer scope's.
pub(crate) const MAX_STACKS: usize = 1 << 16;

/// The memory of a thread's table: 1 MiB of addresses.
const TABLE: Layout = Layout::new::<[Live; MAX_STACKS]>();

/// Objects and bytes of one stack: what a thread has allocated less what it has given back, which
/// wraps around where it gives back what others allocated.
///
/// The thread alone adds, snapshots read.
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

/// A thread's [`Live`] by stack. It grows by its thread under the lock of the list of threads,
/// under which snapshots read it.
///
/// Its memory has room for all stacks from the start, of which the system provides what is used: it
/// never moves while a handler may have interrupted an addition.
#[derive(Debug)]
pub(crate) struct LiveTable {
    /// Written by the thread under the lock, read by the thread without and by others with it,
    /// relaxed.
    start: AtomicPtr<Live>,
    /// How much of it is in use. As `start`.
    len: AtomicU32,
}

impl LiveTable {
    pub(crate) const fn new() -> Self {
        Self {
            start: AtomicPtr::new(null_mut()),
            len: AtomicU32::new(0),
        }
    }

    /// Returns how many stacks have a place.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns the place of a stack.
    ///
    /// # Safety
    ///
    /// `stack` is below [`len`](Self::len), and the caller is the table's thread or holds the lock.
    #[expect(unsafe_code, reason = "the table is memory of the system's allocator")]
    #[inline(always)]
    pub(crate) unsafe fn at(&self, stack: u32) -> &Live {
        // SAFETY: the table has at least `len` entries from `start` on, which `grow` made; only the
        // end of its thread takes it away.
        unsafe { &*self.start.load(Ordering::Relaxed).add(stack as usize) }
    }

    fn get(&self, stack: u32) -> Option<&Live> {
        #[expect(unsafe_code, reason = "as above")]
        // SAFETY: the place exists; only the table's own thread, or whoever holds the lock, gets
        // here.
        (stack < self.len()).then(|| unsafe { self.at(stack) })
    }

    /// Adds where there is room. To be called by the thread.
    pub(crate) fn add(&self, stack: u32, objects: u64, bytes: u64) -> bool {
        let live = self.get(stack);
        if let Some(live) = live {
            live.add(objects, bytes);
        }
        live.is_some()
    }

    /// Returns the entries that say something: stack, objects and bytes. To be called with the
    /// lock.
    pub(crate) fn read(&self) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let all = (0..self.len()).filter_map(|stack| {
            let (objects, bytes) = self.get(stack)?.read();
            Some((stack, objects, bytes))
        });
        all.filter(|(_, objects, bytes)| (*objects, *bytes) != (0, 0))
    }

    /// Makes room for `stack`; returns `false` where it cannot. To be called by the thread, with
    /// the lock.
    pub(crate) fn grow(&self, stack: u32) -> bool {
        let needed = stack as usize + 1;
        if needed > MAX_STACKS {
            return false;
        }
        if self.start.load(Ordering::Relaxed).is_null() {
            #[expect(unsafe_code, reason = "memory from the system's allocator")]
            // SAFETY: the layout is not empty; entries of zeros are what `Live` begins with.
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

    /// Gives the memory back. To be called with the lock, by the thread or where it runs no more.
    pub(crate) fn free(&self) {
        self.len.store(0, Ordering::Relaxed);
        let start = self.start.swap(null_mut(), Ordering::Relaxed);
        if !start.is_null() {
            #[expect(unsafe_code, reason = "as in `grow`")]
            // SAFETY: `grow` took this memory with this layout, and nobody can find it any more.
            unsafe {
                System.dealloc(start.cast(), TABLE);
            }
        }
    }
}

/// An edge of the tree of stacks as a thread remembers it: parent and site, and the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) key: u64,
    pub(crate) stack: u32,
}

/// Edges that a thread remembers.
const EDGES: usize = 64;

/// The number of the stack that is open on this thread, and what it was found by.
#[derive(Debug)]
pub(crate) struct StackCache {
    pub(crate) top: Cell<u32>,
    pub(crate) start_ticks: Cell<u64>,
    pub(crate) stack: Cell<u32>,
    /// Edges by a hash, null before the first.
    edges: Cell<*mut Edge>,
    /// Whether the number is being looked for: what a handler allocates meanwhile is nobody's
    /// scope's.
    pub(crate) is_looking: Cell<bool>,
}

impl StackCache {
    pub(crate) const fn new() -> Self {
        Self {
            top: Cell::new(0),
            start_ticks: Cell::new(0),
            stack: Cell::new(0),
            edges: Cell::new(null_mut()),
            is_looking: Cell::new(false),
        }
    }

    /// Returns where an edge is remembered, `None` where there is no memory for it.
    pub(crate) fn edge(&self, key: u64) -> Option<*mut Edge> {
        if self.edges.get().is_null() {
            let layout = Layout::array::<Edge>(EDGES).ok()?;
            #[expect(unsafe_code, reason = "memory from the system's allocator")]
            // SAFETY: the layout is not empty; edges of zeros are edges without a key.
            self.edges
                .set(unsafe { System.alloc_zeroed(layout) }.cast::<Edge>());
        }
        let place = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % EDGES;
        let edges = self.edges.get();
        // The place is one of those that the memory has.
        (!edges.is_null()).then(|| edges.wrapping_add(place))
    }

    /// Gives the memory back: for the end of the thread.
    pub(crate) fn free(&self) {
        let edges = self.edges.replace(null_mut());
        if let (false, Ok(layout)) = (edges.is_null(), Layout::array::<Edge>(EDGES)) {
            #[expect(unsafe_code, reason = "as in `edge`")]
            // SAFETY: `edge` took this memory with this layout, and no reference to it outlives a
            // call of `child`.
            unsafe {
                System.dealloc(edges.cast(), layout);
            }
        }
    }
}
