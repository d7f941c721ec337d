//! The comparison: a table of the largest changes, and the stacks below, coloured by change.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use egui::{Color32, Rgba, Ui};
use rustc_hash::FxHasher;
use vor_capture::units;

use super::Side;
use super::merged::{BothSums, Merged, MergedRow, NameTable, Per, SideSums, SideWork, relation};
use crate::icicle::boxes::{Boxes, NodeBox};
use crate::icicle::show::{BoxView, Click, Zoom};
use crate::icicle::tree::{NONE, ROOT};
use crate::palette;
use crate::scopes::grid::{Column, Grid, Sort};
use crate::scopes::row_order::RowOrder;
use crate::scopes::signed;
use crate::scopes::{Job, extent_switch, filter_field, percent, scope_caption, show_progress};
use crate::sheet::copy_buttons;
use crate::sketch::shortened;
use crate::store::{Extent, TrackKind};
use crate::theme::Theme;

const COLUMNS: [Column; 13] = [
    Column {
        title: "name",
        hint: "What the scope is called",
        digits: 0.0,
    },
    Column {
        title: "change",
        hint: "How much longer it takes per frame in B",
        digits: 10.0,
    },
    Column {
        title: "change %",
        hint: "The same as a part of what it takes in A",
        digits: 8.0,
    },
    Column {
        title: "A ms/frame",
        hint: "How long any of its spans is open per frame in A",
        digits: 10.0,
    },
    Column {
        title: "B ms/frame",
        hint: "How long any of its spans is open per frame in B",
        digits: 10.0,
    },
    Column {
        title: "A calls",
        hint: "How many spans it has per frame in A; one across the ends of the frames counts",
        digits: 7.0,
    },
    Column {
        title: "B calls",
        hint: "How many spans it has per frame in B; one across the ends of the frames counts",
        digits: 7.0,
    },
    Column {
        title: "A mean",
        hint: "How long one takes on average in A, also before and after the frames",
        digits: 8.0,
    },
    Column {
        title: "B mean",
        hint: "How long one takes on average in B, also before and after the frames",
        digits: 8.0,
    },
    Column {
        title: "A p50",
        hint: "Half of them take at most so long in A",
        digits: 8.0,
    },
    Column {
        title: "B p50",
        hint: "Half of them take at most so long in B",
        digits: 8.0,
    },
    Column {
        title: "A p99",
        hint: "99 % of them take at most so long in A",
        digits: 8.0,
    },
    Column {
        title: "B p99",
        hint: "99 % of them take at most so long in B",
        digits: 8.0,
    },
];

/// Titles and hints of the columns whose values are per second where a side is a range of time.
const PER_SECOND: [(usize, &str, &str); 5] = [
    (1, "change", "How much longer it takes per second in B"),
    (
        3,
        "A ms/s",
        "How long any of its spans is open per second of A",
    ),
    (
        4,
        "B ms/s",
        "How long any of its spans is open per second of B",
    ),
    (5, "A calls/s", "How many spans it has per second of A"),
    (6, "B calls/s", "How many spans it has per second of B"),
];

/// Returns the columns.
fn columns(per: Per) -> [Column; 13] {
    let mut columns = COLUMNS;
    if per == Per::Second {
        for (at, title, hint) in PER_SECOND {
            (columns[at].title, columns[at].hint) = (title, hint);
        }
    }
    columns
}

/// The initial order of the rows: by the size of the change in either direction.
const BY_CHANGE: Sort = Sort {
    column: 1,
    descending: true,
};

/// Two sides, compared.
#[derive(Clone, Debug)]
pub struct Compare {
    sides: [Job<SideWork>; 2],
    names: NameTable,
    merged: Option<Merged>,
    /// Generations of the sides from which `merged` was made, and the number of merges.
    merged_of: [u64; 2],
    generation: u64,
    sort: Sort,
    filter: String,
    order: RowOrder,
    selected: Option<(Box<str>, Box<str>, TrackKind)>,
    zoom: Zoom<u32>,
    boxes: Boxes,
}

impl Default for Compare {
    fn default() -> Self {
        Self {
            sides: Default::default(),
            names: NameTable::default(),
            merged: None,
            merged_of: [0; 2],
            generation: 0,
            sort: BY_CHANGE,
            filter: String::new(),
            order: RowOrder::default(),
            selected: None,
            zoom: Zoom::default(),
            boxes: Boxes::default(),
        }
    }
}

impl Compare {
    /// Returns the latest comparison; `None` before both sides are computed.
    #[must_use]
    pub fn merged(&self) -> Option<&Merged> {
        self.merged.as_ref()
    }

