//! Turns a stream of spans into statistics per call site.
//!
//! Per call site: exact sums and a [`Histogram`](super::histogram::Histogram). Per thread: the stack of spans that ended and
//! whose parent has not ([`EndedSpans`]). The worker calls [`StatsBuilder::add`] for every span
//! of the program, so one span costs it two multiplications for the clock, a comparison with the top of the stack, and one increment in the histogram.

use rustc_hash::FxHashMap;

use super::ended::EndedSpans;
use super::histogram::Histogram;
use super::measured::MeasuredSums;
use super::scope_stats::ScopeStats;
use crate::batch::{SpanBatch, ThreadBatch};
use crate::catalog::{Catalog, SiteId, ThreadId};
use crate::clock::{RATE_BITS, Timeline};
use crate::measure::Measures;

/// Ids below this stand in a table, the others in a map: a single wrong id in a damaged capture must not cost gigabytes.
const DENSE_SITES: usize = 1 << 16;

/// Builds [`ScopeStats`] from batches.
///
/// # Examples
///
/// ```
/// use vor_core::batch::ThreadBatch;
/// use vor_core::catalog::{Catalog, SiteId};
/// use vor_core::stats::StatsBuilder;
///
/// // A span of 100 ns around one of 30 ns, which ended first.
/// let batch = ThreadBatch {
///     start_ticks: vec![1_020, 1_000],
///     duration_ticks: vec![30, 100],
///     sites: vec![SiteId(2), SiteId(1)],
///     ..ThreadBatch::default()
/// };
/// let catalog = Catalog::default();
/// let mut stats = StatsBuilder::new();
/// stats.add(&catalog.timeline, &batch);
/// let rows = stats.scope_stats(&catalog);
/// assert_eq!((rows[0].total_ns, rows[0].self_ns), (100, 70));
/// assert_eq!((rows[1].total_ns, rows[1].self_ns), (30, 30));
/// ```
#[derive(Clone, Debug, Default)]
pub struct StatsBuilder {
    dense: Vec<SiteStats>,
    sparse: FxHashMap<u32, SiteStats>,
    threads: FxHashMap<ThreadId, EndedSpans>,
    measured: MeasuredSums,
    estimated_self_times: u64,
}

/// Sums wrap around: the spans of a program would have to last 584 years for that, those of a damaged capture may claim it.
#[derive(Clone, Debug)]
struct SiteStats {
    total_ns: u64,
    children_ns: u64,
    min_ns: u64,
    max_ns: u64,
    child_spans: u64,
    descendant_spans: u64,
    histogram: Histogram,
}

impl StatsBuilder {
    /// Makes statistics of no spans.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the spans of a batch. The batches of a thread must come in their order.
    pub fn add_batch(&mut self, batch: &SpanBatch) {
        for thread in &batch.threads {
            self.add_thread(&batch.catalog, thread);
        }
    }

    /// Adds the spans that one thread ended, with what they measured. The batches of a thread must come in their order.
    pub fn add_thread(&mut self, catalog: &Catalog, batch: &ThreadBatch) {
        self.add(&catalog.timeline, batch);
        self.measured.add(catalog, batch);
    }

    /// Adds the lengths of the spans that one thread ended. The batches of a thread must come in their order.
    pub fn add(&mut self, timeline: &Timeline, batch: &ThreadBatch) {
        self.add_each(timeline, batch, |_, _, _| {});
    }

    /// Like [`add`](Self::add), and tells `each` the call site, the length and the self time of every span, both in nanoseconds, for statistics of its own.
    #[inline]
    pub fn add_each(
        &mut self,
        timeline: &Timeline,
        batch: &ThreadBatch,
        mut each: impl FnMut(SiteId, u64, u64),
    ) {
        if batch.sites.is_empty() {
            return;
        }
        let ended = self.threads.entry(batch.thread).or_default();
        let mut line = Line::default();
        let spans = batch
            .start_ticks
            .iter()
            .zip(&batch.duration_ticks)
            .zip(&batch.sites);
        for ((&start_ticks, &duration_ticks), &site) in spans {
            let end_ticks = start_ticks.saturating_add(duration_ticks);
            let total_ns = match line.length_ns(start_ticks, end_ticks) {
                Some(ns) => ns,
                None => line.follow(timeline, start_ticks, end_ticks),
            };
            let inside = ended.end(start_ticks, total_ns);
            let stats = match self.dense.get_mut(site.0 as usize) {
                Some(stats) => stats,
                None => new_site(&mut self.dense, &mut self.sparse, site),
            };
            stats.total_ns = stats.total_ns.wrapping_add(total_ns);
            if total_ns < stats.min_ns {
                stats.min_ns = total_ns;
            }
            if total_ns > stats.max_ns {
                stats.max_ns = total_ns;
            }
            let mut self_ns = total_ns;
            // Most spans are leaves, and a leaf is its own time.
            if inside.children > 0 {
                let children_ns = inside.total_ns.min(total_ns);
                self_ns -= children_ns;
                stats.children_ns = stats.children_ns.wrapping_add(children_ns);
                stats.child_spans += inside.children;
                stats.descendant_spans += inside.descendants;
            }
            stats.histogram.add(total_ns);
            each(site, total_ns, self_ns);
        }
    }

