//! Reports about a program that stalls.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::mpsc;
use std::time::Duration;

use crate::robust_support::{captures, child, folder, read, role, run, vor_lines};
use vor_fixtures::test_name;

/// How long the children stall: three times the limit of 400 ms. A scope that is opened with
/// another may be reported late by half the limit.
const STALL: Duration = Duration::from_millis(1200);

fn stand_still() {
    vor::enable();
    let path = folder().join("run.vor");
    vor::Config::new().capture(path).enable();
    vor::frame_mark();
    let (ready, is_ready) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    let helper = std::thread::Builder::new().name("helper".into());
    let helper = helper.spawn(move || {
        vor::profile_scope!("waits for the lock");
        ready.send(()).unwrap();
        let _ = is_done.recv();
    });
    is_ready.recv().unwrap();
    {
        vor::profile_scope!("outer");
        vor::profile_scope!("holds the lock");
        std::thread::sleep(STALL);
    }
    drop(done);
    helper.unwrap().join().unwrap();
    vor::frame_mark();
    vor::close_capture();
}

#[test]
fn a_stall_is_reported_on_stderr_and_in_the_capture() {
    let test = test_name!();
    if role().is_some() {
        return stand_still();
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(child(test, "child", folder.path()).env("VOR_WATCHDOG_MS", "400"));
    assert!(output.status.success(), "{output:?}");
    let lines = vor_lines(&output);
    assert!(
        lines[0].starts_with("vor: stalled: no frame mark for "),
        "{lines:?}"
    );
    let line_of = |text: &str| lines.iter().find(|line| line.contains(text)).unwrap();
    let main = line_of(": outer ");
    let (outer, inner) = main.split_once(" ms > holds the lock ").unwrap();
    let age = |text: &str| text.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    assert!(age(outer) >= age(inner.trim_end_matches(" ms")), "{main}");
    assert!(
        line_of(": waits for the lock ").contains(" `helper`:"),
        "{lines:?}"
    );
    // One frame stalled, so one line reports it, however long the stall lasts.
    let of_frames = lines.iter().filter(|line| line.contains("no frame mark"));
    assert_eq!(of_frames.count(), 1, "{lines:?}");

    let captured = read(&captures(folder.path())[0]);
    let told: Vec<_> = lines
        .iter()
        .map(|line| line.trim_start_matches("vor: "))
        .collect();
    assert_eq!(captured.messages, told);
    assert_eq!(captured.count("outer"), 1);
}

#[test]
fn a_stall_below_the_limit_is_not_reported() {
    let test = test_name!();
    if role().is_some() {
        return stand_still();
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(child(test, "child", folder.path()).env("VOR_WATCHDOG_MS", "600000"));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(vor_lines(&output), Vec::<String>::new());
    let folder = tempfile::tempdir().unwrap();
    let output = run(child(test, "child", folder.path()).env("VOR_WATCHDOG_MS", "soon"));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        vor_lines(&output),
        ["vor: VOR_WATCHDOG_MS: `soon` is not a number of milliseconds above 0; it is ignored"]
    );
}
