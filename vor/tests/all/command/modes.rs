//! `vor stats` and `vor diff` of captures in which rules kept scopes from being recorded.

use std::path::Path;

use vor_capture::model::scope_modes::ScopeMode;

use crate::command::made::{ScopeSpec, modes, scope};
use crate::command::{Run, run, vor};

const SCOPES: [ScopeSpec; 4] = [
    scope("work", 1, 0),
    scope("off", 2, 0),
    scope("counted", 3, 0),
    scope("sampled", 4, 0),
];

const MODES: [(u32, ScopeMode); 3] = [
    (2, ScopeMode::Off),
    (3, ScopeMode::Count),
    (
        4,
        ScopeMode::Sample {
            one_in: 100,
            tree: true,
        },
    ),
];

/// Returns the line of a table that begins with this word.
fn line<'a>(run: &'a Run, name: &str) -> &'a str {
    let mut lines = run.stdout.lines();
    let found = lines.find(|line| line.split_whitespace().next() == Some(name));
    found.unwrap_or_else(|| panic!("{name}: {run:?}"))
}

fn diff(before: &Path, after: &Path, options: &[&str]) -> Run {
    let mut command = vor();
    Run::from(
        command
            .arg("diff")
            .args([before, after])
            .args(options)
            .output()
            .unwrap(),
    )
}

#[test]
fn stats_say_not_recorded_instead_of_zero() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ruled.vor");
    modes(&path, &SCOPES, &MODES);
    let table = run("stats", &path, &[]);
    for (name, mode) in [("off", "off"), ("counted", "count")] {
        let line = line(&table, name);
        assert!(
            line.contains("not recorded") && line.contains(mode),
            "{line}"
        );
        assert!(!line.contains(" 0 "), "{line}");
    }
    assert!(line(&table, "sampled").contains("1/100+tree"));
    assert!(line(&table, "work").contains("record"));
    let json = run("stats", &path, &["--json"]).json();
    let scopes = json["scopes"].as_array().unwrap();
    let modes: Vec<_> = scopes
        .iter()
        .map(|scope| (&scope["name"], &scope["mode"]))
        .collect();
    assert_eq!(modes.len(), 2, "{json}");
    assert!(
        modes
            .iter()
            .any(|(name, mode)| *name == "sampled" && *mode == "1/100+tree")
    );
    assert!(
        modes
            .iter()
            .any(|(name, mode)| *name == "work" && mode.is_null())
    );
    let missing = json["not_recorded"].as_array().unwrap();
    assert_eq!(missing.len(), 2);
    assert_eq!(
        (&missing[0]["name"], &missing[0]["mode"]),
        (&"counted".into(), &"count".into())
    );
    // A capture without rules looks as ever.
    let plain = folder.path().join("plain.vor");
    self::modes_of_nothing(&plain);
    let table = run("stats", &plain, &[]);
    assert!(!table.stdout.contains("mode") && !table.stdout.contains("not recorded"));
}

fn modes_of_nothing(path: &Path) {
    modes(path, &SCOPES, &[]);
}

#[test]
fn a_difference_is_not_gone_because_of_a_rule() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, ruled] = ["plain.vor", "ruled.vor"].map(|name| folder.path().join(name));
    modes_of_nothing(&plain);
    modes(&ruled, &SCOPES, &MODES);
    let table = diff(&plain, &ruled, &[]);
    assert!(line(&table, "off").contains("not recorded"), "{table:?}");
    assert!(!table.stdout.contains("gone"), "{table:?}");
    assert!(
        table.stdout.contains("not each scope was recorded"),
        "{table:?}"
    );
    let back = diff(&ruled, &plain, &[]);
    assert!(
        line(&back, "counted").contains("not recorded before"),
        "{back:?}"
    );
    let json = diff(&plain, &ruled, &["--format", "json"]).json();
    for row in json["scopes"].as_array().unwrap() {
        let (name, status) = (
            row["name"].as_str().unwrap(),
            row["status"].as_str().unwrap(),
        );
        let expected = match name {
            "off" => ("not_recorded", Some("off")),
            "counted" => ("not_recorded", Some("count")),
            "sampled" => ("both", Some("1/100+tree")),
            _ => ("both", None),
        };
        assert_eq!((status, row["after_mode"].as_str()), expected, "{name}");
        assert!(row["before_mode"].is_null());
    }
}
