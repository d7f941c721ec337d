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

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::batch::{AsyncSpan, FlowPoint, FlowStage, TaskEvent};
    use vor_capture::model::catalog::{SiteInfo, ThreadInfo};

    use super::*;
    use crate::command::critical_path::path::{Span, Thread};
    use crate::command::critical_path::with_holder;

    const MAIN: ThreadId = ThreadId(0);
    const WORKER: ThreadId = ThreadId(1);
    const SENDER: ThreadId = ThreadId(2);

    /// The task whose path is shown, and another one.
    const TASK: u64 = 5;
    const OTHER: u64 = 9;

    const FETCH: u32 = 1;
    const JOBS: u32 = 2;
    const SLOTS: u32 = 3;
    const HOLDER: u32 = 4;
    const ORDER: u32 = 5;

    fn catalog() -> Catalog {
        let sites = [
            ("fetch", ""),
            ("wait: jobs", "wait"),
            ("wait: slots", "lock"),
            ("holder_scope: refill", ""),
            ("order", ""),
        ];
        let site = |(name, category): (&'static str, &'static str)| {
            let (name, category) = (name.into(), category.into());
            Some(Arc::new(filled!(SiteInfo { name, category })))
        };
        let thread = |name: &str| Some(Arc::new(filled!(ThreadInfo { name: name.into() })));
        filled!(Catalog {
            sites: Arc::new(sites.map(site).to_vec()),
            threads: Arc::new(["main", "worker", "sender"].map(thread).to_vec()),
        })
    }

    fn event(task: u64, site: u32, start_ticks: u64, kind: TaskEventKind) -> TaskEvent {
        filled!(TaskEvent {
            task,
            site: SiteId(site),
            start_ticks,
            kind,
        })
    }

    fn poll(task: u64, ticks: Range<u64>) -> TaskEvent {
        let duration_ticks = ticks.end - ticks.start;
        let kind = TaskEventKind::Poll { duration_ticks };
        event(task, FETCH, ticks.start, kind)
    }

    fn begin(wait: u64, site: u32, at: u64) -> TaskEvent {
        event(wait, site, at, TaskEventKind::Begin { given_id: 0 })
    }

    fn end(id: u64, site: u32, ticks: Range<u64>) -> AsyncSpan {
        filled!(AsyncSpan {
            id,
            site: SiteId(site),
            start_ticks: ticks.start,
            duration_ticks: ticks.end - ticks.start,
        })
    }

    fn thread(id: ThreadId, task_events: &[TaskEvent], ended: &[AsyncSpan]) -> ThreadBatch {
        filled!(ThreadBatch {
            thread: id,
            task_events: task_events.to_vec(),
            async_spans: ended.to_vec(),
        })
    }

    fn task(threads: &[ThreadBatch]) -> Task {
        let mut task = Task::default();
        for thread in threads {
            task.add_thread(&catalog(), thread, TASK);
        }
        task.polls.sort_by_key(|(poll, _)| poll.start);
        task
    }

    /// A program with spans of the sender, and points of flows.
    fn program(sender: &[Span], points: &[(ThreadId, u64, u64, FlowStage)]) -> Program {
        let of = |id: ThreadId| {
            let flows = points.iter().filter(|point| point.0 == id);
            let flows =
                flows.map(|&(_, ticks, flow, stage)| filled!(FlowPoint { ticks, flow, stage }));
            let spans = if id == SENDER { sender } else { &[] };
            let (spans, flows) = (spans.to_vec(), flows.collect());
            (id, Thread { spans, flows })
        };
        Program::new([MAIN, WORKER, SENDER].map(of).into())
    }

    #[test]
    fn a_wait_belongs_to_the_task_in_whose_poll_it_began() {
        let task = task(&[
            thread(
                MAIN,
                &[
                    poll(TASK, 0..10),
                    poll(OTHER, 11..20),
                    poll(TASK, 60..80),
                    // They begin with the first poll, with its end, and after it.
                    begin(21, JOBS, 0),
                    begin(22, JOBS, 10),
                    begin(24, JOBS, 11),
                    begin(26, JOBS, 2),
                ],
                &[
                    end(21, JOBS, 0..61),
                    end(23, SLOTS, 25..65),
                    end(22, JOBS, 10..70),
                    end(24, JOBS, 11..90),
                ],
            ),
            thread(
                WORKER,
                &[
                    poll(TASK, 20..30),
                    begin(23, SLOTS, 25),
                    event(23, HOLDER, 25, TaskEventKind::Step),
                    // The task is polled on another thread then.
                    begin(25, JOBS, 5),
                ],
                // The first ends where no poll is.
                &[end(26, JOBS, 2..15), end(25, JOBS, 5..91)],
            ),
        ]);
        let order = Span {
            begin: 30,
            end: 45,
            site: SiteId(ORDER),
            cause: None,
            measured: None,
        };
        let points = [
            (SENDER, 40, 3, FlowStage::Begin),
            (MAIN, 61, 3, FlowStage::End),
            // Arrives with the end of the wait that has a holder.
            (SENDER, 50, 4, FlowStage::Begin),
            (MAIN, 65, 4, FlowStage::End),
            // Arrives outside of the polls.
            (SENDER, 12, 6, FlowStage::Begin),
            (WORKER, 14, 6, FlowStage::End),
        ];
        let waits = task.own_waits(&program(&[order], &points), &catalog());
        let waits = waits.into_iter();
        let waits: Vec<_> = waits
            .map(|(ticks, cause)| (ticks, with_holder(&cause)))
            .collect();
        let expected = [
            (0..61, "jobs ← order on sender"),
            (2..15, "jobs"),
            // The message of the wait before it is not that of this one.
            (10..70, "jobs"),
            (25..65, "slots ← refill"),
        ];
        assert_eq!(
            waits,
            expected.map(|(ticks, text)| (ticks, text.to_owned()))
        );
    }

    /// Returns the thread of each stretch, or the cause of the wait.
    fn shown(stretches: &[Stretch]) -> Vec<(Range<u64>, String)> {
        let label = |stretch: &Stretch| match stretch {
            Stretch::Part(part) => format!("on {}", part.thread.0),
            Stretch::NotPolled(_, Some(cause)) => cause.name.to_string(),
            Stretch::NotPolled(_, None) => "nothing".to_owned(),
        };
        let stretches = stretches.iter();
        stretches
            .map(|stretch| (stretch.ticks().clone(), label(stretch)))
            .collect()
    }

    fn expected<const N: usize>(stretches: [(Range<u64>, &str); N]) -> Vec<(Range<u64>, String)> {
        stretches
            .map(|(ticks, text)| (ticks, text.to_owned()))
            .to_vec()
    }

    #[test]
    fn the_path_has_the_polls_and_what_is_between_them() {
        let threads = [
            thread(
                MAIN,
                &[
                    poll(TASK, 0..10),
                    begin(21, JOBS, 8),
                    poll(OTHER, 12..18),
                    // A step in the poll of another task.
                    event(TASK, HOLDER, 14, TaskEventKind::Step),
                    poll(TASK, 60..80),
                ],
                &[end(21, JOBS, 8..25)],
            ),
            thread(
                WORKER,
                &[
                    poll(TASK, 20..30),
                    begin(22, SLOTS, 28),
                    // It begins where the one before ends, and the next one ends the interval.
                    poll(TASK, 80..90),
                    poll(TASK, 95..120),
                ],
                &[end(22, SLOTS, 28..60)],
            ),
        ];
        let path = |ticks| task(&threads).path(&program(&[], &[]), &catalog(), &ticks);
        let all = [
            (5..10, "on 0"),
            (10..20, "jobs"),
            (20..30, "on 1"),
            (30..60, "slots"),
            (60..80, "on 0"),
            (80..90, "on 1"),
            (90..95, "nothing"),
            (95..100, "on 1"),
        ];
        assert_eq!(shown(&path(5..100)), expected(all));
        let part = [(10..15, "jobs")];
        assert_eq!(shown(&path(10..15)), expected(part));
        let late = [(90..95, "nothing")];
        assert_eq!(shown(&path(90..95)), expected(late));
    }

    #[test]
    fn waits_between_polls_leave_no_gap_and_do_not_overlap() {
        let cause = |name: &str| {
            Arc::new(Cause {
                name: name.into(),
                thread: "".into(),
                scope: "".into(),
            })
        };
        let waits = [
            (2..9, cause("before")),
            (5..15, cause("a")),
            (12..20, cause("b")),
            (14..18, cause("inside")),
            (20..22, cause("c")),
            (30..40, cause("d")),
            (58..70, cause("e")),
            (61..65, cause("after")),
        ];
        let between = |ticks| {
            let mut stretches = Vec::new();
            not_polled(&mut stretches, ticks, &waits);
            shown(&stretches)
        };
        let all = [
            (10..15, "a"),
            (15..20, "b"),
            (20..22, "c"),
            (22..30, "nothing"),
            (30..40, "d"),
            (40..58, "nothing"),
            (58..60, "e"),
        ];
        assert_eq!(between(10..60), expected(all));
        let part = [(24..30, "nothing"), (30..40, "d"), (40..50, "nothing")];
        assert_eq!(between(24..50), expected(part));
        assert_eq!(between(22..30), expected([(22..30, "nothing")]));
        assert_eq!(between(10..10), expected([]));
    }
}
