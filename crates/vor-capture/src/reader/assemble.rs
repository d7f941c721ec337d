//! From records of a version-3 capture to frames with trees.
//!
//! A frame's record is behind its batches and has the sequence number of the first one. A frame
//! depends on its *section* alone: the records behind the one that ended the previous frame of the
//! main set, up to its own. So it is the same whether the frames before it were read or not.
//!
//! In an undamaged section every batch goes straight into the [`TreeBuilder`], so a frame needs no
//! more memory than the spans it may hold. Behind a record that is missing or out of place a batch
//! may belong to another frame, so it waits for the frame's record.

use crate::sort::sort_by;
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
/// A waiting batch takes as much memory as this many spans, beside its own.
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
    added: Option<(u64, u64)>,
    /// Batches behind the place where the section broke.
    waiting: VecDeque<PendingBatch>,
    waiting_spans: usize,
    /// Whether the caller wants batches and no trees, and those of the frame so far, as long as
    /// they are not too many.
    is_collecting: bool,
    collected: Vec<ThreadBatch>,
    collected_items: usize,
    /// Records of the section, of whatever kind.
    section: SeqSet,
    /// Batches among them that were dropped, since too many waited.
    dropped: SeqSet,
}

#[derive(Debug)]
struct PendingBatch {
    seq: u64,
    spans: usize,
    /// Empty when too many spans wait already: then they are only counted.
    threads: Vec<ThreadBatch>,
}

/// A frame, and whether it is whole.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recovered {
    /// The frame, as far as it was found.
    pub frame: Arc<FrameSnapshot>,
    /// Records of the frame that are missing; each held spans, messages or a declaration. The frame
    /// is whole where it is 0.
    pub lost_records: u64,
}

impl Recovered {
    /// Makes a whole frame.
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

