//! The ids, ticks and frame numbers of one run in a capture of several runs.
//!
//! The segments of a run agree on all of them. Another run numbers its call sites anew, and after a
//! reboot its ticks are those of another clock. So each run but the first has a [`Mapping`] into
//! the common catalog.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::batch::{SpanBatch, ThreadBatch};
use crate::model::catalog::{Catalog, SiteId, ThreadId};
use crate::model::frame::{FrameSnapshot, ThreadTree};
use crate::model::heap::HeapSnapshot;
use crate::model::scheduler::SchedulerBatch;
use crate::model::scope_modes::{ScopeMode, ScopeModeChange, ScopeModes};
use crate::model::timeline::{ClockSync, RATE_BITS, Timeline};
use crate::reader::FrameSummary;
use crate::sort::sort_by;

/// From the ids of a run to those of the common catalog.
#[derive(Clone, Debug, Default)]
pub(super) struct Mapping {
    /// By the index in the run's catalog.
    sites: Vec<SiteId>,
    threads: Vec<ThreadId>,
    columns: Vec<u32>,
    frame_sets: Vec<u32>,
    /// Added to every tick, wrapping.
    ticks: u64,
    /// Added to the number of every frame of the main set, wrapping.
    pub(super) frames: u64,
    /// Added to the ids of tasks and flows, wrapping.
    tasks: u64,
}

/// Adds what the segment's catalog `from` declares beyond `to`, which is of the same run.
pub(super) fn join(to: &mut Catalog, from: &Catalog) {
    join_table(&mut to.sites, &from.sites, |entry| entry.is_none());
    join_table(&mut to.threads, &from.threads, |entry| entry.is_none());
    join_table(&mut to.columns, &from.columns, |column| {
        column.metric.name.is_empty()
    });
    join_table(&mut to.frame_sets, &from.frame_sets, String::is_empty);
    join_timeline(&mut to.timeline, from.timeline.syncs(), 0);
    join_modes(&mut to.scope_modes, &from.scope_modes, |change| change);
}

fn join_table<T: Clone>(to: &mut Arc<Vec<T>>, from: &Arc<Vec<T>>, is_lost: impl Fn(&T) -> bool) {
    let has_gain = |to: &[T]| {
        from.len() > to.len()
            || to
                .iter()
                .zip(&**from)
                .any(|(known, entry)| is_lost(known) && !is_lost(entry))
    };
    if !has_gain(to) {
        return;
    }
    let to = Arc::make_mut(to);
    for (known, entry) in to.iter_mut().zip(&**from) {
        if is_lost(known) {
            *known = entry.clone();
        }
    }
    let known = to.len().min(from.len());
    to.extend_from_slice(&from[known..]);
}

fn join_timeline(to: &mut Arc<Timeline>, syncs: &[ClockSync], shift: u64) {
    let last = to.syncs().last().map(|sync| sync.ticks);
    for sync in syncs {
        let ticks = sync.ticks.wrapping_add(shift);
        if last.is_none_or(|last| last < ticks) {
            Arc::make_mut(to).push(ClockSync { ticks, ..*sync });
        }
    }
}

fn join_modes(
    to: &mut Arc<ScopeModes>,
    from: &ScopeModes,
    map: impl Fn(ScopeModeChange) -> ScopeModeChange,
) {
    for change in from.after(None) {
        Arc::make_mut(to).insert(map(change));
    }
}

/// The scopes of a new process are recorded until its own rules say otherwise. A run that overlaps
/// the earlier ones leaves theirs, because sites have one mode at a time here.
fn restore_modes(all: &mut Catalog, run: &Catalog, shift: u64) {
    let begin = run.timeline.syncs().first();
    let begin = begin.map_or(0, |sync| sync.ticks.wrapping_add(shift));
    let last = all.timeline.syncs().last();
    if last.is_none_or(|last| begin <= last.ticks) {
        return;
    }
    let restored = all.scope_modes.current();
    join_modes(&mut all.scope_modes, &restored, |change| ScopeModeChange {
        ticks: begin,
        mode: ScopeMode::Record,
        ..change
    });
}

