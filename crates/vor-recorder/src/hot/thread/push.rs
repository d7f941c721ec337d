//! What a thread pushes into its ring beside the hot path: records of any length, text, and what a
//! thread leaves that has ended.

use vor_capture::filled;
use vor_capture::model::catalog::ThreadInfo;

use super::state::ThreadState;
use super::{Absent, NUMBER, is_busy, os_id, own, threads, while_busy, with_state};
use crate::hot::args;
#[cfg(feature = "tracing")]
use crate::hot::callsite::MAX_ARGS;
use crate::hot::hooks;
use crate::hot::ring::queue::Room;
#[cfg(feature = "tracing")]
use crate::hot::ring::{KEPT_TEXT, KEPT_TEXTS};
use crate::hot::ring::{MAX_EXTENSIONS, SITE_BITS, Slot, Special, TAG_SPECIAL, word1};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// Records dropped on threads without a state: that get one, or are ending. Counted by any thread
/// and taken by the drain, relaxed.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Takes the number of records that were dropped since the last call on threads without a state.
pub(crate) fn take_lost() -> u64 {
    match LOST.load(Ordering::Relaxed) {
        0 => 0,
        _ => LOST.swap(0, Ordering::Relaxed),
    }
}

/// Counts a record as dropped that cannot be recorded since this thread is inside vor.
#[cold]
pub(crate) fn count_drop() {
    if Absent::Silent.is_here() {
        return;
    }
    match own() {
        Some(state) => state.ring.count_drop(),
        None => _ = LOST.fetch_add(1, Ordering::Relaxed),
    }
}

/// Returns whether this thread is inside vor, and counts a record as dropped where it is.
#[inline]
pub(crate) fn drop_if_busy() -> bool {
    let is_busy = is_busy();
    if is_busy {
        count_drop();
    }
    is_busy
}

/// Pushes a record that did not fit under the limit, and sees to it that the worker comes. Returns
/// whether there was room.
#[cold]
#[inline(never)]
fn push_slow(state: &ThreadState, record: &[Slot]) -> bool {
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: `state` is this thread's own, which no handler records into meanwhile, or is held
    // exclusively under the list's lock.
    let room = unsafe { state.ring.push_slow(record) };
    hooks::wake(room != Room::Plenty);
    room != Room::None
}

/// Pushes a record of any length on this thread, whose own `state` is, or counts it as dropped.
/// Called where no handler records.
#[inline]
pub(crate) fn push_record(state: &ThreadState, record: &[Slot]) {
    if !push(state, record) {
        state.ring.count_drop();
    }
}

/// Pushes a record of any length on this thread, whatever state the thread is in.
#[inline]
pub(crate) fn push_or_drop(record: &[Slot]) {
    if with_state(|state| push_record(state, record)).is_none() {
        push_without_state(record);
    }
}

/// Pushes a record on a thread that is ending; one on a thread that is inside vor is dropped.
#[cold]
#[inline(never)]
pub(crate) fn push_without_state(record: &[Slot]) {
    if Absent::Ended.is_here() {
        while_busy(|| push_late(record));
    } else {
        count_drop();
    }
}

/// Records for a thread whose own state is gone: scopes that close in destructors of thread-locals.
fn push_late(record: &[Slot]) {
    let mut threads = threads();
    let number = match NUMBER.get() {
        0 => {
            let number = threads.add_info(filled!(ThreadInfo {
                os_id: os_id(),
                name: String::new(),
            }));
            NUMBER.set(number + 1);
            number
        }
        number => number - 1,
    };
    let state = threads.take_state(number);
    push_record(&state, record);
    state.end();
}

/// Pushes text into this thread's ring and returns its key, 0 where there was no room: then the
/// argument says that its text is lost, and if there is still no room when the scope ends, the span
/// is dropped and counted.
pub(crate) fn push_text(text: &str) -> u64 {
    let push = |state: &ThreadState| {
        let key = state.take_text_key();
        push_bytes(state, key, Special::Text, text).then_some(key)
    };
    with_state(push).flatten().unwrap_or(0)
}

/// Pushes text as [`push_text`] does into this thread's `state`, where no handler records, for any
/// number of spans of this thread that end as long as [`keeps_until`](ThreadState::keeps_until)
/// tells so.
#[cfg(feature = "tracing")]
pub(crate) fn push_kept_text(state: &ThreadState, text: &str) -> u64 {
    let key = KEPT_TEXT | state.take_kept_key();
    if push_bytes(state, key, Special::Text, text) {
        key
    } else {
        0
    }
}

/// Returns up to which next key of a thread what [`push_kept_text`] returned there is still a
/// text's key, when the other texts of a span have been pushed; 0 for what is no text's key.
#[cfg(feature = "tracing")]
pub(crate) fn kept_until(key: u64) -> u64 {
    match key & !KEPT_TEXT {
        0 => 0,
        key => key + (KEPT_TEXTS - MAX_ARGS as u64),
    }
}

/// Pushes a special record of two slots on this thread, whatever state the thread is in. Where
/// there is no room it counts as a dropped record.
pub(crate) fn push_special(special: Special, word0: u64, low: u32, more: Slot) {
    let tag = TAG_SPECIAL | 1 << SITE_BITS | special as u32;
    let record = [[word0, word1(low, tag)], more];
    push_or_drop(&record);
}

/// Pushes a message with the time `ticks` into this thread's ring. Where there is no room it counts
/// as a dropped record.
pub(crate) fn push_message(ticks: u64, text: &str) {
    let push = |state: &ThreadState| {
        if !push_bytes(state, ticks, Special::Message, text) {
            state.ring.count_drop();
        }
    };
    if with_state(push).is_none() {
        count_drop();
    }
}

/// Slots of a record with a text as most are.
const SHORT_SLOTS: usize = 8;

fn push_bytes(state: &ThreadState, word0: u64, special: Special, text: &str) -> bool {
    if text.len() <= (SHORT_SLOTS - 1) * 16 {
        return push_bytes_within::<SHORT_SLOTS>(state, word0, special, text);
    }
    let text = args::cut(text, args::MAX_STR_BYTES);
    push_bytes_within::<{ MAX_EXTENSIONS + 1 }>(state, word0, special, text)
}

/// As [`push_bytes`], of a text that fits into so many slots less one.
fn push_bytes_within<const SLOTS: usize>(
    state: &ThreadState,
    word0: u64,
    special: Special,
    text: &str,
) -> bool {
    let mut record = [[0_u64; 2]; SLOTS];
    let mut used = 1;
    for (slot, bytes) in record[1..].iter_mut().zip(text.as_bytes().chunks(16)) {
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        let both = u128::from_le_bytes(padded);
        *slot = [both as u64, (both >> 64) as u64];
        used += 1;
    }
    let tag = TAG_SPECIAL | (used as u32 - 1) << SITE_BITS | special as u32;
    record[0] = [word0, word1(text.len() as u32, tag)];
    push(state, &record[..used])
}

/// Pushes a record of any length; returns `false` where there was no room, which the caller counts.
/// `state` is this thread's own.
pub(crate) fn push(state: &ThreadState, record: &[Slot]) -> bool {
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: `state` is this thread's own, which no handler records into meanwhile, or is held
    // exclusively under the list's lock.
    let pushed = unsafe { state.ring.push_slots(record) };
    pushed || push_slow(state, record)
}
