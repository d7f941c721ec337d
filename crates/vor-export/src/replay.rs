//! The begins and ends of a thread's spans in order of time, made from batches, which have spans in
//! order of their ends.
//!
//! A format that writes the begin of a span before its children needs the span before it has ended.
//! So the whole recording is stored in a [`Spill`], 20 bytes a span, and replayed at its end:
//!
//! 1. *Backwards.* Read from the last span to the first, parents come before their children, and
//!    later siblings before earlier ones. So a stack of the ancestors of the current span suffices
//!    to make all edges, the last first. They go into a second stack of records.
//! 2. *Forwards.* That stack returns them from the first to the last.
//!
//! Memory is bounded by the number of threads and the depth of their scopes. A span's parent is
//! determined as in the trees of frames ([`TreeBuilder`](vor_capture::model::frame::TreeBuilder)),
//! except that frames do not matter: a scope around many frames contains the spans of all of them.
//! Overlapping spans of a damaged capture are shortened, so that begins and ends are always
//! balanced and in order.

use std::io;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};

use crate::spill::{Spill, Stack};
use crate::{origin_ns, since_origin_ns};

/// The begin or the end of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// The time since the begin of the recording.
    pub(super) ns: u64,
    /// The call site of the span.
    pub(super) site: SiteId,
    /// Whether the span begins.
    pub(super) is_begin: bool,
}

/// The spans of a recording.
#[derive(Debug, Default)]
pub(super) struct Replay {
    spill: Spill,
    threads: FxHashMap<ThreadId, Stack>,
    catalog: Arc<Catalog>,
}

/// Start, duration, call site.
const SPAN_BYTES: usize = 20;

/// Tick and call site; the highest bit of the tick marks a begin.
const EDGE_BYTES: usize = 12;

/// No tick counter reaches the highest bit; ticks of a damaged capture that do are lowered.
const BEGIN: u64 = 1 << 63;

/// A span whose begin has not been made yet.
#[derive(Clone, Copy, Debug)]
struct Ancestor {
    start_ticks: u64,
    end_ticks: u64,
    site: SiteId,
}

impl Replay {
    /// Adds the spans of a batch.
    pub(super) fn push(&mut self, batch: &SpanBatch) -> io::Result<()> {
        self.set_catalog(&batch.catalog);
        for thread in batch.threads.iter().filter(|thread| !thread.is_empty()) {
            self.push_thread(thread, |_| true)?;
        }
        Ok(())
    }

    /// Adds a thread, and its spans whose positions `keep` accepts. The batches of a thread must
    /// arrive in order.
    pub(super) fn push_thread(
        &mut self,
        batch: &ThreadBatch,
        keep: impl Fn(usize) -> bool,
    ) -> io::Result<()> {
        let stack = self.threads.entry(batch.thread).or_default();
        for i in (0..batch.len()).filter(|&i| keep(i)) {
            let mut record = [0; SPAN_BYTES];
            record[..8].copy_from_slice(&batch.start_ticks[i].to_le_bytes());
            record[8..16].copy_from_slice(&batch.duration_ticks[i].to_le_bytes());
            record[16..].copy_from_slice(&batch.sites[i].0.to_le_bytes());
            stack.push(&mut self.spill, &record)?;
        }
        Ok(())
    }

    /// Sets the catalog. The last one resolves all ids, since a catalog only grows.
    pub(super) fn set_catalog(&mut self, catalog: &Arc<Catalog>) {
        self.catalog = Arc::clone(catalog);
    }

    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the threads, ascending.
    pub(super) fn threads(&self) -> Vec<ThreadId> {
        let mut threads: Vec<_> = self.threads.keys().copied().collect();
        threads.sort_unstable();
        threads
    }

