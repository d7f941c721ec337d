//! A version-3 capture with access to any frame.
//!
//! A file that was closed cleanly ends with an end record, which says where the index is; the index says where all declarations
//! stand once more, and where frames begin. Without it (or when it does not hold), the file is passed over once: heads and checksums
//! of all records are looked at, payloads only of frames and declarations. Either way a frame is then found by
//! reading from the nearest place before it.

use std::sync::Arc;

use super::assemble::{Assembler, snapshot};
use super::capture::{Info, Source};
use super::seen::Seen;
use super::sparse::Sparse;
use super::summary::{FrameScan, FrameSummary, Guide, Start, ordinal_by_index};
use super::walk::{Found, Step, Walker};
use super::{DEFAULT_MAX_SPANS, Damage, Loss, Recovered};
use crate::Error;
use crate::batch::{SpanBatch, ThreadBatch};
use crate::catalog::Catalog;
use crate::format::{
    END_RECORD_BYTES, FrameRecord, Header, Index, MAX_FRAME_SETS, RECORD_HEAD_BYTES, Record, RecordDecoder,
    RecordHead, Seek, parse_end,
};

/// A place from which a frame set can be read, and the records that stood before it.
#[derive(Clone, Debug)]
struct Place {
    offset: u64,
    seen: Seen,
}

/// Where the frames of one set are.
#[derive(Debug)]
enum Frames {
    /// As the file's index says; for the main set.
    Indexed { count: u64, seeks: Vec<Seek> },
    /// As found by passing over the file.
    Scanned(Sparse<Place>),
}

/// Where the walk stands.
#[derive(Clone, Copy, Debug)]
struct Position {
    frame_set: u32,
    /// The frame that comes next, were nothing lost since the walk began.
    ordinal: u64,
    /// The place at which the walk began, if it counts from the index.
    from: Option<Seek>,
    lossy: bool,
}

#[derive(Debug)]
pub(super) struct CaptureV3 {
    source: Source,
    walker: Walker,
    records: RecordDecoder,
    assembler: Assembler,
    header_len: u64,
    /// Where the repeated tables begin, or the end of the file: batches and frames end here.
    data_end: u64,
    catalog: Arc<Catalog>,
    sets: Vec<Frames>,
    position: Option<Position>,
    /// Where the pass over a file without index stands, which goes on when the file grows.
    passed: Option<Passed>,
    info: Info,
}

/// Where a pass over the records of a file ended.
#[derive(Debug)]
struct Passed {
    /// Behind the last whole record.
    place: Place,
    /// Behind the last frame of the main set.
    behind: Place,
    /// First tick of the first frame of the main set and last tick of its last frame.
    ticks: Option<(u64, u64)>,
    /// Spans of the frames of the main set, and those dropped.
    spans: (u64, u64),
}

impl CaptureV3 {
    /// Opens a capture. One without an index is passed over unless `is_lazy`; then `extend` does that.
    pub(super) fn new(
        mut source: Source,
        header: Header,
        header_len: u64,
        is_lazy: bool,
    ) -> Result<Self, Error> {
        let file_bytes = source.len()?;
        let mut capture = Self {
            source,
            walker: Walker::new(header, header_len),
            records: RecordDecoder::new(),
            assembler: Assembler::new(DEFAULT_MAX_SPANS),
            header_len,
            data_end: file_bytes,
            catalog: Arc::default(),
            sets: Vec::new(),
            position: None,
            passed: None,
            info: Info {
                version: crate::format::VERSION,
                file_bytes,
                ..Info::default()
            },
        };
        match capture.read_index()? {
            Some(index) => capture.use_index(index),
            None if is_lazy => {
                capture.info.file_bytes = header_len;
                let closed = capture.info.closed;
                capture.take_scan(Scan {
                    closed,
                    ..Scan::default()
                });
            }
            None => capture.pass_over()?,
        }
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
        match self.sets.get(frame_set as usize) {
            Some(Frames::Indexed { count, .. }) => *count,
            Some(Frames::Scanned(places)) => places.count(),
            None => 0,
        }
    }

