//! From an input to decoded records of a version-3 capture. Both readers, and every pass over a
//! file, use it.

use std::io::{self, Read};

use super::{CHUNK_BYTES, Loss, read_some};
use crate::format::{
    Checkpoint, Decoder, Event, FrameRecord, Header, PayloadDecoder, RawRecord, Record,
};

/// The next part of a capture.
#[derive(Debug)]
pub(super) enum Item {
    Entry(Entry),
    Loss(Loss),
}

/// A whole record.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) seq: u64,
    /// Whether a record of this number was read before.
    pub(super) is_repeated: bool,
    /// Its contents. Absent where it was not decoded, and for a kind that this version does not
    /// know.
    pub(super) record: Option<Record>,
}

impl Entry {
    pub(super) fn frame(&self) -> Option<&FrameRecord> {
        match &self.record {
            Some(Record::Frame(frame)) => Some(frame),
            _ => None,
        }
    }

    /// Returns whether it is a frame of a set, and not repeated.
    pub(super) fn is_frame_of(&self, frame_set: u32) -> bool {
        let is_of = |frame: &FrameRecord| frame.frame_set == frame_set;
        !self.is_repeated && self.frame().is_some_and(is_of)
    }

    /// Returns whether it is a frame of the main set, and not repeated.
    pub(super) fn ends_section(&self) -> bool {
        self.is_frame_of(0)
    }
}

const NO_END: &str = "the capture was not closed: it has no end record";

/// Reads the records of a file from a place on.
#[derive(Debug)]
pub(super) struct Records {
    decoder: Decoder,
    payloads: PayloadDecoder,
    chunk: Vec<u8>,
}

impl Records {
    pub(super) fn new(header: Header, from: Checkpoint) -> Self {
        Self {
            decoder: Decoder::new(header, from),
            payloads: PayloadDecoder::new(),
            chunk: vec![0; CHUNK_BYTES],
        }
    }

    /// Takes bytes that were read already.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    pub(super) const fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Returns where the next record begins.
    pub(super) fn offset(&self) -> u64 {
        self.decoder.checkpoint().offset
    }

    /// Continues at another place.
    pub(super) fn resume(&mut self, from: Checkpoint) {
        self.decoder.resume(from);
    }

    /// Returns what comes next, and reads from `input` as far as that takes. Returns `None` at the
    /// end; a later call goes on when more was written. Batches are decoded only with `spans`.
    pub(super) fn next(&mut self, input: &mut impl Read, spans: bool) -> io::Result<Option<Item>> {
        let mut at_end = false;
        loop {
            match self.decoder.event(at_end) {
                Some(Event::Record(record)) => {
                    return Ok(Some(decode(&record, &mut self.payloads, spans)));
                }
                Some(Event::Damage(damage)) => return Ok(Some(Item::Loss(damage.into()))),
                None if at_end => return Ok(None),
                None => {
                    let n = read_some(input, &mut self.chunk)?;
                    self.decoder.push(&self.chunk[..n]);
                    at_end = n == 0;
                }
            }
        }
    }

    /// Returns the bytes at the end that are not a whole record, or that the end record is missing.
    pub(super) fn tail(&self, is_closed: bool) -> Option<Loss> {
        let open = || Loss {
            offset: self.offset(),
            bytes: 0,
            reason: NO_END.into(),
        };
        let unfinished = self.decoder.unfinished().map(Loss::from);
        unfinished.or_else(|| (!is_closed).then(open))
    }
}

fn decode(raw: &RawRecord<'_>, payloads: &mut PayloadDecoder, spans: bool) -> Item {
    let record = if raw.head.is_batch() && !spans {
        Ok(None)
    } else {
        raw.decode(payloads)
    };
    match record {
        Ok(record) => Item::Entry(Entry {
            offset: raw.offset,
            seq: raw.seq,
            is_repeated: raw.is_repeated,
            record,
        }),
        Err(error) => Item::Loss(Loss {
            offset: raw.offset,
            bytes: raw.head.record_bytes() as u64,
            reason: error.to_string(),
        }),
    }
}
