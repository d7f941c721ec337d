//! Reports of checks that do not run.
//!
//! The test harness hides the output of a test that passes. So [`skip`] writes past it, and also
//! into the file that `VOR_TEST_SKIPS` names: `.ci/test` fails if it finds a line there that it
//! does not expect.

use std::io::Write;

/// Names the file for all reports of a test run.
const FILE: &str = "VOR_TEST_SKIPS";
const PREFIX: &str = "SKIPPED: ";

/// Reports a check that does not run, and what is missing.
pub fn skip(check: &str, missing: &str) {
    let line = format!("{check}: {missing}\n");
    show(&format!("{PREFIX}{line}"));
    if let Some(path) = std::env::var_os(FILE) {
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(path);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Shows the reports in the output of a child.
pub(crate) fn show_those_in(stderr: &str) {
    for line in stderr.split_inclusive('\n') {
        if line.starts_with(PREFIX) {
            show(line);
        }
    }
}

/// Writes to stderr directly: the harness captures only what the macros print.
fn show(line: &str) {
    // Without a stderr there is nobody to read it.
    _ = std::io::stderr().write_all(line.as_bytes());
}
