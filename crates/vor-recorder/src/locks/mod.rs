//! Locks and channels with the interface of the standard library that record who waited for whom.
//!
//! A lock is one of the standard library, with a `HolderWord` beside it. A thread that gets the
//! lock at once stores its token in that word, and clears it before it unlocks. A thread that does
//! not get it at once opens a scope `wait: NAME` around the blocking call:
//!
//! ```text
//! lock      try_lock ── free ─▶ holder = token
//!                    └─ held ─▶ waiters + 1 ── open `wait: NAME` ── read the holder and its scope
//!                               ── block ── holder = token ── waiters − 1 ── end the flow ── close
//! unlock    waiters > 0? begin a flow ── holder = none ── unlock
//! ```
//!
//! The arguments of the scope are the names of the lock, of the thread that held it when the wait
//! began, and of that thread's innermost scope. The flow is an arrow from the unlock to the wait
//! that it ended. Inside vor, a wait opens no scope.
//!
//! A wait for a notification, for other threads at a barrier or for a permit has no holder, so its
//! scope has no arguments.
//!
//! | module | holds |
//! |---|---|
//! | `mutex`, `rwlock` | the locks |
//! | `once` | initialisations, behind a mutex |
//! | `condvar`, `barrier`, `semaphore` | waits without a holder |
//! | `channel` | channels: waits for messages and for room |
//! | `parking_lot` | the locks of the crate `parking_lot` |
//! | `holds` | how long a lock is held, where the program wants to know |
//! | `reads` | since when a thread reads which locks |
//! | `holder` | the word with the holder's token |
//! | `waiters` | the arrow from an unlock to a wait |
//! | `info` | the parts of a lock beside the lock of the standard library |
//! | `foreign` | the recording part of a lock of another language |
//! | `wait` | the scope of a wait for a lock |
//! | `blocked` | the scope of a wait without a holder |
//! | `tokio` | the same for the locks and channels of `tokio::sync`, whose waits are tasks |

#[cfg_attr(loom, allow(dead_code, reason = "the models use a part of it"))]
mod holder;
#[cfg(not(loom))]
mod holds;
#[cfg(not(loom))]
mod reads;
#[cfg(not(loom))]
mod waiters;
#[cfg(not(loom))]
mod info;
#[cfg(not(loom))]
mod wait;
#[cfg(not(loom))]
mod blocked;
#[cfg(not(loom))]
pub mod mutex;
#[cfg(not(loom))]
pub mod rwlock;
#[cfg(not(loom))]
pub mod once;
#[cfg(not(loom))]
pub mod condvar;
#[cfg(not(loom))]
pub mod barrier;
#[cfg(not(loom))]
pub mod semaphore;
pub mod channel;
#[cfg(all(feature = "parking_lot", not(loom)))]
pub mod parking_lot;
#[cfg(all(feature = "tokio", not(loom)))]
pub mod tokio;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod foreign;
#[cfg(all(test, loom))]
mod models;
