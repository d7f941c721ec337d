//! The index of a closed file describes the records before it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::format::{
    Checkpoint, Encoder, Index, MAX_FRAME_SETS, Record, RecordHead, RecordRef, Seek,
    decode_payload, parse_end,
};
use vor_capture::model::batch::{AsyncSpan, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};
use vor_capture::model::frame::FrameSnapshot;
use vor_fixtures::decoded::{decode, decode_from, records};

use crate::round_trip::{HEADER, frame, read, thread_batch};

proptest! {
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
        prop_assert_eq!(&found, &expected);
        let Some(Record::End { index_offset }) = records.last() else {
            panic!("no end in {records:?}")
        };
        prop_assert_eq!(Some(*index_offset), parse_end(&HEADER, &file));
        // Another encoder closes the file in the same way, once it has passed the records.
        let mut continued = Encoder::new(HEADER);
        continued.header(&mut Vec::new());
        let tables_at = found.tables_offset as usize;
        for passed in &decode(&file, 1000).unwrap().records {
            if passed.bytes.start < tables_at {
                continued.pass(passed.record.as_ref(), passed.bytes.len() as u64);
            }
        }
        let mut tables = Vec::new();
        continued.close(&Catalog::default(), &mut tables);
        prop_assert_eq!(&tables[..], &file[tables_at..]);
    }
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
