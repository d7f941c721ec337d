//! An overview of a whole capture in one strip: the durations of its frames, its losses, and the
//! part that is loaded into the panel.
//!
//! The x axis is the number of the frame within the capture, since time may have gaps of days. A
//! column of pixels shows the shortest and the longest of its frames on a logarithmic scale: with
//! millions of frames, each column has some that are a hundred times longer than the others.

use std::ops::Range;

use egui::{Align2, CursorIcon, Id, Painter, Rect, Role, Sense, Ui, WidgetInfo, pos2, vec2};
use vor_capture::units;

use crate::bars::Thresholds;
use crate::frame_axis::axis_rect;
use crate::pyramid::MinMaxPyramid;
use crate::replay::FrameNumbers;
use crate::sketch::{self, Ink, Quads};
use crate::theme::{Theme, space, text};

/// Height of the lane of marks above the columns, in points.
const MARKS_HEIGHT: f32 = 8.0;

/// Minimum width of the box that is dragged, in points.
const MIN_BOX_WIDTH: f32 = 8.0;

/// A loss in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverviewMark {
    /// Spans were dropped because a ring was full.
    Dropped,
    /// Records of the capture are damaged.
    Damaged,
}

/// The known data of a whole capture.
#[derive(Clone, Copy, Debug)]
pub struct OverviewData<'a> {
    /// Durations of the frames in milliseconds, by place; while the capture is being loaded, of the
    /// first ones.
    pub durations_ms: &'a MinMaxPyramid,
    /// The numbers that the program gave the frames, by place.
    pub numbers: &'a FrameNumbers,
    /// Places of frames with losses, ascending.
    pub marks: &'a [(u64, OverviewMark)],
    /// Number of frames known so far.
    pub loaded: u64,
    /// Total number of frames.
    pub total: u64,
}

/// An action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverviewAction {
    /// Move the begin of the window to this frame.
    MoveWindow(u64),
    /// Go to this frame.
    GoTo(u64),
}

/// Shows a capture, `height` points high, with the `window` of frames in the panel; returns the
/// action of the user.
///
/// Dragging moves the window; a click goes to the frame at the pointer.
pub fn show(
    ui: &mut Ui,
    height: f32,
    data: OverviewData<'_>,
    window: Range<u64>,
    pinned: Option<u64>,
    theme: &Theme,
    thresholds: Thresholds,
) -> Option<OverviewAction> {
    let width = ui.available_width().clamp(0.0, 32_768.0);
    let (_, rect) = ui.allocate_space(vec2(width, height.clamp(16.0, 1024.0)));
    let id = ui.make_persistent_id("overview");
    let strip = Strip::new(axis_rect(rect), data.total, ui.pixels_per_point());
    let window_box = strip.window_box(&window);
    let response = ui.interact(strip.rect, id, Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "overview of the capture"));
    let action = act(ui, id, &response, &strip, &window, window_box);
    let pointed = response.hover_pos().and_then(|pos| strip.ordinal(pos.x));
    let mut marked = [false; 2];
    if ui.is_rect_visible(rect) {
        let painter = ui.painter().with_clip_rect(rect.intersect(ui.clip_rect()));
        painter.rect_filled(strip.rect, 0.0, theme.ground);
        let mut picture = ui
            .data_mut(|memory| memory.remove_temp::<Picture>(id))
            .unwrap_or_default();
        picture.find_marks(&data, &strip);
        picture.draw(&data, &strip, theme, thresholds);
        picture.quads.paint(&painter);
        let column = pointed.map(|pointed| strip.column_of(pointed));
        marked = column
            .and_then(|column| picture.marked.get(column).copied())
            .unwrap_or_default();
        ui.data_mut(|memory| memory.insert_temp(id, picture));
        paint_threshold(&painter, &data, &strip, theme, thresholds);
        paint_window(&painter, &strip, window_box, pinned, theme);
        write(&painter, rect, &data, theme);
    }
    if let Some(pointed) = pointed.filter(|_| !response.dragged()) {
        response.on_hover_ui_at_pointer(|ui| tooltip(ui, &data, &strip, pointed, marked));
    }
    action
}

