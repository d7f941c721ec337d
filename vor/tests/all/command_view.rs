//! `vor view` starts the viewer beside it or in `PATH`, and passes all arguments on.
#![cfg(all(feature = "cli", unix))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Puts a program into a folder that prints its arguments and exits with 7.
fn put_viewer(folder: &Path) {
    let path = folder.join("vor-viz");
    fs::write(&path, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a copy of the command in its own folder, so that no other program is beside it.
fn view(folder: &Path, in_path: &Path) -> Output {
    let vor = folder.join("vor");
    if !vor.exists() {
        fs::copy(env!("CARGO_BIN_EXE_vor"), &vor).unwrap();
    }
    let mut command = Command::new(vor);
    command.args(["view", "run.vor", "--frame", "3", "--help"]);
    command.env("PATH", in_path).output().unwrap()
}

#[test]
fn the_viewer_is_found_and_gets_the_arguments() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let none = view(folder.path(), elsewhere.path());
    assert_eq!(none.status.code(), Some(2));
    let line = String::from_utf8(none.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains("cargo install --path vor-viz"), "{line}");

    put_viewer(elsewhere.path());
    let in_path = view(folder.path(), elsewhere.path());
    assert_eq!(in_path.status.code(), Some(7), "{in_path:?}");
    assert_eq!(in_path.stdout, b"<run.vor><--frame><3><--help>");

    put_viewer(folder.path());
    let beside = view(folder.path(), Path::new("/nowhere"));
    assert_eq!(beside.status.code(), Some(7), "{beside:?}");
}
