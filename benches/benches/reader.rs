//! The speed of reading a capture, beside a clock read. Times are per capture; the throughput is in
//! spans.

use std::cell::Cell;
use std::hint::black_box;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vor_benches::clock::bare_ticks;
use vor_benches::spans::{Shape, decode, frame_of};
use vor_capture::format::{Encoder, Header, RecordRef};
use vor_capture::model::frame::TreeBuilder;
use vor_capture::reader::{Capture, Event, Reader};
use vor_capture::sink::FrameSink;
use vor_export::csv::SpanCsv;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

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
        group
            .throughput(Throughput::Elements(spans))
            .sample_size(10);
        group.bench_function(name, |bencher| {
            bencher.iter(|| decode(black_box(&bytes)).map_or(0, |totals| totals.spans))
        });
    }
    group.finish();
    follow(criterion);
    exports(criterion);
}

/// Sizes of the pieces by which the followed file grows.
const PIECES: [usize; 3] = [200_000, 3_000, 100];

/// The cost of small pieces, for a file that grows while it is read, as in `vor tail`.
fn follow(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reader/follow");
    let bytes = capture(Shape::Flat);
    for piece in PIECES {
        group
            .throughput(Throughput::Bytes(bytes.len() as u64))
            .sample_size(10);
        group.bench_function(format!("pieces_of_{piece}"), |bencher| {
            bencher.iter(|| followed_spans(black_box(&bytes), piece).unwrap_or(0))
        });
    }
    group.finish();
}

/// The beginning of a file, up to the written part.
struct Growing<'a> {
    bytes: &'a [u8],
    at: usize,
    end: &'a Cell<usize>,
}

impl Read for Growing<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = (&self.bytes[self.at..self.end.get()]).read(into)?;
        self.at += n;
        Ok(n)
    }
}

/// Reads a file that grows by pieces. Returns the number of its spans.
fn followed_spans(bytes: &[u8], piece: usize) -> io::Result<usize> {
    let end = Cell::new(bytes.len().min(200));
    let mut reader = Reader::new(Growing {
        bytes,
        at: 0,
        end: &end,
    })?;
    let mut spans = 0;
    loop {
        while let Some(event) = reader.next_event()? {
            if let Event::Batch(batch) = event {
                spans += batch.span_count();
            }
        }
        if end.get() == bytes.len() {
            return Ok(spans);
        }
        end.set(bytes.len().min(end.get() + piece));
    }
}

/// From a file of 1 M spans in 64 frames to rows of text: reading, trees and writing.
fn exports(criterion: &mut Criterion) {
    let Ok(folder) = tempfile::tempdir() else {
        return eprintln!("reader: no temporary folder");
    };
    let mut group = criterion.benchmark_group("reader/csv");
    for (name, shape) in [("flat", Shape::Flat), ("trees", Shape::Trees)] {
        let path = folder.path().join(name);
        let spans = match framed(shape, &path) {
            Ok(spans) => spans,
            Err(error) => return eprintln!("reader: {error}"),
        };
        group
            .throughput(Throughput::Elements(spans))
            .sample_size(10);
        group.bench_function(name, |bencher| bencher.iter(|| csv(&path).is_ok()));
    }
    group.finish();
}

/// Writes a capture with frames. Returns the number of its spans.
fn framed(shape: Shape, path: &Path) -> io::Result<u64> {
    const FRAMES: u64 = 64;
    let mut sink =
        CaptureSink::create(path, CaptureOptions::default()).map_err(io::Error::other)?;
    let mut spans = 0;
    for index in 0..FRAMES {
        let batch = shape.batch(SPANS / 4, 1_000_000 + (index << 32));
        let mut trees = TreeBuilder::new(usize::MAX);
        let mut frame = frame_of(&batch, &mut trees);
        frame.index = index;
        spans += batch.span_count() as u64;
        sink.accept_batch(&batch).map_err(io::Error::other)?;
        sink.accept_frame(&Arc::new(frame))
            .map_err(io::Error::other)?;
    }
    sink.finish().map_err(io::Error::other)?;
    Ok(spans)
}

fn csv(path: &Path) -> Result<(), vor_capture::Error> {
    let mut csv = SpanCsv::new(io::sink());
    for frame in Capture::open(path)?.frames(0..u64::MAX) {
        csv.accept_frame(&frame?)?;
    }
    csv.finish()
}

criterion_group!(benches, reader);
criterion_main!(benches);
