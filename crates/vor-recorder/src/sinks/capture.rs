//! The `.vor` capture: batches and frames as records of format 3, appended to a file.
//!
//! Each file has one writer: it is locked while it is written, and a process that finds it locked
//! writes `run.<pid>.vor` beside it. An earlier capture is kept under another name. Records are
//! gathered until the drain's pass ends, about half a millisecond, and are written together. A
//! killed process loses the contents of its rings and the records that the pass had taken from
//! them.
//!
//! If only some frames keep their spans (one in N, the slow ones), batches wait in memory until
//! their frame is complete.

use std::collections::VecDeque;
use std::fs::TryLockError;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vor_capture::Error;
use vor_capture::filled;
use vor_capture::format::{Compression, Declared, Encoder, Header, RecordRef};
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{Catalog, DumpInfo, SegmentInfo};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::heap::HeapSnapshot;
use vor_capture::model::scheduler::SchedulerBatch;
use vor_capture::model::scope_modes::ScopeModes;
use vor_capture::sink::{FrameSink, Interest};

use crate::clock;
#[cfg(unix)]
use crate::drain::crash;
use crate::hot::{callsite, shared, thread};
use crate::os::file::{self, MakeRoom, OutputFile};
use crate::os::report;
use crate::os::signals;

/// The spans that a capture keeps.
#[derive(Clone, Copy, Debug)]
pub struct CaptureOptions {
    /// Whether spans are kept at all.
    pub spans: bool,
    /// Spans of one frame in `every`, at least 1.
    pub every: u64,
    /// Spans of this many frames at most.
    pub max_frames: Option<u64>,
    /// Spans only of frames longer than this.
    pub slow: Option<Duration>,
    /// Also keep the spans of this many frames before each slow one.
    pub frames_before: usize,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self {
            spans: true,
            every: 1,
            max_frames: None,
            slow: None,
            frames_before: 2,
        }
    }
}

/// Most spans and tasks that wait for the decision on their frame; beyond that, the oldest are
/// discarded.
const MAX_WAITING_SPANS: usize = 1 << 20;

/// Number of frames in a pass above which small records are not compressed: about five hundred
/// frames a second.
const MANY_FRAMES: usize = 10;
/// Gathered bytes that are written before the pass ends.
const GATHERED_BYTES: usize = 64 << 10;

/// Writes a capture. Accepted records are in the file after [`commit`](FrameSink::commit) or
/// [`flush`](FrameSink::flush).
pub struct CaptureSink {
    file: OutputFile,
    path: PathBuf,
    options: CaptureOptions,
    encoder: Encoder,
    /// Identifies the capture.
    file_id: u64,
    /// Whether crash records go into this file too.
    #[cfg(unix)]
    has_crash_records: bool,
    /// The exclusive right to write the file, held while records are gathered.
    #[cfg(unix)]
    write_guard: Option<crash::WriteGuard>,
    /// Records that are not yet written.
    buffer: Vec<u8>,
    /// Frames in `buffer`.
    gathered_frames: usize,
    /// Whether the last write contained many frames.
    had_many_frames: bool,
    declared: Declared,
    /// The changes of modes that are in the file.
    scope_modes: ScopeModes,
    catalog: Arc<Catalog>,
    waiting: PendingFrames,
    frames_with_spans: u64,
    /// The place of the file among those of its run; `None` for the only one.
    segment: Option<SegmentInfo>,
    /// Why the capture is written, if its records were kept in memory.
    dump: Option<Arc<DumpInfo>>,
    /// Spans and dropped spans of the batches before the first frame of the main set. A capture can
    /// begin within a frame; that frame's own count is then higher.
    before_first_frame: Option<(u64, u64)>,
}

/// A moment by the recorder's clock and by that of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    pub(crate) ticks: u64,
    pub(crate) unix_ns: i64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        let ticks = clock::ticks();
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let unix_ns = since.unwrap_or_default().as_nanos();
        Self {
            ticks,
            unix_ns: i64::try_from(unix_ns).unwrap_or(i64::MAX),
        }
    }
}

