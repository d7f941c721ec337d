//! `vor heap` on captures with known leaks.

use serde_json::Value;
use vor_capture::model::heap::HeapMode;

use crate::command::made::{ScopeSpec, capture, heaps, scope};
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
    assert!(
        shown.contains("number 1 was taken when the recording ended"),
        "{shown}"
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
