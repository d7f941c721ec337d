//! The whole panel: bars, flame chart, and below them metrics, scopes, the aggregated flame graph
//! or a comparison.
//!
//! The panel owns the frames and the view, and does not depend on the source of frames.
//! `PanelState` fills it from the running program, [`ReplayState`](crate::replay::ReplayState) from
//! a capture.

mod compared;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use egui::{CursorIcon, Rect, Sense, TextEdit, Ui, UiBuilder, WidgetInfo, pos2, vec2};
use vor_capture::units;
use web_time::Instant;

use crate::bars::{self, Thresholds};
use crate::budget::{Budget, FrameBudget};
use crate::capture_bars;
use crate::compare::Compare;
use crate::find::{Find, FindAction, FramePlace, Listed, slowest_frames};
use crate::flame::{ColorBy, Direction, FlameChart, TypicalDurations};
use crate::icicle::Icicle;
use crate::keys::{self, Command};
use crate::plots::{MetricRow, Plots};
use crate::replay::Summary;
use crate::scopes::ScopeTable;
use crate::store::{FrameEntry, Series, Store};
use crate::theme::{Theme, space};
use crate::view::View;
use crate::why::Why;
use compared::Baseline;

/// Height of the bars, in points.
const BARS_HEIGHT: f32 = 72.0;

/// Height of the divider below the flame chart, in points.
const DIVIDER_HEIGHT: f32 = 7.0;

/// The tabs below the flame chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tab {
    /// A plot per metric.
    #[default]
    Metrics,
    /// The table of scopes.
    Scopes,
    /// The aggregated flame graph.
    Icicle,
    /// A comparison of frames.
    Compare,
    /// Lists of calls, of messages and of frames.
    Find,
}

impl Tab {
    const ALL: [(Self, &str); 5] = [
        (Self::Metrics, "Metrics"),
        (Self::Scopes, "Scopes"),
        (Self::Icicle, "Flame graph"),
        (Self::Compare, "Compare"),
        (Self::Find, "Find"),
    ];

    /// Returns the name on the tab.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(tab, _)| *tab == self);
        found.map_or("", |(_, name)| name)
    }
}

/// The frames of a capture beside those of the store, counted from 0.
#[derive(Clone, Copy, Debug, Default)]
struct Beyond {
    before: Option<u64>,
    after: Option<u64>,
}

/// The last frame of a capture, which may not be counted yet.
const LAST_FRAME: u64 = u64::MAX;

/// Returns whether a command goes from frame to frame.
fn is_step(command: Command) -> bool {
    matches!(
        command,
        Command::Next | Command::NextFrame | Command::Previous | Command::PreviousFrame
    )
}

/// Number of the next panel.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The panel.
#[derive(Debug)]
pub struct Panel {
    /// Distinguishes its widgets from those of other panels in the same window.
    number: u64,
    store: Store,
    view: View,
    budget: Budget,
    chart: FlameChart,
    plots: Plots,
    scopes: ScopeTable,
    icicle: Icicle,
    compare: Compare,
    find: Find,
    /// The frame of the capture that the user chose, counted from 0.
    chosen_frame: Option<u64>,
    beyond: Beyond,
    why: Why,
    /// Whether the comparison is of the pinned frame with the median frame.
    explains: bool,
    /// The left side of the comparison.
    baseline: Option<Baseline>,
    tab: Tab,
    /// The flame chart's share of the height above and below the divider.
    split: f32,
    shows_help: bool,
    /// Whether the search field gets the keyboard focus in this pass.
    wants_search: bool,
    /// Duration of the last pass.
    pass: Duration,
}

