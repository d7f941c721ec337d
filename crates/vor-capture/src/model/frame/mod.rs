//! A finished frame.
//!
//! Between two marks of the same frame set lies a frame. Its spans are a tree per thread in
//! pre-order: a parent precedes its children, and the subtree of span `i` is the slice `i .. i +
//! spans[i].subtree_len`. A snapshot borrows nothing and knows no sink; it is the same from the
//! rings as from a capture.

mod tree;
mod order;

pub use tree::{TreeBuilder, Trees};

use std::sync::Arc;

use crate::model::batch::{ArgValue, AsyncSpan, FlowPoint, Message, TaskEvent};
use crate::model::catalog::{Catalog, SiteId, ThreadId};

/// A finished frame, immutable and shared as `Arc`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FrameSnapshot {
    /// Resolves the ids and ticks below.
    pub catalog: Arc<Catalog>,
    /// Number of the frame within its set, from 0.
    pub index: u64,
    /// Index into [`Catalog::frame_sets`]; 0 is the main set.
    pub frame_set: u32,
    /// The mark that began the frame (for frame 0: when recording was enabled), in ticks.
    pub start_ticks: u64,
    /// The mark that ended the frame, in ticks.
    pub end_ticks: u64,
    /// Values of the frame, by column, ascending; each column at most once.
    pub metrics: Vec<MetricValue>,
    /// Spans lost in this frame because a ring was full, or because they were opened inside vor.
    pub dropped_spans: u64,
    /// Marks that came faster than the worker could take them and were merged into this frame.
    pub merged_marks: u64,
    /// Spans that ended in the frame, whether or not they are held in `threads`.
    pub span_count: u64,
    /// The spans, one tree per thread; empty where no sink needs trees, and in secondary frame
    /// sets.
    pub threads: Vec<ThreadTree>,
}

/// The value of a metric in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct MetricValue {
    /// Index into [`Catalog::columns`].
    pub column: u32,
    /// The value; NaN payloads are kept.
    pub value: f64,
}

/// One thread's spans in a frame, in pre-order.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ThreadTree {
    /// The thread that recorded.
    pub thread: ThreadId,
    /// Its spans, parents before children, siblings by time.
    pub spans: Vec<Span>,
    /// Arguments that [`Span::args`] refers to.
    pub arg_values: Vec<ArgValue>,
    /// Its messages, ascending by time.
    pub messages: Vec<Message>,
    /// Tasks that ended on the thread, ascending by their end. They overlap, so they are not part
    /// of the tree. At most as many as the frame may hold spans.
    pub async_spans: Vec<AsyncSpan>,
    /// Tasks that ended on the thread, whether or not they are held in `async_spans`.
    pub async_span_count: u64,
    /// Events of tasks on the thread, ascending by their end; at most as many as the frame may hold
    /// spans, and as many points of flows.
    pub task_events: Vec<TaskEvent>,
    /// Points at which a flow passed the thread, ascending by time.
    pub flows: Vec<FlowPoint>,
}

/// A span in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// When it began.
    pub start_ticks: u64,
    /// How long it lasted.
    pub duration_ticks: u64,
    /// Its call site.
    pub site: SiteId,
    /// Number of spans around it, 0 for a root.
    pub depth: u32,
    /// Number of spans in its subtree, itself included; at least 1.
    pub subtree_len: u32,
    /// Its arguments, as the begin and the end of a range of [`ThreadTree::arg_values`]; see
    /// [`ThreadTree::args`].
    pub args: (u32, u32),
}

impl Span {
    /// Returns when it ended, in ticks.
    #[inline]
    #[must_use]
    pub fn end_ticks(&self) -> u64 {
        self.start_ticks.saturating_add(self.duration_ticks)
    }
}

impl ThreadTree {
    /// Returns the arguments of one of the tree's spans, in the order of the call site's
    /// `arg_names`.
    #[inline]
    #[must_use]
    pub fn args(&self, span: &Span) -> &[ArgValue] {
        let (begin, end) = span.args;
        self.arg_values
            .get(begin as usize..end as usize)
            .unwrap_or(&[])
    }
}

impl FrameSnapshot {
    /// Returns the time between its two marks, in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> i64 {
        // The ticks of a damaged capture may lie anywhere.
        self.catalog
            .unix_ns(self.end_ticks)
            .saturating_sub(self.catalog.unix_ns(self.start_ticks))
    }

    /// Returns the value of the metric called `name`, if the frame has one.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        let of = |value: &&MetricValue| {
            let column = self.catalog.columns.get(value.column as usize);
            column.is_some_and(|column| column.metric.name == name)
        };
        self.metrics.iter().find(of).map(|value| value.value)
    }
}
