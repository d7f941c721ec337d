//! `fork` while recording: each process writes its own spans to its own file, and no span is
//! written twice.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "fork is a call of the C library")]

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::robust_support::{Summary, captures, child, read, role, run, vor_lines};
use vor_fixtures::test_name;

static DISTRIBUTION: vor::Histogram = vor::Histogram::new("latency", "ns");
static COUNTER: vor::Counter = vor::Counter::new("jobs", "");

/// Runs `in_child` in a fork and returns the process ID of the child.
fn fork(in_child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the tests run as one thread, or fork from a program whose other threads only record;
    // the child does no more than they do.
    match unsafe { libc::fork() } {
        0 => {
            in_child();
            // SAFETY: ends this process at once, without its handlers.
            unsafe { libc::_exit(0) }
        }
        pid => {
            assert!(pid > 0);
            pid
        }
    }
}

/// Waits for a child. Fails if that takes very long: then the child waits for a lock.
fn wait(pid: libc::pid_t) {
    for _ in 0..60_000 {
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        match unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } {
            0 => std::thread::sleep(std::time::Duration::from_millis(1)),
            done => {
                assert_eq!((done, status), (pid, 0), "the child ended in order");
                return;
            }
        }
    }
    // SAFETY: the process is a child of this one.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    panic!("the child hangs");
}

fn spans(name: &'static str, count: usize) {
    for _ in 0..count {
        let _span = vor::scope(name);
    }
}

/// Runs one part of the tests below, recording to `VOR_RECORD`.
fn run_part(part: &str) {
    vor::enable();
    match part {
        "_exit" | "exit" => {
            let open = std::cell::Cell::new(Some(vor::scope("around the fork")));
            spans("before", 500);
            vor::record_io(0, 1000);
            COUNTER.add(1000);
            let child = fork(|| {
                {
                    vor::profile_scope!("in the child", text = "its own");
                    COUNTER.add(1);
                    spans("child", 300);
                    vor::frame_mark();
                    if part == "exit" {
                        spans("last words", 10);
                        std::process::exit(0);
                    }
                }
                drop(open.take());
                vor::flush();
            });
            spans("parent", 200);
            wait(child);
            drop(open.take());
            vor::frame_mark();
        }
        "threads" => {
            static STOP: AtomicBool = AtomicBool::new(false);
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| {
                        while !STOP.load(Ordering::Relaxed) {
                            spans("busy", 10);
                            DISTRIBUTION.record(5);
                            vor::record_metric("level", 1.0);
                            vor::message!("at {}", 3);
                            vor::frame_mark();
                        }
                    });
                }
                for _ in 0..20 {
                    let child = fork(|| {
                        spans("child", 50);
                        DISTRIBUTION.record(7);
                        vor::record_metric("level", 2.0);
                        vor::frame_mark();
                        vor::flush();
                    });
                    spans("parent", 50);
                    wait(child);
                }
                STOP.store(true, Ordering::Relaxed);
            });
        }
        "registering" => {
            static STOP: AtomicBool = AtomicBool::new(false);
            std::thread::scope(|threads| {
                for thread in 0..3 {
                    threads.spawn(move || {
                        for round in 0..400 {
                            if STOP.load(Ordering::Relaxed) {
                                break;
                            }
                            register(&format!("{thread}/{round}"));
                            std::thread::spawn(|| drop(vor::scope("short-lived")))
                                .join()
                                .unwrap();
                            vor::frame_mark_named(&format!("set {}", round % 50));
                            std::thread::yield_now();
                        }
                    });
                }
                for round in 0..60 {
                    wait(fork(|| {
                        register(&format!("child {round}"));
                        its_worker_comes();
                        vor::frame_mark();
                        vor::flush();
                        std::hint::black_box(vor::open_scopes());
                        std::hint::black_box(vor::close_capture());
                    }));
                }
                STOP.store(true, Ordering::Relaxed);
            });
        }
        "storm" => storm(4),
        "silent" => {
            spans("before", 10);
            // Children that record nothing write nothing, on every kind of exit.
            wait(fork(|| {}));
            wait(fork(|| std::process::exit(0)));
            wait(fork(|| {
                vor::flush();
                std::process::exit(0)
            }));
        }
        other => panic!("{other}"),
    }
}

