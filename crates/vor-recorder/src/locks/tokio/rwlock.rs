//! A reader-writer lock of tokio that records the waits for it.

use std::fmt;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;

use ::tokio::sync::{self, TryLockError};

use super::held::{
    Absent, BlockedThread, HeldInfo, Hold, ReadHold, Reader, guards_of_value, guards_that_change,
};
use super::waited::{Waited, spend_budget};
use crate::hot::named_site::ValueName;
use crate::sync::owned::{self, Owned};

/// A reader-writer lock with the interface of [`tokio::sync::RwLock`] that records
/// the waits for it.
///
/// It records them as [`Mutex`](super::mutex::Mutex) does. While several readers hold the lock, the
/// holder is the reader that came last. If that one has left already, the holder is `unknown`.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio {
/// #     pub use vor_recorder::locks::tokio::rwlock::RwLock;
/// # } } }
/// use vor::sync::tokio::RwLock;
///
/// static LIMIT: RwLock<u32> = RwLock::named("limit", 10);
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// *LIMIT.write().await += 1;
/// assert_eq!(*LIMIT.read().await, 11);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct RwLock<T: ?Sized> {
    info: HeldInfo,
    inner: sync::RwLock<T>,
}

/// The right to read the value of an [`RwLock`], or a part of it. Dropping it unlocks the lock.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    // Dropped before `inner`, which unlocks.
    hold: ReadHold<'a>,
    inner: sync::RwLockReadGuard<'a, T>,
}

/// The right to change the value of an [`RwLock`]. Dropping it unlocks the lock.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    // Dropped before `inner`, which unlocks.
    hold: Hold<'a>,
    inner: sync::RwLockWriteGuard<'a, T>,
}

/// The right to change a part of the value of an [`RwLock`], made by [`RwLockWriteGuard::map`].
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockMappedWriteGuard<'a, T: ?Sized> {
    // Dropped before `inner`, which unlocks.
    hold: Hold<'a>,
    inner: sync::RwLockMappedWriteGuard<'a, T>,
}

/// An [`RwLockReadGuard`] that keeps the lock alive.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockReadGuard<T: ?Sized + 'static> {
    reader: Reader,
    inner: Owned<RwLock<T>, sync::RwLockReadGuard<'static, T>>,
}

/// An [`RwLockWriteGuard`] that keeps the lock alive.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockWriteGuard<T: ?Sized + 'static> {
    inner: Owned<RwLock<T>, sync::RwLockWriteGuard<'static, T>>,
}

impl<T> RwLock<T> {
    /// Makes an unlocked lock, whose name is the place of this call.
    #[inline]
    #[track_caller]
    pub const fn new(value: T) -> Self {
        let name = ValueName::Place(Location::caller());
        Self::with_name(name, sync::RwLock::const_new(value), false)
    }

    /// Does the same as [`new`](Self::new), and has the name of tokio's constant constructor.
    #[inline]
    #[track_caller]
    pub const fn const_new(value: T) -> Self {
        Self::new(value)
    }

    /// Makes an unlocked lock with a name.
    #[inline]
    pub const fn named(name: &'static str, value: T) -> Self {
        let name = ValueName::Named(name);
        Self::with_name(name, sync::RwLock::const_new(value), false)
    }

    /// Makes an unlocked lock with a name, of which it is recorded how long it is held, as
    /// [`Mutex::named_with_holds`](super::mutex::Mutex::named_with_holds) does. Readers have tasks
    /// `hold: NAME to read`.
    #[inline]
    pub const fn named_with_holds(name: &'static str, value: T) -> Self {
        let name = ValueName::Named(name);
        Self::with_name(name, sync::RwLock::const_new(value), true)
    }

    /// Makes an unlocked lock for at most `max_readers` at the same time, whose name is the place
    /// of this call.
    ///
    /// # Panics
    ///
    /// Panics if `max_readers` is more than `u32::MAX >> 3`.
    #[track_caller]
    pub const fn with_max_readers(value: T, max_readers: u32) -> Self {
        let name = ValueName::Place(Location::caller());
        let inner = sync::RwLock::const_with_max_readers(value, max_readers);
        Self::with_name(name, inner, false)
    }

    /// Does the same as [`with_max_readers`](Self::with_max_readers), and has the name of tokio's
    /// constant constructor.
    ///
    /// # Panics
    ///
    /// Panics if `max_readers` is more than `u32::MAX >> 3`.
    #[track_caller]
    pub const fn const_with_max_readers(value: T, max_readers: u32) -> Self {
        Self::with_max_readers(value, max_readers)
    }

    const fn with_name(name: ValueName, inner: sync::RwLock<T>, holds: bool) -> Self {
        Self {
            info: HeldInfo::with_holds(name, Absent::Unknown, holds),
            inner,
        }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading, and waits until no writer holds the lock or has asked for it before.
    pub async fn read(&self) -> RwLockReadGuard<'_, T> {
        if let Ok(guard) = self.try_read() {
            spend_budget().await;
            return guard;
        }
        let inner = Waited::new(pin!(self.inner.read()), &self.info).await;
        self.read_guard(inner)
    }

