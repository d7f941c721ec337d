//! The files of a program that ends without a flush: by a return from `main`, or by
//! `std::process::exit` on any of its threads. On Windows, the latter ends the other threads at any
//! point, and runs no exit handlers of the C library.

#![cfg(all(any(unix, windows), not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use vor_capture::reader::{Event, Reader};
use vor_fixtures::process::{self, role};
use vor_fixtures::test_name;
use vor_recorder::drain::frame_mark;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;
use vor_recorder::sinks::Sink as _;
use vor_recorder::sinks::chrome::ChromeTraceSink;

/// The variable that names the folder of a child.
const FOLDER: &str = "VOR_PROCESS_END_IN";

/// A Chrome trace beside the capture, where the program just exits.
const TRACE: &str = "trace.json";

/// The exit code of a child that calls `std::process::exit`.
const CODE: i32 = 3;
const SPANS: usize = 1000;
/// Longer than the passes that [`work`] causes.
const REST: Duration = Duration::from_millis(200);
/// An exit takes a moment; one that waits for a thread that is gone takes for ever.
const LIMIT: Duration = Duration::from_secs(60);

fn work() {
    for _ in 0..10 {
        for _ in 0..SPANS / 10 {
            profile_scope!("work");
        }
        frame_mark();
    }
}

/// On Windows, an exit ends the worker wherever it is, which is in the middle of a pass soon after
/// [`work`]. Elsewhere it waits for the worker, so nothing needs a rest.
fn rest() {
    if cfg!(windows) {
        std::thread::sleep(REST);
    }
}

/// Records without end at the pace of a busy server: bursts with pauses between.
fn record_on() {
    loop {
        for _ in 0..50 {
            profile_scope!("on and on");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts and ends threads, which takes locks of the recorder and of the allocator.
fn come_and_go() {
    loop {
        let thread = std::thread::spawn(|| {
            profile_scope!("on and on");
            drop(std::hint::black_box(vec![0_u8; 100]));
        });
        thread.join().unwrap();
    }
}

/// Ends in the way that `how` names.
fn end(how: &str, folder: &Path) {
    let mut config = Config::new().capture(folder.join("run.vor"));
    if how == "with a sink that waits" {
        config = config.sink("waits", waits::Waits::new());
    }
    config.enable();
    if how == "exit" {
        let path = folder.join(TRACE);
        std::mem::forget(ChromeTraceSink { path }.install());
    }
    match how {
        "return" => work(),
        "exit" | "with a sink that waits" => {
            work();
            rest();
            profile_scope!("open at exit");
            std::process::exit(CODE);
        }
        "on another thread" | "among others" | "flat out" => {
            for _ in 0..2 {
                std::thread::spawn(match how {
                    "among others" => come_and_go,
                    "flat out" => || {
                        loop {
                            profile_scope!("on and on");
                        }
                    },
                    _ => record_on,
                });
            }
            let last = std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                work();
                profile_scope!("open at exit");
                std::process::exit(CODE)
            });
            last.join().unwrap()
        }
        other => panic!("{other}"),
    }
}

mod waits {
    use std::sync::{Arc, Mutex, mpsc};

    use vor_capture::Error;
    use vor_capture::model::frame::FrameSnapshot;
    use vor_capture::sink::FrameSink;

    /// A sink that needs a thread of its own at its end.
    pub struct Waits {
        lock: Arc<Mutex<()>>,
        ends: mpsc::Sender<()>,
    }

    impl Waits {
        pub fn new() -> Self {
            let (lock, (ends, end), (begun, begin)) =
                (Arc::new(Mutex::new(())), mpsc::channel(), mpsc::channel());
            let held = Arc::clone(&lock);
            std::thread::spawn(move || {
                let _held = held.lock().unwrap();
                begun.send(()).unwrap();
                end.recv().unwrap();
            });
            begin.recv().unwrap();
            Self { lock, ends }
        }
    }

    impl Waits {
        fn wait(&self) {
            let _ = self.ends.send(());
            drop(self.lock.lock());
        }
    }

    impl FrameSink for Waits {
        fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
            Ok(())
        }

        fn finish(&mut self) -> Result<(), Error> {
            self.wait();
            Ok(())
        }
    }

    impl Drop for Waits {
        fn drop(&mut self) {
            self.wait();
        }
    }
}

/// The results of a child.
#[derive(Debug, PartialEq)]
struct Outcome {
    code: Option<i32>,
    /// Whether the capture was closed in order.
    closed: bool,
    /// Spans of [`work`] in the capture.
    work: usize,
    /// Scopes that were open at the end, according to the capture.
    open: usize,
}

