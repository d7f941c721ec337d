//! The system rows of every frame.

use vor_capture::filled;
use vor_capture::model::catalog::MetricColumn;
use vor_capture::model::frame::MetricValue;

use crate::metrics::FrameMetrics;
use crate::os::system::{self, ProcessSample, ProcessSampler, SystemSample};
use crate::{allocations, clock};

/// Makes the system values of each frame. Owned by the worker.
///
/// The process is sampled at most a hundred times a second. A frame that ends sooner after the last
/// sample has no rows that count since then, and the latest value of the others.
#[derive(Debug)]
pub(super) struct FrameSampler {
    process: ProcessSampler,
    last: ProcessSample,
    /// The values of `last` alone: the rows of frames that end before the next sample.
    latest: SystemSample,
    sampled_at_ticks: u64,
    /// Whether the program's allocator is tracked, from its first allocation on or never.
    counts_allocations: bool,
}

/// The columns of a program whose allocator is tracked, after the others.
const ALLOCATION_COLUMNS: [(&str, &str); 2] = [("alloc_MB", "MB"), ("allocs", "")];

/// Least time between two samples of the process.
const SAMPLE_INTERVAL_NS: u64 = 10_000_000;

impl FrameSampler {
    pub(super) fn new() -> Self {
        let mut process = ProcessSampler::new();
        let last = process.sample();
        Self {
            process,
            last,
            latest: latest(&last),
            sampled_at_ticks: clock::ticks(),
            counts_allocations: allocations::is_installed(),
        }
    }

    /// Returns which rows frames lack, and why; `None` if they have all.
    pub(super) fn absences(&self) -> Option<String> {
        system::absences(&self.last)
    }

    pub(super) fn columns(&self) -> Vec<MetricColumn> {
        let mut columns = system::columns();
        if self.counts_allocations {
            columns.extend(ALLOCATION_COLUMNS.map(|(name, unit)| MetricColumn {
                name: name.into(),
                unit: unit.into(),
            }));
        }
        columns
    }

    pub(super) const fn column_count(&self) -> usize {
        let more = if self.counts_allocations {
            ALLOCATION_COLUMNS.len()
        } else {
            0
        };
        system::COLUMN_COUNT + more
    }

    /// Takes a sample if the last one is old. Returns the values for the time between both.
    pub(super) fn keep_up(&mut self) -> Option<SystemSample> {
        let now_ticks = clock::ticks();
        let elapsed_ns = clock::approximate_ns(now_ticks.saturating_sub(self.sampled_at_ticks));
        if elapsed_ns < SAMPLE_INTERVAL_NS {
            return None;
        }
        let current = self.process.sample();
        let sample = SystemSample::between(&self.last, &current, elapsed_ns);
        self.last = current;
        self.latest = latest(&current);
        self.sampled_at_ticks = now_ticks;
        Some(sample)
    }

    /// Appends the rows of a frame that lasted `frame_ns`; `recorded` holds the program's metrics
    /// in it.
    pub(super) fn sample(
        &mut self,
        frame_ns: u64,
        recorded: &FrameMetrics,
        rows: &mut Vec<MetricValue>,
    ) {
        let mut sample = self.keep_up().unwrap_or(self.latest);
        sample.frame_ns = frame_ns;
        sample.io_ns = recorded.io.elapsed_ns;
        sample.io_bytes = recorded.io.bytes;
        let allocated = self.counts_allocations.then_some(recorded.allocations);
        let allocations = [
            allocated.map(|counts| counts.alloc_bytes as f64 / 1e6),
            allocated.map(|counts| counts.alloc_objects as f64),
        ];
        rows.reserve(self.column_count());
        for (column, value) in (0..).zip(sample.values().into_iter().chain(allocations)) {
            rows.extend(value.map(|value| filled!(MetricValue { column, value })));
        }
    }
}

/// Returns the values of a sample that need no second one; a difference needs two.
fn latest(sample: &ProcessSample) -> SystemSample {
    SystemSample::between(&ProcessSample::default(), sample, 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_frame_soon_after_a_sample_repeats_the_last_values() {
        let mut sampler = FrameSampler::new();
        let wrong = Some(u64::MAX);
        sampler.latest.threads = wrong;
        // No time has passed since a sample that is still to come.
        sampler.sampled_at_ticks = u64::MAX;
        assert!(sampler.keep_up().is_none());
        assert_eq!(
            (sampler.latest.threads, sampler.sampled_at_ticks),
            (wrong, u64::MAX)
        );
        // Much time has passed since the counter began.
        sampler.sampled_at_ticks = 0;
        assert!(sampler.keep_up().is_some());
        assert_eq!(sampler.latest.threads, sampler.last.threads);
        assert_ne!(
            (sampler.latest.threads, sampler.sampled_at_ticks),
            (wrong, 0)
        );
    }
}
