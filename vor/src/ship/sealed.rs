//! Which segments of a folder are complete.
//!
//! A recorder locks the file that it writes, and a reader may create `<segment>.lock` beside one.
//! Neither is shipped. A recorder that was killed leaves a file without an end. It is shipped when
//! nobody has it locked and it has not changed for some time: a recorder creates a file before it
//! locks it. Where the file system has no locks, the process that wrote it must have ended.
//!
//! While a segment is shipped, it has a shared lock, for which recorders do not delete it. Such a
//! lock ends with its process.

use std::fs::{self, File, Metadata, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vor_capture::Error;
use vor_capture::reader::{Capture, is_closed};
use vor_recorder::__private::has_lock_file;

use crate::writer::{self, Writer};

/// A file of the folder that may be a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) state: FileState,
}

/// What identifies the contents of a file: they change with neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    pub(super) bytes: u64,
    /// When the file was written, in nanoseconds since 1970; 0 if the system does not say.
    pub(super) written_ns: u64,
}

impl FileState {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let written = metadata.modified().ok();
        let since = written.and_then(|written| written.duration_since(UNIX_EPOCH).ok());
        let ns = since.map_or(0, |since| since.as_nanos());
        Self {
            bytes: metadata.len(),
            written_ns: u64::try_from(ns).unwrap_or(u64::MAX),
        }
    }

    /// Returns how long ago the file was written; 0 for a time in the future.
    pub(super) fn age(self) -> Duration {
        let written = UNIX_EPOCH + Duration::from_nanos(self.written_ns);
        SystemTime::now()
            .duration_since(written)
            .unwrap_or_default()
    }
}

/// Returns the files `*.vor` of a folder, the oldest first.
pub(super) fn list(folder: &Path) -> Result<Vec<Segment>, Error> {
    let failed = |error| Error::io(folder.display().to_string(), error);
    let mut segments = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // A name that is no text is none of a recorder's.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if !name.ends_with(".vor") || name.starts_with('.') {
            continue;
        }
        // It may have been deleted since. A link is not followed: no recorder wrote it.
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            segments.push(Segment {
                path: entry.path(),
                name,
                state: FileState::of(&metadata),
            });
        }
    }
    segments.sort_by(|a, b| {
        let key = |segment: &Segment| segment.state.written_ns;
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    Ok(segments)
}

/// A sealed segment, which recorders do not delete while this value is there.
#[derive(Debug)]
pub(super) struct Held(pub(super) File);

impl Drop for Held {
    fn drop(&mut self) {
        // A child that the program has forked meanwhile has the same file open, and would hold the
        // lock for as long as it lives. Some file systems have no locks.
        drop(self.0.unlock());
    }
}

/// Opens a segment and keeps recorders from deleting it. Returns `None` if it is not sealed.
pub(super) fn hold(segment: &Segment, quiet: Duration) -> Result<Option<Held>, Error> {
    let failed = |error| Error::io(segment.path.display().to_string(), error);
    if has_lock_file(&segment.path) {
        return Ok(None);
    }
    let file = File::open(&segment.path).map_err(failed)?;
    let is_closed = is_closed(&file);
    let state = FileState::of(&file.metadata().map_err(failed)?);
    if !is_closed && state.age() < quiet {
        return Ok(None);
    }
    let locked = file.try_lock_shared();
    let is_free = is_free(locked, is_closed, || has_ended(&segment.path));
    Ok(is_free.then_some(Held(file)))
}

/// Returns whether no recorder writes a file, by the answer to an attempt to lock it.
fn is_free(
    locked: Result<(), TryLockError>,
    is_closed: bool,
    has_ended: impl FnOnce() -> bool,
) -> bool {
    match locked {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        // The file system has no locks.
        Err(TryLockError::Error(_)) => is_closed || has_ended(),
    }
}

/// Returns whether the process that wrote a capture is known to have ended.
fn has_ended(path: &Path) -> bool {
    let Ok(capture) = Capture::open(path) else {
        return false;
    };
    matches!(writer::find(path, capture.catalog()), Writer::Gone(_))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_file_is_free_if_it_can_be_locked_or_its_recorder_has_ended() {
        let locked = || Err(TryLockError::WouldBlock);
        let unsupported = || Err(TryLockError::Error(io::ErrorKind::Unsupported.into()));
        for (is_closed, has_ended) in [(false, false), (false, true), (true, false), (true, true)] {
            assert!(is_free(Ok(()), is_closed, || has_ended));
            assert!(!is_free(locked(), is_closed, || has_ended));
            let is_complete = is_closed || has_ended;
            assert_eq!(is_free(unsupported(), is_closed, || has_ended), is_complete);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_recorder_of_an_earlier_boot_has_ended() {
        use std::sync::Arc;

        use vor_capture::filled;
        use vor_capture::format::RecordRef;
        use vor_capture::model::catalog::{Catalog, MachineInfo, ProcessInfo};

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.vor");
        for (host, is_ended) in [
            (vor_recorder::__private::host_name(), true),
            ("elsewhere".to_owned(), false),
        ] {
            let machine = Arc::new(filled!(MachineInfo {
                host,
                boot_id: "an earlier one".into(),
            }));
            let known = vor_fixtures::even::catalog();
            let catalog = filled!(Catalog {
                machine,
                ..(*known).clone()
            });
            let (mut encoder, mut bytes) = vor_fixtures::even::begin(&catalog);
            let process = filled!(ProcessInfo { pid: 7 });
            encoder.encode(RecordRef::Process(&process), &mut bytes);
            fs::write(&path, bytes).unwrap();
            assert_eq!(has_ended(&path), is_ended);
        }
        fs::write(&path, "no capture").unwrap();
        assert!(!has_ended(&path));
    }
}
