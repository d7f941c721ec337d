//! The system's rows of a frame: what vor measures without being asked.

use crate::catalog::MetricColumn;
use crate::frame::MetricValue;
use crate::metrics::Taken;
use crate::system::{self, ProcessSample, ProcessSampler, SystemSample};
use crate::{alloc, clock};

/// Makes the system values of each frame. Owned by the worker.
///
/// The process is sampled at most a hundred times a second. A frame that ends sooner after the last sample has no rows that count
/// something since then, and the latest value of the others.
#[derive(Debug)]
pub(super) struct FrameSampler {
    process: ProcessSampler,
    last: ProcessSample,
    sampled_at_ticks: u64,
    /// Whether the program's allocator is tracked, which it is from its first allocation on or never.
    counts_allocations: bool,
}

/// The columns of a program whose allocator is tracked, behind the others.
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
            sampled_at_ticks: clock::ticks(),
            counts_allocations: alloc::is_installed(),
        }
    }

    /// Says which rows frames do not have, and why; `None` where they have all.
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

    /// Returns the rows of a frame that lasted `frame_ns` and of which the program told what is in `taken`.
    pub(super) fn sample(&mut self, frame_ns: u64, taken: &Taken) -> Vec<MetricValue> {
        let now_ticks = clock::ticks();
        let elapsed_ns = clock::approximate_ns(now_ticks.saturating_sub(self.sampled_at_ticks));
        let mut sample = if elapsed_ns >= SAMPLE_INTERVAL_NS {
            let current = self.process.sample();
            let sample = SystemSample::between(&self.last, &current, elapsed_ns);
            self.last = current;
            self.sampled_at_ticks = now_ticks;
            sample
        } else {
            // Only what a sample says by itself: a difference needs two.
            let nothing_before = ProcessSample::default();
            SystemSample::between(&nothing_before, &self.last, 0)
        };
        sample.frame_ns = frame_ns;
        sample.io_ns = taken.io.elapsed_ns;
        sample.io_bytes = taken.io.bytes;
        let allocated = self.counts_allocations.then_some(taken.allocations);
        let allocations = [
            allocated.map(|counts| counts.alloc_bytes as f64 / 1e6),
            allocated.map(|counts| counts.alloc_objects as f64),
        ];
        let value = |(column, value): (u32, Option<f64>)| {
            Some(MetricValue {
                column,
                value: value?,
            })
        };
        let values = sample.values().into_iter().chain(allocations);
        (0..).zip(values).filter_map(value).collect()
    }
}
