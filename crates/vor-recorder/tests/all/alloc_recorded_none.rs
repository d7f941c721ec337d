//! Heap snapshots are requested under an allocator that does not track the heap; one line says so.

#![cfg(not(any(feature = "off", target_family = "wasm")))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use vor_fixtures::process::{child, role, run_to_success, vor_lines};
use vor_fixtures::test_name;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope};

#[test]
fn an_allocator_that_does_not_track_the_heap_is_reported_once() {
    if role().is_some() {
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
    let output = run_to_success(&mut child(test_name!(), "child"));
    let lines = vor_lines(&output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("need a `TrackingAllocator`"), "{lines:?}");
}
