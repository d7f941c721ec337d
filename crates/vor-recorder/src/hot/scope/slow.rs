//! The rare half of scopes: the first use of a site or a thread, a full ring, a span of more than
//! 32 bits of ticks, a clock that stepped back or is not the hardware's, a `tracing` subscriber, an
//! NVTX tool, a scope of which more than the length is measured.
//!
//! The functions that the hot path calls cannot unwind, and take and return what fits registers: so
//! the compiler keeps the guard of a scope in registers too, though these calls stand beside it.
//! What might panic in here is other people's code, and the tap catches that.

use std::cell::RefCell;
use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use vor_capture::model::measures::Measures;

use super::{counted, measured, ranges, word};
use crate::clock::{self, cpu};
use crate::hot::args::{self, Number};
use crate::hot::callsite::{self, CallSite, Kinds, UNREGISTERED};
use crate::hot::record_state::RecordMode;
use crate::hot::ring::{MAX_SITE, SITE_BITS, Slot, TAG_LONG, word1};
use crate::hot::thread::ThreadState;
use crate::hot::{nvtx, record_state, thread, tracing_out};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// Flags beside the id in a scope's site: not the fast path, and why.
const RARE: u32 = 1 << 31;
/// The scope was begun with the other clock.
const OTHER_CLOCK: u32 = RARE | 1 << 30;
/// The scope has entered a `tracing` span.
const TAPPED: u32 = RARE | 1 << 29;
/// The scope has noted what had been used up.
pub(super) const MEASURED: u32 = RARE | 1 << 28;

/// The scope is counted where it ends, and leaves no record.
pub(super) const COUNTED: u32 = RARE | 1 << 27;
/// The scope has pushed an NVTX range.
pub(super) const RANGED: u32 = RARE | 1 << 26;

/// Clock readings that lay before an earlier one of the same scope; the span was recorded with
/// length zero.
static BACKWARD_TICKS: AtomicU64 = AtomicU64::new(0);

/// Returns how many spans were recorded with length zero because the clock stepped back during
/// them.
#[must_use]
pub fn backward_ticks() -> u64 {
    BACKWARD_TICKS.load(Ordering::Relaxed)
}

/// What a guard holds: all zero where nothing is recorded.
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
    /// What the guard of a scope holds that records nothing.
    #[cfg(feature = "tracing")]
    pub(crate) const OFF: Self = Self {
        start_ticks: 0,
        flagged: 0,
        place: 0,
    };

    /// Returns how the scope is recorded, by its flags.
    #[inline(always)]
    fn mode(self) -> RecordMode {
        if counted::kept_as(self).is_some() {
            return RecordMode::Counted;
        }
        match self.flagged & !MAX_SITE {
            MEASURED => RecordMode::Measured,
            RANGED => RecordMode::Nvtx,
            _ => RecordMode::Mixed,
        }
    }

    /// Returns the id of its site.
    #[cfg(feature = "tracing")]
    pub(crate) fn id(self) -> u32 {
        self.flagged & MAX_SITE
    }

    /// Returns whether the scope is being recorded.
    #[cfg(feature = "tracing")]
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
        // What is counted has no arguments; that leaves less to be kept for the other call.
        RecordMode::Counted => match site.any_id().and_then(|id| counted::open(id, None)) {
            Some(opened) => opened,
            None => open_any(site, 0, 0),
        },
        RecordMode::Measured => open_measured(site, kinds, number),
        RecordMode::Nvtx => open_nvtx(site, kinds, number),
        RecordMode::Mixed => open_any(site, kinds, number),
    }
}

#[cold]
#[inline(never)]
extern "C" fn open_measured(site: &'static CallSite, kinds: Kinds, number: u64) -> Opened {
    match measured::open(site, kinds, None) {
        Some(opened) => opened,
        None => open_any(site, kinds, number),
    }
}

#[cold]
#[inline(never)]
extern "C" fn open_nvtx(site: &'static CallSite, kinds: Kinds, number: u64) -> Opened {
    match ranges::open(site, kinds, number, None) {
        Some(opened) => opened,
        None => open_any(site, kinds, number),
    }
}

/// Opens a scope in any mode: whatever the short ways lack is made.
#[cold]
#[inline(never)]
extern "C" fn open_any(site: &'static CallSite, kinds: Kinds, number: u64) -> Opened {
    open_at(site, kinds, number, None)
}

