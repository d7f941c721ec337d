//! `vor view`: which arguments are captures, which are programs, and which the viewer gets as they
//! are.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::command::Run;
use crate::command::drafts::{put, write_shop};
use crate::command::served::Served;
use crate::command_view::{command, put_viewer, run};

/// Puts a viewer into a folder that runs a script.
fn put_script(folder: &Path, script: &str) {
    let path = folder.join("vor-viz");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn view(folder: &Path, arguments: &[&str]) -> Run {
    let mut command = command(folder);
    command.current_dir(folder);
    Run::from(run(command.arg("view").args(arguments)))
}

#[test]
fn only_what_can_be_a_program_or_a_folder_of_captures_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    put_viewer(folder.path());
    fs::create_dir(folder.path().join("shots")).unwrap();
    put(folder.path(), "shots/1.vor", &write_shop().close());
    for arguments in [
        &["run.vor", "--screenshot", "shots"][..],
        &["run.vor", "--source", "shots"],
        &["run.vor", "--frame", "4000000000"],
        &["run.vor", "shots/1.vor"],
    ] {
        let passed = view(folder.path(), arguments);
        assert_eq!(passed.code, 7, "{arguments:?}: {passed:?}");
        assert_eq!(passed.stdout, format!("<{}>", arguments.join("><")));
    }
    let joined = view(folder.path(), &["shots", "--frame", "10"]);
    let original = folder.path().join("shots");
    let end = format!(
        "/shots.vor><--frame><10><--copy-of><{}>",
        original.display()
    );
    assert_eq!(joined.code, 7, "{joined:?}");
    assert!(joined.stdout.ends_with(&end), "{joined:?}");
    for arguments in [
        &["4000000000"][..],
        &["run.vor", "unix:/nowhere/s"],
        &["run.vor", "--frame", "unix:/nowhere/s"],
    ] {
        let refused = view(folder.path(), arguments);
        let line = refused.refusal();
        assert!(line.contains("no program listens there"), "{line}");
    }
}

#[test]
fn a_viewer_that_cannot_be_started_or_ends_by_a_signal_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    put_script(folder.path(), "kill -9 $$");
    let killed = view(folder.path(), &["run.vor"]);
    assert_eq!((killed.code, killed.stderr.as_str()), (2, ""));
    let viewer = folder.path().join("vor-viz");
    fs::set_permissions(&viewer, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = view(folder.path(), &["run.vor"]);
    assert_eq!(
        refused.refusal(),
        "vor: vor-viz: Permission denied (os error 13)"
    );
}

#[test]
fn the_viewer_gets_all_that_a_program_sends() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = write_shop().close();
    let sent = bytes.clone();
    let program = Served::start(move |client| {
        let (first, last) = sent.split_at(100);
        client.write_all(first).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        client.write_all(last).unwrap();
    });
    put_script(
        folder.path(),
        &format!(
            "i=0; while [ \"$(wc -c <\"$1\")\" -lt {} ]; do\n\
            i=$((i + 1)); [ $i -lt 500 ] || exit 3; sleep 0.05\ndone\n\
            cp \"$1\" seen.vor; printf '<%s>' \"$@\"",
            bytes.len()
        ),
    );
    let address = program.address.clone();
    let viewed = view(folder.path(), &[&address, "--frame", "10"]);
    assert_eq!((viewed.code, viewed.stderr.as_str()), (0, ""), "{viewed:?}");
    let end = format!("/live.vor><--frame><10><--copy-of><{address}>");
    assert!(viewed.stdout.ends_with(&end), "{viewed:?}");
    assert_eq!(fs::read(folder.path().join("seen.vor")).unwrap(), bytes);
    program.request();
}

/// A segment whose writer is gone is closed at once. One whose writer ends later is closed then.
#[cfg(all(target_os = "linux", not(feature = "off")))]
#[test]
fn a_copy_is_closed_when_the_writer_is_gone() {
    use vor_capture::filled;
    use vor_capture::model::catalog::{MachineInfo, ProcessInfo};
    use vor_capture::reader::Capture;
    use vor_fixtures::process::Ended;

    use crate::command::made::unclosed;
    use crate::command_view::wait_until;

    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name);
    let text = |path: &str| fs::read_to_string(path).unwrap().trim().to_owned();
    let machine = filled!(MachineInfo {
        host: text("/proc/sys/kernel/hostname"),
        boot_id: text("/proc/sys/kernel/random/boot_id")
    });
    fs::create_dir(of("runs")).unwrap();
    let mut writer = Ended(
        std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap(),
    );
    let process = filled!(ProcessInfo {
        pid: writer.0.id(),
        name: "sleep".to_owned()
    });
    unclosed(&of("runs/1.vor"), process, machine, 5);
    // The sink that made it closed another file.
    fs::remove_file(of("runs/1.open")).unwrap();
    put_script(
        folder.path(),
        "echo \"$1\" >path.new; mv path.new path\n\
        i=0; while [ ! -e quit ] && [ $i -lt 2000 ]; do i=$((i + 1)); sleep 0.05; done",
    );
    let viewer = std::thread::spawn({
        let folder = folder.path().to_owned();
        move || view(&folder, &["runs"])
    });
    wait_until("the viewer", || of("path").exists());
    let path = text(of("path").to_str().unwrap());
    let is_closed = || Capture::open(&path).unwrap().info().closed;
    assert!(!is_closed());
    writer.0.kill().unwrap();
    writer.0.wait().unwrap();
    wait_until("the end of the copy", is_closed);
    fs::write(of("quit"), "").unwrap();
    let viewed = viewer.join().unwrap();
    assert_eq!((viewed.code, viewed.stderr.as_str()), (0, ""));

    put_script(folder.path(), "cp \"$1\" gone.vor");
    assert_eq!(view(folder.path(), &["runs"]).code, 0);
    assert!(Capture::open(of("gone.vor")).unwrap().info().closed);
}
