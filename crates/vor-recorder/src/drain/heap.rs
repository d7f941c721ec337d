//! Snapshots of the heap at an interval, for the capture and other sinks, from which leaks can be
//! found afterwards.

use std::time::Duration;

use crate::clock;
use crate::os::report;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU64};

/// Nanoseconds from one snapshot to the next; 0 means no snapshots. Written by `start`, read by the
/// worker, relaxed.
static INTERVAL_NS: AtomicU64 = AtomicU64::new(0);

/// Shortest interval: a snapshot reads the whole live heap.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Enables snapshots from now on.
pub(super) fn set_interval(interval: Duration) {
    let interval_ns = u64::try_from(interval.max(MIN_INTERVAL).as_nanos());
    INTERVAL_NS.store(interval_ns.unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Limits a sleep of the worker to the interval of snapshots.
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
    /// Immediately: at the start and at the end.
    Now,
}

/// The time of the next snapshot.
#[derive(Debug, Default)]
pub(super) struct Timer {
    next_ticks: u64,
}

impl Timer {
    /// Takes a snapshot if snapshots are on and one is due or must be taken now.
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

/// Reports once that no allocator tracks the heap.
fn report_none() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !REPORTED.swap(true, Ordering::Relaxed) {
        report::line(
            "heap snapshots need a `TrackingAllocator` that is `sampled` or `exact`; no snapshots \
            are taken",
        );
    }
}
