//! Asynchronous tasks for viewers: from their begin, on tracks where they do not overlap.
//!
//! A recording has a task when it has ended, and its events before that. So the first event of a
//! task is its begin: a poll begins where the task does. Each task gets a *lane* of its call site,
//! which no other task has at the same time. A free lane is reused, so a call site has as many
//! lanes as tasks were ever open at once.
//!
//! A task moves between threads, and a batch has the events of one thread after those of another;
//! [`in_order`] sorts them by time. A drain reads everything that ended before a moment, so no
//! batch has a poll that precedes one of an earlier batch. The exception is a capture with more
//! than 256 KiB of events of one drain, which has them in several batches. A late poll from there
//! is skipped, because it would precede its task.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};
use vor_capture::model::batch::{AsyncSpan, TaskEvent, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::{SiteId, ThreadId};

/// Most open tasks that are followed. Further tasks are known when they end.
const MAX_OPEN: usize = 1 << 18;
/// Most ended tasks that are remembered, for their late events from another thread.
const MAX_ENDED: usize = 1 << 12;

/// A task that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenTask {
    pub(crate) id: u64,
    pub(crate) site: SiteId,
    pub(crate) start_ticks: u64,
    /// The number that the program assigned.
    pub(crate) given_id: Option<u64>,
    pub(crate) lane: u32,
}

/// The lanes of the tasks of one call site.
#[derive(Debug, Default)]
struct Lanes {
    /// Free lanes, each with the tick since which it is free.
    free: BinaryHeap<Reverse<(u64, u32)>>,
    count: u32,
}

impl Lanes {
    fn take(&mut self, start_ticks: u64) -> u32 {
        if let Some(Reverse((free_from, lane))) = self.free.peek().copied()
            && free_from <= start_ticks
        {
            self.free.pop();
            return lane;
        }
        self.count += 1;
        self.count - 1
    }
}

/// Returns the events of tasks in order of time, with their threads.
pub(crate) fn in_order(threads: &[ThreadBatch]) -> Vec<(ThreadId, &TaskEvent)> {
    let mut events: Vec<(ThreadId, &TaskEvent)> = threads
        .iter()
        .flat_map(|batch| {
            batch
                .task_events
                .iter()
                .map(move |event| (batch.thread, event))
        })
        .collect();
    events.sort_by_key(|(_, event)| event.start_ticks);
    events
}

/// Follows tasks from their first event to their end.
#[derive(Debug, Default)]
pub(crate) struct OpenTasks {
    open: FxHashMap<u64, OpenTask>,
    lanes: FxHashMap<SiteId, Lanes>,
    ended: FxHashSet<u64>,
    ended_in_order: VecDeque<u64>,
    last_ticks: u64,
}

impl OpenTasks {
    /// Adds an event. Returns its task, and whether the task begins with it; `None` for an unknown
    /// task.
    pub(crate) fn event(&mut self, event: &TaskEvent) -> Option<(OpenTask, bool)> {
        self.last_ticks = self.last_ticks.max(event.end_ticks());
        if let Some(open) = self.open.get(&event.task) {
            return (event.start_ticks >= open.start_ticks).then_some((*open, false));
        }
        let given_id = match event.kind {
            TaskEventKind::Begin { given_id } => Some(given_id),
            TaskEventKind::Poll { .. } => None,
            _ => return None,
        };
        if self.open.len() >= MAX_OPEN || self.ended.contains(&event.task) {
            return None;
        }
        let open = OpenTask {
            id: event.task,
            site: event.site,
            start_ticks: event.start_ticks,
            given_id,
            lane: self
                .lanes
                .entry(event.site)
                .or_default()
                .take(event.start_ticks),
        };
        self.open.insert(event.task, open);
        Some((open, true))
    }

