//! The system's rows of a frame: what vor measures without being asked.

use std::time::{Duration, Instant};

use crate::catalog::MetricColumn;
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
    sampled_at: Instant,
}

/// Least time between two samples of the process.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

impl FrameSampler {
    pub(super) fn new() -> Self {
        let mut process = ProcessSampler::new();
        let last = process.sample();
        Self {
            process,
            last,
            sampled_at: Instant::now(),
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
        let elapsed = self.sampled_at.elapsed();
        let mut sample = if elapsed >= SAMPLE_INTERVAL {
            let current = self.process.sample();
            let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
            let sample = SystemSample::between(&self.last, &current, elapsed_ns);
            self.last = current;
            self.sampled_at = Instant::now();
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
