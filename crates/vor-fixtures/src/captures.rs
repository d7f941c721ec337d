//! Random captures from a seed, and the frames that reading them must return.

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{Encoder, Header, OpenScopes, RecordRef};
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, FlowPoint, FlowStage, Message, SpanArgs, SpanBatch, TaskEvent,
    TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{
    Catalog, Column, DumpInfo, MachineInfo, MetricColumn, ProcessInfo, SegmentInfo, SiteId,
    SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, TreeBuilder};
use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};
use vor_capture::model::scheduler::{
    SchedulerBatch, SchedulerEvent, SchedulerEventKind, SchedulerTask, TaskState,
};
use vor_capture::model::scope_modes::{ScopeMode, ScopeModeChange, ScopeModes};
use vor_capture::model::timeline::{ClockSnapshot, ClockSync, RATE_BITS, Timeline};

use crate::random::Random;

/// A capture: its bytes, the offsets of its records, and its contents.
pub struct TestCapture {
    pub bytes: Vec<u8>,
    /// Offsets of the records, and the file's number of bytes.
    pub records: Vec<usize>,
    pub frames: Vec<Arc<FrameSnapshot>>,
    /// Offset of the end of each frame's record.
    pub frame_ends: Vec<usize>,
    pub spans: u64,
    pub catalog: Arc<Catalog>,
    /// Number of frames of the secondary set.
    pub ticks_frames: u64,
}

pub fn catalog() -> Catalog {
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 1000,
        unix_ns: 1_700_000_000_000_000_000,
        rate: 2 << RATE_BITS,
        wall_ns: 1_700_000_000_000_000_000,
    }));
    let site = |name: &str| {
        Some(Arc::new(filled!(SiteInfo {
            name: name.to_owned().into(),
            file: "src/lib.rs".into(),
            line: 7,
            arg_names: vec!["n".into()]
        })))
    };
    let thread = |name: &str| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id: 11,
            name: name.into(),
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
    filled!(Catalog {
        process: Arc::new(filled!(ProcessInfo {
            pid: 5,
            name: "made".into(),
            recorder: "0.3.0".into(),
        })),
        timeline: Arc::new(timeline),
        sites: Arc::new(["outer", "inner", "leaf"].map(site).to_vec()),
        threads: Arc::new(["main", "worker"].map(thread).to_vec()),
        columns: Arc::new(vec![
            column("frame_ms", "ms", true),
            column("loss", "nats", false),
            column("memory_mb", "MB", true),
        ]),
        frame_sets: Arc::new(vec![String::new(), "physics".into()])
    })
}

/// Begins a capture: the header and the declarations of the catalog.
fn begin(random: &mut Random, catalog: &Catalog) -> (Encoder, Vec<u8>) {
    let header = Header {
        file_id: random.next(),
        pid: 5,
        flags: 0,
        start_unix_ns: 1_700_000_000_000_000_000,
        start_ticks: 1000,
    };
    let mut encoder = Encoder::new(header);
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    for record in [
        RecordRef::Process(&catalog.process),
        RecordRef::Clock(&catalog.timeline.syncs()[0]),
        RecordRef::Sites {
            first: SiteId(1),
            sites: &catalog.sites,
        },
        RecordRef::Threads {
            first: ThreadId(0),
            threads: &catalog.threads,
        },
        RecordRef::Columns {
            first: 0,
            columns: &catalog.columns,
        },
        RecordRef::FrameSets {
            first: 0,
            names: &catalog.frame_sets,
        },
    ] {
        encoder.encode(record, &mut bytes);
    }
    (encoder, bytes)
}

