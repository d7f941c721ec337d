//! A version-3 capture with access to any frame.
//!
//! A file that was closed cleanly ends with an end record, which has the offset of the index; the
//! index has the offset of a second copy of all declarations, and the places where frames begin. A
//! frame is read from the nearest place before it. The index is trusted as long as nothing
//! contradicts it: every record is in its place, and the frame is whole.
//!
//! Without an index, and where something contradicts it, a [`Pass`] over the whole file finds the
//! frames and their places. From a place that a pass found, records are read as from the beginning
//! of the file. So a frame depends on the file, and not on what was read before.

use std::ops::Range;
use std::sync::Arc;

use super::assemble::{Assembler, snapshot};
use super::capture::{Info, Source};
use super::ordinals::Places;
use super::pass::Pass;
use super::records::{Entry, Item, Records};
use super::summary::{FrameScan, FrameSummary, Lookup, Target};
use super::{DEFAULT_MAX_SPANS, Damage, Loss, Recovered};
use crate::Error;
use crate::format::{
    self, Checkpoint, END_RECORD_BYTES, Header, Index, PayloadDecoder, RECORD_HEAD_BYTES, Record,
    RecordHead,
};
use crate::model::batch::{SpanBatch, ThreadBatch};
use crate::model::catalog::Catalog;

/// The place of `records`: before a frame of a set, counted in the order of the file or by the
/// index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    frame_set: u32,
    by_index: bool,
    next: u64,
}

#[derive(Debug)]
pub(super) struct CaptureV3 {
    source: Source,
    records: Records,
    assembler: Assembler,
    header_len: u64,
    catalog: Arc<Catalog>,
    /// Where frames are, by the file's index.
    index: Option<Places>,
    /// Where the repeated tables of an indexed file begin: batches and frames end here.
    tables_offset: u64,
    /// Where frames are, by a pass: in a file without index or one that contradicts it, and for
    /// other sets than the main one.
    pass: Option<Pass>,
    /// Frames that were not reached from their place in the index, by the last attempt.
    unreached: Range<u64>,
    position: Option<Position>,
    info: Info,
}

impl CaptureV3 {
    /// Opens a capture. One without an index is scanned by a pass unless `is_lazy`; then `extend`
    /// does that.
    pub(super) fn new(
        mut source: Source,
        header: Header,
        header_len: u64,
        is_lazy: bool,
    ) -> Result<Self, Error> {
        let file_bytes = source.len()?;
        let mut capture = Self {
            source,
            records: Records::new(header, Checkpoint::first(header_len)),
            assembler: Assembler::new(DEFAULT_MAX_SPANS),
            header_len,
            catalog: Arc::default(),
            index: None,
            tables_offset: 0,
            pass: None,
            unreached: 0..0,
            position: None,
            info: Info {
                version: crate::format::VERSION,
                file_bytes,
                ..Info::default()
            },
        };
        if let Some((index, places)) = capture.read_index()? {
            capture.use_index(&index, places);
            return Ok(capture);
        }
        let mut pass = capture.begin_pass();
        if is_lazy {
            capture.info.file_bytes = header_len;
        } else {
            let mut damage = Damage::default();
            pass.run(&mut capture.source, None, &mut damage)?;
            capture.info.damage = damage;
            capture.take_totals(&pass);
            capture.count_behind(&pass)?;
        }
        capture.pass = Some(pass);
        Ok(capture)
    }

    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    pub(super) fn info(&self) -> Info {
        self.info.clone()
    }

    pub(super) fn set_max_spans(&mut self, max_spans: usize) {
        self.assembler = Assembler::new(max_spans);
        self.position = None;
    }

    pub(super) fn frame_count(&self, frame_set: u32) -> u64 {
        match (&self.index, &self.pass) {
            (Some(index), _) if frame_set == 0 => index.count,
            (_, Some(pass)) => pass.frame_count(frame_set),
            _ => 0,
        }
    }

