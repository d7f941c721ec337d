//! Records that a thread pushes outside of the fast path: records of any size, text, and records of
//! a thread that has ended.

use vor_capture::filled;
use vor_capture::model::catalog::ThreadInfo;

use super::current::{StandIn, number_or, own};
use super::list::threads;
use super::state::ThreadState;
use super::{is_busy, os_id, while_busy, with_state};
use crate::hot::args;
#[cfg(feature = "tracing-subscriber")]
use crate::hot::callsite::MAX_ARGS;
use crate::hot::hooks;
use crate::hot::ring::Room;
#[cfg(feature = "tracing-subscriber")]
use crate::hot::ring::{KEPT_TEXT, KEPT_TEXTS};
use crate::hot::ring::{MAX_EXTENSIONS, SITE_BITS, Slot, Special, TAG_SPECIAL, word1};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// Records dropped on threads without a state: during their setup or their end. Incremented by any
/// thread, reset by the drain, both relaxed.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns the number of records that were dropped on threads without a state, and resets it.
pub(crate) fn take_lost() -> u64 {
    match LOST.load(Ordering::Relaxed) {
        0 => 0,
        _ => LOST.swap(0, Ordering::Relaxed),
    }
}

/// Counts a record as dropped because this thread is inside vor.
#[cold]
pub(crate) fn count_drop() {
    if StandIn::Silent.is_current() {
        return;
    }
    match own() {
        Some(state) => state.ring.count_drop(),
        None => _ = LOST.fetch_add(1, Ordering::Relaxed),
    }
}

/// Returns whether this thread is inside vor. If it is, counts a record as dropped.
#[inline]
pub(crate) fn drop_if_busy() -> bool {
    let is_busy = is_busy();
    if is_busy {
        count_drop();
    }
    is_busy
}

/// Pushes a record that did not fit under the limit, and wakes the worker. Returns whether there
/// was room.
#[cold]
#[inline(never)]
fn push_slow(state: &ThreadState, record: &[Slot]) -> bool {
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: `state` is this thread's own, and no handler records into it meanwhile, or it is held
    // exclusively under the list's lock.
    let room = unsafe { state.ring.push_slow(record) };
    hooks::wake(room != Room::Plenty);
    room != Room::None
}

/// Pushes a record of any size on this thread, or counts it as dropped. `state` is this thread's
/// own. Called only where no handler records.
#[inline]
pub(crate) fn push_record(state: &ThreadState, record: &[Slot]) {
    if !push(state, record) {
        state.ring.count_drop();
    }
}

/// Pushes a record of any size on this thread, or counts it as dropped. The thread may have a state
/// or not.
#[inline]
pub(crate) fn push_or_drop(record: &[Slot]) {
    if with_state(|state| push_record(state, record)).is_none() {
        push_without_state(record);
    }
}

/// Pushes a record on a thread that is ending. On a thread that is inside vor, counts it as
/// dropped.
#[cold]
#[inline(never)]
pub(crate) fn push_without_state(record: &[Slot]) {
    if StandIn::Ended.is_current() {
        while_busy(|| push_late(record));
    } else {
        count_drop();
    }
}

/// Pushes a record of a thread that has released its state: the scope closes in the destructor of a
/// thread-local.
fn push_late(record: &[Slot]) {
    let mut threads = threads();
    let number = number_or(|| {
        threads.add_info(filled!(ThreadInfo {
            os_id: os_id(),
            name: String::new(),
        }))
    });
    let state = threads.take_state(number);
    push_record(&state, record);
    state.end();
}

/// Pushes text into this thread's ring, and returns its key, or 0 if there was no room. The
/// argument then reports that its text is lost. If there is still no room when the scope ends, the
/// span is dropped and counted.
pub(crate) fn push_text(text: &str) -> u64 {
    let push = |state: &ThreadState| {
        let key = state.take_text_key();
        push_bytes(state, key, Special::Text, text).then_some(key)
    };
    with_state(push).flatten().unwrap_or(0)
}

/// Pushes text as [`push_text`] does, into this thread's `state`, where no handler records. Any
/// number of spans of this thread may refer to it, if they end while
/// [`keeps_until`](ThreadState::keeps_until) returns `true`.
#[cfg(feature = "tracing-subscriber")]
pub(crate) fn push_kept_text(state: &ThreadState, text: &str) -> u64 {
    let key = KEPT_TEXT | state.take_kept_key();
    if push_bytes(state, key, Special::Text, text) {
        key
    } else {
        0
    }
}

/// Returns the next key of a thread up to which a key of [`push_kept_text`] is valid, with room for
/// the other texts of a span. Returns 0 for the key 0, which has no text.
#[cfg(feature = "tracing-subscriber")]
pub(crate) fn kept_until(key: u64) -> u64 {
    match key & !KEPT_TEXT {
        0 => 0,
        key => key + (KEPT_TEXTS - MAX_ARGS as u64),
    }
}

/// Pushes a special record of two slots on this thread. If there is no room, counts it as dropped.
/// The thread may have a state or not.
pub(crate) fn push_special(special: Special, word0: u64, low: u32, more: Slot) {
    let tag = TAG_SPECIAL | 1 << SITE_BITS | special as u32;
    let record = [[word0, word1(low, tag)], more];
    push_or_drop(&record);
}

/// Pushes a message with the time `ticks` into this thread's ring. If there is no room, counts it
/// as dropped.
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

/// Slots of a record with a short text, the common case.
const SHORT_SLOTS: usize = 8;

fn push_bytes(state: &ThreadState, word0: u64, special: Special, text: &str) -> bool {
    if text.len() <= (SHORT_SLOTS - 1) * 16 {
        return push_bytes_within::<SHORT_SLOTS>(state, word0, special, text);
    }
    let text = args::cut(text, args::MAX_STR_BYTES);
    push_bytes_within::<{ MAX_EXTENSIONS + 1 }>(state, word0, special, text)
}

/// Pushes a record with a text that fits into `SLOTS - 1` slots.
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

/// Pushes a record of any size. Returns `false` if there was no room; the caller counts that.
/// `state` is this thread's own.
pub(crate) fn push(state: &ThreadState, record: &[Slot]) -> bool {
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: `state` is this thread's own, and no handler records into it meanwhile, or it is held
    // exclusively under the list's lock.
    let pushed = unsafe { state.ring.push_slots(record) };
    pushed || push_slow(state, record)
}
