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
            model.pass_time(Instant::now());
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

#[cfg(test)]
mod tests {
    use vor_fixtures::even;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn open(path: &Path) -> Input {
        Input::open(path.as_os_str(), Choice::All).unwrap()
    }

    fn message(path: &Path) -> String {
        match Input::open(path.as_os_str(), Choice::All).err().unwrap() {
            Failure::Message(message) => message,
            Failure::PipeClosed => panic!("a pipe"),
        }
    }

    /// Returns the state of an input: its text, and whether all was read and nothing more comes.
    fn state(input: &Input, model: &Model) -> (&'static str, bool, bool, Duration) {
        let (has_all, has_ended) = (input.has_all(), input.has_ended());
        (model.state, has_all, has_ended, input.pause())
    }

    #[test]
    fn a_file_is_read_until_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        std::fs::write(&path, even::make(5, 3, false).bytes).unwrap();
        let (mut input, mut model) = (open(&path), Model::new("test"));
        assert_eq!(input.name(), path.display().to_string());
        assert_eq!(state(&input, &model), ("", false, false, Duration::ZERO));
        // No time is enough for nothing.
        input.read_into(&mut model, Duration::ZERO).unwrap();
        assert_eq!(model.frames.len(), 0);
        assert_eq!(
            state(&input, &model),
            ("follows", false, false, Duration::ZERO)
        );
        input.read_into(&mut model, LONG).unwrap();
        assert_eq!((model.frames.len(), model.spans), (5, 15));
        assert_eq!(model.catalog.sites.len(), 2);
        assert_eq!(state(&input, &model), ("follows", true, false, POLL));
        // The rest is read when it is there.
        std::fs::write(&path, even::make(9, 3, true).bytes).unwrap();
        input.read_into(&mut model, LONG).unwrap();
        assert_eq!((model.frames.len(), model.spans), (9, 27));
        assert_eq!(state(&input, &model), ("ended", true, true, POLL));
    }

    #[test]
    fn segments_follow_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, frames, is_closed| {
            let bytes = even::make(frames, 3, is_closed).bytes;
            std::fs::write(folder.path().join(name), bytes).unwrap();
        };
        let path = folder.path().display().to_string();
        assert!(message(folder.path()).contains("no capture (*.vor) is there"));
        put("1.vor", 2, true);
        put("2.vor", 3, false);
        let (mut input, mut model) = (open(folder.path()), Model::new("test"));
        assert_eq!(input.name(), path);
        let mut frames = |input: &mut Input| {
            input.read_into(&mut model, LONG).unwrap();
            (model.frames.len(), model.state)
        };
        // The newest one, as long as it is not closed.
        assert_eq!(frames(&mut input), (3, "follows"));
        put("3.vor", 4, false);
        assert_eq!(frames(&mut input), (3, "follows"));
        put("2.vor", 3, true);
        assert_eq!(frames(&mut input), (7, "follows"));
        put("3.vor", 4, true);
        assert_eq!(frames(&mut input), (7, "ended"));
        put("4.vor", 1, true);
        assert_eq!(frames(&mut input), (8, "ended"));
    }

    #[test]
    fn captures_without_scopes_are_refused() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/data/v2/flame.vor");
        assert!(message(&path).ends_with(
            "flame.vor: a capture of version 2 has no scopes to show here; `vor tail` shows its \
            frames"
        ));
    }

    #[cfg(unix)]
    #[test]
    fn a_program_is_read_until_it_closes_the_connection() {
        use std::io::Write;
        use std::os::unix::net::UnixListener;
        use std::sync::mpsc;

        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let (ends, is_over) = mpsc::channel();
        let program = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(&even::make(5, 3, false).bytes).unwrap();
            let () = is_over.recv().unwrap();
        });
        let address = format!("unix:{}", socket.display());
        let mut input = Input::open(OsStr::new(&address), Choice::All).unwrap();
        let mut model = Model::new(input.name());
        assert_eq!(model.source, address);
        input.read_into(&mut model, LONG).unwrap();
        assert_eq!((model.frames.len(), model.spans), (5, 15));
        assert_eq!(state(&input, &model), ("live", true, false, Duration::ZERO));
        ends.send(()).unwrap();
        program.join().unwrap();
        input.read_into(&mut model, LONG).unwrap();
        assert_eq!(state(&input, &model), ("ended", true, true, POLL));
    }
}
