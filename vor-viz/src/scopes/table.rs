//! The table of scopes: one row per call site, sorted and filtered.

use std::cmp::{Ordering, Reverse};

use egui::{TextEdit, Ui};
use rustc_hash::FxHashSet;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::measures::Measures;
use vor_capture::units;

use super::details;
use super::grid::{Column, Grid, Sort};
use super::job::Job;
use super::row_order::RowOrder;
use super::sums::{ScopeRow, ScopeRows, ScopeSums};
use super::{scope_caption, show_progress, show_waiting};
use crate::sheet::{Sheet, copy_buttons};
use crate::sketch::shortened;
use crate::store::{Extent, Store, TrackKind};
use crate::theme::Theme;
use crate::view::{Scope, View};

const COLUMNS: [Column; 10] = [
    Column {
        title: "name",
        hint: "What the scope is called",
        digits: 0.0,
    },
    Column {
        title: "count",
        hint: "How many of its spans these frames contain, in whole or in part",
        digits: 10.0,
    },
    Column {
        title: "total",
        hint: "How long any of them was open in these frames, threads together; a recursive call \
            adds nothing",
        digits: 9.0,
    },
    Column {
        title: "self",
        hint: "How long they took in these frames without the scopes inside them; tasks have none",
        digits: 9.0,
    },
    Column {
        title: "mean",
        hint: "How long one took on average from its begin to its end, recursive calls as well",
        digits: 9.0,
    },
    Column {
        title: "p50",
        hint: "Half of them took at most so long from begin to end",
        digits: 9.0,
    },
    Column {
        title: "p95",
        hint: "95 % of them took at most so long from begin to end",
        digits: 9.0,
    },
    Column {
        title: "p99",
        hint: "99 % of them took at most so long from begin to end",
        digits: 9.0,
    },
    Column {
        title: "max",
        hint: "How long the slowest took from its begin to its end",
        digits: 9.0,
    },
    Column {
        title: "share",
        hint: "The total of the time that these frames took; a thread adds at most 100 %",
        digits: 19.0,
    },
];

/// Hints of the columns that measure whole spans if that is switched on.
const WHOLE_HINTS: [(usize, &str); 4] = [
    (1, "How many of its spans ended in these frames"),
    (
        2,
        "How long any of those that ended in these frames was open, threads together; a recursive \
        call adds nothing",
    ),
    (
        3,
        "How long those that ended in these frames took without the scopes inside them; tasks have \
        none",
    ),
    (
        9,
        "The total of the time that these frames took; threads together, and spans that began \
        earlier, may take more than that",
    ),
];

/// Columns of other measured quantities, shown if measured.
const CPU: Column = Column {
    title: "cpu",
    hint: "How long its spans ran on a processor in these frames, with all inside them; a call \
        across the ends of the frames counts in proportion to its time in them",
    digits: 9.0,
};
const QUEUED: Column = Column {
    title: "queued",
    hint: "How long its spans were runnable and had no processor in these frames, with all inside \
        them; a call across the ends of the frames counts in proportion to its time in them",
    digits: 9.0,
};
const BLOCKED: Column = Column {
    title: "blocked",
    hint: "How long its spans waited for something else than a processor in these frames, with all \
        inside them; a call across the ends of the frames counts in proportion to its time in them",
    digits: 9.0,
};
const SWITCHES: Column = Column {
    title: "switches",
    hint: "How often the threads of its spans got a processor again, with all inside them: those \
        that ended in these frames, from begin to end",
    digits: 8.0,
};
const HELD_BY: Column = Column {
    title: "held by",
    hint: "The most frequent holder of the lock when a wait for it began, with its share of these \
        waits",
    digits: 26.0,
};
const ALLOC: Column = Column {
    title: "alloc",
    hint: "How much its spans allocated, with all inside them: those that ended in these frames, \
        from begin to end",
    digits: 10.0,
};

/// Hints of measured times if whole spans are switched on.
const WHOLE_CPU: &str = "How long those of its spans that ended in these frames ran on a \
    processor, with all inside them";
const WHOLE_QUEUED: &str = "How long those of its spans that ended in these frames were runnable \
    and had no processor, with all inside them";
const WHOLE_BLOCKED: &str = "How long those of its spans that ended in these frames waited for \
    something else than a processor, with all inside them";

/// A quantity that some scopes measure beside their duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Cpu,
    Queued,
    Blocked,
    Switches,
    Alloc,
}

impl Quantity {
    const ALL: [Self; 5] = [
        Self::Cpu,
        Self::Queued,
        Self::Blocked,
        Self::Switches,
        Self::Alloc,
    ];

