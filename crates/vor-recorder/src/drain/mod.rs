//! The drain: switching recording on and off, marks, and the worker that empties the rings.
//!
//! Callers only ever stamp and hand over: a mark is a tick in a queue, a wake-up is an `unpark`.
//! The engine behind one lock does the rest, on the thread `vor-drain`, or on the caller's in
//! `flush()` and where there are no threads.

#[cfg(any(unix, windows))]
mod process_detach;
mod collect;
#[cfg(unix)]
pub(crate) mod crash;
#[cfg(unix)]
mod ending;
mod engine;
mod machine;
pub(crate) mod outputs;
mod exit;
mod fork;
mod heap;
mod marks;
mod printing;
mod sampler;
mod table;
pub mod calibrate;
pub mod config;
mod variables;
mod count_only;
mod watchdog;
mod worker;

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use engine::{Engine, Pass};
use marks::{Mark, Marks};
use vor_capture::sink::FrameSink;
use vor_capture::stats::ScopeStats;

#[cfg(feature = "puffin")]
use crate::bridges::puffin::PuffinFeed;
use crate::catalog::Catalog;
use crate::drain::config::Config;
use crate::drain::outputs::Outputs;
use crate::hot::nvtx;
use crate::hot::sums::ThreadStats;
use crate::hot::{hooks, record_state, thread};
use crate::measure::Measures;
use crate::metrics::{self, Taken};
use crate::os::report;
use crate::os::signals;
use crate::sinks::capture::{CaptureOptions, CaptureSink};
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU32, AtomicU64};
use crate::{allocations, clock, cpu};

/// Marks that the worker takes before it lets others have the engine.
const MAX_MARKS_PER_STEP: usize = 256;

/// The settings that outlive `enable`: what the engine needs when it is made, also in the child of
/// a fork.
#[derive(Clone, Debug)]
struct Settings {
    start_ticks: u64,
    inline: bool,
    interval: Duration,
    max_spans_per_frame: usize,
    statistics: bool,
    /// The capture that was asked for, until it is closed or cannot be opened.
    capture: Option<(PathBuf, CaptureOptions)>,
    /// Whether the path of the capture comes from `VOR_RECORD`, for messages.
    capture_from_env: bool,
    /// Whether a signal that ends the process finds the capture closed.
    signals: bool,
    /// The capture that was opened: the number of its sink, and where it is written.
    opened: Option<(u64, PathBuf)>,
}

/// When a frame of the main set was marked last, in ticks. Written under the lock of the marks,
/// read by anyone.
static LAST_MARK: AtomicU64 = AtomicU64::new(0);

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);
static ENGINE: Mutex<Option<Engine>> = Mutex::new(None);
/// Threads that wait for the engine beside the worker.
static WAITING: AtomicU32 = AtomicU32::new(0);
static MARKS: Mutex<Marks> = Mutex::new(Marks::new());
static FRAME_SETS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Whether `frame_mark` drains by itself. Written by `start`, read by marks.
static INLINE: AtomicBool = AtomicBool::new(false);
static NEXT_SINK: AtomicU64 = AtomicU64::new(1);

fn locked<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Switches recording on with the settings of the environment; see [`Config::from_env`]. Does
/// nothing where it is on.
///
/// The environment is read at the first call; a later one only undoes a [`disable`].
pub fn enable() {
    if record_state::is_on() {
        return;
    }
    static ENVIRONMENT_READ: AtomicBool = AtomicBool::new(false);
    let config = if ENVIRONMENT_READ.swap(true, Ordering::SeqCst) {
        Config::new()
    } else {
        Config::from_env()
    };
    config.enable();
}

/// Switches recording off. Scopes that are open are still recorded when they end; sinks stay, and
/// go on when recording is switched on again.
pub fn disable() {
    if record_state::is_on() {
        record_state::set(false);
        #[cfg(feature = "puffin")]
        PuffinFeed::recording_is(false);
        flush();
    }
}

/// Returns whether recording is on.
#[must_use]
pub fn is_enabled() -> bool {
    record_state::is_on()
}

