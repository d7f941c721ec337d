//! Frequent marks: the records of many frames are written together.
#![cfg(all(target_os = "linux", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_capture::reader::Capture;
use vor_fixtures::own_process;
use vor_recorder::drain;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

const FRAMES: u64 = 1000;

/// Returns the number of write calls of this process.
fn writes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("syscw: "))
        .unwrap();
    line.parse().unwrap()
}

#[test]
fn records_of_many_frames_are_written_together() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).enable();
    drain::flush();
    let before = writes();
    for _ in 0..FRAMES {
        {
            profile_scope!("in a frame");
        }
        drain::frame_mark();
    }
    drain::flush();
    let asked = writes() - before;
    assert!(asked < FRAMES / 10, "{asked} writes for {FRAMES} frames");

    // A flush writes all of it to the file, which is not closed yet.
    for is_closed in [false, true] {
        if is_closed {
            drain::close_capture().unwrap();
        }
        let mut capture = Capture::open(&path).unwrap();
        assert_eq!(capture.frame_count(), FRAMES, "closed: {is_closed}");
        for index in 0..capture.frame_count() {
            let frame = capture.frame(index).unwrap();
            let seen = (frame.index, frame.span_count, frame.merged_marks);
            assert_eq!(seen, (index, 1, 0));
        }
    }
}
