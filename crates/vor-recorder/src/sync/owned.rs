//! Guards of tokio's locks together with the shared pointer to the lock that they borrow from.
//!
//! tokio's own guards of this kind need an `Arc` of tokio's lock. A lock of vor contains one, so
//! there is no such `Arc`.

#![expect(
    unsafe_code,
    reason = "a guard beside the pointer that it borrows from has no lifetime in Rust"
)]

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::Arc;

use tokio::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError as NotFree,
};

/// A guard of a lock, and the pointer that keeps the lock alive.
#[derive(Debug)]
pub(crate) struct Owned<O: ?Sized, G> {
    /// Always a guard. It borrows from what `owner` points to, so it is dropped first. Not a plain
    /// `G`, whose references would have to be valid until the end of each function that gets one.
    guard: MaybeUninit<G>,
    owner: Arc<O>,
}

impl<O: ?Sized, G> Owned<O, G> {
    /// # Safety
    ///
    /// The guard borrows from nothing but what `owner` points to.
    unsafe fn new(owner: Arc<O>, guard: G) -> Self {
        Self {
            guard: MaybeUninit::new(guard),
            owner,
        }
    }

    /// Returns the pointer to what contains the lock.
    pub(crate) fn owner(&self) -> &Arc<O> {
        &self.owner
    }
}

impl<O: ?Sized, G> Drop for Owned<O, G> {
    fn drop(&mut self) {
        // SAFETY: it is a guard, nobody uses it after this, and the owner is still alive.
        unsafe { self.guard.assume_init_drop() };
    }
}

impl<O: ?Sized, G: Deref> Deref for Owned<O, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        // SAFETY: it is a guard.
        unsafe { self.guard.assume_init_ref() }
    }
}

impl<O: ?Sized, G: DerefMut> DerefMut for Owned<O, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        // SAFETY: it is a guard.
        unsafe { self.guard.assume_init_mut() }
    }
}

/// # Safety
///
/// The result is used only while an `Arc` keeps the lock alive.
unsafe fn extended<L: ?Sized + 'static>(lock: &L) -> &'static L {
    // SAFETY: the pointer is valid as long as the caller promises.
    unsafe { &*ptr::from_ref(lock) }
}

/// Defines functions that lock a part of what a pointer points to, which `part` returns, by the
/// methods of their names.
macro_rules! locked_by_owner {
    ($($lock:ident, $guard:ident: $wait:ident, $attempt:ident;)*) => {$(
        pub(crate) async fn $wait<O: ?Sized, T: ?Sized + 'static>(
            owner: Arc<O>,
            part: fn(&O) -> &$lock<T>,
        ) -> Owned<O, $guard<'static, T>> {
            // SAFETY: the owner is dropped after the reference and the future that borrows it, and
            // after the guard.
            unsafe {
                let lock = extended(part(&owner));
                let guard = lock.$wait().await;
                Owned::new(owner, guard)
            }
        }

        pub(crate) fn $attempt<O: ?Sized, T: ?Sized + 'static>(
            owner: Arc<O>,
            part: fn(&O) -> &$lock<T>,
        ) -> Result<Owned<O, $guard<'static, T>>, NotFree> {
            // SAFETY: the owner is dropped after the reference, and after the guard.
            unsafe {
                let guard = extended(part(&owner)).$attempt()?;
                Ok(Owned::new(owner, guard))
            }
        }
    )*};
}

locked_by_owner! {
    Mutex, MutexGuard: lock, try_lock;
    RwLock, RwLockReadGuard: read, try_read;
    RwLock, RwLockWriteGuard: write, try_write;
}

/// Locks a part of what a pointer points to, on a thread that may block.
pub(crate) fn blocking_lock<O: ?Sized, T: ?Sized + 'static>(
    owner: Arc<O>,
    part: fn(&O) -> &Mutex<T>,
) -> Owned<O, MutexGuard<'static, T>> {
    // SAFETY: the owner is dropped after the reference, and after the guard.
    unsafe {
        let guard = extended(part(&owner)).blocking_lock();
        Owned::new(owner, guard)
    }
}
