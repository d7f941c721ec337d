//! The parts of a lock beside the lock of the standard library: its name, its holder, its waiters.

use vor_capture::model::catalog::SiteId;

use super::holder::HolderWord;
use super::wait::PREFIX;
use crate::hot::args::{KIND_BITS, TEXT};
use crate::hot::flow::{FlowId, flow};
use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::hot::record_state;
use crate::hot::thread::{self, ThreadToken};
use crate::sync::Ordering;
use crate::sync::global::{AtomicU32, AtomicU64};

/// Names of the arguments of a wait. All of them are texts.
pub(super) const ARG_NAMES: [&str; 3] = ["lock", "holder", "holder_scope"];

const SHAPE: &Shape = &Shape {
    prefix: PREFIX,
    suffix: "",
    category: "lock",
    arg_names: &ARG_NAMES,
    kinds: TEXT | TEXT << KIND_BITS | TEXT << (2 * KIND_BITS),
};

/// The parts of a lock beside the lock of the standard library.
#[derive(Debug)]
pub(super) struct LockInfo {
    name: ValueName,
    site: NamedSite,
    pub(super) holder: HolderWord,
    /// Threads that wait. Changed by each of them, read by the holder before it unlocks, both
    /// relaxed: a holder that misses a waiter only begins no flow.
    waiters: AtomicU32,
    /// The flow that the last unlock began, 0 if none did or a waiter has taken it. Written before
    /// the unlock and read after the next lock (relaxed), so the lock orders it.
    released: AtomicU64,
}

impl LockInfo {
    pub(super) const fn new(name: ValueName) -> Self {
        Self {
            name,
            site: NamedSite::new(SHAPE),
            holder: HolderWord::new(),
            waiters: AtomicU32::new(0),
            released: AtomicU64::new(0),
        }
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

    /// Begins a flow in the innermost scope of the calling thread, which is about to unlock, if a
    /// thread waits.
    #[inline(always)]
    pub(super) fn before_unlock(&self) {
        if !cfg!(feature = "off") && self.waiters.load(Ordering::Relaxed) != 0 {
            self.begin_flow();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_flow(&self) {
        if record_state::keeps_spans() && !thread::is_busy() {
            self.released.store(flow().number(), Ordering::Relaxed);
        }
    }

    /// Ends the flow that the last unlock began, if no other waiter has. Called by a waiter that
    /// holds the lock now, or has seen that its holder is done.
    pub(super) fn end_flow(&self) {
        FlowId::of_number(self.released.swap(0, Ordering::Relaxed)).end();
    }

    /// Counts the calling thread as waiting, until [`remove_waiter`](Self::remove_waiter).
    pub(super) fn add_waiter(&self) {
        self.waiters.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove_waiter(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
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
        self.waiters.store(0, Ordering::Relaxed);
        self.released.store(0, Ordering::Relaxed);
    }
}
