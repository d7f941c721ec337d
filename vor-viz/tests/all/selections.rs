//! Random captures with frames or without, with drops and damage, and random selections: tables and
//! comparisons have the numbers of the spans that the reader returns, as have lists of frames.
//!
//! The expected numbers are of [`recorded`](vor_fixtures::recorded), which reads the capture by its
//! frames or by its batches and sums it up span by span, and of `vor stats`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use egui::{Context, RawInput};
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::stats::StatsBuilder;
use vor_fixtures::Random;
use vor_fixtures::framed::{make, make_damaged};
use vor_fixtures::random::{rounds, seeds};
use vor_fixtures::recorded::{
    Measured, Recorded, RecordedFrame, TotalsBySite, batches, scope_totals, task_totals,
};
use vor_viz::compare::{Compare, Merged, Per, Side};
use vor_viz::find::{FramePlace, SlowFrame, slowest_frames};
use vor_viz::replay::ReplayState;
use vor_viz::scopes::{Job, ScopeRows, ScopeSums};
use vor_viz::store::{Extent, TrackKind};
use vor_viz::theme::Theme;
use vor_viz::view::Scope;

use crate::judge::{judge, stats_percentile_ns};
use crate::truth::open_bytes;

/// A capture in the viewer, and what the reader returns of it.
pub struct Opened {
    pub bytes: Vec<u8>,
    pub replay: ReplayState,
    /// The spans of frames that are not lost, which frames of the viewer have.
    pub by_frames: Recorded,
    /// All spans, which ranges of time have.
    pub by_batches: Recorded,
}

impl Opened {
    /// Opens a capture; `None` if it has no frame that can be read.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        let by_frames = Recorded::of_frames(&bytes);
        if by_frames.frames.is_empty() {
            return None;
        }
        let replay = open_bytes(bytes.clone());
        assert_eq!(replay.window(), 0..by_frames.frame_count);
        Some(Self {
            by_batches: Recorded::of_batches(&bytes),
            bytes,
            replay,
            by_frames,
        })
    }

    /// Draws two frames that are not lost, in order.
    pub fn frames(&self, random: &mut Random) -> [&RecordedFrame; 2] {
        let frames = &self.by_frames.frames;
        let first = random.below(frames.len());
        [first, first + random.below(frames.len() - first)].map(|at| &frames[at])
    }

    /// Draws a moment: any one within or near the capture, or one at which a span or a frame ends.
    pub fn moment(&self, random: &mut Random) -> i64 {
        let (begin_ns, end_ns) = self.by_batches.bounds_ns().unwrap_or((0, 1));
        let (spans, frames) = (&self.by_batches.spans, &self.by_frames.frames);
        match random.below(4) {
            0 if !spans.is_empty() => spans[random.below(spans.len())].end_ns,
            1 => frames[random.below(frames.len())].end_ns,
            _ => {
                let length_ns = end_ns.abs_diff(begin_ns) as usize;
                begin_ns - 20 + random.below(length_ns + 40) as i64
            }
        }
    }

    /// Draws a selection: frames, a range of time, or everything.
    pub fn scope(&self, random: &mut Random) -> Scope {
        match random.below(5) {
            0 => Scope::Whole,
            1 | 2 if self.replay.info().marked => {
                let [first, last] = self.frames(random);
                Scope::Frames(first.place as usize, last.place as usize)
            }
            _ => {
                let (one, other) = (self.moment(random), self.moment(random));
                Scope::Time {
                    begin_ns: one.min(other),
                    end_ns: one.max(other) + i64::from(one == other),
                }
            }
        }
    }

    /// Returns the spans of a selection, and the range that it measures.
    pub fn expected(&self, scope: Scope, extent: Extent) -> (&Recorded, Measured) {
        let (recorded, time) = match scope {
            Scope::Frames(first, last) => {
                let frame = |place: usize| {
                    let mut frames = self.by_frames.frames.iter();
                    frames.find(|frame| frame.place == place as u64).unwrap()
                };
                let time = frame(first).begin_ns..frame(last).end_ns;
                (&self.by_frames, time)
            }
            Scope::Time { begin_ns, end_ns } => (&self.by_batches, begin_ns..end_ns),
            Scope::Whole => (&self.by_batches, i64::MIN..i64::MAX),
        };
        let is_whole = extent == Extent::Whole;
        (recorded, Measured { time, is_whole })
    }

    fn side<'a>(&'a self, name: &'a str, scope: Scope, whole_frames: Option<u64>) -> Side<'a> {
        let side = self.replay.panel().side(name, whole_frames).unwrap();
        Side { scope, ..side }
    }

    /// Returns the table of a selection.
    fn table(&mut self, scope: Scope, extent: Extent) -> ScopeRows {
        let (ctx, began) = (Context::default(), Instant::now());
        let mut job: Job<ScopeSums> = Job::default();
        loop {
            pass(&ctx, began, |ui| {
                let side = self.side("", scope, None);
                job.advance(ui, side.store, side.spans, Some(scope), &extent);
            });
            match job.output() {
                Some(rows) => return rows.clone(),
                None => self.replay.poll(&ctx),
            }
        }
    }
}