    /// Tells which scopes a thread has open, so that what it ended before can be held in little memory.
    ///
    /// `open_start_ticks` are the starts of the thread's open scopes, ascending, read at `as_of_ticks`; every scope that the thread
    /// had ended by then must have been added. A worker therefore reads the open scopes first, drains the ring, adds the batch, and then calls this.
    ///
    /// Calling it is optional. Without it, a thread that ends over 32 768 scopes in a row whose parents are all still open
    /// may get [estimates](Self::estimated_self_times) for some of the parents' self times.
    pub fn settle(&mut self, thread: ThreadId, as_of_ticks: u64, open_start_ticks: &[u64]) {
        if let Some(ended) = self.threads.get_mut(&thread) {
            ended.settle(as_of_ticks, open_start_ticks);
        }
    }

    /// Forgets what is only needed for later spans of a thread that has exited.
    pub fn end_thread(&mut self, thread: ThreadId) {
        self.measured.end_thread(thread);
        if let Some(ended) = self.threads.remove(&thread) {
            self.estimated_self_times += ended.split_runs();
        }
    }

    /// Forgets the statistics of the spans so far, but not where they were: one that ends later still finds what is inside it. Statistics of a
    /// part of a recording begin so.
    pub fn restart(&mut self) {
        self.dense.clear();
        self.sparse.clear();
        self.measured.restart();
    }

    /// Returns the number of spans added, since the last [`restart`](Self::restart) if there was one.
    #[must_use]
    pub fn span_count(&self) -> u64 {
        self.sites().map(|(_, stats)| stats.histogram.count()).sum()
    }

    /// Returns the number of spans whose self time is an estimate because they began among more unfinished siblings than are
    /// held one by one. The sum of all self times is exact even so.
    #[must_use]
    pub fn estimated_self_times(&self) -> u64 {
        let running: u64 = self.threads.values().map(EndedSpans::split_runs).sum();
        self.estimated_self_times + running
    }

    /// Returns the statistics of every call site that ended a span, ascending by [`SiteId`].
    #[must_use]
    pub fn scope_stats(&self, catalog: &Catalog) -> Vec<ScopeStats> {
        let mut rows: Vec<_> = self
            .sites()
            .map(|(site, stats)| self.row(catalog, site, stats))
            .collect();
        rows.sort_unstable_by_key(|row| row.site);
        rows
    }

    fn row(&self, catalog: &Catalog, site: SiteId, stats: &SiteStats) -> ScopeStats {
        let measured = self.measured.of(site);
        ScopeStats {
            measures: catalog.site(site).map_or(Measures::NONE, Measures::of),
            measured: measured.total,
            self_measured: measured.own,
            ..stats.row(site, catalog.site_name(site))
        }
    }

    /// Adds the statistics of another builder whose ids mean the same.
    ///
    /// Children are only found among the spans that were added to the same builder, so a thread's spans belong into one builder.
    /// Where both saw the same thread, the later spans of that thread should have been added to this one.
    pub fn merge(&mut self, other: &Self) {
        for (site, stats) in other.sites() {
            match self.dense.get_mut(site.0 as usize) {
                Some(mine) => mine,
                None => new_site(&mut self.dense, &mut self.sparse, site),
            }
            .merge(stats);
        }
        for (&thread, ended) in &other.threads {
            let estimated = &mut self.estimated_self_times;
            self.threads
                .entry(thread)
                .and_modify(|_| *estimated += ended.split_runs())
                .or_insert_with(|| ended.clone());
        }
        self.measured.merge(&other.measured);
        self.estimated_self_times += other.estimated_self_times;
    }

    /// Returns the call sites that ended a span, in no particular order.
    fn sites(&self) -> impl Iterator<Item = (SiteId, &SiteStats)> {
        let dense = (0_u32..).zip(&self.dense);
        let sparse = self.sparse.iter().map(|(&id, stats)| (id, stats));
        let used = dense
            .chain(sparse)
            .filter(|(_, stats)| !stats.histogram.is_empty());
        used.map(|(id, stats)| (SiteId(id), stats))
    }
}

