//! The second golden file of format version 3, with the kinds that the first one lacks: the
//! machine, events and heaps; and the list of all golden files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{Encoder, Header, Record, RecordRef};
use vor_capture::model::batch::{
    AsyncSpan, FlowPoint, FlowStage, SpanBatch, TaskEvent, TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{Catalog, DumpInfo, MachineInfo, SegmentInfo, SiteId, ThreadId};
use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};
use vor_capture::model::scope_modes::{ScopeMode, ScopeModeChange};
use vor_capture::model::timeline::ClockSnapshot;
use vor_fixtures::captures::{scheduler, scope_modes};
use vor_fixtures::decoded::{decode, records};
use vor_fixtures::payload::file_with;
use vor_fixtures::sealed::Sealed;

use crate::format_golden::{GOLDEN as FIRST, assert_written};

/// Never replaced, like the first.
const GOLDEN: &[u8] = include_bytes!("../data/golden_v3_kinds.vor");
/// A segment of a run.
const SEGMENT: &[u8] = include_bytes!("../data/golden_v3_segment.vor");
/// A dump of a recorder's memory.
const DUMP: &[u8] = include_bytes!("../data/golden_v3_dump.vor");
/// Events of the scheduler.
const SCHEDULER: &[u8] = include_bytes!("../data/golden_v3_scheduler.vor");
/// Machines with the cost of a scope, with and without clocks.
const COST: &[u8] = include_bytes!("../data/golden_v3_cost.vor");
/// Changes of the modes of call sites.
const MODES: &[u8] = include_bytes!("../data/golden_v3_modes.vor");

const HEADER: Header = Header {
    file_id: 0xfedc_ba98_7654_3210,
    pid: 77,
    flags: 0,
    start_unix_ns: -1,
    start_ticks: 1 << 63,
};

fn machine() -> MachineInfo {
    filled!(MachineInfo {
        host: "größe.example".into(),
        boot_id: "5a1e1a5c-0000-4000-8000-000000000001".into(),
        hardware_ticks: true,
        clocks: Some(filled!(ClockSnapshot {
            ticks: HEADER.start_ticks + 5,
            monotonic_ns: 123_456_789,
            boottime_ns: -3,
        })),
    })
}

/// Events of every kind and points of every stage, on two threads, with a task that ends between.
fn batch() -> SpanBatch {
    let event = |task, site, start_ticks, kind| {
        filled!(TaskEvent {
            task,
            site: SiteId(site),
            start_ticks,
            kind
        })
    };
    let point = |flow, ticks, stage| filled!(FlowPoint { ticks, flow, stage });
    let polled = filled!(ThreadBatch {
        thread: ThreadId(3),
        async_spans: vec![filled!(AsyncSpan {
            id: 9 << 16,
            site: SiteId(2),
            start_ticks: 1000,
            duration_ticks: 700,
        })],
        task_events: vec![
            event(
                9 << 16,
                2,
                1000,
                TaskEventKind::Begin { given_id: u64::MAX }
            ),
            event(
                9 << 16,
                2,
                1100,
                TaskEventKind::Poll {
                    duration_ticks: 300
                }
            ),
            event(9 << 16, 900_000, 1200, TaskEventKind::Step),
            event(
                4,
                1,
                u64::MAX - 9,
                TaskEventKind::Poll { duration_ticks: 20 }
            ),
        ],
        flows: vec![
            point(1 << 40, 1150, FlowStage::Begin),
            point(5, 1160, FlowStage::Step),
        ]
    });
    let received = filled!(ThreadBatch {
        thread: ThreadId(0),
        flows: vec![
            point(1 << 40, 1250, FlowStage::Step),
            point(1 << 40, 1240, FlowStage::End),
        ]
    });
    filled!(SpanBatch {
        threads: vec![polled, received]
    })
}

fn heap(mode: HeapMode) -> HeapSnapshot {
    let stack = |sites: &[u32], inuse_objects, inuse_bytes| {
        let scope = |site: &u32| {
            filled!(HeapScope {
                site: SiteId(*site)
            })
        };
        let is_exact = mode == HeapMode::Exact;
        filled!(HeapStack {
            scopes: sites.iter().map(scope).collect(),
            inuse_objects,
            inuse_bytes,
            samples: if is_exact { 0 } else { inuse_objects / 2 },
            objects_error: if is_exact { 0.0 } else { 0.1 },
            bytes_error: if is_exact { 0.0 } else { f64::INFINITY }
        })
    };
    let stacks = [
        stack(&[1, 2, 3], 40, 70_000),
        stack(&[], 1000, 65_000),
        stack(&[1, 2, 900_000], 2, 1 << 40),
        stack(&[1], u64::MAX, u64::MAX),
        stack(&[2, 3], 0, 0),
    ];
    HeapSnapshot::new(mode, HEADER.start_ticks + 2000, stacks.to_vec())
}

