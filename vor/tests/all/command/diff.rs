//! `vor diff` on captures with known changes.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::made::{ScopeSpec, capture, scope};
use crate::command::{Run, tear, v2, vor};

/// The program before the change: a request with three steps.
const BEFORE: [ScopeSpec; 4] = [
    scope("request", 10, 500),
    scope("parse", 20, 2_000),
    scope("decode", 30, 5_000),
    scope("answer", 40, 1_000),
];

/// After the change: `decode` takes a fifth longer.
const AFTER: [ScopeSpec; 4] = [
    scope("request", 11, 500),
    scope("parse", 21, 2_000),
    scope("decode", 31, 6_000),
    scope("answer", 41, 1_000),
];

const FRAMES: u64 = 100;
const REQUESTS: u64 = 40;

struct Captures {
    before: PathBuf,
    after: PathBuf,
    again: PathBuf,
    _folder: tempfile::TempDir,
}

fn captures() -> Captures {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (before, after, again) = (path("before.vor"), path("after.vor"), path("again.vor"));
    capture(&before, &BEFORE, FRAMES, REQUESTS, 1);
    capture(&after, &AFTER, FRAMES, REQUESTS, 2);
    capture(&again, &BEFORE, FRAMES, REQUESTS, 3);
    Captures {
        before,
        after,
        again,
        _folder: folder,
    }
}

fn diff(before: &Path, after: &Path, options: &[&str]) -> Run {
    let mut command = vor();
    command.arg("diff").args([before, after]).args(options);
    Run::from(command.output().unwrap())
}

fn scope_of<'a>(json: &'a Value, name: &str) -> &'a Value {
    let scopes = json["scopes"].as_array().unwrap();
    scopes.iter().find(|scope| scope["name"] == name).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Asserts that the interval of a scope contains a change and has a plausible width.
fn assert_holds(json: &Value, name: &str, percent: f64) {
    let scope = scope_of(json, name);
    let (low, high) = (
        number(&scope["low_percent"]),
        number(&scope["high_percent"]),
    );
    assert!(
        low <= percent && percent <= high && high - low < 20.0,
        "{percent} % of {scope}"
    );
    let change = number(&scope["change_percent"]);
    assert!(low <= change && change <= high, "{scope}");
}

#[test]
fn the_interval_of_a_slowed_scope_holds_its_change_and_the_others_hold_zero() {
    let captures = captures();
    for metric in ["mean", "p50", "p99", "self"] {
        let json = diff(
            &captures.before,
            &captures.after,
            &["--format", "json", "--metric", metric],
        )
        .json();
        assert_eq!(
            (&json["metric"], &json["confidence"]),
            (&metric.into(), &0.95.into())
        );
        assert_holds(&json, "decode", 20.0);
        assert!(number(&scope_of(&json, "decode")["low_percent"]) > 5.0);
        for unchanged in ["parse", "answer"] {
            assert_holds(&json, unchanged, 0.0);
        }
        // The request grows by as much as `decode` does, and its own time stays the same.
        match metric {
            "mean" => assert_holds(&json, "request", 100.0 * 1_000.0 / 8_500.0),
            "self" => assert_holds(&json, "request", 0.0),
            _ => {}
        }
    }
    // The largest contribution comes first, per frame.
    let json = diff(&captures.before, &captures.after, &["--format", "json"]).json();
    assert_eq!(json["scopes"][0]["name"], "decode");
    let per_frame_ns = number(&json["scopes"][0]["self_change_ns"]);
    let expected_ns = 1_000.0 * REQUESTS as f64;
    assert!(
        (per_frame_ns / expected_ns - 1.0).abs() < 0.3,
        "{per_frame_ns} for {expected_ns}"
    );
}

#[test]
fn numbers_equal_those_of_stats() {
    let captures = captures();
    let json = diff(&captures.before, &captures.after, &["--format", "json"]).json();
    for (side, path) in [("before", &captures.before), ("after", &captures.after)] {
        let stats = crate::command::run("stats", path, &["--json"]).json();
        assert_eq!(json[side]["spans"], stats["spans"]);
        assert_eq!(json[side]["file"], path.to_str().unwrap());
        assert_eq!(json[side]["version"], 3);
        for field in ["first", "last", "count"] {
            assert_eq!(json[side]["frames"][field], stats["frames"][field]);
        }
        for field in ["dropped_spans", "estimated_self_times", "damage"] {
            assert_eq!(json[side][field], stats[field], "{field}");
        }
        for known in stats["scopes"].as_array().unwrap() {
            let said = &scope_of(&json, known["name"].as_str().unwrap())[side];
            for field in [
                "site",
                "module_path",
                "file",
                "line",
                "count",
                "total_ns",
                "self_ns",
                "mean_ns",
                "p50_ns",
                "p99_ns",
            ] {
                assert_eq!(said[field], known[field], "{field}");
            }
        }
    }
    assert_eq!(json["per"], "frame");
    assert_eq!(
        (&json["slower"], &json["fail_above_percent"]),
        (&0.into(), &Value::Null)
    );
    let again = diff(&captures.before, &captures.after, &["--format", "json"]).json();
    assert_eq!(again, json, "the same command has the same result");
}

