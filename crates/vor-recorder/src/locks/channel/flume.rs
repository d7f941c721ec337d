//! Channels with the interface of the crate `flume` that record their depth, and the waits for
//! messages and for room.
//!
//! Futures, streams and `Selector` take the ends below, which [`Receiver::as_inner`] and
//! [`Sender::as_inner`] return. They open no scope, and their messages are counted:
//! `jobs.received(jobs.as_inner().recv_async().await)`, with flume's feature `async`.

pub use ::flume::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};

channels_of_many_receivers! { "flume", "flume", ::flume, ::flume::Sender }
sends_by_trying! { Sender }
receives_by_trying! { RecvError::Disconnected }

/// The messages of a [`Receiver`] that were there at one moment. Made by [`Receiver::drain`].
#[derive(Debug)]
pub struct Drain<T> {
    messages: std::vec::IntoIter<T>,
}

impl<T, F: Track> Receiver<T, F> {
    /// Takes all messages that are there.
    pub fn drain(&self) -> Drain<T> {
        let messages: Vec<T> = self
            .inner
            .drain()
            .map(|message| self.open(message))
            .collect();
        Drain {
            messages: messages.into_iter(),
        }
    }
}

impl<T> Iterator for Drain<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.messages.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.messages.size_hint()
    }
}

impl<T> ExactSizeIterator for Drain<T> {}

macro_rules! ends {
    ($($End:ident)*) => {$(
        impl<T, F> $End<T, F> {
            /// Returns whether the other ends are gone.
            pub fn is_disconnected(&self) -> bool {
                self.inner.is_disconnected()
            }

            /// Returns the number of senders.
            pub fn sender_count(&self) -> usize {
                self.inner.sender_count()
            }

            /// Returns the number of receivers.
            pub fn receiver_count(&self) -> usize {
                self.inner.receiver_count()
            }
        }
    )*};
}

ends! { Sender Receiver }
