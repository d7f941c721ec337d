//! Scopes with measures beside the duration: CPU time, allocations.
//!
//! Opening stores a baseline: the counters of the thread at that moment. Closing writes the
//! differences into the record. A guard has no room for a baseline. So an array of the thread holds
//! one per level of open scopes, and a vector holds those of deeper levels. Each baseline carries
//! the start of its scope. A scope that outlives the one around it may find another scope's
//! baseline at its level. It is then recorded without measures.
//!
//! Other threads may read the baselines of a live thread ([`Baselines::read`]). So a scope that is
//! open for hours shows its measures before it ends.
//!
//! If anything is missing (the thread's state, a place on the stack, the hardware's clock), the
//! module `mixed` handles the scope. It stores baselines and records too.

use std::cell::RefCell;

use vor_capture::model::measures::Measures;

use super::record::Record;
use super::slow::{MEASURED, Opened, elapsed_ticks};
use super::{commit_record, mixed, reserve_record};
use crate::allocations::{self, AllocCounts};
use crate::clock::cpu::Queued;
use crate::clock::{self, Halves, cpu};
use crate::hot::args::MAX_MEASURED_WORDS;
use crate::hot::callsite::{CallSite, Kinds};
use crate::hot::record_state;
use crate::hot::ring::MAX_SITE;
use crate::hot::thread::{self, ThreadState};
use crate::sync::{self, AtomicU8, AtomicU64, Ordering, const_fn, fence, thread_locals};

/// Opens a scope at a call site.
#[cold]
#[inline(never)]
pub(super) extern "C" fn open(site: &'static CallSite, kinds: Kinds, number: u64) -> Opened {
    match try_open(site, kinds, None) {
        Some(opened) => opened,
        None => mixed::open(site, kinds, number),
    }
}

/// Opens a scope at a registered site.
#[cold]
#[inline(never)]
pub(super) extern "C" fn begin(id: u32) -> Opened {
    match try_begin(id, record_state::measures(), None) {
        Some(opened) => opened,
        None => mixed::begin(id),
    }
}

/// Ends a scope. Returns its end in ticks, or 0 if nothing was recorded.
#[cold]
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "the C calling convention is for its ban on unwinding alone"
)]
pub(super) extern "C" fn end(opened: Opened, words: &[u64]) -> u64 {
    // Not `unwrap_or_else`: each arm must end in a tail call.
    match try_end(opened, words) {
        Some(end_ticks) => end_ticks,
        None => mixed::end(opened, words),
    }
}

/// Opens a scope of a site that is registered with its measures, at the tick `at` or now.
#[inline(always)]
pub(super) fn try_open(site: &'static CallSite, kinds: Kinds, at: Option<u64>) -> Option<Opened> {
    let measures = site.measures().union(record_state::measures());
    try_begin(site.measured_id(kinds, measures)?, measures, at)
}

/// Opens a scope at a registered site, at the tick `at` or now.
#[inline(always)]
pub(super) fn try_begin(id: u32, measures: Measures, at: Option<u64>) -> Option<Opened> {
    if measures.is_none() {
        return None;
    }
    let state = thread::hot();
    let place = state.free_place()?;
    let start_ticks = at.unwrap_or_else(clock::hardware_ticks);
    let baseline = shallow(ThreadState::depth_of(place))?;
    state.claim(place, id);
    if !baseline.try_set(start_ticks, measures) {
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

/// Ends a scope that was opened here, and returns its end in ticks.
#[inline(always)]
pub(super) fn try_end(opened: Opened, words: &[u64]) -> Option<u64> {
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
    let id = opened.flagged & MAX_SITE;
    if shallow(depth).is_some_and(|baseline| baseline.is_unchanged(opened.start_ticks, end.ticks()))
        && !may_be_more
        && let Some(record) = reserve_record(state, opened.start_ticks, id, words)
    {
        commit_record(state, record, low);
    } else {
        push_slow(state, opened, end.ticks(), words);
    }
    state.release(opened.place);
    Some(end.ticks())
}

/// Pushes the record of a span whose measures are not all zero, or which does not fit under the
/// ring's limit. The scope's place is claimed.
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "the C calling convention is for its ban on unwinding alone"
)]
extern "C" fn push_slow(state: &ThreadState, opened: Opened, end_ticks: u64, words: &[u64]) {
    let duration_ticks = elapsed_ticks(opened.start_ticks, end_ticks);
    let depth = ThreadState::depth_of(opened.place);
    let measured = since(depth, opened.start_ticks, duration_ticks);
    let record = Record::new(opened, duration_ticks, [words, measured.used()]);
    thread::push_record(state, record.slots());
}

