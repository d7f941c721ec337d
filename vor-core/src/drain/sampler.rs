//! The system's rows of a frame: what vor measures without being asked.

use crate::catalog::MetricColumn;
use crate::clock;
use crate::frame::MetricValue;
use crate::metrics::IoTick;
use crate::system::{self, ProcessSample, ProcessSampler, SystemSample};

/// Makes the system values of each frame. Owned by the worker.
///
/// The process is sampled at most a hundred times a second. A frame that ends sooner after the last sample has no rows that count
/// something since then, and the latest value of the others.
#[derive(Debug)]
pub(super) struct FrameSampler {
    process: ProcessSampler,
    last: ProcessSample,
    sampled_at_ticks: u64,
}

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
        }
    }

    pub(super) fn columns() -> Vec<MetricColumn> {
        system::columns()
    }

    pub(super) const fn column_count() -> usize {
        system::COLUMN_COUNT
    }

    /// Returns the rows of a frame that lasted `frame_ns` and in which the program reported `io`.
    pub(super) fn sample(&mut self, frame_ns: u64, io: IoTick) -> Vec<MetricValue> {
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
        sample.io_ns = io.elapsed_ns;
        sample.io_bytes = io.bytes;
        let value = |(column, value): (u32, Option<f64>)| {
            Some(MetricValue {
                column,
                value: value?,
            })
        };
        (0..).zip(sample.values()).filter_map(value).collect()
    }
}
