//! The values of the shown plots as rows of a sheet.
//!
//! The values of frames in the store are exact. Elsewhere, a whole capture has bins. A bin that
//! lies within the frames of the store gives way to these, so each frame is in one row.

use std::ops::Range;

use egui::Ui;
use vor_capture::units;

use super::MetricRow;
use crate::sheet::{Sheet, small_copy_buttons};
use crate::store::{MetricBin, MetricBins, Store, last_ns};
use crate::view::{TimeRange, View};

/// The titles of copied rows. The values are `exact` or `binned`; a bin counts those of frames that
/// end in it.
const TITLES: [&str; 9] = [
    "metric", "unit", "values", "begin_ns", "end_ns", "count", "min", "mean", "max",
];

/// Plots whose values can be copied.
pub(super) struct Copied<'a> {
    pub(super) store: &'a Store,
    pub(super) view: &'a View,
    /// The time of the plots.
    pub(super) time: TimeRange,
    /// The values of a whole capture; `None` where the plots show the frames of the store.
    pub(super) bins: Option<&'a MetricBins>,
    /// The shown rows.
    pub(super) rows: Vec<&'a MetricRow<'a>>,
}

impl Copied<'_> {
    /// Shows the buttons.
    pub(super) fn buttons(&self, ui: &mut Ui) {
        let what = match self.bins {
            None => "the values of each shown frame".to_owned(),
            Some(bins) => format!(
                "the shown values, exact ones of frames in memory and binned ones of every {} \
                 elsewhere,",
                units::duration(bins.bin_ns() as f64)
            ),
        };
        small_copy_buttons(ui, ("plots", &what), &TITLES, |sheet| self.fill(sheet));
    }

    fn fill(&self, sheet: &mut Sheet) {
        let exact_ns = self.exact_ns();
        for row in &self.rows {
            self.fill_exact(sheet, row, &exact_ns);
            for bin in self.binned(row, &exact_ns) {
                let count = bin.values.count as u64;
                let values = [bin.values.min, bin.values.mean(), bin.values.max];
                self.push(
                    sheet,
                    row,
                    "binned",
                    (bin.begin_ns, bin.end_ns),
                    count,
                    values,
                );
            }
        }
    }

    /// Returns the time whose frames are copied one by one. It has no part of a bin.
    fn exact_ns(&self) -> Range<i64> {
        let Some(bins) = self.bins else {
            return i64::MIN..i64::MAX;
        };
        let frames = self.store.frames();
        let (Some(first), Some(last)) = (frames.front(), frames.back()) else {
            return 0..0;
        };
        let bin_ns = (bins.bin_ns() as i64).max(1);
        let before = first.begin_ns.saturating_sub(1).div_euclid(bin_ns);
        before.saturating_add(1).saturating_mul(bin_ns)..last.end_ns.div_euclid(bin_ns) * bin_ns
    }

    /// Appends the value of each frame that ends in a time.
    fn fill_exact(&self, sheet: &mut Sheet, row: &MetricRow<'_>, exact_ns: &Range<i64>) {
        for (index, frame) in self.store.frames().iter().enumerate() {
            let value = (row.values)(index);
            let is_exact = exact_ns.contains(&last_ns(frame.begin_ns, frame.end_ns));
            let time_ns = (frame.begin_ns, frame.end_ns);
            if is_exact && self.shows(time_ns) && value.is_finite() {
                self.push(sheet, row, "exact", time_ns, 1, [value; 3]);
            }
        }
    }

    /// Returns the shown bins with values outside of a time.
    fn binned(
        &self,
        row: &MetricRow<'_>,
        exact_ns: &Range<i64>,
    ) -> impl Iterator<Item = MetricBin> {
        let (begin_ns, end_ns) = (self.time.begin_ns as i64, self.time.end_ns.ceil() as i64);
        let bins = self.bins.into_iter();
        let bins = bins.flat_map(move |bins| bins.bins_within(row.series, begin_ns, end_ns));
        bins.filter(|bin| {
            let is_shown = self.shows((bin.begin_ns, bin.end_ns));
            is_shown && !exact_ns.contains(&bin.begin_ns) && !bin.values.is_empty()
        })
    }

    fn shows(&self, (begin_ns, end_ns): (i64, i64)) -> bool {
        (begin_ns as f64) < self.time.end_ns && end_ns as f64 > self.time.begin_ns
    }

    fn push(
        &self,
        sheet: &mut Sheet,
        row: &MetricRow<'_>,
        kind: &str,
        (begin_ns, end_ns): (i64, i64),
        count: u64,
        values: [f64; 3],
    ) {
        let zero_ns = self.view.zero_ns(self.store) as i64;
        let times = [begin_ns, end_ns].map(|ns| ns.saturating_sub(zero_ns).to_string());
        let [begin, end] = times;
        let [min, mean, max] = values.map(|value| value.to_string());
        let count = count.to_string();
        sheet.row([
            row.name, row.unit, kind, &begin, &end, &count, &min, &mean, &max,
        ]);
    }
}