const SAMPLED: HeapMode = HeapMode::Sampled {
    interval_bytes: 524_288,
};

#[test]
fn the_second_golden_file_is_written_unchanged() {
    let catalog = filled!(Catalog {
        machine: Arc::new(machine())
    });
    assert_written(
        GOLDEN,
        HEADER,
        vec![
            RecordRef::Machine(&MachineInfo::default()),
            RecordRef::Machine(&machine()),
            RecordRef::Batch(&batch()),
            RecordRef::Heap(&heap(HeapMode::Exact)),
            RecordRef::Heap(&heap(SAMPLED)),
        ],
        &catalog,
    );
}

#[test]
fn the_second_golden_file_reads_unchanged() {
    let (header, _) = Header::decode(GOLDEN).unwrap().unwrap();
    assert_eq!(header, HEADER);
    let found: Vec<Record> = records(GOLDEN).map(|(_, record)| record).collect();
    // Events come before the batch in which their task ended, as a record of their own.
    let (events, tasks): (Vec<ThreadBatch>, Vec<ThreadBatch>) = batch()
        .threads
        .into_iter()
        .map(|thread| {
            let (task_events, flows) = (thread.task_events, thread.flows);
            let events = filled!(ThreadBatch {
                thread: thread.thread,
                task_events,
                flows
            });
            let tasks = filled!(ThreadBatch {
                thread: thread.thread,
                async_spans: thread.async_spans
            });
            (events, tasks)
        })
        .unzip();
    let expected = [
        // Declarations come twice.
        Record::Machine(MachineInfo::default()),
        Record::Machine(MachineInfo::default()),
        Record::Machine(machine()),
        Record::Machine(machine()),
        Record::Batch(events),
        Record::Batch(tasks),
        Record::Heap(heap(HeapMode::Exact)),
        Record::Heap(heap(SAMPLED)),
    ];
    assert_eq!(found[..expected.len()], expected);
    let closing = &found[expected.len()..];
    assert!(closing.contains(&Record::Machine(machine())));
    assert!(matches!(
        closing,
        [.., Record::Index(index), Record::End { .. }] if index.async_spans == 1
    ));
}

#[test]
fn the_golden_segment_is_written_and_reads_unchanged() {
    let segment = filled!(SegmentInfo {
        run: 0x0123_4567_89ab_cdef,
        number: 300
    });
    let catalog = filled!(Catalog {
        segment: Some(segment)
    });
    let mut encoder = Encoder::new(HEADER);
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    encoder.encode(RecordRef::Segment(segment), &mut bytes);
    encoder.close(&catalog, &mut bytes);
    assert_eq!(bytes, SEGMENT);
    let found: Vec<Record> = records(SEGMENT).map(|(_, record)| record).collect();
    let segments = found
        .iter()
        .filter(|record| **record == Record::Segment(segment));
    // Twice at the beginning, and once at the close.
    assert_eq!(segments.count(), 3);
}

#[test]
fn the_golden_dump_is_written_and_reads_unchanged() {
    let dump = filled!(DumpInfo {
        reason: "a frame of 51.2 ms".into(),
        ticks: 0x0123_4567_89ab_cdef,
        number: 1,
        missed: 300,
    });
    let catalog = filled!(Catalog {
        dump: Some(Arc::new(dump.clone()))
    });
    let mut encoder = Encoder::new(HEADER);
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    encoder.encode(RecordRef::Dump(&dump), &mut bytes);
    encoder.close(&catalog, &mut bytes);
    assert_eq!(bytes, DUMP);
    let dumps = records(DUMP).filter(|(_, record)| *record == Record::Dump(dump.clone()));
    // Twice at the beginning, and once at the close.
    assert_eq!(dumps.count(), 3);
}

#[test]
fn the_golden_scheduler_is_written_and_reads_unchanged() {
    let batch = scheduler(300, HEADER.start_ticks);
    assert_written(
        SCHEDULER,
        HEADER,
        vec![RecordRef::Scheduler(&batch)],
        &Catalog::default(),
    );
    let first = records(SCHEDULER).map(|(_, record)| record).next();
    assert_eq!(first, Some(Record::Scheduler(batch)));
}

