//! Two sides, matched by name.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::stats::Histogram;

use super::Side;
use crate::icicle::tree::{NONE, ROOT, Weight};
use crate::icicle::{StackKey, StackOptions, StackSums, Stacks, Tree};
use crate::scopes::{Gather, ScopeRows, ScopeSums};
use crate::store::{Extent, Span, SpanPart, SpanVisitor, TrackKind};
use crate::view::Scope;

/// The computation for a side: sums per call site, and stacks.
#[derive(Clone, Debug)]
pub(super) struct SideWork {
    scopes: ScopeSums,
    stacks: Stacks,
    /// Whether the current track has stacks.
    stacks_on: bool,
    scopes_settled: bool,
}

/// The result of a side.
#[derive(Clone, Debug, Default)]
pub(super) struct SideResult {
    pub(super) scopes: ScopeRows,
    pub(super) stacks: Stacks,
}

impl SpanVisitor for SideWork {
    #[inline]
    fn enter(&mut self, span: &Span, depth: usize) {
        self.scopes.enter(span, depth);
        if self.stacks_on {
            self.stacks.enter(span, depth);
        }
    }

    #[inline]
    fn leave(&mut self, span: &Span, depth: usize, part: SpanPart) {
        self.scopes.leave(span, depth, part);
        if self.stacks_on {
            self.stacks.leave(span, depth, part);
        }
    }
}

impl Gather for SideWork {
    type Options = Extent;
    type Output = SideResult;

    fn extent(extent: &Extent) -> Extent {
        *extent
    }

    fn new(extent: &Extent) -> Self {
        Self {
            scopes: ScopeSums::new(extent),
            stacks: Stacks::new(&StackOptions {
                extent: *extent,
                ..StackOptions::default()
            }),
            stacks_on: false,
            scopes_settled: false,
        }
    }

    fn begin_range(&mut self, catalog: &Catalog, time_ns: Range<i64>) {
        self.scopes.begin_range(catalog, time_ns);
    }

    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind) -> bool {
        self.stacks_on = self.stacks.begin_track(thread, kind);
        self.scopes.begin_track(thread, kind)
    }

    fn extra_cost(&self) -> usize {
        self.scopes.extra_cost() + self.stacks.extra_cost()
    }

    fn settle(&mut self, catalog: &Catalog, most: usize) -> bool {
        if !self.scopes_settled {
            self.scopes_settled = !self.scopes.settle(catalog, most);
            return true;
        }
        self.stacks.settle(catalog, most)
    }

    fn finish(self, frames: usize, time_ns: u64) -> SideResult {
        SideResult {
            scopes: self.scopes.finish(frames, time_ns),
            stacks: self.stacks.finish(frames, time_ns),
        }
    }
}

/// The number by which sums are divided, so that sides of different lengths compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Per {
    /// The number of frames.
    #[default]
    Frame,
    /// The time that a side covers, in seconds.
    Second,
}

impl Per {
    /// Returns what compares these sides.
    #[must_use]
    pub fn of(sides: [&Side<'_>; 2]) -> Self {
        match sides.iter().all(|side| side.counts_frames()) {
            true => Self::Frame,
            false => Self::Second,
        }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Second => "second",
        }
    }

    /// Returns what the sums of a side are divided by.
    pub(super) fn divisor(self, side: &Side<'_>, result: &SideResult) -> f64 {
        let frames = match (side.scope, side.whole_frames) {
            (Scope::Whole, Some(frames)) => frames,
            _ => result.scopes.frames as u64,
        };
        match self {
            Self::Frame => frames.max(1) as f64,
            Self::Second => result.scopes.time_ns.max(1) as f64 / 1e9,
        }
    }
}

/// Statistics of a scope on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SideSums {
    /// Time during which any of its spans was open, per frame or [per second](Per), in nanoseconds.
    pub frame_ns: f64,
    /// Number of its spans per frame or per second.
    pub frame_count: f64,
    /// Mean duration in nanoseconds.
    pub mean_ns: f64,
    /// 50th percentile of the durations, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile of the durations, in nanoseconds.
    pub p99_ns: u64,
}

/// A scope on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedRow {
    /// Its name.
    pub name: Box<str>,
    /// Its module path, empty where it has none; on the left side, if it differs.
    pub module_path: Box<str>,
    /// Whether the row holds scopes or tasks.
    pub kind: TrackKind,
    /// A call site of the scope, for its colour; from the right side if it occurs there.
    pub site: SiteId,
    /// Statistics of the left and of the right side; `None` on a side where it does not occur.
    pub sides: [Option<SideSums>; 2],
}

