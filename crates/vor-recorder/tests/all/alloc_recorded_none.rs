//! Snapshots of a heap that nobody keeps are asked for in vain, and that is said once.

#![cfg(not(any(feature = "off", target_family = "wasm")))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope};

const CHILD: &str = "VOR_TEST_HEAP_NONE";

#[test]
fn an_allocator_that_does_not_keep_the_heap_is_told_of_once() {
    if std::env::var_os(CHILD).is_some() {
        for _ in 0..3 {
            Config::new()
                .heap_snapshots(Duration::from_millis(10))
                .enable();
            for _ in 0..5 {
                profile_scope!("step");
                drain::flush();
            }
        }
        return;
    }
    let mut command = vor_fixtures::process::this_program();
    let test = "alloc_recorded_none::an_allocator_that_does_not_keep_the_heap_is_told_of_once";
    command
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("vor: "))
        .collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(lines[0].contains("need a `TrackingAllocator`"), "{stderr}");
}
