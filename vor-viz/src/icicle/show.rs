//! The icicle: boxes, clicks on them, and searches.

use std::hash::{Hash, Hasher};

use egui::{
    Color32, CursorIcon, FontId, Rect, Role, ScrollArea, Sense, Stroke, StrokeKind, Ui, WidgetInfo,
    vec2,
};
use rustc_hash::FxHasher;
use vor_capture::model::catalog::Catalog;
use vor_capture::units;

use super::boxes::{Boxes, NodeBox, area};
use super::callers::Callers;
use super::tree::{NONE, ROOT, StackKey, StackOptions, StackSums, Stacks};
use crate::palette;
use crate::scopes::{Job, extent_switch, no_spans, scope_caption, show_progress, show_waiting};
use crate::sketch::shortened;
use crate::store::Store;
use crate::theme::{Theme, text};
use crate::view::View;

/// The zoomed stack of an icicle, from below the root down. It stays valid when the tree is
/// rebuilt.
type Path<K> = Vec<K>;

/// Maximum number of buttons for the stack that is zoomed to; the middle of a deeper stack is left
/// out.
const MAX_CRUMBS: usize = 24;

/// Zooming by clicks and by crumbs, for trees of any keys.
#[derive(Clone, Debug)]
pub(crate) struct Zoom<K> {
    pub(crate) path: Path<K>,
    /// The path before the last click, which may become a double click.
    before: Path<K>,
}

impl<K> Default for Zoom<K> {
    fn default() -> Self {
        Self {
            path: Vec::new(),
            before: Vec::new(),
        }
    }
}

impl<K: Copy> Zoom<K> {
    /// Zooms into a clicked stack.
    pub(crate) fn click(&mut self, path: Path<K>) {
        self.before = std::mem::replace(&mut self.path, path);
    }

    /// Zooms out by one level. The first click of a double click has already zoomed in.
    pub(crate) fn double_click(&mut self) {
        self.path = std::mem::take(&mut self.before);
        self.path.pop();
    }

    /// Shows the zoomed stack as buttons that zoom out.
    pub(crate) fn crumbs(&mut self, ui: &mut Ui, name: impl Fn(&K) -> String) {
        let mut keep = None;
        if ui
            .add_enabled(!self.path.is_empty(), egui::Button::new("all").small())
            .on_hover_text("Shows all stacks again")
            .clicked()
        {
            keep = Some(0);
        }
        let left_out = MAX_CRUMBS / 2..self.path.len().saturating_sub(MAX_CRUMBS / 2);
        for (i, key) in self.path.iter().enumerate() {
            if left_out.contains(&i) {
                if i == left_out.start {
                    ui.weak(format!("… {} more …", units::count(left_out.len() as u64)));
                }
                continue;
            }
            let is_last = i + 1 == self.path.len();
            let button = egui::Button::new(shortened(&name(key))).small().truncate();
            let hint = if is_last {
                "This is over the whole width"
            } else {
                "Zooms out to this"
            };
            if ui
                .add_enabled(!is_last, button)
                .on_hover_text(hint)
                .on_disabled_hover_text(hint)
                .clicked()
            {
                keep = Some(i + 1);
            }
        }
        if let Some(keep) = keep {
            self.path.truncate(keep);
            self.before.clone_from(&self.path);
        }
    }
}

/// The result of a search in a tree.
#[derive(Clone, Debug, Default)]
struct SearchHits {
    made_for: Option<(u64, String)>,
    /// For each node, whether its own name matches.
    nodes: Vec<bool>,
    /// The part of the total time that matches.
    share: f64,
}

/// The merged stacks of the viewed frames, as boxes whose width is time.
#[derive(Clone, Debug, Default)]
pub struct Icicle {
    job: Job<Stacks>,
    options: StackOptions,
    /// Whether stacks are turned around.
    shows_callers: bool,
    callers: Callers,
    zoom: Zoom<StackKey>,
    boxes: Boxes,
    found: SearchHits,
}

