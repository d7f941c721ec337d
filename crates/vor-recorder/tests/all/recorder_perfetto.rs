//! One program, three outputs: its Perfetto trace, its Chrome trace, and its capture. Both traces
//! are exported again from the capture.
//!
//! With `VOR_ORACLE_OUT`, the files are written to that folder, beside the recorded data as lines
//! of JSON. A script can then check that Perfetto itself reads the same.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};
use vor_capture::model::batch::{FlowPoint, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::Catalog;
use vor_capture::reader::{Capture, Event, Reader};
use vor_capture::sink::FrameSink;
use vor_export::chrome::ChromeExporter;
use vor_export::perfetto::PerfettoExporter;
use vor_fixtures::json::arg;
use vor_fixtures::own_process;
use vor_recorder::hot::flow::{FlowId, flow};
use vor_recorder::hot::future::ProfileFuture as _;
use vor_recorder::hot::scope;
use vor_recorder::hot::task::async_span;
use vor_recorder::metrics::{record_metric, record_metric_unit};
use vor_recorder::setup::Config;
use vor_recorder::sinks::Sink as _;
use vor_recorder::sinks::chrome::ChromeTraceSink;
use vor_recorder::sinks::perfetto::PerfettoSink;
use vor_recorder::{drain, message, profile_scope};

use crate::nested_work::{inside_turn, on_threads};

const FRAMES: u64 = 12;
const TASKS: u64 = 300;
const TURNS: u64 = 50;

fn work() -> u64 {
    profile_scope!("work", turns = TURNS);
    (0..TURNS)
        .map(|turn| {
            profile_scope!(
                "turn",
                even = turn % 2 == 0,
                signed = -(turn as i64) << 40,
                large = u64::MAX - turn,
                ratio = turn as f64 / 3.0,
                text = if turn % 2 == 0 { "größe \"x\"" } else { "" }
            );
            if turn % 10 == 0 {
                message!("at turn {turn}");
            }
            inside_turn(turn)
        })
        .sum()
}

/// Stays pending for this number of polls.
struct Wait(u64);

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        profile_scope!("wait");
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Runs tasks, all at once, on two threads that pass them to each other.
fn run_tasks() {
    type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
    let name = |i: u64| {
        if i.is_multiple_of(3) {
            "fetch"
        } else {
            "store"
        }
    };
    let all: Vec<Task> = (0..TASKS)
        .map(|i| Box::pin(Wait(1 + i % 4).profiled(name(i))) as Task)
        .collect();
    let (to, from) = mpsc::channel::<Vec<Task>>();
    let (back, ready) = mpsc::channel::<Vec<Task>>();
    let turn = |mut tasks: Vec<Task>| {
        profile_scope!("executor", tasks = tasks.len());
        let mut context = Context::from_waker(Waker::noop());
        tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
        tasks
    };
    let other = std::thread::Builder::new().name("executor 2".into());
    let other = other.spawn(move || {
        for tasks in from {
            back.send(turn(tasks)).unwrap();
        }
    });
    // The tasks begin on the thread that started later. Its part of a batch comes second and
    // contains their begins.
    let mut tasks = all;
    while !tasks.is_empty() {
        to.send(tasks).unwrap();
        tasks = turn(ready.recv().unwrap());
    }
    drop(to);
    other.unwrap().join().unwrap();
}

/// Sends work to another thread through a channel, and receives the answer in two scopes.
fn run_flows() {
    let (to, from) = mpsc::channel::<(FlowId, u64)>();
    let (back, answers) = mpsc::channel();
    let worker = std::thread::Builder::new().name("worker".into());
    let worker = worker.spawn(move || {
        profile_scope!("serve");
        for (flow, n) in from {
            profile_scope!("handle", n = n);
            flow.step();
            back.send((flow, n * n)).unwrap();
        }
    });
    for n in 0..20 {
        let request = async_span("request", 1_000 + n);
        {
            profile_scope!("send", n = n);
            to.send((flow(), n)).unwrap();
        }
        request.step("sent");
        let (flow, _) = answers.recv().unwrap();
        for part in 0..2 {
            profile_scope!("answer", part = part);
            flow.end();
        }
    }
    drop(to);
    worker.unwrap().join().unwrap();
}

fn record(folder: &Path) {
    Config::new().capture(folder.join("run.vor")).enable();
    let guards = [
        PerfettoSink::new(folder.join("live.pftrace")).install(),
        ChromeTraceSink {
            path: folder.join("chrome-live.json"),
        }
        .install(),
    ];
    record_metric_unit("throughput", "MB/s");
    record_metric_unit("queue_B", "KiB");
    record_metric_unit("load", "%");
    let outer = scope::scope("whole run");
    for frame in 0..FRAMES {
        on_threads(3, work);
        record_metric("throughput", frame as f64 * 1.5);
        record_metric("queue_B", frame as f64 * 64.0);
        record_metric("load", 42.5);
        record_metric("not finite", f64::NAN);
        // A drain with open scopes: their begins come after those of the scopes inside them.
        drain::flush();
        if frame % 2 == 0 {
            drain::frame_mark();
        } else {
            drain::frame_mark_named("physics");
        }
    }
    run_tasks();
    run_flows();
    drop(outer);
    drain::frame_mark();
    drain::flush();
    drop(guards);
    assert!(drain::close_capture().is_some());
}

/// Passes the capture to an exporter, as the recorder does with a live sink.
fn export(capture: &Path, exporter: &mut impl FrameSink) {
    let mut reader = Reader::open(capture).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => exporter.accept_batch(&batch).unwrap(),
            Event::Frame(recovered) => exporter.accept_frame(&recovered.frame).unwrap(),
            _ => {}
        }
    }
    exporter.finish().unwrap();
}

