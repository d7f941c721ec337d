//! The file of shared memory of this process: where it is, and when it begins.

use std::path::{Path, PathBuf};

use vor_capture::format::Header;

use super::{Settings, with_settings};
use crate::clock;
use crate::hot::{shared, thread};
use crate::os::report;

impl Settings {
    /// Puts the rings of threads that record for the first time from now on into a file in a
    /// folder, and also those of the children of a fork. An error is reported, and the program runs
    /// on.
    pub(crate) fn share_memory(&mut self, folder: PathBuf) {
        self.shared_in = Some(folder);
        self.begin_shared();
    }

    /// Makes the file of shared memory, if one was asked for.
    pub(super) fn begin_shared(&self) {
        let Some(folder) = &self.shared_in else {
            return;
        };
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let unix_ns = since.unwrap_or_default().as_nanos();
        let now_ticks = clock::ticks();
        let header = Header {
            file_id: clock::unique_number(),
            pid: std::process::id(),
            flags: Header::KEEPS_SPANS,
            start_unix_ns: i64::try_from(unix_ns).unwrap_or(i64::MAX),
            start_ticks: now_ticks,
        };
        thread::take_spare();
        match shared::begin(folder, header) {
            Ok(false) => {}
            Ok(true) => with_settings(self, |engine| engine.describe_in_shared()),
            Err(error) => report::line(&format!(
                "VOR_RECORD_SHM: no file can be made in {}: {error}; nothing can be recovered if \
                the process is killed",
                folder.display()
            )),
        }
    }
}

/// Returns the folder for new files.
pub(crate) fn default_folder() -> PathBuf {
    folders().next().unwrap_or_default()
}

/// Returns the folders in which files of shared memory are by default: that of the user's session,
/// the one for shared memory, and the temporary folder. The first that exists gets new ones.
pub(crate) fn folders() -> impl Iterator<Item = PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|folder| folder.is_absolute());
    let shared = cfg!(target_os = "linux").then(|| PathBuf::from("/dev/shm"));
    // A web page has no folders, and the standard library panics when it is asked for one.
    let temporary = (!cfg!(target_family = "wasm")).then(std::env::temp_dir);
    let all = [session, shared, temporary];
    all.into_iter()
        .flatten()
        .filter(|folder: &PathBuf| Path::is_dir(folder))
}
