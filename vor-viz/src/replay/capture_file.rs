//! Where a capture is, and whether the file there is still the one that was opened.
//!
//! A recorder only appends, so a file keeps its beginning and never becomes shorter. One that did
//! either is another one: a program that was started again has written to the same path, in a new
//! file or over the old one. A header names the file by a number that no other one has.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes that identify a file: more than the header of a capture with its number.
const HEAD_BYTES: u64 = 64;

/// The path and the identity of the file of a capture.
#[derive(Clone, Debug)]
pub(crate) struct CaptureFile {
    pub(crate) path: PathBuf,
    head: Vec<u8>,
    /// Its size when it was last checked.
    len: u64,
    /// Its device and inode, where the system has them.
    node: Option<(u64, u64)>,
}

impl CaptureFile {
    /// Reads the identity of the file at a path.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for someone who writes to it.
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

    /// Returns whether there is another file now. One that is gone is not replaced: what was opened
    /// can still be read.
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
