//! A frame in the form that the store accepts.
//!
//! A [`FrameSnapshot`] holds its spans as trees of 40-byte nodes, in ticks. A block holds columns
//! per thread and depth, in nanoseconds: 16 bytes per span. The source of the frame builds it: the
//! drain's thread or the loader of a capture. The drawing thread only appends it.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use vor_capture::model::batch::{
    self, ArgValue, AsyncSpan, FlowStage, TaskEvent, TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, ThreadTree, TreeBuilder};
use vor_capture::model::timeline::TickMapper;

use super::depths;
use super::measured_args::MeasuredArgs;
use super::off_cpu::OffCpu;
use super::polls::Poll;
use super::row::Span;

/// A finished frame in columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameBlock {
    /// The frame without its spans.
    pub frame: FrameEntry,
    /// Resolves the ids in `threads` and in the frame's metrics.
    pub catalog: Arc<Catalog>,
    /// One entry per thread with data.
    pub threads: Vec<ThreadBlock>,
}

impl FrameBlock {
    /// Returns the begin of its first span or task; `i64::MAX` if it has none.
    pub(super) fn first_begin_ns(&self) -> i64 {
        let of = |thread: &ThreadBlock| {
            let rows = thread.rows.iter().filter_map(|row| row.begin_ns.first());
            let tasks = thread.tasks.iter().map(|task| &task.begin_ns);
            rows.chain(tasks).copied().min()
        };
        let firsts = self.threads.iter().filter_map(of);
        firsts.min().unwrap_or(i64::MAX)
    }
}

/// A frame without its spans. Times are nanoseconds since the store's origin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameEntry {
    /// Number of the frame within its set, as counted by the program.
    pub number: u64,
    /// Begin of the frame.
    pub begin_ns: i64,
    /// End of the frame.
    pub end_ns: i64,
    /// Number of spans that ended in the frame.
    pub span_count: u64,
    /// Number of delivered spans, as long as the store holds them.
    pub stored_spans: u64,
    /// Number of spans that were lost because a ring was full.
    pub dropped_spans: u64,
    /// Number of marks that came too fast and were merged into this frame.
    pub merged_marks: u64,
    /// Number of its records that are missing in a damaged capture.
    pub lost_records: u64,
    /// Its metrics, in ascending order of columns.
    pub metrics: Vec<MetricValue>,
}

impl FrameEntry {
    /// Returns its duration in milliseconds; NaN if its record was lost, so that nothing is known.
    #[must_use]
    pub fn duration_ms(&self) -> f64 {
        match self.is_lost() {
            true => f64::NAN,
            false => self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e6,
        }
    }

    /// Returns whether its record was lost: it is only a place between its neighbours.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost_records > 0 && self.begin_ns == self.end_ns
    }

    /// Returns the value of a column, if the frame has it.
    #[must_use]
    pub fn metric(&self, column: u32) -> Option<f64> {
        let at = self
            .metrics
            .binary_search_by_key(&column, |value| value.column);
        Some(self.metrics.get(at.ok()?)?.value)
    }
}

/// One thread's share of a block.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ThreadBlock {
    /// The thread that recorded.
    pub thread: ThreadId,
    /// Its spans by depth, the outermost first.
    pub rows: Vec<RowBlock>,
    /// Its messages, in time order.
    pub messages: Vec<Message>,
    /// The tasks that ended on it, in the order of their ends.
    pub tasks: Vec<Task>,
    /// The named steps within tasks, in time order.
    pub steps: Vec<Step>,
    /// The tasks that began on it and have a number from the program.
    pub begins: Vec<TaskBegin>,
    /// The polls that ended on it.
    pub polls: Vec<Poll>,
    /// The points of flows, in time order.
    pub flows: Vec<FlowPoint>,
}

/// A text at a moment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Message {
    /// Time of the message.
    pub ns: i64,
    /// Text of the message.
    pub text: Arc<str>,
}

/// A moment at which something that goes from thread to thread passes a span.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct FlowPoint {
    /// The flow's id.
    pub flow: u64,
    /// Time of the point.
    pub ns: i64,
    /// The place of the point in its flow.
    pub stage: FlowStage,
}

