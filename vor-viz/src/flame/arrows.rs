//! The arrows of the span in focus: what came to it from other spans, mostly of other threads, and
//! what went on from it.
//!
//! A flow has a first point, points between, and an end for each span that receives it. An arrow
//! points to each from the last point before it that is no end. A point belongs to the innermost
//! span at its moment, so arrows are known only where the picture has all spans.

use egui::epaint::CubicBezierShape;
use egui::{Color32, Painter, Shape, Stroke, Ui, pos2, vec2};
use rustc_hash::FxHashSet;
use vor_capture::model::batch::FlowStage;
use vor_capture::units;

use super::layout::track_name;
use super::navigate::track_of;
use super::{FlameChart, Frame};
use crate::sketch::shortened;
use crate::store::{FlowPoint, Layer, Store, Track};
use crate::theme::Theme;
use crate::view::{SpanRef, View};

/// Most flows of a span that are followed.
const MAX_FLOWS: usize = 64;

/// Most arrows that are listed beside the chart.
const MAX_LISTED: usize = 12;

/// Length of an arrow's head in points.
const HEAD: f32 = 7.0;

/// An arrow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrow {
    /// The moments at which it leaves a span and reaches another.
    from_ns: i64,
    to_ns: i64,
    from: SpanRef,
    to: SpanRef,
}

/// The arrows of a span.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrows {
    /// The version of the store, and the span.
    of: Option<(u64, SpanRef)>,
    arrows: Vec<Arrow>,
}

impl Arrows {
    /// Looks for the arrows of a span.
    pub(super) fn update(&mut self, store: &Store, focus: Option<SpanRef>) {
        let of = focus.map(|focus| (store.version(), focus));
        if self.of != of {
            self.of = of;
            self.arrows = focus.map_or_else(Vec::new, |focus| arrows_of(store, &focus));
        }
    }

    fn arriving(&self) -> impl Iterator<Item = &Arrow> {
        let focus = self.of.map(|(_, focus)| focus);
        let arrows = self.arrows.iter();
        arrows.filter(move |arrow| Some(arrow.to) == focus)
    }

    fn leaving(&self) -> impl Iterator<Item = &Arrow> {
        let focus = self.of.map(|(_, focus)| focus);
        let arrows = self.arrows.iter();
        arrows.filter(move |arrow| Some(arrow.from) == focus)
    }
}

impl FlameChart {
    /// Moves the focus along an arrow: to the first span that one from the span in focus reaches,
    /// or back to the last one from which one came. Returns whether there is one.
    pub fn go_along(&mut self, store: &Store, view: &mut View, forward: bool) -> bool {
        self.arrows.update(store, view.focus);
        let next = match forward {
            true => {
                let out = self.arrows.leaving();
                out.min_by_key(|arrow| arrow.to_ns).map(|arrow| arrow.to)
            }
            false => {
                let into = self.arrows.arriving();
                into.max_by_key(|arrow| arrow.from_ns)
                    .map(|arrow| arrow.from)
            }
        };
        self.go_to(store, view, next)
    }

    /// Returns the number of arrows that reach the span in focus, and of those that leave it, in
    /// the last pass.
    #[must_use]
    pub fn arrow_counts(&self) -> (usize, usize) {
        let (into, out) = (self.arrows.arriving(), self.arrows.leaving());
        (into.count(), out.count())
    }

    /// Draws the arrows of the span in focus.
    pub(super) fn draw_arrows(&self, painter: &Painter, theme: &Theme, frame: &Frame) {
        for arrow in &self.arrows.arrows {
            let ends = [(&arrow.from, arrow.from_ns), (&arrow.to, arrow.to_ns)];
            let [Some(from), Some(to)] = ends.map(|(span, ns)| self.place_of(frame, span, ns))
            else {
                continue;
            };
            // A border keeps it visible on spans of any colour.
            draw_arrow(painter, from, to, theme.ground, 2.5);
            draw_arrow(painter, from, to, theme.pin, 0.0);
        }
    }

    /// Returns where a moment of a span is; `None` if its track is not shown.
    fn place_of(&self, frame: &Frame, span: &SpanRef, ns: i64) -> Option<egui::Pos2> {
        let placed = self.placed.iter().find(|placed| placed.id == span.track)?;
        let row = span.row.min(placed.rows.saturating_sub(1));
        let top = frame.rows.top() + placed.top - self.scroll;
        let y = top + (row as f32 + 0.5) * self.row_height;
        // Far outside of the chart, only the direction counts.
        let x = frame
            .x(ns)
            .clamp(frame.rows.left() - 4e3, frame.rows.right() + 4e3);
        Some(pos2(x, y))
    }

