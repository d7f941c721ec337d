//! Scopes of call sites that have a rule, while the clock is the hardware's and no subscriber of
//! `tracing` wants scopes.
//!
//! The usual cases are here: a scope that is counted, one that is recorded only if it is long, one
//! that a sample takes or leaves out, and one that is recorded as without rules. The module `mixed`
//! handles the others, also a scope that lacks something: an id, the thread's table, a place.
//!
//! A scope with a bound is a counted one until it ends. Then its duration decides.

use super::record::Record;
use super::slow::{BOUNDED, COUNTED, Opened, SKIPPED_TREE};
use super::{commit_record, measured, mixed, reserve_record};
use crate::clock;
use crate::hot::callsite::{CallSite, Kinds};
use crate::hot::modes::{self, Mode, Way};
use crate::hot::record_state::{self, RecordMode};
use crate::hot::ring::MAX_SITE;
use crate::hot::thread::{self, LAST_SITE, ThreadState};

/// Opens a scope at a call site.
#[cold]
#[inline(never)]
pub(super) extern "C" fn open(site: &'static CallSite, kinds: Kinds, number: u64) -> Opened {
    match try_open(site, kinds, None) {
        Some(opened) => opened,
        None => mixed::open(site, kinds, number),
    }
}

/// Opens a scope at a registered site.
#[cold]
#[inline(never)]
pub(super) extern "C" fn begin(id: u32) -> Opened {
    let measured = |at| measured::try_begin(id, record_state::measures(), at);
    match try_begin(id, Some(id), None, measured) {
        Some(opened) => opened,
        None => mixed::begin(id),
    }
}

/// Ends a scope with a bound. Returns its end in ticks.
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

/// Opens a scope at a call site that is registered, at the tick `at` or now.
#[inline]
pub(super) fn try_open(site: &'static CallSite, kinds: Kinds, at: Option<u64>) -> Option<Opened> {
    let has_measures = !site.measures().is_none();
    let plain_id = site.id(kinds).filter(|_| !has_measures);
    try_begin(site.ruled_id()?, plain_id, at, |at| {
        measured::try_open(site, kinds, at)
    })
}

/// Opens a scope as the mode of its site says, by any id of the site. `plain_id` is the one for
/// scopes without measures, and `measured` opens a scope with the measures that it has without
/// rules.
#[inline]
fn try_begin(
    id: u32,
    plain_id: Option<u32>,
    at: Option<u64>,
    measured: impl FnOnce(Option<u64>) -> Option<Opened>,
) -> Option<Opened> {
    let state = thread::hot();
    // There is none inside a scope that a sample left out, where `mixed` skips everything.
    let place = state.free_place()?;
    let Mode { way, measures } = modes::of_scope(id);
    let unruled = record_state::unruled_mode();
    let is_plain = record_state::measures().is_none() && measures.is_none();
    match way {
        Way::Off => Some(Opened::default()),
        Way::Count => begin_counted(state, place, id, COUNTED, 0, at),
        Way::Sample { one_in, tree } => try_skip(state, place, id, one_in, tree),
        _ if unruled == RecordMode::Counted => begin_counted(state, place, id, COUNTED, 0, at),
        _ if unruled != RecordMode::Measured || !measures.is_none() => None,
        Way::Min { bound } if is_plain => {
            begin_counted(state, place, plain_id?, BOUNDED, bound, at)
        }
        Way::Min { .. } => None,
        Way::Record if is_plain && plain_id.is_some() => {
            let id = plain_id?;
            let start_ticks = at.unwrap_or_else(clock::hardware_ticks);
            state.push_open_at(place, id, start_ticks);
            Some(Opened {
                start_ticks,
                flagged: id,
                place,
            })
        }
        Way::Record => measured(at),
    }
}

/// Opens a scope that is counted, or that is while it is shorter than its bound.
#[inline]
fn begin_counted(
    state: &ThreadState,
    place: u32,
    id: u32,
    flags: u32,
    bound_ticks: u64,
    at: Option<u64>,
) -> Option<Opened> {
    let table = state.counted()?;
    let start_ticks = at.unwrap_or_else(clock::hardware_ticks);
    state.claim(place, id);
    table.begin_among_recorded(ThreadState::depth_of(place), id, bound_ticks);
    state.open_at(place, start_ticks);
    Some(Opened {
        start_ticks,
        flagged: flags | id,
        place,
    })
}

