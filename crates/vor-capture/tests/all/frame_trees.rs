//! The limits and the memory of a frame's trees, and the way back to batches.

use vor_capture::filled;
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, FlowPoint, Message, SpanArgs, SpanBatch, TaskEvent, ThreadBatch,
};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};

fn message(ticks: u64) -> Message {
    filled!(Message {
        ticks,
        text: "a message".into(),
    })
}

fn task(id: u64) -> AsyncSpan {
    filled!(AsyncSpan {
        id,
        start_ticks: id,
    })
}

fn flow(ticks: u64) -> FlowPoint {
    filled!(FlowPoint { ticks })
}

fn event(task: u64) -> TaskEvent {
    filled!(TaskEvent { task })
}

#[test]
fn a_batch_of_trees_is_the_batch_that_they_were_built_of() {
    let args = |span, value| {
        filled!(SpanArgs {
            span,
            values: vec![ArgValue::U64(value), ArgValue::Bool(true)],
        })
    };
    // Two leaves in a parent, a root with a child, and a root.
    let times = [(20, 30), (32, 40), (10, 50), (61, 62), (60, 70), (80, 81)];
    let first = filled!(ThreadBatch {
        thread: ThreadId(3),
        start_ticks: times.iter().map(|(start, _)| *start).collect(),
        duration_ticks: times.iter().map(|(start, end)| end - start).collect(),
        sites: (1..=6).map(SiteId).collect(),
        args: vec![args(1, 7), args(2, 8), args(5, 9)],
        messages: vec![message(33)],
        async_spans: vec![task(1), task(2)],
        task_events: vec![event(5)],
        flows: vec![flow(6)],
    });
    let second = filled!(ThreadBatch {
        thread: ThreadId(4),
        messages: vec![message(34)],
    });
    let mut builder = TreeBuilder::new(100);
    builder.add(&first);
    builder.add(&second);
    let frame = filled!(FrameSnapshot {
        threads: builder.finish().threads,
    });
    assert_eq!(SpanBatch::of_trees(&frame).threads, [first, second]);
}

#[test]
fn a_frame_holds_as_many_tasks_events_and_flows_as_spans() {
    let batch = |thread, ids: std::ops::Range<u64>| {
        filled!(ThreadBatch {
            thread: ThreadId(thread),
            async_spans: ids.clone().map(task).collect(),
            task_events: ids.clone().map(event).collect(),
            flows: ids.map(flow).collect(),
        })
    };
    let mut builder = TreeBuilder::new(10);
    for _ in 0..2 {
        builder.add(&batch(1, 0..4));
        builder.add(&batch(2, 4..8));
        builder.add(&batch(1, 8..12));
        builder.add(&batch(2, 12..16));
        let trees = builder.finish();
        let held: [&[u64]; 2] = [&[0, 1, 2, 3, 8, 9], &[4, 5, 6, 7]];
        for (tree, held) in trees.threads.iter().zip(held) {
            assert_eq!(tree.async_span_count, 8, "what is not held is counted");
            assert!(tree.async_spans.iter().map(|task| &task.id).eq(held));
            assert!(tree.task_events.iter().map(|event| &event.task).eq(held));
            assert!(tree.flows.iter().map(|flow| &flow.ticks).eq(held));
        }
    }
}

#[test]
fn recycled_trees_are_empty_and_lend_their_memory_up_to_one_more_than_the_threads() {
    let batch = |thread, messages| {
        filled!(ThreadBatch {
            thread: ThreadId(thread),
            start_ticks: vec![5],
            duration_ticks: vec![1],
            sites: vec![SiteId(1)],
            args: vec![filled!(SpanArgs {
                span: 0,
                values: vec![ArgValue::U64(thread.into())],
            })],
            messages: vec![message(5); messages],
            async_spans: vec![task(1)],
            task_events: vec![event(1)],
            flows: vec![flow(1)],
        })
    };
    let mut builder = TreeBuilder::new(100);
    let mut large = Vec::new();
    for _ in 0..5 {
        builder.add(&batch(1, 1_000));
        large.extend(builder.finish().threads);
    }
    builder.recycle(large);
    let expected = |thread| {
        let mut builder = TreeBuilder::new(100);
        builder.add(&batch(thread, 1));
        builder.finish().threads.remove(0)
    };
    for thread in 1..=3 {
        builder.add(&batch(thread, 1));
    }
    let trees = builder.finish().threads;
    let is_large: Vec<_> = trees
        .iter()
        .map(|tree| tree.messages.capacity() >= 1_000)
        .collect();
    // One thread was seen at once.
    assert_eq!(is_large, [true, true, false]);
    for (tree, thread) in trees.iter().zip(1..) {
        assert_eq!(*tree, expected(thread));
    }
}
