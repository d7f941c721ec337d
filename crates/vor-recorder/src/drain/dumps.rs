//! Requests to write what a sink keeps in memory: of the watchdog, of a panic or a crash, of a
//! signal, and of the sink's own limits.
//!
//! A [`Request`] is due at the next pass of the drain, so the dump has everything that was recorded
//! before the request. The sink takes the request when that pass ends. Until then it is not
//! replaced, and later requests are counted.

use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use crate::clock;
use crate::os::signals;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU8, AtomicU64};

/// The cause of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cause {
    /// A call of the program.
    Call = 0,
    /// SIGUSR2.
    Signal = 1,
    /// A frame or a scope took longer than a limit.
    Slow = 2,
    /// The watchdog found a stall.
    Stall = 4,
    /// A panic.
    Panic = 8,
    /// A signal that ends the process because of a fault.
    Crash = 16,
    /// The end of the process.
    Exit = 32,
}

/// A set of causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Causes(u8);

impl Causes {
    pub(crate) fn with(self, cause: Cause) -> Self {
        Self(self.0 | cause as u8)
    }

    pub(crate) fn contains(self, cause: Cause) -> bool {
        self.0 & cause as u8 != 0
    }
}

/// A dump that is due.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) cause: Cause,
    pub(crate) reason: String,
    /// When it was made.
    pub(crate) ticks: u64,
}

impl Request {
    pub(crate) fn new(cause: Cause, reason: String) -> Self {
        Self {
            cause,
            reason,
            ticks: clock::ticks(),
        }
    }

    /// Returns whether the process may end soon, so that no thread of its own can write the dump.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self.cause, Cause::Panic | Cause::Crash | Cause::Exit)
    }

    /// Returns whether there may be any number of such requests.
    pub(crate) fn is_limited(&self) -> bool {
        matches!(self.cause, Cause::Slow | Cause::Stall | Cause::Panic)
    }
}

/// The causes that a sink listens to. Written by the sink when it begins, read by anyone, relaxed:
/// it orders nothing.
static CAUSES: AtomicU8 = AtomicU8::new(0);
/// Whether [`PENDING`] has a request. Written under its lock, read without it, relaxed: a request
/// that one pass does not see is seen by the next.
static IS_PENDING: AtomicBool = AtomicBool::new(false);
/// Whether the request was there when the pass began. Accessed with the engine, relaxed.
static IS_DUE: AtomicBool = AtomicBool::new(false);
static PENDING: Mutex<Option<Request>> = Mutex::new(None);
/// Requests since the last one was taken that had to give way to another. Relaxed: a dump counts
/// those that it sees, and the next one the others.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// Longest sleep of the worker while a signal may request a dump.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// Makes requests of these causes from now on.
pub(crate) fn listen(causes: Causes) {
    CAUSES.store(causes.0, Ordering::Relaxed);
    if causes.contains(Cause::Signal) {
        signals::listen(signals::UserSignal::Dump);
    }
}

fn listens_to(cause: Cause) -> bool {
    CAUSES.load(Ordering::Relaxed) & cause as u8 != 0
}

/// Requests a dump if a sink listens to this cause and no request is pending. Only then the reason
/// is made.
pub(crate) fn request(cause: Cause, reason: impl FnOnce() -> String) {
    if !listens_to(cause) {
        return;
    }
    // A thread that crashed may hold the lock.
    let pending = match PENDING.try_lock() {
        Ok(pending) => Some(pending),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    match pending {
        Some(mut pending) if pending.is_none() => {
            *pending = Some(Request::new(cause, reason()));
            IS_PENDING.store(true, Ordering::Relaxed);
        }
        _ => {
            MISSED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns whether a request was made.
pub(super) fn is_pending() -> bool {
    IS_PENDING.load(Ordering::Relaxed)
}

/// A pass of the drain begins: what it delivers was recorded before any later request.
pub(super) fn begin_pass() {
    if signals::take_request(signals::UserSignal::Dump) {
        request(Cause::Signal, || "SIGUSR2".to_owned());
    }
    if is_pending() {
        IS_DUE.store(true, Ordering::Relaxed);
    }
}

/// Takes the request that is due, and the number of those that came after it.
pub(crate) fn take_due() -> Option<(Request, u64)> {
    if IS_DUE.load(Ordering::Relaxed) {
        return take();
    }
    None
}

/// Takes the request that was made, and the number of those that came after it.
pub(crate) fn take() -> Option<(Request, u64)> {
    if !is_pending() {
        return None;
    }
    IS_DUE.store(false, Ordering::Relaxed);
    let mut pending = crate::sync::lock(&PENDING);
    IS_PENDING.store(false, Ordering::Relaxed);
    Some((pending.take()?, MISSED.swap(0, Ordering::Relaxed)))
}

/// Limits a sleep of the worker while a signal may request a dump.
pub(super) fn longest_sleep(longest: Duration) -> Duration {
    if listens_to(Cause::Signal) {
        longest.min(MAX_SLEEP)
    } else {
        longest
    }
}