impl MergedRow {
    /// Returns the increase in duration per frame, or per second, from the left to the right side,
    /// in nanoseconds.
    #[must_use]
    pub fn change_ns(&self) -> f64 {
        let [left, right] = self
            .sides
            .map(|side| side.map_or(0.0, |side| side.frame_ns));
        right - left
    }

    /// Returns the change relative to the left side; `None` if the scope is missing on a side or
    /// takes no time on the left.
    #[must_use]
    pub fn change_part(&self) -> Option<f64> {
        let left_ns = self.sides[0]?.frame_ns;
        (left_ns > 0.0 && self.sides[1].is_some()).then(|| self.change_ns() / left_ns)
    }

    /// Returns the change as a part of the longer side, from -1 (gone) to 1 (new).
    #[must_use]
    pub fn relation(&self) -> f64 {
        relation(
            self.sides
                .map(|side| side.map_or(0.0, |side| side.frame_ns)),
        )
    }
}

/// Returns a change as a part of the longer side, from -1 to 1.
pub(super) fn relation([left, right]: [f64; 2]) -> f64 {
    let longer = left.max(right);
    if longer > 0.0 {
        (right - left) / longer
    } else {
        0.0
    }
}

/// Sums of a stack on the left and on the right side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BothSums {
    /// Time per frame or [per second](Per), in nanoseconds.
    pub frame_ns: [f64; 2],
    /// Calls per frame or per second.
    pub frame_count: [f64; 2],
}

impl Weight for BothSums {
    fn weight(&self) -> f64 {
        self.frame_ns[0] + self.frame_ns[1]
    }
}

/// Numbers for names with module paths. They stay valid from one merge to the next, and so does the
/// zoom.
#[derive(Clone, Debug, Default)]
pub(super) struct NameTable {
    numbers: FxHashMap<(Box<str>, Box<str>), u32>,
    names: Vec<(Box<str>, Box<str>)>,
    /// For names whose module paths differ, the module path on the right side, and that on the left
    /// side.
    moved: FxHashMap<Box<str>, (Box<str>, Box<str>)>,
}

impl NameTable {
    /// Finds the scopes that have another module path on the right side than on the left one.
    fn find_moved(&mut self, [left, right]: [&Catalog; 2]) {
        self.moved.clear();
        if std::ptr::eq(left, right) {
            return;
        }
        let right = modules_of(right);
        for (name, left) in modules_of(left) {
            let Some(right) = right.get(name) else {
                continue;
            };
            let mut only_left = left.difference(right);
            let mut only_right = right.difference(&left);
            if let (Some(from), None, Some(to), None) = (
                only_left.next(),
                only_left.next(),
                only_right.next(),
                only_right.next(),
            ) {
                let (from, to) = (Box::from(*from), Box::from(*to));
                self.moved.insert(name.into(), (to, from));
            }
        }
    }

    fn number(&mut self, catalog: &Catalog, site: SiteId) -> u32 {
        let name = catalog.site_name(site);
        let module = catalog.site(site).map_or("", |site| &site.module_path);
        let module = match self.moved.get(name) {
            Some((right, left)) if &**right == module => left,
            _ => module,
        };
        let key = (name.into(), module.into());
        let next = self.names.len() as u32;
        *self.numbers.entry(key).or_insert_with_key(|key| {
            self.names.push(key.clone());
            next
        })
    }

    /// Returns the name of a number.
    pub(super) fn name(&self, number: u32) -> &str {
        self.names
            .get(number as usize)
            .map_or("?", |(name, _)| name)
    }
}

/// Returns the module paths of each name.
fn modules_of(catalog: &Catalog) -> FxHashMap<&str, FxHashSet<&str>> {
    let mut modules: FxHashMap<&str, FxHashSet<&str>> = FxHashMap::default();
    for site in catalog.sites.iter().flatten() {
        modules
            .entry(&site.name)
            .or_default()
            .insert(&site.module_path);
    }
    modules
}

/// Both sides, merged.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// The number by which its sums are divided.
    pub per: Per,
    /// A row per name, module path and kind, in no particular order.
    pub rows: Vec<MergedRow>,
    /// Stacks; their keys are numbers of names.
    pub tree: Tree<u32, BothSums>,
    /// The numbers of the names that occur on each side, in any stack.
    names: [FxHashSet<u32>; 2],
}

/// A row during gathering, with the last site seen.
#[derive(Debug, Default)]
struct BySide {
    site: SiteId,
    sums: [Option<Sums>; 2],
}

