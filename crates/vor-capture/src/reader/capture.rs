//! A capture with access to any frame.
//!
//! The catalog, a bounded number of places to start reading from, and one frame are in memory, no
//! more for a large file than for a small one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::capture_v2::CaptureV2;
use super::capture_v3::CaptureV3;
use super::parts::{self, Part, PartContents, PartFrame, PartScan};
use super::summary::{FrameScan, FrameSummary};
use super::unmarked::UnmarkedFrame;
use super::{
    AnyHeader, CHUNK_BYTES, DEFAULT_MAX_SPANS, Damage, Recovered, open_file, read_header, read_some,
};
use crate::Error;
use crate::model::batch::{SpanBatch, ThreadBatch};
use crate::model::catalog::Catalog;
use crate::model::frame::FrameSnapshot;

/// An input with random access: a file, or bytes in memory.
pub(super) trait Input: Read + Seek + Send {}

impl<T: Read + Seek + Send> Input for T {}

/// A file that is read in pieces from any place on.
pub(super) struct Source {
    input: Box<dyn Input>,
    chunk: Vec<u8>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl Source {
    pub(super) fn seek(&mut self, offset: u64) -> Result<(), Error> {
        match self.input.seek(SeekFrom::Start(offset)) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::io(
                format!("cannot seek to byte {offset} of the capture"),
                error,
            )),
        }
    }

    /// Returns the next bytes; none at the end.
    pub(super) fn read(&mut self) -> Result<&[u8], Error> {
        let n = read_some(&mut self.input, &mut self.chunk)
            .map_err(|error| Error::io("cannot read the capture", error))?;
        Ok(&self.chunk[..n])
    }

    pub(super) fn len(&mut self) -> Result<u64, Error> {
        self.input
            .seek(SeekFrom::End(0))
            .map_err(|error| Error::io("cannot find the end of the capture", error))
    }

    /// Reads up to `most` bytes at `offset` and appends them; returns how many: none at the end.
    pub(super) fn append_at(
        &mut self,
        offset: u64,
        most: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        self.seek(offset)?;
        let begin = bytes.len();
        bytes.resize(begin + most, 0);
        let n = read_some(&mut self.input, &mut bytes[begin..]);
        bytes.truncate(begin + n.as_ref().copied().unwrap_or(0));
        n.map_err(|error| Error::io("cannot read the capture", error))
    }

    /// Makes an input of the bytes from `offset` on.
    pub(super) fn at(&mut self, offset: u64) -> SourceAt<'_> {
        SourceAt {
            source: self,
            offset,
        }
    }

    /// Reads exactly the bytes at `offset`.
    pub(super) fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.seek(offset)?;
        self.input.read_exact(bytes).map_err(|error| {
            Error::io(
                format!(
                    "cannot read {} bytes at {offset} of the capture",
                    bytes.len()
                ),
                error,
            )
        })
    }
}

/// The bytes of a file from a place on, independent of other reads in between.
pub(super) struct SourceAt<'a> {
    source: &'a mut Source,
    offset: u64,
}

impl Read for SourceAt<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let input = &mut self.source.input;
        input.seek(SeekFrom::Start(self.offset))?;
        let n = input.read(bytes)?;
        self.offset += n as u64;
        Ok(n)
    }
}

/// A capture with random access to its frames.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_capture::Error; pub use vor_capture::reader as capture; }
/// let mut capture = vor::capture::Capture::open("run.vor")?;
/// let last = capture.frame(capture.frame_count() - 1)?;
/// println!("{} ns, {} spans", last.duration_ns(), last.span_count);
/// # Ok::<(), vor::Error>(())
/// ```
#[derive(Debug)]
pub struct Capture {
    inner: Inner,
    frame_set: u32,
    max_spans: usize,
    /// The one frame of a file without marks.
    unmarked: Option<UnmarkedFrame>,
    /// Whether the batches of a file without marks are still to be read for it.
    is_unmarked_unread: bool,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one per capture, and it is not moved about"
)]
enum Inner {
    V2(CaptureV2),
    V3(CaptureV3),
}