    /// Returns the loss of a frame that is not whole.
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
            added: None,
            waiting: VecDeque::new(),
            waiting_spans: 0,
            is_collecting: false,
            collected: Vec::new(),
            collected_items: 0,
            section: SeqSet::default(),
            dropped: SeqSet::default(),
        }
    }

    /// Sets whether batches of whole frames that are not too large are collected as they are;
    /// [`take_collected`](Self::take_collected) returns them.
    pub(super) fn set_collecting(&mut self, is_collecting: bool) {
        if !is_collecting {
            self.build_collected();
        }
        self.is_collecting = is_collecting;
    }

    /// Returns the batches of the frame that [`frame`](Self::frame) returned without trees.
    pub(super) fn take_collected(&mut self) -> Vec<ThreadBatch> {
        self.collected_items = 0;
        std::mem::take(&mut self.collected)
    }

    /// Adds batches to the current frame.
    fn add(&mut self, threads: Vec<ThreadBatch>) {
        if !self.is_collecting || self.collected_items > self.max_spans {
            threads.iter().for_each(|thread| self.builder.add(thread));
            return;
        }
        let items = |thread: &ThreadBatch| {
            thread.len() + thread.async_spans.len() + thread.task_events.len() + thread.flows.len()
        };
        let items: usize = threads.iter().map(items).sum();
        self.collected.extend(threads);
        if self.collected_items + items > self.max_spans {
            // The builder decides which of them are held, and of all that follow in this frame.
            self.build_collected();
            self.collected_items = usize::MAX;
        } else {
            self.collected_items += items;
        }
    }

    /// Moves the collected batches to the builder.
    fn build_collected(&mut self) {
        for thread in self.collected.drain(..) {
            self.builder.add(&thread);
        }
        self.collected_items = 0;
    }

    /// Drops the batches of the current frame.
    fn drop_added(&mut self) {
        self.collected.clear();
        self.collected_items = 0;
        let trees = self.builder.finish();
        self.builder.recycle(trees.threads);
    }

    /// Begins a section, whose first record should have the number `next`; `None` when any may.
    pub(super) fn begin(&mut self, next: Option<u64>) {
        if self.added.take().is_some() {
            self.drop_added();
        }
        self.next = next;
        self.is_broken = false;
        self.waiting.clear();
        self.waiting_spans = 0;
        self.section.clear();
        self.dropped.clear();
    }

    /// Takes the next record; returns the frame of the main set that it ends.
    pub(super) fn take(&mut self, entry: Entry, catalog: &Arc<Catalog>) -> Option<Recovered> {
        let Entry {
            seq,
            is_repeated,
            record,
            ..
        } = entry;
        match record {
            Some(Record::Frame(record)) if record.frame_set == 0 => {
                return (!is_repeated).then(|| self.frame(seq, record, catalog));
            }
            Some(Record::Batch(threads)) => self.batch(seq, threads),
            _ => drop(self.add_record(seq)),
        }
        None
    }

    /// Adds the number of a record; returns whether it is new in this section.
    fn add_record(&mut self, seq: u64) -> bool {
        self.is_broken |= self.next.is_some_and(|next| next != seq);
        self.next = Some(seq + 1);
        self.section.insert(seq)
    }

    fn batch(&mut self, seq: u64, threads: Vec<ThreadBatch>) {
        if !self.add_record(seq) {
            return;
        }
        if !self.is_broken {
            self.add(threads);
            self.added = Some((self.added.map_or(seq, |(first, _)| first), seq));
            return;
        }
        let spans: usize = threads.iter().map(ThreadBatch::len).sum();
        let taken = self.waiting_spans + self.waiting.len() * SPANS_PER_BATCH;
        let full = taken > self.max_spans.max(DEFAULT_MAX_SPANS);
        let threads = if full { Vec::new() } else { threads };
        self.waiting.push_back(PendingBatch {
            seq,
            spans,
            threads,
        });
        self.waiting_spans += spans;
        // The batches that waited longest belong to a lost frame.
        if self.waiting.len() > MAX_WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.waiting_spans -= oldest.spans;
            self.dropped.insert(oldest.seq);
        }
    }

    /// Ends a frame of the main set with the record numbered `seq`.
    fn frame(&mut self, seq: u64, record: FrameRecord, catalog: &Arc<Catalog>) -> Recovered {
        let first_seq = record.first_whole_seq(seq);
        if let Some((first, last)) = self.added.take()
            && (first < first_seq || last >= seq)
        {
            // The spans in the builder belong to a frame whose record is lost or out of place.
            self.drop_added();
            for seq in (first..=last).take(MAX_WAITING) {
                self.dropped.insert(seq);
            }
        }
        let counted_spans = self.take_waiting(first_seq, seq);
        let dropped = seq.saturating_sub(first_seq) - self.dropped.missing(first_seq, seq);
        let mut lost_records = self.section.missing(first_seq, seq) + dropped;
        let collected_spans: usize = self.collected.iter().map(ThreadBatch::len).sum();
        let span_count = self.builder.span_count() + collected_spans as u64;
        if lost_records == 0 && span_count + counted_spans != record.span_count {
            // All records are there, but their spans do not add up: the file contradicts itself.
            lost_records = 1;
        }
        if lost_records > 0 {
            self.build_collected();
        }
        self.collected_items = 0;
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

    /// Adds the waiting batches of a frame to the builder, in order; returns how many spans were
    /// only counted.
    fn take_waiting(&mut self, first_seq: u64, seq: u64) -> u64 {
        let mut counted_spans = 0;
        sort_by(self.waiting.make_contiguous(), |a, b| a.seq.cmp(&b.seq));
        let begin = self
            .waiting
            .partition_point(|waiting| waiting.seq < first_seq);
        let end = self.waiting.partition_point(|waiting| waiting.seq < seq);
        // A record whose frame begins after it ends contradicts itself, and has no batches.
        let frame: Vec<PendingBatch> = self.waiting.drain(begin.min(end)..end).collect();
        for waiting in frame {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::batch::{AsyncSpan, FlowPoint, TaskEvent};
    use crate::model::catalog::SiteId;

    /// A batch of so many spans, one after the other.
    fn batch(spans: u64) -> ThreadBatch {
        ThreadBatch {
            start_ticks: (0..spans).map(|i| 10 * i).collect(),
            duration_ticks: vec![3; spans as usize],
            sites: vec![SiteId(1); spans as usize],
            ..ThreadBatch::default()
        }
    }

    fn take(assembler: &mut Assembler, seq: u64, record: Record) -> Option<Recovered> {
        let entry = Entry {
            offset: 0,
            seq,
            is_repeated: false,
            record: Some(record),
        };
        assembler.take(entry, &Arc::default())
    }

    /// Adds a batch of so many spans for each number of a record.
    fn add(assembler: &mut Assembler, spans: u64, seqs: impl IntoIterator<Item = u64>) {
        for seq in seqs {
            let found = take(assembler, seq, Record::Batch(vec![batch(spans)]));
            assert!(found.is_none());
        }
    }

    /// Ends frame 7. Returns the number of its spans that are held, and of its lost records.
    fn end(assembler: &mut Assembler, first_seq: u32, seq: u64, span_count: u64) -> (u64, u64) {
        let record = FrameRecord {
            index: 7,
            first_seq,
            span_count,
            ..FrameRecord::default()
        };
        let recovered = take(assembler, seq, Record::Frame(record)).unwrap();
        assert_eq!(recovered.frame.span_count, span_count);
        (recovered.held_spans(), recovered.lost_records)
    }

    #[test]
    fn a_frame_without_one_of_its_records_is_incomplete() {
        let mut assembler = Assembler::new(100);
        add(&mut assembler, 3, [0, 1]);
        assert_eq!(end(&mut assembler, 0, 2, 6), (6, 0));
        // The first record, or one in the middle, or the last.
        add(&mut assembler, 3, [4, 5]);
        assert_eq!(end(&mut assembler, 3, 6, 9), (6, 1));
        add(&mut assembler, 3, [7, 9]);
        assert_eq!(end(&mut assembler, 7, 10, 9), (6, 1));
        add(&mut assembler, 3, [11]);
        assert_eq!(end(&mut assembler, 11, 14, 9), (3, 2));
        // All of them are there, and do not add up.
        add(&mut assembler, 3, [15]);
        assert_eq!(end(&mut assembler, 15, 16, 4), (3, 1));
        add(&mut assembler, 3, [17]);
        assert_eq!(end(&mut assembler, 17, 18, 3), (3, 0));
        // In any order, also where one comes twice.
        add(&mut assembler, 3, [20, 19, 21, 20]);
        assert_eq!(end(&mut assembler, 19, 22, 9), (9, 0));
        // A frame that begins after it ends has nothing.
        add(&mut assembler, 3, [23]);
        assert_eq!(end(&mut assembler, 30, 24, 0), (0, 0));
    }

    #[test]
    fn spans_before_the_first_record_of_a_frame_belong_to_a_lost_one() {
        for (first_seq, expected) in [(0, (6, 0)), (1, (0, 1)), (2, (0, 0))] {
            let mut assembler = Assembler::new(100);
            add(&mut assembler, 3, [0, 1]);
            let spans = expected.0 + 3 * expected.1;
            assert_eq!(
                end(&mut assembler, first_seq, 2, spans),
                expected,
                "{first_seq}"
            );
        }
        // A record that is behind a batch belongs before it.
        let mut assembler = Assembler::new(100);
        add(&mut assembler, 3, [0, 1, 2]);
        assert_eq!(end(&mut assembler, 0, 2, 6), (0, 2));
        // So does one that waits and has the number of a frame's record.
        add(&mut assembler, 3, [5]);
        assert_eq!(end(&mut assembler, 3, 5, 0), (0, 2));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri takes an hour for a million batches")]
    fn batches_in_order_do_not_wait_however_many_there_are() {
        let mut assembler = Assembler::new(100);
        assert_eq!(end(&mut assembler, 0, 0, 0), (0, 0));
        let count = MAX_WAITING as u64 + 1;
        add(&mut assembler, 0, 1..=count);
        assert!(assembler.waiting.is_empty());
        assert_eq!(end(&mut assembler, 1, count + 1, 0), (0, 0));
    }

    #[test]
    fn the_loss_of_a_frame_has_its_numbers() {
        let mut assembler = Assembler::new(100);
        add(&mut assembler, 3, [0]);
        let record = FrameRecord {
            index: 7,
            span_count: 8,
            ..FrameRecord::default()
        };
        let recovered = take(&mut assembler, 3, Record::Frame(record)).unwrap();
        let loss = recovered.loss().unwrap();
        let expected =
            "frame 7 is incomplete: it has 3 of its 8 spans; 2 of its records are missing";
        assert_eq!((loss.offset, loss.bytes, &*loss.reason), (0, 0, expected));
        assert!(!recovered.has_all_spans());
        assert!(Recovered::whole(recovered.frame).loss().is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri takes an hour for a million batches")]
    fn batches_that_wait_take_bounded_memory() {
        // With the 16 of each batch, as many spans as 61 700 batches with one each.
        let max_spans = 17 * 61_700;
        assert!(max_spans > DEFAULT_MAX_SPANS);
        let most = MAX_WAITING as u64;
        for (count, lost) in [(most, 0), (most + 1, 1), (most + 5, 5)] {
            let mut assembler = Assembler::new(max_spans);
            // The first record is missing, so all others wait.
            assembler.begin(Some(0));
            add(&mut assembler, 1, 1..=count);
            assert_eq!(assembler.waiting_spans, MAX_WAITING);
            let found = end(&mut assembler, 1, count + 1, count);
            // The newest are only counted.
            assert_eq!(found, (61_701 - lost, lost), "{count}");
            assert_eq!((assembler.waiting_spans, assembler.waiting.len()), (0, 0));
        }
    }

    #[test]
    fn batches_are_collected_up_to_the_limit_of_spans() {
        let with_others = || ThreadBatch {
            async_spans: vec![AsyncSpan::default()],
            task_events: vec![TaskEvent::default(); 2],
            flows: vec![FlowPoint::default(); 3],
            ..batch(1)
        };
        for (last, is_collected) in [(3, true), (4, false)] {
            let mut assembler = Assembler::new(10);
            assembler.set_collecting(true);
            for (seq, batch) in (0..).zip([with_others(), batch(last)]) {
                take(&mut assembler, seq, Record::Batch(vec![batch]));
            }
            // Once there are too many, those that follow are not collected either.
            add(&mut assembler, 0, [2]);
            let (held, lost) = end(&mut assembler, 0, 3, last + 1);
            let collected = assembler.take_collected();
            let expected = if is_collected { (0, 3) } else { (last + 1, 0) };
            assert_eq!((held, collected.len()), expected);
            assert_eq!(lost, 0);
            // The next frame begins anew, and one that is not whole has trees.
            add(&mut assembler, 10, [4]);
            assert_eq!(end(&mut assembler, 4, 5, 10), (0, 0));
            assert_eq!(assembler.take_collected().len(), 1);
            add(&mut assembler, 4, [6]);
            assert_eq!(end(&mut assembler, 6, 8, 9), (4, 1));
            assert!(assembler.take_collected().is_empty());
            add(&mut assembler, 4, [9]);
            assembler.set_collecting(false);
            assert_eq!(end(&mut assembler, 9, 10, 4), (4, 0));
        }
    }
}
