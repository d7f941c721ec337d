//! One recording: its Parquet tables and its capture have the same spans and metrics.
//!
//! With `VOR_ORACLE_OUT`, the files are written to that folder, beside the capture's spans and
//! metrics as lines of JSON. Another program can compare them with the tables as a query engine
//! reads them.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Value, json};
use vor_capture::reader::{Capture, Event, Reader};
use vor_capture::sink::FrameSink;
use vor_export::parquet::{Dataset, MetricsParquet, Origin, Partition, SketchParquet, SpanParquet};
use vor_fixtures::own_process;
use vor_recorder::hot::scope;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;
use vor_recorder::{drain, metrics};

const THREADS: u64 = 3;
const FRAMES: u64 = 20;

fn descend(levels: u64) -> u64 {
    profile_scope!("descend", levels = levels);
    if levels == 0 {
        1
    } else {
        1 + descend(levels - 1)
    }
}

fn work() -> u64 {
    profile_scope!("work");
    (0..50)
        .map(|turn| {
            profile_scope!(
                "turn",
                turn = turn,
                nan = f64::NAN,
                most = u64::MAX,
                least = i64::MIN,
                even = turn % 2 == 0,
                empty = "",
                text = "a,\"b\"\n'größe'"
            );
            let _named = scope::scope(if turn % 3 == 0 {
                "by \"name\""
            } else {
                "größe"
            });
            descend(turn % 5)
        })
        .sum()
}

fn record(capture: &Path) {
    Config::new().capture(capture).enable();
    for frame in 0..FRAMES {
        std::thread::scope(|threads| {
            for i in 1..THREADS {
                let builder = std::thread::Builder::new().name(format!("worker {i}"));
                builder.spawn_scoped(threads, work).unwrap();
            }
            work();
        });
        metrics::record_metric("loss", 1.0 / (1.0 + frame as f64));
        metrics::record_metric(
            "gap",
            if frame % 2 == 0 {
                f64::NAN
            } else {
                f64::INFINITY
            },
        );
        drain::frame_mark();
    }
    drain::flush();
}

fn export(capture: &Path, mut sink: impl FrameSink) {
    let mut reader = Reader::open(capture).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => sink.accept_batch(&batch).unwrap(),
            Event::Frame(recovered) => sink.accept_frame(&recovered.frame).unwrap(),
            _ => {}
        }
    }
    sink.finish().unwrap();
}

/// Returns the spans of the trees, which other code builds than the tables, and the metrics of the
/// frames.
fn from_capture(path: &Path) -> (Vec<Value>, Vec<Value>) {
    let mut capture = Capture::open(path).unwrap();
    let (mut spans, mut values) = (Vec::new(), Vec::new());
    for frame in capture.frames(0..u64::MAX) {
        let frame = frame.unwrap();
        let catalog = &*frame.catalog;
        assert_eq!(frame.dropped_spans, 0, "the rings hold what a frame has");
        for tree in &frame.threads {
            for (i, span) in tree.spans.iter().enumerate() {
                let length = |span: &vor_capture::model::frame::Span| {
                    catalog
                        .timeline
                        .duration_ns(span.start_ticks, span.duration_ticks)
                };
                let below = &tree.spans[i + 1..i + span.subtree_len as usize];
                let children = below.iter().filter(|below| below.depth == span.depth + 1);
                let site = catalog.site(span.site).unwrap();
                let args = tree.args(span).iter().zip(&site.arg_names);
                spans.push(json!({
                    "process": catalog.process.name,
                    "pid": catalog.process.pid,
                    "thread": vor_export::thread_label(catalog, tree.thread),
                    "tid": tree.thread.0,
                    "frame": frame.index,
                    "depth": span.depth,
                    "name": site.name,
                    "file": site.file,
                    "line": (site.line > 0).then_some(site.line),
                    "start_ns": catalog.unix_ns(span.start_ticks),
                    "dur_ns": length(span),
                    "self_ns": length(span) - children.map(length).sum::<u64>(),
                    "args": args
                        .map(|(value, name)| (name.to_string(), Value::from(value.to_string())))
                        .collect::<serde_json::Map<_, _>>(),
                }));
            }
        }
        for metric in &frame.metrics {
            let column = &catalog.columns[metric.column as usize].metric;
            values.push(json!({
                "frame": frame.index,
                "time_ns": catalog.unix_ns(frame.end_ticks),
                "name": column.name,
                "unit": column.unit,
                // JSON cannot represent all of these numbers.
                "value_bits": metric.value.to_bits().to_string(),
            }));
        }
    }
    (spans, values)
}

/// Returns the rows of a table, as the crate's own reader reads them.
fn rows(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn int(row: &Row, column: &str) -> i64 {
    let mut columns = row.get_column_iter();
    match columns.find(|(name, _)| *name == column) {
        Some((_, Field::Long(value))) => *value,
        other => panic!("{column} is not an integer: {other:?}"),
    }
}

#[test]
fn tables_of_a_recording_equal_its_capture() {
    own_process!();
    let temporary = tempfile::tempdir().unwrap();
    let out = std::env::var_os("VOR_ORACLE_OUT").map(std::path::PathBuf::from);
    let folder = out.as_deref().unwrap_or(temporary.path());
    let capture = folder.join("run.vor");
    record(&capture);
    let (spans, values) = from_capture(&capture);
    assert!(spans.len() as u64 > FRAMES * THREADS * 50);

    let origin = || {
        vor_capture::filled!(Origin {
            host: Some("the host".into()),
            version: Some("1.2.3".into()),
        })
    };
    let file = |name: &str| File::create(folder.join(name)).unwrap();
    export(
        &capture,
        SpanParquet::new(file("spans.parquet"), origin()).unwrap(),
    );
    export(
        &capture,
        MetricsParquet::new(file("metrics.parquet"), origin()).unwrap(),
    );
    export(
        &capture,
        SketchParquet::new(file("sketches.parquet"), origin()).unwrap(),
    );
    let list = Partition::list("host,date").unwrap();
    export(
        &capture,
        Dataset::new(&folder.join("data"), "run", &list, origin()).unwrap(),
    );

    let found = rows(&folder.join("spans.parquet"));
    assert_eq!(found.len(), spans.len());
    let sum = |column: &str| found.iter().map(|row| int(row, column)).sum::<i64>();
    for column in ["dur_ns", "self_ns", "depth", "frame", "tid"] {
        let expected: i64 = spans
            .iter()
            .map(|span| span[column].as_i64().unwrap())
            .sum();
        assert_eq!(sum(column), expected, "{column}");
    }
    assert_eq!(rows(&folder.join("metrics.parquet")).len(), values.len());

    for (name, rows) in [("spans.jsonl", spans), ("metrics.jsonl", values)] {
        let mut lines = String::new();
        for row in rows {
            writeln!(lines, "{row}").unwrap();
        }
        std::fs::write(folder.join(name), lines).unwrap();
    }
}
