//! Scopes of which more than the length is measured: processor time, allocations.
//!
//! Opening notes what the thread has used up so far, closing takes the difference into the record.
//! The notes stand in an array of the thread, one per level of open scopes, since a guard has no
//! room for them; a vector takes what is deeper. A note tells by its start whose it is: scopes that
//! outlive the one around them may find that another has taken their level, and then go without.
//!
//! Other threads may read the notes of a thread that lives ([`Notes::read`]), so that a scope that
//! is open for hours shows what it has used up before it ends.
//!
//! [`open`] and [`end`] are the way of nearly all such scopes, out of line, and as short as that
//! allows. What is missing there (the thread's state, a place on the stack, the hardware's clock)
//! sends a scope the way of the module `slow`, which notes and records as well.

use std::cell::RefCell;

use vor_capture::model::measures::Measures;

use super::slow::{MEASURED, Opened, Record};
use super::{begin_record, publish};
use crate::allocations;
use crate::allocations::AllocCounts;
use crate::clock::Halves;
use crate::clock::{self, cpu};
use crate::hot::args::MAX_MEASURED_WORDS;
use crate::hot::callsite::{CallSite, Kinds};
use crate::hot::ring::MAX_SITE;
use crate::hot::thread::{self, ThreadState};
use crate::sync::Ordering;
use crate::sync::global::{AtomicU8, AtomicU64, fence};

/// What the thread had used up when a scope opened. Each number for itself: a processor gives back
/// at once what it has just stored only if it is asked for in the same pieces, and a structure is
/// copied in larger ones.
///
/// Its thread writes and reads it, relaxed, and others read it. The stack of open scopes tells
/// these whose it is: a scope leaves the stack before the next one of its level is noted, with a
/// fence between, so who finds it there behind its reading, by its start, has read what is its own.
/// Where the stack has it before the note, the start is noted last, with release.
#[derive(Debug)]
struct Note {
    start_ticks: Word,
    measures: AtomicU8,
    off_cpu_ticks: Word,
    alloc_objects: Word,
    alloc_bytes: Word,
    free_objects: Word,
    free_bytes: Word,
    user_ns: Word,
    sys_ns: Word,
}

/// A number of a note.
#[derive(Debug)]
struct Word(AtomicU64);

impl Word {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The notes of a thread, by level.
#[derive(Debug)]
pub(crate) struct Notes([Note; SHALLOW]);

/// What another thread reads of a note: what the thread had used up when the scope opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Noted {
    pub(crate) measures: Measures,
    /// As [`cpu::off_cpu_ticks`] said.
    pub(crate) off_cpu_ticks: u64,
    pub(crate) allocated: AllocCounts,
}

/// Levels of open scopes whose notes stand in the array.
const SHALLOW: usize = 64;

