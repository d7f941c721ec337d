//! `vor view` starts the viewer beside it or in `PATH`, and passes all arguments on.
#![cfg(all(feature = "cli", unix))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use vor_capture::reader::SegmentedCapture;
#[cfg(not(feature = "off"))]
use vor_fixtures::{process::Ended, test_name};

#[cfg(not(feature = "off"))]
use crate::robust_support;

/// Puts a program into a folder that prints its arguments and exits with 7.
pub(crate) fn put_viewer(folder: &Path) {
    let path = folder.join("vor-viz");
    fs::write(&path, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns a copy of the command in its own folder, so that no other program is beside it.
pub(crate) fn command(folder: &Path) -> Command {
    let vor = folder.join("vor");
    if !vor.exists() {
        fs::copy(env!("CARGO_BIN_EXE_vor"), &vor).unwrap();
    }
    Command::new(vor)
}

/// Runs the command. While the copy is written, the child that another test forks has it open too.
pub(crate) fn run(command: &mut Command) -> Output {
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
fn a_folder_of_sources_is_no_folder_of_captures() {
    let folder = tempfile::tempdir().unwrap();
    put_viewer(folder.path());
    let sources = folder.path().join("src");
    fs::create_dir(&sources).unwrap();
    let mut command = command(folder.path());
    command.args(["view", "run.vor", "--time", "1ms..2ms", "--source"]);
    let viewed = run(command.arg(&sources));
    assert_eq!(viewed.status.code(), Some(7), "{viewed:?}");
    let arguments = format!(
        "<run.vor><--time><1ms..2ms><--source><{}>",
        sources.display()
    );
    assert_eq!(String::from_utf8(viewed.stdout).unwrap(), arguments);
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
        let original = folder.path().join(pattern);
        let end = format!("><--frame><3><--copy-of><{}>", original.display());
        assert!(passed.ends_with(&end), "{passed}");
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

/// Sleeps until `is_done`.
#[cfg(not(feature = "off"))]
pub(crate) fn wait_until(what: &str, is_done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The viewer gets a file that grows with the newest segment, and with those after it.
#[cfg(not(feature = "off"))]
#[test]
fn the_segments_of_a_running_program_are_followed() {
    if robust_support::role().is_some() {
        let folder = robust_support::folder();
        vor::Config::new()
            .capture(folder.join("runs/"))
            .segments(vor::Segments::new().size(crate::segments::SEGMENT_BYTES))
            .enable();
        while !folder.join("stop").exists() {
            for number in 0..500_u64 {
                vor::profile_scope!(
                    "inside",
                    number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                );
            }
            vor::frame_mark();
            vor::flush();
            thread::sleep(Duration::from_millis(1));
        }
        // A site that was not declared when the viewer started.
        {
            vor::profile_scope!("at the end");
        }
        vor::frame_mark();
        vor::close_capture().unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name);
    let mut command_of_program = robust_support::child(test_name!(), "two", folder.path());
    let mut program = Ended(command_of_program.spawn().unwrap());
    let segments = || {
        SegmentedCapture::list(&of("runs")).map_or(0, |paths| paths.map_or(0, |paths| paths.len()))
    };
    wait_until("two segments", || segments() >= 2);
    let script = format!(
        "#!/bin/sh\necho \"$1\" >'{0}.new'; mv '{0}.new' '{0}'\n\
        while [ -d '{1}' ] && [ ! -e '{1}/quit' ]; do sleep 0.05; done\n",
        of("path").display(),
        folder.path().display()
    );
    fs::write(of("vor-viz"), script).unwrap();
    fs::set_permissions(of("vor-viz"), fs::Permissions::from_mode(0o755)).unwrap();
    let view = thread::spawn({
        let mut command = command(folder.path());
        command.arg("view").arg(of("runs"));
        move || run(&mut command)
    });
    wait_until("the viewer", || of("path").exists());
    let path = fs::read_to_string(of("path")).unwrap();
    let one = || SegmentedCapture::open(path.trim()).unwrap().info();
    let begin = one();
    assert!(begin.frames > 0 && !begin.closed, "{begin:?}");
    let count = segments();
    wait_until("two more segments", || segments() >= count + 2);
    wait_until("the viewer's file grows", || one().frames > begin.frames);
    fs::write(of("stop"), "").unwrap();
    assert!(program.0.wait().unwrap().success());
    wait_until("the viewer's file is closed", || one().closed);
    let (one, mut all) = (one(), SegmentedCapture::open(of("runs")).unwrap());
    let names = |capture: &SegmentedCapture| {
        let sites = capture.catalog().sites.iter().flatten();
        sites.map(|site| site.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&SegmentedCapture::open(path.trim()).unwrap()),
        names(&all)
    );
    assert!(all.verify().unwrap().is_none() && one.damage.is_none());
    let all = all.info();
    assert_eq!((one.frames, one.spans), (all.frames, all.spans));
    fs::write(of("quit"), "").unwrap();
    let output = view.join().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    assert!(!Path::new(path.trim()).exists());
}
