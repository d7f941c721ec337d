//! The newest records, encoded, in memory: chunks of which the oldest are given up.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vor_capture::Error;
use vor_capture::filled;
use vor_capture::format::{
    Compression, Encoder, FrameRecord, Header, PayloadDecoder, RECORD_HEAD_BYTES, Record,
    RecordHead, RecordRef,
};
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::FrameSink;

use crate::sinks::capture::{Moment, file_id};

/// A chunk has at most this part of the memory, or of the time that it covers.
const CHUNKS: u32 = 32;
/// Bytes at which a chunk ends at the latest.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// Bytes of records that are moved on together: they fit the second-level cache with the spans.
const FRESH_BYTES: usize = 128 << 10;

/// Bounds on what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) bytes: usize,
    pub(super) age: Option<Duration>,
}

/// The newest records of a recorder, within bounds.
#[derive(Debug)]
pub(super) struct Memory {
    bounds: Bounds,
    encoder: Encoder,
    /// Binds the records to this memory, like those of a file to the file.
    header: Header,
    chunks: VecDeque<Chunk>,
    /// Bytes of all chunks.
    bytes: usize,
    /// The newest records. They move on in one piece: small writes into memory that was not touched
    /// for long wait for each line of it.
    fresh: Vec<u8>,
    /// The chunk that is being filled, without the newest records, and when it began.
    records: Vec<u8>,
    /// The memory of a chunk that was given up, for the next one: new memory takes the kernel as
    /// long as packing takes us.
    spare: Vec<u8>,
    began: Option<Began>,
    catalog: Arc<Catalog>,
}

/// Records in the order in which they came.
#[derive(Clone, Debug)]
struct Chunk {
    records: Arc<Vec<u8>>,
    began: Began,
    ended: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Began {
    at: Instant,
    moment: Moment,
}

impl Memory {
    pub(super) fn new(bounds: Bounds) -> Self {
        let header = Header {
            file_id: file_id(),
            ..Header::default()
        };
        let mut encoder = Encoder::new(header);
        // Compression takes longer than everything else, and packed columns gain little from it.
        // A dump compresses its records.
        encoder.set_compression(Compression::Off);
        Self {
            bounds,
            encoder,
            header,
            chunks: VecDeque::new(),
            bytes: 0,
            fresh: Vec::new(),
            records: Vec::new(),
            spare: Vec::new(),
            began: None,
            catalog: Arc::default(),
        }
    }

    /// Keeps a record. `catalog` has everything that it refers to.
    pub(super) fn put(&mut self, record: RecordRef<'_>, catalog: &Arc<Catalog>) {
        self.began.get_or_insert_with(|| Began {
            at: Instant::now(),
            moment: Moment::now(),
        });
        self.encoder.encode(record, &mut self.fresh);
        self.catalog = Arc::clone(catalog);
        if self.records.len() + self.fresh.len() >= self.chunk_bytes() {
            self.end_chunk();
        } else if self.fresh.len() >= FRESH_BYTES {
            self.move_fresh();
        }
    }

    fn move_fresh(&mut self) {
        self.records.extend_from_slice(&self.fresh);
        self.fresh.clear();
    }

    /// Returns the size at which a chunk ends.
    fn chunk_bytes(&self) -> usize {
        (self.bounds.bytes / CHUNKS as usize).min(MAX_CHUNK_BYTES)
    }

    /// Ends a chunk that has covered its part of the time, and gives up those that are too old.
    pub(super) fn settle(&mut self) {
        let Some(most) = self.bounds.age else {
            return;
        };
        let now = Instant::now();
        if self
            .began
            .is_some_and(|began| now.saturating_duration_since(began.at) >= most / CHUNKS)
        {
            self.end_chunk();
        }
        while let Some(chunk) = self.chunks.front()
            && now.saturating_duration_since(chunk.ended) > most
        {
            self.give_up_oldest();
        }
    }

    fn end_chunk(&mut self) {
        let Some(began) = self.began.take() else {
            return;
        };
        self.move_fresh();
        self.bytes += self.records.len();
        // A chunk that time has ended would keep memory that it does not need.
        let records = if self.records.len() >= self.chunk_bytes() {
            mem::replace(&mut self.records, mem::take(&mut self.spare))
        } else {
            self.records.clone()
        };
        self.records.clear();
        self.chunks.push_back(Chunk {
            records: Arc::new(records),
            began,
            ended: Instant::now(),
        });
        // The chunk that is being filled needs room, too.
        let room = self.bounds.bytes - self.bounds.bytes / CHUNKS as usize;
        while self.bytes > room && self.chunks.len() > 1 {
            self.give_up_oldest();
        }
    }

    fn give_up_oldest(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.bytes -= chunk.records.len();
            // A dump may still read it.
            if let Some(records) = Arc::into_inner(chunk.records)
                && records.capacity() > self.spare.capacity()
            {
                self.spare = records;
            }
        }
    }

    /// Returns everything that is kept at this moment. Its records are shared, and not copied.
    pub(super) fn contents(&mut self) -> Contents {
        self.end_chunk();
        Contents {
            header: self.header,
            chunks: self.chunks.iter().cloned().collect(),
            catalog: Arc::clone(&self.catalog),
        }
    }
}

/// The records that were kept at one moment.
#[derive(Debug)]
pub(super) struct Contents {
    header: Header,
    chunks: Vec<Chunk>,
    catalog: Arc<Catalog>,
}

impl Contents {
    /// Returns when the oldest record came.
    pub(super) fn began(&self) -> Moment {
        let first = self.chunks.first();
        first.map_or_else(Moment::now, |chunk| chunk.began.moment)
    }

    /// Returns the time between the first and the last record.
    pub(super) fn duration(&self) -> Duration {
        let (first, last) = (self.chunks.first(), self.chunks.last());
        first.zip(last).map_or(Duration::ZERO, |(first, last)| {
            last.ended.saturating_duration_since(first.began.at)
        })
    }

    /// Delivers all records to a sink, in their order.
    pub(super) fn deliver(&self, sink: &mut impl FrameSink) -> Result<(), Error> {
        let mut payloads = PayloadDecoder::new();
        for chunk in &self.chunks {
            let mut rest = &chunk.records[..];
            while let Some(head) = RecordHead::parse(&self.header, rest) {
                let (record, after) = rest.split_at(head.record_bytes());
                rest = after;
                match payloads.decode(&self.header, &head, &record[RECORD_HEAD_BYTES..])? {
                    Some(Record::Batch(threads)) => sink.accept_batch(&filled!(SpanBatch {
                        catalog: Arc::clone(&self.catalog),
                        threads,
                    }))?,
                    Some(Record::Frame(frame)) => {
                        sink.accept_frame(&Arc::new(self.frame(frame)))?;
                    }
                    Some(Record::Heap(snapshot)) => sink.accept_heap(&snapshot, &self.catalog)?,
                    Some(Record::Scheduler(batch)) => {
                        sink.accept_scheduler(&batch, &self.catalog)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn frame(&self, frame: FrameRecord) -> FrameSnapshot {
        filled!(FrameSnapshot {
            catalog: Arc::clone(&self.catalog),
            index: frame.index,
            frame_set: frame.frame_set,
            start_ticks: frame.start_ticks,
            end_ticks: frame.end_ticks,
            metrics: frame.metrics,
            dropped_spans: frame.dropped_spans,
            merged_marks: frame.merged_marks,
            span_count: frame.span_count,
        })
    }
}
