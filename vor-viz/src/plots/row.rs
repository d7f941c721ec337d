//! A row of metrics: its plot as rectangles, and the texts beside it.

use egui::epaint::Vertex;
use egui::{Align2, Color32, Mesh, Painter, Rect, Stroke, Ui, pos2, vec2};
use vor_capture::units::{self, Scale};

use super::MetricRow;
use super::columns::{RowColumns, Run};
use crate::frame_axis::{FrameAxis, axis_rect};
use crate::sketch::{self, Ink, shortened};
use crate::store::{MetricBin, Store, ValueSummary};
use crate::theme::{Theme, space, text};

/// Margin above and below the line within a plot, in points.
const MARGIN: f32 = space::TEXT;

/// Width of the axis labels at the left of the plot, in points.
const EDGES_WIDTH: f32 = 46.0;

/// Widths of the value cells as shares of the column: current value, minimum, mean and maximum.
const VALUE_SHARES: [f32; 4] = [0.37, 0.21, 0.21, 0.21];

/// Returns the rectangle of a row's name column.
pub(super) fn name_rect(rect: Rect) -> Rect {
    rect.with_max_x(axis_rect(rect).left())
}

/// Returns the width of the axis labels within the column of names, in points. A narrow panel has
/// none, since the names need the space.
fn edges_width(name: Rect) -> f32 {
    if name.width() < 120.0 {
        0.0
    } else {
        EDGES_WIDTH
    }
}

/// Returns the rectangles of the buttons for pinning and hiding.
pub(super) fn button_rects(rect: Rect) -> [Rect; 2] {
    let name = name_rect(rect);
    let size = vec2(16.0, 16.0);
    let right = (name.right() - edges_width(name)).max(name.left() + 36.0);
    let top = rect.bottom() - space::TIGHT - size.y;
    [18.0, 36.0].map(|left| Rect::from_min_size(pos2(right - left, top), size))
}

/// Returns the rectangles of the values; in a narrow panel, all but the first are empty.
pub(super) fn value_cells(rect: Rect) -> [Rect; 4] {
    let column = rect.with_min_x(axis_rect(rect).right());
    let shares = if column.width() < 180.0 {
        [1.0, 0.0, 0.0, 0.0]
    } else {
        VALUE_SHARES
    };
    let mut left = column.left();
    shares.map(|share| {
        let cell = column
            .with_min_x(left)
            .with_max_x(left + share * column.width());
        left = cell.right();
        // Adjacent numbers must not touch.
        cell.with_min_x(cell.left() + space::TEXT)
    })
}

/// The values at a plot's lower and upper edges.
#[derive(Clone, Copy, Debug)]
struct Edges {
    low: f64,
    high: f64,
    /// Half of the lower edge, and the reciprocal of half the height. The halves avoid an overflow
    /// of the difference of the largest numbers.
    half_low: f64,
    by_half_height: f64,
}

impl Edges {
    /// Includes zero if that costs less than half of the height.
    fn of(all: &ValueSummary) -> Self {
        let (min, max) = if all.is_empty() {
            (0.0, 1.0)
        } else {
            (all.min, all.max)
        };
        let (mut low, mut high) = (min, max);
        if min >= 0.0 && min <= 0.5 * max {
            low = 0.0;
        } else if max <= 0.0 && max >= 0.5 * min {
            high = 0.0;
        }
        if low == high {
            let around = if low == 0.0 { 1.0 } else { low.abs() * 0.05 };
            (low, high) = (low - around, high + around);
            if min == 0.0 {
                low = 0.0;
            }
        }
        let (low, high) = (low.max(f64::MIN), high.min(f64::MAX));
        Self {
            low,
            high,
            half_low: low / 2.0,
            by_half_height: 1.0 / (high / 2.0 - low / 2.0),
        }
    }

    /// Returns the relative height of a value: 0 at the lower edge, 1 at the upper one.
    #[inline]
    fn share(&self, value: f64) -> f32 {
        let share = ((value / 2.0 - self.half_low) * self.by_half_height) as f32;
        // Between adjacent edges among the smallest numbers, the division has no finite result.
        // Unlike `clamp`, this turns `NaN` into zero.
        let share = if share > 0.0 { share } else { 0.0 };
        share.min(1.0)
    }
}

