//! One program, two outputs: its Chrome trace and its capture have the same spans, to the
//! nanosecond.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use serde_json::Value;
use vor_capture::reader::Capture;
use vor_capture::sink::FrameSink as _;
use vor_fixtures::own_process;
use vor_recorder::drain;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;
use vor_recorder::sinks::Sink as _;
use vor_recorder::sinks::chrome::ChromeTraceSink;

use crate::nested_work::{inside_turn, on_threads};

const THREADS: u64 = 3;
const FRAMES: u64 = 20;
const TURNS: u64 = 50;

/// The fields of a span in both files: name, thread, start since the begin of the recording,
/// duration.
type Row = (String, u64, i64, i64);

fn work() -> u64 {
    profile_scope!("work", turns = TURNS);
    (0..TURNS)
        .map(|turn| {
            profile_scope!("turn", turn = turn, even = turn % 2 == 0);
            inside_turn(turn)
        })
        .sum()
}

/// Spans of one turn: the turn, the named one, and the descent.
fn spans_of(turn: u64) -> u64 {
    2 + turn % 5 + 1
}

fn record(capture: &Path, trace: &Path) {
    Config::new().capture(capture).enable();
    let guard = ChromeTraceSink {
        path: trace.to_owned(),
    }
    .install();
    for _ in 0..FRAMES {
        on_threads(THREADS, work);
        drain::frame_mark();
    }
    drain::flush();
    drop(guard);
}

fn from_capture(path: &Path) -> Vec<Row> {
    let mut capture = Capture::open(path).unwrap();
    let catalog = capture.catalog().clone();
    let begin = catalog.timeline.syncs().first().unwrap().unix_ns;
    let mut rows = Vec::new();
    for frame in capture.frames(0..u64::MAX) {
        let frame = frame.unwrap();
        assert_eq!(frame.dropped_spans, 0, "the rings hold what a frame has");
        for tree in &frame.threads {
            let thread = catalog.thread(tree.thread).unwrap().os_id;
            for span in &tree.spans {
                let start = catalog.unix_ns(span.start_ticks);
                let end = catalog.unix_ns(span.end_ticks());
                let name = catalog.site_name(span.site).to_owned();
                rows.push((name, thread, start - begin, end - start));
            }
        }
    }
    rows.sort();
    rows
}

fn from_trace(path: &Path) -> Vec<Row> {
    let events: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let ns = |value: &Value| (value.as_f64().unwrap() * 1e3).round() as i64;
    let spans = events.as_array().unwrap().iter();
    let row = |event: &Value| {
        (
            event["name"].as_str().unwrap().to_owned(),
            event["tid"].as_u64().unwrap(),
            ns(&event["ts"]),
            ns(&event["dur"]),
        )
    };
    let mut rows: Vec<Row> = spans.filter(|event| event["ph"] == "X").map(row).collect();
    rows.sort();
    rows
}

#[test]
fn trace_and_capture_agree() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let (capture, trace) = (
        folder.path().join("run.vor"),
        folder.path().join("run.json"),
    );
    record(&capture, &trace);

    let expected = from_capture(&capture);
    let turns: u64 = (0..TURNS).map(spans_of).sum();
    assert_eq!(expected.len() as u64, FRAMES * THREADS * (1 + turns));
    assert_eq!(from_trace(&trace), expected);
}

#[test]
fn a_file_that_cannot_be_created_is_named() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("trace.json");
    let error = ChromeTraceSink { path }.build().err().unwrap();
    assert!(error.is_io() && error.to_string().contains("trace.json"));

    let path = folder.path().join("trace.json");
    let mut exporter = ChromeTraceSink { path: path.clone() }.build().unwrap();
    exporter.finish().unwrap();
    assert!(
        std::fs::read(&path).unwrap().starts_with(b"["),
        "an array of events"
    );
}
