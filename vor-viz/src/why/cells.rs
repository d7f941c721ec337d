//! The times of scopes in single frames, and how one frame differs from the median of the others.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};

use crate::scopes::Gather;
use crate::store::{Extent, Span, SpanPart, SpanVisitor, TrackKind};
use crate::whole::overlaps;

/// Maximum number of times that are held; of further ones, only the number is known.
const MAX_CELLS: usize = 1 << 22;

/// A time costs as much as this number of other spans.
const CELL_COST: usize = 4;

/// Standard deviations on each side of the middle of a 95 % interval.
const DEVIATIONS: f64 = 1.96;

/// Minimum number of frames for an interval.
const MIN_FRAMES: usize = 8;

/// The frames: the one to explain, and those that the median is of.
#[derive(Clone, Debug, PartialEq)]
pub struct WhyOptions {
    /// Begin and end of the frame, in nanoseconds.
    pub here: (i64, i64),
    /// Begins and ends of the others. They ascend and do not overlap.
    pub others: Arc<[(i64, i64)]>,
}

/// A scope in the frame and in the median frame.
#[derive(Clone, Debug, PartialEq)]
pub struct WhyRow {
    /// Its call site.
    pub site: SiteId,
    /// Whether its spans are scopes or tasks.
    pub kind: TrackKind,
    /// Its name, `?` when it is unknown.
    pub name: Box<str>,
    /// Time in the frame during which any of its spans was open, in nanoseconds, threads together.
    pub here_ns: u64,
    /// The median of that time in the other frames, in nanoseconds.
    pub median_ns: f64,
    /// The 95 % confidence interval of the median, in nanoseconds; `None` with too few frames.
    pub interval_ns: Option<(u64, u64)>,
    /// Time in the frame without the spans inside, minus the median of that, in nanoseconds.
    pub self_change_ns: f64,
    /// Number of its spans in the frame, and the median of it.
    pub calls: (u64, f64),
    /// The share of the other frames in which it took less time.
    pub shorter: f64,
}

impl WhyRow {
    /// Returns how much longer the scope took in the frame than in the median frame, in
    /// nanoseconds.
    #[must_use]
    pub fn change_ns(&self) -> f64 {
        self.here_ns as f64 - self.median_ns
    }

    /// Returns the 95 % confidence interval of [`change_ns`](Self::change_ns).
    #[must_use]
    pub fn change_interval_ns(&self) -> Option<(f64, f64)> {
        let (low, high) = self.interval_ns?;
        Some((
            self.here_ns as f64 - high as f64,
            self.here_ns as f64 - low as f64,
        ))
    }

    /// Returns whether the interval of the difference contains zero: then the frame may be like the
    /// median in this scope.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        let interval = self.change_interval_ns();
        interval.is_none_or(|(low, high)| low <= 0.0 && high >= 0.0)
    }
}

/// All scopes of the frame and of the others.
#[derive(Clone, Debug, Default)]
pub struct WhyResult {
    /// A row per call site and kind, in no particular order.
    pub rows: Vec<WhyRow>,
    /// Number of frames that the median is of.
    pub frames: usize,
    /// Number of times that were too many to be held.
    pub left_out: u64,
}

/// The time of a call site in a frame.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    total_ns: u64,
    self_ns: i64,
    calls: u64,
}

/// The frame to explain, among the numbers of frames.
const HERE: u32 = u32::MAX;

type Key = (SiteId, TrackKind);

/// The cells of a call site, by the number of the frame.
type SiteCells = (Key, Vec<(u32, Cell)>);

/// Gathers [`WhyResult`].
#[derive(Clone, Debug)]
pub struct FrameCells {
    options: WhyOptions,
    kind: TrackKind,
    cells: FxHashMap<(Key, u32), Cell>,
    left_out: u64,
    /// Call sites of the open spans, the innermost last.
    open: Vec<SiteId>,
    /// Set when the walk is over: the cells by call site.
    unsettled: Option<std::vec::IntoIter<SiteCells>>,
    rows: Vec<WhyRow>,
}