/// Runs a child to its end and reads its results.
fn outcome_of(how: &str) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let mut child = process::child(test_name!("children_run_their_part"), how);
    let mut child = child.env(FOLDER, folder.path()).spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > LIMIT => {
                child.kill().unwrap();
                panic!("{how}: it does not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut outcome = Outcome {
        code: status.code(),
        closed: false,
        work: 0,
        open: 0,
    };
    let mut reader = Reader::open(folder.path().join("run.vor")).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => {
                let mut sites = batch.threads.iter().flat_map(|thread| thread.sites.iter());
                outcome.work += sites
                    .by_ref()
                    .filter(|site| batch.catalog.site_name(**site) == "work")
                    .count();
            }
            Event::OpenScopes(open) => {
                outcome.open = open.threads.iter().map(|(_, open)| open.len()).sum()
            }
            // Only the tail may be missing.
            Event::Loss(loss) => panic!("{how}: {loss:?}"),
            _ => {}
        }
    }
    outcome.closed = reader.damage().is_none();
    let trace = std::fs::read_to_string(folder.path().join(TRACE));
    assert_eq!(trace.is_ok(), how == "exit", "{how}: {trace:?}");
    if let Ok(trace) = trace
        && outcome.closed
    {
        let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
        let events = trace.as_array().unwrap();
        let work = events.iter().filter(|event| event["name"] == "work");
        assert_eq!(work.count(), SPANS, "the trace is complete too");
    }
    outcome
}

#[test]
fn children_run_their_part() {
    if let Some(role) = role() {
        end(&role, Path::new(&std::env::var_os(FOLDER).unwrap()));
    }
}

#[test]
fn a_return_from_main_closes_the_capture() {
    let outcome = outcome_of("return");
    assert_eq!(
        outcome,
        Outcome {
            code: Some(0),
            closed: true,
            work: SPANS,
            open: 0
        }
    );
}

#[test]
fn an_exit_closes_the_capture() {
    let expected = Outcome {
        code: Some(CODE),
        closed: true,
        work: SPANS,
        open: 1,
    };
    for how in ["exit", "with a sink that waits"] {
        // On Windows, the worker may still be ended in the middle of a pass.
        let (times, least) = if cfg!(windows) { (6, 3) } else { (1, 1) };
        let ends: Vec<Outcome> = (0..times).map(|_| outcome_of(how)).collect();
        let whole = ends.iter().filter(|outcome| **outcome == expected).count();
        assert!(whole >= least, "{how}: {ends:?}");
        for outcome in ends {
            assert!(
                outcome.code == Some(CODE) && (outcome == expected || !outcome.closed),
                "{how}: {outcome:?}"
            );
        }
    }
}

/// On Windows, the worker may be ended in the middle of a pass; then the capture is that of a
/// killed program. At least half of the captures must be complete.
#[test]
fn an_exit_on_another_thread_closes_the_capture_while_others_record() {
    let ends: Vec<Outcome> = (0..6).map(|_| outcome_of("on another thread")).collect();
    let whole = ends.iter().filter(|outcome| outcome.closed).count();
    println!("{whole} of {} captures are closed", ends.len());
    assert!(whole >= if cfg!(windows) { 3 } else { 6 }, "{ends:?}");
    for outcome in ends {
        assert_eq!(outcome.code, Some(CODE));
        if outcome.closed {
            assert_eq!(outcome.work, SPANS);
            assert!(outcome.open >= 1, "{outcome:?}");
        }
    }
}

/// The process ends with the program's code in every state of the other threads, and within the
/// limit. On Unix the other threads live on until all captures are closed. On Windows they may have
/// been ended with a lock; then the capture is that of a killed program.
#[test]
fn an_exit_never_waits_for_an_ended_thread() {
    for how in ["among others", "flat out"] {
        let ends: Vec<Outcome> = (0..4).map(|_| outcome_of(how)).collect();
        let whole = ends.iter().filter(|outcome| outcome.closed).count();
        println!("{how}: {whole} of {} captures are closed", ends.len());
        assert!(whole == ends.len() || cfg!(windows), "{how}: {ends:?}");
        for outcome in ends {
            assert_eq!(outcome.code, Some(CODE), "{how}: {outcome:?}");
            if outcome.closed {
                assert_eq!(outcome.work, SPANS, "{how}: {outcome:?}");
                assert!(outcome.open >= 1, "{how}: {outcome:?}");
            }
        }
    }
}
