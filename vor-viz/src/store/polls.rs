//! The polls of tasks: the times in which a task ran and did not wait.
//!
//! A poll is recorded when it ends, on the thread that polled, and a task when it has ended. So the
//! polls of an open task are kept until the task gets its lane. There they are in the order of
//! their begins, and each has the latest end so far. These ends ascend even if two threads polled a
//! task at once, so a search finds the first poll that reaches into a time.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use vor_capture::model::catalog::ThreadId;

use super::block::Task;
use super::level_of_detail::PixelScale;

/// Maximum number of polls of open tasks. Beyond it, the earlier half is forgotten.
const MAX_OPEN_POLLS: usize = 1 << 18;

/// A time in which a task ran, on the thread of its block.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Poll {
    /// The task's id.
    pub task: u64,
    /// Begin of the poll.
    pub begin_ns: i64,
    /// Duration of the poll.
    pub duration_ns: u64,
}

impl Poll {
    /// Returns the end of the poll.
    #[must_use]
    pub fn end_ns(&self) -> i64 {
        self.begin_ns.saturating_add_unsigned(self.duration_ns)
    }
}

/// A poll of a task that has a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePoll {
    /// Begin of the poll.
    pub begin_ns: i64,
    /// End of the poll, at most that of its task.
    pub end_ns: i64,
    /// The thread that polled.
    pub thread: ThreadId,
    /// The latest end of this poll and of those before it in the lane.
    latest_end_ns: i64,
}

/// The polls of the tasks of a lane, in the order of their begins.
#[derive(Clone, Debug, Default)]
pub struct Polls {
    list: VecDeque<LanePoll>,
}

impl Polls {
    /// Returns the number of polls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no polls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Appends the polls of a task, which begins after the other tasks of the lane have ended. In a
    /// damaged capture, polls may reach beyond their task; they are cut to it.
    pub(super) fn add(&mut self, task: &Task, mut polls: Vec<LanePoll>) {
        let task_end_ns = task.begin_ns.saturating_add_unsigned(task.duration_ns);
        polls.retain(|poll| (task.begin_ns..=task_end_ns).contains(&poll.begin_ns));
        polls.sort_by_key(|poll| (poll.begin_ns, poll.end_ns));
        let last = self.list.back();
        let mut latest_end_ns = last.map_or(i64::MIN, |last| last.latest_end_ns);
        self.list.extend(polls.into_iter().map(|poll| {
            let end_ns = poll.end_ns.min(task_end_ns);
            latest_end_ns = latest_end_ns.max(end_ns);
            LanePoll {
                end_ns,
                latest_end_ns,
                ..poll
            }
        }));
    }

    /// Removes the polls before the first one that ended after `ns`.
    pub(super) fn evict(&mut self, ns: i64) {
        let gone = self.first_ending_at(0, ns.saturating_add(1));
        self.list.drain(..gone);
    }

    /// Returns the polls that overlap a time, whose ends are both inclusive.
    pub fn within(&self, begin_ns: i64, end_ns: i64) -> impl Iterator<Item = &LanePoll> {
        let polls = self.list.range(self.first_ending_at(0, begin_ns)..);
        polls
            .take_while(move |poll| poll.begin_ns <= end_ns)
            .filter(move |poll| poll.end_ns >= begin_ns)
    }

    /// Returns the pixels in which a task ran, as ascending ranges with gaps between them. The cost
    /// follows the number of pixels, not that of polls.
    #[must_use]
    pub fn pixels(&self, scale: &PixelScale) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut covered = 0;
        let mut at = 0;
        loop {
            // All polls that end earlier are within the covered pixels, or before the first one.
            at = self.first_ending_at(at, scale.ns(covered as f64).floor() as i64);
            let Some(poll) = self.list.get(at) else {
                return runs;
            };
            at += 1;
            let first = scale.x(poll.begin_ns).floor();
            if first >= scale.width() as f64 {
                return runs;
            }
            let end = scale.x(poll.end_ns).ceil().max(first + 1.0);
            let end = (end as usize).min(scale.width());
            if end <= covered {
                continue;
            }
            match runs.last_mut() {
                Some(run) if first as usize <= run.end => run.end = end,
                _ => runs.push(first as usize..end),
            }
            covered = end;
        }
    }

    /// Returns the index of the first poll, from an index on, whose latest end is at a moment or
    /// after it. All polls between end before the moment.
    fn first_ending_at(&self, from: usize, ns: i64) -> usize {
        let is_earlier = |at: usize| {
            let poll = self.list.get(at);
            poll.is_some_and(|poll| poll.latest_end_ns < ns)
        };
        // The next one is usually near, so the steps grow from there.
        let (mut first, mut step) = (from, 1);
        while is_earlier(first + step - 1) {
            first += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            if is_earlier(first + step - 1) {
                first += step;
            }
        }
        first.min(self.list.len())
    }
}