impl FrameCells {
    /// Calls `each` with the frames that a span overlaps, and the time of the overlap.
    fn overlaps(&self, span: &Span, mut each: impl FnMut(u32, u64)) {
        let (begin_ns, end_ns) = (span.begin_ns, span.end_ns());
        let mut visit = |frame: u32, (from, to): (i64, i64)| {
            if overlaps((begin_ns, end_ns), (from, to)) {
                each(frame, end_ns.min(to).abs_diff(begin_ns.max(from)));
            }
        };
        visit(HERE, self.options.here);
        let first = self
            .options
            .others
            .partition_point(|frame| frame.1 < begin_ns);
        for (at, frame) in (first as u32..).zip(&self.options.others[first..]) {
            if frame.0 > end_ns {
                break;
            }
            visit(at, *frame);
        }
    }

    fn add(&mut self, site: SiteId, frame: u32, change: impl FnOnce(&mut Cell)) {
        let key = ((site, self.kind), frame);
        let is_full = self.cells.len() >= MAX_CELLS;
        if is_full && !self.cells.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        change(self.cells.entry(key).or_default());
    }
}

impl SpanVisitor for FrameCells {
    #[inline]
    fn enter(&mut self, span: &Span, _: usize) {
        if self.kind == TrackKind::Scopes {
            self.open.push(span.site);
        }
    }

    fn leave(&mut self, span: &Span, _: usize, _: SpanPart) {
        let mut parts: [(u32, u64); 4] = Default::default();
        let mut more: Vec<(u32, u64)> = Vec::new();
        let mut count = 0;
        self.overlaps(span, |frame, ns| {
            match parts.get_mut(count) {
                Some(part) => *part = (frame, ns),
                None => more.push((frame, ns)),
            }
            count += 1;
        });
        let is_scope = self.kind == TrackKind::Scopes;
        if is_scope {
            self.open.pop();
        }
        if count == 0 {
            return;
        }
        // A recursive call adds nothing to the call around it.
        let is_inner = is_scope && self.open.contains(&span.site);
        let around = self.open.last().copied().filter(|_| is_scope);
        let first = parts.into_iter().take(count);
        for (frame, ns) in first.chain(more) {
            self.add(span.site, frame, |cell| {
                cell.calls += 1;
                cell.total_ns = cell.total_ns.saturating_add(if is_inner { 0 } else { ns });
                let self_ns = if is_scope { ns } else { 0 };
                cell.self_ns = cell.self_ns.saturating_add_unsigned(self_ns);
            });
            if let Some(around) = around {
                self.add(around, frame, |cell| {
                    cell.self_ns = cell.self_ns.saturating_sub_unsigned(ns);
                });
            }
        }
    }
}

impl Gather for FrameCells {
    type Options = WhyOptions;
    type Output = WhyResult;

    fn new(options: &WhyOptions) -> Self {
        Self {
            options: options.clone(),
            kind: TrackKind::Scopes,
            cells: FxHashMap::default(),
            left_out: 0,
            open: Vec::new(),
            unsettled: None,
            rows: Vec::new(),
        }
    }

    fn extent(_: &WhyOptions) -> Extent {
        Extent::Clipped
    }

    fn begin_track(&mut self, _: ThreadId, kind: TrackKind) -> bool {
        self.kind = kind;
        self.open.clear();
        true
    }

    fn extra_cost(&self) -> usize {
        self.cells.len().saturating_mul(CELL_COST)
    }

    fn settle(&mut self, catalog: &Catalog, most: usize) -> bool {
        let others = self.options.others.len();
        let unsettled = self.unsettled.get_or_insert_with(|| {
            let mut by_site: FxHashMap<Key, Vec<(u32, Cell)>> = FxHashMap::default();
            for ((key, frame), cell) in std::mem::take(&mut self.cells) {
                by_site.entry(key).or_default().push((frame, cell));
            }
            by_site.into_iter().collect::<Vec<_>>().into_iter()
        });
        // A row sorts as many times as there are frames.
        let rows = unsettled.by_ref().take((most / 16).max(1));
        self.rows.extend(
            rows.map(|((site, kind), cells)| {
                row(site, kind, catalog.site_name(site), &cells, others)
            }),
        );
        unsettled.len() > 0
    }

