//! The whole output of `vor critical-path` for a capture of four frames with measured waits.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use vor::capture::{ArgValue, FrameSnapshot, SpanArgs, SpanBatch};
use vor::sinks::FrameSink;
use vor_capture::filled;
use vor_capture::model::batch::{
    AsyncSpan, FlowPoint, FlowStage, TaskEvent, TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId, ThreadInfo};
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

use crate::command::{Run, lines_of_cells, made, unclosed, vor};

const REQUEST: u32 = 1;
const PARSE: u32 = 2;
const TICK: u32 = 3;
const WAIT: u32 = 4;
const EVICT: u32 = 5;
const FETCH: u32 = 6;
const OTHER: u32 = 7;

const MAIN: u32 = 0;
const WORKER: u32 = 1;

/// The first tick of the capture. One tick is one nanosecond.
const FIRST: u64 = 1_000_000;

/// The begins of the frames in microseconds, and the end of the last one. Their numbers begin
/// with 7.
const MARKS: [u64; 5] = [0, 50, 150, 230, 240];

fn ticks(at_us: u64) -> u64 {
    FIRST + at_us * 1_000
}

fn catalog() -> Arc<Catalog> {
    let names = [
        "request",
        "parse",
        "tick",
        "wait: cache",
        "evict",
        "fetch",
        "other",
    ];
    let mut catalog = made::catalog(&names.map(|name| made::scope(name, 1, 0)));
    let all = Arc::make_mut(&mut catalog);
    let measures = ["off_cpu_ns", "run_queue_ns"];
    let lock = ["lock", "holder", "holder_scope"];
    for (number, site) in (1..).zip(Arc::make_mut(&mut all.sites).iter_mut().flatten()) {
        let arg_names = match number {
            WAIT => [&lock[..], &measures].concat(),
            REQUEST | PARSE | TICK => measures.to_vec(),
            EVICT => vec!["item"],
            _ => Vec::new(),
        };
        Arc::make_mut(site).arg_names = arg_names.into_iter().map(Into::into).collect();
    }
    let thread = |name: &str| Some(Arc::new(filled!(ThreadInfo { name: name.into() })));
    all.threads = Arc::new(["main", "worker-1", "idle"].map(thread).to_vec());
    catalog
}

/// Appends a call, in microseconds. Without values, it has no arguments.
fn end(thread: &mut ThreadBatch, site: u32, times: [u64; 2], values: &[ArgValue]) {
    if !values.is_empty() {
        thread.args.push(filled!(SpanArgs {
            span: thread.len() as u32,
            values: values.to_vec(),
        }));
    }
    made::end(thread, ticks(times[0]), (times[1] - times[0]) * 1_000, site);
}

/// Makes the values of a measured call, in microseconds.
fn waits(off_cpu_us: u64, run_queue_us: u64) -> [ArgValue; 2] {
    [off_cpu_us, run_queue_us].map(|us| ArgValue::U64(us * 1_000))
}

fn thread(number: u32, dropped_spans: u64, flow: Option<(u64, FlowStage)>) -> ThreadBatch {
    let point = |(at, stage)| {
        filled!(FlowPoint {
            ticks: ticks(at),
            flow: 3,
            stage,
        })
    };
    filled!(ThreadBatch {
        thread: ThreadId(number),
        flows: flow.into_iter().map(point).collect(),
        dropped_spans,
    })
}

/// In the frame 8, the main thread waits from 110 to 130 for `evict`, which unlocks at 120. The
/// values of a call include those of the calls inside. `tick` was never off the CPU.
fn batches() -> [Vec<ThreadBatch>; 4] {
    let mut first = thread(MAIN, 2, None);
    end(&mut first, TICK, [2, 12], &[]);
    end(&mut first, PARSE, [20, 25], &waits(1, 0));

    let mut slowest = thread(MAIN, 3, Some((130, FlowStage::End)));
    end(&mut slowest, PARSE, [70, 100], &waits(10, 4));
    let lock = ["cache", "worker-1", "evict"].map(|text| ArgValue::Str(text.into()));
    let wait = [&lock[..], &waits(20, 1)].concat();
    end(&mut slowest, WAIT, [110, 130], &wait);
    end(&mut slowest, REQUEST, [60, 140], &waits(51, 11));
    let mut evicts = thread(WORKER, 0, Some((120, FlowStage::Begin)));
    end(&mut evicts, EVICT, [105, 125], &[ArgValue::U64(5)]);

    // A call as long as the longest, and the longest of another scope.
    let mut late = thread(MAIN, 0, None);
    end(&mut late, PARSE, [160, 190], &[]);
    end(&mut late, PARSE, [195, 199], &[]);
    let mut evicts_again = thread(WORKER, 0, None);
    end(&mut evicts_again, EVICT, [150, 222], &[ArgValue::U64(5)]);
    let task = |id, site, times: [u64; 2]| {
        filled!(AsyncSpan {
            id,
            site: SiteId(site),
            start_ticks: ticks(times[0]),
            duration_ticks: (times[1] - times[0]) * 1_000,
        })
    };
    late.async_spans = vec![
        task(6, FETCH, [152, 170]),
        task(5, FETCH, [150, 200]),
        task(8, OTHER, [150, 225]),
    ];
    late.task_events = vec![filled!(TaskEvent {
        task: 5,
        site: SiteId(FETCH),
        start_ticks: ticks(150),
        kind: TaskEventKind::Poll {
            duration_ticks: 10_000,
        },
    })];
    [
        vec![first],
        vec![slowest, evicts],
        vec![late, evicts_again],
        vec![],
    ]
}

