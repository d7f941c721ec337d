//! Allocations, their number and their size, per thread.
//!
//! Each allocation, reallocation and free costs a few additions to counters of the thread. A scope
//! records their growth on its thread, a frame their growth in the process.
//!
//! Allocations inside [`untracked`] are not counted. Vor's own are not counted either: a thread
//! inside vor is untracked.

pub(crate) mod live;
pub(crate) mod local;
pub(crate) mod lock;
#[cfg(all(test, loom))]
mod models;

#[cfg(windows)]
pub(crate) use local::stay_internal;
pub use local::{AllocCounts, process_allocations, thread_allocations, untracked};
pub(crate) use local::{Counters, Counts, StateGuard, is_installed, own_counters, stay_untracked};

use crate::sync::global::AtomicU64;

/// The mode of the live heap: 0 for none, [`EXACT`], or the interval of samples in bytes. Written
/// by threads at their first object, read by snapshots, both relaxed.
pub(crate) static HEAP: AtomicU64 = AtomicU64::new(0);

/// The mode in which every object is tracked.
pub(crate) const EXACT: u64 = u64::MAX;
