//! Scopes that are also NVTX ranges, with no measures and no `tracing` span.
//!
//! Opening pushes a range, reads the clock and stores the scope on the open-scope stack. Closing
//! writes the record, reads the clock for its duration, and pops the range. The module `mixed`
//! handles a scope that lacks something (the thread's state, a place on the stack, an id for the
//! site) or has more (measures, a `tracing` span).

use super::record::Record;
use super::slow::{HAS_NVTX_RANGE, Opened, elapsed_ticks};
use super::{commit_record, mixed, reserve_record};
use crate::clock;
use crate::hot::args::{self, Number};
use crate::hot::callsite::{CallSite, Kinds};
use crate::hot::nvtx;
use crate::hot::ring::MAX_SITE;
use crate::hot::thread::{self, ThreadState};

/// Opens a scope at a call site.
#[cold]
#[inline(never)]
pub(super) extern "C" fn open(site: &'static CallSite, kinds: Kinds, number: u64) -> Opened {
    match try_open(site, kinds, number, None) {
        Some(opened) => opened,
        None => mixed::open(site, kinds, number),
    }
}

/// Opens a scope at a registered site.
#[cold]
#[inline(never)]
pub(super) extern "C" fn begin(id: u32) -> Opened {
    match try_begin(id, None, None) {
        Some(opened) => opened,
        None => mixed::begin(id),
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
    match try_end(opened, words) {
        Some(end_ticks) => end_ticks,
        None => mixed::end(opened, words),
    }
}

/// Opens a scope of a site that is registered and has no measures, at the tick `at` or now.
#[inline(always)]
pub(super) fn try_open(
    site: &'static CallSite,
    kinds: Kinds,
    number: u64,
    at: Option<u64>,
) -> Option<Opened> {
    if !site.measures().is_none() {
        return None;
    }
    try_begin(site.id(kinds)?, args::first_number(kinds, number), at)
}

/// Opens a scope at a registered site, at the tick `at` or now.
#[inline(always)]
fn try_begin(id: u32, number: Option<Number>, at: Option<u64>) -> Option<Opened> {
    let state = thread::hot();
    let place = state.free_place()?;
    // Pushed before the start is read: the time that the tool takes is not part of the scope.
    nvtx::push(id, number);
    let start_ticks = at.unwrap_or_else(clock::hardware_ticks);
    state.push_open_at(place, id, start_ticks);
    Some(Opened {
        start_ticks,
        flagged: HAS_NVTX_RANGE | id,
        place,
    })
}

/// Ends the innermost scope, if it was opened here, and returns its end in ticks.
#[inline(always)]
pub(super) fn try_end(opened: Opened, words: &[u64]) -> Option<u64> {
    if opened.flagged & !MAX_SITE != HAS_NVTX_RANGE {
        return None;
    }
    let state = thread::hot();
    if !state.has_start(opened.place, opened.start_ticks) || !state.begin_close(opened.place) {
        return None;
    }
    // Written directly into the ring. A record that is built elsewhere and copied waits for its own
    // stores, which the processor cannot hide.
    let record = reserve_record(state, opened.start_ticks, opened.flagged & MAX_SITE, words);
    let end_ticks = clock::hardware_ticks();
    let duration_ticks = elapsed_ticks(opened.start_ticks, end_ticks);
    match (record, u32::try_from(duration_ticks)) {
        (Some(record), Ok(low)) => commit_record(state, record, low),
        _ => push_slow(state, opened, duration_ticks, words),
    }
    state.release(opened.place);
    nvtx::pop(1);
    Some(end_ticks)
}

/// Records a span that is long, or does not fit under the ring's limit.
#[cold]
#[inline(never)]
fn push_slow(state: &ThreadState, opened: Opened, duration_ticks: u64, words: &[u64]) {
    let record = Record::new(opened, duration_ticks, [words, &[]]);
    thread::push_record(state, record.slots());
}
