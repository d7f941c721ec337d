//! Whether anything is recorded: the one word that every scope looks at.

use crate::clock;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU32};

const OFF: u32 = 0;
/// On, and [`clock::hardware_ticks`] is the clock: what the hot path is made for.
const ON_HARDWARE: u32 = 1;
/// On, with another clock, which the cold path reads.
const ON_OTHER: u32 = 2;

/// Written by `enable` and `disable`, read relaxed by every scope. What a scope needs beyond it, it finds by its own means.
static MODE: AtomicU32 = AtomicU32::new(OFF);

/// Whether this process is the child of a fork and has no recorder of its own yet. Set by the fork handler, cleared by the first scope or mark; looked
/// at only on cold paths, since the handler also takes the thread's state away.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Returns whether scopes are recorded.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    MODE.load(Ordering::Relaxed) != OFF
}

/// How a scope should begin.
pub(crate) enum Way {
    /// Not at all.
    Off,
    /// With the hardware's clock.
    Hardware,
    /// With the other clock.
    Other,
}

/// Returns how a scope should begin.
#[inline(always)]
pub(crate) fn way() -> Way {
    match MODE.load(Ordering::Relaxed) {
        OFF => Way::Off,
        ON_HARDWARE => Way::Hardware,
        _ => Way::Other,
    }
}

/// Switches recording on or off.
pub(crate) fn set(on: bool) {
    let mode = match on {
        false => OFF,
        true if clock::is_hardware() => ON_HARDWARE,
        true => ON_OTHER,
    };
    MODE.store(mode, Ordering::SeqCst);
}

/// Returns whether the recorder has to be started anew.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Acquire)
}

/// Notes whether the recorder has to be started anew.
pub(crate) fn set_forked(forked: bool) {
    FORKED.store(forked, Ordering::Release);
}
