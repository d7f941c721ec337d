//! The memory of an export does not grow with the capture.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, OpenStarts, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::sink::FrameSink;
use vor_export::collapsed::CollapsedExporter;
use vor_export::parquet::{MetricsParquet, Origin, SketchParquet, SpanParquet};
use vor_fixtures::own_process;

#[global_allocator]
static ALLOCATOR: vor_fixtures::memory::Counting = vor_fixtures::memory::Counting;

const SPANS_PER_BATCH: u64 = 50_000;

fn batch(catalog: &Arc<Catalog>, number: u64) -> SpanBatch {
    let first = number * SPANS_PER_BATCH;
    let thread = filled!(ThreadBatch {
        start_ticks: (first..first + SPANS_PER_BATCH).map(|i| 1000 * i).collect(),
        duration_ticks: (first..first + SPANS_PER_BATCH)
            .map(|i| i * 7919 % 997)
            .collect(),
        sites: (first..first + SPANS_PER_BATCH)
            .map(|i| SiteId(1 + (i % 3) as u32))
            .collect(),
        args: (0..SPANS_PER_BATCH as u32)
            .step_by(10)
            .map(|span| filled!(SpanArgs {
                span,
                values: vec![
                    ArgValue::U64(first + u64::from(span)),
                    ArgValue::Str("some text".into()),
                ],
            }))
            .collect()
    });
    filled!(SpanBatch {
        catalog: Arc::clone(catalog),
        threads: vec![thread],
    })
}

/// Returns the growth of live bytes of a sink that receives `batches` batches, and a frame after
/// every `per_frame`th.
fn peak_bytes(mut sink: impl FrameSink, batches: u64, per_frame: u64) -> usize {
    let site = || {
        Some(Arc::new(filled!(SiteInfo {
            name: "a_call_site".into()
        })))
    };
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new(vec![site(), site(), site()])
    }));
    vor_fixtures::memory::peak_of(|| {
        for number in 0..batches {
            sink.accept_batch(&batch(&catalog, number)).unwrap();
            if (number + 1) % per_frame == 0 {
                let metrics = (0..20_000).map(|column| {
                    filled!(MetricValue {
                        column,
                        value: number as f64,
                    })
                });
                let frame = filled!(FrameSnapshot {
                    catalog: Arc::clone(&catalog),
                    index: number,
                    end_ticks: number * 1_000_000,
                    metrics: metrics.collect()
                });
                sink.accept_frame(&Arc::new(frame)).unwrap();
            }
        }
        sink.finish().unwrap();
    })
}

/// Checks that a large export takes as much memory as a small one, and at most `most` bytes.
fn compare(small: usize, large: usize, most: usize) {
    println!("{small} bytes, then {large}");
    assert!(large < most, "{large} bytes");
    assert!(
        large < small + small / 4 + (1 << 20),
        "{small} bytes, then {large}"
    );
}

fn spans(batches: u64, per_frame: u64) -> usize {
    let sink = SpanParquet::new(std::io::sink(), Origin::default()).unwrap();
    peak_bytes(sink, batches, per_frame)
}

#[test]
fn six_times_the_spans_take_no_more_memory() {
    own_process!();
    compare(spans(4, 1), spans(24, 1), 64 << 20);
}

/// A frame without an end uses the maximum, with slightly more spans than that or with twice as
/// many.
#[test]
fn twice_the_spans_of_one_frame_take_no_more_memory() {
    own_process!();
    compare(spans(22, 1000), spans(44, 1000), 160 << 20);
}

#[test]
fn six_times_the_metrics_take_no_more_memory() {
    own_process!();
    let metrics = |batches| {
        let sink = MetricsParquet::new(std::io::sink(), Origin::default()).unwrap();
        peak_bytes(sink, batches, 1)
    };
    compare(metrics(8), metrics(48), 32 << 20);
}

#[test]
fn six_times_the_sketches_take_no_more_memory() {
    own_process!();
    let sketches = |batches| {
        let sink = SketchParquet::new(std::io::sink(), Origin::default()).unwrap();
        peak_bytes(sink, batches, 1)
    };
    compare(sketches(4), sketches(24), 16 << 20);
}

/// Returns the growth of live bytes of a sink that learns after each of `batches` batches that no
/// scope is open.
fn settled_peak_bytes(mut sink: impl FrameSink, batches: u64) -> usize {
    const SPANS: u64 = 1_000;
    vor_fixtures::memory::peak_of(|| {
        for number in 0..batches {
            let first = number * SPANS;
            let thread = filled!(ThreadBatch {
                start_ticks: (first..first + SPANS).map(|at| at * 10).collect(),
                duration_ticks: vec![5; SPANS as usize],
                sites: vec![SiteId(1); SPANS as usize]
            });
            let batch = filled!(SpanBatch {
                threads: vec![thread]
            });
            sink.accept_batch(&batch).unwrap();
            let open = filled!(OpenStarts {
                as_of_ticks: (first + SPANS) * 10,
                threads: vec![(ThreadId(0), Vec::new())]
            });
            sink.accept_open(&open).unwrap();
        }
        sink.finish().unwrap();
    })
}

/// Without the open scopes, each span would wait for one around it.
#[test]
fn spans_outside_of_all_open_scopes_take_no_memory_in_stacks() {
    own_process!();
    let stacks = |batches| settled_peak_bytes(CollapsedExporter::new(std::io::sink()), batches);
    compare(stacks(50), stacks(300), 1 << 20);
}

#[cfg(feature = "pprof")]
#[test]
fn spans_outside_of_all_open_scopes_take_no_memory_in_profiles() {
    own_process!();
    let profile = |batches| {
        let sink = vor_export::pprof::PprofExporter::new(std::io::sink());
        settled_peak_bytes(sink, batches)
    };
    compare(profile(50), profile(300), 2 << 20);
}
