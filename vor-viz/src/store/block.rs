//! A frame in the form in which the store takes it.
//!
//! A [`FrameSnapshot`] holds its spans as trees of 40-byte nodes, in ticks. A block holds columns
//! per thread and depth, in nanoseconds: 16 bytes a span. It is made where the frame comes from
//! (the drain's thread, the loader of a capture), so that the thread that draws has only to append.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::model::batch::{self, ArgValue, AsyncSpan, TaskEvent, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, ThreadTree, TreeBuilder};
use vor_capture::model::measures::Measured;
use vor_capture::model::timeline::TickMapper;

use super::depths;
use super::frame_sums::FrameSums;

/// A finished frame in columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameBlock {
    /// What is known of the frame beside its spans.
    pub frame: FrameEntry,
    /// Resolves the ids in `threads` and in the frame's metrics.
    pub catalog: Arc<Catalog>,
    /// One entry per thread with something to show.
    pub threads: Vec<ThreadBlock>,
}

/// A frame without its spans. Times are nanoseconds since the store's origin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameEntry {
    /// Number of the frame within its set, as the program counts.
    pub number: u64,
    /// When it began.
    pub begin_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// Spans that ended in it.
    pub span_count: u64,
    /// Spans of it that were delivered, as long as the store keeps them.
    pub stored_spans: u64,
    /// Spans that were lost in it because a ring was full.
    pub dropped_spans: u64,
    /// Marks that came too fast and were merged into it.
    pub merged_marks: u64,
    /// Records of a damaged capture that are missing of it.
    pub lost_records: u64,
    /// Its metrics, by column, ascending.
    pub metrics: Vec<MetricValue>,
    /// What its scopes measured beside their length, with all inside them: sums per call site,
    /// ascending.
    pub measured: Vec<(SiteId, Measured)>,
}

impl FrameEntry {
    /// Returns how long it took, in milliseconds.
    #[must_use]
    pub fn duration_ms(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e6
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadBlock {
    /// The thread that recorded.
    pub thread: ThreadId,
    /// Its spans by depth, the outermost first.
    pub rows: Vec<RowBlock>,
    /// Its messages, ascending by time.
    pub messages: Vec<Message>,
    /// Tasks that ended on it, ascending by their end.
    pub tasks: Vec<Task>,
    /// Points that the program named within tasks, ascending by time.
    pub steps: Vec<Step>,
    /// Tasks that began on it with a number of the program.
    pub begins: Vec<TaskBegin>,
}

/// A line of text at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// When it was written.
    pub ns: i64,
    /// What it says.
    pub text: Arc<str>,
}

/// The whole life of an asynchronous task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// Unique among the tasks of the run.
    pub id: u64,
    /// Its call site.
    pub site: SiteId,
    /// When it began.
    pub begin_ns: i64,
    /// How long it lived.
    pub duration_ns: u64,
}

/// The begin of a task that the program numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskBegin {
    /// The task's id.
    pub task: u64,
    /// The number that the program gave it.
    pub given_id: u64,
}

/// A named point within a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The task's id.
    pub task: u64,
    /// Its name.
    pub site: SiteId,
    /// When it was reached.
    pub ns: i64,
}

/// Spans of one thread at one depth, ascending; they do not overlap. The columns have equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowBlock {
    /// When each began.
    pub begin_ns: Vec<i64>,
    /// The duration of each; `u32::MAX` if it is in `long_ns`.
    pub duration_ns: Vec<u32>,
    /// The call site of each.
    pub sites: Vec<SiteId>,
    /// Lengths of `u32::MAX` and more, with the index of their span, ascending.
    pub long_ns: Vec<(u32, u64)>,
    /// Arguments of the spans that have some, with the index of their span, ascending.
    pub args: Vec<(u32, Box<[ArgValue]>)>,
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

    /// Returns whether there is no span.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.begin_ns.is_empty()
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

    /// Sorts the spans by begin. They are sorted already, except those of a damaged capture.
    fn put_in_order(&mut self) {
        if self.begin_ns.is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|&i| self.begin_ns[i]);
        let unsorted = std::mem::take(self);
        let mut long_ns: FxHashMap<u32, u64> = unsorted.long_ns.into_iter().collect();
        let mut args: FxHashMap<u32, Box<[ArgValue]>> = unsorted.args.into_iter().collect();
        for i in order {
            let short = unsorted.duration_ns[i];
            if let Some(args) = args.remove(&(i as u32)) {
                self.args.push((self.len() as u32, args));
            }
            let duration_ns = long_ns.remove(&(i as u32)).unwrap_or(u64::from(short));
            self.push(unsorted.begin_ns[i], duration_ns, unsorted.sites[i]);
        }
    }
}

impl FrameBlock {
    /// Makes a block of a frame. `origin_ns` is what the store's times count from, in nanoseconds
    /// since 1970.
    #[must_use]
    pub fn new(snapshot: &FrameSnapshot, origin_ns: i64) -> Self {
        Self::of_batches(snapshot, Vec::new(), origin_ns)
    }

