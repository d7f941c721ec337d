//! Drawing over and beside the picture of the rows.

use std::sync::Arc;

use egui::{
    Align2, Color32, FontId, Galley, Mesh, Painter, Rect, Shape, Stroke, StrokeKind, Ui, UiBuilder,
    Vec2, pos2, vec2,
};
use rustc_hash::FxHashMap;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::units;

use super::card::{self, HoverTarget, TypicalDurationsOf};
use super::colors::SpanColors;
use super::layout::{MIN_HEIGHT, spans_of, track_name};
use super::{FlameChart, Frame, RULER_HEIGHT, VisibleRow, layout, ruler};
use crate::groups;
use crate::palette;
use crate::sketch::{self, Ink, fold_mark};
use crate::store::{FrameEntry, Store, Track, TrackId, TrackKind};
use crate::theme::{Theme, space, text};
use crate::view::{SpanRef, View};

/// Height of the marks of messages and steps. They fill the gap above a track, so they cover no
/// name.
const MARK_HEIGHT: f32 = layout::GAP;

/// Minimum heights of a bar with a small name, and with a larger one.
const MIN_LABELLED_HEIGHT: f32 = 12.0;
const MIN_BODY_HEIGHT: f32 = 18.0;

/// Minimum distances of frame borders in points, to be drawn at all and at full strength: closer
/// borders would be meaningless stripes.
const BORDERS_FROM: f32 = 4.0;
const BORDERS_FULL: f32 = 12.0;

/// Maximum number of a track's marks that are processed in one pass; others are left out.
pub(super) const MAX_MARKS: usize = 20_000;

impl FlameChart {
    pub(super) fn draw(
        &self,
        ui: &Ui,
        store: &Store,
        view: &View,
        theme: &Theme,
        frame: &Frame,
        shown: &[VisibleRow],
    ) {
        let painter = ui.painter_at(frame.names.union(frame.rows).union(frame.ruler));
        painter.rect_filled(frame.rows, 0.0, theme.ground);
        self.draw_ruler(ui, store, view, theme, frame);
        let rows = ui.painter_at(frame.rows);
        let stored = ui.painter_at(frame.stored);
        for mesh in self.rows_meshes(store, frame, shown) {
            stored.add(Shape::mesh(mesh));
        }
        self.draw_polls(&stored, store, theme, frame, shown);
        self.draw_labels(&stored, store, theme, frame, shown);
        draw_bookmarks(ui, store, view, theme, frame);
        draw_time_selection(ui, view, theme, frame);
        if let Some((_, ns)) = view
            .marked()
            .filter(|(_, ns)| frame.time.contains(*ns as f64))
        {
            let y_range = frame.rows.y_range();
            rows.vline(frame.x(ns), y_range, Stroke::new(1.5, theme.pin));
        }
        if let Some(focus) = &view.focus {
            self.outline(ui, theme, frame, focus, 2.0);
            self.draw_arrows(&rows, theme, frame);
        }
        if let Some(ns) = view.pointed_ns().filter(|ns| frame.time.contains(*ns)) {
            let x = frame.x(ns as i64);
            rows.vline(x, frame.rows.y_range(), Stroke::new(1.0, theme.crosshair));
        }
        if shown.is_empty() {
            let text = match view.whole() {
                Some(whole) if whole.progress < 1.0 => "reading the capture …",
                Some(_) => "the capture has no spans",
                None => "no spans yet: call vor::enable(), and open scopes with profile_scope!",
            };
            rows.text(
                frame.rows.center(),
                Align2::CENTER_CENTER,
                text,
                FontId::proportional(text::BODY),
                theme.weak_text,
            );
        }
    }

    /// Returns textured rectangles for all rows.
    fn rows_meshes(&self, store: &Store, frame: &Frame, shown: &[VisibleRow]) -> Vec<Mesh> {
        let y_range = |row: usize| {
            let edges = |shown: &VisibleRow| {
                let [top, bar_bottom, _] =
                    self.edges(frame, shown, &store.shown_tracks()[shown.track]);
                [top, bar_bottom]
            };
            shown.get(row).map_or([frame.rows.top(); 2], edges)
        };
        self.picture
            .meshes(frame.rows.left(), frame.pixels_per_point, y_range)
    }

