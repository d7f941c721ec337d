//! Switches recording on and off: the settings of the program or of its environment, and their
//! sinks.

mod calibrate;
mod config;
mod install;
#[cfg(feature = "segments")]
mod limits;
cfg_select! {
    feature = "segments" => {
        mod retention;
    }
    _ => {
        mod retention_stub;
        use retention_stub as retention;
    }
}
mod variables;
#[cfg(all(test, not(any(feature = "off", loom))))]
mod tests;
#[cfg(all(
    test,
    feature = "rules",
    not(any(feature = "off", loom, target_family = "wasm"))
))]
mod scope_rules;

use std::path::PathBuf;
use std::sync::Arc;

use vor_capture::model::measures::Measures;

use crate::clock::cpu;
use crate::drain::capture_file::CaptureFile;
use crate::drain::{self, Options, Settings};
use crate::hot::budget::ScopeBudget;
#[cfg(feature = "rules")]
use crate::hot::rules;
use crate::hot::{nvtx, record_state, thread};
use crate::os::report;
use crate::sinks::capture::{CaptureOptions, CaptureSink};
#[cfg(all(feature = "live", not(target_family = "wasm")))]
use crate::sinks::live;
#[cfg(feature = "puffin")]
use crate::sinks::puffin::PuffinFeed;
use crate::sync::Ordering;
use crate::sync::global::AtomicBool;
use crate::{allocations, metrics};
#[cfg(feature = "shared-memory")]
use config::SharedMemory;

pub use calibrate::{SpanBudget, calibrate, clock_floor_ns, empty_span_ns};
pub use config::{
    Config, DEFAULT_DRAIN_INTERVAL, DEFAULT_MAX_SPANS_PER_FRAME, DEFAULT_RING_KIB, RING_KIB_RANGE,
};

/// Switches recording on with the settings of the environment; see [`Config::from_env`]. Does
/// nothing if it is already on.
///
/// The environment is read at the first call; a later one only undoes a [`disable`].
///
/// ```
/// # mod vor { pub use vor_recorder::setup::{disable, enable}; }
/// fn main() {
///     vor::enable(); // reads VOR_RECORD and the other variables
///     // … the program
/// #     vor::disable();
/// }
/// ```
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

/// Switches recording off. Open scopes are still recorded when they end. Sinks stay, and continue
/// when recording is switched on again.
///
/// ```
/// # mod vor { pub use vor_recorder::setup::{disable, enable, is_enabled}; }
/// vor::enable();
/// vor::disable();
/// assert!(!vor::is_enabled());
/// ```
pub fn disable() {
    if record_state::is_on() {
        record_state::set(false);
        #[cfg(feature = "puffin")]
        PuffinFeed::recording_is(false);
        drain::flush();
    }
}

/// Returns whether recording is on.
///
/// ```
/// # mod vor { pub use vor_recorder::setup::is_enabled; }
/// assert!(!vor::is_enabled()); // nobody has called `vor::enable()` here
/// ```
#[must_use]
pub fn is_enabled() -> bool {
    record_state::is_on()
}

/// Starts the recorder, or adds to it. Does nothing inside a sink, which runs with the engine
/// locked, and if vor is compiled out.
fn start(config: Config) {
    if cfg!(feature = "off") {
        if let Some(path) = &config.capture {
            report::line(&format!(
                "{}{} is not written: vor is compiled out, by its feature `off`",
                config.variable(),
                path.display()
            ));
        }
        return;
    }
    if thread::is_busy() {
        report::line("recording cannot be configured from inside a sink; the call is ignored");
        return;
    }
    let options = Options {
        ring_kib: config.ring_kib,
        inline: config.inline_drain || cfg!(target_arch = "wasm32"),
        interval: config.drain_interval,
        max_spans_per_frame: config.max_spans_per_frame,
        stats: config.stats,
    };
    let absences = drain::configure(options, |settings, is_first| {
        apply(config, settings, is_first);
        is_first.then(|| settings.absences())
    });
    // The receiver of the message may use vor, so it is sent without locks.
    if let Some(reason) = absences.flatten() {
        report::detail(&reason);
    }
}

