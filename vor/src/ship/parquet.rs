//! A segment as tables in Parquet, by host and date.

use std::fs;
use std::path::{Path, PathBuf};

use vor_capture::Error;
use vor_capture::reader::{Capture, Piece, Pieces};
use vor_capture::sink::FrameSink;
use vor_export::parquet::{Dataset, Origin, Partition, date};

use super::upload::Bound;

const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// What the names of a segment's objects follow from.
#[derive(Debug)]
pub(super) struct Identity {
    /// The name of the machine in the capture; empty if it has none.
    pub(super) host: String,
    /// The day, in UTC, on which the segment begins.
    pub(super) date: String,
}

/// Returns what a segment says about its origin.
pub(super) fn identity(capture: &Capture) -> Identity {
    let catalog = capture.catalog();
    let first = catalog.timeline.syncs().first();
    Identity {
        host: catalog.machine.host.clone(),
        date: match first {
            Some(sync) => date(sync.unix_ns.div_euclid(DAY_NS)),
            None => UNKNOWN_DATE.to_owned(),
        },
    }
}

/// The date of a segment that does not say when it begins.
pub(super) const UNKNOWN_DATE: &str = "unknown";

/// The tables of a segment.
#[derive(Debug)]
pub(super) enum Tables {
    /// The files, and their paths beneath the folder, with slashes.
    Complete(Vec<(PathBuf, String)>),
    /// The segment is damaged: in how many places, or why it cannot be read.
    Damaged(String),
    /// The request to stop came.
    Stopped,
}

impl Tables {
    /// Returns damage, and fails with any other error.
    fn unreadable(error: Error) -> Result<Self, Error> {
        match error.is_corrupt() {
            true => Ok(Self::Damaged(error.to_string())),
            false => Err(error),
        }
    }
}

/// Writes all tables of a segment into `folder`. `stem` is its name without the extension.
///
/// The incomplete record at the end of a killed program's segment is no damage.
pub(super) fn write(
    path: &Path,
    capture: &mut Capture,
    folder: &Path,
    stem: &str,
    host: &str,
    version: Option<&str>,
    bound: &Bound<'_>,
) -> Result<Tables, Error> {
    let mut origin = Origin::default().host(host);
    if let Some(version) = version {
        origin = origin.version(version);
    }
    let mut data = Dataset::new(folder, stem, &[Partition::Host, Partition::Date], origin)?;
    let mut pieces = Pieces::open(path, capture)?;
    loop {
        if bound.is_over() {
            return Ok(Tables::Stopped);
        }
        match pieces.next_piece() {
            Ok(Some(Piece::Batch(batch))) => data.accept_batch(&batch)?,
            Ok(Some(Piece::Frame(recovered))) => data.accept_frame(&recovered.frame)?,
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => return Tables::unreadable(error),
        }
    }
    let damage = pieces.damage();
    if damage.count > 0 {
        let places = vor_capture::units::counted(damage.count, "place");
        return Ok(Tables::Damaged(format!("damaged in {places}")));
    }
    data.finish()?;
    let mut files = Vec::new();
    for path in data.paths() {
        // All of them are beneath the folder, and have names in ASCII.
        if let Ok(relative) = path.strip_prefix(folder) {
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            files.push((path.clone(), parts.join("/")));
        }
    }
    Ok(Tables::Complete(files))
}

/// Removes the folder of tables that were sent, or that are made anew.
pub(super) fn remove(folder: &Path) {
    // What stays is removed when the next segment begins.
    drop(fs::remove_dir_all(folder));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_corrupt_capture_is_damaged() {
        let unreadable = std::io::Error::other("the disk");
        let error = Tables::unreadable(Error::io("a.vor", unreadable)).unwrap_err();
        assert_eq!(error.to_string(), "a.vor: the disk");
        let corrupt = Capture::new(std::io::Cursor::new(b"%PDF")).unwrap_err();
        assert!(corrupt.is_corrupt());
        match Tables::unreadable(corrupt) {
            Ok(Tables::Damaged(problem)) => {
                assert_eq!(problem, "not a vor capture: it starts with \"%PDF\"");
            }
            other => panic!("{other:?}"),
        }
    }
}
