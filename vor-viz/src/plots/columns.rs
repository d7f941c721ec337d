//! The values of frames, reduced to columns of pixels: those of the store, and the bins of a whole
//! capture.
//!
//! Frames are grouped into columns of pixels once for all rows. A group is a frame that is wider
//! than a pixel, or all frames that lie in one column. For each group, a row stores minimum,
//! maximum and mean as a run; gaps lie between runs. A plot therefore has at most one run per
//! pixel, however many frames there are.
//!
//! Values are cached while their frames live: reading all of them again for one new frame takes
//! longer than everything else. Values of the newest frames may still be unknown, so they are read
//! each time. All other changes of the store show in its version. A version cannot express every
//! change. Each reading therefore compares another part of the old values with the caller's present
//! values. If one differs, the row is read again in full.

use std::ops::Range;

use super::MetricRow;
use crate::frame_axis::FrameAxis;
use crate::store::{MetricBins, Store, ValueSummary};

/// After this number of readings, all old values were compared once.
const COMPARE_PARTS: usize = 64;

/// Number of newest frames that are read again each time: with live data, a frame arrives before
/// its metrics.
const REREAD_FRAMES: usize = 64;

/// Number of rows that are reduced together.
const ROWS_TOGETHER: usize = 4;

/// Maximum number of changes of the store per new frame, if nothing else happened: the frame, its
/// spans, and what arrives for it later.
const CHANGES_PER_FRAME: u64 = 4;

/// Columns of pixels that show the same values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// The first column.
    pub(super) first: u32,
    /// One past the last column.
    pub(super) end: u32,
    /// Their values.
    pub(super) values: ValueSummary,
}

/// Frames that share columns of pixels.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: u32,
    end: u32,
    /// Index in the store of the first frame, and one past the last.
    from: usize,
    to: usize,
    /// Whether its frame is also in the previous group, because the frame begins in a column that
    /// it shares.
    repeats: bool,
}

/// A row's values, and their summary per column of pixels.
#[derive(Clone, Debug)]
pub(super) struct RowColumns {
    name: String,
    /// A value for each frame of the store, after those of `removed` older frames; `NaN` for a gap.
    values: Vec<f64>,
    removed: usize,
    /// The runs, from left to right, with gaps between them.
    pub(super) runs: Vec<Run>,
    /// Summary of all values of the visible frames.
    pub(super) all: ValueSummary,
    /// Number of visible frames without a value.
    pub(super) gaps: usize,
}

/// The values of all visible rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    rows: Vec<RowColumns>,
    groups: Vec<Group>,
    /// The store's version, its first frame and its number of frames at the last reading.
    version: u64,
    first: u64,
    len: usize,
    /// The part of the old values that is compared next.
    part: usize,
}

impl Columns {
    /// Returns the rows, in the order in which they were read.
    pub(super) fn rows(&self) -> &[RowColumns] {
        &self.rows
    }

    /// Reads new values from the store, and reduces the values of some frames.
    pub(super) fn read(
        &mut self,
        store: &Store,
        frames: Range<usize>,
        axis: &FrameAxis,
        rows: &[&MetricRow<'_>],
    ) {
        self.order_rows(rows);
        let (first, len) = (store.id_at(0).0, store.frames().len());
        let dropped = first
            .checked_sub(self.first)
            .and_then(|dropped| usize::try_from(dropped).ok());
        let added = dropped.and_then(|dropped| (len + dropped).checked_sub(self.len));
        let is_incremental = added.is_some_and(|added| {
            let changes = store.version().checked_sub(self.version);
            changes.is_some_and(|changes| changes <= CHANGES_PER_FRAME * added as u64)
        });
        for (row, reduced) in rows.iter().zip(&mut self.rows) {
            match dropped.filter(|_| is_incremental) {
                Some(dropped) => reduced.forget_first(dropped),
                None => reduced.forget_all(),
            }
            reduced.read(row, len, self.part);
        }
        self.part = (self.part + 1) % COMPARE_PARTS;
        (self.version, self.first, self.len) = (store.version(), first, len);
        self.group(store, frames, axis);
        let (together, others) = self.rows.as_chunks_mut::<ROWS_TOGETHER>();
        for rows in together {
            reduce(rows, &self.groups);
        }
        for row in others {
            reduce(std::array::from_mut(row), &self.groups);
        }
    }

    /// Reorders the known values into the order of `rows`.
    fn order_rows(&mut self, rows: &[&MetricRow<'_>]) {
        for (i, row) in rows.iter().enumerate() {
            let behind = self.rows.get(i..).unwrap_or_default();
            match behind.iter().position(|reduced| reduced.name == row.name) {
                Some(at) => self.rows.swap(i, i + at),
                None => self.rows.insert(i, RowColumns::new(row.name)),
            }
        }
        self.rows.truncate(rows.len());
    }

    /// Groups the frames that share columns of pixels.
    fn group(&mut self, store: &Store, frames: Range<usize>, axis: &FrameAxis) {
        self.groups.clear();
        let indices = frames.clone();
        for (index, frame) in indices.zip(store.frames().range(frames)) {
            let Some((first, end)) = axis.columns(frame.begin_ns, frame.end_ns) else {
                continue;
            };
            let (mut first, mut end) = (first as u32, end as u32);
            let mut repeats = false;
            match self.groups.last_mut() {
                // In a valid capture, only frames that are narrower than a pixel share one.
                Some(last) if first < last.end && !last.repeats => {
                    last.to = index + 1;
                    first = last.end;
                    repeats = true;
                }
                Some(last) if first < last.end => {
                    first = last.end - 1;
                    end = end.max(last.end);
                }
                _ => {}
            }
            if first < end {
                self.groups.push(Group {
                    first,
                    end,
                    from: index,
                    to: index + 1,
                    repeats,
                });
            }
        }
    }
}

impl RowColumns {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: Vec::new(),
            removed: 0,
            runs: Vec::new(),
            all: ValueSummary::NONE,
            gaps: 0,
        }
    }

