//! Scopes of `tracing` spans, which have no guard: the span's slot stores the [`Opened`].
//!
//! Each function handles only the fast path. If the scope is not on that path, it changes nothing
//! and returns `None`.

use super::{Opened, commit_record};
use crate::clock::{self, Halves};
use crate::hot::ring::{MAX_SITE, SITE_BITS, Slot, TAG_POLL};
use crate::hot::{callsite, record_state, thread};

/// Opens a scope by an id of the registry.
#[inline(always)]
pub(crate) fn try_open(id: u32) -> Option<Opened> {
    if !record_state::are_names_fast() || !callsite::is_fast(id) {
        return None;
    }
    let state = thread::hot();
    let start_ticks = clock::hardware_ticks();
    let place = state.free_place()?;
    state.push_open_at(place, id, start_ticks);
    Some(Opened {
        start_ticks,
        flagged: id,
        place,
    })
}

/// Ends a scope that [`try_open`] opened, with the words of arguments of the kinds of `id`. Returns
/// its end in ticks.
#[inline(always)]
pub(crate) fn try_end<const SLOTS: usize>(
    opened: Opened,
    id: u32,
    words: &[Slot; SLOTS],
) -> Option<u64> {
    try_end_tagged(opened, id | (SLOTS as u32) << SITE_BITS, words)
}

/// Ends a scope as [`try_end`] does, and also records it as a poll of a task. The last slot of
/// `words` is the task's id and the id of its site.
#[inline(always)]
pub(crate) fn try_end_poll<const SLOTS: usize>(
    opened: Opened,
    id: u32,
    words: &[Slot; SLOTS],
) -> Option<u64> {
    try_end_tagged(opened, id | (SLOTS as u32) << SITE_BITS | TAG_POLL, words)
}

#[inline(always)]
fn try_end_tagged<const SLOTS: usize>(
    opened: Opened,
    tag: u32,
    words: &[Slot; SLOTS],
) -> Option<u64> {
    // It is negative with flags, and 0 if nothing is recorded.
    if opened.flagged as i32 <= 0 || tag & MAX_SITE == 0 {
        return None;
    }
    let state = thread::hot();
    if !state.begin_close(opened.place) {
        return None;
    }
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: `state` is this thread's own, so this thread is the ring's one producer, and it
    // pushes nothing before the record is committed: a handler finds the thread busy.
    let record = unsafe { state.ring.reserve(opened.start_ticks, tag, words) };
    if let Some(record) = record
        && let end = Halves::read()
        && let (low, false) = end.since(opened.start_ticks)
    {
        commit_record(state, record, low);
        state.release(opened.place);
        return Some(end.ticks());
    }
    state.reopen(opened.place);
    None
}
