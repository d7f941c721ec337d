//! The slow path of scopes: one function for each operation, which dispatches on the mode.
//!
//! A scope takes the slow path at the first use of a site or a thread, with a full ring, and after
//! more than 32 bits of ticks. It also takes it if the clock stepped back or is not the hardware's,
//! with a `tracing` subscriber or an NVTX tool, if more than the duration is measured, and if a
//! rule says how the scopes of its site are recorded.
//!
//! The functions that the fast path calls cannot unwind. They take and return values that fit in
//! registers. So the compiler holds the guard of a scope in registers too, despite these calls.
//! Each mode tries the common case first. The module `mixed` handles the others, by a call in tail
//! position, so the common case saves no registers for it. Only a `tracing` subscriber might panic
//! in these functions, and `tracing_out` catches that.

use super::{counted, measured, mixed, nvtx, ruled};
use crate::hot::callsite::{CallSite, Kinds};
use crate::hot::record_state::{self, RecordMode};
use crate::hot::ring::MAX_SITE;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// Flag beside the id in a scope's site: the scope does not end on the fast path. It is the sign
/// bit, so one comparison detects it. The flags below give the reason.
const SLOW: u32 = 1 << 31;
/// The scope was opened with the fallback clock.
pub(super) const FALLBACK_CLOCK: u32 = SLOW | 1 << 30;
/// The scope has entered a `tracing` span.
pub(super) const HAS_TRACING_SPAN: u32 = SLOW | 1 << 29;
/// The scope has a baseline of its measures.
pub(super) const MEASURED: u32 = SLOW | 1 << 28;
/// The scope is counted when it ends, and leaves no record.
pub(super) const COUNTED: u32 = SLOW | 1 << 27;
/// The scope has pushed an NVTX range.
pub(super) const HAS_NVTX_RANGE: u32 = SLOW | 1 << 26;
/// The scope is counted instead of recorded when it ends, if it is shorter than its bound.
pub(super) const BOUNDED: u32 = SLOW | 1 << 25;
/// The scope leaves no record, and neither do those inside it. It has no id.
pub(super) const SKIPPED_TREE: u32 = SLOW | 1 << 24;

/// Spans recorded with duration zero because the clock stepped back during them. Incremented by any
/// thread, read by any thread, both relaxed: it orders nothing.
static BACKWARD_TICKS: AtomicU64 = AtomicU64::new(0);

/// Returns how many spans were recorded with duration zero because the clock stepped back during
/// them.
#[must_use]
pub fn backward_ticks() -> u64 {
    BACKWARD_TICKS.load(Ordering::Relaxed)
}

/// The state of an open scope, as its guard holds it. All zero if nothing is recorded.
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

    /// Returns the mode in which the scope is recorded, by its flags.
    #[inline(always)]
    fn mode(self) -> RecordMode {
        if counted::entry_of(self).is_some() {
            return RecordMode::Counted;
        }
        match self.flagged & !MAX_SITE {
            MEASURED => RecordMode::Measured,
            HAS_NVTX_RANGE => RecordMode::Nvtx,
            BOUNDED => RecordMode::Ruled,
            _ => RecordMode::Mixed,
        }
    }

    /// Returns the id of its site.
    #[cfg(feature = "tracing-subscriber")]
    pub(crate) fn id(self) -> u32 {
        self.flagged & MAX_SITE
    }

    /// Returns whether the scope is recorded or counted.
    #[cfg(any(feature = "tower", feature = "tracing-subscriber"))]
    #[inline(always)]
    pub(crate) fn is_recorded(self) -> bool {
        self.flagged & MAX_SITE != 0
    }
}

/// Returns the time between two readings of the clock, in ticks. If the clock stepped back, counts
/// that and returns 0.
pub(crate) fn elapsed_ticks(start_ticks: u64, end_ticks: u64) -> u64 {
    let elapsed = end_ticks.wrapping_sub(start_ticks);
    // A difference of more than half the range is a step back, not a duration of centuries.
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
    if record_state::is_counted() {
        return counted::open(site);
    }
    match record_state::mode() {
        RecordMode::Counted => counted::open(site),
        RecordMode::Measured => measured::open(site, kinds, number),
        RecordMode::Nvtx => nvtx::open(site, kinds, number),
        RecordMode::Ruled => ruled::open(site, kinds, number),
        RecordMode::Mixed => mixed::open(site, kinds, number),
    }
}

/// Opens a scope at a registered site, if the site is not on the fast path or the thread has no
/// state or no place for it.
#[cold]
#[inline(never)]
pub(super) extern "C" fn begin_slow(id: u32) -> Opened {
    match record_state::mode() {
        RecordMode::Counted => counted::begin(id),
        RecordMode::Measured => measured::begin(id),
        RecordMode::Nvtx => nvtx::begin(id),
        RecordMode::Ruled => ruled::begin(id),
        RecordMode::Mixed => mixed::begin(id),
    }
}

/// Ends a phase and begins another at the same tick, if either is not on the fast path.
#[cold]
#[inline(never)]
pub(super) extern "C" fn next_slow(last: Opened, site: &'static CallSite) -> Opened {
    let ended = match last.mode() {
        RecordMode::Counted => counted::try_end(last),
        RecordMode::Measured => measured::try_end(last, &[]),
        RecordMode::Nvtx => nvtx::try_end(last, &[]),
        RecordMode::Ruled => ruled::try_end(last, &[]),
        RecordMode::Mixed => None,
    };
    let ended = ended.or_else(|| mixed::try_end(last, &[]));
    let opened = match record_state::mode() {
        RecordMode::Counted => counted::try_open(site, ended),
        RecordMode::Measured => measured::try_open(site, 0, ended),
        RecordMode::Nvtx => nvtx::try_open(site, 0, 0, ended),
        RecordMode::Ruled => ruled::try_open(site, 0, ended),
        RecordMode::Mixed => None,
    };
    match opened {
        Some(opened) => opened,
        None => mixed::open_at(site, 0, 0, ended),
    }
}

/// Ends a scope that was not opened on the fast path, is not the innermost one, has no room in the
/// ring, or may be longer than 32 bits of ticks. Returns its end in ticks, or 0 if nothing was
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
        RecordMode::Ruled => ruled::end(opened, words),
        RecordMode::Mixed => mixed::end(opened, words),
    }
}