    /// Makes sure that it is known where the frames of a set are: an index of the file covers the main set only.
    pub(super) fn prepare_frame_set(&mut self, frame_set: u32) -> Result<(), Error> {
        if frame_set == 0 || self.sets.len() > 1 || !self.info.indexed {
            return Ok(());
        }
        let scan = self.scan()?;
        self.note(&scan.damage);
        self.sets
            .extend(scan.sets.into_iter().skip(1).map(Frames::Scanned));
        Ok(())
    }

    pub(super) fn verify(&mut self) -> Result<Damage, Error> {
        let scan = self.scan()?;
        self.note(&scan.damage);
        Ok(scan.damage)
    }

    /// As [`recovered`](Self::recovered), but with the batches of the frame where it is whole and not too large; it has no trees then.
    pub(super) fn recovered_batches(
        &mut self,
        frame_set: u32,
        i: u64,
    ) -> Result<(Recovered, Vec<ThreadBatch>), Error> {
        self.assembler.set_keeping(true);
        let recovered = self.recovered(frame_set, i);
        let batches = self.assembler.take_kept();
        self.assembler.set_keeping(false);
        Ok((recovered?, batches))
    }

    /// Returns a frame with its trees.
    pub(super) fn recovered(&mut self, frame_set: u32, i: u64) -> Result<Recovered, Error> {
        let mut position = self.approach(frame_set, i)?;
        let recovered = self.walk_to(&mut position, i);
        // A walk that failed stands somewhere unknown.
        self.position = recovered.is_ok().then_some(position);
        if let Some(loss) = recovered.as_ref().ok().and_then(Recovered::loss) {
            self.add(loss);
        }
        recovered
    }

    /// Returns what the next frame of the main set is, without reading its spans.
    pub(super) fn next_summary(&mut self, scan: &mut FrameScan) -> Option<Result<FrameSummary, Error>> {
        let (count, seeks) = match self.sets.first()? {
            Frames::Indexed { count, seeks } => (*count, seeks.as_slice()),
            Frames::Scanned(places) => (places.count(), &[][..]),
        };
        let i = scan.next_frame();
        if i >= count {
            return None;
        }
        let guide = Guide {
            header: *self.walker.header(),
            end: self.data_end,
            count,
            seeks,
        };
        // Frames are read through the same file, from somewhere else.
        self.position = None;
        let sets = &self.sets;
        let summary = scan.next_v3(&mut self.source, &guide, || {
            let (ordinal, offset, seen, _) = start(sets, 0, i)?;
            Ok(Start {
                ordinal,
                offset,
                seen,
            })
        });
        Some(summary)
    }

    /// Goes to the beginning, for [`next_batch`](Self::next_batch).
    pub(super) fn rewind(&mut self) -> Result<(), Error> {
        self.position = None;
        self.walker.resume_at(self.header_len, Some(Seen::default()));
        self.source.seek(self.header_len)
    }

    pub(super) fn next_batch(&mut self) -> Result<Option<SpanBatch>, Error> {
        while let Some(walked) = self.walk()? {
            if let Walked::Record(found) = walked
                && found.head.is_batch()
                && !found.again
                && let Some(Record::Batch(threads)) = self.decode(&found)
            {
                return Ok(Some(SpanBatch {
                    catalog: Arc::clone(&self.catalog),
                    threads,
                }));
            }
        }
        Ok(None)
    }

    /// Finds the index of a cleanly closed file, and the declarations before it.
    fn read_index(&mut self) -> Result<Option<Index>, Error> {
        let len = self.info.file_bytes;
        let Some(end_offset) = len.checked_sub(END_RECORD_BYTES as u64) else {
            return Ok(None);
        };
        let mut end = [0; END_RECORD_BYTES];
        self.source.read_at(end_offset, &mut end)?;
        let Some(index_offset) = parse_end(self.walker.header(), &end) else {
            return Ok(None);
        };
        self.info.closed = true;
        if !(self.header_len..end_offset).contains(&index_offset) {
            return Ok(None);
        }
        let Some(Record::Index(index)) = self.read_record(index_offset)? else {
            return Ok(None);
        };
        if !(self.header_len..=index_offset).contains(&index.tables_offset)
            || !is_sound(&index, self.header_len)
        {
            return Ok(None);
        }
        let mut catalog = Catalog::default();
        let whole = self.read_tables(index.tables_offset, index_offset, &mut catalog)?;
        self.catalog = Arc::new(catalog);
        Ok(whole.then_some(index))
    }

