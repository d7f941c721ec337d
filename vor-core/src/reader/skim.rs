//! From one frame's record to the next, without reading the batches between them.
//!
//! The head of a record has a check of its own and says how long the record is. So a [`Skim`] reads heads, checks and decodes the frames' records, which are small, and
//! jumps over the payload of everything else. That the head of the next record stands where the one before it said shows that the one before it was right; the spans
//! inside a payload may still be damaged. Where no head stands, or one with another number, or a record reaches to the end or beyond it, the [`Walker`]
//! takes over, from the last record that nothing has confirmed: it reads all bytes until records follow one another again.

use super::capture::Source;
use super::seen::Seen;
use super::walk::{Step, Walker};
use crate::Error;
use crate::format::{FrameRecord, Header, RECORD_HEAD_BYTES, Record, RecordDecoder, RecordHead};

/// Bytes that are read at once: few after a jump, and more the longer everything in between is of use.
const LEAST_READ: usize = 4 << 10;
const MOST_READ: usize = 64 << 10;

/// A frame's record, and what was met on the way to it.
#[derive(Debug)]
pub(super) struct Skimmed {
    /// Where the record begins.
    pub(super) offset: u64,
    pub(super) record: FrameRecord,
    /// How many of the records that the frame counts on were not met.
    pub(super) lost_records: u64,
    /// No loss was met between this offset and the record.
    pub(super) clean_from: u64,
}

/// A place in a file from which frames are looked for.
#[derive(Debug)]
pub(super) struct Skim {
    /// Where the next record should begin.
    offset: u64,
    /// Numbers of the records met so far; `None` when whatever comes first is taken for the next one.
    seen: Option<Seen>,
    /// Offset and number of the last record, if only its own head speaks for it.
    unconfirmed: Option<(u64, u64)>,
    clean_from: u64,
    /// Bytes of the file from `buffer_offset` on.
    buffer: Vec<u8>,
    buffer_offset: u64,
    read_bytes: usize,
    records: RecordDecoder,
    walker: Walker,
    walking: Option<Walking>,
}

/// What is known while the walker is at work.
#[derive(Clone, Copy, Debug)]
struct Walking {
    /// Up to where the walker has the file's bytes.
    fed_to: u64,
    /// Whether it came to a whole record.
    found: bool,
}

impl Skim {
    /// Makes a skim from `offset` on, where the records of `seen` stand before.
    pub(super) fn new(header: Header, offset: u64, seen: Option<Seen>) -> Self {
        Self {
            offset,
            seen,
            unconfirmed: None,
            clean_from: offset,
            buffer: Vec::new(),
            buffer_offset: offset,
            read_bytes: MOST_READ,
            records: RecordDecoder::new(),
            walker: Walker::new(header, offset),
            walking: None,
        }
    }

