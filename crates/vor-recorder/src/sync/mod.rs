//! Atomics and cells, either those of the standard library or those of loom, the model checker.
//!
//! Code that loom models imports its atomics from the root of this module. Statics cannot be
//! modelled, because loom's types have no constant constructors. They use the types in [`global`].

pub(crate) mod sum;

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64},
};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

pub(crate) use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic under its lock: no value here is left half-changed by one.
#[inline]
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Atomics and cells for statics and for fields that live in them.
pub(crate) mod global {
    pub(crate) use std::cell::UnsafeCell;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, compiler_fence, fence,
    };
}

/// The standard cell with loom's closure interface.
#[cfg(not(loom))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
