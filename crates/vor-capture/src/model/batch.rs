//! The records that one drain took from the rings, before their frame is known.
//!
//! A batch holds columns, one set per thread: `start_ticks`, `duration_ticks` and `sites` have
//! equal length, and index `i` of each describes the span that *ended* as the `i`-th on that
//! thread. Children therefore precede their parents (post-order). Arguments are sparse, since few
//! spans have any. Streaming sinks take batches, so that a frame of an hour needs no more memory
//! than one of a millisecond.
//!
//! Whole asynchronous tasks are not in those columns: tasks overlap, so no tree holds them. They
//! are sparse, like messages, and so are the events within a task and the points of flows.

use std::fmt;
use std::sync::Arc;

use super::catalog::{Catalog, SiteId, ThreadId};
pub use super::open_scopes::OpenStarts;

/// The spans, messages and ended tasks that one drain took from the rings, all of which ended in
/// the same frame.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpanBatch {
    /// Resolves the ids and ticks below.
    pub catalog: Arc<Catalog>,
    /// One entry per thread that finished a span or a task, wrote a message or dropped something.
    pub threads: Vec<ThreadBatch>,
}

/// One thread's share of a [`SpanBatch`], in the order in which its scopes ended.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ThreadBatch {
    /// The thread that recorded.
    pub thread: ThreadId,
    /// Start of each span, in ticks.
    pub start_ticks: Vec<u64>,
    /// Duration of each span, in ticks.
    pub duration_ticks: Vec<u64>,
    /// Call site of each span.
    pub sites: Vec<SiteId>,
    /// Arguments of the spans that have some, ascending by `span`.
    pub args: Vec<SpanArgs>,
    /// Messages, ascending by time.
    pub messages: Vec<Message>,
    /// Tasks that ended on the thread, ascending by their end.
    pub async_spans: Vec<AsyncSpan>,
    /// Events of tasks on the thread, ascending by their end.
    pub task_events: Vec<TaskEvent>,
    /// Points at which a flow passed the thread, ascending by time.
    pub flows: Vec<FlowPoint>,
    /// Spans of either kind, messages, events of tasks and points of flows lost since the previous
    /// batch of this thread: because the ring was full, or because a signal handler or an allocator
    /// made them inside vor.
    pub dropped_spans: u64,
}

/// The arguments of one span.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpanArgs {
    /// Index of the span in its [`ThreadBatch`].
    pub span: u32,
    /// Values in the order of the call site's `arg_names`.
    pub values: Vec<ArgValue>,
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub enum ArgValue {
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A floating-point number; NaN payloads are kept.
    F64(f64),
    /// Text; what was longer than `vor_recorder::hot::args::MAX_STR_BYTES` is cut.
    Str(Arc<str>),
}

/// The text that tables and traces show: a string without quotes.
impl fmt::Display for ArgValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::I64(value) => value.fmt(f),
            Self::U64(value) => value.fmt(f),
            Self::F64(value) => value.fmt(f),
            Self::Str(value) => value.fmt(f),
        }
    }
}

/// A line of text at a moment of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// When it was written.
    pub ticks: u64,
    /// Its text.
    pub text: Arc<str>,
}

/// The whole life of an asynchronous task: from the first time it was polled to its completion, or
/// to its drop before that.
///
/// The times at which it was polled are ordinary spans of the same call site, on the threads that
/// polled it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AsyncSpan {
    /// Unique among the tasks of one process run.
    pub id: u64,
    /// Its call site.
    pub site: SiteId,
    /// When it was first polled.
    pub start_ticks: u64,
    /// Time from then to its end, waiting included.
    pub duration_ticks: u64,
}

impl AsyncSpan {
    /// Returns when it ended, in ticks.
    #[inline]
    #[must_use]
    pub fn end_ticks(&self) -> u64 {
        self.start_ticks.saturating_add(self.duration_ticks)
    }
}