    /// Returns the top of a row, the bottom of its bars, and the bottom of the line of polls below
    /// them, in whole pixels.
    pub(super) fn edges(&self, frame: &Frame, shown: &VisibleRow, track: &Track) -> [f32; 3] {
        let snap = |y: f32| (y * frame.pixels_per_point).round() / frame.pixels_per_point;
        // A pixel of background separates rows that are high enough.
        let gap = if self.row_height >= 6.0 {
            1.0 / frame.pixels_per_point
        } else {
            0.0
        };
        let top = frame.rows.top() + shown.top - self.scroll;
        let bottom = top + self.row_height;
        let bar_bottom = bottom - self.poll_line_height(track);
        [snap(top), snap(bar_bottom) - gap, snap(bottom) - gap]
    }

    /// Writes names on spans that are wide enough.
    fn draw_labels(
        &self,
        painter: &Painter,
        store: &Store,
        theme: &Theme,
        frame: &Frame,
        shown: &[VisibleRow],
    ) {
        let [mut body, mut small] =
            [text::BODY, text::SMALL].map(|size| NameLayouts::new(FontId::proportional(size)));
        let colors = SpanColors::new(theme, self.color_by, &self.colors, self.search.matching());
        let catalog = store.catalog();
        for (i, shown) in shown
            .iter()
            .enumerate()
            .take(self.picture.labelled().rows())
        {
            let track = &store.shown_tracks()[shown.track];
            let line = self.poll_line_height(track);
            let height = self.row_height - line;
            // A name may reach to the edge of its row, but not to a line of polls.
            let names = match height - f32::from(line > 0.0) {
                room if room >= MIN_BODY_HEIGHT => &mut body,
                room if room >= MIN_LABELLED_HEIGHT => &mut small,
                _ => continue,
            };
            let track = theme.track(catalog, track.id);
            let middle = frame.rows.top() + shown.top - self.scroll + (height - 1.0) / 2.0;
            for wide in self.picture.labelled().of_row(i) {
                let left = frame.rows.left() + wide.first as f32 / frame.pixels_per_point;
                let width = (wide.end - wide.first) as f32 / frame.pixels_per_point;
                let width = width - 2.0 * space::TEXT;
                if let Some(galley) = names.fitting(painter, catalog, wide.span.site, width) {
                    let place = pos2(left + space::TEXT, middle - galley.size().y / 2.0);
                    let ground = colors.drawn(wide, track);
                    painter.galley(place, galley, palette::text_on(ground));
                }
            }
        }
    }

    /// Draws the scale, the borders of frames and the number of dropped spans.
    fn draw_ruler(&self, ui: &Ui, store: &Store, view: &View, theme: &Theme, frame: &Frame) {
        let painter = ui.painter_at(frame.ruler.union(frame.rows));
        let zero_ns = view.zero_ns(store);
        let (marks, step) = ruler::marks(&frame.time, zero_ns, frame.rows.width());
        let font = FontId::proportional(text::SMALL);
        for ns in marks {
            let x = frame.x(ns.round() as i64);
            painter.vline(
                x,
                frame.ruler.bottom() - 4.0..=frame.rows.bottom(),
                Stroke::new(1.0, theme.grid),
            );
            let text = ruler::label(ns - zero_ns, step);
            let place = pos2(x + space::TEXT, frame.ruler.center().y);
            painter.text(
                place,
                Align2::LEFT_CENTER,
                text,
                font.clone(),
                theme.weak_text,
            );
        }
        let (first, last) = (
            store.frame_at(frame.time.begin_ns as i64),
            store.frame_at(frame.time.end_ns as i64),
        );
        let shown = first.unwrap_or(0)..last.map_or(0, |last| last + 1);
        let mut dropped = 0_u64;
        let mut width = shown
            .clone()
            .next()
            .map_or(0.0, |i| width_of(store, frame, i));
        for i in shown {
            let entry = &store.frames()[i];
            dropped = dropped.saturating_add(entry.dropped_spans);
            // The wider of two adjacent frames counts, so that a long frame among short ones has
            // both of its borders.
            let next = width_of(store, frame, i + 1);
            let strength = border_strength(width.max(next));
            width = next;
            if strength > 0.0 {
                let color = theme.pin.gamma_multiply(0.35 * strength);
                painter.vline(
                    frame.x(entry.end_ns),
                    frame.rows.y_range(),
                    Stroke::new(1.0, color),
                );
            }
        }
        if dropped > 0 {
            badge(
                &painter,
                theme,
                frame.ruler,
                &format!("{} spans dropped", units::count(dropped)),
            );
        }
    }

