//! The engine: the worker's work at each pass over the rings.
//!
//! A pass fixes a tick, *now*, under the lock of the marks and takes the marks made before it. For
//! each mark in turn, it collects from every ring the records that ended by the mark, and finishes
//! the frame. Then it collects the records that ended by now. Later records stay in the rings,
//! since a future mark may still divide them. So a span belongs to the frame in which it ended,
//! whenever the worker runs.

#[cfg(all(test, not(loom), not(feature = "off"), not(target_family = "wasm")))]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::sort::sort_by;

use vor_capture::filled;
use vor_capture::model::batch::{OpenStarts, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, Column, ProcessInfo, SiteId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, TreeBuilder};
use vor_capture::model::timeline::Timeline;
use vor_capture::stats::ScopeStats;

use super::collect::{self, Context, Interner, PendingTexts, SpareValues};
use super::marks::{Mark, Marks};
use super::sampler::FrameSampler;
use super::scheduler::Scheduler;
use super::scope_states::{Recorded, ScopeState};
use super::statistics::{self, StatsBuilder};
use super::{count_only, heap};
use crate::clock::{self, Synchroniser};
use crate::drain::machine;
use crate::drain::outputs::Outputs;
use crate::hot::budget::{Account, ScopeBudget};
use crate::hot::callsite::{self, Words};
use crate::hot::ring::Slot;
use crate::hot::shared;
use crate::hot::sums::ThreadStats;
use crate::hot::sums::{self, Rate};
use crate::hot::thread::{self, SiteSums, StateBox, ThreadState};
use crate::hot::{modes, record_state};
use crate::metrics::gpu::GpuRows;
use crate::metrics::{self, FrameMetrics};
use crate::os::report;

/// The worker's state of a thread.
#[derive(Debug)]
struct Source {
    state: Arc<StateBox>,
    texts: PendingTexts,
    dropped_seen: u64,
    /// Its open scopes as of the last [`Engine::snapshot_open`]; `None` if they could not be read
    /// or were not requested.
    open_scopes: Option<Vec<(SiteId, u64)>>,
    /// Passes for which it is kept after its thread has ended inside scopes.
    grace_passes: u32,
}

/// A frame set's progress.
#[derive(Clone, Copy, Debug)]
struct SetState {
    next_index: u64,
    start_ticks: u64,
}

/// Everything the drain owns.
pub(super) struct Engine {
    catalog: Arc<Catalog>,
    no_catalog: Arc<Catalog>,
    clock: Synchroniser,
    sources: Vec<Source>,
    interner: Interner,
    words: Vec<Words>,
    batch: SpanBatch,
    spare: Vec<ThreadBatch>,
    spare_values: SpareValues,
    spare_metrics: Vec<MetricValue>,
    /// The last frame, without its contents, unless a sink keeps it.
    spare_frame: Option<FrameSnapshot>,
    trees: TreeBuilder,
    statistics: Option<StatsBuilder>,
    recorded: Recorded,
    /// The account of the budget of each site, if there is one.
    account: Option<Account>,
    judged_ticks: u64,
    sampler: FrameSampler,
    gpu_rows: GpuRows,
    start_ticks: u64,
    reviewed_ticks: u64,
    /// Just before and just after the last reading of the open scopes.
    open_as_of_ticks: u64,
    open_read_ticks: u64,
    /// Memory for readings of open scopes.
    open: Vec<(SiteId, u64)>,
    sets: Vec<SetState>,
    frame_spans: u64,
    frame_dropped: u64,
    keeps_ended: bool,
    heap: heap::Timer,
    scheduler: Scheduler,
    /// Marks that the worker has taken over but no pass has reached yet.
    pub(super) marks: Marks,
    pub(super) outputs: Outputs,
}

/// Most points of the timeline; at one a second, the last half an hour has all of them.
const MAX_SYNCS: usize = 4096;
/// Passes for which the state of a thread that ended inside scopes is kept. If the process ends in
/// that time, the thread's open scopes are recorded.
const GRACE_PASSES: u32 = 50;