impl Mapping {
    /// Makes the mapping of a run, and adds its declarations to the common catalog. `None` if its
    /// time overlaps that of the runs before it, and their clocks have nothing in common.
    pub(super) fn new(all: &mut Catalog, run: &Catalog, number: u64) -> Option<Self> {
        let ticks = tick_shift(all, run)?;
        restore_modes(all, run, ticks);
        let mut mapping = Self {
            ticks,
            tasks: number << 48,
            ..Self::default()
        };
        mapping.extend(all, run);
        all.process = Arc::clone(&run.process);
        Some(mapping)
    }

    /// Adds what the run has declared since to the common catalog.
    pub(super) fn extend(&mut self, all: &mut Catalog, run: &Catalog) {
        join_timeline(&mut all.timeline, run.timeline.syncs(), self.ticks);
        for thread in rest(&run.threads, self.threads.len()) {
            self.threads.push(ThreadId(all.threads.len() as u32));
            Arc::make_mut(&mut all.threads).push(thread.clone());
        }
        let sites = place(&mut all.sites, rest(&run.sites, self.sites.len()), |site| {
            site.as_ref().map(|site| format!("{site:?}"))
        });
        let sites = sites.into_iter().map(|index| SiteId(index + 1));
        self.sites.extend(sites);
        self.columns.extend(place(
            &mut all.columns,
            rest(&run.columns, self.columns.len()),
            |column| Some(format!("{column:?}")),
        ));
        self.frame_sets.extend(place(
            &mut all.frame_sets,
            rest(&run.frame_sets, self.frame_sets.len()),
            |name| Some(name.clone()),
        ));
        join_modes(&mut all.scope_modes, &run.scope_modes, |change| {
            ScopeModeChange {
                ticks: self.at(change.ticks),
                site: self.site(change.site),
                ..change
            }
        });
    }

    fn site(&self, site: SiteId) -> SiteId {
        let index = (site.0 as usize).wrapping_sub(1);
        // Id 0 is no site.
        self.sites.get(index).copied().unwrap_or_default()
    }

    fn thread(&self, thread: ThreadId) -> ThreadId {
        let known = self.threads.get(thread.0 as usize);
        known.copied().unwrap_or(ThreadId(u32::MAX))
    }

    /// Returns a tick on the common time axis.
    pub(super) fn at(&self, ticks: u64) -> u64 {
        ticks.wrapping_add(self.ticks)
    }

    fn tick(&self, ticks: &mut u64) {
        *ticks = self.at(*ticks);
    }

    /// Returns the run's own number of a frame set of the common catalog.
    pub(super) fn own_frame_set(&self, frame_set: u32) -> Option<u32> {
        let own = self.frame_sets.iter().position(|known| *known == frame_set);
        own.and_then(|own| u32::try_from(own).ok())
    }

    pub(super) fn map_batch(&self, batch: &mut SpanBatch) {
        batch
            .threads
            .iter_mut()
            .for_each(|thread| self.map_thread(thread));
    }

    pub(super) fn map_thread(&self, batch: &mut ThreadBatch) {
        batch.thread = self.thread(batch.thread);
        batch
            .start_ticks
            .iter_mut()
            .for_each(|tick| self.tick(tick));
        for site in &mut batch.sites {
            *site = self.site(*site);
        }
        for message in &mut batch.messages {
            self.tick(&mut message.ticks);
        }
        for task in &mut batch.async_spans {
            task.id = task.id.wrapping_add(self.tasks);
            task.site = self.site(task.site);
            self.tick(&mut task.start_ticks);
        }
        for event in &mut batch.task_events {
            event.task = event.task.wrapping_add(self.tasks);
            event.site = self.site(event.site);
            self.tick(&mut event.start_ticks);
        }
        for flow in &mut batch.flows {
            flow.flow = flow.flow.wrapping_add(self.tasks);
            self.tick(&mut flow.ticks);
        }
    }

    pub(super) fn map_heap(&self, snapshot: &mut HeapSnapshot) {
        self.tick(&mut snapshot.ticks);
        let stacks = snapshot.stacks.iter_mut();
        for scope in stacks.flat_map(|stack| &mut stack.scopes) {
            scope.site = self.site(scope.site);
        }
    }

