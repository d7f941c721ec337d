//! Captures that a test writes record by record. They have nothing of the process that writes them,
//! so every number of an output follows from the test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor::capture::{ArgValue, MetricValue, SpanArgs, SpanBatch};
use vor_capture::filled;
use vor_capture::format::{Declared, Encoder, Header, RecordRef};
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{
    Catalog, Column, MachineInfo, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::scheduler::{
    SchedulerBatch, SchedulerEvent, SchedulerEventKind, SchedulerTask,
};
use vor_capture::model::timeline::{ClockSync, Timeline};
use vor_fixtures::captures::record_offsets;
use vor_fixtures::sealed::{Sealed, kind};

/// When tick 0 was, in nanoseconds since 1970. A tick is a nanosecond.
pub const UNIX_NS: i64 = 1_700_000_000_000_000_000;

/// A capture that is being written.
pub struct Draft {
    encoder: Encoder,
    declared: Declared,
    catalog: Arc<Catalog>,
    bytes: Vec<u8>,
}

impl Draft {
    /// Begins a capture with the declarations of a catalog.
    pub fn new(catalog: Catalog) -> Self {
        let mut draft = Self {
            encoder: Encoder::new(Header {
                file_id: 77,
                pid: catalog.process.pid,
                flags: Header::KEEPS_SPANS,
                start_unix_ns: UNIX_NS,
                start_ticks: 0,
            }),
            declared: Declared::default(),
            catalog: Arc::default(),
            bytes: Vec::new(),
        };
        draft.encoder.header(&mut draft.bytes);
        draft.declare(catalog);
        draft
    }

    /// Declares what a catalog has beside the one before.
    pub fn declare(&mut self, catalog: Catalog) {
        let (encoder, bytes) = (&mut self.encoder, &mut self.bytes);
        let is_first = self.declared.begin(&catalog, encoder, bytes);
        if let Some(segment) = catalog.segment.filter(|_| is_first) {
            encoder.encode(RecordRef::Segment(segment), bytes);
        }
        self.declared.put(&catalog, encoder, bytes);
        self.declared.put_modes(&catalog, false, encoder, bytes);
        self.catalog = Arc::new(catalog);
    }

    pub fn batch(&mut self, threads: Vec<ThreadBatch>) {
        let catalog = Arc::clone(&self.catalog);
        self.record(RecordRef::Batch(&filled!(SpanBatch { catalog, threads })));
    }

    pub fn frame(&mut self, frame: FrameSnapshot) {
        let catalog = Arc::clone(&self.catalog);
        self.record(RecordRef::Frame(&filled!(FrameSnapshot {
            catalog,
            ..frame
        })));
    }

    pub fn record(&mut self, record: RecordRef<'_>) {
        self.encoder.encode(record, &mut self.bytes);
    }

    /// Returns the file so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// Closes the capture and returns the file.
    pub fn close(mut self) -> Vec<u8> {
        self.encoder.close(&self.catalog, &mut self.bytes);
        self.bytes
    }
}

/// Makes the share of a thread: the start, the duration and the call site of each span, in the
/// order in which they ended.
pub fn thread(id: u32, spans: &[(u64, u64, u32)]) -> ThreadBatch {
    filled!(ThreadBatch {
        thread: ThreadId(id),
        start_ticks: spans.iter().map(|span| span.0).collect(),
        duration_ticks: spans.iter().map(|span| span.1).collect(),
        sites: spans.iter().map(|span| SiteId(span.2)).collect()
    })
}

/// Makes the arguments of a span.
pub fn args(span: u32, values: &[u64]) -> SpanArgs {
    let values = values.iter().copied().map(ArgValue::U64).collect();
    filled!(SpanArgs { span, values })
}

/// Makes a frame of the main set with its number, its marks and its spans.
pub fn frame(index: u64, marks: (u64, u64), span_count: u64) -> FrameSnapshot {
    filled!(FrameSnapshot {
        index,
        start_ticks: marks.0,
        end_ticks: marks.1,
        span_count
    })
}

pub fn site(name: &str, place: (&str, u32), arg_names: &[&str]) -> Option<Arc<SiteInfo>> {
    let arg_names = arg_names.iter().map(|name| (*name).to_owned().into());
    Some(Arc::new(filled!(SiteInfo {
        name: name.to_owned().into(),
        module_path: "shop".into(),
        file: place.0.to_owned().into(),
        line: place.1,
        arg_names: arg_names.collect()
    })))
}

/// Describes a shop: requests that parse, on `main`, and a `loader` that renders.
pub fn shop() -> Catalog {
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 0,
        unix_ns: UNIX_NS,
        rate: 1 << 40,
        wall_ns: UNIX_NS,
    }));
    let thread = |os_id, name: &str| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id,
            name: name.to_owned()
        })))
    };
    let column = |name: &str, unit: &str, system| {
        filled!(Column {
            metric: MetricColumn {
                name: name.to_owned(),
                unit: unit.to_owned()
            },
            system
        })
    };
    filled!(Catalog {
        process: Arc::new(filled!(ProcessInfo {
            pid: 4711,
            name: "shop".to_owned(),
            recorder: "0.3.0".to_owned()
        })),
        machine: Arc::new(filled!(MachineInfo {
            host: "web-1".to_owned()
        })),
        timeline: Arc::new(timeline),
        sites: Arc::new(vec![
            site("request", ("src/shop.rs", 10), &["id"]),
            site("parse", ("src/shop.rs", 20), &[]),
            site("render", ("src/page.rs", 30), &[]),
        ]),
        threads: Arc::new(vec![thread(1, "main"), thread(2, "loader")]),
        columns: Arc::new(vec![
            column("frame_ms", "ms", true),
            column("loss", "nats", false)
        ]),
        frame_sets: Arc::new(vec![String::new(), "physics".to_owned()])
    })
}