impl Panel {
    /// Makes a panel of a store, with the time that a frame may take.
    #[must_use]
    pub fn new(store: Store, budget: impl Into<FrameBudget>) -> Self {
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            store,
            view: View::default(),
            budget: Budget::new(budget.into()),
            chart: FlameChart::default(),
            plots: Plots::default(),
            scopes: ScopeTable::default(),
            icicle: Icicle::default(),
            compare: Compare::default(),
            find: Find::default(),
            chosen_frame: None,
            beyond: Beyond::default(),
            why: Why::default(),
            explains: false,
            baseline: None,
            tab: Tab::Metrics,
            split: 0.6,
            shows_help: false,
            wants_search: false,
            pass: Duration::ZERO,
        }
    }

    /// Returns the salt of widget ids.
    pub(crate) fn id_salt(&self) -> (&'static str, u64) {
        ("vor panel", self.number)
    }

    /// Returns the frames and spans.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the frames and spans for changes.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Returns the view.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the view for changes.
    pub fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }

    /// Returns the frames, and the view for changes.
    pub fn parts(&mut self) -> (&Store, &mut View) {
        (&self.store, &mut self.view)
    }

    /// Returns the thresholds for frames.
    #[must_use]
    pub fn thresholds(&self) -> Thresholds {
        self.budget.limits()
    }

    /// Returns the flame chart.
    pub fn chart_mut(&mut self) -> &mut FlameChart {
        &mut self.chart
    }

    /// Returns the width of the flame chart in the last pass, in pixels.
    pub(crate) fn chart_width_px(&self) -> usize {
        self.chart.width_px()
    }

    /// Returns the metric rows.
    pub fn plots_mut(&mut self) -> &mut Plots {
        &mut self.plots
    }

    /// Returns the table of scopes.
    #[must_use]
    pub fn scopes(&self) -> &ScopeTable {
        &self.scopes
    }

    /// Returns the comparison.
    #[must_use]
    pub fn comparison(&self) -> &Compare {
        &self.compare
    }

    /// Returns the explanation of the pinned frame.
    #[must_use]
    pub fn why(&self) -> &Why {
        &self.why
    }

    /// Compares the pinned frame with the median frame, or what is selected with what was kept.
    pub fn set_explains(&mut self, explains: bool) {
        self.explains = explains;
    }

    /// Returns the lists of calls, messages and frames.
    #[must_use]
    pub fn find(&self) -> &Find {
        &self.find
    }

    /// Returns the lists of calls, messages and frames for changes.
    pub fn find_mut(&mut self) -> &mut Find {
        &mut self.find
    }

    /// Returns the tab below the flame chart.
    #[must_use]
    pub fn tab(&self) -> Tab {
        self.tab
    }

    /// Selects the tab below the flame chart.
    pub fn set_tab(&mut self, tab: Tab) {
        self.tab = tab;
    }

    /// Returns whether the table of keys is shown.
    #[must_use]
    pub fn shows_help(&self) -> bool {
        self.shows_help
    }

    /// Completes all computations that are otherwise split over several passes, for screenshots.
    pub fn finish(&mut self) {
        self.view.begin_pass(&self.store);
        self.scopes.finish(&self.store, &self.view);
        self.icicle.finish(&self.store, &self.view);
        self.find.finish(&self.store, &self.view);
    }

    /// Shows or hides vor's own cost.
    pub fn toggle_profiler_load(&mut self) {
        self.view.shows_load = !self.view.shows_load;
    }

    /// Draws the panel over the remaining space of `ui`, with `rows` after `frame_ms` and before
    /// the other metrics of the frames.
    pub fn show(&mut self, ui: &mut Ui, rows: &[MetricRow<'_>]) {
        self.show_all(ui, rows, None);
    }

    /// Draws the panel with a capture; `summary` is of all its frames, of which there are `total`,
    /// and the store has those of `window`. Returns the frame that the user chose, counted from 0.
    pub(crate) fn show_capture(
        &mut self,
        ui: &mut Ui,
        summary: &Summary,
        window: Range<u64>,
        total: u64,
    ) -> Option<u64> {
        self.beyond = Beyond {
            before: window.start.checked_sub(1),
            after: (window.end < total).then_some(window.end),
        };
        self.show_all(ui, &[], Some(summary));
        self.chosen_frame.take()
    }

    fn show_all(&mut self, ui: &mut Ui, rows: &[MetricRow<'_>], summary: Option<&Summary>) {
        let began = Instant::now();
        let mut area = ui.available_rect_before_wrap();
        if !area.height().is_finite() || area.height() > 8192.0 {
            // A scroll area has no bottom.
            area.set_height(760.0);
        }
        let area = area.with_max_y(area.bottom().max(area.top() + 220.0));
        self.view.begin_pass(&self.store);
        self.budget.update(&self.store, summary);
        if !ui.ctx().text_edit_focused()
            && ui.rect_contains_pointer(area)
            && !egui::Popup::is_any_open(ui.ctx())
        {
            while let Some(command) = keys::pressed(ui) {
                let slowest = summary.filter(|_| command == Command::SlowestFrame);
                match slowest.and_then(|summary| self.slowest_in_sight(summary)) {
                    Some(frame) => self.chosen_frame = Some(frame),
                    None => self.obey(command),
                }
            }
        }
        let theme = Theme::of(ui.visuals());
        let builder = UiBuilder::new().max_rect(area).id_salt(self.id_salt());
        ui.scope_builder(builder, |ui| {
            theme.dress(ui);
            self.toolbar(ui, &theme, summary.is_some());
            let (store, view) = (&self.store, &mut self.view);
            let thresholds = self.budget.limits();
            match summary.filter(|_| view.shows_all_bars(store)) {
                Some(all) => {
                    let clicked =
                        capture_bars::show(ui, BARS_HEIGHT, all, store, view, &theme, thresholds);
                    self.chosen_frame = clicked.or(self.chosen_frame);
                }
                None => _ = bars::show(ui, BARS_HEIGHT, store, view, &theme, thresholds),
            }
            let room =
                (area.bottom() - ui.cursor().top() - DIVIDER_HEIGHT - space::CELL).max(120.0);
            let flame_height = (room * self.split).max(60.0);
            let scopes = &self.scopes;
            let typical_durations = |site, kind| typical_durations(scopes, site, kind);
            self.chart.show(
                ui,
                flame_height,
                &self.store,
                &mut self.view,
                &theme,
                &typical_durations,
            );
            if let Some(site) = self.view.wanted_calls.take() {
                self.find.list(Listed::Calls(site));
                self.tab = Tab::Find;
            }
            self.divider(ui, room, &theme);
            self.below(ui, area, &theme, rows, summary);
        });
        ui.advance_cursor_after_rect(area);
        if self.shows_help && keys::help(ui, self.id_salt()) {
            self.shows_help = false;
        }
        self.pass = began.elapsed();
    }

    /// Draws the toolbar.
    fn toolbar(&mut self, ui: &mut Ui, theme: &Theme, is_capture: bool) {
        ui.horizontal_wrapped(|ui| {
            let paused = self.view.pinned().is_some();
            let text = if paused { "Resume" } else { "Pause" };
            if ui.button(text).on_hover_text("Space").clicked() {
                self.obey(Command::TogglePause);
            }
            ui.label(self.status());
            let is_selected =
                self.view.selection().is_some() || self.view.time_selection().is_some();
            let all = match self.view.whole() {
                Some(_) => "Whole capture",
                None => "All frames",
            };
            if is_selected
                && ui
                    .button(all)
                    .on_hover_text("Leaves the selection")
                    .clicked()
            {
                self.view.clear_selection();
            }
            ui.separator();
            self.search(ui, theme);
            ui.separator();
            self.chart.color_menu(ui, theme);
            let mut row_height = self.chart.row_height();
            let slider = egui::DragValue::new(&mut row_height)
                .range(4.0..=32.0)
                .speed(0.1)
                .prefix("Rows: ")
                .suffix(" px");
            if ui
                .add(slider)
                .on_hover_text("Height of the flame chart's rows")
                .changed()
            {
                self.chart.set_row_height(row_height);
            }
            self.chart.track_menu(ui, &self.store);
            self.budget.menu(ui);
            let zoomed = self.view.is_zoomed();
            let reset = ui.add_enabled(zoomed, egui::Button::new("Reset zoom"));
            if reset
                .on_hover_text("R, or a double click on the flame chart")
                .clicked()
            {
                self.view.reset_zoom();
            }
            self.load(ui, theme, is_capture);
            if ui.button("?").on_hover_text("Keys and mouse").clicked() {
                self.shows_help = true;
            }
        });
    }

    /// Returns a description of the shown frames.
    fn status(&self) -> String {
        let frames = self.store.frames().len();
        let mut text = match self.view.pinned().and_then(|id| self.store.frame(id)) {
            Some(frame) => format!(
                "frame {} · {}",
                frame.number,
                units::duration(frame.duration_ms() * 1e6)
            ),
            None if frames == 0 => "no frames yet".to_owned(),
            None if self.view.whole().is_some() => "whole capture".to_owned(),
            None => units::counted(frames as u64, "frame"),
        };
        if let Some((begin_ns, end_ns)) = self.view.time_selection() {
            let length_ns = end_ns.saturating_sub(begin_ns);
            return format!("selected {}", units::duration(length_ns as f64));
        }
        if let Some((first, last)) = self.view.selection_indices(&self.store) {
            text.push_str(&format!(
                " · {} selected",
                units::count((last - first + 1) as u64)
            ));
        }
        text
    }

    /// Draws the search field of the flame chart.
    fn search(&mut self, ui: &mut Ui, theme: &Theme) {
        let id = ui.make_persistent_id("vor search");
        let field = TextEdit::singleline(&mut self.view.search)
            .align(egui::Align2::LEFT_CENTER)
            .id(id)
            .hint_text("search names")
            .desired_width(150.0);
        let response = ui
            .add(field)
            .on_hover_text("F; Enter goes to the next match");
        let response = response.accessible_name("search names");
        if std::mem::take(&mut self.wants_search) {
            response.request_focus();
        }
        if response.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter)) {
            self.chart.go_to_match(&self.store, &mut self.view);
        }
        if let Some(found) = self.chart.found() {
            let text = match found {
                0 => "no scope".to_owned(),
                1 => "1 scope".to_owned(),
                _ => format!("{} scopes", units::count(found as u64)),
            };
            ui.colored_label(
                if found == 0 {
                    theme.bad_text
                } else {
                    theme.weak_text
                },
                text,
            );
            if ui.small_button("Clear").clicked() {
                self.view.search.clear();
            }
        }
    }

    /// Draws the switch for vor's own cost, and the cost: that of this machine where a program
    /// records, otherwise the one in the capture.
    fn load(&mut self, ui: &mut Ui, theme: &Theme, is_capture: bool) {
        if cfg!(not(feature = "live")) && !is_capture {
            return;
        }
        let mut shows_load = self.view.shows_load;
        let hover = "What vor itself costs: the scopes of the frame times the cost of an empty \
            one, and this panel's own pass";
        if ui
            .toggle_value(&mut shows_load, "vor's cost")
            .on_hover_text(hover)
            .changed()
        {
            self.view.shows_load = shows_load;
        }
        if !shows_load {
            return;
        }
        let scope_ns = if is_capture {
            self.store.catalog().machine.scope_ps as f64 / 1e3
        } else {
            scope_cost_ns() as f64
        };
        if let Some(text) = self.load_text(scope_ns, is_capture) {
            ui.colored_label(theme.weak_text, text);
        }
    }

    /// Returns what an empty scope of `scope_ns` cost the pinned frame, or the newest one of a
    /// running program.
    fn load_text(&self, scope_ns: f64, is_capture: bool) -> Option<String> {
        if is_capture && scope_ns == 0.0 {
            return Some("the capture does not say what its recorder cost".into());
        }
        let pinned = self.view.pinned().and_then(|id| self.store.frame(id));
        // The newest frames may not have been delivered yet.
        let delivered = |frame: &&FrameEntry| frame.span_count > 0;
        let newest = || self.store.frames().iter().rev().take(16).find(delivered);
        let frame = match pinned {
            None if is_capture => {
                let scope = units::duration(scope_ns);
                return Some(format!("an empty scope took {scope} when recording began"));
            }
            None => newest()?,
            Some(frame) => frame,
        };
        let cost_ns = frame.span_count as f64 * scope_ns;
        let frame_ns = (frame.duration_ms() * 1e6).max(1.0);
        let mut text = format!(
            "frame_ms {} of which vor {} ({:.2} %)",
            units::three_digits(frame.duration_ms()),
            units::duration(cost_ns),
            100.0 * cost_ns / frame_ns,
        );
        if !is_capture {
            text += &format!(", panel {}", units::duration(self.pass.as_nanos() as f64));
        }
        Some(text)
    }

    /// Draws the draggable divider below the flame chart.
    fn divider(&mut self, ui: &mut Ui, room: f32, theme: &Theme) {
        let (rect, response) =
            ui.allocate_exact_size(vec2(ui.available_width(), DIVIDER_HEIGHT), Sense::drag());
        let response = response.on_hover_and_drag_cursor(CursorIcon::ResizeVertical);
        response.widget_info(|| WidgetInfo::labeled(egui::Role::Splitter, true, "divider"));
        if response.dragged() {
            self.split = (self.split + response.drag_delta().y / room).clamp(0.1, 0.9);
        }
        let color = if response.hovered() || response.dragged() {
            theme.weak_text
        } else {
            theme.grid
        };
        let grip = Rect::from_center_size(rect.center(), vec2(60.0, 3.0));
        ui.painter().rect_filled(grip, 1.5, color);
    }

    /// Draws the tabs below the flame chart.
    fn below(
        &mut self,
        ui: &mut Ui,
        area: Rect,
        theme: &Theme,
        rows: &[MetricRow<'_>],
        summary: Option<&Summary>,
    ) {
        let rect = Rect::from_min_max(pos2(area.left(), ui.cursor().top()), area.max);
        let ui = &mut ui.new_child(UiBuilder::new().max_rect(rect).id_salt("below"));
        ui.set_clip_rect(rect.intersect(ui.clip_rect()));
        ui.horizontal(|ui| {
            for (tab, name) in Tab::ALL {
                ui.selectable_value(&mut self.tab, tab, name);
            }
        });
        match self.tab {
            Tab::Metrics => self.metrics(ui, theme, rows, summary),
            Tab::Scopes => {
                let (store, view) = (&self.store, &mut self.view);
                self.scopes.show(ui, store, view, theme);
            }
            Tab::Icicle => self.icicle.show(ui, &self.store, &mut self.view, theme),
            Tab::Compare => self.compared(ui, theme, summary),
            Tab::Find => {
                let (store, view) = (&self.store, &mut self.view);
                if let Some(FindAction::GoTo(frame)) =
                    self.find.show(ui, store, view, theme, summary)
                {
                    self.chosen_frame = Some(frame);
                }
            }
        }
    }

    /// Draws the metrics of the frames and those of the caller.
    fn metrics(
        &mut self,
        ui: &mut Ui,
        theme: &Theme,
        rows: &[MetricRow<'_>],
        summary: Option<&Summary>,
    ) {
        let (store, view) = (&self.store, &mut self.view);
        let catalog = std::sync::Arc::clone(store.catalog());
        let value = |column: u32| {
            let is_length = catalog
                .columns
                .get(column as usize)
                .is_some_and(|it| it.system && it.metric.name == "frame_ms");
            move |i: usize| {
                let frame = store.frames().get(i);
                // The duration is known immediately, even before the drain has delivered the frame.
                if is_length {
                    return frame.map_or(f64::NAN, FrameEntry::duration_ms);
                }
                frame
                    .and_then(|frame| frame.metric(column))
                    .unwrap_or(f64::NAN)
            }
        };
        let values: Vec<_> = (0..catalog.columns.len() as u32).map(value).collect();
        // The durations of frames come first, then the program's metrics, then the system's
        // metrics.
        let place = |at: usize| match &catalog.columns[at] {
            column if column.system && column.metric.name == "frame_ms" => 0,
            column if column.system => 2,
            _ => 1,
        };
        let row = |at: usize| MetricRow {
            name: &catalog.columns[at].metric.name,
            unit: &catalog.columns[at].metric.unit,
            integer: false,
            description: describe(&catalog.columns[at].metric.name, catalog.columns[at].system),
            values: &values[at],
            series: match place(at) {
                0 => Series::FrameLengths,
                _ => Series::Column(at as u32),
            },
        };
        let (row, place) = (&row, &place);
        let of = |wanted: u32| {
            (0..catalog.columns.len())
                .filter(move |at| place(*at) == wanted)
                .map(row)
        };
        let given = rows.iter().map(|row| MetricRow { ..*row });
        let all: Vec<MetricRow<'_>> = of(0).chain(given).chain(of(1)).chain(of(2)).collect();
        egui::ScrollArea::vertical()
            .id_salt("vor metrics")
            .auto_shrink(false)
            .show(ui, |ui| {
                let clicked_ns = self.plots.show(ui, store, view, theme, &all);
                let frame = clicked_ns.and_then(|ns| summary?.frame_at(ns));
                self.chosen_frame = frame.or(self.chosen_frame);
            });
    }

    /// Returns the slowest frame of a capture in the time that its bars show; `None` where they
    /// show the frames of the store.
    fn slowest_in_sight(&self, summary: &Summary) -> Option<u64> {
        let view = &self.view;
        let shown = view
            .shows_all_bars(&self.store)
            .then(|| view.flame_axis(&self.store))?;
        let time_ns = (shown.begin_ns as i64, shown.end_ns as i64);
        let slowest = slowest_frames(summary, Some(time_ns), 1);
        match slowest.first()?.place {
            FramePlace::Capture(place) => Some(place),
            FramePlace::Store(_) => None,
        }
    }

    /// Runs a command. If it leads to a frame of the capture that the store does not have, chooses
    /// that frame.
    fn obey(&mut self, command: Command) {
        match self.frame_beyond(command) {
            Some(frame) => {
                self.view.clear_selection();
                self.chosen_frame = Some(frame);
            }
            None => self.run_command(command),
        }
    }

    /// Returns the frame to which a command leads, if the store does not have it.
    fn frame_beyond(&self, command: Command) -> Option<u64> {
        let (view, Beyond { before, after }) = (&self.view, self.beyond);
        let pinned = view.pinned().and_then(|id| self.store.index_of(id));
        let is_last = pinned.is_none_or(|index| index + 1 == self.store.frames().len());
        let moves_span = view.focus.is_some();
        match command {
            Command::TogglePause if pinned.is_none() => after.map(|_| LAST_FRAME),
            Command::Next | Command::Previous if moves_span => None,
            // Without a pin, each of them leads to the newest frame.
            _ if pinned.is_none() && is_step(command) => after.map(|_| LAST_FRAME),
            Command::Next | Command::NextFrame if is_last => after,
            Command::Previous | Command::PreviousFrame if pinned == Some(0) => before,
            Command::FirstFrame => before.map(|_| 0),
            Command::LastFrame => after.map(|_| LAST_FRAME),
            _ => None,
        }
    }

    /// Runs the command of a key.
    fn run_command(&mut self, command: Command) {
        let (store, view, chart) = (&self.store, &mut self.view, &mut self.chart);
        match command {
            Command::TogglePause => view.toggle_pause(store),
            Command::Previous if view.focus.is_some() => {
                _ = chart.go(store, view, Direction::Previous)
            }
            Command::Next if view.focus.is_some() => _ = chart.go(store, view, Direction::Next),
            Command::Parent => _ = chart.go(store, view, Direction::Parent),
            Command::Child => _ = chart.go_in(store, view),
            Command::Bookmark => {
                if let Some(time_ns) = view.time_to_keep(store) {
                    let at = view.bookmarks.add(time_ns);
                    self.find.write_note(at, view);
                    self.tab = Tab::Find;
                }
            }
            Command::AlongArrow => _ = chart.go_along(store, view, true),
            Command::BackAlongArrow => _ = chart.go_along(store, view, false),
            Command::Previous | Command::PreviousFrame => view.step_pin(store, -1),
            Command::Next | Command::NextFrame => view.step_pin(store, 1),
            Command::ExtendLeft => view.extend_selection(store, -1),
            Command::ExtendRight => view.extend_selection(store, 1),
            Command::FirstFrame => view.step_pin(store, i64::MIN),
            Command::LastFrame => view.step_pin(store, i64::MAX),
            Command::SlowestFrame => view.pin_slowest(store),
            Command::ZoomIn | Command::ZoomOut => {
                let now = view.flame_axis(store);
                let anchor = view.pointed_ns().filter(|ns| now.contains(*ns));
                let anchor = anchor.unwrap_or(f64::midpoint(now.begin_ns, now.end_ns));
                view.zoom_by(
                    store,
                    anchor,
                    if command == Command::ZoomIn {
                        0.7
                    } else {
                        1.0 / 0.7
                    },
                );
            }
            Command::PanLeft => chart.pan(store, view, -0.15 * chart.width_px() as f64),
            Command::PanRight => chart.pan(store, view, 0.15 * chart.width_px() as f64),
            Command::ZoomToFocus => match view.time_selection().filter(|_| view.focus.is_none()) {
                Some((begin_ns, end_ns)) => view.zoom_to(begin_ns as f64, end_ns as f64),
                None => chart.zoom_to_focus(view),
            },
            Command::ResetZoom => view.reset_zoom(),
            Command::Search => self.wants_search = true,
            Command::NextMatch if self.tab == Tab::Find && self.find.listed() != Listed::Frames => {
                _ = self.find.step(store, view, true)
            }
            Command::NextMatch => _ = chart.go_to_match(store, view),
            Command::PreviousMatch => _ = self.find.step(store, view, false),
            Command::NextColors => {
                let at = ColorBy::ALL
                    .iter()
                    .position(|one| *one == chart.color_by())
                    .unwrap_or(0);
                chart.set_color_by(ColorBy::ALL[(at + 1) % ColorBy::ALL.len()]);
            }
            Command::ToggleTracks => {
                let any_open = chart.tracks().any(|track| !chart.is_collapsed(track));
                chart.set_all_collapsed(store, any_open);
            }
            Command::ToggleLoad => self.toggle_profiler_load(),
            Command::ShowMetrics => self.tab = Tab::Metrics,
            Command::ShowScopes => self.tab = Tab::Scopes,
            Command::ShowIcicle => self.tab = Tab::Icicle,
            Command::ShowCompare => self.tab = Tab::Compare,
            Command::ShowFind => self.tab = Tab::Find,
            Command::ToggleHelp => self.shows_help = !self.shows_help,
            Command::Leave => {
                if self.shows_help {
                    self.shows_help = false;
                } else if view.focus.is_some() {
                    view.focus = None;
                } else if view.selection().is_some() || view.time_selection().is_some() {
                    view.clear_selection();
                } else {
                    view.unpin();
                }
            }
        }
    }
}

/// Returns the typical durations of a scope's calls, from the table.
fn typical_durations(
    scopes: &ScopeTable,
    site: vor_capture::model::catalog::SiteId,
    kind: crate::store::TrackKind,
) -> Option<TypicalDurations> {
    let row = scopes
        .rows()?
        .rows
        .iter()
        .find(|row| row.site == site && row.kind == kind)?;
    Some(TypicalDurations {
        count: row.count,
        p50_ns: row.p50_ns,
        p95_ns: row.p95_ns,
        p99_ns: row.p99_ns,
        max_ns: row.max_ns,
    })
}

/// Returns the description of one of vor's own metrics.
fn describe(name: &str, system: bool) -> &'static str {
    if !system {
        return "recorded by the program";
    }
    match name {
        "frame_ms" => "time between two marks",
        "memory_mb" => "physical memory in use, in 10^6 bytes",
        "io_ms" => "time that the program reported as spent on I/O",
        "io_MB" => "what the program reported as read or written",
        "cpu_pct" => "CPU time of all threads; 100 is one core all the time",
        "page_faults" => "page faults, minor and major",
        "ctx_switches" => "context switches of all threads",
        "threads" => "threads alive at the end of the frame",
        "disk_read_MB" => "read from storage for the process",
        "disk_write_MB" => "written to storage for the process",
        _ => describe_gpu(name),
    }
}