/// An asynchronous task from begin to end.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Task {
    /// Unique among the tasks of the run.
    pub id: u64,
    /// Its call site.
    pub site: SiteId,
    /// Begin of the task.
    pub begin_ns: i64,
    /// Duration of the task.
    pub duration_ns: u64,
}

/// The begin of a task that has a number from the program.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct TaskBegin {
    /// The task's id.
    pub task: u64,
    /// The number that the program gave it.
    pub given_id: u64,
}

/// A named point within a task.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Step {
    /// The task's id.
    pub task: u64,
    /// Its name.
    pub site: SiteId,
    /// Time of the step.
    pub ns: i64,
}

/// Spans of one thread at one depth, ascending and without overlap. The columns have equal length.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct RowBlock {
    /// The begin of each span.
    pub begin_ns: Vec<i64>,
    /// The duration of each span; `u32::MAX` if it is in `long_ns`.
    pub duration_ns: Vec<u32>,
    /// The call site of each span.
    pub sites: Vec<SiteId>,
    /// Durations of at least `u32::MAX`, with the index of their span, ascending.
    pub long_ns: Vec<(u32, u64)>,
    /// Arguments of the spans that have any, with the index of their span, ascending.
    pub args: Vec<(u32, Box<[ArgValue]>)>,
    /// The states of the spans that did not run for most of their time, with the index of their
    /// span, ascending.
    pub off_cpu: Vec<(u32, OffCpu)>,
}

impl RowBlock {
    fn with_capacity(spans: usize) -> Self {
        Self {
            begin_ns: Vec::with_capacity(spans),
            duration_ns: Vec::with_capacity(spans),
            sites: Vec::with_capacity(spans),
            ..Self::default()
        }
    }

    /// Returns the number of spans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.begin_ns.len()
    }

    /// Returns whether there are no spans.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.begin_ns.is_empty()
    }

    /// Appends a span with arguments.
    fn push_with(&mut self, span: &Span, args: &[ArgValue], sites: &mut SiteReader<'_>) {
        if !args.is_empty() {
            let at = self.len() as u32;
            self.args.push((at, args.into()));
            let state = sites.measured.off_cpu(sites.catalog, span, args);
            self.off_cpu.extend(state.map(|state| (at, state)));
        }
        self.push(span.begin_ns, span.duration_ns, span.site);
    }

    /// Appends a span.
    #[inline]
    pub fn push(&mut self, begin_ns: i64, duration_ns: u64, site: SiteId) {
        let short = u32::try_from(duration_ns).unwrap_or(u32::MAX);
        if short == u32::MAX {
            self.long_ns.push((self.len() as u32, duration_ns));
        }
        self.begin_ns.push(begin_ns);
        self.duration_ns.push(short);
        self.sites.push(site);
    }

    /// Sorts the spans by begin. Only spans of a damaged capture can be unsorted.
    fn sort(&mut self) {
        if self.begin_ns.is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|&i| self.begin_ns[i]);
        let unsorted = std::mem::take(self);
        let mut long_ns: FxHashMap<u32, u64> = unsorted.long_ns.into_iter().collect();
        let mut args: FxHashMap<u32, Box<[ArgValue]>> = unsorted.args.into_iter().collect();
        let off_cpu: FxHashMap<u32, OffCpu> = unsorted.off_cpu.into_iter().collect();
        for i in order {
            let short = unsorted.duration_ns[i];
            if let Some(args) = args.remove(&(i as u32)) {
                self.args.push((self.len() as u32, args));
            }
            if let Some(state) = off_cpu.get(&(i as u32)) {
                self.off_cpu.push((self.len() as u32, *state));
            }
            let duration_ns = long_ns.remove(&(i as u32)).unwrap_or(u64::from(short));
            self.push(unsorted.begin_ns[i], duration_ns, unsorted.sites[i]);
        }
    }
}

impl FrameBlock {
    /// Makes a block of a frame. `origin_ns` is the origin of the store's times, in nanoseconds
    /// since 1970.
    #[must_use]
    pub fn new(snapshot: &FrameSnapshot, origin_ns: i64) -> Self {
        Self::of_batches(snapshot, Vec::new(), origin_ns)
    }

