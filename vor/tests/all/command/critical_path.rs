//! `vor critical-path`: each moment belongs to the thread that it depended on.

use std::path::Path;
use std::sync::Arc;

use vor::capture::{ArgValue, FrameSnapshot, SpanArgs, SpanBatch};
use vor::sinks::FrameSink;
use vor_capture::filled;
use vor_capture::model::batch::{
    AsyncSpan, FlowPoint, FlowStage, TaskEvent, TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{SiteId, ThreadId, ThreadInfo};
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

use crate::command::{made, run};

const REQUEST: u32 = 1;
const EVICT: u32 = 2;
const WAIT: u32 = 3;
const TASK: u32 = 4;
const WAIT_OF_TASK: u32 = 5;
const HOLDER: u32 = 6;

/// The first tick of the capture.
const FIRST: u64 = 1_000_000;

/// Makes a thread of spans in microseconds, in the order of their ends, and points of one flow.
fn thread_of(number: u32, spans: &[(u32, u64, u64)], flow: &[(u64, FlowStage)]) -> ThreadBatch {
    let is_wait = |span: &(usize, &(u32, u64, u64))| span.1.0 == WAIT;
    let texts = ["worker-1", "evict"].map(|text| ArgValue::Str(text.into()));
    let args = spans.iter().enumerate().filter(is_wait).map(|(at, _)| {
        filled!(SpanArgs {
            span: at as u32,
            values: [&[ArgValue::Str("cache".into())][..], &texts].concat(),
        })
    });
    let point = |&(at, stage): &(u64, FlowStage)| {
        filled!(FlowPoint {
            ticks: FIRST + at * 1_000,
            flow: 7,
            stage,
        })
    };
    filled!(ThreadBatch {
        thread: ThreadId(number),
        start_ticks: spans.iter().map(|span| FIRST + span.1 * 1_000).collect(),
        duration_ticks: spans.iter().map(|span| (span.2 - span.1) * 1_000).collect(),
        sites: spans.iter().map(|span| SiteId(span.0)).collect(),
        args: args.collect(),
        flows: flow.iter().map(point).collect(),
    })
}

/// Writes a frame of 100 us in which the main thread waits from 20 to 60 for `evict`, which unlocks
/// at 50, and a task that the two threads poll. It waits from 14 to 40, and another task from 30
/// on.
fn write(path: &Path) {
    let names = [
        "request",
        "evict",
        "wait: cache",
        "fetch",
        "wait: slots",
        "holder_scope: refill",
    ];
    let mut catalog = made::catalog(&names.map(|name| made::scope(name, 1, 0)));
    let all = Arc::make_mut(&mut catalog);
    let sites = Arc::make_mut(&mut all.sites);
    let wait = sites[WAIT as usize - 1].as_mut().unwrap();
    let arg_names = ["lock", "holder", "holder_scope"];
    Arc::make_mut(wait).arg_names = arg_names.map(|name| name.to_owned().into()).to_vec();
    let wait = sites[WAIT_OF_TASK as usize - 1].as_mut().unwrap();
    Arc::make_mut(wait).category = "lock".into();
    let threads = Arc::make_mut(&mut all.threads);
    for (number, name) in [(0, "main"), (1, "worker-1")] {
        let info = filled!(ThreadInfo { name: name.into() });
        match threads.get_mut(number) {
            Some(thread) => *thread = Some(Arc::new(info)),
            None => threads.push(Some(Arc::new(info))),
        }
    }
    let main = [(WAIT, 20, 60), (REQUEST, 0, 90)];
    let mut main = thread_of(0, &main, &[(60, FlowStage::End)]);
    let mut worker = thread_of(1, &[(EVICT, 10, 55)], &[(50, FlowStage::Begin)]);
    let poll = |begin: u64, end: u64| {
        filled!(TaskEvent {
            task: 5,
            site: SiteId(TASK),
            start_ticks: FIRST + begin * 1_000,
            kind: TaskEventKind::Poll {
                duration_ticks: (end - begin) * 1_000,
            },
        })
    };
    let wait = |task, site, at: u64, kind| {
        filled!(TaskEvent {
            task,
            site: SiteId(site),
            start_ticks: FIRST + at * 1_000,
            kind,
        })
    };
    let begin = TaskEventKind::Begin { given_id: 0 };
    let own_wait = wait(6, WAIT_OF_TASK, 14, begin);
    let holder = wait(6, HOLDER, 14, TaskEventKind::Step);
    worker.task_events = vec![own_wait, holder, poll(5, 15)];
    main.task_events = vec![wait(8, WAIT_OF_TASK, 30, begin), poll(70, 80)];
    let task = |id, site, begin: u64, end: u64| {
        filled!(AsyncSpan {
            id,
            site: SiteId(site),
            start_ticks: FIRST + begin * 1_000,
            duration_ticks: (end - begin) * 1_000,
        })
    };
    main.async_spans = vec![
        task(6, WAIT_OF_TASK, 14, 40),
        task(8, WAIT_OF_TASK, 30, 70),
        task(5, TASK, 5, 80),
    ];
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    let batch = filled!(SpanBatch {
        catalog: Arc::clone(&catalog),
        threads: vec![main, worker],
    });
    sink.accept_batch(&batch).unwrap();
    let frame = filled!(FrameSnapshot {
        catalog,
        start_ticks: FIRST,
        end_ticks: FIRST + 100_000,
        span_count: 3,
    });
    sink.accept_frame(&Arc::new(frame)).unwrap();
    sink.finish().unwrap();
}

/// Returns the steps as microseconds, thread, scope and state, and checks that they leave no gap
/// and that the rows have their sums.
fn steps(found: &serde_json::Value) -> Vec<(u64, &str, &str, &str)> {
    let steps = found["steps"].as_array().unwrap();
    let mut at = 0;
    for step in steps {
        assert_eq!(step["start_ns"], at, "{found}");
        at += step["duration_ns"].as_u64().unwrap();
    }
    assert_eq!(found["duration_ns"], at, "{found}");
    let rows = found["rows"].as_array().unwrap();
    let sum: u64 = rows
        .iter()
        .map(|row| row["total_ns"].as_u64().unwrap())
        .sum();
    assert_eq!(sum, at, "{found}");
    let text = |step: &'_ serde_json::Value, key: &str| step[key].as_str().unwrap().to_owned();
    let step = |step| {
        (
            text(step, "thread"),
            text(step, "scope"),
            text(step, "state"),
        )
    };
    let texts = steps.iter().map(step);
    let begins = steps
        .iter()
        .map(|step| step["start_ns"].as_u64().unwrap() / 1_000);
    begins
        .zip(texts)
        .map(|(at, (thread, scope, state))| (at, &*thread.leak(), &*scope.leak(), &*state.leak()))
        .collect()
}

#[test]
fn a_frame_depends_on_the_thread_that_unlocked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frame.vor");
    write(&path);
    let expected = [
        (0, "main", "request", "in scope"),
        (20, "worker-1", "evict", "in scope"),
        (50, "main", "wait: cache", "woken"),
        (60, "main", "request", "in scope"),
        (90, "main", "", "outside of scopes"),
    ];
    for options in [&["--json"][..], &["--json", "--frame", "0"]] {
        let found = run("critical-path", &path, options).json();
        assert_eq!(steps(&found), expected);
        assert_eq!(found["interval"], "frame 0");
        assert_eq!(found["thread"], "main");
        let longest = &found["rows"][0];
        assert_eq!(
            (&longest["scope"], &longest["total_ns"]),
            (&"request".into(), &50_000.into())
        );
        assert_eq!(found["rows"][1]["waits"], serde_json::json!(["cache"]));
    }
    let call = run("critical-path", &path, &["--json", "--scope", "request"]).json();
    assert_eq!(steps(&call), expected[..4]);
    assert_eq!(call["interval"], "the longest call of request");
    let worker = ["--json", "--thread", "worker-1"];
    let worker = run("critical-path", &path, &worker).json();
    assert_eq!(steps(&worker)[1], (10, "worker-1", "evict", "in scope"));

    let text = run("critical-path", &path, &[]).stdout;
    let line = text.lines().find(|line| line.contains("evict")).unwrap();
    assert!(
        line.ends_with("evict        in scope           cache"),
        "{text}"
    );
    assert!(text.starts_with("frame 0 on main: 100 µs\n"), "{text}");
    let text = run("critical-path", &path, &["--steps", "-n", "2"]).stdout;
    assert!(
        text.ends_with("and 3 more steps; -n shows them\n"),
        "{text}"
    );
}

