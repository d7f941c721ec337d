//! The panel's side of the whole capture: which spans the flame chart shows, and which are missing.
//!
//! There are two layers: the picture of the whole capture, and that of the range that was looked at
//! last. The second is used where the first is too coarse. If it was read during the survey, it may
//! lack spans; after the survey, it is read again and shown until then.

use std::sync::Arc;

use super::driver::Driver;
use super::whole_work::{PictureRequest, Surveyed, WholeRequest};
use crate::panel::Panel;
use crate::store::Layer;
use crate::view::{TimeRange, WholeCapture};
use crate::whole::Spans;

/// The time that is read on each side of the visible range, in its lengths: of a small range, and
/// the least. Less of it must be left before more is read.
const MARGIN: f64 = 0.75;
const MIN_READ: f64 = 0.3;
const MIN_MARGIN: f64 = 0.2;

/// The part of a capture that is a small range.
const SMALL: f64 = 0.01;

/// The whole capture in the panel.
#[derive(Debug, Default)]
pub(super) struct WholeState {
    is_on: bool,
    generation: u64,
    spans: Arc<Spans>,
    /// The layer that the store does not show.
    other: Option<Box<Layer>>,
    /// Whether the store shows the range and not the whole.
    shows_range: bool,
    time: TimeRange,
    progress: f32,
    /// The last request for a picture of a range, until the picture comes.
    awaited: Option<PictureRequest>,
    /// The bin that was asked for the range. A picture with too many spans gets a wider one.
    asked_bin_ns: u64,
    losses: u64,
    keeps_survey: bool,
}

impl WholeState {
    /// Sets whether the survey of a large capture is kept beside its file.
    pub(super) fn keep_survey(&mut self, keeps_survey: bool) {
        self.keeps_survey = keeps_survey;
    }

    /// Begins to read the whole capture, which takes about `length_ns`. Pictures have up to
    /// `max_spans` spans.
    pub(super) fn begin(
        &mut self,
        panel: &mut Panel,
        driver: &mut Driver,
        length_ns: u64,
        max_spans: usize,
    ) {
        self.end(panel, driver);
        self.is_on = true;
        self.time = TimeRange {
            begin_ns: 0.0,
            end_ns: (length_ns as f64).max(1.0),
        };
        self.spans = Arc::default();
        driver.set_whole(Some(WholeRequest {
            generation: self.generation,
            spans: Arc::clone(&self.spans),
            max_spans,
            keeps_survey: self.keeps_survey,
        }));
        self.tell(panel);
    }

    /// Shows only the frames of the window from now on.
    pub(super) fn end(&mut self, panel: &mut Panel, driver: &mut Driver) {
        self.generation += 1;
        if !std::mem::take(&mut self.is_on) {
            return;
        }
        driver.set_whole(None);
        let shown = panel.store_mut().set_layer(None);
        let layers = shown.into_iter().chain(self.other.take());
        layers.for_each(|layer| driver.drop_layer(layer));
        *self = Self {
            generation: self.generation,
            keeps_survey: self.keeps_survey,
            ..Self::default()
        };
        panel.view_mut().set_whole(None);
    }

    /// Returns whether everything is read that was requested.
    pub(super) fn is_settled(&self) -> bool {
        !self.is_on || (self.progress >= 1.0 && self.awaited.is_none() && !self.spans.is_busy())
    }

    /// Returns whether the whole capture is shown.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns the part that was surveyed, from 0 to 1; `None` unless a survey is at work.
    pub(super) fn progress(&self) -> Option<f32> {
        (self.is_on && self.progress < 1.0).then_some(self.progress)
    }

    /// Returns the number of places that could not be read.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Takes the results of a survey.
    pub(super) fn take_survey(
        &mut self,
        surveyed: Surveyed,
        panel: &mut Panel,
        driver: &mut Driver,
    ) {
        let is_current = self.is_on && surveyed.generation == self.generation;
        if !is_current {
            surveyed
                .layer
                .into_iter()
                .for_each(|layer| driver.drop_layer(layer));
            return;
        }
        self.progress = surveyed.progress;
        self.losses = surveyed.losses;
        if let Some((begin_ns, end_ns)) = surveyed.bounds_ns {
            let (begin_ns, end_ns) = (begin_ns as f64, end_ns as f64);
            let is_complete = surveyed.progress >= 1.0;
            let known = self.time;
            // Frames may begin before their first span, and end after the last one.
            self.time.begin_ns = begin_ns.min(0.0);
            self.time.end_ns = match is_complete {
                true => end_ns.max(known.end_ns),
                false => known.end_ns.max(end_ns),
            };
        }
        if let Some(layer) = surveyed.layer {
            let before = match self.shows_range {
                true => self.other.replace(layer),
                false => panel.store_mut().set_layer(Some(layer)),
            };
            before
                .into_iter()
                .for_each(|layer| driver.drop_layer(layer));
        }
        self.tell(panel);
    }

