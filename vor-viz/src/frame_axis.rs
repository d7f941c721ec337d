//! The time axis of frames on the screen, and the pointer's actions on it.
//!
//! Frame bars and plots are stacked vertically. Each has a column for its name at the left and one
//! for its values at the right. A moment therefore has the same x in all of them. Clicks, drags and
//! cursors work the same way in all of them.

use egui::{Color32, Id, Painter, PointerButton, Rangef, Rect, Response, Ui, pos2};

use crate::store::{FrameId, PixelScale, Store};
use crate::theme::Theme;
use crate::view::{TimeRange, View};

/// Width of the column of names, in points.
pub const LABELS_WIDTH: f32 = 156.0;

/// Width of the column of values, in points.
pub const VALUES_WIDTH: f32 = 224.0;

/// Width up to which a panel has no column of values, and the width of its names, in points.
pub(crate) const NARROW_WIDTH: f32 = 480.0;
const NARROW_LABELS_WIDTH: f32 = 84.0;

/// Distance at which a press becomes a drag, in points.
const DRAG_POINTS: f32 = 3.0;

/// Returns the part of a rectangle in which time runs from left to right: the part between the
/// columns of names and values.
#[must_use]
pub fn axis_rect(ui_rect: Rect) -> Rect {
    if ui_rect.width() < NARROW_WIDTH {
        // A phone has no room for values beside the plots.
        let left = (ui_rect.left() + NARROW_LABELS_WIDTH.min(ui_rect.width() * 0.4)).round();
        return ui_rect.with_min_x(left);
    }
    // In a narrow panel, the plots keep 45 % of the width.
    let share = (ui_rect.width().max(0.0) * 0.55 / (LABELS_WIDTH + VALUES_WIDTH)).min(1.0);
    Rect::from_min_max(
        pos2(
            (ui_rect.left() + LABELS_WIDTH * share).round(),
            ui_rect.top(),
        ),
        pos2(
            (ui_rect.right() - VALUES_WIDTH * share).round(),
            ui_rect.bottom(),
        ),
    )
}

/// A mapping between times and positions on the screen.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameAxis {
    rect: Rect,
    time: TimeRange,
    pixels_per_point: f32,
    scale: PixelScale,
}

impl FrameAxis {
    /// Maps a time range to a rectangle, which is aligned to whole pixels.
    #[must_use]
    pub fn new(rect: Rect, time: TimeRange, pixels_per_point: f32) -> Self {
        let snap = |points: f32| (points * pixels_per_point).round() / pixels_per_point;
        let min = pos2(snap(rect.left()), snap(rect.top()));
        let max = pos2(snap(rect.right()), snap(rect.bottom()));
        let rect = Rect::from_min_max(min, max.max(min));
        // A width beyond any screen is a mistake and must not cost memory.
        let width = (rect.width() * pixels_per_point)
            .round()
            .clamp(0.0, 65_536.0);
        Self {
            rect,
            time,
            pixels_per_point,
            scale: PixelScale::new(time.begin_ns, time.end_ns, width as usize),
        }
    }

    /// Returns its rectangle, on whole pixels.
    #[must_use]
    pub fn rect(&self) -> Rect {
        self.rect
    }

    /// Returns its width in physical pixels.
    #[must_use]
    pub fn width_px(&self) -> usize {
        self.scale.width()
    }

    /// Returns the size of a physical pixel, in points.
    #[must_use]
    pub fn pixel(&self) -> f32 {
        1.0 / self.pixels_per_point
    }

    /// Returns the x of a moment, in points, clamped to the edges.
    #[must_use]
    pub fn x(&self, ns: f64) -> f32 {
        let share = (ns - self.time.begin_ns) / self.time.len_ns().max(1e-3);
        let share = if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        };
        self.rect.left() + self.rect.width() * share as f32
    }

    /// Returns the moment at an x, in nanoseconds.
    #[must_use]
    pub fn ns(&self, x: f32) -> f64 {
        let pixels = f64::from((x - self.rect.left()) * self.pixels_per_point);
        self.scale.ns(pixels.clamp(0.0, self.width_px() as f64))
    }

    /// Returns the left edge of a column of pixels, in points.
    #[inline]
    #[must_use]
    pub fn column_x(&self, column: usize) -> f32 {
        self.rect.left() + column as f32 / self.pixels_per_point
    }

    /// Returns the moment at the left edge of a column of pixels, in nanoseconds.
    #[must_use]
    pub fn column_ns(&self, column: usize) -> f64 {
        self.scale.ns(column as f64)
    }

    /// Returns the column of pixels at an x, or the nearest one.
    #[must_use]
    pub fn column_at(&self, x: f32) -> usize {
        // Casts of floats saturate.
        let column = ((x - self.rect.left()) * self.pixels_per_point) as usize;
        column.min(self.width_px().saturating_sub(1))
    }

    /// Returns the columns of pixels that show a time range, the last one exclusive. There is at
    /// least one; the result is `None` for a range outside the axis. Consecutive frames of at least
    /// a pixel share no column.
    #[inline]
    #[must_use]
    pub fn columns(&self, begin_ns: i64, end_ns: i64) -> Option<(usize, usize)> {
        let width = self.width_px();
        let (first, end) = (self.scale.x(begin_ns), self.scale.x(end_ns));
        if first >= width as f64 || (first < 0.0 && end <= 0.0) || width == 0 {
            return None;
        }
        // Casts of floats saturate: a range that begins left of the axis gets its first column.
        let first = (first as usize).min(width - 1);
        Some((first, (end as usize).clamp(first + 1, width)))
    }
}