/// Runs a pass without drawing it.
fn pass(ctx: &Context, began: Instant, mut show: impl FnMut(&mut egui::Ui)) {
    assert!(began.elapsed() < Duration::from_secs(60));
    ctx.run_ui(RawInput::default(), &mut show)
        .drop_without_applying_deltas();
    std::thread::sleep(Duration::from_micros(20));
}

const EXTENTS: [Extent; 2] = [Extent::Clipped, Extent::Whole];

#[test]
fn tables_of_any_selection_have_the_numbers_of_its_spans() {
    let (mut cases, mut damaged) = (0, 0);
    for seed in seeds(120) {
        let bytes = make_damaged(seed);
        let is_damaged = bytes != make(seed).bytes;
        let Some(mut opened) = Opened::new(bytes) else {
            continue;
        };
        let mut random = Random(seed);
        for _ in 0..6 {
            let scope = opened.scope(&mut random);
            for extent in EXTENTS {
                let rows = opened.table(scope, extent);
                let (recorded, measured) = opened.expected(scope, extent);
                let case = format!("seed {seed}, {scope:?}, {extent:?}");
                judge(&rows, recorded, &measured, &case);
                cases += 1;
                damaged += usize::from(is_damaged && rows.spans > 0);
            }
        }
    }
    assert!(
        cases >= rounds(1_000) && damaged > cases / 2,
        "{damaged} of {cases}"
    );
}

#[test]
fn the_table_of_a_capture_has_the_rows_of_vor_stats() {
    for seed in seeds(120) {
        let Some(mut opened) = Opened::new(make_damaged(seed)) else {
            continue;
        };
        let catalog = opened.replay.store().catalog().clone();
        let mut stats = StatsBuilder::new();
        for batch in batches(&opened.bytes) {
            let threads = batch.threads.iter();
            threads.for_each(|thread| stats.add_thread(&catalog, thread));
        }
        let mut rows = opened.table(Scope::Whole, Extent::Whole).rows;
        rows.retain(|row| row.kind == TrackKind::Scopes);
        rows.sort_by_key(|row| row.site);
        let stats = stats.scope_stats(&catalog);
        assert_eq!(rows.len(), stats.len(), "seed {seed}");
        for (row, stats) in rows.iter().zip(&stats) {
            assert_eq!(
                (row.site, &*row.name, row.count, row.total_ns, row.self_ns),
                (
                    stats.site,
                    &*stats.name,
                    stats.count,
                    stats.total_ns,
                    stats.self_ns
                ),
                "seed {seed}"
            );
            assert_eq!(
                [row.min_ns, row.p50_ns, row.p95_ns, row.p99_ns, row.max_ns],
                [
                    stats.min_ns,
                    stats.p50_ns,
                    stats.p95_ns,
                    stats.p99_ns,
                    stats.max_ns
                ],
                "seed {seed}, site {}",
                row.site.0
            );
            assert_eq!(row.mean_ns(), stats.mean_ns, "seed {seed}");
        }
    }
}

#[test]
fn a_capture_without_damage_is_read_as_it_was_recorded() {
    let mut dropped = 0;
    for seed in seeds(120) {
        let made = make(seed);
        let opened = Opened::new(made.bytes).unwrap();
        assert_eq!(opened.by_frames.tasks.len(), made.tasks.concat().len());
        let sorted = |recorded: &Recorded| {
            let mut spans = recorded.spans.clone();
            spans.sort_unstable();
            spans
        };
        let spans = sorted(&opened.by_frames);
        assert_eq!(spans, sorted(&opened.by_batches), "seed {seed}");
        let summary = opened.replay.summary();
        assert_eq!(summary.spans(), spans.len() as u64, "seed {seed}");
        let stored = opened.replay.store().frames().iter();
        let stored: u64 = stored.map(|frame| frame.dropped_spans).sum();
        assert_eq!(
            (summary.dropped_spans(), stored),
            (made.dropped, made.dropped)
        );
        dropped += made.dropped;
    }
    assert!(dropped > rounds(500) as u64, "{dropped}");
}