/// Opens a scope at a registered site that is not on the fast path, or for which the thread has no
/// state or no place.
#[cold]
#[inline(never)]
pub(super) extern "C" fn begin_slow(id: u32) -> Opened {
    match record_state::mode() {
        RecordMode::Counted => match counted::open(id, None) {
            Some(opened) => opened,
            None => begin_any(id),
        },
        RecordMode::Measured => begin_measured(id),
        RecordMode::Nvtx => begin_nvtx(id),
        RecordMode::Mixed => begin_any(id),
    }
}

#[cold]
#[inline(never)]
extern "C" fn begin_measured(id: u32) -> Opened {
    match measured::begin(id, record_state::measures(), None) {
        Some(opened) => opened,
        None => begin_any(id),
    }
}

#[cold]
#[inline(never)]
extern "C" fn begin_nvtx(id: u32) -> Opened {
    match ranges::begin(id, None, None) {
        Some(opened) => opened,
        None => begin_any(id),
    }
}

/// Opens a scope at a registered site in any mode.
#[cold]
#[inline(never)]
extern "C" fn begin_any(id: u32) -> Opened {
    if !record_state::is_on() {
        return Opened::default();
    }
    begin_at(id, record_state::measures(), None, None)
}

/// Ends a phase and begins another at the same tick, where either is not on the fast path.
#[cold]
#[inline(never)]
pub(super) extern "C" fn next_slow(last: Opened, site: &'static CallSite) -> Opened {
    let ended = match last.mode() {
        RecordMode::Counted => counted::end(last),
        RecordMode::Measured => measured::end(last, &[]),
        RecordMode::Nvtx => ranges::end(last, &[]),
        RecordMode::Mixed => None,
    };
    let ended = ended.or_else(|| end(last, &[]));
    let opened = match record_state::mode() {
        RecordMode::Counted => site.any_id().and_then(|id| counted::open(id, ended)),
        RecordMode::Measured => measured::open(site, 0, ended),
        RecordMode::Nvtx => ranges::open(site, 0, 0, ended),
        RecordMode::Mixed => None,
    };
    match opened {
        Some(opened) => opened,
        None => open_at(site, 0, 0, ended),
    }
}

/// Ends a scope that was not opened on the fast path, is not the innermost one, has no room in the
/// ring, or may be longer than 32 bits of ticks. Returns the tick, 0 where nothing was recorded.
#[cold]
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "what is wanted of the C calling convention is that it cannot unwind"
)]
pub(super) extern "C" fn end_slow(opened: Opened, words: &[u64]) -> u64 {
    match opened.mode() {
        RecordMode::Counted => match counted::end(opened) {
            Some(end_ticks) => end_ticks,
            None => end_any(opened, &[]),
        },
        RecordMode::Measured => end_measured(opened, words),
        RecordMode::Nvtx => end_nvtx(opened, words),
        RecordMode::Mixed => end_any(opened, words),
    }
}

#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "as for `end_slow`")]
extern "C" fn end_measured(opened: Opened, words: &[u64]) -> u64 {
    // Not with `unwrap_or_else`: each way ends in a call that takes this one's place.
    match measured::end(opened, words) {
        Some(end_ticks) => end_ticks,
        None => end_any(opened, words),
    }
}

#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "as for `end_slow`")]
extern "C" fn end_nvtx(opened: Opened, words: &[u64]) -> u64 {
    match ranges::end(opened, words) {
        Some(end_ticks) => end_ticks,
        None => end_any(opened, words),
    }
}

/// Ends a scope of any mode.
#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "as for `end_slow`")]
extern "C" fn end_any(opened: Opened, words: &[u64]) -> u64 {
    end(opened, words).unwrap_or(0)
}

/// Opens a scope at the tick `at`, or now.
fn open_at(site: &'static CallSite, kinds: Kinds, number: u64, at: Option<u64>) -> Opened {
    let mut opened = Opened::default();
    if record_state::is_on() {
        // What is only counted has neither arguments nor measures.
        if record_state::counts_scopes() {
            let id = site
                .any_id()
                .unwrap_or_else(|| register(site, 0, Measures::NONE));
            opened = begin_at(id, Measures::NONE, None, at);
            return tapped(site, opened);
        }
        let measures = site.measures().and(record_state::measures());
        let id = if measures.is_none() {
            site.id(kinds)
        } else {
            site.measured_id(kinds, measures)
        };
        let id = id.unwrap_or_else(|| register(site, kinds, measures));
        opened = begin_at(id, measures, args::first_number(kinds, number), at);
    }
    tapped(site, opened)
}

