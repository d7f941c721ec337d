//! `vor stats` against statistics that are computed here in another way: from all spans at once,
//! sorted by start, with exact percentiles.

use std::collections::BTreeMap;

use serde_json::Value;
use vor_capture::filled;
use vor_capture::model::catalog::{MachineInfo, ProcessInfo};

use crate::command::made::{ScopeSpec, scope, spans, unclosed};
use crate::command::recording::{ACROSS, FRAMES, RecordedSpan, Recording, recording};
use crate::command::{Run, run, v2, v2_expected, vor};

/// The expected values of one scope.
#[derive(Debug, Default)]
struct Row {
    lengths_ns: Vec<u64>,
    self_ns: u64,
    children: u64,
    descendants: u64,
}

/// Computes the rows of the spans that `wanted` accepts; children are searched for among all spans.
fn rows(spans: &[RecordedSpan], wanted: impl Fn(&RecordedSpan) -> bool) -> BTreeMap<String, Row> {
    let mut order: Vec<&RecordedSpan> = spans.iter().collect();
    order.sort_by_key(|span| (span.thread, span.start_ns, -span.end_ns));
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut around: Vec<&RecordedSpan> = Vec::new();
    for span in order {
        let length_ns = (span.end_ns - span.start_ns) as u64;
        around.retain(|outer| outer.thread == span.thread && outer.end_ns >= span.end_ns);
        for outer in around.iter().filter(|outer| wanted(outer)) {
            rows.entry(outer.name.clone()).or_default().descendants += 1;
        }
        if let Some(parent) = around.last().filter(|parent| wanted(parent)) {
            let row = rows.entry(parent.name.clone()).or_default();
            row.self_ns -= length_ns;
            row.children += 1;
        }
        if wanted(span) {
            let row = rows.entry(span.name.clone()).or_default();
            row.lengths_ns.push(length_ns);
            row.self_ns += length_ns;
        }
        around.push(span);
    }
    for row in rows.values_mut() {
        row.lengths_ns.sort_unstable();
    }
    rows
}

