//! Marks on their way to the worker.
//!
//! A thread that marks appends to a queue under a lock. The worker takes over the whole queue at
//! once and processes it without the lock, so a mark never waits for frames that are being made.
//! The queue is bounded: when it is full, marks of a set are merged.

use std::collections::VecDeque;
use std::ops::DerefMut;

use crate::metrics::FrameMetrics;

/// Most marks that wait for the worker; beyond that, marks of the same set are merged. With a mark
/// every hundred spans, a ring of the usual size is full sooner.
const MAX_MARKS: usize = 1 << 14;
/// Most memory of the metrics that wait with the marks; beyond that, marks are merged as well. A
/// distribution takes some tens of kilobytes.
const MAX_BYTES: usize = 32 << 20;
/// Divisor of the limits: a queue that is fuller than this part wakes the worker, like a filling
/// ring.
const MANY: usize = 16;

/// A mark that waits for the worker.
#[derive(Debug)]
pub(super) struct Mark {
    /// Frame set; 0 is the main one.
    pub(super) set: u32,
    pub(super) ticks: u64,
    /// Metrics recorded since the previous mark; empty for secondary sets.
    pub(super) metrics: FrameMetrics,
    /// Marks merged into this one.
    pub(super) merged: u64,
}

/// The queue, in order of time.
#[derive(Debug, Default)]
pub(super) struct Marks {
    queue: VecDeque<Mark>,
    /// Memory of the marks' metrics.
    bytes: usize,
}

impl Marks {
    pub(super) const fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Appends a mark that is later than all others, or merges it with the last one of its set if
    /// the queue is full.
    pub(super) fn push(&mut self, mut mark: Mark) {
        let full = self.queue.len() >= MAX_MARKS || self.bytes >= MAX_BYTES;
        if full
            && let Some(at) = self
                .queue
                .iter()
                .rposition(|waiting| waiting.set == mark.set)
            && let Some(earlier) = self.queue.remove(at)
        {
            self.bytes -= earlier.metrics.bytes();
            mark.metrics.absorb(earlier.metrics);
            mark.merged += earlier.merged + 1;
        }
        self.bytes += mark.metrics.bytes();
        self.queue.push_back(mark);
    }

    /// Returns whether the worker should run immediately.
    pub(super) fn are_many(&self) -> bool {
        self.queue.len() >= MAX_MARKS / MANY || self.bytes >= MAX_BYTES / MANY
    }

    /// Takes the first mark, if it is not later than `until_ticks`.
    pub(super) fn pop_due(&mut self, until_ticks: u64) -> Option<Mark> {
        let mark = self
            .queue
            .pop_front_if(|first| first.ticks <= until_ticks)?;
        self.bytes -= mark.metrics.bytes();
        Some(mark)
    }

    /// Returns whether the first mark is not later than `until_ticks`.
    pub(super) fn has_due(&self, until_ticks: u64) -> bool {
        self.queue
            .front()
            .is_some_and(|first| first.ticks <= until_ticks)
    }

    /// Takes over the marks of `others`, which are all later, if this queue is empty.
    pub(super) fn refill<L: DerefMut<Target = Self>>(&mut self, others: impl FnOnce() -> L) {
        if self.queue.is_empty() {
            std::mem::swap(self, &mut others());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn mark(set: u32, ticks: u64, value: Option<f64>) -> Mark {
        let values = value.map(|value| (0, value)).into_iter().collect();
        let metrics = FrameMetrics {
            values,
            ..FrameMetrics::default()
        };
        Mark {
            set,
            ticks,
            metrics,
            merged: 0,
        }
    }

    #[test]
    fn a_full_queue_merges_marks_of_a_set_and_stays_in_order() {
        const EXTRA: u64 = 100;
        let mut marks = Marks::new();
        for ticks in 0..MAX_MARKS as u64 + EXTRA {
            marks.push(mark((ticks % 3 == 0).into(), ticks, Some(ticks as f64)));
        }
        let mut seen = [0; 2];
        let mut before = None;
        while let Some(mark) = marks.pop_due(u64::MAX) {
            assert!(before < Some(mark.ticks), "in order of time");
            assert_eq!(
                mark.metrics.values,
                [(0, mark.ticks as f64)],
                "the last value is kept"
            );
            before = Some(mark.ticks);
            seen[mark.set as usize] += 1 + mark.merged;
        }
        let all = MAX_MARKS as u64 + EXTRA;
        assert_eq!(seen, [all - all.div_ceil(3), all.div_ceil(3)]);
        assert_eq!(marks.bytes, 0);
    }

    #[test]
    fn many_metrics_fill_the_queue_as_well() {
        let mut marks = Marks::new();
        let mut count = 0;
        while marks.bytes < MAX_BYTES {
            let mut mark = mark(0, count, None);
            mark.metrics.values = (0..1 << 16).map(|column| (column, 0.0)).collect();
            marks.push(mark);
            count += 1;
        }
        assert!(marks.are_many());
        assert!(count < 100);
        let (len, bytes) = (marks.queue.len(), marks.bytes);
        marks.push(mark(0, count, Some(1.0)));
        assert_eq!((marks.queue.len(), marks.bytes), (len, bytes), "merged");
    }

    #[test]
    fn only_due_marks_are_taken_and_others_follow() {
        let (mut ours, mut theirs) = (Marks::new(), Marks::new());
        theirs.push(mark(0, 5, None));
        theirs.push(mark(0, 9, None));
        ours.refill(|| &mut theirs);
        theirs.push(mark(0, 12, None));
        ours.refill(|| &mut theirs);
        let due = |marks: &mut Marks, until| marks.pop_due(until).map(|mark| mark.ticks);
        assert_eq!(due(&mut ours, 8), Some(5));
        assert_eq!(
            (due(&mut ours, 8), ours.has_due(8), ours.has_due(9)),
            (None, false, true)
        );
        assert_eq!(due(&mut ours, 9), Some(9));
        ours.refill(|| &mut theirs);
        assert_eq!(due(&mut ours, 12), Some(12));
    }
}