#[test]
fn a_task_is_on_the_threads_that_poll_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("task.vor");
    write(&path);
    for name in ["fetch", "5"] {
        let found = run("critical-path", &path, &["--json", "--task", name]).json();
        assert_eq!(
            steps(&found),
            [
                (0, "worker-1", "", "outside of scopes"),
                (5, "worker-1", "evict", "in scope"),
                (10, "", "", "waiting"),
                (35, "", "", "not polled"),
                (65, "main", "request", "in scope"),
            ]
        );
        assert_eq!(found["steps"][2]["waits"][0], "slots ← refill");
        assert_eq!(found["interval"], "task fetch (5)");
    }
}

#[test]
fn an_unknown_name_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.vor");
    write(&path);
    for (options, problem) in [
        (["--scope", "reqest"], "did you mean `request`?"),
        (
            ["--task", "fech"],
            "no task is called `fech`; did you mean `fetch`?",
        ),
        (["--thread", "man"], "did you mean `main`?"),
        (
            ["--frame", "3"],
            "no frame in 3..4: the capture has frames 0..1",
        ),
    ] {
        let refused = run("critical-path", &path, &options);
        assert!(refused.refusal().contains(problem), "{refused:?}");
    }
}

/// Of a program that records.
#[cfg(all(feature = "locks", not(feature = "off")))]
mod recorded {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use vor::sync::Mutex;
    use vor_fixtures::own_process;