    fn finish(self, _: usize, _: u64) -> WhyResult {
        WhyResult {
            rows: self.rows,
            frames: self.options.others.len(),
            left_out: self.left_out,
        }
    }
}

fn row(site: SiteId, kind: TrackKind, name: &str, cells: &[(u32, Cell)], frames: usize) -> WhyRow {
    let here = cells.iter().find(|(frame, _)| *frame == HERE);
    let here = here.map_or_else(Cell::default, |(_, cell)| *cell);
    // In the other frames, the scope took no time.
    let sorted = |value: fn(&Cell) -> i64| {
        let there = cells.iter().filter(|(frame, _)| *frame != HERE);
        let mut values: Vec<i64> = there.map(|(_, cell)| value(cell)).collect();
        values.resize(frames, 0);
        values.sort_unstable();
        values
    };
    let totals = sorted(|cell| i64::try_from(cell.total_ns).unwrap_or(i64::MAX));
    let selves = sorted(|cell| cell.self_ns);
    let calls = sorted(|cell| i64::try_from(cell.calls).unwrap_or(i64::MAX));
    let shorter = totals.partition_point(|&ns| ns.unsigned_abs() < here.total_ns);
    WhyRow {
        site,
        kind,
        name: name.into(),
        here_ns: here.total_ns,
        median_ns: median(&totals),
        interval_ns: interval(frames)
            .map(|(low, high)| (totals[low].unsigned_abs(), totals[high].unsigned_abs())),
        self_change_ns: here.self_ns as f64 - median(&selves),
        calls: (here.calls, median(&calls)),
        shorter: shorter as f64 / frames.max(1) as f64,
    }
}

/// Returns the median of ascending values; 0 without any.
fn median(sorted: &[i64]) -> f64 {
    let at = |i: usize| sorted.get(i).map_or(0.0, |&value| value as f64);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => at(half),
        _ => f64::midpoint(at(half.saturating_sub(1)), at(half)),
    }
}

/// Returns the places of the sorted values between which the median is with 95 % probability.
///
/// The number of values below the median is binomial, with a share of a half.
fn interval(count: usize) -> Option<(usize, usize)> {
    if count < MIN_FRAMES {
        return None;
    }
    let (half, margin) = (count as f64 / 2.0, DEVIATIONS * (count as f64).sqrt() / 2.0);
    let low = (half - margin).floor().max(1.0) as usize - 1;
    let high = ((half + margin).ceil() as usize).min(count - 1);
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use vor_fixtures::random::Random;

    use super::{interval, median};

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]).to_bits(), 0.0_f64.to_bits());
        assert_eq!(median(&[1, 5, 9]).to_bits(), 5.0_f64.to_bits());
        assert_eq!(median(&[1, 5, 9, 100]).to_bits(), 7.0_f64.to_bits());
    }

    /// Nineteen of twenty intervals contain the true median, for few frames and for many.
    #[test]
    fn intervals_contain_the_true_median() {
        let mut random = Random(7);
        for count in [8, 9, 20, 101, 255, 1024] {
            let rounds = 2_000;
            let hits = (0..rounds).filter(|_| {
                // Squares are skewed; the median of numbers below a million is half a million.
                let mut values: Vec<u64> = (0..count)
                    .map(|_| (random.below(1_000_000) as u64).pow(2))
                    .collect();
                values.sort_unstable();
                interval(count).is_some_and(|(low, high)| {
                    (values[low]..=values[high]).contains(&500_000_u64.pow(2))
                })
            });
            let share = hits.count() as f64 / f64::from(rounds);
            assert!((0.94..=1.0).contains(&share), "{share} of {count}");
        }
        assert_eq!(interval(7), None);
    }
}
