//! The errors for items and options that the attributes refuse.
//!
//! Each file in `ui/fail` must give the errors in the `.stderr` file beside it;
//! `TRYBUILD=overwrite` writes them again. The errors in `ui/compiler` come from the compiler and
//! only need the right position. Their wording is that of the `rust-version` of this workspace, so
//! they are checked with that version alone. Accepted items are tests of `vor`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::env;
use std::process::Command;

#[test]
fn mistakes_are_reported_where_they_are() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    if compiler_is_the_documented_one() {
        cases.compile_fail("tests/ui/compiler/*.rs");
    }
}

fn compiler_is_the_documented_one() -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("--version")
        .output()
        .expect("the compiler that built this test should run");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let documented = env!("CARGO_PKG_RUST_VERSION");
    version
        .strip_prefix("rustc ")
        .is_some_and(|version| version.starts_with(&format!("{documented}.")))
}