/// Makes the scope a span of `tracing` too, where one is wanted.
fn tapped(site: &'static CallSite, mut opened: Opened) -> Opened {
    if tracing_out::is_wanted() {
        if opened.flagged == 0 {
            // The start tells the span apart from those of other scopes.
            opened.start_ticks = clock::ticks();
        }
        if tracing_out::enter(site, opened.start_ticks) {
            opened.flagged |= TAPPED;
        }
    }
    opened
}

/// Opens a scope at a registered site, at the tick `at` or now. `number` goes along with its NVTX
/// range.
fn begin_at(id: u32, measures: Measures, number: Option<Number>, at: Option<u64>) -> Opened {
    if id == UNREGISTERED || thread::is_busy() {
        thread::count_drop();
        return Opened::default();
    }
    let opened = thread::with_state(|state| {
        let is_ranged = nvtx::is_attached();
        if is_ranged {
            // What the tool takes is no part of the scope.
            nvtx::push(id, number);
        }
        let mut opened = begun_at(id, at);
        if is_ranged {
            opened.flagged |= RANGED;
        }
        opened.place = state.push_open(id, opened.start_ticks);
        let depth = ThreadState::depth_of(opened.place);
        if opened.flagged & COUNTED == COUNTED {
            thread::begin_counting(state, depth, id, opened.start_ticks);
        } else if !measures.is_none() {
            opened.flagged |= MEASURED;
            measured::note(depth, opened.start_ticks, measures);
        }
        opened
    });
    // A thread that is ending records as long as it runs.
    opened.unwrap_or_else(|| begun_at(id, at))
}

/// Returns a scope that begins at the tick `at` or now, and is not on the stack yet.
fn begun_at(id: u32, at: Option<u64>) -> Opened {
    let mut opened = Opened {
        start_ticks: at.unwrap_or_else(clock::ticks),
        flagged: id,
        place: 0,
    };
    if !clock::is_hot() {
        opened.flagged |= OTHER_CLOCK;
    }
    if record_state::counts_scopes() {
        opened.flagged |= COUNTED;
    }
    opened
}

fn end(opened: Opened, words: &[u64]) -> Option<u64> {
    let is_recorded = opened.flagged & MAX_SITE != 0;
    let ranges = open_ranges(opened);
    let end_ticks = is_recorded.then(|| record(opened, words));
    if ranges > 0 {
        nvtx::pop(ranges);
    }
    if opened.flagged & TAPPED == TAPPED {
        tracing_out::exit(opened.start_ticks);
    }
    end_ticks
}

/// Closes a scope without a record, and all that were opened in it.
pub(super) fn abandon(opened: Opened) {
    let ranges = open_ranges(opened);
    if opened.flagged & MAX_SITE != 0 {
        let _ = thread::with_state(|state| state.pop_open(opened.place));
    }
    if ranges > 0 {
        nvtx::pop(ranges);
    }
    if opened.flagged & TAPPED == TAPPED {
        tracing_out::exit(opened.start_ticks);
    }
}

/// Returns how many NVTX ranges end with a scope: its own, and those of scopes that were opened in
/// it and never ended, or end after it.
///
/// So the tool's stack is as high as that of the open scopes. Of a thread that is ending, which has
/// none any more, it is the scope's own.
fn open_ranges(opened: Opened) -> usize {
    if opened.flagged & RANGED != RANGED {
        return 0;
    }
    thread::current().map_or(1, |state| state.open_from(opened.place))
}

/// Records or counts a scope that ends now, and takes it from the open ones; returns when that is.
fn record(opened: Opened, words: &[u64]) -> u64 {
    // Its close has begun where it was on the fast path.
    thread::hot().reopen_closing(opened.place, opened.start_ticks);
    // Before a thread gets a state for it, as in the child of a fork.
    let known_end = thread::current().is_none().then(clock::ticks);
    let recorded = thread::with_state(|state| {
        // Here: what a handler records meanwhile would end later and stand before it in the ring.
        let end_ticks = known_end.unwrap_or_else(clock::ticks);
        record_in(state, opened, end_ticks, words);
        end_ticks
    });
    recorded.unwrap_or_else(|| {
        let end_ticks = known_end.unwrap_or_else(clock::ticks);
        record_without_state(opened, end_ticks, words);
        end_ticks
    })
}