    /// Finds the frames of a set: an index of the file covers the main set only.
    pub(super) fn prepare_frame_set(&mut self, frame_set: u32) -> Result<(), Error> {
        if frame_set == 0 {
            return Ok(());
        }
        self.make_pass()
    }

    /// Makes a pass over the whole file, unless there is one.
    fn make_pass(&mut self) -> Result<(), Error> {
        if self.pass.is_none() {
            let (mut pass, mut damage) = (self.begin_pass(), Damage::default());
            pass.run(&mut self.source, self.index.as_ref(), &mut damage)?;
            self.add_all(&damage);
            self.pass = Some(pass);
        }
        Ok(())
    }

    fn begin_pass(&self) -> Pass {
        Pass::new(*self.records.decoder().header(), self.header_len)
    }

    pub(super) fn verify(&mut self) -> Result<Damage, Error> {
        let mut damage = Damage::default();
        self.begin_pass().run(&mut self.source, None, &mut damage)?;
        self.add_all(&damage);
        Ok(damage)
    }

    /// Like [`recovered`](Self::recovered), but with the batches of the frame where it is whole and
    /// not too large; it has no trees then.
    pub(super) fn recovered_batches(
        &mut self,
        frame_set: u32,
        i: u64,
    ) -> Result<(Recovered, Vec<ThreadBatch>), Error> {
        self.assembler.set_collecting(true);
        let recovered = self.recovered(frame_set, i);
        let batches = self.assembler.take_collected();
        self.assembler.set_collecting(false);
        Ok((recovered?, batches))
    }

    /// Returns a frame with its trees.
    pub(super) fn recovered(&mut self, frame_set: u32, i: u64) -> Result<Recovered, Error> {
        if frame_set == 0 && self.index.is_some() {
            if let Some(recovered) = self.read_by_index(i)? {
                return Ok(recovered);
            }
            self.make_pass()?;
        }
        let at = self.find(frame_set, i).ok_or_else(|| lost_frame(i))?;
        let recovered = self
            .read_by_pass(frame_set, at)?
            .ok_or_else(|| lost_frame(i))?;
        if let Some(loss) = recovered.loss() {
            self.add(loss);
        }
        Ok(recovered)
    }

    /// Returns the summary of the next frame of the main set, without reading its spans.
    pub(super) fn next_summary(
        &mut self,
        scan: &mut FrameScan,
    ) -> Option<Result<FrameSummary, Error>> {
        let i = scan.next_frame();
        if i >= self.frame_count(0) {
            return None;
        }
        let summary = self.summary(i, scan);
        if summary.is_ok() || summary.as_ref().is_err_and(Error::is_corrupt) {
            scan.advance();
        }
        Some(summary)
    }

    fn summary(&mut self, i: u64, scan: &mut FrameScan) -> Result<FrameSummary, Error> {
        let header = *self.records.decoder().header();
        if let Some(index) = &self.index {
            if let Some(seek) = index.before(i).filter(|_| !self.unreached.contains(&i)) {
                let target = Target {
                    begin: (seek.ordinal, Checkpoint::anywhere(seek.offset)),
                    at: i,
                    end: self.tables_offset,
                    index: Some(index),
                };
                match scan.find(&mut self.source, header, target)? {
                    Lookup::Frame(summary) => return Ok(summary),
                    Lookup::None { is_broken, next } if is_broken => {
                        self.unreached = next..index.end(i);
                    }
                    Lookup::None { .. } => {}
                }
            }
            self.make_pass()?;
        }
        let at = self.find(0, i).ok_or_else(|| lost_frame(i))?;
        let pass = self.pass.as_ref();
        let (first, place) = pass
            .and_then(|pass| pass.before(0, at))
            .ok_or_else(|| lost_frame(i))?;
        let target = Target {
            begin: (first, place.clone()),
            at,
            end: self.info.file_bytes,
            index: None,
        };
        match scan.find(&mut self.source, header, target)? {
            Lookup::Frame(summary) => Ok(summary),
            Lookup::None { .. } => Err(lost_frame(i)),
        }
    }