    /// Applies the declarations between two places; returns whether there was nothing else.
    fn read_tables(&mut self, begin: u64, end: u64, catalog: &mut Catalog) -> Result<bool, Error> {
        let mut offset = begin;
        while offset < end {
            let Some((record, len)) = self.read_record_len(offset)? else {
                return Ok(false);
            };
            if let Some(record) = record {
                record.declare_into(catalog);
            }
            offset += len;
        }
        Ok(offset == end)
    }

    fn read_record(&mut self, offset: u64) -> Result<Option<Record>, Error> {
        Ok(self.read_record_len(offset)?.and_then(|(record, _)| record))
    }

    /// Reads the record at a place. The outer `None` says that there is none; the inner one that it is of a kind not known.
    fn read_record_len(&mut self, offset: u64) -> Result<Option<(Option<Record>, u64)>, Error> {
        let left = self.info.file_bytes.saturating_sub(offset);
        if left < RECORD_HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; RECORD_HEAD_BYTES];
        self.source.read_at(offset, &mut bytes)?;
        let Some(head) = RecordHead::parse(self.walker.header(), &bytes) else {
            return Ok(None);
        };
        if head.record_bytes() as u64 > left {
            return Ok(None);
        }
        bytes.resize(head.payload_bytes, 0);
        self.source
            .read_at(offset + RECORD_HEAD_BYTES as u64, &mut bytes)?;
        match self.records.decode(self.walker.header(), &head, &bytes) {
            Ok(record) => Ok(Some((record, head.record_bytes() as u64))),
            Err(_) => Ok(None),
        }
    }

    fn use_index(&mut self, index: Index) {
        self.data_end = index.tables_offset;
        let count = index.frames.first().copied().unwrap_or(0);
        self.info.indexed = true;
        self.info.frames = count;
        self.info.spans = index.spans;
        self.info.dropped_spans = index.dropped_spans;
        self.info.threads = self.catalog.threads.len() as u64;
        self.info.duration_ns = self.duration_ns(index.start_ticks, index.end_ticks);
        self.sets.push(Frames::Indexed {
            count,
            seeks: index.seeks,
        });
    }

    /// Makes an index of a file that has none.
    fn pass_over(&mut self) -> Result<(), Error> {
        let mut scan = self.scan()?;
        self.info.damage = std::mem::take(&mut scan.damage);
        let behind = self.take_scan(scan);
        self.count_behind(behind)
    }

    /// Takes what was written since the file was opened; returns the number of frames of the main set.
    pub(super) fn extend(&mut self) -> Result<u64, Error> {
        let count = self.frame_count(0);
        let file_bytes = self.source.len()?;
        if file_bytes < self.info.file_bytes {
            return Err(Error::corrupt(format!(
                "a capture that only grows was expected, found {file_bytes} bytes of {}",
                self.info.file_bytes
            )));
        }
        let Some(passed) = self.passed.take_if(|_| file_bytes > self.info.file_bytes) else {
            return Ok(count);
        };
        self.position = None;
        self.info.file_bytes = file_bytes;
        self.data_end = file_bytes;
        let mut scan = Scan {
            catalog: Catalog::clone(&self.catalog),
            sets: Vec::new(),
            spans: passed.spans.0,
            dropped_spans: passed.spans.1,
            behind: Some(passed.behind.clone()),
            ticks: passed.ticks,
            closed: self.info.closed,
            ..Scan::default()
        };
        for frames in std::mem::take(&mut self.sets) {
            scan.sets.push(match frames {
                Frames::Scanned(places) => places,
                Frames::Indexed { .. } => Sparse::default(),
            });
        }
        self.walker
            .resume_at(passed.place.offset, Some(passed.place.seen.clone()));
        let walked = self.source.seek(passed.place.offset);
        let walked = walked.and_then(|()| self.scan_records(&mut scan));
        self.info.damage.tail = self.tail(scan.closed);
        if let Err(error) = walked {
            // Some of it may have been taken already: what is known holds, and there is no going on.
            self.sets = scan.sets.into_iter().map(Frames::Scanned).collect();
            return Err(error);
        }
        // Batches behind the last frame are not counted again: they may be many, and this is asked often.
        self.take_scan(scan);
        Ok(self.frame_count(0))
    }

    /// Keeps what a pass found; returns the place behind the last frame.
    fn take_scan(&mut self, scan: Scan) -> Place {
        let behind = scan.behind.unwrap_or(Place {
            offset: self.header_len,
            seen: Seen::default(),
        });
        self.passed = Some(Passed {
            place: Place {
                offset: self.walker.offset(),
                seen: self.walker.seen().clone(),
            },
            behind: behind.clone(),
            ticks: scan.ticks,
            spans: (scan.spans, scan.dropped_spans),
        });
        self.info.closed = scan.closed;
        self.info.spans = scan.spans;
        self.info.dropped_spans = scan.dropped_spans;
        self.info.frames = scan.sets.first().map_or(0, Sparse::count);
        self.info.threads = scan.catalog.threads.len() as u64;
        self.catalog = Arc::new(scan.catalog);
        self.sets = scan.sets.into_iter().map(Frames::Scanned).collect();
        if let Some((start_ticks, end_ticks)) = scan.ticks {
            self.info.duration_ns = self.duration_ns(start_ticks, end_ticks);
        }
        behind
    }

    /// Adds the spans of the batches behind the last frame of the main set, which no frame counts: all spans of a program that made no mark.
    fn count_behind(&mut self, behind: Place) -> Result<(), Error> {
        let first_seq = behind.seen.next();
        self.walker.resume_at(behind.offset, Some(behind.seen));
        self.source.seek(behind.offset)?;
        while let Some(walked) = self.walk()? {
            // A batch with a lower number has come late, and a frame before counts it.
            if let Walked::Record(found) = walked
                && found.head.is_batch()
                && found.seq() >= first_seq
                && !found.again
                && let Some(Record::Batch(threads)) = self.decode(&found)
            {
                for thread in &threads {
                    self.info.spans += thread.len() as u64;
                    self.info.dropped_spans = self.info.dropped_spans.saturating_add(thread.dropped_spans);
                }
            }
        }
        Ok(())
    }

    fn duration_ns(&self, start_ticks: u64, end_ticks: u64) -> u64 {
        let ns = self.catalog.unix_ns(end_ticks) - self.catalog.unix_ns(start_ticks);
        u64::try_from(ns).unwrap_or(0)
    }

    /// Passes over the whole file.
    fn scan(&mut self) -> Result<Scan, Error> {
        self.rewind()?;
        let data_end = std::mem::replace(&mut self.data_end, self.info.file_bytes);
        let mut scan = Scan::default();
        let known = self.info.damage.clone();
        self.info.damage = Damage::default();
        let result = self.scan_records(&mut scan);
        scan.damage = std::mem::replace(&mut self.info.damage, known);
        scan.damage.tail = self.tail(scan.closed);
        self.data_end = data_end;
        result.map(|()| scan)
    }

    /// Returns what stands at the end of the file that is no whole record, or that the end record is missing.
    fn tail(&self, closed: bool) -> Option<Loss> {
        let open = || Loss {
            offset: self.walker.offset(),
            bytes: 0,
            reason: "the end record of a closed capture was expected, found the end of the file".into(),
        };
        self.walker.pending().or_else(|| (!closed).then(open))
    }

    fn scan_records(&mut self, scan: &mut Scan) -> Result<(), Error> {
        let mut main_begin = scan.behind.take().unwrap_or(Place {
            offset: self.header_len,
            seen: Seen::default(),
        });
        let mut before = self.walker.seen().clone();
        while let Some(walked) = self.walk()? {
            let Walked::Record(found) = walked else {
                continue;
            };
            let head = &found.head;
            // Batches are taken at their checksum's word; every other record is small.
            if !head.is_batch() && !found.again {
                match self.decode(&found) {
                    Some(Record::Frame(frame)) => {
                        let main = frame.frame_set == 0;
                        let begin = if main {
                            main_begin.clone()
                        } else {
                            Place {
                                offset: found.offset,
                                seen: before.clone(),
                            }
                        };
                        scan.add(&frame, begin);
                        if main {
                            main_begin = Place {
                                offset: found.end(),
                                seen: self.walker.seen().clone(),
                            };
                        }
                    }
                    Some(Record::End { .. }) => scan.closed = true,
                    Some(record) => {
                        record.declare_into(&mut scan.catalog);
                    }
                    None => {}
                }
            }
            before.clone_from(self.walker.seen());
        }
        scan.behind = Some(main_begin);
        Ok(())
    }

    /// Puts the walker where frame `i` can be reached by reading on: where it is, or at a known place.
    fn approach(&mut self, frame_set: u32, i: u64) -> Result<Position, Error> {
        let (ordinal, offset, seen, from) = start(&self.sets, frame_set, i)?;
        if let Some(position) = self.position
            && position.frame_set == frame_set
            && !position.lossy
            && (ordinal..=i).contains(&position.ordinal)
        {
            return Ok(position);
        }
        self.assembler.clear();
        self.walker.resume_at(offset, seen);
        self.source.seek(offset)?;
        Ok(Position {
            frame_set,
            ordinal,
            from,
            lossy: false,
        })
    }

    fn walk_to(&mut self, position: &mut Position, i: u64) -> Result<Recovered, Error> {
        let gone = || Error::corrupt(format!("frame {i} was expected, found that damage took it"));
        loop {
            let found = match self.walk()? {
                Some(Walked::Record(found)) => found,
                Some(Walked::Loss) => {
                    self.assembler.loss();
                    // Passing over the file met the same loss, so its count of frames still holds.
                    position.lossy = position.from.is_some();
                    continue;
                }
                None => return Err(gone()),
            };
            if found.head.is_batch() {
                // Spans of frames before the wanted one are not looked at, unless counting can no longer tell.
                if position.frame_set == 0
                    && (position.ordinal == i || position.lossy)
                    && let Some(Record::Batch(threads)) = self.decode(&found)
                {
                    self.assembler.batch(found.seq(), threads);
                }
                continue;
            }
            if found.again {
                continue;
            }
            if !found.head.is_frame() {
                self.assembler.pass(found.seq());
                continue;
            }
            let Some(Record::Frame(record)) = self.decode(&found) else {
                continue;
            };
            if record.frame_set != position.frame_set {
                self.assembler.pass(found.seq());
                continue;
            }
            let ordinal = match position.from {
                Some(seek) if position.lossy => self.ordinal_by_index(seek, &record).ok_or_else(gone)?,
                _ => position.ordinal,
            };
            position.ordinal = ordinal + 1;
            if ordinal > i {
                return Err(gone());
            }
            if ordinal < i {
                self.assembler.clear();
                continue;
            }
            return Ok(self.assemble(position.frame_set, &found, record));
        }
    }

    fn assemble(&mut self, frame_set: u32, found: &Found, record: FrameRecord) -> Recovered {
        if frame_set != 0 {
            return Recovered {
                frame: Arc::new(snapshot(record, &self.catalog)),
                lost_records: 0,
            };
        }
        self.assembler.frame(found.seq(), record, &self.catalog)
    }

    /// Says which frame a record is behind a loss, where counting does not help.
    fn ordinal_by_index(&self, from: Seek, record: &FrameRecord) -> Option<u64> {
        let Some(Frames::Indexed { count, seeks }) = self.sets.first() else {
            return None;
        };
        let next = seeks.iter().find(|seek| seek.ordinal > from.ordinal);
        ordinal_by_index(&from, next, *count, record)
    }

    /// Returns the next whole record, or that there was a loss.
    fn walk(&mut self) -> Result<Option<Walked>, Error> {
        let mut at_end = false;
        loop {
            match self.walker.step(at_end) {
                Step::Record(found) if found.offset >= self.data_end => return Ok(None),
                Step::Record(found) => return Ok(Some(Walked::Record(found))),
                Step::Loss(loss) => {
                    self.add(loss);
                    return Ok(Some(Walked::Loss));
                }
                Step::Need if at_end => return Ok(None),
                Step::Need => {
                    let bytes = self.source.read()?;
                    at_end = bytes.is_empty();
                    self.walker.push(bytes);
                }
            }
        }
    }

    fn decode(&mut self, found: &Found) -> Option<Record> {
        let payload = self.walker.payload(found);
        match self.records.decode(self.walker.header(), &found.head, payload) {
            Ok(record) => record,
            Err(error) => {
                self.add(Loss {
                    offset: found.offset,
                    bytes: found.head.record_bytes() as u64,
                    reason: error.to_string(),
                });
                None
            }
        }
    }

    /// Notes a loss, unless it was met before: places are read more than once.
    fn add(&mut self, loss: Loss) {
        if !self.info.damage.losses.contains(&loss) {
            self.info.damage.add(loss);
        }
    }

    fn note(&mut self, damage: &Damage) {
        for loss in &damage.losses {
            self.add(loss.clone());
        }
        self.info.damage.tail.clone_from(&damage.tail);
    }
}

