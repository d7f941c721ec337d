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

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::Arc;

    use vor_capture::filled;
    use vor_capture::model::batch::{SpanBatch, ThreadBatch};
    use vor_capture::model::catalog::SiteInfo;

    use super::*;

    const FIRST: ThreadId = ThreadId(0);
    const SECOND: ThreadId = ThreadId(1);
    const SITE: SiteId = SiteId(1);

    /// A thread that ended a span of each start and duration.
    fn ended(thread: ThreadId, spans: &[(u64, u64)]) -> SpanBatch {
        let site = Some(Arc::new(SiteInfo::default()));
        let thread = filled!(ThreadBatch {
            thread,
            start_ticks: spans.iter().map(|(start, _)| *start).collect(),
            duration_ticks: spans.iter().map(|(_, duration)| *duration).collect(),
            sites: vec![SITE; spans.len()],
            dropped_spans: 2
        });
        filled!(SpanBatch {
            catalog: Arc::new(filled!(Catalog {
                sites: Arc::new(vec![site])
            })),
            threads: vec![thread],
        })
    }

    fn open(thread: ThreadId, starts: &[u64]) -> OpenSpans {
        let span = |&start_ticks: &u64| OpenSpan {
            site: SITE,
            start_ticks,
        };
        OpenSpans {
            thread,
            spans: starts.iter().map(span).collect(),
        }
    }

    fn accept(merged: &mut Merged<u64>, batch: &SpanBatch) {
        merged.accept(batch, |site, _, ns| (site.0, ns)).unwrap();
    }

    /// Takes the sums, and returns the total of each thread.
    fn cut(merged: &mut Merged<u64>, now_ticks: u64, open: &[OpenSpans]) -> Vec<(ThreadId, u64)> {
        let roots = merged
            .cut(
                now_ticks,
                open,
                |_, thread| thread,
                |_, span, until_ticks| (span.site.0, until_ticks - span.start_ticks),
            )
            .unwrap();
        let total = |&(thread, root): &(ThreadId, u32)| {
            let mut total = 0;
            let visited: Result<(), ()> = merged.each(root, |_, ns| {
                total += ns;
                Ok(())
            });
            visited.unwrap();
            (thread, total)
        };
        let totals = roots.iter().map(total).collect();
        merged.clear();
        totals
    }

    #[test]
    fn a_thread_is_forgotten_when_it_neither_ended_a_span_nor_has_one_open() {
        let mut merged = Merged::default();
        accept(&mut merged, &ended(FIRST, &[(10, 5)]));
        let waits = [open(SECOND, &[12])];
        assert_eq!(cut(&mut merged, 20, &waits), [(FIRST, 5), (SECOND, 8)]);
        // A scope that was open around the span of the first thread may still end.
        assert_eq!(merged.threads.len(), 2);
        assert_eq!(cut(&mut merged, 30, &waits), [(FIRST, 0), (SECOND, 10)]);
        let known: Vec<_> = merged.threads.keys().copied().collect();
        assert_eq!(known, [SECOND]);
        assert_eq!(cut(&mut merged, 40, &waits), [(SECOND, 10)]);
        accept(&mut merged, &ended(SECOND, &[(12, 30)]));
        assert_eq!(cut(&mut merged, 50, &[]), [(SECOND, 2)]);
        assert_eq!(cut(&mut merged, 60, &[]), [(SECOND, 0)]);
        assert_eq!(cut(&mut merged, 70, &[]), []);
    }

    #[test]
    fn a_span_that_is_open_counts_if_it_began_before_the_cut_and_has_a_name() {
        let mut merged = Merged::default();
        // The first thread has a span that ended after the time of the cut.
        accept(&mut merged, &ended(FIRST, &[(95, 15)]));
        let unknown = OpenSpan {
            site: SiteId(2),
            start_ticks: 50,
        };
        let mut second = open(SECOND, &[40, 99, 100, 101]);
        second.spans.insert(1, unknown);
        let mut weighed = Vec::new();
        let roots = merged.cut(
            100,
            &[open(FIRST, &[90, 109, 110]), second],
            |_, thread| thread,
            |thread, span, until_ticks| {
                weighed.push((thread, span.start_ticks, until_ticks));
                (span.site.0, 1)
            },
        );
        assert_eq!(roots.unwrap().len(), 2);
        let expected = [
            (FIRST, 90, 110),
            (FIRST, 109, 110),
            (SECOND, 40, 100),
            (SECOND, 99, 100),
        ];
        assert_eq!(weighed, expected);
    }

    #[test]
    fn a_cut_begins_new_trees_and_counts() {
        let mut merged = Merged::default();
        accept(&mut merged, &ended(FIRST, &[(10, 5), (20, 5), (30, 5)]));
        assert_eq!(merged.nodes(), 3);
        assert_eq!(merged.dropped_spans, 2);
        assert_eq!(merged.range_ticks, Some((10, 35)));
        assert_eq!(cut(&mut merged, 40, &[]), [(FIRST, 15)]);
        assert_eq!(merged.nodes(), 0);
        assert_eq!(merged.dropped_spans, 0);
        assert_eq!(merged.range_ticks, None);
    }
}
