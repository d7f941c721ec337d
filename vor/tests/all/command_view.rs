//! `vor view` starts the viewer beside it or in `PATH`, and passes all arguments on.
#![cfg(all(feature = "cli", unix))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use vor_capture::reader::SegmentedCapture;

/// Puts a program into a folder that prints its arguments and exits with 7.
fn put_viewer(folder: &Path) {
    let path = folder.join("vor-viz");
    fs::write(&path, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns a copy of the command in its own folder, so that no other program is beside it.
fn command(folder: &Path) -> Command {
    let vor = folder.join("vor");
    if !vor.exists() {
        fs::copy(env!("CARGO_BIN_EXE_vor"), &vor).unwrap();
    }
    Command::new(vor)
}

/// Runs the command. While the copy is written, the child that another test forks has it open too.
fn run(command: &mut Command) -> Output {
    loop {
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
            output => return output.unwrap(),
        }
    }
}

fn view(folder: &Path, in_path: &Path) -> Output {
    let mut command = command(folder);
    command.args(["view", "run.vor", "--frame", "3", "--help"]);
    run(command.env("PATH", in_path))
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

#[test]
fn the_segments_of_a_folder_are_one_file_for_the_viewer() {
    let folder = tempfile::tempdir().unwrap();
    let captures = folder.path().join("captures");
    fs::create_dir(&captures).unwrap();
    for (name, frames) in [("1.vor", 3), ("2.vor", 4)] {
        let made = vor_fixtures::even::make(frames, 9, true);
        fs::write(captures.join(name), made.bytes).unwrap();
    }
    let program = folder.path().join("vor-viz");
    let copy = folder.path().join("seen.vor");
    let script = format!(
        "#!/bin/sh\ncp \"$1\" '{}'\nprintf '<%s>' \"$@\"\n",
        copy.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for pattern in ["captures", "captures/*.vor"] {
        let mut command = command(folder.path());
        command.current_dir(folder.path());
        let output = run(command.args(["view", pattern, "--frame", "3"]));
        assert!(output.status.success(), "{output:?}");
        let passed = String::from_utf8(output.stdout).unwrap();
        let file = passed.split(['<', '>']).nth(1).unwrap();
        assert!(passed.ends_with("><--frame><3>"), "{passed}");
        assert!(!Path::new(file).exists(), "{file} is left");
        let seen = SegmentedCapture::open(&copy).unwrap().info();
        let all = SegmentedCapture::open(&captures).unwrap().info();
        assert_eq!((seen.frames, seen.spans), (all.frames, all.spans));
        assert!(seen.frames > 3 && seen.closed && seen.damage.is_none());
    }

    fs::remove_file(captures.join("1.vor")).unwrap();
    fs::remove_file(captures.join("2.vor")).unwrap();
    let none = run(command(folder.path()).arg("view").arg(&captures));
    assert_eq!(none.status.code(), Some(2));
    let line = String::from_utf8(none.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
}