/// Writes the capture. It is not closed: a closed one has the threads and the scopes of this
/// process.
fn write(path: &Path) {
    let catalog = catalog();
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    for (at, threads) in batches().into_iter().enumerate() {
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads,
        });
        if !batch.is_empty() {
            sink.accept_batch(&batch).unwrap();
        }
        let frame = filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index: 7 + at as u64,
            start_ticks: ticks(MARKS[at]),
            end_ticks: ticks(MARKS[at + 1]),
            span_count: batch.span_count() as u64,
        });
        sink.accept_frame(&Arc::new(frame)).unwrap();
    }
    sink.commit().unwrap();
}

fn capture() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("run.vor"));
    folder
}

/// Runs the command in the folder of the capture, so that its output has no other path.
fn critical_path(folder: &Path, options: &[&str]) -> Run {
    let mut command = vor();
    command
        .current_dir(folder)
        .args(["critical-path", "run.vor"]);
    Run::from(command.args(options).output().unwrap())
}

const HEADS: &str = "time | share | thread | scope | state | while it waited for";

/// The rows of the frame 8. Without the calls inside, a request takes 30 us, 21 of them off the CPU
/// and 6 in the queue.
const ROWS: [&str; 9] = [
    "20.0 µs | 20.0 % | main | - | outside of scopes | -",
    "20.0 µs | 20.0 % | main | parse | running | -",
    "15.0 µs | 15.0 % | main | request | blocked | -",
    "10.0 µs | 10.0 % | main | wait: cache | woken | -",
    "10.0 µs | 10.0 % | worker-1 | evict | in scope | cache",
    "9.00 µs | 9.0 % | main | request | running | -",
    "6.00 µs | 6.0 % | main | parse | blocked | -",
    "6.00 µs | 6.0 % | main | request | queued | -",
    "4.00 µs | 4.0 % | main | parse | queued | -",
];

const STEPS: [&str; 8] = [
    "0 ns | 10.0 µs | main | - | outside of scopes | -",
    "10.0 µs | 10.0 µs | main | request | in scope | -",
    "20.0 µs | 30.0 µs | main | parse | in scope | -",
    "50.0 µs | 10.0 µs | main | request | in scope | -",
    "60.0 µs | 10.0 µs | worker-1 | evict | in scope | cache",
    "70.0 µs | 10.0 µs | main | wait: cache | woken | -",
    "80.0 µs | 10.0 µs | main | request | in scope | -",
    "90.0 µs | 10.0 µs | main | - | outside of scopes | -",
];

#[test]
fn rows_and_steps_are_as_many_as_the_limit_allows() {
    let folder = capture();
    let title = "frame 8 on main: 100 µs";
    let rows = [title, HEADS];
    let steps = [
        title,
        "at | time | thread | scope | state | while it waited for",
    ];
    for (options, head, shown, more) in [
        (&[][..], rows, &ROWS[..], None),
        (&["-n", "9"], rows, &ROWS, None),
        (&["-n", "8"], rows, &ROWS[..8], Some("and 1 more row")),
        (&["-n", "3"], rows, &ROWS[..3], Some("and 6 more rows")),
        (&["--steps"], steps, &STEPS, None),
        (&["--steps", "-n", "8"], steps, &STEPS, None),
        (
            &["--steps", "-n", "7"],
            steps,
            &STEPS[..7],
            Some("and 1 more step"),
        ),
        (
            &["--steps", "-n", "3"],
            steps,
            &STEPS[..3],
            Some("and 5 more steps"),
        ),
    ] {
        let run = critical_path(folder.path(), options);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        let mut expected = [&head[..], shown].concat();
        let note = more.map(|more| format!("{more}; -n shows them"));
        expected.extend(note.as_deref());
        assert_eq!(lines_of_cells(&run.stdout), expected, "{options:?}");
    }
}

