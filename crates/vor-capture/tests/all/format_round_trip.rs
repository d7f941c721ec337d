//! Every written record reads back unchanged, in pieces of any size.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::borrow::Cow;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::format::{
    Checkpoint, Encoder, FrameRecord, Header, Index, MAX_COLUMNS, MAX_DECLARED_ID, MAX_FRAME_SETS,
    OpenScopes, Record, RecordHead, RecordRef, Seek, decode_payload, parse_end,
};
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, FlowPoint, FlowStage, Message, SpanArgs, SpanBatch, TaskEvent,
    TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{
    Catalog, Column, MachineInfo, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};
use vor_capture::model::timeline::{ClockSnapshot, ClockSync};
use vor_fixtures::decoded::{decode, decode_from, records};

const HEADER: Header = Header {
    file_id: 0xfeed_beef_0123_4567,
    pid: 42,
    flags: 0,
    start_unix_ns: 1_700_000_000_000_000_000,
    start_ticks: 1 << 50,
};

/// Encodes one record into a file of its own, and returns the records of the file.
fn through(record: RecordRef<'_>, piece_bytes: usize) -> Vec<Record> {
    let mut encoder = Encoder::new(HEADER);
    let mut file = Vec::new();
    encoder.header(&mut file);
    encoder.encode(record, &mut file);
    assert_eq!(encoder.offset(), file.len() as u64);
    let (records, damage) = read(&file, piece_bytes);
    assert!(damage.is_empty(), "{damage:?}");
    records
}

/// Returns the records of a file and its damage.
fn read(file: &[u8], piece_bytes: usize) -> (Vec<Record>, Vec<String>) {
    let decoded = decode(file, piece_bytes).unwrap();
    assert_eq!(decoded.header, HEADER);
    let records = decoded.records.into_iter();
    let damage = decoded.damage.iter().chain(&decoded.unfinished);
    let refused = decoded.refused.iter().map(ToString::to_string);
    (
        records.filter_map(|found| found.record).collect(),
        damage.map(ToString::to_string).chain(refused).collect(),
    )
}

/// Joins the parts of a split batch.
fn joined(records: Vec<Record>) -> Vec<ThreadBatch> {
    let parts = records.into_iter().flat_map(|record| match record {
        Record::Batch(threads) => threads,
        other => panic!("expected a batch, found {other:?}"),
    });
    let mut joined: Vec<ThreadBatch> = Vec::new();
    for part in parts {
        match joined.last_mut().filter(|last| last.thread == part.thread) {
            Some(last) => {
                let shift = last.len() as u32;
                last.start_ticks.extend(part.start_ticks);
                last.duration_ticks.extend(part.duration_ticks);
                last.sites.extend(part.sites);
                last.messages.extend(part.messages);
                last.async_spans.extend(part.async_spans);
                last.task_events.extend(part.task_events);
                last.flows.extend(part.flows);
                last.dropped_spans += part.dropped_spans;
                last.args.extend(part.args.into_iter().map(|mut args| {
                    args.span += shift;
                    args
                }));
            }
            None => joined.push(part),
        }
    }
    joined
}

fn without_events(threads: &[ThreadBatch]) -> Vec<ThreadBatch> {
    let without = |thread: &ThreadBatch| {
        filled!(ThreadBatch {
            task_events: Vec::new(),
            flows: Vec::new(),
            ..thread.clone()
        })
    };
    threads.iter().map(without).collect()
}

/// Returns the threads that have events or points of flows, each with both.
fn events(threads: &[ThreadBatch]) -> Vec<(ThreadId, &[TaskEvent], &[FlowPoint])> {
    let with_events = threads.iter().filter(|thread| !thread.has_no_events());
    with_events
        .map(|thread| (thread.thread, &thread.task_events[..], &thread.flows[..]))
        .collect()
}

fn task_event() -> impl Strategy<Value = TaskEvent> {
    let kind = prop_oneof![
        Just(TaskEventKind::Step),
        ticks().prop_map(|duration_ticks| TaskEventKind::Poll { duration_ticks }),
        any::<u64>().prop_map(|given_id| TaskEventKind::Begin { given_id }),
    ];
    (any::<u64>(), kind, any::<u32>(), ticks()).prop_map(|(task, kind, site, start_ticks)| {
        filled!(TaskEvent {
            task,
            kind,
            site: SiteId(site),
            start_ticks,
        })
    })
}

fn flow_point() -> impl Strategy<Value = FlowPoint> {
    let stage = prop_oneof![
        Just(FlowStage::Begin),
        Just(FlowStage::Step),
        Just(FlowStage::End)
    ];
    (ticks(), any::<u64>(), stage)
        .prop_map(|(ticks, flow, stage)| filled!(FlowPoint { ticks, flow, stage }))
}

