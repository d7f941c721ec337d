//! Batches of spans, messages, tasks, events and flows read back unchanged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::format::{MAX_RECORD_SPANS, Record, RecordRef};
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, FlowPoint, Message, SpanArgs, SpanBatch, TaskEvent, ThreadBatch,
};
use vor_capture::model::catalog::{SiteId, ThreadId};

use crate::round_trip::{thread_batch, through};

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

/// Writes threads and reads them back unchanged. Returns the number of threads, spans and values of
/// arguments in each record.
fn sizes_of_records(threads: Vec<ThreadBatch>) -> Vec<(usize, usize, usize)> {
    let batch = filled!(SpanBatch {
        catalog: Arc::default(),
        threads
    });
    let records = through(RecordRef::Batch(&batch), 1 << 16);
    let sizes = records.iter().map(|record| {
        let Record::Batch(threads) = record else {
            panic!("expected a batch, found {record:?}")
        };
        let args = threads.iter().flat_map(|thread| &thread.args);
        let values = args.map(|span| span.values.len()).sum();
        let spans = threads.iter().map(ThreadBatch::len).sum();
        (threads.len(), spans, values)
    });
    let sizes = sizes.collect();
    assert!(joined(records) == joined(vec![Record::Batch(batch.threads)]));
    sizes
}

/// Spans that take hardly a byte each, with some booleans as arguments.
fn small_spans(thread: u32, count: usize, values: usize) -> ThreadBatch {
    let args = (0..count as u32).filter(|_| values > 0).map(|span| {
        filled!(SpanArgs {
            span,
            values: vec![ArgValue::Bool(true); values],
        })
    });
    filled!(ThreadBatch {
        thread: ThreadId(thread),
        start_ticks: (0..count as u64).map(|i| 10 * i).collect(),
        duration_ticks: vec![5; count],
        sites: vec![SiteId(1); count],
        args: args.collect()
    })
}

#[test]
fn a_record_has_at_most_as_many_threads_as_a_reader_allows() {
    let most = 1 << 16;
    let threads = (0..=most).map(|_| filled!(ThreadBatch { dropped_spans: 0 }));
    let sizes = sizes_of_records(threads.collect());
    assert_eq!(sizes, [(most, 0, 0), (1, 0, 0)]);
}

#[test]
fn a_record_has_at_most_as_many_spans_as_a_reader_allows() {
    let most = MAX_RECORD_SPANS;
    let sizes = sizes_of_records(vec![small_spans(0, most + 1, 0)]);
    assert_eq!(sizes, [(1, most, 0), (1, 1, 0)]);
    let sizes = sizes_of_records(vec![small_spans(0, most / 2, 0), small_spans(1, most, 0)]);
    assert_eq!(sizes, [(2, most, 0), (1, most / 2, 0)]);
}

#[test]
fn a_record_has_no_more_values_of_arguments_than_a_reader_allows() {
    let spans = |thread, count| small_spans(thread, count, 256);
    // A block has 170 such spans. One that begins below half of a reader's 2^18 values fits.
    let sizes = sizes_of_records(vec![spans(0, 60), spans(1, 6 * 170)]);
    assert_eq!(sizes, [(2, 570, 570 * 256), (1, 510, 510 * 256)]);
    let sizes = sizes_of_records(vec![spans(0, 512), spans(1, 1)]);
    assert_eq!(sizes, [(2, 513, 513 * 256)], "half of them end no record");
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