#[test]
fn options_choose_the_interval_and_the_thread() {
    let folder = capture();
    for (options, expected) in [
        (
            &["--frame", "7"][..],
            &[
                "frame 7 on main: 50.0 µs",
                HEADS,
                "35.0 µs | 70.0 % | main | - | outside of scopes | -",
                "10.0 µs | 20.0 % | main | tick | running | -",
                "4.00 µs | 8.0 % | main | parse | running | -",
                "1.00 µs | 2.0 % | main | parse | blocked | -",
            ][..],
        ),
        // The worker works the most.
        (
            &["--frame", "9"],
            &[
                "frame 9 on worker-1: 80.0 µs",
                HEADS,
                "72.0 µs | 90.0 % | worker-1 | evict | in scope | -",
                "8.00 µs | 10.0 % | worker-1 | - | outside of scopes | -",
            ],
        ),
        (
            &["--frame", "8", "--thread", "worker-1"],
            &[
                "frame 8 on worker-1: 100 µs",
                HEADS,
                "80.0 µs | 80.0 % | worker-1 | - | outside of scopes | -",
                "20.0 µs | 20.0 % | worker-1 | evict | in scope | -",
            ],
        ),
        (
            &["--thread", "idle"],
            &[
                "frame 8 on idle: 100 µs",
                HEADS,
                "100 µs | 100.0 % | idle | - | outside of scopes | -",
            ],
        ),
        // The first of two equal ones.
        (
            &["--scope", "parse"],
            &[
                "the longest call of parse on main: 30.0 µs",
                HEADS,
                "20.0 µs | 66.7 % | main | parse | running | -",
                "6.00 µs | 20.0 % | main | parse | blocked | -",
                "4.00 µs | 13.3 % | main | parse | queued | -",
            ],
        ),
        (
            &["--scope", "evict"],
            &[
                "the longest call of evict on worker-1: 72.0 µs",
                HEADS,
                "72.0 µs | 100.0 % | worker-1 | evict | in scope | -",
            ],
        ),
        (
            &["--task", "fetch"],
            &[
                "task fetch (5): 50.0 µs",
                HEADS,
                "40.0 µs | 80.0 % | - | - | not polled | -",
                "10.0 µs | 20.0 % | main | - | outside of scopes | -",
            ],
        ),
        (
            &["--task", "6"],
            &[
                "task fetch (6): 18.0 µs",
                HEADS,
                "18.0 µs | 100.0 % | - | - | not polled | -",
            ],
        ),
    ] {
        let run = critical_path(folder.path(), options);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{options:?}");
        assert_eq!(lines_of_cells(&run.stdout), expected, "{options:?}");
    }
}

#[test]
fn json_has_all_rows_and_steps() {
    let folder = capture();
    let found = critical_path(folder.path(), &["--json", "-n", "1"]).json();
    let row = |thread, scope, state, us: u64| {
        json!({
            "thread": thread,
            "scope": scope,
            "state": state,
            "waits": [],
            "total_ns": us * 1_000,
        })
    };
    let step = |thread, scope, state, start_us: u64, us: u64| {
        json!({
            "start_ns": start_us * 1_000,
            "duration_ns": us * 1_000,
            "thread": thread,
            "scope": scope,
            "state": state,
            "waits": [],
        })
    };
    let for_cache = |mut of: serde_json::Value| {
        of["waits"] = json!(["cache"]);
        of
    };
    let expected = json!({
        "file": "run.vor",
        "interval": "frame 8",
        "thread": "main",
        // The clock begins with tick 1.
        "start_unix_ns": 1_700_000_000_000_000_000 + ticks(50) - 1,
        "duration_ns": 100_000,
        "rows": [
            row("main", "", "outside of scopes", 20),
            row("main", "parse", "running", 20),
            row("main", "request", "blocked", 15),
            row("main", "wait: cache", "woken", 10),
            for_cache(row("worker-1", "evict", "in scope", 10)),
            row("main", "request", "running", 9),
            row("main", "parse", "blocked", 6),
            row("main", "request", "queued", 6),
            row("main", "parse", "queued", 4),
        ],
        "steps": [
            step("main", "", "outside of scopes", 0, 10),
            step("main", "request", "in scope", 10, 10),
            step("main", "parse", "in scope", 20, 30),
            step("main", "request", "in scope", 50, 10),
            for_cache(step("worker-1", "evict", "in scope", 60, 10)),
            step("main", "wait: cache", "woken", 70, 10),
            step("main", "request", "in scope", 80, 10),
            step("main", "", "outside of scopes", 90, 10),
        ],
        "dropped_spans": 5,
        "damage": unclosed(&folder.path().join("run.vor")),
    });
    assert_eq!(found, expected);
    let task = critical_path(folder.path(), &["--json", "--task", "fetch"]).json();
    assert_eq!(
        (&task["thread"], &task["interval"]),
        (&"".into(), &"task fetch (5)".into())
    );
}

#[test]
fn an_interval_that_is_not_there_is_one_line() {
    let folder = capture();
    for (options, problem) in [
        (["--frame", "10"], "no thread was in a scope in frame 10"),
        (
            ["--frame", "11"],
            "no frame in 11..12: the capture has frames 7..11",
        ),
        (
            ["--thread", "worker-2"],
            "no thread is called `worker-2`; did you mean `worker-1`? There are `main`, \
             `worker-1`, `idle`",
        ),
        (
            ["--scope", "parsing"],
            "no scope is called `parsing`; did you mean `parse`? There are `evict`, `fetch`, \
             `other`, `parse`, `request`, `tick`, `wait: cache`",
        ),
        (
            ["--task", "7"],
            "no task is called `7`; there are `evict`, `fetch`, `other`, `parse`, `request`, \
             `tick`, `wait: cache`",
        ),
    ] {
        let run = critical_path(folder.path(), &options);
        assert_eq!(run.refusal(), format!("vor: run.vor: {problem}"));
    }
}
