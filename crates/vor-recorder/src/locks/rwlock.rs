//! A reader-writer lock that records the waits for it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};

use super::info::LockInfo;
use super::mutex::{Hold, guarded_error, or_poisoned};
use super::wait::{Absent, Wait};
use crate::hot::named_site::ValueName;
use crate::hot::thread::ThreadToken;

/// A reader-writer lock with the interface of [`std::sync::RwLock`] that records the waits for it.
///
/// It records them as [`Mutex`](super::mutex::Mutex) does. While several readers hold the lock, the
/// holder is the reader that came last. If that one has left already, the holder is `unknown`.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::rwlock::RwLock; } }
/// use vor::sync::RwLock;
///
/// static LIMIT: RwLock<u32> = RwLock::named("limit", 10);
///
/// *LIMIT.write().unwrap() += 1;
/// assert_eq!(*LIMIT.read().unwrap(), 11);
/// ```
pub struct RwLock<T: ?Sized> {
    info: LockInfo,
    inner: sync::RwLock<T>,
}

/// The right to read the value of an [`RwLock`]. Dropping it unlocks the lock.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    // Dropped before `inner`, which unlocks.
    _hold: ReadHold<'a>,
    inner: sync::RwLockReadGuard<'a, T>,
}

/// The right to change the value of an [`RwLock`]. Dropping it unlocks the lock.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    // Dropped before `inner`, which unlocks.
    hold: Hold<'a>,
    inner: sync::RwLockWriteGuard<'a, T>,
}

/// A lock that the calling thread and perhaps other readers hold. Dropped as [`Hold`] is.
struct ReadHold<'a> {
    info: &'a LockInfo,
    token: ThreadToken,
}

impl<'a> ReadHold<'a> {
    #[inline(always)]
    fn new(info: &'a LockInfo, token: ThreadToken) -> Self {
        info.begin_read(token);
        Self { info, token }
    }
}

impl Drop for ReadHold<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.info.end_read(self.token);
    }
}

impl<T> RwLock<T> {
    /// Makes an unlocked lock, whose name is the place of this call.
    #[inline]
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self::with_name(ValueName::Place(Location::caller()), value)
    }

    /// Makes an unlocked lock with a name.
    #[inline]
    pub const fn named(name: &'static str, value: T) -> Self {
        Self::with_name(ValueName::Named(name), value)
    }

    /// Makes an unlocked lock with a name, of which it is recorded how long it is held, as
    /// [`Mutex::named_with_holds`](super::mutex::Mutex::named_with_holds) does. Readers have tasks
    /// `hold: NAME to read`.
    #[inline]
    pub const fn named_with_holds(name: &'static str, value: T) -> Self {
        Self {
            info: LockInfo::with_holds(ValueName::Named(name), true),
            inner: sync::RwLock::new(value),
        }
    }

    const fn with_name(name: ValueName, value: T) -> Self {
        Self {
            info: LockInfo::new(name),
            inner: sync::RwLock::new(value),
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// Returns the value in an error if the lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading, and waits until no writer holds the lock.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if a writer has panicked while it held the lock.
    ///
    /// # Panics
    ///
    /// May panic if the same thread holds the lock already.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let token = LockInfo::own_token();
        let inner = match self.inner.try_read() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.read_contended(token),
        };
        or_poisoned(self.read_guard(token, inner), self.inner.is_poisoned())
    }

    #[cold]
    #[inline(never)]
    fn read_contended(&self, token: ThreadToken) -> sync::RwLockReadGuard<'_, T> {
        let wait = Wait::begin(&self.info, Absent::Unknown);
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        self.info.holder.set(token);
        drop(wait);
        inner
    }

    /// Locks for writing, and waits until nobody else holds the lock.
    ///
    /// # Errors
    ///
    /// Returns the guard in an error if a writer has panicked while it held the lock.
    ///
    /// # Panics
    ///
    /// May panic if the same thread holds the lock already.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let token = LockInfo::own_token();
        let inner = match self.inner.try_write() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.write_contended(token),
        };
        or_poisoned(self.write_guard(token, inner), self.inner.is_poisoned())
    }

    #[cold]
    #[inline(never)]
    fn write_contended(&self, token: ThreadToken) -> sync::RwLockWriteGuard<'_, T> {
        let wait = Wait::begin(&self.info, Absent::Unknown);
        let inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        self.info.holder.set(token);
        drop(wait);
        inner
    }

    /// Locks for reading if no writer holds the lock.
    ///
    /// # Errors
    ///
    /// Returns an error if a writer holds or awaits the lock, or the guard in an error if a writer
    /// has panicked while it held the lock.
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let token = LockInfo::own_token();
        match self.inner.try_read() {
            Ok(inner) => Ok(self.read_guard(token, inner)),
            Err(error) => Err(guarded_error(error, |inner| self.read_guard(token, inner))),
        }
    }

    /// Locks for writing if nobody holds the lock.
    ///
    /// # Errors
    ///
    /// Returns an error if the lock is held, or the guard in an error if a writer has panicked
    /// while it held the lock.
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let token = LockInfo::own_token();
        match self.inner.try_write() {
            Ok(inner) => Ok(self.write_guard(token, inner)),
            Err(error) => Err(guarded_error(error, |inner| self.write_guard(token, inner))),
        }
    }

    #[inline(always)]
    fn read_guard<'a>(
        &'a self,
        token: ThreadToken,
        inner: sync::RwLockReadGuard<'a, T>,
    ) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard {
            _hold: ReadHold::new(&self.info, token),
            inner,
        }
    }

    #[inline(always)]
    fn write_guard<'a>(
        &'a self,
        token: ThreadToken,
        inner: sync::RwLockWriteGuard<'a, T>,
    ) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard {
            hold: Hold::new(&self.info, token),
            inner,
        }
    }

    /// Returns whether a writer has panicked while it held the lock.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Clears the poison.
    #[inline]
    pub fn clear_poison(&self) {
        self.inner.clear_poison();
    }

    /// Returns a reference to the value. No lock is needed, because the lock is borrowed
    /// exclusively.
    ///
    /// # Errors
    ///
    /// Returns the reference in an error if the lock is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Lets other readers in, and continues to read. No writer gets the lock in between.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        let Self { hold, inner } = guard;
        let info = hold.info();
        // Begins a flow for a reader that waits.
        drop(hold);
        RwLockReadGuard {
            inner: sync::RwLockWriteGuard::downgrade(inner),
            _hold: ReadHold::new(info, LockInfo::own_token()),
        }
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

macro_rules! shown_as_the_value {
    ($($guard:ident)*) => {$(
        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }
    )*};
}

shown_as_the_value! { RwLockReadGuard RwLockWriteGuard }