fn assert_rows(stats: &Value, expected: &BTreeMap<String, Row>) {
    let scopes = stats["scopes"].as_array().unwrap();
    let mut names: Vec<&str> = scopes
        .iter()
        .map(|scope| scope["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        expected.keys().map(String::as_str).collect::<Vec<_>>()
    );
    for scope in scopes {
        let name = scope["name"].as_str().unwrap();
        let row = &expected[name];
        let number = |field: &str| scope[field].as_u64().unwrap();
        let count = row.lengths_ns.len();
        let total: u64 = row.lengths_ns.iter().sum();
        assert_eq!(number("count"), count as u64, "{name}");
        assert_eq!(number("total_ns"), total, "{name}");
        assert_eq!(number("self_ns"), row.self_ns, "{name}");
        assert_eq!(number("min_ns"), row.lengths_ns[0], "{name}");
        assert_eq!(number("max_ns"), row.lengths_ns[count - 1], "{name}");
        assert_eq!(number("child_spans"), row.children, "{name}");
        assert_eq!(number("descendant_spans"), row.descendants, "{name}");
        let mean = scope["mean_ns"].as_f64().unwrap();
        assert!(
            (mean - total as f64 / count as f64).abs() < 0.01,
            "{name}: {mean}"
        );
        for (field, percent) in [("p50_ns", 50), ("p95_ns", 95), ("p99_ns", 99)] {
            let exact = row.lengths_ns[(count * percent).div_ceil(100) - 1];
            let said = number(field);
            assert!(
                said.abs_diff(exact) <= exact / 64 + 1,
                "{name} {field}: {said} for {exact}"
            );
        }
    }
}

fn stats(recording: &Recording, options: &[&str]) -> Run {
    run("stats", &recording.path, options)
}

#[test]
fn all_spans_are_counted_to_the_nanosecond() {
    let recording = recording();
    let json = stats(recording, &["--json"]).json();
    assert_rows(&json, &rows(&recording.spans, |_| true));
    assert_eq!(json["spans"], recording.spans.len());
    assert_eq!(json["version"], 3);
    assert_eq!(json["dropped_spans"], 0);
    assert_eq!(json["corrected_ns"], Value::Null);
    assert_eq!(json["damage"]["count"], 0);
    let frames = &json["frames"];
    assert_eq!(
        (&frames["first"], &frames["last"]),
        (&0.into(), &(FRAMES - 1).into())
    );
    assert_eq!(frames["count"], FRAMES);
    let lengths = recording
        .frames
        .iter()
        .map(|frame| frame.duration_ns() as f64);
    let mean = lengths.sum::<f64>() / FRAMES as f64;
    assert!((frames["mean_ns"].as_f64().unwrap() - mean).abs() < 1.0);
}

#[test]
fn a_range_of_frames_counts_spans_that_ended_in_it_and_subtracts_earlier_children() {
    let recording = recording();
    for (option, from, to) in [
        ("12..13", ACROSS.1, ACROSS.1 + 1),
        ("5..=20", 5, 21),
        ("..7", 0, 7),
        ("50..", 50, FRAMES),
        ("33", 33, 34),
    ] {
        let json = stats(recording, &["--json", "--frames", option]).json();
        let expected = rows(&recording.spans, |span| (from..to).contains(&span.frame));
        assert_rows(&json, &expected);
        assert_eq!(json["frames"]["count"], to - from, "{option}");
    }
    // The scope that was open over three frames has only its own time.
    let json = stats(recording, &["--json", "--frames", "12"]).json();
    let is_across = |scope: &&Value| scope["name"] == "across";
    let across = json["scopes"]
        .as_array()
        .unwrap()
        .iter()
        .find(is_across)
        .unwrap();
    assert!(across["child_spans"].as_u64().unwrap() >= 3);
}

#[test]
fn threads_and_names_select() {
    let recording = recording();
    let json = stats(recording, &["--json", "--thread", "worker-2"]).json();
    let catalog = &recording.catalog;
    let expected = rows(&recording.spans, |span| {
        catalog.thread_name(span.thread) == "worker-2"
    });
    assert!(!expected.is_empty());
    assert_rows(&json, &expected);
    let json = stats(recording, &["--json", "--name", "*code*"]).json();
    assert_eq!(json["scopes"].as_array().unwrap().len(), 1);
    assert_eq!(json["scopes"][0]["name"], "decode");
    assert!(
        json["scopes"][0]["file"]
            .as_str()
            .unwrap()
            .ends_with("recording.rs")
    );
}

#[test]
fn rows_are_sorted_by_the_chosen_column() {
    let recording = recording();
    for sort in ["self", "total", "mean", "p50", "p95", "p99", "max", "count"] {
        let json = stats(recording, &["--json", "--sort", sort]).json();
        let field = if sort == "count" {
            sort.into()
        } else {
            format!("{sort}_ns")
        };
        let scopes = json["scopes"].as_array().unwrap();
        let values: Vec<f64> = scopes
            .iter()
            .map(|scope| scope[&field].as_f64().unwrap())
            .collect();
        assert!(values.is_sorted_by(|a, b| a >= b), "{sort}: {values:?}");
    }
    let json = stats(recording, &["--json", "--sort", "name"]).json();
    let scopes = json["scopes"].as_array().unwrap();
    assert!(scopes.is_sorted_by_key(|scope| scope["name"].as_str().unwrap()));
    assert_eq!(stats(recording, &["--sort", "colour"]).code, 2);
}

#[test]
fn the_cost_of_the_scopes_is_subtracted_on_request() {
    let recording = recording();
    let json = stats(recording, &["--json", "--corrected=20"]).json();
    assert_eq!(json["corrected_ns"], 20);
    let expected = rows(&recording.spans, |_| true);
    for scope in json["scopes"].as_array().unwrap() {
        let row = &expected[scope["name"].as_str().unwrap()];
        let (total, count) = (
            row.lengths_ns.iter().sum::<u64>(),
            row.lengths_ns.len() as u64,
        );
        assert_eq!(scope["total_ns"], total - count * 10 - row.descendants * 20);
        assert_eq!(
            scope["self_ns"],
            row.self_ns.saturating_sub(count * 10 + row.children * 10)
        );
    }
    let json = stats(recording, &["--json", "--corrected"]).json();
    assert!(
        json["corrected_ns"].as_u64().unwrap() > 0,
        "measured here: {}",
        json["corrected_ns"]
    );
}

#[test]
fn the_cost_of_the_scopes_is_the_one_in_the_capture() {
    let machine = filled!(MachineInfo {
        scope_ps: 123_456_001
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("elsewhere.vor");
    unclosed(&path, ProcessInfo::default(), machine, 3);
    let said = run("info", &path, &[]).stdout;
    let expected = "an empty scope took 123 µs when recording began; so many spans took 370 µs";
    assert!(said.contains(expected), "{said}");
    let info = run("info", &path, &["--json"]).json();
    assert_eq!(info["scope_ns"], 123_456.001);
    let stats = run("stats", &path, &["--json", "--corrected"]).json();
    assert_eq!(stats["corrected_ns"], 123_457);
}

#[test]
fn tables_fit_the_width_and_keep_the_column_that_sorts() {
    let recording = recording();
    for width in [40, 60, 80, 100, 120, 200] {
        for sort in ["self", "p95", "mean"] {
            let command = &mut vor();
            command
                .arg("stats")
                .arg(&recording.path)
                .args(["--sort", sort]);
            let run = Run::from(command.env("COLUMNS", width.to_string()).output().unwrap());
            assert_eq!(run.code, 0, "{run:?}");
            let table = run.stdout.split("\n\n").nth(1).unwrap();
            let head = table.lines().next().unwrap();
            assert!(
                head.split_whitespace().any(|column| column == sort),
                "{head}"
            );
            if width >= 60 {
                let widest = table
                    .lines()
                    .map(|line| line.chars().count())
                    .max()
                    .unwrap();
                assert!(widest <= width, "{widest} for {width}:\n{table}");
            }
        }
    }
    let piped = stats(recording, &[]).stdout;
    for column in [
        "count", "self", "total", "mean", "min", "p50", "p95", "p99", "max", "where",
    ] {
        assert!(
            piped.contains(column),
            "{column} is shown where the width has no limit"
        );
    }
}

#[test]
fn captures_of_version_2_have_statistics_too() {
    for name in ["flame", "every3_threads", "max5", "torn"] {
        let json = run("stats", &v2(&format!("{name}.vor")), &["--json"]).json();
        let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut last = None;
        for frame in v2_expected(name)["frames"].as_array().unwrap() {
            let flame = &frame["flame"];
            // A mark without a closed outermost scope repeats the previous flame.
            if flame.is_null() || last == flame["frame_index"].as_u64() {
                continue;
            }
            last = flame["frame_index"].as_u64();
            let threads = flame["threads"].as_array().unwrap().iter();
            for scope in threads.flat_map(|thread| thread["scopes"].as_array().unwrap()) {
                let row = expected
                    .entry(scope["name"].as_str().unwrap().into())
                    .or_default();
                row.0 += 1;
                row.1 += scope["duration_ns"].as_u64().unwrap();
            }
        }
        let mut said = BTreeMap::new();
        for scope in json["scopes"].as_array().unwrap() {
            let row: &mut (u64, u64) = said
                .entry(scope["name"].as_str().unwrap().into())
                .or_default();
            row.0 += scope["count"].as_u64().unwrap();
            row.1 += scope["total_ns"].as_u64().unwrap();
        }
        assert_eq!(said, expected, "{name}");
    }
}

#[test]
fn recursion_counts_once_and_time_has_the_right_parent_after_any_number_of_spans() {
    const SCOPES: [ScopeSpec; 3] = [
        scope("run_all", 1, 0),
        scope("parse", 2, 0),
        scope("leaf", 3, 0),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep.vor");
    // run_all { leaf × 40 003, parse { parse { leaf × 40 000 } } }, where a leaf of seven ticks
    // begins every ten ticks.
    let leaves = |from: u64, count: u64| (0..count).map(move |i| (from + 10 * i, 7, 3));
    let mut made: Vec<(u64, u64, u32)> = leaves(10, 40_003).collect();
    let outer = 10 + 10 * 40_003;
    made.extend(leaves(outer + 20, 40_000));
    made.push((outer + 10, 400_010, 2));
    made.push((outer, 400_030, 2));
    made.push((0, 900_000, 1));
    spans(&path, &SCOPES, &made, 50_000);
    let json = run("stats", &path, &["--json", "--sort", "name"]).json();
    assert_eq!(json["estimated_self_times"], 0);
    let row = |at: usize| {
        let scope = &json["scopes"][at];
        let number = |field: &str| scope[field].as_u64().unwrap();
        (
            number("total_ns"),
            number("self_ns"),
            number("nested_spans"),
        )
    };
    assert_eq!(row(0), (80_003 * 7, 80_003 * 7, 0));
    assert_eq!(row(1), (400_030, 400_030 - 40_000 * 7, 1));
    assert_eq!(row(2), (900_000, 900_000 - 40_003 * 7 - 400_030, 0));
    assert_eq!(json["scopes"][1]["mean_ns"], 400_020.0);
}