/// Skips a scope that a sample leaves out. `None` if the sample takes it.
fn try_skip(state: &ThreadState, place: u32, id: u32, one_in: u32, tree: bool) -> Option<Opened> {
    let sums = state.counted()?.get(entry_of(id)?)?;
    let seed = state.id().0;
    if sums.is_next_sampled(seed, one_in) {
        return None;
    }
    // A handler that records here would add to the same numbers.
    state.claim(place, id);
    sums.take_sample(seed, one_in);
    state.release(place);
    if !tree {
        return Some(Opened::default());
    }
    skip_tree(state)
}

/// Makes the scopes inside a skipped one skipped as well. `None` if the stack is full.
pub(super) fn skip_tree(state: &ThreadState) -> Option<Opened> {
    let start_ticks = clock::ticks();
    let place = state.begin_skipping(start_ticks)?;
    Some(Opened {
        start_ticks,
        flagged: SKIPPED_TREE,
        place,
    })
}

/// Ends the innermost scope, if it has a bound and is not too long for the fast path. Returns its
/// end in ticks.
#[inline]
pub(super) fn try_end(opened: Opened, words: &[u64]) -> Option<u64> {
    if opened.flagged & !MAX_SITE != BOUNDED {
        return None;
    }
    let id = opened.flagged & MAX_SITE;
    let state = thread::hot();
    let table = state.counted()?;
    let sums = table.get(entry_of(id)?)?;
    if !state.has_start(opened.place, opened.start_ticks) {
        return None;
    }
    let depth = ThreadState::depth_of(opened.place);
    let (level, around) = table.levels(depth)?;
    if !state.begin_close(opened.place) {
        return None;
    }
    let end_ticks = clock::hardware_ticks();
    let ticks = end_ticks.wrapping_sub(opened.start_ticks);
    if ticks >= table.bound_ticks(depth) {
        let Ok(low) = u32::try_from(ticks) else {
            state.reopen(opened.place);
            return None;
        };
        match reserve_record(state, opened.start_ticks, id, words) {
            Some(record) => commit_record(state, record, low),
            None => push_slow(state, opened, ticks, words),
        }
        state.release(opened.place);
        return Some(end_ticks);
    }
    if !sums.add_short(ticks) {
        state.reopen(opened.place);
        return None;
    }
    sums.add_inside(level);
    around.add(ticks);
    // The stack holds only the scopes around this one, because its close has begun.
    if state.own_open_sites().any(|open| open == id) {
        sums.add_nested(ticks);
    }
    state.release(opened.place);
    Some(end_ticks)
}

/// Records a span that does not fit under the ring's limit.
#[cold]
#[inline(never)]
fn push_slow(state: &ThreadState, opened: Opened, duration_ticks: u64, words: &[u64]) {
    let record = Record::new(opened, duration_ticks, [words, &[]]);
    thread::push_record(state, record.slots());
}

/// Returns the entry of a site that has one of its own.
fn entry_of(id: u32) -> Option<u32> {
    (id <= LAST_SITE).then_some(id)
}

/// How [`super::open_with`] uses the arguments of a scope that is not on the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ArgsUse {
    /// The scope is recorded, or may be, so its arguments are made.
    Made,
    /// The scope has no arguments, because it is counted.
    Unused,
    /// The scope is off.
    Off,
}

/// Returns whether a scope with arguments needs them. A scope that is skipped is counted as such.
#[cold]
#[inline(never)]
pub(super) extern "C" fn use_of_args(site: &'static CallSite) -> ArgsUse {
    let Some(id) = site.ruled_id() else {
        return ArgsUse::Made;
    };
    match modes::of_scope(id).way {
        Way::Off => ArgsUse::Off,
        Way::Count => ArgsUse::Unused,
        Way::Sample {
            one_in,
            tree: false,
        } => {
            let state = thread::hot();
            let skip = |place| try_skip(state, place, id, one_in, false);
            match state.free_place().and_then(skip) {
                Some(_) => ArgsUse::Off,
                None => ArgsUse::Made,
            }
        }
        _ => ArgsUse::Made,
    }
}