/// Starts the recorder, or adds to it. Does nothing inside a sink, which runs with the engine
/// locked, and where vor is compiled out.
pub(crate) fn start(config: Config) {
    if cfg!(feature = "off") {
        if let Some(path) = &config.capture {
            report::line(&format!(
                "{}{} is not written: vor is compiled out, by its feature `off`",
                if config.from_env { "VOR_RECORD: " } else { "" },
                path.display()
            ));
        }
        return;
    }
    if thread::is_busy() {
        report::line("recording cannot be configured from inside a sink; the call is ignored");
        return;
    }
    hooks::set_drain(hooks::Drain {
        wake,
        rearm_if_forked,
    });
    let absences = thread::while_busy(|| {
        let mut settings = locked(&SETTINGS);
        let is_first = settings.is_none();
        if is_first {
            thread::set_ring_slots(config.ring_kib * 1024 / 16);
        }
        let settings = settings.get_or_insert_with(|| Settings {
            start_ticks: clock::ticks(),
            inline: config.inline_drain || cfg!(target_arch = "wasm32"),
            interval: config.drain_interval,
            max_spans_per_frame: config.max_spans_per_frame,
            statistics: config.statistics,
            capture: None,
            capture_from_env: config.from_env,
            signals: config.signals,
            opened: None,
        });
        if is_first {
            begin(settings, worker::spawn);
            fork::install();
            exit::install();
        }
        if let Some(limit) = config.watchdog {
            watchdog::set_limit(limit);
            if settings.inline {
                report::line(
                    "the watchdog needs the worker, which there is not with `inline_drain`; it stays off",
                );
            }
            wake(true);
        }
        if config.aggregate {
            record_state::count_scopes();
            if config.print_stats {
                printing::begin();
            }
        }
        if config.statistics {
            with_settings(settings, Engine::keep_statistics);
        }
        #[cfg(feature = "puffin")]
        feed_puffin(settings, is_first, config.puffin);
        let path = config.capture.filter(|path| may_begin(path, settings));
        let may_lack_spans = config.aggregate || path.is_some();
        if let Some(path) = path {
            let options = CaptureOptions {
                spans: config.spans,
                every: config.every,
                max_frames: config.max_frames,
                slow_ns: config.slow_ns,
                before: config.before,
            };
            settings.capture = Some((path, options));
            settings.capture_from_env = config.from_env;
            settings.signals = config.signals;
            open_capture(settings);
        }
        if may_lack_spans && record_state::counts_scopes() {
            report_no_spans(settings);
        }
        if !config.sinks.is_empty() {
            with_settings(settings, |engine| {
                // What ended before is not theirs.
                pass(engine);
                for (name, sink) in config.sinks {
                    engine
                        .outputs
                        .add(NEXT_SINK.fetch_add(1, Ordering::Relaxed), name, sink);
                }
            });
        }
        if let Some(interval) = config.heap_snapshots {
            heap::set_interval(interval);
            // With all sinks there, the first one is theirs.
            with_settings(settings, |engine| engine.take_heap(true));
            wake(true);
        }
        if !record_state::is_on() {
            metrics::forget_while_off();
        }
        nvtx::attach();
        measure_cpu(config.measures);
        if allocations::is_installed() && config.allocations != Some(false) {
            record_state::measure(Measures::ALLOC);
        }
        record_state::set(true);
        is_first.then(|| with_settings(settings, |engine| engine.absences()))
    });
    // Whoever listens may use vor, so nothing is locked any more.
    if let Some(reason) = absences.flatten() {
        report::detail(&reason);
    }
}

/// Has the processor time of all scopes measured, if that is wanted and can be had.
fn measure_cpu(measures: Measures) {
    if measures.is_none() {
        return;
    }
    cpu::init();
    if cpu::source() == cpu::Source::None {
        report::line(
            "the processor time of scopes is not measured: this system does not tell that of a thread",
        );
    } else {
        record_state::measure(measures);
    }
}

/// Switches recording on for a measurement, without reading the environment and without a sink of
/// its own.
pub(crate) fn start_without_sinks() {
    start(Config::new());
}

