//! How long the calls of a scope took: bars over a logarithmic axis of time.
//!
//! The buckets of [`Histogram`](vor_core::stats::Histogram) are 1/32 of their time wide. Neighbours are put together until a bar has some points of width; a bar's height is the number of
//! calls, so that what is seen is how many calls took about so long.

use egui::{
    Align2, Mesh, Rangef, Rect, Role, Sense, Shape, Stroke, TextStyle, Ui, Vec2, WidgetInfo, pos2, vec2,
};

use super::sums::ScopeRow;
use crate::theme::Theme;
use crate::units;

/// Least width of a bar, in points.
const BAR_WIDTH: f32 = 5.0;

/// Least distance of two times that are written below, in points.
const LABEL_DISTANCE: f32 = 64.0;

/// Calls that took from `low_ns` up to, but not, `end_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bar {
    low_ns: f64,
    end_ns: f64,
    count: u64,
}

/// Where times lie.
#[derive(Clone, Copy, Debug)]
struct Axis {
    low: f64,
    high: f64,
    x: Rangef,
}

impl Axis {
    fn new(row: &ScopeRow, x: Rangef) -> Self {
        // Some room at both ends, at least a factor of two in all.
        let low = (row.min_ns.max(1) as f64).log10();
        let high = (row.max_ns.max(1) as f64 + 1.0).log10();
        let room = ((high - low) * 0.04).max(0.15 - (high - low) / 2.0).max(0.01);
        Self {
            low: (low - room).max(-0.3),
            high: high + room,
            x,
        }
    }

    fn x(&self, ns: f64) -> f32 {
        let part = (ns.max(0.5).log10() - self.low) / (self.high - self.low);
        self.x.min + part as f32 * self.x.span()
    }

    /// Returns round times, as many as can be written beside one another.
    fn marks(&self) -> Vec<f64> {
        let decades = self.high - self.low;
        let room = (self.x.span() / LABEL_DISTANCE).max(1.0);
        let steps: &[f64] = match f64::from(room) / decades.max(1e-9) {
            marks if marks >= 12.0 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
            marks if marks >= 4.0 => &[1.0, 2.0, 5.0],
            marks if marks >= 2.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = ((decades / f64::from(room)).ceil() as i32).max(1);
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        let decades = (first..=last).filter(|decade| decade.rem_euclid(every) == 0);
        let marks = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
        marks
            .filter(|ns| *ns >= 1.0 && (self.low..=self.high).contains(&ns.log10()))
            .collect()
    }
}

/// Shows the histogram of a row.
pub(super) fn show(ui: &mut Ui, theme: &Theme, row: &ScopeRow, size: Vec2) {
    let size = size.max(vec2(40.0, 40.0));
    let (rect, response) = ui.allocate_exact_size(size, Sense::HOVER);
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("histogram of {}", row.name)));
    let painter = ui.painter_at(rect);
    let font = TextStyle::Small.resolve(ui.style());
    let plot = Rect::from_min_max(rect.min, pos2(rect.right(), rect.bottom() - 16.0));
    painter.rect_filled(plot, 0.0, theme.ground);
    let axis = Axis::new(row, plot.x_range());
    for ns in axis.marks() {
        let x = painter.round_to_pixel_center(axis.x(ns));
        painter.vline(x, plot.y_range(), Stroke::new(1.0, theme.grid));
        let place = pos2(
            x.clamp(rect.left() + 20.0, (rect.right() - 20.0).max(rect.left() + 20.0)),
            rect.bottom(),
        );
        painter.text(
            place,
            Align2::CENTER_BOTTOM,
            units::duration(ns),
            font.clone(),
            theme.weak_text,
        );
    }
    let bars = bars(row, &axis);
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(1).max(1);
    let top = plot.top() + 18.0;
    let pointer = response.hover_pos();
    let mut hit = None;
    let mut mesh = Mesh::default();
    for bar in &bars {
        let (left, right) = (axis.x(bar.low_ns), axis.x(bar.end_ns));
        // The square root would lie; but a single call among millions shall be seen.
        let height = ((plot.bottom() - top) * (bar.count as f64 / most as f64) as f32).max(1.5);
        let right = (right - 1.0).max(left + 1.0);
        let area = Rect::from_min_max(pos2(left, plot.bottom() - height), pos2(right, plot.bottom()));
        let under_pointer = pointer.is_some_and(|at| (left..right + 1.0).contains(&at.x));
        if under_pointer {
            hit = Some(*bar);
        }
        mesh.add_colored_rect(area, if under_pointer { theme.text } else { theme.line });
    }
    painter.add(Shape::mesh(mesh));
    let mut free_from = f32::NEG_INFINITY;
    for (name, ns) in [("p50", row.p50_ns), ("p95", row.p95_ns), ("p99", row.p99_ns)] {
        let x = painter.round_to_pixel_center(axis.x(ns as f64 + 0.5));
        painter.vline(
            x,
            Rangef::new(plot.top() + 14.0, plot.bottom()),
            Stroke::new(1.0, theme.warn),
        );
        // Where they are close to each other, one name would cover the next.
        let width = painter
            .layout_no_wrap(name.to_owned(), font.clone(), theme.text)
            .size()
            .x;
        let left = (x - width / 2.0).max(free_from).max(plot.left() + 2.0);
        painter.text(
            pos2(left, plot.top() + 1.0),
            Align2::LEFT_TOP,
            name,
            font.clone(),
            theme.text,
        );
        free_from = left + width + 5.0;
    }
    if let Some(bar) = hit {
        let share = bar.count as f64 / row.count.max(1) as f64 * 100.0;
        let [low, end] = [bar.low_ns, bar.end_ns].map(units::duration);
        response.on_hover_ui_at_pointer(|ui| {
            ui.label(format!("{low} to {end}"));
            ui.label(format!("{} calls, {share:.1} %", units::count(bar.count)));
        });
    }
}

/// Returns the bars, ascending. As many neighbouring buckets make one as it takes to be wide enough.
fn bars(row: &ScopeRow, axis: &Axis) -> Vec<Bar> {
    let octave = axis.x(2e3) - axis.x(1e3);
    let together = (BAR_WIDTH * 32.0 / octave.max(1e-3)).ceil().min(1024.0) as usize;
    // Powers of two, so that no bar reaches from one octave to the next with a bucket more than others.
    let together = together.max(1).next_power_of_two();
    let mut bars: Vec<Bar> = Vec::new();
    let mut last = None;
    for bucket in row.histogram.buckets() {
        let (low_ns, end_ns) = (bucket.low as f64, bucket.low as f64 + bucket.width as f64);
        let place = bucket.number / together;
        match bars.last_mut().filter(|_| last == Some(place)) {
            Some(bar) => {
                bar.end_ns = end_ns;
                bar.count = bar.count.saturating_add(bucket.count);
            }
            None => bars.push(Bar {
                low_ns,
                end_ns,
                count: bucket.count,
            }),
        }
        last = Some(place);
    }
    bars
}
