//! The flame chart: spans over time, a track per thread.
//!
//! Tracks are one below the other, with their names at the left. The visible rows are painted into
//! a picture, one texel per pixel and row; names, marks and outlines are drawn over it. The drawing
//! follows from the store and the [`View`]. The chart's own state is the order of tracks, the
//! collapsed ones, the row height and the scroll position.

mod arrows;
mod layout;
mod picture;
mod polls;
mod search;
mod source;
mod strip;
mod ruler;
mod navigate;
mod card;
mod color_menu;
mod colors;
mod draw;
mod track_menu;

use egui::{PointerButton, Rect, Response, Sense, Ui, Vec2, WidgetInfo, pos2, vec2};

use crate::frame_axis::axis_rect;
use crate::store::{PixelScale, RowPixels, Store, TrackId};
use crate::theme::{SiteColors, Theme};
use crate::view::{SpanRef, TimeRange, View};
use arrows::Arrows;
use card::{HoverTarget, MergedSpans};
use colors::{Shown, SpanColors};
use layout::{Arrangement, PlacedGroup, PlacedTrack};
use picture::{Picture, Source};
use search::Search;
use source::SourceFiles;

pub use card::{TypicalDurations, TypicalDurationsOf};
pub use colors::ColorBy;
pub use layout::TrackOrder;
pub(crate) use layout::thread_name;
pub use navigate::{Direction, neighbour};
pub(crate) use navigate::{frame_of, seek, seek_moment};

/// Height of the ruler above the rows.
const RULER_HEIGHT: f32 = 18.0;

/// Height of the top of a row in which the pointer still is at a mark above it, in points.
const MARK_REACH: f32 = 3.0;

/// Range of row heights, in points.
const ROW_HEIGHTS: std::ops::RangeInclusive<f32> = 4.0..=32.0;

/// The chart's own state.
#[derive(Debug)]
pub struct FlameChart {
    color_by: ColorBy,
    row_height: f32,
    arrangement: Arrangement,
    /// The text that names of tracks must contain, as it was typed.
    track_filter: String,
    /// Scroll position of the tracks, in points.
    scroll: f32,
    /// The row to scroll to in the next pass.
    reveal: Option<SpanRef>,
    search: Search,
    arrows: Arrows,
    sources: SourceFiles,
    colors: SiteColors,
    picture: Picture<PictureKey>,
    /// Positions of the tracks in the last pass.
    placed: Vec<PlacedTrack>,
    /// Positions of the names of groups in the last pass.
    placed_groups: Vec<PlacedGroup>,
    /// Width of the rows in the last pass, in pixels.
    width_px: usize,
    /// The part of a pixel by which the time was to move to later times, and did not.
    unmoved_px: f64,
    /// The moment at which the selection of a range of time began.
    selecting_from_ns: Option<f64>,
    /// Input and content of the card.
    pointed: Option<((f32, f32, u64), Option<HoverTarget>)>,
}

/// All inputs of the picture of the rows, except the spans and their time.
#[derive(Clone, Debug, PartialEq)]
struct PictureKey {
    rows: Vec<(TrackId, usize)>,
    color_by: ColorBy,
    dark: bool,
    search: String,
}

/// Track and row of a row in the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
struct VisibleRow {
    track: usize,
    row: usize,
    /// Distance from the top of all tracks.
    top: f32,
}

/// The areas of the chart, and its time range.
struct Frame {
    names: Rect,
    /// The details of the span in focus, at the right.
    details: Rect,
    ruler: Rect,
    rows: Rect,
    /// The part of the rows with frames of the store. Spans of frames that went may still be in the
    /// picture of a running program, before it.
    stored: Rect,
    time: TimeRange,
    scale: PixelScale,
    pixels_per_point: f32,
}

impl Frame {
    /// Returns the x of a moment.
    fn x(&self, ns: i64) -> f32 {
        self.rows.left() + self.scale.x(ns) as f32 / self.pixels_per_point
    }

    /// Returns the moment at an x.
    fn ns(&self, x: f32) -> f64 {
        self.scale
            .ns(f64::from((x - self.rows.left()) * self.pixels_per_point))
    }
}

