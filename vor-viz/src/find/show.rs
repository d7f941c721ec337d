//! The tab: what is listed, the filters, the list, and the distribution beside it.

use egui::{Align, ComboBox, Layout, PopupCloseBehavior, ScrollArea, TextEdit, Ui, vec2};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::units;

use super::filters::Filters;
use super::instances::{FindOptions, Found, Instance, Instances, Order, PAGE, Rank};
use super::slow_frames::{FramePlace, SlowFrames};
use crate::flame::{seek, thread_name};
use crate::replay::Summary;
use crate::scopes::grid::{Column, Grid, Sort};
use crate::scopes::histogram::{self, Distribution};
use crate::scopes::{Job, extent_switch, scope_caption, waiting_text};
use crate::sketch::shortened;
use crate::store::{Span, Store, TrackKind};
use crate::theme::Theme;
use crate::view::{Scope, View};

const CALL_COLUMNS: [Column; 4] = [
    Column {
        title: "arguments",
        hint: "The values that the call recorded",
        digits: 0.0,
    },
    Column {
        title: "thread",
        hint: "The thread of the call; of a task, the one on which it ended",
        digits: 18.0,
    },
    Column {
        title: "begin",
        hint: "When it began, from the begin of the scale above the flame chart",
        digits: 12.0,
    },
    Column {
        title: "duration",
        hint: "How long it took from its begin to its end",
        digits: 10.0,
    },
];

const FRAME_COLUMNS: [Column; 3] = [
    Column {
        title: "frame",
        hint: "The number of the frame; in a capture, frames count from 0",
        digits: 0.0,
    },
    Column {
        title: "begin",
        hint: "When it began, from the begin of the scale above the flame chart",
        digits: 12.0,
    },
    Column {
        title: "duration",
        hint: "How long it took",
        digits: 10.0,
    },
];

/// The columns by which calls are sorted.
const BEGIN: usize = 2;
const DURATION: usize = 3;

/// Width of the histogram beside the list, as a share, and the least of it in points.
const HISTOGRAM_SHARE: f32 = 0.32;
const MIN_HISTOGRAM_WIDTH: f32 = 240.0;

/// Most scopes in the menu; a text finds the others.
const MAX_CHOICES: usize = 200;

/// Identifies a call in the list.
type CallId = (ThreadId, TrackKind, Span);

/// A row to go to as soon as its page is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    First,
    Last,
}

/// The tab.
#[derive(Clone, Debug, Default)]
pub struct Find {
    /// The scope whose calls are listed; `None` for frames.
    site: Option<SiteId>,
    job: Job<Instances>,
    filters: Filters,
    order: Order,
    /// The last places of the pages before this one.
    pages: Vec<Rank>,
    selected: Option<CallId>,
    arriving: Option<Edge>,
    /// The range of the last pass, and the filters: others begin at the first page.
    listed_of: Option<(Option<Scope>, Filters)>,
    /// The text in the menu of scopes.
    choice: String,
    slow: SlowFrames,
}

/// The choices in the tab.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FindAction {
    /// A frame of the capture, counted from 0.
    GoTo(u64),
}

impl Find {
    /// Lists the calls of a scope from now on; `None` lists the slowest frames.
    pub fn set_site(&mut self, site: Option<SiteId>) {
        if self.site != site {
            self.site = site;
            self.job = Job::default();
            self.filters = Filters::default();
            self.selected = None;
            self.first_page();
        }
    }

    /// Returns the scope whose calls are listed.
    #[must_use]
    pub fn site(&self) -> Option<SiteId> {
        self.site
    }

    /// Returns the calls that were found, unless others are being looked for.
    #[must_use]
    pub fn found(&self) -> Option<&Found> {
        self.job.output().filter(|_| !self.job.is_dimmed())
    }

    /// Sets the order of calls.
    pub fn set_order(&mut self, order: Order) {
        if self.order != order {
            self.order = order;
            self.first_page();
        }
    }

