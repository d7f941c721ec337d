//! Scopes that are counted and not recorded.
//!
//! Opening stores site and start on the open-scope stack as ever, and begins a level of the
//! thread's table. Closing adds the duration to the sums of the site, and to what the level around
//! it knows of the scopes inside. Nothing goes into a ring. A scope for which anything is missing
//! (the thread's table, the sums of a site, a place on the stack, the hardware's clock) is passed
//! to the module `mixed`, which makes it.

use super::mixed;
use super::slow::{COUNTED, Opened};
use crate::clock;
use crate::hot::callsite::CallSite;
use crate::hot::thread::{self, LAST_SITE, ThreadState};

/// Opens a scope at a call site.
///
/// The call of `mixed` passes no arguments, which a counted scope lacks: so fewer registers are
/// saved for it.
#[inline(always)]
pub(super) fn open(site: &'static CallSite) -> Opened {
    match try_open(site, None) {
        Some(opened) => opened,
        None => mixed::open(site, 0, 0),
    }
}

/// Opens a scope at a registered site.
#[inline(always)]
pub(super) fn begin(id: u32) -> Opened {
    match try_begin(id, None) {
        Some(opened) => opened,
        None => mixed::begin(id),
    }
}

/// Ends a scope; returns its end in ticks, 0 where nothing was counted.
#[inline(always)]
pub(super) fn end(opened: Opened) -> u64 {
    match try_end(opened) {
        Some(end_ticks) => end_ticks,
        None => mixed::end(opened, &[]),
    }
}

/// Opens a scope at a call site that is registered, at the tick `at` or now.
#[inline(always)]
pub(super) fn try_open(site: &'static CallSite, at: Option<u64>) -> Option<Opened> {
    try_begin(site.any_id()?, at)
}

/// Opens a scope at a registered site, at the tick `at` or now.
#[inline(always)]
fn try_begin(id: u32, at: Option<u64>) -> Option<Opened> {
    let state = thread::hot();
    let table = state.counted()?;
    let place = state.free_place()?;
    let start_ticks = at.unwrap_or_else(clock::hardware_ticks);
    state.claim(place, id);
    table.begin(ThreadState::depth_of(place), id);
    state.open_at(place, start_ticks);
    Some(Opened {
        start_ticks,
        flagged: COUNTED | id,
        place,
    })
}

/// Ends the innermost scope, and returns its end in ticks.
///
/// Neither work moved before the reading of the clock nor code aligned behind it pays here, as they
/// do where a record is written: in one experiment an empty scope took 1.47 and 1.49 times two
/// readings with them, and 1.44 as it stands.
#[inline(always)]
pub(super) fn try_end(opened: Opened) -> Option<u64> {
    let state = thread::hot();
    let table = state.counted()?;
    let sums = table.get(entry_of(opened)?)?;
    if !state.has_start(opened.place, opened.start_ticks) {
        return None;
    }
    let (level, around) = table.levels(ThreadState::depth_of(opened.place))?;
    if !state.begin_close(opened.place) {
        return None;
    }
    let end_ticks = clock::hardware_ticks();
    let ticks = end_ticks.wrapping_sub(opened.start_ticks);
    // One comparison: a clock that stepped back makes the longest durations of all.
    if !sums.add_short(ticks) {
        state.reopen(opened.place);
        return None;
    }
    sums.add_inside(level);
    around.add(ticks);
    if around.may_hold(opened.flagged) {
        // In place of a return, so that the calls without it save no registers.
        return Some(end_nested(opened, ticks));
    }
    state.release(opened.place);
    Some(end_ticks)
}

/// Ends a scope that may be a recursive call, whose duration `ticks` has been added; returns its
/// end in ticks.
#[cold]
#[inline(never)]
extern "C" fn end_nested(opened: Opened, ticks: u64) -> u64 {
    let state = thread::hot();
    let site = opened.flagged ^ COUNTED;
    // The stack holds the scopes around this one alone: its close has begun.
    if state.own_open_sites().any(|open| open == site)
        && let Some(sums) = state.counted().and_then(|table| table.get(site))
    {
        sums.add_nested(ticks);
    }
    state.release(opened.place);
    opened.start_ticks.wrapping_add(ticks)
}

/// Returns the entry that holds the sums of an open scope; `None` where the scope is not counted,
/// or has no entry of its own.
#[inline(always)]
pub(super) fn entry_of(opened: Opened) -> Option<u32> {
    // One comparison for the flags, and for an id beyond the last that has sums of its own.
    let entry = opened.flagged ^ COUNTED;
    (entry <= LAST_SITE).then_some(entry)
}
