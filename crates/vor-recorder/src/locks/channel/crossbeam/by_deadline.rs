//! `send` and `recv`, each by one call below that has a deadline.
//!
//! ```text
//! look   there is room, or a message ───────────────┐
//!        the other end waits, or is gone ───────────┤ a deadline that has passed
//!        neither ── begin the wait ── a deadline in │ the future
//!                                                   ▼
//!                                           the call below ◀── begin the wait, a new deadline ◀─┐
//!                                             │ done ── count                                   │
//!                                             └ over: another end was faster ───────────────────┘
//! ```
//!
//! The compiler puts the code of a call into its only user, which saves up to 3 ns. A first try by
//! `try_send` and `try_recv` would be another user.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::{Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender};
use crate::locks::channel::link::Wait;
use crate::locks::channel::message::{Message, Track};

/// A deadline that has passed.
static PASSED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The longest wait, after which the next one begins.
const PERIOD: Duration = Duration::from_secs(86_400);

impl<T, F: Track> Sender<T, F> {
    /// Sends a message, and waits until there is room for it.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if all receivers are gone.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        // The flow begins outside the wait.
        let mut message = Message::new(message);
        let (mut wait, mut deadline) = (None, *PASSED);
        if self.inner.is_full() {
            (wait, deadline) = self.wait_unless_expected();
        }
        loop {
            match self.inner.send_deadline(message, deadline) {
                Ok(()) => {
                    self.link.count();
                    if wait.is_some() {
                        end(wait);
                    }
                    return Ok(());
                }
                Err(SendTimeoutError::Disconnected(message)) => {
                    return Err(SendError(message.into_inner()));
                }
                Err(SendTimeoutError::Timeout(unsent)) => {
                    message = unsent;
                    end(wait);
                    (wait, deadline) = self.wait();
                }
            }
        }
    }
}

impl<T, F: Track> Receiver<T, F> {
    /// Receives a message, and waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel is empty and all senders are gone.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        let (mut wait, mut deadline) = (None, *PASSED);
        if self.inner.is_empty() {
            (wait, deadline) = self.wait_unless_expected();
        }
        loop {
            match self.inner.recv_deadline(deadline) {
                Ok(message) => {
                    if wait.is_some() {
                        message.end_wait();
                        end(wait);
                    }
                    return Ok(self.open(message));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
                Err(RecvTimeoutError::Timeout) => {
                    end(wait);
                    (wait, deadline) = self.wait();
                }
            }
        }
    }
}

macro_rules! waiting {
    ($($End:ident)*) => {$(
        impl<T, F> $End<T, F> {
            /// Begins a wait unless the other end waits or is gone. Returns the deadline of the
            /// call below too.
            #[cold]
            #[inline(never)]
            fn wait_unless_expected(&self) -> (Option<Wait<'_>>, Instant) {
                if self.link.is_expected() {
                    return (None, *PASSED);
                }
                self.wait()
            }

            #[cold]
            #[inline(never)]
            fn wait(&self) -> (Option<Wait<'_>>, Instant) {
                (Some(self.link.wait()), Instant::now() + PERIOD)
            }
        }
    )*};
}

waiting! { Sender Receiver }

#[cold]
#[inline(never)]
fn end(wait: Option<Wait<'_>>) {
    drop(wait);
}
