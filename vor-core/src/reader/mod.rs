//! Captures, read back.
//!
//! [`Reader`] streams: it takes any [`Read`], keeps one record in memory, and may be asked again after the end, so it follows a
//! file that still grows. [`Capture`] seeks: it takes a file, finds the frames through the index that a clean close wrote (or
//! makes one by passing over the records), and gives any frame with its span trees. Both read files of version 3 and of the
//! predecessor's version 2, and both say in a [`Damage`] what they could not read.

mod damage;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::Error;
use crate::catalog::MetricColumn;
use crate::format::v2;

pub use damage::{Damage, Loss};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// One frame of a capture, as the predecessor's reader gives it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Values of [`Reader::columns`], in their order.
    pub system: Vec<f64>,
    /// Names and values of the user metrics recorded in the frame.
    pub user: Vec<(String, f64)>,
    /// The spans as one whole puffin frame, which `puffin::FrameData::read_next` reads.
    pub flame: Option<Vec<u8>>,
}

/// Reads a capture from its beginning, frame by frame.
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: R,
    columns: Vec<MetricColumn>,
    flame_enabled: bool,
    damage: Damage,
    decoder: v2::Decoder,
    chunk: Vec<u8>,
}

impl Reader<BufReader<File>> {
    /// Opens a capture.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or read, or what it begins with is not the header of a capture; the text names the path.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(named)?;
        Self::new(BufReader::new(file)).map_err(named)
    }
}

impl<R: Read> Reader<R> {
    /// Makes a reader and reads the header.
    ///
    /// # Errors
    ///
    /// `inner` fails, or what it begins with is not the header of a capture that this build can read.
    pub fn new(mut inner: R) -> io::Result<Self> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut front = Vec::new();
        let header = loop {
            let n = read_some(&mut inner, &mut chunk)?;
            front.extend_from_slice(&chunk[..n]);
            if let Some(header) = v2::parse_header(&front)? {
                break header;
            }
            if n == 0 {
                return Err(Error::corrupt(format!(
                    "the header of a capture was expected, found the end after {} bytes",
                    front.len()
                ))
                .into());
            }
        };
        let mut decoder = v2::Decoder::new(&header);
        decoder.push(&front[header.len..]);
        Ok(Self {
            input: inner,
            columns: header.columns,
            flame_enabled: header.flame_enabled,
            damage: Damage::default(),
            decoder,
            chunk,
        })
    }

    /// Returns the system columns, whose values every frame has.
    pub fn columns(&self) -> &[MetricColumn] {
        &self.columns
    }

    /// Returns the user columns declared so far; they grow as frames are read.
    pub fn user_columns(&self) -> &[MetricColumn] {
        self.decoder.user_columns()
    }

    /// Returns whether the recorder was asked to keep spans; no frame need have some.
    pub const fn flame_enabled(&self) -> bool {
        self.flame_enabled
    }

    /// Returns what could not be read so far.
    pub const fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Returns the next frame, or `None` at the end or at an unfinished record; it may be asked again when more was written.
    ///
    /// # Errors
    ///
    /// The input fails. Damage is no error: it is passed over and told by [`damage`](Self::damage).
    pub fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        let mut at_end = false;
        loop {
            match self.decoder.next_event(at_end) {
                Some(v2::Event::Frame(frame)) => {
                    self.damage.tail = None;
                    return Ok(Some(self.named(frame)));
                }
                Some(v2::Event::Damage(damage)) => self.damage.add(damage.into()),
                Some(v2::Event::Column(_)) => {}
                None if at_end => {
                    self.damage.tail = self.decoder.pending().map(Loss::from);
                    return Ok(None);
                }
                None => {
                    let n = read_some(&mut self.input, &mut self.chunk)?;
                    self.decoder.push(&self.chunk[..n]);
                    at_end = n == 0;
                }
            }
        }
    }

    fn named(&self, frame: v2::Frame) -> Frame {
        let columns = self.decoder.user_columns();
        let user = frame.user.iter();
        Frame {
            user: user
                .map(|&(index, value)| (columns[index].name.clone(), value))
                .collect(),
            system: frame.system,
            flame: frame.flame,
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

fn read_some(input: &mut impl Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