/// Something that happened within an asynchronous task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskEvent {
    /// The task's [`AsyncSpan::id`]. The task itself comes when it has ended.
    pub task: u64,
    /// The step's call site for a step, the task's otherwise.
    pub site: SiteId,
    /// When it began.
    pub start_ticks: u64,
    /// The kind of event.
    pub kind: TaskEventKind,
}

/// The kind of a [`TaskEvent`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEventKind {
    /// The task came to a point that the program named.
    #[default]
    Step,
    /// The task was polled, for this long, on the thread of the event.
    Poll {
        /// How long, in ticks.
        duration_ticks: u64,
    },
    /// The task began, with the number that the program gave it. Only tasks that the program
    /// numbers have this event; others begin with their first poll.
    Begin {
        /// The program's number.
        given_id: u64,
    },
}

impl TaskEvent {
    /// Returns how long it took, in ticks; 0 for a moment.
    #[must_use]
    pub fn duration_ticks(&self) -> u64 {
        match self.kind {
            TaskEventKind::Poll { duration_ticks } => duration_ticks,
            TaskEventKind::Step | TaskEventKind::Begin { .. } => 0,
        }
    }

    /// Returns when it ended, in ticks.
    #[must_use]
    pub fn end_ticks(&self) -> u64 {
        self.start_ticks.saturating_add(self.duration_ticks())
    }
}

/// A point of a flow: something that goes from thread to thread passes the innermost scope that is
/// open on this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowPoint {
    /// When it passed.
    pub ticks: u64,
    /// Unique among the flows of one process run.
    pub flow: u64,
    /// The place of the point in its flow.
    pub stage: FlowStage,
}

/// The place of a [`FlowPoint`] in its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub enum FlowStage {
    /// The first.
    #[default]
    Begin,
    /// One between.
    Step,
    /// The last, one for each scope that receives what goes from thread to thread. All of them
    /// follow the last point of another stage.
    End,
}

impl ThreadBatch {
    /// Returns the number of spans, tasks left out.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.start_ticks.len()
    }

    /// Returns whether there is nothing, and no drop either.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.has_no_content() && self.dropped_spans == 0
    }

    /// Returns whether there is neither a span nor a message nor anything of a task or a flow.
    #[must_use]
    pub fn has_no_content(&self) -> bool {
        self.start_ticks.is_empty()
            && self.messages.is_empty()
            && self.async_spans.is_empty()
            && self.has_no_events()
    }

    /// Returns whether there is neither an event of a task nor a point of a flow.
    #[must_use]
    pub fn has_no_events(&self) -> bool {
        self.task_events.is_empty() && self.flows.is_empty()
    }

    /// Removes everything but the thread, and keeps the allocations.
    pub fn clear(&mut self) {
        self.start_ticks.clear();
        self.duration_ticks.clear();
        self.sites.clear();
        self.args.clear();
        self.messages.clear();
        self.async_spans.clear();
        self.task_events.clear();
        self.flows.clear();
        self.dropped_spans = 0;
    }

    /// Returns when span `i` ended, in ticks.
    ///
    /// # Panics
    ///
    /// Panics when `i` is not below [`len`](Self::len).
    #[inline]
    #[must_use]
    pub fn end_ticks(&self, i: usize) -> u64 {
        self.start_ticks[i].saturating_add(self.duration_ticks[i])
    }
}

impl SpanBatch {
    /// Returns the number of spans of all threads, tasks left out.
    #[must_use]
    pub fn span_count(&self) -> usize {
        self.threads.iter().map(ThreadBatch::len).sum()
    }

    /// Returns the number of events of tasks and points of flows of all threads.
    #[must_use]
    pub fn event_count(&self) -> usize {
        let of = |thread: &ThreadBatch| thread.task_events.len() + thread.flows.len();
        self.threads.iter().map(of).sum()
    }

    /// Returns the number of ended tasks of all threads.
    #[must_use]
    pub fn async_span_count(&self) -> usize {
        self.threads
            .iter()
            .map(|thread| thread.async_spans.len())
            .sum()
    }

    /// Returns whether no thread has anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.iter().all(ThreadBatch::is_empty)
    }
}