/// Adds the feed of puffin when the recorder starts, and allows or forbids it where the program has
/// said so.
#[cfg(feature = "puffin")]
fn feed_puffin(settings: &Settings, is_first: bool, allowed: Option<bool>) {
    if let Some(allowed) = allowed {
        PuffinFeed::allow(allowed);
    }
    if allowed == Some(true) || !record_state::is_on() {
        PuffinFeed::recording_is(true);
    }
    if is_first {
        let number = NEXT_SINK.fetch_add(1, Ordering::Relaxed);
        let feed = Box::new(PuffinFeed::default());
        with_settings(settings, |engine| {
            engine.outputs.add(number, "puffin".into(), feed)
        });
    }
}

/// Starts the worker by `spawn`, unless the program drains itself.
fn begin(settings: &Settings, spawn: fn(Duration)) {
    INLINE.store(settings.inline, Ordering::Relaxed);
    if !settings.inline {
        spawn(settings.interval);
    }
}

/// Says whether a capture at `path` may begin. Where another is being written, that one goes on,
/// and a line says so.
fn may_begin(path: &Path, settings: &Settings) -> bool {
    let Some(running) = running_capture(settings) else {
        return true;
    };
    let asked = settings.capture.as_ref().map(|(asked, _)| asked.as_path());
    if asked != Some(path) {
        report::line(&format!(
            "{} is being written; no second capture is begun at {}",
            running.display(),
            path.display()
        ));
    }
    false
}

/// Says that the capture that is being written gets no spans any more, if it was to hold any.
fn report_no_spans(settings: &Settings) {
    if let (Some((_, options)), Some((_, path))) = (&settings.capture, &settings.opened)
        && options.spans
    {
        report::line(&format!(
            "{} holds no spans: scopes are counted, and not recorded",
            path.display()
        ));
    }
}

/// Returns where the capture is written, unless it was closed or its sink failed.
fn running_capture(settings: &Settings) -> Option<PathBuf> {
    let (number, path) = settings.opened.clone()?;
    with_settings(settings, |engine| engine.outputs.has(number)).then_some(path)
}

/// Opens the capture that the settings name. What stands in the way is reported, and the program
/// runs on.
fn open_capture(settings: &mut Settings) {
    settings.opened = None;
    let Some((path, options)) = &settings.capture else {
        return;
    };
    let variable = if settings.capture_from_env {
        "VOR_RECORD: "
    } else {
        ""
    };
    match CaptureSink::create(path, *options) {
        Ok(mut sink) => {
            sink.take_notes(settings.signals);
            let number = NEXT_SINK.fetch_add(1, Ordering::Relaxed);
            let path = sink.path().to_owned();
            let name = format!("{variable}the capture {}", path.display());
            with_settings(settings, |engine| {
                // What ended before is not in it.
                pass(engine);
                engine.outputs.add_file(number, name, Box::new(sink));
            });
            settings.opened = Some((number, path));
        }
        Err(error) => {
            report::line(&format!("{variable}{error}; no capture is written"));
            settings.capture = None;
        }
    }
}

/// Returns the file that the capture is being written to.
///
/// It is not always the path that was asked for: where another process is writing there, it is
/// `run.<pid>.vor` beside it. `None` where no capture is being written: none was asked for, it
/// could not be opened or written, or it was closed; in the child of a fork until it records; and
/// inside a sink.
#[must_use]
pub fn capture_path() -> Option<PathBuf> {
    if thread::is_busy() || record_state::is_forked() {
        return None;
    }
    thread::while_busy(|| running_capture(locked(&SETTINGS).as_ref()?))
}

/// Closes the capture that is being written, with its index, and returns its path. `None` where no
/// capture is being written, as for [`capture_path`], and where the end could not be written, which
/// a line on stderr tells.
///
/// Everything that ended before the call is in it. Recording goes on for the other sinks, and
/// another capture may be begun with [`Config::capture`]. Without this call the capture is closed
/// when the process ends.
pub fn close_capture() -> Option<PathBuf> {
    if thread::is_busy() || record_state::is_forked() {
        return None;
    }
    thread::while_busy(|| {
        let mut settings = locked(&SETTINGS);
        let settings = settings.as_mut()?;
        let (number, path) = settings.opened.take()?;
        settings.capture = None;
        let closed = with_settings(settings, |engine| {
            pass(engine);
            engine.take_heap(true);
            engine.outputs.remove(number)
        });
        closed.then_some(path)
    })
}