    /// Makes a block of a frame with spans in its trees or in batches; batches take less time.
    pub(crate) fn of_batches(
        snapshot: &FrameSnapshot,
        mut batches: Vec<ThreadBatch>,
        origin_ns: i64,
    ) -> Self {
        let mut clock = Clock::new(TickMapper::new(&snapshot.catalog.timeline), origin_ns);
        let held = |tree: &ThreadTree| tree.spans.len() as u64;
        let in_batches = batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
        let frame = FrameEntry {
            number: snapshot.index,
            begin_ns: clock.ns(snapshot.start_ticks),
            end_ns: clock.ns(snapshot.end_ticks),
            span_count: snapshot.span_count,
            stored_spans: snapshot.threads.iter().map(held).sum::<u64>() + in_batches,
            dropped_spans: snapshot.dropped_spans,
            merged_marks: snapshot.merged_marks,
            lost_records: 0,
            metrics: snapshot.metrics.clone(),
        };
        let mut sites = SiteReader {
            catalog: &snapshot.catalog,
            measured: MeasuredArgs::default(),
        };
        let trees = snapshot
            .threads
            .iter()
            .map(|tree| thread_block(tree, &mut clock, &mut sites));
        let mut threads: Vec<ThreadBlock> = trees.collect();
        batches.sort_by_key(|batch| batch.thread);
        let mut depths = Vec::new();
        for batches in batches.chunk_by(|one, other| one.thread == other.thread) {
            let block = match depths::find(batches, &mut depths) {
                Some(rows) => block_of_columns(batches, &depths, rows, &mut clock, &mut sites),
                None => block_of_tree(batches, &mut clock, &mut sites),
            };
            threads.extend(block);
        }
        Self {
            frame,
            threads,
            catalog: Arc::clone(&snapshot.catalog),
        }
    }
}

/// Reads the measured values of spans.
struct SiteReader<'a> {
    catalog: &'a Catalog,
    measured: MeasuredArgs,
}

/// Converts ticks to the store's time.
pub(crate) struct Clock<'a> {
    mapper: TickMapper<'a>,
    origin_ns: i64,
}

impl<'a> Clock<'a> {
    pub(crate) fn new(mapper: TickMapper<'a>, origin_ns: i64) -> Self {
        Self { mapper, origin_ns }
    }
}

impl Clock<'_> {
    #[inline]
    pub(crate) fn ns(&mut self, ticks: u64) -> i64 {
        // The ticks of a damaged capture may have any value.
        self.mapper.unix_ns(ticks).saturating_sub(self.origin_ns)
    }

    /// Returns begin and duration.
    #[inline]
    pub(crate) fn span(&mut self, start_ticks: u64, end_ticks: u64) -> (i64, u64) {
        let begin = self.ns(start_ticks);
        let end = self.ns(end_ticks);
        (begin, u64::try_from(end.saturating_sub(begin)).unwrap_or(0))
    }
}

fn thread_block(
    tree: &ThreadTree,
    clock: &mut Clock<'_>,
    sites: &mut SiteReader<'_>,
) -> ThreadBlock {
    let mut rows: Vec<RowBlock> = Vec::new();
    for span in &tree.spans {
        let depth = span.depth as usize;
        if depth >= rows.len() {
            // Depths of a tree in pre-order grow by one at most.
            rows.push(RowBlock::default());
        }
        let Some(row) = rows.get_mut(depth) else {
            continue;
        };
        let (begin_ns, duration_ns) = clock.span(span.start_ticks, span.end_ticks());
        let made = Span {
            begin_ns,
            duration_ns,
            site: span.site,
        };
        row.push_with(&made, tree.args(span), sites);
    }
    rows.iter_mut().for_each(RowBlock::sort);
    let mut block = ThreadBlock {
        thread: tree.thread,
        rows,
        ..ThreadBlock::default()
    };
    block.add_moments(&tree.messages, &tree.async_spans, &tree.task_events, clock);
    block.add_flows(&tree.flows, clock);
    block
}