    /// Forgets everything that was found.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            order: self.order,
            ..Self::default()
        };
    }

    fn first_page(&mut self) {
        self.pages.clear();
        self.arriving = None;
    }

    /// Returns the range of the list: the selected one, else everything, although a frame is
    /// pinned. Otherwise the list would end where one goes to a call.
    fn scope(store: &Store, view: &View) -> Option<Scope> {
        match view.time_selection() {
            Some(_) => view.scope(store),
            None => view.wide_scope(store),
        }
    }

    fn options(&mut self, site: SiteId, view: &View, catalog: &Catalog) -> FindOptions {
        let mut options = FindOptions::all_of(site, catalog);
        self.filters.apply(&mut options, catalog);
        options.extent = view.extent;
        options.order = self.order;
        options.after = self.pages.last().copied();
        options
    }

    /// Does all work in one pass, for screenshots and tests.
    pub fn finish(&mut self, store: &Store, view: &View) {
        let scope = Self::scope(store, view);
        if let Some(site) = self.site
            && !view.asks(scope)
        {
            let options = self.options(site, view, store.catalog());
            self.job.finish(store, scope, &options);
        }
    }

    /// Goes to the next call of the list, or to the previous one; beyond the page, to the next or
    /// previous page. Returns whether there is one.
    pub fn step(&mut self, store: &Store, view: &mut View, forward: bool) -> bool {
        let Some(found) = self.job.output().filter(|_| !self.job.is_dimmed()) else {
            return false;
        };
        let at = self.selected.and_then(|id| position(found, id));
        let to = match (at, forward) {
            (None, true) => Some(0),
            (None, false) => found.listed.len().checked_sub(1),
            (Some(at), true) => Some(at + 1),
            (Some(at), false) => at.checked_sub(1),
        };
        if let Some(call) = to.and_then(|to| found.listed.get(to)).cloned() {
            return self.go_to(&call, store, view);
        }
        match (forward, found.has_more(), found.listed.last()) {
            (true, true, Some(last)) => {
                self.pages.push(last.rank);
                self.arriving = Some(Edge::First);
            }
            // After the last call comes the first one.
            (true, false, Some(first)) if self.pages.is_empty() => {
                let first = found.listed.first().unwrap_or(first).clone();
                return self.go_to(&first, store, view);
            }
            (true, false, Some(_)) => {
                self.pages.clear();
                self.arriving = Some(Edge::First);
            }
            (false, ..) if self.pages.pop().is_some() => self.arriving = Some(Edge::Last),
            _ => return false,
        }
        true
    }

    fn go_to(&mut self, call: &Instance, store: &Store, view: &mut View) -> bool {
        self.selected = Some((call.thread, call.kind, call.span));
        seek(store, view, call.thread, call.kind, &call.span)
    }

    /// Shows the tab in all available space. `summary` is of all frames of a capture.
    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        summary: Option<&Summary>,
    ) -> Option<FindAction> {
        let scope = Self::scope(store, view);
        match self.site {
            Some(site) => {
                self.calls(ui, store, view, theme, scope, site);
                None
            }
            None => self.frames(ui, store, view, theme, scope, summary),
        }
    }

    /// Shows the menu of what is listed.
    fn choose(&mut self, ui: &mut Ui, store: &Store, view: &View) {
        let catalog = store.catalog();
        let name = match self.site {
            Some(site) => shortened(catalog.site_name(site)).into_owned(),
            None => "slowest frames".to_owned(),
        };
        let mut chosen = None;
        let combo = ComboBox::from_id_salt("vor find")
            .selected_text(name)
            .width(220.0)
            .close_behavior(PopupCloseBehavior::CloseOnClickOutside)
            .show_ui(ui, |ui| {
                ui.add(TextEdit::singleline(&mut self.choice).hint_text("name of a scope"))
                    .accessible_name("name of the scope to list");
                if ui
                    .selectable_label(self.site.is_none(), "slowest frames")
                    .clicked()
                {
                    chosen = Some(None);
                }
                ScrollArea::vertical().max_height(320.0).show(ui, |ui| {
                    let (names, more) = choices(catalog, &self.choice);
                    for (site, name) in names {
                        let is_it = self.site == Some(site);
                        if ui.selectable_label(is_it, shortened(name)).clicked() {
                            chosen = Some(Some(site));
                        }
                    }
                    if more > 0 {
                        ui.weak(format!("{} more", units::count(more as u64)));
                    }
                });
                if chosen.is_some() {
                    ui.close();
                }
            });
        combo.response.accessible_name("what is listed");
        let focused = view.focus.map(|focus| focus.span.site);
        if let Some(site) = focused.filter(|_| focused != self.site) {
            let name = shortened(catalog.site_name(site)).into_owned();
            let button = ui.button(format!("calls of {name}"));
            if button
                .on_hover_text("Lists the calls of the span in focus")
                .clicked()
            {
                chosen = Some(Some(site));
            }
        }
        if let Some(site) = chosen {
            self.set_site(site);
        }
    }

    fn calls(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        scope: Option<Scope>,
        site: SiteId,
    ) {
        let now = (scope, self.filters.clone());
        if self.listed_of.as_ref() != Some(&now) {
            // A growing selection of all frames is still the same list.
            self.first_page();
            self.listed_of = Some(now);
        }
        let catalog = store.catalog();
        let options = self.options(site, view, catalog);
        self.job.advance(ui, store, view.spans(), scope, &options);
        if let Some(edge) = self.arriving.filter(|_| !self.job.is_dimmed())
            && let Some(found) = self.job.output()
        {
            self.arriving = None;
            let call = match edge {
                Edge::First => found.listed.first(),
                Edge::Last => found.listed.last(),
            };
            if let Some(call) = call.cloned() {
                self.go_to(&call, store, view);
            }
        }
        ui.horizontal_wrapped(|ui| {
            ui.strong(scope_caption(store, scope));
            self.choose(ui, store, view);
            extent_switch(ui, &mut view.extent);
            self.filters.show(ui, theme);
            self.pages(ui);
        });
        let Some(found) = self.job.output() else {
            ui.weak(waiting_text(view, scope, "looking for calls"));
            return;
        };
        if found.listed.is_empty() {
            ui.weak(match self.filters.is_empty() {
                true => "This scope has no calls here.",
                false => "No call passes the filters.",
            });
            return;
        }
        let size = ui.available_size();
        let histogram_width = (size.x * HISTOGRAM_SHARE).max(MIN_HISTOGRAM_WIDTH);
        let list_width = (size.x - histogram_width).max(size.x * 0.5);
        let mut clicked = None;
        ui.horizontal_top(|ui| {
            let layout = Layout::top_down(Align::Min);
            ui.allocate_ui_with_layout(vec2(list_width - 8.0, size.y), layout, |ui| {
                clicked = self.list(ui, store, view, theme);
            });
            let Some(found) = self.job.output() else {
                return;
            };
            let distribution = Distribution {
                name: catalog.site_name(site),
                histogram: &found.histogram,
                min_ns: found.min_ns,
                p50_ns: found.percentile_ns(0.50),
                p95_ns: found.percentile_ns(0.95),
                p99_ns: found.percentile_ns(0.99),
                max_ns: found.max_ns,
            };
            let size = vec2(ui.available_width() - 4.0, size.y);
            histogram::show(ui, theme, &distribution, size);
        });
        if let Some(call) = clicked {
            self.go_to(&call, store, view);
        }
    }

    /// Shows how many calls there are, and the pages.
    fn pages(&mut self, ui: &mut Ui) {
        let Some(found) = self.job.output() else {
            return;
        };
        let count = |value: u64| units::count(value);
        let text = match found.all == found.count {
            true => format!("{} calls", count(found.count)),
            false => format!("{} of {} calls", count(found.count), count(found.all)),
        };
        ui.weak(text);
        let has_more = found.has_more();
        if has_more || !self.pages.is_empty() {
            let first = found.before + 1;
            let last = found.before + found.listed.len() as u64;
            let next = found
                .listed
                .last()
                .map(|call| call.rank)
                .filter(|_| has_more);
            let hint = format!("{} calls are listed at a time", units::count(PAGE as u64));
            let before = ui.add_enabled(!self.pages.is_empty(), egui::Button::new("‹").small());
            ui.weak(format!("{} to {}", count(first), count(last)))
                .on_hover_text(&hint);
            let after = ui.add_enabled(next.is_some(), egui::Button::new("›").small());
            if before.on_hover_text("Calls before these").clicked() {
                self.pages.pop();
                self.arriving = None;
            }
            if after.on_hover_text("Calls after these").clicked() {
                self.pages.extend(next);
                self.arriving = None;
            }
        }
        if let Some(progress) = self.job.progress().filter(|_| self.job.is_dimmed()) {
            ui.weak(format!("looking {:.0} %", progress * 100.0));
        }
    }

    /// Shows the list; returns the call that was chosen in it.
    fn list(&mut self, ui: &mut Ui, store: &Store, view: &View, theme: &Theme) -> Option<Instance> {
        let found = self.job.output()?;
        let catalog = store.catalog();
        let zero_ns = view.zero_ns(store);
        let begin = |call: &Instance| units::duration(call.span.begin_ns as f64 - zero_ns);
        let grid = Grid {
            id: ui.scope_id().with("calls"),
            columns: &CALL_COLUMNS,
            rows: found.listed.len(),
            selected: self.selected.and_then(|id| position(found, id)),
            dimmed: self.job.is_dimmed(),
            height: ui.available_height(),
            row_role: "call",
        };
        let mut sort = sort_of(self.order);
        let response = grid.show(
            ui,
            theme,
            &mut sort,
            |i| format!("{} at {}", i + 1, begin(&found.listed[i])),
            |i, cells| {
                let call = &found.listed[i];
                let note = match call.kind {
                    TrackKind::Scopes => "",
                    TrackKind::Tasks => "task",
                };
                cells.name(theme.site(catalog.site(call.span.site)), &call.args, note);
                cells.number(&thread_name(call.thread, catalog));
                cells.number(&begin(call));
                cells.number(&units::duration(call.span.duration_ns as f64));
            },
            |i, ui| {
                let call = &found.listed[i];
                ui.strong(shortened(catalog.site_name(call.span.site)));
                if !call.args.is_empty() {
                    ui.label(&*call.args);
                }
                ui.weak("Click to show it in the flame chart; N and Shift+N go on from there.");
            },
        );
        let chosen = response.clicked.or(response.moved_to);
        let chosen = chosen.and_then(|row| found.listed.get(row)).cloned();
        if response.sorted
            && let Some(order) = order_of(sort)
        {
            self.set_order(order);
        }
        chosen
    }

    fn frames(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        scope: Option<Scope>,
        summary: Option<&Summary>,
    ) -> Option<FindAction> {
        self.slow.update(store, view, scope, summary);
        let is_all = view.time_selection().is_none() && view.selection().is_none();
        ui.horizontal_wrapped(|ui| {
            ui.strong(match summary {
                // A followed capture has more frames than the store.
                Some(_) if is_all => "whole capture".to_owned(),
                _ => scope_caption(store, scope),
            });
            self.choose(ui, store, view);
            let listed = units::count(self.slow.frames.len() as u64);
            ui.weak(match summary.filter(|_| is_all) {
                Some(summary) => format!(
                    "the {listed} slowest of {} frames",
                    units::count(summary.durations_ms().len() as u64)
                ),
                None => format!("{listed} frames, the slowest first"),
            });
        });
        let frames = &self.slow.frames;
        if frames.is_empty() {
            ui.weak("There are no frames here.");
            return None;
        }
        let zero_ns = view.zero_ns(store);
        let pinned = view.pinned();
        let pinned_ns = pinned
            .and_then(|id| store.frame(id))
            .map(|frame| frame.begin_ns);
        let is_pinned = |place: FramePlace, begin_ns: i64| match place {
            FramePlace::Store(id) => pinned == Some(id),
            FramePlace::Capture(frame) => pinned_ns.is_some_and(|ns| {
                let known = summary.and_then(|summary| summary.frame_at(ns.saturating_add(1)));
                known == Some(frame) || ns == begin_ns
            }),
        };
        let grid = Grid {
            id: ui.scope_id().with("frames"),
            columns: &FRAME_COLUMNS,
            rows: frames.len(),
            selected: frames
                .iter()
                .position(|frame| is_pinned(frame.place, frame.begin_ns)),
            dimmed: false,
            height: ui.available_height(),
            row_role: "slow frame",
        };
        let duration = |i: usize| units::duration(f64::from(frames[i].duration_ms) * 1e6);
        // The slowest come first; there is no other order.
        let mut sort = Sort {
            column: 2,
            descending: true,
        };
        let response = grid.show(
            ui,
            theme,
            &mut sort,
            |i| units::count(frames[i].number),
            |i, cells| {
                cells.name(theme.line, &units::count(frames[i].number), "");
                cells.number(&units::duration(frames[i].begin_ns as f64 - zero_ns));
                cells.number(&duration(i));
            },
            |i, ui| {
                ui.strong(format!("frame {}", units::count(frames[i].number)));
                ui.weak("Click to pin it.");
            },
        );
        let chosen = response.clicked.or(response.moved_to);
        match frames.get(chosen?)?.place {
            FramePlace::Capture(frame) => Some(FindAction::GoTo(frame)),
            FramePlace::Store(id) => {
                view.pin(id);
                None
            }
        }
    }
}

