//! A mutex of tokio that records the waits for it.

use std::fmt;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;

use ::tokio::sync;
pub use ::tokio::sync::TryLockError;

use super::held::{Absent, BlockedThread, HeldInfo, Hold, guards_of_value, guards_that_change};
use super::waited::{Waited, spend_budget};
use crate::hot::named_site::ValueName;
use crate::sync::owned::{self, Owned};

/// A mutex with the interface of [`tokio::sync::Mutex`] that records the waits for it.
///
/// A future that finds the mutex locked while recording is on begins a task `wait: NAME`, which
/// ends when it is polled with the lock, or with the step `cancelled` when it is dropped. A step
/// names the scope in which the holder has taken the lock: `holder_scope: evict`. An arrow points
/// from the unlock to the poll that has got the lock. `vor locks` sums the waits up.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the mutex was
/// made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio {
/// #     pub use vor_recorder::locks::tokio::mutex::Mutex;
/// # } } }
/// use vor::sync::tokio::Mutex;
///
/// static CACHE: Mutex<Vec<u32>> = Mutex::named("cache", Vec::new());
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// CACHE.lock().await.push(3);
/// assert_eq!(CACHE.lock().await.len(), 1);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Mutex<T: ?Sized> {
    info: HeldInfo,
    inner: sync::Mutex<T>,
}

/// The right to access the value of a locked [`Mutex`]. Dropping it unlocks the mutex.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    // Dropped before `inner`, which unlocks.
    hold: Hold<'a>,
    inner: sync::MutexGuard<'a, T>,
}

/// The right to access a part of the value of a locked [`Mutex`], made by [`MutexGuard::map`].
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MappedMutexGuard<'a, T: ?Sized> {
    // Dropped before `inner`, which unlocks.
    hold: Hold<'a>,
    inner: sync::MappedMutexGuard<'a, T>,
}

/// A [`MutexGuard`] that keeps the mutex alive.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct OwnedMutexGuard<T: ?Sized + 'static> {
    inner: Owned<Mutex<T>, sync::MutexGuard<'static, T>>,
}

impl<T> Mutex<T> {
    /// Makes an unlocked mutex, whose name is the place of this call.
    #[inline]
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self::with_name(ValueName::Place(Location::caller()), value, false)
    }

    /// Does the same as [`new`](Self::new), and has the name of tokio's constant constructor.
    #[inline]
    #[track_caller]
    pub const fn const_new(value: T) -> Self {
        Self::new(value)
    }

    /// Makes an unlocked mutex with a name.
    #[inline]
    pub const fn named(name: &'static str, value: T) -> Self {
        Self::with_name(ValueName::Named(name), value, false)
    }

    /// Makes an unlocked mutex with a name, of which it is recorded how long it is held: each hold
    /// is a task `hold: NAME` from the lock to the unlock. `vor locks` sums them up.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod vor { pub mod sync { pub mod tokio {
    /// #     pub use vor_recorder::locks::tokio::mutex::Mutex;
    /// # } } }
    /// use vor::sync::tokio::Mutex;
    ///
    /// static CACHE: Mutex<Vec<u32>> = Mutex::named_with_holds("cache", Vec::new());
    /// CACHE.blocking_lock().push(3);
    /// ```
    #[inline]
    pub const fn named_with_holds(name: &'static str, value: T) -> Self {
        Self::with_name(ValueName::Named(name), value, true)
    }

    const fn with_name(name: ValueName, value: T, holds: bool) -> Self {
        Self {
            info: HeldInfo::with_holds(name, Absent::Released, holds),
            inner: sync::Mutex::const_new(value),
        }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, and waits until it is free. Tasks get it in the order in which they asked.
    /// If the future is dropped, the task loses its place.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        if let Ok(guard) = self.try_lock() {
            spend_budget().await;
            return guard;
        }
        let inner = Waited::new(pin!(self.inner.lock()), &self.info).await;
        self.guard(inner)
    }

    /// Locks the mutex, and blocks the thread until it is free. The wait is a scope of the thread.
    ///
    /// # Panics
    ///
    /// Panics in a task of a runtime, whose thread must not be blocked.
    #[track_caller]
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        let wait = self.blocked();
        let inner = self.inner.blocking_lock();
        drop(wait);
        self.guard(inner)
    }

    /// Begins the wait of a thread if the mutex is locked. The thread locks it afterwards in any
    /// case, because tokio then says whether this thread may block.
    fn blocked(&self) -> Option<BlockedThread<'_>> {
        let is_free = self.inner.try_lock().is_ok();
        (!is_free).then(|| self.info.block())
    }

    /// Locks the mutex if it is free.
    ///
    /// # Errors
    ///
    /// Returns an error if the mutex is locked.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        Ok(self.guard(self.inner.try_lock()?))
    }

    #[inline(always)]
    fn guard<'a>(&'a self, inner: sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            mutex: self,
            hold: Hold::new(&self.info),
            inner,
        }
    }

    /// Returns a reference to the value. No lock is needed, because the mutex is borrowed
    /// exclusively.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    fn inner(&self) -> &sync::Mutex<T> {
        &self.inner
    }
}

