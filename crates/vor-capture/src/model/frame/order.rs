//! From trees back to the order in which scopes ended.

use std::sync::Arc;

use super::{FrameSnapshot, ThreadTree};
use crate::model::batch::{SpanArgs, SpanBatch, ThreadBatch};

impl SpanBatch {
    /// Makes a batch of the spans of a frame with trees, in the order in which they ended.
    #[must_use]
    pub fn of_trees(frame: &FrameSnapshot) -> Self {
        Self {
            catalog: Arc::clone(&frame.catalog),
            threads: frame.threads.iter().map(thread_batch).collect(),
        }
    }
}

fn thread_batch(tree: &ThreadTree) -> ThreadBatch {
    let mut batch = ThreadBatch {
        thread: tree.thread,
        messages: tree.messages.clone(),
        async_spans: tree.async_spans.clone(),
        task_events: tree.task_events.clone(),
        flows: tree.flows.clone(),
        ..ThreadBatch::default()
    };
    let mut open: Vec<usize> = Vec::new();
    for (i, span) in tree.spans.iter().enumerate() {
        while open.len() > span.depth as usize {
            end_last(&mut open, tree, &mut batch);
        }
        open.push(i);
    }
    while !open.is_empty() {
        end_last(&mut open, tree, &mut batch);
    }
    batch
}

/// Moves the innermost open span of a tree to a batch.
fn end_last(open: &mut Vec<usize>, tree: &ThreadTree, batch: &mut ThreadBatch) {
    let Some(span) = open.pop().map(|i| &tree.spans[i]) else {
        return;
    };
    let values = tree.args(span);
    if !values.is_empty() {
        batch.args.push(SpanArgs {
            span: batch.sites.len() as u32,
            values: values.to_vec(),
        });
    }
    batch.start_ticks.push(span.start_ticks);
    batch.duration_ticks.push(span.duration_ticks);
    batch.sites.push(span.site);
}
