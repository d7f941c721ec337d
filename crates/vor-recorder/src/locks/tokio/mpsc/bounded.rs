//! Channels with room for a number of messages.

use std::iter::FusedIterator;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::tokio::sync::mpsc;

use super::error::{SendError, SendTimeoutError, TryRecvError, TrySendError};
use super::room;
use super::{ChannelInfo, ReceiverLink, SenderLink};
use crate::hot::named_site::ValueName;
use crate::locks::channel::link::link;
use crate::locks::channel::message::{Message, Track, Untracked};
use crate::locks::tokio::waited::{Waited, poll_once, poll_waiting, spend_budget};

/// The sending end of a bounded channel, with the interface of
/// [`tokio::sync::mpsc::Sender`].
///
/// A future that finds the channel full while recording is on begins a task `wait: NAME to send`,
/// which ends when it is polled with room, or with the step `cancelled` when it is dropped.
pub struct Sender<T, F = Untracked> {
    inner: mpsc::Sender<Message<T, F>>,
    link: SenderLink,
}

/// A [`Sender`] that does not keep the channel open.
pub struct WeakSender<T, F = Untracked> {
    inner: mpsc::WeakSender<Message<T, F>>,
    info: Arc<ChannelInfo>,
}

/// The receiving end of a bounded channel, with the interface of
/// [`tokio::sync::mpsc::Receiver`].
///
/// A future that finds the channel empty while recording is on begins a task
/// `wait: NAME to receive`, which ends when it is polled with a message, or with the step
/// `cancelled` when it is dropped.
pub struct Receiver<T, F = Untracked> {
    inner: mpsc::Receiver<Message<T, F>>,
    link: ReceiverLink,
}

/// Room for a message, made by [`Sender::reserve`].
#[derive(Debug)]
pub struct Permit<'a, T, F = Untracked> {
    inner: mpsc::Permit<'a, Message<T, F>>,
    link: &'a SenderLink,
}

/// Room for some messages, made by [`Sender::reserve_many`].
#[derive(Debug)]
pub struct PermitIterator<'a, T, F = Untracked> {
    inner: mpsc::PermitIterator<'a, Message<T, F>>,
    link: &'a SenderLink,
}

/// Room for a message and the sender, made by [`Sender::reserve_owned`].
#[derive(Debug)]
pub struct OwnedPermit<T, F = Untracked> {
    inner: mpsc::OwnedPermit<Message<T, F>>,
    link: SenderLink,
}

#[track_caller]
pub(super) fn with_name<T, F: Track>(
    name: ValueName,
    buffer: usize,
) -> (Sender<T, F>, Receiver<T, F>) {
    let (sender, receiver) = mpsc::channel(buffer);
    let (link, receiver_link) = link(name);
    let sender = Sender {
        inner: sender,
        link,
    };
    let receiver = Receiver {
        inner: receiver,
        link: receiver_link,
    };
    (sender, receiver)
}

sender!(Sender, WeakSender);
receiver!(Receiver);

impl<T, F: Track> Sender<T, F> {
    /// Sends a message, and waits until there is room for it.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if the receiver is gone or has closed the channel.
    pub async fn send(&self, message: T) -> Result<(), SendError<T>> {
        match self.reserve().await {
            Ok(permit) => {
                permit.send(message);
                Ok(())
            }
            Err(SendError(())) => Err(SendError(message)),
        }
    }

