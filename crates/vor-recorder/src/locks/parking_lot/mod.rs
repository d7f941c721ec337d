//! Locks with the interface of the crate `parking_lot` that record who waited for whom.
//!
//! A lock is one of `lock_api` over a raw lock of `parking_lot` that tells its `LockInfo` of each
//! step. So the guards are those of `lock_api`, with all that they can do. Around it is a type that
//! takes the name from the place at which it is made; its methods are those of the lock inside.
//!
//! | module | holds |
//! |---|---|
//! | `condvar` | the condition variable |
//! | `once` | the initialisation |

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;

use ::parking_lot::lock_api;
use ::parking_lot::lock_api::{RawMutex as _, RawRwLock as _};

use super::info::LockInfo;
use super::wait::{Absent, Wait};
use crate::hot::named_site::ValueName;
use crate::hot::thread::ThreadToken;
use crate::sync::watched_lock::{Access, LockWatch, Watched};

mod condvar;
mod once;

pub use ::parking_lot::{OnceState, RawThreadId, WaitTimeoutResult};

pub use self::condvar::Condvar;
pub use self::once::Once;

/// The raw lock of a [`Mutex`].
pub type RawMutex = Watched<::parking_lot::RawMutex, LockInfo>;

/// The raw lock of a [`FairMutex`].
pub type RawFairMutex = Watched<::parking_lot::RawFairMutex, LockInfo>;

/// The raw lock of an [`RwLock`].
pub type RawRwLock = Watched<::parking_lot::RawRwLock, LockInfo>;

/// The right to access the value of a locked [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// The right to access a part of the value of a locked [`Mutex`].
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// The right to access the value of a locked [`FairMutex`].
pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex, T>;

/// The right to access a part of the value of a locked [`FairMutex`].
pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex, T>;

/// The right to read the value of a locked [`ReentrantMutex`].
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// The right to read a part of the value of a locked [`ReentrantMutex`].
pub type MappedReentrantMutexGuard<'a, T> =
    lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// The right to read the value of an [`RwLock`].
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// The right to change the value of an [`RwLock`].
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The right to read the value of an [`RwLock`], and to change it after an upgrade.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// The right to read a part of the value of an [`RwLock`].
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// The right to change a part of the value of an [`RwLock`].
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A thread that is about to lock.
#[derive(Clone, Copy, Debug)]
pub struct Token(ThreadToken);

impl LockWatch for LockInfo {
    const INIT: Self = Self::new(ValueName::Named("unnamed"));

    type Token = Token;

    #[inline(always)]
    fn token() -> Token {
        Token(Self::own_token())
    }

    #[inline(always)]
    fn locked(&self, access: Access, token: Token) {
        match access {
            Access::Mutex | Access::Write => self.begin_hold(token.0),
            Access::Upgrade => self.upgrade_hold(token.0),
            Access::Read => self.begin_read(token.0),
        }
    }

    fn wait(&self, access: Access, token: Token, block: impl FnOnce() -> bool) -> bool {
        let absent = match access {
            Access::Mutex => Absent::Released,
            Access::Write | Access::Upgrade | Access::Read => Absent::Unknown,
        };
        let wait = Wait::begin(self, absent);
        let is_locked = block();
        if is_locked {
            self.locked(access, token);
            drop(wait);
        } else {
            wait.give_up();
        }
        is_locked
    }

    #[inline(always)]
    fn unlocking(&self) {
        self.end_hold();
    }

    #[inline(always)]
    fn leaving(&self) {
        self.end_read(Self::own_token());
    }

    #[inline(always)]
    fn hide(&self, token: Token) {
        self.holder.clear_own(token.0);
    }

    #[inline(always)]
    fn show(&self, token: Token) {
        self.holder.set(token.0);
    }
}

