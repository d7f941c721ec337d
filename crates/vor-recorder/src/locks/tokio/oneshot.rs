//! A channel of tokio for one message that records the wait for it.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tokio::sync::oneshot;
pub use ::tokio::sync::oneshot::{Sender, error};
use vor_capture::model::catalog::SiteId;

use super::waited::{Awaited, Wait};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::locks::blocked::{TO_RECEIVE, begin_wait};

/// The receiving end, with the interface of [`tokio::sync::oneshot::Receiver`].
///
/// A receiver that finds no message while recording is on begins a task `wait: NAME to receive`,
/// which ends when it is polled with the message, or with the step `cancelled` when it is dropped.
#[derive(Debug)]
pub struct Receiver<T> {
    inner: oneshot::Receiver<T>,
    // Dropped after the receiver.
    wait: Wait<Message>,
}

/// The message of a channel.
#[derive(Debug)]
struct Message {
    name: ValueName,
    site: NamedSite,
}

impl Awaited for Message {
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

fn with_name<T>(name: ValueName) -> (Sender<T>, Receiver<T>) {
    let (sender, inner) = oneshot::channel();
    let wait = Wait::new(Message {
        name,
        site: NamedSite::new(TO_RECEIVE),
    });
    (sender, Receiver { inner, wait })
}

impl<T> Receiver<T> {
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
        self.inner.try_recv()
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
            Ok(message) => Ok(message),
            Err(error::TryRecvError::Closed) => inner.blocking_recv(),
            Err(error::TryRecvError::Empty) => {
                let message = wait.awaited();
                let _scope = begin_wait(&message.site, message.name);
                inner.blocking_recv()
            }
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.inner).poll(context);
        self.wait.polled(polled.is_ready());
        polled
    }
}
