//! The sink that writes captures, on batches and frames that a test makes.

#![cfg(not(feature = "off"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, TaskEvent, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::timeline::{ClockSync, Timeline};
use vor_capture::reader::Reader;
use vor_capture::sink::FrameSink;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

/// One tick is one nanosecond.
fn catalog() -> Arc<Catalog> {
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 1,
        rate: 1 << 40
    }));
    Arc::new(filled!(Catalog {
        timeline: Arc::new(timeline)
    }))
}

fn thread(spans: usize, dropped_spans: u64) -> ThreadBatch {
    filled!(ThreadBatch {
        start_ticks: (0..spans as u64).collect(),
        duration_ticks: vec![1; spans],
        sites: vec![SiteId(1); spans],
        dropped_spans
    })
}

fn batch(threads: Vec<ThreadBatch>) -> SpanBatch {
    filled!(SpanBatch {
        catalog: catalog(),
        threads
    })
}

fn frame(index: u64, span_count: u64, dropped_spans: u64) -> Arc<FrameSnapshot> {
    Arc::new(filled!(FrameSnapshot {
        catalog: catalog(),
        index,
        start_ticks: 1000 * index,
        end_ticks: 1000 * (index + 1),
        span_count,
        dropped_spans
    }))
}

/// The spans, dropped spans and spans in the file of each frame.
fn frames(path: &Path) -> Vec<(u64, u64, u64)> {
    let mut reader = Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(recovered) = reader.next_recovered().unwrap() {
        let held = recovered.held_spans();
        let frame = recovered.frame;
        frames.push((frame.span_count, frame.dropped_spans, held));
    }
    assert!(reader.damage().is_none(), "{:?}", reader.damage());
    frames
}

#[test]
fn dropped_spans_before_the_first_mark_stop_at_the_largest_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let mut sink = CaptureSink::create(&path, CaptureOptions::default()).unwrap();
    for _ in 0..2 {
        let threads = vec![thread(2, u64::MAX), thread(1, u64::MAX)];
        sink.accept_batch(&batch(threads)).unwrap();
    }
    // A frame that began before the capture counts more than the capture has.
    sink.accept_frame(&frame(0, 900, 5)).unwrap();
    sink.accept_batch(&batch(vec![thread(3, 8)])).unwrap();
    sink.accept_frame(&frame(1, 3, 8)).unwrap();
    sink.finish().unwrap();
    assert_eq!(frames(&path), [(6, u64::MAX, 6), (3, 8, 3)]);
}

#[test]
fn slow_frames_keep_their_spans_only_if_they_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let options = CaptureOptions {
        slow: Some(Duration::ZERO),
        every: 2,
        frames_before: 0,
        ..CaptureOptions::default()
    };
    let mut sink = CaptureSink::create(&path, options).unwrap();
    for index in 0..5 {
        sink.accept_batch(&batch(vec![thread(3, 0)])).unwrap();
        sink.accept_frame(&frame(index, 3, 0)).unwrap();
    }
    sink.finish().unwrap();
    let (with, without) = ((3, 0, 3), (0, 0, 0));
    assert_eq!(frames(&path), [with, without, with, without, with]);
}

#[test]
fn spans_that_wait_too_long_become_dropped_spans_of_their_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let options = CaptureOptions {
        slow: Some(Duration::ZERO),
        ..CaptureOptions::default()
    };
    let mut sink = CaptureSink::create(&path, options).unwrap();
    sink.accept_frame(&frame(0, 0, 0)).unwrap();
    for (index, dropped) in [(1, 7), (2, u64::MAX)] {
        // Spans and events together are more than wait for the verdict on a frame.
        let mut full = thread(3, 0);
        full.task_events = vec![TaskEvent::default(); 1 << 20];
        sink.accept_batch(&batch(vec![full])).unwrap();
        sink.accept_batch(&batch(vec![thread(2, 0)])).unwrap();
        sink.accept_frame(&frame(index, 5, dropped)).unwrap();
    }
    sink.finish().unwrap();
    assert_eq!(frames(&path), [(0, 0, 0), (2, 10, 2), (2, u64::MAX, 2)]);
}
