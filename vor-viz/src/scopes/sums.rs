//! Sums per call site: number of calls, duration, self time, the distribution, and the slowest
//! calls.
//!
//! Scopes and tasks of a call site are separate. Tasks overlap, so their durations do not show how
//! busy a thread was, and they have no self time.
//!
//! Totals and self times are those of the measured [parts](SpanPart) of spans. The distribution and
//! the slowest calls are those of whole calls: a clipped duration is no property of a call.
//! Measured times are those of the parts, too. Switches and allocations are those of the spans that
//! ended in the frames.

use std::ops::Range;

use rustc_hash::FxHashMap;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::measures::{Measured, Measures};
use vor_capture::stats::Histogram;

use super::job::Gather;
use super::measured_parts::MeasuredSum;
use crate::holder::{Holder, HolderCounts, sites_with_holder};
use crate::store::{Extent, SiteSet, Span, SpanPart, SpanVisitor, TrackKind};

/// Ids below this are in a table, the others in a map: a single wrong id in a damaged capture must
/// not cost gigabytes.
const DENSE_SITES: usize = 1 << 16;

/// The first span of a call site costs as much as this number of others, since it creates a
/// histogram.
const FIRST_COST: usize = 30;

/// Number of slowest calls stored per call site.
const SLOWEST: usize = 10;

/// One of the slowest calls of a call site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCall {
    /// The thread on which the call ran; for a task, the thread on which it ended.
    pub thread: ThreadId,
    /// Its begin and duration.
    pub span: Span,
    /// The holder of the lock, if the call is a wait for one.
    pub holder: Option<Holder>,
}

/// Statistics of one call site in some frames.
///
/// Counts, sums, minimum and maximum are exact. Percentiles have an error of at most 1.6 %, and are
/// exact below 64 ns.
#[derive(Clone, Debug)]
pub struct ScopeRow {
    /// The call site.
    pub site: SiteId,
    /// Whether its spans are scopes or tasks.
    pub kind: TrackKind,
    /// Its name, `?` when it is unknown.
    pub name: Box<str>,
    /// The name in lower case, for searches.
    pub lower_name: Box<str>,
    /// Number of visited spans.
    pub count: u64,
    /// Time during which any of them was open, in nanoseconds, summed over threads. A recursive
    /// call adds nothing to the call around it. For tasks, which overlap, the sum of their
    /// measured parts.
    pub total_ns: u64,
    /// Sum of their measured parts without those of the spans directly inside them, in nanoseconds;
    /// 0 for tasks.
    pub self_ns: u64,
    /// Number of visited spans that ended in the frames.
    pub ended_count: u64,
    /// Sum of the durations of all visited spans in nanoseconds, including recursive calls.
    pub durations_ns: u64,
    /// Shortest duration in nanoseconds.
    pub min_ns: u64,
    /// 50th percentile of the durations, in nanoseconds.
    pub p50_ns: u64,
    /// 95th percentile of the durations, in nanoseconds.
    pub p95_ns: u64,
    /// 99th percentile of the durations, in nanoseconds.
    pub p99_ns: u64,
    /// Longest duration in nanoseconds.
    pub max_ns: u64,
    /// The quantities measured beside the duration; none for tasks.
    pub measures: Measures,
    /// Sums of the measured quantities, including spans inside: the times of the measured parts,
    /// and the numbers of the spans that ended in the frames. A recursive call adds nothing to the
    /// call around it.
    pub measured: Measured,
    /// Number of calls that the ends of the frames cut and that did not run all the time. Their
    /// part of the measured times is an estimate.
    pub estimates: u64,
    /// The distribution of the durations.
    pub histogram: Histogram,
    /// The slowest calls, at most ten, the slowest first.
    pub slowest: Vec<SlowCall>,
    /// The most frequent holder of the lock and the number of its waits, if its spans are waits for
    /// one.
    pub holder: Option<(Holder, u64)>,
}

