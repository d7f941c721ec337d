//! The segments of a folder, as one file.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::command::failure::Failure;
use crate::command::progress::Progress;
use crate::command::source::Source;

/// Captures that were copied into one temporary file.
#[derive(Debug)]
pub(super) struct Joined {
    path: PathBuf,
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
        let written = source.capture.write_as_one(&mut out, |done, total| {
            progress.advance(0, done, total);
        });
        let damage = written.map_err(|error| Failure::in_file(&file, error))?;
        source.warn_of(&damage);
        Ok(Self {
            path: file,
            _folder: folder,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