    /// Lists the arrows of the span in focus; returns the other end of the one that was clicked.
    pub(super) fn list_arrows(&self, ui: &mut Ui, store: &Store) -> Option<SpanRef> {
        let (into, out) = (self.arrows.arriving(), self.arrows.leaving());
        let into = into.map(|arrow| ("from", arrow.from, arrow, "Shift+G"));
        let out = out.map(|arrow| ("to", arrow.to, arrow, "G"));
        let mut chosen = None;
        let all = into.chain(out);
        let more = self.arrows.arrows.len().saturating_sub(MAX_LISTED);
        for (word, span, arrow, key) in all.take(MAX_LISTED) {
            let name = shortened(store.catalog().site_name(span.span.site));
            let thread = track_name(span.track, store.catalog());
            let later_ns = arrow.to_ns.saturating_sub(arrow.from_ns);
            let text = format!(
                "{word} {name} on {thread}, {}",
                units::duration(later_ns as f64)
            );
            if ui.small_button(text).on_hover_text(key).clicked() {
                chosen = Some(span);
            }
        }
        if more > 0 {
            ui.weak(format!("{} more arrows", units::count(more as u64)));
        }
        chosen
    }
}

fn draw_arrow(painter: &Painter, from: egui::Pos2, to: egui::Pos2, color: Color32, border: f32) {
    let bend = ((to.x - from.x).abs() * 0.4).clamp(16.0, 120.0);
    let tip = to - vec2(HEAD, 0.0);
    let points = [from, from + vec2(bend, 0.0), tip - vec2(bend, 0.0), tip];
    let stroke = Stroke::new(1.5 + border, color);
    painter.add(CubicBezierShape::from_points_stroke(
        points,
        false,
        Color32::TRANSPARENT,
        stroke,
    ));
    painter.circle_filled(from, 2.5 + border / 2.0, color);
    let half = HEAD * 0.45;
    let head = vec![to, tip - vec2(0.0, half), tip + vec2(0.0, half)];
    painter.add(Shape::convex_polygon(
        head,
        color,
        Stroke::new(border, color),
    ));
}

/// Returns the arrows from and to a span.
fn arrows_of(store: &Store, focus: &SpanRef) -> Vec<Arrow> {
    let lacks_points = store.layer().is_some_and(Layer::lacks_spans);
    let Some(track) = track_of(store, focus).filter(|_| !lacks_points) else {
        return Vec::new();
    };
    let (begin_ns, end_ns) = (focus.span.begin_ns, focus.span.end_ns());
    let first = track.flows.partition_point(|point| point.ns < begin_ns);
    let within = track.flows.range(first..);
    let flows: FxHashSet<u64> = within
        .take_while(|point| point.ns <= end_ns)
        .filter(|point| span_of(track, point.ns) == Some(*focus))
        .map(|point| point.flow)
        .take(MAX_FLOWS)
        .collect();
    if flows.is_empty() {
        return Vec::new();
    }
    let tracks = store.shown_tracks().iter();
    let points = tracks.flat_map(|track| {
        let own = track
            .flows
            .iter()
            .filter(|point| flows.contains(&point.flow));
        own.map(move |point| (*point, track))
    });
    let mut points: Vec<(FlowPoint, &Track)> = points.collect();
    points.sort_by_key(|(point, track)| (point.flow, point.ns, track.id));
    let mut arrows = Vec::new();
    for flow in points.chunk_by(|one, next| one.0.flow == next.0.flow) {
        let mut before: Option<&(FlowPoint, &Track)> = None;
        for point in flow {
            if point.0.stage != FlowStage::Begin
                && let Some(before) = before
            {
                arrows.extend(arrow(before, point));
            }
            if point.0.stage != FlowStage::End {
                before = Some(point);
            }
        }
    }
    arrows.retain(|arrow| (arrow.from == *focus) != (arrow.to == *focus));
    arrows
}

fn arrow(from: &(FlowPoint, &Track), to: &(FlowPoint, &Track)) -> Option<Arrow> {
    Some(Arrow {
        from_ns: from.0.ns,
        to_ns: to.0.ns,
        from: span_of(from.1, from.0.ns)?,
        to: span_of(to.1, to.0.ns)?,
    })
}

/// Returns the innermost span of a track at a moment.
fn span_of(track: &Track, ns: i64) -> Option<SpanRef> {
    let (row, span) = track.innermost(ns)?;
    Some(SpanRef {
        track: track.id,
        row,
        span,
    })
}