    /// Locks for writing, and waits until nobody holds the lock.
    pub async fn write(&self) -> RwLockWriteGuard<'_, T> {
        if let Ok(guard) = self.try_write() {
            spend_budget().await;
            return guard;
        }
        let inner = Waited::new(pin!(self.inner.write()), &self.info).await;
        self.write_guard(inner)
    }

    /// Locks for reading, and blocks the thread meanwhile. The wait is a scope of the thread.
    ///
    /// # Panics
    ///
    /// Panics in a task of a runtime, whose thread must not be blocked.
    #[track_caller]
    pub fn blocking_read(&self) -> RwLockReadGuard<'_, T> {
        // As in `Mutex::blocked`, tokio says whether this thread may block.
        let wait = self.blocked(self.inner.try_read().is_ok());
        let inner = self.inner.blocking_read();
        drop(wait);
        self.read_guard(inner)
    }

    /// Locks for writing, and blocks the thread meanwhile. The wait is a scope of the thread.
    ///
    /// # Panics
    ///
    /// Panics in a task of a runtime, whose thread must not be blocked.
    #[track_caller]
    pub fn blocking_write(&self) -> RwLockWriteGuard<'_, T> {
        let wait = self.blocked(self.inner.try_write().is_ok());
        let inner = self.inner.blocking_write();
        drop(wait);
        self.write_guard(inner)
    }

    fn blocked(&self, is_free: bool) -> Option<BlockedThread<'_>> {
        (!is_free).then(|| self.info.block())
    }

    /// Locks for reading if no writer holds the lock.
    ///
    /// # Errors
    ///
    /// Returns an error if a writer holds the lock or waits for it.
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        Ok(self.read_guard(self.inner.try_read()?))
    }

    /// Locks for writing if nobody holds the lock.
    ///
    /// # Errors
    ///
    /// Returns an error if the lock is held.
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        Ok(self.write_guard(self.inner.try_write()?))
    }

    #[inline(always)]
    fn read_guard<'a>(&'a self, inner: sync::RwLockReadGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard {
            hold: ReadHold::new(&self.info),
            inner,
        }
    }

    #[inline(always)]
    fn write_guard<'a>(&'a self, inner: sync::RwLockWriteGuard<'a, T>) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard {
            hold: Hold::new(&self.info),
            inner,
        }
    }

    /// Returns a reference to the value. No lock is needed, because the lock is borrowed
    /// exclusively.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    fn inner(&self) -> &sync::RwLock<T> {
        &self.inner
    }
}

