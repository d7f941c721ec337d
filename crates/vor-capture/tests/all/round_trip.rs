//! Files of a test: encoded, read back in pieces of any size, and made of arbitrary values.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use proptest::collection::vec;
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::format::{Encoder, Header, Record, RecordRef};
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, FlowPoint, FlowStage, Message, SpanArgs, TaskEvent, TaskEventKind,
    ThreadBatch,
};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_fixtures::decoded::decode;
use vor_fixtures::sealed::seal;

pub(crate) const HEADER: Header = Header {
    file_id: 0xfeed_beef_0123_4567,
    pid: 42,
    flags: 0,
    start_unix_ns: 1_700_000_000_000_000_000,
    start_ticks: 1 << 50,
};

/// Encodes one record into a file of its own, and returns the records of the file.
pub(crate) fn through(record: RecordRef<'_>, piece_bytes: usize) -> Vec<Record> {
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
pub(crate) fn read(file: &[u8], piece_bytes: usize) -> (Vec<Record>, Vec<String>) {
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

/// Returns a record of such a file, with any payload and the right checksum.
pub(crate) fn sealed(seq: u32, kind: u8, codec: u8, payload: &[u8]) -> Vec<u8> {
    seal(HEADER.file_id, seq, kind, codec, payload)
}

pub(crate) fn ticks() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0..5000_u64,
        2 => (1_u64 << 50)..(1 << 50) + 100_000,
        1 => any::<u64>(),
        1 => (0..64_u32, -1..2_i64).prop_map(|(bit, off)| (1_u64 << bit).wrapping_add(off as u64)),
    ]
}

pub(crate) fn text() -> impl Strategy<Value = String> {
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

prop_compose! {
    pub(crate) fn thread_batch()(
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
    pub(crate) fn frame()(
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
