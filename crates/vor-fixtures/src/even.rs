//! Captures whose frames and spans have lengths that a test can state.

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{Encoder, Header, RecordRef};
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{
    Catalog, Column, MachineInfo, MetricColumn, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};

/// Duration of a frame in nanoseconds, which are also ticks: one millisecond, and three for every
/// hundredth frame.
pub fn frame_ns(frame: u64) -> u64 {
    if frame % 100 == 99 {
        3_000_000
    } else {
        1_000_000
    }
}

/// The bytes of a capture, and the ends of its frames.
pub struct TestCapture {
    pub bytes: Vec<u8>,
    pub frame_ends: Vec<usize>,
}

pub fn catalog() -> Arc<Catalog> {
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 0,
        unix_ns: 1_700_000_000_000_000_000,
        rate: 1 << RATE_BITS,
        wall_ns: 1_700_000_000_000_000_000,
    }));
    let site = |name: &str| {
        Some(Arc::new(filled!(SiteInfo {
            name: name.to_owned().into()
        })))
    };
    let column = |name: &str, unit: &str, system| {
        filled!(Column {
            metric: MetricColumn {
                name: name.into(),
                unit: unit.into(),
            },
            system,
        })
    };
    Arc::new(filled!(Catalog {
        timeline: Arc::new(timeline),
        sites: Arc::new(["update", "draw"].map(site).to_vec()),
        threads: Arc::new(vec![Some(Arc::new(filled!(ThreadInfo {
            os_id: 1,
            name: "main".into(),
        })))]),
        columns: Arc::new(vec![
            column("frame_ms", "ms", true),
            column("loss", "nats", false),
        ]),
        frame_sets: Arc::new(vec![String::new()])
    }))
}

/// Begins a capture that keeps spans: its header, and what its catalog declares. A machine that is
/// not known has no record.
pub fn begin(catalog: &Catalog) -> (Encoder, Vec<u8>) {
    let header = Header {
        file_id: 77,
        pid: 5,
        flags: Header::KEEPS_SPANS,
        start_unix_ns: 1_700_000_000_000_000_000,
        start_ticks: 0,
    };
    begin_with(header, catalog)
}

/// The same with another header.
pub fn begin_with(header: Header, catalog: &Catalog) -> (Encoder, Vec<u8>) {
    let mut encoder = Encoder::new(header);
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    let (sites, threads, columns) = (&catalog.sites, &catalog.threads, &catalog.columns);
    let declarations = [
        RecordRef::Clock(&catalog.timeline.syncs()[0]),
        RecordRef::Sites {
            first: SiteId(1),
            sites,
        },
        RecordRef::Threads {
            first: ThreadId(0),
            threads,
        },
        RecordRef::Columns { first: 0, columns },
    ];
    let declared = declarations.len() - usize::from(columns.is_empty());
    for record in declarations.into_iter().take(declared) {
        encoder.encode(record, &mut bytes);
    }
    if *catalog.machine != MachineInfo::default() {
        encoder.encode(RecordRef::Machine(&catalog.machine), &mut bytes);
    }
    (encoder, bytes)
}

/// Makes a capture of `frames` frames with `spans` spans each, in repeated groups of two side by
/// side inside a third. Frame numbers are the frame's place plus ten. Every thousandth frame has
/// dropped 7 spans; `loss` is in every second frame.
pub fn make(frames: u64, spans: u32, close: bool) -> TestCapture {
    make_with(&catalog(), frames, spans, close)
}

/// The same with a catalog like that of [`catalog`].
pub fn make_with(catalog: &Arc<Catalog>, frames: u64, spans: u32, close: bool) -> TestCapture {
    let (mut encoder, bytes) = begin(catalog);
    let mut made = TestCapture {
        bytes,
        frame_ends: Vec::new(),
    };
    let bytes = &mut made.bytes;
    let mut start_ticks = 5_000;
    for frame in 0..frames {
        let length = frame_ns(frame);
        let mut batch = filled!(ThreadBatch {
            thread: ThreadId(0),
            dropped_spans: if frame % 1000 == 999 { 7 } else { 0 }
        });
        let step = length / u64::from(spans + 1);
        for span in 0..u64::from(spans) {
            let (begin, duration, site) = match span % 3 {
                2 => ((span - 2) * step, 3 * step - 10, 1),
                _ => (span * step + 5, step - 40, 2),
            };
            batch.start_ticks.push(start_ticks + begin);
            batch.duration_ticks.push(duration);
            batch.sites.push(SiteId(site));
        }
        let dropped_spans = batch.dropped_spans;
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(catalog),
            threads: vec![batch],
        });
        encoder.encode(RecordRef::Batch(&batch), bytes);
        let value = |column, value| filled!(MetricValue { column, value });
        let mut metrics = vec![value(0, length as f64 / 1e6)];
        if frame % 2 == 0 {
            metrics.push(value(1, frame as f64 / 8.0));
        }
        let snapshot = filled!(FrameSnapshot {
            catalog: Arc::clone(catalog),
            index: frame + 10,
            start_ticks,
            end_ticks: start_ticks + length,
            metrics,
            dropped_spans,
            span_count: u64::from(spans)
        });
        encoder.encode(RecordRef::Frame(&snapshot), bytes);
        made.frame_ends.push(bytes.len());
        start_ticks += length;
    }
    if close {
        encoder.close(catalog, bytes);
    }
    made
}