/// Returns the action of the pointer.
fn act(
    ui: &Ui,
    id: Id,
    response: &egui::Response,
    strip: &Strip,
    window: &Range<u64>,
    window_box: Option<Rect>,
) -> Option<OverviewAction> {
    if let Some(pos) = response.hover_pos()
        && window_box.is_some_and(|window_box| window_box.contains(pos))
    {
        let cursor = if response.dragged() {
            CursorIcon::Grabbing
        } else {
            CursorIcon::Grab
        };
        ui.ctx().set_cursor_icon(cursor);
    }
    let ordinal = strip.ordinal(response.interact_pointer_pos()?.x)?;
    if response.clicked() {
        return Some(OverviewAction::GoTo(ordinal));
    }
    let length = window.end.saturating_sub(window.start);
    if response.drag_started() {
        // A drag moves the box from where it was grabbed. Beside the box, its middle jumps to the
        // pointer.
        let origin = ui.input(|input| input.pointer.press_origin());
        let grabbed =
            origin.filter(|pos| window_box.is_some_and(|window_box| window_box.contains(*pos)));
        let grabbed = grabbed.and_then(|pos| strip.ordinal(pos.x));
        let offset = grabbed.map_or(length / 2, |grabbed| grabbed.saturating_sub(window.start));
        ui.data_mut(|memory| memory.insert_temp(id, DragOffset { offset }));
    }
    if !response.dragged() {
        return None;
    }
    let drag = ui.data(|memory| memory.get_temp::<DragOffset>(id))?;
    let first = ordinal
        .saturating_sub(drag.offset)
        .min(strip.total.saturating_sub(length));
    (first != window.start).then_some(OverviewAction::MoveWindow(first))
}

/// Distance of the grab point from the begin of the window, in frames.
#[derive(Clone, Copy, Debug)]
struct DragOffset {
    offset: u64,
}

/// A mapping between frames and positions.
#[derive(Clone, Debug)]
struct Strip {
    rect: Rect,
    width_px: usize,
    pixels_per_point: f32,
    total: u64,
}

impl Strip {
    fn new(rect: Rect, total: u64, pixels_per_point: f32) -> Self {
        let snap = |points: f32| (points * pixels_per_point).round() / pixels_per_point;
        let min = pos2(snap(rect.left()), snap(rect.top()));
        let rect = Rect::from_min_max(min, pos2(snap(rect.right()), snap(rect.bottom())).max(min));
        let width = (rect.width() * pixels_per_point)
            .round()
            .clamp(0.0, 65_536.0);
        Self {
            rect,
            width_px: width as usize,
            pixels_per_point,
            total,
        }
    }

    fn x(&self, ordinal: u64) -> f32 {
        let share = ordinal.min(self.total) as f64 / self.total.max(1) as f64;
        self.rect.left() + self.rect.width() * share as f32
    }

    fn column_x(&self, column: usize) -> f32 {
        self.rect.left() + column as f32 / self.pixels_per_point
    }

    /// Returns the frame at a position; `None` if there are no frames.
    fn ordinal(&self, x: f32) -> Option<u64> {
        let share = f64::from((x - self.rect.left()) / self.rect.width().max(1.0)).clamp(0.0, 1.0);
        let last = self.total.checked_sub(1)?;
        Some(((share * self.total as f64) as u64).min(last))
    }

    /// Returns the first frame of a column of pixels.
    fn first_of(&self, column: usize) -> u64 {
        let first = u128::from(self.total) * column as u128 / self.width_px.max(1) as u128;
        first as u64
    }

    /// Returns the column of pixels that shows a frame.
    fn column_of(&self, ordinal: u64) -> usize {
        let column = u128::from(ordinal) * self.width_px as u128 / u128::from(self.total.max(1));
        (column as usize).min(self.width_px.saturating_sub(1))
    }

