//! A channel of tokio whose receivers all get each message. It records its depth, the waits for
//! messages, and how many of them a receiver missed.

use std::fmt;
use std::future::Future as _;
use std::panic::Location;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use ::tokio::sync::broadcast;
pub use ::tokio::sync::broadcast::error;

use self::error::{RecvError, SendError, TryRecvError};
use super::unread::{Position, Unread};
use super::waited::{Unheld, has_budget_remaining, poll_waiting, spend_budget};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::locks::blocked::{TO_RECEIVE, begin_wait};
use crate::locks::channel::message::{Message, Track, Tracked, Untracked};
use crate::metrics::{self, Gauge, GaugeRegistration, LastCount};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// The parts of a channel beside the channel of tokio.
#[derive(Debug)]
struct BroadcastInfo {
    name: ValueName,
    to_receive: NamedSite,
    unread: Unread,
    sent: LastCount,
    lagged: Arc<Lagged>,
    _registrations: Option<[GaugeRegistration; 2]>,
}

/// Messages that receivers missed since the last mark.
#[derive(Debug)]
struct Lagged {
    name: ValueName,
    /// Relaxed: a mark reads the latest value.
    messages: AtomicU64,
}

impl Gauge for BroadcastInfo {
    fn name(&self) -> String {
        format!("depth: {}", self.name)
    }

    fn unit(&self) -> &'static str {
        "messages"
    }

    fn read(&self) -> f64 {
        self.unread.depth() as f64
    }

    fn count_name(&self) -> Option<String> {
        Some(format!("sent: {}", self.name))
    }

    fn take_count(&self) -> f64 {
        self.sent.growth(self.unread.sent())
    }
}

impl Gauge for Lagged {
    fn name(&self) -> String {
        format!("lagged: {}", self.name)
    }

    fn unit(&self) -> &'static str {
        "messages"
    }

    fn read(&self) -> f64 {
        self.messages.swap(0, Ordering::Relaxed) as f64
    }
}

impl BroadcastInfo {
    fn new(name: ValueName, capacity: usize) -> Arc<Self> {
        let lagged = Arc::new(Lagged {
            name,
            messages: AtomicU64::new(0),
        });
        Arc::new_cyclic(|info: &Weak<Self>| {
            let as_gauge: Weak<Lagged> = Arc::downgrade(&lagged);
            let register = || [metrics::register(info.clone()), metrics::register(as_gauge)];
            Self {
                name,
                to_receive: NamedSite::new(TO_RECEIVE),
                // As tokio does. It has refused a capacity that is too large.
                unread: Unread::new(capacity.next_power_of_two()),
                sent: LastCount::default(),
                _registrations: (!cfg!(feature = "off")).then(register),
                lagged,
            }
        })
    }
}

/// The sending end, with the interface of [`tokio::sync::broadcast::Sender`].
/// Sending never waits.
pub struct Sender<T, F = Untracked> {
    inner: broadcast::Sender<Message<T, F>>,
    info: Arc<BroadcastInfo>,
}

/// A [`Sender`] that does not keep the channel open.
pub struct WeakSender<T, F = Untracked> {
    inner: broadcast::WeakSender<Message<T, F>>,
    info: Arc<BroadcastInfo>,
}

/// The receiving end, with the interface of
/// [`tokio::sync::broadcast::Receiver`].
///
/// A receiver that finds no message while recording is on begins a task `wait: NAME to receive`,
/// which ends when it is polled with one, or with the step `cancelled` when the future is dropped.
///
/// | metric | messages |
/// |---|---|
/// | `depth: NAME` | those in the channel that some receiver has not received |
/// | `sent: NAME` | those that were sent since the last mark |
/// | `lagged: NAME` | those that receivers missed since the last mark |
pub struct Receiver<T, F = Untracked> {
    inner: broadcast::Receiver<Message<T, F>>,
    link: Link,
}

/// A receiver's part of a channel.
struct Link {
    info: Arc<BroadcastInfo>,
    position: Arc<Position>,
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

/// Makes a channel with a name that holds at least `capacity` messages for slow receivers. Its
/// messages have flows: arrows point from the scope that sends a message to each one that receives
/// it.
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
/// let (sender, mut first) = broadcast::named_with_flows("news", 16);
/// let mut second = sender.subscribe();
/// sender.send(3).unwrap();
/// assert_eq!((first.try_recv(), second.try_recv()), (Ok(3), Ok(3)));
/// ```
#[must_use]
#[track_caller]
pub fn named_with_flows<T: Clone>(
    name: &'static str,
    capacity: usize,
) -> (Sender<T, Tracked>, Receiver<T, Tracked>) {
    with_name(ValueName::Named(name), capacity)
}

#[track_caller]
fn with_name<T: Clone, F: Track>(
    name: ValueName,
    capacity: usize,
) -> (Sender<T, F>, Receiver<T, F>) {
    let (sender, receiver) = broadcast::channel(capacity);
    let info = BroadcastInfo::new(name, capacity);
    let receiver = Receiver {
        inner: receiver,
        link: Link::new(&info),
    };
    let sender = Sender {
        inner: sender,
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
            info: BroadcastInfo::new(ValueName::Place(Location::caller()), capacity),
        }
    }
}