#[test]
fn the_slowest_frames_are_those_of_the_capture() {
    let mut listed = 0;
    for seed in seeds(250) {
        let Some(opened) = Opened::new(make_damaged(seed)) else {
            continue;
        };
        let mut random = Random(seed);
        let summary = opened.replay.summary();
        let frames = &opened.by_frames.frames;
        assert_eq!(summary.frames(), opened.by_frames.frame_count);
        let dropped = frames.iter().map(|frame| frame.dropped_spans);
        assert_eq!(summary.dropped_spans(), dropped.sum::<u64>(), "seed {seed}");
        for case in 0..6 {
            let (one, other) = (opened.moment(&mut random), opened.moment(&mut random));
            let time_ns = (case > 0 && one != other).then(|| (one.min(other), one.max(other)));
            let most = [3, 1_000][random.below(2)];
            let overlaps = |frame: &&RecordedFrame| {
                time_ns.is_none_or(|(begin, end)| frame.begin_ns < end && frame.end_ns > begin)
            };
            let mut expected: Vec<&RecordedFrame> = frames.iter().filter(overlaps).collect();
            expected.sort_by_key(|frame| (Reverse(frame.end_ns - frame.begin_ns), frame.place));
            expected.truncate(most);
            let found = slowest_frames(summary, time_ns, most);
            let row = |frame: &SlowFrame| {
                let FramePlace::Capture(place) = frame.place else {
                    panic!("{frame:?}");
                };
                let ns = (f64::from(frame.duration_ms) * 1e6).round() as i64;
                (place, frame.number, frame.begin_ns, ns)
            };
            let of_frame = |frame: &&RecordedFrame| {
                let ns = frame.end_ns - frame.begin_ns;
                (frame.place, frame.number, frame.begin_ns, ns)
            };
            assert_eq!(
                found.iter().map(row).collect::<Vec<_>>(),
                expected.iter().map(of_frame).collect::<Vec<_>>(),
                "seed {seed}, {time_ns:?}"
            );
            listed += found.len();
        }
    }
    assert!(listed > rounds(5_000), "{listed}");
}

/// Name, module and kind of a compared scope.
type Key = (String, String, TrackKind);

/// Returns the modules of each name.
fn modules(catalog: &Catalog) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut modules: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for site in catalog.sites.iter().flatten() {
        let of_name = modules.entry(&site.name).or_default();
        of_name.insert(&site.module_path);
    }
    modules
}

/// Returns the key of a call site on the right side, or on the left one without its catalog. A
/// name that has one more module on each side moved from one to the other.
fn key(catalog: &Catalog, site: SiteId, kind: TrackKind, left: Option<&Catalog>) -> Key {
    let name = catalog.site_name(site);
    let module = catalog.site(site).map_or("", |site| &*site.module_path);
    let moved_from = left.and_then(|left| {
        let (left, right) = (modules(left), modules(catalog));
        let (left, right) = (left.get(name)?, right.get(name)?);
        let (gone, new): (Vec<&&str>, Vec<&&str>) = (
            left.difference(right).collect(),
            right.difference(left).collect(),
        );
        match (&gone[..], &new[..]) {
            ([gone], [new]) if **new == module => Some((**gone).to_owned()),
            _ => None,
        }
    });
    let module = moved_from.unwrap_or_else(|| module.to_owned());
    (name.to_owned(), module, kind)
}

/// Count, total, and all durations.
#[derive(Debug, Default)]
struct Compared {
    total_ns: u64,
    durations_ns: Vec<u64>,
}

/// Returns what a side has of each scope.
fn of_side(
    side: &Opened,
    scope: Scope,
    extent: Extent,
    left: Option<&Catalog>,
) -> BTreeMap<Key, Compared> {
    let (recorded, measured) = side.expected(scope, extent);
    let mut all: BTreeMap<Key, Compared> = BTreeMap::new();
    let catalog = side.replay.store().catalog();
    let mut add = |kind, totals: TotalsBySite| {
        for (site, totals) in totals {
            let compared = all
                .entry(key(catalog, SiteId(site), kind, left))
                .or_default();
            compared.total_ns += totals.total_ns;
            compared.durations_ns.extend(&totals.durations_ns);
        }
    };
    add(TrackKind::Scopes, scope_totals(&recorded.spans, &measured));
    add(TrackKind::Tasks, task_totals(&recorded.tasks, &measured));
    all
}

