//! The state that decides whether and how scopes are recorded.
//!
//! A scope of a macro reads the word of its own call site, and nothing else. The word is an id
//! above 0 while the scope may take the fast path ([`callsite::is_fast`]). Otherwise its sign bit
//! is set. So a scope pays one comparison, and a change updates the words of all sites. Such a
//! change is recording switched on or off, or a `tracing` subscriber that is added or removed. The
//! program's source bounds the number of sites. The slow path of scopes reads the [`mode`].

use vor_capture::model::measures::Measures;

use crate::clock;
use crate::hot::modes::{self, Decider};
use crate::hot::{callsite, thread};
use crate::hot::{nvtx, tracing_out};
use crate::sync::global::AtomicBool;
use crate::sync::{AtomicU8, Ordering, statics};

statics! {
    /// [`OFF`], [`SPANS`] or [`COUNTS`], independent of the clock. Written by [`set`], read relaxed
    /// by everything that is recorded.
    static STATE: AtomicU8 = AtomicU8::new(OFF);

    /// The [`RecordMode`], for [`mode`]. Written under the registry's lock, read relaxed by every
    /// scope that is not on the fast path.
    static MODE: AtomicU8 = AtomicU8::new(RecordMode::Mixed as u8);

    /// The measures of every scope beside its duration, as [`Measures::bits`]. Bits are only added.
    /// Written by [`measure`], read relaxed on the slow path, because the fast path does not
    /// measure.
    static MEASURES: AtomicU8 = AtomicU8::new(0);
}

/// Nothing is recorded.
const OFF: u8 = 0;
/// Scopes are recorded.
const SPANS: u8 = 1;
/// Scopes are counted when they end, and leave no record.
const COUNTS: u8 = 2;

/// Whether scopes are counted and not recorded while recording is on. [`count_scopes`] sets it
/// permanently; slow paths read it.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// Whether scopes with names made at run time may take the fast path. Written under the registry's
/// lock, read relaxed by every such scope. It orders nothing, because the scope checks everything
/// else that it needs.
static NAMES_FAST: AtomicBool = AtomicBool::new(false);

/// Whether a subscriber of `tracing` that wants scopes was added since the last [`review`]. Set by
/// the subscriber's announcement, cleared by the review.
static ANNOUNCED: AtomicBool = AtomicBool::new(false);

/// Whether the next pass of the drain calls [`review`]; otherwise the drain calls it once a second.
/// Set when the subscribers change, cleared by the review.
static REVIEW_DUE: AtomicBool = AtomicBool::new(false);

/// Whether this process is the child of a fork and has no recorder of its own yet. Set by the fork
/// handler, cleared by the first scope or mark. Only slow paths read it, because the handler also
/// removes the thread's state.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Returns whether anything is recorded.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// Returns whether scopes are recorded, not only counted.
#[inline(always)]
pub(crate) fn keeps_spans() -> bool {
    STATE.load(Ordering::Relaxed) == SPANS
}

/// The way to record a scope that is not on the fast path.
///
/// In any mode but `Mixed`, recording is on, the clock is the hardware's, and no subscriber of
/// `tracing` wants scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordMode {
    /// The general case: not recorded, also a `tracing` span, on the fallback clock, or several of
    /// these modes at once.
    Mixed = 0,
    /// Recorded with measures.
    Measured = 1,
    /// Counted when it ends, without a record.
    Counted = 2,
    /// Recorded, and also an NVTX range.
    Nvtx = 3,
    /// As the rules say for its call site; without a rule, in the [`unruled_mode`].
    Ruled = 4,
}

/// Returns the way to record scopes that are not on the fast path.
#[inline(always)]
pub(crate) fn mode() -> RecordMode {
    const MEASURED: u8 = RecordMode::Measured as u8;
    const COUNTED: u8 = RecordMode::Counted as u8;
    const NVTX: u8 = RecordMode::Nvtx as u8;
    const RULED: u8 = RecordMode::Ruled as u8;
    match MODE.load(Ordering::Relaxed) {
        COUNTED => RecordMode::Counted,
        MEASURED => RecordMode::Measured,
        NVTX if nvtx::IS_POSSIBLE => RecordMode::Nvtx,
        RULED => RecordMode::Ruled,
        _ => RecordMode::Mixed,
    }
}

/// Returns the way to record the scopes of a site without a rule, while the [`mode`] is `Ruled`.
#[inline]
pub(crate) fn unruled_mode() -> RecordMode {
    if counts_scopes() {
        RecordMode::Counted
    } else if nvtx::is_attached() {
        // With measures or without.
        RecordMode::Mixed
    } else {
        RecordMode::Measured
    }
}

/// Returns whether [`mode`] is `Counted`, by one comparison. The compiler may compute the value of
/// `mode` first, and then compare that, which takes six instructions more.
#[inline(always)]
pub(crate) fn is_counted() -> bool {
    MODE.load(Ordering::Relaxed) == RecordMode::Counted as u8
}

/// Returns whether scopes are counted and not recorded, while recording is on.
pub(crate) fn counts_scopes() -> bool {
    COUNTING.load(Ordering::SeqCst)
}

/// Counts scopes instead of recording them, permanently from the next [`set`] on.
pub(crate) fn count_scopes() {
    COUNTING.store(true, Ordering::SeqCst);
}

