//! The speed of the conversion of a capture to Parquet, beside a clock read and beside decoding
//! alone. Times are per capture, from its bytes to those of the tables; the throughput is in spans.

use std::hint::black_box;
use std::io;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vor_benches::clock::bare_ticks;
use vor_benches::spans::{Shape, decode};
use vor_capture::Error;
use vor_capture::filled;
use vor_capture::format::{Encoder, Header, RecordRef};
use vor_capture::model::batch::{ArgValue, SpanArgs};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Event, Reader};
use vor_capture::sink::FrameSink;
use vor_export::parquet::{Origin, SketchParquet, SpanParquet};

/// Frames of a capture, each with one batch, and spans of a batch.
const FRAMES: u64 = 32;
const SPANS: usize = 1 << 15;

/// Generates a capture in which one span out of `args_every` has an argument.
fn capture(shape: Shape, args_every: usize) -> (Vec<u8>, u64) {
    let mut encoder = Encoder::new(Header {
        file_id: 1,
        pid: 1,
        flags: Header::KEEPS_SPANS,
        start_unix_ns: 0,
        start_ticks: 0,
    });
    let mut out = Vec::new();
    encoder.header(&mut out);
    let mut spans = 0;
    for index in 0..FRAMES {
        let mut batch = shape.batch(SPANS, 1_000_000 + (index << 32));
        for thread in &mut batch.threads {
            thread.args = (0..thread.len())
                .step_by(args_every)
                .map(|span| {
                    filled!(SpanArgs {
                        span: span as u32,
                        values: vec![ArgValue::U64(span as u64)],
                    })
                })
                .collect();
        }
        if index == 0 {
            let catalog = &*batch.catalog;
            encoder.encode(RecordRef::Clock(&catalog.timeline.syncs()[0]), &mut out);
            encoder.encode(
                RecordRef::Sites {
                    first: vor_capture::model::catalog::SiteId(1),
                    sites: &catalog.sites,
                },
                &mut out,
            );
            encoder.encode(
                RecordRef::Threads {
                    first: vor_capture::model::catalog::ThreadId(0),
                    threads: &catalog.threads,
                },
                &mut out,
            );
        }
        spans += batch.span_count() as u64;
        encoder.encode(RecordRef::Batch(&batch), &mut out);
        let frame = filled!(FrameSnapshot {
            index,
            span_count: batch.span_count() as u64
        });
        encoder.encode(RecordRef::Frame(&frame), &mut out);
    }
    (out, spans)
}

/// Passes the content of a capture to a sink, as an export does.
fn export(bytes: &[u8], mut sink: impl FrameSink) -> Result<(), Error> {
    let mut reader = Reader::new(bytes)?;
    while let Some(event) = reader.next_event()? {
        match event {
            Event::Batch(batch) => sink.accept_batch(&batch)?,
            Event::Frame(recovered) => sink.accept_frame(&recovered.frame)?,
            _ => {}
        }
    }
    sink.finish()
}

/// Counts the bytes of a table.
#[derive(Debug, Default)]
struct Count(u64);

impl io::Write for &mut Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn spans_table(bytes: &[u8]) -> Result<u64, Error> {
    let mut count = Count::default();
    export(bytes, SpanParquet::new(&mut count, Origin::default())?)?;
    Ok(count.0)
}

fn sketches_table(bytes: &[u8]) -> Result<u64, Error> {
    let mut count = Count::default();
    export(bytes, SketchParquet::new(&mut count, Origin::default())?)?;
    Ok(count.0)
}

fn parquet(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parquet");
    group.bench_function("one_clock_read", |bencher| {
        bencher.iter(|| black_box(bare_ticks()))
    });
    for (name, shape, args_every) in [
        ("flat", Shape::Flat, usize::MAX),
        ("trees", Shape::Trees, usize::MAX),
        ("trees_every_8th_with_argument", Shape::Trees, 8),
    ] {
        let (bytes, spans) = capture(shape, args_every);
        let (table, sketches) = match (spans_table(&bytes), sketches_table(&bytes)) {
            (Ok(table), Ok(sketches)) => (table, sketches),
            (Err(error), _) | (_, Err(error)) => return eprintln!("parquet: {error}"),
        };
        let per_span = |bytes: u64| bytes as f64 / spans as f64;
        println!(
            "{name}: {:.2} B/span as a capture, {:.2} as a table, {:.4} as sketches",
            per_span(bytes.len() as u64),
            per_span(table),
            per_span(sketches)
        );
        group
            .throughput(Throughput::Elements(spans))
            .sample_size(10);
        group.bench_function(format!("{name}_decoded"), |bencher| {
            bencher.iter(|| decode(black_box(&bytes)).map_or(0, |totals| totals.spans))
        });
        group.bench_function(format!("{name}_to_spans"), |bencher| {
            bencher.iter(|| spans_table(black_box(&bytes)).unwrap_or(0))
        });
        group.bench_function(format!("{name}_to_sketches"), |bencher| {
            bencher.iter(|| sketches_table(black_box(&bytes)).unwrap_or(0))
        });
    }
    group.finish();
}

criterion_group!(benches, parquet);
criterion_main!(benches);
