//! Frames as bars: the duration of each frame and its losses.
//!
//! A bar spans its frame from begin to end, and its height is the duration. Frames that share a
//! column of pixels are one bar, as high as the longest of them. The mesh is rebuilt only when the
//! frames or the view change.

use std::hash::{Hash, Hasher};

use egui::{
    Align2, Color32, Id, Mesh, Painter, Rect, Response, Role, Sense, Ui, WidgetInfo, pos2, vec2,
};
use rustc_hash::FxHasher;
use vor_capture::units;

use crate::frame_axis::{self, FrameAxis, axis_rect};
use crate::sketch::{self, Ink, Quads};
use crate::store::{FrameEntry, Store};
use crate::theme::{Theme, space, text};
use crate::view::View;

/// Height of the lane of marks above the bars, in points.
const MARKS_HEIGHT: f32 = 9.0;

/// Height of the lane of the bracket below the bars, in points.
const BRACKET_HEIGHT: f32 = 5.0;

/// Maximum number of durations that are sorted to find the usual one.
pub(crate) const MAX_SORTED: usize = 4096;

const HELP: &str = "A bar per frame, as high as the frame is long.\n\
    Click to pin a frame, and drag to move the pin. \
    Drag with shift to select frames; a double click shows all again. \
    A secondary click unpins.\n\
    A triangle above: spans were dropped. A cross: records are damaged. \
    A notch: the bar is longer than there is room.";

/// Limits for frame durations, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// A frame up to this duration is good.
    pub good: f64,
    /// A frame above this duration is bad.
    pub warn: f64,
}

impl Default for Thresholds {
    /// 60 and 30 frames per second.
    fn default() -> Self {
        Self {
            good: 1000.0 / 60.0,
            warn: 1000.0 / 30.0,
        }
    }
}

impl Thresholds {
    /// Returns the colour of a frame from its duration in milliseconds.
    #[inline]
    #[must_use]
    pub fn color(&self, duration_ms: f64, theme: &Theme) -> Color32 {
        if duration_ms <= self.good {
            theme.good
        } else if duration_ms <= self.warn {
            theme.warn
        } else {
            theme.bad
        }
    }
}

/// Shows the frames of the view's axis as bars, `height` points high, and handles the pointer
/// there.
pub fn show(
    ui: &mut Ui,
    height: f32,
    store: &Store,
    view: &mut View,
    theme: &Theme,
    thresholds: Thresholds,
) -> Response {
    let width = ui.available_width().clamp(0.0, 32_768.0);
    let size = vec2(width, height.clamp(24.0, 4096.0));
    let (_, rect) = ui.allocate_space(size);
    let id = ui.make_persistent_id("frame bars");
    let axis = FrameAxis::new(axis_rect(rect), view.axis(), ui.pixels_per_point());
    let mut response = ui.interact(axis.rect(), id, Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "frame bars"));
    let pointed = frame_axis::interact(ui, &response, &axis, store, view);
    if let Some(frame) = pointed.and_then(|index| store.frames().get(index)) {
        response = response.on_hover_ui_at_pointer(|ui| tooltip(ui, frame, thresholds, theme));
    }
    if !ui.is_rect_visible(rect) {
        return response;
    }
    explain_title(ui, rect, &axis, id, HELP);
    let painter = ui.painter().with_clip_rect(rect.intersect(ui.clip_rect()));
    painter.rect_filled(axis.rect(), 0.0, theme.ground);
    let mut picture = ui
        .data_mut(|data| data.remove_temp::<Picture>(id))
        .unwrap_or_default();
    picture.update(store, view, &axis, theme, thresholds);
    picture.paint(&painter, rect, &axis, thresholds, theme);
    picture.paint_readout(&painter, rect, store, view, theme);
    ui.data_mut(|data| data.insert_temp(id, picture));
    if store.frames().is_empty() {
        let ink = Ink {
            size: text::BODY,
            color: theme.weak_text,
        };
        let middle = axis.rect().center();
        sketch::text(
            &painter,
            middle,
            Align2::CENTER_CENTER,
            axis.rect().width(),
            "no frames yet".to_owned(),
            ink,
        );
    }
    paint_bracket(&painter, &axis, store, view, theme);
    frame_axis::paint_cursors(&painter, &axis, store, view, theme);
    response
}

/// Explains the bars where the pointer is over their title.
pub(crate) fn explain_title(ui: &Ui, rect: Rect, axis: &FrameAxis, id: Id, help: &str) {
    let title = rect.with_max_x(axis.rect().left());
    let title = ui.interact(title, id.with("title"), Sense::hover());
    if title.contains_pointer() {
        title.on_hover_text(help);
    }
}

