//! The newest records in memory, written as a capture when something asks for it.
//!
//! `LastSink` encodes batches and frames as a capture does, and keeps the bytes in memory: the
//! last seconds, or the last megabytes. Nothing touches the disk. A dump shares the bytes, decodes
//! them and passes them to a [`CaptureSink`](crate::sinks::capture::CaptureSink), on a thread of
//! its own, while the memory goes on. So a dump is a whole capture, with the declarations, the
//! clock, the scopes that are open at its end, and an index.
//!
//! - `memory`: the records, of which the oldest are given up.
//! - `triggers`: the frames and scopes that ask for a dump.
//! - `dumps`: the files, and how soon one may follow another.

mod dumps;
mod memory;
mod triggers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use vor_capture::Error;
use vor_capture::format::RecordRef;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::heap::HeapSnapshot;
use vor_capture::model::scheduler::SchedulerBatch;
use vor_capture::sink::{FrameSink, Interest};

use crate::drain::dumps::{Cause, Causes, Request, listen, take, take_due};
use crate::hot::thread;
use crate::os::{report, signals};
use crate::sinks::capture::CaptureOptions;
use crate::sinks::segments::Segments;
use crate::sync::lock;
pub use dumps::dump;
#[cfg(all(feature = "live", not(target_family = "wasm")))]
pub(crate) use dumps::dump_now;
use dumps::{Files, Pace};
use memory::{Bounds, Memory};
pub use triggers::DumpOn;
use triggers::Watch;

/// Memory for the records if its size is not set.
pub const DEFAULT_LAST_BYTES: usize = 64_000_000;
/// Smallest memory for the records.
pub const MIN_LAST_BYTES: usize = 1_000_000;
/// Shortest time that the records cover.
pub const MIN_LAST_AGE: Duration = Duration::from_secs(1);

/// How much of a recording is kept in memory, for a dump.
///
/// By default that is 64 MB, whatever time it covers. If both limits are set, the first one that is
/// reached counts.
///
/// # Examples
///
/// ```no_run
/// # mod vor {
/// #     pub use vor_recorder::setup::Config;
/// #     pub use vor_recorder::sinks::last::{Last, dump};
/// # }
/// use std::time::Duration;
///
/// let last = vor::Last::new().age(Duration::from_secs(30));
/// vor::Config::new().capture("dumps/").last(last).enable();
/// // Later, when something is wrong:
/// let path = vor::dump("the queue is full")?;
/// # Ok::<(), vor_capture::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Last {
    bytes: Option<usize>,
    age: Option<Duration>,
}

impl Last {
    /// The defaults: 64 MB.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps at most `bytes` bytes of records; at least [`MIN_LAST_BYTES`].
    #[must_use]
    pub fn size(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes.max(MIN_LAST_BYTES));
        self
    }

    /// Keeps the records of this time; at least [`MIN_LAST_AGE`].
    #[must_use]
    pub fn age(mut self, age: Duration) -> Self {
        self.age = Some(age.max(MIN_LAST_AGE));
        self
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            bytes: self.bytes.unwrap_or(DEFAULT_LAST_BYTES),
            age: self.age,
        }
    }
}

/// The settings of a [`LastSink`] besides its path.
#[derive(Clone, Debug)]
pub(crate) struct LastOptions {
    pub(crate) last: Last,
    pub(crate) dump_on: DumpOn,
    /// Which dumps are kept.
    pub(crate) segments: Segments,
    pub(crate) capture: CaptureOptions,
    /// Whether signals are handled.
    pub(crate) signals: bool,
}

/// The parts that the sink and [`dump`] share.
#[derive(Debug)]
struct Shared {
    memory: Mutex<Memory>,
    pace: Mutex<Pace>,
    /// Locked while a dump is written. The drain waits for it only if the process may end soon.
    files: Mutex<Files>,
}

/// Keeps the newest records in memory.
#[derive(Debug)]
pub(crate) struct LastSink {
    shared: Arc<Shared>,
    watch: Watch,
    dump_on: DumpOn,
    spans: bool,
    /// The thread that writes a dump.
    writer: Option<JoinHandle<()>>,
    /// A signal that came while it wrote. The dump follows, since a person waits for it.
    waiting: Option<Request>,
}

