//! The file of a capture, and the check whether it is still the opened one; and captures that
//! arrive in memory.
//!
//! A recorder only appends, so a file keeps its beginning and never becomes shorter. Otherwise it
//! is another file: a restarted program has written to the same path, in a new file or over the old
//! one. The header contains a unique number of the file.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vor_capture::Error;
use vor_capture::reader::Capture;

/// Number of bytes that identify a file: more than a capture's header with its number.
const HEAD_BYTES: u64 = 64;

/// The path and the identity of the file of a capture.
#[derive(Clone, Debug)]
pub(crate) struct CaptureFile {
    pub(crate) path: PathBuf,
    head: Vec<u8>,
    /// Its size at the last check.
    len: u64,
    /// Its device and inode, if the system has them.
    node: Option<(u64, u64)>,
}

impl CaptureFile {
    /// Reads the identity of the file at a path.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for a writer.
        if !path.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut head = Vec::new();
        file.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(Self {
            path: path.to_owned(),
            head,
            len: metadata.len(),
            node: node(&metadata),
        })
    }

    /// Returns whether the path now has another file. A removed file is not replaced: the opened
    /// one can still be read.
    pub(crate) fn is_replaced(&mut self) -> bool {
        let Ok(now) = Self::new(&self.path) else {
            return false;
        };
        let is_replaced =
            now.node != self.node || now.len < self.len || !now.head.starts_with(&self.head);
        if !is_replaced {
            self.len = now.len;
        }
        is_replaced
    }
}

/// The source of a capture that may grow or be replaced.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    File(CaptureFile),
    Arriving(Arriving),
}

impl Origin {
    /// Returns whether another capture has taken the place of the opened one.
    pub(crate) fn is_replaced(&mut self) -> bool {
        match self {
            Self::File(file) => file.is_replaced(),
            Self::Arriving(_) => false,
        }
    }

    /// Returns the path of the capture, if it is a file.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(file) => Some(&file.path),
            Self::Arriving(_) => None,
        }
    }

    /// Opens what is there now, with its new identity.
    pub(crate) fn reopen(&self) -> Option<(Capture, Self)> {
        match self {
            Self::File(file) => {
                let file = CaptureFile::new(&file.path).ok()?;
                let capture = Capture::open_lazily(&file.path).ok()?;
                Some((capture, Self::File(file)))
            }
            Self::Arriving(bytes) => {
                let capture = Capture::new(bytes.reader()).ok()?;
                Some((capture, self.clone()))
            }
        }
    }

    /// Returns whether the capture was not scanned when it was opened.
    pub(crate) fn is_lazy(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// Where the bytes of a capture are, for readers of their own.
#[derive(Clone, Debug)]
pub enum Source {
    /// In a file.
    File(PathBuf),
    /// In memory.
    Memory(Arriving),
}

impl Source {
    /// Opens the capture once more.
    ///
    /// # Errors
    ///
    /// The capture cannot be read.
    pub fn open(&self) -> Result<Capture, Error> {
        match self {
            Self::File(path) => Capture::open(path),
            Self::Memory(bytes) => Capture::new(bytes.reader()),
        }
    }
}

/// The bytes of a capture in memory. More may arrive while it is shown, such as those of a
/// WebSocket.
#[derive(Clone, Debug, Default)]
pub struct Arriving(Arc<Mutex<Vec<u8>>>);

impl From<Vec<u8>> for Arriving {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }
}

impl Arriving {
    /// Appends bytes.
    pub fn push(&self, bytes: &[u8]) {
        self.bytes().extend_from_slice(bytes);
    }

    /// Returns how many bytes have arrived.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Returns whether nothing has arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    pub(crate) fn reader(&self) -> ArrivingReader {
        ArrivingReader {
            bytes: self.clone(),
            at: 0,
        }
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        // Bytes are appended whole, or not at all.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what has arrived, as a file that grows.
#[derive(Debug)]
pub(crate) struct ArrivingReader {
    bytes: Arriving,
    at: u64,
}

impl Read for ArrivingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.bytes();
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let read = bytes.get(at..).unwrap_or_default().read(buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for ArrivingReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let from = |base: u64, offset| base.checked_add_signed(offset);
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(offset) => from(self.at, offset),
            SeekFrom::End(offset) => from(self.bytes.len() as u64, offset),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(unix)]
fn node(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn node(_: &Metadata) -> Option<(u64, u64)> {
    None
}
