//! A cell of tokio that is written once and records the waits for the task that writes it.
//!
//! The task that runs the initialisation holds the cell, like a lock. Its own pending polls are no
//! waits for the cell:
//!
//! ```text
//! get_or_init ─ a value ─▶ that
//!             ├ first ───▶ holder = innermost scope ── run the initialisation ── holder = none
//!             └ pending, and not this one initialises ─▶ a wait
//! ```

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::pin;

use ::tokio::sync;
pub use ::tokio::sync::SetError;

use super::held::{Absent, HeldInfo, Hold};
use super::waited::Wait;
use crate::hot::named_site::ValueName;
use crate::sync::Ordering;
use crate::sync::global::AtomicBool;

/// A cell that is written once, with the interface of [`tokio::sync::OnceCell`], and records the
/// waits for its value.
///
/// A future that finds another one initialising the cell while recording is on begins a task
/// `wait: NAME`. It ends when the future is polled with the value, when the future initialises the
/// cell itself because the other one has failed, or with the step `cancelled` when it is dropped. A
/// step names the scope in which the initialisation began: `holder_scope: connect`.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the cell was
/// made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio {
/// #     pub use vor_recorder::locks::tokio::once_cell::OnceCell;
/// # } } }
/// use vor::sync::tokio::OnceCell;
///
/// static LIMIT: OnceCell<u32> = OnceCell::named("limit");
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// assert_eq!(*LIMIT.get_or_init(|| async { 10 }).await, 10);
/// assert_eq!(LIMIT.get(), Some(&10));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct OnceCell<T> {
    info: HeldInfo,
    inner: sync::OnceCell<T>,
}

impl<T> OnceCell<T> {
    /// Makes an empty cell, whose name is the place of this call.
    #[must_use]
    #[track_caller]
    pub const fn new() -> Self {
        let name = ValueName::Place(Location::caller());
        Self::with_name(name, sync::OnceCell::const_new())
    }

    /// Does the same as [`new`](Self::new), and has the name of tokio's constant constructor.
    #[must_use]
    #[track_caller]
    pub const fn const_new() -> Self {
        Self::new()
    }

    /// Makes an empty cell with a name.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self::with_name(ValueName::Named(name), sync::OnceCell::const_new())
    }

    /// Makes a cell with a value if there is one, whose name is the place of this call.
    #[must_use]
    #[track_caller]
    pub fn new_with(value: Option<T>) -> Self {
        let name = ValueName::Place(Location::caller());
        Self::with_name(name, sync::OnceCell::new_with(value))
    }

    /// Makes a cell with a value, whose name is the place of this call.
    #[must_use]
    #[track_caller]
    pub const fn const_new_with(value: T) -> Self {
        let name = ValueName::Place(Location::caller());
        Self::with_name(name, sync::OnceCell::const_new_with(value))
    }

    const fn with_name(name: ValueName, inner: sync::OnceCell<T>) -> Self {
        Self {
            info: HeldInfo::new(name, Absent::Released),
            inner,
        }
    }

    /// Returns whether the cell has a value.
    #[must_use]
    pub fn initialized(&self) -> bool {
        self.inner.initialized()
    }

    /// Returns the value if there is one.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.inner.get()
    }

    /// Returns the value if there is one, to change it.
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.inner.get_mut()
    }

    /// Writes the value, without a wait.
    ///
    /// # Errors
    ///
    /// Returns `value` in an error if the cell has a value, or is being initialised.
    pub fn set(&self, value: T) -> Result<(), SetError<T>> {
        self.inner.set(value)
    }

    /// Returns the value. Without one, the first task writes what `init` returns, and the others
    /// wait for it. If its future is dropped or panics, another one of them takes its place.
    pub async fn get_or_init<F, Fut>(&self, init: F) -> &T
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        let init = || {
            let initialised = init();
            async { Ok::<T, Infallible>(initialised.await) }
        };
        match self.get_or_try_init(init).await {
            Ok(value) => value,
        }
    }

    /// Does the same with an initialisation that may fail, after which the cell is empty.
    ///
    /// # Errors
    ///
    /// Returns the error of `init`.
    pub async fn get_or_try_init<E, F, Fut>(&self, init: F) -> Result<&T, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        // Relaxed: the task alone uses it, on one thread after the other.
        let initialises = &AtomicBool::new(false);
        let init = || {
            initialises.store(true, Ordering::Relaxed);
            let hold = Hold::new(&self.info);
            let initialised = init();
            async move {
                let initialised = initialised.await;
                drop(hold);
                initialised
            }
        };
        let mut inner = pin!(self.inner.get_or_try_init(init));
        let mut wait = Wait::new(&self.info);
        poll_fn(|context| {
            let polled = inner.as_mut().poll(context);
            wait.polled(polled.is_ready() || initialises.load(Ordering::Relaxed));
            polled
        })
        .await
    }

    /// Returns the value if there is one.
    #[must_use]
    pub fn into_inner(self) -> Option<T> {
        self.inner.into_inner()
    }

    /// Takes the value if there is one, after which the cell is empty.
    pub fn take(&mut self) -> Option<T> {
        self.inner.take()
    }
}

impl<T> Default for OnceCell<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::const_new_with(value)
    }
}

/// The copy has the place of this call as its name.
impl<T: Clone> Clone for OnceCell<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        Self::new_with(self.get().cloned())
    }
}

impl<T: PartialEq> PartialEq for OnceCell<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceCell<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