/// Makes a capture of `batches` batches with up to `spread` spans per thread, and without a mark.
/// Its only frame has all spans.
pub fn make_without_marks(seed: u64, batches: usize, spread: usize, close: bool) -> TestCapture {
    let mut random = Random(seed);
    let catalog = Arc::new(catalog());
    let (mut encoder, mut bytes) = begin(&mut random, &catalog);
    let mut builder = TreeBuilder::new(usize::MAX);
    let mut now = 2000;
    let mut range: Option<(u64, u64)> = None;
    for _ in 0..batches {
        let threads = [0, 1].map(|thread| thread_batch(&mut random, thread, spread, &mut now));
        for thread in &threads {
            let spans = thread.start_ticks.iter().zip(&thread.duration_ticks);
            let spans = spans.map(|(start, duration)| (*start, start + duration));
            let messages = thread.messages.iter();
            for (start, end) in spans.chain(messages.map(|message| (message.ticks, message.ticks)))
            {
                let (first, last) = range.unwrap_or((start, end));
                range = Some((first.min(start), last.max(end)));
            }
        }
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: threads.into(),
        });
        builder.add_batch(&batch);
        encoder.encode(RecordRef::Batch(&batch), &mut bytes);
    }
    let trees = builder.finish();
    let (start_ticks, end_ticks) = range.unwrap();
    let frame = filled!(FrameSnapshot {
        catalog: Arc::clone(&catalog),
        start_ticks,
        end_ticks,
        span_count: trees.span_count,
        threads: trees.threads
    });
    if close {
        encoder.close(&catalog, &mut bytes);
    }
    TestCapture {
        records: record_offsets(&bytes),
        bytes,
        frame_ends: Vec::new(),
        spans: frame.span_count,
        frames: vec![Arc::new(frame)],
        catalog,
        ticks_frames: 0,
    }
}

/// Returns the offsets of a capture's records, and its number of bytes.
pub fn record_offsets(bytes: &[u8]) -> Vec<usize> {
    let (_, mut at) = Header::decode(bytes).unwrap().unwrap();
    let mut offsets = Vec::new();
    while at < bytes.len() {
        offsets.push(at);
        at += 4 + u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    }
    offsets.push(bytes.len());
    offsets
}

/// Makes a capture of `frames` frames with up to `spread` spans each.
pub fn make(seed: u64, frames: usize, spread: usize, close: bool) -> TestCapture {
    let mut random = Random(seed);
    let catalog = Arc::new(catalog());
    let (mut encoder, mut bytes) = begin(&mut random, &catalog);
    let mut made = TestCapture {
        bytes: Vec::new(),
        records: Vec::new(),
        frames: Vec::new(),
        frame_ends: Vec::new(),
        spans: 0,
        catalog: Arc::clone(&catalog),
        ticks_frames: 0,
    };
    let mut now = 2000;
    for index in 0..frames as u64 {
        let start_ticks = now;
        let mut builder = TreeBuilder::new(usize::MAX);
        for _ in 0..1 + random.below(2) {
            let batch = filled!(SpanBatch {
                catalog: Arc::clone(&catalog),
                threads: vec![
                    thread_batch(&mut random, 0, spread, &mut now),
                    thread_batch(&mut random, 1, spread, &mut now),
                ],
            });
            builder.add_batch(&batch);
            encoder.encode(RecordRef::Batch(&batch), &mut bytes);
        }
        now += 10;
        let trees = builder.finish();
        made.spans += trees.span_count;
        let metrics = vec![
            filled!(MetricValue {
                column: 0,
                value: (now - start_ticks) as f64 / 1e6,
            }),
            filled!(MetricValue {
                column: 1,
                value: f64::from_bits(random.next()),
            }),
        ];
        let frame = filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index,
            frame_set: 0,
            start_ticks,
            end_ticks: now,
            metrics,
            dropped_spans: trees.dropped_spans,
            merged_marks: 0,
            span_count: trees.span_count,
            threads: trees.threads,
        });
        encoder.encode(RecordRef::Frame(&frame), &mut bytes);
        made.frame_ends.push(bytes.len());
        made.frames.push(Arc::new(frame));
        if index % 3 == 0 {
            let physics = filled!(FrameSnapshot {
                index: index / 3,
                frame_set: 1,
                start_ticks,
                end_ticks: now
            });
            made.ticks_frames += 1;
            encoder.encode(RecordRef::Frame(&physics), &mut bytes);
        }
    }
    if close {
        encoder.close(&catalog, &mut bytes);
    }
    made.records = record_offsets(&bytes);
    made.bytes = bytes;
    made
}

/// Makes spans in the order of their ends: leaves, and occasionally a parent of the last few.
pub fn thread_batch(random: &mut Random, thread: u32, spread: usize, now: &mut u64) -> ThreadBatch {
    let mut batch = filled!(ThreadBatch {
        thread: ThreadId(thread)
    });
    let mut open = *now;
    for span in 0..random.below(spread + 1) as u32 {
        let parent = random.below(4) == 0;
        let start = if parent { open } else { *now + 3 };
        *now = *now + 5 + random.below(900) as u64;
        batch.start_ticks.push(start);
        batch.duration_ticks.push(*now - start);
        batch
            .sites
            .push(SiteId(if parent { 1 } else { 2 + span % 2 }));
        if parent {
            open = *now + 1;
        }
        if span % 5 == 0 {
            batch.args.push(filled!(SpanArgs {
                span,
                values: vec![ArgValue::U64(random.next())],
            }));
        }
    }
    if random.below(8) == 0 {
        batch.messages.push(filled!(Message {
            ticks: *now,
            text: format!("message {}", random.below(100)).into(),
        }));
    }
    batch
}

