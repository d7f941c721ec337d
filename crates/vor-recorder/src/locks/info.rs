//! The parts of a lock beside the lock below: its name, its holder, its waiters.
//!
//! A rare case that runs while a guard is held is an `extern "C"` function, which cannot unwind. A
//! function that can unwind has a landing pad behind its call, where the lock below is unlocked.
//! Compilers may store the guard for it, and the unlock's atomic operation waits for these stores.
//! A panic in such a function, which has none, would end the process.

use vor_capture::model::catalog::SiteId;
use vor_capture::model::waits::{ARG_NAMES, HELD, PREFIX};

use super::holder::HolderWord;
use super::holds::Holds;
use super::waiters::Waiters;
use crate::hot::args::{KIND_BITS, TEXT};
use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::hot::thread::{self, ThreadToken};

/// The scope of a wait for a lock.
pub(super) const SHAPE: &Shape = &Shape {
    prefix: PREFIX,
    suffix: "",
    category: HELD,
    arg_names: &ARG_NAMES,
    kinds: TEXT | TEXT << KIND_BITS | TEXT << (2 * KIND_BITS),
};

/// The parts of a lock beside the lock below.
#[derive(Debug)]
pub struct LockInfo {
    name: ValueName,
    site: NamedSite,
    pub(super) holder: HolderWord,
    pub(super) waiters: Waiters,
    holds: Holds,
}

impl LockInfo {
    pub(super) const fn new(name: ValueName) -> Self {
        Self::with_holds(name, false)
    }

    /// Makes the parts of a lock of which it is recorded how long it is held, if `holds` is set.
    pub(super) const fn with_holds(name: ValueName, holds: bool) -> Self {
        Self {
            name,
            site: NamedSite::new(SHAPE),
            holder: HolderWord::new(),
            waiters: Waiters::new(holds),
            holds: Holds::new(holds),
        }
    }

    /// The calling thread holds the lock now.
    #[inline(always)]
    pub(super) fn begin_hold(&self, token: ThreadToken) {
        self.holder.set(token);
        self.holds.begin();
    }

    /// The calling thread, which may be one of several readers, holds the lock now.
    #[inline(always)]
    pub(super) fn begin_read(&self, token: ThreadToken) {
        self.holder.set(token);
        self.holds.begin_read();
    }

    /// The calling thread, which may be one of several readers, is about to unlock.
    #[inline(always)]
    pub(super) fn end_read(&self, token: ThreadToken) {
        if self.waiters.need_care() {
            self.end_read_slow();
        }
        self.holder.clear_own(token);
    }

    #[cold]
    #[inline(never)]
    extern "C" fn end_read_slow(&self) {
        self.holds.end_read(|| self.name);
        self.waiters.before_unlock();
    }

    /// The calling thread, which may be one of several readers, is the only holder now.
    #[cfg(feature = "parking_lot")]
    pub(super) fn upgrade_hold(&self, token: ThreadToken) {
        self.holds.end_read(|| self.name);
        self.begin_hold(token);
    }

    /// The calling thread, the only holder, is about to unlock.
    #[inline(always)]
    pub(super) fn end_hold(&self) {
        self.end_hold_of(|| self.name);
    }

    /// Does the same for a lock whose name is elsewhere.
    #[inline(always)]
    pub(super) fn end_hold_of(&self, name: impl FnOnce() -> ValueName) {
        // One branch: with another, compilers no longer keep a guard in registers.
        if self.waiters.need_care() {
            self.end_hold_slow(name);
        }
        self.holder.clear();
    }

    #[cold]
    #[inline(never)]
    extern "C" fn end_hold_slow(&self, name: impl FnOnce() -> ValueName) {
        self.holds.end(name);
        self.waiters.before_unlock();
    }

    /// Returns the name of the lock.
    pub(super) fn name(&self) -> ValueName {
        self.name
    }

    /// Returns the token of the calling thread, for a lock that it is about to take.
    #[inline(always)]
    pub(super) fn own_token() -> ThreadToken {
        if cfg!(feature = "off") {
            return ThreadToken::NONE;
        }
        thread::own_token()
    }

    /// Returns the id of the site of this lock's waits. Locks of one name share it.
    pub(super) fn site(&self) -> SiteId {
        self.site_of(self.name)
    }

    /// Does the same for a lock whose name is elsewhere.
    pub(super) fn site_of(&self, name: ValueName) -> SiteId {
        self.site.id(name)
    }

    /// Forgets the holder and the threads that wait.
    pub(super) fn forget_threads(&self) {
        self.holder.clear();
        self.waiters.forget();
    }
}
