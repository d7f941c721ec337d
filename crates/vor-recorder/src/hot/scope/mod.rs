//! Scopes: from the tick that opens one to the record of its span.
//!
//! Opening reads the clock and stores site and start on the thread's open-scope stack. Closing
//! reserves a record in the ring, reads the clock again, commits the record and pops the stack.
//!
//! ```text
//! open    site's word > 0 ── free place? ── clock ── push                       else open_slow
//! close   innermost? ── reserve ── clock ── 32 bits? ── commit ── release       else end_slow
//! ```
//!
//! The module `slow` holds one function for each operation that leaves this path. It selects the
//! module `counted`, `measured`, `nvtx` or `mixed` by the mode in which scopes are recorded.

mod cost;
mod record;
mod slow;
mod counted;
mod measured;
mod nvtx;
mod ruled;
mod mixed;
mod cpu;
mod named;
#[cfg(feature = "tracing-subscriber")]
mod unguarded;
pub mod manual;
mod message;
#[cfg(all(test, loom))]
mod models;

use std::marker::PhantomData;

use crate::clock::{self, Halves};
use crate::hot::args::{self, ArgWord};
use crate::hot::callsite::{self, CallSite};
use crate::hot::ring::Reservation;
use crate::hot::ring::{SITE_BITS, Slot};
use crate::hot::thread::{self, ThreadState};
use crate::hot::{modes, record_state, tracing_out};

pub(crate) use cost::measured_ps;
pub use cpu::{CpuScope, open_cpu};
pub(crate) use measured::{Baseline, Baselines, own_baselines};
pub use message::message;
pub(crate) use named::name_id;
#[cfg(not(feature = "off"))]
pub(crate) use named::open_named;
pub(crate) use named::open_registered;
pub use named::scope;
#[cfg(any(feature = "tokio", feature = "tower"))]
pub(crate) use named::{NameIds, cached_id};
use ruled::{ArgsUse, use_of_args};
pub(crate) use slow::Opened;
pub use slow::backward_ticks;
pub(crate) use slow::elapsed_ticks;
use slow::{begin_slow, end_slow, next_slow, open_slow};
#[cfg(feature = "tracing-subscriber")]
pub(crate) use unguarded::{try_end, try_end_poll, try_open};

/// An open scope. Dropping it ends the span.
///
/// It belongs to the thread that opened it and cannot be sent to another.
#[must_use = "a scope lasts as long as its guard is held"]
#[derive(Debug)]
pub struct Scope<const ARGS: usize = 0> {
    start_ticks: u64,
    /// The site's id; 0 if nothing is being recorded; negative, with flags, if the scope does not
    /// end on the fast path.
    site: i32,
    /// Its place on the open-scope stack.
    place: u32,
    words: [u64; ARGS],
    not_send: PhantomData<*mut ()>,
}

/// A scope with a name made at run time, opened by [`scope`].
pub type ScopeGuard = Scope<0>;

/// Opens a scope at a call site.
#[inline(always)]
pub fn open(site: &'static CallSite) -> Scope {
    let id = site.word();
    // Compared first, so that a scope that is off jumps once, to the code after it.
    if callsite::is_ruled_off(id) {
        return Scope::off();
    }
    if callsite::is_fast(id) {
        return Scope::begin(id, []);
    }
    if !record_state::is_on() && !tracing_out::is_wanted() {
        return Scope::off();
    }
    Scope::from_opened(open_slow(site, 0, 0), [])
}

/// Opens a scope at a call site with arguments. `args` makes them, and is called only while spans
/// are recorded.
#[inline(always)]
pub fn open_with<const ARGS: usize>(
    site: &'static CallSite,
    args: impl FnOnce() -> [ArgWord; ARGS],
) -> Scope<ARGS> {
    let (id, of_kinds) = site.word_and_kinds();
    if callsite::is_ruled_off(id) {
        return Scope::off();
    }
    // A scope that is not recorded, or only counted, needs no arguments.
    if !callsite::is_fast(id) {
        if !record_state::keeps_spans() {
            if !record_state::is_on() && !tracing_out::is_wanted() {
                return Scope::off();
            }
            return Scope::from_opened(open_slow(site, 0, 0), [0; ARGS]);
        }
        if modes::are_active() {
            match use_of_args(site) {
                ArgsUse::Made => {}
                ArgsUse::Unused => {
                    return Scope::from_opened(open_slow(site, 0, 0), [0; ARGS]);
                }
                ArgsUse::Off => return Scope::off(),
            }
        }
    }
    let args = args();
    let kinds = args::kinds(&args);
    let words = args.map(|arg| arg.word);
    if callsite::is_fast(id) && of_kinds == kinds {
        return Scope::begin(id, words);
    }
    Scope::from_opened(
        open_slow(site, kinds, args::first_number_word(&args)),
        words,
    )
}