/// Makes a capture with every kind of record, and with every way to store a block of spans.
pub fn every_kind(seed: u64, close: bool) -> Vec<u8> {
    // The second frame has groups of 256, the others shorter ones.
    every_kind_of(seed, [40, 700, 40, 40], close)
}

/// Makes a capture with every kind of record, and frames with about so many spans.
pub fn every_kind_of(seed: u64, spreads: [usize; 4], close: bool) -> Vec<u8> {
    let mut random = Random(seed);
    let mut catalog = catalog();
    catalog.machine = Arc::new(filled!(MachineInfo {
        host: "host".into(),
        boot_id: "boot".into(),
        hardware_ticks: true,
        clocks: Some(filled!(ClockSnapshot {
            ticks: 1000,
            monotonic_ns: 77,
            boottime_ns: 99,
        })),
        scope_ps: 19_300,
    }));
    let segment = filled!(SegmentInfo { run: 7, number: 2 });
    catalog.segment = Some(segment);
    let dump = Arc::new(filled!(DumpInfo {
        reason: "slow frame".into(),
        ticks: 1_000_000,
        number: 3,
        missed: 300,
    }));
    catalog.dump = Some(Arc::clone(&dump));
    catalog.scope_modes = Arc::new(scope_modes());
    let catalog = Arc::new(catalog);
    let (mut encoder, mut bytes) = begin(&mut random, &catalog);
    encoder.encode(RecordRef::Machine(&catalog.machine), &mut bytes);
    encoder.encode(RecordRef::Segment(segment), &mut bytes);
    encoder.encode(RecordRef::Dump(&dump), &mut bytes);
    encoder.encode(
        RecordRef::ScopeModes(&catalog.scope_modes, None),
        &mut bytes,
    );
    let mut now = 2000;
    for (index, spread) in (0..).zip(spreads) {
        let start_ticks = now;
        let mut threads = vec![
            thread_batch(&mut random, 0, spread, &mut now),
            flat_batch(&mut random, 1, spread / 2, &mut now),
            filled!(ThreadBatch {
                thread: ThreadId(0),
                start_ticks: vec![now],
                duration_ticks: vec![u64::MAX],
                sites: vec![SiteId(3)],
                dropped_spans: index,
            }),
        ];
        add_rest(&mut random, &mut threads[0], now);
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads,
        });
        encoder.encode(RecordRef::Batch(&batch), &mut bytes);
        encoder.encode(RecordRef::Heap(&heap(index, now)), &mut bytes);
        encoder.encode(RecordRef::Scheduler(&scheduler(index, now)), &mut bytes);
        let open = filled!(OpenScopes {
            ticks: now,
            threads: vec![
                (ThreadId(0), vec![(SiteId(1), now - 9), (SiteId(2), now)]),
                (ThreadId(1), Vec::new()),
            ],
        });
        encoder.encode(RecordRef::OpenScopes(&open), &mut bytes);
        for frame_set in [1, 0] {
            let value = |column, value| filled!(MetricValue { column, value });
            let frame = filled!(FrameSnapshot {
                index,
                frame_set,
                start_ticks,
                end_ticks: now,
                metrics: vec![value(0, 16.0), value(1, 0.1), value(2, 0.5)],
                dropped_spans: index,
                span_count: batch.span_count() as u64,
            });
            encoder.encode(RecordRef::Frame(&frame), &mut bytes);
        }
    }
    if close {
        encoder.close(&catalog, &mut bytes);
    }
    bytes
}

/// Makes a change to each mode.
pub fn scope_modes() -> ScopeModes {
    let sample = |tree| ScopeMode::Sample { one_in: 100, tree };
    let changes = [
        (1000, 1, ScopeMode::Off),
        (1000, 2, ScopeMode::Count),
        (1500, 1, ScopeMode::Record),
        (1700, 3, ScopeMode::Min { ns: 50_000 }),
        (u64::MAX - 1, 2, sample(false)),
        (u64::MAX, 2, sample(true)),
    ];
    let mut modes = ScopeModes::default();
    for (ticks, site, mode) in changes {
        let site = SiteId(site);
        modes.insert(filled!(ScopeModeChange { ticks, site, mode }));
    }
    modes
}

