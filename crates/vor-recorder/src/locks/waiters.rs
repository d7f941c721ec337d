//! The arrow from an unlock to the wait that it ended.

use crate::hot::flow::{FlowId, flow};
use crate::hot::{record_state, thread};
use crate::sync::Ordering;
use crate::sync::global::{AtomicU32, AtomicU64};

/// The number of those that wait for a lock, and the flow from its last unlock.
#[derive(Debug)]
pub(super) struct Waiters {
    /// The number, and [`HOLDS`]. Changed by each waiter, read by the holder before it unlocks,
    /// both relaxed: a holder that misses a waiter only begins no flow.
    count: AtomicU32,
    /// The flow that the last unlock began, 0 if none did or a waiter has taken it. Written before
    /// the unlock and read after the next lock (relaxed), so the lock orders it.
    released: AtomicU64,
}

/// The bit of a lock whose holds are recorded, so that an unlock has one thing to look at.
const HOLDS: u32 = 1 << 31;

impl Waiters {
    /// Makes the part of a lock whose holds are recorded, if `holds` is set.
    pub(super) const fn new(holds: bool) -> Self {
        Self {
            count: AtomicU32::new(if holds { HOLDS } else { 0 }),
            released: AtomicU64::new(0),
        }
    }

    /// Returns whether an unlock has more to do than to unlock: a thread waits, or holds are
    /// recorded.
    #[inline(always)]
    pub(super) fn need_care(&self) -> bool {
        !cfg!(feature = "off") && self.count.load(Ordering::Relaxed) != 0
    }

    /// Begins a flow in the innermost scope of the calling thread, which is about to unlock, if
    /// there is a waiter.
    #[inline(always)]
    pub(super) fn before_unlock(&self) {
        if self.need_care() {
            self.begin_flow();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_flow(&self) {
        let waiting = self.count.load(Ordering::Relaxed) & !HOLDS;
        if waiting != 0 && record_state::keeps_spans() && !thread::is_busy() {
            self.released.store(flow().number(), Ordering::Relaxed);
        }
    }

    /// Ends the flow that the last unlock began, if no other waiter has. Called by a waiter that
    /// holds the lock now, or has seen that its holder is done.
    pub(super) fn end_flow(&self) {
        FlowId::of_number(self.released.swap(0, Ordering::Relaxed)).end();
    }

    /// Counts a waiter, until [`remove`](Self::remove).
    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Forgets all waiters, of which a forked child has none.
    pub(super) fn forget(&self) {
        self.count.fetch_and(HOLDS, Ordering::Relaxed);
        self.released.store(0, Ordering::Relaxed);
    }

    /// Removes a waiter that gives up. If it was the last one, nobody ends the flow of an unlock
    /// before: without this, a later waiter would end it.
    pub(super) fn remove_failed(&self) {
        if self.count.fetch_sub(1, Ordering::Relaxed) & !HOLDS == 1 {
            self.released.store(0, Ordering::Relaxed);
        }
    }
}
