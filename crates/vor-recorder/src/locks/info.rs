//! The parts of a lock beside the lock of the standard library: its name, its holder, its waiters.

use std::panic::Location;

use vor_capture::filled;
use vor_capture::model::catalog::{SiteId, SiteInfo};
use vor_capture::model::measures::Measures;

use super::holder::HolderWord;
use crate::hot::args::{KIND_BITS, TEXT};
use crate::hot::callsite::Kinds;
use crate::hot::flow::{FlowId, flow};
use crate::hot::ring::{MAX_SITE, SITE_BITS};
use crate::hot::thread::{self, ThreadToken};
use crate::hot::{callsite, record_state};
use crate::sync::Ordering;
use crate::sync::global::{AtomicU32, AtomicU64};

/// The text before the name of a lock in the name of its waits.
pub(super) const PREFIX: &str = "wait: ";

/// Names of the arguments of a wait. All of them are texts.
pub(super) const ARG_NAMES: [&str; 3] = ["lock", "holder", "holder_scope"];

const KINDS: Kinds = TEXT | TEXT << KIND_BITS | TEXT << (2 * KIND_BITS);

/// The name of a lock.
#[derive(Clone, Copy, Debug)]
pub(super) enum LockName {
    /// A name that the program chose.
    Named(&'static str),
    /// The place at which the lock was made.
    Place(&'static Location<'static>),
}

/// The parts of a lock beside the lock of the standard library.
#[derive(Debug)]
pub(super) struct LockInfo {
    name: LockName,
    pub(super) holder: HolderWord,
    /// Threads that wait. Changed by each of them, read by the holder before it unlocks, both
    /// relaxed: a holder that misses a waiter only begins no flow.
    waiters: AtomicU32,
    /// The site of the waits in the low [`SITE_BITS`], and the measures that it is registered for
    /// above them; 0 before the first wait. Relaxed: the name behind an id is read under the
    /// registry's lock.
    site: AtomicU32,
    /// The flow that the last unlock began, 0 if none did or a waiter has taken it. Written before
    /// the unlock and read after the next lock (relaxed), so the lock orders it.
    released: AtomicU64,
}

impl LockInfo {
    pub(super) const fn new(name: LockName) -> Self {
        Self {
            name,
            holder: HolderWord::new(),
            waiters: AtomicU32::new(0),
            site: AtomicU32::new(0),
            released: AtomicU64::new(0),
        }
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
    /// holds the lock now.
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
        let measures = record_state::measures();
        let word = self.site.load(Ordering::Relaxed);
        let id = word & MAX_SITE;
        if id != 0 && word >> SITE_BITS == u32::from(measures.bits()) {
            return SiteId(id);
        }
        thread::while_busy(|| self.register(measures))
    }

    #[cold]
    fn register(&self, measures: Measures) -> SiteId {
        let (name, file, line) = match self.name {
            LockName::Named(name) => (format!("{PREFIX}{name}"), "", 0),
            LockName::Place(place) => {
                let (file, line) = (place.file(), place.line());
                (format!("{PREFIX}{file}:{line}"), file, line)
            }
        };
        let info = || {
            filled!(SiteInfo {
                file: file.into(),
                line,
                category: "lock".into(),
                arg_names: ARG_NAMES.map(Into::into).to_vec(),
            })
        };
        let id = callsite::lock().name_id_with(&name, KINDS, measures, info);
        let word = id | u32::from(measures.bits()) << SITE_BITS;
        self.site.store(word, Ordering::Relaxed);
        SiteId(id)
    }
}
