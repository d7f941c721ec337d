//! The way of scopes that an NVTX tool takes as well, and nobody else: out of line, and as short as
//! that allows.
//!
//! Opening pushes a range, reads the clock and notes the scope on the open-scope stack; closing
//! writes the record, reads the clock for its length, and pops the range. What is missing (the
//! thread's state, a place on the stack, an id for the site) or comes with it (measures, a
//! `tracing` span) sends a scope the way of the module `slow`.

use super::slow::{Opened, RANGED, Record};
use super::{begin_record, publish};
use crate::clock;
use crate::hot::args::Number;
use crate::hot::callsite::{CallSite, Kinds};
use crate::hot::nvtx;
use crate::hot::ring::MAX_SITE;
use crate::hot::thread::ThreadState;
use crate::hot::{args, thread};

/// Opens a scope of a site that is registered and of which nothing is measured, at the tick `at` or
/// now.
#[inline(always)]
pub(super) fn open(
    site: &'static CallSite,
    kinds: Kinds,
    number: u64,
    at: Option<u64>,
) -> Option<Opened> {
    if !site.measures().is_none() {
        return None;
    }
    begin(site.id(kinds)?, args::first_number(kinds, number), at)
}

/// Opens a scope at a registered site, at the tick `at` or now.
#[inline(always)]
pub(super) fn begin(id: u32, number: Option<Number>, at: Option<u64>) -> Option<Opened> {
    let state = thread::hot();
    let place = state.free_place()?;
    // What the tool takes is no part of the scope.
    nvtx::push(id, number);
    let start_ticks = at.unwrap_or_else(clock::hardware_ticks);
    state.push_open_at(place, id, start_ticks);
    Some(Opened {
        start_ticks,
        flagged: RANGED | id,
        place,
    })
}

/// Ends the innermost scope, if it was opened by [`open`] or [`begin`], and returns when that was,
/// in ticks.
#[inline(always)]
pub(super) fn end(opened: Opened, words: &[u64]) -> Option<u64> {
    if opened.flagged & !MAX_SITE != RANGED {
        return None;
    }
    let state = thread::hot();
    if !state.has_start(opened.place, opened.start_ticks) || !state.begin_close(opened.place) {
        return None;
    }
    // Straight into the ring: put together elsewhere and copied from there it would wait for
    // itself, which the processor cannot hide.
    let begun = begin_record(state, opened.start_ticks, opened.flagged & MAX_SITE, words);
    let end_ticks = clock::hardware_ticks();
    let duration_ticks = super::elapsed_ticks(opened.start_ticks, end_ticks);
    match (begun, u32::try_from(duration_ticks)) {
        (Some(begun), Ok(low)) => publish(state, begun, low),
        _ => push_unusual(state, opened, duration_ticks, words),
    }
    state.release(opened.place);
    nvtx::pop(1);
    Some(end_ticks)
}

/// Records a span that is long, or does not fit under the ring's limit.
#[cold]
#[inline(never)]
fn push_unusual(state: &ThreadState, opened: Opened, duration_ticks: u64, words: &[u64]) {
    let record = Record::new(opened, duration_ticks, [words, &[]]);
    thread::push_record(state, record.slots());
}
