//! The cost of a span after the rings, sink by sink, on generated batches: CPU time of the thread
//! that feeds the sink.

use std::hint::black_box;
use std::sync::Arc;

use tempfile::tempdir;
use vor_benches::clock::thread_cpu_ns;
use vor_benches::rounds::median;
use vor_benches::spans::{Shape, decode, frame_of};
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::TreeBuilder;
use vor_capture::sink::FrameSink;
use vor_capture::stats::StatsBuilder;
use vor_export::chrome::ChromeExporter;
use vor_recorder::os::system::ProcessSampler;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};
use vor_recorder::sinks::puffin::PuffinSink;

use crate::Options;
use crate::table::{Table, Target};

/// Spans per batch: the maximum that the drain reads from a thread in one pass.
const SPANS: usize = 1 << 13;
const ROUNDS: usize = 31;

/// Measures the sinks, the decoder, and the sample of the process in every frame.
pub fn measure(_: &Options, table: &mut Table) {
    let mut sampler = ProcessSampler::new();
    let samples = (0..1001).map(|_| {
        let begin = thread_cpu_ns();
        black_box(sampler.sample());
        (thread_cpu_ns() - begin) as f64 / 1000.0
    });
    table.add(
        "a sample of the process",
        Target::AtMost(200.0),
        median(samples.collect()),
        "us",
    );
    for (name, shape) in [("flat", Shape::Flat), ("trees", Shape::Trees)] {
        if let Err(error) = measure_shape(name, shape, table) {
            table.not_measured(format!("drain, {name}"), error);
        }
    }
}

/// Returns the time from the first start to the last end.
fn length_ticks(batch: &SpanBatch) -> u64 {
    let first = batch
        .threads
        .iter()
        .flat_map(|share| &share.start_ticks)
        .min();
    let last = batch
        .threads
        .iter()
        .filter_map(|share| share.start_ticks.last().zip(share.duration_ticks.last()))
        .map(|(start, duration)| start + duration)
        .max();
    last.zip(first).map_or(0, |(last, first)| last - first)
}

fn measure_shape(
    name: &str,
    shape: Shape,
    table: &mut Table,
) -> Result<(), Box<dyn std::error::Error>> {
    let batch = shape.batch(SPANS, 1_000_000);
    let spans = batch.span_count() as f64;
    let per_span = |mut work: Box<dyn FnMut() + '_>| {
        work();
        let rounds = (0..ROUNDS).map(|_| {
            let begin = thread_cpu_ns();
            work();
            (thread_cpu_ns() - begin) as f64 / spans
        });
        median(rounds.collect())
    };

    let folder = tempdir()?;
    let path = folder.path().join("made.vor");
    let mut failed = None;
    let mut sink = CaptureSink::create(&path, CaptureOptions::default())?;
    let ns = per_span(Box::new(|| {
        failed = sink.accept_batch(&batch).err().or(failed.take())
    }));
    let (max_ns, max_bytes) = if shape == Shape::Flat {
        (15.0, 2.2)
    } else {
        (15.0, 3.6)
    };
    table.add(
        format!("batch to .vor, {name}, per span"),
        Target::AtMost(max_ns),
        ns,
        "ns",
    );
    sink.finish()?;
    drop(sink);
    let file = std::fs::read(&path)?;
    let begin = thread_cpu_ns();
    let totals = decode(&file)?;
    let decode_ns = (thread_cpu_ns() - begin) as f64;
    let bytes = totals.bytes as f64 / totals.spans as f64;
    table.add(
        format!("bytes per span in the file, made {name}"),
        Target::AtMost(max_bytes),
        bytes,
        "B",
    );
    let rate = totals.spans as f64 / decode_ns * 1000.0;
    table.add(
        format!("decoding, {name}"),
        Target::AtLeast(20.0),
        rate,
        "M spans/s",
    );

    let mut trees = TreeBuilder::new(usize::MAX);
    let frame = Arc::new(frame_of(&batch, &mut trees));
    let ns = per_span(Box::new(|| {
        let made = frame_of(&batch, &mut trees);
        trees.recycle(made.threads);
    }));
    table.add(
        format!("batch to trees, {name}, per span"),
        Target::None,
        ns,
        "ns",
    );
    let mut statistics = StatsBuilder::new();
    let mut moving = batch.clone();
    let length_ticks = length_ticks(&batch);
    let ns = per_span(Box::new(|| {
        statistics.add_batch(&moving);
        for share in &mut moving.threads {
            statistics.settle(share.thread, u64::MAX, &[]);
            share
                .start_ticks
                .iter_mut()
                .for_each(|start| *start += length_ticks);
        }
    }));
    table.add(
        format!("batch to statistics, {name}, per span"),
        Target::AtMost(12.0),
        ns,
        "ns",
    );
    let mut puffin = PuffinSink::new();
    let ns = per_span(Box::new(|| {
        failed = puffin.accept_frame(&frame).err().or(failed.take())
    }));
    table.add(
        format!("frame to puffin, {name}, per span"),
        Target::AtMost(45.0),
        ns,
        "ns",
    );
    let mut chrome = ChromeExporter::new(std::io::sink());
    let ns = per_span(Box::new(|| {
        failed = chrome.accept_batch(&batch).err().or(failed.take())
    }));
    table.add(
        format!("batch to Chrome JSON, {name}, per span"),
        Target::AtMost(90.0),
        ns,
        "ns",
    );
    failed.map_or(Ok(()), |error| Err(error.into()))
}