/// Totals of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// Version of the file's format.
    pub version: u16,
    /// Length of the file.
    pub file_bytes: u64,
    /// Frames of the main set that can be read. A capture without marks is one frame.
    pub frames: u64,
    /// Whether the program marked frames.
    pub marked: bool,
    /// Spans that ended in those frames, and after the last of them.
    pub spans: u64,
    /// Threads that recorded something.
    pub threads: u64,
    /// From the first mark to the last one; without marks from the first event to the last.
    pub duration_ns: u64,
    /// Spans that were dropped because a ring was full, or because a frame was too long to hold.
    pub dropped_spans: u64,
    /// Whether the recorder closed the file. A version-2 file does not say, and counts as closed
    /// when it ends with a whole record.
    pub closed: bool,
    /// Whether the frames were found through the file's index; otherwise by a pass over the
    /// file.
    pub indexed: bool,
    /// The damage met so far. Behind an index, damage shows only when its place is read; see
    /// [`Capture::verify`].
    pub damage: Damage,
}

impl Capture {
    /// Opens a capture.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or read, or does not begin with the header of a capture; the text
    /// names the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_as(path.as_ref(), false)
    }

    /// Opens a capture without a pass over it, however large it is. One with an index is as after
    /// [`open`](Self::open); any other one has no frames until [`extend`](Self::extend), which then
    /// makes the pass ([`Info::indexed`] is `false`).
    ///
    /// # Errors
    ///
    /// The same as for [`open`](Self::open).
    pub fn open_lazily(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_as(path.as_ref(), true)
    }

    fn open_as(path: &Path, is_lazy: bool) -> Result<Self, Error> {
        let named = |error| Error::io(path.display().to_string(), error);
        expect_file(path).map_err(named)?;
        let file: File = open_file(path).map_err(named)?;
        Self::of(file, is_lazy).map_err(|error| in_file(path, error))
    }

    /// Opens a capture from any input with random access.
    ///
    /// # Errors
    ///
    /// `input` fails, or does not begin with the header of a capture.
    pub fn new(input: impl Read + Seek + Send + 'static) -> Result<Self, Error> {
        Self::of(input, false)
    }

    fn of(mut input: impl Read + Seek + Send + 'static, is_lazy: bool) -> Result<Self, Error> {
        input
            .seek(SeekFrom::Start(0))
            .map_err(|error| Error::io("cannot find the beginning of the capture", error))?;
        let (header, _) = read_header(&mut input)?;
        let source = Source {
            input: Box::new(input),
            chunk: vec![0; CHUNK_BYTES],
        };
        let inner = match header {
            AnyHeader::V2(header) => Inner::V2(CaptureV2::new(source, header, is_lazy)?),
            AnyHeader::V3(header, len) => {
                Inner::V3(CaptureV3::new(source, header, len as u64, is_lazy)?)
            }
        };
        let mut capture = Self {
            inner,
            frame_set: 0,
            max_spans: DEFAULT_MAX_SPANS,
            unmarked: None,
            is_unmarked_unread: true,
        };
        let info = capture.inner_info();
        if info.indexed || !is_lazy {
            capture.read_unmarked()?;
        }
        Ok(capture)
    }

    /// Reads a file without marks as one frame.
    fn read_unmarked(&mut self) -> Result<(), Error> {
        self.is_unmarked_unread = false;
        self.unmarked = match &mut self.inner {
            Inner::V3(capture) if capture.frame_count(0) == 0 => UnmarkedFrame::read(capture)?,
            _ => None,
        };
        Ok(())
    }

    fn inner_info(&self) -> Info {
        match &self.inner {
            Inner::V2(capture) => capture.info(),
            Inner::V3(capture) => capture.info(),
        }
    }

    /// Returns the one frame of a file without marks, without trees.
    pub(super) fn unmarked(&self) -> Option<Recovered> {
        self.unmarked
            .map(|unmarked| unmarked.without_trees(self.catalog()))
    }

    /// Returns the catalog, which resolves ids and ticks.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        match &self.inner {
            Inner::V2(capture) => capture.catalog(),
            Inner::V3(capture) => capture.catalog(),
        }
    }

    /// Returns the totals, and the damage known so far.
    #[must_use]
    pub fn info(&self) -> Info {
        let mut info = self.inner_info();
        info.marked = info.frames > 0;
        if let Some(unmarked) = self.unmarked() {
            info.frames = 1;
            info.spans = unmarked.frame.span_count;
            info.dropped_spans = unmarked.frame.dropped_spans;
            info.duration_ns = unmarked.frame.duration_ns().unsigned_abs();
        }
        info
    }

    /// Selects the frame set of [`frame_count`](Self::frame_count), [`frame`](Self::frame) and
    /// [`frames`](Self::frames): an index into [`Catalog::frame_sets`], 0 (the main set)
    /// at first. Frames of other sets have no trees.
    ///
    /// # Errors
    ///
    /// There is no such set, or the pass over the file for its frames fails.
    pub fn select_frame_set(&mut self, frame_set: u32) -> Result<(), Error> {
        let known = self.catalog().frame_sets.len().max(1);
        if frame_set as usize >= known {
            return Err(Error::config(format!(
                "there is no frame set {frame_set}: the capture has {known}"
            )));
        }
        if let Inner::V3(capture) = &mut self.inner {
            capture.prepare_frame_set(frame_set)?;
        }
        self.frame_set = frame_set;
        Ok(())
    }

    /// Sets how many spans of a frame are held at most; the rest is counted.
    pub fn set_max_spans(&mut self, max_spans: usize) {
        self.max_spans = max_spans;
        if let Inner::V3(capture) = &mut self.inner {
            capture.set_max_spans(max_spans);
        }
    }

    /// Returns the number of frames of the selected set.
    #[must_use]
    pub fn frame_count(&self) -> u64 {
        match &self.inner {
            Inner::V3(_) if self.frame_set == 0 && self.unmarked.is_some() => 1,
            Inner::V2(capture) => capture.frame_count(),
            Inner::V3(capture) => capture.frame_count(self.frame_set),
        }
    }

    /// Returns frame `i` of the selected set, counted from 0 in the order of the file, with its
    /// span trees.
    ///
    /// # Errors
    ///
    /// There is no such frame, the frame was lost to damage ([`Error::is_corrupt`]), or the file
    /// cannot be read.
    pub fn frame(&mut self, i: u64) -> Result<Arc<FrameSnapshot>, Error> {
        self.recovered(i).map(|recovered| recovered.frame)
    }

    /// Like [`frame`](Self::frame), and returns whether the frame is whole.
    ///
    /// # Errors
    ///
    /// The same as for [`frame`](Self::frame).
    pub fn recovered(&mut self, i: u64) -> Result<Recovered, Error> {
        self.expect_frame(i)?;
        match &mut self.inner {
            Inner::V2(capture) => capture.recovered(i),
            Inner::V3(capture) => match self.unmarked.filter(|_| self.frame_set == 0) {
                Some(unmarked) => unmarked.recovered(capture, self.max_spans),
                None => capture.recovered(self.frame_set, i),
            },
        }
    }

    /// Like [`recovered`](Self::recovered), but returns the spans as batches, in the columns in
    /// which they were recorded, which is several times as fast as trees: the frame then has no
    /// trees. A frame that is not whole, one with more spans than are held, and one of a version-2
    /// capture has its trees, and no batches.
    ///
    /// # Errors
    ///
    /// The same as for [`frame`](Self::frame).
    pub fn recovered_batches(&mut self, i: u64) -> Result<(Recovered, Vec<ThreadBatch>), Error> {
        self.expect_frame(i)?;
        match &mut self.inner {
            Inner::V2(capture) => Ok((capture.recovered(i)?, Vec::new())),
            Inner::V3(capture) => match self.unmarked.filter(|_| self.frame_set == 0) {
                Some(unmarked) => match unmarked.batches(capture, self.max_spans)? {
                    Some(found) => Ok(found),
                    None => Ok((unmarked.recovered(capture, self.max_spans)?, Vec::new())),
                },
                None => capture.recovered_batches(self.frame_set, i),
            },
        }
    }

    fn expect_frame(&self, i: u64) -> Result<(), Error> {
        let count = self.frame_count();
        if i < count {
            return Ok(());
        }
        Err(Error::config(format!(
            "there is no frame {i}: the capture has {count}"
        )))
    }

    /// Returns the frames of a range one after the other; what lies beyond the last frame is left
    /// out. A lost frame is an error in its place.
    pub fn frames(&mut self, range: Range<u64>) -> Frames<'_> {
        let end = range.end.min(self.frame_count());
        Frames {
            range: range.start..end,
            capture: self,
        }
    }

    /// Returns summaries of the frames of the main set from `from` on, without reading their spans:
    /// many times as fast as [`frames`](Self::frames). A lost frame is an error in its place.
    /// Damage within spans shows only when a frame is read.
    pub fn summaries(&mut self, from: u64) -> Summaries<'_> {
        Summaries {
            capture: self,
            scan: FrameScan::new(from),
            failed: false,
        }
    }

    /// Returns the summary of the next frame of a pass, and moves the pass on; `None` behind the
    /// last frame. A pass may pause: frames can be read in between, and it continues when the
    /// capture was [extended](Self::extend).
    ///
    /// # Errors
    ///
    /// The frame was lost to damage ([`Error::is_corrupt`]), and the pass moves on; or the file
    /// cannot be read, and it stays where it is.
    pub fn next_summary(&mut self, scan: &mut FrameScan) -> Option<Result<FrameSummary, Error>> {
        if let Some(unmarked) = self.unmarked() {
            return (scan.next_frame() == 0).then(|| {
                scan.advance();
                Ok(FrameSummary::of(&unmarked))
            });
        }
        match &mut self.inner {
            Inner::V2(capture) => {
                let i = scan.next_frame();
                if i >= capture.frame_count() {
                    return None;
                }
                let recovered = capture.recovered(i);
                if recovered.is_ok() || recovered.as_ref().is_err_and(Error::is_corrupt) {
                    scan.advance();
                }
                Some(recovered.map(|recovered| FrameSummary::of(&recovered)))
            }
            Inner::V3(capture) => capture.next_summary(scan),
        }
    }

    /// Reads the part of the file that was written since it was opened or extended, and returns the
    /// number of frames of the main set. A capture whose recorder had closed it when it was opened
    /// does not grow. [`Info::spans`] then counts the spans of frames only.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or it is shorter than it was ([`Error::is_corrupt`]).
    pub fn extend(&mut self) -> Result<u64, Error> {
        let before = self.inner_info();
        let frames = match &mut self.inner {
            Inner::V2(capture) => capture.extend()?,
            Inner::V3(capture) => {
                let frames = capture.extend()?;
                let info = capture.info();
                // All batches are one frame until a mark comes, or the end.
                if frames > 0 {
                    self.unmarked = None;
                } else if self.is_unmarked_unread
                    || info.closed && info.file_bytes > before.file_bytes
                {
                    self.read_unmarked()?;
                }
                frames
            }
        };
        Ok(self.unmarked.map_or(frames, |_| 1))
    }

    /// Returns all batches from the beginning on, in the memory of one record. A version-2 capture
    /// has none.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn batches(&mut self) -> Result<Batches<'_>, Error> {
        if let Inner::V3(capture) = &mut self.inner {
            capture.rewind();
        }
        Ok(Batches { capture: self })
    }

    /// Returns the next part of the capture, and moves the search on; `None` behind the last one.
    /// The search reads the heads of records only, and continues when the capture was
    /// [extended](Self::extend).
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use vor_capture::reader::{Capture, PartScan};
    ///
    /// let mut capture = Capture::open("run.vor")?;
    /// let (mut scan, mut parts) = (PartScan::new(), Vec::new());
    /// while let Some(part) = capture.next_part(&mut scan)? {
    ///     parts.push(part);
    /// }
    /// // The spans that ended last come first.
    /// for part in parts.iter().rev() {
    ///     println!("{} threads", capture.part(*part)?.threads.len());
    /// }
    /// # Ok::<(), vor_capture::Error>(())
    /// ```
    pub fn next_part(&mut self, scan: &mut PartScan) -> Result<Option<Part>, Error> {
        match &mut self.inner {
            Inner::V3(capture) => scan.next_v3(capture),
            Inner::V2(capture) => {
                let begin = scan.next;
                let part = Part {
                    begin,
                    end: begin + 1,
                };
                let exists = begin < capture.frame_count();
                scan.next += u64::from(exists);
                Ok(exists.then_some(part))
            }
        }
    }

    /// Reads a part of the capture: all that ended in it. Damaged records are left out and counted.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn part(&mut self, part: Part) -> Result<PartContents, Error> {
        match &mut self.inner {
            Inner::V3(capture) => parts::read_v3(capture, part),
            Inner::V2(capture) => match capture.recovered(part.begin) {
                Ok(recovered) => Ok(PartContents {
                    threads: SpanBatch::of_trees(&recovered.frame).threads,
                    frames: vec![PartFrame {
                        start_ticks: recovered.frame.start_ticks,
                        end_ticks: recovered.frame.end_ticks,
                        metrics: recovered.frame.metrics.clone(),
                    }],
                    losses: recovered.lost_records,
                }),
                Err(error) if error.is_corrupt() => Ok(PartContents {
                    losses: 1,
                    ..PartContents::default()
                }),
                Err(error) => Err(error),
            },
        }
    }

    /// Reads the whole file and checks every checksum; returns all that is damaged.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn verify(&mut self) -> Result<Damage, Error> {
        match &mut self.inner {
            Inner::V2(capture) => Ok(capture.info().damage),
            Inner::V3(capture) => capture.verify(),
        }
    }
}

