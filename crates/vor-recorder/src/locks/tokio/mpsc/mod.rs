//! Channels of tokio that record their depth, and the waits for messages and for room.
//!
//! A channel has the parts of a [channel of the standard library](crate::locks::channel): counts
//! of its messages, from which a mark reads its depth, and the sites of its waits.

#[macro_use]
mod ends;
mod bounded;
mod unbounded;

use std::panic::Location;

pub use ::tokio::sync::mpsc::error;
pub use bounded::{OwnedPermit, Permit, PermitIterator, Receiver, Sender, WeakSender};
pub use unbounded::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender};

use super::waited::Unheld;
use crate::hot::named_site::ValueName;
use crate::locks::channel::depth::Alone;
use crate::locks::channel::link;
use crate::locks::channel::message::Tracked;

// One task at a time receives.
type ChannelInfo = link::ChannelInfo<Alone>;
type SenderLink = link::SenderLink<Alone>;
type ReceiverLink = link::ReceiverLink<Alone>;

/// Makes a channel with room for `buffer` messages, whose name is the place of this call.
///
/// # Panics
///
/// Panics if `buffer` is 0.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio { pub use vor_recorder::locks::tokio::mpsc; } } }
/// use vor::sync::tokio::mpsc;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let (sender, mut receiver) = mpsc::channel(16);
/// sender.send(3).await.unwrap();
/// assert_eq!(receiver.recv().await, Some(3));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
#[track_caller]
pub fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
    bounded::with_name(ValueName::Place(Location::caller()), buffer)
}

/// Makes a channel with a name and room for `buffer` messages.
///
/// # Panics
///
/// Panics if `buffer` is 0.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio { pub use vor_recorder::locks::tokio::mpsc; } } }
/// use vor::sync::tokio::mpsc;
///
/// let (sender, mut receiver) = mpsc::named("jobs", 1);
/// sender.try_send("first").unwrap();
/// assert!(sender.try_send("second").is_err());
/// assert_eq!(receiver.try_recv(), Ok("first"));
/// ```
#[must_use]
#[track_caller]
pub fn named<T>(name: &'static str, buffer: usize) -> (Sender<T>, Receiver<T>) {
    bounded::with_name(ValueName::Named(name), buffer)
}

/// Makes an unbounded channel, whose name is the place of this call.
#[must_use]
#[track_caller]
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
    unbounded::with_name(ValueName::Place(Location::caller()))
}

/// Makes an unbounded channel with a name.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio { pub use vor_recorder::locks::tokio::mpsc; } } }
/// use vor::sync::tokio::mpsc;
///
/// let (sender, mut receiver) = mpsc::unbounded_named("events");
/// sender.send(3).unwrap();
/// assert_eq!(receiver.try_recv(), Ok(3));
/// ```
#[must_use]
pub fn unbounded_named<T>(name: &'static str) -> (UnboundedSender<T>, UnboundedReceiver<T>) {
    unbounded::with_name(ValueName::Named(name))
}

/// Makes a channel with a name and room for `buffer` messages, which have flows: an arrow points
/// from the scope that sends a message to the one that receives it.
///
/// # Panics
///
/// Panics if `buffer` is 0.
///
/// # Examples
///
/// ```
/// # use vor_recorder::profile_scope;
/// # mod vor {
/// #     pub mod sync { pub mod tokio { pub use vor_recorder::locks::tokio::mpsc; } }
/// #     pub use vor_recorder::profile_scope;
/// # }
/// use vor::sync::tokio::mpsc;
///
/// let (sender, mut receiver) = mpsc::named_with_flows("jobs", 1);
/// {
///     vor::profile_scope!("order");
///     sender.try_send(3).unwrap();
/// }
/// vor::profile_scope!("work");
/// assert_eq!(receiver.try_recv(), Ok(3)); // an arrow from `order` to `work`
/// ```
#[must_use]
#[track_caller]
pub fn named_with_flows<T>(
    name: &'static str,
    buffer: usize,
) -> (Sender<T, Tracked>, Receiver<T, Tracked>) {
    bounded::with_name(ValueName::Named(name), buffer)
}

/// Makes an unbounded channel with a name, whose messages have flows.
#[must_use]
pub fn unbounded_named_with_flows<T>(
    name: &'static str,
) -> (UnboundedSender<T, Tracked>, UnboundedReceiver<T, Tracked>) {
    unbounded::with_name(ValueName::Named(name))
}

/// A wait for a message.
fn message(info: &ChannelInfo) -> Unheld<'_> {
    Unheld {
        site: &info.to_receive,
        name: info.name,
    }
}

/// A wait for room.
fn room(info: &ChannelInfo) -> Unheld<'_> {
    Unheld {
        site: &info.to_send,
        name: info.name,
    }
}
