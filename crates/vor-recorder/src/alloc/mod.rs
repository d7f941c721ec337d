//! Allocations: how many and how large, per thread and scope, and which scopes allocated what is
//! still in use.
//!
//! A program that makes a [`TrackingAllocator`] its global allocator has each allocation,
//! reallocation and free counted, at the cost of a few additions to numbers of the thread. The
//! recorder takes their difference over a scope, a frame its difference over the process. On
//! request the allocator also keeps the *heap in use* by the stack of scopes that allocated it: of
//! every object, by four bytes behind it, or of one in so many bytes, by a table of samples.
//! [`heap_snapshot`] reads it.
//!
//! | | cost | memory |
//! |---|---|---|
//! | counting | additions | none |
//! | [`sampled`](TrackingAllocator::sampled) | and a look at a filter on a free | below 1 % of the heap, at 512 KiB |
//! | [`exact`](TrackingAllocator::exact) | and additions by stack | 4 bytes per object, in steps of the allocator below |
//!
//! What [`untracked`] runs is not counted, and nor is what vor allocates itself: a thread that is
//! busy with vor (see [`thread`](crate::hot::thread)) is untracked.

mod allocator;
mod local;
mod exact;
mod sampled;
mod stacks;
mod lock;
mod snapshot;

pub use allocator::{DEFAULT_SAMPLE_BYTES, TrackingAllocator};
#[cfg(windows)]
pub(crate) use local::stay_inside;
pub use local::{AllocCounts, process_allocations, thread_allocations, untracked};
pub(crate) use local::{Counters, Counts, is_installed, own_counters, stay_untracked};
pub(crate) use snapshot::keeps_heap;
pub use snapshot::{HeapChange, HeapMode, HeapScope, HeapSnapshot, HeapStack, heap_snapshot};

use crate::sync::global::AtomicU64;

/// How the heap in use is kept: 0 not at all, [`EXACT`], or the interval of samples in bytes. Set
/// by threads when they note their first object, read by snapshots, relaxed.
static HEAP: AtomicU64 = AtomicU64::new(0);

/// Every object.
const EXACT: u64 = u64::MAX;

/// Returns whether nobody holds a lock of the allocator: for the end of a process.
#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    sampled::is_open() && stacks::is_open() && local::is_open()
}

/// Begins this thread's samples anew from a seed, so that tests of estimates can be repeated.
#[doc(hidden)]
pub fn seed_samples(seed: u64) {
    sampled::seed(local::own(), seed);
}
