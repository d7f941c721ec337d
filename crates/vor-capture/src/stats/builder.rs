//! From a stream of spans to statistics per call site.
//!
//! Per call site: exact sums and a [`Histogram`](super::histogram::Histogram). Per thread: the
//! spans that ended and may still get a parent, or an outer call of the same site
//! ([`ThreadSpans`]). The worker calls [`StatsBuilder::add`] for every span of the program, so one
//! span costs it two multiplications for the clock, a comparison with the top of the stack, an
//! entry in a list, and one increment in the histogram.

use crate::sort::sort_by;
use rustc_hash::FxHashMap;

use super::by_site::BySite;
use super::ended::Children;
use super::histogram::Histogram;
use super::measured::MeasuredSums;
use super::nested::Nested;
use super::scope_stats::ScopeStats;
use super::thread_spans::{SiteSums, ThreadSpans};
use crate::model::batch::{SpanBatch, ThreadBatch};
use crate::model::catalog::{Catalog, SiteId, ThreadId};
use crate::model::measures::{Measured, Measures};
use crate::model::timeline::{RATE_BITS, Timeline};

/// Builds [`ScopeStats`] from batches.
///
/// # Examples
///
/// ```
/// use vor_capture::filled;
/// use vor_capture::model::batch::ThreadBatch;
/// use vor_capture::model::catalog::{Catalog, SiteId};
/// use vor_capture::stats::StatsBuilder;
///
/// // A span of 100 ns around one of 30 ns, which ended first.
/// let batch = filled!(ThreadBatch {
///     start_ticks: vec![1_020, 1_000],
///     duration_ticks: vec![30, 100],
///     sites: vec![SiteId(2), SiteId(1)],
/// });
/// let catalog = Catalog::default();
/// let mut stats = StatsBuilder::new();
/// stats.add(&catalog.timeline, &batch);
/// let rows = stats.scope_stats(&catalog);
/// assert_eq!((rows[0].total_ns, rows[0].self_ns), (100, 70));
/// assert_eq!((rows[1].total_ns, rows[1].self_ns), (30, 30));
/// ```
#[derive(Clone, Debug, Default)]
pub struct StatsBuilder {
    sites: BySite<SiteStats>,
    threads: FxHashMap<ThreadId, ThreadSpans<u64>>,
    measured: MeasuredSums,
    estimated_self_times: u64,
}

/// Sums wrap around: the spans of a program would have to last 584 years for that, those of a
/// damaged capture may claim it.
#[derive(Clone, Debug)]
struct SiteStats {
    /// Sum of the durations of all spans.
    durations_ns: u64,
    children_ns: u64,
    min_ns: u64,
    max_ns: u64,
    child_spans: u64,
    descendant_spans: u64,
    /// The spans that lie inside another one of the site.
    nested: Nested<u64>,
    histogram: Histogram,
}

impl StatsBuilder {
    /// Passes after which another one gains nothing. The second is exact; only spans that do not
    /// nest, as in a damaged capture, need more.
    pub const MAX_PASSES: usize = 3;

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

    /// Adds the ended spans of one thread, with their measures. The batches of a thread must come
    /// in their order.
    pub fn add_thread(&mut self, catalog: &Catalog, batch: &ThreadBatch) {
        self.add(&catalog.timeline, batch);
        self.add_measures(catalog, batch);
    }

    /// Adds the measures of spans that [`add`](Self::add) or [`add_each`](Self::add_each) has
    /// added.
    pub fn add_measures(&mut self, catalog: &Catalog, batch: &ThreadBatch) {
        self.measured.add(catalog, batch);
    }

    /// Adds the durations of the ended spans of one thread. The batches of a thread must come in
    /// their order.
    pub fn add(&mut self, timeline: &Timeline, batch: &ThreadBatch) {
        self.add_each(timeline, batch, |_, _, _| {});
    }

    /// Like [`add`](Self::add), and calls `each` with the call site, the duration and the self time
    /// of every span, both in nanoseconds, for statistics of its own.
    #[inline]
    pub fn add_each(
        &mut self,
        timeline: &Timeline,
        batch: &ThreadBatch,
        each: impl FnMut(SiteId, u64, u64),
    ) {
        if batch.sites.is_empty() {
            return;
        }
        let mut line = Line::default();
        let ended = batch
            .start_ticks
            .iter()
            .zip(&batch.duration_ticks)
            .zip(&batch.sites);
        let spans = ended.map(|((&start_ticks, &duration_ticks), &site)| {
            let end_ticks = start_ticks.saturating_add(duration_ticks);
            let duration_ns = match line.duration_ns(start_ticks, end_ticks) {
                Some(ns) => ns,
                None => line.move_to(timeline, start_ticks, end_ticks),
            };
            (site, start_ticks, duration_ns)
        });
        let sites = &mut self.sites;
        let thread = self.threads.entry(batch.thread).or_default();
        thread.add(spans, &mut Sums { sites, each });
    }

