//! From one frame's record to the next, without reading the batches between them.
//!
//! The head of a record has a check of its own and the length of the record. So a [`Skim`] reads
//! heads, checks and decodes the frames' records, which are small, and jumps over the payload of
//! everything else. A head at the place to which the one before it leads confirms the one before
//! it; the spans inside a payload may still be damaged. Where there is no head, or one with another
//! number, or a record reaches to the end or beyond it, the [`Decoder`] takes over, from the last
//! record that nothing has confirmed: it reads all bytes until records follow one another again.

use super::capture::Source;
use crate::Error;
use crate::format::{
    Checkpoint, Decoder, Event, FrameRecord, Header, PayloadDecoder, RECORD_HEAD_BYTES, Record,
    RecordHead, SeqSet,
};

/// Bytes of one read: few after a jump, and more the longer all of them are used.
const MIN_READ_BYTES: usize = 4 << 10;
const MAX_READ_BYTES: usize = 64 << 10;

/// A frame's record, and the losses on the way to it.
#[derive(Debug)]
pub(super) struct Skimmed {
    pub(super) record: FrameRecord,
    /// How many of the frame's records were not met since the frame before it.
    pub(super) lost_records: u64,
}

/// A search for frames from a place in a file on.
#[derive(Debug)]
pub(super) struct Skim {
    /// Where the next record should begin, and the known records before it.
    here: Checkpoint,
    /// Offset and number of the last record, if nothing but its own head confirms it.
    unconfirmed: Option<(u64, u64)>,
    /// Records that were met since the last frame of the main set.
    section: SeqSet,
    /// Whether a record was missing, damaged or out of place.
    met_loss: bool,
    /// Bytes of the file from `buffer_offset` on.
    buffer: Vec<u8>,
    buffer_offset: u64,
    read_bytes: usize,
    payloads: PayloadDecoder,
    decoder: Decoder,
    walking: Option<WalkState>,
}

/// The state while the decoder reads every byte.
#[derive(Clone, Copy, Debug)]
struct WalkState {
    /// Whether it came to a whole record.
    found: bool,
}

impl Skim {
    /// Makes a skim from a place on.
    pub(super) fn new(header: Header, from: Checkpoint) -> Self {
        Self {
            unconfirmed: None,
            section: SeqSet::default(),
            met_loss: false,
            buffer: Vec::new(),
            buffer_offset: from.offset,
            read_bytes: MAX_READ_BYTES,
            payloads: PayloadDecoder::new(),
            decoder: Decoder::new(header, from.clone()),
            walking: None,
            here: from,
        }
    }

    /// Returns where the next record should begin.
    pub(super) fn offset(&self) -> u64 {
        match self.walking {
            Some(_) => self.decoder.checkpoint().offset,
            None => self.here.offset,
        }
    }

    /// Returns whether a record was missing, damaged or out of place so far.
    pub(super) fn met_loss(&self) -> bool {
        self.met_loss
    }

    /// Returns the next frame's record before `end`; `None` when there is none, or none yet: the
    /// search may continue when the file has grown.
    pub(super) fn next(&mut self, source: &mut Source, end: u64) -> Result<Option<Skimmed>, Error> {
        loop {
            let found = if self.walking.is_some() {
                self.walk(source, end)?
            } else {
                self.jump(source, end)?
            };
            match found {
                Advance::Frame(skimmed) => return Ok(Some(skimmed)),
                Advance::Other => {}
                Advance::End => return Ok(None),
            }
        }
    }

    /// Moves by one record, to where its head leads.
    fn jump(&mut self, source: &mut Source, end: u64) -> Result<Advance, Error> {
        if self.here.offset == end && self.unconfirmed.is_none() {
            return Ok(Advance::End);
        }
        let Some(head) = self.head(source, end)? else {
            self.begin_walk();
            return Ok(Advance::Other);
        };
        let (offset, seq) = (self.here.offset, self.here.whole_seq(head.seq));
        if !self.confirm(seq) {
            self.begin_walk();
            return Ok(Advance::Other);
        }
        if !head.is_frame() {
            self.unconfirmed = Some((offset, seq));
            self.here.offset += head.record_bytes() as u64;
            return Ok(Advance::Other);
        }
        let Some(at) = self.fill(source, head.record_bytes(), end)? else {
            self.begin_walk();
            return Ok(Advance::Other);
        };
        let payload = &self.buffer[at + RECORD_HEAD_BYTES..at + head.record_bytes()];
        if !head.verify_seeded(self.decoder.seed(), payload) {
            self.begin_walk();
            return Ok(Advance::Other);
        }
        let record = self.payloads.decode_verified(&head, payload);
        self.here.offset += head.record_bytes() as u64;
        let is_new = self.record(seq);
        Ok(self.frame(seq, record, is_new))
    }

