//! The frames that keep their spans in a capture; and a long frame needs no more memory than a
//! short one.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::Reader;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::setup::Config;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};
use vor_recorder::{drain, profile_scope};

/// Runs twenty frames, of which 7 and 15 are slow. Returns the number of spans in each of them.
fn frames_with(options: CaptureOptions) -> Vec<u64> {
    run(options).into_iter().map(|(spans, _)| spans).collect()
}

/// Like [`frames_with`], with the duration of each frame in nanoseconds.
fn run(options: CaptureOptions) -> Vec<(u64, i64)> {
    let folder = tempfile::tempdir().unwrap();
    Config::new().enable();
    drain::frame_mark();
    drain::flush();
    let sink = CaptureSink::create(&folder.path().join("run.vor"), options).unwrap();
    let path = sink.path().to_owned();
    let handle = drain::add_sink("capture", sink);
    for frame in 0..20 {
        for _ in 0..10 {
            profile_scope!("work");
        }
        if frame == 7 || frame == 15 {
            std::thread::sleep(Duration::from_millis(600));
        }
        drain::frame_mark();
        drain::frame_mark_named("physics");
    }
    drain::flush();
    drop(handle);
    frames_in(&path)
}

/// Returns the number of spans of each of the twenty frames of a capture, and its duration in
/// nanoseconds.
fn frames_in(path: &Path) -> Vec<(u64, i64)> {
    let mut reader = Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(recovered) = reader.next_recovered().unwrap() {
        assert_eq!(recovered.lost_records, 0);
        assert_eq!(recovered.held_spans(), recovered.frame.span_count);
        assert!(
            recovered.frame.metric("frame_ms").is_some(),
            "metrics go on"
        );
        frames.push((recovered.frame.span_count, recovered.frame.duration_ns()));
    }
    assert!(reader.damage().is_none(), "{:?}", reader.damage());
    assert_eq!(frames.len(), 20);
    frames
}

/// Kept spans as text: `#` for a frame with all its spans, `.` for a frame without any.
fn kept(counts: &[u64]) -> String {
    let one = |count: &u64| match count {
        10 => '#',
        0 => '.',
        other => panic!("{other} spans"),
    };
    counts.iter().map(one).collect()
}

#[test]
fn all_frames_or_none() {
    own_process!();
    assert_eq!(
        kept(&frames_with(CaptureOptions::default())),
        "#".repeat(20)
    );
    let none = CaptureOptions {
        spans: false,
        ..CaptureOptions::default()
    };
    assert_eq!(kept(&frames_with(none)), ".".repeat(20));
}

#[test]
fn one_frame_in_three_and_a_number_of_frames() {
    own_process!();
    let counts = frames_with(CaptureOptions {
        every: 3,
        ..CaptureOptions::default()
    });
    let kept_at: Vec<_> = (0..20).filter(|i| counts[*i] > 0).collect();
    // The process had frames before: one in three of all its frames.
    assert!(
        kept_at.windows(2).all(|pair| pair[1] == pair[0] + 3) && kept_at[0] < 3,
        "{}",
        kept(&counts)
    );
    let most = frames_with(CaptureOptions {
        max_frames: Some(5),
        ..CaptureOptions::default()
    });
    assert_eq!(kept(&most), format!("{}{}", "#".repeat(5), ".".repeat(15)));
    let zero = frames_with(CaptureOptions {
        max_frames: Some(0),
        ..CaptureOptions::default()
    });
    assert_eq!(kept(&zero), ".".repeat(20));
}

#[test]
fn slow_frames_and_the_frames_before_them() {
    own_process!();
    const SLOW_NS: u64 = 400_000_000;
    for before in [2, 0, 1000] {
        let frames = run(CaptureOptions {
            slow: Some(std::time::Duration::from_nanos(SLOW_NS)),
            frames_before: before,
            ..CaptureOptions::default()
        });
        // A machine that suspends the test for a while makes other frames slow too, so the slow
        // frames are found by their durations.
        let is_slow = |i: usize| frames[i].1 > SLOW_NS as i64;
        assert!(is_slow(7) && is_slow(15));
        let expected = (0..20).map(|i| match (i..20).find(|later| is_slow(*later)) {
            Some(next) if next - i <= before => '#',
            _ => '.',
        });
        let counts: Vec<_> = frames.iter().map(|(spans, _)| *spans).collect();
        assert_eq!(
            kept(&counts),
            expected.collect::<String>(),
            "{before} before"
        );
    }
}