#[test]
fn the_golden_costs_are_written_and_read_unchanged() {
    let measured = |mut machine: MachineInfo| {
        machine.scope_ps = 19_300;
        machine
    };
    let (first, last) = (measured(MachineInfo::default()), measured(machine()));
    let catalog = filled!(Catalog {
        machine: Arc::new(last.clone())
    });
    assert_written(
        COST,
        HEADER,
        vec![RecordRef::Machine(&first), RecordRef::Machine(&last)],
        &catalog,
    );
    let found: Vec<Record> = records(COST).map(|(_, record)| record).take(4).collect();
    let [first, last] = [first, last].map(Record::Machine);
    assert_eq!(found, [first.clone(), first, last.clone(), last]);
}

#[test]
fn the_golden_modes_are_written_and_read_unchanged() {
    let modes = scope_modes();
    let catalog = filled!(Catalog {
        scope_modes: Arc::new(modes.clone())
    });
    let mut encoder = Encoder::new(HEADER);
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    encoder.encode(RecordRef::ScopeModes(&modes, None), &mut bytes);
    // Nothing has changed since.
    encoder.encode(RecordRef::ScopeModes(&modes, Some(u64::MAX)), &mut bytes);
    encoder.close(&catalog, &mut bytes);
    assert_eq!(bytes, MODES);
    let expected = Record::ScopeModes(modes.after(None).collect());
    let found = records(MODES).filter(|(_, record)| *record == expected);
    // Twice at the beginning, and once at the close.
    assert_eq!(found.count(), 3);
    let mut read = Catalog::default();
    for (_, record) in records(MODES) {
        record.declare_into(&mut read);
    }
    assert_eq!(*read.scope_modes, modes);
}

#[test]
fn a_change_to_an_unknown_mode_is_left_out() {
    // A change at tick 5 of site 1 to mode 6 with the value 9, and one tick later to off.
    let file = file_with(17, 0, &[2, 5, 1, 6, 9, 1, 1, 2, 0]);
    let decoded = decode(&file, file.len()).unwrap();
    let found = &decoded.records[decoded.records.len() - 2].record;
    let change = filled!(ScopeModeChange {
        ticks: 6,
        site: SiteId(1),
        mode: ScopeMode::Off
    });
    assert_eq!(*found, Some(Record::ScopeModes(vec![change])));
}

#[test]
fn every_kind_is_in_a_golden_file() {
    let mut kinds = BTreeSet::new();
    for golden in [FIRST, GOLDEN, SEGMENT, DUMP, COST, MODES, SCHEDULER] {
        let records = Sealed::of(golden).records;
        kinds.extend(records.iter().map(|record| record.kind));
    }
    let last = *kinds.last().unwrap();
    assert!(kinds.into_iter().eq(1..=last));
    // Every kind that the decoder knows.
    let next = decode(&file_with(last + 1, 0, &[]), 1 << 16).unwrap();
    let unknown = &next.records[next.records.len() - 2];
    assert!(next.refused.is_empty() && unknown.record.is_none());
}

/// Every golden file with its length and its CRC-32. A released version wrote these bytes, or
/// promises to read them, so an entry never changes: a new file gets a line of its own.
const GOLDEN_FILES: &[(&str, usize, u32)] = &[
    ("every3_threads.vor", 4826, 0xc32cf1cc),
    ("flame.vor", 5814, 0x7bf85162),
    ("golden_v3.vor", 3571, 0xb930e8a1),
    ("golden_v3_cost.vor", 409, 0x83b3acab),
    ("golden_v3_dump.vor", 263, 0xe88317e4),
    ("golden_v3_kinds.vor", 692, 0xeb6198c4),
    ("golden_v3_modes.vor", 287, 0xe766d4b5),
    ("golden_v3_scheduler.vor", 229, 0x616ab267),
    ("golden_v3_segment.vor", 199, 0x627fe8de),
    ("max5.vor", 3031, 0xe8c8c2b8),
    ("metrics_only.vor", 2031, 0x81658a26),
    ("torn.vor", 10513, 0x46281293),
    ("user_units.vor", 4960, 0xdbeb9fe0),
];

#[test]
fn no_golden_file_was_replaced() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["tests/data", "../../.ci/data/v2"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name.ends_with(".vor") {
                let bytes = std::fs::read(path).unwrap();
                found.push((name, bytes.len(), crc32fast::hash(&bytes)));
            }
        }
    }
    found.sort();
    let found: Vec<_> = found
        .iter()
        .map(|(name, bytes, checksum)| (&**name, *bytes, *checksum))
        .collect();
    assert_eq!(found, GOLDEN_FILES, "a golden file changed: {found:#010x?}");
}
