//! Channels with the interface of the crate `crossbeam-channel` that record their depth, and the
//! waits for messages and for room.
//!
//! A selection takes the ends below, which [`Receiver::as_inner`] and [`Sender::as_inner`] return.
//! It opens no scope, and its messages are counted:
//!
//! ```
//! # mod vor { pub mod sync { pub use vor_recorder::locks::channel::crossbeam; } }
//! use vor::sync::crossbeam::{bounded_named, named};
//!
//! let (jobs_in, jobs) = named("jobs");
//! let (out, results) = bounded_named("results", 1);
//! jobs_in.send(3).unwrap();
//! crossbeam_channel::select! {
//!     recv(jobs.as_inner()) -> job => assert_eq!(jobs.received(job), Ok(3)),
//!     recv(results.as_inner()) -> result => drop(results.received(result)),
//! }
//! crossbeam_channel::select! {
//!     send(out.as_inner(), out.message(9)) -> sent => out.sent(sent).unwrap(),
//! }
//! assert_eq!(results.recv(), Ok(9));
//! ```
//!
//! `after`, `at`, `never` and `tick` make receivers of `crossbeam-channel` itself.

pub use crossbeam_channel::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError, after,
    at, never, tick,
};

channels_of_many_receivers! {
    "crossbeam_channel", "crossbeam", ::crossbeam_channel, ::crossbeam_channel::Sender
}

// No deadline can be made without a clock.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod by_deadline;
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
sends_by_trying! { Sender }
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
receives_by_trying! { RecvError }

impl<T, F: Track> std::iter::FusedIterator for Iter<'_, T, F> {}
impl<T, F: Track> std::iter::FusedIterator for IntoIter<T, F> {}