/// Appends the rectangles of a plot: a line at the mean, and a band from minimum to maximum where
/// several frames share a column of pixels.
pub(super) fn draw(
    mesh: &mut Mesh,
    reduced: &RowColumns,
    axis: &FrameAxis,
    rect: Rect,
    theme: &Theme,
) {
    let pixel = axis.pixel();
    // A thicker line looks heavy where it goes up and down in each column.
    let thick = (1.25 / pixel).round().max(1.0) * pixel;
    let snap = |y: f32| (y / pixel).round() * pixel;
    let edges = Edges::of(&reduced.all);
    let (top, bottom) = (
        snap(rect.top() + MARGIN),
        snap(rect.bottom() - MARGIN) - thick,
    );
    let height_px = ((bottom - top) / pixel).round();
    let y_of = |value: f64| {
        // Adding and subtracting a number this large rounds to whole pixels, halves up. `round`
        // would be a call, and a cast a branch.
        const WHOLE: f32 = 8_388_608.0;
        let up = edges.share(value) * height_px + 1e-4;
        bottom - ((up + WHOLE) - WHOLE) * pixel
    };
    // A plot of few values marks each value with a point.
    let has_points = reduced.runs.len() as f32 * 12.0 < axis.rect().width();
    let mut before: Option<(u32, f32)> = None;
    let mut rest = reduced.runs.as_slice();
    while let Some((run, behind)) = rest.split_first() {
        let last_y = before.filter(|(end, _)| *end == run.first).map(|(_, y)| y);
        if let Some(last) = last_y
            && run.end - run.first == 1
        {
            let steps = rest.windows(2).take_while(|pair| {
                let [one, next] = [pair[0], pair[1]];
                next.first == one.end && next.end - next.first == 1
            });
            let (columns, others) = rest.split_at(1 + steps.count());
            let y = draw_columns(mesh, columns, last, axis, theme, thick, &y_of);
            before = columns.last().map(|last| (last.end, y));
            rest = others;
            continue;
        }
        rest = behind;
        let (left, right) = (
            axis.column_x(run.first as usize),
            axis.column_x(run.end as usize),
        );
        let values = &run.values;
        let y = if values.min == values.max {
            y_of(values.min)
        } else {
            let (upper, lower) = (y_of(values.max), y_of(values.min) + thick);
            sketch::quad(mesh, left, upper, right, lower, theme.band);
            y_of(values.mean())
        };
        match last_y {
            Some(last) => {
                sketch::quad(mesh, left, y, right, y + thick, theme.line);
                if last != y {
                    sketch::quad(
                        mesh,
                        left,
                        y.min(last),
                        left + thick,
                        y.max(last) + thick,
                        theme.line,
                    );
                }
            }
            None => {
                let is_alone = behind.first().is_none_or(|next| next.first > run.end);
                if is_alone && right - left < 3.0 {
                    // A single value between gaps would be hard to see.
                    let middle = f32::midpoint(left, right);
                    sketch::quad(
                        mesh,
                        middle - 1.5,
                        y - 1.0,
                        middle + 1.5,
                        y + 2.0,
                        theme.line,
                    );
                } else {
                    sketch::quad(mesh, left, y, right, y + thick, theme.line);
                }
            }
        }
        if has_points {
            let (x, y) = (f32::midpoint(left, right), y + thick / 2.0);
            sketch::quad(mesh, x - 2.0, y - 2.0, x + 2.0, y + 2.0, theme.line);
        }
        before = Some((run.end, y));
    }
}