impl Icicle {
    /// Returns the latest stacks; `None` before the first result.
    #[must_use]
    pub fn stacks(&self) -> Option<&Stacks> {
        self.job.output()
    }

    /// Returns the zoomed stack, from below the root down; empty for all.
    #[must_use]
    pub fn zoomed_to(&self) -> &[StackKey] {
        &self.zoom.path
    }

    /// Zooms to a stack that is given from below the root down.
    pub fn zoom_to(&mut self, path: Vec<StackKey>) {
        self.zoom.click(path);
    }

    /// Returns the part of the total time in matches of the search, from 0 to 1; `None` without a
    /// search.
    #[must_use]
    pub fn found_share(&self) -> Option<f64> {
        self.found.made_for.as_ref().map(|_| self.found.share)
    }

    /// Returns whether stacks are being merged.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.job.progress().is_some()
    }

    /// Merges all stacks in one pass, for screenshots and tests.
    ///
    /// If the store holds only a part of a capture, the answers come in later passes instead.
    pub fn finish(&mut self, store: &Store, view: &View) {
        self.options.extent = view.extent;
        let scope = view.scope(store);
        if !view.asks(scope) {
            self.job.finish(store, scope, &self.options);
        }
    }

    /// Shows the icicle in all available space.
    pub fn show(&mut self, ui: &mut Ui, store: &Store, view: &mut View, theme: &Theme) {
        let scope = view.scope(store);
        self.options.extent = view.extent;
        self.job
            .advance(ui, store, view.spans(), scope, &self.options);
        let catalog = store.catalog();
        let merged = self.job.output();
        if let Some(stacks) = merged.filter(|_| self.shows_callers)
            && !self.callers.advance(stacks, self.job.generation())
        {
            ui.ctx().request_repaint();
        }
        // The number changes whenever the shown stacks do.
        let shown = match (merged, self.shows_callers) {
            (None, _) => Err(self.job.progress()),
            (Some(stacks), false) => Ok((stacks, 2 * self.job.generation())),
            (Some(stacks), true) => match self.callers.latest() {
                Some((turned, generation)) => Ok((turned, 2 * generation + 1)),
                None => Err(Some(self.callers.progress(stacks))),
            },
        };
        match shown {
            Ok((stacks, generation)) => {
                self.found.search(stacks, generation, catalog, &view.search);
            }
            Err(_) => self.found = SearchHits::default(),
        }
        let shows_callers = self.shows_callers;
        ui.horizontal_wrapped(|ui| {
            ui.strong(scope_caption(store, scope));
            ui.checkbox(&mut self.options.by_thread, "by thread")
                .on_hover_text("Keeps the stacks of different threads apart");
            let callers = ui.checkbox(&mut self.shows_callers, "callers").on_hover_text(
                "Turns the stacks around: each scope with its own time, and below it who called it",
            );
            if callers.changed() {
                self.zoom = Zoom::default();
            }
            extent_switch(ui, &mut view.extent);
            if let Ok((stacks, _)) = shown {
                summary(ui, stacks);
            }
            if let Some(progress) = self.job.progress().filter(|_| self.job.is_dimmed()) {
                show_progress(ui, "merging", progress);
            }
            let copies = ui.button("Copy stacks").on_hover_text(
                "Copies a line for each stack: its names with `;` between, and the nanoseconds of \
                 its innermost scope, as flamegraph tools read them",
            );
            if copies.clicked()
                && let Ok((stacks, _)) = shown
            {
                ui.ctx().copy_text(folded(stacks, catalog));
            }
            if self.found.made_for.is_some() {
                let share = crate::scopes::percent(self.found.share);
                ui.colored_label(theme.text, format!("“{}” takes {share}", view.search))
                    .on_hover_text(
                        "Time in scopes that the search is for, with all inside them, \
                        of the time in all scopes",
                    );
            }
        });
        let (stacks, generation) = match shown {
            Ok(shown) => shown,
            Err(progress) => {
                show_waiting(ui, view, scope, "merging", progress);
                return;
            }
        };
        if stacks.tree.nodes().len() < 2 {
            ui.weak(no_spans(view.extent));
            return;
        }
        ui.horizontal_wrapped(|ui| self.zoom.crumbs(ui, |key| name(catalog, *key)));
        let top = stacks.tree.follow(&self.zoom.path);
        let found = &self.found;
        let is_found = |place: &NodeBox| {
            found
                .nodes
                .get(place.node as usize)
                .copied()
                .unwrap_or(false)
        };
        let dimmed = self.job.is_dimmed();
        // A dimmed box has the colour of the ground.
        let is_dim = |place: &NodeBox| dimmed || (found.made_for.is_some() && !is_found(place));
        let color = |place: &NodeBox| {
            let color = match stacks.tree.node(place.node) {
                None => theme.grid,
                Some(_) if place.node == ROOT => {
                    Color32::from_gray(if theme.dark { 150 } else { 205 })
                }
                Some(node) => match node.key {
                    StackKey::Thread(thread) => theme.thread(catalog, thread),
                    StackKey::Scope(site) => theme.site(catalog.site(site)),
                },
            };
            if is_dim(place) {
                theme.dimmed(color)
            } else {
                color
            }
        };
        let whole_ns = stacks
            .tree
            .nodes()
            .first()
            .map_or(0, |root| root.sums.total_ns);
        let label = |place: &NodeBox| {
            let Some(node) = stacks.tree.node(place.node) else {
                return (String::new(), theme.text);
            };
            let share = crate::scopes::percent(node.sums.total_ns as f64 / whole_ns.max(1) as f64);
            let color = palette::text_on(color(place));
            if place.node == ROOT {
                return (format!("all {share}"), color);
            }
            (format!("{} {share}", name(catalog, node.key)), color)
        };
        let shown = BoxView {
            tree: &stacks.tree,
            generation,
            top,
            colors: color_number(theme, dimmed, &found.made_for, catalog),
            name: "icicle of merged stacks",
        };
        let clicked = shown.show(ui, theme, &mut self.boxes, color, label, |place, ui| {
            describe(ui, catalog, stacks, place, whole_ns, shows_callers);
        });
        match clicked {
            Click::Nothing => {}
            Click::Once(node) => self.zoom.click(stacks.tree.path(node)),
            Click::Twice => self.zoom.double_click(),
        }
    }
}

