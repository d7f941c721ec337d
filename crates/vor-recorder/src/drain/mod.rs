//! The drain: marks, the engine, and the worker that empties the rings into frames and sinks.
//!
//! Callers only take a timestamp and pass it on: a mark is a tick in a queue, a wake-up is an
//! `unpark`. The engine behind one lock does the rest. It runs on the thread `vor-drain`, or on the
//! caller's thread in `flush()` and if there are no threads.

#[cfg(any(unix, windows))]
mod process_detach;
mod collect;
#[cfg(feature = "recovery")]
pub mod recovery;
#[cfg(feature = "shared-memory")]
pub(crate) mod shared_memory;
#[cfg(unix)]
pub(crate) mod crash;
#[cfg(unix)]
mod ending;
mod engine;
mod machine;
pub(crate) mod capture_file;
pub(crate) mod handle;
pub(crate) mod outputs;
pub(crate) mod exit;
pub(crate) mod fork;
mod heap;
mod marks;
pub(crate) mod printing;
mod sampler;
mod scheduler;
mod statistics;
mod scope_states;
mod table;
mod count_only;
pub(crate) mod dumps;
mod watchdog;
mod worker;

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

pub use capture_file::{capture_path, close_capture};
use engine::{Engine, Pass};
pub use handle::{SinkHandle, add_sink};
use marks::{Mark, Marks};
pub use scope_states::ScopeState;
use vor_capture::model::catalog::Catalog;
use vor_capture::sink::FrameSink;
use vor_capture::stats::ScopeStats;

use crate::clock;
use crate::drain::capture_file::CaptureFile;
use crate::hot::budget::ScopeBudget;
use crate::hot::sums::ThreadStats;
use crate::hot::{hooks, record_state, thread};
use crate::metrics::{self, FrameMetrics};
use crate::os::report;
use crate::os::signals;
use crate::sync::global::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::{Ordering, lock};

/// Most marks that the worker takes before it lets other threads have the engine.
const MAX_MARKS_PER_STEP: usize = 256;

/// The settings that outlive `enable`. The engine is created from them, also in the child of a
/// fork.
#[derive(Clone)]
pub(crate) struct Settings {
    start_ticks: u64,
    options: Options,
    capture: Option<CaptureFile>,
    /// The open capture: the number of its sink, and its path.
    opened: Option<(u64, PathBuf)>,
    /// The folder of the file of shared memory.
    #[cfg(feature = "shared-memory")]
    shared_in: Option<PathBuf>,
}

/// Options that the first start fixes for the rest of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) ring_kib: usize,
    /// Whether `frame_mark` drains, so that there is no worker.
    pub(crate) inline: bool,
    pub(crate) interval: Duration,
    pub(crate) max_spans_per_frame: usize,
    pub(crate) stats: bool,
}

/// Tick of the last mark of the main set. Written under the lock of the marks, read by any thread.
static LAST_MARK: AtomicU64 = AtomicU64::new(0);

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);
static ENGINE: Mutex<Option<Engine>> = Mutex::new(None);
/// Threads other than the worker that wait for the engine.
static WAITING: AtomicU32 = AtomicU32::new(0);
static MARKS: Mutex<Marks> = Mutex::new(Marks::new());
static FRAME_SETS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Whether `frame_mark` drains itself. Written by `start`, read by marks.
static INLINE: AtomicBool = AtomicBool::new(false);

/// Starts the drain with `options` at the first call, and runs `work` with its settings and whether
/// this is that call. Must not run inside a sink, where the engine is locked.
pub(crate) fn configure<R>(options: Options, work: impl FnOnce(&mut Settings, bool) -> R) -> R {
    hooks::set_drain(hooks::Drain {
        wake,
        rearm_if_forked,
    });
    thread::while_busy(|| {
        let mut settings = lock(&SETTINGS);
        let is_first = settings.is_none();
        let settings = settings.get_or_insert_with(|| Settings {
            start_ticks: clock::ticks(),
            options,
            capture: None,
            opened: None,
            #[cfg(feature = "shared-memory")]
            shared_in: None,
        });
        if is_first {
            thread::set_ring_slots(options.ring_kib * 1024 / 16);
            start_worker(settings, worker::spawn);
            fork::install();
            exit::install();
            handle::add_early(settings);
        }
        work(settings, is_first)
    })
}

