//! The idle time of asynchronous tasks: from begin to end, minus polls.
//!
//! Polls and tasks are reported when they end. Until then, [`Tasks`] has the start of the time that
//! is not accounted for yet, and the duration of the polls since then. When the sums of a running
//! program are taken, the time up to then counts. An unfinished poll counts as idle there, and the
//! next profile subtracts it.

use rustc_hash::FxHashMap;
use vor_capture::model::batch::{SpanBatch, TaskEventKind};
use vor_capture::model::catalog::SiteId;
use vor_capture::model::timeline::Timeline;

/// Most open tasks; the idle time of further ones is not reported.
const MAX_TASKS: usize = if cfg!(any(test, miri)) { 64 } else { 1 << 16 };

/// An open task.
#[derive(Clone, Copy, Debug)]
struct Task {
    site: SiteId,
    /// The begin of the time that is not accounted for yet.
    from_ticks: u64,
    busy_ticks: u64,
    /// Whether it was polled. Without polls, it is unknown when the task runs.
    is_polled: bool,
}

/// Open tasks, and the idle time by call site.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    open: FxHashMap<u64, Task>,
    idle_ns: FxHashMap<SiteId, u64>,
    has_polls: bool,
}

impl Tasks {
    /// Adds the events of tasks.
    pub(super) fn accept(&mut self, batch: &SpanBatch) {
        for event in batch.threads.iter().flat_map(|thread| &thread.task_events) {
            if matches!(event.kind, TaskEventKind::Step)
                || (self.open.len() >= MAX_TASKS && !self.open.contains_key(&event.task))
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
                self.has_polls = true;
            }
        }
        for ended in batch.threads.iter().flat_map(|thread| &thread.async_spans) {
            if let Some(task) = self.open.remove(&ended.id) {
                self.add_idle(&batch.catalog.timeline, &task, ended.end_ticks());
            }
        }
    }

    /// Adds the idle time of a task up to a tick.
    fn add_idle(&mut self, timeline: &Timeline, task: &Task, until_ticks: u64) {
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
            let elapsed_ticks = now_ticks.saturating_sub(task.from_ticks);
            self.add_idle(timeline, task, now_ticks);
            // Polls beyond this time count in the next profile.
            task.busy_ticks = task.busy_ticks.saturating_sub(elapsed_ticks);
            task.from_ticks = task.from_ticks.max(now_ticks);
        }
        self.open = open;
    }

    /// Removes the sums.
    pub(super) fn clear(&mut self) {
        self.idle_ns.clear();
    }

    /// Returns whether any task was polled.
    pub(super) fn has_polls(&self) -> bool {
        self.has_polls
    }

    /// Returns the total idle time of the tasks of each call site, in nanoseconds.
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

    fn poll(task: u64, start_ticks: u64, duration_ticks: u64) -> TaskEvent {
        filled!(TaskEvent {
            task,
            site: SITE,
            start_ticks,
            kind: TaskEventKind::Poll { duration_ticks },
        })
    }

    fn begin(task: u64, start_ticks: u64) -> TaskEvent {
        filled!(TaskEvent {
            kind: TaskEventKind::Begin { given_id: 7 },
            ..poll(task, start_ticks, 0)
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
    fn a_task_is_idle_between_its_polls() {
        let mut tasks = Tasks::default();
        tasks.accept(&batch(
            &[begin(1, 100), poll(1, 150, 10), begin(2, 100)],
            &[],
        ));
        assert!(tasks.has_polls());
        assert_eq!(tasks.idle_ns(), []);
        // The second task has no poll, and the third has only an end.
        tasks.accept(&batch(
            &[poll(1, 190, 10)],
            &[(1, 100, 100), (2, 100, 50), (3, 0, 999)],
        ));
        assert_eq!(tasks.idle_ns(), [(SITE, 80)]);
        assert!(tasks.open.is_empty());
    }

    #[test]
    fn idle_times_of_cuts_add_up_to_the_whole() {
        // Polls of 10 at 0, 50 and 95, and the end at 110: 80 of 110 are idle.
        for cut_ticks in [5, 20, 55, 60, 100, 107] {
            let mut tasks = Tasks::default();
            let polls = [poll(1, 0, 10), poll(1, 50, 10), poll(1, 95, 10)];
            let (before, after): (Vec<_>, Vec<_>) =
                polls.iter().partition(|poll| poll.end_ticks() <= cut_ticks);
            tasks.accept(&batch(&before, &[]));
            tasks.cut(&Timeline::default(), cut_ticks);
            let sum = |tasks: &Tasks| tasks.idle_ns().iter().map(|(_, ns)| ns).sum::<u64>();
            let first = sum(&tasks);
            // A task is unknown before its first poll ends. Later, a poll that has not ended counts
            // as idle.
            let busy = before
                .iter()
                .map(|poll| poll.end_ticks() - poll.start_ticks);
            let known_ticks = if before.is_empty() { 0 } else { cut_ticks };
            assert_eq!(first, known_ticks - busy.sum::<u64>());
            tasks.clear();
            tasks.accept(&batch(&after, &[(1, 0, 110)]));
            assert_eq!(first + sum(&tasks), 80, "{cut_ticks}");
        }
    }

    #[test]
    fn a_step_of_a_task_does_not_begin_it() {
        let mut tasks = Tasks::default();
        let step = filled!(TaskEvent {
            kind: TaskEventKind::Step,
            ..poll(1, 50, 0)
        });
        tasks.accept(&batch(&[step, poll(1, 100, 10)], &[]));
        tasks.accept(&batch(&[], &[(1, 100, 60)]));
        assert_eq!(tasks.idle_ns(), [(SITE, 50)]);
    }

    #[test]
    fn a_task_that_was_polled_all_the_time_has_no_idle_time() {
        let mut tasks = Tasks::default();
        tasks.accept(&batch(&[poll(1, 100, 10), poll(1, 110, 20)], &[]));
        tasks.accept(&batch(&[], &[(1, 100, 30)]));
        assert_eq!(tasks.idle_ns(), []);
    }

    #[test]
    fn open_tasks_are_bounded_and_the_known_ones_stay_complete() {
        let mut tasks = Tasks::default();
        let begins: Vec<_> = (0..=MAX_TASKS as u64)
            .map(|task| begin(task, 100))
            .collect();
        tasks.accept(&batch(&begins, &[]));
        assert_eq!(tasks.open.len(), MAX_TASKS);
        let beyond = MAX_TASKS as u64;
        tasks.accept(&batch(&[poll(3, 120, 10), poll(beyond, 120, 10)], &[]));
        tasks.accept(&batch(&[], &[(3, 100, 100), (beyond, 100, 100)]));
        assert_eq!(tasks.idle_ns(), [(SITE, 90)]);
        // The end of a task makes room for another.
        tasks.accept(&batch(&[begin(beyond + 1, 300)], &[]));
        assert_eq!(tasks.open.len(), MAX_TASKS);
    }
}