impl SearchHits {
    /// Finds the nodes that match a search, unless it was for the same.
    fn search(&mut self, stacks: &Stacks, generation: u64, catalog: &Catalog, search: &str) {
        let text = search.trim().to_lowercase();
        if text.is_empty() {
            *self = Self::default();
            return;
        }
        let made_for = (generation, text);
        if self.made_for.as_ref() == Some(&made_for) {
            return;
        }
        let matches = |name: &str| name.to_lowercase().contains(&made_for.1);
        let sites = catalog.sites.iter();
        let sites: Vec<bool> = sites
            .map(|site| site.as_ref().is_some_and(|site| matches(&site.name)))
            .collect();
        let mut nodes = vec![false; stacks.tree.nodes().len()];
        // Whether a node or one of its ancestors matches: all nodes inside a match belong to it.
        let mut within = nodes.clone();
        let mut found_ns = 0_u64;
        for (i, node) in stacks.tree.nodes().iter().enumerate().skip(1) {
            let around = within.get(node.parent as usize).copied().unwrap_or(false);
            nodes[i] = match node.key {
                StackKey::Thread(thread) => matches(catalog.thread_name(thread)),
                StackKey::Scope(site) => {
                    let index = (site.0 as usize).wrapping_sub(1);
                    sites.get(index).copied().unwrap_or(false)
                }
            };
            within[i] = nodes[i] || around;
            if nodes[i] && !around {
                found_ns = found_ns.saturating_add(node.sums.total_ns);
            }
        }
        let whole_ns = stacks
            .tree
            .nodes()
            .first()
            .map_or(0, |root| root.sums.total_ns);
        *self = Self {
            made_for: Some(made_for),
            nodes,
            share: found_ns as f64 / whole_ns.max(1) as f64,
        };
    }
}

