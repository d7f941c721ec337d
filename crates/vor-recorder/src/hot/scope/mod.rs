//! Scopes: from the tick that opens one to the record that its end leaves.
//!
//! Opening reads the clock and notes site and start on the thread's open-scope stack; closing reads
//! the clock again, takes the note back and pushes one slot. Everything that is rare stands in the
//! module `slow`. Where scopes are only counted, they go by the module `counted`; by `measured` and
//! `ranged` where more than the length is measured, and where an NVTX tool takes them too.

mod slow;
mod counted;
mod measured;
mod ranges;
mod cpu;
pub mod manual;

use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;

use rustc_hash::FxBuildHasher;
use vor_capture::model::measures::Measures;

use crate::clock;
use crate::clock::Halves;
use crate::hot::args::{self, ArgWord};
use crate::hot::callsite::{self, CallSite};
use crate::hot::ring::queue::Begun;
#[cfg(feature = "tracing")]
use crate::hot::ring::{MAX_SITE, TAG_POLL};
use crate::hot::ring::{SITE_BITS, Slot};
use crate::hot::thread::ThreadState;
use crate::hot::tracing_out;
use crate::hot::{record_state, thread};

pub use cpu::{CpuScope, open_cpu};
pub(crate) use measured::{Noted, Notes, own_notes};
pub(crate) use slow::Opened;
pub use slow::backward_ticks;
pub(crate) use slow::elapsed_ticks;
use slow::{begin_slow, end_slow, next_slow, open_slow};

/// An open scope; dropping it ends the span.
///
/// It belongs to the thread that opened it and cannot be sent away.
#[must_use = "a scope lasts as long as its guard is held"]
#[derive(Debug)]
pub struct Scope<const ARGS: usize = 0> {
    start_ticks: u64,
    /// The site's id, 0 when nothing is being recorded; below 0 with the flags of a scope that does
    /// not end on the fast path.
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
    if record_state::is_fast(id) {
        return Scope::begin(id, []);
    }
    if !record_state::is_on() && !tracing_out::is_wanted() {
        return Scope::off();
    }
    Scope::of(open_slow(site, 0, 0), [])
}