fn apply(config: Config, settings: &mut Settings, is_first: bool) {
    #[cfg(feature = "shared-memory")]
    if let Some(memory) = &config.shared_memory {
        // First, so that the capture is known to those who complete it.
        settings.share_memory(match memory {
            SharedMemory::In(folder) => folder.clone(),
            SharedMemory::Default => drain::shared_memory::default_folder(),
        });
    }
    if let Some(limit) = config.watchdog {
        settings.watch(limit);
    }
    if config.count_scopes {
        record_state::count_scopes();
        if config.print_stats {
            drain::printing::begin();
        }
    }
    #[cfg(feature = "rules")]
    match &config.scopes {
        Some(Ok(all)) => rules::apply(all.clone()),
        Some(Err(error)) => report::line(&format!("{error}; the rules do not change")),
        None => {}
    }
    if let Some(share) = config.scope_budget {
        let cost_ns = calibrate::cost_for_budgets_ns();
        settings.limit_scopes(ScopeBudget { share, cost_ns });
    }
    if config.stats {
        settings.keep_statistics();
    }
    #[cfg(feature = "puffin")]
    feed_puffin(settings, is_first, config.puffin);
    #[cfg(not(feature = "puffin"))]
    let _ = is_first;
    let here = config.retention.keeps_last().then(|| PathBuf::from("."));
    let path = config.capture.clone().or(here);
    let file = path.map(|path| capture_file(path, &config));
    let is_new = file.is_some_and(|file| settings.begin_capture(file));
    if (config.count_scopes || is_new) && record_state::counts_scopes() {
        settings.report_no_spans();
    }
    settings.add_sinks(config.sinks);
    #[cfg(all(feature = "live", not(target_family = "wasm")))]
    if let Some(listen) = &config.listen {
        match live::start(listen) {
            Ok(sink) => settings.add_sinks(vec![(format!("listen at {listen}"), Box::new(sink))]),
            Err(error) => report::line(&format!("{error}; the program does not listen")),
        }
    }
    if let Some(interval) = config.heap_snapshots {
        // Last, so that all sinks get the first snapshot.
        settings.snapshot_heap(interval);
    }
    if config.scheduler {
        settings.trace_scheduler();
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
}

fn capture_file(path: PathBuf, config: &Config) -> CaptureFile {
    let options = CaptureOptions {
        spans: config.spans,
        every: config.every,
        max_frames: config.max_frames,
        slow: config.slow,
        frames_before: config.frames_before,
    };
    let signals = config.signals;
    let retention = config.retention.clone();
    if let Some(reason) = retention.refusal(&path) {
        report::line(&format!("{}{reason}", config.variable()));
    }
    CaptureFile {
        path: path.clone(),
        variable: config.variable(),
        holds_spans: options.spans,
        create: Arc::new(move || {
            if let Some(begun) = retention.begin(&path, options, signals)? {
                return Ok(begun);
            }
            let mut sink = CaptureSink::create(&path, options)?;
            sink.enable_crash_records(signals);
            Ok((sink.path().to_owned(), Box::new(sink)))
        }),
    }
}

/// Measures the CPU time of all scopes, if `measures` includes it and the system reports it.
fn measure_cpu(measures: Measures) {
    if measures.is_none() {
        return;
    }
    cpu::init();
    if cpu::source() == cpu::Source::None {
        report::line(
            "the CPU time of scopes is not measured: this system does not report a thread's",
        );
        return;
    }
    let mut measures = measures;
    if measures.has(Measures::WAIT) && !cpu::has_run_queue() {
        report::line(
            "waits for a processor are not measured: this system does not report a thread's",
        );
        measures = cpu::without_run_queue(measures);
    }
    record_state::measure(measures);
}

/// Adds the feed of puffin when the recorder starts, and allows or forbids it if the program set
/// that.
#[cfg(feature = "puffin")]
fn feed_puffin(settings: &Settings, is_first: bool, allowed: Option<bool>) {
    if let Some(allowed) = allowed {
        PuffinFeed::allow(allowed);
    }
    if allowed == Some(true) || !record_state::is_on() {
        PuffinFeed::recording_is(true);
    }
    if is_first {
        settings.add_sinks(vec![("puffin".into(), Box::new(PuffinFeed::default()))]);
    }
}
