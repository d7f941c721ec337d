//! Channels that record their depth, and the waits for messages and for room.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use super::blocked::{TO_RECEIVE, TO_SEND, begin_wait};
use super::depth::Depth;
use crate::hot::named_site::{NamedSite, ValueName};
use crate::hot::scope::Scope;
use crate::metrics::{self, Gauge, GaugeRegistration};
use crate::sync::Ordering;

/// The parts of a channel beside the channel of the standard library.
#[derive(Debug)]
pub(super) struct ChannelInfo {
    pub(super) name: ValueName,
    depth: Depth,
    pub(super) to_receive: NamedSite,
    pub(super) to_send: NamedSite,
    /// Numbers of senders that were made.
    senders: AtomicUsize,
    _registration: Option<GaugeRegistration>,
}

/// The sender's part of a channel.
#[derive(Debug)]
pub(super) struct SenderLink {
    pub(super) info: Arc<ChannelInfo>,
    /// The number of the sender.
    number: usize,
}

/// The receiver's part of a channel.
#[derive(Debug)]
pub(super) struct ReceiverLink {
    pub(super) info: Arc<ChannelInfo>,
}

/// The sending end of an unbounded channel, with the interface of [`std::sync::mpsc::Sender`].
/// Sending never blocks, so it opens no scope.
pub struct Sender<T> {
    inner: mpsc::Sender<T>,
    link: SenderLink,
}

/// The sending end of a bounded channel, with the interface of [`std::sync::mpsc::SyncSender`].
///
/// A thread that finds the channel full while recording is on opens a scope `wait: NAME to send`
/// until there is room.
pub struct SyncSender<T> {
    inner: mpsc::SyncSender<T>,
    link: SenderLink,
}

/// The receiving end of a channel, with the interface of [`std::sync::mpsc::Receiver`].
///
/// A thread that finds the channel empty while recording is on opens a scope
/// `wait: NAME to receive` until a message comes.
pub struct Receiver<T> {
    inner: mpsc::Receiver<T>,
    link: ReceiverLink,
}

/// The messages of a [`Receiver`], for which it waits. Made by [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T: 'a> {
    receiver: &'a Receiver<T>,
}

/// The messages of a [`Receiver`] that are there. Made by [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T: 'a> {
    receiver: &'a Receiver<T>,
}

/// The messages of a [`Receiver`], for which it waits, by the receiver itself.
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

/// Makes an unbounded channel, whose name is the place of this call.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::channel; } }
/// use vor::sync::channel;
///
/// let (sender, receiver) = channel::channel();
/// sender.send(3).unwrap();
/// assert_eq!(receiver.recv(), Ok(3));
/// ```
#[must_use]
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    unbounded(ValueName::Place(Location::caller()))
}

/// Makes an unbounded channel with a name.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::channel; } }
/// use vor::sync::channel;
///
/// let (sender, receiver) = channel::named("jobs");
/// let worker = std::thread::spawn(move || receiver.iter().sum::<u32>());
/// (1..=3).for_each(|job| sender.send(job).unwrap());
/// drop(sender);
/// assert_eq!(worker.join().unwrap(), 6);
/// ```
#[must_use]
pub fn named<T>(name: &'static str) -> (Sender<T>, Receiver<T>) {
    unbounded(ValueName::Named(name))
}

/// Makes a channel with room for `bound` messages, whose name is the place of this call. Without
/// room, a message is sent when it is received.
#[must_use]
#[track_caller]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    bounded(ValueName::Place(Location::caller()), bound)
}

/// Makes a channel with a name and room for `bound` messages.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::channel; } }
/// use vor::sync::channel::{self, TrySendError};
///
/// let (sender, receiver) = channel::sync_named("images", 1);
/// sender.send("first").unwrap();
/// assert_eq!(sender.try_send("second"), Err(TrySendError::Full("second")));
/// assert_eq!(receiver.recv(), Ok("first"));
/// ```
#[must_use]
pub fn sync_named<T>(name: &'static str, bound: usize) -> (SyncSender<T>, Receiver<T>) {
    bounded(ValueName::Named(name), bound)
}

fn unbounded<T>(name: ValueName) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    let (link, receiver) = linked(name, receiver);
    let sender = Sender {
        inner: sender,
        link,
    };
    (sender, receiver)
}

fn bounded<T>(name: ValueName, bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::sync_channel(bound);
    let (link, receiver) = linked(name, receiver);
    let sender = SyncSender {
        inner: sender,
        link,
    };
    (sender, receiver)
}

fn linked<T>(name: ValueName, inner: mpsc::Receiver<T>) -> (SenderLink, Receiver<T>) {
    let (sender, link) = links(name);
    (sender, Receiver { inner, link })
}

/// Makes the parts of a channel with a name: that of its first sender, and that of its receiver.
pub(super) fn links(name: ValueName) -> (SenderLink, ReceiverLink) {
    let info = Arc::new_cyclic(|info: &Weak<ChannelInfo>| ChannelInfo {
        name,
        depth: Depth::new(),
        to_receive: NamedSite::new(TO_RECEIVE),
        to_send: NamedSite::new(TO_SEND),
        senders: AtomicUsize::new(1),
        _registration: (!cfg!(feature = "off")).then(|| metrics::register(info.clone())),
    });
    let sender = SenderLink {
        info: Arc::clone(&info),
        number: 0,
    };
    (sender, ReceiverLink { info })
}