    /// Ends a task. Returns it as it began, and whether it was unknown before.
    pub(crate) fn end(&mut self, task: &AsyncSpan) -> (OpenTask, bool) {
        self.last_ticks = self.last_ticks.max(task.end_ticks());
        let known = self.open.remove(&task.id);
        let open = known.unwrap_or_else(|| OpenTask {
            id: task.id,
            site: task.site,
            start_ticks: task.start_ticks,
            given_id: None,
            lane: self
                .lanes
                .entry(task.site)
                .or_default()
                .take(task.start_ticks),
        });
        let lanes = self.lanes.entry(open.site).or_default();
        lanes.free.push(Reverse((task.end_ticks(), open.lane)));
        if self.ended_in_order.len() >= MAX_ENDED
            && let Some(oldest) = self.ended_in_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        if self.ended.insert(task.id) {
            self.ended_in_order.push_back(task.id);
        }
        (open, known.is_none())
    }

    /// Returns the open tasks in order of their begins, and the last tick of any task's event.
    pub(crate) fn take_open(&mut self) -> (Vec<OpenTask>, u64) {
        let mut open: Vec<OpenTask> = self.open.drain().map(|(_, open)| open).collect();
        open.sort_unstable_by_key(|open| (open.start_ticks, open.id));
        (open, self.last_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vor_capture::filled;

    fn poll(task: u64, start_ticks: u64, duration_ticks: u64) -> TaskEvent {
        filled!(TaskEvent {
            task,
            site: SiteId(1),
            start_ticks,
            kind: TaskEventKind::Poll { duration_ticks },
        })
    }

    fn task(id: u64, start_ticks: u64, duration_ticks: u64) -> AsyncSpan {
        filled!(AsyncSpan {
            id,
            site: SiteId(1),
            start_ticks,
            duration_ticks,
        })
    }

    #[test]
    fn a_lane_is_reused_when_it_is_free_and_not_before() {
        let mut tasks = OpenTasks::default();
        let (first, begins) = tasks.event(&poll(1, 100, 10)).unwrap();
        assert!(begins);
        let (second, _) = tasks.event(&poll(2, 105, 10)).unwrap();
        assert_ne!(first.lane, second.lane);
        assert!(!tasks.event(&poll(1, 150, 10)).unwrap().1);
        assert_eq!(tasks.end(&task(1, 100, 60)), (first, false));
        // It began before the first one ended, although its event arrives later.
        let (third, _) = tasks.event(&poll(3, 159, 1)).unwrap();
        assert_eq!(third.lane, 2);
        let (fourth, _) = tasks.event(&poll(4, 160, 1)).unwrap();
        assert_eq!(fourth.lane, first.lane);
        // A late event from another thread: the task has ended.
        assert_eq!(tasks.event(&poll(1, 110, 10)), None);
        let (open, last_ticks) = tasks.take_open();
        assert_eq!(open, [second, third, fourth]);
        assert_eq!(last_ticks, 161);
    }

    #[test]
    fn a_task_begins_with_its_first_poll_on_any_thread() {
        let batch = |thread, events: &[TaskEvent]| {
            filled!(ThreadBatch {
                thread: ThreadId(thread),
                task_events: events.to_vec()
            })
        };
        let threads = [
            batch(0, &[poll(1, 120, 5), poll(1, 140, 5)]),
            batch(1, &[poll(1, 100, 5), poll(1, 130, 5)]),
        ];
        let mut tasks = OpenTasks::default();
        let events: Vec<_> = in_order(&threads)
            .into_iter()
            .map(|(thread, event)| (thread.0, event.start_ticks, tasks.event(event).unwrap().1))
            .collect();
        assert_eq!(
            events,
            [
                (1, 100, true),
                (0, 120, false),
                (1, 130, false),
                (0, 140, false)
            ]
        );
        // It precedes its task, which has already begun.
        assert_eq!(tasks.event(&poll(1, 99, 1)), None);
    }

    #[test]
    fn a_task_without_events_begins_with_its_end() {
        let mut tasks = OpenTasks::default();
        let (open, begins) = tasks.end(&task(9, 5, 5));
        assert!(begins);
        assert_eq!((open.start_ticks, open.lane), (5, 0));
        let step = filled!(TaskEvent { task: 10 });
        assert_eq!(tasks.event(&step), None);
    }
}
