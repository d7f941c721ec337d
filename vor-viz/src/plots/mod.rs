//! Metrics over frames: one row per metric, on the time axis of the frame bars.
//!
//! A row has three columns: its name, its plot, and its values. The values are those of the frames
//! of the store, or of a whole capture of which the store holds a part: its picture has them in
//! [bins](crate::store::MetricBins). `columns` reduces either to columns of pixels. `row` draws
//! them and writes the texts beside them. `header` is the line above them, and `copied` what its
//! buttons copy. This module handles the user's actions on rows and owns the buffers of both.
//! Values are read and reduced again only when the frames or the view change.

mod columns;
mod copied;
mod header;
mod row;

use std::hash::{Hash, Hasher};

use egui::{CursorIcon, Rect, Response, Role, Sense, Ui, WidgetInfo, pos2, vec2};
use rustc_hash::FxHasher;

use self::columns::{Columns, RowColumns};
use self::copied::Copied;
pub use self::header::RowOrder;
use self::row::Cells;
use crate::frame_axis::{self, FrameAxis, axis_rect};
use crate::groups::{self, Group, Groups, Line};
use crate::sketch::Quads;
use crate::store::{Layer, MetricBin, MetricBins, Series, Store};
use crate::theme::{Theme, UNIT};
use crate::view::{TimeRange, View};

/// Height of the name of a group, in points.
const GROUP_HEIGHT: f32 = 16.0;

/// Space between rows, in points.
const SPACING: f32 = UNIT;

/// Minimum and maximum height of a row, in points.
const ROW_HEIGHTS: std::ops::RangeInclusive<f32> = 22.0..=400.0;

/// A metric, as the caller describes it.
pub struct MetricRow<'a> {
    /// The unique name.
    pub name: &'a str,
    /// The unit of its values; empty for none.
    pub unit: &'a str,
    /// Whether its values are counts.
    pub integer: bool,
    /// Description for a hover text; may be empty.
    pub description: &'a str,
    /// Returns the value of the frame at an index of [`Store::frames`]; a value that is not finite
    /// is a gap. It is not called again while the store's version is unchanged. When a frame
    /// arrives, it is called for the newest frames and a part of the others.
    pub values: &'a dyn Fn(usize) -> f64,
    /// The series of a whole capture that has its values.
    pub series: Series,
}

impl std::fmt::Debug for MetricRow<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricRow")
            .field("name", &self.name)
            .field("unit", &self.unit)
            .finish_non_exhaustive()
    }
}

/// The user's choices for the rows of metrics, and the last drawing.
#[derive(Clone, Debug)]
pub struct Plots {
    pinned: Vec<String>,
    hidden: Vec<String>,
    /// The text that names of rows must contain, as it was typed. It hides no pinned row.
    filter: String,
    order: RowOrder,
    groups: Groups,
    row_height: f32,
    read: Option<u64>,
    drawn: Option<u64>,
    columns: Columns,
    /// The rows of a whole capture.
    of_bins: Vec<RowColumns>,
    quads: Quads,
}

impl Default for Plots {
    fn default() -> Self {
        Self {
            pinned: Vec::new(),
            hidden: Vec::new(),
            filter: String::new(),
            order: RowOrder::default(),
            groups: Groups::default(),
            row_height: 44.0,
            read: None,
            drawn: None,
            columns: Columns::default(),
            of_bins: Vec::new(),
            quads: Quads::default(),
        }
    }
}

impl Plots {
    /// Returns the names of the pinned rows, in their order.
    #[must_use]
    pub fn pinned(&self) -> &[String] {
        &self.pinned
    }

    /// Pins a row below the other pinned ones, or unpins it.
    pub fn set_pinned(&mut self, name: &str, pinned: bool) {
        set_member(&mut self.pinned, name, pinned);
    }

    /// Returns the names of the hidden rows.
    #[must_use]
    pub fn hidden(&self) -> &[String] {
        &self.hidden
    }