    /// Sends a message if there is room for it.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if there is no room, or if the receiver is gone or has
    /// closed the channel.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        match self.try_reserve() {
            Ok(permit) => {
                permit.send(message);
                Ok(())
            }
            Err(TrySendError::Full(())) => Err(TrySendError::Full(message)),
            Err(TrySendError::Closed(())) => Err(TrySendError::Closed(message)),
        }
    }

    /// Sends a message, and waits until there is room for it, but no longer than `timeout`. A wait
    /// for which the time is over ends with the step `cancelled`.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if the time is over, or if the receiver is gone or has
    /// closed the channel.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime with a timer.
    pub async fn send_timeout(
        &self,
        message: T,
        timeout: Duration,
    ) -> Result<(), SendTimeoutError<T>> {
        match ::tokio::time::timeout(timeout, self.reserve()).await {
            Ok(Ok(permit)) => {
                permit.send(message);
                Ok(())
            }
            Ok(Err(SendError(()))) => Err(SendTimeoutError::Closed(message)),
            Err(_) => Err(SendTimeoutError::Timeout(message)),
        }
    }

    /// Sends a message, and blocks the thread until there is room for it. The wait is a scope of
    /// the thread.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if the receiver is gone or has closed the channel.
    ///
    /// # Panics
    ///
    /// Panics in a task of a runtime, whose thread must not be blocked.
    #[track_caller]
    pub fn blocking_send(&self, message: T) -> Result<(), SendError<T>> {
        // The flow begins in the scope around the wait.
        let message = Message::new(message);
        let must_wait = self.inner.capacity() == 0 && !self.inner.is_closed();
        let scope = must_wait.then(|| self.link.wait());
        let sent = self.inner.blocking_send(message);
        drop(scope);
        match sent {
            Ok(()) => {
                self.link.count();
                Ok(())
            }
            Err(SendError(message)) => Err(SendError(message.into_inner())),
        }
    }

    /// Takes room for a message, and waits until there is some.
    ///
    /// # Errors
    ///
    /// Returns an error if the receiver is gone or has closed the channel.
    pub async fn reserve(&self) -> Result<Permit<'_, T, F>, SendError<()>> {
        if let Ok(permit) = self.try_reserve() {
            spend_budget().await;
            return Ok(permit);
        }
        let inner = Waited::new(pin!(self.inner.reserve()), room(&self.link.info)).await?;
        Ok(self.permit(inner))
    }

    /// Takes room for `count` messages at once, and waits until there is so much.
    ///
    /// # Errors
    ///
    /// Returns an error if the receiver is gone or has closed the channel, or if `count` is more
    /// than the channel has room for.
    pub async fn reserve_many(
        &self,
        count: usize,
    ) -> Result<PermitIterator<'_, T, F>, SendError<()>> {
        let reserved = pin!(self.inner.reserve_many(count));
        let inner = Waited::new(reserved, room(&self.link.info)).await?;
        Ok(self.permits(inner))
    }

    /// Takes room for a message, and waits until there is some. The permit is the sender meanwhile.
    ///
    /// # Errors
    ///
    /// Returns an error if the receiver is gone or has closed the channel.
    pub async fn reserve_owned(self) -> Result<OwnedPermit<T, F>, SendError<()>> {
        let Self { inner, link } = self;
        let inner = Waited::new(pin!(inner.reserve_owned()), room(&link.info)).await?;
        Ok(OwnedPermit { inner, link })
    }

    /// Takes room for a message if there is some.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or if the receiver is gone or has closed the channel.
    pub fn try_reserve(&self) -> Result<Permit<'_, T, F>, TrySendError<()>> {
        Ok(self.permit(self.inner.try_reserve()?))
    }

    /// Takes room for `count` messages at once if there is so much.
    ///
    /// # Errors
    ///
    /// Returns an error if there is less, or if the receiver is gone or has closed the channel.
    pub fn try_reserve_many(
        &self,
        count: usize,
    ) -> Result<PermitIterator<'_, T, F>, TrySendError<()>> {
        Ok(self.permits(self.inner.try_reserve_many(count)?))
    }

    /// Takes room for a message if there is some. The permit is the sender meanwhile.
    ///
    /// # Errors
    ///
    /// Returns the sender in an error if there is none, or if the receiver is gone or has closed
    /// the channel.
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T, F>, TrySendError<Self>> {
        let Self { inner, link } = self;
        match inner.try_reserve_owned() {
            Ok(inner) => Ok(OwnedPermit { inner, link }),
            Err(TrySendError::Full(inner)) => Err(TrySendError::Full(Self { inner, link })),
            Err(TrySendError::Closed(inner)) => Err(TrySendError::Closed(Self { inner, link })),
        }
    }

    fn permit<'a>(&'a self, inner: mpsc::Permit<'a, Message<T, F>>) -> Permit<'a, T, F> {
        let link = &self.link;
        Permit { inner, link }
    }

    fn permits<'a>(
        &'a self,
        inner: mpsc::PermitIterator<'a, Message<T, F>>,
    ) -> PermitIterator<'a, T, F> {
        let link = &self.link;
        PermitIterator { inner, link }
    }

    /// Returns for how many messages there is room.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    /// Returns for how many messages the channel was made.
    #[must_use]
    pub fn max_capacity(&self) -> usize {
        self.inner.max_capacity()
    }
}

impl<T, F: Track> Receiver<T, F> {
    /// Returns for how many messages there is room.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    /// Returns for how many messages the channel was made.
    #[must_use]
    pub fn max_capacity(&self) -> usize {
        self.inner.max_capacity()
    }
}

impl<T, F: Track> Permit<'_, T, F> {
    /// Sends a message, for which there is room.
    pub fn send(self, message: T) {
        self.inner.send(Message::new(message));
        self.link.count();
    }
}

impl<'a, T, F: Track> Iterator for PermitIterator<'a, T, F> {
    type Item = Permit<'a, T, F>;

    fn next(&mut self) -> Option<Permit<'a, T, F>> {
        Some(Permit {
            inner: self.inner.next()?,
            link: self.link,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl<T, F: Track> ExactSizeIterator for PermitIterator<'_, T, F> {}
impl<T, F: Track> FusedIterator for PermitIterator<'_, T, F> {}

impl<T, F: Track> OwnedPermit<T, F> {
    /// Sends a message, for which there is room, and returns the sender.
    pub fn send(self, message: T) -> Sender<T, F> {
        let Self { inner, link } = self;
        let inner = inner.send(Message::new(message));
        link.count();
        Sender { inner, link }
    }

    /// Leaves the room to others, and returns the sender.
    pub fn release(self) -> Sender<T, F> {
        let Self { inner, link } = self;
        let inner = inner.release();
        Sender { inner, link }
    }
}
