//! A path has one writer of a capture, and a capture reports its discarded spans.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Barrier};

use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::SiteId;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::Reader;
use vor_capture::sink::FrameSink;
use vor_fixtures::own_process;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

#[test]
fn many_writers_at_once_never_share_a_file() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    for round in 0..20 {
        // From the second round on, an earlier capture must also be moved away.
        let barrier = Arc::new(Barrier::new(8));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (barrier, path) = (Arc::clone(&barrier), path.clone());
                std::thread::spawn(move || {
                    barrier.wait();
                    let mut sink = CaptureSink::create(&path, CaptureOptions::default()).unwrap();
                    let written = sink.path().to_owned();
                    // All eight are open at the same time.
                    barrier.wait();
                    sink.finish().unwrap();
                    written
                })
            })
            .collect();
        let mut paths: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 8, "round {round}");
        for path in std::fs::read_dir(folder.path()).unwrap() {
            let path = path.unwrap().path();
            let mut reader = Reader::open(&path).unwrap();
            while reader.next_event().unwrap().is_some() {}
            assert!(
                reader.damage().is_none(),
                "round {round}, {}: {:?}",
                path.display(),
                reader.damage()
            );
        }
    }
}

#[test]
fn discarded_spans_of_a_frame_that_is_too_long_count_as_dropped() {
    own_process!();
    const BATCH: u64 = 1 << 16;
    const BATCHES: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let options = CaptureOptions {
        slow: Some(std::time::Duration::ZERO),
        frames_before: 0,
        ..CaptureOptions::default()
    };
    let mut sink = CaptureSink::create(&path, options).unwrap();
    for batch in 0..BATCHES {
        let starts = (0..BATCH).map(|i| (batch * BATCH + i) * 10).collect();
        let thread = filled!(ThreadBatch {
            start_ticks: starts,
            duration_ticks: vec![5; BATCH as usize],
            sites: vec![SiteId(1); BATCH as usize]
        });
        sink.accept_batch(&filled!(SpanBatch {
            threads: vec![thread]
        }))
        .unwrap();
    }
    let end_ticks = BATCH * BATCHES * 10;
    let frame = filled!(FrameSnapshot {
        end_ticks,
        span_count: BATCH * BATCHES
    });
    sink.accept_frame(&Arc::new(frame)).unwrap();
    sink.finish().unwrap();

    let mut reader = Reader::open(&path).unwrap();
    let recovered = reader
        .next_recovered()
        .unwrap()
        .expect("the frame is there");
    assert_eq!(recovered.lost_records, 0, "discarded spans are no damage");
    assert!(recovered.has_all_spans());
    assert_eq!(
        recovered.frame.span_count + recovered.frame.dropped_spans,
        BATCH * BATCHES
    );
    assert_eq!(recovered.frame.span_count, 1 << 20, "the limit is kept");
    assert!(reader.damage().is_none());
}