    /// Returns the indices of the rows that the last pass showed, from top to bottom.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        self.order.shown()
    }

    /// Returns the names of the zoomed stack, from below the root down; empty for all.
    #[must_use]
    pub fn zoomed_to(&self) -> Vec<&str> {
        self.zoom
            .path
            .iter()
            .map(|&number| self.names.name(number))
            .collect()
    }

    /// Compares everything in one pass, for screenshots and tests.
    pub fn finish(&mut self, left: &Side<'_>, right: &Side<'_>, extent: Extent) {
        for (job, side) in self.sides.iter_mut().zip([left, right]) {
            job.finish(side.store, Some(side.scope), &extent);
        }
        self.merge(left, right);
    }

    /// Shows the comparison in all available space. The left side is A, the earlier state; the
    /// right side is B.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        left: &Side<'_>,
        right: &Side<'_>,
        extent: &mut Extent,
        theme: &Theme,
    ) {
        for (job, side) in self.sides.iter_mut().zip([left, right]) {
            job.advance(ui, side.store, side.spans, Some(side.scope), extent);
        }
        self.merge(left, right);
        self.tools(ui, left, right, extent);
        self.sort_rows();
        if self.merged.is_none() {
            let empty = [left, right].map(Side::is_empty);
            ui.weak(match empty {
                [true, _] => "A has no frames.",
                [_, true] => "B has no frames.",
                _ => "comparing …",
            });
            return;
        }
        if self.order.shown().is_empty() {
            ui.weak("No scopes to compare.");
            return;
        }
        let height = ui.available_height();
        self.table(ui, [left, right], theme, height * 0.52);
        self.icicle(ui, theme);
    }

    /// Merges the sides again if one of them changed.
    fn merge(&mut self, left: &Side<'_>, right: &Side<'_>) {
        let generations = [0, 1].map(|side| self.sides[side].generation());
        if self.merged_of == generations {
            return;
        }
        self.merged_of = generations;
        self.generation += 1;
        let [Some(a), Some(b)] = [0, 1].map(|side| self.sides[side].output()) else {
            self.merged = None;
            return;
        };
        let catalogs = [&**left.store.catalog(), &**right.store.catalog()];
        let per = Per::of([left, right]);
        let divisors = [per.divisor(left, a), per.divisor(right, b)];
        let merged = Merged::new(&mut self.names, catalogs, [a, b], per, divisors);
        self.merged = Some(merged);
    }

    fn tools(&mut self, ui: &mut Ui, left: &Side<'_>, right: &Side<'_>, extent: &mut Extent) {
        ui.horizontal_wrapped(|ui| {
            for (letter, side, job) in [("A", left, &self.sides[0]), ("B", right, &self.sides[1])] {
                ui.strong(letter);
                ui.label(format!(
                    "{}, {}",
                    side.name,
                    scope_caption(side.store, Some(side.scope))
                ));
                if let Some(progress) = job.progress() {
                    show_progress(ui, "counting", progress);
                }
            }
            extent_switch(ui, extent);
            filter_field(ui, &mut self.filter, "filter compared scopes");
            let per = self.merged.as_ref().map_or(Per::Frame, |merged| merged.per);
            copy_buttons(ui, &titles(per), |sheet| {
                let rows = self.merged.as_ref().map_or(&[][..], |merged| &merged.rows);
                let shown = self.order.shown().iter();
                shown
                    .filter_map(|&i| rows.get(i))
                    .for_each(|row| sheet.row(fields(row)));
            });
        });
    }

    fn sort_rows(&mut self) {
        if !self.order.restart(self.generation, self.sort, &self.filter) {
            return;
        }
        let Some(merged) = &self.merged else {
            return;
        };
        self.order.fill(
            &merged.rows,
            |row, filter| filter.is_empty() || row.name.to_lowercase().contains(filter),
            order_of,
            |a, b| (&a.name, &a.module_path, a.kind).cmp(&(&b.name, &b.module_path, b.kind)),
        );
    }

    fn table(&mut self, ui: &mut Ui, sides: [&Side<'_>; 2], theme: &Theme, height: f32) {
        let Some(merged) = &self.merged else {
            return;
        };
        let rows: Vec<&MergedRow> = self
            .order
            .shown()
            .iter()
            .filter_map(|&i| merged.rows.get(i))
            .collect();
        let is_selected = |row: &MergedRow| {
            let selected = self.selected.as_ref();
            selected.is_some_and(|(name, module, kind)| {
                (name, module, *kind) == (&row.name, &row.module_path, row.kind)
            })
        };
        let grid = Grid {
            id: ui.scope_id().with("compared"),
            columns: &columns(merged.per),
            rows: rows.len(),
            selected: rows.iter().position(|row| is_selected(row)),
            dimmed: self.sides.iter().any(Job::is_dimmed),
            height,
            row_role: "compared scope",
        };
        let response = grid.show(
            ui,
            theme,
            &mut self.sort,
            |i| rows[i].name.to_string(),
            |i, cells| {
                let row = rows[i];
                let note = match row.sides {
                    [Some(_), None] => "only in A",
                    [None, Some(_)] => "only in B",
                    _ if row.kind == TrackKind::Tasks => "task",
                    _ => "",
                };
                let catalog = sides[usize::from(row.sides[1].is_some())].store.catalog();
                cells.name(theme.site(catalog.site(row.site)), &row.name, note);
                let color = text_color(theme, row.relation());
                cells.colored(&signed(row.change_ns(), units::duration), color);
                match row.change_part() {
                    Some(part) => cells.colored(&signed(part, percent), color),
                    None => cells.weak("–"),
                }
                let both = |cells: &mut crate::scopes::grid::RowPainter<'_>,
                            text: &dyn Fn(&SideSums) -> String| {
                    for side in &row.sides {
                        match side {
                            Some(side) => cells.number(&text(side)),
                            None => cells.weak("–"),
                        }
                    }
                };
                both(cells, &|side| milliseconds(side.frame_ns));
                both(cells, &|side| units::three_digits(side.frame_count));
                both(cells, &|side| units::duration(side.mean_ns));
                both(cells, &|side| units::duration(side.p50_ns as f64));
                both(cells, &|side| units::duration(side.p99_ns as f64));
            },
            |i, ui| {
                ui.strong(shortened(&rows[i].name));
                if !rows[i].module_path.is_empty() {
                    ui.weak(shortened(&rows[i].module_path));
                }
            },
        );
        if let Some(row) = response
            .clicked
            .or(response.moved_to)
            .and_then(|i| rows.get(i))
        {
            self.selected = Some((row.name.clone(), row.module_path.clone(), row.kind));
        }
    }

    fn icicle(&mut self, ui: &mut Ui, theme: &Theme) {
        let Some(merged) = &self.merged else {
            return;
        };
        let (tree, names) = (&merged.tree, &self.names);
        ui.separator();
        ui.horizontal_wrapped(|ui| {
            self.zoom
                .crumbs(ui, |&number| names.name(number).to_owned());
            ui.colored_label(theme.bad_text, "slower in B");
            ui.colored_label(theme.good_text, "faster in B");
            ui.weak("A box is as wide as both sides together.");
        });
        let color = |place: &NodeBox| match tree.node(place.node) {
            None => theme.grid,
            Some(node) => change_color(theme, relation(node.sums.frame_ns)),
        };
        let name = |node: u32, key: u32| if node == ROOT { "all" } else { names.name(key) };
        let occurs = |place: &NodeBox, key: u32| match place.node {
            ROOT => [false; 2],
            _ => merged.occurs(key),
        };
        let label = |place: &NodeBox| {
            let text = tree.node(place.node).map_or_else(String::new, |node| {
                let change = stack_change(&node.sums, occurs(place, node.key));
                format!("{} {change}", name(place.node, node.key))
            });
            (text, palette::text_on(color(place)))
        };
        let mut hasher = FxHasher::default();
        theme.dark.hash(&mut hasher);
        let shown = BoxView {
            tree,
            generation: self.generation,
            top: tree.follow(&self.zoom.path),
            colors: hasher.finish(),
            name: "icicle of both sides",
        };
        let clicked = shown.show(ui, theme, &mut self.boxes, color, label, |place, ui| {
            if place.node == NONE {
                ui.strong("others");
                ui.label(format!(
                    "{} stacks, too narrow to be shown",
                    units::count(place.nodes.into())
                ));
            } else if let Some(node) = tree.node(place.node) {
                ui.strong(shortened(name(place.node, node.key)));
                describe(ui, &node.sums, occurs(place, node.key), merged.per);
            }
            ui.weak("Click to zoom in, double-click to zoom out.");
        });
        match clicked {
            Click::Nothing => {}
            Click::Once(node) => self.zoom.click(tree.path(node)),
            Click::Twice => self.zoom.double_click(),
        }
    }
}

