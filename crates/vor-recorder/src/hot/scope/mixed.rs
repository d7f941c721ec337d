//! Scopes in the general case: any mode, and several at once.
//!
//! The functions here register a site, set up the thread, open a scope too deep for the stack, read
//! the fallback clock, enter a `tracing` span, and push an NVTX range. They also record a span that
//! is long, ends out of order, or ends on a thread without a state. They are out of line.
//! `counted`, `measured` and `nvtx` call them for all cases that they do not handle.

use std::cell::RefCell;
use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use vor_capture::model::measures::Measures;

use super::record::Record;
use super::slow::{
    BOUNDED, COUNTED, FALLBACK_CLOCK, HAS_NVTX_RANGE, HAS_TRACING_SPAN, MEASURED, Opened,
    SKIPPED_TREE, elapsed_ticks,
};
use super::{measured, ruled};
use crate::clock::{self, cpu};
use crate::hot::args::{self, Number};
use crate::hot::callsite::{CallSite, Kinds, UNREGISTERED};
use crate::hot::modes::{self, Mode, Way};
use crate::hot::ring::{MAX_SITE, word1};
use crate::hot::thread::ThreadState;
use crate::hot::{nvtx, record_state, thread, tracing_out};

/// Opens a scope at a call site.
#[cold]
#[inline(never)]
pub(super) extern "C" fn open(site: &'static CallSite, kinds: Kinds, number: u64) -> Opened {
    open_at(site, kinds, number, None)
}

/// Opens a scope at a registered site.
#[cold]
#[inline(never)]
pub(super) extern "C" fn begin(id: u32) -> Opened {
    if !record_state::is_on() {
        return Opened::default();
    }
    match plan(id) {
        Err(skipped) => skipped,
        Ok(mode) => begin_at(id, mode.way, record_state::measures(), None, None),
    }
}

/// Ends a scope. Returns its end in ticks, or 0 if nothing was recorded.
#[cold]
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "the C calling convention is for its ban on unwinding alone"
)]
pub(super) extern "C" fn end(opened: Opened, words: &[u64]) -> u64 {
    try_end(opened, words).unwrap_or(0)
}

/// Opens a scope at the tick `at`, or now.
pub(super) fn open_at(
    site: &'static CallSite,
    kinds: Kinds,
    number: u64,
    at: Option<u64>,
) -> Opened {
    let mut opened = Opened::default();
    if record_state::is_on() {
        let measures = site.measures().union(record_state::measures());
        let mode = if modes::are_active() || is_skipping() {
            let id = site
                .ruled_id()
                .unwrap_or_else(|| register(site, kinds, measures));
            match plan(id) {
                Err(skipped) => return skipped,
                Ok(mode) => mode,
            }
        } else {
            unruled()
        };
        // A counted scope has neither arguments nor measures.
        if mode.way == Way::Count {
            let id = site
                .any_id()
                .unwrap_or_else(|| register(site, 0, Measures::NONE));
            opened = begin_at(id, Way::Count, Measures::NONE, None, at);
            return with_tracing_span(site, opened);
        }
        let measures = measures.union(mode.measures);
        let id = if measures.is_none() {
            site.id(kinds)
        } else {
            site.measured_id(kinds, measures)
        };
        let id = id.unwrap_or_else(|| register(site, kinds, measures));
        let number = args::first_number(kinds, number);
        opened = begin_at(id, mode.way, measures, number, at);
    }
    with_tracing_span(site, opened)
}

/// Returns whether this thread is inside a scope that a sample left out. It may be after the rules
/// changed.
fn is_skipping() -> bool {
    thread::current().is_some_and(ThreadState::is_skipping)
}

/// Returns how scopes without a rule are recorded.
fn unruled() -> Mode {
    let way = match record_state::counts_scopes() {
        true => Way::Count,
        false => Way::Record,
    };
    Mode {
        way,
        ..Mode::RECORD
    }
}