impl<const ARGS: usize> Scope<ARGS> {
    /// A scope that records nothing.
    #[inline(always)]
    pub const fn off() -> Self {
        Self::new(0, 0, 0, [0; ARGS])
    }

    #[inline(always)]
    const fn new(start_ticks: u64, site: u32, place: u32, words: [u64; ARGS]) -> Self {
        Self {
            start_ticks,
            site: site as i32,
            place,
            words,
            not_send: PhantomData,
        }
    }

    #[inline(always)]
    fn from_opened(opened: Opened, words: [u64; ARGS]) -> Self {
        Self::new(opened.start_ticks, opened.flagged, opened.place, words)
    }

    #[inline(always)]
    fn opened(&self) -> Opened {
        Opened {
            start_ticks: self.start_ticks,
            flagged: self.site as u32,
            place: self.place,
        }
    }

    /// Opens a scope at a registered site, with the hardware's clock.
    #[inline(always)]
    fn begin(id: u32, words: [u64; ARGS]) -> Self {
        match Self::begin_in(thread::hot(), id, words) {
            Some(scope) => scope,
            None => Self::from_opened(begin_slow(id), words),
        }
    }

    /// Opens a scope in the state of its thread, unless that is busy or has no room.
    #[inline(always)]
    fn begin_in(state: &ThreadState, id: u32, words: [u64; ARGS]) -> Option<Self> {
        // The clock is read first: a reading waits for the loads before it, and the program does
        // not wait for the loads after it.
        let start_ticks = clock::hardware_ticks();
        let place = state.free_place()?;
        state.push_open_at(place, id, start_ticks);
        Some(Self::new(start_ticks, id, place, words))
    }

    /// Returns the site's id and the start in ticks, unless nothing is being recorded or the scope
    /// is only counted.
    #[cfg(not(feature = "off"))]
    #[inline(always)]
    pub(crate) fn start(&self) -> Option<(u32, u64)> {
        let id = self.site as u32 & crate::hot::ring::MAX_SITE;
        let is_counted = self.site as u32 & slow::COUNTED == slow::COUNTED;
        (id != 0 && !is_counted).then_some((id, self.start_ticks))
    }

    /// Returns whether the scope leaves neither a record nor a sum.
    #[cfg(all(test, not(any(feature = "off", loom, target_family = "wasm"))))]
    pub(crate) fn leaves_nothing(&self) -> bool {
        self.site as u32 & crate::hot::ring::MAX_SITE == 0
    }

    /// Returns whether anything is being recorded.
    #[cfg(feature = "tower")]
    pub(crate) fn is_recorded(&self) -> bool {
        self.opened().is_recorded()
    }

    /// Sets the words of arguments that became known after the scope opened. They are of the kinds
    /// of its site.
    #[inline(always)]
    pub(crate) fn set_words(&mut self, words: [u64; ARGS]) {
        self.words = words;
    }

    /// Consumes the guard without ending the scope. [`resume`](Self::resume) makes another guard.
    #[cfg(any(feature = "tower", feature = "tracing-subscriber"))]
    #[inline(always)]
    pub(crate) fn leave_open(self) -> Opened {
        std::mem::ManuallyDrop::new(self).opened()
    }

    /// Returns the guard of a scope that was left open, with arguments of the kinds of `id`. The
    /// arguments are known only at its end.
    #[cfg(any(feature = "tower", feature = "tracing-subscriber"))]
    #[inline(always)]
    pub(crate) fn resume(opened: Opened, id: u32, words: [u64; ARGS]) -> Self {
        let flags = opened.flagged & !crate::hot::ring::MAX_SITE;
        // A scope that is skipped has no id.
        let id = if opened.is_recorded() { id } else { 0 };
        Self::new(opened.start_ticks, flags | id, opened.place, words)
    }