/// Returns the nearest place before frame `i`: which frame begins there, its offset, and what is known of the records before.
fn start(sets: &[Frames], frame_set: u32, i: u64) -> Result<(u64, u64, Option<Seen>, Option<Seek>), Error> {
    let lost = || Error::corrupt(format!("frame {i} was expected, found no place to look for it"));
    match sets.get(frame_set as usize).ok_or_else(lost)? {
        Frames::Indexed { seeks, .. } => {
            let after = seeks.partition_point(|seek| seek.ordinal <= i);
            let seek = *seeks.get(after.wrapping_sub(1)).ok_or_else(lost)?;
            Ok((seek.ordinal, seek.offset, None, Some(seek)))
        }
        Frames::Scanned(places) => {
            let (ordinal, place) = places.before(i).ok_or_else(lost)?;
            Ok((ordinal, place.offset, Some(place.seen.clone()), None))
        }
    }
}

enum Walked {
    Record(Found),
    Loss,
}

/// What passing over a file found.
#[derive(Debug, Default)]
struct Scan {
    catalog: Catalog,
    sets: Vec<Sparse<Place>>,
    spans: u64,
    dropped_spans: u64,
    /// Behind the last frame of the main set.
    behind: Option<Place>,
    /// First tick of the first frame of the main set and last tick of its last frame.
    ticks: Option<(u64, u64)>,
    closed: bool,
    damage: Damage,
}