    fn forget_all(&mut self) {
        self.values.clear();
        self.removed = 0;
    }

    /// Forgets the values of the oldest frames.
    fn forget_first(&mut self, count: usize) {
        self.removed = self.removed.saturating_add(count).min(self.values.len());
        if self.removed > 64 && self.removed > self.values.len() / 2 {
            self.values.drain(..self.removed);
            self.removed = 0;
        }
    }

    /// Reads the unknown values, and compares a part of the known ones.
    fn read(&mut self, row: &MetricRow<'_>, len: usize, part: usize) {
        let value_at = |index: usize| {
            let value = (row.values)(index);
            if value.is_finite() { value } else { f64::NAN }
        };
        let known = self.values.get(self.removed..).unwrap_or_default();
        let compared = known.len() * part / COMPARE_PARTS..known.len() * (part + 1) / COMPARE_PARTS;
        let is_same = |index: usize| known[index].to_bits() == value_at(index).to_bits();
        if known.len() > len || !compared.into_iter().all(is_same) {
            self.forget_all();
        }
        self.values.truncate(
            self.values
                .len()
                .saturating_sub(REREAD_FRAMES)
                .max(self.removed),
        );
        let known = self.values.len() - self.removed;
        self.values.extend((known..len).map(value_at));
    }
}

/// Reduces the bins of a whole capture to the columns of an axis.
pub(super) fn of_bins(bins: &MetricBins, axis: &FrameAxis, row: &MetricRow<'_>) -> RowColumns {
    let mut reduced = RowColumns::new(row.name);
    let mut frames = 0;
    let time = axis.rect().x_range();
    let (begin_ns, end_ns) = (axis.ns(time.min), axis.ns(time.max));
    for bin in bins.bins_within(row.series, begin_ns.floor() as i64, end_ns.ceil() as i64) {
        let Some((first, end)) = axis.columns(bin.begin_ns, bin.end_ns) else {
            continue;
        };
        frames += bin.frames as usize;
        reduced.all.add(&bin.values);
        if bin.values.is_empty() {
            continue;
        }
        let (first, end) = (first as u32, end as u32);
        match reduced.runs.last_mut().filter(|last| first < last.end) {
            // Only bins that are narrower than a pixel share one.
            Some(last) => {
                last.values.add(&bin.values);
                last.end = last.end.max(end);
            }
            None => reduced.runs.push(Run {
                first,
                end,
                values: bin.values,
            }),
        }
    }
    reduced.gaps = frames.saturating_sub(reduced.all.count);
    reduced
}

/// Makes a run of each group that has a value, for some rows at once. A group has few frames, so
/// iterating over groups costs as much as the work for a row.
fn reduce<const ROWS: usize>(rows: &mut [RowColumns; ROWS], groups: &[Group]) {
    let mut frames = 0;
    for reduced in rows.iter_mut() {
        reduced.runs.clear();
        reduced.runs.reserve(groups.len());
        reduced.all = ValueSummary::NONE;
    }
    for group in groups {
        let mut extents = [ValueSummary::NONE; ROWS];
        let values = rows.each_ref().map(|reduced| {
            let known = reduced.values.get(reduced.removed..).unwrap_or_default();
            known.get(group.from..group.to).unwrap_or_default()
        });
        let len = values.iter().map(|values| values.len()).min().unwrap_or(0);
        let values = values.map(|values| &values[..len]);
        for i in 0..len {
            for (extent, values) in extents.iter_mut().zip(values) {
                extent.take(values[i]);
            }
        }
        frames += if group.repeats {
            0
        } else {
            group.to - group.from
        };
        for (reduced, extent) in rows.iter_mut().zip(extents) {
            if !group.repeats {
                reduced.all.add(&extent);
            }
            if !extent.is_empty() {
                reduced.runs.push(Run {
                    first: group.first,
                    end: group.end,
                    values: extent,
                });
            }
        }
    }
    for reduced in rows {
        reduced.gaps = frames - reduced.all.count.min(frames);
    }
}
