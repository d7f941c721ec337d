//! Sums the spans of all threads per distinct stack, for formats that have stacks without times:
//! batches in, trees out.
//!
//! Threads with one label are one tree. A complete recording has its trees taken once
//! ([`Merged::take`]). A running program has them taken at every interval (`cut`), together with
//! the open scopes. So a scope that stays open for hours has its share in every interval.

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

use super::stacks::{PendingSubtrees, Stacks, Weight};

/// The sums of all threads.
#[derive(Debug)]
pub(super) struct Merged<V> {
    stacks: Stacks<V>,
    threads: FxHashMap<ThreadId, Lane<V>>,
    /// The catalog of the last batch.
    pub(super) catalog: Arc<Catalog>,
    /// Number of spans lost because a ring was full.
    pub(super) dropped_spans: u64,
    /// The begin of the first span, and the end of the last one.
    #[cfg(feature = "pprof")]
    pub(super) range_ticks: Option<(u64, u64)>,
}

/// A thread.
#[derive(Debug)]
struct Lane<V> {
    waiting: PendingSubtrees<V>,
    last_end_ticks: u64,
    /// Whether a span ended since the last cut.
    is_used: bool,
}

impl<V> Default for Lane<V> {
    fn default() -> Self {
        Self {
            waiting: PendingSubtrees::default(),
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
            range_ticks: None,
        }
    }
}

impl<V: Weight> Merged<V> {
    /// Adds the spans of a batch. `weigh` returns the frame and the weight of a span, given its
    /// duration in nanoseconds. Fails if waiting spans cannot be written to a temporary file.
    pub(super) fn accept(
        &mut self,
        batch: &SpanBatch,
        mut weigh: impl FnMut(SiteId, &[ArgValue], u64) -> (u32, V),
    ) -> io::Result<()> {
        self.catalog = Arc::clone(&batch.catalog);
        let timeline = &batch.catalog.timeline;
        for thread in &batch.threads {
            self.dropped_spans = self.dropped_spans.saturating_add(thread.dropped_spans);
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
                // A list for a missing span would block the lists after it.
                while args.next_if(|args| (args.span as usize) < at).is_some() {}
                let own_args = args.peek().filter(|args| args.span as usize == at);
                let own_args = own_args.map_or(&[][..], |args| &args.values);
                let ns = timeline.duration_ns(start_ticks, duration_ticks);
                let (frame, total) = weigh(site, own_args, ns);
                lane.waiting
                    .end(&mut self.stacks, frame, start_ticks, duration_ticks, total)?;
                let end_ticks = start_ticks.saturating_add(duration_ticks);
                lane.last_end_ticks = lane.last_end_ticks.max(end_ticks);
                #[cfg(feature = "pprof")]
                {
                    let (first, last) = self.range_ticks.unwrap_or((start_ticks, end_ticks));
                    self.range_ticks = Some((first.min(start_ticks), last.max(end_ticks)));
                }
            }
        }
        Ok(())
    }

    /// Joins neighbours that no open scope separates. All spans that ended by then must have been
    /// accepted.
    pub(super) fn settle(&mut self, open: &OpenStarts) {
        for (thread, starts) in &open.threads {
            if let Some(lane) = self.threads.get_mut(thread) {
                lane.waiting
                    .settle(&mut self.stacks, open.as_of_ticks, starts);
            }
        }
    }

    /// Returns the root of each label's tree, in order of the threads, and removes the threads.
    pub(super) fn take<L: Clone + Eq + Hash>(
        &mut self,
        mut label: impl FnMut(&Catalog, ThreadId) -> L,
    ) -> io::Result<Vec<(L, u32)>> {
        let mut threads: Vec<_> = std::mem::take(&mut self.threads).into_iter().collect();
        threads.sort_unstable_by_key(|(thread, _)| *thread);
        let mut roots = Roots::default();
        for (thread, lane) in threads {
            let root = roots.root(&mut self.stacks, label(&self.catalog, thread));
            lane.waiting.finish(&mut self.stacks, root)?;
        }
        Ok(roots.all)
    }

    /// Calls `visit` with every stack of a tree that has its own weight, from the outermost frame
    /// to the innermost.
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
    by_label: FxHashMap<L, u32>,
}

impl<L> Default for Roots<L> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            by_label: FxHashMap::default(),
        }
    }
}

impl<L: Clone + Eq + Hash> Roots<L> {
    fn root<V: Weight>(&mut self, stacks: &mut Stacks<V>, label: L) -> u32 {
        if let Some(&root) = self.by_label.get(&label) {
            return root;
        }
        let root = stacks.take(u32::MAX);
        self.all.push((label.clone(), root));
        self.by_label.insert(label, root);
        root
    }
}