impl Settings {
    /// Reports each frame and scope that takes longer than `limit`.
    pub(crate) fn watch(&self, limit: Duration) {
        watchdog::set_limit(limit);
        if self.options.inline {
            report::line(
                "the watchdog needs the worker thread, which `inline_drain` switches off; it stays \
                off",
            );
        }
        wake(true);
    }

    /// Makes the engine keep statistics of every scope.
    pub(crate) fn keep_statistics(&self) {
        with_settings(self, Engine::keep_statistics);
    }

    /// Limits the share of a core that the scopes of a site may take, from now on.
    pub(crate) fn limit_scopes(&self, budget: ScopeBudget) {
        with_settings(self, |engine| engine.set_budget(budget));
    }

    /// Adds sinks, which receive everything that ends from now on.
    pub(crate) fn add_sinks(&self, sinks: Vec<(String, Box<dyn FrameSink>)>) {
        if sinks.is_empty() {
            return;
        }
        with_settings(self, |engine| {
            pass(engine);
            for (name, sink) in sinks {
                engine.outputs.add(handle::next_number(), name, sink);
            }
        });
    }

    /// Passes a snapshot of the heap to the sinks now, and every `interval`.
    pub(crate) fn snapshot_heap(&self, interval: Duration) {
        heap::set_interval(interval);
        with_settings(self, |engine| engine.take_heap(heap::SnapshotTime::Now));
        wake(true);
    }

    /// Passes events of the operating system's scheduler to the sinks from now on.
    pub(crate) fn trace_scheduler(&self) {
        scheduler::start();
        with_settings(self, |engine| engine.take_scheduler(true));
        wake(true);
    }

    /// Returns one line about the rows that this machine lacks, if any.
    pub(crate) fn absences(&self) -> Option<String> {
        with_settings(self, |engine| engine.absences())
    }
}

/// Starts the worker with `spawn`, unless the program drains itself.
fn start_worker(settings: &Settings, spawn: fn(Duration)) {
    INLINE.store(settings.options.inline, Ordering::Relaxed);
    if !settings.options.inline {
        spawn(settings.options.interval);
    }
}

/// Starts the recorder in the child of a fork, with its own worker and its own capture.
fn rearm_if_forked() {
    if !record_state::is_forked() || thread::is_busy() {
        return;
    }
    thread::while_busy(|| {
        let mut settings = lock(&SETTINGS);
        if !record_state::is_forked() {
            return;
        }
        record_state::set_forked(false);
        if let Some(settings) = &mut *settings {
            settings.start_ticks = clock::ticks();
            #[cfg(feature = "shared-memory")]
            settings.begin_shared();
            settings.open_capture();
            #[cfg(unix)]
            start_worker(settings, worker::spawn_after_fork);
        }
    });
}

/// Runs `work` with the engine, and creates the engine if it is missing. `None` before the first
/// `enable`.
fn with_engine<R>(work: impl FnOnce(&mut Engine) -> R) -> Option<R> {
    Some(with_settings(&settings()?, work))
}

/// Returns the settings; `None` before the first `enable`.
// Out of line, because `with_engine` is compiled for each of its callers.
#[inline(never)]
fn settings() -> Option<Settings> {
    lock(&SETTINGS).clone()
}

