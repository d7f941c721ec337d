//! The distribution of a scope's durations: bars over a logarithmic time axis.
//!
//! The buckets of [`Histogram`] are 1/32 of their time wide.
//! Neighbours are merged until a bar has the minimum width. A bar's height is its number of calls.

use egui::{
    Align, Align2, Layout, RichText, Role, Sense, Shape, Stroke, TextStyle, Ui, Vec2, WidgetInfo,
    vec2,
};
use egui_plot::{BarChart, GridMark, Plot, PlotBounds, PlotPoint, Text, VLine};
use vor_capture::stats::Histogram;
use vor_capture::units;

use super::sums::ScopeRow;
use crate::sheet::small_copy_buttons;
use crate::theme::{Theme, space};

/// Minimum width of a bar, in points.
const BAR_WIDTH: f64 = 5.0;

/// Minimum distance of two labels of the time axis, in points.
const LABEL_DISTANCE: f64 = 64.0;

/// The distribution of some durations, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distribution<'a> {
    /// The things that have the durations.
    pub(crate) name: &'a str,
    pub(crate) histogram: &'a Histogram,
    pub(crate) min_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p95_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
}

impl<'a> From<&'a ScopeRow> for Distribution<'a> {
    fn from(row: &'a ScopeRow) -> Self {
        Self {
            name: &row.name,
            histogram: &row.histogram,
            min_ns: row.min_ns,
            p50_ns: row.p50_ns,
            p95_ns: row.p95_ns,
            p99_ns: row.p99_ns,
            max_ns: row.max_ns,
        }
    }
}

/// Calls with a duration from `low_ns` (inclusive) to `end_ns` (exclusive).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bar {
    low_ns: f64,
    end_ns: f64,
    count: u64,
}

/// Share of the height above the longest bar, for the names of lines.
const HEADROOM: f64 = 0.2;

/// Minimum height of a bar as a share: a single call among millions must be visible.
const MIN_BAR_SHARE: f64 = 0.015;

/// The range of times as powers of ten, and the width in points.
#[derive(Clone, Copy, Debug)]
struct Axis {
    low: f64,
    high: f64,
    width: f64,
}

impl Axis {
    fn new(row: &Distribution<'_>, width: f32) -> Self {
        // The axis has a margin at both ends and covers at least a factor of two.
        let low = log(row.min_ns.max(1) as f64);
        let high = log(row.max_ns.max(1) as f64 + 1.0);
        let room = ((high - low) * 0.04)
            .max(0.15 - (high - low) / 2.0)
            .max(0.01);
        Self {
            low: (low - room).max(-0.3),
            high: high + room,
            width: f64::from(width),
        }
    }

    /// Returns the length of one point on the axis.
    fn point(&self) -> f64 {
        (self.high - self.low) / self.width
    }

