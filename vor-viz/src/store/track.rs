//! Rows of spans under one name: the scopes of a thread, or the tasks that ended on it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{SiteId, ThreadId};

use super::block::{FlowPoint, Message, RowBlock, Step, Task, TaskBegin, ThreadBlock};
use super::row::{Row, Span};

/// Maximum number of task lanes per thread. Tasks beyond it are only counted.
const MAX_LANES: usize = 256;

/// Maximum number of open tasks with a known number.
const MAX_NUMBERED: usize = 1 << 18;

/// The kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKind {
    /// The scopes of a thread, one row per depth.
    Scopes,
    /// Asynchronous tasks that ended on a thread, one row per lane.
    Tasks,
}

/// Rows of one thread and kind, the outermost first.
#[derive(Clone, Debug)]
pub struct Track {
    /// The kind of the rows.
    pub kind: TrackKind,
    /// The thread of the rows.
    pub thread: ThreadId,
    /// The rows. In a track of scopes, the spans below a span in the next row are inside it.
    pub rows: Vec<Row>,
    /// Messages, in a track of scopes.
    pub messages: VecDeque<Message>,
    /// Steps of tasks, in a track of tasks.
    pub steps: VecDeque<Step>,
    /// Points of flows, in a track of scopes.
    pub flows: VecDeque<FlowPoint>,
    /// Number of tasks without a lane.
    pub hidden_tasks: u64,
}

impl Track {
    pub(super) fn new(kind: TrackKind, thread: ThreadId) -> Self {
        Self {
            kind,
            thread,
            rows: Vec::new(),
            messages: VecDeque::new(),
            steps: VecDeque::new(),
            flows: VecDeque::new(),
            hidden_tasks: 0,
        }
    }

    /// Appends a frame's spans. If a span contains spans of earlier frames, these move down a row.
    pub(super) fn add_scopes(&mut self, block: &ThreadBlock) {
        for (depth, spans) in block.rows.iter().enumerate() {
            let Some(&begin_ns) = spans.begin_ns.first() else {
                continue;
            };
            if depth >= self.rows.len() {
                // A block made by hand may have empty rows above others.
                self.rows.resize_with(depth + 1, Row::default);
            }
            if begin_ns < self.rows[depth].end_ns() {
                self.move_down(depth, begin_ns);
            }
            self.rows[depth].extend(spans);
        }
        self.messages.extend(block.messages.iter().cloned());
        self.flows.extend(&block.flows);
    }

    /// Moves all spans in row `depth` or below that began at `begin_ns` or later, one row down.
    fn move_down(&mut self, depth: usize, begin_ns: i64) {
        let mut tail = Row::default();
        for row in &mut self.rows[depth..] {
            let own = row.split_off(begin_ns);
            row.append(std::mem::replace(&mut tail, own));
        }
        if !tail.is_empty() {
            self.rows.push(tail);
        }
    }

    /// Appends a frame's tasks, each to the first lane that is free at its begin. Returns the
    /// number of tasks that have a lane.
    pub(super) fn add_tasks(&mut self, block: &ThreadBlock, given_ids: &mut TaskIds) -> usize {
        let mut added = 0;
        for task in &block.tasks {
            let given_id = given_ids.end(task.id);
            let free = self
                .rows
                .iter()
                .position(|row| row.end_ns() <= task.begin_ns);
            let lane = free.unwrap_or(self.rows.len());
            if lane == MAX_LANES {
                self.hidden_tasks += 1;
                continue;
            }
            if lane == self.rows.len() {
                self.rows.push(Row::default());
            }
            self.rows[lane].extend(&one(task, given_id));
            added += 1;
        }
        self.steps.extend(block.steps.iter().copied());
        added
    }

    /// Removes data that ended by `ns`; returns the number of removed spans.
    pub(super) fn evict(&mut self, ns: i64) -> usize {
        while self
            .messages
            .front()
            .is_some_and(|message| message.ns <= ns)
        {
            self.messages.pop_front();
        }
        while self.steps.front().is_some_and(|step| step.ns <= ns) {
            self.steps.pop_front();
        }
        while self.flows.front().is_some_and(|point| point.ns <= ns) {
            self.flows.pop_front();
        }
        let gone = self.rows.iter_mut().map(|row| row.evict(ns)).sum();
        while self.rows.last().is_some_and(Row::is_empty) {
            self.rows.pop();
        }
        gone
    }

    /// Returns the messages between two moments, both inclusive.
    pub fn messages_within(&self, begin_ns: i64, end_ns: i64) -> impl Iterator<Item = &Message> {
        let first = self
            .messages
            .partition_point(|message| message.ns < begin_ns);
        self.messages
            .range(first..)
            .take_while(move |message| message.ns <= end_ns)
    }

    /// Returns the innermost span at a moment, with the number of its row.
    #[must_use]
    pub fn innermost(&self, ns: i64) -> Option<(usize, Span)> {
        let rows = self.rows.iter().enumerate().rev();
        rows.into_iter()
            .find_map(|(row, spans)| Some((row, spans.span_at(ns)?)))
    }

    /// Returns whether the track has no data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.messages.is_empty() && self.steps.is_empty()
    }

    /// Returns the number of spans in all rows.
    #[must_use]
    pub fn span_count(&self) -> usize {
        self.rows.iter().map(Row::len).sum()
    }
}

/// The program's numbers of open tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskIds {
    open: FxHashMap<u64, u64>,
}

impl TaskIds {
    pub(super) fn begin(&mut self, begin: &TaskBegin) {
        if self.open.len() < MAX_NUMBERED {
            self.open.insert(begin.task, begin.given_id);
        }
    }

    /// Forgets an ended task, and returns its number.
    fn end(&mut self, task: u64) -> Option<u64> {
        self.open.remove(&task)
    }
}

/// Returns the number that the program gave a task, from its arguments in a track of tasks. The
/// number is unknown if the task's begin is.
#[must_use]
pub fn given_id(args: &[ArgValue]) -> Option<u64> {
    match args {
        [_, ArgValue::U64(given_id)] => Some(*given_id),
        _ => None,
    }
}

/// Returns a row of one task.
fn one(task: &Task, given_id: Option<u64>) -> RowBlock {
    let mut row = RowBlock::default();
    row.push(task.begin_ns, task.duration_ns, SiteId(task.site.0));
    // The id in the task's steps, and the program's number.
    let ids = std::iter::once(task.id).chain(given_id).map(ArgValue::U64);
    row.args.push((0, ids.collect()));
    row
}
