//! The values of frames, reduced to columns of pixels.
//!
//! Which frames share a column of pixels is found out once for all rows: a group is a frame that is
//! wider than a pixel, or the frames that lie in one column. Of each group, a row keeps least,
//! greatest and mean as a run; between runs lie gaps. So a picture has at most as many runs as
//! pixels, however many frames there are.
//!
//! Values are kept while their frames live: asking the caller for all of them again, because one
//! frame has come, takes longer than all the rest. Those of the newest frames may still be unknown
//! and are asked for each time. What else may have happened to the store shows in its version. As a
//! version cannot tell everything, a part of the old values is compared with what the caller says
//! now, another part each time; where one differs, the row is read anew.

use std::ops::Range;

use super::MetricRow;
use crate::frame_axis::FrameAxis;
use crate::store::Store;

/// After so many readings, all old values were compared once.
const PARTS: usize = 64;

/// How many of the newest frames are asked for anew each time: live, a frame is known before its
/// metrics are.
const LATE: usize = 64;

/// Rows that are reduced together.
const TOGETHER: usize = 4;

/// Most changes of the store per frame that comes, if nothing else has happened: the frame, its
/// spans, and what is known of it later.
const CHANGES_PER_FRAME: u64 = 4;

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
    count: usize,
}

impl Extent {
    const NONE: Self = Self {
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        sum: 0.0,
        count: 0,
    };

    /// Takes a value that is finite or `NaN`.
    #[inline]
    fn take(&mut self, value: f64) {
        // Written so that nothing is added for `NaN`, without a branch.
        self.min = if value < self.min { value } else { self.min };
        self.max = if value > self.max { value } else { self.max };
        self.sum += if value.is_nan() { 0.0 } else { value };
        self.count += usize::from(!value.is_nan());
    }

    fn add(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.count += other.count;
    }

    /// Returns the mean; of values so large that their sum has no place, the nearest of least and
    /// greatest. `NaN` if there are none.
    #[inline]
    pub(super) fn mean(&self) -> f64 {
        if self.count == 0 {
            return f64::NAN;
        }
        (self.sum / self.count as f64).max(self.min).min(self.max)
    }

    /// Returns whether there is any value.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Frames that share columns of pixels.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: u32,
    end: u32,
    /// The first frame, and the one behind the last, by index in the store.
    from: usize,
    to: usize,
    /// Whether its frame is in the group before as well, since it begins in a column that others
    /// lie in.
    repeats: bool,
}

/// A row's values, and what is visible of them in columns of pixels.
#[derive(Clone, Debug)]
pub(super) struct Reduced {
    name: String,
    /// A value for each frame of the store, behind `gone` that have left; `NaN` for a gap.
    values: Vec<f64>,
    gone: usize,
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
    groups: Vec<Group>,
    /// The store's version, its first frame and its number of frames when it was last read.
    version: u64,
    first: u64,
    len: usize,
    /// Which part of the old values is compared next.
    part: usize,
}

impl Columns {
    /// Returns the rows, in the order in which they were read.
    pub(super) fn rows(&self) -> &[Reduced] {
        &self.rows
    }

    /// Reads what is new in the store, and reduces the values of some frames.
    pub(super) fn read(
        &mut self,
        store: &Store,
        frames: Range<usize>,
        axis: &FrameAxis,
        rows: &[&MetricRow<'_>],
    ) {
        self.order_rows(rows);
        let (first, len) = (store.id_at(0).0, store.frames().len());
        let left = first
            .checked_sub(self.first)
            .and_then(|left| usize::try_from(left).ok());
        let come = left.and_then(|left| (len + left).checked_sub(self.len));
        let goes_on = come.is_some_and(|come| {
            let changes = store.version().checked_sub(self.version);
            changes.is_some_and(|changes| changes <= CHANGES_PER_FRAME * come as u64)
        });
        for (row, reduced) in rows.iter().zip(&mut self.rows) {
            match left.filter(|_| goes_on) {
                Some(left) => reduced.forget_first(left),
                None => reduced.forget_all(),
            }
            reduced.read(row, len, self.part);
        }
        self.part = (self.part + 1) % PARTS;
        (self.version, self.first, self.len) = (store.version(), first, len);
        self.group(store, frames, axis);
        let (together, others) = self.rows.as_chunks_mut::<TOGETHER>();
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
                None => self.rows.insert(i, Reduced::new(row.name)),
            }
        }
        self.rows.truncate(rows.len());
    }

    /// Finds out which frames share columns of pixels.
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
                // Only frames that are narrower than a pixel share one, if the capture is sound.
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

impl Reduced {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: Vec::new(),
            gone: 0,
            runs: Vec::new(),
            all: Extent::NONE,
            gaps: 0,
        }
    }

    fn forget_all(&mut self) {
        self.values.clear();
        self.gone = 0;
    }

    /// Forgets the values of the oldest frames.
    fn forget_first(&mut self, count: usize) {
        self.gone = self.gone.saturating_add(count).min(self.values.len());
        if self.gone > 64 && self.gone > self.values.len() / 2 {
            self.values.drain(..self.gone);
            self.gone = 0;
        }
    }

    /// Reads the values of frames that are not known yet, and compares a part of the others.
    fn read(&mut self, row: &MetricRow<'_>, len: usize, part: usize) {
        let ask = |index: usize| {
            let value = (row.values)(index);
            if value.is_finite() { value } else { f64::NAN }
        };
        let known = self.values.get(self.gone..).unwrap_or_default();
        let compared = known.len() * part / PARTS..known.len() * (part + 1) / PARTS;
        let is_same = |index: usize| known[index].to_bits() == ask(index).to_bits();
        if known.len() > len || !compared.into_iter().all(is_same) {
            self.forget_all();
        }
        self.values
            .truncate(self.values.len().saturating_sub(LATE).max(self.gone));
        let known = self.values.len() - self.gone;
        self.values.extend((known..len).map(ask));
    }
}

/// Makes a run of each group that has a value, for some rows at once: a group has few frames, so
/// that going from one to the next takes as long as what is done for a row.
fn reduce<const ROWS: usize>(rows: &mut [Reduced; ROWS], groups: &[Group]) {
    let mut frames = 0;
    for reduced in rows.iter_mut() {
        reduced.runs.clear();
        reduced.runs.reserve(groups.len());
        reduced.all = Extent::NONE;
    }
    for group in groups {
        let mut extents = [Extent::NONE; ROWS];
        let values = rows.each_ref().map(|reduced| {
            let known = reduced.values.get(reduced.gone..).unwrap_or_default();
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
                    extent,
                });
            }
        }
    }
    for reduced in rows {
        reduced.gaps = frames - reduced.all.count.min(frames);
    }
}