    /// Returns the file and the reader of its records, for reading in any order, and where the
    /// records begin and end.
    pub(super) fn raw(&mut self) -> (&mut Source, &mut Records, u64, u64) {
        self.position = None;
        let end = match self.index {
            Some(_) => self.tables_offset,
            None => self.info.file_bytes,
        };
        (&mut self.source, &mut self.records, self.header_len, end)
    }

    /// Goes to the beginning, for [`next_batch`](Self::next_batch).
    pub(super) fn rewind(&mut self) {
        self.position = None;
        self.records.resume(Checkpoint::first(self.header_len));
    }

    pub(super) fn next_batch(&mut self) -> Result<Option<SpanBatch>, Error> {
        while let Some(item) = self.next_item(true)? {
            match item {
                Item::Loss(loss) => self.add(loss),
                Item::Entry(Entry {
                    record: Some(Record::Batch(threads)),
                    is_repeated: false,
                    ..
                }) => {
                    return Ok(Some(SpanBatch {
                        catalog: Arc::clone(&self.catalog),
                        threads,
                    }));
                }
                Item::Entry(_) => {}
            }
        }
        Ok(None)
    }

    /// Finds the index of a cleanly closed file, and the declarations before it.
    fn read_index(&mut self) -> Result<Option<(Index, Places)>, Error> {
        let len = self.info.file_bytes;
        let Some(end_offset) = len.checked_sub(END_RECORD_BYTES as u64) else {
            return Ok(None);
        };
        let mut end = [0; END_RECORD_BYTES];
        self.source.read_at(end_offset, &mut end)?;
        let Some(index_offset) = format::parse_end(self.records.decoder().header(), &end) else {
            return Ok(None);
        };
        self.info.closed = true;
        if !(self.header_len..end_offset).contains(&index_offset) {
            return Ok(None);
        }
        let mut decoder = PayloadDecoder::new();
        let read = self.read_record(&mut decoder, index_offset)?;
        let Some((_, Some(Record::Index(mut index)))) = read else {
            return Ok(None);
        };
        if !(self.header_len..=index_offset).contains(&index.tables_offset) {
            return Ok(None);
        }
        let count = index.frames.first().copied().unwrap_or(0);
        let seeks = std::mem::take(&mut index.seeks);
        let Some(places) = Places::new(count, seeks, &(self.header_len..index.tables_offset))
        else {
            return Ok(None);
        };
        let mut catalog = Catalog::default();
        let mut offset = index.tables_offset;
        while offset < index_offset {
            match self.read_record(&mut decoder, offset)? {
                // Anything else belongs before the tables.
                Some((head, record))
                    if record
                        .as_ref()
                        .is_none_or(|record| record.declare_into(&mut catalog)) =>
                {
                    offset += head.record_bytes() as u64;
                }
                _ => return Ok(None),
            }
        }
        self.catalog = Arc::new(catalog);
        Ok((offset == index_offset).then_some((index, places)))
    }

    /// Reads the record at a place before the end record, if there is one; its contents are absent
    /// for an unknown kind.
    fn read_record(
        &mut self,
        decoder: &mut PayloadDecoder,
        offset: u64,
    ) -> Result<Option<(RecordHead, Option<Record>)>, Error> {
        let left = self.info.file_bytes.saturating_sub(offset);
        let mut bytes = vec![0; RECORD_HEAD_BYTES];
        self.source.read_at(offset, &mut bytes)?;
        let header = self.records.decoder().header();
        let Some(head) = RecordHead::parse(header, &bytes) else {
            return Ok(None);
        };
        if head.record_bytes() as u64 > left {
            return Ok(None);
        }
        bytes.resize(head.payload_bytes, 0);
        self.source
            .read_at(offset + RECORD_HEAD_BYTES as u64, &mut bytes)?;
        let record = decoder.decode(header, &head, &bytes);
        Ok(record.ok().map(|record| (head, record)))
    }

