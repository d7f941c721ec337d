//! The metrics that the program recorded between two marks of the main frame set.

use super::distribution::Distribution;
use super::gauge::{self, Readings};
use super::histogram::Histogram;
use super::{IO, IoTick, counter, metrics};
use crate::allocations::Counts;
use crate::sync::Ordering;
use vor_capture::sort::sort_by;

/// Metrics that the program recorded between two marks of the main frame set.
#[derive(Debug, Default)]
pub(crate) struct FrameMetrics {
    /// Latest values by user column.
    pub(crate) values: Vec<(u32, f64)>,
    /// Sums of counters by user column.
    pub(crate) sums: Vec<(u32, u64)>,
    /// Distributions, with the columns of their p50, p99 and maximum.
    pub(crate) histograms: Vec<([u32; 3], Distribution)>,
    pub(crate) io: IoTick,
    pub(crate) allocations: Counts,
}

/// Takes everything recorded since the last mark.
pub(crate) fn take() -> FrameMetrics {
    let mut metrics = metrics();
    let Readings { mut values, gauges } = gauge::read_all(&mut metrics);
    for slot in &metrics.slots {
        if slot.written.load(Ordering::Relaxed) && slot.written.swap(false, Ordering::Acquire) {
            values.push((
                slot.column,
                f64::from_bits(slot.value.load(Ordering::Relaxed)),
            ));
        }
    }
    let sums = counter::take(&metrics.counters);
    let take =
        |(histogram, columns): &(&'static Histogram, [u32; 3])| Some((*columns, histogram.take()?));
    let histograms = metrics.histograms.iter().filter_map(take).collect();
    let taken = FrameMetrics {
        values,
        sums,
        histograms,
        io: IO.take(),
        allocations: metrics.take_allocations(),
    };
    drop(metrics);
    drop(gauges);
    taken
}

impl FrameMetrics {
    /// Returns the approximate memory of its lists.
    pub(crate) fn bytes(&self) -> usize {
        let numbers = self.values.len() + self.sums.len();
        let histograms = self.histograms.iter();
        16 * numbers + histograms.map(|(_, values)| values.bytes()).sum::<usize>()
    }

    /// Adds an earlier interval without its own frame: its values where this one has none, its
    /// sums, its distributions and its I/O.
    pub(crate) fn absorb(&mut self, earlier: Self) {
        // Each has a column once, so what is added is not searched.
        let known = self.values.len();
        for (column, value) in earlier.values {
            let is_known = self.values[..known].iter().any(|own| own.0 == column);
            if !is_known {
                self.values.push((column, value));
            }
        }
        for (column, sum) in earlier.sums {
            match self.sums.iter_mut().find(|(known, _)| *known == column) {
                Some((_, mine)) => *mine = mine.saturating_add(sum),
                None => self.sums.push((column, sum)),
            }
        }
        for (columns, histogram) in earlier.histograms {
            match self
                .histograms
                .iter_mut()
                .find(|(known, _)| *known == columns)
            {
                Some((_, mine)) => mine.add(&histogram),
                None => self.histograms.push((columns, histogram)),
            }
        }
        self.io.add(earlier.io);
        self.allocations = self.allocations.plus(earlier.allocations);
    }

    /// Converts sums and distributions to values, and sorts all values by column.
    pub(crate) fn settle(&mut self) {
        // Handles with one name share its columns.
        sort_by(&mut self.sums, |a, b| a.0.cmp(&b.0));
        self.sums.dedup_by(|later, first| {
            let same = later.0 == first.0;
            first.1 = first.1.saturating_add(if same { later.1 } else { 0 });
            same
        });
        sort_by(&mut self.histograms, |a, b| a.0.cmp(&b.0));
        self.histograms.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1.add(&later.1);
            }
            same
        });
        self.values.extend(
            self.sums
                .drain(..)
                .map(|(column, sum)| (column, sum as f64)),
        );
        for (columns, histogram) in self.histograms.drain(..) {
            self.values
                .extend(columns.into_iter().zip(histogram.rows()));
        }
        sort_by(&mut self.values, |a, b| a.0.cmp(&b.0));
        self.values.dedup_by_key(|(column, _)| *column);
    }
}