/// Uses everything that takes a lock at its first use, under new names.
fn register(name: &str) {
    let name: &'static str = String::leak(name.to_owned());
    let histogram: &'static _ = Box::leak(Box::new(vor::Histogram::new(name, "ns")));
    histogram.record(7);
    histogram.record(9);
    let counter: &'static _ = Box::leak(Box::new(vor::Counter::new(name, "")));
    counter.add(3);
    vor::record_metric_unit(name, "m");
    vor::record_metric(name, 1.5);
    spans(name, 2);
}

/// Waits until the worker of a child delivers a span to a sink without a flush. The standard
/// library cannot start a thread in a child that was forked while another thread started or ended:
/// its own lock stays locked.
fn its_worker_comes() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    struct Counts;
    impl vor::sinks::FrameSink for Counts {
        fn interest(&self) -> vor::sinks::Interest {
            vor::sinks::Interest::BATCHES
        }
        fn accept_batch(&mut self, batch: &vor::capture::SpanBatch) -> Result<(), vor::Error> {
            SEEN.fetch_add(batch.span_count(), Ordering::Relaxed);
            Ok(())
        }
        fn accept_frame(&mut self, _: &Arc<vor::capture::FrameSnapshot>) -> Result<(), vor::Error> {
            Ok(())
        }
    }
    let counts = vor::add_sink("counts", Counts);
    spans("fetched by nobody", 3);
    let begin = std::time::Instant::now();
    while SEEN.load(Ordering::Relaxed) < 3 {
        if begin.elapsed().as_secs() > 50 {
            eprintln!("no worker comes");
            // SAFETY: ends this process, which is a child, at once.
            unsafe { libc::_exit(1) };
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(counts);
}

/// Each process forks two more, down to a depth.
fn storm(depth: u32) {
    spans("here", 20);
    if depth > 0 {
        let children = [(); 2].map(|()| fork(|| storm(depth - 1)));
        children.into_iter().for_each(wait);
    }
    vor::flush();
}

fn play_in_child(test: &str, part: &str, folder: &Path) -> Output {
    let mut command = child(test, part, folder);
    command
        .env("VOR_RECORD", folder.join("run.vor"))
        .env("VOR_RECORD_SPANS", "1");
    let output = run(&mut command);
    assert!(output.status.success(), "{part}: {output:?}");
    output
}

/// Reads all captures of a folder: the one of the first process, and the others.
fn read_all(folder: &Path) -> (Summary, Vec<Summary>) {
    let first = folder.join("run.vor");
    let others = captures(folder).into_iter().filter(|path| *path != first);
    let others: Vec<_> = others.map(|path| read(&path)).collect();
    let first = read(&first);
    for summary in others.iter().chain([&first]) {
        assert!(
            summary.damage.len() <= usize::from(!summary.closed),
            "{:?}",
            summary.damage
        );
    }
    (first, others)
}

#[test]
fn parent_and_child_write_their_own_spans_each() {
    let test = test_name!();
    if let Some(part) = role() {
        return run_part(&part);
    }
    for part in ["_exit", "exit"] {
        let folder = tempfile::tempdir().unwrap();
        let output = play_in_child(test, part, folder.path());
        let lines = vor_lines(&output);
        assert!(
            lines.len() == 1 && lines[0].contains("being written already"),
            "{lines:?}"
        );
        let (parent, mut children) = read_all(folder.path());
        assert_eq!(children.len(), 1, "{part}");
        let inside = children.pop().unwrap();
        let counts = |of: &Summary| ["before", "parent", "child"].map(|name| of.count(name));
        assert_eq!(counts(&parent), [500, 200, 0], "{part}");
        assert_eq!(counts(&inside), [0, 0, 300], "{part}");
        assert_eq!(parent.count("in the child"), 0);
        // The child that exits does so inside two scopes, one of which the parent opened.
        assert_eq!(inside.open_at_close, if part == "exit" { 2 } else { 0 });
        assert_eq!(inside.count("in the child"), usize::from(part == "_exit"));
        assert!(parent.closed, "{part}");
        assert_eq!(inside.closed, part == "exit", "{part}");
        // The scope around the fork ends once in each process that ends it.
        assert_eq!(parent.count("around the fork"), 1);
        assert_eq!(
            inside.count("around the fork"),
            usize::from(part == "_exit")
        );
        assert_eq!(
            inside.count("last words"),
            if part == "exit" { 10 } else { 0 }
        );
        // A metric that the parent recorded before the fork is in the parent's frame only.
        let metric = |of: &Summary, name: &str| of.frames[0].0.metric(name);
        assert_eq!(metric(&parent, "jobs"), Some(1000.0), "{part}");
        assert_eq!(metric(&inside, "jobs"), Some(1.0), "{part}");
    }
}

#[test]
fn a_fork_of_a_program_with_busy_threads_neither_hangs_nor_mixes() {
    let test = test_name!();
    if let Some(part) = role() {
        return run_part(&part);
    }
    let folder = tempfile::tempdir().unwrap();
    play_in_child(test, "threads", folder.path());
    let (parent, children) = read_all(folder.path());
    assert_eq!((parent.count("parent"), parent.count("child")), (1000, 0));
    assert!(parent.count("busy") > 0);
    assert_eq!(children.len(), 20);
    for child in children {
        assert_eq!(
            (
                child.count("child"),
                child.count("parent"),
                child.count("busy")
            ),
            (50, 0, 0)
        );
        let frame = &child.frames.first().expect("the child's frame").0;
        assert_eq!(
            (frame.metric("latency.max"), frame.metric("level")),
            (Some(7.0), Some(2.0))
        );
    }
}

/// A lock that another thread holds at the moment of the fork is never released in the child.
#[test]
fn a_fork_during_first_uses_leaves_no_lock_behind() {
    let test = test_name!();
    if let Some(part) = role() {
        return run_part(&part);
    }
    let folder = tempfile::tempdir().unwrap();
    play_in_child(test, "registering", folder.path());
    let (_, children) = read_all(folder.path());
    assert_eq!(children.len(), 60);
    let mut rounds: Vec<u32> = Vec::new();
    for child in children {
        let (name, spans) = child
            .spans
            .iter()
            .find(|(name, _)| name.starts_with("child "))
            .unwrap();
        assert_eq!((spans.len(), child.count("fetched by nobody")), (2, 3));
        let frame = &child.frames[0].0;
        assert_eq!(frame.metric(&format!("{name}.max")), Some(9.0));
        assert!(
            child.closed && child.spans.len() == 2,
            "{:?}",
            child.spans.keys()
        );
        rounds.push(name["child ".len()..].parse().unwrap());
    }
    rounds.sort_unstable();
    assert!(rounds.into_iter().eq(0..60), "each child wrote its own");
}

#[test]
fn a_storm_of_forks_keeps_every_span_once() {
    let test = test_name!();
    if let Some(part) = role() {
        return run_part(&part);
    }
    let folder = tempfile::tempdir().unwrap();
    play_in_child(test, "storm", folder.path());
    let (first, others) = read_all(folder.path());
    assert_eq!(others.len(), 30, "two to each of 15 processes");
    for summary in others.iter().chain([&first]) {
        assert_eq!(summary.count("here"), 20);
    }
}

#[test]
fn children_that_record_nothing_write_nothing() {
    let test = test_name!();
    if let Some(part) = role() {
        return run_part(&part);
    }
    let folder = tempfile::tempdir().unwrap();
    play_in_child(test, "silent", folder.path());
    let (parent, others) = read_all(folder.path());
    assert_eq!(parent.count("before"), 10);
    assert!(parent.closed && others.is_empty());
}
