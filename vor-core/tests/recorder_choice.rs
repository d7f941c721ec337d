//! Which frames keep their spans in a capture, and that a long frame needs no more memory than a short one.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vor_core::config::Config;
use vor_core::frame::FrameSnapshot;
use vor_core::reader::Reader;
use vor_core::sink::FrameSink;
use vor_core::sink::capture::{CaptureOptions, CaptureSink};
use vor_core::{drain, profile_scope};

/// The recorder is one for the whole process, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Runs twenty frames, of which 7 and 15 are slow, and returns how many spans each kept, with what it says of itself.
fn frames_with(options: CaptureOptions) -> Vec<u64> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
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
    let mut reader = Reader::open(&path).unwrap();
    let mut counts = Vec::new();
    while let Some(recovered) = reader.next_recovered().unwrap() {
        assert_eq!(recovered.lost_records, 0);
        assert_eq!(recovered.held_spans(), recovered.frame.span_count);
        assert!(recovered.frame.metric("frame_ms").is_some(), "metrics go on");
        counts.push(recovered.frame.span_count);
    }
    assert!(reader.damage().is_none(), "{:?}", reader.damage());
    assert_eq!(counts.len(), 20);
    counts
}

/// Spans kept, as a text: `#` for a frame with all of its spans, `.` for one without.
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
    assert_eq!(kept(&frames_with(CaptureOptions::default())), "#".repeat(20));
    let none = CaptureOptions {
        spans: false,
        ..CaptureOptions::default()
    };
    assert_eq!(kept(&frames_with(none)), ".".repeat(20));
}

#[test]
fn one_frame_in_three_and_a_number_of_frames() {
    let counts = frames_with(CaptureOptions {
        every: 3,
        ..CaptureOptions::default()
    });
    let kept_at: Vec<_> = (0..20).filter(|i| counts[*i] > 0).collect();
    // The process has had frames before: one in three of its own count.
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
fn slow_frames_and_those_before() {
    let slow = |before| CaptureOptions {
        slow_ns: Some(400_000_000),
        before,
        ..CaptureOptions::default()
    };
    assert_eq!(kept(&frames_with(slow(2))), ".....###.....###....");
    assert_eq!(kept(&frames_with(slow(0))), ".......#.......#....");
    assert_eq!(kept(&frames_with(slow(1000))), format!("{}....", "#".repeat(16)));
}

#[test]
fn a_frame_of_seconds_loses_nothing() {
    #[derive(Clone, Default)]
    struct Counts(Arc<Mutex<Vec<(u64, u64)>>>);
    impl FrameSink for Counts {
        fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor_core::Error> {
            self.0
                .lock()
                .unwrap()
                .push((frame.span_count, frame.dropped_spans));
            Ok(())
        }
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Config::new().enable();
    drain::frame_mark();
    let counts = Counts::default();
    let handle = drain::add_sink("counts", counts.clone());
    let (begin, mut made) = (Instant::now(), 0_u64);
    // Far more than a ring holds, at a pace that any machine can drain.
    while begin.elapsed() < Duration::from_secs(5) {
        for _ in 0..200 {
            profile_scope!("step");
        }
        made += 200;
        std::thread::sleep(Duration::from_micros(200));
    }
    drain::frame_mark();
    drain::flush();
    drop(handle);
    let ring_slots = (vor_core::config::DEFAULT_RING_KIB * 1024 / 16) as u64;
    assert!(
        made > ring_slots,
        "{made} spans do not go around a ring of {ring_slots}"
    );
    assert_eq!(*counts.0.lock().unwrap(), [(made, 0)]);
}