    /// Hides or shows a row.
    pub fn set_hidden(&mut self, name: &str, hidden: bool) {
        set_member(&mut self.hidden, name, hidden);
    }

    /// Shows only the rows whose names contain a text, in upper or lower case, and pinned ones.
    pub fn set_filter(&mut self, filter: &str) {
        filter.clone_into(&mut self.filter);
    }

    /// Sets the order of the rows that are not pinned.
    pub fn set_order(&mut self, order: RowOrder) {
        self.order = order;
    }

    /// Makes the metrics whose names begin with the same word a group that collapses, or not. It is
    /// off at first.
    pub fn set_grouped(&mut self, is_grouped: bool) {
        self.groups.is_on = is_grouped;
    }

    /// Shows only the name of a group, or its rows, too.
    pub fn set_group_collapsed(&mut self, group: &str, is_collapsed: bool) {
        self.groups.set_collapsed(group, is_collapsed);
    }

    /// Returns the height of a row, in points.
    #[must_use]
    pub fn row_height(&self) -> f32 {
        self.row_height
    }

    /// Sets the height of all rows, in points.
    pub fn set_row_height(&mut self, points: f32) {
        if points.is_finite() {
            self.row_height = points.clamp(*ROW_HEIGHTS.start(), *ROW_HEIGHTS.end());
        }
    }

