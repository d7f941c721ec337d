//! From records to bytes.

use std::ops::Range;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use super::batches::{BatchCoder, BatchTotals};
use super::head::{CODEC_LZ4, CODEC_RAW, kind, put_record};
use super::index::IndexBuilder;
use super::records::{
    MAX_TABLE_ENTRIES, put_clock, put_column, put_dump, put_end, put_frame, put_index, put_machine,
    put_open_scopes, put_process, put_scope_modes, put_segment, put_site, put_thread,
};
use super::wire::{put_text, put_varint};
use super::{
    Header, Index, MAX_COLUMNS, MAX_DECLARED_ID, MAX_FRAME_SETS, Record, RecordRef, events, heap,
    scheduler,
};
use crate::model::catalog::{Catalog, MachineInfo, SiteId, ThreadId};
use crate::model::frame::FrameSnapshot;
use crate::model::heap::HeapMode;

/// Payload size at which a declaration continues in another record.
const TABLE_GOAL_BYTES: usize = 64 << 10;
/// Payloads below this are not compressed: they hold few repetitions, and LZ4's own cost in bytes
/// shows.
const COMPRESS_FROM_BYTES: usize = 48;
/// The same for [`Compression::Fast`]: LZ4 clears its table for each payload, which takes longer
/// than everything else for a small record.
const FAST_COMPRESS_FROM_BYTES: usize = 512;

/// The choice of records to compress. Readers decode all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// All but the smallest.
    Usual,
    /// Only large ones, for records that come fast.
    Fast,
    /// None: columns are packed, but nothing is compressed.
    Off,
}

/// Writes a capture, piece by piece, into buffers of the caller.
///
/// The pieces must reach the file in the order in which they were made: sequence numbers, offsets
/// and the index depend on it. Once its buffers have the size of the batches, it allocates nothing.
#[derive(Debug)]
pub struct Encoder {
    frames: Framer,
    batches: BatchCoder,
    index: IndexBuilder,
    payload: Vec<u8>,
    header: Header,
}

/// Puts payloads into records.
struct Framer {
    seed: u32,
    next_seq: u32,
    offset: u64,
    records: u64,
    compress_from_bytes: usize,
    table: CompressTable,
    compressed: Vec<u8>,
}

