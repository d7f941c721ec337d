//! A pass over the records of a version-3 capture, which finds its frames, their places and the
//! damage.
//!
//! It checks the heads and checksums of all records, and decodes the payloads of frames and
//! declarations only. A pass waits at the end of the file and continues when it has grown; then it
//! reads only the new part.

use std::sync::Arc;

use super::capture::Source;
use super::ordinals::{Ordinals, Places};
use super::records::{Entry, Item, Records};
use super::sparse::Sparse;
use super::{Damage, Loss};
use crate::Error;
use crate::format::{Checkpoint, FrameRecord, Header, MAX_FRAME_SETS, Record};
use crate::model::catalog::Catalog;

#[derive(Debug)]
pub(super) struct Pass {
    records: Records,
    pub(super) catalog: Arc<Catalog>,
    /// Where the frames of each set begin, in the order of the file.
    sets: Vec<Sparse<Checkpoint>>,
    /// The number in the index of each frame of the main set.
    ordinals: Ordinals,
    /// Behind the last frame of the main set.
    section: Checkpoint,
    /// Spans of the frames of the main set, and those dropped.
    pub(super) spans: u64,
    pub(super) dropped_spans: u64,
    /// First tick of the first frame of the main set and last tick of its last frame.
    pub(super) ticks: Option<(u64, u64)>,
    pub(super) closed: bool,
}

impl Pass {
    /// Makes a pass at the first record.
    pub(super) fn new(header: Header, header_len: u64) -> Self {
        let first = Checkpoint::first(header_len);
        Self {
            records: Records::new(header, first.clone()),
            catalog: Arc::default(),
            sets: Vec::new(),
            ordinals: Ordinals::default(),
            section: first,
            spans: 0,
            dropped_spans: 0,
            ticks: None,
            closed: false,
        }
    }

    /// Reads up to the end of the file. With the places of an index, finds where its frames are.
    pub(super) fn run(
        &mut self,
        source: &mut Source,
        index: Option<&Places>,
        damage: &mut Damage,
    ) -> Result<(), Error> {
        let result = loop {
            let mut input = source.at(self.records.decoder().end_offset());
            match self.records.next(&mut input, false) {
                Err(error) => break Err(Error::io("cannot read the capture", error)),
                Ok(None) => break Ok(()),
                Ok(Some(Item::Loss(loss))) => damage.add(loss),
                Ok(Some(Item::Entry(entry))) => self.add(entry, index),
            }
        };
        damage.tail = self.tail();
        result
    }

    /// Returns the bytes at the end of the file that are not a whole record, or that the end record
    /// is missing.
    fn tail(&self) -> Option<Loss> {
        self.records.tail(self.closed)
    }

    /// Returns the number of frames of a set that are in the file.
    pub(super) fn frame_count(&self, frame_set: u32) -> u64 {
        self.sets.get(frame_set as usize).map_or(0, Sparse::count)
    }

    /// Returns the nearest place at or before a frame, and the number in the order of the file of
    /// the frame that begins there.
    pub(super) fn before(&self, frame_set: u32, at: u64) -> Option<(u64, &Checkpoint)> {
        self.sets.get(frame_set as usize)?.before(at)
    }

    /// Returns the number in the order of the file of frame `ordinal` of the index.
    pub(super) fn find(&self, ordinal: u64) -> Option<u64> {
        self.ordinals.find(ordinal)
    }

    /// Returns the place behind the last frame of the main set.
    pub(super) fn behind(&self) -> &Checkpoint {
        &self.section
    }

    fn add(&mut self, entry: Entry, index: Option<&Places>) {
        if entry.is_repeated {
            return;
        }
        match entry.record {
            Some(Record::Frame(frame)) => self.add_frame(entry.offset, entry.seq, &frame, index),
            Some(Record::End { .. }) => self.closed = true,
            Some(record) => drop(record.declare_into(Arc::make_mut(&mut self.catalog))),
            None => {}
        }
    }

    fn add_frame(&mut self, offset: u64, seq: u64, frame: &FrameRecord, index: Option<&Places>) {
        let here = self.records.decoder().checkpoint();
        let set = frame.frame_set as usize;
        if frame.frame_set >= MAX_FRAME_SETS {
            return;
        }
        if self.sets.len() <= set {
            self.sets.resize_with(set + 1, Sparse::default);
        }
        if set > 0 {
            // Such a frame consists of its record alone.
            self.sets[set].push(|| here.before_record(offset, seq));
            return;
        }
        if let Some(index) = index {
            self.ordinals.add(index, self.sets[0].count(), seq, frame);
        }
        let begin = std::mem::replace(&mut self.section, here.clone());
        self.sets[0].push(|| begin);
        self.spans = self.spans.saturating_add(frame.span_count);
        self.dropped_spans = self.dropped_spans.saturating_add(frame.dropped_spans);
        let start_ticks = self.ticks.map_or(frame.start_ticks, |ticks| ticks.0);
        self.ticks = Some((start_ticks, frame.end_ticks));
    }
}