    /// Outlines a span, if its row is visible.
    pub(super) fn outline(
        &self,
        ui: &Ui,
        theme: &Theme,
        frame: &Frame,
        span: &SpanRef,
        width: f32,
    ) {
        let placed = self.placed.iter().find(|placed| placed.id == span.track);
        let Some(placed) = placed.filter(|placed| span.row < placed.rows) else {
            return;
        };
        let top = frame.rows.top() + placed.top - self.scroll + span.row as f32 * self.row_height;
        let left = frame.x(span.span.begin_ns).max(frame.rows.left() - 3.0);
        let right = frame.x(span.span.end_ns()).min(frame.rows.right() + 3.0);
        let rect = Rect::from_min_max(
            pos2(left, top),
            pos2(right.max(left + 2.0), top + self.row_height - 1.0),
        );
        if rect.intersects(frame.rows) {
            let painter = ui.painter_at(frame.rows);
            painter.rect_stroke(
                rect,
                0.0,
                Stroke::new(width, theme.pin),
                StrokeKind::Outside,
            );
        }
    }

    /// Draws the column of names, whose buttons collapse and move tracks.
    pub(super) fn draw_names(&mut self, ui: &mut Ui, store: &Store, theme: &Theme, frame: &Frame) {
        let column = frame.names.with_min_y(frame.rows.top());
        let mut action = None;
        for placed in &self.placed {
            let top = column.top() + placed.top - self.scroll;
            let height = (placed.rows as f32 * self.row_height).max(MIN_HEIGHT);
            let rect =
                Rect::from_min_size(pos2(column.left(), top), vec2(column.width() - 4.0, height));
            if !rect.intersects(column) {
                continue;
            }
            let track = &store.shown_tracks()[placed.track];
            action = action.or(name_of_track(
                ui,
                track,
                (placed.collapsed, self.is_pinned(placed.id)),
                store,
                theme,
                rect.intersect(column),
            ));
            let painter = ui.painter_at(column.with_max_x(frame.rows.right()));
            if top > column.top() {
                painter.hline(
                    column.left()..=frame.rows.right(),
                    top - space::TIGHT,
                    Stroke::new(1.0, theme.grid),
                );
            }
        }
        for placed in &self.placed_groups {
            let top = column.top() + placed.top - self.scroll;
            let rect =
                Rect::from_min_size(pos2(column.left(), top), vec2(column.width(), MIN_HEIGHT));
            if rect.intersects(column) {
                let (rect, group) = (rect.intersect(column), &placed.group);
                if groups::show_name(ui, rect, group, theme) {
                    let name = group.name.clone();
                    action = Some(TrackAction::CollapseGroup(name, !group.is_collapsed));
                }
            }
        }
        match action {
            Some(TrackAction::CollapseGroup(group, collapsed)) => {
                self.set_group_collapsed(&group, collapsed);
            }
            Some(TrackAction::Collapse(id, collapsed)) => self.set_collapsed(id, collapsed),
            Some(TrackAction::CollapseAll(collapsed)) => self.set_all_collapsed(store, collapsed),
            Some(TrackAction::Shift(id, by)) => self.shift_track(store, id, by),
            Some(TrackAction::Hide(id)) => self.set_hidden(id, true),
            Some(TrackAction::Pin(id, pinned)) => self.set_pinned(id, pinned),
            Some(TrackAction::ShowAll) => self.show_all_tracks(),
            None => {}
        }
    }

