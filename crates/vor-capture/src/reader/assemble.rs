//! From records of a version-3 capture to frames with trees.
//!
//! A frame's record stands behind its batches and says with which sequence number they begin. What
//! a frame holds depends on its *section* alone: the records behind the one that ended the previous
//! frame of the main set, up to its own. So it is the same whether the frames before it were read
//! or not.
//!
//! In an undamaged section every batch goes straight into the [`TreeBuilder`], so a frame needs no
//! more memory than the spans it may hold. Behind a record that is missing or out of place it is
//! not known whether a batch belongs to the frame, so it waits until the frame's record says.

use std::collections::VecDeque;
use std::sync::Arc;

use super::records::Entry;
use super::{DEFAULT_MAX_SPANS, Loss};
use crate::format::{FrameRecord, Record, SeqSet};
use crate::model::batch::ThreadBatch;
use crate::model::catalog::Catalog;
use crate::model::frame::{FrameSnapshot, TreeBuilder};

/// Most batches that wait for a frame.
const MAX_WAITING: usize = 1 << 16;
/// A batch that waits takes as much memory as so many spans, beside its own.
const SPANS_PER_BATCH: usize = 16;

#[derive(Debug)]
pub(super) struct Assembler {
    builder: TreeBuilder,
    max_spans: usize,
    /// Number of the record that should come next; `None` when any may.
    next: Option<u64>,
    /// Whether one was missing or out of place since the section began.
    is_broken: bool,
    /// Numbers of the first and the last batch in `builder`.
    fed: Option<(u64, u64)>,
    /// Batches behind the place where the section broke.
    waiting: VecDeque<Waiting>,
    waiting_spans: usize,
    /// Whether whoever reads wants batches and no trees, and those of the frame so far, as long as
    /// they are not too many.
    is_keeping: bool,
    kept: Vec<ThreadBatch>,
    kept_items: usize,
    /// Records of the section, of whatever kind.
    passed: SeqSet,
    /// Batches among them that were given up, since too many waited.
    given_up: SeqSet,
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
#[non_exhaustive]
pub struct Recovered {
    /// The frame, with what was found of it.
    pub frame: Arc<FrameSnapshot>,
    /// Records of the frame that are missing; each held spans, messages or a declaration. 0 says
    /// that the frame is whole.
    pub lost_records: u64,
}

impl Recovered {
    /// Makes a frame of which nothing is missing.
    #[must_use]
    pub fn whole(frame: Arc<FrameSnapshot>) -> Self {
        Self {
            frame,
            lost_records: 0,
        }
    }

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

    /// Returns what to tell of a frame that is not whole.
    pub(super) fn loss(&self) -> Option<Loss> {
        (self.lost_records > 0).then(|| Loss {
            offset: 0,
            bytes: 0,
            reason: format!(
                "frame {} is incomplete: it has {} of its {} spans; {} of its records are missing",
                self.frame.index,
                self.held_spans(),
                self.frame.span_count,
                self.lost_records
            ),
        })
    }
}

impl Assembler {
    pub(super) fn new(max_spans: usize) -> Self {
        Self {
            builder: TreeBuilder::new(max_spans),
            max_spans,
            next: Some(0),
            is_broken: false,
            fed: None,
            waiting: VecDeque::new(),
            waiting_spans: 0,
            is_keeping: false,
            kept: Vec::new(),
            kept_items: 0,
            passed: SeqSet::default(),
            given_up: SeqSet::default(),
        }
    }

    /// Chooses whether batches of whole frames that are not too large are kept as they are;
    /// [`take_kept`](Self::take_kept) returns them.
    pub(super) fn set_keeping(&mut self, is_keeping: bool) {
        if !is_keeping {
            self.build_kept();
        }
        self.is_keeping = is_keeping;
    }

    /// Returns the batches of the frame that [`frame`](Self::frame) returned without trees.
    pub(super) fn take_kept(&mut self) -> Vec<ThreadBatch> {
        self.kept_items = 0;
        std::mem::take(&mut self.kept)
    }

    /// Adds batches to the current frame.
    fn add(&mut self, threads: Vec<ThreadBatch>) {
        if !self.is_keeping || self.kept_items > self.max_spans {
            threads.iter().for_each(|thread| self.builder.add(thread));
            return;
        }
        let items = |thread: &ThreadBatch| {
            thread.len() + thread.async_spans.len() + thread.task_events.len() + thread.flows.len()
        };
        let items: usize = threads.iter().map(items).sum();
        self.kept.extend(threads);
        if self.kept_items + items > self.max_spans {
            // Which of them are held is for the builder to decide, and that goes for all that
            // follow in this frame.
            self.build_kept();
            self.kept_items = usize::MAX;
        } else {
            self.kept_items += items;
        }
    }

