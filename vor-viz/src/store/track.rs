//! Rows of spans under one name: the scopes of a thread, or tasks.

use std::borrow::Cow;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};

use super::block::{FlowPoint, Message, Step, Task, ThreadBlock};
use super::open_tasks::TaskArgs;
use super::polls::{LanePoll, Polls};
use super::row::{Row, Span};
use crate::holder::Holder;

/// Maximum number of lanes of a track of tasks. Tasks beyond it are only counted.
const MAX_LANES: usize = 256;

/// The kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKind {
    /// The scopes of a thread, one row per depth.
    Scopes,
    /// Asynchronous tasks, one row per lane.
    Tasks,
}

impl TrackKind {
    /// Returns what a span of such a track is.
    pub(crate) fn of_span(self) -> &'static str {
        match self {
            Self::Scopes => "scope",
            Self::Tasks => "task",
        }
    }
}

/// Identifies a track, even when others come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
pub enum TrackId {
    /// The tasks that ended on a thread, which tables count. They are not drawn.
    Ended(ThreadId),
    /// The scopes of a thread.
    Scopes(ThreadId),
    /// The tasks of one name on all threads: the first call site of that name.
    Tasks(SiteId),
}

impl TrackId {
    /// Returns the kind of the rows.
    #[must_use]
    pub fn kind(self) -> TrackKind {
        match self {
            Self::Scopes(_) => TrackKind::Scopes,
            Self::Ended(_) | Self::Tasks(_) => TrackKind::Tasks,
        }
    }

    /// Returns the thread of the rows; `None` if they have spans of several threads.
    #[must_use]
    pub fn thread(self) -> Option<ThreadId> {
        match self {
            Self::Ended(thread) | Self::Scopes(thread) => Some(thread),
            Self::Tasks(_) => None,
        }
    }

    /// Returns the track in which a span is drawn that was recorded on a thread.
    #[must_use]
    pub fn drawn(thread: ThreadId, kind: TrackKind, site: SiteId, catalog: &Catalog) -> Self {
        match kind {
            TrackKind::Scopes => Self::Scopes(thread),
            TrackKind::Tasks => Self::Tasks(first_of_name(site, catalog)),
        }
    }
}

/// Returns the first call site with the name of another one.
fn first_of_name(site: SiteId, catalog: &Catalog) -> SiteId {
    TaskNames::default().first(site, catalog)
}

/// The first call site of each name, for many questions.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskNames {
    first: FxHashMap<Cow<'static, str>, SiteId>,
    /// Number of call sites of the catalog that are among them.
    known: usize,
}

impl TaskNames {
    /// Returns the first call site with the name of another one. Later catalogs have the call sites
    /// of earlier ones.
    pub(super) fn first(&mut self, site: SiteId, catalog: &Catalog) -> SiteId {
        // Call sites are numbered from 1.
        let new = catalog.sites.iter().skip(self.known);
        let new = new.zip(self.known as u32 + 1..);
        for (info, number) in new {
            if let Some(info) = info
                && !self.first.contains_key(&info.name)
            {
                self.first.insert(info.name.clone(), SiteId(number));
            }
        }
        self.known = catalog.sites.len();
        let name = catalog.site(site).map(|info| &info.name);
        name.and_then(|name| self.first.get(name))
            .map_or(site, |first| *first)
    }
}

/// Rows of spans, the outermost first.
#[derive(Clone, Debug)]
pub struct Track {
    /// Identifies the track.
    pub id: TrackId,
    /// The rows. In a track of scopes, the spans below a span in the next row are inside it.
    pub rows: Vec<Row>,
    /// Messages, in a track of scopes.
    pub messages: VecDeque<Message>,
    /// Steps of tasks, in a track of tasks, in time order.
    pub steps: VecDeque<Step>,
    /// Polls of the tasks in each row, in a track of the tasks of a name. There may be fewer
    /// entries than rows.
    pub polls: Vec<Polls>,
    /// Points of flows, in a track of scopes.
    pub flows: VecDeque<FlowPoint>,
    /// Number of tasks without a lane.
    pub hidden_tasks: u64,
}

impl Track {
    pub(super) fn new(id: TrackId) -> Self {
        Self {
            id,
            rows: Vec::new(),
            messages: VecDeque::new(),
            steps: VecDeque::new(),
            polls: Vec::new(),
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

    /// Appends a task, with the holder of the lock that it waited for, to the first lane that is
    /// free at its begin. Returns the lane, if there is one.
    pub(super) fn add_task(
        &mut self,
        task: &Task,
        args: &TaskArgs,
        holder: Option<&Holder>,
    ) -> Option<usize> {
        let free = self
            .rows
            .iter()
            .position(|row| row.end_ns() <= task.begin_ns);
        let lane = free.unwrap_or(self.rows.len());
        if lane == MAX_LANES {
            self.hidden_tasks += 1;
            return None;
        }
        if lane == self.rows.len() {
            self.rows.push(Row::default());
        }
        self.rows[lane].extend(&args.row_of(task, holder));
        Some(lane)
    }

    /// Adds the polls of the task that was appended to a lane; returns their number.
    pub(super) fn add_polls(&mut self, lane: usize, task: &Task, polls: Vec<LanePoll>) -> usize {
        if polls.is_empty() {
            return 0;
        }
        if lane >= self.polls.len() {
            self.polls.resize_with(lane + 1, Polls::default);
        }
        let before = self.polls[lane].len();
        self.polls[lane].add(task, polls);
        self.polls[lane].len() - before
    }

    /// Adds a step of a task.
    pub(super) fn add_step(&mut self, step: Step) {
        let at = self.steps.partition_point(|other| other.ns <= step.ns);
        self.steps.insert(at, step);
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
        self.polls.iter_mut().for_each(|polls| polls.evict(ns));
        self.polls.truncate(self.rows.len());
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

    /// Returns whether any row has polls.
    pub(crate) fn has_polls(&self) -> bool {
        self.polls.iter().any(|polls| !polls.is_empty())
    }

    /// Returns the number of polls beside all rows.
    pub(super) fn poll_count(&self) -> usize {
        self.polls.iter().map(Polls::len).sum()
    }

    /// Returns the number of spans in all rows.
    #[must_use]
    pub fn span_count(&self) -> usize {
        self.rows.iter().map(Row::len).sum()
    }
}