impl Default for FlameChart {
    fn default() -> Self {
        Self {
            color_by: ColorBy::Scope,
            row_height: 16.0,
            arrangement: Arrangement::default(),
            track_filter: String::new(),
            scroll: 0.0,
            reveal: None,
            search: Search::default(),
            arrows: Arrows::default(),
            sources: SourceFiles::default(),
            colors: SiteColors::default(),
            picture: Picture::default(),
            placed: Vec::new(),
            placed_groups: Vec::new(),
            width_px: 1024,
            unmoved_px: 0.0,
            selecting_from_ns: None,
            pointed: None,
        }
    }
}

impl FlameChart {
    /// Returns the meaning of the colour of a span.
    #[must_use]
    pub fn color_by(&self) -> ColorBy {
        self.color_by
    }

    /// Sets the meaning of colours.
    pub fn set_color_by(&mut self, color_by: ColorBy) {
        self.color_by = color_by;
    }

    /// Returns the width of the rows in the last pass, in pixels.
    pub(crate) fn width_px(&self) -> usize {
        self.width_px
    }

    /// Returns the height of a row, in points.
    #[must_use]
    pub fn row_height(&self) -> f32 {
        self.row_height
    }

    /// Sets the height of a row, in points, from 4 to 32.
    pub fn set_row_height(&mut self, height: f32) {
        self.row_height = height.clamp(*ROW_HEIGHTS.start(), *ROW_HEIGHTS.end());
    }

    /// Sets the folders in which the source files of call sites are looked for: their lines are
    /// shown beside the span in focus. By default there are none.
    pub fn set_source_folders(&mut self, folders: Vec<std::path::PathBuf>) {
        self.sources.set_folders(folders);
    }

    /// Returns whether only the first row of a track is shown.
    #[must_use]
    pub fn is_collapsed(&self, track: TrackId) -> bool {
        self.arrangement.is_collapsed(track)
    }

    /// Shows only the first row of a track, or all of them.
    pub fn set_collapsed(&mut self, track: TrackId, collapsed: bool) {
        self.arrangement.set_collapsed(track, collapsed);
    }

    /// Shows only the first row of every track, or all rows.
    pub fn set_all_collapsed(&mut self, store: &Store, collapsed: bool) {
        for track in store.shown_tracks() {
            self.arrangement.set_collapsed(track.id, collapsed);
        }
    }

    /// Moves a track down by `by` places, or up for a negative number.
    pub fn shift_track(&mut self, store: &Store, track: TrackId, by: isize) {
        self.arrangement.shift(store, track, by);
    }

    /// Returns the tracks of the last pass, from top to bottom.
    pub fn tracks(&self) -> impl Iterator<Item = TrackId> {
        self.placed.iter().map(|placed| placed.id)
    }

    /// Returns the number of call sites that matched the search in the last pass; `None` without a
    /// search.
    #[must_use]
    pub fn found(&self) -> Option<usize> {
        self.search.matching().map(|_| self.search.match_count())
    }

    /// Moves the focus to the previous, next, surrounding or first inner span. Returns whether
    /// there was one.
    pub fn go(&mut self, store: &Store, view: &mut View, direction: Direction) -> bool {
        let found = view
            .focus
            .and_then(|from| neighbour(store, &from, direction));
        self.go_to(store, view, found)
    }

    /// Moves the focus to the first span inside the one in focus; without a focus, to the first
    /// span that begins within the chart. Returns whether there was one.
    pub fn go_in(&mut self, store: &Store, view: &mut View) -> bool {
        if view.focus.is_some() {
            return self.go(store, view, Direction::Child);
        }
        let begin_ns = view.flame_axis(store).begin_ns as i64;
        let firsts = self.placed.iter().filter_map(|placed| {
            let track = store.shown_tracks().get(placed.track)?;
            let span = track.rows.first()?.span_after(begin_ns)?;
            Some(SpanRef {
                track: track.id,
                row: 0,
                span,
            })
        });
        // Scopes come before tasks, which contain nothing.
        let first = firsts.min_by_key(|first| (first.track.kind(), first.span.begin_ns));
        self.go_to(store, view, first)
    }

    /// Moves the focus to the next match of the search, or without a focus to the first that begins
    /// within the chart; after the last match, to the first. Returns whether there is one.
    pub fn go_to_match(&mut self, store: &Store, view: &mut View) -> bool {
        self.search.update(&view.search, store.catalog());
        let begin_ns = view.flame_axis(store).begin_ns as i64;
        let found = self
            .search
            .matching()
            .and_then(|wanted| navigate::next_match(store, wanted, view.focus.as_ref(), begin_ns));
        self.go_to(store, view, found)
    }

