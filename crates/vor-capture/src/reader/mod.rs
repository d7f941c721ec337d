//! Readers of captures.
//!
//! [`Reader`] streams: it takes any [`Read`], keeps one record in memory, and can be called again
//! after the end, so it follows a file that still grows. [`Capture`] seeks: it takes a file, finds
//! the frames through the index that a clean close wrote (or by a pass over all records), and
//! returns any frame with its span trees. Both read files of version 3 and of the predecessor's
//! version 2, and both report in a [`Damage`] which parts they could not read.

mod assemble;
#[cfg(feature = "seek")]
mod capture;
#[cfg(feature = "seek")]
mod capture_v2;
#[cfg(feature = "seek")]
mod capture_v3;
#[cfg(feature = "seek")]
mod capture_unmarked;
mod closed;
#[cfg(feature = "seek")]
mod columns;
mod damage;
#[cfg(feature = "seek")]
mod ordinals;
#[cfg(feature = "seek")]
mod parts;
#[cfg(feature = "seek")]
mod pass;
#[cfg(feature = "seek")]
mod pieces;
mod records;
#[cfg(feature = "seek")]
mod lookahead;
#[cfg(feature = "seek")]
mod segments;
#[cfg(feature = "seek")]
mod skim;
#[cfg(feature = "seek")]
mod sparse;
#[cfg(feature = "seek")]
mod summary;
mod unmarked;
mod v3;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use crate::Error;
use crate::format::{self, OpenScopes, v2};
use crate::model::batch::SpanBatch;
use crate::model::catalog::{Catalog, MetricColumn};
use crate::model::frame::FrameSnapshot;
use crate::model::heap::HeapSnapshot;
use crate::model::scheduler::SchedulerBatch;
use v3::StreamV3;

pub use assemble::Recovered;
#[cfg(feature = "seek")]
pub use capture::{Batches, Capture, Frames, Info, Summaries};
pub use closed::is_closed;
#[cfg(feature = "seek")]
pub use columns::{ArgsRow, Columns, ColumnsBuilder, MessageRow, Run, TaskRow};
pub use damage::{Damage, Loss};
#[cfg(feature = "seek")]
pub use lookahead::Lookahead;
#[cfg(feature = "seek")]
pub use parts::{Part, PartContents, PartFrame, PartScan};
#[cfg(feature = "seek")]
pub use pieces::{Piece, Pieces};
#[cfg(feature = "seek")]
pub use segments::{SegmentFollower, SegmentPieces, SegmentedCapture};
#[cfg(feature = "seek")]
pub use summary::{FrameScan, FrameSummary};

/// Bytes of one read.
const CHUNK_BYTES: usize = 64 << 10;

/// Most spans of a frame that are held by default; the rest is counted.
pub const DEFAULT_MAX_SPANS: usize = 1 << 20;

/// One frame of a capture, in the shape of the predecessor's reader.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Values of [`Reader::columns`], in their order; NaN where the frame has no value.
    pub system: Vec<f64>,
    /// Names and values of the user metrics recorded in the frame, by name.
    pub user: Vec<(String, f64)>,
    /// The spans as one whole puffin frame, which `puffin::FrameData::read_next` reads. Absent when
    /// the frame has none, or not all of them could be read; in a capture of version 3 also where
    /// the reader has no [encoder](Reader::with_flames).
    pub flame: Option<Vec<u8>>,
}

/// The next part of a capture of version 3; see [`Reader::next_event`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Spans that ended in the frame to come.
    Batch(SpanBatch),
    /// A finished frame without its trees: the spans are in the batches before it.
    Frame(Recovered),
    /// The scopes that were open at a close or a crash.
    OpenScopes(OpenScopes),
    /// Live memory at a moment, where `Config::heap_snapshots` is on.
    Heap(HeapSnapshot),
    /// Events of the operating system's scheduler, where `Config::scheduler` is on.
    Scheduler(SchedulerBatch),
    /// A part that could not be read; [`Reader::damage`] has it too.
    Loss(Loss),
}

/// Encodes the spans of a frame as a puffin frame, or returns nothing.
pub type FlameEncoder = fn(&FrameSnapshot) -> Option<Vec<u8>>;

/// Reads a capture from its beginning, frame by frame; also one that is still being written.
///
/// # Examples
///
/// ```no_run
/// use vor_capture::reader::Reader;
///
/// let mut reader = Reader::open("run.vor")?;
/// while let Some(frame) = reader.next_frame()? {
///     println!("{:?}", frame.user);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: R,
    damage: Damage,
    stream: Stream,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one per reader, and it is not moved about"
)]
enum Stream {
    V2 {
        header: v2::Header,
        decoder: v2::Decoder,
        chunk: Vec<u8>,
    },
    V3(StreamV3),
}