thread_local! {
    /// Without a destructor, so that it costs no look whether the thread still has it.
    static SHALLOW_NOTES: Notes = const { Notes([const { Note::new() }; SHALLOW]) };
    static DEEP_NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

impl Note {
    const fn new() -> Self {
        Self {
            start_ticks: Word::new(),
            measures: AtomicU8::new(0),
            off_cpu_ticks: Word::new(),
            alloc_objects: Word::new(),
            alloc_bytes: Word::new(),
            free_objects: Word::new(),
            free_bytes: Word::new(),
            user_ns: Word::new(),
            sys_ns: Word::new(),
        }
    }

    #[inline(always)]
    fn measures(&self) -> Measures {
        Measures::from_bits(self.measures.load(Ordering::Relaxed))
    }

    /// Notes what this thread has used up so far, as far as it is to be measured; returns `false`
    /// where that takes longer than a look. The start was read just before.
    #[inline(always)]
    fn set_at_once(&self, start_ticks: u64, measures: Measures) -> bool {
        fence(Ordering::Release);
        if measures.has(Measures::CPU) {
            let Some(off_cpu_ticks) = cpu::settled_off_cpu_ticks_at(start_ticks) else {
                return false;
            };
            self.off_cpu_ticks.set(off_cpu_ticks);
        }
        self.set_others(measures);
        self.start_ticks.set(start_ticks);
        !measures.has(Measures::CPU_SPLIT)
    }

    /// As [`set_at_once`](Self::set_at_once), however long it takes.
    fn set(&self, start_ticks: u64, measures: Measures) {
        fence(Ordering::Release);
        self.set_others(measures);
        if measures.has(Measures::CPU) {
            self.off_cpu_ticks.set(cpu::off_cpu_ticks_at(start_ticks));
        }
        if measures.has(Measures::CPU_SPLIT) {
            let (user_ns, sys_ns) = cpu::user_sys_ns().unwrap_or_default();
            self.user_ns.set(user_ns);
            self.sys_ns.set(sys_ns);
        }
        self.start_ticks.0.store(start_ticks, Ordering::Release);
    }

    /// As [`set`](Self::set), of a scope whose guard knows what its thread had not run.
    #[inline(always)]
    fn set_cpu(&self, start_ticks: u64, off_cpu_ticks: u64) {
        fence(Ordering::Release);
        self.measures.store(Measures::CPU.bits(), Ordering::Relaxed);
        self.off_cpu_ticks.set(off_cpu_ticks);
        self.start_ticks.0.store(start_ticks, Ordering::Release);
    }

    #[inline(always)]
    fn set_others(&self, measures: Measures) {
        self.measures.store(measures.bits(), Ordering::Relaxed);
        if measures.has(Measures::ALLOC) {
            let now = allocations::thread_allocations();
            self.alloc_objects.set(now.alloc_objects);
            self.alloc_bytes.set(now.alloc_bytes);
            self.free_objects.set(now.free_objects);
            self.free_bytes.set(now.free_bytes);
        }
    }

    /// Returns whether nothing that is measured has been used up since, by a scope that ends at
    /// `now_ticks`; `false` also where that takes longer than a look.
    #[inline(always)]
    fn is_unchanged(&self, start_ticks: u64, now_ticks: u64) -> bool {
        let measures = self.measures();
        self.start_ticks.get() == start_ticks
            && (!measures.has(Measures::CPU)
                || cpu::settled_off_cpu_ticks_at(now_ticks) == Some(self.off_cpu_ticks.get()))
            && (!measures.has(Measures::ALLOC) || self.has_same_bytes())
            && !measures.has(Measures::CPU_SPLIT)
    }

    /// Returns whether the thread has neither allocated nor given back anything since: no object is
    /// without bytes.
    #[inline(always)]
    fn has_same_bytes(&self) -> bool {
        let now = allocations::thread_allocations();
        now.alloc_bytes == self.alloc_bytes.get() && now.free_bytes == self.free_bytes.get()
    }

    /// Returns what the thread has allocated since.
    #[inline(always)]
    fn allocated(&self) -> AllocCounts {
        let now = allocations::thread_allocations();
        AllocCounts {
            alloc_objects: now.alloc_objects.wrapping_sub(self.alloc_objects.get()),
            alloc_bytes: now.alloc_bytes.wrapping_sub(self.alloc_bytes.get()),
            free_objects: now.free_objects.wrapping_sub(self.free_objects.get()),
            free_bytes: now.free_bytes.wrapping_sub(self.free_bytes.get()),
        }
    }

    /// Returns what has been used up since, by a span that lasted `duration_ticks` and has just
    /// ended.
    fn since(&self, start_ticks: u64, duration_ticks: u64) -> Words {
        let mut found = Words::NONE;
        if self.start_ticks.get() != start_ticks {
            return found;
        }
        let measures = self.measures();
        if measures.has(Measures::CPU) {
            let now = cpu::off_cpu_ticks_at(start_ticks.wrapping_add(duration_ticks));
            found.put(cpu::off_of_span(
                self.off_cpu_ticks.get(),
                now,
                duration_ticks,
            ));
        }
        if measures.has(Measures::CPU_SPLIT) {
            let (user_ns, sys_ns) = cpu::user_sys_ns().unwrap_or_default();
            found.put(user_ns.saturating_sub(self.user_ns.get()));
            found.put(sys_ns.saturating_sub(self.sys_ns.get()));
        }
        if measures.has(Measures::ALLOC) {
            let allocated = self.allocated();
            found.put(allocated.alloc_objects);
            found.put(allocated.alloc_bytes);
            found.put(allocated.free_objects);
            found.put(allocated.free_bytes);
        }
        found
    }
}

impl Notes {
    /// Returns what is noted of the scope of a level that began at `start_ticks`, `None` where
    /// nothing is. It may be that of the next scope of this level: the caller looks again which one
    /// is open.
    pub(crate) fn read(&self, depth: usize, start_ticks: u64) -> Option<Noted> {
        let note = self.0.get(depth)?;
        let is_its = note.start_ticks.0.load(Ordering::Acquire) == start_ticks;
        let noted = is_its.then(|| Noted {
            measures: note.measures(),
            off_cpu_ticks: note.off_cpu_ticks.get(),
            allocated: AllocCounts {
                alloc_objects: note.alloc_objects.get(),
                alloc_bytes: note.alloc_bytes.get(),
                free_objects: note.free_objects.get(),
                free_bytes: note.free_bytes.get(),
            },
        });
        fence(Ordering::Acquire);
        noted
    }
}

/// Returns where this thread's notes stand, for as long as it lives.
#[inline(always)]
pub(crate) fn own_notes() -> *const Notes {
    SHALLOW_NOTES.with(std::ptr::from_ref)
}

/// Notes for others what this thread had not run when a scope opened whose guard knows that itself.
#[inline(always)]
pub(super) fn show_cpu(place: u32, start_ticks: u64, off_cpu_ticks: u64) {
    if let Some(note) = shallow(ThreadState::depth_of(place)) {
        note.set_cpu(start_ticks, off_cpu_ticks);
    }
}

/// Opens a scope of a site that is registered with what is to be measured of it, at the tick `at`
/// or now.
#[inline(always)]
pub(super) fn open(site: &'static CallSite, kinds: Kinds, at: Option<u64>) -> Option<Opened> {
    let measures = site.measures().and(crate::hot::record_state::measures());
    begin(site.measured_id(kinds, measures)?, measures, at)
}

/// Opens a scope at a registered site, at the tick `at` or now.
#[inline(always)]
pub(super) fn begin(id: u32, measures: Measures, at: Option<u64>) -> Option<Opened> {
    if measures.is_none() {
        return None;
    }
    let state = thread::hot();
    let place = state.free_place()?;
    let start_ticks = at.unwrap_or_else(clock::hardware_ticks);
    let note = shallow(ThreadState::depth_of(place))?;
    state.claim(place, id);
    if !note.set_at_once(start_ticks, measures) {
        state.release(place);
        return None;
    }
    state.open_at(place, start_ticks);
    Some(Opened {
        start_ticks,
        flagged: MEASURED | id,
        place,
    })
}

/// Ends a scope that was opened by [`open`] or [`begin`], and returns when that was, in ticks.
#[inline(always)]
pub(super) fn end(opened: Opened, words: &[u64]) -> Option<u64> {
    if opened.flagged & !MAX_SITE != MEASURED {
        return None;
    }
    let state = thread::hot();
    if !state.begin_close(opened.place) {
        return None;
    }
    let depth = ThreadState::depth_of(opened.place);
    let end = Halves::read();
    let (low, may_be_more) = end.since(opened.start_ticks);
    if shallow(depth).is_some_and(|note| note.is_unchanged(opened.start_ticks, end.ticks()))
        && !may_be_more
        && let Some(begun) =
            begin_record(state, opened.start_ticks, opened.flagged & MAX_SITE, words)
    {
        publish(state, begun, low);
    } else {
        push(state, opened, end.ticks(), words);
    }
    state.release(opened.place);
    Some(end.ticks())
}

/// Pushes the record of a span that has used up something, or for which the ring has no place at
/// hand, while its place is claimed.
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "what is wanted of the C calling convention is that it cannot unwind"
)]
extern "C" fn push(state: &ThreadState, opened: Opened, end_ticks: u64, words: &[u64]) {
    let duration_ticks = super::elapsed_ticks(opened.start_ticks, end_ticks);
    let depth = ThreadState::depth_of(opened.place);
    let measured = since(depth, opened.start_ticks, duration_ticks);
    let record = Record::new(opened, duration_ticks, [words, measured.used()]);
    thread::push_record(state, record.slots());
}