fn ticks() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0..5000_u64,
        2 => (1_u64 << 50)..(1 << 50) + 100_000,
        1 => any::<u64>(),
        1 => (0..64_u32, -1..2_i64).prop_map(|(bit, off)| (1_u64 << bit).wrapping_add(off as u64)),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z:_]{1,12}", "\\PC{0,6}"]
}

fn arg() -> impl Strategy<Value = ArgValue> {
    prop_oneof![
        any::<bool>().prop_map(ArgValue::Bool),
        any::<i64>().prop_map(ArgValue::I64),
        any::<u64>().prop_map(ArgValue::U64),
        any::<f64>().prop_map(ArgValue::F64),
        text().prop_map(|text| ArgValue::Str(text.into())),
    ]
}

/// The spans of a nested program: it walks up and down a stack, so that both the code for trees and
/// the code for flat spans run.
fn nested() -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((any::<bool>(), 0..300_u64), 0..400).prop_map(|steps| {
        let (mut now, mut open, mut spans) = (1_u64 << 33, Vec::new(), Vec::new());
        for (enter, wait) in steps {
            now += wait;
            if enter {
                open.push(now);
            } else if let Some(start) = open.pop() {
                spans.push((start, now - start));
            }
        }
        spans
    })
}

fn spans() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop_oneof![
        vec((ticks(), ticks()), 0..40),
        nested(),
        (ticks(), vec((0..90_u64, 0..3000_u64), 0..700)).prop_map(|(begin, steps)| {
            let mut now = begin;
            let flat = steps.into_iter().map(|(gap, length)| {
                let start = now.wrapping_add(gap);
                now = start.wrapping_add(length);
                (start, length)
            });
            flat.collect()
        }),
    ]
}

prop_compose! {
    fn thread_batch()(
        thread in any::<u32>(),
        spans in spans(),
        site_count in 1..400_u32,
        site_step in prop_oneof![Just(1_u32), Just(0x1_0001)],
        args in vec((0..30_u32, vec(arg(), 0..4)), 0..6),
        messages in vec((ticks(), text()), 0..4),
        tasks in vec((any::<u64>(), any::<u32>(), ticks(), ticks()), 0..5),
        task_events in prop_oneof![Just(Vec::new()), vec(task_event(), 0..5)],
        flows in prop_oneof![Just(Vec::new()), vec(flow_point(), 0..5)],
        dropped_spans in prop_oneof![Just(0_u64), any::<u32>().prop_map(u64::from)],
    ) -> ThreadBatch {
        let mut next = 0;
        let args = args.into_iter().map(|(step, values)| {
            let span = next + step;
            next = span + 1;
            filled!(SpanArgs { span, values })
        });
        filled!(ThreadBatch {
            thread: ThreadId(thread),
            sites: (0..spans.len() as u32)
                .map(|i| SiteId((i * i % site_count).wrapping_mul(site_step)))
                .collect(),
            args: args.take_while(|args| (args.span as usize) < spans.len()).collect(),
            messages: messages
                .into_iter()
                .map(|(ticks, text)| filled!(Message { ticks, text: text.into() }))
                .collect(),
            async_spans: tasks
                .into_iter()
                .map(|(id, site, start_ticks, duration_ticks)| filled!(AsyncSpan {
                    id,
                    site: SiteId(site),
                    start_ticks,
                    duration_ticks,
                }))
                .collect(),
            start_ticks: spans.iter().map(|span| span.0).collect(),
            duration_ticks: spans.iter().map(|span| span.1).collect(),
            task_events,
            flows,
            dropped_spans,
        })
    }
}

prop_compose! {
    fn site()(
        names in (text(), text(), text(), text()),
        line: u32,
        color: Option<u32>,
        arg_names in vec(text(), 0..4),
    ) -> SiteInfo {
        filled!(SiteInfo {
            name: Cow::Owned(names.0),
            module_path: Cow::Owned(names.1),
            file: Cow::Owned(names.2),
            line,
            category: Cow::Owned(names.3),
            color,
            arg_names: arg_names.into_iter().map(Cow::Owned).collect(),
        })
    }
}

