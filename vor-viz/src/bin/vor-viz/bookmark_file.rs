//! The file beside a capture that keeps its bookmarks.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use vor_viz::bookmarks::Bookmarks;
use vor_viz::replay::ReplayState;

use crate::output::write_whole;

/// Returns the file of a capture: `run.vor.bookmarks`.
fn path_of(capture: &Path) -> PathBuf {
    let mut name = capture.as_os_str().to_owned();
    name.push(".bookmarks");
    name.into()
}

/// Reads the bookmarks of a capture. A file that is missing has none.
pub(crate) fn read(replay: &mut ReplayState) {
    let text = replay.path().map(path_of).map(fs::read_to_string);
    if let Some(Ok(text)) = text {
        replay.set_bookmarks(Bookmarks::parse(&text));
    }
}

/// Writes the bookmarks of a capture, if they changed.
pub(crate) fn keep(replay: &mut ReplayState) -> Result<(), String> {
    let path = replay.path().map(path_of);
    let (Some(bookmarks), Some(path)) = (replay.take_changed_bookmarks(), path) else {
        return Ok(());
    };
    let fail = |error: io::Error| format!("{}: bookmarks are not kept: {error}", path.display());
    // A file that could not be read must not be lost.
    if let Err(error) = fs::read_to_string(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(fail(error));
    }
    let text = bookmarks.to_text();
    let written = match text.is_empty() {
        true => fs::remove_file(&path),
        false => write_whole(&path, |mut file| file.write_all(text.as_bytes())),
    };
    written.map_err(fail)
}