    /// Takes the open scopes of a thread, so that its ended spans need little memory.
    ///
    /// `open` are the call sites and starts of the thread's open scopes, ascending by start, read
    /// at `as_of_ticks`; every scope that the thread had ended by then must have been added. A
    /// worker therefore reads the open scopes first, drains the ring, adds the batch, and then
    /// calls this.
    ///
    /// Calling it is optional. Without it, a thread that ends over 32 768 scopes in a row whose
    /// parents are all still open may get [estimates](Self::estimated_self_times) for some of the
    /// parents, which a [second pass](Self::for_second_pass) makes exact.
    pub fn settle(&mut self, thread: ThreadId, as_of_ticks: u64, open: &[(SiteId, u64)]) {
        if let Some(spans) = self.threads.get_mut(&thread) {
            spans.settle(as_of_ticks, open);
        }
        self.measured.settle(thread, as_of_ticks, open);
    }

    /// Returns the sum of the measures of the spans of chosen call sites, each without the spans
    /// inside it; `None` if none of these spans has a measure. With [`restart`](Self::restart)
    /// after each frame, each measure counts in one frame.
    pub fn self_measured(&self, chosen: impl Fn(SiteId) -> bool) -> Option<Measured> {
        self.measured.own(chosen)
    }

    /// Forgets the state for later spans of a thread that has exited.
    pub fn end_thread(&mut self, thread: ThreadId) {
        self.measured.end_thread(thread);
        if let Some(spans) = self.threads.remove(&thread) {
            self.estimated_self_times += spans.estimates();
        }
    }

    /// Forgets the statistics of the spans so far, but not where they were: a span that ends later
    /// still finds the spans inside it. Statistics of a part of a recording begin so. A call that
    /// ended before is not in the later totals, so the total of a call around it counts in full.
    pub fn restart(&mut self) {
        self.sites.clear();
        self.threads.values_mut().for_each(ThreadSpans::restart);
        self.measured.restart();
    }

    /// Returns the number of spans added, since the last [`restart`](Self::restart) if there was
    /// one.
    #[must_use]
    pub fn span_count(&self) -> u64 {
        self.sites().map(|(_, stats)| stats.histogram.count()).sum()
    }

    /// Returns the number of estimates: of the self time of a span, of its time in recursive calls,
    /// and of its own part of a measure. A span that began among more unfinished siblings than are
    /// held one by one has up to one of each. The sum of all self times is exact even so, and a
    /// [second pass](Self::for_second_pass) over the same batches is exact for each span.
    #[must_use]
    pub fn estimated_self_times(&self) -> u64 {
        let running: u64 = self.threads.values().map(ThreadSpans::estimates).sum();
        self.estimated_self_times + running + self.measured.estimates()
    }

    /// Returns a builder without spans that needs no [estimate](Self::estimated_self_times) where
    /// this one did, in as little memory, once all batches are added to it again; `None` where
    /// nothing was estimated.
    #[must_use]
    pub fn for_second_pass(&self) -> Option<Self> {
        let threads = self.threads.iter();
        (self.estimated_self_times() > 0).then(|| Self {
            threads: threads
                .map(|(&thread, spans)| (thread, spans.for_second_pass()))
                .collect(),
            measured: self.measured.for_second_pass(),
            ..Self::default()
        })
    }

    /// Returns the statistics of every call site that ended a span, ascending by [`SiteId`].
    #[must_use]
    pub fn scope_stats(&self, catalog: &Catalog) -> Vec<ScopeStats> {
        let mut rows: Vec<_> = self
            .sites()
            .map(|(site, stats)| self.row(catalog, site, stats))
            .collect();
        sort_by(&mut rows, |a, b| a.site.cmp(&b.site));
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
    /// Children are only found among the spans that were added to the same builder, so a thread's
    /// spans belong into one builder. Where both saw the same thread, the later spans of that
    /// thread should have been added to this one.
    pub fn merge(&mut self, other: &Self) {
        for (site, stats) in other.sites() {
            self.sites.of(site).merge(stats);
        }
        for (&thread, spans) in &other.threads {
            let estimated = &mut self.estimated_self_times;
            self.threads
                .entry(thread)
                .and_modify(|_| *estimated += spans.estimates())
                .or_insert_with(|| spans.clone());
        }
        self.measured.merge(&other.measured);
        self.estimated_self_times += other.estimated_self_times;
    }

    /// Returns the call sites that ended a span, in no particular order.
    fn sites(&self) -> impl Iterator<Item = (SiteId, &SiteStats)> {
        self.sites
            .iter()
            .filter(|(_, stats)| !stats.histogram.is_empty())
    }
}

/// The statistics of the call sites, and the callback for each span.
struct Sums<'a, F> {
    sites: &'a mut BySite<SiteStats>,
    each: F,
}

