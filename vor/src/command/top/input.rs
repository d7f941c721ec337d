//! The source of records: a stream, a file that may grow, or one segment after the other.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vor_capture::reader::{Reader, SegmentedCapture};
use vor_recorder::sinks::live::Choice;

use super::model::Model;
use crate::command::failure::Failure;
use crate::command::live::{self, Stream};

/// How often to look whether a file has grown.
const POLL: Duration = Duration::from_millis(50);

/// A source of records.
pub(super) struct Input {
    name: String,
    reader: Reader<Source>,
    /// The folder or pattern, and the segment that is read.
    segments: Option<(PathBuf, PathBuf)>,
    /// Whether nothing more was there at the last look.
    has_all: bool,
}

enum Source {
    Stream(Stream),
    File(File),
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.read(buffer),
            Self::File(file) => file.read(buffer),
        }
    }
}

impl Input {
    pub(super) fn open(source: &OsStr, spans: Choice) -> Result<Self, Failure> {
        if let Some(address) = live::address_of(source)? {
            let stream = live::open(&address, spans)?;
            let failed = |error: io::Error| Failure::Message(format!("{address}: {error}"));
            let reader = Reader::new(Source::Stream(stream)).map_err(failed)?;
            return Ok(Self {
                name: address.to_string(),
                reader,
                segments: None,
                has_all: false,
            });
        }
        let wanted = Path::new(source);
        let (path, segments) = match SegmentedCapture::list(wanted)? {
            Some(all) => {
                let newest = all.into_iter().next_back();
                let newest = newest.ok_or_else(|| Failure::in_file(wanted, "no segment yet"))?;
                (newest.clone(), Some((wanted.to_owned(), newest)))
            }
            None => (wanted.to_owned(), None),
        };
        Ok(Self {
            name: wanted.display().to_string(),
            reader: open_file(&path)?,
            segments,
            has_all: false,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.reader.get_ref(), Source::Stream(_))
    }

    /// Returns whether nothing more will come.
    pub(super) fn has_ended(&self) -> bool {
        match self.reader.get_ref() {
            Source::Stream(stream) => stream.has_ended,
            Source::File(_) => self.has_all && self.reader.damage().tail.is_none(),
        }
    }

    /// Returns whether everything that is there was read.
    pub(super) fn has_all(&self) -> bool {
        self.has_all
    }

    /// Returns how long to wait for keys before the next look.
    pub(super) fn pause(&self) -> Duration {
        match self.is_live() && !self.has_ended() || !self.has_all {
            true => Duration::ZERO,
            false => POLL,
        }
    }

    /// Reads what is there, for about `most`.
    pub(super) fn read_into(&mut self, model: &mut Model, most: Duration) -> Result<(), Failure> {
        let begun = Instant::now();
        self.has_all = false;
        while begun.elapsed() < most {
            let failed = |error: io::Error| Failure::Message(format!("{}: {error}", self.name));
            match self.reader.next_event().map_err(failed)? {
                Some(event) => model.take(event),
                None if self.begin_next_segment()? => {}
                None => {
                    self.has_all = true;
                    break;
                }
            }
        }
        if let Some(catalog) = self.reader.catalog() {
            model.set_catalog(catalog);
        }
        model.set_state(match (self.has_ended(), self.is_live()) {
            (true, _) => "ended",
            (false, true) => "live",
            (false, false) => "follows",
        });
        if self.is_live() && self.has_all {
            model.pass_time();
        }
        Ok(())
    }

    fn begin_next_segment(&mut self) -> Result<bool, Failure> {
        let Some((wanted, current)) = &mut self.segments else {
            return Ok(false);
        };
        if self.reader.damage().tail.is_some() {
            return Ok(false);
        }
        let all = SegmentedCapture::list(wanted)?.unwrap_or_default();
        let Some(next) = all.into_iter().find(|next| next > current) else {
            return Ok(false);
        };
        self.reader = open_file(&next)?;
        *current = next;
        Ok(true)
    }
}

fn open_file(path: &Path) -> Result<Reader<Source>, Failure> {
    let failed = |error: io::Error| Failure::in_file(path, error);
    let reader = Reader::new(Source::File(File::open(path).map_err(failed)?)).map_err(failed)?;
    if reader.version() == 2 {
        return Err(Failure::in_file(
            path,
            "a capture of version 2 has no scopes to show here; `vor tail` shows its frames",
        ));
    }
    Ok(reader)
}
