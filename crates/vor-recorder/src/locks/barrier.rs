//! A barrier that records the waits for the last thread.
//!
//! It is not that of the standard library, which does not report whether a thread will block.

use std::fmt;
use std::panic::Location;
use std::sync::{self, PoisonError};

use super::blocked::{TO_GO_ON, begin_wait};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::sync::lock;

/// A barrier with the interface of [`std::sync::Barrier`] that records the waits for it.
///
/// A thread that is not the last to come while recording is on opens a scope `wait: NAME` until the
/// last one comes.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the barrier was
/// made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::barrier::Barrier; } }
/// use vor::sync::Barrier;
///
/// static LOADED: Barrier = Barrier::named("loaded", 2);
///
/// let other = std::thread::spawn(|| LOADED.wait().is_leader());
/// let is_leader = LOADED.wait().is_leader();
/// assert_ne!(is_leader, other.join().unwrap());
/// ```
pub struct Barrier {
    name: ValueName,
    site: NamedSite,
    threads: usize,
    round: sync::Mutex<Round>,
    ended: sync::Condvar,
}

/// The round in which threads come together.
#[derive(Debug)]
struct Round {
    /// Threads that have come.
    count: usize,
    /// Rounds that have ended. It wraps.
    number: usize,
}

/// The result of [`Barrier::wait`].
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl Barrier {
    /// Makes a barrier for a number of threads, whose name is the place of this call. A barrier for
    /// no thread is one for a single thread.
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn new(threads: usize) -> Self {
        Self::with_name(ValueName::Place(Location::caller()), threads)
    }

    /// Makes a barrier with a name for a number of threads.
    #[must_use]
    #[inline]
    pub const fn named(name: &'static str, threads: usize) -> Self {
        Self::with_name(ValueName::Named(name), threads)
    }

    const fn with_name(name: ValueName, threads: usize) -> Self {
        Self {
            name,
            site: NamedSite::new(TO_GO_ON),
            threads,
            round: sync::Mutex::new(Round {
                count: 0,
                number: 0,
            }),
            ended: sync::Condvar::new(),
        }
    }

    /// Waits until all threads have come. The last one is the leader and does not wait. The barrier
    /// can then be used again.
    pub fn wait(&self) -> BarrierWaitResult {
        let mut round = lock(&self.round);
        round.count += 1;
        if round.count >= self.threads {
            *round = Round {
                count: 0,
                number: round.number.wrapping_add(1),
            };
            self.ended.notify_all();
            return BarrierWaitResult { is_leader: true };
        }
        let number = round.number;
        // Dropped after the lock, which other threads need.
        let _scope = begin_wait(&self.site, self.name);
        let waited = self.ended.wait_while(round, |round| round.number == number);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        BarrierWaitResult { is_leader: false }
    }
}

impl BarrierWaitResult {
    /// Returns whether the thread was the last to come in its round.
    #[must_use]
    pub const fn is_leader(&self) -> bool {
        self.is_leader
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = f.debug_struct("BarrierWaitResult");
        result.field("is_leader", &self.is_leader).finish()
    }
}