/// Gathered sums of a row on one side.
#[derive(Debug)]
struct Sums {
    count: u64,
    total_ns: u64,
    durations_ns: u64,
    min_ns: u64,
    max_ns: u64,
    histogram: Histogram,
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            count: 0,
            total_ns: 0,
            durations_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            histogram: Histogram::default(),
        }
    }
}

impl Sums {
    fn percentile_ns(&self, quantile: f64) -> u64 {
        let ns = self.histogram.value_at(quantile);
        ns.clamp(self.min_ns, self.max_ns)
    }
}

impl Merged {
    /// Returns whether the name with a number occurs on the left and on the right side, in any
    /// stack.
    pub(super) fn occurs(&self, number: u32) -> [bool; 2] {
        [0, 1].map(|side| self.names[side].contains(&number))
    }

    pub(super) fn new(
        names: &mut NameTable,
        catalogs: [&Catalog; 2],
        sides: [&SideResult; 2],
        per: Per,
        divisors: [f64; 2],
    ) -> Self {
        let mut merged = Self {
            per,
            ..Self::default()
        };
        names.find_moved(catalogs);
        merged.add_rows(names, catalogs, sides, divisors);
        for (side, result) in sides.iter().enumerate() {
            merged.add_stacks(names, catalogs[side], side, &result.stacks, divisors[side]);
        }
        merged.tree.put_in_order(0, usize::MAX);
        merged
    }

    fn add_rows(
        &mut self,
        names: &mut NameTable,
        catalogs: [&Catalog; 2],
        sides: [&SideResult; 2],
        divisors: [f64; 2],
    ) {
        let mut rows: FxHashMap<(u32, TrackKind), BySide> = FxHashMap::default();
        for (side, result) in sides.iter().enumerate() {
            for row in &result.scopes.rows {
                let number = names.number(catalogs[side], row.site);
                let by_side = rows.entry((number, row.kind)).or_default();
                by_side.site = row.site;
                let sums = by_side.sums[side].get_or_insert_default();
                sums.count = sums.count.saturating_add(row.count);
                sums.total_ns = sums.total_ns.saturating_add(row.total_ns);
                sums.durations_ns = sums.durations_ns.saturating_add(row.durations_ns);
                sums.min_ns = sums.min_ns.min(row.min_ns);
                sums.max_ns = sums.max_ns.max(row.max_ns);
                sums.histogram.merge(&row.histogram);
            }
        }
        let finished = |side: usize, sums: &Sums| SideSums {
            frame_ns: sums.total_ns as f64 / divisors[side],
            frame_count: sums.count as f64 / divisors[side],
            mean_ns: sums.durations_ns as f64 / sums.count.max(1) as f64,
            p50_ns: sums.percentile_ns(0.50),
            p99_ns: sums.percentile_ns(0.99),
        };
        self.rows = rows
            .into_iter()
            .map(|((number, kind), by_side)| {
                let (name, module_path) = names
                    .names
                    .get(number as usize)
                    .cloned()
                    .unwrap_or_default();
                let BySide {
                    site,
                    sums: [left, right],
                } = &by_side;
                MergedRow {
                    name,
                    module_path,
                    kind,
                    site: *site,
                    sides: [
                        left.as_ref().map(|sums| finished(0, sums)),
                        right.as_ref().map(|sums| finished(1, sums)),
                    ],
                }
            })
            .collect();
    }

    /// Adds the stacks of a side. Parents are stored before their children, so one pass over the
    /// nodes is enough.
    fn add_stacks(
        &mut self,
        names: &mut NameTable,
        catalog: &Catalog,
        side: usize,
        stacks: &Stacks,
        divisor: f64,
    ) {
        let mut numbers: FxHashMap<SiteId, u32> = FxHashMap::default();
        let mut node_indices: Vec<u32> = Vec::with_capacity(stacks.tree.nodes().len());
        for (i, node) in stacks.tree.nodes().iter().enumerate() {
            let node_index = match node.key {
                _ if i == 0 => ROOT,
                StackKey::Thread(_) => NONE,
                StackKey::Scope(site) => {
                    let number = *numbers
                        .entry(site)
                        .or_insert_with(|| names.number(catalog, site));
                    let parent = node_indices
                        .get(node.parent as usize)
                        .copied()
                        .unwrap_or(NONE);
                    self.tree.child(parent, number)
                }
            };
            node_indices.push(node_index);
            if let Some(sums) = self.tree.sums_mut(node_index) {
                let StackSums {
                    count, total_ns, ..
                } = node.sums;
                sums.frame_ns[side] += total_ns as f64 / divisor;
                sums.frame_count[side] += count as f64 / divisor;
            }
        }
        self.names[side].extend(numbers.into_values());
    }
}