/// Most emptied shares kept for the next batches.
const MAX_SPARE: usize = 64;

/// The outcome of a pass, from which the worker chooses its next sleep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pass {
    /// Whether there were spans, messages or marks.
    pub(super) active: bool,
    /// Whether a ring was filling.
    pub(super) pressed: bool,
    /// Whether marks still wait.
    pub(super) more: bool,
}

impl Engine {
    pub(super) fn new(start_ticks: u64, max_spans_per_frame: usize, statistics: bool) -> Self {
        let clock = Synchroniser::start(start_ticks);
        let mut timeline = Timeline::default();
        timeline.push(clock.last());
        let sampler = FrameSampler::new();
        let columns = sampler
            .columns()
            .into_iter()
            .map(|metric| {
                filled!(Column {
                    metric,
                    system: true,
                })
            })
            .collect();
        let catalog = filled!(Catalog {
            process: Arc::new(describe_process()),
            machine: Arc::new(machine::describe()),
            timeline: Arc::new(timeline),
            columns: Arc::new(columns),
            frame_sets: Arc::new(vec![String::new()])
        });
        Self {
            catalog: Arc::new(catalog),
            no_catalog: Arc::default(),
            clock,
            sources: Vec::new(),
            interner: Interner::default(),
            words: Vec::new(),
            batch: SpanBatch::default(),
            spare: Vec::new(),
            spare_values: SpareValues::default(),
            spare_metrics: Vec::new(),
            spare_frame: None,
            trees: TreeBuilder::new(max_spans_per_frame),
            statistics: statistics.then(statistics::start).flatten(),
            recorded: Recorded::default(),
            account: None,
            judged_ticks: start_ticks,
            sampler,
            gpu_rows: GpuRows::default(),
            start_ticks,
            reviewed_ticks: start_ticks,
            open_as_of_ticks: 0,
            open_read_ticks: 0,
            open: Vec::new(),
            sets: vec![SetState {
                next_index: 0,
                start_ticks,
            }],
            frame_spans: 0,
            frame_dropped: 0,
            keeps_ended: false,
            heap: heap::Timer::default(),
            scheduler: Scheduler::default(),
            marks: Marks::default(),
            outputs: Outputs::default(),
        }
    }

    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns which of the process's rows frames lack, and why; `None` if they have all.
    pub(super) fn absences(&self) -> Option<String> {
        self.sampler.absences()
    }

    pub(super) fn keep_statistics(&mut self) {
        self.statistics = self.statistics.take().or_else(statistics::start);
    }

    pub(super) fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    pub(super) fn scope_stats(&mut self) -> Vec<ScopeStats> {
        if record_state::counts_scopes() {
            return self.counted();
        }
        self.statistics
            .as_ref()
            .map(|stats| stats.scope_stats(&self.catalog))
            .unwrap_or_default()
    }

    /// Returns the mode of each call site, and what became of its scopes.
    pub(super) fn scope_states(&mut self) -> Vec<ScopeState> {
        let mut counted = SiteSums::default();
        for (_, sites) in thread::read_counted() {
            for (site, sums) in sites {
                counted.entry(site).or_default().merge(&sums);
            }
        }
        // After the sums were read: every counted scope has a name by then.
        self.learn_sites();
        let sites = (1..).zip(self.catalog.sites.iter());
        sites
            .map(|(id, info)| {
                let sums = counted.get(&id);
                ScopeState {
                    site: SiteId(id),
                    name: info
                        .as_ref()
                        .map_or_else(String::new, |info| info.name.to_string()),
                    mode: modes::of_id(id).shown(),
                    measures: modes::of_id(id).mode().measures,
                    over_budget: modes::of_id(id).is_over_budget(),
                    recorded: self.recorded.of(SiteId(id)),
                    counted: sums.map_or(0, |sums| sums.count()),
                    skipped: sums.map_or(0, |sums| sums.skipped),
                }
            })
            .collect()
    }

