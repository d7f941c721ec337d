//! Frames and their metrics read back unchanged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use proptest::collection::vec;
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::format::{Encoder, FrameRecord, Record, RecordRef};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};

use crate::round_trip::{HEADER, frame, read};

/// The bits of the metrics, because a NaN is not equal to itself.
fn metric_bits(metrics: &[MetricValue]) -> Vec<(u32, u64)> {
    metrics
        .iter()
        .map(|metric| (metric.column, metric.value.to_bits()))
        .collect()
}

fn assert_frame(read: &FrameRecord, written: &FrameSnapshot) {
    assert_eq!(metric_bits(&read.metrics), metric_bits(&written.metrics));
    let expected = FrameRecord {
        index: written.index,
        frame_set: written.frame_set,
        start_ticks: written.start_ticks,
        end_ticks: written.end_ticks,
        metrics: Vec::new(),
        dropped_spans: written.dropped_spans,
        merged_marks: written.merged_marks,
        span_count: written.span_count,
        first_seq: read.first_seq,
    };
    let read = FrameRecord {
        metrics: Vec::new(),
        ..read.clone()
    };
    assert_eq!(read, expected);
}

proptest! {
    #[test]
    fn frames(frames in vec(frame(), 1..5)) {
        let mut encoder = Encoder::new(HEADER);
        let mut file = Vec::new();
        encoder.header(&mut file);
        for frame in &frames {
            encoder.encode(RecordRef::Frame(frame), &mut file);
        }
        let (records, damage) = read(&file, 1000);
        prop_assert!(damage.is_empty(), "{damage:?}");
        prop_assert_eq!(records.len(), frames.len());
        for (record, frame) in records.iter().zip(&frames) {
            let Record::Frame(read) = record else { panic!("expected a frame, found {record:?}") };
            assert_frame(read, frame);
        }
    }
}

#[test]
fn metrics_alone_take_tens_of_bytes_per_frame() {
    let mut encoder = Encoder::new(HEADER);
    let mut file = Vec::new();
    for index in 0..1000_u64 {
        let values = [16.67 + index as f64 * 0.001, 431.0, 12.5, 0.0, 3.0];
        let metrics = (0..)
            .zip(values)
            .map(|(column, value)| filled!(MetricValue { column, value }));
        let start_ticks = (1 << 50) + index * 50_000_000;
        let frame = filled!(FrameSnapshot {
            index,
            start_ticks,
            end_ticks: start_ticks + 50_000_000,
            metrics: metrics.collect()
        });
        encoder.encode(RecordRef::Frame(&frame), &mut file);
    }
    assert!(file.len() < 65 * 1000, "{} bytes", file.len());
}
