//! The list of the calls of a scope, with the distribution of their durations beside it.

use egui::{Align, Layout, Ui, vec2};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::units;

use super::filters::Filters;
use super::instances::{FindOptions, Found, Instance, Instances};
use super::page::Order;
use super::paged::{Listing, Paged};
use super::pages::{PageFound, Step};
use crate::flame::{seek, thread_name};
use crate::frame_axis::NARROW_WIDTH;
use crate::scopes::grid::{Column, Grid, Sort};
use crate::scopes::histogram::{self, Distribution};
use crate::scopes::{extent_switch, scope_caption, show_waiting};
use crate::sheet::copy_buttons;
use crate::sketch::shortened;
use crate::store::{Span, Store, TrackKind};
use crate::theme::{Theme, space};
use crate::view::{Scope, View};

const COLUMNS: [Column; 5] = [
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
    // Only in the list of the waits for a lock.
    Column {
        title: "held by",
        hint: "The scope and thread that held the lock when the wait began; of a task, the scope",
        digits: 26.0,
    },
];

/// Number of columns that a narrow list leaves out: the tooltip has the arguments.
const HIDDEN_IF_NARROW: usize = 1;

/// The columns by which calls are sorted.
const BEGIN: usize = 2;
const DURATION: usize = 3;
const HELD_BY: usize = 4;

/// Width of the histogram beside the list, as a share, and the least of it in points.
const HISTOGRAM_SHARE: f32 = 0.32;
const MIN_HISTOGRAM_WIDTH: f32 = 240.0;

/// Height of the histogram below a narrow list, and of the list above it at least, in points.
const HISTOGRAM_HEIGHT: f32 = 120.0;
const MIN_LIST_HEIGHT: f32 = 120.0;

/// Identifies a call in the list.
type CallId = (ThreadId, TrackKind, Span);

/// The list.
#[derive(Clone, Debug, Default)]
pub(super) struct CallList {
    paged: Paged<Instances, Filters>,
    filters: Filters,
    order: Order,
    selected: Option<CallId>,
}

impl CallList {
    /// Makes the list of another scope in the same order.
    pub(super) fn in_same_order(&self) -> Self {
        Self {
            order: self.order,
            ..Self::default()
        }
    }

    /// Returns the calls that were found, unless others are being looked for.
    pub(super) fn found(&self) -> Option<&Found> {
        self.paged.found()
    }

    pub(super) fn set_order(&mut self, order: Order) {
        if self.order != order {
            self.order = order;
            self.paged.restart();
        }
    }

    fn options(&mut self, site: SiteId, view: &View, catalog: &Catalog) -> FindOptions {
        let mut options = FindOptions::all_of(site, catalog);
        self.filters.apply(&mut options, catalog);
        options.extent = view.extent;
        options.order = self.order;
        options.after = self.paged.after();
        options
    }

    /// Does all work in one pass.
    pub(super) fn finish(
        &mut self,
        site: SiteId,
        store: &Store,
        view: &View,
        scope: Option<Scope>,
    ) {
        let options = self.options(site, view, store.catalog());
        self.paged.finish(store, scope, &options);
    }

    /// Goes to the next call or to the previous one. Returns whether there is one.
    pub(super) fn step(&mut self, store: &Store, view: &mut View, forward: bool) -> bool {
        let at = self.found().zip(self.selected);
        let at = at.and_then(|(found, id)| position(found, id));
        match self.paged.step(at, forward) {
            Step::Row(row) => self.go_to(row, store, view),
            Step::OtherPage => true,
            Step::Nowhere => false,
        }
    }

    fn go_to(&mut self, row: usize, store: &Store, view: &mut View) -> bool {
        let Some(call) = self.paged.output().and_then(|found| found.listed.get(row)) else {
            return false;
        };
        self.selected = Some((call.thread, call.kind, call.span));
        seek(store, view, call.thread, call.kind, &call.span)
    }

