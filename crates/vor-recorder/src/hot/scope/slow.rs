//! The slow path of scopes: one function for each operation, which chooses the mode.
//!
//! A scope comes here at the first use of a site or a thread, with a full ring, after more than 32
//! bits of ticks, with a clock that stepped back or is not the hardware's, with a `tracing`
//! subscriber or an NVTX tool, and where more than the duration is measured.
//!
//! The functions that the fast path calls cannot unwind, and take and return values that fit
//! registers. So the compiler keeps the guard of a scope in registers too, though these calls stand
//! beside it. In each mode the usual case is tried first; the module `mixed` handles the others, by
//! a call in tail position, so that the usual case saves no registers for it. Only a `tracing`
//! subscriber might panic in here, and `tracing_out` catches that.

use super::{counted, measured, mixed, nvtx};
use crate::hot::callsite::{CallSite, Kinds};
use crate::hot::record_state::{self, RecordMode};
use crate::hot::ring::MAX_SITE;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// Flag beside the id in a scope's site: the scope does not end on the fast path. The sign bit, so
/// that one comparison finds it; the flags below say why.
const SLOW: u32 = 1 << 31;
/// The scope was opened with the fallback clock.
pub(super) const FALLBACK_CLOCK: u32 = SLOW | 1 << 30;
/// The scope has entered a `tracing` span.
pub(super) const HAS_TRACING_SPAN: u32 = SLOW | 1 << 29;
/// The scope has a baseline of its measures.
pub(super) const MEASURED: u32 = SLOW | 1 << 28;
/// The scope is counted where it ends, and leaves no record.
pub(super) const COUNTED: u32 = SLOW | 1 << 27;
/// The scope has pushed an NVTX range.
pub(super) const HAS_NVTX_RANGE: u32 = SLOW | 1 << 26;

/// Spans recorded with duration zero because the clock stepped back during them. Incremented by
/// any thread, read by anyone, relaxed: a count that orders nothing.
static BACKWARD_TICKS: AtomicU64 = AtomicU64::new(0);

/// Returns how many spans were recorded with duration zero because the clock stepped back during
/// them.
#[must_use]
pub fn backward_ticks() -> u64 {
    BACKWARD_TICKS.load(Ordering::Relaxed)
}

/// The state of an open scope, as its guard holds it: all zero where nothing is recorded.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Opened {
    pub(crate) start_ticks: u64,
    /// The site's id and flags.
    pub(crate) flagged: u32,
    /// Its place on the open-scope stack.
    pub(crate) place: u32,
}

impl Opened {
    /// A scope that records nothing.
    #[cfg(feature = "tracing-subscriber")]
    pub(crate) const OFF: Self = Self {
        start_ticks: 0,
        flagged: 0,
        place: 0,
    };

    /// Returns how the scope is recorded, by its flags.
    #[inline(always)]
    fn mode(self) -> RecordMode {
        if counted::entry_of(self).is_some() {
            return RecordMode::Counted;
        }
        match self.flagged & !MAX_SITE {
            MEASURED => RecordMode::Measured,
            HAS_NVTX_RANGE => RecordMode::Nvtx,
            _ => RecordMode::Mixed,
        }
    }

    /// Returns the id of its site.
    #[cfg(feature = "tracing-subscriber")]
    pub(crate) fn id(self) -> u32 {
        self.flagged & MAX_SITE
    }

    /// Returns whether the scope is recorded or counted.
    #[cfg(feature = "tracing-subscriber")]
    #[inline(always)]
    pub(crate) fn is_recorded(self) -> bool {
        self.flagged & MAX_SITE != 0
    }
}

/// Returns the time between two readings of the clock, in ticks; 0, and counted, where the clock
/// stepped back.
pub(crate) fn elapsed_ticks(start_ticks: u64, end_ticks: u64) -> u64 {
    let elapsed = end_ticks.wrapping_sub(start_ticks);
    // A difference of more than half the range is a step back, not a span of centuries.
    if elapsed > u64::MAX / 2 {
        BACKWARD_TICKS.fetch_add(1, Ordering::Relaxed);
        return 0;
    }
    elapsed
}

/// Opens a scope that is not on the fast path. `number` is the word of the first argument that is a
/// number.
#[cold]
#[inline(never)]
pub(super) extern "C" fn open_slow(site: &'static CallSite, kinds: Kinds, number: u64) -> Opened {
    match record_state::mode() {
        RecordMode::Counted => counted::open(site),
        RecordMode::Measured => measured::open(site, kinds, number),
        RecordMode::Nvtx => nvtx::open(site, kinds, number),
        RecordMode::Mixed => mixed::open(site, kinds, number),
    }
}

/// Opens a scope at a registered site that is not on the fast path, or for which the thread has no
/// state or no place.
#[cold]
#[inline(never)]
pub(super) extern "C" fn begin_slow(id: u32) -> Opened {
    match record_state::mode() {
        RecordMode::Counted => counted::begin(id),
        RecordMode::Measured => measured::begin(id),
        RecordMode::Nvtx => nvtx::begin(id),
        RecordMode::Mixed => mixed::begin(id),
    }
}

/// Ends a phase and begins another at the same tick, where either is not on the fast path.
#[cold]
#[inline(never)]
pub(super) extern "C" fn next_slow(last: Opened, site: &'static CallSite) -> Opened {
    let ended = match last.mode() {
        RecordMode::Counted => counted::try_end(last),
        RecordMode::Measured => measured::try_end(last, &[]),
        RecordMode::Nvtx => nvtx::try_end(last, &[]),
        RecordMode::Mixed => None,
    };
    let ended = ended.or_else(|| mixed::try_end(last, &[]));
    let opened = match record_state::mode() {
        RecordMode::Counted => counted::try_open(site, ended),
        RecordMode::Measured => measured::try_open(site, 0, ended),
        RecordMode::Nvtx => nvtx::try_open(site, 0, 0, ended),
        RecordMode::Mixed => None,
    };
    match opened {
        Some(opened) => opened,
        None => mixed::open_at(site, 0, 0, ended),
    }
}

/// Ends a scope that was not opened on the fast path, is not the innermost one, has no room in the
/// ring, or may be longer than 32 bits of ticks. Returns its end in ticks, 0 where nothing was
/// recorded.
#[cold]
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "the C calling convention is for its ban on unwinding alone"
)]
pub(super) extern "C" fn end_slow(opened: Opened, words: &[u64]) -> u64 {
    match opened.mode() {
        RecordMode::Counted => counted::end(opened),
        RecordMode::Measured => measured::end(opened, words),
        RecordMode::Nvtx => nvtx::end(opened, words),
        RecordMode::Mixed => mixed::end(opened, words),
    }
}
