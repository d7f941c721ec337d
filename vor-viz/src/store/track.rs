//! Rows of spans under one name: the scopes of a thread, or the tasks that ended on it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{SiteId, ThreadId};

use super::block::{Message, RowBlock, Step, Task, TaskBegin, ThreadBlock};
use super::row::Row;

/// Most lanes of tasks of a thread. What does not fit beside so many others is counted.
const MAX_LANES: usize = 256;

/// Most open tasks whose numbers are known.
const MAX_NUMBERED: usize = 1 << 18;

/// What a track shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKind {
    /// The scopes of a thread, a row per depth.
    Scopes,
    /// Asynchronous tasks that ended on a thread, a row per lane.
    Tasks,
}

/// Rows that belong together, the outermost first.
#[derive(Clone, Debug)]
pub struct Track {
    /// What the rows hold.
    pub kind: TrackKind,
    /// Which thread they are of.
    pub thread: ThreadId,
    /// The rows. In a track of scopes, what lies below a span in the next row is inside it.
    pub rows: Vec<Row>,
    /// Moments with a text: messages in a track of scopes.
    pub messages: VecDeque<Message>,
    /// Moments within tasks, in a track of tasks.
    pub steps: VecDeque<Step>,
    /// Tasks for which there was no lane.
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
            hidden_tasks: 0,
        }
    }

    /// Appends a frame's spans. A span may contain what earlier frames brought: then that moves
    /// down a row.
    pub(super) fn add_scopes(&mut self, block: &ThreadBlock) {
        for (depth, spans) in block.rows.iter().enumerate() {
            let Some(&begin_ns) = spans.begin_ns.first() else {
                continue;
            };
            if depth >= self.rows.len() {
                // Rows of a block made by hand may be empty above others that are not.
                self.rows.resize_with(depth + 1, Row::default);
            }
            if begin_ns < self.rows[depth].end_ns() {
                self.move_down(depth, begin_ns);
            }
            self.rows[depth].extend(spans);
        }
        self.messages.extend(block.messages.iter().cloned());
    }

    /// Moves everything that is in row `depth` or below it, and that began at `begin_ns` or later,
    /// one row down.
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

    /// Appends a frame's tasks, each to the first lane that is free by then.
    pub(super) fn add_tasks(&mut self, block: &ThreadBlock, given_ids: &mut TaskIds) {
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
        }
        self.steps.extend(block.steps.iter().copied());
    }

    /// Lets go what ended by `ns`; returns how many spans those were.
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
        let gone = self.rows.iter_mut().map(|row| row.evict(ns)).sum();
        while self.rows.last().is_some_and(Row::is_empty) {
            self.rows.pop();
        }
        gone
    }

    /// Returns the messages from one moment to another, both inclusive.
    pub fn messages_within(&self, begin_ns: i64, end_ns: i64) -> impl Iterator<Item = &Message> {
        let first = self
            .messages
            .partition_point(|message| message.ns < begin_ns);
        self.messages
            .range(first..)
            .take_while(move |message| message.ns <= end_ns)
    }

    /// Returns whether nothing is left of it.
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

/// Numbers of the program for tasks that have begun and not ended.
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

    /// Forgets a task that has ended, and returns its number.
    fn end(&mut self, task: u64) -> Option<u64> {
        self.open.remove(&task)
    }
}

/// Returns the number that the program gave a task in a track of tasks, from its arguments, where
/// its begin is known.
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
    // The id by which its steps know it, and the program's number.
    let ids = std::iter::once(task.id).chain(given_id).map(ArgValue::U64);
    row.args.push((0, ids.collect()));
    row
}