    /// Returns those that a row has.
    fn measured(rows: &[ScopeRow]) -> Vec<Self> {
        let any = |measures: Measures| rows.iter().any(|row| row.measures.has(measures));
        let is_measured = |quantity: &Self| any(quantity.measures());
        Self::ALL.into_iter().filter(is_measured).collect()
    }

    fn measures(self) -> Measures {
        match self {
            Self::Cpu => Measures::CPU,
            Self::Queued | Self::Blocked => Measures::WAIT,
            Self::Switches => Measures::SWITCHES,
            Self::Alloc => Measures::ALLOC,
        }
    }

    fn column(self, extent: Extent) -> Column {
        let (column, whole_hint) = match self {
            Self::Cpu => (CPU, WHOLE_CPU),
            Self::Queued => (QUEUED, WHOLE_QUEUED),
            Self::Blocked => (BLOCKED, WHOLE_BLOCKED),
            Self::Switches => (SWITCHES, SWITCHES.hint),
            Self::Alloc => (ALLOC, ALLOC.hint),
        };
        match extent {
            Extent::Clipped => column,
            Extent::Whole => Column {
                hint: whole_hint,
                ..column
            },
        }
    }

    /// Returns the value of a row, in nanoseconds, bytes or switches.
    fn of(self, row: &ScopeRow) -> Option<u64> {
        match self {
            Self::Cpu => row.cpu_ns(),
            Self::Queued => row.waits_ns().map(|[queued, _]| queued),
            Self::Blocked => row.waits_ns().map(|[_, blocked]| blocked),
            Self::Switches => row.switches(),
            Self::Alloc => row.alloc_bytes(),
        }
    }

    fn text(self, value: u64) -> String {
        match self {
            Self::Switches => units::count(value),
            Self::Alloc => units::scaled(value as f64, "B"),
            _ => units::duration(value as f64),
        }
    }
}

/// Returns the columns of a table with some measured quantities, and with holders of locks.
fn columns(quantities: &[Quantity], has_holders: bool, extent: Extent) -> Vec<Column> {
    let mut columns = COLUMNS;
    if extent == Extent::Whole {
        for (column, hint) in WHOLE_HINTS {
            columns[column].hint = hint;
        }
    }
    let measured = quantities.iter().map(|quantity| quantity.column(extent));
    let held_by = has_holders.then_some(HELD_BY);
    columns.into_iter().chain(measured).chain(held_by).collect()
}

/// The initial order of the rows.
const BY_SELF: Sort = Sort {
    column: 3,
    descending: true,
};

/// Height of the details below the table, in points.
const DETAILS_HEIGHT: f32 = 250.0;

/// Identifies a row in any order.
type RowKey = (SiteId, TrackKind);

/// The table of scopes, with the details of the selected one.
#[derive(Clone, Debug)]
pub struct ScopeTable {
    job: Job<ScopeSums>,
    sort: Sort,
    /// The text that names must contain.
    filter: String,
    order: RowOrder,
    selected: Option<RowKey>,
    details_open: bool,
    /// Whether the table covers all frames of the axis, even if one of them is pinned.
    spans_axis: bool,
}

impl Default for ScopeTable {
    fn default() -> Self {
        Self {
            job: Job::default(),
            sort: BY_SELF,
            filter: String::new(),
            order: RowOrder::default(),
            selected: None,
            details_open: false,
            spans_axis: false,
        }
    }
}

impl ScopeTable {
    /// Returns the latest rows, in no particular order; `None` before the first result.
    #[must_use]
    pub fn rows(&self) -> Option<&ScopeRows> {
        self.job.output()
    }

