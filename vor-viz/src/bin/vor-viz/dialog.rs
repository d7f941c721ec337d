//! The system's dialog for files.

use std::path::PathBuf;

/// Asks the user for captures, and returns when the dialog is closed. Nothing is chosen if the
/// system has no dialog.
pub(crate) fn ask() -> Vec<PathBuf> {
    let dialog = rfd::FileDialog::new()
        .set_title("Open captures")
        .add_filter("captures", &["vor"])
        .add_filter("all files", &["*"]);
    dialog.pick_files().unwrap_or_default()
}
