//! The values of metrics over a range of time, in bins: what a plot needs of any number of frames.
//!
//! Bins are powers of two of a nanosecond, and become wider when there would be too many. A bin has
//! the least and the greatest value of the frames that overlap it, and the sum over those that end
//! in it. So each frame counts once, and one that is longer than a bin is drawn over all of them.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Most bins of a series: enough for a zoom into some part of a capture before that part is read.
const MAX_BINS: i64 = 1 << 16;

/// Most bins of all series together, of 32 bytes each.
const MAX_CELLS: usize = 1 << 21;

/// Minimum, maximum and sum of some values.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct ValueSummary {
    /// The least value; infinite without values.
    pub min: f64,
    /// The greatest value; infinite without values.
    pub max: f64,
    pub(crate) sum: f64,
    pub(crate) count: usize,
}

impl ValueSummary {
    /// The summary of no values.
    pub const NONE: Self = Self {
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        sum: 0.0,
        count: 0,
    };

    /// Adds a value that is finite or `NaN`.
    #[inline]
    pub(crate) fn take(&mut self, value: f64) {
        // This form skips `NaN` without a branch.
        self.min = if value < self.min { value } else { self.min };
        self.max = if value > self.max { value } else { self.max };
        self.sum += if value.is_nan() { 0.0 } else { value };
        self.count += usize::from(!value.is_nan());
    }

    /// Adds the values of another summary.
    pub fn add(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.count += other.count;
    }

    /// Extends the range by a value that is counted elsewhere.
    fn touch(&mut self, value: f64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Returns the mean, or `NaN` if there are no values. If the sum overflows, the result is the
    /// nearest of minimum and maximum; the same where all values are counted elsewhere.
    #[inline]
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.is_empty() {
            return f64::NAN;
        }
        // Without counted values this is NaN, from which `max` returns the minimum.
        (self.sum / self.count as f64).max(self.min).min(self.max)
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.min > self.max
    }
}

/// A series of values over the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Series {
    /// None: the values come from the program.
    #[default]
    Unknown,
    /// The lengths of the frames in milliseconds.
    FrameLengths,
    /// A column of the catalog.
    Column(u32),
}

/// A bin of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricBin {
    /// Its begin in nanoseconds since the store's origin.
    pub begin_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// The values in it.
    pub values: ValueSummary,
    /// Number of frames that end in it.
    pub frames: u32,
}

/// The values of all series.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct MetricBins {
    /// A bin is two to the power of this, in nanoseconds.
    shift: u32,
    /// Number of the first bin: its begin in bins since the origin.
    first: i64,
    /// Number of frames that end in each bin.
    frames: VecDeque<u32>,
    lengths_ms: VecDeque<ValueSummary>,
    /// As many bins as in `frames`, or none for a column without values.
    columns: Vec<VecDeque<ValueSummary>>,
}

impl MetricBins {
    /// Returns the length of a bin in nanoseconds; 0 without frames.
    #[must_use]
    pub fn bin_ns(&self) -> u64 {
        match self.frames.is_empty() {
            true => 0,
            false => 1 << self.shift,
        }
    }

    /// Adds a frame with its values, by column.
    pub(crate) fn add(
        &mut self,
        (begin_ns, end_ns): (i64, i64),
        values: impl Iterator<Item = (u32, f64)>,
    ) {
        let begin_ns = begin_ns.min(end_ns);
        let has_room = !self.frames.is_empty() && {
            let place = |ns: i64| (ns >> self.shift).checked_sub(self.first);
            let fits =
                |ns: i64| place(ns).is_some_and(|at| (0..self.frames.len() as i64).contains(&at));
            fits(begin_ns) && fits(last_ns(begin_ns, end_ns))
        };
        if !has_room {
            self.make_room(begin_ns, end_ns);
        }
        let (from, to) = (self.place(begin_ns), self.place(last_ns(begin_ns, end_ns)));
        let bins = self.frames.len();
        self.frames[to] += 1;
        let length_ms = end_ns.saturating_sub(begin_ns) as f64 / 1e6;
        put(&mut self.lengths_ms, bins, (from, to), length_ms);
        for (column, value) in values.filter(|(_, value)| value.is_finite()) {
            let column = column as usize;
            if column >= self.columns.len() {
                self.columns.resize_with(column + 1, VecDeque::new);
            }
            put(&mut self.columns[column], bins, (from, to), value);
        }
        while self.frames.len() * self.series_count() > MAX_CELLS {
            self.coarsen();
        }
    }

    /// Returns the bins of a series, from left to right; none for an unknown one.
    pub fn bins(&self, series: Series) -> impl Iterator<Item = MetricBin> {
        self.bins_within(series, i64::MIN, i64::MAX)
    }