/// The baseline of one level, shared with other threads.
///
/// Each counter is loaded and stored separately. A processor forwards a store to a later load only
/// if both have the same size, and a structure would be copied in larger pieces.
///
/// Written and read by its thread, relaxed; read by others. The stack of open scopes identifies its
/// scope: a scope leaves the stack before the next one of its level stores its baseline, with a
/// fence between. A reader reads the baseline first, and then looks for the scope on the stack, by
/// its start. If it finds the scope, it has read the baseline of that scope. If a scope is on the
/// stack before its baseline is stored, its start is stored last, with release.
#[derive(Debug)]
struct SharedBaseline {
    start_ticks: Counter,
    measures: AtomicU8,
    off_cpu_ticks: Counter,
    alloc_objects: Counter,
    alloc_bytes: Counter,
    free_objects: Counter,
    free_bytes: Counter,
    user_ns: Counter,
    sys_ns: Counter,
    run_queue_ns: Counter,
    switches: Counter,
}

/// A counter of a baseline.
#[derive(Debug)]
struct Counter(AtomicU64);

impl Counter {
    const_fn! {
        const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
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

/// The baselines of a thread, by level.
#[derive(Debug)]
pub(crate) struct Baselines([SharedBaseline; SHALLOW]);

/// The counters of a thread when a scope opened, as another thread reads them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Baseline {
    pub(crate) measures: Measures,
    /// The value of [`cpu::off_cpu_ticks`].
    pub(crate) off_cpu_ticks: u64,
    pub(crate) allocated: AllocCounts,
}

/// Levels of open scopes whose baselines are in the array.
const SHALLOW: usize = if cfg!(loom) { 1 } else { 64 };

thread_locals! {
    /// It has no destructor, so an access need not check whether it still exists.
    static SHALLOW_BASELINES: Baselines =
        const { Baselines(sync::array![SharedBaseline::new(); SHALLOW]) };
    static DEEP_BASELINES: RefCell<Vec<SharedBaseline>> = const { RefCell::new(Vec::new()) };
}

impl SharedBaseline {
    const_fn! {
        const fn new() -> Self {
            Self {
                start_ticks: Counter::new(),
                measures: AtomicU8::new(0),
                off_cpu_ticks: Counter::new(),
                alloc_objects: Counter::new(),
                alloc_bytes: Counter::new(),
                free_objects: Counter::new(),
                free_bytes: Counter::new(),
                user_ns: Counter::new(),
                sys_ns: Counter::new(),
                run_queue_ns: Counter::new(),
                switches: Counter::new(),
            }
        }
    }

    #[inline(always)]
    fn measures(&self) -> Measures {
        Measures::from_bits(self.measures.load(Ordering::Relaxed))
    }

    /// Stores the counters of this thread that `measures` names. Returns `false` if reading them
    /// needs [`set`](Self::set). The start was read just before.
    #[inline(always)]
    fn try_set(&self, start_ticks: u64, measures: Measures) -> bool {
        fence(Ordering::Release);
        if measures.has(Measures::CPU) {
            let Some(off_cpu_ticks) = cpu::settled_off_cpu_ticks_at(start_ticks) else {
                return false;
            };
            self.off_cpu_ticks.set(off_cpu_ticks);
            if measures.has(Measures::WAIT) {
                let Some(queued) = cpu::known_queued(off_cpu_ticks) else {
                    return false;
                };
                self.set_queued(queued);
            }
        }
        self.set_others(measures);
        self.start_ticks.set(start_ticks);
        !measures.has(Measures::CPU_SPLIT)
    }