/// Appends consecutive columns of one pixel's width; the first follows a value at `last_y`. Returns
/// the y of the last column's mean.
///
/// This function draws most of a plot of many frames. Neighbours therefore share their corners: a
/// column takes four corners and four triangles, and no capacity check lies between them.
fn draw_columns(
    mesh: &mut Mesh,
    columns: &[Run],
    last_y: f32,
    axis: &FrameAxis,
    theme: &Theme,
    thick: f32,
    y_of: &impl Fn(f64) -> f32,
) -> f32 {
    let corners = |x: f32, [top, bottom, upper, lower]: [f32; 4]| {
        [
            Vertex::untextured(pos2(x, top), theme.band),
            Vertex::untextured(pos2(x, bottom), theme.band),
            Vertex::untextured(pos2(x, upper), theme.line),
            Vertex::untextured(pos2(x, lower), theme.line),
        ]
    };
    let first = mesh.vertices.len() as u32;
    let (mut y, mut ys) = (last_y, [last_y; 4]);
    mesh.vertices.extend(columns.iter().flat_map(|run| {
        let before = std::mem::replace(&mut y, y_of(run.values.mean()));
        ys = [
            y_of(run.values.max),
            y_of(run.values.min) + thick,
            y.min(before),
            y.max(before) + thick,
        ];
        corners(axis.column_x(run.first as usize), ys)
    }));
    // The right edge of the last column.
    let end = columns.last().map_or(0, |run| run.end);
    mesh.vertices
        .extend_from_slice(&corners(axis.column_x(end as usize), ys));
    mesh.indices
        .extend((0..columns.len() as u32).flat_map(|column| {
            let at = first + 4 * column;
            [0, 1, 4, 4, 1, 5, 2, 3, 6, 6, 3, 7].map(|corner| at + corner)
        }));
    y
}

/// The texts of a row.
pub(super) struct Cells<'a> {
    /// The metric.
    pub(super) row: &'a MetricRow<'a>,
    /// Its visible values.
    pub(super) reduced: &'a RowColumns,
    /// The value in the readout.
    pub(super) value: f64,
    /// Width of the buttons at the right, below the name, in points.
    pub(super) buttons_width: f32,
}

impl Cells<'_> {
    pub(super) fn write(&self, painter: &Painter, rect: Rect, theme: &Theme) {
        let (row, all) = (self.row, &self.reduced.all);
        let greatest = all
            .min
            .abs()
            .max(all.max.abs())
            .max(finite(self.value).abs());
        let scale = Scale::of(greatest, row.unit, row.integer);
        let weak = |size| Ink {
            size,
            color: theme.weak_text,
        };
        let strong = |size| Ink {
            size,
            color: theme.text,
        };
        let name = name_rect(rect);
        let plot = axis_rect(rect);
        let left = name.left_top() + vec2(space::TEXT, space::TIGHT);
        let room = name.width() - edges_width(name) - 4.0;
        let is_low = rect.height() < 34.0;
        sketch::text(
            painter,
            left,
            Align2::LEFT_TOP,
            room,
            row.name.to_owned(),
            strong(text::BODY),
        );
        let has_values = value_cells(rect)[0].width() > 20.0;
        if !is_low && !has_values {
            // The value is where the unit would be.
            let text = match self.value.is_finite() {
                true => units::metric(self.value, row.unit, row.integer),
                false => scale.unit().to_owned(),
            };
            let place = left + vec2(0.0, 16.0);
            sketch::text(
                painter,
                place,
                Align2::LEFT_TOP,
                room,
                text,
                weak(text::SMALL),
            );
        } else if !is_low {
            let mut text = scale.unit().to_owned();
            if self.reduced.gaps > 0 {
                let noun = if self.reduced.gaps == 1 {
                    "gap"
                } else {
                    "gaps"
                };
                let separator = if text.is_empty() { "" } else { ", " };
                text = format!(
                    "{text}{separator}{} {noun}",
                    units::count(self.reduced.gaps as u64)
                );
            }
            let room = room - self.buttons_width;
            sketch::text(
                painter,
                left + vec2(0.0, 16.0),
                Align2::LEFT_TOP,
                room,
                text,
                weak(text::SMALL),
            );
        }
        if !all.is_empty() && edges_width(name) > 0.0 {
            let edges = Edges::of(all);
            let right = plot.left() - 4.0;
            let edge = |value: f64| match value.fract() {
                0.0 => scale.number(value),
                _ => scale.with_decimals().number(value),
            };
            let (high, low) = (edge(edges.high), edge(edges.low));
            let room = EDGES_WIDTH - 4.0;
            sketch::text(
                painter,
                pos2(right, rect.top()),
                Align2::RIGHT_TOP,
                room,
                high,
                weak(text::SMALL),
            );
            sketch::text(
                painter,
                pos2(right, rect.bottom()),
                Align2::RIGHT_BOTTOM,
                room,
                low,
                weak(text::SMALL),
            );
        }
        if !has_values {
            return;
        }
        let decimals = scale.with_decimals();
        let shown = |value: f64| if all.is_empty() { f64::NAN } else { value };
        let value = match (self.value.is_finite(), scale.unit()) {
            // A long unit would leave no room for the number; it is shown below the name.
            (true, unit) if (1..=5).contains(&unit.chars().count()) => {
                format!("{} {unit}", scale.number(self.value))
            }
            _ => scale.number(self.value),
        };
        let texts = [
            value,
            scale.number(shown(all.min)),
            decimals.number(all.mean()),
            scale.number(shown(all.max)),
        ];
        let inks = [
            strong(text::BODY),
            strong(text::SMALL),
            strong(text::SMALL),
            strong(text::SMALL),
        ];
        for ((cell, text), ink) in value_cells(rect).into_iter().zip(texts).zip(inks) {
            sketch::text(
                painter,
                cell.right_center(),
                Align2::RIGHT_CENTER,
                cell.width(),
                text,
                ink,
            );
        }
    }
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Draws a pin: filled when the row is pinned.
pub(super) fn paint_pin(painter: &Painter, rect: Rect, is_pinned: bool, color: Color32) {
    let (middle, stroke) = (rect.center(), Stroke::new(1.2, color));
    let head = middle - vec2(0.0, 2.5);
    if is_pinned {
        painter.circle_filled(head, 3.2, color);
    } else {
        painter.circle_stroke(head, 2.8, stroke);
    }
    painter.line_segment([head + vec2(0.0, 3.0), middle + vec2(0.0, 6.0)], stroke);
}

