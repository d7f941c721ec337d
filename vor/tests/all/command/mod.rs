//! The `vor` command as users run it: the real program, on three kinds of input. These are a
//! capture that the recorder made in this process, captures of the predecessor, and files that are
//! not captures.
//!
//! The output of the command is compared with the records of a second sink of the same recorder
//! (`recording`), or with captures written for it (`made`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod recording;
mod made;
mod drafts;
#[cfg(unix)]
mod served;

mod stats;
mod stats_table;
mod looking;
mod measured;
mod texts;
mod waits;
mod critical_path;
mod critical_path_texts;
mod selecting;
mod formats;
mod exporting;
mod checking;
mod outputs;
mod diff;
mod diff_texts;
mod compare_action;
mod heap;
mod locks;
mod merge;
mod modes;
mod recover;
mod following;
mod tailing;
#[cfg(unix)]
mod live_record;
#[cfg(all(unix, feature = "top"))]
mod live_top;
#[cfg(unix)]
mod viewing;
mod typing;
mod unmarked;
mod cargo;
mod any_arguments;
mod bad_input;
mod largest_numbers;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The formats of `vor export` in every build; `parquet` is a feature.
const FORMATS: [&str; 8] = [
    "chrome",
    "perfetto",
    "firefox",
    "speedscope",
    "collapsed",
    "pprof",
    "csv",
    "metrics-csv",
];

/// The tables of the format `parquet`.
const TABLES: [&str; 3] = ["spans", "metrics", "sketches"];

/// The result of a run of the command.
#[derive(Debug)]
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Asserts that the command refused with one line, and returns it.
    fn refusal(&self) -> &str {
        assert_eq!(self.code, 2, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        let line = self.stderr.lines().next().unwrap();
        assert!(line.starts_with("vor: "), "{line}");
        line
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Returns the command without arguments.
fn vor() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vor"));
    command.env_remove("COLUMNS").env_remove("VOR_RECORD");
    command
}

/// Runs a subcommand on a file.
fn run(subcommand: &str, path: &Path, options: &[&str]) -> Run {
    Run::from(
        vor()
            .arg(subcommand)
            .arg(path)
            .args(options)
            .output()
            .unwrap(),
    )
}

/// Exports a capture in a format to a file.
fn export(path: &Path, to: &str, out: &Path, options: &[&str]) -> Run {
    let to = ["--to", to, "-o", out.to_str().unwrap()];
    run("export", path, &[&to, options].concat())
}

/// Returns the lines of a table with ` | ` between its cells.
fn lines_of_cells(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let cells = line.split("  ").map(str::trim);
        let cells = cells.filter(|cell| !cell.is_empty());
        cells.collect::<Vec<_>>().join(" | ")
    };
    text.lines().map(line).collect()
}

/// Returns the damage, as JSON has it, of a whole capture that is not closed.
fn unclosed(path: &Path) -> serde_json::Value {
    let reason = "the capture was not closed: it has no end record";
    let offset = std::fs::metadata(path).unwrap().len();
    serde_json::json!({
        "count": 0,
        "bytes": 0,
        "losses": [],
        "tail": { "offset": offset, "bytes": 0, "reason": reason },
    })
}

/// Writes two thirds of a capture, cut within a record: of two neighbouring lengths, at most one
/// ends between two records.
fn tear(path: &Path, bytes: &[u8]) {
    let cut = bytes.len() * 2 / 3;
    let is_torn = (cut..cut + 2).any(|cut| {
        std::fs::write(path, &bytes[..cut]).unwrap();
        run("check", path, &[]).code != 0
    });
    assert!(is_torn);
}

/// Returns a capture of the predecessor.
fn v2(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../.ci/data/v2")
        .join(name)
}

/// Returns the values that the predecessor read from one of its captures.
fn v2_expected(name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(v2(&format!("{name}.expected.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}