/// Makes spans one after the other, with all types of arguments.
fn flat_batch(random: &mut Random, thread: u32, spans: usize, now: &mut u64) -> ThreadBatch {
    let mut batch = filled!(ThreadBatch {
        thread: ThreadId(thread)
    });
    for span in 0..spans as u32 {
        let duration = 100 + random.below(50) as u64 + (u64::from(span == 7) << 40);
        batch.start_ticks.push(*now);
        batch.duration_ticks.push(duration);
        // Sites that repeat, which become bytes.
        batch.sites.push(SiteId(1 + span % 3));
        *now += duration + 2;
        if span % 9 == 4 {
            let text = format!("text {}", span % 2);
            let values = vec![
                ArgValue::Bool(span % 2 == 0),
                ArgValue::I64(-5),
                ArgValue::F64(0.25),
                ArgValue::Str(text.into()),
            ];
            batch.args.push(filled!(SpanArgs { span, values }));
        }
    }
    batch
}

/// Adds messages, tasks, their events and points of flows.
fn add_rest(random: &mut Random, batch: &mut ThreadBatch, now: u64) {
    for (i, stage) in [FlowStage::Begin, FlowStage::Step, FlowStage::End]
        .into_iter()
        .enumerate()
    {
        let ticks = now + i as u64;
        let text = format!("message {}", i % 2).into();
        batch.messages.push(filled!(Message { ticks, text }));
        let (task, site) = (7 + i as u64, SiteId(1 + i as u32));
        batch.async_spans.push(filled!(AsyncSpan {
            id: task,
            site,
            start_ticks: now - 50,
            duration_ticks: random.below(40) as u64,
        }));
        let kind = [
            TaskEventKind::Begin { given_id: 3 },
            TaskEventKind::Step,
            TaskEventKind::Poll { duration_ticks: 12 },
        ][i];
        batch.task_events.push(filled!(TaskEvent {
            task,
            site,
            start_ticks: now - 30,
            kind,
        }));
        batch.flows.push(filled!(FlowPoint {
            ticks,
            flow: 5,
            stage,
        }));
    }
}

/// Makes a heap; every second one is sampled.
fn heap(index: u64, ticks: u64) -> HeapSnapshot {
    let mode = match index % 2 {
        0 => HeapMode::Exact,
        _ => HeapMode::Sampled {
            interval_bytes: 4096,
        },
    };
    let stack = |sites: &[u32]| {
        let scope = |site: &u32| {
            filled!(HeapScope {
                site: SiteId(*site)
            })
        };
        let error = (index % 2) as f64;
        filled!(HeapStack {
            scopes: sites.iter().map(scope).collect(),
            inuse_objects: 3 + index,
            inuse_bytes: 300 * (1 + sites.len() as u64),
            samples: index % 2,
            objects_error: error,
            bytes_error: error * 8.0,
        })
    };
    let stacks = [&[][..], &[1], &[1, 2], &[1, 2, 3], &[2]].map(stack);
    HeapSnapshot::new(mode, ticks, stacks.to_vec())
}

/// Makes a batch in which one thread wakes another, which then takes its processor.
#[must_use]
pub fn scheduler(index: u64, ticks: u64) -> SchedulerBatch {
    let task = |tid, is_own, name: &str| {
        filled!(SchedulerTask {
            tid,
            is_own,
            name: name.into()
        })
    };
    let tasks = vec![
        task(0, false, "swapper/3"),
        task(41, true, "main"),
        task(42, true, "worker"),
        task(u32::MAX, false, "irq/9-acpi"),
    ];
    let switch = |from, state, to| SchedulerEventKind::Switch {
        from,
        from_priority: 120,
        from_state: TaskState(state),
        to,
        to_priority: -1,
    };
    let waking = SchedulerEventKind::Waking {
        waker: 1,
        woken: 2,
        priority: 120,
        target_cpu: 3,
    };
    let event = |after, kind| SchedulerEvent::new(ticks + after, 3, kind);
    let events = vec![
        event(0, switch(0, 0, 1)),
        event(10, waking),
        event(12, switch(1, 1, 2)),
        event(500, switch(2, 256, 3)),
    ];
    filled!(SchedulerBatch {
        tasks,
        events,
        lost_events: index
    })
}