/// The recorded data, by kind, from the capture.
struct Recorded<'a> {
    catalog: &'a Catalog,
    rows: Vec<Value>,
}

impl Recorded<'_> {
    /// Returns a tick in the time of the trace: the time since boot, or the wall clock where the
    /// system does not report it.
    fn ns(&self, ticks: u64) -> i64 {
        let unix_ns = self.catalog.unix_ns(ticks);
        match self.catalog.machine.clocks {
            Some(clocks) => unix_ns - self.catalog.unix_ns(clocks.ticks) + clocks.boottime_ns,
            None => unix_ns,
        }
    }

    fn length_ns(&self, start_ticks: u64, end_ticks: u64) -> i64 {
        self.catalog.unix_ns(end_ticks) - self.catalog.unix_ns(start_ticks)
    }

    fn events(&mut self, tid: u64, batch: &ThreadBatch) {
        for message in &batch.messages {
            let row = json!({
                "kind": "message",
                "tid": tid,
                "ts": self.ns(message.ticks),
                "name": &*message.text,
            });
            self.rows.push(row);
        }
        for FlowPoint {
            ticks, flow, stage, ..
        } in &batch.flows
        {
            let row = json!({
                "kind": "flow",
                "tid": tid,
                "ts": self.ns(*ticks),
                "flow": flow,
                "stage": format!("{stage:?}"),
            });
            self.rows.push(row);
        }
        for event in &batch.task_events {
            let (what, dur) = match event.kind {
                TaskEventKind::Begin { .. } => continue,
                TaskEventKind::Poll { .. } => {
                    ("poll", self.length_ns(event.start_ticks, event.end_ticks()))
                }
                TaskEventKind::Step => (self.catalog.site_name(event.site), 0),
                kind => panic!("this test does not know {kind:?}"),
            };
            let row = json!({
                "kind": "in task",
                "name": what,
                "ts": self.ns(event.start_ticks),
                "dur": dur,
            });
            self.rows.push(row);
        }
        for task in &batch.async_spans {
            let name = self.catalog.site_name(task.site);
            let dur = self.length_ns(task.start_ticks, task.end_ticks());
            let row = json!({
                "kind": "task",
                "name": name,
                "ts": self.ns(task.start_ticks),
                "dur": dur,
            });
            self.rows.push(row);
        }
    }
}