    fn columns_rect(&self) -> Rect {
        let top = (self.rect.top() + MARKS_HEIGHT).min(self.rect.bottom());
        self.rect.with_min_y(top)
    }

    /// Returns the box of the window, which is always wide enough to be dragged.
    fn window_box(&self, window: &Range<u64>) -> Option<Rect> {
        if window.start >= window.end || self.total == 0 {
            return None;
        }
        let (from, to) = (self.x(window.start), self.x(window.end));
        let half = ((to - from) / 2.0).max(MIN_BOX_WIDTH / 2.0);
        let middle = f32::midpoint(from, to);
        let span = (middle - half).max(self.rect.left())..=(middle + half).min(self.rect.right());
        Some(Rect::from_x_y_ranges(span, self.rect.y_range()))
    }
}

/// The state between passes.
#[derive(Clone, Debug, Default)]
struct Picture {
    quads: Quads,
    /// For each column of pixels, whether spans were dropped and whether records are damaged.
    marked: Vec<[bool; 2]>,
    made_of: MarksKey,
}

/// The inputs of the drawn marks.
#[derive(Clone, Copy, Debug, Default)]
struct MarksKey {
    total: u64,
    marks: usize,
    first: Option<(u64, OverviewMark)>,
    last: Option<(u64, OverviewMark)>,
}

impl Picture {
    /// Finds the columns with marks. While a capture is being loaded, only new marks are processed.
    fn find_marks(&mut self, data: &OverviewData<'_>, strip: &Strip) {
        let before = self.made_of;
        let last_seen = before
            .marks
            .checked_sub(1)
            .and_then(|at| data.marks.get(at).copied());
        let goes_on = before.total == data.total
            && self.marked.len() == strip.width_px
            && before.first == data.marks.first().copied().filter(|_| before.marks > 0)
            && before.last == last_seen;
        let seen = if goes_on {
            before.marks
        } else {
            self.marked.clear();
            self.marked.resize(strip.width_px, [false; 2]);
            0
        };
        for &(ordinal, mark) in data.marks.get(seen..).unwrap_or_default() {
            if let Some(column) = self.marked.get_mut(strip.column_of(ordinal)) {
                column[usize::from(mark == OverviewMark::Damaged)] = true;
            }
        }
        self.made_of = MarksKey {
            total: data.total,
            marks: data.marks.len(),
            first: data.marks.first().copied(),
            last: data.marks.last().copied(),
        };
    }

    fn draw(
        &mut self,
        data: &OverviewData<'_>,
        strip: &Strip,
        theme: &Theme,
        thresholds: Thresholds,
    ) {
        let heights = Heights::of(data, strip, thresholds);
        let plot = strip.columns_rect();
        let mesh = self.quads.begin();
        let known = known(data);
        let shown = (0..strip.width_px).map_while(|column| {
            let first = strip.first_of(column);
            let end = strip.first_of(column + 1).max(first + 1);
            let first = usize::try_from(first).ok().filter(|&first| first < known)?;
            Some(first..usize::try_from(end).unwrap_or(known).min(known))
        });
        // Columns of equal appearance are one rectangle.
        let mut open: Option<Block> = None;
        let mut paint = |block: Block| {
            let (left, right) = (strip.column_x(block.first), strip.column_x(block.end));
            let ([short_y, long_y], [short, long]) = (block.ys, block.colors);
            if long_y < short_y {
                sketch::quad(mesh, left, long_y, right, short_y, long.gamma_multiply(0.6));
            }
            sketch::quad(mesh, left, short_y, right, plot.bottom(), short);
        };
        for (column, frames) in shown.enumerate() {
            let Some((shortest, longest)) = data.durations_ms.min_max(frames) else {
                continue;
            };
            let ys = [shortest, longest]
                .map(|ms| heights.y(f64::from(ms), plot, strip.pixels_per_point));
            let colors = [shortest, longest].map(|ms| thresholds.color(f64::from(ms), theme));
            let block = Block {
                first: column,
                end: column + 1,
                ys,
                colors,
            };
            match &mut open {
                Some(last) if last.end == column && last.ys == ys && last.colors == colors => {
                    last.end = column + 1;
                }
                last => {
                    if let Some(last) = last.replace(block) {
                        paint(last);
                    }
                }
            }
        }
        if let Some(last) = open {
            paint(last);
        }
        let mut last_x = [f32::NEG_INFINITY; 2];
        for (column, marked) in self.marked.iter().enumerate() {
            let x = strip.column_x(column);
            for kind in [0, 1] {
                if marked[kind] && x - last_x[kind] > 6.0 {
                    last_x[kind] = x;
                    if kind == 0 {
                        sketch::triangle(
                            mesh,
                            pos2(x, strip.rect.top() + MARKS_HEIGHT - 1.0),
                            3.2,
                            theme.bad,
                        );
                    } else {
                        sketch::cross(
                            mesh,
                            pos2(x, strip.rect.top() + MARKS_HEIGHT / 2.0),
                            2.6,
                            theme.bad,
                        );
                    }
                }
            }
        }
        if known as u64 != data.total && data.total > 0 {
            let from = strip.x(known as u64);
            sketch::quad(
                mesh,
                from,
                strip.rect.top(),
                strip.rect.right(),
                strip.rect.bottom(),
                theme.grid.gamma_multiply(0.5),
            );
        }
    }
}