    /// Returns the indices in [`rows`](Self::rows) of the rows in the last pass, from top to
    /// bottom.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        self.order.shown()
    }

    /// Returns the call site of the selected row, and whether the row holds its scopes or its
    /// tasks.
    #[must_use]
    pub fn selected(&self) -> Option<(SiteId, TrackKind)> {
        self.selected
    }

    /// Selects the scopes or the tasks of a call site, and shows their details.
    pub fn select(&mut self, site: SiteId, kind: TrackKind) {
        self.selected = Some((site, kind));
        self.details_open = true;
    }

    /// Returns whether rows are being computed.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.job.progress().is_some()
    }

    /// Computes all rows in one pass, for screenshots and tests.
    ///
    /// If the store holds only a part of a capture, the answers come in later passes instead.
    pub fn finish(&mut self, store: &Store, view: &View) {
        let scope = self.scope(store, view);
        if !view.asks(scope) {
            self.job.finish(store, scope, &view.extent);
        }
    }

    /// Shows the table in all available space.
    pub fn show(&mut self, ui: &mut Ui, store: &Store, view: &mut View, theme: &Theme) {
        let scope = self.scope(store, view);
        self.job
            .advance(ui, store, view.spans(), scope, &view.extent);
        self.tools(ui, store, view, scope);
        self.sort_rows();
        let Some(result) = self.job.output() else {
            show_waiting(ui, view, scope, "counting", self.job.progress());
            return;
        };
        let rows: Vec<&ScopeRow> = self
            .order
            .shown()
            .iter()
            .filter_map(|&i| result.rows.get(i))
            .collect();
        if rows.is_empty() {
            let text = if result.rows.is_empty() {
                no_spans(view.extent)
            } else {
                "No name contains this text."
            };
            ui.weak(text);
            return;
        }
        let key = |row: &ScopeRow| (row.site, row.kind);
        let details = self.selected.filter(|_| self.details_open);
        let details =
            details.and_then(|selected| result.rows.iter().find(|row| key(row) == selected));
        let available = ui.available_height();
        let below = if details.is_some() {
            DETAILS_HEIGHT.min(available * 0.6)
        } else {
            0.0
        };
        let quantities = Quantity::measured(&result.rows);
        let has_holders = result.rows.iter().any(|row| row.holder.is_some());
        let columns = columns(&quantities, has_holders, view.extent);
        let grid = Grid {
            id: ui.scope_id().with("scopes"),
            columns: &columns,
            rows: rows.len(),
            selected: self
                .selected
                .and_then(|selected| rows.iter().position(|row| key(row) == selected)),
            dimmed: self.job.is_dimmed(),
            height: available - below,
            row_role: "scope",
        };
        let catalog = store.catalog();
        let modes = catalog.scope_modes.incomplete();
        let response = grid.show(
            ui,
            theme,
            &mut self.sort,
            |i| rows[i].name.to_string(),
            |i, cells| {
                let row = rows[i];
                let mode = modes.binary_search_by_key(&row.site, |known| known.0);
                let mode = mode.ok().map(|at| modes[at].1.to_string());
                let note = match &mode {
                    Some(mode) => mode,
                    None if row.is_task() => "task",
                    None => "",
                };
                cells.name(theme.site(catalog.site(row.site)), &row.name, note);
                cells.number(&units::count(row.count));
                cells.number(&units::duration(row.total_ns as f64));
                if row.is_task() {
                    cells.weak("–");
                } else {
                    cells.number(&units::duration(row.self_ns as f64));
                }
                cells.number(&units::duration(row.mean_ns()));
                for ns in [row.p50_ns, row.p95_ns, row.p99_ns, row.max_ns] {
                    cells.number(&units::duration(ns as f64));
                }
                let share = share(row, result.time_ns);
                cells.bar(share as f32, &percent(share), theme.line);
                for quantity in &quantities {
                    match quantity.of(row) {
                        Some(value) => cells.number(&quantity.text(value)),
                        None => cells.weak("–"),
                    }
                }
                if has_holders {
                    cells.number(&held_by(row));
                }
            },
            |i, ui| describe(ui, catalog, rows[i]),
        );
        if let Some(row) = response.clicked {
            self.selected = Some(key(rows[row]));
            self.details_open = true;
        }
        if let Some(row) = response.moved_to {
            self.selected = Some(key(rows[row]));
        }
        if response.entered && self.selected.is_some() {
            self.details_open = !self.details_open;
        }
        let Some(row) = details else {
            return;
        };
        let did = details::show(ui, store, view, theme, row);
        self.details_open &= !did.closed;
        // Otherwise the table would show only the pinned frame, without its other slowest calls.
        self.spans_axis |= did.pinned;
    }

    fn scope(&self, store: &Store, view: &View) -> Option<Scope> {
        if self.spans_axis && view.time_selection().is_none() {
            view.wide_scope(store)
        } else {
            view.scope(store)
        }
    }

    /// Shows the toolbar above the table.
    fn tools(&mut self, ui: &mut Ui, store: &Store, view: &mut View, scope: Option<Scope>) {
        ui.horizontal_wrapped(|ui| {
            ui.strong(scope_caption(store, scope));
            let one_pinned = view.pinned().is_some()
                && view.selection().is_none()
                && view.time_selection().is_none();
            if one_pinned && store.frames().len() > 1 {
                ui.checkbox(&mut self.spans_axis, "all frames")
                    .on_hover_text("Speaks of all frames though one is pinned");
            }
            extent_switch(ui, &mut view.extent);
            if let Some(result) = self.job.output() {
                let scopes = units::count(result.rows.len() as u64);
                ui.weak(format!(
                    "{scopes} scopes, {} spans",
                    units::count(result.spans)
                ));
            }
            let missing = self.not_recorded(store.catalog());
            if !missing.is_empty() {
                let count = units::count(missing.len() as u64);
                ui.weak(format!("{count} not recorded"))
                    .on_hover_text(format!(
                        "A rule kept these scopes from being recorded: {}",
                        missing.join(", ")
                    ));
            }
            if let Some(progress) = self.job.progress().filter(|_| self.job.is_dimmed()) {
                show_progress(ui, "counting", progress);
            }
            filter_field(ui, &mut self.filter, "filter scopes");
            if ui
                .button("search")
                .on_hover_text("Searches the flame chart for this text")
                .clicked()
            {
                view.search.clone_from(&self.filter);
            }
            copy_buttons(ui, &TITLES, |sheet| self.fill(sheet, store.catalog()));
        });
    }

    /// Returns the names of the scopes that have no row because a rule kept them from being
    /// recorded, each with its mode.
    fn not_recorded(&self, catalog: &Catalog) -> Vec<String> {
        let mut silent = catalog.scope_modes.incomplete();
        let rows = self.job.output().map_or(&[][..], |result| &result.rows);
        let shown: FxHashSet<SiteId> = rows.iter().map(|row| row.site).collect();
        silent.retain(|(site, mode)| mode.is_silent() && !shown.contains(site));
        let names = silent.into_iter();
        names
            .map(|(site, mode)| format!("{} {mode}", catalog.site_name(site)))
            .collect()
    }

    /// Filters and sorts the rows again, if the inputs of the order changed.
    fn sort_rows(&mut self) {
        let generation = self.job.generation();
        if !self.order.restart(generation, self.sort, &self.filter) {
            return;
        }
        let Some(result) = self.job.output() else {
            return;
        };
        let quantities = Quantity::measured(&result.rows);
        self.order.fill(
            &result.rows,
            |row, filter| row.lower_name.contains(filter),
            |column, a, b| {
                let quantity = column.checked_sub(COLUMNS.len());
                match quantity.map(|at| quantities.get(at)) {
                    None => compare(column, a, b),
                    Some(Some(quantity)) => quantity.of(a).cmp(&quantity.of(b)),
                    // A first click sorts in descending order, and names from a to z.
                    Some(None) => holder_place(a).cmp(&holder_place(b)),
                }
            },
            |a, b| {
                let by_name = a.lower_name.cmp(&b.lower_name);
                by_name.then_with(|| (a.site, a.kind).cmp(&(b.site, b.kind)))
            },
        );
    }

    /// Appends the shown rows.
    fn fill(&self, sheet: &mut Sheet, catalog: &Catalog) {
        let Some(result) = self.job.output() else {
            return;
        };
        let shown = self.order.shown().iter();
        for row in shown.filter_map(|&i| result.rows.get(i)) {
            let site = catalog.site(row.site);
            let own_ns = (!row.is_task()).then_some(row.self_ns);
            let known = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
            let mut fields = vec![
                row.name.to_string(),
                row.kind.of_span().to_owned(),
                site.map_or(String::new(), |site| site.module_path.to_string()),
                site.map_or(String::new(), |site| site.file.to_string()),
                site.map_or(0, |site| site.line).to_string(),
                row.count.to_string(),
                row.total_ns.to_string(),
                known(own_ns),
                format!("{:.1}", row.mean_ns()),
            ];
            let durations = [row.min_ns, row.p50_ns, row.p95_ns, row.p99_ns, row.max_ns];
            fields.extend(durations.map(|ns| ns.to_string()));
            fields.extend(Quantity::ALL.map(|quantity| known(quantity.of(row))));
            let holder = row.holder.as_ref();
            fields.push(holder.map_or(String::new(), |(holder, _)| holder.to_string()));
            fields.push(known(holder.map(|(_, waits)| *waits)));
            sheet.row(fields);
        }
    }
}