/// Returns how a scope is recorded that opens now, by an id of its site: a way other than `Off` and
/// `Sample`. If it is not to be recorded, returns that as an error.
fn plan(id: u32) -> Result<Mode, Opened> {
    if is_skipping() {
        let _ = thread::with_state(|state| thread::count_skipped(state, id));
        return Err(Opened::default());
    }
    // Inside vor, `begin_at` drops the scope.
    if !modes::are_active() || id == UNREGISTERED || thread::is_busy() {
        return Ok(unruled());
    }
    // A thread's name is known once it has a state.
    let _ = thread::set_up();
    let mut mode = modes::of_scope(id);
    match mode.way {
        Way::Off => return Err(Opened::default()),
        Way::Sample { one_in, tree } => {
            let take = |state: &ThreadState| {
                if thread::take_sample(state, id, one_in) {
                    return Ok(());
                }
                let skipped = if tree { ruled::skip_tree(state) } else { None };
                Err(skipped.unwrap_or_default())
            };
            // A thread that is ending has no sums, and records.
            thread::with_state(take).unwrap_or(Ok(()))?;
            mode.way = Way::Record;
        }
        Way::Record | Way::Count | Way::Min { .. } => {}
    }
    if record_state::counts_scopes() {
        mode.way = Way::Count;
    }
    Ok(mode)
}

/// Enters a `tracing` span for the scope, if a subscriber wants one.
fn with_tracing_span(site: &'static CallSite, mut opened: Opened) -> Opened {
    if tracing_out::is_wanted() {
        if opened.flagged == 0 {
            // The start identifies the span among those of other scopes.
            opened.start_ticks = clock::ticks();
        }
        if tracing_out::enter(site, opened.start_ticks) {
            opened.flagged |= HAS_TRACING_SPAN;
        }
    }
    opened
}

/// Opens a scope at a registered site, at the tick `at` or now. `number` is the payload of its NVTX
/// range.
fn begin_at(
    id: u32,
    way: Way,
    measures: Measures,
    number: Option<Number>,
    at: Option<u64>,
) -> Opened {
    if id == UNREGISTERED || thread::is_busy() {
        thread::count_drop();
        return Opened::default();
    }
    let opened = thread::with_state(|state| {
        let has_range = nvtx::is_attached();
        if has_range {
            // Pushed before the start is read: the time that the tool takes is not part of the
            // scope.
            nvtx::push(id, number);
        }
        let mut opened = opened_at(id, way, at);
        if has_range {
            opened.flagged |= HAS_NVTX_RANGE;
        }
        opened.place = state.push_open(id, opened.start_ticks);
        let depth = ThreadState::depth_of(opened.place);
        if opened.flagged & COUNTED == COUNTED {
            thread::begin_counting(state, depth, id, opened.start_ticks, 0);
            return opened;
        }
        if let Way::Min { bound } = way {
            opened.flagged |= BOUNDED;
            thread::begin_counting(state, depth, id, opened.start_ticks, bound);
        }
        if !measures.is_none() {
            opened.flagged |= MEASURED;
            measured::set_baseline(depth, opened.start_ticks, measures);
        }
        opened
    });
    // A thread that is ending has no stack, but still records.
    opened.unwrap_or_else(|| opened_at(id, way, at))
}

/// Returns a scope that begins at the tick `at`, or now. It is not on the stack yet.
fn opened_at(id: u32, way: Way, at: Option<u64>) -> Opened {
    let mut opened = Opened {
        start_ticks: at.unwrap_or_else(clock::ticks),
        flagged: id,
        place: 0,
    };
    if !clock::allows_fast_path() {
        opened.flagged |= FALLBACK_CLOCK;
    }
    if way == Way::Count {
        opened.flagged |= COUNTED;
    }
    opened
}

/// Ends a scope. Returns its end in ticks, or `None` if nothing was recorded.
pub(super) fn try_end(opened: Opened, words: &[u64]) -> Option<u64> {
    if is_skipped_tree(opened) {
        end_skipped_tree(opened);
        return None;
    }
    let is_recorded = opened.flagged & MAX_SITE != 0;
    let ranges = open_ranges(opened);
    let end_ticks = is_recorded.then(|| record(opened, words));
    if ranges > 0 {
        nvtx::pop(ranges);
    }
    if opened.flagged & HAS_TRACING_SPAN == HAS_TRACING_SPAN {
        tracing_out::exit(opened.start_ticks);
    }
    end_ticks
}

/// Returns whether scopes inside this one are skipped, as it is itself.
pub(super) fn is_skipped_tree(opened: Opened) -> bool {
    opened.flagged == SKIPPED_TREE
}

