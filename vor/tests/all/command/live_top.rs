//! `vor top` of small captures, and of a program that the test plays.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use vor_fixtures::sealed::kind;

use crate::command::drafts::{Draft, damage, frame, put, shop, thread, write_shop};
use crate::command::served::{Served, wait_for_the_end};
use crate::command::{run, vor};

/// Returns the screen of the shop before its first second has ended.
fn screen(title: &str) -> String {
    let row = |name: &str, cells: [&str; 5]| {
        let cells = cells.map(|cell| format!(" {cell:>9}")).concat();
        format!("{name:<17}{cells} ")
    };
    let cells = ["-", "-", "0", "-", "-"];
    let heads = ["self/s", "total/s", "calls/s", "mean", "max"];
    let mut lines = vec![
        format!("vor top  shop (4711)  {title}"),
        "frames 133333/s p50 4.00 µs p99 11.0 µs  spans 0/s".to_owned(),
        // The frames, of which the last is almost three times as long.
        "  █".to_owned(),
        "  █".to_owned(),
        "███".to_owned(),
        "1 scopes  2 threads  3 metrics  4 waits   by self/s".to_owned(),
        row("scope", heads) + "       trend",
        row("parse", cells),
        row("render", cells),
        row("request", cells),
    ];
    lines.resize(23, String::new());
    lines.push("q quit  1-4 table  ↑↓ row  Enter open  s sort  / filter  f freeze".to_owned());
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

#[test]
fn a_screen_of_a_capture_or_of_an_ended_program_is_printed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let closed = write_shop().close();
    let mut damaged = closed.clone();
    damage(&mut damaged, kind::BATCH, 1);
    for (bytes, title) in [
        (closed.clone(), "ended  dropped 0"),
        (write_shop().bytes(), "follows  dropped 0"),
        (damaged, "ended  dropped 0  damaged in 2 places"),
    ] {
        let path = put(folder.path(), "run.vor", &bytes);
        let once = run("top", &path, &["--once"]);
        assert_eq!((once.code, once.stderr.as_str()), (0, ""));
        assert_eq!(once.stdout, screen(title));
    }
    let program = Served::start(move |client| client.write_all(&closed).unwrap());
    let options = ["--once", "--spans", "slow:20ms"];
    let once = run("top", Path::new(&program.address), &options);
    assert_eq!((once.code, once.stderr.as_str()), (0, ""));
    assert_eq!(once.stdout, screen("ended  dropped 0"));
    assert_eq!(program.request(), "vor 1 stream spans=slow:20000us\n");
}

#[test]
fn a_running_program_is_watched_also_if_it_pauses() {
    let mut draft = Draft::new(shop());
    draft.batch(vec![thread(0, &[(1_200, 300, 2)])]);
    draft.frame(frame(10, (1_000, 5_000), 1));
    let first = draft.bytes();
    draft.batch(vec![thread(1, &[(6_000, 500, 3)])]);
    draft.frame(frame(11, (5_000, 9_000), 1));
    let all = draft.bytes();
    let program = Served::start(move |client| {
        client.write_all(&first).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        client.write_all(&all[first.len()..]).unwrap();
        wait_for_the_end(client);
    });
    let once = run("top", Path::new(&program.address), &["--once"]);
    assert_eq!((once.code, once.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = once.stdout.lines().collect();
    assert_eq!(lines[0], "vor top  shop (4711)  live  dropped 0");
    for name in ["parse", "render"] {
        assert!(lines.iter().any(|line| line.starts_with(name)), "{once:?}");
    }
    program.request();
}

#[test]
fn a_dashboard_needs_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "run.vor", &write_shop().close());
    let refused = run("top", &path, &[]);
    assert_eq!(
        refused.refusal(),
        "vor: top: stdout is no terminal; `--once` prints one screen"
    );
}

/// Opens a terminal of 80 by 24 characters: the end of the user, and that of the program.
#[expect(unsafe_code, reason = "the standard library opens no terminals")]
fn terminal() -> (File, File) {
    let mut size = libc::winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (mut user, mut program) = (0, 0);
    let (name, settings) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the call writes the two numbers and reads the size.
    let opened = unsafe {
        libc::openpty(
            &raw mut user,
            &raw mut program,
            name,
            settings,
            &raw mut size,
        )
    };
    assert_eq!(opened, 0);
    // SAFETY: both are open, and nothing else owns them.
    unsafe { (File::from_raw_fd(user), File::from_raw_fd(program)) }
}

/// Reads what a program draws until a word is there.
fn wait_for(user: &mut File, word: &str) {
    let (mut drawn, mut chunk) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&drawn).contains(word) {
        let read = user.read(&mut chunk).unwrap();
        drawn.extend_from_slice(&chunk[..read]);
    }
}

#[test]
fn a_dashboard_takes_keys_until_q() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = write_shop().close();
    damage(&mut bytes, kind::BATCH, 1);
    let path = put(folder.path(), "run.vor", &bytes);
    let check: Value = serde_json::from_str(&run("check", &path, &["--json"]).stdout).unwrap();
    let losses = check["damage"]["losses"].as_array().unwrap();
    let (mut user, program) = terminal();
    let mut command = vor();
    command.arg("top").arg(&path).env("TERM", "xterm-256color");
    command.stdin(program.try_clone().unwrap());
    let mut child = command
        .stdout(program)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command has its end of the terminal, which the test gives up.
    drop(command);
    wait_for(&mut user, "request");
    user.write_all(b"2").unwrap();
    wait_for(&mut user, "busy");
    user.write_all(b"q").unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(child.wait().unwrap().success());
    let line = |loss: &Value| {
        let reason = loss["reason"].as_str().unwrap();
        format!("vor: {}: damaged: {reason}\n", path.display())
    };
    assert_eq!(said, losses.iter().map(line).collect::<String>());
}