    fn use_index(&mut self, index: &Index, places: Places) {
        self.tables_offset = index.tables_offset;
        self.info.indexed = true;
        self.info.frames = places.count;
        self.info.spans = index.spans;
        self.info.dropped_spans = index.dropped_spans;
        self.info.threads = self.catalog.threads.len() as u64;
        self.info.duration_ns = self.duration_ns(index.start_ticks, index.end_ticks);
        self.index = Some(places);
    }

    /// Reads the part of the file that was written since it was opened; returns the number of
    /// frames of the main set.
    pub(super) fn extend(&mut self) -> Result<u64, Error> {
        let file_bytes = self.source.len()?;
        if file_bytes < self.info.file_bytes {
            return Err(Error::corrupt(format!(
                "the capture has shrunk from {} to {file_bytes} bytes while it was read",
                self.info.file_bytes
            )));
        }
        if self.index.is_none()
            && file_bytes > self.info.file_bytes
            && let Some(mut pass) = self.pass.take()
        {
            self.info.file_bytes = file_bytes;
            let mut damage = Damage::default();
            let ran = pass.run(&mut self.source, None, &mut damage);
            self.add_all(&damage);
            // Batches behind the last frame are not counted again: they may be many, and callers
            // poll this.
            self.take_totals(&pass);
            self.pass = Some(pass);
            ran?;
        }
        Ok(self.frame_count(0))
    }

    /// Takes the totals of a pass over a file without index.
    fn take_totals(&mut self, pass: &Pass) {
        self.catalog = Arc::clone(&pass.catalog);
        self.info.closed = pass.closed;
        self.info.spans = pass.spans;
        self.info.dropped_spans = pass.dropped_spans;
        self.info.frames = pass.frame_count(0);
        self.info.threads = self.catalog.threads.len() as u64;
        if let Some((start_ticks, end_ticks)) = pass.ticks {
            self.info.duration_ns = self.duration_ns(start_ticks, end_ticks);
        }
    }

