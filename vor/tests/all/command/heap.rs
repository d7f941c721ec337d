//! `vor heap` on captures with known leaks.

use std::sync::Arc;

use serde_json::Value;
use vor_capture::filled;
use vor_capture::format::RecordRef;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};

use crate::command::made::{ScopeSpec, capture, catalog, heaps, records, scope};
use crate::command::{run, v2};

const SCOPES: [ScopeSpec; 3] = [
    scope("request", 10, 0),
    scope("remember", 20, 0),
    scope("render", 30, 0),
];

/// Live objects per scope: `remember` leaks all the time, the others allocate and free.
const OBJECTS: [&[u64]; 4] = [&[5, 0, 7], &[5, 40, 7], &[5, 80, 9], &[4, 120, 7]];

fn file(mode: HeapMode) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    heaps(&path, &SCOPES, mode, &OBJECTS);
    (folder, path)
}

#[test]
fn the_leak_comes_first() {
    let (_folder, path) = file(HeapMode::Exact);
    let shown = run("heap", &path, &[]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "4 snapshots, exact; from number 0 at 0 ns to 2 at 2.00 s: 1.20 kB live, then 9.40 \
            kB",
            "number 3 was taken when the recording ended and is left out; --to 3 includes it",
            "   bytes  objects  allocated in        at",
            "+8.00 kB      +80  request > remember  made.rs:20",
            "  +200 B       +2  request > render    made.rs:30",
        ]
    );
}

#[test]
fn chosen_snapshots_are_compared_without_a_note() {
    let (_folder, path) = file(HeapMode::Exact);
    let shown = run("heap", &path, &["--from", "2", "--to", "3"]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "4 snapshots, exact; from number 2 at 2.00 s to 3 at 3.00 s: 9.40 kB live, then 13.1 \
             kB",
            "   bytes  objects  allocated in        at",
            "+4.00 kB      +40  request > remember  made.rs:20",
            "  -100 B       -1  request             made.rs:10",
            "  -200 B       -2  request > render    made.rs:30",
        ]
    );
    let (_folder, path) = file(HeapMode::Sampled {
        interval_bytes: 524_288,
    });
    let shown = run("heap", &path, &["--from", "1", "--to", "2"]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    // Each estimate has a standard error of 10 bytes, so 1.96 of that of a difference are 27.7.
    assert_eq!(
        lines,
        [
            "4 snapshots, estimated, a sample per 524 kB; from number 1 at 1.00 s to 2 at 2.00 s: \
             5.20 kB live, then 9.40 kB",
            "   bytes       ±  objects  allocated in        at",
            "+4.00 kB  27.0 B      +40  request > remember  made.rs:20",
            "  +200 B  27.0 B       +2  request > render    made.rs:30",
        ]
    );
}

/// The capture is not closed, so its last snapshot is like all others.
#[test]
fn stacks_without_a_place_in_the_source_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let mut catalog = Catalog::clone(&catalog(&SCOPES));
    // The declaration of `remember` was lost.
    Arc::make_mut(&mut catalog.sites)[1] = None;
    let stack = |sites: &[u32], inuse_objects, inuse_bytes| {
        let scopes = sites.iter().map(|&site| {
            let site = SiteId(site);
            filled!(HeapScope { site })
        });
        filled!(HeapStack {
            scopes: scopes.collect(),
            inuse_objects,
            inuse_bytes
        })
    };
    let snapshots = [(1_000, [(3, 300), (2, 200)]), (2_500, [(3, 450), (1, 120)])];
    let snapshots = snapshots.map(|(ms, [outside, lost])| {
        let stacks = vec![
            stack(&[], outside.0, outside.1),
            stack(&[1, 2], lost.0, lost.1),
        ];
        HeapSnapshot::new(HeapMode::Exact, ms * 1_000_000, stacks)
    });
    let all = snapshots.each_ref().map(RecordRef::Heap);
    records(&path, &catalog, &all, false);
    let shown = run("heap", &path, &[]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "2 snapshots, exact; from number 0 at 0 ns to 1 at 1.50 s: 500 B live, then 570 B",
            "  bytes  objects  allocated in         at",
            " +150 B       +0  (outside of scopes)",
            "-80.0 B       -1  request > ?",
        ]
    );
    let json = run("heap", &path, &["--json"]).json();
    let expected = serde_json::json!([
        {
            "stack": [],
            "file": "",
            "line": 0,
            "inuse_objects": 0,
            "inuse_bytes": 150,
            "bytes_error": 0.0,
        },
        {
            "stack": ["request", "?"],
            "file": "",
            "line": 0,
            "inuse_objects": -1,
            "inuse_bytes": -80,
            "bytes_error": 0.0,
        },
    ]);
    assert_eq!(json["changes"], expected);

    let same = [snapshots[0].clone(), snapshots[0].clone()];
    let all = same.each_ref().map(RecordRef::Heap);
    records(&path, &catalog, &all, false);
    let shown = run("heap", &path, &[]).stdout;
    assert_eq!(shown.lines().nth(1), Some("nothing has changed"));
}

