//! `vor stats` of a small capture: the whole text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::scope_modes::{ScopeMode, ScopeModeChange, ScopeModes};

use crate::command::drafts::{Draft, args, frame, put, shop, site, thread};
use crate::command::run;

/// Writes two frames of scopes with all kinds of measures: requests with their waits, parses with
/// their allocations, another scope called `parse`, one without a place, and one that is off.
fn write(folder: &Path) -> PathBuf {
    let waits = ["id", "off_cpu_ns", "run_queue_ns", "context_switches"];
    let allocations = ["alloc_objects", "alloc_bytes", "free_objects", "free_bytes"];
    let mut modes = ScopeModes::default();
    modes.insert(filled!(ScopeModeChange {
        ticks: 1,
        site: SiteId(4),
        mode: ScopeMode::Off
    }));
    let mut draft = Draft::new(filled!(Catalog {
        sites: Arc::new(vec![
            site("request", ("src/shop.rs", 10), &waits),
            site("parse", ("src/shop.rs", 20), &allocations),
            site("parse", ("lib/other.rs", 7), &[]),
            site("silent", ("src/shop.rs", 40), &[]),
            site("dynamic", ("", 0), &[]),
        ]),
        scope_modes: Arc::new(modes),
        ..shop()
    }));
    draft.batch(vec![
        filled!(ThreadBatch {
            args: vec![args(0, &[5, 2_048, 1, 64]), args(2, &[7, 30, 10, 3])],
            ..thread(0, &[(1_010, 20, 2), (1_035, 5, 3), (1_000, 60, 1)])
        }),
        thread(1, &[(2_000, 50, 5)]),
    ]);
    draft.frame(frame(10, (1_000, 5_000), 4));
    draft.batch(vec![filled!(ThreadBatch {
        args: vec![args(0, &[2, 952, 0, 0]), args(1, &[8])],
        dropped_spans: 1_200,
        ..thread(0, &[(5_010, 10, 2), (5_000, 40, 1)])
    })]);
    draft.frame(filled!(FrameSnapshot {
        dropped_spans: 1_200,
        ..frame(12, (5_000, 11_000), 2)
    }));
    put(folder, "run.vor", &draft.close())
}

/// Returns the lines of a text, with the cells of each separated by bars.
fn lines(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let cells = line.split("  ").map(str::trim);
        let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
        cells.join(" | ")
    };
    text.lines().map(line).collect()
}

#[test]
fn a_table_has_what_each_scope_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path());
    let stats = run("stats", &path, &[]);
    assert_eq!((stats.code, stats.stderr.as_str()), (0, ""));
    assert_eq!(
        lines(&stats.stdout),
        [
            "6 spans in 2 frames (10 to 12)",
            "frame time: mean 5.00 µs, p50 4.00 µs, p95 6.00 µs, p99 6.00 µs",
            "1\u{202f}200 spans DROPPED while recording (a ring was full): counts and totals are \
            too small",
            "",
            "scope | count | self | % | total | mean | min | p50 | p95 | p99 | max | \
            cpu | queued | blocked | switches | allocs | alloc | mode | where",
            "request | 2 | 65 ns | 43.3 | 100 ns | 50 ns | 40 ns | 40 ns | 60 ns | 60 ns | 60 ns | \
            35 ns | 10 ns | 20 ns | 3 | - | - | record | src/shop.rs:10",
            "dynamic | 1 | 50 ns | 33.3 | 50 ns | 50 ns | 50 ns | 50 ns | 50 ns | 50 ns | 50 ns | \
            - | - | - | - | - | - | record",
            "parse shop.rs:20 | 2 | 30 ns | 20.0 | 30 ns | 15 ns | 10 ns | 10 ns | 20 ns | 20 ns | \
            20 ns | - | - | - | - | 7 | 3.00 kB | record | src/shop.rs:20",
            "parse other.rs:7 | 1 | 5 ns | 3.3 | 5 ns | 5 ns | 5 ns | 5 ns | 5 ns | 5 ns | 5 ns | \
            - | - | - | - | - | - | record | lib/other.rs:7",
            "silent | not recorded | - | - | - | - | - | - | - | - | - | \
            - | - | - | - | - | - | off | src/shop.rs:40",
        ]
    );
}