/// Returns the titles of copied rows.
fn titles(per: Per) -> [&'static str; 13] {
    let [a_ns, b_ns, a_calls, b_calls] = match per {
        Per::Frame => [
            "a_ns_per_frame",
            "b_ns_per_frame",
            "a_calls_per_frame",
            "b_calls_per_frame",
        ],
        Per::Second => [
            "a_ns_per_second",
            "b_ns_per_second",
            "a_calls_per_second",
            "b_calls_per_second",
        ],
    };
    [
        "name",
        "module",
        "kind",
        a_ns,
        b_ns,
        a_calls,
        b_calls,
        "a_mean_ns",
        "b_mean_ns",
        "a_p50_ns",
        "b_p50_ns",
        "a_p99_ns",
        "b_p99_ns",
    ]
}

/// Returns a row to be copied.
fn fields(row: &MergedRow) -> Vec<String> {
    let mut fields = vec![
        row.name.to_string(),
        row.module_path.to_string(),
        row.kind.of_span().to_owned(),
    ];
    let values: [&dyn Fn(&SideSums) -> String; 5] = [
        &|side| format!("{:.1}", side.frame_ns),
        &|side| side.frame_count.to_string(),
        &|side| format!("{:.1}", side.mean_ns),
        &|side| side.p50_ns.to_string(),
        &|side| side.p99_ns.to_string(),
    ];
    for value in values {
        let sides = row.sides.iter();
        fields.extend(sides.map(|side| side.as_ref().map_or(String::new(), value)));
    }
    fields
}