impl Scan {
    fn add(&mut self, frame: &FrameRecord, begin: Place) {
        let set = frame.frame_set as usize;
        if frame.frame_set >= MAX_FRAME_SETS {
            return;
        }
        if self.sets.len() <= set {
            self.sets.resize_with(set + 1, Sparse::default);
        }
        self.sets[set].push(|| begin);
        if set == 0 {
            self.spans += frame.span_count;
            self.dropped_spans += frame.dropped_spans;
            let start_ticks = self.ticks.map_or(frame.start_ticks, |ticks| ticks.0);
            self.ticks = Some((start_ticks, frame.end_ticks));
        }
    }
}

/// Checks what a walk relies on: places ascend and lie before the tables.
fn is_sound(index: &Index, header_len: u64) -> bool {
    let count = index.frames.first().copied().unwrap_or(0);
    let ascending = index
        .seeks
        .windows(2)
        .all(|pair| pair[0].ordinal < pair[1].ordinal && pair[0].offset < pair[1].offset);
    let within = index
        .seeks
        .iter()
        .all(|seek| seek.ordinal < count && (header_len..index.tables_offset).contains(&seek.offset));
    let begins = index.seeks.first().is_none_or(|seek| seek.ordinal == 0);
    ascending && within && begins && (count == 0) == index.seeks.is_empty()
}
