//! `vor record` of a program that the test plays.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use vor_capture::units;

use crate::command::drafts::write_shop;
use crate::command::served::{Served, is_asked_to_end, wait_for_the_end};
use crate::command::{Run, run, vor};

/// Records a program and returns what the command says, the file, and its path.
fn record(program: &Served, options: &[&str]) -> (Run, Vec<u8>, PathBuf) {
    let out = program.folder().join("out.vor");
    let options = [&["-o", out.to_str().unwrap()], options].concat();
    let run = run("record", Path::new(&program.address), &options);
    (run, std::fs::read(&out).unwrap(), out)
}

/// Asserts that the command has recorded these bytes, and says so.
fn assert_recorded(run: &Run, program: &Served, file: (&[u8], &Path), expected: &[u8]) {
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(file.0, expected);
    let lines: Vec<&str> = run.stderr.lines().collect();
    let (address, out) = (&program.address, file.1.display());
    let begin = format!("vor: recording {address} into {out}; Ctrl-C ends");
    assert_eq!((lines.len(), lines[0]), (2, &*begin), "{run:?}");
    let end = format!("vor: {out}: {} in ", units::bytes(expected.len() as u64));
    assert!(lines[1].starts_with(&end), "{run:?}");
}

#[test]
fn a_program_that_ends_is_recorded_to_its_end() {
    let bytes = write_shop().close();
    let sent = bytes.clone();
    let program = Served::start(move |client| {
        let (first, last) = sent.split_at(sent.len() / 2);
        client.write_all(first).unwrap();
        assert!(!is_asked_to_end(client));
        client.write_all(last).unwrap();
    });
    let (run, file, out) = record(&program, &["--seconds", "1e6", "--spans", "slow:2.5ms"]);
    assert_recorded(&run, &program, (&file, &out), &bytes);
    assert_eq!(program.request(), "vor 1 stream spans=slow:2500us\n");
}

#[test]
fn a_program_that_is_asked_to_end_sends_the_rest() {
    let bytes = write_shop().close();
    let sent = bytes.clone();
    let program = Served::start(move |client| {
        let (first, last) = sent.split_at(sent.len() / 2);
        client.write_all(first).unwrap();
        wait_for_the_end(client);
        // The client looks several times meanwhile.
        std::thread::sleep(Duration::from_millis(300));
        client.write_all(last).unwrap();
    });
    let (run, file, out) = record(&program, &["--seconds", "0", "--spans", "none"]);
    assert_recorded(&run, &program, (&file, &out), &bytes);
    assert_eq!(program.request(), "vor 1 stream spans=none\n");
}

#[test]
fn a_program_that_sends_no_end_does_not_hold_the_command() {
    let bytes = write_shop().bytes();
    let sent = bytes.clone();
    let (ended, is_over) = mpsc::channel();
    let program = Served::start(move |client| {
        client.write_all(&sent).unwrap();
        wait_for_the_end(client);
        let _: Result<(), _> = is_over.recv_timeout(Duration::from_secs(60));
    });
    let (run, file, out) = record(&program, &["--seconds", "0"]);
    ended.send(()).unwrap();
    assert_eq!((run.code, file), (0, bytes));
    let out = out.display();
    assert!(
        run.stderr.contains(&format!(
            "\nvor: {out}: the program sent no end; the file has no index\n"
        )),
        "{run:?}"
    );
    program.request();
}

#[test]
fn addresses_and_times_are_checked_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.vor");
    for (address, seconds, said) in [
        ("localhost", "1", "`localhost`: there is no port"),
        ("unix:/nowhere/s", "-1", "`-1` is not a number of seconds"),
        (
            "unix:/nowhere/s",
            "soon",
            "`soon` is not a number of seconds",
        ),
        ("unix:/nowhere/s", "1e9", "`1e9` is not a number of seconds"),
        ("unix:/nowhere/s", "2.5", "no program listens there"),
    ] {
        let mut command = vor();
        command.args(["record", address, "-o"]).arg(&out);
        let run = Run::from(
            command
                .arg(format!("--seconds={seconds}"))
                .output()
                .unwrap(),
        );
        assert!(run.refusal().contains(said), "{address}: {run:?}");
    }
    assert!(!out.exists());
}