/// Declares a lock of `parking_lot` with a name.
macro_rules! named_locks {
    ($(
        $(#[$meta:meta])*
        struct $name:ident<T>($lock:ty) = $make:path, $raw:expr $(, $part:expr)?;
        $(#[$const_meta:meta])*
        fn $const_fn:ident;
    )*) => {$(
        $(#[$meta])*
        pub struct $name<T: ?Sized> {
            lock: $lock,
        }

        impl<T> $name<T> {
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

            /// Makes an unlocked lock with a name, of which it is recorded how long its only holder
            /// holds it, as
            /// [`Mutex::named_with_holds`](crate::locks::mutex::Mutex::named_with_holds) does.
            #[inline]
            pub const fn named_with_holds(name: &'static str, value: T) -> Self {
                Self::with_info(LockInfo::with_holds(ValueName::Named(name), true), value)
            }

            const fn with_name(name: ValueName, value: T) -> Self {
                Self::with_info(LockInfo::new(name), value)
            }

            const fn with_info(info: LockInfo, value: T) -> Self {
                let raw = Watched::new($raw, info);
                Self {
                    lock: $make(raw, $($part,)? value),
                }
            }

            /// Returns the value.
            #[inline]
            pub fn into_inner(self) -> T {
                self.lock.into_inner()
            }
        }

        $(#[$const_meta])*
        #[inline]
        #[track_caller]
        pub const fn $const_fn<T>(value: T) -> $name<T> {
            $name::new(value)
        }

        impl<T: ?Sized> Deref for $name<T> {
            type Target = $lock;

            #[inline]
            fn deref(&self) -> &$lock {
                &self.lock
            }
        }

        impl<T: ?Sized> DerefMut for $name<T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut $lock {
                &mut self.lock
            }
        }

        impl<T: Default> Default for $name<T> {
            #[track_caller]
            fn default() -> Self {
                Self::new(T::default())
            }
        }

        impl<T> From<T> for $name<T> {
            #[track_caller]
            fn from(value: T) -> Self {
                Self::new(value)
            }
        }

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.lock.fmt(f)
            }
        }
    )*};
}

named_locks! {
    /// A mutex with the interface of [`::parking_lot::Mutex`] that records the waits for it.
    ///
    /// It records them as [`Mutex`](crate::locks::mutex::Mutex) does. The methods beside the
    /// constructors are those of [`lock_api::Mutex`], and the guards are of `lock_api` too.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod vor { pub mod sync { pub use vor_recorder::locks::parking_lot; } }
    /// use vor::sync::parking_lot::{Mutex, MutexGuard};
    ///
    /// static CACHE: Mutex<Vec<u32>> = Mutex::named("cache", Vec::new());
    ///
    /// CACHE.lock().push(3);
    /// let mut first = MutexGuard::map(CACHE.lock(), |cache| &mut cache[0]);
    /// *first += 1;
    /// assert!(CACHE.try_lock().is_none());
    /// ```
    struct Mutex<T>(lock_api::Mutex<RawMutex, T>) =
        lock_api::Mutex::from_raw, ::parking_lot::RawMutex::INIT;
    /// Makes an unlocked [`Mutex`], whose name is the place of this call.
    fn const_mutex;

    /// A mutex that threads get in the order in which they come, with the interface of
    /// [`::parking_lot::FairMutex`], that records the waits for it.
    ///
    /// ```
    /// # mod vor { pub mod sync { pub use vor_recorder::locks::parking_lot; } }
    /// let turns = vor::sync::parking_lot::FairMutex::named("turns", 0);
    /// *turns.lock() += 1;
    /// assert_eq!(turns.into_inner(), 1);
    /// ```
    struct FairMutex<T>(lock_api::Mutex<RawFairMutex, T>) =
        lock_api::Mutex::from_raw, ::parking_lot::RawFairMutex::INIT;
    /// Makes an unlocked [`FairMutex`], whose name is the place of this call.
    fn const_fair_mutex;

    /// A mutex that its holder may lock again, with the interface of
    /// [`::parking_lot::ReentrantMutex`], that records the waits for
    /// it.
    ///
    /// ```
    /// # mod vor { pub mod sync { pub use vor_recorder::locks::parking_lot; } }
    /// let screen = vor::sync::parking_lot::ReentrantMutex::named("screen", 7);
    /// let outer = screen.lock();
    /// assert_eq!(*outer, *screen.lock());
    /// ```
    struct ReentrantMutex<T>(lock_api::ReentrantMutex<RawMutex, RawThreadId, T>) =
        lock_api::ReentrantMutex::from_raw, ::parking_lot::RawMutex::INIT, RawThreadId;
    /// Makes an unlocked [`ReentrantMutex`], whose name is the place of this call.
    fn const_reentrant_mutex;

    /// A reader-writer lock with the interface of [`::parking_lot::RwLock`] that records the waits
    /// for it.
    ///
    /// It records them as [`RwLock`](crate::locks::rwlock::RwLock) does. A thread that upgrades
    /// waits for the readers, in a scope of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod vor { pub mod sync { pub use vor_recorder::locks::parking_lot; } }
    /// use vor::sync::parking_lot::{RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
    ///
    /// static LIMIT: RwLock<u32> = RwLock::named("limit", 10);
    ///
    /// let limit = LIMIT.upgradable_read();
    /// if *limit < 20 {
    ///     let mut limit = RwLockUpgradableReadGuard::upgrade(limit);
    ///     *limit += 1;
    ///     assert_eq!(*RwLockWriteGuard::downgrade(limit), 11);
    /// }
    /// ```
    struct RwLock<T>(lock_api::RwLock<RawRwLock, T>) =
        lock_api::RwLock::from_raw, ::parking_lot::RawRwLock::INIT;
    /// Makes an unlocked [`RwLock`], whose name is the place of this call.
    fn const_rwlock;
}