    /// Makes a block of a frame whose spans are in its trees or in batches, which takes less time.
    pub(crate) fn of_batches(
        snapshot: &FrameSnapshot,
        mut batches: Vec<ThreadBatch>,
        origin_ns: i64,
    ) -> Self {
        let mut clock = Clock {
            mapper: TickMapper::new(&snapshot.catalog.timeline),
            origin_ns,
        };
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
            measured: measured(snapshot, &batches),
        };
        let trees = snapshot
            .threads
            .iter()
            .map(|tree| thread_block(tree, &mut clock));
        let mut threads: Vec<ThreadBlock> = trees.collect();
        batches.sort_by_key(|batch| batch.thread);
        let mut depths = Vec::new();
        for batches in batches.chunk_by(|one, other| one.thread == other.thread) {
            let block = match depths::find(batches, &mut depths) {
                Some(rows) => block_of_columns(batches, &depths, rows, &mut clock),
                None => block_of_tree(batches, &mut clock),
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

/// Ticks to the store's time.
struct Clock<'a> {
    mapper: TickMapper<'a>,
    origin_ns: i64,
}

impl Clock<'_> {
    #[inline]
    fn ns(&mut self, ticks: u64) -> i64 {
        // The ticks of a damaged capture may lie anywhere.
        self.mapper.unix_ns(ticks).saturating_sub(self.origin_ns)
    }

    /// Returns begin and length.
    #[inline]
    fn span(&mut self, start_ticks: u64, end_ticks: u64) -> (i64, u64) {
        let begin = self.ns(start_ticks);
        let end = self.ns(end_ticks);
        (begin, u64::try_from(end.saturating_sub(begin)).unwrap_or(0))
    }
}

/// Returns what the scopes of a frame measured, whose spans are in its trees or in batches.
fn measured(snapshot: &FrameSnapshot, batches: &[ThreadBatch]) -> Vec<(SiteId, Measured)> {
    let mut sums = FrameSums::new(&snapshot.catalog);
    for tree in snapshot
        .threads
        .iter()
        .filter(|tree| !tree.arg_values.is_empty())
    {
        sums.begin_thread();
        // From the last to the first, what is inside a span comes before it.
        for span in tree.spans.iter().rev() {
            let ticks = span.start_ticks..span.end_ticks();
            sums.add(span.site, ticks, tree.args(span));
        }
    }
    let mut thread = None;
    for batch in batches {
        if thread.replace(batch.thread) != Some(batch.thread) {
            sums.begin_thread();
        }
        for args in &batch.args {
            let at = args.span as usize;
            if at < batch.len() {
                let ticks = batch.start_ticks[at]..batch.end_ticks(at);
                sums.add(batch.sites[at], ticks, &args.values);
            }
        }
    }
    sums.finish()
}

fn thread_block(tree: &ThreadTree, clock: &mut Clock<'_>) -> ThreadBlock {
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
        let args = tree.args(span);
        if !args.is_empty() {
            row.args.push((row.len() as u32, args.into()));
        }
        row.push(begin_ns, duration_ns, span.site);
    }
    rows.iter_mut().for_each(RowBlock::put_in_order);
    let mut block = ThreadBlock {
        thread: tree.thread,
        rows,
        ..ThreadBlock::default()
    };
    block.add_moments(&tree.messages, &tree.async_spans, &tree.task_events, clock);
    block
}

/// Makes the block of a thread whose spans are nested in some unusual way, by way of a tree.
fn block_of_tree(batches: &[ThreadBatch], clock: &mut Clock<'_>) -> Option<ThreadBlock> {
    let mut builder = TreeBuilder::new(usize::MAX);
    batches.iter().for_each(|batch| builder.add(batch));
    let trees = builder.finish();
    trees.threads.first().map(|tree| thread_block(tree, clock))
}

/// Makes the block of a thread of whose spans the depths are known; none, when there is nothing to
/// show. Spans that ended one after the other began so too, as long as they are of one depth.
fn block_of_columns(
    batches: &[ThreadBatch],
    depths: &[u8],
    rows: usize,
    clock: &mut Clock<'_>,
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
            if let Some(args) = args.next_if(|args| args.span as usize == i)
                && !args.values.is_empty()
            {
                row.args
                    .push((row.len() as u32, args.values.as_slice().into()));
            }
            row.push(begin_ns, duration_ns, site);
        }
        block.add_moments(
            &batch.messages,
            &batch.async_spans,
            &batch.task_events,
            clock,
        );
    }
    block.rows.iter_mut().for_each(RowBlock::put_in_order);
    has_content.then_some(block)
}

impl ThreadBlock {
    /// Appends the data beside the spans.
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
        let steps = events
            .iter()
            .filter(|event| event.kind == TaskEventKind::Step);
        self.steps.extend(steps.map(|event| Step {
            task: event.task,
            site: event.site,
            ns: clock.ns(event.start_ticks),
        }));
        self.begins
            .extend(events.iter().filter_map(|event| match event.kind {
                TaskEventKind::Begin { given_id } => Some(TaskBegin {
                    task: event.task,
                    given_id,
                }),
                _ => None,
            }));
    }
}