    /// Gives the builder what was kept.
    fn build_kept(&mut self) {
        for thread in self.kept.drain(..) {
            self.builder.add(&thread);
        }
        self.kept_items = 0;
    }

    /// Forgets the current frame.
    fn drop_fed(&mut self) {
        self.kept.clear();
        self.kept_items = 0;
        let trees = self.builder.finish();
        self.builder.recycle(trees.threads);
    }

    /// Begins a section, whose first record should have the number `next`; `None` when any may.
    pub(super) fn begin(&mut self, next: Option<u64>) {
        if self.fed.take().is_some() {
            self.drop_fed();
        }
        self.next = next;
        self.is_broken = false;
        self.waiting.clear();
        self.waiting_spans = 0;
        self.passed.clear();
        self.given_up.clear();
    }

    /// Takes the next record; returns the frame of the main set that it ends.
    pub(super) fn take(&mut self, entry: Entry, catalog: &Arc<Catalog>) -> Option<Recovered> {
        let Entry {
            seq, again, record, ..
        } = entry;
        match record {
            Some(Record::Frame(record)) if record.frame_set == 0 => {
                return (!again).then(|| self.frame(seq, record, catalog));
            }
            Some(Record::Batch(threads)) => self.batch(seq, threads),
            _ => drop(self.pass(seq)),
        }
        None
    }

    /// Notes a record; returns whether it is new in this section.
    fn pass(&mut self, seq: u64) -> bool {
        self.is_broken |= self.next.is_some_and(|next| next != seq);
        self.next = Some(seq + 1);
        self.passed.insert(seq)
    }

    fn batch(&mut self, seq: u64, threads: Vec<ThreadBatch>) {
        if !self.pass(seq) {
            return;
        }
        if !self.is_broken {
            self.add(threads);
            self.fed = Some((self.fed.map_or(seq, |(first, _)| first), seq));
            return;
        }
        let spans: usize = threads.iter().map(ThreadBatch::len).sum();
        let taken = self.waiting_spans + self.waiting.len() * SPANS_PER_BATCH;
        let full = taken > self.max_spans.max(DEFAULT_MAX_SPANS);
        let threads = if full { Vec::new() } else { threads };
        self.waiting.push_back(Waiting {
            seq,
            spans,
            threads,
        });
        self.waiting_spans += spans;
        // The batches that have waited longest belong to a frame that is lost.
        if self.waiting.len() > MAX_WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.waiting_spans -= oldest.spans;
            self.given_up.insert(oldest.seq);
        }
    }

    /// Ends a frame of the main set with the record numbered `seq`.
    fn frame(&mut self, seq: u64, record: FrameRecord, catalog: &Arc<Catalog>) -> Recovered {
        let first_seq = record.first_whole_seq(seq);
        if let Some((first, last)) = self.fed.take()
            && (first < first_seq || last >= seq)
        {
            // The spans in the builder belong to a frame whose record is lost or out of place.
            self.drop_fed();
            for seq in (first..=last).take(MAX_WAITING) {
                self.given_up.insert(seq);
            }
        }
        let counted_spans = self.take_waiting(first_seq, seq);
        let given_up = seq.saturating_sub(first_seq) - self.given_up.missing(first_seq, seq);
        let mut lost_records = self.passed.missing(first_seq, seq) + given_up;
        let kept_spans: usize = self.kept.iter().map(ThreadBatch::len).sum();
        let span_count = self.builder.span_count() + kept_spans as u64;
        if lost_records == 0 && span_count + counted_spans != record.span_count {
            // All records are there and yet do not add up: the file contradicts itself.
            lost_records = 1;
        }
        if lost_records > 0 {
            self.build_kept();
        }
        self.kept_items = 0;
        let trees = self.builder.finish();
        self.begin(Some(seq + 1));
        let frame = Arc::new(FrameSnapshot {
            threads: trees.threads,
            ..snapshot(record, catalog)
        });
        Recovered {
            frame,
            lost_records,
        }
    }

    /// Adds to the builder what waits of a frame, in its order; returns how many spans were only
    /// counted.
    fn take_waiting(&mut self, first_seq: u64, seq: u64) -> u64 {
        let mut counted_spans = 0;
        self.waiting
            .make_contiguous()
            .sort_by_key(|waiting| waiting.seq);
        let begin = self
            .waiting
            .partition_point(|waiting| waiting.seq < first_seq);
        let end = self.waiting.partition_point(|waiting| waiting.seq < seq);
        // A record whose frame begins after it ends contradicts itself, and has no batches.
        let frame: Vec<Waiting> = self.waiting.drain(begin.min(end)..end).collect();
        for waiting in frame {
            self.waiting_spans -= waiting.spans;
            if waiting.threads.is_empty() {
                counted_spans += waiting.spans as u64;
            }
            self.add(waiting.threads);
        }
        counted_spans
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
