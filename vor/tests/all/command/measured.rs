//! `vor stats` shows what scopes measured besides their duration.

use std::path::Path;
use std::sync::Arc;

use vor::capture::{ArgValue, SpanArgs, SpanBatch};
use vor::sinks::FrameSink;
use vor_capture::filled;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::SiteId;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

use crate::command::{made, run};

/// Writes a capture of one call of `outer`, 100 µs, around one of `inner`, 40 µs, with these
/// measures.
fn write(path: &Path, names: &[&str], outer: &[u64], inner: &[u64]) {
    let mut catalog = made::catalog(&[made::scope("outer", 1, 0), made::scope("inner", 2, 0)]);
    let sites = Arc::make_mut(&mut Arc::make_mut(&mut catalog).sites);
    for site in sites.iter_mut().flatten() {
        Arc::make_mut(site).arg_names =
            names.iter().map(|name| (*name).to_owned().into()).collect();
    }
    let args = |span, values: &[u64]| {
        filled!(SpanArgs {
            span,
            values: values.iter().copied().map(ArgValue::U64).collect(),
        })
    };
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    sink.accept_batch(&filled!(SpanBatch {
        catalog,
        threads: vec![filled!(ThreadBatch {
            start_ticks: vec![1_020_000, 1_000_000],
            duration_ticks: vec![40_000, 100_000],
            sites: vec![SiteId(2), SiteId(1)],
            args: vec![args(0, inner), args(1, outer)],
        })],
    }))
    .unwrap();
    sink.finish().unwrap();
}

/// Returns the cells of a row of `vor stats`, by the name of their column.
fn row(text: &str, scope: &str) -> Vec<(String, String)> {
    let columns = |line: &str| -> Vec<String> {
        line.split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let mut lines = text.lines();
    let heads = columns(lines.find(|line| line.starts_with("scope")).unwrap());
    let cells = columns(lines.find(|line| line.starts_with(scope)).unwrap());
    heads.into_iter().zip(cells).collect()
}

#[test]
fn waits_are_divided_into_queued_and_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("waits.vor");
    let names = ["off_cpu_ns", "run_queue_ns"];
    // The values of `outer` include those of `inner`.
    write(&path, &names, &[50_000, 20_000], &[30_000, 5_000]);
    let stats = run("stats", &path, &["--json"]).json();
    let scope = |name: &str| {
        let rows = stats["scopes"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()
    };
    assert_eq!(scope("outer")["off_cpu_ns"], 50_000);
    assert_eq!(scope("outer")["run_queue_ns"], 20_000);
    assert_eq!(scope("outer")["cpu_ns"], 50_000);
    assert_eq!(scope("inner")["run_queue_ns"], 5_000);

    let text = run("stats", &path, &[]).stdout;
    let cell = |scope: &str, column: &str| {
        let row = row(&text, scope);
        row.into_iter().find(|(head, _)| head == column).unwrap().1
    };
    // Without the spans inside.
    assert_eq!(cell("outer", "queued"), "15.0 µs", "{text}");
    assert_eq!(cell("outer", "blocked"), "5.00 µs", "{text}");
    assert_eq!(cell("inner", "queued"), "5.00 µs", "{text}");
    assert_eq!(cell("inner", "blocked"), "25.0 µs", "{text}");
    assert!(!text.contains("off cpu"), "{text}");
    // A recorder before switches were counted.
    assert!(!text.contains("switches"), "{text}");
    assert!(scope("outer").get("context_switches").is_none());

    let frames = run("frames", &path, &["--json"]).json();
    let waits = &frames["frames"][0]["waits"];
    // That of `outer`, which has those of `inner`.
    assert_eq!(waits["queued_ns"], 20_000, "{frames}");
    assert_eq!(waits["blocked_ns"], 30_000);
    let text = run("frames", &path, &[]).stdout;
    assert!(
        text.contains("queued") && text.contains("20.0 µs"),
        "{text}"
    );

    let later = folder.path().join("later.vor");
    write(&later, &names, &[90_000, 20_000], &[30_000, 5_000]);
    let later = later.to_str().unwrap();
    let json = run("diff", &path, &[later, "--format", "json"]).json();
    let rows = json["scopes"].as_array().unwrap();
    let outer = rows.iter().find(|row| row["name"] == "outer").unwrap();
    assert_eq!(outer["before"]["off_cpu_ns"], 50_000);
    assert_eq!(outer["after"]["off_cpu_ns"], 90_000);
    assert_eq!(outer["after"]["run_queue_ns"], 20_000);
    let text = run("diff", &path, &[later, "--format", "markdown"]).stdout;
    assert!(text.contains("| queued | blocked |"), "{text}");
    assert!(text.contains("| 30.0 µs → 70.0 µs |"), "{text}");
}

#[test]
fn switches_have_a_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switches.vor");
    let names = ["off_cpu_ns", "run_queue_ns", "context_switches"];
    write(&path, &names, &[50_000, 20_000, 9], &[30_000, 5_000, 2]);
    let stats = run("stats", &path, &["--json"]).json();
    let rows = stats["scopes"].as_array().unwrap();
    let of = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        row["context_switches"].as_u64().unwrap()
    };
    assert_eq!([of("outer"), of("inner")], [9, 2]);
    let text = run("stats", &path, &[]).stdout;
    for (scope, expected) in [("outer", "7"), ("inner", "2")] {
        let cells = row(&text, scope);
        let cell = cells.into_iter().find(|(head, _)| head == "switches");
        assert_eq!(cell.unwrap().1, expected, "{text}");
    }
}

#[test]
fn without_waits_there_is_one_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cpu.vor");
    write(&path, &["off_cpu_ns"], &[50_000], &[30_000]);
    let stats = run("stats", &path, &["--json"]).json();
    let rows = stats["scopes"].as_array().unwrap();
    assert!(rows.iter().all(|row| row.get("run_queue_ns").is_none()));
    let text = run("stats", &path, &[]).stdout;
    let off = row(&text, "outer")
        .into_iter()
        .find(|(head, _)| head == "off cpu");
    assert_eq!(off.unwrap().1, "20.0 µs", "{text}");
    assert!(!text.contains("queued"), "{text}");
}