/// The engine, while its lock is held.
struct EngineGuard(MutexGuard<'static, Option<Engine>>);

/// The thread that holds the engine, as [`signals::this_thread`] returns it; 0 if no thread does.
/// Only the holder writes it. Relaxed: a thread only compares it with itself.
#[cfg(unix)]
static HOLDER: AtomicU64 = AtomicU64::new(0);

impl EngineGuard {
    fn new(engine: MutexGuard<'static, Option<Engine>>) -> Self {
        #[cfg(unix)]
        HOLDER.store(signals::this_thread(), Ordering::Relaxed);
        Self(engine)
    }
}

impl Drop for EngineGuard {
    fn drop(&mut self) {
        #[cfg(unix)]
        HOLDER.store(0, Ordering::Relaxed);
    }
}

impl Deref for EngineGuard {
    type Target = Option<Engine>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for EngineGuard {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Returns whether this thread holds the engine. May be called in a handler.
#[cfg(unix)]
fn has_engine() -> bool {
    HOLDER.load(Ordering::Relaxed) == signals::this_thread()
}

/// Locks the engine within `bound`, counting only time in which the process runs.
#[cfg(unix)]
fn lock_engine_within(bound: Duration) -> Option<EngineGuard> {
    const PAUSE: Duration = Duration::from_millis(1);
    let mut pauses = bound.as_millis() / PAUSE.as_millis();
    WAITING.fetch_add(1, Ordering::SeqCst);
    let engine = loop {
        match ENGINE.try_lock() {
            Ok(engine) => break Some(engine),
            Err(TryLockError::Poisoned(poisoned)) => break Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if pauses == 0 => break None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
        pauses -= 1;
    };
    WAITING.fetch_sub(1, Ordering::SeqCst);
    engine.map(EngineGuard::new)
}

fn with_settings<R>(settings: &Settings, work: impl FnOnce(&mut Engine) -> R) -> R {
    let mut engine = lock_engine();
    // Sinks write on the thread that drains, and their writes must not end the program.
    signals::without_signals(move || {
        let result = work(make_if_missing(&mut engine, settings));
        release(engine);
        result
    })
}

// Out of line, like `release` and `lock_engine`: `with_settings` is compiled for each of its
// callers.
#[inline(never)]
fn make_if_missing<'a>(engine: &'a mut EngineGuard, settings: &Settings) -> &'a mut Engine {
    engine.get_or_insert_with(|| {
        Engine::new(
            settings.start_ticks,
            settings.options.max_spans_per_frame,
            settings.options.stats,
        )
    })
}

/// Unlocks the engine, and then drops the sinks that have ended.
#[inline(never)]
fn release(mut engine: EngineGuard) {
    let ended = engine.as_mut().map(|engine| engine.outputs.take_ended());
    drop(engine);
    drop(ended);
}

/// Locks the engine. Under load the worker releases it only briefly, so it yields to threads that
/// wait here.
#[inline(never)]
fn lock_engine() -> EngineGuard {
    EngineGuard::new(match ENGINE.try_lock() {
        Ok(engine) => engine,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            WAITING.fetch_add(1, Ordering::SeqCst);
            let engine = lock(&ENGINE);
            WAITING.fetch_sub(1, Ordering::SeqCst);
            engine
        }
    })
}

/// Takes everything that ended and was marked before the call. Later records wait for the next
/// pass, however fast they arrive.
fn pass(engine: &mut Engine) -> Pass {
    let until_ticks = begin_pass(engine);
    let mut all = Pass::default();
    loop {
        let pass = step(engine, until_ticks);
        all.active |= pass.active;
        all.pressed = pass.pressed;
        if !pass.more {
            return all;
        }
    }
}

/// Reads the open scopes, and fixes the tick up to which a pass goes.
fn begin_pass(engine: &mut Engine) -> u64 {
    dumps::begin_pass();
    engine.snapshot_open();
    // Under the lock: a mark made later has a later tick.
    let _marks = lock(&MARKS);
    clock::ticks()
}

/// Takes the rings' contents up to the tick of [`begin_pass`], or up to `MAX_MARKS_PER_STEP` marks.
fn step(engine: &mut Engine, until_ticks: u64) -> Pass {
    let mut due = Vec::new();
    let marks = &mut engine.marks;
    while due.len() < MAX_MARKS_PER_STEP {
        marks.refill(|| lock(&MARKS));
        let Some(mark) = marks.pop_due(until_ticks) else {
            break;
        };
        due.push(mark);
    }
    let (mut until_ticks, mut more) = (until_ticks, false);
    if let Some(last) = due.last().filter(|_| due.len() == MAX_MARKS_PER_STEP) {
        marks.refill(|| lock(&MARKS));
        if marks.has_due(until_ticks) {
            // Spans that ended after the last taken mark wait for the next step.
            (until_ticks, more) = (last.ticks, true);
        }
    }
    let names = lock(&FRAME_SETS).clone();
    let pass = engine.pass(due, until_ticks, &names);
    Pass { more, ..pass }
}

/// Ends a frame of the main set and begins the next.
///
/// The caller's cost is constant: the worker does the rest. Metrics and I/O recorded since the last
/// mark belong to the frame that ends.
///
/// ```
/// # mod vor { pub use vor_recorder::drain::frame_mark; pub use vor_recorder::profile_scope; }
/// # use vor_recorder::*;
/// for _ in 0..3 {
///     {
///         vor::profile_scope!("step");
///     }
///     vor::frame_mark(); // a rendered frame, a training step, a request, a batch
/// }
/// ```
#[inline]
pub fn frame_mark() {
    if !cfg!(feature = "off") && record_state::is_on() {
        mark_main();
    }
}

fn mark_main() {
    if !thread::is_busy() {
        rearm_if_forked();
        thread::while_busy(|| mark(0, metrics::take()));
    }
}

/// Ends a frame of the secondary set `name` and begins the next. Such frames have boundaries, but
/// no spans of their own and no metrics.
#[inline]
pub fn frame_mark_named(name: &str) {
    if !cfg!(feature = "off") && record_state::is_on() {
        mark_named(name);
    }
}

fn mark_named(name: &str) {
    if !thread::is_busy() {
        rearm_if_forked();
        thread::while_busy(|| {
            if let Some(set) = metrics::frame_set(name, &FRAME_SETS) {
                mark(set, FrameMetrics::default());
            }
        });
    }
}

/// Ends a frame of the secondary set `$name`, like the function of this name.
///
/// # Examples
///
/// ```
/// # use vor_recorder as vor;
/// vor::frame_mark_named!("physics");
/// ```
#[macro_export]
macro_rules! frame_mark_named {
    ($name:expr) => {
        $crate::drain::frame_mark_named($name)
    };
}

/// Returns the tick of the last mark of the main set; 0 before the first mark.
#[must_use]
pub fn last_mark_ticks() -> u64 {
    LAST_MARK.load(Ordering::Relaxed)
}

fn mark(set: u32, recorded: FrameMetrics) {
    let (ticks, are_many) = {
        let mut marks = lock(&MARKS);
        let ticks = clock::ticks();
        if set == 0 {
            LAST_MARK.store(ticks, Ordering::Relaxed);
        }
        marks.push(Mark {
            set,
            ticks,
            metrics: recorded,
            merged: 0,
        });
        (ticks, marks.are_many())
    };
    if INLINE.load(Ordering::Relaxed) {
        with_engine(pass);
        printing::print_if_requested();
    } else {
        wake(are_many);
        clock::wait_past(ticks);
    }
}

/// Delivers everything that ended before the call to the sinks, and their output to its
/// destination. Returns when it has arrived.
///
/// ```
/// # mod vor { pub use vor_recorder::drain::flush; pub use vor_recorder::profile_scope; }
/// # use vor_recorder::*;
/// {
///     vor::profile_scope!("work");
/// }
/// vor::flush(); // every sink has the scope now
/// ```
pub fn flush() {
    if thread::is_busy() {
        return;
    }
    thread::while_busy(flush_now);
}

/// Like [`flush`], on a thread that is marked busy.
pub(crate) fn flush_now() {
    with_engine(|engine| {
        pass(engine);
        engine.outputs.flush();
    });
}

/// The name of [`flush`] in vor 0.2.1.
pub fn flush_recording() {
    flush();
}

/// Wakes the worker from its long sleep; with `urgent`, also from the sleep between two passes.
fn wake(urgent: bool) {
    worker::wake(urgent);
}

/// Returns the statistics of every scope so far, by call site. Empty unless
/// [`Config::stats`](crate::setup::Config::stats) or
/// [`Config::count_scopes`](crate::setup::Config::count_scopes) is on, and inside a sink.
#[must_use]
pub fn stats() -> Vec<ScopeStats> {
    let read = |engine: &mut Engine| {
        pass(engine);
        engine.scope_stats()
    };
    try_with_engine(read).unwrap_or_default()
}

/// Returns the statistics of every scope so far, by thread and call site. Threads that have ended
/// are one row per call site, first. Has the scopes that were counted: all with
/// [`Config::count_scopes`](crate::setup::Config::count_scopes), otherwise those that
/// [rules](crate::hot::rules::set_scopes) or a budget have counted. Empty inside a sink.
#[must_use]
pub fn stats_by_thread() -> Vec<ThreadStats> {
    let read = |engine: &mut Engine| {
        pass(engine);
        engine.counted_by_thread()
    };
    try_with_engine(read).unwrap_or_default()
}

/// Returns, for each call site that has opened a scope while recording was on, how its scopes are
/// recorded, and how many were recorded, counted and skipped. Empty before recording was first
/// enabled, and inside a sink.
///
/// # Examples
///
/// ```
/// # mod vor {
/// #     pub use vor_recorder::{hot::rules::set_scopes, drain::scopes, profile_scope, setup::*};
/// # }
/// vor::Config::new().enable();
/// vor::set_scopes("step=count")?;
/// for _ in 0..3 {
///     vor::profile_scope!("step");
/// }
/// let scopes = vor::scopes();
/// assert_eq!((scopes[0].mode.to_string(), scopes[0].counted), ("count".to_owned(), 3));
/// # vor::disable();
/// # Ok::<(), vor_capture::Error>(())
/// ```
#[must_use]
pub fn scopes() -> Vec<ScopeState> {
    try_with_engine(read_scopes).unwrap_or_default()
}

fn read_scopes(engine: &mut Engine) -> Vec<ScopeState> {
    pass(engine);
    engine.scope_states()
}

/// Returns what [`scopes`] does, to a thread of vor's own.
#[cfg(all(feature = "live", not(target_family = "wasm")))]
pub(crate) fn scopes_for_client() -> Vec<ScopeState> {
    thread::while_busy(|| with_engine(read_scopes)).unwrap_or_default()
}

/// Returns the catalog as of the last pass, `None` before recording was first enabled and inside a
/// sink.
#[must_use]
pub fn catalog() -> Option<Arc<Catalog>> {
    try_with_engine(|engine| {
        pass(engine);
        // Including scopes of which none has ended yet.
        engine.learn_sites();
        Arc::clone(engine.catalog())
    })
}

/// The state of the recorder, for a request.
#[cfg(all(feature = "live", not(target_family = "wasm")))]
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) sinks: Vec<String>,
    pub(crate) failed_sinks: u64,
    pub(crate) capture: Option<PathBuf>,
}