/// Returns whether a scope with a name made at run time may take the fast path.
#[inline(always)]
pub(crate) fn are_names_fast() -> bool {
    NAMES_FAST.load(Ordering::Relaxed)
}

/// Returns the measures of every scope beside its duration.
#[inline(always)]
pub(crate) fn measures() -> Measures {
    Measures::from_bits(MEASURES.load(Ordering::Relaxed))
}

/// Adds measures of every scope, permanently from the next [`set`] on. A name's id encodes its
/// measures, and programs store ids.
pub(crate) fn measure(measures: Measures) {
    MEASURES.fetch_or(measures.bits(), Ordering::SeqCst);
}

/// Switches recording on or off.
pub(crate) fn set(on: bool) {
    if on {
        tracing_out::announce_subscribers();
    }
    thread::while_busy(|| apply(&mut callsite::lock(), on));
}

/// Switches recording off in the child of a fork, where a thread that no longer exists may hold the
/// registry's lock. The sites' words are unchanged: scopes find recording off on their slow path.
#[cfg(unix)]
pub(crate) fn set_off_for_fork() {
    STATE.store(OFF, Ordering::SeqCst);
    set_mode(RecordMode::Mixed);
    NAMES_FAST.store(false, Ordering::SeqCst);
}

fn set_mode(mode: RecordMode) {
    MODE.store(mode as u8, Ordering::SeqCst);
}

fn apply(registry: &mut callsite::Registry, on: bool) {
    let counts = counts_scopes();
    let state = match (on, counts) {
        (false, _) => OFF,
        (true, false) => SPANS,
        (true, true) => COUNTS,
    };
    let has_subscriber = tracing_out::is_wanted();
    let has_nvtx_tool = nvtx::is_attached();
    let fast = on && !counts && clock::allows_fast_path() && !has_nvtx_tool && measures().is_none();
    STATE.store(state, Ordering::SeqCst);
    let mode = match (state, has_nvtx_tool) {
        _ if !clock::allows_fast_path() || has_subscriber => RecordMode::Mixed,
        (SPANS, false) => RecordMode::Measured,
        (COUNTS, false) => RecordMode::Counted,
        (SPANS, true) if measures().is_none() => RecordMode::Nvtx,
        _ => RecordMode::Mixed,
    };
    // Mixed looks up the rules as well.
    let is_ruled = registry.has_rules() && mode != RecordMode::Mixed;
    modes::set_active(registry.has_rules());
    set_mode(if is_ruled { RecordMode::Ruled } else { mode });
    NAMES_FAST.store(fast && registry.are_names_plain(), Ordering::SeqCst);
    registry.set_fast(fast && !has_subscriber);
}

/// Sends scopes with names made at run time to the slow path. Called under the registry's lock.
pub(crate) fn forbid_fast_names() {
    NAMES_FAST.store(false, Ordering::SeqCst);
}

/// Replaces the rules, for all scopes that open from now on.
pub(crate) fn set_rules(decider: Option<Decider>) {
    thread::while_busy(|| {
        let mut registry = callsite::lock();
        // First, so that a thread that reads the new words looks up its mode.
        modes::set_active(true);
        registry.set_decider(decider);
        apply(&mut registry, is_on());
    });
}

/// Sets whether sites are over their budget, by their ids, for all scopes that open from now on.
pub(crate) fn set_over_budget(sites: &[(u32, bool)]) {
    thread::while_busy(|| {
        let mut registry = callsite::lock();
        modes::set_active(true);
        for &(id, over) in sites {
            registry.set_over_budget(id, over);
        }
        apply(&mut registry, is_on());
    });
}

/// Announces that the subscribers of `tracing` have changed. If one `wants_scopes`, all scopes take
/// the slow path from now on, which queries the subscriber. Otherwise the next review decides: the
/// subscriber may want the scopes of some modules only.
#[cfg(all(feature = "tracing", not(feature = "off")))]
pub(crate) fn subscribers_changed(wants_scopes: bool) {
    REVIEW_DUE.store(true, Ordering::SeqCst);
    if wants_scopes {
        ANNOUNCED.store(true, Ordering::SeqCst);
        thread::while_busy(|| {
            let mut registry = callsite::lock();
            set_mode(RecordMode::Mixed);
            registry.set_fast(false);
        });
    }
}

/// Returns whether the next pass should call [`review`].
pub(crate) fn is_review_due() -> bool {
    REVIEW_DUE.load(Ordering::Relaxed)
}

/// Updates the call sites' words to the current interest of the `tracing` subscribers. The drain
/// calls it about once a second, and when a review is due.
pub(crate) fn review() {
    REVIEW_DUE.store(false, Ordering::SeqCst);
    // A subscriber is announced a moment before `tracing` publishes its interest.
    let announced = ANNOUNCED.swap(false, Ordering::SeqCst);
    if is_on() && !announced {
        let mut registry = callsite::lock();
        if is_on() {
            apply(&mut registry, true);
        }
    }
}

/// Returns whether the recorder has to be started again.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Acquire)
}

/// Sets whether the recorder has to be started again.
pub(crate) fn set_forked(forked: bool) {
    FORKED.store(forked, Ordering::Release);
}