/// Returns the statistics of a call site that `dense` does not hold yet.
#[cold]
fn new_site<'a>(
    dense: &'a mut Vec<SiteStats>,
    sparse: &'a mut FxHashMap<u32, SiteStats>,
    site: SiteId,
) -> &'a mut SiteStats {
    let index = site.0 as usize;
    if index >= DENSE_SITES {
        return sparse.entry(site.0).or_default();
    }
    dense.resize_with(index + 1, SiteStats::default);
    &mut dense[index]
}

impl Default for SiteStats {
    fn default() -> Self {
        Self {
            total_ns: 0,
            children_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            child_spans: 0,
            descendant_spans: 0,
            histogram: Histogram::default(),
        }
    }
}

impl SiteStats {
    fn merge(&mut self, other: &Self) {
        self.total_ns = self.total_ns.wrapping_add(other.total_ns);
        self.children_ns = self.children_ns.wrapping_add(other.children_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.child_spans += other.child_spans;
        self.descendant_spans += other.descendant_spans;
        self.histogram.merge(&other.histogram);
    }

    fn row(&self, site: SiteId, name: &str) -> ScopeStats {
        let count = self.histogram.count();
        let percentile = |quantile| self.histogram.value_at(quantile).clamp(self.min_ns, self.max_ns);
        ScopeStats {
            site,
            name: name.to_owned(),
            count,
            total_ns: self.total_ns,
            self_ns: self.total_ns.saturating_sub(self.children_ns),
            min_ns: self.min_ns,
            mean_ns: self.total_ns as f64 / count.max(1) as f64,
            p50_ns: percentile(0.50),
            p95_ns: percentile(0.95),
            p99_ns: percentile(0.99),
            max_ns: self.max_ns,
            child_spans: self.child_spans,
            descendant_spans: self.descendant_spans,
            ..ScopeStats::default()
        }
    }
}

/// The part of a [`Timeline`] between two of its points, as far as it can be computed without care for the ends of the number ranges.
///
/// It covers the ticks `from_ticks <= t < until_ticks`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    pub(crate) from_ticks: u64,
    until_ticks: u64,
    rate: u64,
}

impl Line {
    /// Returns the nanoseconds between two ticks, or `None` where the line does not cover both.
    #[inline]
    pub(crate) fn length_ns(self, start_ticks: u64, end_ticks: u64) -> Option<u64> {
        if start_ticks < self.from_ticks || end_ticks >= self.until_ticks {
            return None;
        }
        // `until_ticks` is chosen such that the products, shifted, fit 63 bits.
        let ns =
            |ticks: u64| ((u128::from(ticks - self.from_ticks) * u128::from(self.rate)) >> RATE_BITS) as u64;
        Some(ns(end_ticks) - ns(start_ticks))
    }

    /// Moves to the line that covers `end_ticks`, and returns the nanoseconds between two ticks that the present line does not cover.
    #[cold]
    fn follow(&mut self, timeline: &Timeline, start_ticks: u64, end_ticks: u64) -> u64 {
        *self = Self::at(timeline, end_ticks).unwrap_or_default();
        let ns = timeline
            .unix_ns(end_ticks)
            .saturating_sub(timeline.unix_ns(start_ticks));
        u64::try_from(ns).unwrap_or(0)
    }

    /// Returns the line that covers `ticks`; `None` before the first point.
    pub(crate) fn at(timeline: &Timeline, ticks: u64) -> Option<Self> {
        let syncs = timeline.syncs();
        if syncs.is_empty() {
            return Some(Self {
                from_ticks: 0,
                until_ticks: i64::MAX as u64,
                rate: 1 << RATE_BITS,
            });
        }
        let after = syncs.partition_point(|sync| sync.ticks <= ticks);
        let sync = &syncs[after.checked_sub(1)?];
        let next_ticks = syncs.get(after).map_or(u64::MAX, |next| next.ticks);
        let room_ns = u128::try_from(i128::from(i64::MAX) - i128::from(sync.unix_ns)).unwrap_or(0);
        // A point far before 1970 leaves room for more than 63 bits, which is more than is needed.
        let room_ns = room_ns.min(i64::MAX as u128);
        let room_ticks = (room_ns << RATE_BITS) / u128::from(sync.rate.max(1));
        let room_ticks = u64::try_from(room_ticks).unwrap_or(u64::MAX);
        let until_ticks = next_ticks.min(sync.ticks.saturating_add(room_ticks));
        Some(Self {
            from_ticks: sync.ticks,
            until_ticks,
            rate: sync.rate,
        })
    }
}