    /// Returns a row per call site of everything counted so far.
    pub(super) fn counted(&mut self) -> Vec<ScopeStats> {
        let mut all = SiteSums::default();
        for (_, sites) in thread::read_counted() {
            for (site, sums) in sites {
                all.entry(site).or_default().merge(&sums);
            }
        }
        self.counted_rows(&all)
    }

    /// Returns everything counted so far, by thread.
    pub(super) fn counted_by_thread(&mut self) -> Vec<ThreadStats> {
        let mut threads = Vec::new();
        for (thread, sites) in thread::read_counted() {
            let scopes = self.counted_rows(&sites);
            let info = thread.and_then(|thread| self.catalog.thread(thread));
            threads.push(ThreadStats {
                thread,
                name: info.map(|info| info.name.clone()).unwrap_or_default(),
                scopes,
            });
        }
        threads.retain(|thread| !thread.scopes.is_empty());
        threads
    }

    fn counted_rows(&mut self, sites: &SiteSums) -> Vec<ScopeStats> {
        // After the sums were read: every counted scope has a name by then.
        self.learn_sites();
        let rate = Rate::of(&self.catalog.timeline, self.start_ticks, clock::ticks());
        let sums = sites.iter().map(|(&site, sums)| (site, &**sums));
        sums::rows(sums, &self.catalog, rate)
    }

    /// Limits the share of a core that the scopes of a site may take, from now on.
    pub(super) fn set_budget(&mut self, budget: ScopeBudget) {
        modes::count_spans();
        self.account = Some(Account::new(budget));
        self.judged_ticks = clock::ticks();
    }

    /// Counts the scopes of sites that cost more than their budget, and records those of others
    /// again. Judges about once a second.
    fn review_budget(&mut self, now_ticks: u64) {
        let passed_ns = clock::approximate_ns(now_ticks.saturating_sub(self.judged_ticks));
        if passed_ns < 1_000_000_000 || self.account.is_none() {
            return;
        }
        self.judged_ticks = now_ticks;
        self.learn_sites();
        // By site: its ids differ in arguments and measures only.
        let mut scopes: FxHashMap<u32, u64> = FxHashMap::default();
        for id in 1..=self.catalog.sites.len() as u32 {
            let recorded = self.recorded.of(SiteId(id));
            let first = words_of(&mut self.words, SiteId(id)).first;
            *scopes
                .entry(if first == 0 { id } else { first })
                .or_default() += recorded;
        }
        for (_, sites) in thread::read_counted() {
            for (id, sums) in sites {
                let first = words_of(&mut self.words, SiteId(id)).first;
                *scopes
                    .entry(if first == 0 { id } else { first })
                    .or_default() += sums.count();
            }
        }
        let Some(account) = &mut self.account else {
            return;
        };
        let changed = account.judge(passed_ns, scopes);
        let over: Vec<(u32, bool)> = changed
            .iter()
            .map(|verdict| (verdict.site, verdict.is_over))
            .collect();
        if over.is_empty() {
            return;
        }
        record_state::set_over_budget(&over);
        let budget = account.budget();
        for verdict in changed {
            if let Some(line) = self.recorded.line(&self.catalog, budget, verdict) {
                report::line(&line);
            }
        }
    }

    /// Compares the clock with the system's, when that is due.
    fn check_clock(&mut self) {
        if let Some(sync) = self.clock.check() {
            shared::put_sync(&sync);
            let timeline = Arc::make_mut(&mut Arc::make_mut(&mut self.catalog).timeline);
            timeline.push(sync);
            if timeline.syncs().len() > MAX_SYNCS {
                timeline.thin();
            }
        }
    }

    /// Reviews about once a second, or when a review is due, how scopes are recorded.
    fn review_switch(&mut self, now_ticks: u64) {
        let passed_ns = clock::approximate_ns(now_ticks.saturating_sub(self.reviewed_ticks));
        if passed_ns > 1_000_000_000 || record_state::is_review_due() {
            self.reviewed_ticks = now_ticks;
            record_state::review();
        }
    }