/// Columns of pixels of equal appearance: heights and colours of their shortest and longest frames.
#[derive(Clone, Copy, Debug)]
struct Block {
    first: usize,
    end: usize,
    ys: [f32; 2],
    colors: [egui::Color32; 2],
}

/// Returns the number of frames with a known duration.
fn known(data: &OverviewData<'_>) -> usize {
    let loaded = usize::try_from(data.loaded.min(data.total)).unwrap_or(usize::MAX);
    data.durations_ms.len().min(loaded)
}

/// A logarithmic scale of durations.
#[derive(Clone, Copy, Debug)]
struct Heights {
    low: f64,
    high: f64,
}

impl Heights {
    /// Covers all known durations and the thresholds.
    fn of(data: &OverviewData<'_>, strip: &Strip, thresholds: Thresholds) -> Self {
        let good = thresholds.good.clamp(1e-6, 1e12);
        let warn = thresholds.warn.clamp(good, 1e12);
        let all = data
            .durations_ms
            .min_max(0..known(data).max(usize::from(strip.total > 0)));
        let (shortest, longest) = all.map_or((good, warn), |(a, b)| (f64::from(a), f64::from(b)));
        // Differences below a hundredth of the good threshold do not matter.
        let low = shortest.clamp(good / 100.0, good / 4.0) * 0.8;
        Self {
            low: low.ln(),
            high: longest.max(1.5 * warn).ln(),
        }
    }