/// Writes three frames of the shop, with the numbers 10 to 12, and a span after the last one:
///
/// | frame | `main` | `loader` |
/// |---|---|---|
/// | 10, 4 µs | a request of 1000 ns with a parse of 300 ns | a render of 2500 ns |
/// | 11, 4 µs | a request of 2000 ns with parses of 400 ns and 100 ns | |
/// | 12, 11 µs | a request of 10 000 ns | |
/// | none | a parse of 50 ns | |
pub fn write_shop() -> Draft {
    let mut draft = Draft::new(shop());
    let value = |column, value| filled!(MetricValue { column, value });
    let requests = |spans: &[(u64, u64, u32)], span, id| {
        filled!(ThreadBatch {
            args: vec![args(span, &[id])],
            ..thread(0, spans)
        })
    };
    draft.batch(vec![
        requests(&[(1_200, 300, 2), (1_100, 1_000, 1)], 1, 7),
        thread(1, &[(2_000, 2_500, 3)]),
    ]);
    draft.frame(filled!(FrameSnapshot {
        metrics: vec![value(0, 0.004), value(1, 0.5)],
        ..frame(10, (1_000, 5_000), 3)
    }));
    draft.frame(filled!(FrameSnapshot {
        frame_set: 1,
        ..frame(0, (1_000, 6_000), 0)
    }));
    let spans = [(5_100, 400, 2), (5_600, 100, 2), (5_000, 2_000, 1)];
    draft.batch(vec![requests(&spans, 2, 8)]);
    draft.frame(filled!(FrameSnapshot {
        metrics: vec![value(0, 0.004)],
        ..frame(11, (5_000, 9_000), 3)
    }));
    draft.batch(vec![requests(&[(9_500, 10_000, 1)], 0, 9)]);
    draft.frame(filled!(FrameSnapshot {
        metrics: vec![value(0, 0.011), value(1, 0.25)],
        ..frame(12, (9_000, 20_000), 1)
    }));
    draft.batch(vec![thread(0, &[(21_000, 50, 2)])]);
    draft
}

/// Writes a file into a folder and returns its path.
pub fn put(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Damages the record `at` of a kind, counted from 0, and returns where it begins and its length.
pub fn damage(bytes: &mut [u8], kind: u8, at: usize) -> (usize, usize) {
    let ends = record_offsets(bytes);
    let records = ends.windows(2).filter(|ends| bytes[ends[0] + 12] == kind);
    let (begin, end) = records.map(|ends| (ends[0], ends[1])).nth(at).unwrap();
    bytes[begin + 16] ^= 1;
    (begin, end - begin)
}

/// Makes the frames with these numbers claim two more records than there are since the frame before
/// each. No byte of the file is damaged.
pub fn contradict(sealed: &mut Sealed, frames: &[u64]) {
    for record in &mut sealed.records {
        if record.kind != kind::FRAME || !frames.contains(&u64::from(record.payload[0])) {
            continue;
        }
        // Index and frame set are a byte each. Two times follow, and then the number of records.
        let mut at = 2;
        for _ in 0..2 {
            at += record.payload[at..]
                .iter()
                .position(|byte| *byte < 0x80)
                .unwrap()
                + 1;
        }
        record.payload[at] += 2;
    }
}

/// A thread that only the record of the scheduler names.
pub const WOKEN: &str = "woken loader";

/// Makes a record of the scheduler.
pub fn scheduler() -> SchedulerBatch {
    let task = |tid, name: &str| {
        filled!(SchedulerTask {
            tid,
            is_own: true,
            name: name.to_owned()
        })
    };
    let waking = SchedulerEventKind::Waking {
        waker: 0,
        woken: 1,
        priority: 120,
        target_cpu: 3,
    };
    filled!(SchedulerBatch {
        tasks: vec![task(1, "main"), task(2, WOKEN)],
        events: vec![SchedulerEvent::new(1_500, 2, waking)]
    })
}