/// Frames whose spans are not yet written or given up, oldest first, and the batches of the frame
/// that is running.
#[derive(Debug, Default)]
struct PendingFrames {
    frames: VecDeque<PendingFrame>,
    running: VecDeque<SpanBatch>,
    /// Spans of the running frame that were given up.
    discarded: u64,
    spans: usize,
}

#[derive(Debug)]
struct PendingFrame {
    frame: Arc<FrameSnapshot>,
    batches: VecDeque<SpanBatch>,
    /// Spans that are no longer in `batches`.
    discarded: u64,
}

impl std::fmt::Debug for CaptureSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureSink")
            .field("path", &self.path)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl CaptureSink {
    /// Begins a capture at `path`, or beside it if another process is writing there.
    ///
    /// # Errors
    ///
    /// The file cannot be created or written. A browser has no files.
    pub fn create(path: &Path, options: CaptureOptions) -> Result<Self, Error> {
        if cfg!(target_family = "wasm") {
            let error = std::io::Error::from(std::io::ErrorKind::Unsupported);
            return Err(Error::io(path.display().to_string(), error));
        }
        Self::begin(path, options, Moment::now())
    }

    /// Begins a capture whose records begin at an earlier moment.
    pub(super) fn begin(
        path: &Path,
        options: CaptureOptions,
        start: Moment,
    ) -> Result<Self, Error> {
        let (file, path) = open(path)?;
        let header = Header {
            file_id: file_id(),
            pid: std::process::id(),
            flags: if options.spans {
                Header::KEEPS_SPANS
            } else {
                0
            },
            start_unix_ns: start.unix_ns,
            start_ticks: start.ticks,
        };
        let mut sink = Self {
            file,
            path,
            options: CaptureOptions {
                every: options.every.max(1),
                ..options
            },
            encoder: Encoder::new(header),
            file_id: header.file_id,
            #[cfg(unix)]
            has_crash_records: false,
            #[cfg(unix)]
            write_guard: None,
            buffer: Vec::new(),
            gathered_frames: 0,
            had_many_frames: false,
            declared: Declared::default(),
            scope_modes: ScopeModes::default(),
            catalog: Arc::default(),
            waiting: PendingFrames::default(),
            frames_with_spans: 0,
            segment: None,
            dump: None,
            before_first_frame: Some((0, 0)),
        };
        sink.encoder.header(&mut sink.buffer);
        sink.write_out()?;
        Ok(sink)
    }

    /// Returns the path of the capture.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the file once everything gathered is written.
    pub(crate) fn bytes(&self) -> u64 {
        self.encoder.offset()
    }

    /// Makes the file a segment of a run. Must be called before anything is delivered.
    pub(super) fn set_segment(&mut self, segment: SegmentInfo) {
        self.segment = Some(segment);
    }

    /// Has `make_room` called when the disk is full.
    pub(super) fn when_full(&mut self, make_room: MakeRoom) {
        self.file.when_full(make_room);
    }

    /// Makes the file a dump. Must be called before anything is delivered.
    #[cfg(feature = "segments")]
    pub(super) fn set_dump(&mut self, dump: DumpInfo) {
        self.dump = Some(Arc::new(dump));
    }

    /// Begins where `earlier` ends: takes its waiting frames, and writes the scopes that are open.
    pub(crate) fn continue_after(&mut self, earlier: &mut Self) -> Result<(), Error> {
        self.frames_with_spans = earlier.frames_with_spans;
        if !self.keeps_all() {
            // Nothing of the running frame is in either file yet.
            self.waiting = std::mem::take(&mut earlier.waiting);
            self.before_first_frame = earlier.before_first_frame.take();
        }
        let mut catalog = Arc::clone(&earlier.catalog);
        if let Some(open) = open_scopes() {
            callsite::declare_new(&mut catalog);
            thread::declare_new(&mut catalog);
            self.declare(&catalog);
            self.encoder
                .encode(RecordRef::OpenScopes(&open), &mut self.buffer);
        } else if !catalog.scope_modes.is_empty() {
            // A segment in which nothing is recorded says why.
            self.declare(&catalog);
        }
        self.write_out()
    }

    /// Has the open scopes appended to this file at a panic and, with `signals`, at a signal that
    /// ends the process. Only the last capture that called this receives them.
    pub(crate) fn enable_crash_records(&mut self, signals: bool) {
        if self.options.spans && self.keeps_all() {
            shared::declare_capture(self.file_id, &self.path, self.bytes());
        }
        #[cfg(not(unix))]
        let _ = signals;
        #[cfg(unix)]
        {
            use std::os::fd::AsRawFd;
            let (seed, next_seq) = self.encoder.place();
            crash::watch(self.file.inner().as_raw_fd(), seed, next_seq, signals);
            self.has_crash_records = true;
        }
    }

    fn disable_crash_records(&mut self) {
        shared::capture_ended(self.file_id);
        #[cfg(unix)]
        if std::mem::take(&mut self.has_crash_records) {
            self.write_guard = None;
            use std::os::fd::AsRawFd;
            crash::forget(self.file.inner().as_raw_fd());
        }
    }

    /// Gathers the records that `encode` appends to the buffer. The write guard is held until they
    /// are written, so no crash record can come between them and their place in the file.
    fn gather(&mut self, encode: impl FnOnce(&mut Self)) -> Result<(), Error> {
        #[cfg(unix)]
        if self.has_crash_records && self.write_guard.is_none() {
            let mut guard = crash::WriteGuard::wait().map_err(|error| self.cannot_write(error))?;
            let (records, bytes) = guard.take_records();
            self.encoder.skip(records, bytes);
            self.write_guard = Some(guard);
        }
        encode(self);
        if self.buffer.len() < GATHERED_BYTES {
            return Ok(());
        }
        self.write_out()
    }

    /// Writes the gathered records, and releases the write guard.
    fn write_out(&mut self) -> Result<(), Error> {
        let mut written = Ok(());
        if !self.buffer.is_empty() {
            // A signal that this write raises must not end the program, whichever thread drains.
            written = signals::without_signals(|| self.file.write_all(&self.buffer));
            self.buffer.clear();
            self.had_many_frames = self.gathered_frames >= MANY_FRAMES;
            self.choose_compression(false);
            self.gathered_frames = 0;
        }
        #[cfg(unix)]
        if let Some(mut guard) = self.write_guard.take() {
            guard.set_next_seq(self.encoder.place().1);
        }
        match &written {
            Ok(()) => shared::capture_has(self.file_id, self.encoder.offset()),
            Err(_) => shared::capture_ended(self.file_id),
        }
        written.map_err(|error| self.cannot_write(error))
    }

    fn cannot_write(&self, error: std::io::Error) -> Error {
        Error::io(format!("cannot write {}", self.path.display()), error)
    }

    /// Writes the entries of `catalog` that the file does not have yet.
    fn declare(&mut self, catalog: &Arc<Catalog>) {
        let (encoder, out, known) = (&mut self.encoder, &mut self.buffer, &mut self.declared);
        if known.begin(catalog, encoder, out) {
            if let Some(segment) = self.segment {
                encoder.encode(RecordRef::Segment(segment), out);
            }
            if let Some(dump) = &self.dump {
                encoder.encode(RecordRef::Dump(dump), out);
            }
        }
        known.put(catalog, encoder, out);
        if !Arc::ptr_eq(&self.catalog.scope_modes, &catalog.scope_modes) {
            for change in known.put_modes(catalog, self.dump.is_some(), encoder, out) {
                self.scope_modes.insert(change);
            }
        }
        self.catalog = Arc::clone(catalog);
    }

    fn put_batch(&mut self, batch: &SpanBatch) {
        self.declare(&batch.catalog);
        self.encoder
            .encode(RecordRef::Batch(batch), &mut self.buffer);
    }

    fn put_frame(&mut self, frame: &FrameSnapshot) {
        self.declare(&frame.catalog);
        self.encoder
            .encode(RecordRef::Frame(frame), &mut self.buffer);
    }

    /// Writes a frame whose spans are not in the file, with a span count of zero.
    fn put_frame_without_spans(&mut self, frame: &FrameSnapshot) {
        self.put_frame(&filled!(FrameSnapshot {
            span_count: 0,
            ..frame.clone()
        }));
    }

    /// Returns whether every frame keeps its spans, so that batches need not wait.
    fn keeps_all(&self) -> bool {
        self.options.every == 1 && self.options.slow.is_none() && self.options.max_frames.is_none()
    }

    /// Writes the waiting frames beyond the newest `keep`, with or without their spans.
    fn settle(&mut self, keep: usize, with_spans: bool) {
        while self.waiting.frames.len() > keep {
            let Some(PendingFrame {
                frame,
                batches,
                discarded,
            }) = self.waiting.frames.pop_front()
            else {
                break;
            };
            let spans: usize = batches.iter().map(weight).sum();
            self.waiting.spans -= spans;
            let allowed = self
                .options
                .max_frames
                .is_none_or(|most| self.frames_with_spans < most);
            if with_spans && allowed {
                self.frames_with_spans += 1;
                batches.iter().for_each(|batch| self.put_batch(batch));
                if discarded == 0 {
                    self.put_frame(&frame);
                } else {
                    let span_count = frame.span_count.saturating_sub(discarded);
                    let dropped_spans = frame.dropped_spans.saturating_add(discarded);
                    self.put_frame(&filled!(FrameSnapshot {
                        span_count,
                        dropped_spans,
                        ..(*frame).clone()
                    }));
                }
            } else {
                self.put_frame_without_spans(&frame);
            }
        }
    }

    fn decide(&mut self, frame: &Arc<FrameSnapshot>) {
        let batches = std::mem::take(&mut self.waiting.running);
        let chosen = frame.index.is_multiple_of(self.options.every);
        let discarded = std::mem::take(&mut self.waiting.discarded);
        self.waiting.frames.push_back(PendingFrame {
            frame: Arc::clone(frame),
            batches,
            discarded,
        });
        match self.options.slow {
            None => self.settle(0, chosen),
            Some(limit) => {
                let duration_ns = u64::try_from(frame.duration_ns()).unwrap_or(0);
                let slow = Duration::from_nanos(duration_ns) > limit;
                if slow && chosen {
                    self.settle(0, true);
                } else {
                    self.settle(self.options.frames_before, false);
                }
            }
        }
    }
}