impl ScopeRow {
    /// Returns the mean duration in nanoseconds, including recursive calls.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.durations_ns as f64 / self.count.max(1) as f64
    }

    /// Returns the part of the total in which the spans ran, in nanoseconds, including spans
    /// inside, or `None` if it was not measured.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        let off_cpu_ns = self.measured.off_cpu_ns;
        self.measures
            .has(Measures::CPU)
            .then(|| self.total_ns.saturating_sub(off_cpu_ns))
    }

    /// Returns the part of the total in which the spans were runnable and had no processor, and the
    /// part in which they were blocked, both in nanoseconds, or `None` if it was not measured.
    #[must_use]
    pub fn waits_ns(&self) -> Option<[u64; 2]> {
        let off_cpu_ns = self.measured.off_cpu_ns;
        self.measures
            .has(Measures::WAIT)
            .then(|| self.measured.queued_and_blocked_ns(off_cpu_ns))
    }

    /// Returns how often the threads of the spans that ended in the frames got a processor again,
    /// or `None` if it was not counted.
    #[must_use]
    pub fn switches(&self) -> Option<u64> {
        self.has_counted(Measures::SWITCHES)
            .then_some(self.measured.context_switches)
    }

    /// Returns the bytes that the spans that ended in the frames allocated, including spans inside,
    /// or `None` if not counted.
    #[must_use]
    pub fn alloc_bytes(&self) -> Option<u64> {
        self.has_counted(Measures::ALLOC)
            .then_some(self.measured.alloc_bytes)
    }

    /// Returns whether a span that counts something ended in the frames.
    fn has_counted(&self, measures: Measures) -> bool {
        self.ended_count > 0 && self.measures.has(measures)
    }

    /// Returns whether its spans are tasks, which have no self time.
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.kind == TrackKind::Tasks
    }
}

/// All call sites with a span in some frames.
#[derive(Clone, Debug, Default)]
pub struct ScopeRows {
    /// One row per call site and kind, in no particular order.
    pub rows: Vec<ScopeRow>,
    /// Number of spans in all rows.
    pub spans: u64,
    /// Number of frames.
    pub frames: usize,
    /// Total duration of the frames, in nanoseconds.
    pub time_ns: u64,
}

/// Gathers [`ScopeRows`].
#[derive(Clone, Debug)]
pub struct ScopeSums {
    scopes: Sites,
    tasks: Sites,
    /// Measured quantities of scopes.
    measured: FxHashMap<SiteId, MeasuredSum>,
    extent: Extent,
    /// The time of the frames.
    time_ns: Range<i64>,
    kind: TrackKind,
    thread: ThreadId,
    /// Call sites of the open spans.
    open_sites: Vec<SiteId>,
    /// The call sites of waits for locks.
    waits: SiteSet,
    /// The open waits for locks.
    open_waits: Vec<(ThreadId, Span, Holder)>,
    holders: FxHashMap<(SiteId, TrackKind), HolderCounts>,
    /// Number of call sites with a span.
    sites: usize,
    /// Sums that are not yet rows; set when the walk is over.
    unsettled: Option<std::vec::IntoIter<(SiteId, TrackKind, Sums)>>,
    rows: Vec<ScopeRow>,
}

#[derive(Clone, Debug, Default)]
struct Sites {
    dense: Vec<Sums>,
    sparse: FxHashMap<u32, Sums>,
}

/// Sums wrap around. The spans of a program would have to last 584 years for that, but a damaged
/// capture may contain such values.
#[derive(Clone, Debug)]
struct Sums {
    total_ns: u64,
    self_ns: u64,
    ended_count: u64,
    durations_ns: u64,
    /// Number of open spans.
    open: u32,
    min_ns: u64,
    max_ns: u64,
    histogram: Histogram,
    slowest: Vec<SlowCall>,
    /// A call that exceeds this is one of the slowest.
    slow_above_ns: Option<u64>,
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            total_ns: 0,
            self_ns: 0,
            ended_count: 0,
            durations_ns: 0,
            open: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            histogram: Histogram::default(),
            slowest: Vec::new(),
            slow_above_ns: None,
        }
    }
}

