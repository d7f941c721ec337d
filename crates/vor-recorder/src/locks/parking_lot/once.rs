//! An initialisation that records the waits for the thread that initialises, behind the gate that
//! `locks/once.rs` describes.

use std::fmt;
use std::panic::Location;

use super::OnceState;
use crate::hot::named_site::ValueName;
use crate::locks::mutex::Mutex;
use crate::locks::once::enter;

/// An initialisation that runs once, with the interface of
/// [`parking_lot::Once`](::parking_lot::Once).
///
/// It records the waits for the thread that initialises as [`Once`](crate::locks::once::Once) does.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::parking_lot; } }
/// use vor::sync::parking_lot::Once;
///
/// static START: Once = Once::named("start");
///
/// START.call_once(|| println!("once"));
/// START.call_once(|| unreachable!());
/// assert!(START.state().done());
/// ```
pub struct Once {
    gate: Mutex<()>,
    inner: ::parking_lot::Once,
}

impl Once {
    /// Makes an initialisation that has not run, whose name is the place of this call.
    #[must_use]
    #[inline]
    #[track_caller]
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
            inner: ::parking_lot::Once::new(),
        }
    }

    /// Returns whether the initialisation has run, runs, or has panicked.
    #[inline]
    pub fn state(&self) -> OnceState {
        self.inner.state()
    }

    /// Calls the function if no call has completed, and waits for one that runs. Afterwards, one
    /// has completed.
    ///
    /// # Panics
    ///
    /// Panics if the function panics, or if one has panicked before. May block for ever if the
    /// function initialises the same value.
    #[inline]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.state().done() {
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
    pub fn call_once_force<F: FnOnce(OnceState)>(&self, f: F) {
        if !self.state().done() {
            let _gate = enter(&self.gate);
            self.inner.call_once_force(f);
        }
    }
}

impl Default for Once {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