    /// Shows the line above the list, with `choose` in it, and the list.
    pub(super) fn show(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        (site, scope): (SiteId, Option<Scope>),
        choose: impl FnOnce(&mut Ui, &View),
    ) {
        self.paged.restart_for(scope, &self.filters);
        let catalog = store.catalog();
        let options = self.options(site, view, catalog);
        if let Some(row) = self.paged.advance(ui, store, view, scope, &options) {
            self.go_to(row, store, view);
        }
        ui.horizontal_wrapped(|ui| {
            ui.strong(scope_caption(store, scope));
            choose(ui, view);
            extent_switch(ui, &mut view.extent);
            self.filters.show(ui, theme);
            self.paged.show_pages(ui, "calls");
            if let Some(found) = self.paged.output() {
                copy_buttons(
                    ui,
                    &[
                        "scope",
                        "kind",
                        "thread",
                        "begin_ns",
                        "ns",
                        "arguments",
                        "held_by",
                    ],
                    |sheet| {
                        let zero_ns = view.zero_ns(store) as i64;
                        for call in &found.listed {
                            sheet.row([
                                catalog.site_name(call.span.site),
                                call.kind.of_span(),
                                &thread_name(call.thread, catalog),
                                &call.span.begin_ns.saturating_sub(zero_ns).to_string(),
                                &call.span.duration_ns.to_string(),
                                &call.args,
                                &call.holder,
                            ]);
                        }
                    },
                );
            }
        });
        let Some(found) = self.paged.output() else {
            show_waiting(ui, view, scope, "looking for calls", self.paged.progress());
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
        let is_narrow = size.x < NARROW_WIDTH;
        let hidden = match is_narrow {
            true => HIDDEN_IF_NARROW,
            false => 0,
        };
        let below = match size.y < MIN_LIST_HEIGHT + HISTOGRAM_HEIGHT {
            true => 0.0,
            false => HISTOGRAM_HEIGHT,
        };
        let histogram_width = (size.x * HISTOGRAM_SHARE).max(MIN_HISTOGRAM_WIDTH);
        let list_width = (size.x - histogram_width).max(size.x * 0.5);
        let (list_size, layout) = match is_narrow {
            true => (vec2(size.x, size.y - below), Layout::top_down(Align::Min)),
            false => (
                vec2(list_width - space::PART, size.y),
                Layout::left_to_right(Align::Min),
            ),
        };
        let mut chosen = None;
        ui.with_layout(layout, |ui| {
            ui.allocate_ui_with_layout(list_size, Layout::top_down(Align::Min), |ui| {
                chosen = self.list(ui, store, view, theme, hidden);
            });
            let Some(found) = self.paged.output() else {
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
            if !is_narrow || below > 0.0 {
                let size = ui.available_size() - vec2(space::TEXT, 0.0);
                histogram::show(ui, theme, &distribution, size);
            }
        });
        if let Some(row) = chosen {
            self.go_to(row, store, view);
        }
    }

    /// Shows the list without its first `hidden` columns; returns the row that was chosen in it.
    fn list(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &View,
        theme: &Theme,
        hidden: usize,
    ) -> Option<usize> {
        let found = self.paged.output()?;
        let catalog = store.catalog();
        let zero_ns = view.zero_ns(store);
        let begin = |call: &Instance| units::duration(call.span.begin_ns as f64 - zero_ns);
        // The arguments name the holder, too.
        let has_holders = hidden == 0 && found.listed.iter().any(|call| !call.holder.is_empty());
        let columns = COLUMNS.len() - usize::from(!has_holders);
        let grid = Grid {
            id: ui.scope_id().with("calls"),
            columns: &COLUMNS[hidden..columns],
            rows: found.listed.len(),
            selected: self.selected.and_then(|id| position(found, id)),
            dimmed: self.paged.is_dimmed(),
            height: ui.available_height(),
            row_role: "call",
        };
        let mut sort = sort_of(self.order);
        sort.column -= hidden;
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
                let color = theme.site(catalog.site(call.span.site));
                let thread = thread_name(call.thread, catalog);
                match hidden {
                    0 => {
                        cells.name(color, &call.args, note);
                        cells.number(&thread);
                    }
                    _ => cells.name(color, &thread, note),
                }
                cells.number(&begin(call));
                cells.number(&units::duration(call.span.duration_ns as f64));
                if has_holders {
                    cells.number(&call.holder);
                }
            },
            |i, ui| {
                let call = &found.listed[i];
                ui.strong(shortened(catalog.site_name(call.span.site)));
                if !call.args.is_empty() {
                    ui.label(&*call.args);
                }
                ui.label(format!("on {}", thread_name(call.thread, catalog)));
                ui.weak("Click to show it in the flame chart; N and Shift+N go on from there.");
            },
        );
        let chosen = response.clicked.or(response.moved_to);
        sort.column += hidden;
        if response.sorted
            && let Some(order) = order_of(sort)
        {
            self.set_order(order);
        }
        chosen
    }
}

impl Listing for Found {
    fn page(&self) -> PageFound {
        PageFound {
            rows: self.listed.len(),
            last: self.listed.last().map(|call| call.rank),
            before: self.before,
            count: self.count,
            all: self.all,
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
        // A first click on a title sorts in descending order; names begin with a.
        Order::Holder => (HELD_BY, true),
        Order::HolderReversed => (HELD_BY, false),
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
        (HELD_BY, true) => Some(Order::Holder),
        (HELD_BY, false) => Some(Order::HolderReversed),
        _ => None,
    }
}