/// Opens a scope at a call site with arguments, which `args` makes only while recording is on.
#[inline(always)]
pub fn open_with<const ARGS: usize>(
    site: &'static CallSite,
    args: impl FnOnce() -> [ArgWord; ARGS],
) -> Scope<ARGS> {
    let (id, of_kinds) = site.word_and_kinds();
    // What is off or only counted needs no arguments.
    if !record_state::is_fast(id) && !record_state::keeps_spans() {
        if !record_state::is_on() && !tracing_out::is_wanted() {
            return Scope::off();
        }
        return Scope::of(open_slow(site, 0, 0), [0; ARGS]);
    }
    let args = args();
    let kinds = args::kinds(&args);
    let words = args.map(|arg| arg.word);
    if record_state::is_fast(id) && of_kinds == kinds {
        return Scope::begin(id, words);
    }
    Scope::of(
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
    fn of(opened: Opened, words: [u64; ARGS]) -> Self {
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
        let state = thread::hot();
        // The clock first: a reading waits for the loads before it, and the program for none behind
        // it.
        let start_ticks = clock::hardware_ticks();
        if let Some(place) = state.free_place() {
            state.push_open_at(place, id, start_ticks);
            return Self::new(start_ticks, id, place, words);
        }
        Self::of(begin_slow(id), words)
    }

    /// Returns the site's id and the start in ticks, unless nothing is being recorded or the scope
    /// is only counted.
    #[cfg(not(feature = "off"))]
    #[inline(always)]
    pub(crate) fn begun(&self) -> Option<(u32, u64)> {
        let id = self.site as u32 & crate::hot::ring::MAX_SITE;
        let is_counted = self.site as u32 & slow::COUNTED == slow::COUNTED;
        (id != 0 && !is_counted).then_some((id, self.start_ticks))
    }

    /// Returns what is known of the scope, which goes on without a guard: [`again`](Self::again)
    /// makes one.
    #[cfg(feature = "tracing")]
    #[inline(always)]
    pub(crate) fn leave_open(self) -> Opened {
        std::mem::ManuallyDrop::new(self).opened()
    }

    /// Returns the guard of a scope that was left open, with arguments of the kinds that `id`
    /// stands for: they are known only at its end.
    #[cfg(feature = "tracing")]
    #[inline(always)]
    pub(crate) fn again(opened: Opened, id: u32, words: [u64; ARGS]) -> Self {
        let flags = opened.flagged & !crate::hot::ring::MAX_SITE;
        Self::new(opened.start_ticks, flags | id, opened.place, words)
    }

    /// Ends the span and returns when that was, in ticks, unless nothing was being recorded.
    #[inline(always)]
    pub(crate) fn close(self) -> Option<u64> {
        // The span is recorded here, so the drop must not run.
        std::mem::ManuallyDrop::new(self).end()
    }

    /// Records the span as ending now; returns when that is, in ticks, unless nothing was being
    /// recorded.
    #[inline(always)]
    fn end(&self) -> Option<u64> {
        if self.site > 0 {
            let state = thread::hot();
            if state.begin_close(self.place)
                && let Some(begun) = self.begin_record(state)
                && let end = Halves::read()
                && let (low, false) = end.since(self.start_ticks)
            {
                publish(state, begun, low);
                state.release(self.place);
                return Some(end.ticks());
            }
            // A claim to the place goes on.
        }
        if self.site == 0 {
            return None;
        }
        // A copy: the guard itself stays in registers as long as nothing asks for its address.
        let words = self.words;
        match end_slow(self.opened(), &words) {
            0 => None,
            end_ticks => Some(end_ticks),
        }
    }

    #[inline(always)]
    fn begin_record(&self, state: &ThreadState) -> Option<Begun> {
        begin_record(state, self.start_ticks, self.site as u32, &self.words)
    }
}

/// Writes the record of a span, all but its length; `None` where the ring is at its limit.
///
/// The fast path reads the clock after it: a processor hides the work before a reading better than
/// that behind it.
#[inline(always)]
fn begin_record(state: &ThreadState, start_ticks: u64, id: u32, words: &[u64]) -> Option<Begun> {
    let ring = &state.ring;
    let tag = id | (words.len().div_ceil(2) as u32) << SITE_BITS;
    let pair = |i: usize| -> Slot { [word(words, 2 * i), word(words, 2 * i + 1)] };
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: `state` is this thread's own, so this thread is the ring's one producer; the ring of
    // a stand-in has no room. Between this and `publish` nothing is pushed: the caller has begun to
    // close a scope, and what interrupts that finds the thread busy.
    unsafe {
        match words.len() {
            0 => ring.begin(start_ticks, tag, &[]),
            1 | 2 => ring.begin(start_ticks, tag, &[pair(0)]),
            3 | 4 => ring.begin(start_ticks, tag, &[pair(0), pair(1)]),
            5 | 6 => ring.begin(start_ticks, tag, &[pair(0), pair(1), pair(2)]),
            _ => ring.begin(start_ticks, tag, &[pair(0), pair(1), pair(2), pair(3)]),
        }
    }
}

/// Completes the record that `begin_record` wrote last.
#[inline(always)]
fn publish(state: &ThreadState, begun: Begun, low: u32) {
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: as in `begin_record`, whose callers call this next or not at all.
    unsafe {
        state.ring.publish(begun, low);
    }
}

#[inline(always)]
fn word(words: &[u64], i: usize) -> u64 {
    words.get(i).copied().unwrap_or(0)
}

impl<const ARGS: usize> Drop for Scope<ARGS> {
    #[inline(always)]
    fn drop(&mut self) {
        self.end();
    }
}

thread_local! {
    /// Ids of the names this thread has used.
    static NAMES: RefCell<NameIds> = const { RefCell::new(NameIds::new()) };
}

/// Ids of names, all for scopes of which the same is measured.
struct NameIds {
    measures: Measures,
    ids: HashMap<Box<str>, u32, FxBuildHasher>,
}

impl NameIds {
    const fn new() -> Self {
        Self {
            measures: Measures::NONE,
            ids: HashMap::with_hasher(FxBuildHasher),
        }
    }
}

/// Names kept in a thread's cache; beyond, the cache starts anew.
const MAX_CACHED_NAMES: usize = 4096;

/// Opens a scope with a name made at run time. A name that this thread has used before costs a
/// look-up in its own cache and neither lock nor allocation.
///
/// # Examples
///
/// ```
/// # use vor_recorder::hot::scope as vor;
/// # let step = 3;
/// let _scope = vor::scope(&format!("step {step}"));
/// ```
#[inline]
pub fn scope(name: &str) -> ScopeGuard {
    if cfg!(feature = "off") || !record_state::is_on() {
        return Scope::off();
    }
    open_named(name_id(name))
}

/// Opens a scope with a name made at run time, by the id that [`name_id`] gave it.
#[inline]
pub(crate) fn open_named(id: u32) -> ScopeGuard {
    open_registered(id, [])
}

/// Opens a scope by an id that the registry gave, with arguments of the kinds that the id stands
/// for. It is never a `tracing` span as well.
#[inline(always)]
pub(crate) fn open_registered<const ARGS: usize>(id: u32, words: [u64; ARGS]) -> Scope<ARGS> {
    if record_state::are_names_fast() && record_state::is_fast(id) {
        return Scope::begin(id, words);
    }
    Scope::of(begin_slow(id), words)
}

/// As [`open_registered`] of a scope that goes on without a guard, where that is on the fast path.
/// `None` where nothing has been done.
#[cfg(feature = "tracing")]
#[inline(always)]
pub(crate) fn open_at_once(id: u32) -> Option<Opened> {
    if !record_state::are_names_fast() || !record_state::is_fast(id) {
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

/// Ends a scope that [`open_at_once`] opened, with the words of arguments of the kinds that `id`
/// stands for, where that is on the fast path; returns when that was, in ticks. `None` where
/// nothing has been done.
#[cfg(feature = "tracing")]
#[inline(always)]
pub(crate) fn end_at_once<const SLOTS: usize>(
    opened: Opened,
    id: u32,
    words: &[Slot; SLOTS],
) -> Option<u64> {
    end_tagged(opened, id | (SLOTS as u32) << SITE_BITS, words)
}

/// As [`end_at_once`], of a scope that is a poll of a task too: its id and the id of its site are
/// the last of the words.
#[cfg(feature = "tracing")]
#[inline(always)]
pub(crate) fn poll_at_once<const SLOTS: usize>(
    opened: Opened,
    id: u32,
    words: &[Slot; SLOTS],
) -> Option<u64> {
    end_tagged(opened, id | (SLOTS as u32) << SITE_BITS | TAG_POLL, words)
}

#[cfg(feature = "tracing")]
#[inline(always)]
fn end_tagged<const SLOTS: usize>(opened: Opened, tag: u32, words: &[Slot; SLOTS]) -> Option<u64> {
    // Below 0 are flags, at 0 is what is not recorded.
    if opened.flagged as i32 <= 0 || tag & MAX_SITE == 0 {
        return None;
    }
    let state = thread::hot();
    if !state.begin_close(opened.place) {
        return None;
    }
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: as in `begin_record`.
    let begun = unsafe { state.ring.begin(opened.start_ticks, tag, words) };
    if let Some(begun) = begun
        && let end = Halves::read()
        && let (low, false) = end.since(opened.start_ticks)
    {
        publish(state, begun, low);
        state.release(opened.place);
        return Some(end.ticks());
    }
    state.reopen(opened.place);
    None
}

/// Returns the id of a name made at run time, [`callsite::UNREGISTERED`] inside vor.
pub(crate) fn name_id(name: &str) -> u32 {
    if thread::is_busy() {
        return callsite::UNREGISTERED;
    }
    let measures = record_state::measures();
    let cached = NAMES.try_with(|names| {
        let names = names.try_borrow().ok()?;
        names
            .ids
            .get(name)
            .copied()
            .filter(|_| names.measures == measures)
    });
    if let Ok(Some(id)) = cached {
        return id;
    }
    thread::while_busy(|| {
        let id = callsite::lock().name_id(name, measures);
        // A cache that is gone or in use only means a look-up under the lock next time.
        let _ = NAMES.try_with(|names| {
            if let Ok(mut names) = names.try_borrow_mut() {
                if names.ids.len() >= MAX_CACHED_NAMES || names.measures != measures {
                    names.measures = measures;
                    names.ids.clear();
                }
                names.ids.insert(Box::from(name), id);
            }
        });
        id
    })
}

/// A chain of phases: one tick ends a phase and begins the next. Made by `profile_phase!`; dropping
/// it ends the last phase.
#[must_use = "the last phase ends when the chain is dropped"]
#[derive(Debug)]
pub struct PhaseChain {
    phase: Scope,
}

impl PhaseChain {
    /// Opens the first phase.
    #[inline(always)]
    pub fn begin(site: &'static CallSite) -> Self {
        Self { phase: open(site) }
    }

    /// Ends the phase that is open and begins another, at the same tick.
    #[inline(always)]
    pub fn next(&mut self, site: &'static CallSite) {
        let id = site.word();
        // The phase that ended is recorded below or by `next_slow`, so its drop must not run.
        let last = std::mem::ManuallyDrop::new(std::mem::replace(&mut self.phase, Scope::off()));
        if last.site > 0 && record_state::is_fast(id) {
            let state = thread::hot();
            if state.begin_close(last.place)
                && let Some(begun) = last.begin_record(state)
                && let now = Halves::read()
                && let (low, false) = now.since(last.start_ticks)
            {
                publish(state, begun, low);
                // The claim to the place goes on to the next phase.
                state.push_open_at(last.place, id, now.ticks());
                self.phase = Scope::new(now.ticks(), id, last.place, []);
                return;
            }
            // A claim to the place goes on.
        }
        if last.site == 0 && !record_state::is_on() && !tracing_out::is_wanted() {
            return;
        }
        self.phase = Scope::of(next_slow(last.opened(), site), []);
    }
}

/// Writes a message into the record of this thread, at this moment. Formats into a buffer on the
/// stack; what exceeds [`args::MAX_STR_BYTES`] is cut.
#[doc(hidden)]
pub fn message(text: std::fmt::Arguments<'_>) {
    if !record_state::is_on() || thread::drop_if_busy() {
        return;
    }
    let now = clock::ticks();
    if let Some(text) = text.as_str() {
        return thread::push_message(now, text);
    }
    let mut line = Line {
        bytes: [0; args::MAX_STR_BYTES],
        used: 0,
    };
    // The line refuses what does not fit; what fits is kept.
    let _ = std::fmt::write(&mut line, text);
    thread::push_message(now, line.as_str());
}

struct Line {
    bytes: [u8; args::MAX_STR_BYTES],
    used: usize,
}

impl Line {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.used]).unwrap_or("")
    }
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let fits = args::cut(text, self.bytes.len() - self.used);
        self.bytes[self.used..self.used + fits.len()].copy_from_slice(fits.as_bytes());
        self.used += fits.len();
        if fits.len() == text.len() {
            Ok(())
        } else {
            Err(std::fmt::Error)
        }
    }
}
