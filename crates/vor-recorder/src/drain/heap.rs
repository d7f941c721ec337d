//! Snapshots of the heap at an interval, for the capture and other sinks: what a leak is found by
//! afterwards.

use std::time::Duration;

use crate::clock;
use crate::os::report;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU64};

/// Nanoseconds from one snapshot to the next; 0 means no snapshots. Written by `start`, read
/// by the worker, relaxed.
static INTERVAL_NS: AtomicU64 = AtomicU64::new(0);

/// Shortest interval: a snapshot looks at the whole live heap.
const SHORTEST: Duration = Duration::from_millis(10);

/// Has snapshots taken from now on.
pub(super) fn set_interval(interval: Duration) {
    let interval_ns = u64::try_from(interval.max(SHORTEST).as_nanos());
    INTERVAL_NS.store(interval_ns.unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Returns how long the worker may sleep that would sleep for `longest`.
pub(super) fn longest_sleep(longest: Duration) -> Duration {
    match INTERVAL_NS.load(Ordering::Relaxed) {
        0 => longest,
        interval_ns => longest.min(Duration::from_nanos(interval_ns)),
    }
}

/// When a snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SnapshotTime {
    /// If the interval has passed.
    IfDue,
    /// At once: at the start and at the end.
    Now,
}

/// When the next snapshot is due.
#[derive(Debug, Default)]
pub(super) struct Timer {
    next_ticks: u64,
}

impl Timer {
    /// Takes a snapshot where snapshots are on and one is due, or must be taken now.
    pub(super) fn snapshot(
        &mut self,
        now_ticks: u64,
        time: SnapshotTime,
    ) -> Option<vor_capture::model::heap::HeapSnapshot> {
        let interval_ns = INTERVAL_NS.load(Ordering::Relaxed);
        if interval_ns == 0 || (now_ticks < self.next_ticks && time == SnapshotTime::IfDue) {
            return None;
        }
        if !crate::heap::tracks_heap() {
            INTERVAL_NS.store(0, Ordering::Relaxed);
            report_none();
            return None;
        }
        self.next_ticks = now_ticks.saturating_add(clock::approximate_ticks(interval_ns));
        Some(crate::heap::heap_snapshot())
    }
}

/// Reports once that there is nothing to take a snapshot of.
fn report_none() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !REPORTED.swap(true, Ordering::Relaxed) {
        report::line(
            "heap snapshots need a `TrackingAllocator` that is `sampled` or `exact`; no snapshots are taken",
        );
    }
}