    /// Draws the details of the span in focus at the right. Returns the span that was chosen there.
    pub(super) fn draw_details(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        frame: &Frame,
        usual: TypicalDurationsOf<'_>,
    ) -> Option<SpanRef> {
        let is_beside = frame.details.width() >= 60.0;
        if !is_beside && view.focus.is_none() {
            return None;
        }
        let area = match is_beside {
            true => frame.details,
            false => below(frame.rows),
        };
        // The chart already occupies this space, so a child ui is used that allocates none.
        let ui = &mut ui.new_child(UiBuilder::new().max_rect(area).id_salt("details"));
        ui.set_clip_rect(area.intersect(ui.clip_rect()));
        ui.spacing_mut().item_spacing.y = space::TIGHT;
        let Some(focus) = view.focus else {
            ui.weak("Click a span to see its details. The arrow keys go to its neighbours.");
            return None;
        };
        if !is_beside {
            let behind = area.expand(space::CELL);
            let painter = ui.painter().with_clip_rect(behind);
            painter.rect_filled(behind, 3.0, ui.visuals().window_fill);
            painter.rect_stroke(
                behind,
                3.0,
                Stroke::new(1.0, theme.grid),
                StrokeKind::Inside,
            );
            // A click on the details does not reach the spans under them.
            ui.interact(
                behind,
                ui.scope_id().with("behind"),
                egui::Sense::click_and_drag(),
            );
            let close = ui.small_button("Close").on_hover_text("Escape");
            if close.clicked() {
                view.focus = None;
                return None;
            }
        }
        let mut chosen = None;
        egui::ScrollArea::vertical()
            .id_salt("vor focus")
            .auto_shrink(false)
            .show(ui, |ui| {
                card::show(ui, &HoverTarget::Span(focus), store, theme, usual);
                ui.horizontal(|ui| {
                    if ui.small_button("Zoom to it").on_hover_text("Z").clicked() {
                        let length = focus.span.duration_ns as f64;
                        let margin = length * 0.02;
                        view.zoom_to(
                            focus.span.begin_ns as f64 - margin,
                            focus.span.end_ns() as f64 + margin,
                        );
                    }
                    if ui
                        .small_button("Find all")
                        .on_hover_text("Lists all calls of its scope, and searches for its name")
                        .clicked()
                    {
                        view.wanted_calls = Some(focus.span.site);
                        store
                            .catalog()
                            .site_name(focus.span.site)
                            .clone_into(&mut view.search);
                    }
                });
                chosen = self.list_arrows(ui, store);
                if let Some(site) = store.catalog().site(focus.span.site) {
                    self.sources.show(ui, theme, site);
                }
            });
        chosen
    }

    /// Draws the marks of all tracks.
    pub(super) fn draw_marks(&self, ui: &Ui, store: &Store, theme: &Theme, frame: &Frame) {
        // Those of the first track reach into the ruler.
        let above = frame.rows.with_min_y(frame.rows.top() - MARK_HEIGHT);
        let painter = ui.painter_at(above);
        for placed in &self.placed {
            let top = frame.rows.top() + placed.top - self.scroll;
            if above.y_range().contains(top) {
                let track = &store.shown_tracks()[placed.track];
                draw_marks(&painter, track, theme, frame, top);
            }
        }
    }

    /// Draws a scroll bar if not all rows fit.
    pub(super) fn draw_scroll_bar(&self, ui: &Ui, theme: &Theme, frame: &Frame, all_height: f32) {
        let height = frame.rows.height();
        if all_height <= height {
            return;
        }
        let top = frame.rows.top() + height * self.scroll / all_height;
        let size = vec2(4.0, (height * height / all_height).max(12.0));
        let bar = Rect::from_min_size(pos2(frame.rows.right() - 5.0, top), size);
        ui.painter().rect_filled(bar, 2.0, theme.weak_text);
    }
}