/// Draws a cross.
pub(super) fn paint_hide(painter: &Painter, rect: Rect, color: Color32) {
    let (middle, stroke) = (rect.center(), Stroke::new(1.2, color));
    for arm in [vec2(3.2, 3.2), vec2(3.2, -3.2)] {
        painter.line_segment([middle - arm, middle + arm], stroke);
    }
}

/// Shows the tooltip of a metric.
pub(super) fn describe(ui: &mut Ui, row: &MetricRow<'_>) {
    ui.strong(shortened(row.name));
    if !row.unit.is_empty() {
        ui.weak(format!("in {}", shortened(row.unit)));
    }
    if !row.description.is_empty() {
        ui.label(row.description);
    }
}

/// Shows the value of a frame.
pub(super) fn tooltip(ui: &mut Ui, store: &Store, index: usize, row: &MetricRow<'_>) {
    let Some(frame) = store.frames().get(index) else {
        return;
    };
    ui.label(format!("frame {}", units::count(frame.number)));
    let value = (row.values)(index);
    if value.is_finite() {
        ui.strong(format!(
            "{} {}",
            shortened(row.name),
            units::metric(value, row.unit, row.integer)
        ));
    } else {
        ui.weak(format!("{} has no value here", shortened(row.name)));
    }
}

/// Shows the values of a bin of a whole capture.
pub(super) fn bin_tooltip(ui: &mut Ui, bin: &MetricBin, row: &MetricRow<'_>) {
    let text = |value: f64| units::metric(value, row.unit, row.integer);
    let values = &bin.values;
    if values.is_empty() {
        ui.weak(format!("{} has no value here", shortened(row.name)));
        return;
    }
    let name = shortened(row.name);
    if values.min == values.max {
        ui.strong(format!("{name} {}", text(values.min)));
    } else {
        ui.strong(format!(
            "{name} {} to {}",
            text(values.min),
            text(values.max)
        ));
        ui.label(format!("mean {}", text(values.mean())));
    }
    let length = units::duration(bin.end_ns.saturating_sub(bin.begin_ns) as f64);
    ui.weak(match bin.frames {
        1 => format!("1 frame ends within these {length}"),
        frames => format!(
            "{} frames end within these {length}",
            units::count(frames.into())
        ),
    });
}
