//! The contents of a capture as columns in memory: for programs that query a whole recording, or
//! many of its frames, at once.
//!
//! Rows are in the order of the file: batch by batch, thread by thread, and of each thread in the
//! order in which its scopes ended. Neighbouring rows of one thread and frame are a [`Run`], so
//! neither is stored for each row. A row needs more than the span itself:
//!
//! - *Self time.* The same as in statistics, in whichever frame the spans inside it ended.
//! - *Depth.* The number of spans around it that ended in the same frame. Backwards, a thread's
//!   spans come parents first, and of two spans the later one contains the earlier one if it
//!   started no later. So one stack of starts suffices: a span that started after another one is
//!   not its parent, nor a parent of those before it.
//!
//! ```text
//! from the last span of the frame to the first:
//!     while the top of the stack started after it: pop it
//!     its depth is the height of the stack
//!     push its start
//! ```

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::model::batch::{ArgValue, SpanBatch, TaskEventKind};
use crate::model::catalog::{SiteId, ThreadId};
use crate::stats::SpanTimer;

/// The spans, tasks and messages of a capture or of some of its frames; `sites`, `depths`,
/// `start_ns`, `dur_ns` and `self_ns` have an entry per span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// The thread and frame of the rows, in their order.
    pub runs: Vec<Run>,
    /// Call sites, as the numbers of their [`SiteId`]s.
    pub sites: Vec<u32>,
    /// Number of spans around each that ended in the same frame, or after the last one.
    pub depths: Vec<u32>,
    /// When each began, in nanoseconds since 1970.
    pub start_ns: Vec<i64>,
    /// How long each lasted, in nanoseconds.
    pub dur_ns: Vec<i64>,
    /// How long each lasted without the spans directly inside it, in nanoseconds.
    pub self_ns: Vec<i64>,
    /// Arguments of the spans that have some, ascending by row.
    pub args: Vec<ArgsRow>,
    /// Tasks, as they ended.
    pub tasks: Vec<TaskRow>,
    /// Messages, of each thread ascending by time.
    pub messages: Vec<MessageRow>,
    /// Number of spans whose self time is an estimate; the sum of all is exact.
    pub estimated_self_times: u64,
}

/// Neighbouring rows of one thread and frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many rows these are.
    pub rows: usize,
    /// The thread that recorded them.
    pub thread: ThreadId,
    /// Number of the frame in which they ended; `None` after the last frame.
    pub frame: Option<u64>,
}

/// The arguments of a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArgsRow {
    /// The span's row.
    pub row: usize,
    /// Values in the order of the call site's names.
    pub values: Vec<ArgValue>,
}

/// The whole life of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRow {
    /// The thread on which it ended.
    pub thread: ThreadId,
    /// Number of the frame in which it ended; `None` after the last frame.
    pub frame: Option<u64>,
    /// Unique among the tasks of the run.
    pub id: u64,
    /// Its call site.
    pub site: SiteId,
    /// When it began, in nanoseconds since 1970.
    pub start_ns: i64,
    /// How long it lasted, waiting included, in nanoseconds.
    pub dur_ns: i64,
    /// How often it was polled, or a coroutine resumed; 0 if that was not recorded.
    pub polls: u64,
    /// How long these polls lasted together, in nanoseconds. In the rest of the time it waited.
    pub busy_ns: i64,
}

/// A line of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageRow {
    /// The thread that wrote it.
    pub thread: ThreadId,
    /// Number of the frame in which it was written; `None` after the last frame.
    pub frame: Option<u64>,
    /// When it was written, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Its text.
    pub text: Arc<str>,
}

