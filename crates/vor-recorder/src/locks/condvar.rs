//! A condition variable for the mutexes of this crate.
//!
//! The condition variable of the standard library locks the mutex again inside its own wait. A wait
//! for the notification and one for the mutex would be one scope. So this one waits with a lock of
//! its own, `waiting`:
//!
//! ```text
//! wait     lock `waiting` ── unlock the mutex ── open `wait: NAME` ── wait ── unlock `waiting`
//!          ── close ── lock the mutex, which may be a wait for the mutex
//! notify   lock and unlock `waiting` ── notify
//! ```
//!
//! A thread that waits locks `waiting` before it unlocks the mutex. So a thread that changes the
//! condition under the mutex and notifies afterwards finds it counted, and asleep.

use std::fmt;
use std::panic::Location;
use std::sync::{self, LockResult, PoisonError, WaitTimeoutResult};
use std::time::{Duration, Instant};

use super::blocked::{TO_GO_ON, begin_wait};
use super::mutex::{MutexGuard, guarded};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::sync::lock;

/// A condition variable with the interface of [`std::sync::Condvar`] that records the waits for it,
/// for a [`Mutex`](super::mutex::Mutex) of this crate.
///
/// A thread that waits for a notification while recording is on opens a scope `wait: NAME` until it
/// is woken. If another thread holds the mutex then, the thread waits for the mutex afterwards, in
/// a scope of its own.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the condition
/// variable was made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync {
/// #     pub use vor_recorder::locks::{condvar::Condvar, mutex::Mutex};
/// # } }
/// use vor::sync::{Condvar, Mutex};
///
/// static IS_READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::named("ready");
///
/// let setter = std::thread::spawn(|| {
///     *IS_READY.lock().unwrap() = true;
///     CHANGED.notify_one();
/// });
/// let is_ready = CHANGED.wait_while(IS_READY.lock().unwrap(), |is_ready| !*is_ready);
/// assert!(*is_ready.unwrap());
/// # setter.join().unwrap();
/// ```
pub struct Condvar {
    name: ValueName,
    site: NamedSite,
    /// The number of threads that wait or have been woken and not run yet.
    waiting: sync::Mutex<usize>,
    notified: sync::Condvar,
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
            waiting: sync::Mutex::new(0),
            notified: sync::Condvar::new(),
        }
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again. May also return
    /// without a notification.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if the mutex is poisoned.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let wait = |waiting| (self.notified.wait(waiting).unwrap_or_else(recovered), ());
        let (locked, ()) = self.unlocked(guard, wait);
        locked
    }

    /// Waits as [`wait`](Self::wait) does while the condition is `true`.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if the mutex is poisoned.
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits as [`wait`](Self::wait) does, but no longer than about `timeout`. The wait for the
    /// mutex afterwards may take longer.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if the mutex is poisoned.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (locked, result) = self.unlocked(guard, |waiting| {
            let waited = self.notified.wait_timeout(waiting, timeout);
            waited.unwrap_or_else(recovered)
        });
        guarded(locked, |guard| (guard, result))
    }

    /// Waits as [`wait_timeout`](Self::wait_timeout) does while the condition is `true`.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if the mutex is poisoned.
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        if !condition(&mut guard) {
            return Ok((guard, timed_out(false)));
        }
        let begin = Instant::now();
        loop {
            let Some(rest) = timeout.checked_sub(begin.elapsed()) else {
                return Ok((guard, timed_out(true)));
            };
            guard = match self.wait_timeout(guard, rest) {
                Ok((guard, _)) => guard,
                Err(poisoned) => return Err(poisoned),
            };
            if !condition(&mut guard) {
                return Ok((guard, timed_out(false)));
            }
        }
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        if self.has_waiters() {
            self.notified.notify_one();
        }
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        if self.has_waiters() {
            self.notified.notify_all();
        }
    }

    /// Returns whether a thread waits. Those that wait are asleep, or woken already.
    fn has_waiters(&self) -> bool {
        *lock(&self.waiting) != 0
    }

    /// Waits by `wait` while the mutex of the guard is unlocked. Returns the guard of the mutex,
    /// which is locked again, and the result of the wait.
    fn unlocked<'a, 'c, T, R>(
        &'c self,
        guard: MutexGuard<'a, T>,
        wait: impl FnOnce(sync::MutexGuard<'c, usize>) -> (sync::MutexGuard<'c, usize>, R),
    ) -> (LockResult<MutexGuard<'a, T>>, R) {
        let mutex = guard.mutex();
        let mut waiting = lock(&self.waiting);
        *waiting += 1;
        // Before the scope opens, because the arrow to the next holder begins in the one around it.
        drop(guard);
        let scope = begin_wait(&self.site, self.name);
        let (mut waiting, result) = wait(waiting);
        *waiting -= 1;
        drop(waiting);
        drop(scope);
        (mutex.lock(), result)
    }
}

/// No value under the lock of a condition variable is left half-changed.
fn recovered<G>(poisoned: PoisonError<G>) -> G {
    poisoned.into_inner()
}

/// Makes a result of the standard library, which has no constructor, by a wait that does not block.
fn timed_out(timed_out: bool) -> WaitTimeoutResult {
    let (mutex, condvar) = (sync::Mutex::new(()), sync::Condvar::new());
    let waited = condvar.wait_timeout_while(lock(&mutex), Duration::ZERO, |()| timed_out);
    waited.unwrap_or_else(recovered).1
}

impl Default for Condvar {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
