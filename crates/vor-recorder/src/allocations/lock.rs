//! The lock of everything that allocating threads share.
//!
//! It is taken inside the global allocator, so it may neither allocate nor depend on a thread that
//! is coming or going, and the child of a fork must be able to open it: one flag that is spun on.
//! What it guards is touched at the first and last allocation of a thread, by samples, by stacks
//! that are seen for the first time and by snapshots. A thread that holds it is
//! [`inside`](super::local::inside), so what it allocates there does not come back here.

use std::time::Duration;

use super::local;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, UnsafeCell};

/// Tries before a waiting thread gives its processor away, and before it sleeps: the holder may
/// have a lower priority.
const SPINS: u32 = 64;
const YIELDS: u32 = 1024;
const NAP: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(crate) struct Lock<T> {
    /// Set by who takes the lock (acquire), cleared by the same (release).
    held: AtomicBool,
    value: UnsafeCell<T>,
}

#[expect(unsafe_code, reason = "a lock is what makes a cell shareable")]
// SAFETY: the value is reached by `with` alone, and only while `held` is this thread's doing, so by
// one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `work` on the value. To be called neither from `work` nor by a thread that holds
    /// another of these locks.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        local::inside(|| {
            self.take();
            let _release = Release(&self.held);
            #[expect(unsafe_code, reason = "as above")]
            // SAFETY: the flag is set by this thread until `_release` drops, which is after the
            // last use of the reference.
            work(unsafe { &mut *self.value.get() })
        })
    }

    fn take(&self) {
        let mut tries = 0_u32;
        while self
            .held
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            tries = tries.saturating_add(1);
            match tries {
                ..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
    }

    /// Returns whether nobody holds the lock.
    #[cfg(any(unix, windows))]
    pub(crate) fn is_open(&self) -> bool {
        !self.held.load(Ordering::Acquire)
    }

    /// Takes the lock for the time of a fork; [`release_after_fork`](Self::release_after_fork)
    /// gives it back, in the parent and in the child.
    #[cfg(unix)]
    pub(crate) fn take_for_fork(&self) {
        self.take();
    }

    #[cfg(unix)]
    pub(crate) fn release_after_fork(&self) {
        self.held.store(false, Ordering::Release);
    }
}
