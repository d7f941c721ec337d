//! The minutes of the table of sketches: when they become rows.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use crate::parquet_rows::{int, rows};
use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::sink::FrameSink;
use vor_export::parquet::{Origin, SketchParquet};

const MINUTE: u64 = 60_000_000_000;

/// Returns the minute and the number of spans of each row. Each batch has a span of 100 ns that
/// ends at each of its times.
fn minutes(batches: &[&[u64]]) -> Vec<(i64, i64)> {
    // A tick is a nanosecond since 1970.
    let catalog = Arc::new(Catalog::default());
    let mut sink = SketchParquet::new(Vec::new(), Origin::default()).unwrap();
    for ends in batches {
        let thread = filled!(ThreadBatch {
            start_ticks: ends.iter().map(|end| end - 100).collect(),
            duration_ticks: vec![100; ends.len()],
            sites: vec![SiteId(1); ends.len()]
        });
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![thread],
        });
        sink.accept_batch(&batch).unwrap();
    }
    sink.finish().unwrap();
    let rows = rows(sink.into_inner().unwrap());
    let row = |row| (int(row, "minute") / 60, int(row, "count"));
    rows.iter().map(row).collect()
}

#[test]
fn a_span_counts_in_the_minute_in_which_it_ends() {
    let last = 2 * MINUTE - 1;
    let batch = [
        200,
        MINUTE,
        MINUTE + 1,
        last,
        last + 1,
        last + 2,
        4 * MINUTE,
    ];
    assert_eq!(minutes(&[&batch]), [(0, 1), (1, 3), (2, 2), (4, 1)]);
}

#[test]
fn the_two_newest_minutes_stay_open_after_a_batch() {
    let (first, second, third) = (MINUTE, 2 * MINUTE, 3 * MINUTE);
    // The first minute returns while it is one of two.
    assert_eq!(minutes(&[&[first], &[second], &[first]]), [(1, 2), (2, 1)]);
    // A span that is later than that has a row of its own.
    let late = minutes(&[&[first], &[second], &[third], &[first]]);
    assert_eq!(late, [(1, 1), (1, 1), (2, 1), (3, 1)]);
}

#[test]
fn four_minutes_stay_open_within_a_batch() {
    let ends = [1, 2, 3, 4, 1].map(|minute| minute * MINUTE);
    let open = [(1, 2), (2, 1), (3, 1), (4, 1)];
    assert_eq!(minutes(&[&ends]), open);
    let ends = [1, 2, 3, 4, 5, 1].map(|minute| minute * MINUTE);
    let closed = [(1, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1)];
    assert_eq!(minutes(&[&ends]), closed);
}