    pub(super) fn map_scheduler(&self, batch: &mut SchedulerBatch) {
        for event in &mut batch.events {
            self.tick(&mut event.ticks);
        }
    }

    pub(super) fn map_summary(&self, summary: &mut FrameSummary) {
        summary.index = summary.index.wrapping_add(self.frames);
        self.tick(&mut summary.start_ticks);
        self.tick(&mut summary.end_ticks);
    }

    pub(super) fn map_frame(&self, frame: &mut FrameSnapshot) {
        if frame.frame_set == 0 {
            frame.index = frame.index.wrapping_add(self.frames);
        }
        let set = self.frame_sets.get(frame.frame_set as usize);
        frame.frame_set = set.copied().unwrap_or(frame.frame_set);
        self.tick(&mut frame.start_ticks);
        self.tick(&mut frame.end_ticks);
        for metric in &mut frame.metrics {
            let column = self.columns.get(metric.column as usize);
            metric.column = column.copied().unwrap_or(u32::MAX);
        }
        sort_by(&mut frame.metrics, |a, b| a.column.cmp(&b.column));
        frame
            .threads
            .iter_mut()
            .for_each(|tree| self.map_tree(tree));
    }

    fn map_tree(&self, tree: &mut ThreadTree) {
        for span in &mut tree.spans {
            span.site = self.site(span.site);
            self.tick(&mut span.start_ticks);
        }
        // The rest of a tree is that of a batch.
        let mut batch = ThreadBatch {
            thread: tree.thread,
            messages: std::mem::take(&mut tree.messages),
            async_spans: std::mem::take(&mut tree.async_spans),
            task_events: std::mem::take(&mut tree.task_events),
            flows: std::mem::take(&mut tree.flows),
            ..ThreadBatch::default()
        };
        self.map_thread(&mut batch);
        tree.thread = batch.thread;
        tree.messages = batch.messages;
        tree.async_spans = batch.async_spans;
        tree.task_events = batch.task_events;
        tree.flows = batch.flows;
    }
}

/// Returns the entries of a table behind the first `known` ones.
fn rest<T>(table: &[T], known: usize) -> &[T] {
    table.get(known..).unwrap_or_default()
}

/// Finds each entry of `from` in `to` by its key, or adds it; returns their indices. Entries
/// without a key, whose declaration is lost, are added.
fn place<T: Clone>(
    to: &mut Arc<Vec<T>>,
    from: &[T],
    key: impl Fn(&T) -> Option<String>,
) -> Vec<u32> {
    if from.is_empty() {
        return Vec::new();
    }
    let mut known: HashMap<String, u32> = HashMap::new();
    for (index, entry) in (0..).zip(to.iter()) {
        if let Some(key) = key(entry) {
            known.entry(key).or_insert(index);
        }
    }
    let mut indices = Vec::with_capacity(from.len());
    for entry in from {
        let key = key(entry);
        let index = key.as_ref().and_then(|key| known.get(key)).copied();
        indices.push(index.unwrap_or_else(|| {
            let index = to.len() as u32;
            Arc::make_mut(to).push(entry.clone());
            if let Some(key) = key {
                known.insert(key, index);
            }
            index
        }));
    }
    indices
}

/// Returns what must be added to the ticks of a run to put it on the time axis of the others.
fn tick_shift(all: &Catalog, run: &Catalog) -> Option<u64> {
    let (known, machine) = (&all.machine, &run.machine);
    let is_same_counter = known.hardware_ticks
        && machine.hardware_ticks
        && !known.boot_id.is_empty()
        && known.boot_id == machine.boot_id;
    if is_same_counter {
        return Some(0);
    }
    let (Some(last), Some(first)) = (all.timeline.syncs().last(), run.timeline.syncs().first())
    else {
        return Some(0);
    };
    let passed_ns = i128::from(first.unix_ns) - i128::from(last.unix_ns);
    if passed_ns < 0 || last.rate == 0 {
        return None;
    }
    let passed_ticks = (passed_ns << RATE_BITS) / i128::from(last.rate);
    let begin = last
        .ticks
        .checked_add(u64::try_from(passed_ticks).ok()?.max(1))?;
    Some(begin.wrapping_sub(first.ticks))
}
