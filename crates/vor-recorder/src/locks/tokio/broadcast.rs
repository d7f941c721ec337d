//! A channel of tokio whose receivers all get each message. It records the waits for messages, and
//! counts those that a receiver missed.

use std::panic::Location;
use std::pin::pin;
use std::sync::{Arc, Weak};

use ::tokio::sync::broadcast;
pub use ::tokio::sync::broadcast::error;

use self::error::{RecvError, SendError, TryRecvError};
use super::waited::{Unheld, Waited};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::locks::blocked::{TO_RECEIVE, begin_wait};
use crate::metrics::{self, Gauge, GaugeRegistration};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// The parts of a channel beside the channel of tokio.
#[derive(Debug)]
struct BroadcastInfo {
    name: ValueName,
    to_receive: NamedSite,
    /// Messages that receivers missed since the last mark. Relaxed: a mark reads the latest value.
    lagged: AtomicU64,
    _registration: Option<GaugeRegistration>,
}

impl Gauge for BroadcastInfo {
    fn name(&self) -> String {
        format!("lagged: {}", self.name)
    }

    fn unit(&self) -> &'static str {
        "messages"
    }

    fn read(&self) -> f64 {
        self.lagged.swap(0, Ordering::Relaxed) as f64
    }
}

impl BroadcastInfo {
    fn new(name: ValueName) -> Arc<Self> {
        Arc::new_cyclic(|info: &Weak<Self>| Self {
            name,
            to_receive: NamedSite::new(TO_RECEIVE),
            lagged: AtomicU64::new(0),
            _registration: (!cfg!(feature = "off")).then(|| metrics::register(info.clone())),
        })
    }

    #[cold]
    fn add_lagged(&self, messages: u64) {
        self.lagged.fetch_add(messages, Ordering::Relaxed);
    }
}

/// The sending end, with the interface of [`tokio::sync::broadcast::Sender`].
/// Sending never waits.
#[derive(Debug)]
pub struct Sender<T> {
    inner: broadcast::Sender<T>,
    info: Arc<BroadcastInfo>,
}

/// A [`Sender`] that does not keep the channel open.
#[derive(Debug)]
pub struct WeakSender<T> {
    inner: broadcast::WeakSender<T>,
    info: Arc<BroadcastInfo>,
}

/// The receiving end, with the interface of
/// [`tokio::sync::broadcast::Receiver`].
///
/// A receiver that finds no message while recording is on begins a task `wait: NAME to receive`,
/// which ends when it is polled with one, or with the step `cancelled` when the future is dropped.
/// The metric `lagged: NAME` is the number of messages that receivers missed since the last mark.
#[derive(Debug)]
pub struct Receiver<T> {
    inner: broadcast::Receiver<T>,
    info: Arc<BroadcastInfo>,
}

/// Makes a channel that holds at least `capacity` messages for slow receivers, whose name is the
/// place of this call.
///
/// # Panics
///
/// Panics if the capacity is 0, or more than half of [`usize::MAX`].
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio { pub use vor_recorder::locks::tokio::broadcast; } } }
/// use vor::sync::tokio::broadcast;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let (sender, mut first) = broadcast::channel(16);
/// let mut second = sender.subscribe();
/// sender.send(3).unwrap();
/// assert_eq!((first.recv().await, second.recv().await), (Ok(3), Ok(3)));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
#[track_caller]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    with_name(ValueName::Place(Location::caller()), capacity)
}

/// Makes a channel with a name that holds at least `capacity` messages for slow receivers.
///
/// # Panics
///
/// Panics if the capacity is 0, or more than half of [`usize::MAX`].
#[must_use]
#[track_caller]
pub fn named<T: Clone>(name: &'static str, capacity: usize) -> (Sender<T>, Receiver<T>) {
    with_name(ValueName::Named(name), capacity)
}