prop_compose! {
    fn frame()(
        index: u64,
        frame_set in 0..3_u32,
        start_ticks in ticks(),
        end_ticks in ticks(),
        metrics in vec((any::<u32>(), any::<u64>(), -100..100_i32, any::<f32>(), 0..3_u8), 0..9),
        counts: (u64, u64, u64),
    ) -> FrameSnapshot {
        let metrics = metrics
            .into_iter()
            .map(|(column, bits, small, single, shape)| filled!(MetricValue {
                column,
                value: match shape {
                    0 => f64::from_bits(bits),
                    1 => f64::from(small),
                    _ => f64::from(single),
                },
            }));
        filled!(FrameSnapshot {
            index,
            frame_set,
            start_ticks,
            end_ticks,
            metrics: metrics.collect(),
            dropped_spans: counts.0,
            merged_marks: counts.1,
            span_count: counts.2 })
    }
}

/// The bits of the metrics, because a NaN is not equal to itself.
fn metric_bits(metrics: &[MetricValue]) -> Vec<(u32, u64)> {
    metrics
        .iter()
        .map(|metric| (metric.column, metric.value.to_bits()))
        .collect()
}

fn assert_frame(read: &FrameRecord, written: &FrameSnapshot) {
    assert_eq!(metric_bits(&read.metrics), metric_bits(&written.metrics));
    let expected = FrameRecord {
        index: written.index,
        frame_set: written.frame_set,
        start_ticks: written.start_ticks,
        end_ticks: written.end_ticks,
        metrics: Vec::new(),
        dropped_spans: written.dropped_spans,
        merged_marks: written.merged_marks,
        span_count: written.span_count,
        first_seq: read.first_seq,
    };
    let read = FrameRecord {
        metrics: Vec::new(),
        ..read.clone()
    };
    assert_eq!(read, expected);
}