/// Draws a flag in the scale at the begin of each bookmark.
fn draw_bookmarks(ui: &Ui, store: &Store, view: &View, theme: &Theme, frame: &Frame) {
    let zero_ns = view.zero_ns(store) as i64;
    let painter = ui.painter_at(frame.ruler);
    for bookmark in view.bookmarks.list() {
        let ns = bookmark.time_ns.0.saturating_add(zero_ns);
        if !frame.time.contains(ns as f64) {
            continue;
        }
        let (x, top) = (frame.x(ns), frame.ruler.top());
        painter.vline(x, frame.ruler.y_range(), Stroke::new(1.0, theme.line));
        let flag = vec![pos2(x, top), pos2(x + 7.0, top + 3.0), pos2(x, top + 6.0)];
        painter.add(Shape::convex_polygon(flag, theme.line, Stroke::NONE));
    }
}

/// Returns the lower part of the rows of a narrow chart, for the details of the span in focus.
fn below(rows: Rect) -> Rect {
    let height = (rows.height() * 0.55).min(260.0);
    rows.with_min_y(rows.bottom() - height).shrink(space::PART)
}

/// Draws the selected range of time, and its length in the scale.
fn draw_time_selection(ui: &Ui, view: &View, theme: &Theme, frame: &Frame) {
    let Some((begin_ns, end_ns)) = view.time_selection() else {
        return;
    };
    let within = |ns: i64| {
        frame
            .x(ns)
            .clamp(frame.rows.left() - 1.0, frame.rows.right() + 1.0)
    };
    let band = within(begin_ns)..=within(end_ns);
    let all = frame.rows.union(frame.ruler);
    let painter = ui.painter_at(all);
    let rect = Rect::from_x_y_ranges(band.clone(), all.y_range());
    painter.rect_filled(rect, 0.0, theme.selection);
    for x in [*band.start(), *band.end()] {
        painter.vline(x, all.y_range(), Stroke::new(1.0, theme.line));
    }
    let text = units::duration(end_ns.saturating_sub(begin_ns) as f64);
    let font = FontId::proportional(text::SMALL);
    let galley = painter.layout_no_wrap(text, font, theme.text);
    if galley.size().x + 4.0 < rect.width() {
        let place = pos2(rect.center().x - galley.size().x / 2.0, frame.ruler.top());
        let behind = Rect::from_min_size(place, galley.size()).expand2(vec2(space::TEXT, 0.0));
        painter.rect_filled(behind, 2.0, theme.ground);
        painter.galley(place, galley, theme.text);
    }
}

/// Returns the drawn width of a frame, in points; 0 if the frame does not exist.
fn width_of(store: &Store, frame: &Frame, i: usize) -> f32 {
    let width = |entry: &FrameEntry| frame.x(entry.end_ns) - frame.x(entry.begin_ns);
    store.frames().get(i).map_or(0.0, width)
}

/// Returns the strength of the border beside a frame of this width, from 0 to 1.
fn border_strength(width: f32) -> f32 {
    ((width - BORDERS_FROM) / (BORDERS_FULL - BORDERS_FROM)).clamp(0.0, 1.0)
}

/// The command of a click on a name.
enum TrackAction {
    Collapse(TrackId, bool),
    CollapseGroup(String, bool),
    CollapseAll(bool),
    Shift(TrackId, isize),
    Hide(TrackId),
    Pin(TrackId, bool),
    ShowAll,
}

