//! Allocations: how many and how large, per thread.
//!
//! Each allocation, reallocation and free costs a few additions to numbers of the thread. The
//! recorder takes their difference over a scope, a frame its difference over the process.
//!
//! What [`untracked`] runs is not counted, and nor is what vor allocates itself: a thread that is
//! busy with vor is untracked.

pub(crate) mod live;
pub(crate) mod local;
pub(crate) mod lock;

#[cfg(windows)]
pub(crate) use local::stay_inside;
pub use local::{AllocCounts, process_allocations, thread_allocations, untracked};
pub(crate) use local::{Counters, Counts, is_installed, own_counters, stay_untracked};

use crate::sync::global::AtomicU64;

/// How the heap in use is kept: 0 not at all, [`EXACT`], or the interval of samples in bytes. Set
/// by threads when they note their first object, read by snapshots, relaxed.
pub(crate) static HEAP: AtomicU64 = AtomicU64::new(0);

/// Every object.
pub(crate) const EXACT: u64 = u64::MAX;
