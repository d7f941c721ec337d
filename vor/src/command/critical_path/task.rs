//! The path of a task: through its polls, and through its waits between them.
//!
//! A wait of a lock or a channel of `vor::sync::tokio` begins in a poll of the task that waits, on
//! the thread of the poll. It is a task of its own, so its id says nothing about whose wait it is.
//! The flow of a message arrives just before the end of the wait that it ends.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use vor_capture::model::batch::{TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_export::thread_label;

use super::Stretch;
use super::path::Program;
use crate::command::wait_spans::Cause;
use crate::command::wait_tasks::{EndedWait, WaitTasks};

/// The polls and the waits of the task.
#[derive(Debug, Default)]
pub(super) struct Task {
    /// Its polls, with their threads.
    polls: Vec<(Range<u64>, ThreadId)>,
    /// Waits of all tasks.
    waits: WaitTasks,
    /// The thread on which each wait began.
    begun_on: HashMap<u64, ThreadId>,
    /// The waits that are over.
    ended: Vec<EndedWait>,
}

impl Task {
    /// Adds the polls of the task on a thread, and the waits of all tasks.
    pub(super) fn add_thread(&mut self, catalog: &Catalog, thread: &ThreadBatch, task: u64) {
        let polls = thread.task_events.iter().filter_map(|event| {
            let is_poll = matches!(event.kind, TaskEventKind::Poll { .. });
            let ticks = event.start_ticks..event.end_ticks();
            (is_poll && event.task == task).then_some((ticks, thread.thread))
        });
        self.polls.extend(polls);
        for (_, wait) in self.waits.begun(catalog, thread) {
            self.begun_on.insert(wait, thread.thread);
            // The poll says whose wait it is, and not the scope around it.
            self.ended
                .extend(self.waits.waiter(wait, SiteId::default()));
        }
        self.ended.extend(self.waits.ended(catalog, thread));
    }

    /// Returns the path in an interval.
    pub(super) fn path(
        mut self,
        program: &Program,
        catalog: &Catalog,
        ticks: &Range<u64>,
    ) -> Vec<Stretch> {
        self.polls.sort_by_key(|(poll, _)| (poll.start, poll.end));
        let waits = self.own_waits(program, catalog);
        let mut stretches = Vec::new();
        let mut at = ticks.start;
        for (poll, thread) in &self.polls {
            let poll = poll.start.max(at)..poll.end.min(ticks.end);
            if poll.start >= poll.end {
                continue;
            }
            not_polled(&mut stretches, at..poll.start, &waits);
            at = poll.end;
            let parts = program.path(*thread, poll);
            stretches.extend(parts.into_iter().map(Stretch::from));
        }
        not_polled(&mut stretches, at..ticks.end, &waits);
        stretches
    }

    /// Returns the waits that began in a poll of the task, ascending.
    fn own_waits(&self, program: &Program, catalog: &Catalog) -> Vec<(Range<u64>, Arc<Cause>)> {
        let mut ends: HashMap<ThreadId, Vec<u64>> = HashMap::new();
        for wait in &self.ended {
            ends.entry(wait.thread).or_default().push(wait.ticks.end);
        }
        ends.values_mut().for_each(|ends| ends.sort_unstable());
        let is_own = |wait: &&EndedWait| {
            let thread = self.begun_on.get(&wait.task);
            thread.is_some_and(|thread| self.poll_at(*thread, wait.ticks.start).is_some())
        };
        let cause = |wait: &EndedWait| match self.sender(wait, &ends, program) {
            Some((thread, scope)) => Cause {
                thread: thread_label(catalog, thread).into(),
                scope: scope.map_or("", |scope| catalog.site_name(scope)).into(),
                ..wait.cause.clone()
            },
            None => wait.cause.clone(),
        };
        let own = self.ended.iter().filter(is_own);
        let own = own.map(|wait| (wait.ticks.clone(), Arc::new(cause(wait))));
        let mut waits: Vec<_> = own.collect();
        waits.sort_by_key(|(ticks, _)| (ticks.start, ticks.end));
        waits
    }

    /// Returns the poll of the task on a thread at a moment. Its polls do not overlap.
    fn poll_at(&self, thread: ThreadId, ticks: u64) -> Option<&Range<u64>> {
        let begun = self.polls.partition_point(|(poll, _)| poll.start <= ticks);
        let (poll, on) = self.polls[..begun].last()?;
        (*on == thread && ticks <= poll.end).then_some(poll)
    }

    /// Returns the thread that sent the message that ended a wait, and the innermost scope in which
    /// it did, if the message has a flow. `ends` has the ends of all waits on each thread,
    /// ascending.
    fn sender(
        &self,
        wait: &EndedWait,
        ends: &HashMap<ThreadId, Vec<u64>>,
        program: &Program,
    ) -> Option<(ThreadId, Option<SiteId>)> {
        if wait.cause.has_holder() {
            return None;
        }
        let end = wait.ticks.end;
        let poll = self.poll_at(wait.thread, end)?;
        // The flow of a wait that ended before in this poll is not that of this one.
        let ends = ends.get(&wait.thread)?;
        let before = ends[..ends.partition_point(|at| *at < end)].last();
        let begin = before.map_or(poll.start, |at| poll.start.max(at + 1));
        program.sender(wait.thread, begin..=end)
    }
}

/// Appends a time between two polls: the waits in it, and the rest.
fn not_polled(stretches: &mut Vec<Stretch>, ticks: Range<u64>, waits: &[(Range<u64>, Arc<Cause>)]) {
    let mut at = ticks.start;
    for (wait, cause) in waits {
        let wait = wait.start.max(at)..wait.end.min(ticks.end);
        if wait.start >= wait.end {
            continue;
        }
        if wait.start > at {
            stretches.push(Stretch::NotPolled(at..wait.start, None));
        }
        at = wait.end;
        stretches.push(Stretch::NotPolled(wait, Some(Arc::clone(cause))));
    }
    if at < ticks.end {
        stretches.push(Stretch::NotPolled(at..ticks.end, None));
    }
}