impl FrameSink for CaptureSink {
    fn writes_file(&self) -> bool {
        true
    }

    fn interest(&self) -> Interest {
        if self.options.spans {
            Interest::BATCHES
        } else {
            Interest::METRICS
        }
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.gather(|sink| sink.put_ended_batch(batch))
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.gather(|sink| sink.put_ended_frame(frame))
    }

    fn accept_heap(
        &mut self,
        snapshot: &HeapSnapshot,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        self.gather(|sink| {
            sink.declare(catalog);
            sink.encoder
                .encode(RecordRef::Heap(snapshot), &mut sink.buffer);
        })?;
        self.write_out()
    }

    fn accept_scheduler(
        &mut self,
        batch: &SchedulerBatch,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        self.gather(|sink| {
            sink.declare(catalog);
            sink.encoder
                .encode(RecordRef::Scheduler(batch), &mut sink.buffer);
        })
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.write_out()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.write_out()
    }

    fn finish(&mut self) -> Result<(), Error> {
        let ended = self.gather(Self::put_end).and_then(|()| self.write_out());
        // No record may follow the end.
        self.disable_crash_records();
        // The file is complete, and may be read and deleted before this sink is dropped. Some file
        // systems have no locks.
        drop(self.file.inner().unlock());
        ended
    }
}

