//! The file of a capture, and the check whether it is still the opened one.
//!
//! A recorder only appends, so a file keeps its beginning and never becomes shorter. Otherwise it
//! is another file: a restarted program has written to the same path, in a new file or over the old
//! one. The header contains a unique number of the file.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

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

#[cfg(unix)]
fn node(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn node(_: &Metadata) -> Option<(u64, u64)> {
    None
}
