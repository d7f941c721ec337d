//! A capture in segments: one capture after the other, of which the oldest are deleted.
//!
//! [`SegmentSink`] writes into a [`CaptureSink`] and replaces it by a new one when the segment is
//! large or old enough. Each segment is a whole capture, with the declarations, the clock, the
//! scopes that are open at both ends, and an index. The drain delivers a span once, to the sink of
//! that moment, so every span is in exactly one segment.
//!
//! If the program marks frames, a segment ends behind a frame. A frame that does not fit into a
//! segment is cut: its record, in the last of its segments, counts the spans of that segment.
//!
//! All of this happens where a capture is written: on the worker, or on a thread that flushes.
//! Scopes do not wait for it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vor_capture::Error;
use vor_capture::filled;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{Catalog, SegmentInfo};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::heap::HeapSnapshot;
use vor_capture::model::scheduler::SchedulerBatch;
use vor_capture::sink::{FrameSink, Interest};

use crate::os::report;
use crate::sinks::capture::{CaptureOptions, CaptureSink, Moment, file_id};
use crate::sinks::named_files::{Keeper, Limits, Names, begin, program};
use crate::sync::lock;

/// Size of a segment if neither its size nor its age is set.
pub const DEFAULT_SEGMENT_BYTES: u64 = 64_000_000;
/// Smallest size of a segment.
pub const MIN_SEGMENT_BYTES: u64 = 16_000;
/// Smallest age at which a segment ends.
pub const MIN_SEGMENT_AGE: Duration = Duration::from_secs(1);
/// All segments together have room for at least this many, so that one of them can be deleted
/// without losing most of the recording.
const MIN_SEGMENTS: u64 = 4;

/// When a segment of a capture ends, and how many segments are kept.
///
/// By default a segment ends at 64 MB, and all segments are kept. If several limits are set, the
/// first one that is reached counts.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_recorder::setup::Config; pub use vor_recorder::sinks::segments::Segments; }
/// use std::time::Duration;
///
/// let segments = vor::Segments::new()
///     .size(64_000_000)
///     .keep_size(2_000_000_000)
///     .keep_age(Duration::from_secs(7 * 86_400));
/// vor::Config::new().capture("captures/").segments(segments).enable();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segments {
    size: Option<u64>,
    age: Option<Duration>,
    pub(super) keep: Limits,
}

impl Segments {
    /// The defaults: 64 MB each, all are kept.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends a segment before it has more than `bytes` bytes; at least [`MIN_SEGMENT_BYTES`].
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes.max(MIN_SEGMENT_BYTES));
        self
    }

    /// Ends a segment when it is this old; at least [`MIN_SEGMENT_AGE`].
    #[must_use]
    pub fn age(mut self, age: Duration) -> Self {
        self.age = Some(age.max(MIN_SEGMENT_AGE));
        self
    }

    /// Keeps at most `bytes` bytes in all segments together, the one being written included. A
    /// segment then ends at a quarter of that at the latest.
    #[must_use]
    pub fn keep_size(mut self, bytes: u64) -> Self {
        self.keep.bytes = Some(bytes.max(MIN_SEGMENTS * MIN_SEGMENT_BYTES));
        self
    }

    /// Keeps a segment until this long after its end.
    #[must_use]
    pub fn keep_age(mut self, age: Duration) -> Self {
        self.keep.age = Some(age);
        self
    }

    /// Keeps at most `count` segments, the one being written included; at least 2.
    #[must_use]
    pub fn keep_count(mut self, count: u64) -> Self {
        self.keep.count = Some(count.max(2));
        self
    }

    /// Returns how many bytes are kept, for how long, and how many segments.
    #[doc(hidden)]
    #[must_use]
    pub fn kept(&self) -> (Option<u64>, Option<Duration>, Option<u64>) {
        (self.keep.bytes, self.keep.age, self.keep.count)
    }

    /// Returns the size at which a segment ends; `None` if only its age ends it.
    fn segment_bytes(&self) -> Option<u64> {
        let most = self.keep.bytes.map(|bytes| bytes / MIN_SEGMENTS);
        let default = self.age.is_none().then_some(DEFAULT_SEGMENT_BYTES);
        match (self.size.or(default), most) {
            (Some(size), Some(most)) => Some(size.min(most)),
            (size, most) => size.or(most),
        }
    }

    /// Returns the size of the whole that makes a segment smaller than requested.
    pub(crate) fn size_in_conflict(&self) -> Option<u64> {
        let size = self.segment_bytes()?;
        self.size
            .filter(|requested| *requested > size)
            .map(|_| size)
    }

    /// Returns whether anything is set.
    pub(crate) fn is_set(&self) -> bool {
        *self != Self::default()
    }

    /// Sets what `other` sets.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            size: self.size.or(other.size),
            age: self.age.or(other.age),
            keep: Limits {
                bytes: self.keep.bytes.or(other.keep.bytes),
                age: self.keep.age.or(other.keep.age),
                count: self.keep.count.or(other.keep.count),
            },
        }
    }
}