    /// Ends the span and returns its end in ticks, unless nothing was being recorded.
    #[inline(always)]
    pub(crate) fn close(self) -> Option<u64> {
        // `end` records the span, so the drop must not run.
        std::mem::ManuallyDrop::new(self).end()
    }

    /// Records the span as ending now, and returns its end in ticks, unless nothing was being
    /// recorded.
    #[inline(always)]
    fn end(&self) -> Option<u64> {
        if self.site > 0
            && let Some(end) = self.end_in(thread::hot())
        {
            return Some(end.ticks());
        }
        if self.site == 0 {
            return None;
        }
        // A copy, because the guard itself stays in registers as long as nothing takes its address.
        let words = self.words;
        match end_slow(self.opened(), &words) {
            0 => None,
            end_ticks => Some(end_ticks),
        }
    }

    /// Records the span in the state of its thread, as ending now. If that is impossible, the place
    /// stays claimed where it was the innermost: [`end_slow`] takes over the claim.
    #[inline(always)]
    fn end_in(&self, state: &ThreadState) -> Option<Halves> {
        if state.begin_close(self.place)
            && let Some(record) = self.reserve_record(state)
            && let end = Halves::read()
            && let (low, false) = end.since(self.start_ticks)
        {
            commit_record(state, record, low);
            state.release(self.place);
            return Some(end);
        }
        None
    }

    #[inline(always)]
    fn reserve_record(&self, state: &ThreadState) -> Option<Reservation> {
        reserve_record(state, self.start_ticks, self.site as u32, &self.words)
    }
}

impl<const ARGS: usize> Drop for Scope<ARGS> {
    #[inline(always)]
    fn drop(&mut self) {
        self.end();
    }
}

/// Writes the record of a span except its duration. Returns `None` if the ring is at its limit.
///
/// The fast path reads the clock afterwards: a processor hides the work before a clock reading
/// better than the work after it.
#[inline(always)]
fn reserve_record(
    state: &ThreadState,
    start_ticks: u64,
    id: u32,
    words: &[u64],
) -> Option<Reservation> {
    let ring = &state.ring;
    let tag = id | (words.len().div_ceil(2) as u32) << SITE_BITS;
    let pair = |i: usize| -> Slot { [word(words, 2 * i), word(words, 2 * i + 1)] };
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: `state` is this thread's own, so this thread is the ring's one producer; the ring of
    // a stand-in has no room. Nothing is pushed between this call and `commit_record`: the caller
    // has begun to close a scope, and a handler that interrupts it finds the thread busy.
    unsafe {
        match words.len() {
            0 => ring.reserve(start_ticks, tag, &[]),
            1 | 2 => ring.reserve(start_ticks, tag, &[pair(0)]),
            3 | 4 => ring.reserve(start_ticks, tag, &[pair(0), pair(1)]),
            5 | 6 => ring.reserve(start_ticks, tag, &[pair(0), pair(1), pair(2)]),
            _ => ring.reserve(start_ticks, tag, &[pair(0), pair(1), pair(2), pair(3)]),
        }
    }
}

/// Completes the record that `reserve_record` wrote last, with the low half of its duration.
#[inline(always)]
fn commit_record(state: &ThreadState, record: Reservation, low: u32) {
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: as in `reserve_record`, whose callers call this next or not at all.
    unsafe {
        state.ring.commit(record, low);
    }
}

#[inline(always)]
fn word(words: &[u64], i: usize) -> u64 {
    words.get(i).copied().unwrap_or(0)
}

/// A chain of phases: one tick ends a phase and begins the next. Made by `profile_phase!`. Dropping
/// it ends the last phase.
#[must_use = "the last phase ends when the chain is dropped"]
#[derive(Debug)]
pub struct PhaseChain {
    phase: Scope,
}

impl PhaseChain {
    /// Returns whether the phase that is open leaves neither a record nor a sum.
    #[cfg(all(test, not(any(feature = "off", loom, target_family = "wasm"))))]
    pub(crate) fn leaves_nothing(&self) -> bool {
        self.phase.leaves_nothing()
    }