proptest! {
    #[test]
    fn batches(threads in vec(thread_batch(), 1..4), piece_bytes in 1..3000_usize) {
        let batch = filled!(SpanBatch {
            catalog: Arc::default(),
            threads
        });
        let records = through(RecordRef::Batch(&batch), piece_bytes);
        let read = joined(records.clone());
        let (with_events, has_events) = (batch.event_count() > 0, records.len() > 1);
        prop_assert_eq!(
            with_events,
            has_events,
            "events are in a record of their own"
        );
        let Some(Record::Batch(spans)) = records.last() else {
            panic!("expected a batch, found {records:?}")
        };
        prop_assert_eq!(
            format!("{spans:?}"),
            format!("{:?}", without_events(&batch.threads))
        );
        prop_assert_eq!(events(&read), events(&batch.threads));
    }

    #[test]
    fn frames(frames in vec(frame(), 1..5)) {
        let mut encoder = Encoder::new(HEADER);
        let mut file = Vec::new();
        encoder.header(&mut file);
        for frame in &frames {
            encoder.encode(RecordRef::Frame(frame), &mut file);
        }
        let (records, damage) = read(&file, 1000);
        prop_assert!(damage.is_empty(), "{damage:?}");
        prop_assert_eq!(records.len(), frames.len());
        for (record, frame) in records.iter().zip(&frames) {
            let Record::Frame(read) = record else { panic!("expected a frame, found {record:?}") };
            assert_frame(read, frame);
        }
    }

    #[test]
    fn an_index_describes_the_records_before_it(
        steps in vec((frame(), proptest::option::of(thread_batch())), 0..40),
    ) {
        let mut encoder = Encoder::new(HEADER);
        let mut file = Vec::new();
        encoder.header(&mut file);
        let mut expected = Index::default();
        let mut begin = file.len() as u64;
        let (mut behind, mut main) = (0_u64, 0_u64);
        for (frame, thread) in &steps {
            if let Some(thread) = thread {
                let batch = filled!(SpanBatch {
                    catalog: Arc::default(),
                    threads: vec![thread.clone()]
                });
                encoder.encode(RecordRef::Batch(&batch), &mut file);
                expected.spans += thread.len() as u64;
                expected.messages += thread.messages.len() as u64;
                expected.async_spans += thread.async_spans.len() as u64;
                behind = behind.saturating_add(thread.dropped_spans);
            }
            encoder.encode(RecordRef::Frame(frame), &mut file);
            let set = frame.frame_set as usize;
            let sets = expected.frames.len().max(set + 1);
            expected.frames.resize(sets, 0);
            expected.frames[set] += 1;
            if set == 0 {
                if main == 0 {
                    expected.start_ticks = frame.start_ticks;
                }
                expected.end_ticks = frame.end_ticks;
                expected.dropped_spans = expected.dropped_spans.saturating_add(frame.dropped_spans);
                behind = 0;
                // With so few frames, the index has a place for each.
                expected.seeks.push(Seek {
                    ordinal: main,
                    index: frame.index,
                    offset: begin,
                    start_ticks: frame.start_ticks,
                });
                main += 1;
                begin = file.len() as u64;
            }
        }
        expected.dropped_spans = expected.dropped_spans.saturating_add(behind);
        expected.tables_offset = file.len() as u64;
        encoder.close(&Catalog::default(), &mut file);
        let (records, damage) = read(&file, 1000);
        prop_assert!(damage.is_empty(), "{damage:?}");
        let place = records
            .iter()
            .position(|record| matches!(record, Record::Index(_)));
        let Some(Record::Index(found)) = place.map(|place| records[place].clone()) else {
            panic!("no index in {records:?}")
        };
        expected.records = place.unwrap_or(0) as u64;
        prop_assert_eq!(found, expected);
        let Some(Record::End { index_offset }) = records.last() else {
            panic!("no end in {records:?}")
        };
        prop_assert_eq!(Some(*index_offset), parse_end(&HEADER, &file));
    }

    #[test]
    fn declarations_come_twice(
        first in 1..1000_u32,
        sites in vec(proptest::option::of(site()), 0..6),
        threads in vec((any::<u64>(), text()), 1..6),
        columns in vec((text(), text(), any::<bool>()), 1..6),
        names in vec(text(), 1..4),
        sync: (u64, i64, u64, i64),
        process in (any::<u32>(), text(), text()),
        machine in (
            text(),
            text(),
            any::<bool>(),
            proptest::option::of((any::<u64>(), any::<i64>(), any::<i64>())),
        ),
    ) {
        let sites: Vec<_> = sites.into_iter().map(|site| site.map(Arc::new)).collect();
        let threads: Vec<_> = threads
            .into_iter()
            .map(|(os_id, name)| Some(Arc::new(filled!(ThreadInfo { os_id, name }))))
            .collect();
        let columns: Vec<_> = columns
            .into_iter()
            .map(|(name, unit, system)| {
                filled!(Column {
                    metric: MetricColumn { name, unit },
                    system
                })
            })
            .collect();
        let sync = filled!(ClockSync {
            ticks: sync.0,
            unix_ns: sync.1,
            rate: sync.2,
            wall_ns: sync.3
        });
        let process = filled!(ProcessInfo {
            pid: process.0,
            name: process.1,
            recorder: process.2
        });
        let (host, boot_id, hardware_ticks, clocks) = machine;
        let clocks = clocks.map(|(ticks, monotonic_ns, boottime_ns)| {
            filled!(ClockSnapshot {
                ticks,
                monotonic_ns,
                boottime_ns
            })
        });
        let machine = filled!(MachineInfo {
            host,
            boot_id,
            hardware_ticks,
            clocks
        });
        let declarations = [
            RecordRef::Process(&process),
            RecordRef::Machine(&machine),
            RecordRef::Sites {
                first: SiteId(first),
                sites: &sites,
            },
            RecordRef::Threads {
                first: ThreadId(0),
                threads: &threads,
            },
            RecordRef::Columns {
                first: 0,
                columns: &columns,
            },
            RecordRef::FrameSets {
                first: 0,
                names: &names,
            },
            RecordRef::Clock(&sync),
        ];
        let mut catalog = Catalog::default();
        for declaration in declarations {
            let records = through(declaration, 700);
            for twice in records.chunks(2) {
                prop_assert_eq!(&twice[0], &twice[1]);
            }
            for record in records {
                prop_assert!(record.declare_into(&mut catalog));
            }
        }
        for (i, site) in sites.iter().enumerate() {
            prop_assert_eq!(catalog.site(SiteId(first + i as u32)), site.as_deref());
        }
        prop_assert_eq!(&*catalog.threads, &threads);
        prop_assert_eq!(&*catalog.columns, &columns);
        prop_assert_eq!(&*catalog.frame_sets, &names);
        prop_assert_eq!(catalog.timeline.syncs(), &[sync][..]);
        prop_assert_eq!(&*catalog.process, &process);
        prop_assert_eq!(&*catalog.machine, &machine);
    }

    #[test]
    fn open_scopes(
        at in ticks(),
        threads in vec((any::<u32>(), vec((any::<u32>(), ticks()), 0..5)), 0..4),
    ) {
        let threads = threads.into_iter().map(|(thread, scopes)| {
            (
                ThreadId(thread),
                scopes
                    .into_iter()
                    .map(|(site, start)| (SiteId(site), start))
                    .collect(),
            )
        });
        let open = filled!(OpenScopes {
            ticks: at,
            threads: threads.collect()
        });
        prop_assert_eq!(
            through(RecordRef::OpenScopes(&open), 99),
            [Record::OpenScopes(open)]
        );
    }

    #[test]
    fn heaps(
        at in ticks(),
        interval_bytes in prop_oneof![Just(0), 1_u64..],
        stacks in proptest::collection::btree_map(
            vec(0_u32..4, 0..5),
            (
                any::<u64>(),
                any::<u64>(),
                any::<u64>(),
                0.0..1e18,
                0.0..1e18,
            ),
            0..40,
        ),
    ) {
        let is_exact = interval_bytes == 0;
        let stack =
            |(sites, (inuse_objects, inuse_bytes, samples, objects_error, bytes_error)): (
                Vec<u32>,
                _,
            )| {
                filled!(HeapStack {
                    scopes: sites
                        .into_iter()
                        .map(|site| filled!(HeapScope { site: SiteId(site) }))
                        .collect(),
                    inuse_objects,
                    inuse_bytes,
                    samples: if is_exact { 0 } else { samples },
                    objects_error: if is_exact { 0.0 } else { objects_error },
                    bytes_error: if is_exact { 0.0 } else { bytes_error },
                })
            };
        let mut heap = HeapSnapshot::default();
        heap.mode = if is_exact {
            HeapMode::Exact
        } else {
            HeapMode::Sampled { interval_bytes }
        };
        heap.ticks = at;
        heap.stacks = stacks.into_iter().map(stack).collect();
        let records = through(RecordRef::Heap(&heap), 99);
        // Sorted by bytes, most first; equal ones keep the order of their scopes, which is the
        // order here.
        heap.stacks
            .sort_by_key(|stack| std::cmp::Reverse(stack.inuse_bytes));
        prop_assert_eq!(records, [Record::Heap(heap)]);
    }

    #[test]
    fn hostile_payloads_are_records_or_errors(kind in 0..16_u8, payload: Vec<u8>) {
        // The checksum is made valid, so that the payload itself is tested.
        let mut file = Vec::new();
        HEADER.encode(&mut file);
        let bytes = sealed(0, kind, 0, &payload);
        let head = RecordHead::parse(&HEADER, &bytes).unwrap();
        let alone = decode_payload(&HEADER, &head, &payload);
        file.extend_from_slice(&bytes);
        let (records, damage) = read(&file, 64);
        prop_assert_eq!(alone.is_err(), !damage.is_empty());
        prop_assert_eq!(alone.is_ok_and(|record| record.is_some()), !records.is_empty());
    }
}

