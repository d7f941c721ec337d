//! The outputs of `vor export`: written completely or not at all, also from a damaged capture.

use std::path::Path;

use serde_json::Value;

use crate::command::recording::recording;
use crate::command::{Run, run, tear, v2, vor};

/// Returns the names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn export(to: &str, out: &Path) -> Run {
    crate::command::export(&recording().path, to, out, &[])
}

#[test]
fn a_complete_new_output_replaces_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("spans.csv");
    std::fs::write(&out, "old").unwrap();
    let exported = export("csv", &out);
    assert_eq!(exported.code, 0, "{exported:?}");
    let expected = run("export", &recording().path, &["--to", "csv"]).stdout;
    assert_eq!(std::fs::read_to_string(&out).unwrap(), expected);
    assert_eq!(names(folder.path()), ["spans.csv"]);
    let dash = run("export", &recording().path, &["--to", "csv", "-o", "-"]);
    assert_eq!(dash.stdout, expected);
    // A name without a folder is a file in the working directory.
    let mut command = vor();
    command
        .args(["export", "--to", "csv", "-o", "here.csv"])
        .arg(&recording().path);
    let here = Run::from(command.current_dir(&folder).output().unwrap());
    assert_eq!(here.code, 0, "{here:?}");
    assert_eq!(names(folder.path()), ["here.csv", "spans.csv"]);
}

#[test]
fn a_directory_is_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let refused = export("csv", folder.path());
    assert!(
        refused.refusal().contains("is a directory; name a file"),
        "{refused:?}"
    );
    let nowhere = export("csv", &folder.path().join("none/x.csv"));
    assert!(
        nowhere.refusal().contains("none/x.csv: cannot be created"),
        "{nowhere:?}"
    );
    assert!(names(folder.path()).is_empty());
}

#[cfg(unix)]
#[test]
fn a_place_that_cannot_be_written_is_refused_for_its_own_reason() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.csv");
    std::fs::write(&file, "old").unwrap();
    let below = file.join("below.csv");
    assert_eq!(
        export("csv", &below).refusal(),
        format!(
            "vor: {}: cannot be created: Not a directory (os error 20)",
            below.display()
        )
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(
        export("csv", &file).refusal(),
        format!(
            "vor: {}: cannot be created: permission denied",
            file.display()
        )
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(names(folder.path()), ["file.csv"]);
}

/// A limit on the size of files simulates a full disk: the write fails half-way.
#[cfg(unix)]
#[test]
fn a_failed_export_leaves_nothing_and_keeps_the_old_output() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("spans.csv");
    let limited = || {
        let mut shell = std::process::Command::new("sh");
        shell.args([
            "-c",
            "ulimit -f 32; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_vor"),
            "export",
            "--to",
            "csv",
        ]);
        shell.arg("-o").arg(&out).arg(&recording().path);
        Run::from(shell.output().unwrap())
    };
    let failed = limited();
    assert!(failed.refusal().contains("spans.csv: "), "{failed:?}");
    assert!(
        names(folder.path()).is_empty(),
        "{:?}",
        names(folder.path())
    );
    std::fs::write(&out, "old").unwrap();
    limited().refusal();
    assert_eq!(names(folder.path()), ["spans.csv"]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "old");
}

#[cfg(unix)]
#[test]
fn an_export_that_gets_a_signal_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("large.vor");
    let scopes = [
        crate::command::made::scope("request", 1, 100),
        crate::command::made::scope("step", 2, 100),
    ];
    crate::command::made::capture(&capture, &scopes, 200, 2_000, 1);
    // The export may end before the signal arrives; ten times in a row would be an error.
    for _ in 0..10 {
        if end_export(&capture) {
            return;
        }
    }
    panic!("every export ended before its signal");
}

/// Begins an export and sends it a signal. Returns whether the export was still running.
#[cfg(unix)]
fn end_export(capture: &Path) -> bool {
    use std::time::{Duration, Instant};

    let outputs = tempfile::tempdir().unwrap();
    let mut command = vor();
    command
        .args(["export", "--to", "chrome", "-o"])
        .arg(outputs.path().join("trace.json"));
    let mut child = command
        .arg(capture)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while names(outputs.path()).is_empty() && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = std::process::Command::new("kill")
        .arg(child.id().to_string())
        .status()
        .unwrap();
    assert!(kill.success());
    let status = child.wait().unwrap();
    if status.code() == Some(0) {
        return false;
    }
    assert_eq!(status.code(), Some(2), "{status:?}");
    assert!(
        names(outputs.path()).is_empty(),
        "{:?}",
        names(outputs.path())
    );
    true
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay_and_devices_are_written_to() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (file, link) = (path("file.csv"), path("link.csv"));
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("file.csv", &link).unwrap();
    assert_eq!(export("csv", &link).code, 0);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .starts_with("process,frame,thread,")
    );
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
    // A new file has the usual permissions.
    std::fs::write(path("usual"), "").unwrap();
    assert_eq!(export("csv", &path("new.csv")).code, 0);
    let mode = |name: &str| path(name).metadata().unwrap().mode();
    assert_eq!(mode("new.csv"), mode("usual"));
    assert_eq!(export("csv", Path::new("/dev/null")).code, 0);
    // A pipe is written to directly, while another process reads it.
    let pipe = path("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    assert_eq!(export("metrics-csv", &pipe).code, 0);
    let expected = run("export", &recording().path, &["--to", "metrics-csv"]).stdout;
    assert_eq!(reader.join().unwrap(), expected);
}

#[test]
fn the_intact_part_of_a_damaged_capture_is_exported() {
    let recording = recording();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.vor");
    let len = recording.bytes.len();
    let mut fewer = 0;
    for at in (len / 20..len).step_by(len / 11) {
        let mut bytes = recording.bytes.clone();
        bytes[at] ^= 0x20;
        std::fs::write(&path, &bytes).unwrap();
        let intact = run("check", &path, &["--json"]);
        let intact: Value = serde_json::from_str(&intact.stdout).unwrap();
        let chrome = run("export", &path, &["--to", "chrome"]);
        assert_eq!(chrome.code, 3, "byte {at}: {chrome:?}");
        assert!(chrome.stderr.contains("damaged in "), "{}", chrome.stderr);
        let events: Value = serde_json::from_str(&chrome.stdout).unwrap();
        let spans = events
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["ph"] == "X");
        let spans = spans.count();
        assert_eq!(intact["spans"], spans, "byte {at}");
        fewer += usize::from(spans < recording.spans.len());
    }
    assert!(fewer > 0, "some damage removes spans");
    tear(&path, &recording.bytes);
    let out = folder.path().join("out.csv");
    for format in ["chrome", "csv", "metrics-csv"] {
        let torn = run(
            "export",
            &path,
            &["--to", format, "-o", out.to_str().unwrap()],
        );
        assert_eq!(torn.code, 3, "{format}: {torn:?}");
        assert!(
            torn.stderr.contains("an incomplete record"),
            "{format}: {torn:?}"
        );
        assert!(out.metadata().unwrap().len() > 0);
    }
    let version_2 = run("export", &v2("torn.vor"), &["--to", "chrome"]);
    assert_eq!(version_2.code, 3, "{version_2:?}");
    assert!(version_2.stderr.contains("223 B"), "{version_2:?}");
}