#[test]
fn a_slower_scope_fails_and_a_random_difference_does_not() {
    let captures = captures();
    let slower = diff(&captures.before, &captures.after, &["--fail-above", "5%"]);
    assert_eq!(slower.code, 1, "{slower:?}");
    let lines: Vec<&str> = slower.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{slower:?}");
    for name in ["decode (made.rs:31)", "request (made.rs:11)"] {
        let told = lines
            .iter()
            .any(|line| line.contains(name) && line.contains("the mean is more than 5 % above"));
        assert!(told, "{name} in {lines:?}");
    }
    // The rows are printed in any case.
    assert!(slower.stdout.contains("answer"), "{slower:?}");
    let json = diff(
        &captures.before,
        &captures.after,
        &["--fail-above", "5", "--format", "json"],
    );
    assert_eq!(json.code, 1);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&json["slower"], &json["fail_above_percent"]),
        (&2.into(), &5.0.into())
    );
    assert_eq!(scope_of(&json, "decode")["slower"], true);
    assert_eq!(scope_of(&json, "parse")["slower"], false);

    let allowed = diff(&captures.before, &captures.after, &["--fail-above", "30%"]);
    assert_eq!((allowed.code, allowed.stderr.as_str()), (0, ""));
    let faster = diff(&captures.after, &captures.before, &["--fail-above", "5%"]);
    assert_eq!((faster.code, faster.stderr.as_str()), (0, ""));
    // Random differences between two runs of the same program are within their interval.
    let same = diff(&captures.before, &captures.again, &["--fail-above", "0%"]);
    assert_eq!((same.code, same.stderr.as_str()), (0, ""), "{same:?}");
    // `--limit` hides rows of the table and does not change the exit code.
    let hidden = diff(
        &captures.before,
        &captures.after,
        &["--fail-above", "5%", "--limit", "1", "--sort", "name"],
    );
    assert_eq!(hidden.code, 1);
    assert!(hidden.stdout.contains("and 3 more scopes"), "{hidden:?}");
    let only = diff(
        &captures.before,
        &captures.after,
        &["--fail-above", "5%", "--name", "p*", "--name", "answer"],
    );
    assert_eq!((only.code, only.stderr.as_str()), (0, ""));
    let own = diff(
        &captures.before,
        &captures.after,
        &["--fail-above", "5%", "--metric", "self"],
    );
    assert_eq!((own.code, own.stderr.lines().count()), (1, 1), "{own:?}");
}

#[test]
fn scopes_of_one_capture_are_new_or_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("a.vor"), folder.path().join("b.vor"));
    capture(
        &before,
        &[
            scope("request", 1, 100),
            scope("old", 2, 300),
            scope("kept", 3, 300),
        ],
        10,
        10,
        1,
    );
    // Two scopes of one name differ in their lines.
    let now = [
        scope("request", 1, 100),
        scope("kept", 7, 300),
        scope("fresh", 8, 300),
        scope("fresh", 9, 700),
    ];
    capture(&after, &now, 10, 10, 2);
    let json = diff(&before, &after, &["--format", "json", "--sort", "name"]).json();
    let said: Vec<(&str, &str, bool, bool)> = json["scopes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|scope| {
            (
                scope["name"].as_str().unwrap(),
                scope["status"].as_str().unwrap(),
                scope["before"].is_null(),
                scope["change_percent"].is_null(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("fresh", "new", true, true),
            ("fresh", "new", true, true),
            ("kept", "both", false, false),
            ("old", "gone", false, true),
            ("request", "both", false, false),
        ]
    );
    let table = diff(&before, &after, &[]).stdout;
    assert!(
        table.contains("fresh made.rs:8") && table.contains("fresh made.rs:9"),
        "{table}"
    );
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("fresh made.rs:8").contains("  new  ") && row("old").contains("  gone  "));
}