/// Paints the number of frames on the left of the bars, and a duration in milliseconds with two
/// lines on the right.
pub(crate) fn paint_labels(
    painter: &Painter,
    rect: Rect,
    count: String,
    readout: Option<(f64, [String; 2])>,
    theme: &Theme,
) {
    let plot = axis_rect(rect);
    let strong = |size| Ink {
        size,
        color: theme.text,
    };
    let weak = Ink {
        size: text::SMALL,
        color: theme.weak_text,
    };
    let text = |place, room, text, ink| {
        sketch::text(painter, place, Align2::LEFT_TOP, room, text, ink);
    };
    let left = rect.left_top() + vec2(space::TEXT, space::TEXT);
    let room = plot.left() - rect.left() - 60.0;
    // In a narrow panel, the scale takes all of it.
    if room > 40.0 {
        text(left, room, "Frames".to_owned(), strong(text::BODY));
        text(left + vec2(0.0, 17.0), room, count, weak);
    }
    let Some((duration_ms, lines)) = readout else {
        return;
    };
    let right = pos2(plot.right() + 8.0, rect.top() + 4.0);
    let room = rect.right() - right.x;
    text(
        right,
        room,
        units::duration(duration_ms * 1e6),
        strong(text::TITLE),
    );
    for (i, line) in lines.into_iter().enumerate() {
        let below = right + vec2(0.0, 20.0 + 14.0 * i as f32);
        if below.y + 12.0 < rect.bottom() {
            text(below, room, line, weak);
        }
    }
}

/// The bars as last drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    /// Hash of the inputs of the mesh.
    key: Option<u64>,
    quads: Quads,
    /// The duration at the upper edge.
    top_ms: f64,
    pub(crate) longest_ms: f64,
    pub(crate) mean_ms: f64,
}

/// Frames that share columns of pixels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bar {
    pub(crate) first: usize,
    pub(crate) end: usize,
    pub(crate) longest_ms: f64,
    pub(crate) has_drops: bool,
    pub(crate) is_damaged: bool,
}

/// Merges the bars of frames that share columns of pixels.
pub(crate) fn merged(frames: impl Iterator<Item = Bar>) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for bar in frames {
        match bars.last_mut() {
            Some(last) if bar.first < last.end => last.merge(&bar),
            _ => bars.push(bar),
        }
    }
    bars
}

impl Picture {
    /// Returns whether the picture was not made of inputs with this hash; it will be now.
    pub(crate) fn is_new(&mut self, key: u64) -> bool {
        self.key.replace(key) != Some(key)
    }

    fn update(
        &mut self,
        store: &Store,
        view: &View,
        axis: &FrameAxis,
        theme: &Theme,
        thresholds: Thresholds,
    ) {
        if !self.is_new(key_of(store, view, axis, theme, thresholds)) {
            return;
        }
        let (first, end) = view
            .shown_frames(store)
            .map_or((0, 0), |(first, last)| (first, last + 1));
        let frames = || store.frames().range(first..end);
        let durations_ms = frames().map(|frame| frame.duration_ms() as f32);
        let durations_ms: Vec<f32> = durations_ms.filter(|ms| !ms.is_nan()).collect();
        let sum: f64 = durations_ms.iter().map(|&ms| f64::from(ms)).sum();
        let mean_ms = sum / durations_ms.len() as f64;
        let longest_ms = f64::from(durations_ms.iter().copied().fold(0.0, f32::max));
        // A sample of very many frames has nearly the same median.
        let step = durations_ms.len().div_ceil(MAX_SORTED).max(1);
        let sample = durations_ms.into_iter().step_by(step).collect();
        self.set_scale(sample, longest_ms, mean_ms, thresholds);
        let bars = frames().filter_map(|frame| {
            let (first, end) = axis.columns(frame.begin_ns, frame.end_ns)?;
            Some(Bar {
                first,
                end,
                // A lost frame has no length.
                longest_ms: frame.duration_ms().max(0.0),
                has_drops: frame.dropped_spans > 0,
                is_damaged: frame.lost_records > 0,
            })
        });
        let bars = merged(bars).into_iter();
        self.draw(bars, axis, bars_rect(axis), theme, thresholds);
    }

    /// Sets a scale on which one very long frame does not flatten all others, from a sample of the
    /// durations.
    pub(crate) fn set_scale(
        &mut self,
        mut sample: Vec<f32>,
        longest_ms: f64,
        mean_ms: f64,
        thresholds: Thresholds,
    ) {
        (self.longest_ms, self.mean_ms) = (longest_ms, mean_ms);
        let usual_ms = match sample.len() {
            0 => 0.0,
            count => {
                // With few frames, this takes all but the longest.
                let at = (count - 1) * 49 / 50;
                f64::from(*sample.select_nth_unstable_by(at, f32::total_cmp).1)
            }
        };
        let min_ms = 1.2 * thresholds.warn.clamp(1e-6, 1e12);
        self.top_ms = rounded_up(self.longest_ms.min(2.0 * usual_ms)).max(min_ms);
    }

