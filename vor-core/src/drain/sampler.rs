//! The system's rows of a frame: what vor measures without being asked.

use crate::catalog::MetricColumn;
use crate::frame::MetricValue;
use crate::metrics::IoTick;

/// Makes the system values of each frame. Owned by the worker.
#[derive(Debug)]
pub(super) struct FrameSampler {
    columns: Vec<MetricColumn>,
}

impl FrameSampler {
    pub(super) fn new() -> Self {
        let columns = [("frame_ms", "ms"), ("io_ms", "ms"), ("io_MB", "MB")]
            .map(|(name, unit)| MetricColumn { name: name.into(), unit: unit.into() });
        Self { columns: columns.into() }
    }

    pub(super) fn columns(&self) -> Vec<MetricColumn> {
        self.columns.clone()
    }

    pub(super) fn column_count(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn sample(&mut self, frame_ns: u64, io: IoTick) -> Vec<MetricValue> {
        let values = [frame_ns as f64 / 1e6, io.elapsed_ns as f64 / 1e6, io.bytes as f64 / 1e6];
        (0..).zip(values).map(|(column, value)| MetricValue { column, value }).collect()
    }
}