/// Returns the number by which the sums of a side are divided.
fn divisor(side: &Opened, scope: Scope, per: Per) -> f64 {
    match (per, scope) {
        (Per::Frame, Scope::Frames(first, last)) => (last - first + 1) as f64,
        (Per::Frame, _) => side.by_frames.frame_count as f64,
        (Per::Second, _) => {
            let (_, Measured { time, .. }) = side.expected(scope, Extent::Whole);
            let (mut begin, mut end) = (time.start, time.end);
            if !matches!(scope, Scope::Frames(..)) {
                let bounds = side.by_batches.bounds_ns().unwrap_or_default();
                (begin, end) = (begin.max(bounds.0), end.min(bounds.1));
            }
            end.saturating_sub(begin).max(1) as f64 / 1e9
        }
    }
}

fn compare(ctx: &Context, sides: &mut [Opened; 2], scopes: [Scope; 2], extent: Extent) -> Merged {
    let began = Instant::now();
    let mut compare = Compare::default();
    while compare.merged().is_none() {
        pass(ctx, began, |ui| {
            let [left, right] = [0, 1].map(|i| {
                let frames = sides[i].replay.summary().frames();
                sides[i].side("", scopes[i], Some(frames))
            });
            let theme = Theme::of(ui.visuals());
            compare.show(ui, &left, &right, &mut { extent }, &theme);
        });
        sides.iter_mut().for_each(|side| side.replay.poll(ctx));
    }
    compare.merged().unwrap().clone()
}

#[test]
fn comparisons_have_the_numbers_of_both_selections() {
    // One for all, because each rasterizes its letters anew.
    let ctx = Context::default();
    let (mut both, mut cases) = (0, 0);
    for seed in seeds(100) {
        let mut random = Random(seed);
        let right = [seed, seed + 500][random.below(2)];
        let sides = [seed, right].map(|seed| Opened::new(make_damaged(seed)));
        let [Some(left), Some(right)] = sides else {
            continue;
        };
        let mut sides = [left, right];
        for _ in 0..3 {
            let scopes = [0, 1].map(|i: usize| sides[i].scope(&mut random));
            let extent = EXTENTS[random.below(2)];
            let case = format!("seed {seed}, {scopes:?}, {extent:?}");
            let merged = compare(&ctx, &mut sides, scopes, extent);
            let has_time = scopes
                .iter()
                .any(|scope| matches!(scope, Scope::Time { .. }));
            assert_eq!(merged.per == Per::Second, has_time, "{case}");
            let left_catalog = sides[0].replay.store().catalog().clone();
            let expected = [
                of_side(&sides[0], scopes[0], extent, None),
                of_side(&sides[1], scopes[1], extent, Some(&left_catalog)),
            ];
            let keys: BTreeSet<&Key> = expected.iter().flat_map(BTreeMap::keys).collect();
            assert_eq!(merged.rows.len(), keys.len(), "{case}");
            for row in &merged.rows {
                let key = (row.name.to_string(), row.module_path.to_string(), row.kind);
                let case = format!("{case}, {key:?}");
                for (i, found) in row.sides.iter().enumerate() {
                    let of_side = expected[i].get(&key);
                    assert_eq!(found.is_some(), of_side.is_some(), "{case}");
                    let (Some(found), Some(expected)) = (found, of_side) else {
                        continue;
                    };
                    let divisor = divisor(&sides[i], scopes[i], merged.per);
                    let count = expected.durations_ns.len() as f64;
                    let sum_ns: u64 = expected.durations_ns.iter().sum();
                    assert_eq!(
                        [found.frame_ns, found.frame_count, found.mean_ns],
                        [
                            expected.total_ns as f64 / divisor,
                            count / divisor,
                            sum_ns as f64 / count
                        ],
                        "{case}"
                    );
                    let of_stats = |quantile| stats_percentile_ns(&expected.durations_ns, quantile);
                    assert_eq!(
                        [found.p50_ns, found.p99_ns],
                        [of_stats(0.5), of_stats(0.99)],
                        "{case}"
                    );
                }
                both += usize::from(row.sides.iter().all(Option::is_some));
            }
            judge_stacks(&merged, &case);
            cases += 1;
        }
    }
    assert!(
        cases > rounds(200) && both > rounds(500),
        "{both} in {cases}"
    );
}

/// Asserts that the stacks have the calls of the scopes in the table.
fn judge_stacks(merged: &Merged, case: &str) {
    for side in 0..2 {
        let scopes = merged.rows.iter();
        let scopes = scopes.filter(|row| row.kind == TrackKind::Scopes);
        let calls: f64 = scopes
            .filter_map(|row| Some(row.sides[side]?.frame_count))
            .sum();
        let nodes = merged.tree.nodes().iter().skip(1);
        let in_stacks: f64 = nodes.map(|node| node.sums.frame_count[side]).sum();
        assert!((calls - in_stacks).abs() <= 1e-9 * calls, "{case}: {calls}");
    }
}