/// Notes what has been used up where a scope opens, with `depth` scopes around it. Nothing is noted
/// of deep ones where the thread ends.
pub(super) fn note(depth: usize, start_ticks: u64, measures: Measures) {
    match shallow(depth) {
        Some(note) => note.set(start_ticks, measures),
        None => note_deep(depth - SHALLOW, start_ticks, measures),
    }
}

/// Returns the note of a level, to be used before the caller returns; `None` of a deep one.
#[expect(
    unsafe_code,
    reason = "a closure that does the work would not be inlined, and what it captures would go through memory"
)]
#[inline(always)]
fn shallow<'a>(depth: usize) -> Option<&'a Note> {
    let notes = own_notes();
    // SAFETY: the thread-local has no destructor, so it is there as long as its thread, which is
    // the one that calls; the caller does not keep the reference.
    let notes = unsafe { &*notes };
    notes.0.get(depth)
}

#[cold]
#[inline(never)]
fn note_deep(at: usize, start_ticks: u64, measures: Measures) {
    let _ = DEEP_NOTES.try_with(|notes| {
        if let Ok(mut notes) = notes.try_borrow_mut() {
            if at >= notes.len() {
                allocations::untracked(|| notes.resize_with(at + 1, Note::new));
            }
            notes[at].set(start_ticks, measures);
        }
    });
}

/// Returns what has been used up since the scope opened, with `depth` scopes around it, which
/// lasted `duration_ticks` and has just ended.
pub(super) fn since(depth: usize, start_ticks: u64, duration_ticks: u64) -> Words {
    match shallow(depth) {
        Some(note) => note.since(start_ticks, duration_ticks),
        None => since_deep(depth - SHALLOW, start_ticks, duration_ticks),
    }
}

#[cold]
#[inline(never)]
fn since_deep(at: usize, start_ticks: u64, duration_ticks: u64) -> Words {
    let since = |notes: &RefCell<Vec<Note>>| {
        let notes = notes.try_borrow().ok()?;
        Some(notes.get(at)?.since(start_ticks, duration_ticks))
    };
    let found = DEEP_NOTES.try_with(since).ok().flatten();
    found.unwrap_or(Words::NONE)
}

/// The words that a record carries of what a span measured.
pub(super) struct Words {
    words: [u64; MAX_MEASURED_WORDS],
    count: usize,
    /// 0 where all of them are 0.
    any: u64,
}

impl Words {
    pub(super) const NONE: Self = Self {
        words: [0; MAX_MEASURED_WORDS],
        count: 0,
        any: 0,
    };

    fn put(&mut self, word: u64) {
        self.words[self.count] = word;
        self.count += 1;
        self.any |= word;
    }

    /// Returns the words, none where all of them are 0.
    pub(super) fn used(&self) -> &[u64] {
        if self.any == 0 {
            &[]
        } else {
            &self.words[..self.count]
        }
    }
}