    /// Returns the bins of a series that overlap a time, from left to right.
    pub fn bins_within(
        &self,
        series: Series,
        begin_ns: i64,
        end_ns: i64,
    ) -> impl Iterator<Item = MetricBin> {
        let place = |ns: i64| (ns >> self.shift).saturating_sub(self.first).max(0) as usize;
        let len = self.frames.len();
        let from = place(begin_ns).min(len);
        let to = place(end_ns).saturating_add(1).clamp(from, len);
        let values = match series {
            Series::Unknown => None,
            Series::FrameLengths => Some(&self.lengths_ms),
            Series::Column(column) => self.columns.get(column as usize),
        };
        // A column without values has no bins.
        let values = values.filter(|values| values.len() == len);
        let values = values.map(|values| values.range(from..to));
        let frames = self.frames.range(from..to).copied();
        let places = (self.first + from as i64..).map(|at| at << self.shift);
        let bin_ns = 1_i64 << self.shift;
        values.into_iter().flatten().zip(frames).zip(places).map(
            move |((values, frames), begin_ns)| MetricBin {
                begin_ns,
                end_ns: begin_ns.saturating_add(bin_ns),
                values: *values,
                frames,
            },
        )
    }

    fn series_count(&self) -> usize {
        let columns = self.columns.iter().filter(|column| !column.is_empty());
        1 + columns.count()
    }

    /// Returns the place of the bin of a moment.
    fn place(&self, ns: i64) -> usize {
        ((ns >> self.shift) - self.first) as usize
    }

    /// Adds bins so that there is one for each moment of a frame.
    fn make_room(&mut self, begin_ns: i64, end_ns: i64) {
        let (from, to) = loop {
            let from = begin_ns >> self.shift;
            let to = last_ns(begin_ns, end_ns) >> self.shift;
            if self.frames.is_empty() {
                self.first = to;
            }
            let last = self.first + self.frames.len() as i64 - 1;
            let (from, to) = (from.min(self.first), to.max(last));
            // The difference of two moments may not fit.
            if to.saturating_sub(from) < MAX_BINS {
                break (from, to);
            }
            self.coarsen();
        };
        let before = (self.first - from) as usize;
        let bins = (to - from + 1) as usize;
        let lengths = std::iter::once(&mut self.lengths_ms);
        let known = self.columns.iter_mut().filter(|column| !column.is_empty());
        for column in lengths.chain(known) {
            extend(column, before, bins, ValueSummary::NONE);
        }
        extend(&mut self.frames, before, bins, 0);
        self.first = from;
    }

    /// Makes bins twice as wide.
    fn coarsen(&mut self) {
        let is_odd = self.first & 1 != 0;
        self.shift += 1;
        self.first >>= 1;
        merge_pairs(&mut self.frames, is_odd, |one, next| *one += next);
        for column in std::iter::once(&mut self.lengths_ms).chain(&mut self.columns) {
            merge_pairs(column, is_odd, |one, next| one.add(next));
        }
    }
}

/// Returns the last moment of a frame: it does not belong to the bin at its end.
pub(crate) fn last_ns(begin_ns: i64, end_ns: i64) -> i64 {
    end_ns.saturating_sub(1).max(begin_ns)
}

fn put(column: &mut VecDeque<ValueSummary>, bins: usize, (from, to): (usize, usize), value: f64) {
    extend(column, 0, bins, ValueSummary::NONE);
    column.range_mut(from..to).for_each(|bin| bin.touch(value));
    column[to].take(value);
}

/// Adds empty bins: some before the others, and as many behind them as make up `bins`.
fn extend<T: Copy>(column: &mut VecDeque<T>, before: usize, bins: usize, empty: T) {
    column.resize(column.len() + before, empty);
    column.rotate_right(before);
    column.resize(bins, empty);
}