impl std::fmt::Debug for Framer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Framer")
            .field("next_seq", &self.next_seq)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// Makes an encoder for a new file.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self {
            frames: Framer {
                seed: header.crc_seed(),
                next_seq: 0,
                offset: 0,
                records: 0,
                compress_from_bytes: COMPRESS_FROM_BYTES,
                table: CompressTable::large(),
                compressed: Vec::new(),
            },
            batches: BatchCoder::default(),
            index: IndexBuilder::default(),
            payload: Vec::new(),
            header,
        }
    }

    /// Appends the file header to `out`. Called once, first.
    pub fn header(&mut self, out: &mut Vec<u8>) {
        let before = out.len();
        self.header.encode(out);
        self.frames.offset += (out.len() - before) as u64;
        self.index.begin(self.frames.offset, self.frames.next_seq);
    }

    /// Appends a record to `out`: declarations twice, a large batch as several records.
    ///
    /// Contents beyond the caps of the format are cut, as [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES)
    /// and `FORMAT.md` say. A batch without threads makes no record.
    pub fn encode(&mut self, record: RecordRef<'_>, out: &mut Vec<u8>) {
        self.payload.clear();
        match record {
            RecordRef::Batch(batch) => {
                let Self {
                    frames,
                    payload,
                    batches,
                    ..
                } = self;
                // Before the tasks that end in the batch, since their events came first.
                events::put(batch, payload, |payload| {
                    frames.put(out, kind::EVENTS, payload)
                });
                let totals = batches.put(batch, payload, |payload| {
                    frames.put(out, kind::BATCH, payload);
                    payload.clear();
                });
                self.index.add_batch(&totals);
            }
            RecordRef::Frame(frame) => {
                let main = frame.frame_set == 0;
                let records = if main {
                    self.frames.next_seq.wrapping_sub(self.index.first_seq())
                } else {
                    0
                };
                put_frame(&mut self.payload, frame, records);
                self.frames.put(out, kind::FRAME, &self.payload);
                self.index
                    .add_frame(frame, self.frames.offset, self.frames.next_seq);
            }
            RecordRef::OpenScopes(open) => {
                put_open_scopes(&mut self.payload, open);
                self.frames.put(out, kind::OPEN_SCOPES, &self.payload);
            }
            RecordRef::Heap(snapshot) if snapshot.mode == HeapMode::Off => {}
            RecordRef::Heap(snapshot) => {
                heap::put(&mut self.payload, snapshot);
                self.frames.put(out, kind::HEAP, &self.payload);
            }
            RecordRef::Scheduler(batch) => {
                let Self {
                    frames, payload, ..
                } = self;
                scheduler::put(batch, payload, |payload| {
                    frames.put(out, kind::SCHEDULER, payload);
                });
            }
            declaration => self.declare(declaration, 2, out),
        }
    }

    /// Appends everything of `catalog` once more, the index and the end record. Nothing may follow.
    pub fn close(&mut self, catalog: &Catalog, out: &mut Vec<u8>) {
        let tables_offset = self.frames.offset;
        self.declare(RecordRef::Process(&catalog.process), 1, out);
        if *catalog.machine != MachineInfo::default() {
            self.declare(RecordRef::Machine(&catalog.machine), 1, out);
        }
        if let Some(segment) = catalog.segment {
            self.declare(RecordRef::Segment(segment), 1, out);
        }
        if let Some(dump) = &catalog.dump {
            self.declare(RecordRef::Dump(dump), 1, out);
        }
        for sync in catalog.timeline.syncs() {
            self.declare(RecordRef::Clock(sync), 1, out);
        }
        let (first_site, first_thread) = (SiteId(1), ThreadId(0));
        let tables = [
            RecordRef::Sites {
                first: first_site,
                sites: &catalog.sites,
            },
            RecordRef::Threads {
                first: first_thread,
                threads: &catalog.threads,
            },
            RecordRef::Columns {
                first: 0,
                columns: &catalog.columns,
            },
            RecordRef::FrameSets {
                first: 0,
                names: &catalog.frame_sets,
            },
        ];
        for table in tables {
            self.declare(table, 1, out);
        }
        self.declare(RecordRef::ScopeModes(&catalog.scope_modes, None), 1, out);
        let index_offset = self.frames.offset;
        let index = Index {
            tables_offset,
            ..self.index()
        };
        self.payload.clear();
        put_index(&mut self.payload, &index);
        self.frames.put(out, kind::INDEX, &self.payload);
        self.payload.clear();
        put_end(&mut self.payload, index_offset);
        self.frames.put(out, kind::END, &self.payload);
    }

    /// Returns the seed of the checksums of this file, and the number of the next record.
    #[must_use]
    pub fn place(&self) -> (u32, u32) {
        (self.frames.seed, self.frames.next_seq)
    }

    /// Skips records that another writer has put into the file.
    pub fn skip(&mut self, records: u32, bytes: u64) {
        self.frames.next_seq = self.frames.next_seq.wrapping_add(records);
        self.frames.records += u64::from(records);
        self.frames.offset += bytes;
    }

    /// Skips a record that the file has already, and adds what it holds to the index. `bytes` is
    /// its length. So an encoder can continue a capture that its writer did not close:
    /// [`header`](Self::header) comes first, and then every record of the file in turn.
    pub fn pass(&mut self, record: Option<&Record>, bytes: u64) {
        self.skip(1, bytes);
        match record {
            Some(Record::Batch(threads)) => self.index.add_batch(&BatchTotals::of(threads)),
            Some(Record::Frame(frame)) => {
                let frame = filled!(FrameSnapshot {
                    index: frame.index,
                    frame_set: frame.frame_set,
                    start_ticks: frame.start_ticks,
                    end_ticks: frame.end_ticks,
                    dropped_spans: frame.dropped_spans,
                });
                self.index
                    .add_frame(&frame, self.frames.offset, self.frames.next_seq);
            }
            _ => {}
        }
    }

    /// Sets which records are compressed from now on.
    pub fn set_compression(&mut self, compression: Compression) {
        self.frames.compress_from_bytes = match compression {
            Compression::Usual => COMPRESS_FROM_BYTES,
            Compression::Fast => FAST_COMPRESS_FROM_BYTES,
            Compression::Off => usize::MAX,
        };
    }

    /// Returns how many bytes have been made: the length of the file when all of them were written.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.frames.offset
    }

    /// Returns the index of the records so far. Its `tables_offset` is 0: the tables are at
    /// the end only after [`close`](Self::close).
    #[must_use]
    pub fn index(&self) -> Index {
        Index {
            records: self.frames.records,
            ..self.index.build()
        }
    }

    fn declare(&mut self, declaration: RecordRef<'_>, copies: u32, out: &mut Vec<u8>) {
        let Self {
            frames, payload, ..
        } = self;
        payload.clear();
        match declaration {
            RecordRef::Process(process) => {
                put_process(payload, process);
                frames.put_copies(out, kind::PROCESS, payload, copies);
            }
            RecordRef::Machine(machine) => {
                put_machine(payload, machine);
                frames.put_copies(out, kind::MACHINE, payload, copies);
            }
            RecordRef::Segment(segment) => {
                put_segment(payload, segment);
                frames.put_copies(out, kind::SEGMENT, payload, copies);
            }
            RecordRef::Dump(dump) => {
                put_dump(payload, dump);
                frames.put_copies(out, kind::DUMP, payload, copies);
            }
            RecordRef::ScopeModes(modes, after_ticks) => {
                let changes: Vec<_> = modes.after(after_ticks).collect();
                for changes in changes.chunks(MAX_TABLE_ENTRIES) {
                    payload.clear();
                    put_scope_modes(payload, changes);
                    frames.put_copies(out, kind::SCOPE_MODES, payload, copies);
                }
            }
            RecordRef::Clock(sync) => {
                put_clock(payload, sync);
                frames.put_copies(out, kind::CLOCK, payload, copies);
            }
            RecordRef::Sites { first, sites } => {
                let sites = sites.iter().map(Option::as_deref);
                let mut end = |payload: &[u8]| frames.put_copies(out, kind::SITES, payload, copies);
                put_table(payload, first.0..MAX_DECLARED_ID, sites, put_site, &mut end);
            }
            RecordRef::Threads { first, threads } => {
                let threads = threads.iter().map(Option::as_deref);
                let mut end =
                    |payload: &[u8]| frames.put_copies(out, kind::THREADS, payload, copies);
                put_table(
                    payload,
                    first.0..MAX_DECLARED_ID,
                    threads,
                    put_thread,
                    &mut end,
                );
            }
            RecordRef::Columns { first, columns } => {
                let columns = columns.iter().map(Some);
                let mut end =
                    |payload: &[u8]| frames.put_copies(out, kind::COLUMNS, payload, copies);
                put_table(payload, first..MAX_COLUMNS, columns, put_column, &mut end);
            }
            RecordRef::FrameSets { first, names } => {
                let names = names.iter().map(Some);
                let mut end =
                    |payload: &[u8]| frames.put_copies(out, kind::FRAME_SETS, payload, copies);
                put_table(
                    payload,
                    first..MAX_FRAME_SETS,
                    names,
                    |out, name| put_text(out, name),
                    &mut end,
                );
            }
            RecordRef::Batch(_)
            | RecordRef::Frame(_)
            | RecordRef::OpenScopes(_)
            | RecordRef::Heap(_)
            | RecordRef::Scheduler(_) => {}
        }
    }
}

