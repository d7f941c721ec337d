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
const MAX_FLOWS: usize = 4_000_000;

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
const MAX_ARRIVALS: usize = 1 << 20;

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
            points.drain(..MAX_ARRIVALS / 2);
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