    /// Stores the counters of this thread that `measures` names, regardless of the time that
    /// reading them takes.
    fn set(&self, start_ticks: u64, measures: Measures) {
        fence(Ordering::Release);
        self.set_others(measures);
        if measures.has(Measures::CPU) {
            let off_cpu_ticks = cpu::off_cpu_ticks_at(start_ticks);
            self.off_cpu_ticks.set(off_cpu_ticks);
            if measures.has(Measures::WAIT) {
                self.set_queued(queued(off_cpu_ticks));
            }
        }
        if measures.has(Measures::CPU_SPLIT) {
            let (user_ns, sys_ns) = cpu::user_sys_ns().unwrap_or_default();
            self.user_ns.set(user_ns);
            self.sys_ns.set(sys_ns);
        }
        self.start_ticks.0.store(start_ticks, Ordering::Release);
    }

    #[inline(always)]
    fn set_queued(&self, queued: Queued) {
        self.run_queue_ns.set(queued.ns);
        self.switches.set(queued.switches);
    }

    /// Stores the baseline of a scope whose guard has read the off-CPU ticks.
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

    /// Returns whether no measured counter has grown since, for a scope that ends at `now_ticks`.
    /// Also returns `false` if the growth needs [`since`](Self::since).
    #[inline(always)]
    fn is_unchanged(&self, start_ticks: u64, now_ticks: u64) -> bool {
        let measures = self.measures();
        self.start_ticks.get() == start_ticks
            && (!measures.has(Measures::CPU)
                || cpu::settled_off_cpu_ticks_at(now_ticks) == Some(self.off_cpu_ticks.get()))
            && (!measures.has(Measures::ALLOC) || self.has_same_bytes())
            && !measures.has(Measures::CPU_SPLIT)
    }

    /// Returns whether the thread has neither allocated nor freed anything since. Bytes suffice,
    /// because every object has bytes.
    #[inline(always)]
    fn has_same_bytes(&self) -> bool {
        let now = allocations::thread_allocations();
        now.alloc_bytes == self.alloc_bytes.get() && now.free_bytes == self.free_bytes.get()
    }

    /// Returns the allocations of the thread since.
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