/// The header of a capture of either version, with its length.
pub(crate) enum AnyHeader {
    V2(v2::Header),
    V3(format::Header, usize),
}

impl Reader<BufReader<File>> {
    /// Opens a capture.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or read, or does not begin with the header of a capture; the text
    /// names the path.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = open_file(path).map_err(named)?;
        Self::new(BufReader::new(file)).map_err(named)
    }
}

impl<R: Read> Reader<R> {
    /// Makes a reader and reads the header, and of a capture of version 3 the declarations behind
    /// it.
    ///
    /// # Errors
    ///
    /// `inner` fails, or does not begin with the header of a capture that this build can read.
    pub fn new(mut inner: R) -> io::Result<Self> {
        let (header, bytes) = read_header(&mut inner)?;
        let mut damage = Damage::default();
        let stream = match header {
            AnyHeader::V2(header) => {
                let mut decoder = v2::Decoder::new(&header);
                decoder.push(&bytes[header.len..]);
                Stream::V2 {
                    header,
                    decoder,
                    chunk: vec![0; CHUNK_BYTES],
                }
            }
            AnyHeader::V3(header, len) => {
                let mut stream = StreamV3::new(header, len, &bytes[len..], DEFAULT_MAX_SPANS);
                stream.read_ahead(&mut inner, &mut damage)?;
                Stream::V3(stream)
            }
        };
        Ok(Self {
            input: inner,
            damage,
            stream,
        })
    }

    /// Sets the encoder of [`Frame::flame`] for captures of version 3. A capture of version 2 holds
    /// its flames.
    #[must_use]
    pub fn with_flames(mut self, encoder: FlameEncoder) -> Self {
        if let Stream::V3(stream) = &mut self.stream {
            stream.set_flames(encoder);
        }
        self
    }

    /// Returns the system columns, for which every frame has a value. In a capture of version 3
    /// they may grow as frames are read.
    pub fn columns(&self) -> &[MetricColumn] {
        match &self.stream {
            Stream::V2 { header, .. } => &header.columns,
            Stream::V3(stream) => stream.columns(),
        }
    }

    /// Returns the user columns declared so far; they grow as frames are read.
    pub fn user_columns(&self) -> &[MetricColumn] {
        match &self.stream {
            Stream::V2 { decoder, .. } => decoder.user_columns(),
            Stream::V3(stream) => stream.user_columns(),
        }
    }

    /// Returns whether frames may have flames; no frame need have one. A capture of version 3
    /// states whether it keeps spans; they become flames only with an [encoder](Self::with_flames).
    pub const fn flame_enabled(&self) -> bool {
        match &self.stream {
            Stream::V2 { header, .. } => header.flame_enabled,
            Stream::V3(stream) => stream.header().keeps_spans() && stream.has_flames(),
        }
    }

    /// Returns the input.
    pub const fn get_ref(&self) -> &R {
        &self.input
    }

    /// Returns the version of the file's format.
    pub const fn version(&self) -> u16 {
        match &self.stream {
            Stream::V2 { .. } => 2,
            Stream::V3(_) => format::VERSION,
        }
    }

    /// Returns the catalog of a capture of version 3, as far as it was read.
    pub fn catalog(&self) -> Option<&Arc<Catalog>> {
        match &self.stream {
            Stream::V2 { .. } => None,
            Stream::V3(stream) => Some(stream.catalog()),
        }
    }

    /// Returns the damage met so far.
    pub const fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Returns the next frame, or `None` at the end or at an unfinished record; a later call goes
    /// on when more was written.
    ///
    /// # Errors
    ///
    /// The input fails. Damage is not an error: it is skipped, and [`damage`](Self::damage) reports
    /// it.
    pub fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        let Self {
            input,
            damage,
            stream,
        } = self;
        match stream {
            Stream::V2 { decoder, chunk, .. } => next_v2(input, damage, decoder, chunk),
            Stream::V3(stream) => {
                let Some(recovered) = stream.next_recovered(input, damage)? else {
                    return Ok(None);
                };
                let frame = stream.plain(&recovered);
                add_missing(damage, &recovered);
                Ok(Some(frame))
            }
        }
    }

    /// Returns the next frame of the main set with its span trees, and whether it is whole. See
    /// [`next_frame`](Self::next_frame).
    ///
    /// # Errors
    ///
    /// The input fails, or the capture is of version 2, whose trees [`Capture`] makes.
    pub fn next_recovered(&mut self) -> io::Result<Option<Recovered>> {
        let Self {
            input,
            damage,
            stream,
        } = self;
        let Stream::V3(stream) = stream else {
            return Err(needs_v3());
        };
        let recovered = stream.next_recovered(input, damage)?;
        if let Some(recovered) = &recovered {
            add_missing(damage, recovered);
        }
        Ok(recovered)
    }

    /// Returns the next batch, frame or other part of a capture of version 3, in the memory of one
    /// record, however long its frames.
    ///
    /// Batches returned here are missing from the trees of a frame that is read afterwards.
    ///
    /// # Errors
    ///
    /// The input fails, or the capture is of version 2.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        let Self {
            input,
            damage,
            stream,
        } = self;
        match stream {
            Stream::V3(stream) => stream.next_event(input, damage),
            Stream::V2 { .. } => Err(needs_v3()),
        }
    }
}

