//! `vor tail` of segments that are still being written.

#![cfg(all(unix, feature = "cli", not(feature = "off")))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::robust_support::{captures, child, folder, role};
use crate::segments::{SEGMENT_BYTES, vor};
use vor::capture::Capture;
use vor_fixtures::process::run_to_success as run;
use vor_fixtures::test_name;

/// A recorder creates a segment before it writes the header, and may lose its core in between.
#[test]
fn tail_waits_for_the_header_of_the_next_segment() {
    if role().is_some() {
        vor::Config::new()
            .capture(folder().join("runs/"))
            .segments(vor::Segments::new().size(SEGMENT_BYTES))
            .enable();
        for i in 0..400_u64 {
            for j in 0..500 {
                vor::profile_scope!(
                    "inside",
                    product = (i * j).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                );
            }
            vor::frame_mark();
            vor::flush();
        }
        vor::close_capture().unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run(&mut child(test_name!(), "two", folder.path()));
    let segments = captures(&folder.path().join("runs"));
    let runs = folder.path().join("copied");
    std::fs::create_dir(&runs).unwrap();
    let copy_of = |segment: &Path| runs.join(segment.file_name().unwrap());
    std::fs::copy(&segments[0], copy_of(&segments[0])).unwrap();
    let next = copy_of(&segments[1]);
    std::fs::write(&next, "").unwrap();
    let writer = std::thread::spawn({
        let bytes = std::fs::read(&segments[1]).unwrap();
        move || {
            std::thread::sleep(Duration::from_millis(700));
            std::fs::write(&next, bytes).unwrap();
        }
    });
    // The first one is chosen, although an empty one is newer.
    let output = vor(&["tail", "--json", "-n", "1"], &runs);
    writer.join().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let lines = String::from_utf8(output.stdout).unwrap().lines().count() as u64;
    let second = Capture::open(&segments[1]).unwrap();
    assert_eq!(lines, 1 + second.frame_count());
}

#[test]
fn tail_goes_on_with_the_next_segment() {
    if role().is_some() {
        vor::Config::new()
            .capture(folder().join("runs/"))
            .segments(vor::Segments::new().size(SEGMENT_BYTES))
            .enable();
        for i in 0..1500_u64 {
            for j in 0..50 {
                vor::profile_scope!(
                    "inside",
                    product = (i * j).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                );
            }
            vor::frame_mark();
            std::thread::sleep(Duration::from_millis(1));
        }
        vor::close_capture().unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let mut process = child(test_name!(), "tail", folder.path());
    process.stdout(std::process::Stdio::null());
    let mut process = process.spawn().unwrap();
    let has_header = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|file| file.len() >= 44);
    while !runs.is_dir() || !captures(&runs).iter().any(has_header) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = vor(&["tail", "--json"], &runs);
    assert!(process.wait().unwrap().success());
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let number = |line: &str| {
        let frame: serde_json::Value = serde_json::from_str(line).unwrap();
        frame["index"].as_u64().unwrap()
    };
    let frames: Vec<u64> = text.lines().map(number).collect();
    assert!(captures(&runs).len() >= 5);
    assert_eq!(frames.last(), Some(&1499));
    assert!(frames.iter().copied().eq(frames[0]..=1499), "{frames:?}");
}
