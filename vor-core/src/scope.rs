//! Scopes: from the tick that opens one to the record that its end leaves.
//!
//! Opening reads the clock and notes site and start on the thread's open-scope stack; closing reads the clock again, takes the note back and pushes one slot.
//! Everything that is rare stands in cold functions: the first use of a site or a thread, a full ring, a span of more
//! than 32 bits of ticks, a clock that stepped back.

use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;

use rustc_hash::FxBuildHasher;

use crate::args::{self, ArgWord};
use crate::callsite::{self, CallSite, Kinds};
use crate::ring::{MAX_SITE, SITE_BITS, Slot, TAG_LONG, word1};
use crate::switch::{self, Way};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;
use crate::{clock, thread};

/// An open scope; dropping it ends the span.
///
/// It belongs to the thread that opened it and cannot be sent away.
#[must_use = "a scope lasts as long as its guard is held"]
#[derive(Debug)]
pub struct Scope<const ARGS: usize = 0> {
    start_ticks: u64,
    /// 0 when nothing was being recorded.
    site: u32,
    depth: u32,
    words: [u64; ARGS],
    not_send: PhantomData<*mut ()>,
}

/// A scope with a name made at run time, opened by [`scope`].
pub type ScopeGuard = Scope<0>;

/// Clock readings that lay before an earlier one of the same scope; the span was recorded with length zero.
static BACKWARD_TICKS: AtomicU64 = AtomicU64::new(0);

/// Returns how many spans were recorded with length zero because the clock stepped back during them.
#[must_use]
pub fn backward_ticks() -> u64 {
    BACKWARD_TICKS.load(Ordering::Relaxed)
}

/// Bit of [`Scope::site`] that marks a scope begun with the other clock.
const OTHER_CLOCK: u32 = 1 << 31;

/// Opens a scope at a call site.
#[inline(always)]
pub fn open(site: &'static CallSite) -> Scope {
    let is_hardware = match switch::way() {
        Way::Off => return Scope::off(),
        Way::Hardware => true,
        Way::Other => false,
    };
    let mut id = site.id();
    if id == 0 {
        id = register(site, 0);
    }
    Scope::begin(id, [], is_hardware)
}

/// Opens a scope at a call site with arguments, which `args` makes only while recording is on.
#[inline(always)]
pub fn open_with<const ARGS: usize>(
    site: &'static CallSite,
    args: impl FnOnce() -> [ArgWord; ARGS],
) -> Scope<ARGS> {
    let is_hardware = match switch::way() {
        Way::Off => return Scope::off(),
        Way::Hardware => true,
        Way::Other => false,
    };
    let args = args();
    let kinds = args::kinds(&args);
    let mut id = site.id_with(kinds);
    if id == 0 {
        id = register(site, kinds);
    }
    Scope::begin(id, args.map(|arg| arg.word), is_hardware)
}

impl<const ARGS: usize> Scope<ARGS> {
    /// A scope that records nothing.
    #[inline(always)]
    pub const fn off() -> Self {
        Self {
            start_ticks: 0,
            site: 0,
            depth: 0,
            words: [0; ARGS],
            not_send: PhantomData,
        }
    }

    /// Opens a scope at a registered site.
    #[inline(always)]
    fn begin(site: u32, words: [u64; ARGS], is_hardware: bool) -> Self {
        match thread::current() {
            Some(state) if is_hardware => {
                let start_ticks = clock::hardware_ticks();
                let depth = state.push_open(site, start_ticks);
                Self {
                    start_ticks,
                    site,
                    depth,
                    words,
                    not_send: PhantomData,
                }
            }
            _ => {
                let (start_ticks, depth) = begin_slowly(site);
                let site = match start_ticks {
                    0 => 0,
                    _ if is_hardware => site,
                    _ => site | OTHER_CLOCK,
                };
                Self {
                    start_ticks,
                    site,
                    depth,
                    words,
                    not_send: PhantomData,
                }
            }
        }
    }

    /// Returns the site's id and the start in ticks, unless nothing is being recorded.
    #[cfg(not(feature = "off"))]
    #[inline(always)]
    pub(crate) fn begun(&self) -> Option<(u32, u64)> {
        (self.site != 0).then_some((self.site & !OTHER_CLOCK, self.start_ticks))
    }

