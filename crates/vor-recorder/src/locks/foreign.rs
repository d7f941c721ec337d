//! The recording part of a lock that another language implements.
//!
//! A binding keeps a [`ForeignLock`] beside its own lock, and calls it where [`Mutex`] stores the
//! holder, begins a flow, and waits:
//!
//! ```text
//! lock      token ── try ── free ─▶ locked(token)
//!                        └─ held ─▶ begin_wait ── block ── locked(token) ── end(true)
//! unlock    unlocking ── unlock
//! ```
//!
//! Nothing here has a destructor. An interpreter may end a thread in the middle of a wait, and then
//! unwinds it through the binding.
//!
//! [`Mutex`]: super::mutex::Mutex

use std::mem::ManuallyDrop;

use super::blocked::{TO_GO_ON, begin_wait};
use super::info::LockInfo;
use super::wait::{Absent, Wait};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::hot::record_state;
use crate::hot::scope::Scope;
use crate::hot::scope::manual::ManualScope;
use crate::hot::thread::ThreadToken;

/// The recording part of a lock that another language implements.
#[derive(Debug)]
pub struct ForeignLock {
    info: LockInfo,
    to_go_on: NamedSite,
}

/// The name of a lock, which a binding has at hand when a wait is recorded.
#[derive(Clone, Copy, Debug)]
pub enum ForeignName {
    /// A name that the program chose.
    Named(&'static str),
    /// The file and the 1-based line at which the lock was made.
    Place(&'static str, u32),
}

/// Identifies a thread that is about to lock.
#[derive(Clone, Copy, Debug)]
pub struct LockerToken(ThreadToken);

/// A wait for a lock that has begun. It leaves no record before [`end`](Self::end).
#[must_use = "a wait that is not ended leaves no record"]
#[derive(Debug)]
pub struct ForeignWait<'a>(ManuallyDrop<Wait<'a>>);

impl From<ForeignName> for ValueName {
    fn from(name: ForeignName) -> Self {
        match name {
            ForeignName::Named(name) => Self::Named(name),
            ForeignName::Place(file, line) => Self::Line(file, line),
        }
    }
}

impl LockerToken {
    /// Returns the token of the calling thread. A thread that has recorded nothing yet may be asked
    /// for its name by the function of [`name_threads_by`], so the thread holds no lock that this
    /// function takes.
    ///
    /// [`name_threads_by`]: crate::hot::thread::name_threads_by
    #[inline(always)]
    pub fn of_this_thread() -> Self {
        Self(LockInfo::own_token())
    }
}

impl ForeignLock {
    /// Makes the recording part of an unlocked lock.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_holds(false)
    }

    /// Makes the recording part of an unlocked lock, of which it is recorded how long it is held if
    /// `holds` is set.
    #[must_use]
    pub const fn with_holds(holds: bool) -> Self {
        Self {
            // The binding passes the name to each wait and each unlock.
            info: LockInfo::with_holds(ValueName::Named(""), holds),
            to_go_on: NamedSite::new(TO_GO_ON),
        }
    }

    /// Stores the holder, after the thread has locked.
    #[inline(always)]
    pub fn locked(&self, token: LockerToken) {
        self.info.begin_hold(token.0);
    }

    /// Removes the holder, before a thread unlocks. Begins a flow if a thread waits. `name` is
    /// called only if a hold is recorded, and always returns the same.
    #[inline(always)]
    pub fn unlocking(&self, name: impl FnOnce() -> ForeignName) {
        self.info.end_hold_of(|| name().into());
    }

    /// Begins a wait for the lock, which another thread holds. `name` is called only if the wait is
    /// recorded, and always returns the same.
    pub fn begin_wait(&self, name: impl FnOnce() -> ForeignName) -> ForeignWait<'_> {
        let site = || self.info.site_of(name().into());
        ForeignWait(ManuallyDrop::new(Wait::begin_at(
            &self.info,
            Absent::Released,
            site,
        )))
    }

    /// Begins a wait for a notification, which has no holder. `name` is as in
    /// [`begin_wait`](Self::begin_wait).
    pub fn begin_notification(&self, name: impl FnOnce() -> ForeignName) -> ManualScope {
        let scope = match record_state::is_on() {
            true => begin_wait(&self.to_go_on, name().into()),
            false => Scope::off(),
        };
        ManualScope::from_scope(scope)
    }

    /// Forgets the holder and the threads that wait. The child of a fork has neither.
    pub fn forget_threads(&self) {
        self.info.forget_threads();
    }
}

impl Default for ForeignLock {
    fn default() -> Self {
        Self::new()
    }
}

impl ForeignWait<'_> {
    /// Ends the wait. If the thread has the lock now, the flow from the unlock ends in it.
    pub fn end(self, has_lock: bool) {
        let wait = ManuallyDrop::into_inner(self.0);
        match has_lock {
            true => drop(wait),
            false => wait.give_up(),
        }
    }
}