/// Returns the description of a GPU metric, for any of several GPUs.
fn describe_gpu(name: &str) -> &'static str {
    let row = name.strip_prefix("gpu").unwrap_or(name);
    let row = row.trim_start_matches(|digit: char| digit.is_ascii_digit());
    match row.strip_prefix('_').unwrap_or(row) {
        "util" => "share of the time in which a kernel ran on the GPU",
        "power" => "power that the GPU draws",
        "mem" => "GPU memory in use by all processes, in 10^6 bytes",
        "clock" => "clock of the GPU's multiprocessors",
        "energy" => "energy that the GPU used in the frame",
        "temp" => "temperature of the GPU",
        "mem_total" => "GPU memory that there is, in 10^6 bytes",
        "mem_own" => "GPU memory in use by this process, in 10^6 bytes",
        "power_limit" => "power limit of the GPU that is in force",
        "throttle" => "why the GPU's clocks are held down, as NVML's bits",
        "throttle_power" => "1 while power holds the GPU's clocks down",
        "throttle_thermal" => "1 while heat holds the GPU's clocks down",
        "encoder" => "share of the time in which the GPU encoded video",
        "decoder" => "share of the time in which the GPU decoded video",
        "pcie" => "bytes between GPU and host in both directions",
        "pcie_tx" => "bytes from the GPU to the host",
        "pcie_rx" => "bytes from the host to the GPU",
        "sm" => "share of the time in which a multiprocessor had work, on average",
        "sm_occupancy" => "warps that were active, as a share of how many there can be",
        "tensor" => "share of the time in which tensor cores worked",
        "dram" => "share of the GPU memory's bandwidth that was used",
        "nvlink_tx" => "bytes over all NVLinks from the GPU",
        "nvlink_rx" => "bytes over all NVLinks to the GPU",
        _ => "",
    }
}

/// Returns the cost of an empty scope on this machine, in nanoseconds.
#[cfg(feature = "live")]
fn scope_cost_ns() -> u64 {
    use vor_recorder::setup;
    if setup::empty_span_ns() == 0 {
        setup::calibrate();
    }
    setup::empty_span_ns()
}

/// Without a recorder, scopes cost nothing.
#[cfg(not(feature = "live"))]
const fn scope_cost_ns() -> u64 {
    0
}