    /// Returns round times, as many as fit beside one another.
    fn marks(&self) -> Vec<f64> {
        let decades = self.high - self.low;
        let room = (self.width / LABEL_DISTANCE).max(1.0);
        let steps: &[f64] = match room / decades.max(1e-9) {
            marks if marks >= 12.0 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
            marks if marks >= 4.0 => &[1.0, 2.0, 5.0],
            marks if marks >= 2.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = ((decades / room).ceil() as i32).max(1);
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        let decades = (first..=last).filter(|decade| decade.rem_euclid(every) == 0);
        let marks =
            decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
        marks
            .filter(|ns| *ns >= 1.0 && (self.low..=self.high).contains(&log(*ns)))
            .collect()
    }
}

/// Returns the position of a time on the axis.
fn log(ns: f64) -> f64 {
    ns.max(0.5).log10()
}

/// Shows a line with buttons that copy a distribution, and its histogram below, both within `size`.
pub(crate) fn show(ui: &mut Ui, theme: &Theme, row: &Distribution<'_>, size: Vec2) {
    ui.allocate_ui_with_layout(size, Layout::top_down(Align::Min), |ui| {
        ui.horizontal(|ui| {
            ui.weak("durations");
            let named = ("histogram", "the buckets of the histogram");
            small_copy_buttons(ui, named, &["from_ns", "to_ns", "count"], |sheet| {
                for bucket in row.histogram.buckets() {
                    let to_ns = bucket.low.saturating_add(bucket.width);
                    sheet.row([bucket.low, to_ns, bucket.count].map(|value| value.to_string()));
                }
            });
        });
        chart(ui, theme, row, vec2(size.x, ui.available_height()));
    });
}

fn chart(ui: &mut Ui, theme: &Theme, row: &Distribution<'_>, size: Vec2) {
    let size = size.max(vec2(40.0, 40.0));
    let axis = Axis::new(row, size.x);
    let bars = bars(row, &axis);
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(1).max(1) as f64;
    let top = most / (1.0 - HEADROOM);
    let ground = ui.painter().add(Shape::Noop);
    let marks = axis.marks();
    let step_size = (axis.high - axis.low) / marks.len().max(1) as f64;
    let grid = move |_| {
        let mark = |ns: &f64| GridMark {
            value: log(*ns),
            step_size,
        };
        marks.iter().map(mark).collect()
    };
    // All names of lines have the same width.
    let font = TextStyle::Small.resolve(ui.style());
    let name = ui
        .painter()
        .layout_no_wrap("p99".to_owned(), font, theme.text);
    let name_width = f64::from(name.size().x + space::TEXT);
    let shown = Plot::new("vor histogram")
        .width(size.x)
        .height(size.y)
        .min_size(size)
        .sense(Sense::HOVER)
        .allow_drag(false)
        .allow_zoom(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_axis_zoom_drag(false)
        .allow_double_click_reset(false)
        .show_x(false)
        .show_y(false)
        .show_background(false)
        .show_axes([true, false])
        .show_grid([true, false])
        .grid_color(theme.grid)
        .x_grid_spacer(grid)
        .x_axis_formatter(|mark, _| units::duration(10_f64.powf(mark.value)))
        .show(ui, |plot| {
            plot.set_plot_bounds(PlotBounds::from_min_max([axis.low, 0.0], [axis.high, top]));
            let is_over = plot.response().hovered();
            let pointer = plot.pointer_coordinate().filter(|_| is_over);
            let pointed = bars.iter().find(|bar| {
                pointer.is_some_and(|at| (log(bar.low_ns)..log(bar.end_ns)).contains(&at.x))
            });
            plot.bar_chart(bar_chart(&axis, &bars, pointed, most, theme));
            let mut free_from = axis.low;
            for (name, ns) in [
                ("p50", row.p50_ns),
                ("p95", row.p95_ns),
                ("p99", row.p99_ns),
            ] {
                let x = log(ns as f64 + 0.5);
                plot.vline(VLine::new(name, x).stroke(Stroke::new(1.0, theme.warn)));
                // If two lines are close, one name would cover the next.
                let left = (x + f64::from(space::TEXT) * axis.point()).max(free_from);
                let place = PlotPoint::new(left, top);
                let text = RichText::new(name).small();
                let text = Text::new(format!("name of {name}"), place, text);
                plot.text(text.color(theme.text).anchor(Align2::LEFT_TOP));
                free_from = left + name_width * axis.point();
            }
            pointed.copied()
        });
    let frame = *shown.transform.frame();
    ui.painter()
        .set(ground, Shape::rect_filled(frame, 0.0, theme.ground));
    let name = format!("histogram of {}", row.name);
    let response = shown.response;
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &name));
    if let Some(bar) = shown.inner {
        let share = bar.count as f64 / row.histogram.count().max(1) as f64 * 100.0;
        let [low, end] = [bar.low_ns, bar.end_ns].map(units::duration);
        response.on_hover_ui_at_pointer(|ui| {
            ui.label(format!("{low} to {end}"));
            ui.label(format!("{} calls, {share:.1} %", units::count(bar.count)));
        });
    }
}

/// Returns the bars for the plot.
fn bar_chart(
    axis: &Axis,
    bars: &[Bar],
    pointed: Option<&Bar>,
    most: f64,
    theme: &Theme,
) -> BarChart {
    let drawn = bars.iter().map(|bar| {
        let (left, right) = (log(bar.low_ns), log(bar.end_ns));
        // One point of background separates the bars.
        let width = (right - left - axis.point()).max(axis.point());
        // A square-root scale would misrepresent the counts.
        let height = (bar.count as f64).max(most * MIN_BAR_SHARE);
        let color = if pointed == Some(bar) {
            theme.text
        } else {
            theme.line
        };
        egui_plot::Bar::new(left + width / 2.0, height)
            .width(width)
            .fill(color)
            .stroke(Stroke::NONE)
    });
    BarChart::new("calls", drawn.collect())
}

/// Returns the bars, ascending. A bar merges as many adjacent buckets as it needs for the minimum
/// width.
fn bars(row: &Distribution<'_>, axis: &Axis) -> Vec<Bar> {
    let octave = 2_f64.log10() / axis.point();
    let together = (BAR_WIDTH * 32.0 / octave.max(1e-3)).ceil().min(1024.0) as usize;
    // The number is a power of two, so that no bar crosses an octave with a bucket more than
    // others.
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