    /// Puts a span into focus, and moves the chart to it.
    fn go_to(&mut self, store: &Store, view: &mut View, span: Option<SpanRef>) -> bool {
        if let Some(span) = span {
            view.focus = Some(span);
            self.reveal_track(store, &span);
            self.show_focus(store, view);
        }
        span.is_some()
    }

    /// Moves the chart so that the span in focus is visible.
    pub fn show_focus(&mut self, store: &Store, view: &mut View) {
        let Some(focus) = view.focus else {
            return;
        };
        self.reveal = Some(focus);
        let now = view.flame_axis(store);
        let (begin_ns, end_ns) = (focus.span.begin_ns as f64, focus.span.end_ns() as f64);
        let length = end_ns - begin_ns;
        if length < now.len_ns() / 400.0 {
            // A span too short to be visible gets a twentieth of the width.
            let around = (length * 10.0).max(10.0);
            let middle = (begin_ns + end_ns) / 2.0;
            view.zoom_to(middle - around, middle + around);
        } else if end_ns < now.begin_ns
            || begin_ns > now.end_ns
            || (length < now.len_ns() && (begin_ns < now.begin_ns || end_ns > now.end_ns))
        {
            let half = now.len_ns().max(length * 1.2) / 2.0;
            let middle = (begin_ns + end_ns) / 2.0;
            view.zoom_to(middle - half, middle + half);
        }
    }

    /// Zooms to the span in focus.
    pub fn zoom_to_focus(&mut self, view: &mut View) {
        if let Some(focus) = view.focus {
            let length = focus.span.duration_ns as f64;
            let margin = length * 0.02;
            view.zoom_to(
                focus.span.begin_ns as f64 - margin,
                focus.span.end_ns() as f64 + margin,
            );
            self.reveal = Some(focus);
        }
    }