impl ChannelInfo {
    pub(super) fn wait_to_receive(&self) -> Scope {
        begin_wait(&self.to_receive, self.name)
    }

    pub(super) fn wait_to_send(&self) -> Scope {
        begin_wait(&self.to_send, self.name)
    }
}

impl Gauge for ChannelInfo {
    fn name(&self) -> String {
        format!("depth: {}", self.name)
    }

    fn unit(&self) -> &'static str {
        "messages"
    }

    fn read(&self) -> f64 {
        self.depth.read() as f64
    }
}

/// Returns a number that no other thread has as long as this one lives. It is not 0.
#[inline(always)]
fn this_thread() -> u64 {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
}

impl SenderLink {
    /// Makes the part of another sender of a channel.
    pub(super) fn new(info: &Arc<ChannelInfo>) -> Self {
        Self {
            info: Arc::clone(info),
            number: info.senders.fetch_add(1, Ordering::Relaxed),
        }
    }

    #[inline(always)]
    pub(super) fn count<E>(&self, sent: &Result<(), E>) {
        if sent.is_ok() {
            self.count_one();
        }
    }

    /// Counts a message that was sent.
    #[inline(always)]
    pub(super) fn count_one(&self) {
        if !cfg!(feature = "off") {
            self.info.depth.add_sent(self.number, this_thread());
        }
    }
}

impl Clone for SenderLink {
    fn clone(&self) -> Self {
        Self::new(&self.info)
    }
}

impl Drop for SenderLink {
    fn drop(&mut self) {
        self.info.depth.leave(self.number, this_thread());
    }
}

impl ReceiverLink {
    #[inline(always)]
    pub(super) fn count<T, E>(&self, received: &Result<T, E>) {
        self.count_some(usize::from(received.is_ok()));
    }

    /// Counts messages that were received.
    #[inline(always)]
    pub(super) fn count_some(&self, messages: usize) {
        if !cfg!(feature = "off") && messages != 0 {
            self.info.depth.add_received(messages as u64);
        }
    }
}

impl Drop for ReceiverLink {
    fn drop(&mut self) {
        self.info.depth.close();
    }
}

impl<T> Sender<T> {
    /// Sends a message, which never blocks.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if the receiver is gone.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let sent = self.inner.send(message);
        self.link.count(&sent);
        sent
    }
}

impl<T> SyncSender<T> {
    /// Sends a message, and waits until there is room for it.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if the receiver is gone.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        match self.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(message)) => Err(SendError(message)),
            Err(TrySendError::Full(message)) => self.send_blocked(message),
        }
    }

    #[cold]
    #[inline(never)]
    fn send_blocked(&self, message: T) -> Result<(), SendError<T>> {
        let _scope = self.link.info.wait_to_send();
        let sent = self.inner.send(message);
        self.link.count(&sent);
        sent
    }

    /// Sends a message if there is room for it.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if the channel is full or the receiver is gone.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let sent = self.inner.try_send(message);
        self.link.count(&sent);
        sent
    }
}

impl<T> Receiver<T> {
    /// Receives a message if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel is empty, or if in addition all senders are gone.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let received = self.inner.try_recv();
        self.link.count(&received);
        received
    }

    /// Receives a message, and waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel is empty and all senders are gone.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        match self.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Disconnected) => Err(RecvError),
            Err(TryRecvError::Empty) => self.recv_blocked(),
        }
    }

    #[cold]
    #[inline(never)]
    fn recv_blocked(&self) -> Result<T, RecvError> {
        let _scope = self.link.info.wait_to_receive();
        let received = self.inner.recv();
        self.link.count(&received);
        received
    }

    /// Receives a message, and waits until there is one, but no longer than about `timeout`.
    ///
    /// # Errors
    ///
    /// Returns an error if the time is over, or if the channel is empty and all senders are gone.
    #[inline]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        match self.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) if timeout.is_zero() => Err(RecvTimeoutError::Timeout),
            Err(TryRecvError::Empty) => self.recv_timeout_blocked(timeout),
        }
    }

    #[cold]
    #[inline(never)]
    fn recv_timeout_blocked(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let _scope = self.link.info.wait_to_receive();
        let received = self.inner.recv_timeout(timeout);
        self.link.count(&received);
        received
    }

    /// Returns the messages, for which the iterator waits. It ends when all senders are gone.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Returns the messages that are there. The iterator ends when the channel is empty.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            link: self.link.clone(),
        }
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            link: self.link.clone(),
        }
    }
}

macro_rules! shown_without_content {
    ($($end:ident)*) => {$(
        impl<T> fmt::Debug for $end<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($end)).finish_non_exhaustive()
            }
        }
    )*};
}

shown_without_content! { Sender SyncSender Receiver }