/// Starts the recorder in the child of a fork: a worker of its own, and a capture of its own.
fn rearm_if_forked() {
    if !record_state::is_forked() || thread::is_busy() {
        return;
    }
    thread::while_busy(|| {
        let mut settings = locked(&SETTINGS);
        if !record_state::is_forked() {
            return;
        }
        record_state::set_forked(false);
        if let Some(settings) = &mut *settings {
            settings.start_ticks = clock::ticks();
            open_capture(settings);
            #[cfg(unix)]
            begin(settings, worker::spawn_after_fork);
        }
    });
}

/// Runs `work` with the engine, which is made where it is missing. `None` before the first
/// `enable`.
fn with_engine<R>(work: impl FnOnce(&mut Engine) -> R) -> Option<R> {
    let settings = locked(&SETTINGS).clone()?;
    Some(with_settings(&settings, work))
}

/// The engine, while its lock is held.
struct EngineGuard(MutexGuard<'static, Option<Engine>>);

/// The thread that holds the engine, as [`signals::this_thread`] says it; 0 where nobody does.
/// Written by the holder alone, relaxed: only whether it is oneself is asked.
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

/// Locks the engine if that can be done in time, of which only what the process is let run counts.
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
    let make = || {
        Engine::new(
            settings.start_ticks,
            settings.max_spans_per_frame,
            settings.statistics,
        )
    };
    // Sinks write on whichever thread drains, and the program must not die of what they write.
    signals::without_signals(|| work(engine.get_or_insert_with(make)))
}

/// Locks the engine. The worker, which hardly lets go of it under load, lets whoever waits here go
/// first.
fn lock_engine() -> EngineGuard {
    EngineGuard::new(match ENGINE.try_lock() {
        Ok(engine) => engine,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            WAITING.fetch_add(1, Ordering::SeqCst);
            let engine = locked(&ENGINE);
            WAITING.fetch_sub(1, Ordering::SeqCst);
            engine
        }
    })
}

/// Takes what ended and was marked before the call. What comes meanwhile waits for the next pass,
/// however fast it comes.
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

/// Reads what is open, and fixes the tick up to which a pass goes.
fn begin_pass(engine: &mut Engine) -> u64 {
    engine.note_open();
    // Under the lock: a mark made later has a later tick.
    let _marks = locked(&MARKS);
    clock::ticks()
}

/// Takes what is in the rings up to the tick of [`begin_pass`], or up to so many marks.
fn step(engine: &mut Engine, until_ticks: u64) -> Pass {
    let mut taken = Vec::new();
    let marks = &mut engine.marks;
    while taken.len() < MAX_MARKS_PER_STEP {
        marks.refill(|| locked(&MARKS));
        let Some(mark) = marks.pop_due(until_ticks) else {
            break;
        };
        taken.push(mark);
    }
    let (mut until_ticks, mut more) = (until_ticks, false);
    if let Some(last) = taken.last().filter(|_| taken.len() == MAX_MARKS_PER_STEP) {
        marks.refill(|| locked(&MARKS));
        if marks.has_due(until_ticks) {
            // What ended after the last mark taken waits for the next one.
            (until_ticks, more) = (last.ticks, true);
        }
    }
    let names = locked(&FRAME_SETS).clone();
    let pass = engine.pass(taken, until_ticks, &names);
    Pass { more, ..pass }
}

/// Ends a frame of the main set and begins the next.
///
/// The caller pays a constant: the worker does the rest. Metrics and I/O recorded since the last
/// mark belong to the frame that ends.
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

/// Ends a frame of the secondary set `name` and begins the next. Such frames have boundaries, no
/// spans of their own and no metrics.
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
                mark(set, Taken::default());
            }
        });
    }
}

/// Ends a frame of the secondary set that is called so; the same as the function of this name.
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

/// Returns when a frame of the main set was marked last, in ticks; 0 before the first mark.
#[must_use]
pub fn last_mark_ticks() -> u64 {
    LAST_MARK.load(Ordering::Relaxed)
}

fn mark(set: u32, taken: Taken) {
    let (ticks, are_many) = {
        let mut marks = locked(&MARKS);
        let ticks = clock::ticks();
        if set == 0 {
            LAST_MARK.store(ticks, Ordering::Relaxed);
        }
        marks.push(Mark {
            set,
            ticks,
            taken,
            merged: 0,
        });
        (ticks, marks.are_many())
    };
    if INLINE.load(Ordering::Relaxed) {
        with_engine(pass);
        printing::print_if_asked();
    } else {
        wake(are_many);
        clock::wait_past(ticks);
    }
}