    /// Ends the span and returns when that was, in ticks, unless nothing was being recorded.
    #[cfg(not(feature = "off"))]
    #[inline(always)]
    pub(crate) fn close(self) -> Option<u64> {
        // The span is recorded here, so the drop must not run.
        let scope = std::mem::ManuallyDrop::new(self);
        (scope.site != 0).then(|| scope.end())
    }

    /// Records the span as ending now; returns when that is, in ticks.
    #[inline(always)]
    fn end(&self) -> u64 {
        if self.site & OTHER_CLOCK == 0 {
            let end_ticks = clock::hardware_ticks();
            self.record(end_ticks);
            return end_ticks;
        }
        let words: &[u64] = if ARGS == 0 { &[] } else { &self.words };
        end_with_other_clock(self.start_ticks, self.site, self.depth, words)
    }

    /// Returns the words of arguments `2 i` and `2 i + 1`.
    #[inline(always)]
    fn pair(&self, i: usize) -> Slot {
        [word(&self.words, 2 * i), word(&self.words, 2 * i + 1)]
    }

    #[inline(always)]
    fn record(&self, end_ticks: u64) {
        let duration = end_ticks.wrapping_sub(self.start_ticks);
        if let Some(state) = thread::current()
            && duration <= u64::from(u32::MAX)
        {
            let slots = ARGS.div_ceil(2) as u32;
            let first = [
                self.start_ticks,
                word1(duration as u32, self.site | slots << SITE_BITS),
            ];
            #[expect(unsafe_code, reason = "the ring trusts its one producer")]
            // SAFETY: `state` is this thread's own, so this thread is the ring's one producer.
            let pushed = unsafe {
                match ARGS {
                    0 => state.ring.push_one(first),
                    1 | 2 => state.ring.push_record(first, &[self.pair(0)]),
                    3 | 4 => state.ring.push_record(first, &[self.pair(0), self.pair(1)]),
                    5 | 6 => state
                        .ring
                        .push_record(first, &[self.pair(0), self.pair(1), self.pair(2)]),
                    _ => {
                        let pairs = [self.pair(0), self.pair(1), self.pair(2), self.pair(3)];
                        state.ring.push_record(first, &pairs)
                    }
                }
            };
            if pushed {
                // After the push: whoever sees the scope closed also sees its record.
                state.pop_open(self.depth);
                return;
            }
        }
        let words: &[u64] = if ARGS == 0 { &[] } else { &self.words };
        record_slowly(self.start_ticks, end_ticks, self.site, self.depth, words);
    }
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

/// Opens a scope in the rare cases: the thread has no state, or the clock is not the hardware's. Returns the start, 0 inside vor, and the depth.
#[cold]
#[inline(never)]
fn begin_slowly(site: u32) -> (u64, u32) {
    if site == 0 || thread::is_busy() {
        return (0, 0);
    }
    let state = thread::current().or_else(thread::set_up);
    // Tick 0 is taken for "nothing", and no clock stands there.
    let start_ticks = clock::ticks().max(1);
    (
        start_ticks,
        state.map_or(0, |state| state.push_open(site, start_ticks)),
    )
}

/// Ends a scope that was begun with the other clock; returns when, in ticks.
#[cold]
#[inline(never)]
fn end_with_other_clock(start_ticks: u64, site: u32, depth: u32, words: &[u64]) -> u64 {
    let end_ticks = clock::ticks();
    record_slowly(start_ticks, end_ticks, site & !OTHER_CLOCK, depth, words);
    end_ticks
}

/// Records a span in the rare cases: the thread has no state, the ring is at its limit, the length does not fit 32 bits, or the clock stepped back.
#[cold]
#[inline(never)]
fn record_slowly(start_ticks: u64, end_ticks: u64, site: u32, depth: u32, words: &[u64]) {
    let duration = elapsed_ticks(start_ticks, end_ticks);
    let mut record = [[0; 2]; callsite::MAX_ARGS / 2 + 2];
    let mut used = 1;
    for pair in words.chunks(2) {
        record[used] = [word(pair, 0), word(pair, 1)];
        used += 1;
    }
    let mut tag = site;
    if duration > u64::from(u32::MAX) {
        record[used] = [duration >> 32, 0];
        used += 1;
        tag |= TAG_LONG;
    }
    tag |= (used as u32 - 1) << SITE_BITS;
    record[0] = [start_ticks, word1(duration as u32, tag)];
    thread::push_anyhow(&record[..used]);
    if let Some(state) = thread::current() {
        state.pop_open(depth);
    }
}

#[inline(always)]
fn word(words: &[u64], i: usize) -> u64 {
    words.get(i).copied().unwrap_or(0)
}

impl<const ARGS: usize> Drop for Scope<ARGS> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.site != 0 {
            self.end();
        }
    }
}