/// Refuses a file without random access before it is opened: opening a pipe without a writer would
/// wait for ever. A missing file is reported when it is opened.
fn expect_file(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a vor capture: it is a pipe or a device, not a file",
        )),
        _ => Ok(()),
    }
}

/// Names the file in an error, and keeps its kind.
fn in_file(path: &Path, error: Error) -> Error {
    let message = format!("{}: {error}", path.display());
    if error.is_version() {
        Error::version(message)
    } else if error.is_corrupt() {
        Error::corrupt(message)
    } else {
        Error::io(path.display().to_string(), error.into())
    }
}

/// The frames of a range; see [`Capture::frames`].
#[derive(Debug)]
pub struct Frames<'a> {
    capture: &'a mut Capture,
    range: Range<u64>,
}

impl Iterator for Frames<'_> {
    type Item = Result<Arc<FrameSnapshot>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let i = self.range.next()?;
        Some(self.capture.frame(i))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

/// The frames of a capture without their spans; see [`Capture::summaries`].
#[derive(Debug)]
pub struct Summaries<'a> {
    capture: &'a mut Capture,
    scan: FrameScan,
    failed: bool,
}

impl Iterator for Summaries<'_> {
    type Item = Result<FrameSummary, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let summary = self.capture.next_summary(&mut self.scan)?;
        // A file that cannot be read is one error, not an endless row of them.
        self.failed = summary.as_ref().is_err_and(|error| !error.is_corrupt());
        Some(summary)
    }
}

/// The batches of a capture; see [`Capture::batches`].
#[derive(Debug)]
pub struct Batches<'a> {
    capture: &'a mut Capture,
}

impl Iterator for Batches<'_> {
    type Item = Result<SpanBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.capture.inner {
            Inner::V2(_) => None,
            Inner::V3(capture) => capture.next_batch().transpose(),
        }
    }
}
