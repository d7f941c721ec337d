//! The files of dumps: their names, how many stay, and how soon one may follow another.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use vor_capture::Error;
use vor_capture::filled;
use vor_capture::model::catalog::DumpInfo;
use vor_capture::sink::FrameSink;

use super::memory::Contents;
use super::{LastOptions, Shared};
use crate::drain;
use crate::drain::dumps::{Cause, Request};
use crate::hot::{record_state, thread};
use crate::os::signals;
use crate::sinks::capture::CaptureOptions;
use crate::sinks::named_files::{Keeper, Names, begin, is_segmented, program};
use crate::sync::lock;

/// Dumps that are kept if nothing is set.
const DEFAULT_COUNT: u64 = 16;
/// Shortest time between two limited dumps if the memory covers any time.
const DEFAULT_PAUSE: Duration = Duration::from_secs(60);

/// The sink that keeps records in memory.
static CURRENT: Mutex<Weak<Shared>> = Mutex::new(Weak::new());

pub(super) fn set_current(shared: &Arc<Shared>) {
    *lock(&CURRENT) = Arc::downgrade(shared);
}

pub(super) fn forget_current(shared: &Arc<Shared>) {
    let mut current = lock(&CURRENT);
    if current.as_ptr() == Arc::as_ptr(shared) {
        *current = Weak::new();
    }
}

/// Writes the records in memory as a capture, with `reason` in it, and returns its path.
///
/// The capture has everything that ended before the call. Threads record on meanwhile, and the
/// memory keeps its records. The call returns when the file is complete; a hot loop calls it from
/// another thread.
///
/// # Errors
///
/// No records are kept in memory: [`Config::last`](crate::setup::Config::last) is not set, vor is
/// compiled out, or this is the child of a fork and has not recorded yet. The file cannot be
/// written. The caller is a sink.
///
/// ```
/// # mod vor { pub use vor_recorder::sinks::last::dump; }
/// # let queue_length = 0;
/// if queue_length > 10_000 {
///     match vor::dump("the queue is long") {
///         Ok(path) => println!("the last seconds are in {}", path.display()),
///         Err(error) => eprintln!("{error}"),
///     }
/// }
/// ```
pub fn dump(reason: &str) -> Result<PathBuf, Error> {
    if thread::is_busy() {
        return Err(Error::config("a sink cannot dump the records in memory"));
    }
    dump_now(reason)
}

/// Like [`dump`], also on a thread of vor's own.
pub(crate) fn dump_now(reason: &str) -> Result<PathBuf, Error> {
    let shared = lock(&CURRENT).upgrade();
    let Some(shared) = shared.filter(|_| !record_state::is_forked()) else {
        return Err(Error::config(
            "no records are kept in memory; set VOR_RECORD_LAST or call `Config::last`",
        ));
    };
    let request = Request::new(Cause::Call, reason.to_owned());
    thread::while_busy(|| {
        drain::flush_now();
        lock(&shared.pace).begin();
        let contents = lock(&shared.memory).contents();
        let written = signals::without_signals(|| shared.write(&contents, &request))?;
        Ok(written.path)
    })
}

/// How soon one dump may follow another.
#[derive(Debug)]
pub(super) struct Pace {
    pause: Duration,
    /// When the last dump began.
    begun: Option<Instant>,
    missed: u64,
}

impl Pace {
    pub(super) fn new(options: &LastOptions) -> Self {
        Self {
            pause: options.last.age.unwrap_or(DEFAULT_PAUSE),
            begun: None,
            missed: 0,
        }
    }

    /// Counts triggers without a dump.
    pub(super) fn miss(&mut self, count: u64) {
        self.missed += count;
    }

    /// Begins a dump if the last one was long enough ago for this cause; otherwise counts it.
    pub(super) fn may_begin(&mut self, request: &Request) -> bool {
        let is_too_soon =
            request.is_limited() && self.begun.is_some_and(|begun| begun.elapsed() < self.pause);
        if is_too_soon {
            self.missed += 1;
        } else {
            self.begin();
        }
        !is_too_soon
    }

    fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }
}

/// The files of one recorder's dumps.
#[derive(Debug)]
pub(super) struct Files {
    keeper: Arc<Mutex<Keeper>>,
    capture: CaptureOptions,
    /// File name of the last dump.
    name: String,
    number: u64,
}

/// A dump that was written.
#[derive(Debug)]
pub(super) struct Written {
    path: PathBuf,
    duration: Duration,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, duration } = self;
        write!(
            f,
            "dumped the last {:.1} s to {}",
            duration.as_secs_f64(),
            path.display()
        )
    }
}

impl Files {
    /// Prepares the dumps of a recorder: the folder exists from now on.
    pub(super) fn begin(path: &Path, options: &LastOptions) -> Result<Self, Error> {
        let names = if is_segmented(path) {
            Names::new(path, &program())
        } else {
            Names::new(&timed(path), &program())
        };
        let failed = |error| Error::io(format!("cannot write {}", path.display()), error);
        std::fs::create_dir_all(names.folder()).map_err(failed)?;
        let mut limits = options.segments.keep;
        if limits == Default::default() {
            limits.count = Some(DEFAULT_COUNT);
        }
        Ok(Self {
            keeper: Arc::new(Mutex::new(Keeper::new(names, limits))),
            capture: options.capture,
            name: String::new(),
            number: 0,
        })
    }

    pub(super) fn folder(&self) -> PathBuf {
        lock(&self.keeper).names().folder().to_owned()
    }
}

impl Shared {
    /// Writes a dump. Only one thread at a time does so.
    pub(super) fn write(&self, contents: &Contents, request: &Request) -> Result<Written, Error> {
        let mut files = lock(&self.files);
        let files = &mut *files;
        let (mut sink, name) = begin(&files.keeper, files.capture, contents.began(), &files.name)?;
        let path = sink.path().to_owned();
        lock(&files.keeper).set_current(&path);
        let missed = std::mem::take(&mut lock(&self.pace).missed);
        let mut write = || {
            sink.set_dump(filled!(DumpInfo {
                reason: request.reason.clone(),
                ticks: request.ticks,
                number: files.number,
                missed,
            }));
            contents.deliver(&mut sink)?;
            sink.finish()
        };
        if let Err(error) = write() {
            // What is left is no whole capture.
            let _ = std::fs::remove_file(&path);
            lock(&self.pace).miss(missed + 1);
            return Err(error);
        }
        files.number += 1;
        files.name = name;
        lock(&files.keeper).trim(0, 0);
        Ok(Written {
            path,
            duration: contents.duration(),
        })
    }
}

/// Returns the pattern for a file name: the time and the process come before its extension.
fn timed(path: &Path) -> PathBuf {
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let stem = text(path.file_stem()).replace('%', "-");
    let extension = text(path.extension());
    let dot = if extension.is_empty() { "" } else { "." };
    path.with_file_name(format!("{stem}-%Y%m%dT%H%M%S-%p{dot}{extension}"))
}