    fn y(&self, ms: f64, plot: Rect, pixels_per_point: f32) -> f32 {
        let share = ((ms.max(1e-9).ln() - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        let height = (plot.height() * share as f32 * pixels_per_point)
            .round()
            .max(1.0);
        plot.bottom() - height / pixels_per_point
    }
}

fn paint_threshold(
    painter: &Painter,
    data: &OverviewData<'_>,
    strip: &Strip,
    theme: &Theme,
    thresholds: Thresholds,
) {
    let heights = Heights::of(data, strip, thresholds);
    let plot = strip.columns_rect();
    let y = heights.y(thresholds.warn, plot, strip.pixels_per_point);
    let line = Rect::from_x_y_ranges(plot.x_range(), y..=y + 1.0 / strip.pixels_per_point);
    painter.rect_filled(line, 0.0, theme.bad.gamma_multiply(0.55));
}

fn paint_window(
    painter: &Painter,
    strip: &Strip,
    window_box: Option<Rect>,
    pinned: Option<u64>,
    theme: &Theme,
) {
    if let Some(window_box) = window_box {
        // If the window covers everything, a tint would only dull the colours.
        if window_box.width() < strip.rect.width() - 1.0 {
            painter.rect_filled(window_box, 0.0, theme.selection);
        }
        let stroke = egui::Stroke::new(1.0, theme.line);
        painter.rect_stroke(window_box, 0.0, stroke, egui::StrokeKind::Inside);
    }
    if let Some(pinned) = pinned.filter(|&pinned| pinned < strip.total) {
        let x = strip.column_x(strip.column_of(pinned));
        let half = 1.0 / strip.pixels_per_point;
        let cursor = Rect::from_x_y_ranges(x - half..=x + half, strip.rect.y_range());
        painter.rect_filled(cursor, 0.0, theme.pin);
    }
}

/// Writes the title beside the strip, and how much of the capture is known.
fn write(painter: &Painter, rect: Rect, data: &OverviewData<'_>, theme: &Theme) {
    let strip = axis_rect(rect);
    let strong = Ink {
        size: text::BODY,
        color: theme.text,
    };
    let weak = Ink {
        size: text::SMALL,
        color: theme.weak_text,
    };
    let left = rect.left_top() + vec2(space::TEXT, space::TIGHT);
    let room = strip.left() - left.x - 4.0;
    sketch::text(
        painter,
        left,
        Align2::LEFT_TOP,
        room,
        "Capture".to_owned(),
        strong,
    );
    let frames = format!("{} frames", units::count(data.total));
    if rect.height() > 30.0 {
        sketch::text(
            painter,
            left + vec2(0.0, 16.0),
            Align2::LEFT_TOP,
            room,
            frames,
            weak,
        );
    }
    let right = pos2(strip.right() + 8.0, rect.top() + 2.0);
    let room = rect.right() - right.x;
    if data.total == 0 {
        let middle = strip.center();
        sketch::text(
            painter,
            middle,
            Align2::CENTER_CENTER,
            strip.width(),
            "no frames".to_owned(),
            weak,
        );
    } else if data.loaded < data.total {
        let percent = data.loaded as f64 / data.total as f64 * 100.0;
        let text = format!("loading, {} %", percent.floor());
        sketch::text(painter, right, Align2::LEFT_TOP, room, text, weak);
    } else if let Some((shortest, longest)) = data.durations_ms.min_max(0..data.durations_ms.len())
    {
        let [shortest, longest] =
            [shortest, longest].map(|ms| units::duration(f64::from(ms) * 1e6));
        let text = format!("{shortest} to {longest}");
        sketch::text(painter, right, Align2::LEFT_TOP, room, text, weak);
    }
}

/// Shows the frames at the pointer and their durations.
fn tooltip(ui: &mut Ui, data: &OverviewData<'_>, strip: &Strip, pointed: u64, marked: [bool; 2]) {
    let [dropped, damaged] = marked;
    let column = strip.column_of(pointed);
    let first = strip.first_of(column);
    let end = strip.first_of(column + 1).max(first + 1);
    let number = |place| units::count(data.numbers.number(place));
    if end - first == 1 {
        ui.label(format!("frame {}", number(first)));
    } else {
        ui.label(format!("frames {} to {}", number(first), number(end - 1)));
    }
    let indices = usize::try_from(first).ok().zip(usize::try_from(end).ok());
    let lengths = indices.and_then(|(first, end)| data.durations_ms.min_max(first..end));
    match lengths {
        Some((shortest, longest)) if shortest == longest => {
            ui.label(units::duration(f64::from(longest) * 1e6));
        }
        Some((shortest, longest)) => {
            let [shortest, longest] =
                [shortest, longest].map(|ms| units::duration(f64::from(ms) * 1e6));
            ui.label(format!("{shortest} to {longest}"));
        }
        None => {
            ui.weak("not loaded yet");
        }
    }
    if dropped {
        ui.label("spans were dropped here");
    }
    if damaged {
        ui.label("records are damaged here");
    }
    ui.weak("Click goes there; drag the box to move what is loaded.");
}