/// Returns the state of the recorder, to a thread of vor's own.
#[cfg(all(feature = "live", not(target_family = "wasm")))]
pub(crate) fn status() -> Option<Status> {
    thread::while_busy(|| {
        let opened = lock(&SETTINGS).as_ref()?.opened.clone();
        with_engine(|engine| {
            pass(engine);
            engine.learn_sites();
            let capture = opened.filter(|(number, _)| engine.outputs.has(*number));
            Status {
                catalog: Arc::clone(engine.catalog()),
                sinks: engine.outputs.names(),
                failed_sinks: engine.outputs.failed(),
                capture: capture.map(|(_, path)| path),
            }
        })
    })
}

/// Returns how many sinks were switched off because they failed.
///
/// ```
/// # mod vor { pub use vor_recorder::drain::failed_sinks; }
/// if vor::failed_sinks() > 0 {
///     eprintln!("an output of vor failed; stderr had the reason");
/// }
/// ```
#[must_use]
pub fn failed_sinks() -> u64 {
    try_with_engine(|engine| engine.outputs.failed()).unwrap_or(0)
}

/// Runs `work` with the engine for the program. `None` inside a sink, where this thread itself has
/// the engine locked.
fn try_with_engine<R>(work: impl FnOnce(&mut Engine) -> R) -> Option<R> {
    if thread::is_busy() {
        return None;
    }
    thread::while_busy(|| with_engine(work))
}

