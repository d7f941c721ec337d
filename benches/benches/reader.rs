//! How fast is a capture read back? Times are per capture; the throughput is in spans. Beside a clock read.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vor_benches::clock::bare_ticks;
use vor_benches::spans::{Shape, decode};
use vor_core::format::{Encoder, Header, RecordRef};

/// Batches of a capture, and spans of a batch.
const BATCHES: u64 = 16;
const SPANS: usize = 1 << 16;

fn capture(shape: Shape) -> Vec<u8> {
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
    for i in 0..BATCHES {
        encoder.encode(
            RecordRef::Batch(&shape.batch(SPANS, 1_000_000 + (i << 32))),
            &mut out,
        );
    }
    out
}

fn reader(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reader");
    group.bench_function("one_clock_read", |bencher| {
        bencher.iter(|| black_box(bare_ticks()))
    });
    for (name, shape) in [("decode_flat", Shape::Flat), ("decode_trees", Shape::Trees)] {
        let bytes = capture(shape);
        let spans = match decode(&bytes) {
            Ok(totals) => totals.spans,
            Err(error) => return eprintln!("reader: {error}"),
        };
        group.throughput(Throughput::Elements(spans)).sample_size(10);
        group.bench_function(name, |bencher| {
            bencher.iter(|| decode(black_box(&bytes)).map_or(0, |totals| totals.spans))
        });
    }
    group.finish();
}

criterion_group!(benches, reader);
criterion_main!(benches);
