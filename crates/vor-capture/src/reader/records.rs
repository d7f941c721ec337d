//! From bytes of a version-3 capture to decoded records: what both readers, and every pass over a
//! file, read with.

use std::io::{self, Read};

use super::walk::{Checkpoint, Found, Step, Walker};
use super::{CHUNK_BYTES, Loss, read_some};
use crate::format::{FrameRecord, Header, Record, RecordDecoder};

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
    pub(super) again: bool,
    /// Its contents. Absent where it was not decoded, and where this version does not know its
    /// kind.
    pub(super) record: Option<Record>,
}

impl Entry {
    pub(super) fn frame(&self) -> Option<&FrameRecord> {
        match &self.record {
            Some(Record::Frame(frame)) => Some(frame),
            _ => None,
        }
    }

    /// Returns whether it is a frame of a set that was not read before.
    pub(super) fn is_frame_of(&self, frame_set: u32) -> bool {
        let is_of = |frame: &FrameRecord| frame.frame_set == frame_set;
        !self.again && self.frame().is_some_and(is_of)
    }

    /// Returns whether it ends a frame of the main set that was not read before.
    pub(super) fn ends_section(&self) -> bool {
        self.is_frame_of(0)
    }
}

const NO_END: &str = "the capture was not closed: it has no end record";

/// Reads the records of a file from a place on.
#[derive(Debug)]
pub(super) struct Records {
    walker: Walker,
    decoder: RecordDecoder,
    chunk: Vec<u8>,
}

impl Records {
    pub(super) fn new(header: Header, from: Checkpoint) -> Self {
        Self {
            walker: Walker::new(header, from),
            decoder: RecordDecoder::new(),
            chunk: vec![0; CHUNK_BYTES],
        }
    }

    /// Takes bytes that were read already.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.walker.push(bytes);
    }

    pub(super) const fn walker(&self) -> &Walker {
        &self.walker
    }

    /// Returns where the next record begins.
    pub(super) fn offset(&self) -> u64 {
        self.walker.checkpoint().offset
    }

    /// Goes on at another place.
    pub(super) fn resume(&mut self, from: Checkpoint) {
        self.walker.resume(from);
    }

    /// Returns what comes next, and reads from `input` as far as that takes; `None` at the end,
    /// where it may be asked again when more was written. Spans are decoded only where they are
    /// wanted.
    pub(super) fn next(&mut self, input: &mut impl Read, spans: bool) -> io::Result<Option<Item>> {
        let mut at_end = false;
        loop {
            match self.walker.step(at_end) {
                Step::Record(found) => return Ok(Some(self.decode(&found, spans))),
                Step::Loss(loss) => return Ok(Some(Item::Loss(loss))),
                Step::Need if at_end => return Ok(None),
                Step::Need => {
                    let n = read_some(input, &mut self.chunk)?;
                    self.walker.push(&self.chunk[..n]);
                    at_end = n == 0;
                }
            }
        }
    }

    /// Returns what stands at the end and is no whole record, or that the end record is missing.
    pub(super) fn tail(&self, is_closed: bool) -> Option<Loss> {
        let open = || Loss {
            offset: self.walker.checkpoint().offset,
            bytes: 0,
            reason: NO_END.into(),
        };
        self.walker.pending().or_else(|| (!is_closed).then(open))
    }

    fn decode(&mut self, found: &Found, spans: bool) -> Item {
        let record = if found.head.is_batch() && !spans {
            Ok(None)
        } else {
            self.decoder
                .decode_verified(&found.head, self.walker.payload(found))
        };
        match record {
            Ok(record) => Item::Entry(Entry {
                offset: found.offset,
                seq: found.seq(),
                again: found.again,
                record,
            }),
            Err(error) => Item::Loss(Loss {
                offset: found.offset,
                bytes: found.head.record_bytes() as u64,
                reason: error.to_string(),
            }),
        }
    }
}
