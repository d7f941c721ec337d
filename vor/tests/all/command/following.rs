//! `vor tail` on growing files, and readers that close their end early.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::Duration;

use vor_capture::filled;
use vor_capture::model::catalog::{MachineInfo, ProcessInfo};
#[cfg(target_os = "linux")]
use vor_capture::model::timeline::ClockSnapshot;

use crate::command::made::unclosed;
use crate::command::recording::{FRAMES, recording};
use crate::command::{run, v2, vor};

#[test]
fn tail_prints_frames_as_they_are_written_and_ends_with_the_recording() {
    let recording = recording();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("growing.vor");
    let half = recording.bytes.len() / 2;
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&recording.bytes[..half]).unwrap();
    let mut tail = vor()
        .args(["tail", "--json", "-n", "1000"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    // The existing frames are printed before anything is added.
    let first: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["index"], 0);
    for piece in recording.bytes[half..].chunks(1000) {
        file.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut indices = vec![0];
    for line in lines {
        let frame: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        indices.push(frame["index"].as_u64().unwrap());
    }
    assert_eq!(indices, (0..FRAMES).collect::<Vec<_>>());
    assert!(tail.wait().unwrap().success());
}

/// Runs `vor tail` on a file and returns its output when it ends.
#[cfg(target_os = "linux")]
fn tail(path: &std::path::Path) -> crate::command::Run {
    crate::command::Run::from(
        vor()
            .args(["tail", "-n", "1000"])
            .arg(path)
            .output()
            .unwrap(),
    )
}

#[cfg(target_os = "linux")]
#[test]
fn tail_ends_when_the_writer_ends_without_closing_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("killed.vor");
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    let pid = ended.id();
    ended.wait().unwrap();
    let process = filled!(ProcessInfo {
        pid,
        name: "true".to_owned()
    });
    let text = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
    let machine = filled!(MachineInfo {
        host: text("/proc/sys/kernel/hostname"),
        boot_id: text("/proc/sys/kernel/random/boot_id")
    });
    let elsewhere = filled!(MachineInfo {
        host: "elsewhere".to_owned(),
        ..machine.clone()
    });
    unclosed(&path, process.clone(), machine.clone(), 20);
    let shown = tail(&path);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(
        shown.stderr.contains("ended without closing it; --wait"),
        "{shown:?}"
    );
    assert!(shown.stdout.lines().count() > 10, "{shown:?}");

    // This process has the number of the writer, but began after the recording.
    let reused = folder.path().join("reused.vor");
    let at_boot = filled!(ClockSnapshot { boottime_ns: 1 });
    let before = filled!(MachineInfo {
        clocks: Some(at_boot),
        ..machine.clone()
    });
    let own = filled!(ProcessInfo {
        pid: std::process::id(),
        ..process.clone()
    });
    unclosed(&reused, own, before, 20);
    let shown = tail(&reused);
    assert!(
        shown.stderr.contains("ended without closing it"),
        "{shown:?}"
    );

    // Nothing is known about a writer on another machine. A process that has the file open for
    // writing may continue it, and the caller may say so with `--wait`.
    let of_elsewhere = folder.path().join("elsewhere.vor");
    unclosed(&of_elsewhere, process, elsewhere, 20);
    let written = folder.path().join("written.vor");
    std::fs::copy(&path, &written).unwrap();
    let writer = std::fs::OpenOptions::new()
        .append(true)
        .open(&written)
        .unwrap();
    for (path, option) in [
        (&of_elsewhere, None),
        (&written, None),
        (&path, Some("--wait")),
    ] {
        let mut waiting = vor()
            .args(["tail"])
            .args(option)
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(2_500));
        assert!(waiting.try_wait().unwrap().is_none(), "{path:?} {option:?}");
        waiting.kill().unwrap();
        waiting.wait().unwrap();
    }
    drop(writer);
}

#[test]
fn tail_begins_with_the_last_frames() {
    let recording = recording();
    let table = run("tail", &recording.path, &["-n", "4"]).stdout;
    let numbers: Vec<&str> = table
        .lines()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(numbers, ["frame", "56", "57", "58", "59"]);
    let old = run(
        "tail",
        &v2("user_units.vor"),
        &["--once", "-n", "1", "--json"],
    )
    .json();
    assert_eq!(old["index"], 79);
    assert_eq!(
        old["user"]["lr"].as_f64(),
        crate::command::v2_expected("user_units")["frames"][79]["user"][1][1].as_f64()
    );
}

#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    let recording = recording();
    let commands: [&[&str]; 7] = [
        &["stats"],
        &["stats", "--json"],
        &["frames"],
        &["frames", "--json"],
        &["tail", "-n", "1000"],
        &["export", "--to", "chrome"],
        &["export", "--to", "csv"],
    ];
    for arguments in commands {
        let mut command = vor();
        command.args(arguments).arg(&recording.path);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Nothing is read: the pipe is closed before the command writes.
        drop(child.stdout.take());
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            (status.code(), stderr.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}
