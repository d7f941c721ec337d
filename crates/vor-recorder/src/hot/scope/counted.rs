//! The way of scopes that are counted and not recorded: out of line, and as short as that allows.
//!
//! Opening notes site and start on the open-scope stack as ever, and begins a level of the thread's
//! table; closing adds the length to the sums of the site, and to what the level around it knows of
//! the scopes inside. Nothing goes into a ring. Whatever is missing (the thread's table, the sums
//! of a site, a place on the stack, the hardware's clock) sends the scope the way of the module
//! `slow`, which makes it.

use super::slow::{COUNTED, Opened};
use crate::clock;
use crate::hot::thread::{self, LAST_SITE, ThreadState};

/// Opens a scope at a registered site, at the tick `at` or now.
#[inline(always)]
pub(super) fn open(id: u32, at: Option<u64>) -> Option<Opened> {
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

/// Ends the innermost scope, and returns when that was, in ticks; `None` where it goes the long
/// way.
///
/// Neither work moved before the reading of the clock nor code aligned behind it pays here, as they
/// do where a record is written: in one experiment an empty scope took 1.47 and 1.49 times two
/// readings with them, and 1.44 as it stands.
#[inline(always)]
pub(super) fn end(opened: Opened) -> Option<u64> {
    let state = thread::hot();
    let table = state.counted()?;
    let sums = table.known(kept_as(opened)?)?;
    if !state.has_start(opened.place, opened.start_ticks) {
        return None;
    }
    let (level, around) = table.levels(ThreadState::depth_of(opened.place))?;
    if !state.begin_close(opened.place) {
        return None;
    }
    let end_ticks = clock::hardware_ticks();
    let ticks = end_ticks.wrapping_sub(opened.start_ticks);
    // One comparison: a clock that stepped back makes the longest lengths of all.
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

/// Ends a scope that may be a recursive call, whose length `ticks` has been added; returns when it
/// ended.
#[cold]
#[inline(never)]
extern "C" fn end_nested(opened: Opened, ticks: u64) -> u64 {
    let state = thread::hot();
    let site = opened.flagged ^ COUNTED;
    // The stack holds the scopes around this one alone: its close has begun.
    if state.own_open_sites().any(|open| open == site)
        && let Some(sums) = state.counted().and_then(|table| table.known(site))
    {
        sums.add_nested(ticks);
    }
    state.release(opened.place);
    opened.start_ticks.wrapping_add(ticks)
}

/// Returns the id under which the sums of an open scope are kept; `None` where the scope is not
/// counted, or not by [`end`].
#[inline(always)]
pub(super) fn kept_as(opened: Opened) -> Option<u32> {
    // One comparison for the flags, and for an id beyond the last that has sums of its own.
    let kept_as = opened.flagged ^ COUNTED;
    (kept_as <= LAST_SITE).then_some(kept_as)
}