impl CaptureSink {
    fn put_ended_batch(&mut self, batch: &SpanBatch) {
        if let Some((spans, dropped_spans)) = &mut self.before_first_frame {
            *spans += batch.span_count() as u64;
            let in_batch = batch.threads.iter().map(|thread| thread.dropped_spans);
            *dropped_spans = in_batch.fold(*dropped_spans, u64::saturating_add);
        }
        if self.keeps_all() {
            self.put_batch(batch);
            return;
        }
        self.waiting.spans += weight(batch);
        self.waiting.running.push_back(batch.clone());
        while self.waiting.spans > MAX_WAITING_SPANS && !self.waiting.frames.is_empty() {
            self.settle(self.waiting.frames.len() - 1, false);
        }
        // A single frame exceeds the bound. Its oldest batches are given up, and its record will
        // count their spans as dropped.
        while self.waiting.spans > MAX_WAITING_SPANS && self.waiting.running.len() > 1 {
            let Some(discarded) = self.waiting.running.pop_front() else {
                break;
            };
            self.waiting.spans -= weight(&discarded);
            self.waiting.discarded += discarded.span_count() as u64;
        }
    }

    fn choose_compression(&mut self, has_many_frames: bool) {
        let is_fast = has_many_frames || self.had_many_frames;
        self.encoder.set_compression(match is_fast {
            true => Compression::Fast,
            false => Compression::Usual,
        });
    }

