//! The survey of a large capture, kept in a file beside it: the next opening shows every level of
//! detail without reading the whole capture.
//!
//! The file is a cache. It is an LZ4 frame, whose checksums find damage, of a [`Stamp`] and a
//! survey in the form of `postcard`. One that cannot be read, or is of another capture, is made
//! again. If it cannot be written, the next opening takes as long as this one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use lz4_flex::frame::{BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use serde::{Deserialize, Serialize};

use super::archive::Archive;
use super::thinned::Thinned;

/// Changes with the form of everything that is kept.
const FORM: u32 = 2;

/// Most bytes of the content, several times more than any survey has.
const MAX_BYTES: u64 = 1 << 30;

/// The least time that a survey takes if it is kept. Tests have small captures.
const WORTH_KEEPING: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 500 });

/// A capture and a way to survey it. Surveys with the same stamp have the same result.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Stamp {
    form: u32,
    /// The first bytes of the capture, with its random number.
    head: Vec<u8>,
    len: u64,
    /// When it was written last, since 1970.
    modified: Duration,
    origin_ns: i64,
    max_spans: u64,
}

/// The file of the survey of a capture.
#[derive(Clone, Debug)]
pub(crate) struct SurveyFile {
    capture: PathBuf,
    origin_ns: i64,
    max_spans: usize,
}

#[cfg(test)]
impl Stamp {
    pub(super) fn modified(&self) -> Duration {
        self.modified
    }
}

impl SurveyFile {
    /// Makes the name of the file for a capture, and for a survey that counts times from
    /// `origin_ns` and keeps up to `max_spans` spans.
    pub(crate) fn of(capture: PathBuf, origin_ns: i64, max_spans: usize) -> Self {
        Self {
            capture,
            origin_ns,
            max_spans,
        }
    }

    /// Returns whether a survey that took some time is kept.
    pub(crate) fn is_worth(took: Duration) -> bool {
        took >= WORTH_KEEPING
    }

    /// Returns the stamp of the capture as it is now.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        /// More than a capture's header.
        const HEAD_BYTES: u64 = 64;
        let file = File::open(&self.capture).ok()?;
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let modified = metadata.modified().ok()?;
        let mut head = Vec::new();
        file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
        Some(Stamp {
            form: FORM,
            head,
            len: metadata.len(),
            modified: modified.duration_since(std::time::UNIX_EPOCH).ok()?,
            origin_ns: self.origin_ns,
            max_spans: self.max_spans as u64,
        })
    }

    /// Reads the survey, if there is one with this stamp.
    pub(crate) fn read(&self, stamp: &Stamp) -> Option<(Archive, Thinned)> {
        let file = File::open(self.path("")).ok()?;
        let mut bytes = Vec::new();
        let mut content = FrameDecoder::new(file).take(MAX_BYTES);
        content.read_to_end(&mut bytes).ok()?;
        let (found, rest) = postcard::take_from_bytes::<Stamp>(&bytes).ok()?;
        if found != *stamp {
            return None;
        }
        postcard::from_bytes(rest).ok()
    }

    /// Writes a survey in the background. `stamp` is that of the capture before the survey; if it
    /// has changed since, nothing is written. Returns whether the writing has begun.
    pub(crate) fn write(self, stamp: Stamp, archive: &Archive, thinned: Thinned) -> bool {
        if self.stamp().as_ref() != Some(&stamp) {
            return false;
        }
        let Ok(archive) = postcard::to_allocvec(archive) else {
            return false;
        };
        let work = move || self.write_now(&stamp, &archive, &thinned);
        let named = thread::Builder::new().name("vor-survey".into());
        named.spawn(move || _ = work()).is_ok()
    }

    fn write_now(&self, stamp: &Stamp, archive: &[u8], thinned: &Thinned) -> io::Result<()> {
        let part = self.path(".part");
        let mut info = FrameInfo::new().block_size(BlockSize::Max1MB);
        info.block_checksums = true;
        info.content_checksum = true;
        let mut out = FrameEncoder::with_frame_info(info, File::create(&part)?);
        out.write_all(&postcard::to_allocvec(stamp).map_err(io::Error::other)?)?;
        out.write_all(archive)?;
        out.write_all(&postcard::to_allocvec(thinned).map_err(io::Error::other)?)?;
        out.finish().map_err(io::Error::other)?;
        // Nobody finds a file that is written in part.
        fs::rename(part, self.path(""))
    }

    /// Returns the path of the file, with an end.
    fn path(&self, end: &str) -> PathBuf {
        let mut path = OsString::from(&self.capture);
        path.push(".survey");
        path.push(end);
        path.into()
    }
}