fn sealed(seq: u32, kind: u8, codec: u8, payload: &[u8]) -> Vec<u8> {
    sealed_in(HEADER.file_id, seq, kind, codec, payload)
}

/// Builds a record of a file as `FORMAT.md` describes it, without the encoder.
pub(crate) fn sealed_in(file_id: u64, seq: u32, kind: u8, codec: u8, payload: &[u8]) -> Vec<u8> {
    let seed = crc32fast::hash(&file_id.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&seq.to_le_bytes());
    hasher.update(&[kind, codec]);
    hasher.update(payload);
    let crc = hasher.finalize();
    let len = payload.len() as u32 + 12;
    let odd = 0x9e37_79b9_7f4a_7c15_u64;
    let first = ((u64::from(len) << 32) | u64::from(crc)) ^ u64::from(seed).wrapping_mul(odd);
    let mixed = first.wrapping_mul(odd);
    let second = (u64::from(seq) << 32) | (u64::from(kind) << 8) | u64::from(codec);
    let check = (mixed ^ (mixed >> 29) ^ second).wrapping_mul(odd) >> 48;
    let mut record = Vec::new();
    record.extend(len.to_le_bytes());
    record.extend(crc.to_le_bytes());
    record.extend(seq.to_le_bytes());
    record.extend([kind, codec]);
    record.extend((check as u16).to_le_bytes());
    record.extend_from_slice(payload);
    record
}

#[test]
fn unknown_kinds_and_codecs_are_skipped_and_counted() {
    let mut file = Vec::new();
    HEADER.encode(&mut file);
    file.extend(sealed(0, 200, 0, b"from the future"));
    file.extend(sealed(1, 7, 9, b"in another codec"));
    let decoded = decode(&file, file.len()).unwrap();
    let records: Vec<_> = decoded.records.iter().map(|found| &found.record).collect();
    assert_eq!(records, [&None, &None]);
    assert!(decoded.damage.is_empty() && decoded.refused.is_empty());
    assert_eq!((decoded.unfinished, decoded.missing_records), (None, 0));
}

