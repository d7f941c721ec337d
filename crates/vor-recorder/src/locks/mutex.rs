//! A mutex that records the waits for it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};

use super::info::LockInfo;
use super::wait::{Absent, Wait};
use crate::hot::named_site::ValueName;
use crate::hot::thread::ThreadToken;

/// A mutex with the interface of [`std::sync::Mutex`] that records the waits for it.
///
/// A thread that finds the mutex locked while recording is on opens a scope `wait: NAME` until it
/// has the lock. The scope's arguments are the lock's name, the thread that held the lock when the
/// wait began, and the innermost scope of that thread. An arrow points from the unlock to the wait.
/// `vor locks` sums the waits up.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the mutex was
/// made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::mutex::Mutex; } }
/// use vor::sync::Mutex;
///
/// static CACHE: Mutex<Vec<u32>> = Mutex::named("cache", Vec::new());
///
/// CACHE.lock().unwrap().push(3);
/// assert_eq!(CACHE.lock().unwrap().len(), 1);
/// ```
pub struct Mutex<T: ?Sized> {
    info: LockInfo,
    inner: sync::Mutex<T>,
}

/// The right to access the value of a locked [`Mutex`]. Dropping it unlocks the mutex.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    // Dropped before `inner`, which unlocks.
    _hold: Hold<'a>,
    inner: sync::MutexGuard<'a, T>,
}

/// A lock that one thread holds. Dropping it, just before the unlock, begins a flow if a thread
/// waits, and removes the holder.
pub(super) struct Hold<'a> {
    info: &'a LockInfo,
}

impl<'a> Hold<'a> {
    #[inline(always)]
    pub(super) fn new(info: &'a LockInfo, token: ThreadToken) -> Self {
        info.begin_hold(token);
        Self { info }
    }

    #[inline(always)]
    pub(super) fn info(&self) -> &'a LockInfo {
        self.info
    }
}

impl Drop for Hold<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.info.end_hold();
    }
}

impl<T> Mutex<T> {
    /// Makes an unlocked mutex, whose name is the place of this call.
    #[inline]
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self::with_name(ValueName::Place(Location::caller()), value)
    }

    /// Makes an unlocked mutex with a name.
    #[inline]
    pub const fn named(name: &'static str, value: T) -> Self {
        Self::with_name(ValueName::Named(name), value)
    }

    /// Makes an unlocked mutex with a name, of which it is recorded how long it is held: each hold
    /// is a task `hold: NAME` from the lock to the unlock. `vor locks` sums them up. A lock and
    /// unlock then cost what a scope does.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod vor { pub mod sync { pub use vor_recorder::locks::mutex::Mutex; } }
    /// use vor::sync::Mutex;
    ///
    /// static CACHE: Mutex<Vec<u32>> = Mutex::named_with_holds("cache", Vec::new());
    /// CACHE.lock().unwrap().push(3);
    /// ```
    #[inline]
    pub const fn named_with_holds(name: &'static str, value: T) -> Self {
        Self {
            info: LockInfo::with_holds(ValueName::Named(name), true),
            inner: sync::Mutex::new(value),
        }
    }

    pub(super) const fn with_name(name: ValueName, value: T) -> Self {
        Self {
            info: LockInfo::new(name),
            inner: sync::Mutex::new(value),
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// Returns the value in an error if the mutex is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, and waits until it is free. If the same thread holds it already, this call
    /// blocks for ever or panics.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if a thread has panicked while it held the mutex.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        // Taken before the lock, whose atomic operation then hides it.
        let token = LockInfo::own_token();
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.lock_contended(token),
        };
        or_poisoned(self.guard(token, inner), self.inner.is_poisoned())
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self, token: ThreadToken) -> sync::MutexGuard<'_, T> {
        let wait = Wait::begin(&self.info, Absent::Released);
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.info.holder.set(token);
        drop(wait);
        inner
    }

    /// Locks the mutex if it is free.
    ///
    /// # Errors
    ///
    /// Returns an error if the mutex is locked, or the guard in an error if a thread has panicked
    /// while it held the mutex.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let token = LockInfo::own_token();
        match self.inner.try_lock() {
            Ok(inner) => Ok(self.guard(token, inner)),
            Err(error) => Err(guarded_error(error, |inner| self.guard(token, inner))),
        }
    }

    pub(super) fn info(&self) -> &LockInfo {
        &self.info
    }

    #[inline(always)]
    fn guard<'a>(
        &'a self,
        token: ThreadToken,
        inner: sync::MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        MutexGuard {
            mutex: self,
            _hold: Hold::new(&self.info, token),
            inner,
        }
    }

    /// Returns whether a thread has panicked while it held the mutex.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Clears the poison.
    #[inline]
    pub fn clear_poison(&self) {
        self.inner.clear_poison();
    }

    /// Returns a reference to the value. No lock is needed, because the mutex is borrowed
    /// exclusively.
    ///
    /// # Errors
    ///
    /// Returns the reference in an error if the mutex is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }
}

/// Returns a guard, in an error if its lock is poisoned. The slow function returns the guard of the
/// lock below, which fits into two registers. So compilers keep the whole guard in registers: its
/// copies in memory would cost as much as the lock.
#[inline(always)]
pub(super) fn or_poisoned<G>(guard: G, is_poisoned: bool) -> LockResult<G> {
    match is_poisoned {
        true => Err(PoisonError::new(guard)),
        false => Ok(guard),
    }
}

/// Makes a guard of vor from the result of a lock.
pub(super) fn guarded<G, R>(locked: LockResult<G>, guard: impl FnOnce(G) -> R) -> LockResult<R> {
    match locked {
        Ok(inner) => Ok(guard(inner)),
        Err(poisoned) => Err(PoisonError::new(guard(poisoned.into_inner()))),
    }
}

/// Makes a guard of vor from the error of a lock that was tried.
#[inline]
pub(super) fn guarded_error<G, R>(
    error: TryLockError<G>,
    guard: impl FnOnce(G) -> R,
) -> TryLockError<R> {
    match error {
        TryLockError::Poisoned(poisoned) => {
            TryLockError::Poisoned(PoisonError::new(guard(poisoned.into_inner())))
        }
        TryLockError::WouldBlock => TryLockError::WouldBlock,
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Returns the mutex that the guard locks.
    #[inline(always)]
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
