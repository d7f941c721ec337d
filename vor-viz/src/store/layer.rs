//! The spans that the flame chart shows of a capture of any size: those of a range of time, thinned
//! where there are more than a picture can show.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::Store;
use super::metric_bins::MetricBins;
use super::row::Row;
use super::track::{TaskNames, Track, TrackId};

/// Numbers of spans and of rows by track, of a whole capture. Tasks may have a track per call site.
pub(crate) type LayerTotals = FxHashMap<TrackId, (u64, usize)>;

/// Spans of a range of time, to be drawn.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    tracks: Vec<Track>,
    begin_ns: i64,
    end_ns: i64,
    bin_ns: u64,
    totals: LayerTotals,
    metrics: MetricBins,
    is_partial: bool,
}

impl Layer {
    /// Takes the tracks of a store. Those of the whole capture that have no spans in the range are
    /// added, so that tracks keep their places when another range is shown.
    pub(crate) fn new(
        store: Store,
        (begin_ns, end_ns): (i64, i64),
        bin_ns: u64,
        of_sites: &LayerTotals,
        metrics: MetricBins,
    ) -> Self {
        let (mut totals, mut names) = (LayerTotals::default(), TaskNames::default());
        for (&id, &(spans, rows)) in of_sites {
            let id = match id {
                TrackId::Tasks(site) => TrackId::Tasks(names.first(site, store.catalog())),
                id => id,
            };
            let total = totals.entry(id).or_default();
            *total = (total.0 + spans, total.1.max(rows));
        }
        let mut tracks = store.take_shown_tracks();
        for (&id, &(_, rows)) in &totals {
            let at = tracks.binary_search_by_key(&id, |track| track.id);
            let at = at.unwrap_or_else(|at| {
                tracks.insert(at, Track::new(id));
                at
            });
            let rows = rows.max(tracks[at].rows.len());
            tracks[at].rows.resize_with(rows, Row::default);
        }
        Self {
            tracks,
            begin_ns,
            end_ns,
            bin_ns,
            totals,
            metrics,
            is_partial: false,
        }
    }

    /// The same, made when the capture was only read back to a time.
    pub(crate) fn into_partial(self, from_ns: i64) -> Self {
        Self {
            begin_ns: self.begin_ns.max(from_ns),
            is_partial: true,
            ..self
        }
    }

    /// Returns the tracks: the scopes of each thread, then the tasks of each name.
    #[must_use]
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Returns the time that it covers.
    #[must_use]
    pub fn time_ns(&self) -> Range<i64> {
        self.begin_ns..self.end_ns
    }

    /// Returns the length of a bin in nanoseconds: of the shorter spans, only the longest of each
    /// bin is there. It is 0 where all spans are there.
    #[must_use]
    pub fn bin_ns(&self) -> u64 {
        self.bin_ns
    }

    /// Returns whether it was made before the whole capture was read, so that spans may be missing.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Returns whether spans of its time may be missing: the short ones, or those that are not read
    /// yet.
    pub(crate) fn lacks_spans(&self) -> bool {
        self.bin_ns > 0 || self.is_partial
    }

    /// Returns whether it has all spans that overlap a time.
    pub(crate) fn has_all(&self, time_ns: &Range<i64>) -> bool {
        let covers = self.begin_ns <= time_ns.start && time_ns.end <= self.end_ns;
        covers && !self.lacks_spans()
    }

    /// Returns the length of a pixel that it has enough detail for, in nanoseconds. Bins of metrics
    /// may be two pixels wide.
    #[must_use]
    pub fn grain_ns(&self) -> u64 {
        self.bin_ns.max(self.metrics.bin_ns() / 2)
    }

    /// Returns whether it shows a range of time with pixels of this length as all spans would.
    #[must_use]
    pub fn shows(&self, begin_ns: f64, end_ns: f64, pixel_ns: f64) -> bool {
        self.begin_ns as f64 <= begin_ns
            && end_ns <= self.end_ns as f64
            && self.grain_ns() as f64 <= pixel_ns
    }

    /// Returns the values of the metrics.
    #[must_use]
    pub fn metrics(&self) -> &MetricBins {
        &self.metrics
    }

    /// Returns the number of spans of a track in the whole capture.
    #[must_use]
    pub fn total_spans(&self, track: TrackId) -> u64 {
        self.totals.get(&track).map_or(0, |total| total.0)
    }
}