    /// Adds the spans of the batches behind the last frame of the main set, which no frame counts:
    /// all spans of a program that made no mark.
    fn count_behind(&mut self, pass: &Pass) -> Result<(), Error> {
        let behind = pass.behind().clone();
        let first_seq = behind.next.unwrap_or(0);
        self.records.resume(behind);
        while let Some(item) = self.next_item(true)? {
            match item {
                Item::Loss(loss) => self.add(loss),
                // A batch with a lower number is late, and a frame before counts it.
                Item::Entry(entry) if entry.is_repeated || entry.seq < first_seq => {}
                Item::Entry(entry) => {
                    if let Some(Record::Batch(threads)) = entry.record {
                        for thread in &threads {
                            self.info.spans = self.info.spans.saturating_add(thread.len() as u64);
                            self.info.dropped_spans =
                                self.info.dropped_spans.saturating_add(thread.dropped_spans);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn duration_ns(&self, start_ticks: u64, end_ticks: u64) -> u64 {
        let (start_ns, end_ns) = (
            self.catalog.unix_ns(start_ticks),
            self.catalog.unix_ns(end_ticks),
        );
        u64::try_from(end_ns.saturating_sub(start_ns)).unwrap_or(0)
    }

    /// Returns the number in the order of the file of frame `i` of a set, unless it is lost.
    fn find(&self, frame_set: u32, i: u64) -> Option<u64> {
        if frame_set == 0 && self.index.is_some() {
            return self.pass.as_ref()?.find(i);
        }
        Some(i)
    }

    /// Reads a frame from a place of the index; `None` when something contradicts it.
    fn read_by_index(&mut self, i: u64) -> Result<Option<Recovered>, Error> {
        let index = self.index.as_ref().filter(|_| !self.unreached.contains(&i));
        let Some((index, seek)) = index.and_then(|index| Some((index, index.before(i)?))) else {
            return Ok(None);
        };
        let end = index.end(i);
        let (first, place) = (seek.ordinal, Checkpoint::anywhere(seek.offset));
        let mut position = self.approach(0, true, first, i, place);
        while let Some(item) = self.next_item(position.next == i)? {
            let Item::Entry(entry) = item else {
                // Batches are decoded, and their damage found, only for the requested frame.
                if position.next < i {
                    self.unreached = position.next..end;
                }
                break;
            };
            if !entry.ends_section() {
                if position.next == i {
                    self.assembler.take(entry, &self.catalog);
                }
                continue;
            }
            let holds = |index: &Places| {
                let frame = entry.frame();
                frame.is_some_and(|frame| index.allows(position.next, frame))
            };
            if entry.offset >= self.tables_offset || !self.index.as_ref().is_some_and(holds) {
                break;
            }
            position.next += 1;
            if position.next <= i {
                self.assembler.begin(Some(entry.seq + 1));
                continue;
            }
            let recovered = self.assembler.take(entry, &self.catalog);
            self.position = Some(position);
            return Ok(recovered.filter(|recovered| recovered.lost_records == 0));
        }
        Ok(None)
    }

    /// Reads the frame of a set that is number `at` in the order of the file.
    fn read_by_pass(&mut self, frame_set: u32, at: u64) -> Result<Option<Recovered>, Error> {
        let pass = self.pass.as_ref();
        let Some((first, place)) = pass.and_then(|pass| pass.before(frame_set, at)) else {
            return Ok(None);
        };
        let place = place.clone();
        let mut position = self.approach(frame_set, false, first, at, place);
        let main = frame_set == 0;
        while let Some(item) = self.next_item(main && position.next == at)? {
            let entry = match item {
                Item::Entry(entry) => entry,
                Item::Loss(loss) => {
                    self.add(loss);
                    continue;
                }
            };
            let is_frame = entry.is_frame_of(frame_set);
            position.next += u64::from(is_frame);
            if position.next <= at {
                // Another frame, or a record of the requested one.
                if main && is_frame {
                    self.assembler.begin(Some(entry.seq + 1));
                } else if main && position.next == at {
                    self.assembler.take(entry, &self.catalog);
                }
                continue;
            }
            self.position = Some(position);
            return Ok(match entry.record {
                Some(Record::Frame(record)) if !main => Some(Recovered {
                    frame: Arc::new(snapshot(record, &self.catalog)),
                    lost_records: 0,
                }),
                record => self
                    .assembler
                    .take(Entry { record, ..entry }, &self.catalog),
            });
        }
        Ok(None)
    }

    /// Moves `records` to a place from which reading on reaches frame `at`: the current one, or the
    /// nearest place before it, at which frame `first` begins.
    fn approach(
        &mut self,
        frame_set: u32,
        by_index: bool,
        first: u64,
        at: u64,
        place: Checkpoint,
    ) -> Position {
        // After a failure the position is unknown.
        if let Some(position) = self.position.take()
            && (position.frame_set, position.by_index) == (frame_set, by_index)
            && (first..=at).contains(&position.next)
            && (!by_index || position.next > first || self.records.offset() == place.offset)
        {
            return position;
        }
        self.assembler.begin(place.next);
        self.records.resume(place);
        Position {
            frame_set,
            by_index,
            next: first,
        }
    }

    /// Returns the next record or loss.
    fn next_item(&mut self, batches: bool) -> Result<Option<Item>, Error> {
        let mut input = self.source.at(self.records.decoder().end_offset());
        self.records
            .next(&mut input, batches)
            .map_err(|error| Error::io("cannot read the capture", error))
    }

    /// Adds a loss, unless it was met before: places are read more than once.
    fn add(&mut self, loss: Loss) {
        if !self.info.damage.losses.contains(&loss) {
            self.info.damage.add(loss);
        }
    }

    fn add_all(&mut self, damage: &Damage) {
        for loss in &damage.losses {
            self.add(loss.clone());
        }
        self.info.damage.tail.clone_from(&damage.tail);
    }
}

fn lost_frame(i: u64) -> Error {
    Error::corrupt(format!("frame {i} is lost: its records are damaged"))
}