    fn put_ended_frame(&mut self, frame: &Arc<FrameSnapshot>) {
        self.gathered_frames += 1;
        let has_many_frames = self.gathered_frames >= MANY_FRAMES;
        self.choose_compression(has_many_frames);
        if frame.frame_set != 0 {
            self.put_frame(frame);
            return;
        }
        let frame = &match self.before_first_frame.take() {
            Some((spans, dropped))
                if self.options.spans
                    && (spans, dropped) != (frame.span_count, frame.dropped_spans) =>
            {
                Arc::new(filled!(FrameSnapshot {
                    span_count: spans,
                    dropped_spans: dropped,
                    ..(**frame).clone()
                }))
            }
            _ => Arc::clone(frame),
        };
        if !self.options.spans {
            self.put_frame_without_spans(frame);
        } else if self.keeps_all() {
            self.put_frame(frame);
        } else {
            self.decide(frame);
        }
    }

    fn put_end(&mut self) {
        self.settle(0, false);
        let mut catalog = Arc::clone(&self.catalog);
        if let Some(open) = open_scopes() {
            self.encoder
                .encode(RecordRef::OpenScopes(&open), &mut self.buffer);
            // A scope can be open whose site or thread has no ended scope yet.
            callsite::declare_new(&mut catalog);
            thread::declare_new(&mut catalog);
        }
        self.declare(&catalog);
        let has_modes = !catalog.scope_modes.is_empty();
        if self.segment.is_some() || self.dump.is_some() || has_modes {
            let catalog = Arc::make_mut(&mut catalog);
            catalog.scope_modes = Arc::new(std::mem::take(&mut self.scope_modes));
            catalog.segment = self.segment;
            catalog.dump = self.dump.take();
        }
        self.encoder.close(&catalog, &mut self.buffer);
    }
}

impl Drop for CaptureSink {
    fn drop(&mut self) {
        // At least write the gathered records.
        let _ = self.write_out();
        self.disable_crash_records();
    }
}

/// Returns the weight of a waiting batch, in spans.
fn weight(batch: &SpanBatch) -> usize {
    batch.span_count() + batch.async_span_count() + batch.event_count()
}

pub(crate) fn open_scopes() -> Option<vor_capture::format::OpenScopes> {
    let scopes = |thread: thread::OpenThread| {
        let scopes = thread
            .scopes
            .iter()
            .map(|scope| (scope.site, scope.start_ticks))
            .collect();
        (thread.thread, scopes)
    };
    let threads: Vec<_> = thread::open_scopes_at_end()
        .into_iter()
        .map(scopes)
        .collect();
    (!threads.is_empty()).then(|| {
        filled!(vor_capture::format::OpenScopes {
            ticks: clock::ticks(),
            threads,
        })
    })
}

