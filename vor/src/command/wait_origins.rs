//! Which scope ended a wait that nobody holds: the one in which the flow began that arrived last.
//!
//! A wait for a message of a channel with flows has such an arrival. The scope at the begin of a
//! flow is the first one on that thread that ends after the begin and began before it, so the
//! origins of all flows are known only at the end of the capture. They are found by a pass of
//! their own.

use std::collections::HashMap;

use vor_capture::model::batch::{FlowPoint, FlowStage, ThreadBatch};
use vor_capture::model::catalog::{SiteId, ThreadId};

/// Most flows whose origins are kept: about 130 MB.
const MAX_FLOWS: usize = if cfg!(test) { 6 } else { 4_000_000 };

/// The scope and the thread in which each flow began.
#[derive(Debug, Default)]
pub(super) struct Origins {
    found: HashMap<u64, (ThreadId, Option<SiteId>)>,
    /// Begins whose scope has not ended yet, by thread, ascending.
    pending: HashMap<ThreadId, Vec<(u64, u64)>>,
    pending_flows: usize,
}

impl Origins {
    /// Adds the flows of a thread. Returns whether there is room for more.
    pub(super) fn add_thread(&mut self, thread: &ThreadBatch) -> bool {
        let begins = thread
            .flows
            .iter()
            .filter(|point| point.stage == FlowStage::Begin)
            .map(|point| (point.ticks, point.flow));
        let pending = self.pending.entry(thread.thread).or_default();
        let before = pending.len();
        pending.extend(begins);
        self.pending_flows += pending.len() - before;
        for (i, &start) in thread.start_ticks.iter().enumerate() {
            if pending.is_empty() {
                break;
            }
            let end = thread.end_ticks(i);
            let first = pending.partition_point(|(ticks, _)| *ticks < start);
            let last = pending.partition_point(|(ticks, _)| *ticks <= end);
            for (_, flow) in pending.drain(first..last.max(first)) {
                self.pending_flows -= 1;
                self.found
                    .insert(flow, (thread.thread, Some(thread.sites[i])));
            }
        }
        self.found.len() + self.pending_flows < MAX_FLOWS
    }

    /// Takes the flows that began outside of all scopes, or in one that never ended.
    pub(super) fn finish(&mut self) {
        for (thread, begins) in self.pending.drain() {
            let begins = begins.into_iter().map(|(_, flow)| (flow, (thread, None)));
            self.found.extend(begins);
        }
    }
}

/// Most arrivals of a thread that are kept. If there are more, waits that end later lack the older
/// half.
const MAX_ARRIVALS: usize = if cfg!(test) { 4 } else { 1 << 20 };

/// The flows that have arrived on each thread, in the order of time.
///
/// A capture has them in a record before the one with the waits in which they arrived.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    threads: HashMap<ThreadId, Vec<FlowPoint>>,
}

impl Arrivals {
    /// Takes the flows of a thread in a batch, and returns all that may end a wait in it.
    pub(super) fn take<'a>(
        &'a mut self,
        origins: &'a Origins,
        thread: &ThreadBatch,
    ) -> ThreadArrivals<'a> {
        let points = self.threads.entry(thread.thread).or_default();
        let arrives = |point: &&FlowPoint| point.stage != FlowStage::Begin;
        points.extend(thread.flows.iter().filter(arrives).copied());
        if points.len() > MAX_ARRIVALS {
            let older = points.len() / 2;
            points.drain(..older);
        }
        ThreadArrivals {
            origins,
            thread: thread.thread,
            points,
        }
    }

    /// Forgets what can end no later wait: a span that ends later may have begun before, but the
    /// last arrival is enough for it.
    pub(super) fn forget(&mut self, thread: &ThreadBatch) {
        let Some(last) = thread.len().checked_sub(1) else {
            return;
        };
        if let Some(points) = self.threads.get_mut(&thread.thread) {
            let end = thread.end_ticks(last);
            let over = points.partition_point(|point| point.ticks <= end);
            points.drain(..over.saturating_sub(1));
        }
    }
}

/// The flows that have arrived on a thread.
#[derive(Debug)]
pub(super) struct ThreadArrivals<'a> {
    origins: &'a Origins,
    thread: ThreadId,
    points: &'a [FlowPoint],
}