    /// Opens the first phase.
    #[inline(always)]
    pub fn begin(site: &'static CallSite) -> Self {
        Self { phase: open(site) }
    }

    /// Ends the phase that is open and begins another, at the same tick.
    #[inline(always)]
    pub fn next(&mut self, site: &'static CallSite) {
        let id = site.word();
        // The code below or `next_slow` records the phase that ended, so its drop must not run.
        let last = std::mem::ManuallyDrop::new(std::mem::replace(&mut self.phase, Scope::off()));
        if last.site > 0 && callsite::is_fast(id) {
            let state = thread::hot();
            if state.begin_close(last.place)
                && let Some(record) = last.reserve_record(state)
                && let now = Halves::read()
                && let (low, false) = now.since(last.start_ticks)
            {
                commit_record(state, record, low);
                // The next phase takes over the claim to the place.
                state.push_open_at(last.place, id, now.ticks());
                self.phase = Scope::new(now.ticks(), id, last.place, []);
                return;
            }
            // The place stays claimed: `next_slow` takes over the claim.
        }
        // The word is read again, so that the code above need not keep it.
        if last.site == 0
            && (callsite::is_ruled_off(site.word())
                || !record_state::is_on() && !tracing_out::is_wanted())
        {
            return;
        }
        self.phase = Scope::from_opened(next_slow(last.opened(), site), []);
    }
}

#[cfg(all(test, not(any(feature = "off", loom)), not(target_family = "wasm")))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::{Arc, Mutex};

    use vor_capture::model::batch::SpanBatch;
    use vor_capture::model::frame::FrameSnapshot;
    use vor_capture::sink::{FrameSink, Interest};
    use vor_fixtures::own_process;

    use super::*;
    use crate::drain;
    use crate::setup::Config;

    static SITE: CallSite = CallSite::new("steps back", "", "", 0);

    /// Keeps start and duration of every span.
    #[derive(Clone, Default)]
    struct SpanSink(Arc<Mutex<Vec<(u64, u64)>>>);

    impl FrameSink for SpanSink {
        fn interest(&self) -> Interest {
            Interest::BATCHES
        }

        fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
            for thread in &batch.threads {
                assert_eq!(thread.dropped_spans, 0);
                let starts = thread.start_ticks.iter().copied();
                let spans = starts.zip(thread.duration_ticks.iter().copied());
                self.0.lock().unwrap().extend(spans);
            }
            Ok(())
        }

        fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
            Ok(())
        }
    }

    /// Opens a scope as [`Scope::begin`] does, on a processor whose clock is ahead of this one's.
    fn open_ahead(ticks: u64) -> Scope {
        let (id, start_ticks) = (SITE.word(), clock::ticks() + ticks);
        let state = thread::hot();
        let place = state.free_place().unwrap();
        state.push_open_at(place, id, start_ticks);
        Scope::new(start_ticks, id, place, [])
    }

    #[test]
    fn a_span_in_which_the_clock_steps_back_is_counted_and_has_no_duration() {
        own_process!();
        let spans = SpanSink::default();
        Config::new().sink("spans", spans.clone()).enable();
        let taken = || {
            drain::flush();
            spans.0.lock().unwrap().clone()
        };
        drop(open(&SITE));
        assert_eq!(backward_ticks(), 0);
        let ahead = clock::approximate_ticks(20_000_000);
        let mut made = 1;
        // A thread that loses its core for longer does not see the clock step back.
        while backward_ticks() < 3 {
            let before = backward_ticks();
            let scope = open_ahead(ahead);
            let start_ticks = scope.start_ticks;
            drop(scope);
            made += 1;
            // A span is delivered when the clock has passed its end.
            while taken().len() < made {
                std::hint::spin_loop();
            }
            let (start, duration) = taken()[made - 1];
            assert_eq!(start, start_ticks);
            assert_eq!(duration == 0, backward_ticks() == before + 1);
        }
        assert_eq!(thread::open_scopes(), []);
        // Other spans are not counted.
        drop(open(&SITE));
        assert_eq!((taken().len(), backward_ticks()), (made + 1, 3));
    }
}