/// Draws a track's name, and its number of spans below if there is space.
fn name_of_track(
    ui: &mut Ui,
    track: &Track,
    (collapsed, pinned): (bool, bool),
    store: &Store,
    theme: &Theme,
    rect: Rect,
) -> Option<TrackAction> {
    let id = track.id;
    let name = track_name(id, store.catalog());
    let response = ui.interact(
        rect,
        ui.scope_id().with(("track", id)),
        egui::Sense::click(),
    );
    let verb = if collapsed { "expand" } else { "collapse" };
    response.widget_info(|| {
        egui::WidgetInfo::labeled(egui::Role::Button, true, format!("{verb} {name}"))
    });
    let painter = ui.painter_at(rect);
    let color = if response.hovered() || response.has_focus() {
        theme.text
    } else {
        theme.text.gamma_multiply(0.85)
    };
    let strip = Rect::from_min_size(rect.min, vec2(3.0, rect.height()));
    painter.rect_filled(strip, 0.0, theme.track(store.catalog(), id));
    painter.add(fold_mark(rect.min + vec2(10.0, 7.5), collapsed, color));
    let size = text::BODY;
    let text = sketch::layout(
        &painter,
        rect.width() - space::SECTION - space::TIGHT,
        name.clone(),
        Ink { size, color },
    );
    let response = match text.elided {
        true => response.on_hover_text(name),
        false => response,
    };
    painter.galley(rect.min + vec2(space::SECTION, 0.0), text, color);
    let second_line = rect.top() + 15.0;
    if second_line + 12.0 < rect.bottom() {
        let count = units::count(spans_of(store, track));
        let mut text = match id.kind() {
            TrackKind::Scopes => format!("{count} spans"),
            TrackKind::Tasks => format!("{count} tasks"),
        };
        if track.hidden_tasks > 0 {
            text.push_str(&format!(", {} hidden", units::count(track.hidden_tasks)));
        }
        let place = pos2(rect.left() + space::SECTION, second_line);
        painter.text(
            place,
            Align2::LEFT_TOP,
            text,
            FontId::proportional(text::SMALL),
            theme.weak_text,
        );
    }
    let mut action = response
        .clicked()
        .then_some(TrackAction::Collapse(id, !collapsed));
    response.context_menu(|ui| {
        let mut offer = |ui: &mut Ui, text: &str, choice: TrackAction| {
            if ui.button(text).clicked() {
                action = Some(choice);
                ui.close();
            }
        };
        offer(ui, "Move up", TrackAction::Shift(id, -1));
        offer(ui, "Move down", TrackAction::Shift(id, 1));
        offer(ui, "Move to the top", TrackAction::Shift(id, isize::MIN));
        let pin = if pinned {
            "Unpin"
        } else {
            "Pin above the others"
        };
        offer(ui, pin, TrackAction::Pin(id, !pinned));
        offer(ui, "Hide", TrackAction::Hide(id));
        offer(ui, "Show all", TrackAction::ShowAll);
        offer(ui, "Collapse all", TrackAction::CollapseAll(true));
        offer(ui, "Expand all", TrackAction::CollapseAll(false));
    });
    action
}

/// Draws a triangle above the first row at each message and each step of a task.
fn draw_marks(painter: &Painter, track: &Track, theme: &Theme, frame: &Frame, top: f32) {
    let (begin_ns, end_ns) = (frame.time.begin_ns as i64, frame.time.end_ns as i64);
    let mut mesh = Mesh::default();
    let mut last_x = f32::MIN;
    let mut mark = |ns: i64| {
        let x = frame.x(ns);
        if x - last_x < 2.0 {
            return;
        }
        last_x = x;
        let first = mesh.vertices.len() as u32;
        for corner in [
            vec2(-3.0, -MARK_HEIGHT),
            vec2(3.0, -MARK_HEIGHT),
            Vec2::ZERO,
        ] {
            mesh.colored_vertex(pos2(x, top) + corner, theme.pin);
        }
        mesh.add_triangle(first, first + 1, first + 2);
    };
    let messages = track.messages_within(begin_ns, end_ns);
    messages
        .take(MAX_MARKS)
        .for_each(|message| mark(message.ns));
    let steps = track
        .steps
        .iter()
        .filter(|step| (begin_ns..=end_ns).contains(&step.ns));
    steps.take(MAX_MARKS).for_each(|step| mark(step.ns));
    if !mesh.is_empty() {
        painter.add(Shape::mesh(mesh));
    }
}