/// Brings everything that ended before the call to the sinks, and their output to its destination.
/// Returns when it is there.
pub fn flush() {
    if thread::is_busy() {
        return;
    }
    thread::while_busy(|| {
        with_engine(|engine| {
            pass(engine);
            engine.outputs.flush();
        });
    });
}

/// The name that the predecessor gave to [`flush`].
pub fn flush_recording() {
    flush();
}

/// Wakes the worker where it sleeps until called; with `urgent`, also from the sleep between two
/// passes.
fn wake(urgent: bool) {
    worker::wake(urgent);
}

/// Adds a sink to the running recorder; dropping the returned handle ends it. Recording need not be
/// on: the sink then waits. From inside a sink nothing can be added.
pub fn add_sink(name: impl Into<String>, sink: impl FrameSink + 'static) -> SinkHandle {
    add(name.into(), Box::new(sink), Outputs::add)
}

/// As [`add_sink`], for a sink that writes a file of its own and needs no other thread for that.
pub(crate) fn add_file_sink(name: String, sink: impl FrameSink + 'static) -> SinkHandle {
    add(name, Box::new(sink), Outputs::add_file)
}

fn add(
    name: String,
    sink: Box<dyn FrameSink>,
    to: fn(&mut Outputs, u64, String, Box<dyn FrameSink>),
) -> SinkHandle {
    let number = NEXT_SINK.fetch_add(1, Ordering::Relaxed);
    if thread::is_busy() {
        // The engine is locked by this very thread.
        report::line(&format!(
            "{name} cannot be added from inside a sink; it stays off"
        ));
        return SinkHandle { number };
    }
    thread::while_busy(|| {
        with_engine(|engine| {
            pass(engine);
            to(&mut engine.outputs, number, name, sink);
        })
    });
    SinkHandle { number }
}

/// Keeps a sink on; dropping it hands the sink what ended before, and finishes it.
#[must_use = "dropping the handle ends the sink"]
#[derive(Debug)]
pub struct SinkHandle {
    number: u64,
}

impl Drop for SinkHandle {
    fn drop(&mut self) {
        let number = self.number;
        let remove = || {
            with_engine(|engine| {
                pass(engine);
                engine.outputs.remove(number);
            });
        };
        if !thread::is_busy() {
            thread::while_busy(remove);
        }
    }
}

/// Returns the statistics of every scope so far, by call site. Empty unless [`Config::statistics`]
/// or [`Config::aggregate`] is on, and inside a sink.
#[must_use]
pub fn stats() -> Vec<ScopeStats> {
    let read = |engine: &mut Engine| {
        pass(engine);
        engine.scope_stats()
    };
    outside(read).unwrap_or_default()
}

/// Returns the statistics of every scope so far, by thread and call site. Threads that have ended
/// are told together, first. Empty unless [`Config::aggregate`] is on, and inside a sink.
#[must_use]
pub fn stats_by_thread() -> Vec<ThreadStats> {
    let read = |engine: &mut Engine| {
        pass(engine);
        engine.counted_by_thread()
    };
    outside(read).unwrap_or_default()
}

/// Returns the catalog as of the last pass, `None` before recording was first enabled and inside a
/// sink.
#[must_use]
pub fn catalog() -> Option<Arc<Catalog>> {
    outside(|engine| {
        pass(engine);
        // Those of scopes too of which none has ended yet.
        engine.learn_sites();
        Arc::clone(engine.catalog())
    })
}

/// Returns how many sinks were switched off because they failed.
#[must_use]
pub fn failed_sinks() -> u64 {
    outside(|engine| engine.outputs.failed()).unwrap_or(0)
}

/// Asks the engine on behalf of the program. `None` inside a sink, where this very thread has the
/// engine locked.
fn outside<R>(ask: impl FnOnce(&mut Engine) -> R) -> Option<R> {
    if thread::is_busy() {
        return None;
    }
    thread::while_busy(|| with_engine(ask))
}