/// The titles of copied rows.
const TITLES: [&str; 21] = [
    "name",
    "kind",
    "module",
    "file",
    "line",
    "count",
    "total_ns",
    "self_ns",
    "mean_ns",
    "min_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "max_ns",
    "cpu_ns",
    "queued_ns",
    "blocked_ns",
    "context_switches",
    "alloc_bytes",
    "held_by",
    "held_by_waits",
];

fn compare(column: usize, a: &ScopeRow, b: &ScopeRow) -> Ordering {
    match column {
        0 => a.lower_name.cmp(&b.lower_name),
        1 => a.count.cmp(&b.count),
        // A share sorts like a total.
        2 | 9 => a.total_ns.cmp(&b.total_ns),
        // Tasks come after all rows with a self time.
        3 => (!a.is_task(), a.self_ns).cmp(&(!b.is_task(), b.self_ns)),
        4 => a.mean_ns().total_cmp(&b.mean_ns()),
        5 => a.p50_ns.cmp(&b.p50_ns),
        6 => a.p95_ns.cmp(&b.p95_ns),
        7 => a.p99_ns.cmp(&b.p99_ns),
        _ => a.max_ns.cmp(&b.max_ns),
    }
}

/// Returns a row's total as a share of some time; it may exceed 1.
fn share(row: &ScopeRow, time_ns: u64) -> f64 {
    row.total_ns as f64 / time_ns.max(1) as f64
}