impl Sums {
    /// Returns whether there was no span.
    #[inline]
    fn is_empty(&self) -> bool {
        self.min_ns > self.max_ns
    }

    /// Adds a span that is no longer among the open ones.
    #[inline]
    fn add(&mut self, span: &Span, part: SpanPart, ends: bool) {
        if self.open == 0 {
            self.total_ns = self.total_ns.wrapping_add(part.ns);
        }
        self.self_ns = self.self_ns.wrapping_add(part.self_ns());
        let ns = span.duration_ns;
        self.ended_count += u64::from(ends);
        self.durations_ns = self.durations_ns.wrapping_add(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.histogram.add(ns);
    }

    /// Returns whether a call is one of the slowest so far.
    #[inline]
    fn is_slow(&self, span: &Span) -> bool {
        self.slow_above_ns
            .is_none_or(|above_ns| span.duration_ns > above_ns)
    }

    #[cold]
    fn add_slow(&mut self, call: SlowCall) {
        if self.slowest.len() < SLOWEST {
            if self.slowest.is_empty() {
                self.slowest.reserve_exact(SLOWEST);
            }
            self.slowest.push(call);
        } else if let Some(fastest) = self
            .slowest
            .iter_mut()
            .min_by_key(|call| call.span.duration_ns)
        {
            *fastest = call;
        }
        if self.slowest.len() == SLOWEST {
            self.slow_above_ns = self.slowest.iter().map(|call| call.span.duration_ns).min();
        }
    }

    fn row(mut self, site: SiteId, kind: TrackKind, name: &str) -> ScopeRow {
        // The earliest call wins a tie.
        self.slowest.sort_by_key(|call| {
            (
                std::cmp::Reverse(call.span.duration_ns),
                call.span.begin_ns,
                call.thread,
            )
        });
        let percentile = |quantile| {
            self.histogram
                .value_at(quantile)
                .clamp(self.min_ns, self.max_ns)
        };
        ScopeRow {
            site,
            kind,
            name: name.into(),
            lower_name: name.to_lowercase().into(),
            count: self.histogram.count(),
            total_ns: self.total_ns,
            self_ns: self.self_ns,
            ended_count: self.ended_count,
            durations_ns: self.durations_ns,
            min_ns: self.min_ns,
            p50_ns: percentile(0.50),
            p95_ns: percentile(0.95),
            p99_ns: percentile(0.99),
            max_ns: self.max_ns,
            measures: Measures::NONE,
            measured: Measured::default(),
            estimates: 0,
            histogram: self.histogram,
            slowest: self.slowest,
            holder: None,
        }
    }
}

impl Sites {
    #[inline]
    fn get(&mut self, site: SiteId) -> &mut Sums {
        let index = site.0 as usize;
        if index >= self.dense.len() {
            if index >= DENSE_SITES {
                return self.sparse.entry(site.0).or_default();
            }
            self.dense.resize_with(index + 1, Sums::default);
        }
        &mut self.dense[index]
    }

    fn used(self, kind: TrackKind) -> impl Iterator<Item = (SiteId, TrackKind, Sums)> {
        let all = (0..).zip(self.dense).chain(self.sparse);
        let used = all.filter(|(_, sums)| !sums.is_empty());
        used.map(move |(id, sums)| (SiteId(id), kind, sums))
    }
}

impl SpanVisitor for ScopeSums {
    #[inline]
    fn enter(&mut self, span: &Span, _: usize) {
        if self.kind == TrackKind::Scopes {
            self.scopes.get(span.site).open += 1;
            self.open_sites.push(span.site);
        }
    }

