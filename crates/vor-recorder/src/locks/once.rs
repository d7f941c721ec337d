//! One-time initialisation that records the waits for the thread that initialises.
//!
//! The types of the standard library do not report whether a thread will block. So a thread that
//! finds no value goes through a gate, which is a mutex. The one that initialises holds the gate,
//! and the others wait for it.

use std::fmt;
use std::panic::Location;
use std::sync::{self, OnceState, PoisonError};

use super::mutex::{Mutex, MutexGuard};
use super::wait::{Absent, Wait};
use crate::hot::named_site::ValueName;

/// An initialisation that runs once, with the interface of [`std::sync::Once`].
///
/// A thread that comes while another one initialises opens a scope `wait: NAME` until it is done.
/// The scope has the arguments of a wait for a [`Mutex`]. The holder is the thread that
/// initialises.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the value was
/// made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::once::Once; } }
/// use vor::sync::Once;
///
/// static START: Once = Once::named("start");
///
/// START.call_once(|| println!("once"));
/// START.call_once(|| unreachable!());
/// assert!(START.is_completed());
/// ```
pub struct Once {
    gate: Mutex<()>,
    inner: sync::Once,
}

/// A cell that is written once, with the interface of [`std::sync::OnceLock`].
///
/// It records the waits for the thread that initialises as [`Once`] does.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::once::OnceLock; } }
/// use vor::sync::OnceLock;
///
/// static TABLE: OnceLock<Vec<u32>> = OnceLock::named("table");
///
/// assert_eq!(TABLE.get_or_init(|| vec![1, 2]).len(), 2);
/// assert_eq!(TABLE.set(Vec::new()), Err(Vec::new()));
/// ```
pub struct OnceLock<T> {
    gate: Mutex<()>,
    inner: sync::OnceLock<T>,
}

/// Lets the calling thread initialise, after others that do. A panic of another one is in the
/// poison of what it initialised.
pub(super) fn enter(gate: &Mutex<()>) -> MutexGuard<'_, ()> {
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Once {
    /// Makes an initialisation that has not run, whose name is the place of this call.
    #[must_use]
    #[inline]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "that of `std` has no default")]
    pub const fn new() -> Self {
        Self::with_name(ValueName::Place(Location::caller()))
    }

    /// Makes an initialisation with a name that has not run.
    #[must_use]
    #[inline]
    pub const fn named(name: &'static str) -> Self {
        Self::with_name(ValueName::Named(name))
    }

    const fn with_name(name: ValueName) -> Self {
        Self {
            gate: Mutex::with_name(name, ()),
            inner: sync::Once::new(),
        }
    }

    /// Calls the function if no call has completed, and waits for one that runs. Afterwards, one
    /// has completed.
    ///
    /// # Panics
    ///
    /// Panics if the function panics, or if one has panicked before. May panic or block for ever if
    /// the function initialises the same value.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.inner.is_completed() {
            let _gate = enter(&self.gate);
            self.inner.call_once(f);
        }
    }

    /// Calls the function as [`call_once`](Self::call_once) does, also if one has panicked before.
    ///
    /// # Panics
    ///
    /// Panics if the function panics.
    #[inline]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.inner.is_completed() {
            let _gate = enter(&self.gate);
            self.inner.call_once_force(f);
        }
    }

    /// Returns whether a call has completed.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.inner.is_completed()
    }

    /// Waits until a call has completed.
    ///
    /// # Panics
    ///
    /// Panics if a call has panicked.
    pub fn wait(&self) {
        if !self.inner.is_completed() {
            let _wait = Wait::begin(self.gate.info(), Absent::Nobody);
            self.inner.wait();
        }
    }

    /// Waits until a call has completed, also if one has panicked.
    pub fn wait_force(&self) {
        if !self.inner.is_completed() {
            let _wait = Wait::begin(self.gate.info(), Absent::Nobody);
            self.inner.wait_force();
        }
    }
}

impl<T> OnceLock<T> {
    /// Makes an empty cell, whose name is the place of this call.
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn new() -> Self {
        Self::with_name(ValueName::Place(Location::caller()))
    }

    /// Makes an empty cell with a name.
    #[must_use]
    #[inline]
    pub const fn named(name: &'static str) -> Self {
        Self::with_name(ValueName::Named(name))
    }

    const fn with_name(name: ValueName) -> Self {
        Self {
            gate: Mutex::with_name(name, ()),
            inner: sync::OnceLock::new(),
        }
    }

    /// Returns the value, unless the cell is empty or being initialised.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.inner.get()
    }

    /// Returns the value, unless the cell is empty.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.inner.get_mut()
    }

    /// Waits until the cell has a value.
    pub fn wait(&self) -> &T {
        if let Some(value) = self.inner.get() {
            return value;
        }
        let _wait = Wait::begin(self.gate.info(), Absent::Nobody);
        self.inner.wait()
    }

    /// Writes the value. Waits for a thread that initialises the cell.
    ///
    /// # Errors
    ///
    /// Returns the value in an error if the cell has one already.
    #[inline]
    pub fn set(&self, value: T) -> Result<(), T> {
        if self.inner.get().is_some() {
            return Err(value);
        }
        let _gate = enter(&self.gate);
        self.inner.set(value)
    }

    /// Returns the value, and writes that of the function first if the cell is empty. Waits for
    /// another thread that initialises the cell.
    ///
    /// # Panics
    ///
    /// Panics if the function panics; the cell stays empty then. May panic or block for ever if the
    /// function initialises the same cell.
    #[inline]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        if let Some(value) = self.inner.get() {
            return value;
        }
        let _gate = enter(&self.gate);
        self.inner.get_or_init(f)
    }

    /// Returns the value.
    #[inline]
    pub fn into_inner(self) -> Option<T> {
        self.inner.into_inner()
    }

    /// Takes the value, and leaves the cell empty.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        self.inner.take()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl<T> Default for OnceLock<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        Self {
            gate: Mutex::with_name(self.gate.info().name(), ()),
            inner: self.inner.clone(),
        }
    }
}

impl<T> From<T> for OnceLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self {
            gate: Mutex::with_name(ValueName::Place(Location::caller()), ()),
            inner: sync::OnceLock::from(value),
        }
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl<T: Eq> Eq for OnceLock<T> {}
