//! A channel of tokio for one message that records the wait for it.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tokio::sync::oneshot;
pub use ::tokio::sync::oneshot::error;
use vor_capture::model::catalog::SiteId;

use super::waited::{Awaited, Wait};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::locks::blocked::{TO_RECEIVE, begin_wait};
use crate::locks::channel::message::{Message, Track, Tracked, Untracked};

/// The sending end, with the interface of [`tokio::sync::oneshot::Sender`].
pub struct Sender<T, F = Untracked> {
    inner: oneshot::Sender<Message<T, F>>,
}

/// The receiving end, with the interface of [`tokio::sync::oneshot::Receiver`].
///
/// A receiver that finds no message while recording is on begins a task `wait: NAME to receive`,
/// which ends when it is polled with the message, or with the step `cancelled` when it is dropped.
pub struct Receiver<T, F = Untracked> {
    inner: oneshot::Receiver<Message<T, F>>,
    // Dropped after the receiver.
    wait: Wait<Awaiting>,
}

/// The message that a receiver waits for.
#[derive(Debug)]
struct Awaiting {
    name: ValueName,
    site: NamedSite,
}

impl Awaited for Awaiting {
    fn site(&self) -> SiteId {
        self.site.id(self.name)
    }
}

/// Makes a channel for one message, whose name is the place of this call.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio { pub use vor_recorder::locks::tokio::oneshot; } } }
/// use vor::sync::tokio::oneshot;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let (sender, receiver) = oneshot::channel();
/// sender.send(3).unwrap();
/// assert_eq!(receiver.await, Ok(3));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    with_name(ValueName::Place(Location::caller()))
}

/// Makes a channel for one message with a name.
#[must_use]
pub fn named<T>(name: &'static str) -> (Sender<T>, Receiver<T>) {
    with_name(ValueName::Named(name))
}

/// Makes a channel for one message with a name. The message has a flow: an arrow points from the
/// scope that sends it to the one that receives it.
#[must_use]
pub fn named_with_flows<T>(name: &'static str) -> (Sender<T, Tracked>, Receiver<T, Tracked>) {
    with_name(ValueName::Named(name))
}

fn with_name<T, F>(name: ValueName) -> (Sender<T, F>, Receiver<T, F>) {
    let (sender, inner) = oneshot::channel();
    let wait = Wait::new(Awaiting {
        name,
        site: NamedSite::new(TO_RECEIVE),
    });
    (Sender { inner: sender }, Receiver { inner, wait })
}

impl<T, F: Track> Sender<T, F> {
    /// Sends the message.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver is gone or has closed the channel.
    pub fn send(self, message: T) -> Result<(), T> {
        let sent = self.inner.send(Message::new(message));
        sent.map_err(Message::into_inner)
    }

    /// Waits until the receiver is gone or has closed the channel. This wait is not recorded.
    pub async fn closed(&mut self) {
        self.inner.closed().await;
    }

    /// Returns whether the receiver is gone or has closed the channel.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Polls whether the receiver is gone or has closed the channel.
    pub fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.inner.poll_closed(context)
    }
}

impl<T, F: Track> Receiver<T, F> {
    /// Closes the channel: nothing can be sent any more. A message that was sent can be received.
    pub fn close(&mut self) {
        self.inner.close();
    }

    /// Returns whether the message was received, or none will come.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.inner.is_terminated()
    }

    /// Returns whether the message is not there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Receives the message if it is there.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not there, or if the sender is gone.
    pub fn try_recv(&mut self) -> Result<T, error::TryRecvError> {
        self.inner.try_recv().map(Message::receive)
    }

    /// Receives the message, and blocks the thread until it comes. The wait is a scope of the
    /// thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the sender is gone.
    ///
    /// # Panics
    ///
    /// Panics if there is no message yet, in a task of a runtime, whose thread must not be blocked.
    #[track_caller]
    pub fn blocking_recv(self) -> Result<T, error::RecvError> {
        let Self { mut inner, wait } = self;
        match inner.try_recv() {
            Ok(message) => Ok(message.receive()),
            Err(error::TryRecvError::Closed) => inner.blocking_recv().map(Message::receive),
            Err(error::TryRecvError::Empty) => {
                let awaited = wait.awaited();
                let scope = begin_wait(&awaited.site, awaited.name);
                let received = inner.blocking_recv();
                received.iter().for_each(Message::end_wait);
                drop(scope);
                received.map(Message::receive)
            }
        }
    }
}

impl<T, F: Track> Future for Receiver<T, F> {
    type Output = Result<T, error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.inner).poll(context);
        if let Poll::Ready(Ok(message)) = &polled
            && self.wait.has_begun()
        {
            message.end_wait();
        }
        self.wait.polled(polled.is_ready());
        polled.map(|received| received.map(Message::receive))
    }
}

impl<T, F> fmt::Debug for Sender<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T, F> fmt::Debug for Receiver<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