#[test]
fn markdown_is_a_table_for_a_pull_request() {
    let captures = captures();
    let run = diff(
        &captures.before,
        &captures.after,
        &["--format", "markdown", "--fail-above", "15%"],
    );
    assert_eq!(run.code, 1, "{run:?}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].starts_with("| scope | Δ self/frame | Δ mean | 95 % interval |"));
    assert!(lines[1].starts_with("|---|---:|"));
    let columns = |line: &str| line.matches('|').count();
    let rows: Vec<&&str> = lines[2..]
        .iter()
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!(columns(row), columns(lines[0]), "{row}");
    }
    assert!(rows[0].starts_with("| **decode** | +"), "{}", rows[0]);
    assert!(
        run.stdout.contains("Slower by more than 15 %: 1 scope."),
        "{run:?}"
    );
    assert!(run.stdout.contains("- before: "), "{run:?}");
}

#[test]
fn tables_fit_the_width_and_keep_the_column_that_sorts() {
    let captures = captures();
    for (width, sort, head) in [
        (60, "change", "Δ self/frame"),
        (70, "p99", "p99"),
        (90, "total", "total"),
    ] {
        let mut command = vor();
        command
            .arg("diff")
            .args([&captures.before, &captures.after]);
        let narrow = command
            .args(["--sort", sort])
            .env("COLUMNS", width.to_string());
        let run = Run::from(narrow.output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        let table = run.stdout.split("\n\n").nth(1).unwrap();
        let widest = run
            .stdout
            .lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap();
        assert!(widest <= width, "{widest} for {width}: {run:?}");
        assert!(table.lines().next().unwrap().contains(head), "{table}");
    }
}

#[test]
fn frames_select_and_rows_are_sorted() {
    let captures = captures();
    let json = diff(
        &captures.before,
        &captures.after,
        &["--format", "json", "--frames", "10..20"],
    )
    .json();
    for side in ["before", "after"] {
        assert_eq!(json[side]["frames"]["count"], 10);
        assert_eq!(scope_of(&json, "decode")[side]["count"], 10 * REQUESTS);
    }
    for (sort, first) in [
        ("percent", "decode"),
        ("total", "request"),
        ("mean", "request"),
        ("self", "decode"),
        ("name", "answer"),
    ] {
        let json = diff(
            &captures.before,
            &captures.after,
            &["--format", "json", "--sort", sort, "--limit", "2"],
        )
        .json();
        assert_eq!(json["scopes"][0]["name"], first, "{sort}");
        assert_eq!(json["scopes"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn captures_that_cannot_be_compared_are_refused_in_one_line() {
    let captures = captures();
    let cases: [(&[&str], &str); 6] = [
        (&["--name", "nothing*"], "no scope is called `nothing*`"),
        (&["--frames", "500.."], "the capture has frames 0..100"),
        (&["--fail-above", "much"], "`much` is not a percentage"),
        (&["--fail-above", "-5"], "unknown option `-5`"),
        (
            &["--metric", "max"],
            "unknown value `max`; choose one of mean, p50, p99, self",
        ),
        (
            &["--format", "html"],
            "unknown value `html`; choose one of table, json, markdown",
        ),
    ];
    for (options, said) in cases {
        let run = diff(&captures.before, &captures.after, options);
        assert!(run.refusal().contains(said), "{options:?}: {run:?}");
    }
    let nothing = captures.before.with_file_name("missing.vor");
    let missing = diff(&captures.before, &nothing, &[]);
    assert!(missing.refusal().contains("missing.vor"), "{missing:?}");
    let metrics = diff(&v2("metrics_only.vor"), &captures.after, &[]);
    assert!(metrics.refusal().contains("no spans"), "{metrics:?}");
    let one = Run::from(vor().arg("diff").arg(&captures.before).output().unwrap());
    assert!(one.refusal().contains("<AFTER> is missing"), "{one:?}");
}

#[test]
fn damage_is_reported_and_the_rest_is_compared() {
    let captures = captures();
    let bytes = std::fs::read(&captures.after).unwrap();
    tear(&captures.after, &bytes);
    let run = diff(&captures.before, &captures.after, &["--format", "json"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.stderr.contains("an incomplete record"), "{run:?}");
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_holds(&json, "decode", 20.0);
    // A regression decides the exit code before damage does.
    let run = diff(&captures.before, &captures.after, &["--fail-above", "5%"]);
    assert_eq!(run.code, 1, "{run:?}");
    let version_2 = diff(&v2("flame.vor"), &v2("torn.vor"), &[]);
    assert_eq!(version_2.code, 3, "{version_2:?}");
}
