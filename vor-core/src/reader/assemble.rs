//! From records of a version-3 capture to frames with trees.
//!
//! A frame's record stands behind its batches and says with which sequence number they begin. In an undamaged stretch every batch
//! goes straight into the [`TreeBuilder`], so a frame needs no more memory than the spans it may hold. Behind a loss it is
//! not known whether the batches before it belong to the next frame that turns up, so the ones after it wait until the
//! frame's record says.

use std::sync::Arc;

use super::seen::Seen;
use crate::batch::ThreadBatch;
use crate::catalog::Catalog;
use crate::format::FrameRecord;
use crate::frame::{FrameSnapshot, TreeBuilder};

#[derive(Debug)]
pub(super) struct Assembler {
    builder: TreeBuilder,
    max_spans: usize,
    /// Sequence numbers of the first and the last batch in `builder`.
    fed: Option<(u64, u64)>,
    /// Batches read since a loss, with their sequence numbers.
    waiting: Vec<Waiting>,
    waiting_spans: usize,
    after_loss: bool,
}

#[derive(Debug)]
struct Waiting {
    seq: u64,
    spans: usize,
    /// Empty when too many spans wait already: then they are only counted.
    threads: Vec<ThreadBatch>,
}

/// A frame, and whether all of it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The frame, with what was found of it.
    pub frame: Arc<FrameSnapshot>,
    /// Records of the frame that are missing; each held spans, messages or a declaration. 0 says that the frame is whole.
    pub lost_records: u64,
}

impl Recovered {
    /// Returns how many spans the trees hold.
    #[must_use]
    pub fn held_spans(&self) -> u64 {
        self.frame
            .threads
            .iter()
            .map(|tree| tree.spans.len() as u64)
            .sum()
    }

    /// Returns whether the trees hold every span that ended in the frame.
    #[must_use]
    pub fn has_all_spans(&self) -> bool {
        self.held_spans() == self.frame.span_count
    }
}

impl Assembler {
    pub(super) fn new(max_spans: usize) -> Self {
        Self {
            builder: TreeBuilder::new(max_spans),
            max_spans,
            fed: None,
            waiting: Vec::new(),
            waiting_spans: 0,
            after_loss: false,
        }
    }

    /// Forgets the batches so far.
    pub(super) fn clear(&mut self) {
        if self.fed.take().is_some() {
            let trees = self.builder.finish();
            self.builder.recycle(trees.threads);
        }
        self.waiting.clear();
        self.waiting_spans = 0;
        self.after_loss = false;
    }

    /// Notes that something between the last batch and the next one is missing or out of place.
    pub(super) fn loss(&mut self) {
        self.after_loss = true;
    }

    pub(super) fn batch(&mut self, seq: u64, threads: Vec<ThreadBatch>) {
        if self.after_loss {
            let spans: usize = threads.iter().map(ThreadBatch::len).sum();
            let full = self.waiting_spans > self.max_spans;
            let threads = if full { Vec::new() } else { threads };
            self.waiting.push(Waiting { seq, spans, threads });
            self.waiting_spans += spans;
            return;
        }
        for thread in &threads {
            self.builder.add(thread);
        }
        self.fed = Some((self.fed.map_or(seq, |(first, _)| first), seq));
    }

    /// Ends a frame of the main set with the record numbered `seq`.
    pub(super) fn frame(
        &mut self,
        seq: u64,
        record: FrameRecord,
        catalog: &Arc<Catalog>,
        seen: &Seen,
    ) -> Recovered {
        let first_seq = u64::from(record.first_seq);
        if self
            .fed
            .is_some_and(|(first, last)| first < first_seq || last >= seq)
        {
            // What is in the builder belongs to a frame whose record is lost or out of place.
            let trees = self.builder.finish();
            self.builder.recycle(trees.threads);
        }
        self.waiting.sort_by_key(|waiting| waiting.seq);
        let mut counted_spans = 0;
        for waiting in self.waiting.drain(..) {
            if !(first_seq..seq).contains(&waiting.seq) {
                continue;
            }
            if waiting.threads.is_empty() {
                counted_spans += waiting.spans as u64;
            }
            for thread in &waiting.threads {
                self.builder.add(thread);
            }
        }
        self.fed = None;
        self.waiting_spans = 0;
        self.after_loss = false;
        let trees = self.builder.finish();
        let mut lost_records = seen.missing(first_seq, seq);
        if lost_records == 0 && trees.span_count + counted_spans != record.span_count {
            // All records are there and yet do not add up: the file contradicts itself.
            lost_records = 1;
        }
        let frame = Arc::new(FrameSnapshot {
            threads: trees.threads,
            ..snapshot(record, catalog)
        });
        Recovered { frame, lost_records }
    }
}

/// Makes a frame without trees.
pub(super) fn snapshot(record: FrameRecord, catalog: &Arc<Catalog>) -> FrameSnapshot {
    FrameSnapshot {
        catalog: Arc::clone(catalog),
        index: record.index,
        frame_set: record.frame_set,
        start_ticks: record.start_ticks,
        end_ticks: record.end_ticks,
        metrics: record.metrics,
        dropped_spans: record.dropped_spans,
        merged_marks: record.merged_marks,
        span_count: record.span_count,
        threads: Vec::new(),
    }
}