impl LastSink {
    /// Keeps records whose dumps go to `path`: a folder, a pattern of file names, or a file name to
    /// which the time is added.
    pub(crate) fn create(path: &Path, options: LastOptions) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            memory: Mutex::new(Memory::new(options.last.bounds())),
            pace: Mutex::new(Pace::new(&options)),
            files: Mutex::new(Files::begin(path, &options)?),
        });
        dumps::set_current(&shared);
        let mut causes = options.dump_on.causes();
        if options.signals {
            causes = causes.with(Cause::Signal);
        }
        #[cfg(unix)]
        crate::drain::crash::watch_memory(options.signals);
        listen(causes);
        Ok(Self {
            shared,
            watch: Watch::new(&options.dump_on),
            spans: options.capture.spans,
            dump_on: options.dump_on,
            writer: None,
            waiting: None,
        })
    }

    /// Returns the folder of the dumps.
    pub(crate) fn folder(&self) -> PathBuf {
        lock(&self.shared.files).folder()
    }

    /// Writes a dump that was requested. If the process may end soon, that happens here and now.
    fn serve(&mut self, request: Request, missed: u64) {
        let is_writing = self
            .writer
            .as_ref()
            .is_some_and(|writer| !writer.is_finished());
        {
            let mut pace = lock(&self.shared.pace);
            pace.miss(missed);
            if is_writing && !request.is_urgent() {
                match request.cause {
                    Cause::Signal if self.waiting.is_none() => self.waiting = Some(request),
                    _ => pace.miss(1),
                }
                return;
            }
            if !pace.may_begin(&request) {
                return;
            }
        }
        if request.is_urgent() {
            self.shared.write_and_report(&request);
            return;
        }
        let shared = Arc::clone(&self.shared);
        let contents = lock(&shared.memory).contents();
        let write = move || {
            thread::stay_silent();
            let written = signals::without_signals(|| shared.write(&contents, &request));
            report_result(written, &request);
        };
        let builder = std::thread::Builder::new().name("vor-dump".into());
        match signals::for_new_thread(|| builder.spawn(write)) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => report::line(&format!("a dump has no thread: {error}")),
        }
    }

    fn join(&mut self) {
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn write_and_report(&self, request: &Request) {
        let contents = lock(&self.memory).contents();
        report_result(self.write(&contents, request), request);
    }
}

fn report_result(written: Result<dumps::Written, Error>, request: &Request) {
    match written {
        Ok(written) => report::line(&format!("{written}: {}", request.reason)),
        Err(error) => report::line(&format!("{error}; there is no dump of {}", request.reason)),
    }
}

impl FrameSink for LastSink {
    fn writes_file(&self) -> bool {
        true
    }

    fn interest(&self) -> Interest {
        if self.spans {
            Interest::BATCHES
        } else {
            Interest::METRICS
        }
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.watch.batch(batch);
        lock(&self.shared.memory).put(RecordRef::Batch(batch), &batch.catalog);
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.watch.frame(frame);
        lock(&self.shared.memory).put(RecordRef::Frame(frame), &frame.catalog);
        Ok(())
    }

    fn accept_heap(
        &mut self,
        snapshot: &HeapSnapshot,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        lock(&self.shared.memory).put(RecordRef::Heap(snapshot), catalog);
        Ok(())
    }

    fn accept_scheduler(
        &mut self,
        batch: &SchedulerBatch,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        lock(&self.shared.memory).put(RecordRef::Scheduler(batch), catalog);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        lock(&self.shared.memory).settle();
        if let Some(request) = self.waiting.take() {
            self.serve(request, 0);
        }
        if let Some((request, missed)) = take_due() {
            self.serve(request, missed);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        if let Some((request, missed)) = take() {
            self.serve(request, missed);
        }
        if let Some(request) = self.waiting.take() {
            self.join();
            self.serve(request, 0);
        }
        if let Some(reason) = self.dump_on.reason_at_end() {
            let request = Request::new(Cause::Exit, reason);
            self.shared.write_and_report(&request);
        }
        self.join();
        listen(Causes::default());
        dumps::forget_current(&self.shared);
        Ok(())
    }
}
