//! The path of a capture, and closing it before the program ends.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vor_capture::reader::{Event, Reader};
use vor_fixtures::own_process;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

/// Asserts that no capture is being written.
fn no_capture() {
    assert_eq!((vor::capture_path(), vor::close_capture()), (None, None));
}

/// Frames that the sink beside the capture received.
static FRAMES: AtomicU64 = AtomicU64::new(0);

struct CountsFrames;

impl vor::sinks::FrameSink for CountsFrames {
    fn accept_frame(&mut self, _: &Arc<vor::capture::FrameSnapshot>) -> Result<(), vor::Error> {
        FRAMES.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn frames(name: &str, count: u64) {
    for _ in 0..count {
        for _ in 0..10 {
            let _span = vor::scope(name);
        }
        vor::frame_mark();
    }
}

/// Checks that a capture was closed in order. Returns the number of its spans named `name`, and of
/// all its spans.
fn spans_in(path: &Path, name: &str) -> (usize, u64) {
    let mut reader = Reader::open(path).unwrap();
    let mut named = 0;
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => {
                let sites = batch.threads.iter().flat_map(|thread| &thread.sites);
                named += sites
                    .filter(|site| batch.catalog.site_name(**site) == name)
                    .count();
            }
            Event::Loss(loss) => panic!("{}: {loss:?}", path.display()),
            _ => {}
        }
    }
    assert!(reader.damage().is_none(), "{}", path.display());
    let mut capture = vor::capture::Capture::open(path).unwrap();
    for i in 0..capture.frame_count() {
        let recovered = capture.recovered(i).unwrap();
        assert!(recovered.has_all_spans(), "{}, frame {i}", path.display());
    }
    let info = capture.info();
    assert!(
        info.damage.is_none(),
        "{}: {:?}",
        path.display(),
        info.damage
    );
    assert!(info.closed && info.indexed, "{}", path.display());
    (named, info.spans)
}

#[test]
fn a_capture_can_be_closed_and_another_started() {
    own_process!();
    no_capture();
    let folder = tempfile::tempdir().unwrap();
    let [first, second, third] = ["first", "second", "third"].map(|name| folder.path().join(name));
    vor::Config::new()
        .capture(&first)
        .sink("counts frames", CountsFrames)
        .enable();
    let begun = FRAMES.load(Ordering::Relaxed);
    assert_eq!(vor::capture_path(), Some(first.clone()));
    frames("in the first", 5);
    {
        let _open = vor::scope("open while it is closed");
        // Neither marked nor flushed: the close writes it.
        let _late = vor::scope("in the first");
        drop(_late);
        assert_eq!(vor::close_capture(), Some(first.clone()));
    }
    assert_eq!((vor::capture_path(), vor::close_capture()), (None, None));
    assert_eq!(spans_in(&first, "in the first"), (51, 51));
    let bytes = std::fs::read(&first).unwrap();

    assert!(vor::is_enabled(), "recording goes on");
    frames("in none", 5);
    // The capture begins within a frame that already has a span.
    drop(vor::scope("in none"));
    vor::Config::new().capture(&second).enable();
    frames("in the second", 5);
    // The second capture is being written and goes on.
    vor::Config::new().capture(&third).enable();
    assert_eq!(vor::capture_path(), Some(second.clone()));
    vor::disable();
    vor::Config::new().capture(&second).enable();
    frames("in the second", 5);
    assert_eq!(vor::close_capture(), Some(second.clone()));
    assert_eq!(spans_in(&second, "in the second").0, 100);
    assert_eq!(
        spans_in(&second, "in none").0,
        0,
        "no span from before the capture began"
    );
    assert!(!third.exists());
    assert_eq!(
        std::fs::read(&first).unwrap(),
        bytes,
        "a closed capture does not change"
    );
    assert_eq!(
        FRAMES.load(Ordering::Relaxed) - begun,
        20,
        "the other sink received every frame"
    );
}

