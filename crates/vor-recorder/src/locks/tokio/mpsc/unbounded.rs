//! Channels with room for any number of messages.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::sync::mpsc;

use super::error::{SendError, TryRecvError};
use super::{ChannelInfo, ReceiverLink, SenderLink};
use crate::hot::named_site::ValueName;
use crate::locks::channel::link::link;
use crate::locks::tokio::waited::{Waited, poll_once};

/// The sending end of an unbounded channel, with the interface of
/// [`tokio::sync::mpsc::UnboundedSender`]. Sending never waits.
pub struct UnboundedSender<T> {
    inner: mpsc::UnboundedSender<T>,
    link: SenderLink,
}

/// An [`UnboundedSender`] that does not keep the channel open.
pub struct WeakUnboundedSender<T> {
    inner: mpsc::WeakUnboundedSender<T>,
    info: Arc<ChannelInfo>,
}

/// The receiving end of an unbounded channel, with the interface of
/// [`tokio::sync::mpsc::UnboundedReceiver`].
///
/// It records its waits as [`Receiver`](super::Receiver) does.
pub struct UnboundedReceiver<T> {
    inner: mpsc::UnboundedReceiver<T>,
    link: ReceiverLink,
}

pub(super) fn with_name<T>(name: ValueName) -> (UnboundedSender<T>, UnboundedReceiver<T>) {
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

impl<T> UnboundedSender<T> {
    /// Sends a message, which never waits.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if the receiver is gone or has closed the channel.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let sent = self.inner.send(message);
        if sent.is_ok() {
            self.link.count();
        }
        sent
    }
}
