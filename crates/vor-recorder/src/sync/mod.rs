//! Atomics and cells, either those of the standard library or those of loom, the model checker.
//!
//! Code that loom models imports its atomics and locks from the root of this module. Loom's types
//! have no constant constructors and live no longer than one run of a model. So that code declares
//! its statics, thread-locals and constructors with [`statics`], [`thread_locals`], [`const_fn`]
//! and [`array`], which expand to the plain ones in a normal build. Code that no model runs uses
//! the types in [`global`].

#[cfg(all(feature = "locks", feature = "tokio", not(loom)))]
pub(crate) mod owned;
pub(crate) mod sum;
#[cfg(all(feature = "parking_lot", not(loom)))]
pub(crate) mod watched_lock;

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, fence},
    sync::{Mutex, MutexGuard},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, fence},
};

use std::sync::PoisonError;
pub(crate) use std::sync::atomic::Ordering;

/// Locks a mutex that no model uses, also after a panic under its lock: no value here is left
/// half-changed by one.
#[inline]
pub(crate) fn lock<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Declares statics. In a model, the first access in each run makes the value.
macro_rules! statics {
    ($(
        $(#[$meta:meta])*
        $(pub($($scope:tt)+))? static $name:ident: $type:ty = $value:expr;
    )*) => {$(
        #[cfg(not(loom))]
        $(#[$meta])*
        $(pub($($scope)+))? static $name: $type = $value;
        #[cfg(loom)]
        loom::lazy_static! {
            $(#[$meta])*
            $(pub($($scope)+))? static ref $name: $type = $value;
        }
    )*};
}

/// Declares thread-locals. In a model, each model thread has its own. Loom drops the values of a
/// thread all at once, so a destructor cannot use another thread-local there.
macro_rules! thread_locals {
    ($($(#[$meta:meta])* $vis:vis static $name:ident: $type:ty = const $value:block;)*) => {
        #[cfg(not(loom))]
        std::thread_local! {
            $($(#[$meta])* $vis static $name: $type = const $value;)*
        }
        #[cfg(loom)]
        loom::thread_local! {
            $($(#[$meta])* $vis static $name: $type = $value;)*
        }
    };
}

/// Declares a constructor, which is constant except in a model.
macro_rules! const_fn {
    (
        $(#[$meta:meta])*
        $vis:vis const fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
        $body:block
    ) => {
        #[cfg(not(loom))]
        $(#[$meta])*
        $vis const fn $name($($argument: $type),*) -> $result $body
        #[cfg(loom)]
        $(#[$meta])*
        $vis fn $name($($argument: $type),*) -> $result $body
    };
}

/// Makes an array whose elements are all made by one expression, which is constant except in a
/// model.
macro_rules! array {
    ($value:expr; $len:expr) => {{
        #[cfg(not(loom))]
        {
            [const { $value }; $len]
        }
        #[cfg(loom)]
        {
            std::array::from_fn::<_, { $len }, _>(|_| $value)
        }
    }};
}

pub(crate) use {array, const_fn, statics, thread_locals};

/// Atomics and cells for code that no model runs.
pub(crate) mod global {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, compiler_fence, fence,
    };
    pub(crate) use std::sync::{Mutex, MutexGuard};
}

/// The standard cell with loom's closure interface.
#[cfg(not(loom))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
