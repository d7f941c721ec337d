//! Writes marker files that samply reads while it records this program.
//!
//! The system reports to samply every file that the program maps. A file called
//! `marker-<pid>-<tid>.txt` holds markers of the thread that mapped it; on Linux samply ignores the
//! number in the name. So each thread maps its own file when it first records. The thread that
//! writes the markers maps the files of threads that recorded before the sink was installed, and
//! their markers appear on it. The thread that installs the sink is an exception: it maps its own
//! file. The mapping is released immediately, and the file may still be empty: samply reads it
//! after the program has ended.
//!
//! If the system reuses a thread's number, both threads share one file and their markers appear on
//! one thread.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashSet;
use vor_capture::Error;
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::sink::FrameSink;
use vor_export::samply::SamplyExporter;

use crate::clock;
use crate::hot::{hooks, thread};
use crate::os::file;
use crate::sinks::exporter_sink::ExporterSink;
use crate::sync::global::AtomicBool;
use crate::sync::{Ordering, lock};

/// Writes marker files for samply into a folder while its guard is held, and switches recording on
/// if it is off. Only on Linux.
///
/// Install it before other threads record, in a program that `samply record` runs. If the folder
/// cannot be created, one line on stderr reports it and the program runs on.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_recorder::sinks::{Sink, samply as sinks}; }
/// use vor::Sink as _;
///
/// let markers = vor::sinks::SamplySink::new("/tmp").install();
/// // … the part to see beside samply's samples …
/// drop(markers);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SamplySink {
    /// The folder of the files. Files of an earlier run with the same numbers are replaced.
    pub folder: PathBuf,
}

impl SamplySink {
    /// Describes marker files in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Creates the folder, makes each thread map its file when it first records, and returns the
    /// sink, for [`add_sink`](crate::drain::add_sink).
    ///
    /// # Errors
    ///
    /// The folder cannot be created, or the system is not Linux.
    pub fn build(self) -> Result<impl FrameSink + use<>, Error> {
        let name = self.name();
        let Some(clock) = clock::snapshot() else {
            let why = "samply takes marker files in a known clock only on Linux";
            return Err(Error::sink(format!("{name}: {why}")));
        };
        std::fs::create_dir_all(&self.folder)
            .map_err(|error| Error::io(format!("{name}: cannot create the folder"), error))?;
        let files = Arc::new(Files {
            folder: self.folder,
            pid: std::process::id(),
            created: Mutex::default(),
        });
        *lock(&FILES) = Some(Arc::clone(&files));
        IS_ON.store(true, Ordering::SeqCst);
        hooks::set_thread_begins(thread_began);
        // This thread may have recorded already, in which case the hook does not run for it.
        thread_began(thread::os_id());
        let write = {
            let files = Arc::clone(&files);
            move |catalog: &Catalog, thread: ThreadId, lines: &[u8]| {
                let tid = catalog.thread(thread).map_or(0, |thread| thread.os_id);
                files.append(tid, lines)
            }
        };
        Ok(ExporterSink {
            exporter: SamplyExporter::new(clock, write),
            writes_file: false,
            _guard: Mapping { files },
        })
    }

    /// Returns the name of the sink in messages.
    pub(crate) fn name(&self) -> String {
        format!("the markers for samply in {}", self.folder.display())
    }
}

/// Makes threads map their files while it lives.
struct Mapping {
    files: Arc<Files>,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A later sink may have replaced this one.
        let mut current = lock(&FILES);
        if current
            .as_ref()
            .is_some_and(|files| Arc::ptr_eq(files, &self.files))
        {
            *current = None;
            IS_ON.store(false, Ordering::SeqCst);
        }
    }
}

/// The files of the sink that was installed last.
static FILES: Mutex<Option<Arc<Files>>> = Mutex::new(None);
/// Whether `FILES` is set, so that threads begin without a lock if it is not.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Maps the file of this thread, which is about to record for the first time.
fn thread_began(tid: u64) {
    if !IS_ON.load(Ordering::SeqCst) {
        return;
    }
    let files = lock(&FILES).clone();
    // The child of a fork has no sink.
    if let Some(files) = files.filter(|files| files.pid == std::process::id()) {
        // If this fails, the sink fails in the same way and reports it.
        let _ = files.declare(tid);
    }
}

/// The marker files of a sink.
#[derive(Debug)]
struct Files {
    folder: PathBuf,
    pid: u32,
    /// Numbers of the threads whose files exist.
    created: Mutex<FxHashSet<u64>>,
}

impl Files {
    fn path(&self, tid: u64) -> PathBuf {
        self.folder.join(format!("marker-{}-{tid}.txt", self.pid))
    }

    /// Creates the file of a thread and shows it to samply, once.
    fn declare(&self, tid: u64) -> io::Result<()> {
        let mut created = lock(&self.created);
        if !created.contains(&tid) {
            show(&self.path(tid))?;
            created.insert(tid);
        }
        Ok(())
    }

    fn append(&self, tid: u64, lines: &[u8]) -> io::Result<()> {
        self.declare(tid)?;
        // Open only for this write: there may be more threads than open files.
        let mut file = OpenOptions::new().append(true).open(self.path(tid))?;
        file.write_all(lines)
    }
}

/// Creates an empty file and maps it. A mapping needs a file that is open for reading.
fn show(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    file::map_once(&options.open(path)?)
}
