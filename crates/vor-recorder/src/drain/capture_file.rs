//! The capture that the process writes: opened at the start, and again in the child of a fork.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::Error;
use vor_capture::sink::FrameSink;

use super::heap::SnapshotTime;
use super::{SETTINGS, Settings, handle, pass, with_settings};
use crate::hot::{record_state, thread};
use crate::os::report;
use crate::sync::lock;

/// The sink of a capture, with the path it writes to.
pub(crate) type Begun = (PathBuf, Box<dyn FrameSink>);

/// Begins a capture.
pub(crate) type Create = dyn Fn() -> Result<Begun, Error> + Send + Sync;

/// A capture that the program requested.
#[derive(Clone)]
pub(crate) struct CaptureFile {
    /// The requested path.
    pub(crate) path: PathBuf,
    /// Prefix of each message about the capture: the variable that names it.
    pub(crate) variable: &'static str,
    pub(crate) holds_spans: bool,
    pub(crate) create: Arc<Create>,
}

impl Settings {
    /// Begins a capture, unless one is being written; that one continues. Returns whether the
    /// capture was accepted, even if it cannot be opened.
    pub(crate) fn begin_capture(&mut self, file: CaptureFile) -> bool {
        if !self.may_begin(&file.path) {
            return false;
        }
        self.capture = Some(file);
        self.open_capture();
        true
    }

    /// Returns whether a capture at `path` may begin. If another is being written, one line reports
    /// it.
    fn may_begin(&self, path: &Path) -> bool {
        let Some(running) = self.running_capture() else {
            return true;
        };
        if self.capture.as_ref().map(|file| file.path.as_path()) != Some(path) {
            report::line(&format!(
                "{} is being written; no second capture is begun at {}",
                running.display(),
                path.display()
            ));
        }
        false
    }

    /// Reports that the running capture gets no more spans, if it was to hold any.
    pub(crate) fn report_no_spans(&self) {
        if let (Some(file), Some((_, path))) = (&self.capture, &self.opened)
            && file.holds_spans
        {
            report::line(&format!(
                "{} holds no spans: scopes are counted, and not recorded",
                path.display()
            ));
        }
    }

    /// Returns the path of the capture, unless it was closed or its sink failed.
    fn running_capture(&self) -> Option<PathBuf> {
        let (number, path) = self.opened.clone()?;
        with_settings(self, |engine| engine.outputs.has(number)).then_some(path)
    }

    /// Opens the requested capture. An error is reported, and the program runs on.
    pub(super) fn open_capture(&mut self) {
        self.opened = None;
        let Some(file) = &self.capture else {
            return;
        };
        let variable = file.variable;
        match (file.create)() {
            Ok((path, sink)) => {
                let number = handle::next_number();
                let name = format!("{variable}the capture {}", path.display());
                with_settings(self, |engine| {
                    // Spans that ended before are not in the capture.
                    pass(engine);
                    engine.outputs.add(number, name, sink);
                });
                self.opened = Some((number, path));
            }
            Err(error) => {
                report::line(&format!("{variable}{error}; no capture is written"));
                self.capture = None;
            }
        }
    }
}

/// Returns the path to which the capture is being written.
///
/// This is usually the configured path; of a capture in segments, the folder. If another process is
/// writing there, it is `run.<pid>.vor` beside it. Returns `None` if no capture is being written:
/// none was requested, it could not be opened or written, or it was closed. Also returns `None` in
/// the child of a fork until it records, and inside a sink.
///
/// ```
/// # mod vor { pub use vor_recorder::drain::capture_path; }
/// match vor::capture_path() {
///     Some(path) => println!("this run is recorded into {}", path.display()),
///     None => println!("this run is not recorded"),
/// }
/// ```
#[must_use]
pub fn capture_path() -> Option<PathBuf> {
    if thread::is_busy() || record_state::is_forked() {
        return None;
    }
    thread::while_busy(|| lock(&SETTINGS).as_ref()?.running_capture())
}

/// Closes the running capture, with its index, and returns its path. Returns `None` if no capture
/// is being written, as for [`capture_path`]. Also returns `None` if the end could not be written,
/// which one line on stderr reports.
///
/// The capture contains everything that ended before the call. Recording continues for the other
/// sinks, and [`Config::capture`](crate::setup::Config::capture) can begin another capture. Without
/// this call the capture is closed when the process ends.
///
/// ```
/// # mod vor { pub use vor_recorder::drain::close_capture; }
/// if let Some(path) = vor::close_capture() {
///     println!("{} is complete; `vor stats` reads it", path.display());
/// }
/// ```
pub fn close_capture() -> Option<PathBuf> {
    if thread::is_busy() || record_state::is_forked() {
        return None;
    }
    thread::while_busy(|| {
        let mut settings = lock(&SETTINGS);
        let settings = settings.as_mut()?;
        let (number, path) = settings.opened.take()?;
        settings.capture = None;
        let closed = with_settings(settings, |engine| {
            pass(engine);
            engine.take_heap(SnapshotTime::Now);
            engine.take_scheduler(true);
            engine.outputs.remove(number)
        });
        closed.then_some(path)
    })
}