fn summary(ui: &mut Ui, stacks: &Stacks) {
    let StackSums {
        count: _, total_ns, ..
    } = stacks
        .tree
        .nodes()
        .first()
        .map_or_else(StackSums::default, |root| root.sums);
    let stacks_number = stacks.tree.nodes().len() as u64 - 1;
    ui.weak(format!(
        "{} stacks, {}",
        units::count(stacks_number),
        units::duration(total_ns as f64)
    ));
    if stacks.hidden_spans > 0 {
        ui.colored_label(
            ui.visuals().warn_fg_color,
            format!("{} spans not shown", units::count(stacks.hidden_spans)),
        )
        .on_hover_text("There are more different stacks than are kept apart");
    }
}

/// Returns a line for each stack that has time of its own.
fn folded(stacks: &Stacks, catalog: &Catalog) -> String {
    let mut text = String::new();
    for (node, stack) in (0..).zip(stacks.tree.nodes()) {
        if stack.sums.self_ns == 0 {
            continue;
        }
        let path = stacks.tree.path(node).into_iter();
        let names = path.map(|key| name(catalog, key).replace(';', ":").replace('\n', " "));
        let names: Vec<String> = names.collect();
        text.push_str(&format!("{} {}\n", names.join(";"), stack.sums.self_ns));
    }
    text
}

fn name(catalog: &Catalog, key: StackKey) -> String {
    match key {
        StackKey::Scope(site) => catalog.site_name(site).to_owned(),
        StackKey::Thread(thread) => match catalog.thread_name(thread) {
            "" => format!("thread {}", thread.0),
            name => name.to_owned(),
        },
    }
}

/// Returns a number that changes whenever the boxes' colours do.
fn color_number(
    theme: &Theme,
    dimmed: bool,
    found: &Option<(u64, String)>,
    catalog: &Catalog,
) -> u64 {
    let mut hasher = FxHasher::default();
    (
        theme.dark,
        dimmed,
        found,
        catalog.sites.len(),
        catalog.threads.len(),
    )
        .hash(&mut hasher);
    hasher.finish()
}

/// Shows the card of the box under the pointer.
fn describe(
    ui: &mut Ui,
    catalog: &Catalog,
    stacks: &Stacks,
    place: &NodeBox,
    whole_ns: u64,
    shows_callers: bool,
) {
    let part = |ns: u64| crate::scopes::percent(ns as f64 / whole_ns.max(1) as f64);
    if place.node == NONE {
        let of = stacks
            .tree
            .node(place.parent)
            .map(|node| name(catalog, node.key));
        ui.strong("others");
        ui.label(format!(
            "{} stacks in {}, too narrow to be shown",
            units::count(place.nodes.into()),
            of.unwrap_or_default()
        ));
        ui.weak("Click to zoom into what they are in.");
        return;
    }
    let Some(node) = stacks.tree.node(place.node) else {
        return;
    };
    if place.node == ROOT {
        ui.strong("all scopes");
    } else {
        ui.strong(shortened(&name(catalog, node.key)));
    }
    if let StackKey::Scope(site) = node.key
        && let Some(site) = catalog.site(site).filter(|site| !site.file.is_empty())
    {
        ui.weak(format!("{}:{}", shortened(&site.file), site.line));
    }
    let StackSums {
        count,
        total_ns,
        self_ns,
        ..
    } = node.sums;
    if let Some(called) = stacks
        .tree
        .upwards(place.node)
        .last()
        .filter(|_| shows_callers)
    {
        let called = stacks.tree.node(called).map(|node| name(catalog, node.key));
        let called = shortened(&called.unwrap_or_default()).into_owned();
        ui.label(format!("{} calls of {called}", units::count(count)));
        let own = units::duration(total_ns as f64);
        ui.label(format!("self {own}, {}", part(total_ns)));
        ui.weak("Click to zoom in, double-click to zoom out.");
        return;
    }
    ui.label(format!("{} calls", units::count(count)));
    ui.label(format!(
        "total {}, {}",
        units::duration(total_ns as f64),
        part(total_ns)
    ));
    if matches!(node.key, StackKey::Scope(_)) && place.node != ROOT {
        ui.label(format!(
            "self {}, {}",
            units::duration(self_ns as f64),
            part(self_ns)
        ));
        let mean = units::duration(node.sums.mean_ns());
        ui.label(format!("mean of whole calls {mean}"));
    }
    ui.weak("Click to zoom in, double-click to zoom out.");
}