    /// Returns the growth of the counters, for a span that lasted `duration_ticks` and has just
    /// ended.
    fn since(&self, start_ticks: u64, duration_ticks: u64) -> MeasureWords {
        let mut found = MeasureWords::NONE;
        if self.start_ticks.get() != start_ticks {
            return found;
        }
        let measures = self.measures();
        let mut waited = Queued::default();
        if measures.has(Measures::CPU) {
            let now = cpu::off_cpu_ticks_at(start_ticks.wrapping_add(duration_ticks));
            let off_ticks = cpu::off_of_span(self.off_cpu_ticks.get(), now, duration_ticks);
            found.put(off_ticks);
            if measures.has(Measures::WAIT) {
                let now = queued(now);
                let waited_ns = now.ns.saturating_sub(self.run_queue_ns.get());
                waited = Queued {
                    ns: waited_ns.min(clock::approximate_ns(off_ticks)),
                    switches: now.switches.saturating_sub(self.switches.get()),
                };
            }
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
        if measures.has(Measures::WAIT) {
            found.put(waited.ns);
        }
        if measures.has(Measures::SWITCHES) {
            found.put(waited.switches);
        }
        found
    }
}

impl Baselines {
    /// Returns the baseline of the scope of a level that began at `start_ticks`, or `None` if there
    /// is none. It may be that of the next scope of this level, so the caller checks afterwards
    /// which one is open.
    pub(crate) fn read(&self, depth: usize, start_ticks: u64) -> Option<Baseline> {
        let shared = self.0.get(depth)?;
        let is_its = shared.start_ticks.0.load(Ordering::Acquire) == start_ticks;
        let baseline = is_its.then(|| Baseline {
            measures: shared.measures(),
            off_cpu_ticks: shared.off_cpu_ticks.get(),
            allocated: AllocCounts {
                alloc_objects: shared.alloc_objects.get(),
                alloc_bytes: shared.alloc_bytes.get(),
                free_objects: shared.free_objects.get(),
                free_bytes: shared.free_bytes.get(),
            },
        });
        fence(Ordering::Acquire);
        baseline
    }
}

/// Returns what this thread queued for a processor, when its off-CPU time was this.
fn queued(off_cpu_ticks: u64) -> Queued {
    let known = cpu::known_queued(off_cpu_ticks);
    // Busy, because the first use of a thread-local allocates.
    known.unwrap_or_else(|| thread::while_busy(|| cpu::queued(off_cpu_ticks)))
}

/// Returns a pointer to this thread's baselines, valid for as long as the thread lives.
#[inline(always)]
pub(crate) fn own_baselines() -> *const Baselines {
    SHALLOW_BASELINES.with(std::ptr::from_ref)
}

/// Stores, for other threads, the baseline of a scope whose guard has read the off-CPU ticks.
#[inline(always)]
pub(super) fn share_cpu_baseline(place: u32, start_ticks: u64, off_cpu_ticks: u64) {
    if let Some(baseline) = shallow(ThreadState::depth_of(place)) {
        baseline.set_cpu(start_ticks, off_cpu_ticks);
    }
}

/// Stores the baseline of a scope that opens with `depth` scopes around it. A deep scope that opens
/// while its thread ends has none.
pub(super) fn set_baseline(depth: usize, start_ticks: u64, measures: Measures) {
    match shallow(depth) {
        Some(baseline) => baseline.set(start_ticks, measures),
        None => set_deep(depth - SHALLOW, start_ticks, measures),
    }
}

/// Returns the baseline of a level, or `None` for a deep one. The caller uses it before it returns.
#[expect(
    unsafe_code,
    reason = "a closure that does the work would not be inlined, \
              and what it captures would go through memory"
)]
#[inline(always)]
fn shallow<'a>(depth: usize) -> Option<&'a SharedBaseline> {
    let baselines = own_baselines();
    // SAFETY: the thread-local has no destructor, so it is valid as long as its thread, which is
    // the calling one; the caller does not keep the reference.
    let baselines = unsafe { &*baselines };
    baselines.0.get(depth)
}

#[cold]
#[inline(never)]
fn set_deep(at: usize, start_ticks: u64, measures: Measures) {
    let set = |baselines: &RefCell<Vec<SharedBaseline>>| {
        if let Ok(mut baselines) = baselines.try_borrow_mut() {
            if at >= baselines.len() {
                baselines.resize_with(at + 1, SharedBaseline::new);
            }
            baselines[at].set(start_ticks, measures);
        }
    };
    // Busy, because the first use of a thread-local allocates, and the stack grows.
    let _ = thread::while_busy(|| DEEP_BASELINES.try_with(set));
}

/// Returns the growth of the counters since a scope opened with `depth` scopes around it. The scope
/// lasted `duration_ticks` and has just ended.
pub(super) fn since(depth: usize, start_ticks: u64, duration_ticks: u64) -> MeasureWords {
    match shallow(depth) {
        Some(baseline) => baseline.since(start_ticks, duration_ticks),
        None => since_deep(depth - SHALLOW, start_ticks, duration_ticks),
    }
}

#[cold]
#[inline(never)]
fn since_deep(at: usize, start_ticks: u64, duration_ticks: u64) -> MeasureWords {
    let since = |baselines: &RefCell<Vec<SharedBaseline>>| {
        let baselines = baselines.try_borrow().ok()?;
        Some(baselines.get(at)?.since(start_ticks, duration_ticks))
    };
    let found = DEEP_BASELINES.try_with(since).ok().flatten();
    found.unwrap_or(MeasureWords::NONE)
}

/// The measures of a span, as words of its record.
pub(super) struct MeasureWords {
    words: [u64; MAX_MEASURED_WORDS],
    count: usize,
    /// 0 if all of them are 0.
    any: u64,
}

impl MeasureWords {
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

    /// Returns the words, or none if all of them are 0.
    pub(super) fn used(&self) -> &[u64] {
        if self.any == 0 {
            &[]
        } else {
            &self.words[..self.count]
        }
    }
}
