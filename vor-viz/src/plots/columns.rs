//! The values of frames, reduced to columns of pixels.
//!
//! A run is one or more columns of pixels that show the same: those of a frame that is wider than a pixel, or one column in which several frames lie. So a picture has at most
//! as many runs as pixels, however many frames there are.

use std::ops::Range;

use super::MetricRow;
use crate::frame_axis::FrameAxis;
use crate::store::Store;

/// How many frames are read of a row before the next row is read: their metrics stay in the cache meanwhile.
const BLOCK: usize = 64;

/// Columns of pixels that show the same values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// First column.
    pub(super) first: u32,
    /// Behind the last column.
    pub(super) end: u32,
    /// What the values have in common.
    pub(super) extent: Extent,
}

/// Least, greatest and mean of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    pub(super) min: f64,
    pub(super) max: f64,
    sum: f64,
    count: u32,
}

impl Extent {
    const NONE: Self = Self {
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        sum: 0.0,
        count: 0,
    };

    #[inline]
    fn add(&mut self, value: f64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += value;
        self.count += 1;
    }

    /// Returns the mean; of values so large that their sum has no place, the nearest of least and greatest. `NaN` if there are none.
    #[inline]
    pub(super) fn mean(&self) -> f64 {
        if self.count == 0 {
            return f64::NAN;
        }
        (self.sum / f64::from(self.count)).max(self.min).min(self.max)
    }

    /// Returns whether there is any value.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A row's values in columns of pixels.
#[derive(Clone, Debug)]
pub(super) struct Reduced {
    /// The runs, from left to right; between them lie gaps.
    pub(super) runs: Vec<Run>,
    /// All values of the visible frames.
    pub(super) all: Extent,
    /// Visible frames without a value.
    pub(super) gaps: usize,
}

/// The values of all rows that are in sight.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    rows: Vec<Reduced>,
}

impl Columns {
    /// Returns the rows, in the order in which they were read.
    pub(super) fn rows(&self) -> &[Reduced] {
        &self.rows
    }

    /// Reads the values of some frames.
    pub(super) fn read(
        &mut self,
        store: &Store,
        frames: Range<usize>,
        axis: &FrameAxis,
        rows: &[&MetricRow<'_>],
    ) {
        self.rows.resize_with(rows.len(), || Reduced {
            runs: Vec::new(),
            all: Extent::NONE,
            gaps: 0,
        });
        for reduced in &mut self.rows {
            reduced.runs.clear();
            reduced.all = Extent::NONE;
            reduced.gaps = 0;
        }
        let mut places = [None; BLOCK];
        for begin in frames.clone().step_by(BLOCK) {
            let block = begin..frames.end.min(begin + BLOCK);
            let entries = store.frames().range(block.clone());
            for (place, frame) in places.iter_mut().zip(entries) {
                *place = axis.columns(frame.begin_ns, frame.end_ns);
            }
            for (row, reduced) in rows.iter().zip(&mut self.rows) {
                for (index, place) in block.clone().zip(&places) {
                    reduced.add((row.values)(index), *place);
                }
            }
        }
    }
}

impl Reduced {
    #[inline]
    fn add(&mut self, value: f64, place: Option<(usize, usize)>) {
        let Some((first, end)) = place else {
            return;
        };
        if !value.is_finite() {
            self.gaps += 1;
            return;
        }
        self.all.add(value);
        let (mut first, end) = (first as u32, end as u32);
        if let Some(last) = self.runs.last_mut()
            && first < last.end
        {
            // Only frames that are narrower than a pixel share one, if the capture is sound.
            last.extent.add(value);
            first = last.end;
        }
        if first < end {
            let mut extent = Extent::NONE;
            extent.add(value);
            self.runs.push(Run { first, end, extent });
        }
    }
}
