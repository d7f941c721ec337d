//! Writes Perfetto traces, to a file or to memory.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use vor_capture::Error;
use vor_capture::model::batch::{OpenStarts, SpanBatch};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_export::perfetto::{CounterTrack, CounterUnit, PerfettoExporter};

use crate::drain::{self, SinkHandle};
use crate::os::file::OutputFile;
use crate::sinks::exporter_sink::ExporterSink;
use crate::sync::lock;

/// Writes a Perfetto trace to `path` while its guard is held, and switches recording on if it is
/// off.
///
/// The trace streams to the file in bounded memory, however long the program runs. If the file
/// cannot be created, one line on stderr reports it and the program runs on.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_recorder::sinks::{Sink, perfetto as sinks}; }
/// use vor::Sink as _;
///
/// let trace = vor::sinks::PerfettoSink::new("trace.pftrace").install();
/// // … the part to see in ui.perfetto.dev …
/// drop(trace);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PerfettoSink {
    /// Where the trace is written; an existing file is replaced.
    pub path: PathBuf,
}

impl PerfettoSink {
    /// Describes a trace at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Creates the file, and returns the sink, for [`add_sink`](crate::drain::add_sink).
    ///
    /// # Errors
    ///
    /// The file cannot be created; the message names it.
    pub fn build(self) -> Result<impl FrameSink + use<>, Error> {
        let file = OutputFile::create(&self.path).map_err(|error| {
            let doing = format!("cannot create the Perfetto trace `{}`", self.path.display());
            Error::io(doing, error)
        })?;
        Ok(ExporterSink::file(PerfettoExporter::new(BufWriter::new(
            file,
        ))))
    }

    /// Returns the name of the sink in messages.
    pub(crate) fn name(&self) -> String {
        format!("the Perfetto trace {}", self.path.display())
    }
}

/// Collects a Perfetto trace in memory: everything that all threads record until it is finished,
/// and counters that the program sets itself.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::{clock::ticks, profile_scope}; pub mod sinks {
/// #     pub use vor_export::perfetto::CounterUnit;
/// #     pub use vor_recorder::sinks::perfetto::TraceBuilder;
/// # } }
/// # use vor_recorder::profile_scope;
/// let trace = vor::sinks::TraceBuilder::new();
/// let memory = trace.counter_track("memory", vor::sinks::CounterUnit::SizeBytes, 1024 * 1024);
/// {
///     vor::profile_scope!("load", files = 3);
///     trace.record_counter_i64(memory, vor::ticks(), 17);
/// }
/// let bytes: Vec<u8> = trace.finish(); // or `trace.write_to_file("out.pftrace")`
/// # assert!(!bytes.is_empty());
/// ```
#[derive(Debug)]
pub struct TraceBuilder {
    exporter: Arc<Mutex<PerfettoExporter<Vec<u8>>>>,
    handle: SinkHandle,
}

/// The trace as a sink of the recorder.
struct Shared(Arc<Mutex<PerfettoExporter<Vec<u8>>>>);

impl TraceBuilder {
    /// Adds the sink of a new trace to the running recorder.
    pub(crate) fn attach() -> Self {
        let mut exporter = PerfettoExporter::new(Vec::new());
        if let Some(catalog) = drain::catalog() {
            // This writes to memory, which cannot fail.
            drop(exporter.start(&catalog));
        }
        let exporter = Arc::new(Mutex::new(exporter));
        let handle = drain::add_sink("a Perfetto trace in memory", Shared(Arc::clone(&exporter)));
        Self { exporter, handle }
    }

    /// Adds a counter. Each value is a multiple of `multiplier` units.
    #[must_use]
    pub fn counter_track(&self, name: &str, unit: CounterUnit, multiplier: u64) -> CounterTrack {
        let mut exporter = lock(&self.exporter);
        exporter.add_counter(name, &unit, multiplier)
    }

    /// Adds a counter whose values the viewer sums. Each value is a multiple of `multiplier` units.
    #[must_use]
    pub fn incremental_counter_track(
        &self,
        name: &str,
        unit: CounterUnit,
        multiplier: u64,
    ) -> CounterTrack {
        let mut exporter = lock(&self.exporter);
        exporter.add_incremental_counter(name, &unit, multiplier)
    }

    /// Records a counter's value at a time that [`ticks`](crate::clock::ticks) returned.
    pub fn record_counter_i64(&self, counter: CounterTrack, ticks: u64, value: i64) {
        lock(&self.exporter).put_integer_counter(counter, ticks, value);
    }

    /// Records a counter's value at a time that [`ticks`](crate::clock::ticks) returned. A value
    /// that is not finite is skipped.
    pub fn record_counter_f64(&self, counter: CounterTrack, ticks: u64, value: f64) {
        lock(&self.exporter).put_counter(counter, ticks, value);
    }

    /// Ends the trace and returns its bytes.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let Self { exporter, handle } = self;
        // The recorder delivers its remaining records, and finishes the trace.
        drop(handle);
        lock(&exporter).take_bytes()
    }

    /// Ends the trace and writes it to a file; an existing one is replaced.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the message names it.
    pub fn write_to_file(self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let bytes = self.finish();
        let written = OutputFile::create(path).and_then(|mut file| file.write_all(&bytes));
        written.map_err(|error| {
            let doing = format!("cannot write the Perfetto trace `{}`", path.display());
            Error::io(doing, error)
        })
    }
}

impl FrameSink for Shared {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        lock(&self.0).accept_batch(batch)
    }

    fn wants_open(&self) -> bool {
        true
    }

    fn accept_open(&mut self, open: &OpenStarts) -> Result<(), Error> {
        lock(&self.0).accept_open(open)
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        lock(&self.0).accept_frame(frame)
    }

    fn finish(&mut self) -> Result<(), Error> {
        lock(&self.0).finish()
    }
}
