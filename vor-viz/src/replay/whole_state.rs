//! The panel's side of the whole capture: which spans the flame chart shows, and which are missing.
//!
//! There are two layers: the picture of the whole capture, and that of the range that was looked at
//! last. The second is used where the first is too coarse.

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
const LEAST_READ: f64 = 0.3;
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
    /// Whether a picture of a range is being made.
    is_waiting: bool,
    /// The bin of the last request. A picture with too many spans gets a wider one.
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
        !self.is_on || (self.progress >= 1.0 && !self.is_waiting && !self.spans.is_busy())
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
        generation: u64,
        layer: Box<Layer>,
        panel: &mut Panel,
        driver: &mut Driver,
    ) {
        if !self.is_on || generation != self.generation {
            driver.drop_layer(layer);
            return;
        }
        self.is_waiting = false;
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
        let is_finer =
            |layer: &Layer| whole.is_none_or(|whole| layer.grain_ns() < whole.grain_ns());
        let range_is_better = range.is_some_and(|layer| covers(layer) && is_finer(layer));
        let shows_range = !whole_is_enough && range_is_better;
        // The same request again would bring the same spans, and one for everything those of the
        // whole.
        let is_asked =
            self.asked_bin_ns as f64 <= pixel_ns && covers_with_margin(range, &shown, &self.time);
        let margin = margin_of(shown.len_ns() / self.time.len_ns());
        let is_part = shown.len_ns() * (1.0 + 2.0 * margin) < self.time.len_ns();
        let is_missing = !whole_is_enough && is_part && !is_asked && !shows(range, MIN_MARGIN);
        if shows_range != self.shows_range {
            let other = self.other.take();
            self.other = panel.store_mut().set_layer(other);
            self.shows_range = shows_range;
        }
        if is_missing && self.progress >= 1.0 && !self.is_waiting {
            self.is_waiting = true;
            self.asked_bin_ns = pixel_ns as u64;
            let margin_ns = margin * shown.len_ns();
            let begin_ns = (shown.begin_ns - margin_ns).max(self.time.begin_ns);
            let end_ns = (shown.end_ns + margin_ns).min(self.time.end_ns);
            driver.request_picture(PictureRequest {
                generation: self.generation,
                begin_ns: begin_ns.floor() as i64,
                end_ns: end_ns.ceil() as i64,
                bin_ns: pixel_ns as u64,
            });
        }
    }
}

/// Returns the margin that is read around a range, which is a part of the whole: the larger it is,
/// the longer its margin would take.
fn margin_of(part: f64) -> f64 {
    (MARGIN * SMALL / part).clamp(LEAST_READ, MARGIN)
}

/// Returns whether a layer covers a range with a margin.
fn covers_with_margin(layer: Option<&Layer>, shown: &TimeRange, all: &TimeRange) -> bool {
    let margin_ns = MIN_MARGIN * shown.len_ns();
    let begin_ns = (shown.begin_ns - margin_ns).max(all.begin_ns);
    let end_ns = (shown.end_ns + margin_ns).min(all.end_ns);
    layer.is_some_and(|layer| layer.shows(begin_ns.ceil(), end_ns.floor(), f64::INFINITY))
}