impl<T: ?Sized + 'static> RwLock<T> {
    /// Locks for reading as [`read`](Self::read) does. The guard keeps the lock alive.
    pub async fn read_owned(self: Arc<Self>) -> OwnedRwLockReadGuard<T> {
        let locked = pin!(owned::read(Arc::clone(&self), Self::inner));
        let inner = Waited::new(locked, &self.info).await;
        OwnedRwLockReadGuard::new(inner)
    }

    /// Locks for writing as [`write`](Self::write) does. The guard keeps the lock alive.
    pub async fn write_owned(self: Arc<Self>) -> OwnedRwLockWriteGuard<T> {
        let locked = pin!(owned::write(Arc::clone(&self), Self::inner));
        let inner = Waited::new(locked, &self.info).await;
        OwnedRwLockWriteGuard::new(inner)
    }

    /// Locks for reading if no writer holds the lock. The guard keeps the lock alive.
    ///
    /// # Errors
    ///
    /// Returns an error if a writer holds the lock or waits for it.
    pub fn try_read_owned(self: Arc<Self>) -> Result<OwnedRwLockReadGuard<T>, TryLockError> {
        Ok(OwnedRwLockReadGuard::new(owned::try_read(
            self,
            Self::inner,
        )?))
    }

    /// Locks for writing if nobody holds the lock. The guard keeps the lock alive.
    ///
    /// # Errors
    ///
    /// Returns an error if the lock is held.
    pub fn try_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T>, TryLockError> {
        Ok(OwnedRwLockWriteGuard::new(owned::try_write(
            self,
            Self::inner,
        )?))
    }
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// Makes a guard of a part of the value.
    pub fn map<U: ?Sized>(this: Self, part: impl FnOnce(&T) -> &U) -> RwLockReadGuard<'a, U> {
        RwLockReadGuard {
            hold: this.hold,
            inner: sync::RwLockReadGuard::map(this.inner, part),
        }
    }

    /// Makes a guard of a part of the value, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the guard if `part` returns `None`.
    pub fn try_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&T) -> Option<&U>,
    ) -> Result<RwLockReadGuard<'a, U>, Self> {
        let Self { hold, inner } = this;
        match sync::RwLockReadGuard::try_map(inner, part) {
            Ok(inner) => Ok(RwLockReadGuard { hold, inner }),
            Err(inner) => Err(Self { hold, inner }),
        }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Makes a guard of a part of the value.
    pub fn map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> RwLockMappedWriteGuard<'a, U> {
        RwLockMappedWriteGuard {
            hold: this.hold,
            inner: sync::RwLockWriteGuard::map(this.inner, part),
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
    ) -> Result<RwLockMappedWriteGuard<'a, U>, Self> {
        let Self { hold, inner } = this;
        match sync::RwLockWriteGuard::try_map(inner, part) {
            Ok(inner) => Ok(RwLockMappedWriteGuard { hold, inner }),
            Err(inner) => Err(Self { hold, inner }),
        }
    }

    /// Makes a guard of the type of those of a part.
    pub fn into_mapped(this: Self) -> RwLockMappedWriteGuard<'a, T> {
        Self::map(this, |value| value)
    }

    /// Lets other readers in, and continues to read. No writer gets the lock in between.
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        let Self { hold, inner } = self;
        let info = hold.info();
        // Begins a flow for a reader that waits.
        drop(hold);
        RwLockReadGuard {
            inner: inner.downgrade(),
            hold: ReadHold::new(info),
        }
    }

    /// Does the same, and reads a part of the value. Readers are let in after `part` has returned.
    pub fn downgrade_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&T) -> &U,
    ) -> RwLockReadGuard<'a, U> {
        let Self { hold, inner } = this;
        let info = hold.info();
        let inner = sync::RwLockWriteGuard::downgrade_map(inner, |value| {
            let part = part(value);
            // Begins a flow for a reader that waits, before it is let in.
            drop(hold);
            part
        });
        let hold = ReadHold::new(info);
        RwLockReadGuard { hold, inner }
    }

    /// Does the same, if there is such a part.
    ///
    /// # Errors
    ///
    /// Returns the guard, which still excludes readers, if `part` returns `None`.
    pub fn try_downgrade_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&T) -> Option<&U>,
    ) -> Result<RwLockReadGuard<'a, U>, Self> {
        let Self { hold, inner } = this;
        let info = hold.info();
        let mut hold = Some(hold);
        let downgraded = sync::RwLockWriteGuard::try_downgrade_map(inner, |value| {
            let part = part(value)?;
            // Begins a flow for a reader that waits, before it is let in.
            hold = None;
            Some(part)
        });
        match downgraded {
            Ok(inner) => Ok(RwLockReadGuard {
                inner,
                hold: ReadHold::new(info),
            }),
            Err(inner) => Err(Self {
                hold: hold.unwrap_or_else(|| Hold::new(info)),
                inner,
            }),
        }
    }
}

impl<'a, T: ?Sized> RwLockMappedWriteGuard<'a, T> {
    /// Makes a guard of a part of the value.
    pub fn map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> RwLockMappedWriteGuard<'a, U> {
        RwLockMappedWriteGuard {
            hold: this.hold,
            inner: sync::RwLockMappedWriteGuard::map(this.inner, part),
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
    ) -> Result<RwLockMappedWriteGuard<'a, U>, Self> {
        let Self { hold, inner } = this;
        match sync::RwLockMappedWriteGuard::try_map(inner, part) {
            Ok(inner) => Ok(RwLockMappedWriteGuard { hold, inner }),
            Err(inner) => Err(Self { hold, inner }),
        }
    }
}

impl<T: ?Sized + 'static> OwnedRwLockReadGuard<T> {
    fn new(inner: Owned<RwLock<T>, sync::RwLockReadGuard<'static, T>>) -> Self {
        let reader = inner.owner().info.begin_read();
        Self { reader, inner }
    }

    /// Returns the lock that the guard locks.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        this.inner.owner()
    }
}

impl<T: ?Sized + 'static> OwnedRwLockWriteGuard<T> {
    fn new(inner: Owned<RwLock<T>, sync::RwLockWriteGuard<'static, T>>) -> Self {
        inner.owner().info.begin_hold();
        Self { inner }
    }

    /// Returns the lock that the guard locks.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        this.inner.owner()
    }
}

impl<T: ?Sized + 'static> Drop for OwnedRwLockReadGuard<T> {
    fn drop(&mut self) {
        self.inner.owner().info.end_read(self.reader);
    }
}

impl<T: ?Sized + 'static> Drop for OwnedRwLockWriteGuard<T> {
    fn drop(&mut self) {
        self.inner.owner().info.end_hold();
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

guards_of_value! {
    RwLockReadGuard<'_, T>;
    RwLockWriteGuard<'_, T>;
    RwLockMappedWriteGuard<'_, T>;
    OwnedRwLockReadGuard<T>, 'static;
    OwnedRwLockWriteGuard<T>, 'static;
}

guards_that_change! {
    RwLockWriteGuard<'_, T>;
    RwLockMappedWriteGuard<'_, T>;
    OwnedRwLockWriteGuard<T>, 'static;
}
