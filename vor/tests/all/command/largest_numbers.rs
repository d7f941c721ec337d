//! Every command on a capture of the largest numbers: each ends with its own exit code, and sums
//! stop at the largest number.

use std::path::{Path, PathBuf};

use vor_fixtures::largest::{FRAME_SPANS, FRAMES, MEASURED_SITE, largest_numbers};

use crate::command::{FORMATS, Run, TABLES, export, run, vor};

const MAX: u64 = u64::MAX;

/// Half of the frames count spans that they do not have.
const INCOMPLETE: i32 = 3;

fn capture(folder: &Path) -> PathBuf {
    let path = folder.join("largest.vor");
    std::fs::write(&path, largest_numbers()).unwrap();
    path
}

/// Runs a command that must end with this code.
#[track_caller]
fn ends_with(code: i32, subcommand: &str, path: &Path, options: &[&str]) -> Run {
    let run = run(subcommand, path, options);
    assert_end(&run, code, &format!("{subcommand} {options:?}"));
    run
}

#[track_caller]
fn assert_end(run: &Run, code: i32, command: &str) {
    assert_eq!(run.code, code, "{command}: {run:?}");
    assert!(!run.stderr.contains("panicked"), "{run:?}");
}

#[test]
fn every_summary_has_sums_that_stop_at_the_largest_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path());

    let info = ends_with(0, "info", &path, &["--json"]).json();
    assert_eq!(info["frames"], FRAMES);
    assert_eq!(
        (&info["spans"], &info["dropped_spans"]),
        (&MAX.into(), &MAX.into())
    );
    let info = ends_with(0, "info", &path, &[]).stdout;
    assert!(info.contains("DROPPED (50.00 %)"), "{info}");

    let check = ends_with(0, "check", &path, &["--json"]).json();
    assert_eq!(check["dropped_spans"], MAX);
    assert_eq!(check["spans"], FRAMES * FRAME_SPANS + 2);
    ends_with(0, "check", &path, &[]);

    for frames in [&[][..], &["--frames", "1.."]] {
        let stats = ends_with(0, "stats", &path, &[&["--json"], frames].concat()).json();
        assert_eq!(stats["dropped_spans"], MAX);
        let scopes = stats["scopes"].as_array().unwrap();
        let mut measured = scopes.iter().filter(|scope| scope["alloc_bytes"].is_u64());
        assert_eq!(measured.next().unwrap()["name"], MEASURED_SITE.1);
        let longest = scopes.iter().map(|scope| scope["max_ns"].as_u64().unwrap());
        assert!(longest.max() > Some(1 << 62), "times end at the last one");
    }
    for sort in [
        "self", "total", "mean", "p50", "p95", "p99", "max", "count", "cpu", "alloc", "name",
    ] {
        ends_with(0, "stats", &path, &["--sort", sort]);
        let corrected = format!("--corrected={MAX}");
        ends_with(0, "stats", &path, &["--sort", sort, &corrected, "--json"]);
    }

    let before = path.to_str().unwrap();
    for metric in ["mean", "p50", "p99", "self"] {
        for format in ["table", "json", "markdown"] {
            let options = ["--metric", metric, "--format", format];
            let diff = ends_with(0, "diff", &path, &[&[before], &options[..]].concat());
            if format == "json" {
                let diff: serde_json::Value = serde_json::from_str(&diff.stdout).unwrap();
                for side in ["before", "after"] {
                    assert_eq!(diff[side]["dropped_spans"], MAX, "{side}");
                }
            }
        }
    }
}

#[test]
fn every_list_shows_the_largest_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path());
    for set in [&[][..], &["--frame-set", "physics"]] {
        let frames = ends_with(0, "frames", &path, &[&["--json"], set].concat()).json();
        let frames = frames["frames"].as_array().unwrap();
        assert_eq!(frames.len() as u64, FRAMES);
        assert!(frames.iter().all(|frame| frame["dropped_spans"] == MAX));
        ends_with(0, "frames", &path, set);
    }
    ends_with(0, "frames", &path, &["--slowest", "3"]);
    ends_with(0, "frames", &path, &["--slowest", "3", "--json"]);
    let lines = ends_with(0, "tail", &path, &["--once", "--json"]).stdout;
    assert_eq!(lines.lines().count() as u64, FRAMES);
    ends_with(0, "tail", &path, &["--once"]);
    ends_with(0, "locks", &path, &[]);
    ends_with(0, "locks", &path, &["--json"]);
    for to in ["1", "2", "3"] {
        let profile = folder.path().join("heap.pb.gz");
        let output = ["--to", to, "-o", profile.to_str().unwrap()];
        ends_with(0, "heap", &path, &output);
        ends_with(0, "heap", &path, &["--to", to, "--json"]);
    }
}

#[test]
fn every_format_takes_the_largest_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path());
    let out = folder.path().join("out");
    let parquet: &[&str] = if cfg!(feature = "parquet") {
        &["parquet"]
    } else {
        &[]
    };
    for to in FORMATS.iter().chain(parquet) {
        let export = |code, options: &[&str]| {
            let exported = export(&path, to, &out, options);
            assert_end(&exported, code, &format!("export --to {to} {options:?}"));
            assert!(
                std::fs::metadata(&out).unwrap().len() > 0,
                "{to} {options:?}"
            );
        };
        // A table of spans comes from the frames, some of which lack spans.
        let of_all = if *to == "csv" { INCOMPLETE } else { 0 };
        export(of_all, &[]);
        let of_frames = if *to == "metrics-csv" { 0 } else { INCOMPLETE };
        export(of_frames, &["--slowest", "3"]);
        if *to != "metrics-csv" {
            export(
                INCOMPLETE,
                &["--slowest", "3", "--thread", "*", "--min-us", "0.001"],
            );
        }
        // Firefox's samples of such durations are a large file.
        if *to != "firefox" {
            export(of_frames, &["--frames", "0.."]);
            export(of_frames, &["--frames", "..18446744073709551615"]);
        }
        if !["firefox", "metrics-csv"].contains(to) {
            export(of_all, &["--min-us", "1"]);
        }
    }
    if cfg!(feature = "parquet") {
        for table in TABLES {
            let exported = export(&path, "parquet", &out, &["--table", table]);
            assert_end(&exported, 0, table);
        }
        let tables = folder.path().join("tables");
        let exported = export(&path, "parquet", &tables, &["--partition", "date"]);
        assert_end(&exported, 0, "all tables");
    }
}

#[test]
fn traces_of_the_largest_numbers_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let first = capture(folder.path());
    let second = folder.path().join("second.vor");
    std::fs::copy(&first, &second).unwrap();
    for name in ["merged.pftrace", "merged.tar"] {
        let out = folder.path().join(name);
        let run = Run::from(
            vor()
                .arg("merge")
                .arg("-o")
                .arg(&out)
                .args([&first, &second])
                .output()
                .unwrap(),
        );
        assert_eq!(run.code, 0, "{name}: {run:?}");
        assert!(std::fs::metadata(&out).unwrap().len() > 0);
    }
}