#[test]
fn a_selection_is_named_above_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path());
    let of = |options: &[&str]| {
        let stats = run("stats", &path, options);
        assert_eq!((stats.code, stats.stderr.as_str()), (0, ""));
        lines(&stats.stdout)
    };
    assert_eq!(
        of(&["--thread", "load*"]),
        [
            "1 span in 2 frames (10 to 12)",
            "frame time: mean 5.00 µs, p50 4.00 µs, p95 6.00 µs, p99 6.00 µs",
            "only thread load*",
            "1\u{202f}200 spans DROPPED while recording (a ring was full): counts and totals are \
            too small",
            "",
            "scope | count | self | % | total | mean | min | p50 | p95 | p99 | max | mode | where",
            "dynamic | 1 | 50 ns | 100.0 | 50 ns | 50 ns | 50 ns | 50 ns | 50 ns | 50 ns | 50 ns | \
            record",
        ]
    );
    let threads = ["--thread", "main", "--thread", "load*"];
    let others = ["--frames", "10", "--name", "par*", "--corrected=0"];
    assert_eq!(
        of(&[&threads[..], &others].concat()),
        [
            "4 spans in 1 frame (10 to 10)",
            "frame time: mean 4.00 µs, p50 4.00 µs, p95 4.00 µs, p99 4.00 µs",
            "only threads main, load*",
            "corrected for 0 ns per scope",
            "",
            "scope | count | self | % | total | mean | min | p50 | p95 | p99 | max | \
            allocs | alloc | mode | where",
            "parse shop.rs:20 | 1 | 20 ns | 80.0 | 20 ns | 20 ns | 20 ns | 20 ns | 20 ns | 20 ns | \
            20 ns | 5 | 2.05 kB | record | src/shop.rs:20",
            "parse other.rs:7 | 1 | 5 ns | 20.0 | 5 ns | 5 ns | 5 ns | 5 ns | 5 ns | 5 ns | 5 ns | \
            - | - | record | lib/other.rs:7",
        ]
    );
}

#[test]
fn the_cost_of_a_scope_is_measured_where_the_capture_does_not_say_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path());
    let stats = run("stats", &path, &["--json", "--corrected"]).json();
    assert!(stats["corrected_ns"].as_u64().unwrap() > 0, "{stats}");
}

#[test]
fn rows_are_sorted_by_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path());
    for (sort, expected) in [
        ("cpu", ["request", "dynamic", "parse", "parse"]),
        ("alloc", ["parse", "dynamic", "parse", "request"]),
        ("mean", ["dynamic", "request", "parse", "parse"]),
    ] {
        let stats = run("stats", &path, &["--json", "--sort", sort]).json();
        let scopes = stats["scopes"].as_array().unwrap().iter();
        let names: Vec<&str> = scopes
            .map(|scope| scope["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{sort}");
    }
}

#[test]
fn a_capture_in_which_nothing_was_recorded_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut modes = ScopeModes::default();
    modes.insert(filled!(ScopeModeChange {
        ticks: 1,
        site: SiteId(2),
        mode: ScopeMode::Off
    }));
    let draft = Draft::new(filled!(Catalog {
        scope_modes: Arc::new(modes),
        ..shop()
    }));
    let path = put(folder.path(), "run.vor", &draft.close());
    let stats = run("stats", &path, &[]);
    let warning = "no frames; the table has all spans of the recording";
    let warning = format!("vor: {}: {warning}\n", path.display());
    assert_eq!((stats.code, stats.stderr), (0, warning));
    assert_eq!(
        lines(&stats.stdout),
        [
            "0 spans",
            "",
            "scope | count | self | % | total | mean | min | p50 | p95 | p99 | max | mode | where",
            "parse | not recorded | - | - | - | - | - | - | - | - | - | off | src/shop.rs:20",
        ]
    );
}
