//! The table of counted scopes: at the end of a process, on SIGUSR1, in the child of a fork, and
//! beside a capture.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "signals and forks are calls of the C library")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::robust_support::{captures, child, read, role, run, vor_lines};
use vor_fixtures::test_name;

/// Two levels of scopes, a second thread, and a name that is made at run time.
fn work(count: usize) {
    let work = move || {
        for _ in 0..count {
            vor::profile_scope!("outer");
            for _ in 0..3 {
                vor::profile_scope!("inner", text = "not kept");
            }
        }
    };
    std::thread::spawn(work).join().unwrap();
    work();
    let _open_at_the_end = vor::scope("made at run time");
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the counts of a scope in the tables on stderr.
fn counts(text: &str, name: &str) -> Vec<u64> {
    text.lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix("  "))
        .map(|rest| rest.trim_start_matches(' ').split(' ').next().unwrap())
        // Groups of three digits have a narrow space between them.
        .map(|count| count.replace('\u{202f}', "").parse().unwrap())
        .collect()
}

#[test]
fn the_end_of_a_process_prints_the_table() {
    let test = test_name!();
    match role().as_deref() {
        Some("config") => vor::Config::new().count_scopes(true).enable(),
        Some("silent") => vor::Config::new()
            .count_scopes(true)
            .print_stats(false)
            .enable(),
        Some(_) => vor::enable(),
        None => {
            for (role, value, printed) in [
                ("variable", "1", true),
                ("config", "", true),
                ("variable", "0", false),
                ("silent", "", false),
            ] {
                let folder = tempfile::tempdir().unwrap();
                let output = run(child(test, role, folder.path()).env("VOR_COUNT_SCOPES", value));
                assert!(output.status.success(), "{output:?}");
                let text = stderr(&output);
                if !printed {
                    assert_eq!(text, "", "{role}");
                    continue;
                }
                assert!(text.starts_with("vor: 3 scopes of all"), "{text}");
                assert_eq!(vor_lines(&output).len(), 1, "{text}");
                assert_eq!(
                    [counts(&text, "outer"), counts(&text, "inner")],
                    [[200], [600]],
                    "{text}"
                );
                assert_eq!(counts(&text, "made at run time"), [1]);
                assert!(
                    text.lines().all(|line| line.chars().count() <= 100),
                    "{text}"
                );
            }
            return;
        }
    }
    work(100);
}

/// Starts a child and waits until it reports that its work is done.
fn started(test: &str, role: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = child(test, role, folder.path())
        .env("VOR_COUNT_SCOPES", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    until(&mut stdout, "worked");
    (child, stdout)
}

/// Reads lines up to and including one that ends with `end`.
fn until(from: &mut impl BufRead, end: &str) -> String {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        assert!(
            from.read_line(&mut line).unwrap() > 0,
            "{end} is missing: {all}"
        );
        all += &line;
        if line.trim_end().ends_with(end) {
            return all;
        }
    }
}

fn signal(child: &Child) {
    // SAFETY: the process is a child of this one that has not been waited for.
    let status = unsafe { libc::kill(child.id().cast_signed(), libc::SIGUSR1) };
    assert_eq!(status, 0);
}

static OWN_SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn own(_: libc::c_int) {
    OWN_SIGNALS.fetch_add(1, Ordering::SeqCst);
}

