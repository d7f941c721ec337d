//! Whether anything is recorded: the one word that every scope looks at.

use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

/// Nothing is recorded.
pub(crate) const OFF: u32 = 0;
/// Scopes are recorded.
pub(crate) const ON: u32 = 1;
/// The process was forked while recording was on; the next scope or mark starts the recorder anew in the child.
pub(crate) const REARM: u32 = 2;

/// Written by `enable`, `disable` and the fork handler, read relaxed by every scope. What a scope needs beyond it, it finds by its own means.
static MODE: AtomicU32 = AtomicU32::new(OFF);

/// Returns whether a scope should record, after starting the recorder anew where that is due.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    match mode() {
        OFF => false,
        ON => true,
        _ => rearm(),
    }
}

/// Returns the current mode.
#[inline(always)]
pub(crate) fn mode() -> u32 {
    MODE.load(Ordering::Relaxed)
}

/// Sets the mode.
pub(crate) fn set(mode: u32) {
    MODE.store(mode, Ordering::SeqCst);
}

#[cold]
#[inline(never)]
fn rearm() -> bool {
    crate::drain::rearm_after_fork();
    mode() == ON
}
