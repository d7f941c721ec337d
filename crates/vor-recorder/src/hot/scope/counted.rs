//! Scopes that are counted and not recorded.
//!
//! Opening stores site and start on the open-scope stack, as for recorded scopes, and begins a
//! level of the thread's table. Closing adds the duration to the sums of the site, and to the
//! nested time of the level around it. Nothing is written to a ring. If anything is missing (the
//! thread's table, the sums of a site, a place on the stack, the hardware's clock), the module
//! `mixed` handles the scope and makes the missing part.

use super::mixed;
use super::slow::{COUNTED, Opened};
use crate::clock;
use crate::hot::callsite::CallSite;
use crate::hot::thread::{self, LAST_SITE, ThreadState};

/// Opens a scope at a call site.
///
/// A counted scope has no arguments, so the call of `mixed` passes none and saves fewer registers.
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

/// Ends a scope. Returns its end in ticks, or 0 if nothing was counted.
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
    try_begin(site.slow_id()?, at)
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
/// Work moved before the clock reading and code aligned behind it pay off for recorded scopes, but
/// not here. In one experiment, an empty scope took 1.47 and 1.49 times two clock readings with
/// them, and 1.44 times without.
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
    // One comparison: a clock that stepped back makes the longest durations.
    if !sums.add_short(ticks) {
        state.reopen(opened.place);
        return None;
    }
    sums.add_inside(level);
    around.add(ticks);
    if around.may_hold(opened.flagged) {
        // A call in tail position, so that the common case saves no registers for it.
        return Some(end_nested(opened, ticks));
    }
    state.release(opened.place);
    Some(end_ticks)
}

/// Ends a scope that may be a recursive call, after its duration `ticks` was added. Returns its end
/// in ticks.
#[cold]
#[inline(never)]
extern "C" fn end_nested(opened: Opened, ticks: u64) -> u64 {
    let state = thread::hot();
    let site = opened.flagged ^ COUNTED;
    // The stack holds only the scopes around this one, because its close has begun.
    if state.own_open_sites().any(|open| open == site)
        && let Some(sums) = state.counted().and_then(|table| table.get(site))
    {
        sums.add_nested(ticks);
    }
    state.release(opened.place);
    opened.start_ticks.wrapping_add(ticks)
}

/// Returns the entry that holds the sums of an open scope. `None` if the scope is not counted, or
/// has no entry of its own.
#[inline(always)]
pub(super) fn entry_of(opened: Opened) -> Option<u32> {
    // One comparison checks the flags and excludes ids that have no sums of their own.
    let entry = opened.flagged ^ COUNTED;
    (entry <= LAST_SITE).then_some(entry)
}