impl<T: ?Sized + 'static> Mutex<T> {
    /// Locks the mutex as [`lock`](Self::lock) does. The guard keeps the mutex alive.
    pub async fn lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        let locked = pin!(owned::lock(Arc::clone(&self), Self::inner));
        let inner = Waited::new(locked, &self.info).await;
        OwnedMutexGuard::new(inner)
    }

    /// Locks the mutex as [`blocking_lock`](Self::blocking_lock) does. The guard keeps the mutex
    /// alive.
    ///
    /// # Panics
    ///
    /// Panics in a task of a runtime, whose thread must not be blocked.
    #[track_caller]
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        let wait = self.blocked();
        let inner = owned::blocking_lock(Arc::clone(&self), Self::inner);
        drop(wait);
        OwnedMutexGuard::new(inner)
    }

    /// Locks the mutex if it is free. The guard keeps the mutex alive.
    ///
    /// # Errors
    ///
    /// Returns an error if the mutex is locked.
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        Ok(OwnedMutexGuard::new(owned::try_lock(self, Self::inner)?))
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Makes a guard of a part of the value.
    pub fn map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> MappedMutexGuard<'a, U> {
        MappedMutexGuard {
            hold: this.hold,
            inner: sync::MutexGuard::map(this.inner, part),
        }
    }

    /// Makes a guard of a part of the value, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the guard if `part` returns `None`.
    pub fn try_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'a, U>, Self> {
        let Self { mutex, hold, inner } = this;
        match sync::MutexGuard::try_map(inner, part) {
            Ok(inner) => Ok(MappedMutexGuard { hold, inner }),
            Err(inner) => Err(Self { mutex, hold, inner }),
        }
    }

    /// Returns the mutex that the guard locks.
    pub fn mutex(this: &Self) -> &'a Mutex<T> {
        this.mutex
    }
}

impl<'a, T: ?Sized> MappedMutexGuard<'a, T> {
    /// Makes a guard of a part of the value.
    pub fn map<U>(this: Self, part: impl FnOnce(&mut T) -> &mut U) -> MappedMutexGuard<'a, U> {
        MappedMutexGuard {
            hold: this.hold,
            inner: sync::MappedMutexGuard::map(this.inner, part),
        }
    }

    /// Makes a guard of a part of the value, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the guard if `part` returns `None`.
    pub fn try_map<U>(
        this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'a, U>, Self> {
        let Self { hold, inner } = this;
        match sync::MappedMutexGuard::try_map(inner, part) {
            Ok(inner) => Ok(MappedMutexGuard { hold, inner }),
            Err(inner) => Err(Self { hold, inner }),
        }
    }
}

impl<T: ?Sized + 'static> OwnedMutexGuard<T> {
    fn new(inner: Owned<Mutex<T>, sync::MutexGuard<'static, T>>) -> Self {
        inner.owner().info.begin_hold();
        Self { inner }
    }

    /// Returns the mutex that the guard locks.
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        this.inner.owner()
    }
}

impl<T: ?Sized + 'static> Drop for OwnedMutexGuard<T> {
    fn drop(&mut self) {
        self.inner.owner().info.end_hold();
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

guards_of_value! {
    MutexGuard<'_, T>;
    MappedMutexGuard<'_, T>;
    OwnedMutexGuard<T>, 'static;
}

guards_that_change! {
    MutexGuard<'_, T>;
    MappedMutexGuard<'_, T>;
    OwnedMutexGuard<T>, 'static;
}