/// Returns the texts of a track's messages and steps within `reach_ns`.
pub(super) fn texts_near(track: &Track, catalog: &Catalog, ns: f64, reach_ns: f64) -> Vec<String> {
    let (begin_ns, end_ns) = (
        (ns - reach_ns).floor() as i64,
        (ns + reach_ns).ceil() as i64,
    );
    let messages = track.messages_within(begin_ns, end_ns);
    let mut texts: Vec<String> = messages
        .take(MAX_MARKS)
        .map(|message| message.text.to_string())
        .collect();
    let steps = track
        .steps
        .iter()
        .filter(|step| (begin_ns..=end_ns).contains(&step.ns));
    texts.extend(
        steps
            .take(MAX_MARKS)
            .map(|step| catalog.site_name(step.site).to_owned()),
    );
    texts
}

/// Draws a red badge at the right end of a line.
fn badge(painter: &Painter, theme: &Theme, line: Rect, text: &str) {
    let galley = painter.layout_no_wrap(
        text.to_owned(),
        FontId::proportional(text::SMALL),
        palette::text_on(theme.bad),
    );
    let size = galley.size() + Vec2::new(2.0 * space::TEXT, 0.0);
    let rect = Rect::from_min_size(
        pos2(line.right() - size.x - 4.0, line.top() + 1.0),
        vec2(size.x, RULER_HEIGHT - 3.0),
    );
    painter.rect_filled(rect, 3.0, theme.bad);
    painter.galley(
        pos2(
            rect.left() + space::TEXT,
            rect.center().y - galley.size().y / 2.0,
        ),
        galley,
        Color32::PLACEHOLDER,
    );
}

/// Names of call sites, cut to fit; each is laid out once per pass.
struct NameLayouts {
    font: FontId,
    whole: FxHashMap<SiteId, Arc<Galley>>,
    cut: FxHashMap<(SiteId, usize), Arc<Galley>>,
}

impl NameLayouts {
    fn new(font: FontId) -> Self {
        Self {
            font,
            whole: FxHashMap::default(),
            cut: FxHashMap::default(),
        }
    }

    /// Returns the name or its first letters; `None` if not even two letters fit.
    fn fitting(
        &mut self,
        painter: &Painter,
        catalog: &Catalog,
        site: SiteId,
        width: f32,
    ) -> Option<Arc<Galley>> {
        let name = catalog.site_name(site);
        let layout =
            |text: String| painter.layout_no_wrap(text, self.font.clone(), Color32::PLACEHOLDER);
        let whole = self
            .whole
            .entry(site)
            .or_insert_with(|| layout(name.to_owned()));
        let needed = whole.size().x;
        if needed <= width {
            return Some(Arc::clone(whole));
        }
        let letters = name.chars().count();
        // Letters differ in width, so the estimate is slightly low.
        let fits = (letters as f32 * (width / needed) * 0.92 - 0.8).max(0.0) as usize;
        if fits < 2 {
            return None;
        }
        let cut = self.cut.entry((site, fits));
        let cut = cut.or_insert_with(|| layout(name.chars().take(fits).chain(['…']).collect()));
        (cut.size().x <= width + 3.0).then(|| Arc::clone(cut))
    }
}

#[cfg(test)]
mod tests {
    use super::border_strength;

    #[test]
    fn borders_fade_with_the_width_of_frames() {
        let strengths = [0.0, 3.5, 4.0, 8.0, 12.0, 500.0].map(border_strength);
        assert_eq!(strengths, [0.0, 0.0, 0.0, 0.5, 1.0, 1.0]);
        assert!(border_strength(f32::NAN).is_nan() || border_strength(f32::NAN) <= 1.0);
        assert_eq!(
            (
                border_strength(f32::NEG_INFINITY),
                border_strength(f32::INFINITY)
            ),
            (0.0, 1.0)
        );
    }
}