impl<T, F: Track> Sender<T, F> {
    /// Sends a message to all receivers, and returns how many there are.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if there is no receiver.
    pub fn send(&self, message: T) -> Result<usize, SendError<T>> {
        match self.inner.send(Message::new(message)) {
            Ok(receivers) => {
                if !cfg!(feature = "off") {
                    self.info.unread.add_sent();
                }
                Ok(receivers)
            }
            Err(SendError(message)) => Err(SendError(message.into_inner())),
        }
    }

    /// Makes a receiver, which gets the messages that are sent after this call.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T, F> {
        let link = Link::new(&self.info);
        Receiver {
            inner: self.inner.subscribe(),
            link,
        }
    }

    /// Makes a sender that does not keep the channel open.
    #[must_use]
    pub fn downgrade(&self) -> WeakSender<T, F> {
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

impl<T, F> WeakSender<T, F> {
    /// Makes a [`Sender`], unless all senders are gone.
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T, F>> {
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

impl Link {
    /// Makes the part of a receiver that subscribes after this call.
    fn new(info: &Arc<BroadcastInfo>) -> Self {
        Self {
            info: Arc::clone(info),
            position: info.unread.subscribe(),
        }
    }

    /// The receiver has received or missed messages.
    fn advance(&self, messages: u64) {
        if !cfg!(feature = "off") {
            self.position.advance(messages);
        }
    }

    /// The receiver has missed messages.
    #[cold]
    fn lagged(&self, messages: u64) {
        self.advance(messages);
        let lagged = &self.info.lagged.messages;
        lagged.fetch_add(messages, Ordering::Relaxed);
    }

    /// The receiver has received all messages.
    fn caught_up(&self) {
        if !cfg!(feature = "off") {
            self.position.catch_up(&self.info.unread);
        }
    }

    /// Opens a message that was received, and counts it.
    #[inline(always)]
    fn open<T, F: Track>(
        &self,
        received: Result<Message<T, F>, RecvError>,
    ) -> Result<T, RecvError> {
        match &received {
            Ok(_) => self.advance(1),
            Err(RecvError::Lagged(messages)) => self.lagged(*messages),
            Err(RecvError::Closed) => {}
        }
        received.map(Message::receive)
    }
}

impl<T, F> Receiver<T, F> {
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

impl<T: Clone, F: Track> Receiver<T, F> {
    /// Makes another receiver, which gets the messages that are sent after this call.
    #[must_use]
    pub fn resubscribe(&self) -> Self {
        let link = Link::new(&self.link.info);
        Self {
            inner: self.inner.resubscribe(),
            link,
        }
    }

    /// Receives the next message, and waits until it comes.
    ///
    /// # Errors
    ///
    /// Returns an error if all senders are gone, or if this receiver was so slow that it missed
    /// messages.
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        // Spending does not yield then, so a message that is taken here is not lost if the future
        // is dropped.
        if has_budget_remaining()
            && let Some(received) = self.take()
        {
            spend_budget().await;
            return received;
        }
        let mut next = pin!(self.inner.recv());
        let awaited = Unheld {
            site: &self.link.info.to_receive,
            name: self.link.info.name,
        };
        let poll = poll_waiting(awaited, |context, has_waited| {
            let polled = next.as_mut().poll(context);
            if let (true, Poll::Ready(Ok(message))) = (has_waited, &polled) {
                message.end_one_wait();
            }
            polled
        });
        self.link.open(poll.await)
    }

    /// Receives the next message if it is there.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not there, if all senders are gone, or if this receiver was so
    /// slow that it missed messages.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.take() {
            None => Err(TryRecvError::Empty),
            Some(received) => received.map_err(|error| match error {
                RecvError::Closed => TryRecvError::Closed,
                RecvError::Lagged(messages) => TryRecvError::Lagged(messages),
            }),
        }
    }

    /// Receives without a wait. `None` if there is no message yet.
    #[inline(always)]
    fn take(&mut self) -> Option<Result<T, RecvError>> {
        let received = match self.inner.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Empty) => {
                self.link.caught_up();
                return None;
            }
            Err(TryRecvError::Closed) => Err(RecvError::Closed),
            Err(TryRecvError::Lagged(messages)) => Err(RecvError::Lagged(messages)),
        };
        Some(self.link.open(received))
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
        let info = &self.link.info;
        let scope = self.inner.is_empty().then(|| {
            self.link.caught_up();
            begin_wait(&info.to_receive, info.name)
        });
        let received = self.inner.blocking_recv();
        if let (Some(_), Ok(message)) = (&scope, &received) {
            message.end_one_wait();
        }
        drop(scope);
        self.link.open(received)
    }
}

impl<T, F> Clone for Sender<T, F> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            info: Arc::clone(&self.info),
        }
    }
}

impl<T, F> Clone for WeakSender<T, F> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            info: Arc::clone(&self.info),
        }
    }
}

impl<T, F> Drop for Sender<T, F> {
    fn drop(&mut self) {
        self.info.unread.leave_sending();
    }
}

impl<T, F> fmt::Debug for Sender<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("broadcast::Sender").finish_non_exhaustive()
    }
}

impl<T, F> fmt::Debug for WeakSender<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("broadcast::WeakSender")
            .finish_non_exhaustive()
    }
}

impl<T, F> fmt::Debug for Receiver<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("broadcast::Receiver")
            .finish_non_exhaustive()
    }
}
