//! Whether anything is recorded: the words that every scope looks at.

use crate::clock;
use crate::ring::MAX_SITE;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU32};

/// Ids of sites below this one may take the fast path: all there are while recording is on and [`clock::hardware_ticks`] is the clock, else none, so
/// that one comparison tells whether a site is registered and a scope is to be recorded. Written by [`set`], read relaxed by every scope; what a
/// scope needs beyond it, it finds by its own means.
static FAST_SITES: AtomicU32 = AtomicU32::new(0);

/// Whether recording is on, with whatever clock. Written by [`set`], read relaxed by everything that is recorded.
static ON: AtomicBool = AtomicBool::new(false);

/// Whether this process is the child of a fork and has no recorder of its own yet. Set by the fork handler, cleared by the first scope or mark; looked
/// at only on cold paths, since the handler also takes the thread's state away.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Returns whether scopes are recorded.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Returns whether a scope at the site `id` may take the fast path: it is registered, recording is on, and the clock is the hardware's.
#[inline(always)]
pub(crate) fn is_fast(id: u32) -> bool {
    id < FAST_SITES.load(Ordering::Relaxed)
}

/// Switches recording on or off.
pub(crate) fn set(on: bool) {
    let fast = if on && clock::is_hardware() {
        MAX_SITE + 1
    } else {
        0
    };
    ON.store(on, Ordering::SeqCst);
    FAST_SITES.store(fast, Ordering::SeqCst);
}

/// Returns whether the recorder has to be started anew.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Acquire)
}

/// Notes whether the recorder has to be started anew.
pub(crate) fn set_forked(forked: bool) {
    FORKED.store(forked, Ordering::Release);
}
