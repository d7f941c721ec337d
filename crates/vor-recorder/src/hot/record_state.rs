//! Whether anything is recorded: the words that every scope looks at.
//!
//! A scope of a macro asks its own call site, and nothing else: the site's word is an id above 0
//! while the fast path may be taken ([`is_fast`]), and has its sign bit set while it may not. So
//! whatever changes that (recording switched on or off, a `tracing` subscriber that comes or goes)
//! walks over the sites, of which there are as many as the program's source has, and a scope pays
//! one comparison for all of it.

use vor_capture::model::measures::Measures;

use crate::clock;
use crate::hot::{callsite, thread};
use crate::hot::{nvtx, tracing_out};
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU8};

/// [`OFF`], [`SPANS`] or [`COUNTS`], with whatever clock. Written by [`set`], read relaxed by
/// everything that is recorded.
static STATE: AtomicU8 = AtomicU8::new(OFF);

/// Nothing is recorded.
const OFF: u8 = 0;
/// Scopes are recorded.
const SPANS: u8 = 1;
/// Scopes are counted where they end, and leave no record.
const COUNTS: u8 = 2;
/// Scopes are recorded, and an NVTX tool takes them too. Only of [`MODE`].
const NVTX: u8 = 3;

/// Whether scopes are counted and not recorded, while recording is on. Set once by [`count_scopes`]
/// and for good, read on cold paths.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// How scopes that are not on the fast path are recorded, for [`mode`]. Anything but [`OFF`] takes
/// that recording is on, the clock is the hardware's, and no subscriber of `tracing` wants scopes.
/// Written under the registry's lock, read relaxed by every such scope.
static MODE: AtomicU8 = AtomicU8::new(OFF);

/// Whether scopes with names made at run time may take the fast path. Written under the registry's
/// lock, read relaxed by every such scope; what it needs beyond it, it finds by its own means.
static NAMES_FAST: AtomicBool = AtomicBool::new(false);

/// What is measured of every scope beside its length, as [`Measures::bits`]. Only ever grows;
/// written by [`measure`], read relaxed on the cold path, which is the only one that measures.
static MEASURES: AtomicU8 = AtomicU8::new(0);

/// Whether a subscriber of `tracing` that wants scopes has come since the last [`review`]. Set when
/// it does, taken by the review.
static ANNOUNCED: AtomicBool = AtomicBool::new(false);

/// Whether the next pass shall review, and not only one a second. Set when a subscriber comes that
/// may want some scopes, cleared by the review.
static DUE: AtomicBool = AtomicBool::new(false);

/// Whether this process is the child of a fork and has no recorder of its own yet. Set by the fork
/// handler, cleared by the first scope or mark; looked at only on cold paths, since the handler
/// also takes the thread's state away.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Returns whether anything is recorded.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// Returns whether scopes are recorded, and not just counted.
#[inline(always)]
pub(crate) fn keeps_spans() -> bool {
    STATE.load(Ordering::Relaxed) == SPANS
}

/// How a scope is recorded that is not on the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordMode {
    /// Counted where it ends, without a record.
    Counted,
    /// Recorded with measures.
    Measured,
    /// Recorded, and a range of an NVTX tool.
    Nvtx,
    /// Anything else: not recorded, a span of `tracing` too, by another clock, or several at once.
    Mixed,
}

/// Returns how scopes are recorded that are not on the fast path.
#[inline(always)]
pub(crate) fn mode() -> RecordMode {
    match MODE.load(Ordering::Relaxed) {
        COUNTS => RecordMode::Counted,
        SPANS => RecordMode::Measured,
        NVTX if nvtx::IS_POSSIBLE => RecordMode::Nvtx,
        _ => RecordMode::Mixed,
    }
}

/// Returns whether scopes are counted and not recorded, while recording is on.
pub(crate) fn counts_scopes() -> bool {
    COUNTING.load(Ordering::SeqCst)
}

/// Has scopes counted and not recorded, from the next [`set`] on and for good.
pub(crate) fn count_scopes() {
    COUNTING.store(true, Ordering::SeqCst);
}

/// Returns whether a scope may take the fast path, by its call site's word: the site is registered,
/// recording is on, the clock is the hardware's, scopes are recorded, nothing but the length is
/// measured, and neither a subscriber of `tracing` nor an NVTX tool wants it.
#[inline(always)]
pub(crate) fn is_fast(site_word: u32) -> bool {
    site_word as i32 > 0
}

/// Returns whether a scope with a name made at run time may take the fast path.
#[inline(always)]
pub(crate) fn are_names_fast() -> bool {
    NAMES_FAST.load(Ordering::Relaxed)
}

/// Returns what is measured of every scope beside its length.
#[inline(always)]
pub(crate) fn measures() -> Measures {
    Measures::from_bits(MEASURES.load(Ordering::Relaxed))
}

/// Has this measured of every scope too, from the next [`set`] on and for good: a name's id says
/// whether it was measured, and programs keep ids.
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