/// Makes the block of a thread with unusually nested spans, with the help of a tree.
fn block_of_tree(
    batches: &[ThreadBatch],
    clock: &mut Clock<'_>,
    sites: &mut SiteReader<'_>,
) -> Option<ThreadBlock> {
    let mut builder = TreeBuilder::new(usize::MAX);
    batches.iter().for_each(|batch| builder.add(batch));
    let trees = builder.finish();
    trees
        .threads
        .first()
        .map(|tree| thread_block(tree, clock, sites))
}

/// Makes the block of a thread from spans with known depths; `None` if the thread has no data.
/// Spans of one depth begin in the same order as they end.
fn block_of_columns(
    batches: &[ThreadBatch],
    depths: &[u8],
    rows: usize,
    clock: &mut Clock<'_>,
    sites: &mut SiteReader<'_>,
) -> Option<ThreadBlock> {
    let mut counts = [0_usize; 1 << u8::BITS];
    depths
        .iter()
        .for_each(|&depth| counts[usize::from(depth)] += 1);
    let mut block = ThreadBlock {
        thread: batches.first()?.thread,
        rows: counts
            .iter()
            .take(rows)
            .map(|&count| RowBlock::with_capacity(count))
            .collect(),
        ..ThreadBlock::default()
    };
    let mut depths = depths.iter();
    let mut has_content = false;
    for batch in batches {
        has_content |= !batch.has_no_content();
        let mut args = batch.args.iter().peekable();
        let columns = batch
            .start_ticks
            .iter()
            .zip(&batch.duration_ticks)
            .zip(&batch.sites);
        for (i, (((&start_ticks, &duration_ticks), &site), &depth)) in
            columns.zip(&mut depths).enumerate()
        {
            let Some(row) = block.rows.get_mut(usize::from(depth)) else {
                continue;
            };
            let end_ticks = start_ticks.saturating_add(duration_ticks);
            let (begin_ns, duration_ns) = clock.span(start_ticks, end_ticks);
            let Some(args) = args.next_if(|args| args.span as usize == i) else {
                row.push(begin_ns, duration_ns, site);
                continue;
            };
            let span = Span {
                begin_ns,
                duration_ns,
                site,
            };
            row.push_with(&span, &args.values, sites);
        }
        block.add_moments(
            &batch.messages,
            &batch.async_spans,
            &batch.task_events,
            clock,
        );
        block.add_flows(&batch.flows, clock);
    }
    block.rows.iter_mut().for_each(RowBlock::sort);
    has_content.then_some(block)
}

impl ThreadBlock {
    /// Returns whether there is nothing for a track of scopes.
    pub(super) fn has_no_scopes(&self) -> bool {
        self.rows.is_empty() && self.messages.is_empty() && self.flows.is_empty()
    }

    fn add_flows(&mut self, flows: &[batch::FlowPoint], clock: &mut Clock<'_>) {
        self.flows.extend(flows.iter().map(|point| FlowPoint {
            flow: point.flow,
            ns: clock.ns(point.ticks),
            stage: point.stage,
        }));
    }

    /// Appends messages, tasks, and the events of tasks.
    fn add_moments(
        &mut self,
        messages: &[batch::Message],
        tasks: &[AsyncSpan],
        events: &[TaskEvent],
        clock: &mut Clock<'_>,
    ) {
        self.messages.extend(messages.iter().map(|message| Message {
            ns: clock.ns(message.ticks),
            text: Arc::clone(&message.text),
        }));
        self.tasks.extend(tasks.iter().map(|task| {
            let (begin_ns, duration_ns) = clock.span(task.start_ticks, task.end_ticks());
            Task {
                id: task.id,
                site: task.site,
                begin_ns,
                duration_ns,
            }
        }));
        for event in events {
            let task = event.task;
            match event.kind {
                TaskEventKind::Step => self.steps.push(Step {
                    task,
                    site: event.site,
                    ns: clock.ns(event.start_ticks),
                }),
                TaskEventKind::Begin { given_id } => self.begins.push(TaskBegin { task, given_id }),
                TaskEventKind::Poll { .. } => {
                    let (begin_ns, duration_ns) = clock.span(event.start_ticks, event.end_ticks());
                    self.polls.push(Poll {
                        task,
                        begin_ns,
                        duration_ns,
                    });
                }
                _ => {}
            }
        }
    }
}
