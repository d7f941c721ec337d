//! Sums of a running program, taken at intervals.

use std::hash::Hash;
use std::io;

use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};

use super::{Merged, Roots};
use crate::stacks::{Open, Weight};

/// Nodes whose memory remains allocated after a cut.
const RETAINED_NODES: usize = 4_096;

/// The spans that a thread has open, outermost first.
#[derive(Clone, Debug, Default)]
pub struct OpenSpans {
    /// The thread.
    pub thread: ThreadId,
    /// Its open spans.
    pub spans: Vec<OpenSpan>,
}

/// An open span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSpan {
    /// Its call site.
    pub site: SiteId,
    /// Its begin, in ticks.
    pub start_ticks: u64,
}

impl<V: Weight> Merged<V> {
    /// Takes the sums up to now, like [`take`](Self::take), and continues. The caller visits the
    /// trees and then calls [`clear`](Self::clear).
    ///
    /// All spans that ended by `now_ticks` must have been accepted, and `open` has the spans that
    /// were open after the last batch. `weigh` returns the frame of an open span of a thread, and
    /// its weight up to a tick.
    pub(crate) fn cut<L: Clone + Eq + Hash>(
        &mut self,
        now_ticks: u64,
        open: &[OpenSpans],
        mut label: impl FnMut(&Catalog, ThreadId) -> L,
        mut weigh: impl FnMut(ThreadId, OpenSpan, u64) -> (u32, V),
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
            // A span that ended after `now_ticks` may have arrived already.
            let cut_ticks = now_ticks.max(lane.last_end_ticks);
            let scopes = open.iter().find(|open| open.thread == thread);
            let scopes = scopes.map_or(&[][..], |open| &open.spans);
            let scopes: Vec<_> = scopes
                .iter()
                // A scope whose site is too new to have a name counts when it ends.
                .filter(|scope| {
                    scope.start_ticks < cut_ticks && self.catalog.site(scope.site).is_some()
                })
                .map(|&scope| {
                    let (frame, total) = weigh(thread, scope, cut_ticks);
                    Open {
                        frame,
                        start_ticks: scope.start_ticks,
                        total,
                    }
                })
                .collect();
            let root = roots.root(&mut self.stacks, label(&self.catalog, thread));
            lane.waiting
                .cut(&mut self.stacks, root, cut_ticks, &scopes)?;
        }
        // A thread without ended and open spans may no longer exist.
        self.threads
            .retain(|_, lane| std::mem::take(&mut lane.is_used) || lane.waiting.has_open());
        Ok(roots.all)
    }

    /// Removes the trees that a cut has taken.
    pub(crate) fn clear(&mut self) {
        self.stacks.clear(RETAINED_NODES);
        self.range_ticks = None;
        self.dropped_spans = 0;
    }

    /// Returns the number of nodes of the trees.
    pub(crate) fn nodes(&self) -> usize {
        self.stacks.len()
    }
}