    /// Moves by one record with the decoder, which reads every byte.
    fn walk(&mut self, source: &mut Source, end: u64) -> Result<Advance, Error> {
        let at_end = self.decoder.end_offset() >= end;
        match self.decoder.event(at_end) {
            Some(Event::Record(raw)) => {
                self.walking = Some(WalkState { found: true });
                self.section.insert(raw.seq);
                if !raw.head.is_frame() {
                    return Ok(Advance::Other);
                }
                let (seq, is_new) = (raw.seq, !raw.is_repeated);
                let record = raw.decode(&mut self.payloads);
                Ok(self.frame(seq, record, is_new))
            }
            Some(Event::Damage(_)) => {
                self.met_loss = true;
                Ok(Advance::Other)
            }
            None if at_end => Ok(Advance::End),
            None => self.feed(source, end),
        }
    }

    /// Jumps again where records follow one another, and else gives the decoder more bytes.
    fn feed(&mut self, source: &mut Source, end: u64) -> Result<Advance, Error> {
        let found = self.walking.is_some_and(|walking| walking.found);
        if found && !self.decoder.is_in_damage() {
            self.here = self.decoder.checkpoint().clone();
            self.walking = None;
            return Ok(Advance::Other);
        }
        let from = self.decoder.end_offset();
        let left = usize::try_from(end - from).unwrap_or(usize::MAX);
        self.buffer.clear();
        let n = source.append_at(from, left.min(MAX_READ_BYTES), &mut self.buffer)?;
        if n == 0 {
            // The file is shorter than before, so no record follows.
            return Ok(Advance::End);
        }
        self.decoder.push(&self.buffer);
        Ok(Advance::Other)
    }

    fn frame(&mut self, seq: u64, record: Result<Option<Record>, Error>, is_new: bool) -> Advance {
        match record {
            Ok(Some(Record::Frame(record))) if is_new => {
                let lost_records = self.section.missing(record.first_whole_seq(seq), seq);
                if record.frame_set == 0 {
                    self.section.clear();
                }
                Advance::Frame(Skimmed {
                    record,
                    lost_records,
                })
            }
            Ok(_) => Advance::Other,
            Err(_) => {
                self.met_loss = true;
                Advance::Other
            }
        }
    }

    /// Hands over to the decoder, at the last record that nothing confirmed or at the place that is
    /// no record.
    fn begin_walk(&mut self) {
        if let Some((offset, _)) = self.unconfirmed.take() {
            self.here.offset = offset;
        }
        self.decoder.resume(self.here.clone());
        self.buffer.clear();
        self.walking = Some(WalkState { found: false });
    }

    /// Confirms the last record, if the one behind it has the number `next`; returns whether no
    /// record is unconfirmed.
    fn confirm(&mut self, next: u64) -> bool {
        // One whose payload lost bytes may lead to a later record just as well, over frames between
        // them.
        if let Some((_, seq)) = self.unconfirmed.take_if(|(_, seq)| *seq + 1 == next) {
            self.record(seq);
        }
        self.unconfirmed.is_none()
    }

    /// Counts a record as met; returns whether it is a new one.
    fn record(&mut self, seq: u64) -> bool {
        self.section.insert(seq);
        let is_new = self.here.seen.insert(seq);
        self.met_loss |= !is_new || self.here.next.is_some_and(|next| next != seq);
        if is_new {
            self.here.next = Some(seq + 1);
        }
        is_new
    }

    /// Returns the head of the next record, if there is one.
    fn head(&mut self, source: &mut Source, end: u64) -> Result<Option<RecordHead>, Error> {
        let at = self.fill(source, RECORD_HEAD_BYTES, end)?;
        Ok(at.and_then(|at| RecordHead::parse_seeded(self.decoder.seed(), &self.buffer[at..])))
    }

    /// Fills the buffer with at least `len` bytes from `offset` on, and returns their place in it;
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
            // Used bytes are dropped when more are read.
            Some(at) if at + len > self.buffer.len() => {
                self.buffer.drain(..at);
                self.buffer_offset = self.here.offset;
                self.read_bytes = (self.read_bytes * 2).min(MAX_READ_BYTES);
            }
            Some(_) => {}
            None => {
                self.buffer.clear();
                self.buffer_offset = self.here.offset;
                self.read_bytes = MIN_READ_BYTES;
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

enum Advance {
    Frame(Skimmed),
    Other,
    End,
}
