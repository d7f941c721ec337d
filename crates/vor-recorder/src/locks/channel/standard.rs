//! The channels of the standard library.

use std::fmt;
use std::panic::Location;
use std::sync::mpsc;
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use super::depth::Alone;
use super::link::{ReceiverLink, SenderLink, Wait, link, link_without_room};
use super::message::{Message, Track, Tracked, Untracked};
use crate::hot::named_site::ValueName;

/// The sending end of an unbounded channel, with the interface of [`std::sync::mpsc::Sender`].
/// Sending never blocks, so it opens no scope.
pub struct Sender<T, F = Untracked> {
    link: SenderLink<Alone>,
    inner: mpsc::Sender<Message<T, F>>,
}

blocking_sender! {
    /// The sending end of a bounded channel, with the interface of [`std::sync::mpsc::SyncSender`].
    SyncSender, std::sync::mpsc::SyncSender, Alone
}
sends_by_trying! { SyncSender }

receiver! {
    /// The receiving end of a channel, with the interface of [`std::sync::mpsc::Receiver`].
    std::sync::mpsc, Alone
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

/// Makes an unbounded channel with a name, whose messages have flows: an arrow points from the
/// scope that sends a message to the one that receives it.
///
/// # Examples
///
/// ```
/// # use vor_recorder::profile_scope;
/// # mod vor {
/// #     pub mod sync { pub use vor_recorder::locks::channel; }
/// #     pub use vor_recorder::profile_scope;
/// # }
/// use vor::sync::channel;
///
/// let (sender, receiver) = channel::named_with_flows("jobs");
/// {
///     vor::profile_scope!("order");
///     sender.send(3).unwrap();
/// }
/// vor::profile_scope!("work");
/// assert_eq!(receiver.recv(), Ok(3)); // an arrow from `order` to `work`
/// ```
#[must_use]
pub fn named_with_flows<T>(name: &'static str) -> (Sender<T, Tracked>, Receiver<T, Tracked>) {
    unbounded(ValueName::Named(name))
}

/// Makes a channel with a name and room for `bound` messages, which have flows.
#[must_use]
pub fn sync_named_with_flows<T>(
    name: &'static str,
    bound: usize,
) -> (SyncSender<T, Tracked>, Receiver<T, Tracked>) {
    bounded(ValueName::Named(name), bound)
}

fn unbounded<T, F>(name: ValueName) -> (Sender<T, F>, Receiver<T, F>) {
    let (inner, receiver) = mpsc::channel();
    let (link, receiver) = linked(link(name), receiver);
    (Sender { inner, link }, receiver)
}

fn bounded<T, F>(name: ValueName, bound: usize) -> (SyncSender<T, F>, Receiver<T, F>) {
    let (inner, receiver) = mpsc::sync_channel(bound);
    let links = match bound {
        0 => link_without_room(name),
        _ => link(name),
    };
    let (link, receiver) = linked(links, receiver);
    (SyncSender { inner, link }, receiver)
}

fn linked<T, F>(
    (sender, link): (SenderLink<Alone>, ReceiverLink<Alone>),
    inner: mpsc::Receiver<Message<T, F>>,
) -> (SenderLink<Alone>, Receiver<T, F>) {
    (sender, Receiver { inner, link })
}

impl<T, F: Track> Sender<T, F> {
    /// Sends a message, which never blocks.
    ///
    /// # Errors
    ///
    /// Returns the message in an error if the receiver is gone.
    #[inline]
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

impl<T, F: Track> Receiver<T, F> {
    /// Receives a message, and waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel is empty and all senders are gone.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        let wait = self.link.wait_for_message();
        // The only use of a channel below: the compiler puts all of its code here, which saves up
        // to 3 ns. A first look by `try_recv` would be another use.
        let received = self.inner.recv();
        if wait.is_some() {
            end_wait(wait, &received);
        }
        received.map(|message| self.open(message))
    }
}

/// Closes the scope of a wait that `received` has ended.
#[cold]
#[inline(never)]
fn end_wait<T, F: Track>(wait: Option<Wait<'_>>, received: &Result<Message<T, F>, RecvError>) {
    if let Ok(message) = received {
        message.end_wait();
    }
    drop(wait);
}

cloned_with_the_link! { Sender }
shown_as_the_inner! { Sender }
