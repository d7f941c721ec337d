//! From one frame's record to the next, without reading the batches between them.
//!
//! The head of a record has a check of its own and says how long the record is. So a [`Skim`] reads
//! heads, checks and decodes the frames' records, which are small, and jumps over the payload of
//! everything else. That the head of the next record stands where the one before it said shows that
//! the one before it was right; the spans inside a payload may still be damaged. Where no head
//! stands, or one with another number, or a record reaches to the end or beyond it, the [`Walker`]
//! takes over, from the last record that nothing has confirmed: it reads all bytes until records
//! follow one another again.

use super::capture::Source;
use super::seen::Seen;
use super::walk::{Checkpoint, Step, Walker};
use crate::Error;
use crate::format::{FrameRecord, Header, RECORD_HEAD_BYTES, Record, RecordDecoder, RecordHead};

/// Bytes that are read at once: few after a jump, and more the longer everything in between is of
/// use.
const LEAST_READ: usize = 4 << 10;
const MOST_READ: usize = 64 << 10;

/// A frame's record, and what was met on the way to it.
#[derive(Debug)]
pub(super) struct Skimmed {
    pub(super) record: FrameRecord,
    /// How many of the records that the frame counts on were not met since the frame before it.
    pub(super) lost_records: u64,
}

/// A place in a file from which frames are looked for.
#[derive(Debug)]
pub(super) struct Skim {
    /// Where the next record should begin, and what is known of those before it.
    here: Checkpoint,
    /// Offset and number of the last record, if only its own head speaks for it.
    unconfirmed: Option<(u64, u64)>,
    /// Records that were met since the last frame of the main set.
    section: Seen,
    /// Whether a record was missing, damaged or out of place.
    met_loss: bool,
    /// Bytes of the file from `buffer_offset` on.
    buffer: Vec<u8>,
    buffer_offset: u64,
    read_bytes: usize,
    records: RecordDecoder,
    walker: Walker,
    walking: Option<Walking>,
}

/// The state while the walker is at work.
#[derive(Clone, Copy, Debug)]
struct Walking {
    /// Up to where the walker has the file's bytes.
    fed_to: u64,
    /// Whether it came to a whole record.
    found: bool,
}

impl Skim {
    /// Makes a skim from a place on.
    pub(super) fn new(header: Header, from: Checkpoint) -> Self {
        Self {
            unconfirmed: None,
            section: Seen::default(),
            met_loss: false,
            buffer: Vec::new(),
            buffer_offset: from.offset,
            read_bytes: MOST_READ,
            records: RecordDecoder::new(),
            walker: Walker::new(header, from.clone()),
            walking: None,
            here: from,
        }
    }

    /// Returns where the next record should begin.
    pub(super) fn offset(&self) -> u64 {
        let walker = self.walking.map(|_| self.walker.checkpoint());
        walker.unwrap_or(&self.here).offset
    }

    /// Returns whether a record was missing, damaged or out of place so far.
    pub(super) fn met_loss(&self) -> bool {
        self.met_loss
    }

    /// Returns the next frame's record before `end`; `None` when there is none, or none yet: the
    /// file may grow and be asked again.
    pub(super) fn next(&mut self, source: &mut Source, end: u64) -> Result<Option<Skimmed>, Error> {
        loop {
            let found = if self.walking.is_some() {
                self.walk(source, end)?
            } else {
                self.jump(source, end)?
            };
            match found {
                Found::Frame(skimmed) => return Ok(Some(skimmed)),
                Found::Other => {}
                Found::End => return Ok(None),
            }
        }
    }

    /// Goes on by one record, by the word of its head.
    fn jump(&mut self, source: &mut Source, end: u64) -> Result<Found, Error> {
        if self.here.offset == end && self.unconfirmed.is_none() {
            return Ok(Found::End);
        }
        let Some(head) = self.head(source, end)? else {
            self.begin_walk();
            return Ok(Found::Other);
        };
        let (offset, seq) = (self.here.offset, u64::from(head.seq));
        if !self.confirm(seq) {
            self.begin_walk();
            return Ok(Found::Other);
        }
        if !head.is_frame() {
            self.unconfirmed = Some((offset, seq));
            self.here.offset += head.record_bytes() as u64;
            return Ok(Found::Other);
        }
        let Some(at) = self.fill(source, head.record_bytes(), end)? else {
            self.begin_walk();
            return Ok(Found::Other);
        };
        let payload = &self.buffer[at + RECORD_HEAD_BYTES..at + head.record_bytes()];
        let record = self.records.decode(self.walker.header(), &head, payload);
        if record.is_err() && !head.verify(self.walker.header(), payload) {
            self.begin_walk();
            return Ok(Found::Other);
        }
        self.here.offset += head.record_bytes() as u64;
        let is_new = self.note(seq);
        Ok(self.frame(seq, record, is_new))
    }

