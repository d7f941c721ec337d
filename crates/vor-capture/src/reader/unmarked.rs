//! The one frame of a capture without marks.
//!
//! Frames end at marks, and a program that makes none has spans nonetheless. Its whole recording is
//! then one frame: number 0, from the first event to the last, without metrics, which are taken at
//! marks. A file that grows may still get a mark, so [`Reader`](super::Reader) returns the frame at
//! the end record; [`Capture`](super::Capture) returns it for every file without a mark.

use std::sync::Arc;

use super::Recovered;
use super::assemble::snapshot;
use crate::format::{FrameRecord, Record};
use crate::model::batch::ThreadBatch;
use crate::model::catalog::Catalog;

/// The sum of the batches before the first mark.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnmarkedFrame {
    /// When the first event began, and when the last one ended; before any, the former is later.
    pub(super) start_ticks: u64,
    pub(super) end_ticks: u64,
    pub(super) spans: u64,
    dropped_spans: u64,
    /// The sequence number behind the last batch.
    next_seq: u64,
    /// Number of losses of the file.
    pub(super) losses: u64,
    /// Whether a mark came, so that there is no such frame.
    is_marked: bool,
}

impl Default for UnmarkedFrame {
    fn default() -> Self {
        Self {
            start_ticks: u64::MAX,
            end_ticks: 0,
            spans: 0,
            dropped_spans: 0,
            next_seq: 0,
            losses: 0,
            is_marked: false,
        }
    }
}

impl UnmarkedFrame {
    /// Takes the next record of a stream. At an end record without a mark, returns the frame and
    /// the sequence number for a record of it.
    pub(super) fn add_record(
        &mut self,
        seq: u64,
        is_repeated: bool,
        record: &Record,
    ) -> Option<(u64, FrameRecord)> {
        match record {
            Record::Batch(threads) if !self.is_marked && !is_repeated => {
                self.next_seq = seq + 1;
                self.add(threads);
            }
            Record::Frame(frame) => self.is_marked |= frame.frame_set == 0,
            // The records of marked frames may all be lost.
            Record::Index(index) => {
                self.is_marked |= index.frames.first().is_some_and(|&count| count > 0)
            }
            Record::End { .. } if !self.is_marked => {
                self.is_marked = true;
                let happened = self.start_ticks <= self.end_ticks;
                return happened.then(|| (self.next_seq, self.record()));
            }
            _ => {}
        }
        None
    }

    pub(super) fn add(&mut self, threads: &[ThreadBatch]) {
        for thread in threads {
            self.spans = self.spans.saturating_add(thread.len() as u64);
            self.dropped_spans = self.dropped_spans.saturating_add(thread.dropped_spans);
            let spans = thread.start_ticks.iter().zip(&thread.duration_ticks);
            self.cover(spans.map(|(&start, &duration)| (start, start.saturating_add(duration))));
            let tasks = thread.async_spans.iter();
            self.cover(tasks.map(|task| (task.start_ticks, task.end_ticks())));
            let events = thread.task_events.iter();
            self.cover(events.map(|event| (event.start_ticks, event.end_ticks())));
            let messages = thread.messages.iter();
            self.cover(messages.map(|message| (message.ticks, message.ticks)));
            self.cover(thread.flows.iter().map(|flow| (flow.ticks, flow.ticks)));
        }
    }

    fn cover(&mut self, events: impl Iterator<Item = (u64, u64)>) {
        for (start_ticks, end_ticks) in events {
            self.start_ticks = self.start_ticks.min(start_ticks);
            self.end_ticks = self.end_ticks.max(end_ticks);
        }
    }

    /// Returns the frame as a record.
    fn record(&self) -> FrameRecord {
        FrameRecord {
            index: 0,
            frame_set: 0,
            start_ticks: self.start_ticks,
            end_ticks: self.end_ticks,
            metrics: Vec::new(),
            dropped_spans: self.dropped_spans,
            merged_marks: 0,
            span_count: self.spans,
            first_seq: 0,
        }
    }

    /// Returns the frame without trees.
    pub(super) fn without_trees(&self, catalog: &Arc<Catalog>) -> Recovered {
        Recovered {
            frame: Arc::new(snapshot(self.record(), catalog)),
            lost_records: self.losses,
        }
    }
}