    /// Draws bars, which ascend, into the mesh.
    pub(crate) fn draw(
        &mut self,
        bars: impl Iterator<Item = Bar>,
        axis: &FrameAxis,
        plot: Rect,
        theme: &Theme,
        thresholds: Thresholds,
    ) {
        let top_ms = self.top_ms;
        let mesh = self.quads.begin();
        let mut marked = [f32::NEG_INFINITY; 2];
        for bar in bars {
            let color = thresholds.color(bar.longest_ms, theme);
            paint_bar(mesh, &bar, axis, plot, top_ms, color, theme);
            paint_marks(mesh, &bar, axis, &mut marked, theme);
        }
    }

    /// Draws lines at the thresholds and the labels of the scale at the left.
    pub(crate) fn paint(
        &self,
        painter: &Painter,
        rect: Rect,
        axis: &FrameAxis,
        thresholds: Thresholds,
        theme: &Theme,
    ) {
        let plot = bars_rect(axis);
        self.quads.paint(painter);
        let size = text::SMALL;
        let mut taken: Vec<f32> = Vec::with_capacity(3);
        let lines = [
            (thresholds.warn, theme.bad, theme.bad_text),
            (thresholds.good, theme.warn, theme.warn_text),
            (self.top_ms, theme.weak_text, theme.weak_text),
        ];
        for (ms, color, text_color) in lines {
            let y = height_of(ms, self.top_ms, plot);
            let snapped = (y / axis.pixel()).round() * axis.pixel();
            if ms < self.top_ms {
                let line = Rect::from_x_y_ranges(plot.x_range(), snapped..=snapped + axis.pixel());
                painter.rect_filled(line, 0.0, color.gamma_multiply(0.55));
            }
            let room = rect.top() + size * 0.6..=rect.bottom() - size * 0.6;
            let y = y.clamp(*room.start(), room.end().max(*room.start()));
            if ms.is_finite() && taken.iter().all(|other| (other - y).abs() > size) {
                taken.push(y);
                let text = units::duration(ms * 1e6);
                let ink = Ink {
                    size,
                    color: if ms < self.top_ms {
                        text_color
                    } else {
                        theme.weak_text
                    },
                };
                let right = pos2(axis.rect().left() - 4.0, y);
                sketch::text(painter, right, Align2::RIGHT_CENTER, 60.0, text, ink);
            }
        }
    }

    /// Writes the title at the left, and the duration of the readout's frame at the right.
    fn paint_readout(
        &self,
        painter: &Painter,
        rect: Rect,
        store: &Store,
        view: &View,
        theme: &Theme,
    ) {
        let count = match view.selection_indices(store) {
            Some((first, last)) => format!("{} selected", units::count((last - first + 1) as u64)),
            None => units::count(store.frames().len() as u64),
        };
        let readout = frame_axis::readout_frame(store, view).and_then(|(index, which)| {
            let frame = store.frames().get(index)?;
            let lines = [
                format!("frame {}, {which}", units::count(frame.number)),
                format!(
                    "mean {}, longest {}",
                    units::duration(self.mean_ms * 1e6),
                    units::duration(self.longest_ms * 1e6)
                ),
            ];
            Some((frame.duration_ms(), lines))
        });
        paint_labels(painter, rect, count, readout, theme);
    }
}

impl Bar {
    fn merge(&mut self, other: &Self) {
        self.end = self.end.max(other.end);
        self.longest_ms = self.longest_ms.max(other.longest_ms);
        self.has_drops |= other.has_drops;
        self.is_damaged |= other.is_damaged;
    }
}

/// Returns a number that changes when the mesh must be rebuilt.
fn key_of(
    store: &Store,
    view: &View,
    axis: &FrameAxis,
    theme: &Theme,
    thresholds: Thresholds,
) -> u64 {
    let mut hasher = FxHasher::default();
    let rect = axis.rect();
    let points = [
        rect.left(),
        rect.top(),
        rect.right(),
        rect.bottom(),
        axis.pixel(),
    ];
    let time = view.axis();
    let numbers = [time.begin_ns, time.end_ns, thresholds.good, thresholds.warn];
    (
        store.version(),
        store.id_at(0),
        store.frames().len(),
        theme.dark,
    )
        .hash(&mut hasher);
    points.map(f32::to_bits).hash(&mut hasher);
    numbers.map(f64::to_bits).hash(&mut hasher);
    hasher.finish()
}

/// Returns the area of the bars, without the lanes above and below.
pub(crate) fn bars_rect(axis: &FrameAxis) -> Rect {
    let rect = axis.rect();
    let top = rect.top() + MARKS_HEIGHT;
    Rect::from_min_max(
        pos2(rect.left(), top),
        pos2(rect.right(), (rect.bottom() - BRACKET_HEIGHT).max(top)),
    )
}

