//! One program, two outputs: its Chrome trace and its capture tell of the same spans, to the nanosecond.
//!
//! With `VOR_ORACLE_OUT` the files go into that folder, with the capture's spans as lines of JSON beside them, and another program can
//! compare them with what a viewer reads from the trace.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use vor_core::config::Config;
use vor_core::profile_scope;
use vor_core::reader::Capture;
use vor_core::sink::Sink as _;
use vor_core::sink::chrome::ChromeTraceSink;
use vor_core::{drain, scope};

const THREADS: u64 = 3;
const FRAMES: u64 = 20;
const TURNS: u64 = 50;

/// Name, thread, start since the first, length: what both files have of a span.
type Row = (String, u64, i64, i64);

fn descend(levels: u64) -> u64 {
    profile_scope!("descend", levels = levels);
    if levels == 0 { 1 } else { 1 + descend(levels - 1) }
}

fn work(turns: u64) -> u64 {
    profile_scope!("work", turns = turns);
    (0..turns)
        .map(|turn| {
            profile_scope!("turn", turn = turn, even = turn % 2 == 0);
            let _named = scope::scope(if turn % 3 == 0 { "by \"name\"" } else { "größe" });
            descend(turn % 5)
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
        std::thread::scope(|threads| {
            for i in 1..THREADS {
                let builder = std::thread::Builder::new().name(format!("worker {i}"));
                builder.spawn_scoped(threads, || work(TURNS)).unwrap();
            }
            work(TURNS);
        });
        drain::frame_mark();
    }
    drain::flush();
    drop(guard);
}

fn since_first(mut rows: Vec<Row>) -> Vec<Row> {
    let first = rows.iter().map(|row| row.2).min().unwrap();
    for row in &mut rows {
        row.2 -= first;
    }
    rows.sort();
    rows
}

fn from_capture(path: &Path) -> (Vec<Row>, Vec<u32>) {
    let mut capture = Capture::open(path).unwrap();
    let mut rows = Vec::new();
    for frame in capture.frames(0..u64::MAX) {
        let frame = frame.unwrap();
        assert_eq!(frame.dropped_spans, 0, "the rings hold what a frame has");
        for tree in &frame.threads {
            let thread = frame.catalog.thread(tree.thread).unwrap().os_id;
            for span in &tree.spans {
                let start = frame.catalog.unix_ns(span.start_ticks);
                let end = frame.catalog.unix_ns(span.end_ticks());
                let name = frame.catalog.site_name(span.site).to_owned();
                rows.push(((name, thread, start, end - start), span.depth));
            }
        }
    }
    rows.sort();
    let depths = rows.iter().map(|row| row.1).collect();
    (since_first(rows.into_iter().map(|row| row.0).collect()), depths)
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
    since_first(spans.filter(|event| event["ph"] == "X").map(row).collect())
}

#[test]
fn trace_and_capture_agree() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("VOR_ORACLE_OUT").map_or(temporary.path().to_owned(), Into::into);
    let (capture, trace) = (folder.join("run.vor"), folder.join("run.json"));
    record(&capture, &trace);

    let (expected, depths) = from_capture(&capture);
    let turns: u64 = (0..TURNS).map(spans_of).sum();
    assert_eq!(expected.len() as u64, FRAMES * THREADS * (1 + turns));
    assert_eq!(from_trace(&trace), expected);

    let mut lines = String::new();
    for ((name, tid, ts, dur), depth) in expected.iter().zip(depths) {
        let line = json!({ "name": name, "tid": tid, "ts": ts, "dur": dur, "depth": depth });
        writeln!(lines, "{line}").unwrap();
    }
    std::fs::write(folder.join("spans.jsonl"), lines).unwrap();
}
