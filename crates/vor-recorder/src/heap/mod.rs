//! The tracking allocator, and the live heap by the stack of scopes that allocated it.
//!
//! If a program makes a [`TrackingAllocator`] its global allocator, each allocation is counted
//! ([`allocations`](crate::allocations)). The allocator can also track the *live heap* by the stack
//! of scopes that allocated it. It tracks every object, with four bytes after each, or one object
//! per interval of bytes, with a table of samples. [`heap_snapshot`] reads it.
//!
//! | | cost | memory |
//! |---|---|---|
//! | counting | additions | none |
//! | [`sampled`](TrackingAllocator::sampled) | and a read of a filter on a free | below 1 % of the heap, at 512 KiB |
//! | [`exact`](TrackingAllocator::exact) | and additions by stack | 4 bytes per object, in steps of the inner allocator |

mod allocator;
mod exact;
mod sampled;
mod stacks;
mod snapshot;

pub use allocator::{DEFAULT_SAMPLE_BYTES, TrackingAllocator};
pub use snapshot::heap_snapshot;
pub(crate) use snapshot::tracks_heap;

use crate::allocations::local;

/// Registers the locks of this module to be held across forks. Must be called before one of them is
/// taken.
fn hold_locks_across_forks() {
    #[cfg(unix)]
    local::hold_across_forks(local::ForkLocks {
        take: || {
            sampled::take_locks_for_fork();
            stacks::take_lock_for_fork();
        },
        release: || {
            stacks::release_lock_after_fork();
            sampled::release_locks_after_fork();
        },
    });
}

/// Returns whether no thread holds a lock of the allocator; used at the end of a process.
#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    sampled::is_open() && stacks::is_open() && local::is_open()
}

/// Restarts this thread's samples from a seed, so that tests of estimates can be repeated.
#[doc(hidden)]
pub fn seed_samples(seed: u64) {
    sampled::seed(local::own(), seed);
}
