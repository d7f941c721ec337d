//! The rare half of scopes: the first use of a site or a thread, a full ring, a span of more than 32 bits of ticks, a clock that stepped back or is
//! not the hardware's, a `tracing` subscriber.
//!
//! The functions that the hot path calls cannot unwind, and take and return what fits registers: so the compiler keeps the guard of a scope in
//! registers too, though these calls stand beside it. What might panic in here is other people's code, and the tap catches that.

use std::cell::RefCell;
use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::word;
use crate::callsite::{self, CallSite, Kinds, UNREGISTERED};
use crate::ring::{MAX_SITE, SITE_BITS, TAG_LONG, word1};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;
use crate::{clock, switch, tap, thread};

/// Flags beside the id in a scope's site: not the fast path, and why.
const RARE: u32 = 1 << 31;
/// The scope was begun with the other clock.
const OTHER_CLOCK: u32 = RARE | 1 << 30;
/// The scope has entered a `tracing` span.
const TAPPED: u32 = RARE | 1 << 29;

/// Clock readings that lay before an earlier one of the same scope; the span was recorded with length zero.
static BACKWARD_TICKS: AtomicU64 = AtomicU64::new(0);

/// Returns how many spans were recorded with length zero because the clock stepped back during them.
#[must_use]
pub fn backward_ticks() -> u64 {
    BACKWARD_TICKS.load(Ordering::Relaxed)
}

/// What a guard holds: all zero where nothing is recorded.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Opened {
    pub(super) start_ticks: u64,
    /// The site's id and flags.
    pub(super) flagged: u32,
    /// Its place on the open-scope stack.
    pub(super) place: u32,
}

/// Returns the time between two readings of the clock, in ticks; 0, and counted, where the clock stepped back.
pub(crate) fn elapsed_ticks(start_ticks: u64, end_ticks: u64) -> u64 {
    let elapsed = end_ticks.wrapping_sub(start_ticks);
    // A difference of more than half the range is a step back, not a span of centuries.
    if elapsed > u64::MAX / 2 {
        BACKWARD_TICKS.fetch_add(1, Ordering::Relaxed);
        return 0;
    }
    elapsed
}

/// Opens a scope: its site has to be registered, the clock is not the hardware's, or a `tracing` subscriber may want it.
#[cold]
#[inline(never)]
pub(super) extern "C" fn open_slowly(site: &'static CallSite, kinds: Kinds) -> Opened {
    open_at(site, kinds, None)
}

/// Opens a scope at a registered site: the thread has no state, too many scopes are open, or the clock is not the hardware's.
#[cold]
#[inline(never)]
pub(super) extern "C" fn begin_slowly(id: u32) -> Opened {
    if !switch::is_on() {
        return Opened::default();
    }
    begin_at(id, None)
}

/// Ends a phase and begins another at the same tick, in the rare cases of either.
#[cold]
#[inline(never)]
pub(super) extern "C" fn next_slowly(last: Opened, site: &'static CallSite) -> Opened {
    let ended = end(last, &[]);
    open_at(site, 0, ended)
}

/// Ends a scope that has flags, or one without for which the ring has no place at hand; returns when, in ticks, 0 where nothing was being recorded.
#[cold]
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "what is wanted of the C calling convention is that it cannot unwind"
)]
pub(super) extern "C" fn end_slowly(opened: Opened, words: &[u64]) -> u64 {
    end(opened, words).unwrap_or(0)
}

/// Records a span without flags whose length may not fit 32 bits, or which the clock stepped back in. Its end is as [`clock::end_of`] takes it.
#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "as for `end_slowly`")]
pub(super) extern "C" fn record_slowly(opened: Opened, high: u32, low: u32, words: &[u64]) {
    record(opened, clock::end_of(opened.start_ticks, high, low), words);
}

/// Opens a scope at the tick `at`, or now.
fn open_at(site: &'static CallSite, kinds: Kinds, at: Option<u64>) -> Opened {
    let mut opened = Opened::default();
    if switch::is_on() {
        let id = site.id(kinds).unwrap_or_else(|| register(site, kinds));
        opened = begin_at(id, at);
    }
    if tap::is_wanted() {
        if opened.flagged == 0 {
            // The start tells the span apart from those of other scopes.
            opened.start_ticks = clock::ticks();
        }
        if tap::enter(site, opened.start_ticks) {
            opened.flagged |= TAPPED;
        }
    }
    opened
}

/// Opens a scope at a registered site, at the tick `at` or now.
fn begin_at(id: u32, at: Option<u64>) -> Opened {
    if id == UNREGISTERED || thread::is_busy() {
        return Opened::default();
    }
    let state = thread::current().or_else(thread::set_up);
    let start_ticks = at.unwrap_or_else(clock::ticks);
    Opened {
        start_ticks,
        flagged: if clock::is_hardware() {
            id
        } else {
            id | OTHER_CLOCK
        },
        place: state.map_or(0, |state| state.push_open(id, start_ticks)),
    }
}

fn end(opened: Opened, words: &[u64]) -> Option<u64> {
    let is_recorded = opened.flagged & MAX_SITE != 0;
    let end_ticks = is_recorded.then(clock::ticks);
    if let Some(end_ticks) = end_ticks {
        record(opened, end_ticks, words);
    }
    if opened.flagged & TAPPED == TAPPED {
        tap::exit(opened.start_ticks);
    }
    end_ticks
}

fn record(opened: Opened, end_ticks: u64, words: &[u64]) {
    let duration = elapsed_ticks(opened.start_ticks, end_ticks);
    let mut record = [[0; 2]; callsite::MAX_ARGS / 2 + 2];
    let mut used = 1;
    for pair in words.chunks(2) {
        record[used] = [word(pair, 0), word(pair, 1)];
        used += 1;
    }
    let mut tag = opened.flagged & MAX_SITE;
    if duration > u64::from(u32::MAX) {
        record[used] = [duration >> 32, 0];
        used += 1;
        tag |= TAG_LONG;
    }
    tag |= (used as u32 - 1) << SITE_BITS;
    record[0] = [opened.start_ticks, word1(duration as u32, tag)];
    thread::push_anyhow(&record[..used]);
    if let Some(state) = thread::current() {
        state.pop_open(opened.place);
    }
}

/// Returns the id of a site for arguments of these kinds, and enters it into the registry first; [`UNREGISTERED`] inside vor.
fn register(site: &'static CallSite, kinds: Kinds) -> u32 {
    if thread::is_busy() {
        return UNREGISTERED;
    }
    if kinds == 0 {
        return thread::while_busy(|| site.register(0));
    }
    let key = (std::ptr::from_ref(site).addr(), kinds);
    let cached = VARIANTS.try_with(|variants| variants.try_borrow().ok()?.get(&key).copied());
    if let Ok(Some(id)) = cached {
        return id;
    }
    thread::while_busy(|| {
        let id = site.register(kinds);
        // A cache that is gone or in use only means the lock next time.
        let _ = VARIANTS.try_with(|variants| {
            if let Ok(mut variants) = variants.try_borrow_mut() {
                variants.insert(key, id);
            }
        });
        id
    })
}

thread_local! {
    /// Ids of sites for argument kinds other than the first ones they had: of a generic function, or of an option. The site itself
    /// knows one combination; there are as many more as the program's source has.
    static VARIANTS: RefCell<HashMap<(usize, Kinds), u32, FxBuildHasher>> =
        const { RefCell::new(HashMap::with_hasher(FxBuildHasher)) };
}