/// Merges bins in pairs; `is_odd` says that the first one is the second of its pair.
fn merge_pairs<T: Copy>(column: &mut VecDeque<T>, is_odd: bool, add: impl Fn(&mut T, &T)) {
    let bins = column.make_contiguous();
    let single = usize::from(is_odd).min(bins.len());
    let mut merged = single;
    for from in (single..bins.len()).step_by(2) {
        let mut one = bins[from];
        if let Some(next) = bins.get(from + 1) {
            add(&mut one, next);
        }
        bins[merged] = one;
        merged += 1;
    }
    column.truncate(merged);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A frame, and its values in two columns.
    type Frame = ((i64, i64), [Option<f64>; 2]);

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let value = || prop::option::of(-50.0..50.0_f64);
        let frame = (0..3000_i64, 0..90_000_i64, value(), value());
        (
            prop::collection::vec(frame, 1..80),
            -1_000_000..1_000_000_i64,
        )
            .prop_map(|(frames, mut at)| {
                let frames = frames.into_iter().map(|(gap, length, one, other)| {
                    let begin = at + gap;
                    at = begin + length;
                    ((begin, at), [one, other])
                });
                frames.collect()
            })
    }

    fn added(frames: &[Frame]) -> MetricBins {
        let mut bins = MetricBins::default();
        for (time_ns, values) in frames {
            let values = (0..).zip(values);
            bins.add(
                *time_ns,
                values.filter_map(|(i, value)| Some((i, (*value)?))),
            );
        }
        bins
    }

    proptest! {
        /// Each bin has what the frames that overlap it have, and each frame counts once, in
        /// whatever order they come.
        #[test]
        fn bins_have_the_values_of_their_frames(
            frames in frames(),
            order in prop::sample::select(vec!["forwards", "backwards", "mixed"]),
        ) {
            let mut coming = frames.clone();
            match order {
                "backwards" => coming.reverse(),
                "mixed" => coming.rotate_left(frames.len() / 2),
                _ => {}
            }
            let bins = added(&coming);
            let value = |frame: &Frame, series: Series| match series {
                Series::Column(column) => frame.1[column as usize],
                _ => Some((frame.0.1 - frame.0.0) as f64 / 1e6),
            };
            for series in [Series::FrameLengths, Series::Column(0), Series::Column(1)] {
                let found: Vec<MetricBin> = bins.bins(series).collect();
                prop_assert!(found.len() as i64 <= MAX_BINS);
                prop_assert!(found.windows(2).all(|pair| pair[0].end_ns == pair[1].begin_ns));
                // The bins at the ends and in the middle of frames, and some of the others.
                let bin_of = |ns: i64| ns >> bins.shift << bins.shift;
                let at_frames: BTreeSet<i64> = frames
                    .iter()
                    .flat_map(|&((begin, end), _)| {
                        [begin, begin.midpoint(end), last_ns(begin, end)]
                    })
                    .map(bin_of)
                    .collect();
                let is_checked = |(i, bin): &(usize, &MetricBin)| {
                    i % 97 == 0 || at_frames.contains(&bin.begin_ns)
                };
                for (_, bin) in found.iter().enumerate().filter(is_checked) {
                    let ends_here = |frame: &&Frame| {
                        (bin.begin_ns..bin.end_ns).contains(&last_ns(frame.0.0, frame.0.1))
                    };
                    let overlaps = |frame: &&Frame| {
                        frame.0.0 < bin.end_ns && last_ns(frame.0.0, frame.0.1) >= bin.begin_ns
                    };
                    let ended = frames.iter().filter(ends_here);
                    prop_assert_eq!(bin.frames as usize, ended.clone().count());
                    let counted = ended.filter_map(|frame| value(frame, series));
                    let mut expected = ValueSummary::NONE;
                    counted.for_each(|value| expected.take(value));
                    let drawn = frames.iter().filter(overlaps);
                    drawn
                        .filter_map(|frame| value(frame, series))
                        .for_each(|value| expected.touch(value));
                    let summary = &bin.values;
                    prop_assert_eq!(
                        (summary.min, summary.max, summary.count),
                        (expected.min, expected.max, expected.count)
                    );
                    prop_assert!((summary.sum - expected.sum).abs() < 1e-6);
                }
                let (begin_ns, end_ns) = (frames[0].0.1, frames[frames.len() / 2].0.0);
                let within: Vec<MetricBin> = bins.bins_within(series, begin_ns, end_ns).collect();
                let overlap = |bin: &&MetricBin| bin.end_ns > begin_ns && bin.begin_ns <= end_ns;
                prop_assert!(within.iter().eq(found.iter().filter(overlap)));
                let count: usize = found.iter().map(|bin| bin.values.count).sum();
                let with_value = frames.iter().filter_map(|frame| value(frame, series));
                prop_assert_eq!(count, with_value.count());
            }
        }

        /// Times of damaged captures may be anything.
        #[test]
        fn any_times_are_accepted(times in prop::collection::vec(any::<(i64, i64)>(), 1..20)) {
            let mut bins = MetricBins::default();
            for time_ns in &times {
                bins.add(*time_ns, std::iter::once((3, 1.0)));
            }
            let frames: u32 = bins.bins(Series::Column(3)).map(|bin| bin.frames).sum();
            prop_assert_eq!(frames as usize, times.len());
        }
    }

    #[test]
    fn many_columns_have_fewer_bins() {
        let mut bins = MetricBins::default();
        let columns = 2000;
        for frame in 0..4000 {
            let values = (0..columns).map(|column| (column, 1.0));
            bins.add((frame * 1000, frame * 1000 + 1000), values);
        }
        let len = bins.bins(Series::Column(0)).count();
        assert!(len * (columns as usize + 1) <= MAX_CELLS, "{len}");
        assert!(len > 400, "{len}");
    }
}