    /// Takes everything that ended by `now_ticks`, frame by frame.
    pub(super) fn pass(&mut self, marks: Vec<Mark>, now_ticks: u64, set_names: &[String]) -> Pass {
        self.adopt(set_names);
        self.check_clock();
        self.review_switch(now_ticks);
        let is_filling =
            |source: &Source| source.state.ring.len() > source.state.ring.high_watermark();
        let mut pass = Pass {
            active: !marks.is_empty(),
            pressed: self.sources.iter().any(is_filling),
            more: false,
        };
        for mark in marks {
            pass.active |= self.collect_until(mark.ticks);
            self.finish_frame(mark);
        }
        pass.active |= self.collect_until(now_ticks);
        // The scopes that had closed when the open ones were read have been collected only if the
        // pass went beyond that moment.
        if self.open_read_ticks <= now_ticks {
            self.report_open();
        }
        self.take_heap(heap::SnapshotTime::IfDue);
        self.take_scheduler(false);
        self.review_budget(now_ticks);
        self.outputs.commit();
        self.settle();
        if !self.keeps_ended {
            self.release_ended();
        }
        pass
    }

    /// Puts everything that this process knows into its new file of shared memory.
    #[cfg(feature = "shared-memory")]
    pub(super) fn describe_in_shared(&mut self) {
        for sync in self.catalog.timeline.syncs() {
            shared::put_sync(sync);
        }
        shared::declare_process(&self.catalog.process, &self.catalog.machine);
    }

    /// Notes what the outputs have now, for those who recover the records of this process.
    fn settle(&mut self) {
        if !shared::is_on() {
            return;
        }
        let are_written = shared::has_capture();
        let rings = || self.sources.iter().map(|source| &source.state.ring);
        shared::settle(
            |epoch| {
                // Every ring, also when one before has changed.
                let changed = rings().filter(|ring| ring.settle(epoch, are_written));
                changed.count() > 0
            },
            || rings().for_each(|ring| ring.release()),
        );
        if let Some(problem) = shared::take_problem() {
            report::line(&problem);
        }
    }

    /// Passes a snapshot of the heap to the sinks, if snapshots are on.
    pub(super) fn take_heap(&mut self, time: heap::SnapshotTime) {
        if let Some(snapshot) = self.heap.snapshot(clock::ticks(), time) {
            // After the snapshot: every site that it names is known by then.
            self.learn_sites();
            self.outputs.accept_heap(&snapshot, &self.catalog);
        }
    }

    /// Passes events of the scheduler to the sinks, if they are wanted and due.
    pub(super) fn take_scheduler(&mut self, is_last: bool) {
        if let Some(batch) = self.scheduler.take(clock::ticks(), is_last) {
            self.outputs.accept_scheduler(&batch, &self.catalog);
        }
    }

    /// Takes the last events of the scheduler.
    #[cfg(any(unix, windows))]
    pub(super) fn end_scheduler(&mut self) {
        self.take_scheduler(true);
        self.scheduler.end();
    }

    /// Keeps the states of ended threads from now on: at the end of the process, their open scopes
    /// must still be recorded.
    #[cfg(any(unix, windows))]
    pub(super) fn keep_ended(&mut self) {
        self.keeps_ended = true;
    }

    /// Reads the open scopes, for statistics and sinks that need them. Must be called before the
    /// tick of the pass is fixed, so that scopes closed by then are collected.
    pub(super) fn snapshot_open(&mut self) {
        if self.statistics.is_none() && !self.outputs.want_open() {
            return;
        }
        // A scope that opens after the reading must not start before this tick.
        self.open_as_of_ticks = clock::ordered_ticks();
        for source in &mut self.sources {
            let mut open = source.open_scopes.take().unwrap_or_default();
            open.clear();
            // Scopes that are open beyond the recorded depth are unknown.
            if source.state.read_open(&mut self.open) && self.open.len() < thread::MAX_OPEN {
                open.extend_from_slice(&self.open);
                source.open_scopes = Some(open);
            }
        }
        // A scope that has closed before the reading must not end after this tick.
        self.open_read_ticks = clock::ordered_ticks();
    }

