//! Channels with room for any number of messages.

use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::sync::mpsc;

use super::error::{SendError, TryRecvError};
use super::{ChannelInfo, ReceiverLink, SenderLink};
use crate::hot::named_site::ValueName;
use crate::locks::channel::link::link;
use crate::locks::channel::message::{Message, Track, Untracked};
use crate::locks::tokio::waited::{poll_once, poll_waiting};

/// The sending end of an unbounded channel, with the interface of
/// [`tokio::sync::mpsc::UnboundedSender`]. Sending never waits.
pub struct UnboundedSender<T, F = Untracked> {
    inner: mpsc::UnboundedSender<Message<T, F>>,
    link: SenderLink,
}

/// An [`UnboundedSender`] that does not keep the channel open.
pub struct WeakUnboundedSender<T, F = Untracked> {
    inner: mpsc::WeakUnboundedSender<Message<T, F>>,
    info: Arc<ChannelInfo>,
}

/// The receiving end of an unbounded channel, with the interface of
/// [`tokio::sync::mpsc::UnboundedReceiver`].
///
/// It records its waits as [`Receiver`](super::Receiver) does.
pub struct UnboundedReceiver<T, F = Untracked> {
    inner: mpsc::UnboundedReceiver<Message<T, F>>,
    link: ReceiverLink,
}

pub(super) fn with_name<T, F: Track>(
    name: ValueName,
) -> (UnboundedSender<T, F>, UnboundedReceiver<T, F>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (link, receiver_link) = link(name);
    let sender = UnboundedSender {
        inner: sender,
        link,
    };
    let receiver = UnboundedReceiver {
        inner: receiver,
        link: receiver_link,
    };
    (sender, receiver)
}

sender!(UnboundedSender, WeakUnboundedSender);
receiver!(UnboundedReceiver);

impl<T, F: Track> UnboundedSender<T, F> {
    /// Sends a message, which never waits.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if the receiver is gone or has closed the channel.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        match self.inner.send(Message::new(message)) {
            Ok(()) => {
                self.link.count();
                Ok(())
            }
            Err(SendError(message)) => Err(SendError(message.into_inner())),
        }
    }
}