/// Shows the switch between the parts of spans within the frames and whole spans.
pub(crate) fn extent_switch(ui: &mut Ui, extent: &mut Extent) {
    let mut is_whole = *extent == Extent::Whole;
    let hint = "Off: all spans in these frames, with their time within them. On: the spans that \
        ended in these frames, with all their time, even before them.";
    let switch = ui.checkbox(&mut is_whole, "whole spans");
    if switch.on_hover_text(hint).changed() {
        *extent = if is_whole {
            Extent::Whole
        } else {
            Extent::Clipped
        };
    }
}

/// Returns the text that stands for an empty table.
pub(crate) fn no_spans(extent: Extent) -> &'static str {
    match extent {
        Extent::Clipped => "No spans are in these frames.",
        Extent::Whole => "No spans ended in these frames.",
    }
}

/// Shows a text field that filters scopes by name.
pub(crate) fn filter_field(ui: &mut Ui, filter: &mut String, accessible_name: &str) {
    let field = TextEdit::singleline(filter)
        .align(egui::Align2::LEFT_CENTER)
        .hint_text("filter")
        .desired_width(160.0);
    ui.add(field)
        .on_hover_text("Only scopes whose name contains this, in upper or lower case")
        .accessible_name(accessible_name);
}

/// Returns a share as text: `0.04 %`, `12.3 %`, `340 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        "–".to_owned()
    } else if percent >= 99_999.5 {
        "> 99999 %".to_owned()
    } else if percent != 0.0 && percent.abs() < 0.1 {
        format!("{percent:.2} %")
    } else if percent.abs() < 99.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Returns the place of a row in the order of holders. Rows without one come first.
fn holder_place(row: &ScopeRow) -> impl Ord {
    (row.holder.is_some(), Reverse(&row.holder))
}

/// Returns the most frequent holder of a row, with its share if there are others.
fn held_by(row: &ScopeRow) -> String {
    match &row.holder {
        None => String::new(),
        Some((holder, waits)) if *waits == row.count => holder.to_string(),
        Some((holder, waits)) => {
            let share = percent(*waits as f64 / row.count.max(1) as f64);
            format!("{holder}, {share}")
        }
    }
}

/// Returns the note of a row whose measured times contain estimates.
fn estimate_note(row: &ScopeRow) -> String {
    let times = match row.measures.has(Measures::WAIT) {
        true => "cpu, queued and blocked are estimates",
        false => "cpu is an estimate",
    };
    let calls = match row.estimates {
        1 => "1 call that goes beyond these frames counts".to_owned(),
        calls => format!(
            "{} calls that go beyond these frames count",
            units::count(calls)
        ),
    };
    format!("{times}: {calls} in proportion to the time within.")
}

/// Shows the tooltip of a row.
fn describe(ui: &mut Ui, catalog: &Catalog, row: &ScopeRow) {
    ui.strong(shortened(&row.name));
    if let Some(site) = catalog.site(row.site) {
        if !site.module_path.is_empty() {
            ui.weak(shortened(&site.module_path));
        }
        if !site.file.is_empty() {
            ui.weak(format!("{}:{}", shortened(&site.file), site.line));
        }
    }
    let [min, p50, max] = [row.min_ns, row.p50_ns, row.max_ns].map(|ns| units::duration(ns as f64));
    ui.label(format!(
        "{} calls, {min} to {max}, half of them up to {p50}",
        units::count(row.count)
    ));
    let late = row.count.saturating_sub(row.ended_count);
    if late > 0 {
        ui.label(format!("{} of them end later", units::count(late)));
    }
    if let Some((holder, waits)) = &row.holder {
        let holder = holder.to_string();
        ui.label(format!(
            "held by {} when {} of them began",
            shortened(&holder),
            units::count(*waits)
        ));
    }
    if row.estimates > 0 {
        ui.label(estimate_note(row));
    }
    ui.weak("Click for its histogram and its slowest calls.");
}