/// Runs twenty frames under the settings that `choose` makes from the usual ones, of which frame 7
/// is slow if `has_slow`. Returns them as [`run`] does.
fn run_settings(has_slow: bool, choose: impl FnOnce(Config) -> Config) -> Vec<(u64, i64)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().enable();
    drain::frame_mark();
    drain::flush();
    choose(Config::new()).capture(&path).enable();
    for frame in 0..20 {
        for _ in 0..10 {
            profile_scope!("work");
        }
        if has_slow && frame == 7 {
            std::thread::sleep(Duration::from_millis(600));
        }
        drain::frame_mark();
    }
    assert_eq!(drain::close_capture(), Some(path.clone()));
    frames_in(&path)
}

#[test]
fn the_settings_choose_the_frames() {
    own_process!();
    let kept_by = |choose: fn(Config) -> Config| {
        let frames = run_settings(false, choose);
        kept(
            &frames
                .into_iter()
                .map(|(spans, _)| spans)
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(kept_by(|config| config), "#".repeat(20));
    assert_eq!(kept_by(|config| config.every(0)), "#".repeat(20));
    assert_eq!(kept_by(|config| config.spans(false)), ".".repeat(20));
    let one_in_four = kept_by(|config| config.every(4));
    // The process had frames before: one in four of all its frames.
    let first = one_in_four.find('#').unwrap();
    assert!(first < 4, "{one_in_four}");
    let expected = (0..20).map(|i| if i % 4 == first { '#' } else { '.' });
    assert_eq!(one_in_four, expected.collect::<String>());
    let five = format!("{}{}", "#".repeat(5), ".".repeat(15));
    assert_eq!(kept_by(|config| config.max_frames(5)), five);
    assert_eq!(kept_by(|config| config.max_frames(0)), ".".repeat(20));
}

#[test]
fn the_settings_keep_slow_frames_and_the_frames_before() {
    own_process!();
    let limit = Duration::from_millis(400);
    for before in [0, 3] {
        let frames = run_settings(true, |config| config.slow_frames(limit, before));
        let is_slow = |i: usize| frames[i].1 > limit.as_nanos() as i64;
        assert!(is_slow(7));
        let expected = (0..20).map(|i| match (i..20).find(|later| is_slow(*later)) {
            Some(next) if next - i <= before => '#',
            _ => '.',
        });
        let counts: Vec<_> = frames.iter().map(|(spans, _)| *spans).collect();
        assert_eq!(
            kept(&counts),
            expected.collect::<String>(),
            "{before} before"
        );
    }
}

/// A frame with several times the spans of a ring, made no faster than the worker drains them:
/// without a mark or a flush, no span is lost.
#[test]
fn a_frame_of_many_rings_loses_nothing() {
    own_process!();
    #[derive(Clone, Default)]
    struct Counts {
        taken: Arc<AtomicU64>,
        frames: Arc<Mutex<Vec<(u64, u64)>>>,
    }
    impl FrameSink for Counts {
        fn interest(&self) -> Interest {
            Interest::BATCHES
        }
        fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
            self.taken
                .fetch_add(batch.span_count() as u64, Ordering::Relaxed);
            Ok(())
        }
        fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
            let mut frames = self.frames.lock().unwrap();
            frames.push((frame.span_count, frame.dropped_spans));
            Ok(())
        }
    }
    Config::new().enable();
    drain::frame_mark();
    let counts = Counts::default();
    let handle = drain::add_sink("counts", counts.clone());
    let ring_slots = (vor_recorder::setup::DEFAULT_RING_KIB * 1024 / 16) as u64;
    let mut made = 0;
    while made < 4 * ring_slots {
        for _ in 0..ring_slots / 8 {
            profile_scope!("step");
        }
        made += ring_slots / 8;
        // At most half a ring ahead. The worker wakes up by itself, in much less than a minute.
        let mut waits = 0;
        while made - counts.taken.load(Ordering::Relaxed) > ring_slots / 2 {
            std::thread::sleep(Duration::from_millis(1));
            waits += 1;
            assert!(waits < 60_000, "the worker does not drain between marks");
        }
    }
    drain::frame_mark();
    drain::flush();
    drop(handle);
    assert_eq!(*counts.frames.lock().unwrap(), [(made, 0)]);
}