/// Builds [`Columns`] from batches and the ends of frames.
///
/// # Examples
///
/// ```
/// use vor_capture::filled;
/// use vor_capture::model::batch::{SpanBatch, ThreadBatch};
/// use vor_capture::model::catalog::SiteId;
/// use vor_capture::reader::ColumnsBuilder;
///
/// // A span of 100 ns around one of 30 ns, which ended first.
/// let thread = filled!(ThreadBatch {
///     start_ticks: vec![1_020, 1_000],
///     duration_ticks: vec![30, 100],
///     sites: vec![SiteId(2), SiteId(1)],
/// });
/// let mut builder = ColumnsBuilder::with_room(2);
/// builder.add_batch(filled!(SpanBatch { threads: vec![thread] }));
/// builder.end_frame(7);
/// let columns = builder.finish();
/// assert_eq!(columns.self_ns, [30, 70]);
/// assert_eq!(columns.depths, [1, 0]);
/// assert_eq!(columns.runs[0].frame, Some(7));
/// ```
#[derive(Debug, Default)]
pub struct ColumnsBuilder {
    columns: Columns,
    measure: SpanTimer,
    frame: FrameBegin,
    /// Starts of the spans of the current frame.
    start_ticks: Vec<u64>,
    /// Polls by task. They may come from another thread than the task's end, and after it.
    polls: FxHashMap<u64, Polls>,
    /// Starts of the spans around the current one, for each thread of that frame; empty between
    /// frames.
    around: FxHashMap<ThreadId, Vec<u64>>,
}

/// The polls of a task so far.
#[derive(Clone, Copy, Debug, Default)]
struct Polls {
    count: u64,
    busy_ns: i64,
}

/// Where the current frame begins in each column.
#[derive(Clone, Copy, Debug, Default)]
struct FrameBegin {
    runs: usize,
    rows: usize,
    args: usize,
    tasks: usize,
    messages: usize,
}

impl ColumnsBuilder {
    /// Makes a builder with capacity for `spans` spans; it takes more as well.
    #[must_use]
    pub fn with_room(spans: usize) -> Self {
        Self::with_columns(Columns {
            sites: Vec::with_capacity(spans),
            depths: Vec::with_capacity(spans),
            start_ns: Vec::with_capacity(spans),
            dur_ns: Vec::with_capacity(spans),
            self_ns: Vec::with_capacity(spans),
            ..Columns::default()
        })
    }

    /// Makes a builder that fills these empty columns, for a caller that has allocated them.
    #[must_use]
    pub fn with_columns(columns: Columns) -> Self {
        Self {
            columns,
            ..Self::default()
        }
    }

    /// Adds a batch of the current frame. The batches of a thread must come in their order.
    pub fn add_batch(&mut self, batch: SpanBatch) {
        let catalog = batch.catalog;
        for thread in batch.threads {
            let columns = &mut self.columns;
            let first = columns.sites.len();
            let times = self.measure.batch(&catalog.timeline, &thread);
            columns
                .start_ns
                .extend(times.iter().map(|times| times.start_unix_ns));
            columns
                .dur_ns
                .extend(times.iter().map(|times| saturated(times.total_ns)));
            columns
                .self_ns
                .extend(times.iter().map(|times| saturated(times.self_ns)));
            columns.sites.extend(thread.sites.iter().map(|site| site.0));
            self.start_ticks.extend_from_slice(&thread.start_ticks);
            if !thread.sites.is_empty() {
                let runs = columns.runs.len();
                match columns.runs.last_mut() {
                    Some(run) if run.thread == thread.thread && runs > self.frame.runs => {
                        run.rows += thread.len()
                    }
                    _ => columns.runs.push(Run {
                        rows: thread.len(),
                        thread: thread.thread,
                        frame: None,
                    }),
                }
            }
            let args = thread.args.into_iter().map(|args| ArgsRow {
                row: first + args.span as usize,
                values: args.values,
            });
            columns.args.extend(args);
            for event in &thread.task_events {
                if let TaskEventKind::Poll { duration_ticks } = event.kind {
                    let timeline = &catalog.timeline;
                    let polls = self.polls.entry(event.task).or_default();
                    polls.count += 1;
                    let busy_ns =
                        saturated(timeline.duration_ns(event.start_ticks, duration_ticks));
                    polls.busy_ns = polls.busy_ns.saturating_add(busy_ns);
                }
            }
            columns.tasks.extend(thread.async_spans.iter().map(|task| {
                TaskRow {
                    thread: thread.thread,
                    frame: None,
                    id: task.id,
                    site: task.site,
                    start_ns: catalog.unix_ns(task.start_ticks),
                    dur_ns: saturated(
                        catalog
                            .timeline
                            .duration_ns(task.start_ticks, task.duration_ticks),
                    ),
                    polls: 0,
                    busy_ns: 0,
                }
            }));
            columns
                .messages
                .extend(thread.messages.into_iter().map(|message| MessageRow {
                    thread: thread.thread,
                    frame: None,
                    time_ns: catalog.unix_ns(message.ticks),
                    text: message.text,
                }));
        }
    }

