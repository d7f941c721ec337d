//! A condition variable for the mutexes of this module.
//!
//! It waits with a lock of its own, as that of the standard library in `locks/condvar.rs`, and for
//! the same reason. The wait below is one of `parking_lot`, so a notification returns whom it woke.

use std::fmt;
use std::panic::Location;
use std::time::{Duration, Instant};

use ::parking_lot as pl;

use super::{MutexGuard, WaitTimeoutResult};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::locks::blocked::{TO_GO_ON, begin_wait};

/// A condition variable with the interface of [`parking_lot::Condvar`](pl::Condvar) that records
/// the waits for it, for a [`Mutex`](super::Mutex) of this module.
///
/// A thread that waits for a notification while recording is on opens a scope `wait: NAME` until it
/// is woken. If another thread holds the mutex then, the thread waits for the mutex afterwards, in
/// a scope of its own. Threads may wait with different mutexes.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::parking_lot; } }
/// use vor::sync::parking_lot::{Condvar, Mutex};
///
/// static IS_READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::named("ready");
///
/// let setter = std::thread::spawn(|| {
///     *IS_READY.lock() = true;
///     CHANGED.notify_one();
/// });
/// let mut is_ready = IS_READY.lock();
/// CHANGED.wait_while(&mut is_ready, |is_ready| !*is_ready);
/// assert!(*is_ready);
/// # setter.join().unwrap();
/// ```
pub struct Condvar {
    name: ValueName,
    site: NamedSite,
    /// Locked by a thread before it unlocks the mutex, until it sleeps.
    waiting: pl::Mutex<()>,
    notified: pl::Condvar,
}

impl Condvar {
    /// Makes a condition variable, whose name is the place of this call.
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn new() -> Self {
        Self::with_name(ValueName::Place(Location::caller()))
    }

    /// Makes a condition variable with a name.
    #[must_use]
    #[inline]
    pub const fn named(name: &'static str) -> Self {
        Self::with_name(ValueName::Named(name))
    }

    const fn with_name(name: ValueName) -> Self {
        Self {
            name,
            site: NamedSite::new(TO_GO_ON),
            waiting: pl::Mutex::new(()),
            notified: pl::Condvar::new(),
        }
    }

    /// Wakes one thread that waits. Returns whether there was one.
    pub fn notify_one(&self) -> bool {
        self.let_waiters_sleep();
        self.notified.notify_one()
    }

    /// Wakes all threads that wait. Returns their number.
    pub fn notify_all(&self) -> usize {
        self.let_waiters_sleep();
        self.notified.notify_all()
    }

    /// Returns when the threads that have unlocked their mutex are asleep, and so can be woken.
    fn let_waiters_sleep(&self) {
        drop(self.waiting.lock());
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.unlocked(guard, pl::Condvar::wait);
    }

    /// Waits as [`wait`](Self::wait) does, but no longer than until `timeout`. The wait for the
    /// mutex afterwards may take longer.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Instant,
    ) -> WaitTimeoutResult {
        self.unlocked(guard, |notified, waiting| {
            notified.wait_until(waiting, timeout)
        })
    }

    /// Waits as [`wait`](Self::wait) does, but no longer than `timeout`. The wait for the mutex
    /// afterwards may take longer.
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.unlocked(guard, |notified, waiting| {
            notified.wait_for(waiting, timeout)
        })
    }

    /// Waits as [`wait`](Self::wait) does while the condition is `true`.
    pub fn wait_while<T, F>(&self, guard: &mut MutexGuard<'_, T>, mut condition: F)
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits as [`wait_until`](Self::wait_until) does while the condition is `true`.
    pub fn wait_while_until<T, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: F,
        timeout: Instant,
    ) -> WaitTimeoutResult
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        let mut result = not_timed_out();
        while !result.timed_out() && condition(guard) {
            result = self.wait_until(guard, timeout);
        }
        result
    }

    /// Waits as [`wait_for`](Self::wait_for) does while the condition is `true`.
    pub fn wait_while_for<T, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        timeout: Duration,
    ) -> WaitTimeoutResult
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        match Instant::now().checked_add(timeout) {
            Some(end) => self.wait_while_until(guard, condition, end),
            None => {
                self.wait_while(guard, condition);
                not_timed_out()
            }
        }
    }

    /// Waits by `wait` while the mutex of the guard is unlocked.
    fn unlocked<T: ?Sized, R>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        wait: impl FnOnce(&pl::Condvar, &mut pl::MutexGuard<'_, ()>) -> R,
    ) -> R {
        let mut waiting = self.waiting.lock();
        MutexGuard::unlocked(guard, || {
            // After the unlock, because the arrow to the next holder begins in the scope around.
            let scope = begin_wait(&self.site, self.name);
            let result = wait(&self.notified, &mut waiting);
            drop(waiting);
            drop(scope);
            result
        })
    }
}

/// Makes a result of `parking_lot`, which has no constructor, by a wait that does not block.
fn not_timed_out() -> WaitTimeoutResult {
    let (mutex, condvar) = (pl::Mutex::new(()), pl::Condvar::new());
    condvar.wait_while_for(&mut mutex.lock(), |()| false, Duration::ZERO)
}

impl Default for Condvar {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.notified.fmt(f)
    }
}