#[test]
fn a_leak_that_ends_with_the_variables_of_main_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    // A variable of `main` owns 253 kB, and is dropped before the last snapshot.
    let objects: [&[u64]; 4] = [&[5, 0, 7], &[5, 1_265, 7], &[5, 2_530, 7], &[5, 0, 6]];
    heaps(&path, &SCOPES, HeapMode::Exact, &objects);
    let json = run("heap", &path, &["--json"]).json();
    assert_eq!((&json["from"], &json["to"]), (&0.into(), &2.into()));
    assert_eq!(json["changes"][0]["stack"][1], "remember");
    assert_eq!(json["changes"][0]["inuse_bytes"], 253_000);
    let to_the_end = run("heap", &path, &["--json", "--to", "3"]).json();
    assert_eq!(to_the_end["changes"][0]["inuse_bytes"], -100);

    // With no snapshot in between, the two existing ones are compared, and the command says so.
    heaps(&path, &SCOPES, HeapMode::Exact, &objects[2..]);
    let shown = run("heap", &path, &[]).stdout;
    assert_eq!(
        shown.lines().nth(1),
        Some(
            "number 1 was taken when the recording ended, when the variables of `main` may be \
             gone; a smaller VOR_HEAP_SNAPSHOTS_S takes earlier ones"
        )
    );
    assert!(
        run("heap", &path, &["--top", "0"])
            .refusal()
            .contains("--limit")
    );
}

#[test]
fn snapshots_are_chosen_by_number() {
    let (_folder, path) = file(HeapMode::Sampled {
        interval_bytes: 524_288,
    });
    let json = run("heap", &path, &["--json", "--from", "1", "--to", "2"]).json();
    assert_eq!(
        (&json["from"], &json["to"], &json["sample_bytes"]),
        (&1.into(), &2.into(), &524_288.into())
    );
    let totals: Vec<&Value> = json["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["inuse_bytes"])
        .collect();
    assert_eq!(totals, [1_200, 5_200, 9_400, 13_100]);
    let changes = json["changes"].as_array().unwrap();
    let change = |at: usize, name: &str| {
        (
            changes[at]["stack"][1] == name,
            changes[at]["inuse_bytes"].as_i64().unwrap(),
        )
    };
    assert_eq!(changes.len(), 2);
    assert_eq!(
        (change(0, "remember"), change(1, "render")),
        ((true, 4_000), (true, 200))
    );
    assert_eq!(changes[0]["file"], "made.rs");
    assert!(changes[0]["bytes_error"].as_f64().unwrap() > 0.0);
    let shown = run("heap", &path, &["--top", "1"]);
    assert!(
        shown.stdout.contains("estimated, a sample per 524 kB"),
        "{shown:?}"
    );
    assert!(
        shown
            .stdout
            .ends_with("and 1 more stack; --top shows them\n"),
        "{shown:?}"
    );
}

#[test]
fn the_change_is_exported_as_a_profile() {
    let (folder, path) = file(HeapMode::Exact);
    let profile = folder.path().join("leak.pb.gz");
    let shown = run("heap", &path, &["-o", profile.to_str().unwrap()]);
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    assert_eq!(std::fs::read(&profile).unwrap()[..2], [0x1f, 0x8b]);
}

#[test]
fn missing_snapshots_are_reported_in_one_line() {
    let (folder, path) = file(HeapMode::Exact);
    let refusal =
        |path: &std::path::Path, options: &[&str]| run("heap", path, options).refusal().to_owned();
    let line = refusal(&path, &["--from", "2", "--to", "9"]);
    assert!(
        line.ends_with(
            "no snapshot 9 after snapshot 2; the capture has 4 snapshots, numbered from 0"
        ),
        "{line}"
    );
    assert!(refusal(&path, &["--from", "3"]).contains("no snapshot later than 3; "));
    let without = folder.path().join("without.vor");
    capture(&without, &SCOPES, 2, 2, 1);
    assert!(refusal(&without, &[]).contains("VOR_HEAP_SNAPSHOTS_S=60"));
    assert!(refusal(&v2("flame.vor"), &[]).contains("captures of version 2 have none"));
}

#[test]
fn heaps_of_several_runs_are_not_compared() {
    let (folder, _) = file(HeapMode::Exact);
    let shown = run("heap", folder.path(), &["--json"]).json();
    assert_eq!(shown["snapshots"].as_array().unwrap().len(), 4);
    heaps(
        &folder.path().join("other.vor"),
        &SCOPES,
        HeapMode::Exact,
        &OBJECTS,
    );
    let shown = run("heap", folder.path(), &[]);
    assert!(shown.refusal().contains("segments of 2 runs"));
}