    /// Takes the picture of a range.
    pub(super) fn take_picture(
        &mut self,
        request: PictureRequest,
        layer: Box<Layer>,
        panel: &mut Panel,
        driver: &mut Driver,
    ) {
        if !self.is_on || request.generation != self.generation {
            driver.drop_layer(layer);
            return;
        }
        // A newer request may be on its way.
        self.awaited = self.awaited.filter(|awaited| *awaited != request);
        self.asked_bin_ns = request.bin_ns;
        let before = match self.shows_range {
            true => panel.store_mut().set_layer(Some(layer)),
            false => self.other.replace(layer),
        };
        before
            .into_iter()
            .for_each(|layer| driver.drop_layer(layer));
    }

    fn tell(&self, panel: &mut Panel) {
        panel.view_mut().set_whole(Some(WholeCapture {
            spans: Arc::clone(&self.spans),
            time: self.time,
            progress: self.progress,
        }));
    }

    /// Passes the questions of the panel to the loader.
    pub(super) fn pass_on(&self, driver: &mut Driver) {
        if self.is_on && self.spans.has_questions() {
            driver.ask();
        }
    }

    /// Chooses what the flame chart shows, and requests what is missing.
    pub(super) fn choose(&mut self, panel: &mut Panel, driver: &mut Driver) {
        if !self.is_on {
            return;
        }
        let width = panel.chart_width_px().max(1);
        let shown = panel.view().flame_axis(panel.store());
        let pixel_ns = shown.len_ns() / width as f64;
        let shows = |layer: Option<&Layer>, margin: f64| {
            let margin_ns = margin * shown.len_ns();
            let begin_ns = (shown.begin_ns - margin_ns).max(self.time.begin_ns);
            let end_ns = (shown.end_ns + margin_ns).min(self.time.end_ns);
            layer.is_some_and(|layer| layer.shows(begin_ns.ceil(), end_ns.floor(), pixel_ns))
        };
        let stored = panel.store().layer();
        let (whole, range) = match self.shows_range {
            true => (self.other.as_deref(), stored),
            false => (stored, self.other.as_deref()),
        };
        let whole_is_enough = shows(whole, 0.0);
        let covers = |layer: &Layer| {
            let time = layer.time_ns();
            time.start as f64 <= shown.begin_ns.max(self.time.begin_ns).ceil()
                && shown.end_ns.min(self.time.end_ns).floor() <= time.end as f64
        };
        let is_finer = |layer: &Layer| {
            whole.is_none_or(|whole| !covers(whole) || layer.grain_ns() < whole.grain_ns())
        };
        let range_is_better = range.is_some_and(|layer| covers(layer) && is_finer(layer));
        let shows_range = !whole_is_enough && range_is_better;
        // The same request again would bring the same spans, and one for everything those of the
        // whole. After the survey, it brings those that may be missing.
        let known = range.filter(|layer| self.progress < 1.0 || !layer.is_partial());
        let is_asked =
            self.asked_bin_ns as f64 <= pixel_ns && covers_with_margin(known, &shown, &self.time);
        let margin = margin_of(shown.len_ns() / self.time.len_ns());
        let is_part = shown.len_ns() * (1.0 + 2.0 * margin) < self.time.len_ns();
        let is_missing = !whole_is_enough && is_part && !is_asked && !shows(known, MIN_MARGIN);
        let is_awaited = self.awaited.is_some_and(|awaited| {
            let begin_ns = shown.begin_ns.max(self.time.begin_ns);
            let end_ns = shown.end_ns.min(self.time.end_ns);
            awaited.begin_ns as f64 <= begin_ns
                && end_ns <= awaited.end_ns as f64
                && awaited.bin_ns as f64 <= pixel_ns
        });
        if shows_range != self.shows_range {
            let other = self.other.take();
            self.other = panel.store_mut().set_layer(other);
            self.shows_range = shows_range;
        }
        // The loader takes requests from the first results of the survey on.
        if is_missing && self.progress > 0.0 && !is_awaited {
            let margin_ns = margin * shown.len_ns();
            let begin_ns = (shown.begin_ns - margin_ns).max(self.time.begin_ns);
            let end_ns = (shown.end_ns + margin_ns).min(self.time.end_ns);
            let request = PictureRequest {
                generation: self.generation,
                begin_ns: begin_ns.floor() as i64,
                end_ns: end_ns.ceil() as i64,
                bin_ns: pixel_ns as u64,
            };
            self.awaited = Some(request);
            driver.request_picture(request);
        }
    }
}

