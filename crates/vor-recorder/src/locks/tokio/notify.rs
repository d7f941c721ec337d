//! Notifications of tokio that record the waits for them.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tokio::sync;
use pin_project_lite::pin_project;

use super::waited::{Unheld, Waited};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::locks::blocked::TO_GO_ON;

/// Notifications with the interface of [`tokio::sync::Notify`] that record the waits
/// for them.
///
/// A future that finds no notification while recording is on begins a task `wait: NAME`, which ends
/// when it is polled with one, or with the step `cancelled` when it is dropped.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the value was
/// made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio {
/// #     pub use vor_recorder::locks::tokio::notify::Notify;
/// # } } }
/// use vor::sync::tokio::Notify;
///
/// static READY: Notify = Notify::named("ready");
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// READY.notify_one();
/// READY.notified().await;
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Notify {
    name: ValueName,
    site: NamedSite,
    inner: sync::Notify,
}

pin_project! {
    /// A future of a notification, made by [`Notify::notified`].
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct Notified<'a> {
        #[pin]
        inner: Waited<sync::futures::Notified<'a>, Unheld<'a>>,
    }
}

impl Notify {
    /// Makes a value without a notification, whose name is the place of this call.
    #[must_use]
    #[track_caller]
    pub const fn new() -> Self {
        Self::with_name(ValueName::Place(Location::caller()))
    }

    /// Does the same as [`new`](Self::new), and has the name of tokio's constant constructor.
    #[must_use]
    #[track_caller]
    pub const fn const_new() -> Self {
        Self::new()
    }

    /// Makes a value with a name and without a notification.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self::with_name(ValueName::Named(name))
    }

    const fn with_name(name: ValueName) -> Self {
        Self {
            name,
            site: NamedSite::new(TO_GO_ON),
            inner: sync::Notify::const_new(),
        }
    }

    /// Waits for a notification. [`notify_waiters`](Self::notify_waiters) reaches the future from
    /// this call on, also before its first poll.
    pub fn notified(&self) -> Notified<'_> {
        let awaited = Unheld {
            site: &self.site,
            name: self.name,
        };
        Notified {
            inner: Waited::new(self.inner.notified(), awaited),
        }
    }

    /// Notifies the task that has waited the longest. Without one, the next task that waits gets
    /// the notification at once.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Does the same for the task that came last.
    pub fn notify_last(&self) {
        self.inner.notify_last();
    }

    /// Notifies all tasks that wait.
    pub fn notify_waiters(&self) {
        self.inner.notify_waiters();
    }
}

impl Default for Notify {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl Notified<'_> {
    /// Begins to wait without a poll, and returns whether there is a notification already.
    pub fn enable(self: Pin<&mut Self>) -> bool {
        self.project().inner.inner_mut().enable()
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().inner.poll(context)
    }
}