/// Starts the recorder for a test of this module. The guard makes tests take turns, because marks
/// take the metrics of the whole process.
#[cfg(all(test, not(loom), not(feature = "off")))]
fn start_for_tests() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = lock(&TURN);
    let options = Options {
        ring_kib: 16 << 10,
        inline: false,
        interval: Duration::from_millis(20),
        max_spans_per_frame: 1 << 20,
        stats: false,
    };
    configure(options, |_, _| record_state::set(true));
    turn
}

#[cfg(all(test, not(loom), not(feature = "off")))]
mod tests {
    use crate::metrics::{self, Counter};

    static SHARED: Counter = Counter::new("counter of four threads", "");

    #[test]
    fn counts_of_threads_that_come_and_go_add_up_across_marks() {
        let _turn = super::start_for_tests();
        let taken = || {
            let all = metrics::take();
            let columns = metrics::columns_after(0);
            let is_shared = |column: u32| {
                let column = columns.get(column as usize);
                column.is_some_and(|column| column.metric.name == "counter of four threads")
            };
            let sums = all.sums.iter().filter(|(column, _)| is_shared(*column));
            sums.map(|(_, sum)| sum).sum::<u64>()
        };
        let mut seen = 0;
        for round in 0..20 {
            let threads: Vec<_> = (0..4)
                .map(|_| std::thread::spawn(|| (0..1000).for_each(|_| SHARED.add(3))))
                .collect();
            if round % 2 == 0 {
                seen += taken();
            }
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            // A pass reclaims the blocks of ended threads, and the worker's pass may be late.
            super::flush();
        }
        assert_eq!(seen + taken(), 20 * 4 * 1000 * 3);
        assert_eq!(taken(), 0);
        let blocks = metrics::block_count();
        assert!(blocks < 40, "blocks are reused: {blocks}");
    }
}
