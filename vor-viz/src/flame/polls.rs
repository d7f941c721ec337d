//! The polls of tasks in the flame chart: a line below the bar of a task, over the times in which
//! the task ran. The bars of a track with polls are lower by the line, so it covers no name.

use egui::{Mesh, Painter, Rect, Shape};
use vor_capture::model::catalog::Catalog;
use vor_capture::units;

use super::draw::MAX_MARKS;
use super::layout::thread_name;
use super::{FlameChart, Frame, MARK_REACH, VisibleRow};
use crate::store::{LanePoll, Polls, Store, Track};
use crate::theme::Theme;

/// Height of the line, as a share of its row, and the range of it in points.
const LINE_SHARE: f32 = 1.0 / 8.0;
const LINE_HEIGHTS: std::ops::RangeInclusive<f32> = 1.0..=3.0;

/// Distance from a pixel at which a poll is still under the pointer, in pixels.
const REACH_PX: f64 = 1.5;

impl FlameChart {
    /// Returns the height of the line of polls in a row of a track, in points; 0 without polls.
    pub(super) fn poll_line_height(&self, track: &Track) -> f32 {
        let height = self.row_height * LINE_SHARE;
        match track.has_polls() {
            true => height.clamp(*LINE_HEIGHTS.start(), *LINE_HEIGHTS.end()),
            false => 0.0,
        }
    }

    /// Draws the polls of the visible rows.
    pub(super) fn draw_polls(
        &self,
        painter: &Painter,
        store: &Store,
        theme: &Theme,
        frame: &Frame,
        shown: &[VisibleRow],
    ) {
        let mut mesh = Mesh::default();
        let x = |pixel: usize| frame.rows.left() + pixel as f32 / frame.pixels_per_point;
        for shown in shown {
            let track = &store.shown_tracks()[shown.track];
            let Some(polls) = track.polls.get(shown.row) else {
                continue;
            };
            let [_, bar_bottom, bottom] = self.edges(frame, shown, track);
            for run in polls.pixels(&frame.scale) {
                let across = x(run.start)..=x(run.end);
                let line = Rect::from_x_y_ranges(across, bar_bottom..=bottom);
                mesh.add_colored_rect(line, theme.pin);
            }
        }
        if !mesh.is_empty() {
            painter.add(Shape::mesh(mesh));
        }
    }

    /// Returns the polls of a row at a moment, as texts, if the pointer is at their line; `below`
    /// is its distance from the top of the row.
    pub(super) fn polls_at(
        &self,
        track: &Track,
        (row, below): (usize, f32),
        catalog: &Catalog,
        (ns, pixel_ns): (f64, f64),
    ) -> Vec<String> {
        let reach = self.poll_line_height(track) + MARK_REACH.min(self.row_height / 4.0);
        match track.polls.get(row) {
            Some(polls) if below >= self.row_height - reach => {
                texts_near(polls, catalog, ns, pixel_ns * REACH_PX)
            }
            _ => Vec::new(),
        }
    }
}

fn texts_near(polls: &Polls, catalog: &Catalog, ns: f64, reach_ns: f64) -> Vec<String> {
    let from_ns = (ns - reach_ns).floor() as i64;
    let near = polls.within(from_ns, (ns + reach_ns).ceil() as i64);
    let text = |poll: &LanePoll| {
        let duration = units::duration(poll.end_ns.abs_diff(poll.begin_ns) as f64);
        format!("poll, {duration}, on {}", thread_name(poll.thread, catalog))
    };
    near.take(MAX_MARKS).map(text).collect()
}