/// The effect of a pressed button until it is released.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gesture {
    /// The pin follows the pointer.
    Scrub,
    /// The frames from the first to the second one are selected when the button is released, if the
    /// pointer has moved.
    Select {
        from: FrameId,
        to: FrameId,
        moved: bool,
    },
}

/// The part of a panel that uses the pointer, and its gesture. It lives in the panel's view: all
/// parts of that panel show the frames that are being selected, and no other panel does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PointerUse {
    gesture: Option<(Id, Gesture)>,
    pointed: Option<Id>,
}

/// Handles the pointer in a part that shows frames over time, and returns the index of the frame
/// under it. `response` must sense clicks and drags.
///
/// A click pins the frame, and dragging moves the pin. Dragging with shift selects frames. A double
/// click shows all frames again, and a secondary click unpins.
pub fn interact(
    ui: &Ui,
    response: &Response,
    axis: &FrameAxis,
    store: &Store,
    view: &mut View,
) -> Option<usize> {
    let before = view.busy;
    let mut busy = before;
    let (pos, primary, shift) = ui.input(|input| {
        let primary = input.pointer.button_down(PointerButton::Primary);
        (input.pointer.interact_pos(), primary, input.modifiers.shift)
    });
    let own = busy.gesture.filter(|(id, _)| *id == response.id);
    let is_inside =
        response.contains_pointer() || response.is_pointer_button_down_on() || own.is_some();
    let at = pos
        .filter(|_| is_inside)
        .map(|pos| axis.ns(pos.x))
        .and_then(|ns| Some((ns, frame_at(store, view, ns)?)));
    let viewed = (view.pinned(), view.selection());
    match at {
        Some((ns, _)) => {
            view.point_at(ns);
            busy.pointed = Some(response.id);
            if view.pointed_ns() != Some(ns) {
                // Parts above this one show the crosshair in the next pass.
                ui.ctx().request_repaint();
            }
        }
        None if busy.pointed == Some(response.id) => {
            busy.pointed = None;
            ui.ctx().request_repaint();
        }
        None => {}
    }
    if let Some((_, index)) = at {
        let id = store.id_at(index);
        let is_pressed = response.is_pointer_button_down_on() && primary;
        let gesture = own.map(|(_, gesture)| gesture);
        let next = match gesture {
            None if is_pressed && shift => Some(Gesture::Select {
                from: id,
                to: id,
                moved: false,
            }),
            None if is_pressed => {
                view.pin(id);
                Some(Gesture::Scrub)
            }
            // The button was pressed and released within one pass.
            None => {
                if response.clicked() && !shift {
                    view.pin(id);
                }
                None
            }
            Some(Gesture::Scrub) => {
                if view.pinned() != Some(id) {
                    view.pin(id);
                }
                primary.then_some(Gesture::Scrub)
            }
            Some(Gesture::Select { from, moved, .. }) => {
                let distance = ui.input(|input| {
                    let origin = input.pointer.press_origin();
                    origin
                        .zip(pos)
                        .map(|(origin, pos)| (origin.x - pos.x).abs())
                });
                let moved = moved || distance.is_some_and(|points| points > DRAG_POINTS);
                if !primary && moved {
                    let from = store.index_of(from).unwrap_or(0);
                    view.select(store, from, index);
                }
                let to = id;
                primary.then_some(Gesture::Select { from, to, moved })
            }
        };
        if next.is_some() || own.is_some() {
            busy.gesture = next.map(|gesture| (response.id, gesture));
        }
    } else if own.is_some() && !primary {
        busy.gesture = None;
    }
    if response.double_clicked() {
        view.clear_selection();
    }
    if response.secondary_clicked() {
        view.unpin();
    }
    view.busy = busy;
    if busy.gesture != before.gesture || viewed != (view.pinned(), view.selection()) {
        ui.ctx().request_repaint();
    }
    at.map(|(_, index)| index)
}