    /// Reports the scopes that [`snapshot_open`](Self::snapshot_open) found open to statistics and
    /// sinks.
    fn report_open(&mut self) {
        let known = self.sources.iter().filter_map(|source| {
            let open = source.open_scopes.as_ref()?;
            Some((source.state.id(), open))
        });
        if let Some(statistics) = &mut self.statistics {
            for (thread, open) in known.clone() {
                statistics.settle(thread, self.open_as_of_ticks, open);
            }
        }
        if self.outputs.want_open() {
            let starts = |open: &Vec<(SiteId, u64)>| open.iter().map(|(_, start)| *start).collect();
            let open = filled!(OpenStarts {
                as_of_ticks: self.open_as_of_ticks,
                threads: known.map(|(thread, open)| (thread, starts(open))).collect(),
            });
            self.outputs.accept_open(&open);
        }
    }

    /// Makes the next push of every thread wake the worker.
    pub(super) fn arm(&self) {
        for source in &self.sources {
            source.state.ring.arm();
        }
    }

    /// Returns whether a thread has pushed or appeared since the last pass.
    pub(super) fn has_news(&self) -> bool {
        self.sources
            .iter()
            .any(|source| source.state.ring.len() > 0)
    }

    /// Adds threads and frame sets that appeared since the last pass to the catalog.
    fn adopt(&mut self, set_names: &[String]) {
        for (state, dropped_seen) in thread::take_added() {
            self.sources.push(Source {
                state,
                texts: PendingTexts::default(),
                dropped_seen,
                open_scopes: None,
                grace_passes: GRACE_PASSES,
            });
        }
        thread::declare_new(&mut self.catalog);
        if set_names.len() + 1 > self.catalog.frame_sets.len() {
            let known = self.catalog.frame_sets.len() - 1;
            let catalog = Arc::make_mut(&mut self.catalog);
            Arc::make_mut(&mut catalog.frame_sets).extend_from_slice(&set_names[known..]);
            let start = SetState {
                next_index: 0,
                start_ticks: self.start_ticks,
            };
            self.sets.resize(set_names.len() + 1, start);
        }
    }

    /// Collects from all rings the records that ended by the limit, in as many batches as needed.
    /// Returns whether there was any.
    fn collect_until(&mut self, limit_ticks: u64) -> bool {
        let mut any = false;
        loop {
            if self.frame_spans == 0 {
                self.outputs.refresh_interest();
            }
            if !self.outputs.want_spans() && self.statistics.is_none() {
                return self.count_until(limit_ticks) || any;
            }
            let full = self.fill_batch(limit_ticks);
            if self.batch.threads.is_empty() {
                return any;
            }
            any = true;
            self.deliver();
            self.settle();
            if !full {
                return any;
            }
        }
    }

    /// Like [`collect_until`](Self::collect_until), if nothing needs the spans.
    fn count_until(&mut self, limit_ticks: u64) -> bool {
        let (mut spans, mut slots_passed) = (0, 0);
        for source in &mut self.sources {
            let (texts, interner) = (&mut source.texts, &mut self.interner);
            let take = |slots: &[Slot]| {
                let passed =
                    count_only::count_spans(slots, limit_ticks, texts, interner, &mut spans);
                slots_passed += passed;
                passed
            };
            self.frame_dropped += consume(&source.state, &mut source.dropped_seen, take);
        }
        self.frame_dropped += thread::take_lost();
        self.frame_spans += spans;
        slots_passed > 0
    }