/// How long a segment goes on after the next one could not be created.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Time between two searches for segments that are too old.
const TRIM_INTERVAL: Duration = Duration::from_secs(60);
/// Writes a capture in segments.
#[derive(Debug)]
pub struct SegmentSink {
    /// Also used when the disk is full, by the file being written. Only the thread that drains
    /// locks it.
    keeper: Arc<Mutex<Keeper>>,
    options: CaptureOptions,
    size: Option<u64>,
    age: Option<Duration>,
    /// Whether a crash is recorded, and whether at signals too.
    crash_records: Option<bool>,
    segment: SegmentInfo,
    sink: CaptureSink,
    /// File name of the segment.
    name: String,
    begun: Instant,
    trimmed: Instant,
    /// Whether the segment has a batch or a frame, and whether it has a frame of the main set.
    has_data: bool,
    has_frames: bool,
    /// Size behind the last frame, and of the last frame.
    frame_end: u64,
    frame_bytes: u64,
    retry_at: Option<Instant>,
}

impl SegmentSink {
    /// Begins a capture in segments at `path`, which is a folder, or a pattern of file names.
    ///
    /// # Errors
    ///
    /// The folder or the first segment cannot be created. A browser has no files.
    pub fn create(path: &Path, segments: Segments, options: CaptureOptions) -> Result<Self, Error> {
        let failed = |error| Error::io(format!("cannot write {}", path.display()), error);
        if cfg!(target_family = "wasm") {
            return Err(failed(ErrorKind::Unsupported.into()));
        }
        let names = Names::new(path, &program());
        std::fs::create_dir_all(names.folder()).map_err(failed)?;
        let mut keeper = Keeper::new(names, segments.keep);
        let size = segments.segment_bytes();
        keeper.trim(size.unwrap_or(0), 1);
        let keeper = Arc::new(Mutex::new(keeper));
        let segment = filled!(SegmentInfo {
            run: file_id(),
            number: 0
        });
        let (mut sink, name) = begin(&keeper, options, Moment::now(), "")?;
        sink.set_segment(segment);
        lock(&keeper).set_current(sink.path());
        let now = Instant::now();
        Ok(Self {
            keeper,
            options,
            size,
            age: segments.age,
            crash_records: None,
            segment,
            sink,
            name,
            begun: now,
            trimmed: now,
            has_data: false,
            has_frames: false,
            frame_end: 0,
            frame_bytes: 0,
            retry_at: None,
        })
    }

