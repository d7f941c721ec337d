//! The bound on the disk: which segments are deleted, the shipped ones first.

use std::fs::{self, File, TryLockError};
use std::time::Duration;

use vor_recorder::__private::has_lock_file;
use vor_recorder::sinks::segments::Segments;

use super::sealed::Segment;

/// Limits on the segments of a folder; `None` is no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    bytes: Option<u64>,
    age: Option<Duration>,
    count: Option<u64>,
}

impl Limits {
    pub(super) fn of(segments: &Segments) -> Self {
        let (bytes, age, count) = segments.kept();
        Self { bytes, age, count }
    }

    /// Returns limits to which these segments keep, and which are no stricter.
    pub(super) fn not_below(&self, segments: &[Segment]) -> Self {
        let sum = Rest::of(segments);
        Self {
            bytes: self.bytes.map(|most| most.max(sum.bytes)),
            age: None,
            count: self.count.map(|most| most.max(sum.count)),
        }
    }

    pub(super) fn are_set(&self) -> bool {
        self.bytes.is_some() || self.age.is_some() || self.count.is_some()
    }
}

/// The segments of a folder that are still there, and their sum.
#[derive(Debug)]
struct Rest {
    bytes: u64,
    count: u64,
}

impl Rest {
    fn of(segments: &[Segment]) -> Self {
        Self {
            bytes: segments.iter().map(|segment| segment.state.bytes).sum(),
            count: segments.len() as u64,
        }
    }

    fn exceeds(&self, limits: &Limits, segment: &Segment) -> bool {
        limits.bytes.is_some_and(|most| self.bytes > most)
            || limits.count.is_some_and(|most| self.count > most)
            || limits.age.is_some_and(|most| segment.state.age() > most)
    }
}

/// Deletes segments until the rest keeps to the limits: the oldest that `is_shipped` by the first
/// limits, and then the oldest of the others by the second. `segments` has the oldest first.
/// Returns which were deleted, and whether they were shipped.
pub(super) fn trim(
    segments: &[Segment],
    limits: [Limits; 2],
    is_shipped: impl Fn(&Segment) -> bool,
) -> Vec<(Segment, bool)> {
    let mut rest = Rest::of(segments);
    let mut deleted = Vec::new();
    for (shipped, limits) in [true, false].into_iter().zip(limits) {
        for segment in segments {
            if is_shipped(segment) == shipped
                && rest.exceeds(&limits, segment)
                // A recorder creates a file before it locks it.
                && segment.state.bytes > 0
                && delete(segment)
            {
                rest.bytes -= segment.state.bytes;
                rest.count -= 1;
                deleted.push((segment.clone(), shipped));
            }
        }
    }
    deleted
}

/// Deletes a segment that nobody reads or writes. Returns whether this call did.
pub(super) fn delete(segment: &Segment) -> bool {
    if has_lock_file(&segment.path) {
        return false;
    }
    // The lock is released when `file` is closed.
    let Ok(file) = File::open(&segment.path) else {
        return false;
    };
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return false;
    }
    fs::remove_file(&segment.path).is_ok()
}