    /// Shows the metrics and handles the pointer there: those of the frames of the store, or of a
    /// whole capture where the [bars](crate::bars) show all its frames, over the time of the flame
    /// chart. Returns the moment in a whole capture that was clicked.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        rows: &[MetricRow<'_>],
    ) -> Option<i64> {
        let bins = store.layer().map(Layer::metrics);
        let bins = bins.filter(|_| view.shows_all_bars(store));
        let time = match bins {
            Some(_) => view.flame_axis(store),
            None => view.axis(),
        };
        let lines = self.lines(rows);
        let pointed_ns = view.pointed_ns();
        let readout = frame_axis::readout_frame(store, view).filter(|_| bins.is_none());
        let title = match readout {
            Some((_, which)) => which,
            None if bins.is_some() => pointed_ns.map_or("", |_| "pointed at"),
            None => "newest",
        };
        let entries = lines.iter().filter_map(|line| match line {
            Line::Group(_) => None,
            Line::Entry(row) => Some(&rows[*row]),
        });
        let copied = Copied {
            store,
            view,
            time,
            bins,
            rows: entries.collect(),
        };
        self.header(ui, title, rows.len(), theme, &copied);
        let height = |line: &Line| match line {
            Line::Group(_) => GROUP_HEIGHT,
            Line::Entry(_) => self.row_height + SPACING,
        };
        let width = ui.available_width().clamp(0.0, 32_768.0);
        let (_, area) = ui.allocate_space(vec2(width, lines.iter().map(height).sum()));
        let mut actions = Vec::new();
        let mut slots: Vec<(usize, Rect)> = Vec::new();
        let mut top = area.top();
        for line in &lines {
            let rect = area.with_min_y(top).with_max_y(top + height(line));
            top = rect.bottom();
            // Rows outside the visible area are neither read nor drawn.
            if !ui.is_rect_visible(rect) {
                continue;
            }
            match line {
                Line::Group(group) => {
                    let clicked = groups::show_name(ui, row::name_rect(rect), group, theme);
                    actions.extend(clicked.then(|| RowAction::Collapse(group.clone())));
                }
                Line::Entry(row) => slots.push((*row, rect.with_max_y(top - SPACING))),
            }
        }
        let mut button_widths = Vec::with_capacity(slots.len());
        let mut tooltip = None;
        let mut clicked_ns = None;
        for &(at, rect) in &slots {
            let row = &rows[at];
            let axis = FrameAxis::new(axis_rect(rect), time, ui.pixels_per_point());
            let id = ui.make_persistent_id(("metric", at, row.name));
            let plot = ui.interact(axis.rect(), id, Sense::click_and_drag());
            plot.widget_info(|| {
                WidgetInfo::labeled(Role::Canvas, true, format!("plot {}", row.name))
            });
            ui.painter().rect_filled(axis.rect(), 0.0, theme.ground);
            let pointed = match bins {
                None => frame_axis::interact(ui, &plot, &axis, store, view).map(Pointed::Frame),
                Some(bins) => {
                    let x = frame_axis::interact_with_time(ui, &plot, &axis, store, view);
                    let ns = x.map(|x| axis.ns(x) as i64);
                    if plot.clicked() {
                        clicked_ns = ns;
                    }
                    ns.and_then(|ns| bin_at(bins, row.series, ns))
                        .map(Pointed::Bin)
                }
            };
            if let Some(pointed) = pointed {
                tooltip = Some((plot, pointed, row));
            }
            button_widths.push(self.name_column(ui, rect, id, row, theme, &mut actions));
        }
        let shown: Vec<&MetricRow<'_>> = slots.iter().map(|&(at, _)| &rows[at]).collect();
        let whole = FrameAxis::new(axis_rect(area), time, ui.pixels_per_point());
        self.read(store, view, &time, &whole, &shown, bins);
        let rects: Vec<Rect> = slots.iter().map(|&(_, rect)| rect).collect();
        self.draw(&time, &whole, &rects, theme, bins.is_some());
        let places = rects.iter().zip(button_widths);
        for ((row, reduced), (rect, buttons_width)) in
            shown.iter().zip(self.reduced(bins.is_some())).zip(places)
        {
            let value = match (readout, bins) {
                (Some((index, _)), _) => (row.values)(index),
                (None, Some(bins)) => pointed_ns
                    .and_then(|ns| bin_at(bins, row.series, ns as i64))
                    .map_or(f64::NAN, |bin| bin.values.mean()),
                (None, None) => f64::NAN,
            };
            let cells = Cells {
                row,
                reduced,
                value,
                buttons_width,
            };
            cells.write(ui.painter(), *rect, theme);
        }
        // The mesh is added after the texts beside the plots. Shapes that are appended to the
        // frame's mesh behind so many vertices make it grow, which moves all of them.
        self.quads.paint(ui.painter());
        if !slots.is_empty() {
            frame_axis::paint_cursors(ui.painter(), &whole, store, view, theme);
        }
        if let Some((plot, pointed, row)) = tooltip {
            plot.on_hover_ui_at_pointer(|ui| match &pointed {
                Pointed::Frame(index) => row::tooltip(ui, store, *index, row),
                Pointed::Bin(bin) => row::bin_tooltip(ui, bin, row),
            });
        }
        if rows.is_empty() {
            ui.weak("no metrics");
        } else if lines.is_empty() && !self.filter.is_empty() {
            ui.weak("no metric's name contains this");
        }
        for action in actions {
            match action {
                RowAction::Pin(name, pinned) => self.set_pinned(&name, pinned),
                RowAction::Hide(name) => self.set_hidden(&name, true),
                RowAction::Collapse(group) => {
                    self.set_group_collapsed(&group.name, !group.is_collapsed);
                }
                RowAction::Resize(points) => self.set_row_height(self.row_height + points),
            }
            ui.ctx().request_repaint();
        }
        self.hidden_menu(ui, rows);
        clicked_ns
    }

    /// Returns the rows of the last reading.
    fn reduced(&self, is_whole: bool) -> &[RowColumns] {
        match is_whole {
            true => &self.of_bins,
            false => self.columns.rows(),
        }
    }

    /// Returns the shown rows by their indices, pinned rows first, and the names of their groups.
    fn lines(&self, rows: &[MetricRow<'_>]) -> Vec<Line> {
        let filter = self.filter.trim().to_lowercase();
        let passes = |name: &str| {
            filter.is_empty()
                || self.pinned.iter().any(|pinned| pinned == name)
                || name.to_lowercase().contains(&filter)
        };
        let shown = |i: &usize| {
            let name = rows[*i].name;
            !self.hidden.iter().any(|hidden| hidden == name) && passes(name)
        };
        let pin = |i: usize| self.pinned.iter().position(|name| name == rows[i].name);
        let mut order: Vec<usize> = (0..rows.len()).filter(shown).collect();
        if self.order == RowOrder::Name {
            order.sort_by_cached_key(|&i| rows[i].name.to_lowercase());
        }
        order.sort_by_key(|&i| pin(i).unwrap_or(usize::MAX));
        let group = |i: usize| match pin(i) {
            Some(_) => None,
            None => groups::of_metric(rows[i].name),
        };
        self.groups.lines(order.into_iter().map(|i| (i, group(i))))
    }

    /// Handles pinning, hiding and resizing of a row. Returns the width of the buttons, in points.
    fn name_column(
        &self,
        ui: &Ui,
        rect: Rect,
        id: egui::Id,
        row: &MetricRow<'_>,
        theme: &Theme,
        actions: &mut Vec<RowAction>,
    ) -> f32 {
        let name_rect = row::name_rect(rect);
        let name = ui.interact(name_rect, id.with("name"), Sense::hover());
        let is_hovered = name.contains_pointer();
        if is_hovered {
            name.on_hover_ui(|ui| row::describe(ui, row));
        }
        let is_pinned = self.pinned.iter().any(|pinned| pinned == row.name);
        let [pin_rect, hide_rect] = row::button_rects(rect);
        let hint = if is_pinned {
            "back to its place"
        } else {
            "to the top"
        };
        let pin = button(
            ui,
            pin_rect,
            id.with("pin"),
            || format!("pin {}", row.name),
            hint,
        );
        let hide = button(
            ui,
            hide_rect,
            id.with("hide"),
            || format!("hide {}", row.name),
            "show no more",
        );
        let (pin_color, hide_color) = (button_color(&pin, theme), button_color(&hide, theme));
        let shows_hide = is_hovered || hide.hovered() || hide.has_focus();
        let shows_pin = is_hovered || is_pinned || pin.hovered() || pin.has_focus();
        if shows_pin {
            row::paint_pin(ui.painter(), pin_rect, is_pinned, pin_color);
        }
        if shows_hide {
            row::paint_hide(ui.painter(), hide_rect, hide_color);
        }
        if pin.clicked() {
            actions.push(RowAction::Pin(row.name.to_owned(), !is_pinned));
        }
        if hide.clicked() {
            actions.push(RowAction::Hide(row.name.to_owned()));
        }
        let edge = Rect::from_min_max(
            pos2(name_rect.left(), rect.bottom() - 2.0),
            pos2(name_rect.right(), rect.bottom() + SPACING),
        );
        let edge = ui.interact(edge, id.with("edge"), Sense::drag());
        edge.widget_info(|| {
            WidgetInfo::labeled(Role::Splitter, true, format!("height of {}", row.name))
        });
        let dragged_points = edge.drag_delta().y;
        if edge.dragged() && dragged_points != 0.0 {
            actions.push(RowAction::Resize(dragged_points));
        }
        edge.on_hover_and_drag_cursor(CursorIcon::ResizeVertical);
        match (shows_hide, shows_pin) {
            (true, _) => 38.0,
            (false, true) => 20.0,
            (false, false) => 0.0,
        }
    }

    /// Reads and reduces the values if they may have changed.
    fn read(
        &mut self,
        store: &Store,
        view: &View,
        time: &TimeRange,
        axis: &FrameAxis,
        shown: &[&MetricRow<'_>],
        bins: Option<&MetricBins>,
    ) {
        let mut hasher = FxHasher::default();
        (
            bins.is_some(),
            store.version(),
            store.id_at(0),
            store.frames().len(),
            axis.width_px(),
        )
            .hash(&mut hasher);
        [time.begin_ns, time.end_ns]
            .map(f64::to_bits)
            .hash(&mut hasher);
        for row in shown {
            row.name.hash(&mut hasher);
        }
        let key = Some(hasher.finish());
        if self.read != key {
            self.read = key;
            self.drawn = None;
            if let Some(bins) = bins {
                let rows = shown.iter().map(|row| columns::of_bins(bins, axis, row));
                self.of_bins = rows.collect();
                return;
            }
            let frames = view
                .shown_frames(store)
                .map_or(0..0, |(first, last)| first..last + 1);
            self.columns.read(store, frames, axis, shown);
        }
    }

    /// Rebuilds the mesh of all plots if values or positions may have changed.
    fn draw(
        &mut self,
        time: &TimeRange,
        axis: &FrameAxis,
        rects: &[Rect],
        theme: &Theme,
        is_whole: bool,
    ) {
        let mut hasher = FxHasher::default();
        (theme.dark, is_whole).hash(&mut hasher);
        time.begin_ns.to_bits().hash(&mut hasher);
        [axis.rect().left(), axis.rect().right(), axis.pixel()]
            .map(f32::to_bits)
            .hash(&mut hasher);
        for rect in rects {
            [rect.top(), rect.bottom()]
                .map(f32::to_bits)
                .hash(&mut hasher);
        }
        let key = Some(hasher.finish());
        if self.drawn != key {
            self.drawn = key;
            let rows = match is_whole {
                true => &self.of_bins,
                false => self.columns.rows(),
            };
            let mesh = self.quads.begin();
            for (reduced, rect) in rows.iter().zip(rects) {
                row::draw(mesh, reduced, axis, *rect, theme);
            }
        }
    }

    /// Shows a menu of the hidden rows.
    fn hidden_menu(&mut self, ui: &mut Ui, rows: &[MetricRow<'_>]) {
        let is_hidden = |name: &str| self.hidden.iter().any(|hidden| hidden == name);
        let hidden: Vec<&str> = rows
            .iter()
            .map(|row| row.name)
            .filter(|name| is_hidden(name))
            .collect();
        if hidden.is_empty() {
            return;
        }
        let title = format!("hidden ({})", hidden.len());
        let mut again = None;
        let menu = ui.menu_button(egui::RichText::new(title).small(), |ui| {
            for name in &hidden {
                if ui.button(format!("show {name}")).clicked() {
                    again = Some(*name);
                }
            }
            if hidden.len() > 1 && ui.button("show all").clicked() {
                self.hidden.clear();
            }
        });
        menu.response
            .on_hover_text("Metrics that were hidden; click to show them again.");
        if let Some(name) = again {
            self.set_hidden(name, false);
        }
    }
}

/// The target of the pointer.
enum Pointed {
    /// A frame of the store.
    Frame(usize),
    /// A bin of a whole capture.
    Bin(MetricBin),
}

/// Returns the bin of a series at a moment.
fn bin_at(bins: &MetricBins, series: Series, ns: i64) -> Option<MetricBin> {
    bins.bins_within(series, ns, ns)
        .find(|bin| (bin.begin_ns..bin.end_ns).contains(&ns))
}

/// A user action on a row in this pass.
enum RowAction {
    Pin(String, bool),
    Hide(String),
    Collapse(Group),
    Resize(f32),
}

fn set_member(names: &mut Vec<String>, name: &str, member: bool) {
    names.retain(|other| other != name || member);
    if member && !names.iter().any(|other| other == name) {
        names.push(name.to_owned());
    }
}

/// Senses clicks on a button that is painted by hand.
fn button(ui: &Ui, rect: Rect, id: egui::Id, name: impl Fn() -> String, hint: &str) -> Response {
    let response = ui.interact(rect, id, Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, name()));
    if response.hovered() {
        return response.on_hover_text(hint);
    }
    response
}

fn button_color(response: &Response, theme: &Theme) -> egui::Color32 {
    if response.hovered() || response.has_focus() {
        theme.text
    } else {
        theme.weak_text
    }
}