    use super::{run, steps};

    fn spin(duration: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < duration {
            std::hint::spin_loop();
        }
    }

    /// Threads that hold a lock one after the other: the path leads to each of them.
    #[test]
    fn the_path_of_a_call_names_all_that_held_the_lock() {
        own_process!();
        static LOCK: Mutex<()> = Mutex::named("queue", ());
        const HOLD: Duration = Duration::from_millis(60);
        static ASKS: AtomicBool = AtomicBool::new(false);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).enable();
        thread::scope(|threads| {
            let (holds, held) = mpsc::channel();
            let first = thread::Builder::new().name("first".into());
            let first = first.spawn_scoped(threads, move || {
                vor::profile_scope!("reads");
                let _guard = LOCK.lock().unwrap();
                holds.send(()).unwrap();
                while !ASKS.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                spin(HOLD);
            });
            held.recv().unwrap();
            vor::profile_scope!("asks");
            ASKS.store(true, Ordering::Relaxed);
            drop(LOCK.lock().unwrap());
            first.unwrap().join().unwrap();
        });
        vor::frame_mark();
        vor::flush();
        let found = run("critical-path", &path, &["--json", "--scope", "asks"]).json();
        steps(&found);
        let longest = &found["rows"][0];
        assert_eq!(
            (&longest["thread"], &longest["scope"]),
            (&"first".into(), &"reads".into()),
            "{found}"
        );
        assert_eq!(longest["waits"], serde_json::json!(["queue"]));
    }

    /// A task that waits for messages names the scope that sent the one that came, and only where
    /// the channel has flows.
    #[cfg(feature = "tokio")]
    #[test]
    fn a_task_that_waits_for_a_message_names_its_sender() {
        use vor::sync::tokio::mpsc;
        use vor::tokio::named;

        own_process!();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).enable();
        let (jobs, mut received) = mpsc::named_with_flows("jobs", 1);
        let (plain, mut plain_received) = mpsc::unbounded_named("plain");
        let (waits, is_waiting) = std::sync::mpsc::channel();
        let sender = thread::Builder::new().name("sender".into()).spawn(move || {
            for job in 0..2 {
                is_waiting.recv().unwrap();
                vor::profile_scope!("order");
                jobs.blocking_send(job).unwrap();
            }
            is_waiting.recv().unwrap();
            plain.send(2).unwrap();
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        // A task that runs once the consumer waits.
        let say = || {
            let waits = waits.clone();
            tokio::spawn(async move { waits.send(()).unwrap() });
        };
        runtime.block_on(named("consumer", async {
            say();
            assert_eq!(received.recv().await, Some(0));
            let mut many = Vec::new();
            say();
            assert_eq!(received.recv_many(&mut many, 8).await, 1);
            say();
            assert_eq!(plain_received.recv().await, Some(2));
        }));
        sender.unwrap().join().unwrap();
        vor::frame_mark();
        vor::flush();
        let found = run("critical-path", &path, &["--json", "--task", "consumer"]).json();
        let waits = found["steps"].as_array().unwrap().iter();
        let waits = waits.filter(|step| step["state"] == "waiting");
        let mut waits: Vec<_> = waits.map(|step| &step["waits"][0]).collect();
        // A poll of the other future of a `join!` divides a wait.
        assert!(waits.len() >= 3);
        waits.dedup();
        assert_eq!(
            waits,
            ["jobs to receive ← order on sender", "plain to receive"]
        );
    }

    /// Each of two tasks that wait for one message names its sender.
    #[cfg(feature = "tokio")]
    #[test]
    fn all_tasks_that_wait_for_a_message_name_its_sender() {
        use vor::sync::tokio::{broadcast, watch};
        use vor::tokio::named;

        own_process!();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).enable();
        let (news, mut first) = broadcast::named_with_flows("news", 1);
        let (state, mut changes) = watch::named_with_flows("state", 0);
        let mut second = news.subscribe();
        let (waits, is_waiting) = std::sync::mpsc::channel();
        let sender = thread::Builder::new().name("sender".into()).spawn(move || {
            is_waiting.recv().unwrap();
            {
                vor::profile_scope!("publish");
                news.send(1).unwrap();
            }
            is_waiting.recv().unwrap();
            vor::profile_scope!("set up");
            state.send(1).unwrap();
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        // A task that runs once the receivers wait.
        let say = || {
            let waits = waits.clone();
            tokio::spawn(async move { waits.send(()).unwrap() });
        };
        let wait = async |receiver: &mut broadcast::Receiver<i32, _>| {
            assert_eq!(receiver.recv().await, Ok(1));
        };
        let first = named("first", wait(&mut first));
        let second = named("second", async {
            wait(&mut second).await;
            say();
            changes.changed().await.unwrap();
        });
        runtime.block_on(async {
            say();
            tokio::join!(first, second)
        });
        sender.unwrap().join().unwrap();
        vor::frame_mark();
        vor::flush();
        let (published, changed) = (
            "news to receive ← publish on sender",
            "state to change ← set up on sender",
        );
        for (task, expected) in [
            ("first", &[published][..]),
            ("second", &[published, changed]),
        ] {
            let found = run("critical-path", &path, &["--json", "--task", task]).json();
            let waits = found["steps"].as_array().unwrap().iter();
            let waits = waits.filter(|step| step["state"] == "waiting");
            let mut waits: Vec<_> = waits.map(|step| &step["waits"][0]).collect();
            // A poll of the other future of the `join!` divides a wait.
            waits.dedup();
            assert_eq!(waits, expected);
        }
    }
}
