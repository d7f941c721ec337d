//! The segments of a folder, as one file, which grows with the newest of them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vor_capture::reader::{Capture, SegmentFollower};

use crate::command::failure::{Failure, warn};
use crate::command::newest::{has_header, next_segments};
use crate::command::progress::Progress;
use crate::command::quiet::Quiet;
use crate::command::source::Source;
use crate::writer::{self, Writer};

/// How often to look for more; the recorder writes about as often.
const POLL: Duration = Duration::from_millis(50);

/// Captures that are copied into one temporary file.
#[derive(Debug)]
pub(super) struct Joined {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    follows: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Joined {
    pub(super) fn begin(path: &Path) -> Result<Self, Failure> {
        let mut source = Source::open(path)?;
        let no_file = |error| Failure::Message(format!("a temporary file: {error}"));
        let folder = tempfile::tempdir().map_err(no_file)?;
        // The viewer shows the name.
        let name = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".vor").replace(['*', '?'], "_");
        let file = folder.path().join(format!("{name}.vor"));
        let mut out = File::create(&file).map_err(no_file)?;
        let mut progress = Progress::new("joining", false);
        let advance = |done, total| progress.advance(0, done, total);
        let failed = |error| Failure::in_file(&file, error);
        let is_over = Arc::new(AtomicBool::new(false));
        let mut follows = None;
        if may_grow(&source, path)? {
            let follower = source.capture.follow_as_one(&mut out, advance);
            let mut follower = follower.map_err(failed)?;
            // The viewer needs the header at least.
            follower.write_more(&mut out).map_err(failed)?;
            let (all, ends) = (path.to_owned(), Arc::clone(&is_over));
            follows = Some(thread::spawn(move || {
                if let Err(Failure::Message(message)) = follow(&all, follower, &mut out, &ends) {
                    warn(&format!("{message}; the viewer has what came before"));
                }
            }));
        } else {
            let written = source.capture.write_as_one(&mut out, advance);
            source.warn_of(&written.map_err(failed)?);
        }
        Ok(Self {
            path: file,
            is_over,
            follows,
            _folder: folder,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(follows) = self.follows.take() {
            // It has reported its failure itself.
            let _ = follows.join();
        }
    }
}

/// Returns whether a program still writes to the newest segment, or has begun another one.
fn may_grow(source: &Source, path: &Path) -> Result<bool, Failure> {
    let Some(newest) = source.capture.paths().last().filter(|_| !source.is_v2()) else {
        return Ok(false);
    };
    let capture = Capture::open(newest)?;
    if capture.info().closed {
        // The next segment is in the folder before the end of this one is written.
        return Ok(!next_segments(path, newest)?.is_empty());
    }
    Ok(writer::find(newest, capture.catalog()) == Writer::MayRun)
}

/// Adds what the newest segment gets, and the segments after it, until the program ends or the
/// viewer is closed.
fn follow(
    all: &Path,
    mut follower: SegmentFollower,
    out: &mut File,
    is_over: &AtomicBool,
) -> Result<(), Failure> {
    let mut quiet = Quiet::begin(Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        let has_grown = follower.write_more(out)?;
        let is_quiet = quiet.look(has_grown, Instant::now());
        // The next segment is in the folder before the end of this one is written.
        if follower.is_closed() {
            match go_on(all, &mut follower)? {
                Next::Begun => continue,
                Next::NotYet => {}
                Next::None => break,
            }
        }
        if is_quiet {
            let catalog = follower.newest_catalog().cloned().unwrap_or_default();
            if writer::find(follower.newest(), &catalog) != Writer::MayRun {
                break;
            }
        }
        thread::sleep(POLL);
    }
    if !is_over.load(Ordering::Relaxed) {
        follower.close(out)?;
    }
    Ok(())
}

/// The successor of a segment.
enum Next {
    /// A segment, with which the follower goes on.
    Begun,
    /// A file that may become a segment.
    NotYet,
    None,
}

/// Goes on with the segment after the newest one. Other runs, and files that are no captures, are
/// left out.
fn go_on(all: &Path, follower: &mut SegmentFollower) -> Result<Next, Failure> {
    let newest = follower.newest().to_owned();
    for next in next_segments(all, &newest)? {
        if !has_header(&next) {
            return Ok(Next::NotYet);
        }
        match follower.go_on(&next) {
            Ok(Some(true)) => return Ok(Next::Begun),
            Ok(None) => return Ok(Next::NotYet),
            Ok(Some(false)) | Err(_) => {}
        }
    }
    Ok(Next::None)
}

#[cfg(test)]
mod tests {
    use vor_fixtures::even;

    use super::*;

    /// Puts a capture of three frames into a folder.
    fn put(folder: &TempDir, name: &str, is_closed: bool) {
        let bytes = even::make(3, 9, is_closed).bytes;
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }

    #[test]
    fn a_copy_is_followed_until_it_is_dropped_if_it_may_grow() {
        let folder = tempfile::tempdir().unwrap();
        put(&folder, "1.vor", true);
        let closed = Joined::begin(folder.path()).unwrap();
        assert!(closed.follows.is_none());
        assert!(Capture::open(closed.path()).unwrap().info().closed);
        put(&folder, "2.vor", false);
        let joined = Joined::begin(folder.path()).unwrap();
        let (path, is_over) = (joined.path().to_owned(), Arc::clone(&joined.is_over));
        let info = Capture::open(&path).unwrap().info();
        assert!(joined.follows.is_some() && !info.closed && info.frames == 6);
        drop(joined);
        // The thread has ended, and with it the other owner.
        assert!(is_over.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&is_over), 1);
        assert!(!path.exists());
    }

    #[test]
    fn a_segment_without_a_header_comes_behind_a_closed_one() {
        let folder = tempfile::tempdir().unwrap();
        put(&folder, "1.vor", true);
        let source = Source::open(folder.path()).unwrap();
        assert!(!may_grow(&source, folder.path()).unwrap());
        std::fs::write(folder.path().join("2.vor"), "").unwrap();
        assert!(may_grow(&source, folder.path()).unwrap());
    }
}