    /// Fills the batch with at most one share per thread. Returns whether a thread has more.
    fn fill_batch(&mut self, limit_ticks: u64) -> bool {
        let mut full = false;
        // Drops of threads without a state are counted with the first thread, since each share
        // belongs to a thread.
        let mut lost = match self.sources.is_empty() {
            true => 0,
            false => thread::take_lost(),
        };
        let words = &mut self.words;
        let mut words_of = |site: vor_capture::model::catalog::SiteId| words_of(words, site);
        for source in &mut self.sources {
            let mut share = self.spare.pop().unwrap_or_default();
            share.thread = source.state.id();
            let mut context = Context {
                texts: &mut source.texts,
                interner: &mut self.interner,
                spare: &mut self.spare_values,
                words: &mut words_of,
            };
            let take = |slots: &[Slot]| {
                let taken = collect::collect(slots, limit_ticks, &mut share, &mut context);
                full |= share.len() >= collect::MAX_SPANS;
                taken
            };
            share.dropped_spans = consume(&source.state, &mut source.dropped_seen, take);
            share.dropped_spans += std::mem::take(&mut lost);
            if share.is_empty() {
                self.spare.push(share);
            } else {
                self.batch.threads.push(share);
            }
        }
        full
    }

    /// Delivers the batch to everything that takes batches.
    fn deliver(&mut self) {
        self.learn_sites();
        self.batch.catalog = Arc::clone(&self.catalog);
        for share in &self.batch.threads {
            self.frame_spans += share.len() as u64;
            self.frame_dropped += share.dropped_spans;
        }
        if modes::were_active() {
            self.recorded.add(&self.batch);
        }
        self.outputs.accept_batch(&self.batch);
        if shared::is_on() {
            // Rings in shared memory become free only when the outputs have their records.
            self.outputs.commit();
        }
        if self.outputs.wants_trees() {
            self.trees.add_batch(&self.batch);
        }
        if let Some(statistics) = &mut self.statistics {
            statistics.add_batch(&self.batch);
        }
        // The engine's catalog must have no other owner when it grows.
        self.batch.catalog = Arc::clone(&self.no_catalog);
        for mut share in self.batch.threads.drain(..) {
            self.spare_values.take_from(&mut share);
            share.clear();
            if self.spare.len() < MAX_SPARE {
                self.spare.push(share);
            }
        }
    }

    /// Adds call sites registered since the last time to the catalog.
    pub(super) fn learn_sites(&mut self) {
        callsite::declare_new(&mut self.catalog);
    }

    fn finish_frame(&mut self, mut mark: Mark) {
        let Some(set) = self.sets.get_mut(mark.set as usize) else {
            return;
        };
        let (index, start_ticks) = (set.next_index, set.start_ticks);
        *set = SetState {
            next_index: index + 1,
            start_ticks: mark.ticks,
        };
        let is_taken = self.outputs.take_frames();
        let (mut metrics, mut threads) = (Vec::new(), Vec::new());
        let (mut dropped_spans, mut span_count) = (0, 0);
        if mark.set == 0 {
            dropped_spans = std::mem::take(&mut self.frame_dropped);
            span_count = std::mem::take(&mut self.frame_spans);
            if is_taken {
                mark.metrics.settle();
                metrics = self.metric_values(&mark.metrics, start_ticks, mark.ticks);
            } else {
                self.sampler.keep_up();
            }
            // Last, because every column that has a value was declared before.
            self.learn_columns();
            if self.outputs.wants_trees() {
                threads = self.trees.finish().threads;
            } else if self.trees.span_count() > 0 {
                // The sink that wanted trees is gone. The next one must not get the beginning of
                // this frame.
                self.trees.finish();
            }
        }
        if !is_taken {
            return;
        }
        let frame = Arc::new(filled!(FrameSnapshot {
            catalog: Arc::clone(&self.catalog),
            index,
            frame_set: mark.set,
            start_ticks,
            end_ticks: mark.ticks,
            metrics,
            dropped_spans,
            merged_marks: mark.merged,
            span_count,
            threads,
            ..self.spare_frame.take().unwrap_or_default()
        }));
        self.outputs.accept_frame(&frame);
        // If no sink keeps the frame, the next frame reuses its memory.
        if let Some(mut frame) = Arc::into_inner(frame) {
            frame.metrics.clear();
            self.spare_metrics = std::mem::take(&mut frame.metrics);
            self.trees.recycle(std::mem::take(&mut frame.threads));
            // The engine's catalog must have no other owner when it grows.
            frame.catalog = Arc::clone(&self.no_catalog);
            self.spare_frame = Some(frame);
        }
    }