#[cold]
#[inline(never)]
fn register(site: &'static CallSite, kinds: Kinds) -> u32 {
    if thread::is_busy() {
        return 0;
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
    /// Ids of the names this thread has used.
    static NAMES: RefCell<HashMap<Box<str>, u32, FxBuildHasher>> =
        const { RefCell::new(HashMap::with_hasher(FxBuildHasher)) };
}

/// Names kept in a thread's cache; beyond, the cache starts anew.
const MAX_CACHED_NAMES: usize = 4096;

/// Opens a scope with a name made at run time. A name that this thread has used before costs a look-up in its own cache and neither lock nor allocation.
///
/// # Examples
///
/// ```
/// # let step = 3;
/// let _scope = vor_core::scope::scope(&format!("step {step}"));
/// ```
#[inline]
pub fn scope(name: &str) -> ScopeGuard {
    match switch::way() {
        Way::Off => Scope::off(),
        Way::Hardware => Scope::begin(name_id(name), [], true),
        Way::Other => Scope::begin(name_id(name), [], false),
    }
}

/// Returns the id of a name made at run time, 0 inside vor.
pub(crate) fn name_id(name: &str) -> u32 {
    if thread::is_busy() {
        return 0;
    }
    let cached = NAMES.try_with(|names| {
        let names = names.try_borrow().ok()?;
        names.get(name).copied()
    });
    match cached {
        Ok(Some(id)) => id,
        Ok(None) => thread::while_busy(|| {
            let id = callsite::lock().name_id(name);
            // A cache that is gone or in use only means a look-up under the lock next time.
            let _ = NAMES.try_with(|names| {
                if let Ok(mut names) = names.try_borrow_mut() {
                    if names.len() >= MAX_CACHED_NAMES {
                        names.clear();
                    }
                    names.insert(Box::from(name), id);
                }
            });
            id
        }),
        Err(_) => thread::while_busy(|| callsite::lock().name_id(name)),
    }
}

/// A chain of phases: one tick ends a phase and begins the next. Made by `profile_phase!`; dropping it ends the last phase.
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
        let (Some(state), id) = (thread::current(), site.id()) else {
            return self.next_slowly(site);
        };
        // Site 0 is off and the top bit the other clock; registered ids lie between.
        if self.phase.site.wrapping_sub(1) >= MAX_SITE || id == 0 || !switch::is_on() {
            return self.next_slowly(site);
        }
        let now = clock::hardware_ticks();
        self.phase.record(now);
        let depth = state.push_open(id, now);
        // The old scope is recorded, so its drop must not run.
        let next = Scope {
            start_ticks: now,
            site: id,
            depth,
            words: [],
            not_send: PhantomData,
        };
        std::mem::forget(std::mem::replace(&mut self.phase, next));
    }

    /// Ends the phase and begins another, with a clock reading each.
    #[cold]
    #[inline(never)]
    fn next_slowly(&mut self, site: &'static CallSite) {
        drop(std::mem::replace(&mut self.phase, Scope::off()));
        self.phase = open(site);
    }
}

/// Writes a message into the record of this thread, at this moment. Formats into a buffer on the stack; what exceeds [`args::MAX_STR_BYTES`] is cut.
#[doc(hidden)]
pub fn message(text: std::fmt::Arguments<'_>) {
    if !switch::is_on() || thread::is_busy() {
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