impl ThreadArrivals<'_> {
    /// Returns the thread that ended a wait, and its scope then: the origin of the last flow that
    /// arrived during the wait and came from another thread.
    pub(super) fn ended(&self, start: u64, end: u64) -> Option<(ThreadId, Option<SiteId>)> {
        let until = self.points.partition_point(|point| point.ticks <= end);
        let arrived = self.points[..until].iter().rev();
        let inside = arrived.take_while(|point| point.ticks >= start);
        let mut origins = inside.filter_map(|point| self.origins.found.get(&point.flow).copied());
        origins.find(|(thread, _)| *thread != self.thread)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vor_capture::filled;

    use super::*;

    /// Makes a batch of spans, each with its begin, end and site, and of points of flows.
    fn thread(id: u32, spans: &[(u64, u64, u32)], flows: &[(u64, u64, FlowStage)]) -> ThreadBatch {
        let point = |&(ticks, flow, stage): &(u64, u64, FlowStage)| {
            filled!(FlowPoint { ticks, flow, stage })
        };
        filled!(ThreadBatch {
            thread: ThreadId(id),
            start_ticks: spans.iter().map(|span| span.0).collect(),
            duration_ticks: spans.iter().map(|span| span.1 - span.0).collect(),
            sites: spans.iter().map(|span| SiteId(span.2)).collect(),
            flows: flows.iter().map(point).collect()
        })
    }

    #[test]
    fn a_flow_begins_in_the_innermost_scope_around_it() {
        use FlowStage::{Begin, Step};
        let mut origins = Origins::default();
        // Flow 1 begins just before the scopes, 2 and 4 at the ends of the outer one.
        let scopes = [(12, 16, 2), (10, 20, 1)];
        let flows = [
            (9, 1, Begin),
            (10, 2, Begin),
            (15, 3, Begin),
            (20, 4, Begin),
        ];
        assert!(origins.add_thread(&thread(0, &scopes, &flows)), "4 flows");
        let later = thread(0, &[], &[(30, 5, Begin), (31, 9, Step)]);
        assert!(origins.add_thread(&later), "5 flows");
        let other = thread(1, &[], &[(5, 6, Begin)]);
        assert!(!origins.add_thread(&other), "6 flows are too many");
        origins.finish();
        let found: BTreeMap<_, _> = origins.found.into_iter().collect();
        let expected = [
            (1, (ThreadId(0), None)),
            (2, (ThreadId(0), Some(SiteId(1)))),
            (3, (ThreadId(0), Some(SiteId(2)))),
            (4, (ThreadId(0), Some(SiteId(1)))),
            (5, (ThreadId(0), None)),
            (6, (ThreadId(1), None)),
        ];
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn a_wait_ends_by_the_last_flow_of_another_thread_that_arrives_in_it() {
        use FlowStage::{Begin, End, Step};
        let mut origins = Origins::default();
        origins.add_thread(&thread(1, &[(0, 9, 4)], &[(1, 1, Begin), (20, 2, Begin)]));
        origins.add_thread(&thread(7, &[], &[(2, 3, Begin)]));
        origins.finish();
        let mut arrivals = Arrivals::default();
        // Flow 3 is one of the waiting thread's own, and nothing is known of flow 8.
        let flows = [(10, 1, Step), (20, 2, End), (30, 3, Step), (40, 8, Step)];
        let arrived = arrivals.take(&origins, &thread(7, &[], &flows));
        let (first, second) = ((ThreadId(1), Some(SiteId(4))), (ThreadId(1), None));
        for (start, end, expected) in [
            (10, 19, Some(first)),
            (10, 20, Some(second)),
            (11, 19, None),
            (20, 50, Some(second)),
            (21, 50, None),
        ] {
            assert_eq!(arrived.ended(start, end), expected, "{start}..={end}");
        }
    }

    #[test]
    fn arrivals_are_forgotten_once_they_are_too_old_or_too_many() {
        use FlowStage::{Begin, Step};
        let kept = |arrivals: &Arrivals| {
            let points = arrivals.threads[&ThreadId(0)].iter();
            points.map(|point| point.ticks).collect::<Vec<_>>()
        };
        let origins = Origins::default();
        let mut arrivals = Arrivals::default();
        let four = [1, 3, 5, 7].map(|ticks| (ticks, ticks, Step));
        let begin = [(6, 6, Begin)];
        arrivals.take(&origins, &thread(0, &[], &[&four[..], &begin].concat()));
        assert_eq!(kept(&arrivals), [1, 3, 5, 7]);
        // Without a span nothing has ended.
        arrivals.forget(&thread(0, &[], &[]));
        assert_eq!(kept(&arrivals), [1, 3, 5, 7]);
        arrivals.take(&origins, &thread(0, &[], &[(9, 9, Step)]));
        assert_eq!(kept(&arrivals), [5, 7, 9], "5 are too many");
        arrivals.take(&origins, &thread(0, &[], &[(11, 11, Step)]));
        arrivals.forget(&thread(0, &[(0, 8, 1), (2, 9, 1)], &[]));
        assert_eq!(kept(&arrivals), [9, 11]);
        arrivals.forget(&thread(0, &[(9, 10, 1)], &[]));
        assert_eq!(kept(&arrivals), [9, 11]);
    }
}
