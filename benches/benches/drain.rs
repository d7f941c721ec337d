//! The cost of a span after the rings, in each sink, beside a clock read. Times are per batch; the
//! throughput is in spans.

use std::hint::black_box;
use std::io;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vor_benches::clock::bare_ticks;
use vor_benches::spans::{Shape, frame_of};
use vor_capture::format::{Encoder, Header, RecordRef};
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::TreeBuilder;
use vor_capture::model::timeline::ClockSnapshot;
use vor_capture::sink::FrameSink;
use vor_export::chrome::ChromeExporter;
use vor_export::collapsed::CollapsedExporter;
use vor_export::csv::SpanCsv;
use vor_export::firefox::FirefoxExporter;
use vor_export::samply::SamplyExporter;
use vor_export::speedscope::SpeedscopeExporter;
use vor_recorder::sinks::puffin::PuffinSink;

/// Spans per batch: the maximum that the drain reads from a thread in one pass.
const SPANS: usize = 1 << 16;

fn drain(criterion: &mut Criterion) {
    criterion.bench_function("drain/one_clock_read", |bencher| {
        bencher.iter(|| black_box(bare_ticks()))
    });
    for (name, shape) in [("flat", Shape::Flat), ("trees", Shape::Trees)] {
        let batch = shape.batch(SPANS, 1_000_000);
        let mut group = criterion.benchmark_group(format!("drain/{name}"));
        group
            .throughput(Throughput::Elements(batch.span_count() as u64))
            .sample_size(20);
        let header = Header {
            file_id: 1,
            pid: 1,
            flags: 0,
            start_unix_ns: 0,
            start_ticks: 0,
        };
        let mut encoder = Encoder::new(header);
        let mut out = Vec::new();
        encoder.header(&mut out);
        group.bench_function("vor", |bencher| {
            bencher.iter(|| {
                out.clear();
                encoder.encode(RecordRef::Batch(&batch), &mut out);
                black_box(out.len())
            });
        });
        let mut trees = TreeBuilder::new(usize::MAX);
        let frame = Arc::new(frame_of(&batch, &mut trees));
        group.bench_function("trees", |bencher| {
            bencher.iter(|| {
                let made = frame_of(&batch, &mut trees);
                trees.recycle(black_box(made).threads);
            });
        });
        let mut puffin = PuffinSink::new();
        group.bench_function("puffin", |bencher| {
            bencher.iter(|| puffin.accept_frame(&frame).is_ok())
        });
        let mut chrome = ChromeExporter::new(io::sink());
        group.bench_function("chrome", |bencher| {
            bencher.iter(|| chrome.accept_batch(&batch).is_ok())
        });
        let mut csv = SpanCsv::new(io::sink());
        group.bench_function("csv", |bencher| {
            bencher.iter(|| csv.accept_frame(&frame).is_ok())
        });
        let mut samply = SamplyExporter::new(ClockSnapshot::default(), |_, _, lines| {
            black_box(lines.len());
            Ok(())
        });
        group.bench_function("samply", |bencher| {
            bencher.iter(|| samply.accept_batch(&batch).is_ok())
        });
        // These exporters write everything at their end.
        group.bench_function("collapsed", |bencher| {
            bencher.iter(|| whole(CollapsedExporter::new(io::sink()), &batch))
        });
        group.bench_function("speedscope", |bencher| {
            bencher.iter(|| whole(SpeedscopeExporter::new(io::sink()), &batch))
        });
        group.bench_function("firefox", |bencher| {
            bencher.iter(|| whole(FirefoxExporter::new(io::sink()), &batch))
        });
        group.finish();
    }
}

/// Makes a file of one batch.
fn whole(mut exporter: impl FrameSink, batch: &SpanBatch) -> bool {
    exporter.accept_batch(batch).is_ok() && exporter.finish().is_ok()
}

criterion_group!(benches, drain);
criterion_main!(benches);