    /// Goes on by one record with the walker, which looks at every byte.
    fn walk(&mut self, source: &mut Source, end: u64) -> Result<Found, Error> {
        let Some(mut walking) = self.walking else {
            return Ok(Found::Other);
        };
        let at_end = walking.fed_to >= end;
        match self.walker.step(at_end) {
            Step::Record(found) => {
                self.walking = Some(Walking {
                    found: true,
                    ..walking
                });
                self.section.insert(found.seq());
                if !found.head.is_frame() {
                    return Ok(Found::Other);
                }
                let payload = self.walker.payload(&found);
                let record = self.records.decode_verified(&found.head, payload);
                Ok(self.frame(found.seq(), record, !found.again))
            }
            Step::Loss(_) => {
                self.met_loss = true;
                Ok(Found::Other)
            }
            Step::Need if at_end => Ok(Found::End),
            Step::Need if walking.found && !self.walker.is_in_damage() => {
                self.here = self.walker.checkpoint().clone();
                self.walking = None;
                Ok(Found::Other)
            }
            Step::Need => {
                let most = usize::try_from(end - walking.fed_to)
                    .map_or(MOST_READ, |left| left.min(MOST_READ));
                self.buffer.clear();
                let n = source.append_at(walking.fed_to, most, &mut self.buffer)?;
                if n == 0 {
                    // Shorter than it was: whatever stands behind is gone.
                    return Ok(Found::End);
                }
                self.walker.push(&self.buffer);
                walking.fed_to += n as u64;
                self.walking = Some(walking);
                Ok(Found::Other)
            }
        }
    }

    fn frame(&mut self, seq: u64, record: Result<Option<Record>, Error>, is_new: bool) -> Found {
        match record {
            Ok(Some(Record::Frame(record))) if is_new => {
                let lost_records = self.section.missing(u64::from(record.first_seq), seq);
                if record.frame_set == 0 {
                    self.section.clear();
                }
                Found::Frame(Skimmed {
                    record,
                    lost_records,
                })
            }
            Ok(_) => Found::Other,
            Err(_) => {
                self.met_loss = true;
                Found::Other
            }
        }
    }

    /// Hands over to the walker, at the last record that nothing confirmed or at the place that is
    /// no record.
    fn begin_walk(&mut self) {
        if let Some((offset, _)) = self.unconfirmed.take() {
            self.here.offset = offset;
        }
        self.walker.resume(self.here.clone());
        self.buffer.clear();
        self.walking = Some(Walking {
            fed_to: self.here.offset,
            found: false,
        });
    }

    /// Believes the last record, if the one that it led to has the number `next`; returns whether
    /// there is no doubt.
    fn confirm(&mut self, next: u64) -> bool {
        // One whose payload lost bytes may lead to a later record just as well, over frames between
        // them.
        if let Some((_, seq)) = self.unconfirmed.take_if(|(_, seq)| *seq + 1 == next) {
            self.note(seq);
        }
        self.unconfirmed.is_none()
    }

    /// Notes that a record was met; returns whether it is a new one.
    fn note(&mut self, seq: u64) -> bool {
        self.section.insert(seq);
        let is_new = self.here.seen.insert(seq);
        self.met_loss |= !is_new || self.here.next.is_some_and(|next| next != seq);
        if is_new {
            self.here.next = Some(seq + 1);
        }
        is_new
    }

    /// Returns the head of the next record, if one stands there.
    fn head(&mut self, source: &mut Source, end: u64) -> Result<Option<RecordHead>, Error> {
        let at = self.fill(source, RECORD_HEAD_BYTES, end)?;
        Ok(at.and_then(|at| RecordHead::parse(self.walker.header(), &self.buffer[at..])))
    }

    /// Makes sure that the buffer has so many bytes from `offset` on, and returns where in it;
    /// `None` when they reach beyond `end`.
    fn fill(&mut self, source: &mut Source, len: usize, end: u64) -> Result<Option<usize>, Error> {
        let Some(left) = end.checked_sub(self.here.offset) else {
            return Ok(None);
        };
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        if len > left {
            return Ok(None);
        }
        let within = self.here.offset.checked_sub(self.buffer_offset);
        let at = within
            .and_then(|at| usize::try_from(at).ok())
            .filter(|&at| at <= self.buffer.len());
        match at {
            // Used bytes go, once it is worth moving the rest.
            Some(at) if at + len > self.buffer.len() => {
                self.buffer.drain(..at);
                self.buffer_offset = self.here.offset;
                self.read_bytes = (self.read_bytes * 2).min(MOST_READ);
            }
            Some(_) => {}
            None => {
                self.buffer.clear();
                self.buffer_offset = self.here.offset;
                self.read_bytes = LEAST_READ;
            }
        }
        let at = (self.here.offset - self.buffer_offset) as usize;
        while self.buffer.len() < at + len {
            let from = self.buffer_offset + self.buffer.len() as u64;
            let most = self.read_bytes.max(at + len - self.buffer.len());
            let most = most.min(left + at - self.buffer.len());
            if source.append_at(from, most, &mut self.buffer)? == 0 {
                return Ok(None);
            }
        }
        Ok(Some(at))
    }
}

enum Found {
    Frame(Skimmed),
    Other,
    End,
}