fn end_skipped_tree(opened: Opened) {
    if let Some(state) = thread::current() {
        state.end_skipping(opened.place, opened.start_ticks);
    }
}

/// Closes a scope, and all scopes that were opened in it, without a record.
pub(super) fn abandon(opened: Opened) {
    if is_skipped_tree(opened) {
        return end_skipped_tree(opened);
    }
    let ranges = open_ranges(opened);
    if opened.flagged & MAX_SITE != 0 {
        let _ = thread::with_state(|state| state.pop_open(opened.place));
    }
    if ranges > 0 {
        nvtx::pop(ranges);
    }
    if opened.flagged & HAS_TRACING_SPAN == HAS_TRACING_SPAN {
        tracing_out::exit(opened.start_ticks);
    }
}

/// Returns how many NVTX ranges end with a scope: its own, and those of scopes that were opened in
/// it and have not ended.
///
/// So the tool's stack has the height of the open-scope stack. A thread that is ending has no
/// open-scope stack, and only the scope's own range ends.
fn open_ranges(opened: Opened) -> usize {
    if opened.flagged & HAS_NVTX_RANGE != HAS_NVTX_RANGE {
        return 0;
    }
    thread::current().map_or(1, |state| state.open_from(opened.place))
}

/// Records or counts a scope that ends now, and pops it from the stack. Returns its end in ticks.
fn record(opened: Opened, words: &[u64]) -> u64 {
    // The fast path has begun to close it.
    thread::hot().reopen_closing(opened.place, opened.start_ticks);
    // Read before the thread gets a state for it, as in the child of a fork.
    let known_end = thread::current().is_none().then(clock::ticks);
    let recorded = thread::with_state(|state| {
        // Read only now that handlers find the thread busy. Otherwise, the record of a handler
        // after the reading would end later, but precede this one in the ring.
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
    if opened.flagged & BOUNDED == BOUNDED
        && duration < thread::bound_of(state, opened.place, opened.start_ticks)
    {
        return thread::count(state, site, opened.place, opened.start_ticks, duration);
    }
    let is_measured = opened.flagged & MEASURED == MEASURED;
    if words.is_empty()
        && !is_measured
        && let Ok(low) = u32::try_from(duration)
    {
        // The first record on each page of a ring takes this branch.
        thread::push_record(state, &[[opened.start_ticks, word1(low, site)]]);
    } else {
        let measured = if is_measured {
            measured::since(
                ThreadState::depth_of(opened.place),
                opened.start_ticks,
                duration,
            )
        } else {
            measured::MeasureWords::NONE
        };
        let record = Record::new(opened, duration, [words, measured.used()]);
        thread::push_record(state, record.slots());
    }
    state.pop_open(opened.place);
}

/// Records a scope as [`record_in`] does, on a thread that is ending. Inside vor, drops it.
#[cold]
fn record_without_state(opened: Opened, end_ticks: u64, words: &[u64]) {
    let duration = elapsed_ticks(opened.start_ticks, end_ticks);
    if opened.flagged & COUNTED == COUNTED {
        return thread::count_without_state(opened.flagged & MAX_SITE, duration);
    }
    thread::push_without_state(Record::new(opened, duration, [words, &[]]).slots());
}

/// Returns the id of a site for arguments of these kinds with these measures, after entering the
/// combination into the registry. Returns [`UNREGISTERED`] inside vor.
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
    // Busy, because a thread's first use of a thread-local allocates.
    let cached = thread::while_busy(|| {
        VARIANTS.try_with(|variants| variants.try_borrow().ok()?.get(&key).copied())
    });
    if let Ok(Some(id)) = cached {
        return id;
    }
    thread::while_busy(|| {
        let id = enter();
        // If the cache is destroyed or borrowed, the next call takes the lock again.
        let _ = VARIANTS.try_with(|variants| {
            if let Ok(mut variants) = variants.try_borrow_mut() {
                variants.insert(key, id);
            }
        });
        id
    })
}

thread_local! {
    /// Ids of sites for further combinations of argument kinds and measures, as in a generic
    /// function or with an option. The site itself holds one combination. The program's source
    /// bounds the number of others.
    static VARIANTS: RefCell<HashMap<(usize, Kinds, Measures), u32, FxBuildHasher>> =
        const { RefCell::new(HashMap::with_hasher(FxBuildHasher)) };
}