    /// Returns the folder of the segments.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        lock(&self.keeper).names().folder().to_owned()
    }

    /// Has the open scopes appended to the current segment at a panic and, with `signals`, at a
    /// signal that ends the process.
    pub(crate) fn enable_crash_records(&mut self, signals: bool) {
        self.crash_records = Some(signals);
        self.sink.enable_crash_records(signals);
    }

    /// Ends the segment and begins the next. If that cannot be created, the segment goes on.
    fn rotate(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if self.retry_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        let segment = filled!(SegmentInfo {
            run: self.segment.run,
            number: self.segment.number + 1
        });
        let next = begin(&self.keeper, self.options, Moment::now(), &self.name);
        let (mut sink, name) = match next {
            Ok(next) => next,
            Err(error) => {
                // Reported once for each row of failures.
                if self.retry_at.replace(now + RETRY_AFTER).is_none() {
                    report::line(&format!("{error}; the segment before it goes on"));
                }
                return Ok(());
            }
        };
        sink.set_segment(segment);
        sink.continue_after(&mut self.sink)?;
        let mut ended = std::mem::replace(&mut self.sink, sink);
        if let Err(error) = ended.finish() {
            report::line(&format!("{error}; this segment has no index"));
        }
        // Its file is unlocked, and may be deleted.
        drop(ended);
        if let Some(signals) = self.crash_records {
            self.sink.enable_crash_records(signals);
        }
        let mut keeper = lock(&self.keeper);
        keeper.set_current(self.sink.path());
        // The new segment is in the folder already, with its first bytes.
        let more_bytes = self.size.unwrap_or(0).saturating_sub(self.sink.bytes());
        keeper.trim(more_bytes, 0);
        drop(keeper);
        self.segment = segment;
        self.name = name;
        self.begun = now;
        self.trimmed = now;
        self.has_data = false;
        self.has_frames = false;
        self.frame_end = self.sink.bytes();
        self.retry_at = None;
        Ok(())
    }

    /// Returns the size at which a segment ends wherever it is: its closing declarations need room.
    fn most_bytes(&self) -> u64 {
        self.size.map_or(u64::MAX, |size| size - size / 16)
    }

    /// Returns whether the segment is older than its limit, and, with `late`, by an eighth of it.
    fn is_old(&self, late: bool) -> bool {
        let age = self.begun.elapsed();
        self.age.is_some_and(|limit| {
            let limit = if late { limit + limit / 8 } else { limit };
            age >= limit
        })
    }
}

impl FrameSink for SegmentSink {
    fn writes_file(&self) -> bool {
        true
    }

    fn interest(&self) -> Interest {
        self.sink.interest()
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        if self.has_data && self.sink.bytes() >= self.most_bytes() {
            self.rotate()?;
        }
        self.has_data = true;
        self.sink.accept_batch(batch)
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.has_data = true;
        self.sink.accept_frame(frame)?;
        if frame.frame_set != 0 {
            return Ok(());
        }
        self.has_frames = true;
        let bytes = self.sink.bytes();
        self.frame_bytes = bytes.saturating_sub(self.frame_end);
        self.frame_end = bytes;
        // The next frame may be somewhat longer.
        let next_end = bytes + self.frame_bytes + self.frame_bytes / 2;
        if next_end > self.most_bytes() || self.is_old(false) {
            self.rotate()?;
        }
        Ok(())
    }

    fn accept_heap(
        &mut self,
        snapshot: &HeapSnapshot,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        self.has_data = true;
        self.sink.accept_heap(snapshot, catalog)
    }

    fn accept_scheduler(
        &mut self,
        batch: &SchedulerBatch,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        self.has_data = true;
        self.sink.accept_scheduler(batch, catalog)
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.sink.commit()?;
        // If there are frames, the segment waits for the end of one.
        if self.has_data && self.is_old(self.has_frames) {
            return self.rotate();
        }
        if self.trimmed.elapsed() > TRIM_INTERVAL {
            self.trimmed = Instant::now();
            let mut keeper = lock(&self.keeper);
            if keeper.limits().age.is_some() {
                let more_bytes = self.size.unwrap_or(0).saturating_sub(self.sink.bytes());
                keeper.trim(more_bytes, 0);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.sink.flush()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.sink.finish()
    }
}