/// Makes a number unique among captures.
pub(crate) fn file_id() -> u64 {
    clock::unique_number()
}

/// The number of own names that a writer tries at most, if other writers hold them.
const MAX_OWN_NAMES: u32 = 100;

/// Opens the file to write, and returns it with its final path.
fn open(path: &Path) -> Result<(OutputFile, PathBuf), Error> {
    if let Some(file) = take(path)? {
        return Ok((file, path.to_owned()));
    }
    for number in 1..=MAX_OWN_NAMES {
        let pid = std::process::id();
        let infix = if number == 1 {
            pid.to_string()
        } else {
            format!("{pid}-{number}")
        };
        let own = sibling_path(path, &infix);
        if let Some(file) = take(&own)? {
            report::line(&format!(
                "{} is being written already; this process writes {}",
                path.display(),
                own.display()
            ));
            return Ok((file, own));
        }
    }
    let busy = std::io::Error::new(
        std::io::ErrorKind::ResourceBusy,
        "it is being written, and so are all names beside it",
    );
    Err(Error::io(format!("cannot write {}", path.display()), busy))
}

/// Opens `path` for writing, empty and locked. Returns `None` if another writer holds it. An
/// earlier file is kept under another name.
fn take(path: &Path) -> Result<Option<OutputFile>, Error> {
    let refused = |error| Error::io(format!("cannot write {}", path.display()), error);
    // Another process may rename or create the file between two steps; then try again.
    for _ in 0..100 {
        let output = OutputFile::create_or_keep(path).map_err(refused)?;
        let file = output.inner();
        let metadata = file.metadata().map_err(refused)?;
        // A device or a pipe has no length and needs no lock.
        if !metadata.is_file() {
            return Ok(Some(output));
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Some file systems have no locks.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        // If the path still names the locked file, no other writer is about to write or rename
        // it.
        if !file::is_at(file, path) {
            continue;
        }
        if file.metadata().map_err(refused)?.len() == 0 {
            return Ok(Some(output));
        }
        let free = (1_u32..)
            .map(|number| sibling_path(path, &number.to_string()))
            .find(|free| !free.exists());
        let Some(kept) = free else { break };
        std::fs::rename(path, &kept).map_err(|error| {
            Error::io(
                format!(
                    "cannot keep the earlier {} as {}",
                    path.display(),
                    kept.display()
                ),
                error,
            )
        })?;
        report::line(&format!(
            "the earlier {} is kept as {}",
            path.display(),
            kept.display()
        ));
    }
    Ok(None)
}

/// Returns `run.<infix>.vor` for `run.vor`.
fn sibling_path(path: &Path, infix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(infix);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(all(test, unix, not(loom), not(feature = "off")))]
mod tests {
    use std::time::Duration;

    use vor_capture::model::batch::ThreadBatch;
    use vor_capture::model::catalog::SiteId;

    use super::*;
    use vor_capture::reader::{Event, Reader};

    #[test]
    fn a_batch_waits_for_a_note_that_takes_long() -> Result<(), Error> {
        let folder = tempfile::tempdir().map_err(|error| Error::io("a folder", error))?;
        let path = folder.path().join("run.vor");
        let mut sink = CaptureSink::create(&path, CaptureOptions::default())?;
        sink.enable_crash_records(false);
        let batch = filled!(SpanBatch {
            threads: vec![filled!(ThreadBatch {
                start_ticks: vec![1, 2, 3],
                duration_ticks: vec![1, 1, 1],
                sites: vec![SiteId(1); 3]
            })]
        });
        let guard = crash::WriteGuard::wait()?;
        let note = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(400));
            drop(guard);
        });
        sink.accept_batch(&batch)?;
        sink.finish()?;
        assert!(note.join().is_ok());

        let mut reader = Reader::open(&path)?;
        let mut spans = 0;
        while let Some(event) = reader.next_event()? {
            if let Event::Batch(batch) = event {
                spans += batch.span_count();
            }
        }
        assert_eq!(spans, 3);
        Ok(())
    }
}
