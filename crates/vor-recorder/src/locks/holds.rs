//! How long a lock is held, for locks whose program wants to know.
//!
//! A hold is a task `hold: NAME` from the lock to the unlock, and `hold: NAME to read` for one of
//! several readers. Unlike a scope it may begin in one scope and end in another.

use vor_capture::model::waits::{HOLD, HOLD_PREFIX};

use super::reads;
use crate::clock;
use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::hot::task::{new_id, push_task};
use crate::hot::{record_state, thread};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// The tasks of holds.
const ALONE: &Shape = &Shape {
    prefix: HOLD_PREFIX,
    suffix: "",
    category: HOLD,
    arg_names: &[],
    kinds: 0,
};

/// The tasks of readers' holds.
const TO_READ: &Shape = &Shape {
    suffix: " to read",
    ..*ALONE
};

/// The current hold of a lock by its only holder, and what the holds of its readers share.
#[derive(Debug)]
pub(super) struct Holds {
    is_on: bool,
    alone: NamedSite,
    to_read: NamedSite,
    /// When the hold of the only holder began, in ticks; 0 if it is not recorded. Written and read
    /// by that holder (relaxed: the lock orders them).
    began: AtomicU64,
}

impl Holds {
    pub(super) const fn new(is_on: bool) -> Self {
        Self {
            is_on: is_on && !cfg!(feature = "off"),
            alone: NamedSite::new(ALONE),
            to_read: NamedSite::new(TO_READ),
            began: AtomicU64::new(0),
        }
    }

    /// Returns whether holds are recorded while recording is on.
    #[cfg(feature = "tokio")]
    #[inline(always)]
    pub(super) fn are_on(&self) -> bool {
        self.is_on
    }

    /// The calling thread, the only holder, holds the lock now.
    #[inline(always)]
    pub(super) fn begin(&self) {
        if self.is_on {
            self.begin_slow();
        }
    }

    #[cold]
    #[inline(never)]
    extern "C" fn begin_slow(&self) {
        self.began.store(begin_ticks(), Ordering::Relaxed);
    }

    /// The calling thread, the only holder, is about to unlock. `name` is called only if the hold
    /// is recorded.
    pub(super) fn end(&self, name: impl FnOnce() -> ValueName) {
        push(&self.alone, self.began.load(Ordering::Relaxed), name);
    }

    /// The calling thread, which may be one of several readers, holds the lock now. It is the
    /// thread that unlocks.
    #[inline(always)]
    pub(super) fn begin_read(&self) {
        if self.is_on {
            self.begin_read_slow();
        }
    }

    #[cold]
    #[inline(never)]
    extern "C" fn begin_read_slow(&self) {
        reads::push(self.address(), begin_ticks());
    }

    /// The calling thread, which may be one of several readers, is about to unlock.
    pub(super) fn end_read(&self, name: impl FnOnce() -> ValueName) {
        if self.is_on {
            self.end_read_since(reads::take(self.address()), name);
        }
    }

    /// A reader whose hold began at these ticks (0 if it is not recorded) is about to unlock.
    pub(super) fn end_read_since(&self, began: u64, name: impl FnOnce() -> ValueName) {
        push(&self.to_read, began, name);
    }

    /// Identifies the lock while it is held.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// Returns the ticks at which a hold begins, or 0 if it is not recorded.
pub(super) fn begin_ticks() -> u64 {
    if record_state::keeps_spans() && !thread::is_busy() {
        clock::ticks()
    } else {
        0
    }
}

/// Records a hold that ends now.
fn push(site: &NamedSite, began: u64, name: impl FnOnce() -> ValueName) {
    if began != 0 && record_state::keeps_spans() && !thread::is_busy() {
        let end_ticks = clock::ticks();
        push_task(site.id(name()).0, new_id(), began, end_ticks);
    }
}