#[test]
fn a_compressed_payload_cannot_claim_more_than_it_can_hold() {
    let mut payload = vec![0x80, 0x80, 0x80, 0x02];
    payload.extend([0_u8; 20]);
    let bytes = sealed(0, 7, 1, &payload);
    let head = RecordHead::parse(&HEADER, &bytes).unwrap();
    let error = decode_payload(&HEADER, &head, &payload).unwrap_err();
    assert!(
        error.is_corrupt() && error.to_string().contains("4194304"),
        "{error}"
    );
}

/// The ids that a table accepts, and those that it refuses.
#[test]
fn a_declaration_beyond_its_table_is_refused() {
    // Kind, cap, and one entry of that kind.
    let tables: [(u8, u32, &[u8]); 4] = [
        (2, MAX_DECLARED_ID, &[0; 7]),
        (3, MAX_DECLARED_ID, &[0; 2]),
        (4, MAX_COLUMNS, &[0; 3]),
        (5, MAX_FRAME_SETS, &[0; 1]),
    ];
    for (kind, cap, entry) in tables {
        for (first, fits) in [(cap - 1, true), (cap, false), (u32::MAX, false)] {
            let mut payload: Vec<u8> = (0..5)
                .map(|i| (first >> (7 * i)) as u8 & 0x7f | if i < 4 { 0x80 } else { 0 })
                .collect();
            payload.push(1);
            payload.extend_from_slice(entry);
            let bytes = sealed(0, kind, 0, &payload);
            let head = RecordHead::parse(&HEADER, &bytes).unwrap();
            match decode_payload(&HEADER, &head, &payload) {
                Ok(record) => assert!(fits && record.is_some(), "kind {kind}, id {first}"),
                Err(error) => {
                    assert!(
                        !fits && error.is_corrupt(),
                        "kind {kind}, id {first}: {error}"
                    );
                    assert!(error.to_string().contains(&cap.to_string()), "{error}");
                }
            }
        }
    }
}

/// A batch that exceeds every size at once: more spans than a record holds, long texts, many
/// messages.
#[test]
fn a_large_batch_is_split_and_loses_nothing() {
    let count = 600_000_u64;
    let args = (0..count as u32).step_by(1000).map(|span| {
        filled!(SpanArgs {
            span,
            values: vec![ArgValue::Str("x".repeat(span as usize / 10).into())],
        })
    });
    let messages = (0..200_000).map(|i| {
        filled!(Message {
            ticks: i,
            text: format!("message {i}").into(),
        })
    });
    let tasks = (0..300_000_u64).map(|i| {
        filled!(AsyncSpan {
            id: i * i,
            site: SiteId(1 + (i % 3) as u32),
            start_ticks: i * 1000,
            duration_ticks: i * 7919 % 100_000,
        })
    });
    let thread = filled!(ThreadBatch {
        thread: ThreadId(1),
        start_ticks: (0..count).map(|i| i * 1000 + i * i % 97).collect(),
        duration_ticks: (0..count).map(|i| i * 7919 % 900).collect(),
        sites: (0..count).map(|i| SiteId(1 + (i % 5) as u32)).collect(),
        args: args.collect(),
        messages: messages.collect(),
        async_spans: tasks.collect(),
        dropped_spans: 5
    });
    let second = filled!(ThreadBatch {
        thread: ThreadId(9),
        ..thread.clone()
    });
    let batch = filled!(SpanBatch {
        catalog: Arc::default(),
        threads: vec![thread, second],
    });
    let records = through(RecordRef::Batch(&batch), 1 << 16);
    assert!(records.len() > 4, "{} records", records.len());
    assert!(joined(records) == batch.threads);
}

#[test]
fn a_text_beyond_the_cap_is_cut_at_a_character() {
    let message = filled!(Message {
        ticks: 1,
        text: "é".repeat(50_000).into(),
    });
    let short = |text: &str| {
        filled!(Message {
            ticks: 2,
            text: text.into(),
        })
    };
    let thread = filled!(ThreadBatch {
        messages: vec![
            message.clone(),
            short("a"),
            message,
            short("b"),
            short("a"),
            short("b"),
        ]
    });
    let batch = filled!(SpanBatch {
        catalog: Arc::default(),
        threads: vec![thread],
    });
    let read = joined(through(RecordRef::Batch(&batch), 4096));
    let cut = "é".repeat(32_768);
    let texts: Vec<_> = read[0]
        .messages
        .iter()
        .map(|message| &*message.text)
        .collect();
    assert!(texts == [&*cut, "a", &*cut, "b", "a", "b"]);
}

