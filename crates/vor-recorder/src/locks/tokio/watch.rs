//! A value of tokio that its receivers watch. It records its changes, and the waits for them.

use std::future::Future as _;
use std::panic::Location;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use ::tokio::sync::watch;
pub use ::tokio::sync::watch::{Ref, error};

use self::error::{RecvError, SendError};
use super::waited::{Unheld, poll_waiting, spend_budget};
use crate::hot::flow::{FlowId, flow};
use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::locks::blocked::shape;
use crate::metrics::{self, Gauge, GaugeRegistration, LastCount};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// A wait for a change of a value.
const TO_CHANGE: &Shape = &shape(" to change");

/// The parts of a channel beside the channel of tokio.
#[derive(Debug)]
struct WatchInfo {
    name: ValueName,
    to_change: NamedSite,
    /// Changes of the value. Written while the value is locked, read by marks, relaxed.
    changes: AtomicU64,
    changes_at_mark: LastCount,
    /// The number of the last change's flow, if changes have flows. Written while the value is
    /// locked. A receiver reads it after it has seen the change, relaxed.
    flow: Option<AtomicU64>,
    _registration: Option<GaugeRegistration>,
}

impl Gauge for WatchInfo {
    fn name(&self) -> String {
        format!("changes: {}", self.name)
    }

    fn unit(&self) -> &'static str {
        "changes"
    }

    fn read(&self) -> f64 {
        self.changes_at_mark
            .growth(self.changes.load(Ordering::Relaxed))
    }
}

impl WatchInfo {
    fn new(name: ValueName, has_flows: bool) -> Arc<Self> {
        Arc::new_cyclic(|info: &Weak<Self>| Self {
            name,
            to_change: NamedSite::new(TO_CHANGE),
            changes: AtomicU64::new(0),
            changes_at_mark: LastCount::default(),
            flow: has_flows.then(|| AtomicU64::new(0)),
            _registration: (!cfg!(feature = "off")).then(|| metrics::register(info.clone())),
        })
    }

    fn awaited(&self) -> Unheld<'_> {
        Unheld {
            site: &self.to_change,
            name: self.name,
        }
    }

    /// Counts a change, and begins its flow. The value is locked.
    fn changed(&self) {
        if cfg!(feature = "off") {
            return;
        }
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes.store(changes + 1, Ordering::Relaxed);
        if let Some(last) = &self.flow {
            last.store(flow().number(), Ordering::Relaxed);
        }
    }

    /// Returns the number of the last change's flow, 0 without one.
    fn last_flow(&self) -> u64 {
        let last = self.flow.as_ref();
        last.map_or(0, |last| last.load(Ordering::Relaxed))
    }

    /// The last change ends the wait whose task is polled on this thread.
    fn end_wait(&self) {
        FlowId::of_number(self.last_flow()).end();
    }

    /// Ends the last change's flow in the scope that is open on this thread, unless it is `seen`.
    fn see(&self, seen: &mut u64) {
        let flow = self.last_flow();
        if flow != *seen {
            FlowId::of_number(flow).end();
            *seen = flow;
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
/// The metric `changes: NAME` is the number of changes since the last mark.
#[derive(Debug)]
pub struct Receiver<T> {
    inner: watch::Receiver<T>,
    info: Arc<WatchInfo>,
    /// The number of the flow of the last change that this receiver has seen.
    seen: u64,
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
    with_name(ValueName::Place(Location::caller()), value, false)
}

/// Makes a value with a name that can be watched.
#[must_use]
pub fn named<T>(name: &'static str, value: T) -> (Sender<T>, Receiver<T>) {
    with_name(ValueName::Named(name), value, false)
}

/// Makes a value with a name that can be watched. Its changes have flows: arrows point from the
/// scope that changes the value to those that see the change, by [`changed`](Receiver::changed),
/// [`wait_for`](Receiver::wait_for) or [`borrow_and_update`](Receiver::borrow_and_update).
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio { pub use vor_recorder::locks::tokio::watch; } } }
/// use vor::sync::tokio::watch;
///
/// let (sender, mut receiver) = watch::named_with_flows("state", "loading");
/// sender.send("ready").unwrap();
/// assert_eq!(*receiver.borrow_and_update(), "ready");
/// ```
#[must_use]
pub fn named_with_flows<T>(name: &'static str, value: T) -> (Sender<T>, Receiver<T>) {
    with_name(ValueName::Named(name), value, true)
}

fn with_name<T>(name: ValueName, value: T, has_flows: bool) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = watch::channel(value);
    let info = WatchInfo::new(name, has_flows);
    let sender = Sender {
        inner: sender,
        info: Arc::clone(&info),
    };
    let receiver = Receiver {
        inner: receiver,
        info,
        seen: 0,
    };
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Makes a value that nobody watches yet, whose name is the place of this call.
    #[track_caller]
    pub fn new(value: T) -> Self {
        Self {
            inner: watch::Sender::new(value),
            info: WatchInfo::new(ValueName::Place(Location::caller()), false),
        }
    }

    /// Changes the value.
    ///
    /// # Errors
    ///
    /// Returns the new value in an error if nobody watches.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        // As in tokio, a receiver may go at any moment, so this is not decided under a lock.
        if self.inner.receiver_count() == 0 {
            return Err(SendError(value));
        }
        self.send_replace(value);
        Ok(())
    }

    /// Changes the value in place, also if nobody watches.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place. Receivers learn of it if `modify` returns `true`, which this
    /// returns too.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        self.inner.send_if_modified(|value| {
            let is_modified = modify(value);
            if is_modified {
                self.info.changed();
            }
            is_modified
        })
    }

    /// Changes the value, also if nobody watches, and returns the old one.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|current| std::mem::swap(current, &mut value));
        value
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
        // A change in between has an arrow, since this receiver sees its value.
        let seen = self.info.last_flow();
        Receiver {
            inner: self.inner.subscribe(),
            info: Arc::clone(&self.info),
            seen,
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
        let value = self.inner.borrow_and_update();
        self.info.see(&mut self.seen);
        value
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
        // If all senders are gone, the future knows whether there was a change before.
        if self
            .inner
            .has_changed()
            .is_ok_and(|has_changed| has_changed)
        {
            spend_budget().await;
            self.inner.mark_unchanged();
            self.info.see(&mut self.seen);
            return Ok(());
        }
        let mut changed = pin!(self.inner.changed());
        let poll = poll_waiting(self.info.awaited(), |context, has_waited| {
            let polled = changed.as_mut().poll(context);
            if let (true, Poll::Ready(Ok(()))) = (has_waited, &polled) {
                self.info.end_wait();
            }
            polled
        });
        poll.await?;
        self.info.see(&mut self.seen);
        Ok(())
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
        let mut satisfied = pin!(self.inner.wait_for(condition));
        let poll = poll_waiting(self.info.awaited(), |context, has_waited| {
            let polled = satisfied.as_mut().poll(context);
            if let (true, Poll::Ready(Ok(_))) = (has_waited, &polled) {
                self.info.end_wait();
            }
            polled
        });
        let value = poll.await?;
        self.info.see(&mut self.seen);
        Ok(value)
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
            seen: self.seen,
        }
    }
}

impl<T: Default> Default for Sender<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}