/// A click on the boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Click {
    Nothing,
    Once(u32),
    Twice,
}

/// A tree that is shown as boxes.
pub(crate) struct BoxView<'a, K, W> {
    pub(crate) tree: &'a super::tree::Tree<K, W>,
    pub(crate) generation: u64,
    /// The node over the whole width.
    pub(crate) top: u32,
    /// A number that changes whenever the colours do.
    pub(crate) colors: u64,
    /// The accessible name.
    pub(crate) name: &'a str,
}

impl<K: Copy + Eq + Hash, W: super::tree::Weight> BoxView<'_, K, W> {
    /// Shows the boxes in all available space; returns the click.
    pub(crate) fn show(
        &self,
        ui: &mut Ui,
        theme: &Theme,
        boxes: &mut Boxes,
        color: impl Fn(&NodeBox) -> Color32,
        label: impl Fn(&NodeBox) -> (String, Color32),
        describe: impl Fn(&NodeBox, &mut Ui),
    ) -> Click {
        let mut clicked = Click::Nothing;
        let scrolls = ScrollArea::vertical().id_salt(self.name).auto_shrink(false);
        scrolls.show_viewport(ui, |ui, _| {
            let width = ui.available_width();
            boxes.lay_out(
                self.tree,
                self.generation,
                self.top,
                width * ui.pixels_per_point(),
            );
            let size = vec2(width, boxes.height().max(ui.available_height()));
            let (rect, response) = ui.allocate_exact_size(size, Sense::CLICK);
            let sight = ui.clip_rect().intersect(rect);
            if !sight.is_positive() {
                return;
            }
            response.widget_info(|| WidgetInfo::labeled(Role::Image, true, self.name));
            let painter = ui.painter_at(sight);
            boxes.paint(&painter, rect, sight.y_range(), self.colors, color);
            let font = FontId::proportional(text::SMALL);
            boxes.label(&painter, rect, sight.y_range(), &font, label);
            let under = |at: egui::Pos2| boxes.at(rect, at);
            if response.double_clicked() {
                clicked = Click::Twice;
            } else if response.clicked()
                && let Some(place) = response.interact_pointer_pos().and_then(under)
            {
                // A click on a merged box zooms to its parent, which gives its nodes more room.
                let node = if place.node == NONE {
                    place.parent
                } else {
                    place.node
                };
                clicked = Click::Once(node);
            }
            if let Some(place) = response.hover_pos().and_then(under) {
                let outline: Rect = area(rect, &place);
                painter.rect_stroke(
                    outline,
                    0.0,
                    Stroke::new(1.5, theme.text),
                    StrokeKind::Inside,
                );
                response
                    .on_hover_cursor(CursorIcon::PointingHand)
                    .on_hover_ui_at_pointer(|ui| describe(&place, ui));
            }
        });
        clicked
    }
}