#[test]
fn a_closed_file_is_read_through_its_index() {
    let mut encoder = Encoder::new(HEADER);
    let mut file = Vec::new();
    encoder.header(&mut file);
    let site = |i| {
        Some(Arc::new(filled!(SiteInfo {
            name: format!("site {i}").into()
        })))
    };
    let catalog = filled!(Catalog {
        frame_sets: Arc::new(vec![String::new(), "physics".into()]),
        sites: Arc::new((0..30_000).map(site).collect())
    });
    let thread = filled!(ThreadBatch {
        start_ticks: vec![10, 20],
        duration_ticks: vec![5, 5],
        sites: vec![SiteId(1), SiteId(2)],
        async_spans: vec![filled!(AsyncSpan { id: 7 })],
        dropped_spans: 3
    });
    let batch = filled!(SpanBatch {
        catalog: Arc::default(),
        threads: vec![thread],
    });
    let frames = 40_000;
    for index in 0..frames {
        encoder.encode(RecordRef::Batch(&batch), &mut file);
        for frame_set in [1, 0] {
            let frame = filled!(FrameSnapshot {
                index,
                frame_set,
                start_ticks: index * 100,
                end_ticks: index * 100 + 100,
                span_count: 2,
                dropped_spans: 3
            });
            encoder.encode(RecordRef::Frame(&frame), &mut file);
        }
    }
    let before_close = file.len();
    encoder.close(&catalog, &mut file);
    let index_offset = parse_end(&HEADER, &file).unwrap();
    assert_eq!(parse_end(&HEADER, &file[..file.len() - 1]), None);
    let at = index_offset as usize;
    let head = RecordHead::parse(&HEADER, &file[at..]).unwrap();
    let payload = &file[at + 16..at + head.record_bytes()];
    let Some(Record::Index(index)) = decode_payload(&HEADER, &head, payload).unwrap() else {
        panic!("no index")
    };
    let totals = (
        index.spans,
        index.dropped_spans,
        index.messages,
        index.async_spans,
    );
    assert_eq!(totals, (2 * frames, 3 * frames, 0, frames));
    assert_eq!(index.frames, [frames, frames]);
    assert_eq!((index.start_ticks, index.end_ticks), (0, frames * 100));
    assert_eq!(index.tables_offset, before_close as u64);
    assert_eq!(index.seeks.first().map(|seek| seek.ordinal), Some(0));
    assert_eq!(
        index.seeks.last().map(|seek| seek.ordinal),
        Some(frames - 1)
    );
    assert!(head.payload_bytes < 200_000, "{} bytes", head.payload_bytes);

    let mut tables = Catalog::default();
    let from = Checkpoint::anywhere(index.tables_offset);
    let closing = decode_from(HEADER, from, &file[before_close..], 1 << 16);
    assert!(closing.damage.is_empty() && closing.refused.is_empty());
    for found in &closing.records {
        found.record.as_ref().unwrap().declare_into(&mut tables);
    }
    assert!(closing.is_closed());
    assert_eq!(tables, catalog);

    for seek in index.seeks.iter().step_by(997) {
        let from = Checkpoint::anywhere(seek.offset);
        let end = before_close.min(seek.offset as usize + 1000);
        let decoded = decode_from(HEADER, from, &file[seek.offset as usize..end], 1000);
        assert!(decoded.damage.is_empty() && decoded.refused.is_empty());
        let records: Vec<_> = decoded.records.iter().map(|found| &found.record).collect();
        let [
            Some(Record::Batch(threads)),
            Some(Record::Frame(other)),
            Some(Record::Frame(frame)),
            ..,
        ] = records[..]
        else {
            panic!("{records:?}")
        };
        let seq = decoded.records[0].seq;
        assert_eq!(*threads, batch.threads);
        assert_eq!(other.frame_set, 1);
        assert_eq!(
            (frame.index, frame.frame_set, frame.first_seq),
            (seek.index, 0, seq as u32)
        );
        assert_eq!(frame.start_ticks, seek.start_ticks);
    }
}

#[test]
fn an_index_has_no_counts_of_frame_sets_beyond_the_last_one() {
    let mut encoder = Encoder::new(HEADER);
    let mut file = Vec::new();
    encoder.header(&mut file);
    for frame_set in [0, MAX_FRAME_SETS - 1, MAX_FRAME_SETS, u32::MAX] {
        let frame = filled!(FrameSnapshot { frame_set });
        encoder.encode(RecordRef::Frame(&frame), &mut file);
    }
    encoder.close(&Catalog::default(), &mut file);
    let index = records(&file).find_map(|(_, record)| match record {
        Record::Index(index) => Some(index),
        _ => None,
    });
    let frames = index.unwrap().frames;
    assert_eq!(frames.len() as u32, MAX_FRAME_SETS);
    assert_eq!((frames[0], frames[frames.len() - 1]), (1, 1));
    assert_eq!(frames.iter().sum::<u64>(), 2);
}