/// The polls of tasks that have not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenPolls {
    of_tasks: FxHashMap<u64, Vec<LanePoll>>,
    count: usize,
}

impl OpenPolls {
    /// Adds a poll of a thread.
    pub(super) fn add(&mut self, thread: ThreadId, poll: &Poll) {
        self.of_tasks.entry(poll.task).or_default().push(LanePoll {
            begin_ns: poll.begin_ns,
            end_ns: poll.end_ns(),
            thread,
            latest_end_ns: poll.end_ns(),
        });
        self.count += 1;
    }

    /// Takes the polls of a task.
    pub(super) fn take(&mut self, task: u64) -> Vec<LanePoll> {
        let polls = self.of_tasks.remove(&task).unwrap_or_default();
        self.count -= polls.len();
        polls
    }

    /// Forgets the earlier half of the polls if there are too many: tasks may stay open for as long
    /// as the program runs.
    pub(super) fn keep_to_limit(&mut self) {
        if self.count <= MAX_OPEN_POLLS {
            return;
        }
        let polls = self.of_tasks.values().flatten();
        let mut begins: Vec<i64> = polls.map(|poll| poll.begin_ns).collect();
        let middle = begins.len() / 2;
        let (_, &mut middle_ns, _) = begins.select_nth_unstable(middle);
        self.of_tasks.retain(|_, polls| {
            polls.retain(|poll| poll.begin_ns > middle_ns);
            !polls.is_empty()
        });
        self.count = self.of_tasks.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::model::catalog::SiteId;

    use super::*;

    fn poll(task: u64, begin_ns: i64) -> Poll {
        Poll {
            task,
            begin_ns,
            duration_ns: 5,
        }
    }

    #[test]
    fn polls_of_a_damaged_capture_are_cut_to_their_task() {
        let mut open = OpenPolls::default();
        for begin_ns in [90, 100, 107, 110, 111] {
            open.add(ThreadId(1), &poll(7, begin_ns));
        }
        let mut polls = Polls::default();
        let task = Task {
            id: 7,
            site: SiteId(1),
            begin_ns: 100,
            duration_ns: 10,
        };
        polls.add(&task, open.take(7));
        let times = polls.within(i64::MIN, i64::MAX);
        let times: Vec<_> = times.map(|poll| (poll.begin_ns, poll.end_ns)).collect();
        assert_eq!(times, [(100, 105), (107, 110), (110, 110)]);
        assert!(open.take(7).is_empty());
    }

    #[test]
    fn of_too_many_polls_the_later_half_is_kept() {
        let mut open = OpenPolls::default();
        for i in 0..MAX_OPEN_POLLS as i64 {
            open.add(ThreadId(1), &poll(1 + i as u64 % 2, i));
        }
        open.keep_to_limit();
        assert_eq!(open.count, MAX_OPEN_POLLS);
        // A task that is new gets its polls although others are open all the time.
        open.add(ThreadId(1), &poll(3, MAX_OPEN_POLLS as i64));
        open.keep_to_limit();
        assert_eq!(open.count, MAX_OPEN_POLLS / 2);
        assert_eq!(open.take(3).len(), 1);
        let kept = [open.take(1), open.take(2)].concat();
        let half = MAX_OPEN_POLLS as i64 / 2;
        assert!(kept.iter().all(|poll| poll.begin_ns > half));
        assert_eq!((kept.len(), open.count), (MAX_OPEN_POLLS / 2 - 1, 0));
    }
}