/// Returns the y of a duration.
fn height_of(ms: f64, top_ms: f64, plot: Rect) -> f32 {
    let share = (ms / top_ms).clamp(0.0, 1.0) as f32;
    plot.bottom() - plot.height() * share
}

/// Rounds up to a number with few digits, so that the scale does not flicker with live data.
pub(crate) fn rounded_up(ms: f64) -> f64 {
    if !(1e-9..=1e15).contains(&ms) {
        return 0.0;
    }
    let magnitude = 10f64.powf(ms.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
    let fits = steps
        .into_iter()
        .find(|step| step * magnitude >= ms * 0.999_999);
    fits.unwrap_or(10.0) * magnitude
}

fn paint_bar(
    mesh: &mut Mesh,
    bar: &Bar,
    axis: &FrameAxis,
    plot: Rect,
    top_ms: f64,
    color: Color32,
    theme: &Theme,
) {
    let pixel = axis.pixel();
    let left = axis.column_x(bar.first);
    // A gap between wide bars makes them countable.
    let gap = if (bar.end - bar.first) as f32 * pixel >= 4.0 {
        1.0_f32.max(pixel)
    } else {
        0.0
    };
    let right = axis.column_x(bar.end) - gap;
    // A frame of zero duration is visible as well.
    let top = height_of(bar.longest_ms, top_ms, plot).min(plot.bottom() - pixel);
    sketch::quad(mesh, left, top, right, plot.bottom(), color);
    if bar.longest_ms > top_ms && plot.height() > 16.0 {
        // The notch marks a bar that is longer than the available height.
        sketch::quad(mesh, left, top + 4.0, right, top + 6.0, theme.ground);
    }
}

/// Draws marks in the lane above the bars, at most one of a kind per 6 points.
fn paint_marks(mesh: &mut Mesh, bar: &Bar, axis: &FrameAxis, marked: &mut [f32; 2], theme: &Theme) {
    let middle = f32::midpoint(axis.column_x(bar.first), axis.column_x(bar.end));
    let lane = axis.rect().top();
    if bar.has_drops && middle - marked[0] > 6.0 {
        marked[0] = middle;
        sketch::triangle(
            mesh,
            pos2(middle, lane + MARKS_HEIGHT - 2.0),
            3.5,
            theme.bad,
        );
    }
    if bar.is_damaged && middle - marked[1] > 6.0 {
        marked[1] = middle;
        let beside = if bar.has_drops { 7.0 } else { 0.0 };
        sketch::cross(
            mesh,
            pos2(middle + beside, lane + MARKS_HEIGHT / 2.0),
            2.8,
            theme.bad,
        );
    }
}

/// Marks the time range that the flame chart shows.
fn paint_bracket(painter: &Painter, axis: &FrameAxis, store: &Store, view: &View, theme: &Theme) {
    if !view.is_zoomed() {
        return;
    }
    let shown = view.flame_axis(store);
    let rect = axis.rect();
    let (from, to) = (axis.x(shown.begin_ns), axis.x(shown.end_ns));
    let middle = f32::midpoint(from, to);
    let half = ((to - from) / 2.0).max(2.0);
    let (from, to) = (
        (middle - half).max(rect.left()),
        (middle + half).min(rect.right()),
    );
    let (top, bottom) = (rect.bottom() - BRACKET_HEIGHT, rect.bottom());
    let parts = [
        Rect::from_min_max(pos2(from, bottom - 2.0), pos2(to, bottom)),
        Rect::from_min_max(pos2(from, top), pos2(from + 2.0, bottom)),
        Rect::from_min_max(pos2(to - 2.0, top), pos2(to, bottom)),
    ];
    for part in parts {
        painter.rect_filled(part, 0.0, theme.line);
    }
}

/// Shows the tooltip of a frame.
fn tooltip(ui: &mut Ui, frame: &FrameEntry, thresholds: Thresholds, theme: &Theme) {
    let duration_ms = frame.duration_ms();
    ui.label(format!("frame {}", units::count(frame.number)));
    ui.colored_label(
        thresholds.color(duration_ms, theme),
        units::duration(duration_ms * 1e6),
    );
    ui.label(format!("{} spans", units::count(frame.span_count)));
    let losses = [
        (frame.dropped_spans, "spans dropped because a ring was full"),
        (
            frame.merged_marks,
            "marks came too fast and were merged into it",
        ),
        (frame.lost_records, "damaged records are missing of it"),
    ];
    for (count, what) in losses {
        if count > 0 {
            ui.colored_label(theme.bad_text, format!("{} {what}", units::count(count)));
        }
    }
}