#[test]
fn metrics_alone_take_tens_of_bytes_per_frame() {
    let mut encoder = Encoder::new(HEADER);
    let mut file = Vec::new();
    for index in 0..1000_u64 {
        let values = [16.67 + index as f64 * 0.001, 431.0, 12.5, 0.0, 3.0];
        let metrics = (0..)
            .zip(values)
            .map(|(column, value)| filled!(MetricValue { column, value }));
        let start_ticks = (1 << 50) + index * 50_000_000;
        let frame = filled!(FrameSnapshot {
            index,
            start_ticks,
            end_ticks: start_ticks + 50_000_000,
            metrics: metrics.collect()
        });
        encoder.encode(RecordRef::Frame(&frame), &mut file);
    }
    assert!(file.len() < 65 * 1000, "{} bytes", file.len());
}

#[test]
fn a_heap_that_is_too_large_keeps_the_stacks_with_most_bytes() {
    let mut heap = HeapSnapshot::default();
    assert_eq!(through(RecordRef::Heap(&heap), 99), [], "the mode is off");
    heap.mode = HeapMode::Exact;
    let scope = |site| filled!(HeapScope { site: SiteId(site) });
    let stack = |site: u32| {
        filled!(HeapStack {
            scopes: vec![scope(site); 100],
            inuse_objects: 1,
            inuse_bytes: u64::from(site)
        })
    };
    heap.stacks = (1..5_000).map(stack).collect();
    let records = through(RecordRef::Heap(&heap), 1 << 16);
    let [Record::Heap(kept)] = &records[..] else {
        panic!("{} records", records.len())
    };
    // As many scopes as a record holds.
    assert_eq!(kept.stacks.len(), (1 << 18) / 100);
    assert!(
        kept.stacks
            .iter()
            .rev()
            .map(|stack| stack.inuse_bytes)
            .eq(5_000 - (1 << 18) / 100..5_000)
    );
}

#[test]
fn stacks_of_the_same_scopes_are_written_as_their_sum() {
    let stack = |sites: &[u32], inuse_bytes, error| {
        let scope = |site: &u32| {
            filled!(HeapScope {
                site: SiteId(*site)
            })
        };
        filled!(HeapStack {
            scopes: sites.iter().map(scope).collect(),
            inuse_objects: 2,
            inuse_bytes,
            samples: 1,
            objects_error: error,
            bytes_error: error
        })
    };
    let mut heap = HeapSnapshot::default();
    heap.mode = HeapMode::Sampled { interval_bytes: 9 };
    heap.stacks = vec![
        stack(&[1, 2], 500, 3.0),
        stack(&[], 70, 0.1),
        stack(&[1, 2], 90, 4.0),
        stack(&[1], u64::MAX, 1.0),
        stack(&[1], 1, 0.0),
    ];
    let records = through(RecordRef::Heap(&heap), 99);
    let sum = |stack: HeapStack| {
        filled!(HeapStack {
            inuse_objects: 4,
            samples: 2,
            ..stack
        })
    };
    heap.stacks = vec![
        sum(stack(&[1], u64::MAX, 1.0)),
        sum(stack(&[1, 2], 590, 5.0)),
        stack(&[], 70, 0.1),
    ];
    assert_eq!(records, [Record::Heap(heap)]);
}

/// Three invalid heaps: a stack that shares more scopes with the previous one than that has, a
/// stack that is too deep, and a record with too many scopes in total.
#[test]
fn heaps_that_contradict_themselves_are_refused() {
    let refused = |payload: &[u8]| {
        let bytes = sealed(0, 14, 0, payload);
        let head = RecordHead::parse(&HEADER, &bytes).unwrap();
        decode_payload(&HEADER, &head, payload)
            .unwrap_err()
            .is_corrupt()
    };
    assert!(refused(&[0, 0, 1, 1, 0, 1, 1]));
    let mut deep = vec![0, 0, 1, 0, 0x81, 2];
    deep.extend([1; 257]);
    deep.extend([1, 1]);
    assert!(refused(&deep));
    // Each further stack adds one with 256 scopes, in five bytes.
    let count = 2_000_u32;
    let mut many = vec![0, 0, 0xd0, 15, 0, 0x80, 2];
    many.extend([1; 256]);
    many.extend([1, 1]);
    for _ in 1..count {
        many.extend([0xff, 1, 1, 1, 1, 1]);
    }
    assert!(refused(&many));
}
