//! The head of a record says what its payload is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{Encoder, Header, OpenScopes, RecordHead, RecordRef, parse_end};
use vor_capture::model::batch::{FlowPoint, SpanBatch, TaskEvent, ThreadBatch};
use vor_capture::model::catalog::{
    Catalog, Column, DumpInfo, MachineInfo, ProcessInfo, SegmentInfo, SiteId, ThreadId,
};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::heap::{HeapMode, HeapSnapshot};
use vor_capture::model::timeline::ClockSync;

const HEADER: Header = Header {
    file_id: 5,
    pid: 6,
    flags: 7,
    start_unix_ns: -8,
    start_ticks: 9,
};

/// Returns the heads of records without anything between them.
fn heads(mut records: &[u8]) -> Vec<RecordHead> {
    let mut heads = Vec::new();
    while !records.is_empty() {
        let head = RecordHead::parse(&HEADER, records).unwrap();
        records = &records[head.record_bytes()..];
        heads.push(head);
    }
    heads
}

fn kinds(record: RecordRef<'_>) -> Vec<&'static str> {
    let mut records = Vec::new();
    Encoder::new(HEADER).encode(record, &mut records);
    let kind = |head: &RecordHead| match (head.is_frame(), head.is_batch(), head.is_declaration()) {
        (true, false, false) => "frame",
        (false, true, false) => "batch",
        (false, false, true) => "declaration",
        (false, false, false) => "other",
        _ => "several",
    };
    heads(&records).iter().map(kind).collect()
}

#[test]
fn each_head_is_of_one_kind() {
    let batch = |thread: ThreadBatch| {
        filled!(SpanBatch {
            catalog: Arc::default(),
            threads: vec![thread],
        })
    };
    let spans = batch(filled!(ThreadBatch {
        start_ticks: vec![1],
        duration_ticks: vec![1],
        sites: vec![SiteId(1)],
    }));
    let events = batch(filled!(ThreadBatch {
        task_events: vec![TaskEvent::default()],
        flows: vec![FlowPoint::default()],
    }));
    assert_eq!(kinds(RecordRef::Batch(&spans)), ["batch"]);
    // The thread comes in the records of events and of spans.
    assert_eq!(kinds(RecordRef::Batch(&events)), ["batch", "batch"]);
    assert_eq!(
        kinds(RecordRef::Frame(&FrameSnapshot::default())),
        ["frame"]
    );
    let open = filled!(OpenScopes {
        ticks: 1,
        threads: vec![(ThreadId(1), vec![])],
    });
    assert_eq!(kinds(RecordRef::OpenScopes(&open)), ["other"]);
    let heap = filled!(HeapSnapshot {
        mode: HeapMode::Exact
    });
    assert_eq!(kinds(RecordRef::Heap(&heap)), ["other"]);
    let site = Some(Arc::default());
    let thread = Some(Arc::default());
    let declarations = [
        RecordRef::Process(&ProcessInfo::default()),
        RecordRef::Machine(&MachineInfo::default()),
        RecordRef::Segment(SegmentInfo::default()),
        RecordRef::Dump(&DumpInfo::default()),
        RecordRef::ScopeModes(&vor_fixtures::captures::scope_modes(), None),
        RecordRef::Clock(&ClockSync::default()),
        RecordRef::Sites {
            first: SiteId(1),
            sites: &[site],
        },
        RecordRef::Threads {
            first: ThreadId(0),
            threads: &[thread],
        },
        RecordRef::Columns {
            first: 0,
            columns: &[Column::default()],
        },
        RecordRef::FrameSets {
            first: 0,
            names: &["set".into()],
        },
    ];
    for declaration in declarations {
        assert_eq!(kinds(declaration), ["declaration"; 2]);
    }
}

#[test]
fn only_the_end_record_ends_a_file() {
    let mut encoder = Encoder::new(HEADER);
    let mut file = Vec::new();
    encoder.header(&mut file);
    encoder.close(&Catalog::default(), &mut file);
    let index = parse_end(&HEADER, &file).unwrap() as usize;
    assert_eq!(heads(&file[index..]).len(), 2, "the index and the end");
    let end = index + heads(&file[index..])[0].record_bytes();
    for at in end..file.len() {
        file[at] ^= 1;
        assert_eq!(parse_end(&HEADER, &file), None, "byte {at} is another");
        file[at] ^= 1;
    }
    for kept in 0..file.len() {
        assert_eq!(parse_end(&HEADER, &file[..kept]), None, "{kept} bytes");
    }
    let other = Header {
        file_id: 6,
        ..HEADER
    };
    assert_eq!(parse_end(&other, &file), None);
}
