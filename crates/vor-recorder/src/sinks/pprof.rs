//! Writes profiles of the running program to files.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vor_capture::Error;
use vor_capture::sink::FrameSink;

use super::profiles::{FinishedProfile, Kind, Profiles, Receiver};
use crate::os::report;

/// Writes a profile of each interval to its own file while its guard is held, for `go tool pprof`,
/// and switches recording on if it is off.
///
/// Files appear only when complete, and are numbered from 0: `run.0.pb.gz`, `run.1.pb.gz`.
/// `go tool pprof run.[0-9]*.pb.gz` adds them up. [`export::pprof`](vor_export::pprof) describes
/// the contents of a profile. If a scope is open for several intervals, each profile has the part
/// of its time in that interval. The profile of the interval in which the scope ends divides its
/// CPU time between program and kernel. An interval in which nothing ran has no file. The first
/// write failure is reported on stderr in one line, and the program runs on.
///
/// If a [`TrackingAllocator`](crate::heap::TrackingAllocator) tracks the live heap, the sink also
/// writes the live heap at the end of each interval, as `run.heap.0.pb.gz` and so on. To find a
/// leak, compare two of them: `go tool pprof -base run.heap.0.pb.gz run.heap.59.pb.gz`.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_recorder::sinks::{Sink, pprof as sinks}; }
/// use vor::Sink as _;
///
/// let profiles = vor::sinks::PprofSink::new("run.pb.gz").install();
/// // … the part to see in `go tool pprof` …
/// drop(profiles);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PprofSink {
    /// Where the files are written; existing ones are replaced. Default: `profile.pb.gz` in the
    /// working directory.
    pub path: PathBuf,
    /// The duration that a profile covers, at least 10 ms. Default: 10 s.
    pub interval: Duration,
    /// How many files of each kind are kept: beyond that, the oldest of this run is deleted. With
    /// 1, there is one file without a number. Default: 60.
    pub keep: usize,
    /// Names of arguments that become labels of a span and of its descendants. Default: none.
    pub span_labels: Vec<String>,
}

impl Default for PprofSink {
    fn default() -> Self {
        Self {
            path: "profile.pb.gz".into(),
            interval: Duration::from_secs(10),
            keep: 60,
            span_labels: Vec::new(),
        }
    }
}

impl PprofSink {
    /// Describes files at `path`, with the default of every other field.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }

    /// Sets [`interval`](Self::interval).
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets [`keep`](Self::keep).
    #[must_use]
    pub fn keep(mut self, files: usize) -> Self {
        self.keep = files;
        self
    }

    /// Sets [`span_labels`](Self::span_labels).
    #[must_use]
    pub fn span_labels(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.span_labels = names.into_iter().map(Into::into).collect();
        self
    }

    /// Starts the thread that writes the files, and returns the sink, for
    /// [`add_sink`](crate::drain::add_sink).
    ///
    /// # Errors
    ///
    /// A file cannot be created at [`path`](Self::path), or the thread cannot be started.
    pub fn build(self) -> Result<impl FrameSink + use<>, Error> {
        let name = self.name();
        let files = Files {
            spans: Series::default(),
            heaps: Series::default(),
            path: self.path,
            keep: self.keep.max(1),
            failed: 0,
        };
        if let Err(error) = files.try_out() {
            return Err(Error::io(
                format!("{name}: a file cannot be created there"),
                error,
            ));
        }
        Profiles::start(name, self.interval, self.span_labels, files)
    }

    /// Returns the name of the sink in messages.
    pub(crate) fn name(&self) -> String {
        format!("the profiles {}", self.path.display())
    }
}

/// The files of a run.
#[derive(Debug)]
struct Files {
    path: PathBuf,
    keep: usize,
    spans: Series,
    heaps: Series,
    /// Profiles that could not be written.
    failed: u64,
}

/// The files of one kind.
#[derive(Debug, Default)]
struct Series {
    next: u64,
    /// The newest last.
    written: VecDeque<PathBuf>,
}

impl Files {
    /// Returns a name in the same folder that no other process uses.
    fn temporary(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        self.path.with_file_name(name)
    }

    fn try_out(&self) -> io::Result<()> {
        if self.path.file_name().is_none() || self.path.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        let temporary = self.temporary();
        File::create(&temporary)?;
        fs::remove_file(temporary)
    }

    fn write(&mut self, finished: FinishedProfile) -> io::Result<()> {
        let temporary = self.temporary();
        let (series, path) = match finished.kind {
            Kind::Spans => (&mut self.spans, self.path.clone()),
            Kind::Heap => (&mut self.heaps, with_infix(&self.path, "heap")),
        };
        let path = if self.keep == 1 {
            path
        } else {
            with_infix(&path, &series.next.to_string())
        };
        let written = File::create(&temporary)
            .and_then(|file| finished.profile.write_gzipped(BufWriter::new(file)))
            .and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            // A partial file is useless. The error is returned.
            let _ = fs::remove_file(&temporary);
            return written;
        }
        series.next += 1;
        if self.keep > 1 {
            series.written.push_back(path);
        }
        while series.written.len() > self.keep {
            if let Some(oldest) = series.written.pop_front() {
                // It does not matter if the file is already deleted.
                let _ = fs::remove_file(oldest);
            }
        }
        Ok(())
    }
}

impl Receiver for Files {
    fn take(&mut self, finished: FinishedProfile) {
        if let Err(error) = self.write(finished) {
            if self.failed == 0 {
                report::line(&format!(
                    "cannot write a profile to {}: {error}; it is lost, and the next is tried",
                    self.path.display()
                ));
            }
            self.failed += 1;
        }
    }

    fn end(&mut self) {
        if self.failed > 1 {
            report::line(&format!(
                "{} profiles could not be written to {}",
                self.failed,
                self.path.display()
            ));
        }
    }
}

/// Inserts `infix` before the extension of a file name. `.pb.gz` counts as one extension.
fn with_infix(path: &Path, infix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let at = name
        .strip_suffix(".pb.gz")
        .map(str::len)
        .or_else(|| name.rfind('.').filter(|&at| at > 0))
        .unwrap_or(name.len());
    let (stem, extension) = name.split_at(at);
    path.with_file_name(format!("{stem}.{infix}{extension}"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_infix_comes_before_the_extension() {
        for (path, expected) in [
            ("a/run.pb.gz", "a/run.7.pb.gz"),
            ("run.1.pprof", "run.1.7.pprof"),
            ("run", "run.7"),
            (".run", ".run.7"),
        ] {
            assert_eq!(with_infix(Path::new(path), "7"), Path::new(expected));
        }
    }
}
