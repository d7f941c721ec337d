//! The recently opened captures: one path per line, in a file of the user.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of paths.
const MAX_RECENT: usize = 12;

/// Maximum size of the file that is read: another program may have written it.
const MAX_BYTES: u64 = 1 << 20;

/// Recent captures, the latest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    /// The file of the list; `None` if the user has no directory for it.
    file: Option<PathBuf>,
    paths: Vec<PathBuf>,
}

impl Recent {
    /// Reads the user's list.
    pub(crate) fn of_user() -> Self {
        place().map_or_else(Self::default, Self::in_file)
    }

    /// Reads the list in a file, which need not exist.
    pub(crate) fn in_file(file: PathBuf) -> Self {
        let is_small = fs::metadata(&file).is_ok_and(|metadata| metadata.len() <= MAX_BYTES);
        let text = if is_small {
            fs::read_to_string(&file)
        } else {
            Ok(String::new())
        };
        let text = text.unwrap_or_default();
        let lines = text.lines().filter(|line| !line.is_empty());
        Self {
            paths: lines.take(MAX_RECENT).map(PathBuf::from).collect(),
            file: Some(file),
        }
    }

    /// Returns the paths.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Moves a path to the front. Errors of writing the list are ignored.
    pub(crate) fn add(&mut self, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let is_line = path
            .to_str()
            .is_some_and(|text| !text.contains(['\n', '\r']));
        if !is_line {
            return;
        }
        self.paths.retain(|known| *known != path);
        self.paths.insert(0, path);
        self.paths.truncate(MAX_RECENT);
        let lines: String = self
            .paths
            .iter()
            .map(|path| format!("{}\n", path.display()))
            .collect();
        if let Some(file) = &self.file {
            drop(file.parent().map(fs::create_dir_all));
            drop(fs::write(file, lines));
        }
    }
}

/// Returns the path of the list in the user's state directory.
fn place() -> Option<PathBuf> {
    let folder = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else {
        folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))
    };
    Some(state?.join("vor").join("recent"))
}
