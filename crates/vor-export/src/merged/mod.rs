//! Spans of all threads summed per distinct stack, for formats that know stacks and no times:
//! batches in, trees out.
//!
//! Threads of one label are one tree. A finished program has its trees taken once
//! ([`Merged::take`]); a running one at every interval (`cut`), with the scopes that are open then,
//! so that one that stays open for hours has its share in every interval.

#[cfg(feature = "pprof")]
mod cut;

#[cfg(feature = "pprof")]
pub use cut::{OpenSpan, OpenSpans};

use std::hash::Hash;
use std::io;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::model::batch::{ArgValue, OpenStarts, SpanBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};

use super::stacks::{Stacks, Waiting, Weight};

/// The sums.
#[derive(Debug)]
pub(super) struct Merged<V> {
    stacks: Stacks<V>,
    threads: FxHashMap<ThreadId, Lane<V>>,
    /// What resolves the ids of the last batch.
    pub(super) catalog: Arc<Catalog>,
    /// Spans lost because a ring was full.
    pub(super) dropped_spans: u64,
    /// When the first span began, and the last one ended.
    #[cfg(feature = "pprof")]
    pub(super) reach_ticks: Option<(u64, u64)>,
}

/// What is known of a thread.
#[derive(Debug)]
struct Lane<V> {
    waiting: Waiting<V>,
    last_end_ticks: u64,
    /// Whether anything ended since the last cut.
    is_used: bool,
}

impl<V> Default for Lane<V> {
    fn default() -> Self {
        Self {
            waiting: Waiting::default(),
            last_end_ticks: 0,
            is_used: false,
        }
    }
}

impl<V: Weight> Default for Merged<V> {
    fn default() -> Self {
        Self {
            stacks: Stacks::default(),
            threads: FxHashMap::default(),
            catalog: Arc::default(),
            dropped_spans: 0,
            #[cfg(feature = "pprof")]
            reach_ticks: None,
        }
    }
}

impl<V: Weight> Merged<V> {
    /// Adds the spans of a batch. `of` says what frame a span of so many nanoseconds is, and what
    /// it weighs. It fails where there is no room for what waits.
    pub(super) fn accept(
        &mut self,
        batch: &SpanBatch,
        mut of: impl FnMut(SiteId, &[ArgValue], u64) -> (u32, V),
    ) -> io::Result<()> {
        self.catalog = Arc::clone(&batch.catalog);
        let timeline = &batch.catalog.timeline;
        for thread in &batch.threads {
            self.dropped_spans += thread.dropped_spans;
            if thread.start_ticks.is_empty() {
                continue;
            }
            let lane = self.threads.entry(thread.thread).or_default();
            lane.is_used = true;
            lane.waiting.bound(&mut self.stacks)?;
            let spans = thread
                .start_ticks
                .iter()
                .zip(&thread.duration_ticks)
                .zip(&thread.sites);
            let mut args = thread.args.iter().peekable();
            for (at, ((&start_ticks, &duration_ticks), &site)) in spans.enumerate() {
                // A list for a span that is not there would hold up those behind it.
                while args.next_if(|args| (args.span as usize) < at).is_some() {}
                let own_args = args.peek().filter(|args| args.span as usize == at);
                let own_args = own_args.map_or(&[][..], |args| &args.values);
                let ns = timeline.duration_ns(start_ticks, duration_ticks);
                let (frame, total) = of(site, own_args, ns);
                lane.waiting
                    .end(&mut self.stacks, frame, start_ticks, duration_ticks, total)?;
                let end_ticks = start_ticks.saturating_add(duration_ticks);
                lane.last_end_ticks = lane.last_end_ticks.max(end_ticks);
                #[cfg(feature = "pprof")]
                {
                    let (first, last) = self.reach_ticks.unwrap_or((start_ticks, end_ticks));
                    self.reach_ticks = Some((first.min(start_ticks), last.max(end_ticks)));
                }
            }
        }
        Ok(())
    }

    /// Merges what no scope that is open can tell apart; all that ended by then must have been
    /// accepted.
    pub(super) fn settle(&mut self, open: &OpenStarts) {
        for (thread, starts) in &open.threads {
            if let Some(lane) = self.threads.get_mut(thread) {
                lane.waiting
                    .settle(&mut self.stacks, open.as_of_ticks, starts);
            }
        }
    }

    /// Ends the sums: returns the root of each label's tree, in the order of the threads.
    pub(super) fn take<L: Clone + Eq + Hash>(
        &mut self,
        mut label: impl FnMut(&Catalog, ThreadId) -> L,
    ) -> io::Result<Vec<(L, u32)>> {
        let mut threads: Vec<_> = std::mem::take(&mut self.threads).into_iter().collect();
        threads.sort_unstable_by_key(|(thread, _)| *thread);
        let mut roots = Roots::default();
        for (thread, lane) in threads {
            let root = roots.of(&mut self.stacks, label(&self.catalog, thread));
            lane.waiting.finish(&mut self.stacks, root)?;
        }
        Ok(roots.all)
    }

    /// Calls `visit` for every stack of a tree that has weight of its own, with its frames from the
    /// outermost to the innermost.
    pub(super) fn each<E>(
        &self,
        root: u32,
        visit: impl FnMut(&[u32], V) -> Result<(), E>,
    ) -> Result<(), E> {
        self.stacks.each(root, visit)
    }
}

/// The root of each label.
#[derive(Debug)]
struct Roots<L> {
    all: Vec<(L, u32)>,
    of: FxHashMap<L, u32>,
}

impl<L> Default for Roots<L> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            of: FxHashMap::default(),
        }
    }
}

impl<L: Clone + Eq + Hash> Roots<L> {
    fn of<V: Weight>(&mut self, stacks: &mut Stacks<V>, label: L) -> u32 {
        if let Some(&root) = self.of.get(&label) {
            return root;
        }
        let root = stacks.take(u32::MAX);
        self.all.push((label.clone(), root));
        self.of.insert(label, root);
        root
    }
}
