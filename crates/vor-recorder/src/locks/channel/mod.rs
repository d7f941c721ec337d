//! Channels that record their depth, and the waits for messages and for room.
//!
//! A channel is one of the standard library, of crossbeam or of flume. Each end has a link beside
//! it, which counts its messages and has the call sites of its waits:
//!
//! ```text
//! send      try ── room ─▶ count
//!               └─ full ─▶ open `wait: NAME to send` ── the blocking call ── close ── count
//! receive   try ── a message ─▶ count ── end its flow
//!               └─ empty ─────▶ open `wait: NAME to receive` ── the blocking call ── close ── …
//! ```
//!
//! The standard library's channels have one receiver, so the count says whether there is a message,
//! and `recv` tries nothing before it. Crossbeam's channels say it themselves: see `by_deadline`.
//!
//! The items here are those of [`std::sync::mpsc`].
//!
//! | module | holds |
//! |---|---|
//! | `depth` | the number of messages in a channel |
//! | `link` | the parts of a channel beside the channel below |
//! | `message` | a message, alone or with a flow |
//! | `ends` | the methods that the ends of several kinds of channels have in common |
//! | `standard`, `crossbeam`, `flume` | the channels |
//! | `make` | one macro for all of them |

#[cfg_attr(loom, allow(dead_code, reason = "the models use a part of it"))]
pub(super) mod depth;
#[cfg(not(loom))]
pub(super) mod link;
#[cfg(not(loom))]
pub(super) mod message;
#[cfg(not(loom))]
#[macro_use]
mod ends;
#[cfg(not(loom))]
mod standard;
#[cfg(all(feature = "crossbeam", not(loom)))]
pub mod crossbeam;
#[cfg(all(feature = "flume", not(loom)))]
pub mod flume;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod make;

#[cfg(not(loom))]
pub use self::message::{Message, Track, Tracked, Untracked};
#[cfg(not(loom))]
pub use self::standard::{
    IntoIter, Iter, Receiver, RecvError, RecvTimeoutError, SendError, Sender, SyncSender, TryIter,
    TryRecvError, TrySendError, channel, named, named_with_flows, sync_channel, sync_named,
    sync_named_with_flows,
};
