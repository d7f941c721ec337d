//! Writes Chrome traces to a file.

use std::io::BufWriter;
use std::path::PathBuf;

use vor_capture::Error;
use vor_capture::sink::FrameSink;
use vor_export::chrome::ChromeExporter;

use crate::os::file::OutputFile;
use crate::sinks::exporter_sink::ExporterSink;

/// Writes a Chrome trace to `path` while its guard is held, and switches recording on if it is off.
///
/// If the file cannot be created, one line on stderr reports it and the program runs on.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_recorder::sinks::{Sink, chrome::ChromeTraceSink}; }
/// use vor::Sink as _;
///
/// let trace = vor::ChromeTraceSink::new("trace.json").install();
/// // … the part to see in chrome://tracing or ui.perfetto.dev …
/// drop(trace);
/// ```
#[derive(Clone, Debug)]
pub struct ChromeTraceSink {
    /// Where the trace is written; an existing file is replaced.
    pub path: PathBuf,
}

impl ChromeTraceSink {
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
            let doing = format!("cannot create the Chrome trace `{}`", self.path.display());
            Error::io(doing, error)
        })?;
        Ok(ExporterSink::file(ChromeExporter::new(BufWriter::new(
            file,
        ))))
    }

    /// Returns the name of the sink in messages.
    pub(crate) fn name(&self) -> String {
        format!("the Chrome trace {}", self.path.display())
    }
}
