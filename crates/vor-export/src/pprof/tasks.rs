//! How long asynchronous tasks waited: the time from when a task began to its end in which nobody
//! polled it.
//!
//! Each poll is told when it ends, and the task when it has ended. In between the task stands here
//! with the time that is still to be accounted for and what polls took of it. Where the sums of a
//! running program are taken, the time up to then counts; a poll that is under way counts as
//! waiting then, and the next profile has less of it by as much.

use rustc_hash::FxHashMap;
use vor_capture::model::batch::{SpanBatch, TaskEventKind};
use vor_capture::model::catalog::SiteId;
use vor_capture::model::timeline::Timeline;

/// Most tasks that are followed at once; the waiting of others is not told.
const MOST_TASKS: usize = 1 << 16;

/// A task that has begun and not ended.
#[derive(Clone, Copy, Debug)]
struct Task {
    site: SiteId,
    /// From when on its time is to be accounted for.
    from_ticks: u64,
    busy_ticks: u64,
    /// Whether anyone polled it. Of what nobody polls it is not known when it is worked on.
    is_polled: bool,
}

/// Tasks, and how long those of each call site waited.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    open: FxHashMap<u64, Task>,
    idle_ns: FxHashMap<SiteId, u64>,
    any: bool,
}

impl Tasks {
    /// Takes what happened to tasks.
    pub(super) fn accept(&mut self, batch: &SpanBatch) {
        for event in batch.threads.iter().flat_map(|thread| &thread.task_events) {
            if matches!(event.kind, TaskEventKind::Step)
                || (self.open.len() >= MOST_TASKS && !self.open.contains_key(&event.task))
            {
                continue;
            }
            let task = self.open.entry(event.task).or_insert(Task {
                site: event.site,
                from_ticks: event.start_ticks,
                busy_ticks: 0,
                is_polled: false,
            });
            if let TaskEventKind::Poll { duration_ticks } = event.kind {
                task.is_polled = true;
                task.busy_ticks = task.busy_ticks.saturating_add(duration_ticks);
                self.any = true;
            }
        }
        for ended in batch.threads.iter().flat_map(|thread| &thread.async_spans) {
            if let Some(task) = self.open.remove(&ended.id) {
                self.wait(&batch.catalog.timeline, &task, ended.end_ticks());
            }
        }
    }

    /// Adds what a task waited until a moment.
    fn wait(&mut self, timeline: &Timeline, task: &Task, until_ticks: u64) {
        let idle_ticks = until_ticks
            .saturating_sub(task.from_ticks)
            .saturating_sub(task.busy_ticks);
        if task.is_polled && idle_ticks > 0 {
            let sum = self.idle_ns.entry(task.site).or_default();
            *sum = sum.saturating_add(timeline.duration_ns(task.from_ticks, idle_ticks));
        }
    }

    /// Accounts for the time of open tasks up to now.
    pub(super) fn cut(&mut self, timeline: &Timeline, now_ticks: u64) {
        let mut open = std::mem::take(&mut self.open);
        for task in open.values_mut().filter(|task| task.is_polled) {
            let passed_ticks = now_ticks.saturating_sub(task.from_ticks);
            self.wait(timeline, task, now_ticks);
            // What polls took beyond this time is of the next.
            task.busy_ticks = task.busy_ticks.saturating_sub(passed_ticks);
            task.from_ticks = task.from_ticks.max(now_ticks);
        }
        self.open = open;
    }

    /// Forgets the sums that were taken.
    pub(super) fn clear(&mut self) {
        self.idle_ns.clear();
    }

    /// Returns whether any task was polled.
    pub(super) fn has_any(&self) -> bool {
        self.any
    }

    /// Returns how long the tasks of each call site waited together, in nanoseconds.
    pub(super) fn idle_ns(&self) -> Vec<(SiteId, u64)> {
        let mut all: Vec<_> = self.idle_ns.iter().map(|(&site, &ns)| (site, ns)).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use vor_capture::filled;
    use vor_capture::model::batch::{AsyncSpan, TaskEvent, ThreadBatch};

    const SITE: SiteId = SiteId(3);

    fn polled(task: u64, start_ticks: u64, duration_ticks: u64) -> TaskEvent {
        filled!(TaskEvent {
            task,
            site: SITE,
            start_ticks,
            kind: TaskEventKind::Poll { duration_ticks },
        })
    }

    fn begun(task: u64, start_ticks: u64) -> TaskEvent {
        filled!(TaskEvent {
            kind: TaskEventKind::Begin { given_id: 7 },
            ..polled(task, start_ticks, 0)
        })
    }

    /// A batch in which tasks end on a thread before the one on which they were polled.
    fn batch(events: &[TaskEvent], ended: &[(u64, u64, u64)]) -> SpanBatch {
        let ended = ended.iter().map(|&(id, start_ticks, duration_ticks)| {
            filled!(AsyncSpan {
                id,
                site: SITE,
                start_ticks,
                duration_ticks,
            })
        });
        let threads = [
            filled!(ThreadBatch {
                async_spans: ended.collect()
            }),
            filled!(ThreadBatch {
                task_events: events.to_vec()
            }),
        ];
        filled!(SpanBatch {
            threads: threads.into()
        })
    }

    #[test]
    fn a_task_waits_where_nobody_polls_it() {
        let mut tasks = Tasks::default();
        tasks.accept(&batch(
            &[begun(1, 100), polled(1, 150, 10), begun(2, 100)],
            &[],
        ));
        assert!(tasks.has_any());
        assert_eq!(tasks.idle_ns(), []);
        // The second was never polled, of the third only the end is known.
        tasks.accept(&batch(
            &[polled(1, 190, 10)],
            &[(1, 100, 100), (2, 100, 50), (3, 0, 999)],
        ));
        assert_eq!(tasks.idle_ns(), [(SITE, 80)]);
        assert!(tasks.open.is_empty());
    }

    #[test]
    fn parts_add_up_to_the_whole_wherever_the_sums_are_taken() {
        // Polls of 10 at 0, 50 and 95, the end at 110: of 110 it waited 80.
        for cut_ticks in [5, 20, 55, 60, 100, 107] {
            let mut tasks = Tasks::default();
            let polls = [polled(1, 0, 10), polled(1, 50, 10), polled(1, 95, 10)];
            let (before, after): (Vec<_>, Vec<_>) =
                polls.iter().partition(|poll| poll.end_ticks() <= cut_ticks);
            tasks.accept(&batch(&before, &[]));
            tasks.cut(&Timeline::default(), cut_ticks);
            let sum = |tasks: &Tasks| tasks.idle_ns().iter().map(|(_, ns)| ns).sum::<u64>();
            let first = sum(&tasks);
            tasks.clear();
            tasks.accept(&batch(&after, &[(1, 0, 110)]));
            assert_eq!(first + sum(&tasks), 80, "{cut_ticks}");
        }
    }
}