    /// Removes a thread's spans, and returns their begins and ends in order of time, parents around
    /// their children.
    pub(super) fn edges(&mut self, thread: ThreadId) -> io::Result<Edges<'_>> {
        Ok(Edges {
            records: self.backwards(thread)?,
            origin_ns: origin_ns(&self.catalog),
            replay: self,
        })
    }

    /// Makes the edges of a thread, the last first.
    fn backwards(&mut self, thread: ThreadId) -> io::Result<Stack> {
        let mut edges = Stack::default();
        let spill = &mut self.spill;
        let mut push = |spill: &mut Spill, ticks: u64, site: SiteId| {
            let mut record = [0; EDGE_BYTES];
            record[..8].copy_from_slice(&ticks.to_le_bytes());
            record[8..].copy_from_slice(&site.0.to_le_bytes());
            edges.push(spill, &record)
        };
        let mut spans = self.threads.remove(&thread).unwrap_or_default();
        let mut ancestors: Vec<Ancestor> = Vec::new();
        // The time of the last edge; no further edge may be later.
        let mut latest = u64::MAX;
        while let Some(record) = spans.pop::<SPAN_BYTES>(spill)? {
            let start_ticks = le_u64(&record, 0);
            let end_ticks = start_ticks
                .saturating_add(le_u64(&record, 8))
                .min(BEGIN - 1);
            while let Some(last) = ancestors.last()
                && (start_ticks < last.start_ticks || end_ticks > last.end_ticks)
            {
                latest = last.start_ticks;
                push(spill, latest | BEGIN, last.site)?;
                ancestors.pop();
            }
            latest = end_ticks.min(latest);
            let site = SiteId(le_u32(&record, 16));
            push(spill, latest, site)?;
            ancestors.push(Ancestor {
                start_ticks: start_ticks.min(latest),
                end_ticks,
                site,
            });
        }
        while let Some(last) = ancestors.pop() {
            push(spill, last.start_ticks | BEGIN, last.site)?;
        }
        Ok(edges)
    }
}

/// The begins and ends of a thread's spans, by time.
#[derive(Debug)]
pub(super) struct Edges<'a> {
    replay: &'a mut Replay,
    /// The remaining edges, the last first.
    records: Stack,
    origin_ns: i64,
}

impl Iterator for Edges<'_> {
    type Item = io::Result<Edge>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = match self.records.pop::<EDGE_BYTES>(&mut self.replay.spill) {
            Ok(record) => record?,
            Err(error) => return Some(Err(error)),
        };
        let word = le_u64(&record, 0);
        Some(Ok(Edge {
            ns: since_origin_ns(&self.replay.catalog, word & !BEGIN, self.origin_ns),
            site: SiteId(le_u32(&record, 8)),
            is_begin: word & BEGIN != 0,
        }))
    }
}

fn le_u64(record: &[u8], at: usize) -> u64 {
    let bytes = record[at..].first_chunk();
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn le_u32(record: &[u8], at: usize) -> u32 {
    let bytes = record[at..].first_chunk();
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;

    use super::*;

    /// Returns the edges of spans with these starts and durations: the position of its span, its
    /// time, and whether it begins.
    fn edges(spans: &[(u64, u64)]) -> Vec<(u32, u64, bool)> {
        let batch = filled!(ThreadBatch {
            start_ticks: spans.iter().map(|(start, _)| *start).collect(),
            duration_ticks: spans.iter().map(|(_, duration)| *duration).collect(),
            sites: (0..spans.len() as u32).map(SiteId).collect()
        });
        let mut replay = Replay::default();
        replay.push_thread(&batch, |_| true).unwrap();
        let edges = replay.edges(ThreadId(0)).unwrap();
        edges
            .map(|edge| {
                let edge = edge.unwrap();
                (edge.site.0, edge.ns, edge.is_begin)
            })
            .collect()
    }

    #[test]
    fn a_parent_that_ends_with_its_child_is_around_it() {
        let expected = [(1, 0, true), (0, 5, true), (0, 10, false), (1, 10, false)];
        assert_eq!(edges(&[(5, 5), (0, 10)]), expected);
    }

    #[test]
    fn the_last_tick_of_a_damaged_span_is_still_an_end() {
        let last = BEGIN - 1;
        // The first one ends at the last tick, and the others end beyond it.
        for end in [last, BEGIN, u64::MAX] {
            let expected = [(0, 7, true), (0, last, false)];
            assert_eq!(edges(&[(7, end - 7)]), expected);
        }
        let expected = [
            (1, 7, true),
            (0, last, true),
            (0, last, false),
            (1, last, false),
        ];
        assert_eq!(edges(&[(u64::MAX, 5), (7, u64::MAX)]), expected);
    }
}
