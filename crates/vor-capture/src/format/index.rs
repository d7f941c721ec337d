//! The index that a clean close writes, and declarations applied to a catalog.

use std::sync::Arc;

use super::batches::BatchTotals;
use super::records::{MAX_INDEXED_SETS, MAX_SEEKS};
use super::{Index, MAX_COLUMNS, MAX_DECLARED_ID, MAX_FRAME_SETS, Record, Seek};
use crate::model::catalog::{Catalog, Column};
use crate::model::frame::FrameSnapshot;

/// Builds the index while a capture is written, in bounded memory: when there are too many places,
/// every second one is dropped, and the step between later ones doubles.
#[derive(Debug)]
pub(super) struct IndexBuilder {
    index: Index,
    /// Frames of the main set between two places.
    step: u64,
    /// Frames of the main set so far.
    ordinal: u64,
    /// Where the frame that is being recorded begins.
    begin: (u64, u32),
    last: Option<Seek>,
    /// Spans that batches since the last frame of the main set count as dropped; the frame to come
    /// counts them too.
    dropped_since_frame: u64,
}

impl Default for IndexBuilder {
    fn default() -> Self {
        Self {
            index: Index::default(),
            step: 1,
            ordinal: 0,
            begin: (0, 0),
            last: None,
            dropped_since_frame: 0,
        }
    }
}

impl IndexBuilder {
    /// Sets where the next frame's records begin: at `offset`, with number `seq`.
    pub(super) fn begin(&mut self, offset: u64, seq: u32) {
        self.begin = (offset, seq);
    }

    /// Returns the number of the first record after the last frame of the main set.
    pub(super) fn first_seq(&self) -> u32 {
        self.begin.1
    }

    pub(super) fn add_batch(&mut self, totals: &BatchTotals) {
        self.index.spans += totals.spans;
        self.index.messages += totals.messages;
        self.index.async_spans += totals.async_spans;
        self.dropped_since_frame = self
            .dropped_since_frame
            .saturating_add(totals.dropped_spans);
    }

    /// Adds a frame whose record ends at `end_offset`, before the record number `next_seq`.
    pub(super) fn add_frame(&mut self, frame: &FrameSnapshot, end_offset: u64, next_seq: u32) {
        let set = frame.frame_set as usize;
        if set < MAX_INDEXED_SETS {
            if self.index.frames.len() <= set {
                self.index.frames.resize(set + 1, 0);
            }
            self.index.frames[set] += 1;
        }
        if set != 0 {
            return;
        }
        // The frame's own count includes those of its batches, and spans that were dropped before
        // they became a batch of the file.
        self.index.dropped_spans = self.index.dropped_spans.saturating_add(frame.dropped_spans);
        self.dropped_since_frame = 0;
        if self.ordinal == 0 {
            self.index.start_ticks = frame.start_ticks;
        }
        self.index.end_ticks = frame.end_ticks;
        let seek = Seek {
            ordinal: self.ordinal,
            index: frame.index,
            offset: self.begin.0,
            start_ticks: frame.start_ticks,
        };
        self.last = Some(seek);
        if self.ordinal.is_multiple_of(self.step) {
            if self.index.seeks.len() == MAX_SEEKS - 1 {
                self.step *= 2;
                let step = self.step;
                self.index
                    .seeks
                    .retain(|seek| seek.ordinal.is_multiple_of(step));
            }
            if self.ordinal.is_multiple_of(self.step) {
                self.index.seeks.push(seek);
            }
        }
        self.ordinal += 1;
        self.begin = (end_offset, next_seq);
    }

    /// Returns the index so far, without the fields that only the writer of the records knows.
    pub(super) fn build(&self) -> Index {
        let mut index = self.index.clone();
        index.dropped_spans = index.dropped_spans.saturating_add(self.dropped_since_frame);
        if index.seeks.last() != self.last.as_ref() {
            index.seeks.extend(self.last);
        }
        index
    }
}

/// Applies a declaration; see [`Record::declare_into`].
pub(super) fn declare_into(record: &Record, catalog: &mut Catalog) -> bool {
    match record {
        Record::Process(process) => {
            if *catalog.process != *process {
                catalog.process = Arc::new(process.clone());
            }
        }
        Record::Machine(machine) => {
            if *catalog.machine != *machine {
                catalog.machine = Arc::new(machine.clone());
            }
        }
        Record::Segment(segment) => catalog.segment = Some(*segment),
        Record::Dump(dump) => catalog.dump = Some(Arc::new(dump.clone())),
        Record::ScopeModes(changes) => {
            let modes = Arc::make_mut(&mut catalog.scope_modes);
            changes.iter().for_each(|change| modes.insert(*change));
        }
        Record::Sites { first, sites } => {
            let Some(begin) = first.0.checked_sub(1) else {
                return true;
            };
            fill(&mut catalog.sites, MAX_DECLARED_ID, begin, sites, |site| {
                Some(Arc::new(site.clone()))
            });
        }
        Record::Threads { first, threads } => {
            fill(
                &mut catalog.threads,
                MAX_DECLARED_ID,
                first.0,
                threads,
                |thread| Some(Arc::new(thread.clone())),
            );
        }
        Record::Columns { first, columns } => {
            fill(
                &mut catalog.columns,
                MAX_COLUMNS,
                *first,
                columns,
                Column::clone,
            );
        }
        Record::FrameSets { first, names } => {
            fill(
                &mut catalog.frame_sets,
                MAX_FRAME_SETS,
                *first,
                names,
                String::clone,
            );
        }
        Record::Clock(sync) => {
            let known = catalog.timeline.syncs().last();
            if known.is_none_or(|last| last.ticks < sync.ticks) {
                Arc::make_mut(&mut catalog.timeline).push(*sync);
            }
        }
        _ => return false,
    }
    true
}

/// Puts `entries` at `begin` and after, with gaps filled by defaults, unless that would pass
/// `end_id`. A table that already says the same is not touched, so that the second of two
/// declarations does not copy what a batch shares.
fn fill<T, E>(
    table: &mut Arc<Vec<T>>,
    end_id: u32,
    begin: u32,
    entries: &[E],
    make: impl Fn(&E) -> T,
) where
    T: Clone + Default + PartialEq,
{
    if u64::from(begin) + entries.len() as u64 > u64::from(end_id) {
        return;
    }
    let begin = begin as usize;
    let same = table.get(begin..begin + entries.len()).is_some_and(|old| {
        old.iter()
            .zip(entries)
            .all(|(old, entry)| *old == make(entry))
    });
    if same {
        return;
    }
    let table = Arc::make_mut(table);
    if table.len() < begin + entries.len() {
        table.resize(begin + entries.len(), T::default());
    }
    for (slot, entry) in table[begin..].iter_mut().zip(entries) {
        *slot = make(entry);
    }
}