/// Returns the change of a stack as text. `occurs` is whether its innermost scope is in any stack
/// of a side.
fn stack_change(sums: &BothSums, occurs: [bool; 2]) -> String {
    let [left, right] = sums.frame_ns;
    // A stack without time is in the frames nevertheless.
    match sums.frame_count.map(|count| count > 0.0) {
        [true, false] if occurs[1] => "here only in A".to_owned(),
        [true, false] => "only in A".to_owned(),
        [false, true] if occurs[0] => "here only in B".to_owned(),
        [false, true] => "only in B".to_owned(),
        _ if left > 0.0 => signed(right / left - 1.0, percent),
        _ => signed(right - left, units::duration),
    }
}

/// Shows the card of a stack on both sides.
fn describe(ui: &mut Ui, sums: &BothSums, occurs: [bool; 2], per: Per) {
    for (letter, (ns, count)) in ["A", "B"]
        .iter()
        .zip(sums.frame_ns.iter().zip(sums.frame_count))
    {
        let calls = units::three_digits(count);
        ui.label(format!(
            "{letter}: {} per {} in {calls} calls",
            units::duration(*ns),
            per.name()
        ));
    }
    let [left, right] = sums.frame_ns;
    ui.label(format!("change: {}", signed(right - left, units::duration)));
    for (letter, (count, occurs)) in ["A", "B"].iter().zip(sums.frame_count.iter().zip(occurs)) {
        if *count == 0.0 && occurs {
            ui.weak(format!("In {letter}, the scope is in other stacks only."));
        }
    }
}

fn order_of(column: usize, a: &MergedRow, b: &MergedRow) -> Ordering {
    let by = |value: fn(&SideSums) -> f64| {
        // The odd columns belong to A.
        let side = (column + 1) % 2;
        let of = |row: &MergedRow| row.sides[side].as_ref().map_or(-1.0, value);
        of(a).total_cmp(&of(b))
    };
    match column {
        0 => a.name.to_lowercase().cmp(&b.name.to_lowercase()),
        1 => a.change_ns().abs().total_cmp(&b.change_ns().abs()),
        2 => {
            let part = |row: &MergedRow| row.change_part().map_or(-1.0, f64::abs);
            part(a).total_cmp(&part(b))
        }
        3 | 4 => by(|side| side.frame_ns),
        5 | 6 => by(|side| side.frame_count),
        7 | 8 => by(|side| side.mean_ns),
        9 | 10 => by(|side| side.p50_ns as f64),
        _ => by(|side| side.p99_ns as f64),
    }
}

/// Returns a time in milliseconds without its unit, so that neighbours are easy to compare.
fn milliseconds(ns: f64) -> String {
    let ms = ns / 1e6;
    if ms < 10.0 {
        format!("{ms:.4}")
    } else {
        format!("{ms:.2}")
    }
}

/// Returns how strongly a change is coloured, from 0 to 1: the colour is full for changes by half
/// and more.
fn intensity(relation: f64) -> f32 {
    (relation.abs() as f32 * 2.0).clamp(0.0, 1.0)
}

fn mix(from: Color32, to: Color32, part: f32) -> Color32 {
    (Rgba::from(from) * (1.0 - part) + Rgba::from(to) * part).into()
}

/// Returns the colour of a box: grey where nothing changed.
fn change_color(theme: &Theme, relation: f64) -> Color32 {
    let grey = Color32::from_gray(if theme.dark { 150 } else { 215 });
    let full = if relation > 0.0 {
        theme.bad
    } else {
        theme.good
    };
    mix(grey, full, intensity(relation))
}

fn text_color(theme: &Theme, relation: f64) -> Color32 {
    let full = if relation > 0.0 {
        theme.bad_text
    } else {
        theme.good_text
    };
    mix(theme.text, full, intensity(relation))
}
