//! Chrome traces into a file.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use vor_export::chrome::ChromeExporter;

use crate::Error;
use crate::os::file::OutputFile;

/// Creates a file and an exporter that writes a Chrome trace into it; an existing file is replaced.
///
/// # Errors
///
/// When the file cannot be created; the message names it.
pub fn create_chrome_trace(path: &Path) -> Result<ChromeExporter<BufWriter<OutputFile>>, Error> {
    let file = OutputFile::create(path).map_err(|error| {
        let doing = format!("cannot create the Chrome trace `{}`", path.display());
        Error::io(doing, error)
    })?;
    Ok(ChromeExporter::new(BufWriter::new(file)))
}

/// Writes a Chrome trace to `path` while its guard is held; recording is switched on where it is
/// not.
///
/// A file that cannot be created is reported on stderr in one line, and the program runs on.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_recorder::sink::{Sink, chrome::ChromeTraceSink}; }
/// use vor::Sink as _;
///
/// let trace = vor::ChromeTraceSink { path: "trace.json".into() }.install();
/// // … what is to be seen in chrome://tracing or ui.perfetto.dev …
/// drop(trace);
/// ```
#[derive(Clone, Debug)]
pub struct ChromeTraceSink {
    /// Where the trace is written; an existing file is replaced.
    pub path: PathBuf,
}