fn position(found: &Found, (thread, kind, span): CallId) -> Option<usize> {
    let is_it = |call: &Instance| (call.thread, call.kind, call.span) == (thread, kind, span);
    found.listed.iter().position(is_it)
}

fn sort_of(order: Order) -> Sort {
    let (column, descending) = match order {
        Order::Longest => (DURATION, true),
        Order::Shortest => (DURATION, false),
        Order::Latest => (BEGIN, true),
        Order::Earliest => (BEGIN, false),
    };
    Sort { column, descending }
}

/// Returns the order of a column; `None` if calls cannot be sorted by it.
fn order_of(sort: Sort) -> Option<Order> {
    match (sort.column, sort.descending) {
        (DURATION, true) => Some(Order::Longest),
        (DURATION, false) => Some(Order::Shortest),
        (BEGIN, true) => Some(Order::Latest),
        (BEGIN, false) => Some(Order::Earliest),
        _ => None,
    }
}

/// Returns the scopes whose names contain a text, by name, and the number of those left out.
fn choices<'a>(catalog: &'a Catalog, text: &str) -> (Vec<(SiteId, &'a str)>, usize) {
    let text = text.trim().to_lowercase();
    let sites = (1..).map(SiteId).zip(catalog.sites.iter());
    let named = sites.filter_map(|(id, site)| Some((id, &*site.as_ref()?.name)));
    let mut all: Vec<(SiteId, &str)> = named
        .filter(|(_, name)| text.is_empty() || name.to_lowercase().contains(&text))
        .collect();
    all.sort_by_key(|(id, name)| (*name, *id));
    let more = all.len().saturating_sub(MAX_CHOICES);
    all.truncate(MAX_CHOICES);
    (all, more)
}