impl<F: FnMut(SiteId, u64, u64)> SiteSums<u64> for Sums<'_, F> {
    #[inline]
    fn add(&mut self, site: SiteId, duration_ns: u64, inside: Children<u64>) {
        let self_ns = self.sites.of(site).add(duration_ns, inside);
        (self.each)(site, duration_ns, self_ns);
    }

    #[inline]
    fn add_nested(&mut self, site: SiteId, nested: Nested<u64>) {
        let stats = self.sites.of(site);
        stats.nested = stats.nested.plus(nested);
    }
}

impl Default for SiteStats {
    fn default() -> Self {
        Self {
            durations_ns: 0,
            children_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            child_spans: 0,
            descendant_spans: 0,
            nested: Nested::default(),
            histogram: Histogram::default(),
        }
    }
}

impl SiteStats {
    /// Adds a span, and returns its self time.
    #[inline]
    fn add(&mut self, duration_ns: u64, inside: Children<u64>) -> u64 {
        self.durations_ns = self.durations_ns.wrapping_add(duration_ns);
        if duration_ns < self.min_ns {
            self.min_ns = duration_ns;
        }
        if duration_ns > self.max_ns {
            self.max_ns = duration_ns;
        }
        let mut self_ns = duration_ns;
        // Most spans are leaves, whose self time is their duration.
        if inside.children > 0 {
            let children_ns = inside.sum.min(duration_ns);
            self_ns -= children_ns;
            self.children_ns = self.children_ns.wrapping_add(children_ns);
            self.child_spans += inside.children;
            self.descendant_spans += inside.descendants;
        }
        self.histogram.add(duration_ns);
        self_ns
    }

    fn merge(&mut self, other: &Self) {
        self.durations_ns = self.durations_ns.wrapping_add(other.durations_ns);
        self.children_ns = self.children_ns.wrapping_add(other.children_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.child_spans += other.child_spans;
        self.descendant_spans += other.descendant_spans;
        self.nested = self.nested.plus(other.nested);
        self.histogram.merge(&other.histogram);
    }

    fn row(&self, site: SiteId, name: &str) -> ScopeStats {
        let count = self.histogram.count();
        let self_ns = self.durations_ns.saturating_sub(self.children_ns);
        let percentile = |quantile| {
            self.histogram
                .value_at(quantile)
                .clamp(self.min_ns, self.max_ns)
        };
        ScopeStats {
            site,
            name: name.to_owned(),
            count,
            // The spans of a damaged capture need not nest.
            total_ns: self
                .durations_ns
                .saturating_sub(self.nested.sum)
                .max(self_ns),
            self_ns,
            min_ns: self.min_ns,
            mean_ns: self.durations_ns as f64 / count.max(1) as f64,
            p50_ns: percentile(0.50),
            p95_ns: percentile(0.95),
            p99_ns: percentile(0.99),
            max_ns: self.max_ns,
            child_spans: self.child_spans,
            descendant_spans: self.descendant_spans,
            nested_spans: self.nested.calls,
            nested_descendant_spans: self.nested.descendants,
            ..ScopeStats::default()
        }
    }
}

/// The part of a [`Timeline`] between two of its points in which no computation can overflow.
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
    pub(crate) fn duration_ns(self, start_ticks: u64, end_ticks: u64) -> Option<u64> {
        if start_ticks < self.from_ticks || end_ticks >= self.until_ticks {
            return None;
        }
        // `until_ticks` is chosen such that the products, shifted, fit 63 bits.
        let ns = |ticks: u64| {
            ((u128::from(ticks - self.from_ticks) * u128::from(self.rate)) >> RATE_BITS) as u64
        };
        Some(ns(end_ticks) - ns(start_ticks))
    }

    /// Moves to the line that covers `end_ticks`, and returns the nanoseconds between two ticks
    /// that the current line does not cover.
    #[cold]
    fn move_to(&mut self, timeline: &Timeline, start_ticks: u64, end_ticks: u64) -> u64 {
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