    /// Draws the chart over the width of `ui`. `usual` returns the typical durations of a scope's
    /// calls, for the card at the pointer.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        height: f32,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        usual: TypicalDurationsOf<'_>,
    ) -> Response {
        let size = vec2(
            ui.available_width().clamp(80.0, 32_768.0),
            height.clamp(RULER_HEIGHT + 20.0, 8192.0),
        );
        let (_, rect) = ui.allocate_space(size);
        let id = ui.make_persistent_id("flame chart");
        let mut response = ui.interact(axis_rect(rect), id, Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(egui::Role::Canvas, true, "flame chart"));
        let mut all_height = self.place(store);
        self.search.update(&view.search, store.catalog());
        self.colors.update(store.catalog(), theme);

        let mut frame = self.frame(ui, rect, store, view);
        self.width_px = frame.scale.width();
        if self.take_input(ui, &response, &frame, store, view) {
            frame = self.frame(ui, rect, store, view);
        }
        if let Some((track, span)) = view.sought
            && let Some(found) = navigate::locate(store, track, &span)
        {
            view.sought = None;
            view.focus = Some(found);
            if self.reveal_track(store, &found) {
                all_height = self.place(store);
            }
            self.reveal = Some(found);
        }
        if std::mem::take(&mut view.seeks_mark)
            && let Some((thread, ns)) = view.marked()
        {
            let top = navigate::place_of(thread, ns);
            if self.reveal_track(store, &top) {
                all_height = self.place(store);
            }
            self.reveal = Some(top);
        }
        self.reveal_row(frame.rows.height());
        self.scroll = self
            .scroll
            .clamp(0.0, (all_height - frame.rows.height()).max(0.0));
        self.arrows.update(store, view.focus);
        let shown = self.shown_rows(frame.rows.height());
        self.paint_picture(ui, store, view, theme, &frame, &shown);
        self.draw(ui, store, view, theme, &frame, &shown);
        self.draw_names(ui, store, theme, &frame);
        self.draw_marks(ui, store, theme, &frame);
        self.draw_scroll_bar(ui, theme, &frame, all_height);
        let next = self.draw_details(ui, store, view, theme, &frame, usual);
        self.go_to(store, view, next);
        self.point(ui, &mut response, store, view, theme, &frame, usual);
        response
    }

    /// Computes the areas of the chart.
    fn frame(&self, ui: &Ui, rect: Rect, store: &Store, view: &View) -> Frame {
        let pixels_per_point = ui.pixels_per_point();
        let round = |points: f32| (points * pixels_per_point).round() / pixels_per_point;
        let axis = axis_rect(rect);
        let (left, right) = (round(axis.left()), round(axis.right()));
        let top = round(rect.top() + RULER_HEIGHT);
        let rows = Rect::from_min_max(pos2(left, top), pos2(right, rect.bottom()));
        let width = (rows.width() * pixels_per_point).round().max(1.0) as usize;
        let time = view.flame_axis(store);
        let scale = PixelScale::new(time.begin_ns, time.end_ns, width);
        let mut frame = Frame {
            names: Rect::from_min_max(rect.min, pos2(left, rect.bottom())),
            ruler: Rect::from_min_max(pos2(left, rect.top()), pos2(right, top)),
            details: Rect::from_min_max(pos2(right + 8.0, rect.top()), rect.max),
            rows,
            stored: rows,
            time,
            // A picture that moves by whole pixels is not painted anew.
            scale: match view.is_following() {
                true => scale.aligned(),
                false => scale,
            },
            pixels_per_point,
        };
        if let Some(first) = store.frames().front().filter(|_| view.is_following()) {
            frame.stored.min.x = rows.left().max(frame.x(first.begin_ns));
        }
        frame
    }

    /// Zooms, pans and scrolls; returns whether anything changed.
    fn take_input(
        &mut self,
        ui: &Ui,
        response: &Response,
        frame: &Frame,
        store: &Store,
        view: &mut View,
    ) -> bool {
        let mut changed = false;
        let pixels = |points: f32| f64::from(points * frame.pixels_per_point);
        if let Some(pointer) = response.hover_pos().filter(|_| response.contains_pointer()) {
            let (scroll, zoom, shift) = ui.input_mut(|input| {
                let scroll = std::mem::take(&mut input.smooth_scroll_delta);
                (scroll, input.zoom_delta(), input.modifiers.shift)
            });
            let across = if shift { scroll.x + scroll.y } else { scroll.x };
            if scroll.y != 0.0 && !shift || zoom != 1.0 {
                let factor = (-f64::from(scroll.y) * 0.004).exp() / f64::from(zoom);
                view.zoom_by(store, frame.ns(pointer.x.max(frame.rows.left())), factor);
                changed = true;
            }
            if across != 0.0 {
                self.pan(store, view, -pixels(across));
                changed = true;
            }
        }
        if self.select_time(ui, response, frame, store, view) {
            changed = true;
        } else if response.dragged_by(PointerButton::Primary)
            || response.dragged_by(PointerButton::Middle)
        {
            if response.drag_started() {
                // The pointer is exactly on what it grabs.
                self.unmoved_px = 0.0;
            }
            let Vec2 { x, y } = response.drag_delta();
            self.pan(store, view, -pixels(x));
            self.scroll -= y;
            changed = true;
        }
        if response.double_clicked() {
            view.reset_zoom();
            changed = true;
        }
        if response.clicked() {
            response.request_focus();
        }
        if response.has_focus() {
            // Arrow keys move over spans here instead of moving the keyboard focus.
            let arrows = egui::EventFilter {
                horizontal_arrows: true,
                vertical_arrows: true,
                ..Default::default()
            };
            ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, arrows));
        }
        changed
    }

    /// Moves the time by a number of pixels; a positive one moves it to later times. The picture is
    /// moved by whole pixels, so that most of it need not be painted. The rest is added to the next
    /// move.
    pub(crate) fn pan(&mut self, store: &Store, view: &mut View, pixels: f64) {
        let wanted = self.unmoved_px + pixels;
        let whole = wanted.round_ties_even();
        self.unmoved_px = wanted - whole;
        if whole != 0.0 {
            let pixel_ns = view.flame_axis(store).len_ns() / self.width_px as f64;
            view.pan_by(store, whole * pixel_ns);
        }
    }

    /// Selects a range of time with a drag in the scale, or with shift anywhere; a click in the
    /// scale ends the selection. Returns whether the pointer is used for that.
    fn select_time(
        &mut self,
        ui: &Ui,
        response: &Response,
        frame: &Frame,
        store: &Store,
        view: &mut View,
    ) -> bool {
        let pos = response.interact_pointer_pos();
        if response.clicked() && pos.is_some_and(|pos| frame.ruler.contains(pos)) {
            let is_selected = view.time_selection().is_some();
            if is_selected {
                view.select_time(store, 0, 0);
            }
            return is_selected;
        }
        let (origin, shift) =
            ui.input(|input| (input.pointer.press_origin(), input.modifiers.shift));
        if response.drag_started_by(PointerButton::Primary) {
            let origin = origin.filter(|origin| shift || frame.ruler.contains(*origin));
            self.selecting_from_ns = origin.map(|origin| frame.ns(origin.x));
        }
        if !response.dragged_by(PointerButton::Primary) {
            self.selecting_from_ns = None;
        }
        let Some(from_ns) = self.selecting_from_ns else {
            return false;
        };
        if let Some(pos) = pos {
            let to_ns = frame.ns(pos.x.clamp(frame.rows.left(), frame.rows.right()));
            view.select_time(store, from_ns.round() as i64, to_ns.round() as i64);
        }
        true
    }

    /// Places the tracks; returns their height.
    fn place(&mut self, store: &Store) -> f32 {
        let placement = self.arrangement.place(store, self.row_height);
        self.placed = placement.tracks;
        self.placed_groups = placement.groups;
        placement.height
    }

    /// Scrolls to the row of the pending reveal.
    fn reveal_row(&mut self, height: f32) {
        let Some(span) = self.reveal.take() else {
            return;
        };
        let Some(placed) = self.placed.iter().find(|placed| placed.id == span.track) else {
            return;
        };
        if placed.collapsed && span.row > 0 {
            let id = placed.id;
            self.arrangement.set_collapsed(id, false);
            // The expanded row has its position only in the next pass.
            self.reveal = Some(span);
            return;
        }
        let top = placed.top + span.row as f32 * self.row_height;
        let bottom = top + self.row_height;
        self.scroll = self.scroll.min(top).max(bottom - height);
    }

    /// Returns the visible rows.
    fn shown_rows(&self, height: f32) -> Vec<VisibleRow> {
        let (from, to) = (self.scroll, self.scroll + height);
        let row_height = self.row_height;
        let in_view = |placed: &&PlacedTrack| {
            placed.top < to && placed.top + placed.rows as f32 * row_height > from
        };
        let rows = self.placed.iter().filter(in_view).flat_map(|placed| {
            let first = ((from - placed.top) / row_height).floor().max(0.0) as usize;
            let end = (((to - placed.top) / row_height).ceil().max(0.0) as usize).min(placed.rows);
            (first..end.max(first)).map(|row| VisibleRow {
                track: placed.track,
                row,
                top: placed.top + row as f32 * row_height,
            })
        });
        rows.collect()
    }

    /// Paints the visible rows, if their content changed.
    fn paint_picture(
        &mut self,
        ui: &Ui,
        store: &Store,
        view: &View,
        theme: &Theme,
        frame: &Frame,
        shown: &[VisibleRow],
    ) {
        let rows = shown
            .iter()
            .map(|row| (store.shown_tracks()[row.track].id, row.row));
        let key = PictureKey {
            rows: rows.collect(),
            color_by: self.color_by,
            dark: theme.dark,
            search: view.search.clone(),
        };
        let source = Source {
            key,
            version: store.version(),
            scale: frame.scale,
            follows: view.is_following(),
        };
        let colors = SpanColors::new(theme, self.color_by, &self.colors, self.search.matching());
        self.picture.update(
            ui.ctx(),
            source,
            shown.len(),
            |version| store.unchanged_since(version),
            |i, scale, pixels, wide| {
                let track = &store.shown_tracks()[shown[i].track];
                let Some(row) = track.rows.get(shown[i].row) else {
                    return;
                };
                let own = theme.track(store.catalog(), track.id);
                let shown = |site, duration_ns, off_cpu| Shown {
                    site,
                    duration_ns,
                    off_cpu,
                };
                let full = |site, ns, off_cpu| colors.full(&shown(site, ns, off_cpu), own);
                let Some(wanted) = colors.wanted() else {
                    let colors = pixels;
                    row.paint(scale, None, full, RowPixels { colors, wide });
                    return;
                };
                let dim = |site, ns, off_cpu| colors.dimmed(&shown(site, ns, off_cpu), own);
                let all = RowPixels {
                    colors: &mut *pixels,
                    wide,
                };
                row.paint(scale, None, dim, all);
                // Matching wide spans are already in the list of wide spans.
                let found = RowPixels {
                    colors: pixels,
                    wide: &mut Vec::new(),
                };
                row.paint(scale, Some(wanted), full, found);
            },
        );
    }

    /// Returns the target at a position.
    fn at(
        &self,
        store: &Store,
        frame: &Frame,
        shown: &[VisibleRow],
        place: egui::Pos2,
    ) -> Option<HoverTarget> {
        if place.x < frame.stored.left() {
            return None;
        }
        let y = place.y - frame.rows.top() + self.scroll;
        let pixel_ns = frame.time.len_ns() / frame.scale.width() as f64;
        let ns = frame.ns(place.x);
        let marks = |shown: &&VisibleRow| {
            let below = y - shown.top;
            shown.row == 0 && (-layout::GAP..MARK_REACH).contains(&below)
        };
        if let Some(shown) = shown.iter().find(marks) {
            let track = &store.shown_tracks()[shown.track];
            let reach_ns = pixel_ns * f64::from(4.0 * frame.pixels_per_point);
            let texts = draw::texts_near(track, store.catalog(), ns, reach_ns);
            if !texts.is_empty() {
                return Some(HoverTarget::Texts(texts));
            }
        }
        let shown = shown
            .iter()
            .find(|shown| (shown.top..shown.top + self.row_height).contains(&y))?;
        let track = &store.shown_tracks()[shown.track];
        let place = (shown.row, y - shown.top);
        let polls = self.polls_at(track, place, store.catalog(), (ns, pixel_ns));
        if !polls.is_empty() {
            return Some(HoverTarget::Texts(polls));
        }
        let row = track.rows.get(shown.row)?;
        let here = |span| SpanRef {
            track: track.id,
            row: shown.row,
            span,
        };
        if let Some(span) = row.span_at(ns.floor() as i64)
            && span.duration_ns as f64 >= pixel_ns
        {
            return Some(HoverTarget::Span(here(span)));
        }
        let reach = pixel_ns * 1.5;
        let spans = row.spans((ns - reach).floor() as i64, (ns + reach).ceil() as i64);
        let merged = MergedSpans::new(spans, here)?;
        Some(match merged.count {
            1 => HoverTarget::Span(merged.longest),
            _ => HoverTarget::MergedSpans(merged),
        })
    }

    /// Shows the card of the target under the pointer, and handles clicks on it.
    #[expect(
        clippy::too_many_arguments,
        reason = "the last step of `show` needs all of its inputs"
    )]
    fn point(
        &mut self,
        ui: &mut Ui,
        response: &mut Response,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        frame: &Frame,
        usual: TypicalDurationsOf<'_>,
    ) {
        let Some(place) = response
            .hover_pos()
            .filter(|place| frame.rows.contains(*place))
        else {
            self.pointed = None;
            return;
        };
        view.point_at(frame.ns(place.x));
        if response.dragged() {
            return;
        }
        let key = (place.x, place.y, store.version());
        if self
            .pointed
            .as_ref()
            .is_none_or(|(made_for, _)| *made_for != key)
        {
            let shown = self.shown_rows(frame.rows.height());
            self.pointed = Some((key, self.at(store, frame, &shown, place)));
        }
        let pointed = self
            .pointed
            .as_ref()
            .and_then(|(_, pointed)| pointed.as_ref());
        if response.clicked() {
            view.focus = match pointed {
                Some(HoverTarget::Span(span)) => Some(*span),
                Some(HoverTarget::MergedSpans(merged)) => Some(merged.longest),
                _ => None,
            };
        }
        if let Some(HoverTarget::Span(span)) = pointed {
            self.outline(ui, theme, frame, span, 1.0);
        }
        if let Some(pointed) = pointed
            && !response.context_menu_opened()
        {
            let id = response.id.with("card");
            egui::Tooltip::always_open(
                ui.ctx().clone(),
                ui.layer_id(),
                id,
                egui::PopupAnchor::Pointer,
            )
            .gap(14.0)
            .show(|ui| card::show(ui, pointed, store, theme, usual));
        }
    }
}
