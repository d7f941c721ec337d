//! The lock of all data that allocating threads share.
//!
//! It is taken inside the global allocator. So it must neither allocate nor use thread-locals of a
//! thread that starts or ends, and the child of a fork must be able to unlock it. It is one flag
//! with a loop around it. It is taken at the first and last allocation of a thread, by samples, by
//! new stacks and by snapshots. A thread that holds it runs
//! [`internally`](super::local::internally), so its own allocations do not take the lock again.

#[cfg(not(loom))]
use std::time::Duration;

use super::local;
use crate::sync::{AtomicBool, Ordering, UnsafeCell, const_fn};

/// Pause between two tries of a thread that has spun and yielded without success. The holder may
/// have a lower priority, and run only while the waiting thread sleeps.
#[cfg(not(loom))]
const PAUSE: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(crate) struct Lock<T> {
    /// Set by the thread that takes the lock (acquire), cleared by the same thread (release).
    is_locked: AtomicBool,
    value: UnsafeCell<T>,
}

#[expect(unsafe_code, reason = "a lock is what makes a cell shareable")]
// SAFETY: Only `with` accesses the value, and only while the calling thread has set `is_locked`. So
// only one thread at a time does.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    const_fn! {
        pub(crate) const fn new(value: T) -> Self {
            Self {
                is_locked: AtomicBool::new(false),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Runs `work` on the value. Must not be called from `work`, nor by a thread that holds another
    /// of these locks.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        local::internally(|| {
            self.take();
            let _release = Release(&self.is_locked);
            #[expect(unsafe_code, reason = "as above")]
            // SAFETY: This thread has set the flag, and `_release` clears it after the last use of
            // the reference.
            self.value.with_mut(|value| work(unsafe { &mut *value }))
        })
    }

    fn take(&self) {
        #[cfg(not(loom))]
        let backoff = crossbeam_utils::Backoff::new();
        while self
            .is_locked
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            #[cfg(loom)]
            loom::thread::yield_now();
            #[cfg(not(loom))]
            if backoff.is_completed() {
                std::thread::sleep(PAUSE);
            } else {
                backoff.snooze();
            }
        }
    }

    /// Returns whether no thread holds the lock.
    #[cfg(any(unix, windows))]
    pub(crate) fn is_open(&self) -> bool {
        !self.is_locked.load(Ordering::Acquire)
    }

    /// Takes the lock for the duration of a fork; [`release_after_fork`](Self::release_after_fork)
    /// releases it, in the parent and in the child.
    // Out of line, because a loop over all shards would be unrolled with a copy in each step.
    #[cfg(unix)]
    #[inline(never)]
    pub(crate) fn take_for_fork(&self) {
        self.take();
    }

    #[cfg(unix)]
    pub(crate) fn release_after_fork(&self) {
        self.is_locked.store(false, Ordering::Release);
    }
}