    /// Returns the next frame's record before `end`; `None` when there is none, or none yet: the file may grow and be asked again.
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
        if self.offset == end && self.unconfirmed.is_none() {
            return Ok(Found::End);
        }
        let Some(head) = self.head(source, end)? else {
            self.begin_walk();
            return Ok(Found::Other);
        };
        let (offset, seq) = (self.offset, u64::from(head.seq));
        if !self.confirm(seq) {
            self.begin_walk();
            return Ok(Found::Other);
        }
        if !head.is_frame() {
            self.unconfirmed = Some((offset, seq));
            self.offset += head.record_bytes() as u64;
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
        self.offset += head.record_bytes() as u64;
        let is_new = self.note(offset, seq);
        Ok(self.frame(offset, &head, record, is_new))
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
                if found.head.is_frame() && !found.again {
                    let payload = self.walker.payload(&found);
                    let record = self.records.decode(self.walker.header(), &found.head, payload);
                    self.seen = Some(self.walker.seen().clone());
                    return Ok(self.frame(found.offset, &found.head, record, true));
                }
                Ok(Found::Other)
            }
            Step::Loss(loss) => {
                self.clean_from = loss.offset + loss.bytes;
                Ok(Found::Other)
            }
            Step::Need if at_end => Ok(Found::End),
            Step::Need if walking.found && !self.walker.is_in_damage() => {
                self.offset = self.walker.offset();
                self.seen = Some(self.walker.seen().clone());
                self.walking = None;
                Ok(Found::Other)
            }
            Step::Need => {
                let most =
                    usize::try_from(end - walking.fed_to).map_or(MOST_READ, |left| left.min(MOST_READ));
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

    fn frame(
        &mut self,
        offset: u64,
        head: &RecordHead,
        record: Result<Option<Record>, Error>,
        is_new: bool,
    ) -> Found {
        match record {
            Ok(Some(Record::Frame(record))) if is_new => {
                let seq = u64::from(head.seq);
                let seen = self.seen.as_ref();
                let missing = seen.map_or(0, |seen| seen.missing(u64::from(record.first_seq), seq));
                Found::Frame(Skimmed {
                    offset,
                    record,
                    lost_records: missing,
                    clean_from: self.clean_from,
                })
            }
            Ok(_) => Found::Other,
            Err(_) => {
                self.clean_from = offset + head.record_bytes() as u64;
                Found::Other
            }
        }
    }

    /// Hands over to the walker, at the last record that nothing confirmed or at the place that is no record.
    fn begin_walk(&mut self) {
        let offset = self.unconfirmed.take().map_or(self.offset, |(offset, _)| offset);
        self.walker.move_to(offset, self.seen.clone());
        self.buffer.clear();
        self.walking = Some(Walking {
            fed_to: offset,
            found: false,
        });
    }

    /// Believes the last record, if the one that it led to has the number `next`; returns whether there is no doubt.
    fn confirm(&mut self, next: u64) -> bool {
        // One whose payload lost bytes may lead to a later record just as well, over frames between them.
        if let Some((offset, seq)) = self.unconfirmed.take_if(|(_, seq)| *seq + 1 == next) {
            self.note(offset, seq);
        }
        self.unconfirmed.is_none()
    }

    /// Notes that a record was met; returns whether it is a new one.
    fn note(&mut self, offset: u64, seq: u64) -> bool {
        let seen = self.seen.get_or_insert_with(|| Seen::up_to(seq));
        let expected = seen.next();
        let is_new = seen.insert(seq);
        if seq != expected {
            self.clean_from = offset + u64::from(!is_new);
        }
        is_new
    }

    /// Returns the head of the next record, if one stands there.
    fn head(&mut self, source: &mut Source, end: u64) -> Result<Option<RecordHead>, Error> {
        let at = self.fill(source, RECORD_HEAD_BYTES, end)?;
        Ok(at.and_then(|at| RecordHead::parse(self.walker.header(), &self.buffer[at..])))
    }

    /// Makes sure that the buffer has so many bytes from `offset` on, and returns where in it; `None` when they reach beyond `end`.
    fn fill(&mut self, source: &mut Source, len: usize, end: u64) -> Result<Option<usize>, Error> {
        let Some(left) = end.checked_sub(self.offset) else {
            return Ok(None);
        };
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        if len > left {
            return Ok(None);
        }
        let within = self.offset.checked_sub(self.buffer_offset);
        let at = within
            .and_then(|at| usize::try_from(at).ok())
            .filter(|&at| at <= self.buffer.len());
        match at {
            // What has been used goes, once it is worth moving the rest.
            Some(at) if at + len > self.buffer.len() => {
                self.buffer.drain(..at);
                self.buffer_offset = self.offset;
                self.read_bytes = (self.read_bytes * 2).min(MOST_READ);
            }
            Some(_) => {}
            None => {
                self.buffer.clear();
                self.buffer_offset = self.offset;
                self.read_bytes = LEAST_READ;
            }
        }
        let at = (self.offset - self.buffer_offset) as usize;
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
