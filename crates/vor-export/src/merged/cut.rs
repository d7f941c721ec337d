//! The sums of a running program, taken at intervals.

use std::hash::Hash;
use std::io;

use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};

use super::{Merged, Roots};
use crate::stacks::{Open, Weight};

/// Nodes for which there is room left after a cut.
const KEPT_NODES: usize = 4_096;

/// The spans that a thread has open, outermost first.
#[derive(Clone, Debug, Default)]
pub struct OpenSpans {
    /// The thread.
    pub thread: ThreadId,
    /// Its open spans.
    pub spans: Vec<OpenSpan>,
}

/// A span that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSpan {
    /// Its call site.
    pub site: SiteId,
    /// When it began, in ticks.
    pub start_ticks: u64,
}

impl<V: Weight> Merged<V> {
    /// Takes the sums up to now: as [`take`](Self::take), and the counting goes on. What is visited
    /// of the trees is to be visited before [`clear`](Self::clear), which must follow.
    ///
    /// Everything that ended by `now_ticks` must have been taken, and `open` is what was open after
    /// the last batch that was. `of` says what frame an open scope of a thread is, and what it
    /// weighs by the tick that it is given.
    pub(crate) fn cut<L: Clone + Eq + Hash>(
        &mut self,
        now_ticks: u64,
        open: &[OpenSpans],
        mut label: impl FnMut(&Catalog, ThreadId) -> L,
        mut of: impl FnMut(ThreadId, OpenSpan, u64) -> (u32, V),
    ) -> io::Result<Vec<(L, u32)>> {
        for thread in open {
            self.threads.entry(thread.thread).or_default();
        }
        let mut threads: Vec<_> = self.threads.keys().copied().collect();
        threads.sort_unstable();
        let mut roots = Roots::default();
        for thread in threads {
            let Some(lane) = self.threads.get_mut(&thread) else {
                continue;
            };
            // What ended after `now_ticks` may have come already.
            let cut_ticks = now_ticks.max(lane.last_end_ticks);
            let scopes = open.iter().find(|open| open.thread == thread);
            let scopes = scopes.map_or(&[][..], |open| &open.spans);
            let scopes: Vec<_> = scopes
                .iter()
                // A site that is too new to have a name is counted when the scope ends.
                .filter(|scope| {
                    scope.start_ticks < cut_ticks && self.catalog.site(scope.site).is_some()
                })
                .map(|&scope| {
                    let (frame, total) = of(thread, scope, cut_ticks);
                    Open {
                        frame,
                        start_ticks: scope.start_ticks,
                        total,
                    }
                })
                .collect();
            let root = roots.of(&mut self.stacks, label(&self.catalog, thread));
            lane.waiting
                .cut(&mut self.stacks, root, cut_ticks, &scopes)?;
        }
        // A thread that did nothing and has nothing open may be gone.
        self.threads
            .retain(|_, lane| std::mem::take(&mut lane.is_used) || lane.waiting.has_open());
        Ok(roots.all)
    }

    /// Forgets the trees that a cut has taken.
    pub(crate) fn clear(&mut self) {
        self.stacks.clear(KEPT_NODES);
        self.reach_ticks = None;
        self.dropped_spans = 0;
    }

    /// Returns how many nodes the trees have.
    pub(crate) fn nodes(&self) -> usize {
        self.stacks.len()
    }
}