/// Returns the margin that is read around a range, which is a part of the whole: the larger it is,
/// the longer its margin would take.
fn margin_of(part: f64) -> f64 {
    (MARGIN * SMALL / part).clamp(MIN_READ, MARGIN)
}

/// Returns whether a layer covers a range with a margin.
fn covers_with_margin(layer: Option<&Layer>, shown: &TimeRange, all: &TimeRange) -> bool {
    let margin_ns = MIN_MARGIN * shown.len_ns();
    let begin_ns = (shown.begin_ns - margin_ns).max(all.begin_ns);
    let end_ns = (shown.end_ns + margin_ns).min(all.end_ns);
    layer.is_some_and(|layer| layer.shows(begin_ns.ceil(), end_ns.floor(), f64::INFINITY))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Cursor;

    use vor_capture::reader::Capture;
    use vor_fixtures::even::make;

    use super::*;
    use crate::budget::FrameBudget;
    use crate::replay::loader::Loader;
    use crate::store::{LayerTotals, MetricBins, Store};

    const LENGTH_NS: u64 = 1_000_000_000;

    fn layer(time_ns: (i64, i64), bin_ns: u64) -> Layer {
        let (store, totals) = (Store::new(1, 1), LayerTotals::default());
        Layer::new(store, time_ns, bin_ns, &totals, MetricBins::default())
    }

    fn surveyed(generation: u64, progress: f32, layer: Layer) -> Surveyed {
        Surveyed {
            generation,
            layer: Some(Box::new(layer)),
            bounds_ns: Some((0, LENGTH_NS as i64)),
            progress,
            losses: 0,
        }
    }

    #[test]
    fn a_range_that_was_read_during_the_survey_is_read_again() {
        let capture = Capture::new(Cursor::new(make(1, 1, true).bytes)).unwrap();
        let mut driver = Driver::new(Loader::new(capture, None));
        let mut panel = Panel::new(Store::new(1, 1), FrameBudget::Adaptive);
        let mut whole = WholeState::default();
        whole.begin(&mut panel, &mut driver, LENGTH_NS, 10);
        let generation = whole.generation;
        panel.view_mut().zoom_to(5e8, 5.1e8);
        // The loader knows no survey yet.
        whole.choose(&mut panel, &mut driver);
        assert_eq!(whole.awaited, None);
        // The picture so far begins after the range.
        let early = layer((i64::MIN, i64::MAX), 0).into_partial(700_000_000);
        whole.take_survey(surveyed(generation, 0.3, early), &mut panel, &mut driver);
        whole.choose(&mut panel, &mut driver);
        let request = whole.awaited.unwrap();
        assert!(request.begin_ns < 500_000_000 && 510_000_000 < request.end_ns);
        // It is asked for once, and a range elsewhere instead of it.
        panel.view_mut().zoom_to(5.01e8, 5.11e8);
        whole.choose(&mut panel, &mut driver);
        assert_eq!(whole.awaited, Some(request));
        panel.view_mut().zoom_to(3e8, 3.1e8);
        whole.choose(&mut panel, &mut driver);
        let request = whole.awaited.filter(|awaited| *awaited != request).unwrap();
        // The range is shown although the picture so far has smaller bins.
        let time_ns = (request.begin_ns, request.end_ns);
        let range = layer(time_ns, request.bin_ns).into_partial(0);
        whole.take_picture(request, Box::new(range), &mut panel, &mut driver);
        assert_eq!(whole.awaited, None);
        whole.choose(&mut panel, &mut driver);
        assert!(whole.shows_range && whole.awaited.is_none());
        // After the survey it is shown until it is read again.
        let all = layer((i64::MIN, i64::MAX), 1 << 40);
        whole.take_survey(surveyed(generation, 1.0, all), &mut panel, &mut driver);
        whole.choose(&mut panel, &mut driver);
        let again = whole.awaited.unwrap();
        assert!(whole.shows_range && !whole.is_settled());
        assert_eq!((again.begin_ns, again.end_ns), time_ns);
        let range = layer(time_ns, again.bin_ns);
        whole.take_picture(again, Box::new(range), &mut panel, &mut driver);
        whole.choose(&mut panel, &mut driver);
        assert!(whole.shows_range && whole.is_settled());
    }
}
