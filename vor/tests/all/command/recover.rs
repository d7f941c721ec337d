//! `vor recover` and `vor attach`: the last spans of a process that is gone, or that hangs.

#![cfg(all(unix, not(feature = "off")))]

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use vor_fixtures::process::{child, role};
use vor_fixtures::test_name;

use super::{Run, run, vor};

/// The variable that names the folder of a child.
const FOLDER: &str = "VOR_COMMAND_RECOVER_IN";
const SPANS: u64 = 1000;

/// Records spans and frames, and then hangs in a scope.
fn hang(folder: &Path) -> ! {
    let config = vor_recorder::setup::Config::new().shared_memory_in(folder);
    config.capture(folder.join("run.vor")).enable();
    for number in 0..SPANS {
        {
            vor_recorder::profile_scope!("work", number = number);
        }
        if number % 10 == 9 {
            vor_recorder::drain::frame_mark();
        }
        if number == SPANS / 2 {
            vor_recorder::drain::flush();
        }
    }
    vor_recorder::profile_scope!("stuck");
    std::fs::write(folder.join("ready"), "").unwrap();
    loop {
        std::thread::park();
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the number of spans of a scope in a capture.
fn count(path: &Path, name: &str) -> u64 {
    let stats = run("stats", path, &["--json"]).json();
    let mut rows = stats["scopes"].as_array().unwrap().iter();
    let row = rows.find(|row| row["name"] == name);
    row.map_or(0, |row| row["count"].as_u64().unwrap())
}

fn recover(command: &str, file: &Path, options: &[&Path]) -> Run {
    let mut vor = vor();
    vor.arg(command).arg(file).args(options);
    Run::from(vor.output().unwrap())
}

#[test]
fn a_process_is_attached_to_and_then_recovered() {
    if role().is_some() {
        hang(&PathBuf::from(std::env::var_os(FOLDER).unwrap()));
    }
    let folder = tempfile::tempdir().unwrap();
    let test = test_name!("a_process_is_attached_to_and_then_recovered");
    let mut command = child(test, "hang");
    let command = command.env(FOLDER, folder.path()).stdout(Stdio::null());
    let mut process = Killed(command.spawn().unwrap());
    let path = |name: &str| folder.path().join(name);
    while !path("ready").exists() {
        assert!(process.0.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = process.0.id();
    let file = path(&format!("vor-{pid}.shm"));
    let [now, whole, alone, capture] =
        ["now", "whole", "alone", "run"].map(|name| path(&format!("{name}.vor")));
    let [o, with, delete] = ["-o", "--capture", "--delete"].map(Path::new);

    // The folder of the user's session is one of those that are listed.
    let listed = || {
        let mut command = vor();
        command.arg("recover").env("XDG_RUNTIME_DIR", folder.path());
        let list = Run::from(command.output().unwrap());
        assert_eq!((list.code, list.stderr.as_str()), (0, ""));
        let mut lines = list.stdout.lines();
        let line = lines.find(|line| line.ends_with(file.to_str().unwrap()));
        (line.map(str::to_owned), list.stdout)
    };
    let (line, all) = listed();
    let line = line.unwrap();
    assert!(line.starts_with(&format!("{pid:>8}  runs ")), "{line}");
    let size: Vec<&str> = line.split_whitespace().collect();
    assert!(size.len() == 5 && size[3].ends_with('B'), "{line}");
    assert!(!all.contains("no process has left anything"), "{all}");

    let refused = recover("recover", &file, &[o, &whole]);
    assert_eq!(
        refused.refusal(),
        format!(
            "vor: process {pid} still runs; `vor attach {}` reads it",
            file.display()
        )
    );
    let attached = recover("attach", &file, &[o, &now, with, &capture]);
    assert_eq!(attached.code, 0, "{attached:?}");
    assert!(attached.stderr.contains("1 open scopes"), "{attached:?}");
    assert_eq!(count(&now, "work"), SPANS);

    process.0.kill().unwrap();
    process.0.wait().unwrap();
    let ended = listed().0.unwrap();
    assert!(ended.starts_with(&format!("{pid:>8}  ended  ")), "{ended}");
    let refused = recover("attach", &file, &[o, &now]);
    assert!(
        refused.refusal().contains("has ended; `vor recover"),
        "{refused:?}"
    );
    let refused = recover("recover", &file, &[]);
    assert!(refused.refusal().contains("-o FILE"), "{refused:?}");
    let recovered = recover("recover", &file, &[o, &alone]);
    assert_eq!(recovered.code, 0);
    assert!(recovered.stderr.contains("`--capture "), "{recovered:?}");
    let refused = recover("recover", &file, &[o, &whole, with, &alone]);
    assert!(
        refused.refusal().contains("is not the capture"),
        "{refused:?}"
    );
    let refused = recover("recover", &file, &[o, &alone, with, &alone]);
    assert!(
        refused.refusal().contains("is the capture itself"),
        "{refused:?}"
    );
    assert!(!whole.exists());
    let recovered = recover("recover", &file, &[o, &whole, with, &capture, delete]);
    assert_eq!(recovered.code, 0, "{recovered:?}");
    assert!(!file.exists());
    assert_eq!(listed().0, None);
    assert_eq!(count(&whole, "work"), SPANS);
    let checked = run("check", &whole, &[]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let info = run("info", &whole, &["--json"]).json();
    assert_eq!(info["closed"], true, "{info}");
    assert!(info["frames"].as_u64().unwrap() >= SPANS / 20, "{info}");
}

#[test]
fn what_is_no_file_of_shared_memory_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    std::fs::write(&file, "text").unwrap();
    let out = folder.path().join("out.vor");
    let refused = recover("recover", &file, &[Path::new("-o"), &out]);
    assert!(
        refused
            .refusal()
            .contains("is no file of shared memory of vor")
    );
    let refused = recover("recover", Path::new("4294967295"), &[Path::new("-o"), &out]);
    assert!(
        refused.refusal().contains("VOR_RECORD_SHM=1"),
        "{refused:?}"
    );
    assert!(!out.exists());
}