    #[inline]
    fn leave(&mut self, span: &Span, _: usize, mut part: SpanPart) {
        let ends = span.end_ns() <= self.time_ns.end;
        let sums = if self.kind == TrackKind::Scopes {
            self.open_sites.pop();
            let sums = self.scopes.get(span.site);
            sums.open = sums.open.saturating_sub(1);
            sums
        } else {
            // Tasks have no self time.
            part.inside_ns = part.ns;
            self.tasks.get(span.site)
        };
        self.sites += usize::from(sums.is_empty());
        sums.add(span, part, ends);
        let is_wait = |wait: &(ThreadId, Span, Holder)| (wait.0, wait.1) == (self.thread, *span);
        let wait = self.open_waits.iter().rposition(is_wait);
        let wait = wait.map(|at| self.open_waits.swap_remove(at));
        if sums.is_slow(span) {
            sums.add_slow(SlowCall {
                thread: self.thread,
                span: *span,
                holder: wait.map(|(.., holder)| holder),
            });
        }
    }
}

impl Gather for ScopeSums {
    type Options = Extent;
    type Output = ScopeRows;

    const MEASURES: bool = true;

    fn extent(extent: &Extent) -> Extent {
        *extent
    }

    fn new(extent: &Extent) -> Self {
        Self {
            scopes: Sites::default(),
            tasks: Sites::default(),
            measured: FxHashMap::default(),
            extent: *extent,
            time_ns: i64::MIN..i64::MAX,
            kind: TrackKind::Scopes,
            thread: ThreadId(0),
            open_sites: Vec::new(),
            waits: SiteSet::default(),
            open_waits: Vec::new(),
            holders: FxHashMap::default(),
            sites: 0,
            unsettled: None,
            rows: Vec::new(),
        }
    }

    fn begin_range(&mut self, catalog: &Catalog, time_ns: Range<i64>) {
        self.time_ns = time_ns;
        self.waits = sites_with_holder(catalog);
    }

    #[inline]
    fn wants(&self, span: &Span) -> bool {
        self.waits.has(span.site)
    }

    fn visit(&mut self, span: &Span, _: usize, _: &[ArgValue], holder: Option<Holder>) {
        if let Some(holder) = holder {
            let counts = self.holders.entry((span.site, self.kind));
            counts.or_default().add(&holder);
            self.open_waits.push((self.thread, *span, holder));
        }
    }

    fn measure(&mut self, span: &Span, measured: Measured) {
        // A recursive call adds nothing to the one around it.
        if self.scopes.get(span.site).open > 0 {
            return;
        }
        let sum = self.measured.entry(span.site).or_default();
        match self.extent {
            Extent::Clipped => sum.add_times(span, &self.time_ns, &measured),
            Extent::Whole => sum.add_times(span, &(i64::MIN..i64::MAX), &measured),
        }
        if span.end_ns() <= self.time_ns.end {
            sum.add_counts(measured);
        }
    }

    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind) -> bool {
        (self.thread, self.kind) = (thread, kind);
        // A track that was removed from the store during the walk leaves spans open.
        for site in self.open_sites.drain(..) {
            self.scopes.get(site).open = 0;
        }
        true
    }

    fn extra_cost(&self) -> usize {
        self.sites * FIRST_COST
    }

    fn settle(&mut self, catalog: &Catalog, most: usize) -> bool {
        let unsettled = self.unsettled.get_or_insert_with(|| {
            let scopes = std::mem::take(&mut self.scopes).used(TrackKind::Scopes);
            let tasks = std::mem::take(&mut self.tasks).used(TrackKind::Tasks);
            scopes.chain(tasks).collect::<Vec<_>>().into_iter()
        });
        let rows = unsettled.by_ref().take(most);
        self.rows.extend(rows.map(|(site, kind, sums)| {
            let mut row = sums.row(site, kind, catalog.site_name(site));
            if kind == TrackKind::Scopes {
                row.measures = catalog.site(site).map_or(Measures::NONE, Measures::of);
                let measured = self.measured.get(&site).copied().unwrap_or_default();
                (row.measured, row.estimates) = (measured.values, measured.estimates);
            }
            let holders = self.holders.remove(&(site, kind));
            row.holder = holders.and_then(HolderCounts::most_frequent);
            row
        }));
        unsettled.len() > 0
    }

    fn finish(self, frames: usize, time_ns: u64) -> ScopeRows {
        ScopeRows {
            spans: self.rows.iter().map(|row| row.count).sum(),
            rows: self.rows,
            frames,
            time_ns,
        }
    }
}