/// Handles the pointer in a part that shows the time of the flame chart, and returns its x.
/// `response` must sense clicks and drags.
///
/// Dragging with shift selects time. A double click ends the selection.
pub(crate) fn interact_with_time(
    ui: &Ui,
    response: &Response,
    axis: &FrameAxis,
    store: &Store,
    view: &mut View,
) -> Option<f32> {
    let (pos, origin, shift) = ui.input(|input| {
        let pointer = &input.pointer;
        (
            pointer.interact_pos(),
            pointer.press_origin(),
            input.modifiers.shift,
        )
    });
    let pos = pos.filter(|_| response.contains_pointer() || response.dragged());
    if let Some(pos) = pos {
        let ns = axis.ns(pos.x);
        view.point_at(ns);
        if view.pointed_ns() != Some(ns) {
            // Parts above this one show the crosshair in the next pass.
            ui.ctx().request_repaint();
        }
    }
    if let Some((from, to)) = origin.zip(response.interact_pointer_pos())
        && response.dragged()
        && shift
    {
        view.select_time(store, axis.ns(from.x) as i64, axis.ns(to.x) as i64);
    }
    if response.double_clicked() {
        view.clear_selection();
    }
    pos.map(|pos| pos.x)
}

/// Returns the index of the shown frame at a moment, or of the nearest one.
fn frame_at(store: &Store, view: &View, ns: f64) -> Option<usize> {
    let (first, last) = view.shown_frames(store)?;
    Some(store.frame_at(ns as i64)?.clamp(first, last))
}

/// Returns the index of the frame in the readout, and a word for its kind. It is the pointed frame,
/// else the pinned one, else the newest.
#[must_use]
pub fn readout_frame(store: &Store, view: &View) -> Option<(usize, &'static str)> {
    let last = store.frames().len().checked_sub(1)?;
    let pointed = view.pointed_ns().and_then(|ns| frame_at(store, view, ns));
    let pinned = || view.pinned().and_then(|id| store.index_of(id));
    Some(match (pointed, pinned()) {
        (Some(pointed), _) => (pointed, "pointed at"),
        (None, Some(pinned)) => (pinned, "pinned"),
        (None, None) => (last, "newest"),
    })
}

/// Draws the cursors through all parts: the selection, the pinned frame, and the pointer.
pub fn paint_cursors(
    painter: &Painter,
    axis: &FrameAxis,
    store: &Store,
    view: &View,
    theme: &Theme,
) {
    let rect = axis.rect();
    let band = |from: f32, to: f32, color: Color32| {
        let band = Rect::from_x_y_ranges(Rangef::new(from, to), rect.y_range());
        painter.rect_filled(band, 0.0, color);
    };
    let reach = |from: usize, to: usize| {
        let time = store.time_of(from.min(to)..from.max(to) + 1)?;
        Some((axis.x(time.start as f64), axis.x(time.end as f64)))
    };
    if let Some((
        _,
        Gesture::Select {
            from,
            to,
            moved: true,
        },
    )) = view.busy.gesture
    {
        let ends = store.index_of(from).zip(store.index_of(to));
        if let Some((from, to)) = ends.and_then(|(from, to)| reach(from, to)) {
            band(from, to, theme.selection);
        }
    }
    if let Some((begin_ns, end_ns)) = view.time_selection() {
        band(
            axis.x(begin_ns as f64),
            axis.x(end_ns as f64),
            theme.selection,
        );
    }
    let selected = view.selection_indices(store);
    if let Some((from, to)) = selected.and_then(|(from, to)| reach(from, to)) {
        // The axis shows only the selected frames; a tint over everything would only dull the
        // colours.
        if to - from < rect.width() - 1.0 {
            band(from, to, theme.selection);
        } else {
            let top = Rect::from_min_max(rect.min, pos2(rect.right(), rect.top() + 2.0));
            painter.rect_filled(top, 0.0, theme.line);
        }
    }
    let pixel = axis.pixel();
    if let Some(pinned) = view.pinned().and_then(|id| store.frame(id)) {
        let (from, to) = (axis.x(pinned.begin_ns as f64), axis.x(pinned.end_ns as f64));
        let lies_outside = to <= rect.left() && from <= rect.left() || from >= rect.right();
        if to - from > 6.0 {
            band(from, to, theme.pin.gamma_multiply(0.12));
            band(from, from + pixel, theme.pin);
            band(to - pixel, to, theme.pin);
        } else if !lies_outside {
            let middle = f32::midpoint(from, to);
            band(middle - pixel, middle + pixel, theme.pin);
        }
    }
    if let Some(x) = view.pointed_ns().map(|ns| axis.x(ns)) {
        band(x, x + pixel, theme.crosshair);
    }
}