/// Returns the contents of the capture, as rows to compare with those of a viewer.
fn recorded(path: &Path) -> Vec<Value> {
    let mut capture = Capture::open(path).unwrap();
    let catalog = capture.catalog().clone();
    let mut recorded = Recorded {
        catalog: &catalog,
        rows: Vec::new(),
    };
    // Chrome traces count from this time.
    let begin = recorded.ns(catalog.timeline.syncs().first().unwrap().ticks);
    recorded.rows.push(json!({ "kind": "begin", "ts": begin }));
    let thread = |id| catalog.thread(id).unwrap();
    for frame in capture.frames(0..u64::MAX) {
        let frame = frame.unwrap();
        assert_eq!(frame.dropped_spans, 0, "the rings hold what a frame has");
        for tree in &frame.threads {
            for span in &tree.spans {
                let site = catalog.site(span.site).unwrap();
                let names = site.arg_names.iter().map(ToString::to_string);
                let args: serde_json::Map<String, Value> =
                    names.zip(tree.args(span).iter().map(arg)).collect();
                let row = json!({
                    "kind": "span",
                    "name": site.name,
                    "category": site.category,
                    "module": site.module_path,
                    "file": site.file,
                    "line": site.line,
                    "tid": thread(tree.thread).os_id,
                    "thread": thread(tree.thread).name,
                    "ts": recorded.ns(span.start_ticks),
                    "dur": recorded.length_ns(span.start_ticks, span.end_ticks()),
                    "args": args,
                });
                recorded.rows.push(row);
            }
        }
    }
    let mut reader = Reader::open(path).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => {
                for share in &batch.threads {
                    recorded.events(thread(share.thread).os_id, share);
                }
            }
            Event::Frame(frame) => {
                let frame = &frame.frame;
                let set = &catalog.frame_sets[frame.frame_set as usize];
                let start = recorded.ns(frame.start_ticks);
                let dur = recorded.length_ns(frame.start_ticks, frame.end_ticks);
                recorded.rows.push(json!({
                    "kind": "frame",
                    "set": set,
                    "index": frame.index,
                    "ts": start,
                    "dur": dur,
                }));
                for metric in frame
                    .metrics
                    .iter()
                    .filter(|metric| metric.value.is_finite())
                {
                    let column = &catalog.columns[metric.column as usize].metric;
                    let row = json!({
                        "kind": "counter",
                        "name": column.name,
                        "unit": column.unit,
                        "ts": start,
                        "value": metric.value,
                    });
                    recorded.rows.push(row);
                }
            }
            _ => {}
        }
    }
    recorded.rows
}

#[test]
fn traces_and_capture_match() {
    own_process!();
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("VOR_ORACLE_OUT").map_or(temporary.path().to_owned(), Into::into);
    record(&folder);
    let capture = folder.join("run.vor");
    let mut perfetto = PerfettoExporter::new(Vec::new());
    export(&capture, &mut perfetto);
    std::fs::write(folder.join("exported.pftrace"), perfetto.into_inner()).unwrap();
    let mut chrome = ChromeExporter::new(Vec::new());
    export(&capture, &mut chrome);
    std::fs::write(folder.join("chrome.json"), chrome.into_inner()).unwrap();
    for live in ["live.pftrace", "chrome-live.json"] {
        assert!(std::fs::metadata(folder.join(live)).unwrap().len() > 100_000);
    }

    let rows = recorded(&capture);
    let count = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).count() as u64;
    assert_eq!(count("task"), TASKS + 20);
    assert_eq!(count("flow"), 4 * 20);
    assert_eq!(count("message"), FRAMES * 3 * 5);
    assert_eq!(count("frame"), FRAMES + 1);
    // Nothing precedes the time from which viewers count.
    let begin = rows.iter().find(|row| row["kind"] == "begin").unwrap();
    assert!(
        rows.iter()
            .all(|row| row["ts"].as_i64() >= begin["ts"].as_i64())
    );
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(folder.join("rows.jsonl"), lines).unwrap();
}