fn record_in(state: &ThreadState, opened: Opened, end_ticks: u64, words: &[u64]) {
    let duration = elapsed_ticks(opened.start_ticks, end_ticks);
    let site = opened.flagged & MAX_SITE;
    if opened.flagged & COUNTED == COUNTED {
        return thread::count(state, site, opened.place, opened.start_ticks, duration);
    }
    let is_measured = opened.flagged & MEASURED == MEASURED;
    if words.is_empty()
        && !is_measured
        && let Ok(low) = u32::try_from(duration)
    {
        // The first record on each page of a ring comes by here.
        thread::push_record(state, &[[opened.start_ticks, word1(low, site)]]);
    } else {
        let measured = if is_measured {
            measured::since(
                ThreadState::depth_of(opened.place),
                opened.start_ticks,
                duration,
            )
        } else {
            measured::Words::NONE
        };
        let record = Record::new(opened, duration, [words, measured.used()]);
        thread::push_record(state, record.slots());
    }
    state.pop_open(opened.place);
}

/// As [`record_in`], on a thread that is ending, or inside vor, where the scope is dropped.
#[cold]
fn record_without_state(opened: Opened, end_ticks: u64, words: &[u64]) {
    let duration = elapsed_ticks(opened.start_ticks, end_ticks);
    if opened.flagged & COUNTED == COUNTED {
        return thread::count_without_state(opened.flagged & MAX_SITE, duration);
    }
    thread::push_without_state(Record::new(opened, duration, [words, &[]]).slots());
}

/// The record of a span.
pub(super) struct Record {
    slots: [Slot; callsite::MAX_ARGS / 2 + args::MAX_MEASURED_WORDS / 2 + 2],
    used: usize,
}

impl Record {
    /// Makes the record of a span with the words of its arguments and of its measures.
    #[inline]
    pub(super) fn new(opened: Opened, duration_ticks: u64, words: [&[u64]; 2]) -> Self {
        let mut record = Self {
            slots: [[0; 2]; callsite::MAX_ARGS / 2 + args::MAX_MEASURED_WORDS / 2 + 2],
            used: 1,
        };
        let mut tag = opened.flagged & MAX_SITE;
        for pair in words.iter().flat_map(|words| words.chunks(2)) {
            record.put([word(pair, 0), word(pair, 1)]);
        }
        if duration_ticks > u64::from(u32::MAX) {
            record.put([duration_ticks >> 32, 0]);
            tag |= TAG_LONG;
        }
        tag |= (record.used as u32 - 1) << SITE_BITS;
        record.slots[0] = [opened.start_ticks, word1(duration_ticks as u32, tag)];
        record
    }

    fn put(&mut self, slot: Slot) {
        self.slots[self.used] = slot;
        self.used += 1;
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots[..self.used]
    }
}

/// Returns the id of a site for arguments of these kinds with these measures, and enters it into
/// the registry first; [`UNREGISTERED`] inside vor.
fn register(site: &'static CallSite, kinds: Kinds, measures: Measures) -> u32 {
    if thread::is_busy() {
        return UNREGISTERED;
    }
    let enter = || match measures.is_none() {
        true => site.register(kinds),
        false => {
            if measures.has(Measures::CPU) {
                cpu::init();
            }
            site.register_measured(kinds, measures)
        }
    };
    if kinds == 0 {
        return thread::while_busy(enter);
    }
    let key = (std::ptr::from_ref(site).addr(), kinds, measures);
    let cached = VARIANTS.try_with(|variants| variants.try_borrow().ok()?.get(&key).copied());
    if let Ok(Some(id)) = cached {
        return id;
    }
    thread::while_busy(|| {
        let id = enter();
        // A cache that is gone or in use only means the lock next time.
        let _ = VARIANTS.try_with(|variants| {
            if let Ok(mut variants) = variants.try_borrow_mut() {
                variants.insert(key, id);
            }
        });
        id
    })
}

thread_local! {
    /// Ids of sites for argument kinds and measures other than the first ones they had: of a
    /// generic function, or of an option. The site itself knows one combination; there are as many
    /// more as the program's source has.
    static VARIANTS: RefCell<HashMap<(usize, Kinds, Measures), u32, FxBuildHasher>> =
        const { RefCell::new(HashMap::with_hasher(FxBuildHasher)) };
}
