//! A condition variable for the mutexes of this crate.

use std::sync::{self, LockResult, PoisonError, WaitTimeoutResult};
use std::time::Duration;

use super::info::LockInfo;
use super::mutex::{Hold, MutexGuard, guarded};

/// A condition variable with the interface of [`std::sync::Condvar`], for a
/// [`Mutex`](super::mutex::Mutex) of this crate.
///
/// Waiting for a notification is not waiting for a lock, so it opens no scope.
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
/// static CHANGED: Condvar = Condvar::new();
///
/// let setter = std::thread::spawn(|| {
///     *IS_READY.lock().unwrap() = true;
///     CHANGED.notify_one();
/// });
/// let is_ready = CHANGED.wait_while(IS_READY.lock().unwrap(), |is_ready| !*is_ready);
/// assert!(*is_ready.unwrap());
/// # setter.join().unwrap();
/// ```
#[derive(Debug, Default)]
pub struct Condvar {
    inner: sync::Condvar,
}

impl Condvar {
    /// Makes a condition variable.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self {
            inner: sync::Condvar::new(),
        }
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again. May also return
    /// without a notification.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if the mutex is poisoned.
    ///
    /// # Panics
    ///
    /// May panic if the condition variable is used with several mutexes.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (info, inner) = guard.release_hold();
        guarded(self.inner.wait(inner), |inner| held(info, inner))
    }

    /// Waits as [`wait`](Self::wait) does while the condition is `true`.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if the mutex is poisoned.
    pub fn wait_while<'a, T, F>(
        &self,
        guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        let (info, inner) = guard.release_hold();
        let waited = self.inner.wait_while(inner, |value| {
            let _hold = Hold::new(info, LockInfo::own_token());
            condition(value)
        });
        guarded(waited, |inner| held(info, inner))
    }

    /// Waits as [`wait`](Self::wait) does, but no longer than about `timeout`.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if the mutex is poisoned.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (info, inner) = guard.release_hold();
        held_in_time(info, self.inner.wait_timeout(inner, timeout))
    }

    /// Waits as [`wait_timeout`](Self::wait_timeout) does while the condition is `true`.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if the mutex is poisoned.
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let (info, inner) = guard.release_hold();
        let waited = self.inner.wait_timeout_while(inner, timeout, |value| {
            let _hold = Hold::new(info, LockInfo::own_token());
            condition(value)
        });
        held_in_time(info, waited)
    }

    /// Wakes one thread that waits.
    #[inline]
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all threads that wait.
    #[inline]
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}

/// Makes a guard of vor for a mutex that the calling thread holds again.
fn held<'a, T>(info: &'a LockInfo, inner: sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    MutexGuard::new(Hold::new(info, LockInfo::own_token()), inner)
}

type InTime<G> = LockResult<(G, WaitTimeoutResult)>;

fn held_in_time<'a, T>(
    info: &'a LockInfo,
    waited: InTime<sync::MutexGuard<'a, T>>,
) -> InTime<MutexGuard<'a, T>> {
    match waited {
        Ok((inner, result)) => Ok((held(info, inner), result)),
        Err(poisoned) => {
            let (inner, result) = poisoned.into_inner();
            Err(PoisonError::new((held(info, inner), result)))
        }
    }
}