/// Switches recording off where the registry may be locked by a thread that is no more: in the
/// child of a fork. Scopes then find it off on their cold path.
#[cfg(unix)]
pub(crate) fn set_off_for_fork() {
    STATE.store(OFF, Ordering::SeqCst);
    MODE.store(OFF, Ordering::SeqCst);
    NAMES_FAST.store(false, Ordering::SeqCst);
}

fn apply(registry: &mut callsite::Registry, on: bool) {
    let counts = counts_scopes();
    let state = match (on, counts) {
        (false, _) => OFF,
        (true, false) => SPANS,
        (true, true) => COUNTS,
    };
    let is_tapped = tracing_out::is_wanted();
    let is_told = nvtx::is_attached();
    let fast = on && !counts && clock::is_hot() && !is_told && measures().is_none();
    STATE.store(state, Ordering::SeqCst);
    let mode = match (clock::is_hot() && !is_tapped, is_told) {
        (true, false) => state,
        (true, true) if state == SPANS && measures().is_none() => NVTX,
        _ => OFF,
    };
    MODE.store(mode, Ordering::SeqCst);
    NAMES_FAST.store(fast, Ordering::SeqCst);
    registry.set_fast(fast && !is_tapped);
}

/// Says that the subscribers of `tracing` have changed. Where one `wants_scopes`, they all go the
/// cold path from now on, which asks; else the next review sees to it: it may want those of some
/// modules only.
#[cfg(all(feature = "tracing", not(feature = "off")))]
pub(crate) fn subscribers_changed(wants_scopes: bool) {
    DUE.store(true, Ordering::SeqCst);
    if wants_scopes {
        ANNOUNCED.store(true, Ordering::SeqCst);
        thread::while_busy(|| {
            let mut registry = callsite::lock();
            MODE.store(OFF, Ordering::SeqCst);
            registry.set_fast(false);
        });
    }
}

/// Returns whether [`review`] should not wait.
pub(crate) fn is_review_due() -> bool {
    DUE.load(Ordering::Relaxed)
}

/// Brings the call sites' words up to what the subscribers of `tracing` want now. Called by the
/// drain about once a second, and when it is due.
pub(crate) fn review() {
    DUE.store(false, Ordering::SeqCst);
    // A subscriber is announced a moment before `tracing` tells what it wants.
    let announced = ANNOUNCED.swap(false, Ordering::SeqCst);
    if is_on() && !announced {
        let mut registry = callsite::lock();
        if is_on() {
            apply(&mut registry, true);
        }
    }
}

/// Returns whether the recorder has to be started anew.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Acquire)
}

/// Notes whether the recorder has to be started anew.
pub(crate) fn set_forked(forked: bool) {
    FORKED.store(forked, Ordering::Release);
}

#[cfg(all(test, feature = "tracing", not(any(feature = "off", loom))))]
mod tests {
    use std::time::{Duration, Instant};

    use tracing::level_filters::LevelFilter;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Dispatch, Event, Metadata, Subscriber};

    use super::*;
    use crate::hot::callsite::CallSite;
    use crate::{drain, setup};

    /// Wants the spans of one module, or of none.
    struct Wants(Option<&'static str>);

    impl Subscriber for Wants {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            Some(metadata.target()) == self.0
        }
        fn max_level_hint(&self) -> Option<LevelFilter> {
            Some(self.0.map_or(LevelFilter::OFF, |_| LevelFilter::TRACE))
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    static SITE: CallSite = CallSite::new("site", module_path!(), file!(), 1);

    /// Lets the drain look until the site's scopes take the fast path, or do not.
    fn wait_until_fast(fast: bool, at_most: Duration) {
        let begin = Instant::now();
        while is_fast(SITE.word()) != fast {
            assert!(begin.elapsed() < at_most, "fast: {fast} is expected");
            drain::flush();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn sites_leave_the_fast_path_while_a_subscriber_wants_scopes() {
        setup::enable();
        drop(crate::hot::scope::open(&SITE));
        wait_until_fast(true, Duration::from_secs(30));
        // One that wants what announces it is noticed at once, one that wants something else at the
        // next pass.
        for (target, at_once) in [("vor", true), ("elsewhere", false)] {
            let subscriber = Dispatch::new(Wants(Some(target)));
            if at_once {
                assert!(!is_fast(SITE.word()));
            }
            wait_until_fast(false, Duration::from_secs(30));
            drop(subscriber);
            // `tracing` asks those that are left, or the next one.
            let _next = Dispatch::new(Wants(None));
            wait_until_fast(true, Duration::from_secs(30));
        }
        setup::disable();
        assert!(!is_fast(SITE.word()) && SITE.id(0).is_some());
        assert!(crate::hot::scope::open(&SITE).begun().is_none());
        setup::enable();
        assert!(is_fast(SITE.word()));
        setup::disable();
    }
}