fn wait_for_line() {
    println!("worked");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

#[test]
fn a_signal_prints_the_table() {
    let test = test_name!();
    if role().is_some() {
        vor::enable();
        work(100);
        wait_for_line();
        // By the second signal, the worker of vor is in its long sleep.
        work(100);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        wait_for_line();
        return;
    }
    let (mut child, mut stdout) = started(test, "child");
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    for times in [1, 2] {
        signal(&child);
        // The table is the heading, the names of the columns and three rows.
        let mut text = String::new();
        while text.lines().count() < 5 {
            assert!(stderr.read_line(&mut text).unwrap() > 0, "{text}");
        }
        assert!(text.starts_with("vor: 3 scopes of "), "{text}");
        assert_eq!(counts(&text, "outer"), [times * 200], "{text}");
        writeln!(child.stdin.as_mut().unwrap(), "go on").unwrap();
        if times == 1 {
            until(&mut stdout, "worked");
        }
    }
    assert!(child.wait().unwrap().success());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(
        counts(&rest, "outer"),
        [400],
        "printed again at the end: {rest}"
    );
}

#[test]
fn a_handler_of_the_program_stays_installed() {
    let test = test_name!();
    if role().is_some() {
        // SAFETY: the handler only adds to an atomic.
        unsafe {
            libc::signal(
                libc::SIGUSR1,
                own as extern "C" fn(libc::c_int) as libc::sighandler_t,
            )
        };
        vor::enable();
        work(10);
        // SAFETY: the handler is the one above.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert_eq!(OWN_SIGNALS.load(Ordering::SeqCst), 1);
        std::thread::sleep(std::time::Duration::from_millis(300));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(child(test, "child", folder.path()).env("VOR_COUNT_SCOPES", "1"));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(counts(&stderr(&output), "outer"), [20], "only at the end");
}

#[test]
fn the_child_of_a_fork_counts_its_own() {
    let test = test_name!();
    if role().is_some() {
        vor::enable();
        work(100);
        let around = vor::scope("around the fork");
        // SAFETY: the only other threads of this process are vor's own, and the child does no more
        // than the parent.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            assert!(vor::stats().is_empty());
            work(7);
            drop(around);
            assert_eq!(vor::stats_by_thread().len(), 2);
            std::process::exit(0);
        }
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0);
        work(100);
        drop(around);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(child(test, "child", folder.path()).env("VOR_COUNT_SCOPES", "1"));
    assert!(output.status.success(), "{output:?}");
    let text = stderr(&output);
    assert_eq!(counts(&text, "outer"), [14, 400], "{text}");
    assert_eq!(counts(&text, "inner"), [42, 1200], "{text}");
    assert_eq!(counts(&text, "around the fork"), [1, 1], "{text}");
}

#[test]
fn a_capture_beside_the_table_holds_no_spans_and_a_line_reports_it() {
    let test = test_name!();
    if role().is_some() {
        vor::enable();
        for i in 0..10 {
            work(10);
            vor::record_metric("n", f64::from(i));
            vor::frame_mark();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (flame, lines) in [("1", 1), ("0", 0)] {
        let path = folder.path().join(format!("run{flame}.vor"));
        let output = run(child(test, "child", folder.path())
            .env("VOR_COUNT_SCOPES", "1")
            .env("VOR_RECORD", &path)
            .env("VOR_RECORD_SPANS", flame));
        assert!(output.status.success(), "{output:?}");
        let text = stderr(&output);
        let told = text
            .lines()
            .filter(|line| line.contains("holds no spans"))
            .count();
        assert_eq!(told, lines, "{text}");
        assert_eq!(counts(&text, "outer"), [200], "{text}");
        let summary = read(&path);
        assert!(summary.spans.is_empty());
        assert_eq!(summary.frames.len(), 10);
        assert!(summary.damage.is_empty());
    }
    assert_eq!(captures(folder.path()).len(), 2);
}

#[test]
fn a_bad_value_is_one_line() {
    let test = test_name!();
    if role().is_some() {
        vor::enable();
        work(10);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("VOR_COUNT_SCOPES", "yes"),
        ("VOR_COUNTS", "1"),
        ("VOR_COUNT_SCOPES", "-1"),
    ] {
        let output = run(child(test, "child", folder.path()).env(name, value));
        assert!(output.status.success(), "{output:?}");
        let lines = vor_lines(&output);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(&format!("vor: {name}: ")), "{lines:?}");
    }
}

#[test]
fn a_misspelt_variable_is_one_line_with_the_right_name() {
    let test = test_name!();
    if role().is_some() {
        vor::enable();
        vor::enable();
        drop(vor::Config::from_env());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = child(test, "child", folder.path());
    // Variables of vor's build and tests are not reported as misspelt.
    child
        .env("VOR_RECRD", "run.vor")
        .env("VOR_CI_INSTALL", "1")
        .env("VOR_CACHE", "here");
    let output = run(&mut child);
    assert!(output.status.success(), "{output:?}");
    let lines = vor_lines(&output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("VOR_RECRD") && lines[0].contains("did you mean VOR_RECORD?"),
        "{lines:?}"
    );
}