impl Framer {
    fn put_copies(&mut self, out: &mut Vec<u8>, kind: u8, payload: &[u8], copies: u32) {
        for _ in 0..copies {
            self.put(out, kind, payload);
        }
    }

    fn put(&mut self, out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
        let before = out.len();
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        self.records += 1;
        // The end record is found by its size, so it stays as it is.
        let worth_trying = payload.len() >= self.compress_from_bytes && kind != kind::END;
        if worth_trying && self.compress(payload) {
            put_record(out, self.seed, seq, kind, CODEC_LZ4, &self.compressed);
        } else {
            put_record(out, self.seed, seq, kind, CODEC_RAW, payload);
        }
        self.offset += (out.len() - before) as u64;
    }

    /// Fills `compressed`, and returns whether it is smaller than `payload`.
    fn compress(&mut self, payload: &[u8]) -> bool {
        self.compressed.clear();
        put_varint(&mut self.compressed, payload.len() as u64);
        let begin = self.compressed.len();
        self.compressed
            .resize(begin + get_maximum_output_size(payload.len()), 0);
        match compress_into_with_table(payload, &mut self.compressed[begin..], &mut self.table) {
            Ok(bytes) => {
                self.compressed.truncate(begin + bytes);
                self.compressed.len() < payload.len()
            }
            Err(_) => false,
        }
    }
}

/// Writes entries with consecutive ids, if there are any, as one or more declarations; a `None` is
/// skipped.
fn put_table<'a, T: ?Sized + 'a>(
    payload: &mut Vec<u8>,
    ids: Range<u32>,
    entries: impl Iterator<Item = Option<&'a T>>,
    put: impl Fn(&mut Vec<u8>, &T),
    end_record: &mut impl FnMut(&[u8]),
) {
    let mut record = Vec::new();
    let mut run: Option<(u32, usize)> = None;
    let mut end_run = |run: &mut Option<(u32, usize)>, entries: &mut Vec<u8>| {
        if let Some((begin, count)) = run.take() {
            record.clear();
            put_varint(&mut record, u64::from(begin));
            put_varint(&mut record, count as u64);
            record.extend_from_slice(entries);
            end_record(&record);
        }
        entries.clear();
    };
    for (id, entry) in ids.zip(entries) {
        let Some(entry) = entry else {
            end_run(&mut run, payload);
            continue;
        };
        put(payload, entry);
        let (_, count) = run.get_or_insert((id, 0));
        *count += 1;
        if *count >= MAX_TABLE_ENTRIES || payload.len() >= TABLE_GOAL_BYTES {
            end_run(&mut run, payload);
        }
    }
    end_run(&mut run, payload);
}