#[test]
fn the_path_is_the_path_of_the_written_file() {
    own_process!();
    no_capture();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let taken = CaptureSink::create(&path, CaptureOptions::default()).unwrap();
    vor::Config::new().capture(&path).enable();
    let own = folder
        .path()
        .join(format!("run.{}.vor", std::process::id()));
    assert_eq!(vor::capture_path(), Some(own.clone()));
    frames("here", 1);
    assert_eq!(vor::close_capture(), Some(own.clone()));
    assert_eq!(spans_in(&own, "here").0, 10);
    drop(taken);
}

#[test]
fn a_capture_that_cannot_start_blocks_nothing() {
    own_process!();
    no_capture();
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("missing/run.vor");
    vor::Config::new().capture(&nowhere).enable();
    assert_eq!(vor::capture_path(), None);
    let path = folder.path().join("run.vor");
    vor::Config::new().capture(&path).enable();
    frames("here", 1);
    assert_eq!(vor::close_capture(), Some(path.clone()));
    assert_eq!(spans_in(&path, "here").0, 10);
}

#[test]
fn a_sink_gets_no_path_and_does_not_wait() {
    own_process!();
    static ASKED: AtomicU64 = AtomicU64::new(0);
    struct ReentrantSink;
    impl vor::sinks::FrameSink for ReentrantSink {
        fn accept_frame(&mut self, _: &Arc<vor::capture::FrameSnapshot>) -> Result<(), vor::Error> {
            assert_eq!((vor::capture_path(), vor::close_capture()), (None, None));
            ASKED.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
    no_capture();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    vor::Config::new().capture(&path).enable();
    let asks = vor::add_sink("asks", ReentrantSink);
    vor::frame_mark();
    vor::flush();
    drop(asks);
    assert_eq!((ASKED.load(Ordering::Relaxed), vor::failed_sinks()), (1, 0));
    assert_eq!(vor::close_capture(), Some(path));
}

#[test]
fn captures_start_and_close_while_threads_record() {
    own_process!();
    static STOP: AtomicBool = AtomicBool::new(false);
    /// Stops the threads on every way out of the test; a failing test would otherwise wait for them
    /// for ever.
    struct StopAtTheEnd;
    impl Drop for StopAtTheEnd {
        fn drop(&mut self) {
            STOP.store(true, Ordering::Relaxed);
        }
    }
    no_capture();
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|threads| {
        let _stop = StopAtTheEnd;
        for _ in 0..2 {
            threads.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    frames("busy", 1);
                    vor::profile_scope!("with text", text = "a text of more than one slot");
                    std::thread::yield_now();
                }
            });
        }
        for round in 0..30 {
            let path = folder.path().join(format!("run{round}.vor"));
            vor::Config::new().capture(&path).enable();
            frames("here", 1);
            assert_eq!(vor::close_capture(), Some(path.clone()));
            assert_eq!(spans_in(&path, "here").0, 10, "round {round}");
        }
    });
}

#[test]
fn io_from_before_recording_is_in_no_frame() {
    own_process!();
    no_capture();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    vor::disable();
    vor::record_io(1_000_000, 1_000_000);
    vor::Config::new().capture(&path).enable();
    vor::frame_mark();
    vor::record_io(2_000_000, 2_000_000);
    vor::disable();
    vor::record_io(4_000_000, 4_000_000);
    vor::Config::new().enable();
    vor::record_io(8_000_000, 8_000_000);
    vor::frame_mark();
    vor::record_io(16_000_000, 16_000_000);
    let drained = vor::drain_io();
    assert_eq!(
        (drained.elapsed_ns, drained.bytes),
        (16_000_000, 16_000_000)
    );
    vor::frame_mark();
    vor::close_capture();
    let mut reader = vor::Reader::open(&path).unwrap();
    let column = |name| {
        reader
            .columns()
            .iter()
            .position(|column| column.name == name)
    };
    let [ms, mb] = ["io_ms", "io_MB"].map(|name| column(name).unwrap());
    let mut found = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        found.push((frame.system[ms], frame.system[mb]));
    }
    assert_eq!(found, [(0.0, 0.0), (10.0, 10.0), (0.0, 0.0)]);
    // While recording is off, the program can still read the numbers.
    vor::disable();
    vor::record_io(32, 32);
    assert_eq!(vor::drain_io().bytes, 32);
}
