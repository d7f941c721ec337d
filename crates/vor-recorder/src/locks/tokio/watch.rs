//! A value of tokio that its receivers watch. It records the waits for changes.

use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;

use ::tokio::sync::watch;
pub use ::tokio::sync::watch::{Ref, error};

use self::error::{RecvError, SendError};
use super::waited::{Unheld, Waited};
use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::locks::blocked::shape;

/// A wait for a change of a value.
const TO_CHANGE: &Shape = &shape(" to change");

/// The parts of a channel beside the channel of tokio.
#[derive(Debug)]
struct WatchInfo {
    name: ValueName,
    to_change: NamedSite,
}

impl WatchInfo {
    fn new(name: ValueName) -> Arc<Self> {
        Arc::new(Self {
            name,
            to_change: NamedSite::new(TO_CHANGE),
        })
    }

    fn awaited(&self) -> Unheld<'_> {
        Unheld {
            site: &self.to_change,
            name: self.name,
        }
    }
}

/// The end that changes the value, with the interface of
/// [`tokio::sync::watch::Sender`].
#[derive(Debug)]
pub struct Sender<T> {
    inner: watch::Sender<T>,
    info: Arc<WatchInfo>,
}

/// The end that watches the value, with the interface of
/// [`tokio::sync::watch::Receiver`].
///
/// A future that waits for a change while recording is on begins a task `wait: NAME to change`,
/// which ends when it is polled with the change, or with the step `cancelled` when it is dropped.
#[derive(Debug)]
pub struct Receiver<T> {
    inner: watch::Receiver<T>,
    info: Arc<WatchInfo>,
}

/// Makes a value that can be watched, whose name is the place of this call.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio { pub use vor_recorder::locks::tokio::watch; } } }
/// use vor::sync::tokio::watch;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let (sender, mut receiver) = watch::channel("loading");
/// sender.send("ready").unwrap();
/// receiver.changed().await.unwrap();
/// assert_eq!(*receiver.borrow(), "ready");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
#[track_caller]
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    with_name(ValueName::Place(Location::caller()), value)
}

/// Makes a value with a name that can be watched.
#[must_use]
pub fn named<T>(name: &'static str, value: T) -> (Sender<T>, Receiver<T>) {
    with_name(ValueName::Named(name), value)
}

fn with_name<T>(name: ValueName, value: T) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = watch::channel(value);
    let info = WatchInfo::new(name);
    let sender = Sender {
        inner: sender,
        info: Arc::clone(&info),
    };
    let receiver = Receiver {
        inner: receiver,
        info,
    };
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Makes a value that nobody watches yet, whose name is the place of this call.
    #[track_caller]
    pub fn new(value: T) -> Self {
        Self {
            inner: watch::Sender::new(value),
            info: WatchInfo::new(ValueName::Place(Location::caller())),
        }
    }

    /// Changes the value.
    ///
    /// # Errors
    ///
    /// Returns the new value in an error if nobody watches.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.inner.send(value)
    }

    /// Changes the value in place, also if nobody watches.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.inner.send_modify(modify);
    }

    /// Changes the value in place. Receivers learn of it if `modify` returns `true`, which this
    /// returns too.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        self.inner.send_if_modified(modify)
    }

    /// Changes the value, also if nobody watches, and returns the old one.
    pub fn send_replace(&self, value: T) -> T {
        self.inner.send_replace(value)
    }

    /// Returns the value, which does not change until the reference is dropped.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.inner.borrow()
    }

    /// Returns whether nobody watches.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Waits until nobody watches. This wait is not recorded.
    pub async fn closed(&self) {
        self.inner.closed().await;
    }

    /// Makes a receiver, which has seen the value.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            inner: self.inner.subscribe(),
            info: Arc::clone(&self.info),
        }
    }

    /// Returns the number of receivers.
    pub fn receiver_count(&self) -> usize {
        self.inner.receiver_count()
    }

    /// Returns the number of senders.
    pub fn sender_count(&self) -> usize {
        self.inner.sender_count()
    }
}

impl<T> Receiver<T> {
    /// Returns the value, which does not change until the reference is dropped.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.inner.borrow()
    }

    /// Returns the value, and has seen it from now on.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.inner.borrow_and_update()
    }

    /// Returns whether the value has changed since this receiver saw it.
    ///
    /// # Errors
    ///
    /// Returns an error if all senders are gone.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        self.inner.has_changed()
    }

    /// Acts as if the value had changed.
    pub fn mark_changed(&mut self) {
        self.inner.mark_changed();
    }

    /// Acts as if this receiver had seen the value.
    pub fn mark_unchanged(&mut self) {
        self.inner.mark_unchanged();
    }

    /// Waits until the value has changed, and has seen it then.
    ///
    /// # Errors
    ///
    /// Returns an error if all senders are gone.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        Waited::new(pin!(self.inner.changed()), self.info.awaited()).await
    }

    /// Waits until the value satisfies a condition, and returns it.
    ///
    /// # Errors
    ///
    /// Returns an error if all senders are gone and the last value does not satisfy it.
    pub async fn wait_for(
        &mut self,
        condition: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvError> {
        let satisfied = pin!(self.inner.wait_for(condition));
        Waited::new(satisfied, self.info.awaited()).await
    }

    /// Returns whether two receivers watch the same value.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.inner.same_channel(&other.inner)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            info: Arc::clone(&self.info),
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            info: Arc::clone(&self.info),
        }
    }
}

impl<T: Default> Default for Sender<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}
