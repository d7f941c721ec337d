//! A profiler for criterion: `cargo bench --bench x -- --profile-time 5` leaves a capture and a
//! flame graph beside the report of each benchmark.
//!
//! The capture is a sink of the recorder, added when the profiling of a benchmark starts and
//! removed when it stops. The flame graph is made afterwards from the capture: so the recorder has
//! less to do during the benchmark, and drops less. Both files get their names when they are
//! complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use criterion::profiler::Profiler;
use vor_capture::reader::{Capture, Event, Info, Reader};
use vor_capture::sink::FrameSink;
use vor_export::collapsed::CollapsedExporter;
use vor_recorder::__private::report_line;
use vor_recorder::drain::{self, SinkHandle};
use vor_recorder::setup;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

const CAPTURE: &str = "run.vor";
const FLAME_GRAPH: &str = "flamegraph.svg";
/// Names of the files until they are complete.
const PARTIAL_CAPTURE: &str = "run.partial.vor";
const PARTIAL_FLAME_GRAPH: &str = "flamegraph.partial.svg";

/// Records each benchmark that criterion runs under `--profile-time`.
///
/// Beside the report of a benchmark, in `target/criterion/<id>/profile/`, it leaves `run.vor`, a
/// capture of the benchmark with its spans, and `flamegraph.svg`, made from the same spans. Files
/// of an earlier run are replaced. It enables recording for the benchmark if it is off.
/// Measurements without `--profile-time` are unaffected.
///
/// The capture takes some bytes per span: for a benchmark that does little more than open scopes,
/// it grows by tens of megabytes a second. If the recorder cannot keep up, it drops spans, and
/// their number is in the capture, in the flame graph and on stderr.
///
/// An error is one line on stderr, and the benchmark continues. A benchmark that opens no scope
/// leaves a capture without a flame graph.
///
/// # Examples
///
/// ```no_run
/// use criterion::{Criterion, criterion_group, criterion_main};
///
/// #[vor::profile]
/// fn work() -> u64 {
///     (0..1000).sum()
/// }
///
/// fn bench(criterion: &mut Criterion) {
///     criterion.bench_function("work", |bencher| bencher.iter(work));
/// }
///
/// criterion_group! {
///     name = benches;
///     config = Criterion::default().with_profiler(vor::criterion::CriterionProfiler::new());
///     targets = bench
/// }
/// criterion_main!(benches);
/// ```
#[derive(Debug, Default)]
pub struct CriterionProfiler {
    running: Option<Running>,
}

/// The benchmark that is being recorded.
#[derive(Debug)]
struct Running {
    handle: SinkHandle,
    partial_capture: PathBuf,
    /// Whether recording was on before.
    was_on: bool,
}

impl CriterionProfiler {
    /// Makes a profiler, for `Criterion::with_profiler`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Profiler for CriterionProfiler {
    fn start_profiling(&mut self, benchmark_id: &str, benchmark_dir: &Path) {
        self.running = None;
        if cfg!(feature = "off") {
            report_line(&format!(
                "the benchmark {benchmark_id} is not recorded: the feature `off` compiles vor out"
            ));
            return;
        }
        match Running::start(benchmark_id, benchmark_dir) {
            Ok(running) => self.running = Some(running),
            Err(error) => report_line(&format!(
                "{error}; the benchmark {benchmark_id} is not recorded"
            )),
        }
    }

    fn stop_profiling(&mut self, benchmark_id: &str, benchmark_dir: &Path) {
        let Some(running) = self.running.take() else {
            return;
        };
        if let Err(error) = running.stop(benchmark_id, benchmark_dir) {
            report_line(&format!("{error}, of the benchmark {benchmark_id}"));
        }
    }
}

impl Running {
    fn start(benchmark_id: &str, folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::at("cannot create", folder, error))?;
        // The recorder would keep an unfinished file under another name.
        let partial = folder.join(PARTIAL_CAPTURE);
        remove(&partial)?;
        let capture = CaptureSink::create(&partial, CaptureOptions::default())
            .map_err(|error| Failure(error.to_string()))?;
        let partial_capture = capture.path().to_owned();
        let was_on = setup::is_enabled();
        if !was_on {
            setup::enable();
        }
        // The capture starts with a frame; earlier spans belong to the one before.
        drain::frame_mark();
        let name = format!("the capture of the benchmark {benchmark_id}");
        let handle = drain::add_sink(name, capture);
        Ok(Self {
            handle,
            partial_capture,
            was_on,
        })
    }

    fn stop(self, benchmark_id: &str, folder: &Path) -> Result<(), Failure> {
        drain::frame_mark();
        drop(self.handle);
        if !self.was_on {
            setup::disable();
        }
        let info = Capture::open(&self.partial_capture)
            .map_err(|error| Failure(error.to_string()))?
            .info()
            .clone();
        if !info.closed {
            // The recorder has reported why it switched the sink off.
            return remove(&self.partial_capture);
        }
        let capture = folder.join(CAPTURE);
        rename(&self.partial_capture, &capture)?;
        if info.dropped_spans > 0 {
            report_line(&format!(
                "the benchmark {benchmark_id} opens scopes faster than they can be recorded: \
                 {} were recorded, {} dropped",
                info.spans, info.dropped_spans
            ));
        }
        let flame_graph = folder.join(FLAME_GRAPH);
        if info.spans == 0 {
            report_line(&format!(
                "the benchmark {benchmark_id} opened no scope, so it has no flame graph"
            ));
            // The flame graph of an earlier run would seem to belong to this capture.
            return remove(&flame_graph);
        }
        let partial = folder.join(PARTIAL_FLAME_GRAPH);
        if let Err(error) = draw(benchmark_id, &info, &capture, &partial) {
            // Both fail for the same reason, which is reported once.
            let _ = remove(&partial);
            return Err(Failure::at("cannot write", &flame_graph, error));
        }
        rename(&partial, &flame_graph)
    }
}

/// Draws the flame graph of a capture into a file.
fn draw(benchmark_id: &str, info: &Info, capture: &Path, path: &Path) -> io::Result<()> {
    let mut stacks = CollapsedExporter::new(Vec::new());
    let mut reader = Reader::open(capture)?;
    while let Some(event) = reader.next_event()? {
        if let Event::Batch(batch) = event {
            stacks.accept_batch(&batch)?;
        }
    }
    stacks.finish()?;
    let stacks = stacks.into_inner();

    let mut options = inferno::flamegraph::Options::default();
    options.title = benchmark_id.to_owned();
    options.subtitle = Some(match info.dropped_spans {
        0 => format!("{} spans", info.spans),
        dropped => format!("{} spans, {dropped} more dropped", info.spans),
    });
    options.count_name = "ns".to_owned();
    // A scope has the same colour in the graphs of two runs.
    options.deterministic = true;
    let mut file = BufWriter::new(File::create(path)?);
    inferno::flamegraph::from_lines(
        &mut options,
        String::from_utf8_lossy(&stacks).lines(),
        &mut file,
    )?;
    file.flush()
}

/// An error as one line.
struct Failure(String);

impl Failure {
    fn at(doing: &str, path: &Path, error: impl std::fmt::Display) -> Self {
        Self(format!("{doing} {}: {error}", path.display()))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Removes a file if it exists.
fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::at("cannot remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Gives a complete file its name; an earlier one is replaced.
fn rename(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::rename(from, to).map_err(|error| {
        // Leave no partial file behind. If it cannot be removed either, the first error is
        // reported.
        let _ = remove(from);
        Failure::at("cannot write", to, error)
    })
}
