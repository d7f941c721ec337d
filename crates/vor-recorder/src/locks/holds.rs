//! How long a lock is held, for locks whose program wants to know.
//!
//! A hold is a task `hold: NAME` from the lock to the unlock. Unlike a scope it may begin in one
//! scope and end in another.

use vor_capture::model::waits::{HOLD, HOLD_PREFIX};

use crate::clock;
use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::hot::task::{new_id, push_task};
use crate::hot::{record_state, thread};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// The tasks of holds.
const SHAPE: &Shape = &Shape {
    prefix: HOLD_PREFIX,
    suffix: "",
    category: HOLD,
    arg_names: &[],
    kinds: 0,
};

/// The current hold of a lock by its only holder.
#[derive(Debug)]
pub(super) struct Holds {
    is_on: bool,
    site: NamedSite,
    /// When it began, in ticks; 0 if it is not recorded. Written and read by the holder (relaxed:
    /// the lock orders them). Readers write it as well, and none reads it.
    began: AtomicU64,
}

impl Holds {
    pub(super) const fn new(is_on: bool) -> Self {
        Self {
            is_on: is_on && !cfg!(feature = "off"),
            site: NamedSite::new(SHAPE),
            began: AtomicU64::new(0),
        }
    }

    /// The calling thread holds the lock now.
    #[inline(always)]
    pub(super) fn begin(&self) {
        if self.is_on {
            self.begin_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_slow(&self) {
        let is_recorded = record_state::keeps_spans() && !thread::is_busy();
        let ticks = if is_recorded { clock::ticks() } else { 0 };
        self.began.store(ticks, Ordering::Relaxed);
    }

    /// The calling thread, the only holder, is about to unlock. `name` is called only if the hold
    /// is recorded.
    pub(super) fn end(&self, name: impl FnOnce() -> ValueName) {
        let began = self.began.load(Ordering::Relaxed);
        if began != 0 && record_state::keeps_spans() && !thread::is_busy() {
            let end_ticks = clock::ticks();
            push_task(self.site.id(name()).0, new_id(), began, end_ticks);
        }
    }
}