    /// Ends the current frame, which has this number.
    pub fn end_frame(&mut self, number: u64) {
        self.number_depths();
        let (columns, frame) = (&mut self.columns, self.frame);
        columns.runs[frame.runs..]
            .iter_mut()
            .for_each(|run| run.frame = Some(number));
        columns.tasks[frame.tasks..]
            .iter_mut()
            .for_each(|task| task.frame = Some(number));
        columns.messages[frame.messages..]
            .iter_mut()
            .for_each(|message| message.frame = Some(number));
        self.begin_frame();
    }

    /// Drops the rows of the current frame, and begins the next one. Spans inside a scope that is
    /// still open are remembered, so that its self time is right.
    pub fn skip_frame(&mut self) {
        let (columns, frame) = (&mut self.columns, self.frame);
        columns.runs.truncate(frame.runs);
        columns.sites.truncate(frame.rows);
        columns.start_ns.truncate(frame.rows);
        columns.dur_ns.truncate(frame.rows);
        columns.self_ns.truncate(frame.rows);
        columns.args.truncate(frame.args);
        columns.tasks.truncate(frame.tasks);
        columns.messages.truncate(frame.messages);
        self.begin_frame();
    }

    /// Returns the number of spans so far.
    #[must_use]
    pub fn span_count(&self) -> usize {
        self.columns.sites.len()
    }

    /// Returns the columns. Spans that ended after the last frame have no frame.
    #[must_use]
    pub fn finish(mut self) -> Columns {
        self.number_depths();
        self.columns.estimated_self_times = self.measure.estimated_self_times();
        for task in &mut self.columns.tasks {
            let polls = self.polls.get(&task.id).copied().unwrap_or_default();
            (task.polls, task.busy_ns) = (polls.count, polls.busy_ns);
        }
        self.columns
    }

    fn begin_frame(&mut self) {
        let columns = &self.columns;
        self.frame = FrameBegin {
            runs: columns.runs.len(),
            rows: columns.sites.len(),
            args: columns.args.len(),
            tasks: columns.tasks.len(),
            messages: columns.messages.len(),
        };
        self.start_ticks.clear();
    }

    /// Numbers the depths of the spans of the current frame, as the module says.
    fn number_depths(&mut self) {
        let columns = &mut self.columns;
        columns.depths.resize(columns.sites.len(), 0);
        let mut depths = &mut columns.depths[self.frame.rows..];
        let mut starts = &self.start_ticks[..];
        for run in columns.runs[self.frame.runs..].iter().rev() {
            let around = self.around.entry(run.thread).or_default();
            let begin = depths.len().saturating_sub(run.rows);
            let (depths_before, run_depths) = depths.split_at_mut(begin);
            let (starts_before, run_starts) = starts.split_at(begin);
            for (depth, &start_ticks) in run_depths.iter_mut().zip(run_starts).rev() {
                while around.last().is_some_and(|&around| around > start_ticks) {
                    around.pop();
                }
                *depth = around.len() as u32;
                around.push(start_ticks);
            }
            (depths, starts) = (depths_before, starts_before);
        }
        // Threads come and go, so those of one frame are dropped.
        self.around.clear();
    }
}

fn saturated(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