fn needs_v3() -> io::Error {
    Error::version("a capture of version 2 has no batches").into()
}

/// Adds a frame whose records are not all there.
fn add_missing(damage: &mut Damage, recovered: &Recovered) {
    if let Some(loss) = recovered.loss() {
        damage.add(loss);
    }
}

fn next_v2(
    input: &mut impl Read,
    damage: &mut Damage,
    decoder: &mut v2::Decoder,
    chunk: &mut [u8],
) -> io::Result<Option<Frame>> {
    let mut at_end = false;
    loop {
        match decoder.next_event(at_end) {
            Some(v2::Event::Frame(frame)) => {
                damage.tail = None;
                let columns = decoder.user_columns();
                let user = frame.user.iter();
                return Ok(Some(Frame {
                    user: user
                        .map(|&(index, value)| (columns[index].name.clone(), value))
                        .collect(),
                    system: frame.system,
                    flame: frame.flame,
                }));
            }
            Some(v2::Event::Damage(found)) => damage.add(found.into()),
            Some(v2::Event::Column(_)) => {}
            None if at_end => {
                damage.tail = decoder.pending().map(Loss::from);
                return Ok(None);
            }
            None => {
                let n = read_some(input, chunk)?;
                decoder.push(&chunk[..n]);
                at_end = n == 0;
            }
        }
    }
}

impl From<format::Damage> for Loss {
    fn from(damage: format::Damage) -> Self {
        Self {
            offset: damage.offset,
            bytes: damage.bytes,
            reason: damage.to_string(),
        }
    }
}

impl From<v2::Damage> for Loss {
    fn from(damage: v2::Damage) -> Self {
        Self {
            offset: damage.offset,
            bytes: damage.bytes,
            reason: damage.reason,
        }
    }
}

/// Opens a file for reading. Some systems can open a folder too, and others refuse it without its
/// name, so it is checked first.
fn open_file(path: &Path) -> io::Result<File> {
    if path.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "not a vor capture: it is a directory",
        ));
    }
    File::open(path).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("the capture cannot be opened: {error}"),
        )
    })
}

/// Reads until the header is whole; returns it and all bytes read.
fn read_header(input: &mut impl Read) -> Result<(AnyHeader, Vec<u8>), Error> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = Vec::new();
    loop {
        let n = read_some(input, &mut chunk)
            .map_err(|error| Error::io("cannot read the header", error))?;
        bytes.extend_from_slice(&chunk[..n]);
        if let Some(header) = parse_any_header(&bytes)? {
            return Ok((header, bytes));
        }
        if n == 0 {
            let len = bytes.len();
            return Err(Error::corrupt(match len {
                0 => "not a vor capture: the file is empty".into(),
                _ => format!("the capture ends after {len} bytes, within its header"),
            }));
        }
    }
}

fn parse_any_header(bytes: &[u8]) -> Result<Option<AnyHeader>, Error> {
    let known = bytes.len().min(v2::MAGIC.len());
    if bytes[..known] != v2::MAGIC[..known] {
        return Err(Error::corrupt(format!(
            "not a vor capture: it starts with {:?}",
            String::from_utf8_lossy(&bytes[..known])
        )));
    }
    match bytes.get(4..6) {
        None => Ok(None),
        Some([2, 0]) => Ok(v2::parse_header(bytes)?.map(AnyHeader::V2)),
        Some([3, 0]) => {
            Ok(format::Header::decode(bytes)?.map(|(header, len)| AnyHeader::V3(header, len)))
        }
        Some(version) => Err(Error::version(format!(
            "the capture has version {}; this vor reads versions 2 and 3",
            u16::from_le_bytes([version[0], version[1]])
        ))),
    }
}

fn read_some(input: &mut impl Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