#[track_caller]
fn with_name<T: Clone>(name: ValueName, capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = broadcast::channel(capacity);
    let info = BroadcastInfo::new(name);
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
    /// Makes a sender of a channel without a receiver, whose name is the place of this call.
    ///
    /// # Panics
    ///
    /// Panics if the capacity is 0, or more than half of [`usize::MAX`].
    #[must_use]
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        Self {
            inner: broadcast::Sender::new(capacity),
            info: BroadcastInfo::new(ValueName::Place(Location::caller())),
        }
    }

    /// Sends a message to all receivers, and returns how many there are.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if there is no receiver.
    pub fn send(&self, message: T) -> Result<usize, SendError<T>> {
        self.inner.send(message)
    }

    /// Makes a receiver, which gets the messages that are sent after this call.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            inner: self.inner.subscribe(),
            info: Arc::clone(&self.info),
        }
    }

    /// Makes a sender that does not keep the channel open.
    #[must_use]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender {
            inner: self.inner.downgrade(),
            info: Arc::clone(&self.info),
        }
    }

    /// Returns the number of messages that some receiver has not received.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Returns whether all receivers have received all messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Returns the number of receivers.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.inner.receiver_count()
    }

    /// Returns whether two senders are of the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        self.inner.same_channel(&other.inner)
    }

    /// Waits until there is no receiver. This wait is not recorded.
    pub async fn closed(&self) {
        self.inner.closed().await;
    }

    /// Returns the number of senders, without the weak ones.
    #[must_use]
    pub fn strong_count(&self) -> usize {
        self.inner.strong_count()
    }

    /// Returns the number of weak senders.
    #[must_use]
    pub fn weak_count(&self) -> usize {
        self.inner.weak_count()
    }
}

impl<T> WeakSender<T> {
    /// Makes a [`Sender`], unless all senders are gone.
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        Some(Sender {
            inner: self.inner.upgrade()?,
            info: Arc::clone(&self.info),
        })
    }

    /// Returns the number of senders, without the weak ones.
    #[must_use]
    pub fn strong_count(&self) -> usize {
        self.inner.strong_count()
    }

    /// Returns the number of weak senders.
    #[must_use]
    pub fn weak_count(&self) -> usize {
        self.inner.weak_count()
    }
}

impl<T> Receiver<T> {
    /// Returns the number of messages that this receiver has not received, those included that the
    /// channel does not hold any more.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Returns whether this receiver has received all messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Returns whether two receivers are of the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        self.inner.same_channel(&other.inner)
    }

    /// Returns the number of senders, without the weak ones.
    #[must_use]
    pub fn sender_strong_count(&self) -> usize {
        self.inner.sender_strong_count()
    }

    /// Returns the number of weak senders.
    #[must_use]
    pub fn sender_weak_count(&self) -> usize {
        self.inner.sender_weak_count()
    }

    /// Returns whether all senders are gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

impl<T: Clone> Receiver<T> {
    /// Makes another receiver, which gets the messages that are sent after this call.
    #[must_use]
    pub fn resubscribe(&self) -> Self {
        Self {
            inner: self.inner.resubscribe(),
            info: Arc::clone(&self.info),
        }
    }

    /// Receives the next message, and waits until it comes.
    ///
    /// # Errors
    ///
    /// Returns an error if all senders are gone, or if this receiver was so slow that it missed
    /// messages.
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        let awaited = Unheld {
            site: &self.info.to_receive,
            name: self.info.name,
        };
        let received = Waited::new(pin!(self.inner.recv()), awaited).await;
        self.counted(received)
    }

    /// Receives the next message if it is there.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not there, if all senders are gone, or if this receiver was so
    /// slow that it missed messages.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let received = self.inner.try_recv();
        if let Err(TryRecvError::Lagged(messages)) = received {
            self.info.add_lagged(messages);
        }
        received
    }

    /// Receives the next message, and blocks the thread until it comes. The wait is a scope of the
    /// thread.
    ///
    /// # Errors
    ///
    /// Returns an error if all senders are gone, or if this receiver was so slow that it missed
    /// messages.
    ///
    /// # Panics
    ///
    /// Panics in a task of a runtime, whose thread must not be blocked.
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Result<T, RecvError> {
        let must_wait = self.inner.is_empty();
        let scope = must_wait.then(|| begin_wait(&self.info.to_receive, self.info.name));
        let received = self.inner.blocking_recv();
        drop(scope);
        self.counted(received)
    }

    fn counted(&self, received: Result<T, RecvError>) -> Result<T, RecvError> {
        if let Err(RecvError::Lagged(messages)) = received {
            self.info.add_lagged(messages);
        }
        received
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

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            info: Arc::clone(&self.info),
        }
    }
}