    fn learn_columns(&mut self) {
        let system = self.sampler.column_count();
        let new = metrics::columns_after(self.catalog.columns.len() - system);
        if !new.is_empty() {
            let catalog = Arc::make_mut(&mut self.catalog);
            Arc::make_mut(&mut catalog.columns).extend(new);
        }
    }

    fn metric_values(
        &mut self,
        recorded: &FrameMetrics,
        start_ticks: u64,
        end_ticks: u64,
    ) -> Vec<MetricValue> {
        let frame_ns = self
            .catalog
            .timeline
            .duration_ns(start_ticks, end_ticks.saturating_sub(start_ticks));
        let mut values = std::mem::take(&mut self.spare_metrics);
        self.sampler.sample(frame_ns, recorded, &mut values);
        let system = self.sampler.column_count() as u32;
        let user = recorded.values.iter().map(|(column, value)| {
            filled!(MetricValue {
                column: system + column,
                value: *value,
            })
        });
        values.extend(user);
        let of_gpus = self.gpu_rows.take(end_ticks);
        if !of_gpus.is_empty() {
            let value = |(column, value)| {
                filled!(MetricValue {
                    column: system + column,
                    value,
                })
            };
            values.extend(of_gpus.into_iter().map(value));
            // They were declared as they appeared, between the program's columns.
            sort_by(&mut values, |a, b| a.column.cmp(&b.column));
        }
        values
    }

    /// Reclaims the states of ended threads once their rings are empty.
    fn release_ended(&mut self) {
        self.sources.retain_mut(|source| {
            if source.state.is_drained(source.dropped_seen) {
                if source.grace_passes > 0 && source.state.has_open() {
                    source.grace_passes -= 1;
                    return true;
                }
                if let Some(statistics) = &mut self.statistics {
                    statistics.end_thread(source.state.id());
                }
                thread::reclaim(&source.state);
                return false;
            }
            true
        });
    }
}

/// Passes a thread's published records to `take`. Returns how many records the thread has dropped
/// since the last call.
fn consume(state: &ThreadState, dropped_seen: &mut u64, take: impl FnMut(&[Slot]) -> usize) -> u64 {
    // Before the slots: later drops belong to the next call.
    let dropped = state.ring.dropped();
    #[expect(unsafe_code, reason = "the ring requires a single consumer")]
    // SAFETY: only the engine's passes call this, and the engine is behind one lock. So this is the
    // only thread that consumes.
    unsafe {
        state.ring.consume(take)
    };
    dropped - std::mem::replace(dropped_seen, dropped)
}

/// Returns the meaning of the words of a site's records, from the registry if the site is new.
fn words_of(known: &mut Vec<Words>, site: vor_capture::model::catalog::SiteId) -> Words {
    let index = (site.0 as usize).wrapping_sub(1);
    if index >= known.len() {
        let registry = callsite::lock();
        known.extend(registry.after(known.len()).iter().map(|(_, words)| *words));
    }
    known.get(index).copied().unwrap_or_default()
}

fn describe_process() -> ProcessInfo {
    let executable = std::env::current_exe().ok();
    let name = executable.as_deref().and_then(|path| path.file_name());
    filled!(ProcessInfo {
        // A web page does not know its process number.
        pid: if cfg!(target_family = "wasm") {
            0
        } else {
            std::process::id()
        },
        name: name
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        recorder: env!("CARGO_PKG_VERSION").to_owned(),
    })
}
