//! From bytes of a version-3 capture to whole records, without decoding their payloads.
//!
//! [`Walker`] is fed bytes and gives back records whose checksum is right, in the order of the file. Damage is passed over byte by
//! byte until the next whole record; sequence numbers tell what is missing, repeated or out of place. The streaming reader and the
//! scan for an index share it: a scan needs heads and checksums, but no spans.

use std::collections::VecDeque;
use std::ops::Range;

use super::Loss;
use super::seen::Seen;
use crate::format::{Header, RECORD_HEAD_BYTES, RecordHead};

/// What a [`Walker`] came to.
#[derive(Debug)]
pub(super) enum Step {
    /// A whole record.
    Record(Found),
    /// Something is wrong or missing.
    Loss(Loss),
    /// More bytes are needed.
    Need,
}

/// A whole record: where it is, and where in the walker's buffer its payload is.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) offset: u64,
    pub(super) head: RecordHead,
    /// Whether the record was read before: only a batch whose first copy could not be used is of interest then.
    pub(super) again: bool,
    payload: Range<usize>,
}

impl Found {
    pub(super) fn seq(&self) -> u64 {
        u64::from(self.head.seq)
    }

    /// Returns where the next record begins.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.head.record_bytes() as u64
    }
}

#[derive(Debug)]
pub(super) struct Walker {
    header: Header,
    /// Bytes that were pushed and not used up: those from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// Offset in the file of `buffer[at]`.
    offset: u64,
    seen: Seen,
    /// Whether the first record may have any number, since it is not known which ones stand before it.
    joins_anywhere: bool,
    /// Whether damage was passed over since the walk began.
    damaged_before: bool,
    /// Where the damage begins that is being passed over.
    damaged: Option<u64>,
    /// Bytes of checksums that may still be computed in vain: a file made of heads that only look right would
    /// otherwise be summed once per byte.
    allowance: u64,
    /// Where the file ended when the walker last looked behind an unfinished record.
    looked_to: u64,
    ready: VecDeque<Step>,
}

enum Place {
    Whole(RecordHead),
    Unfinished,
    Bad,
}

const ALLOWANCE: u64 = 64 << 20;

impl Walker {
    /// Makes a walker for what follows the file's header, at `offset`.
    pub(super) fn new(header: Header, offset: u64) -> Self {
        Self {
            header,
            buffer: Vec::new(),
            at: 0,
            offset,
            seen: Seen::default(),
            joins_anywhere: false,
            damaged_before: false,
            damaged: None,
            allowance: ALLOWANCE,
            looked_to: 0,
            ready: VecDeque::new(),
        }
    }

    /// Goes on at `offset`. With `None` for what was read before, whatever comes first is taken for the next record.
    pub(super) fn resume_at(&mut self, offset: u64, seen: Option<Seen>) {
        self.allowance = ALLOWANCE;
        self.move_to(offset, seen);
    }

    /// Like [`resume_at`](Self::resume_at), for one who moves often: what was computed in vain stays counted.
    pub(super) fn move_to(&mut self, offset: u64, seen: Option<Seen>) {
        self.buffer.clear();
        self.at = 0;
        self.offset = offset;
        self.joins_anywhere = seen.is_none();
        self.seen = seen.unwrap_or_default();
        self.damaged = None;
        self.damaged_before = false;
        self.looked_to = 0;
        self.ready.clear();
    }

    /// Returns whether the first byte that was not yet used is within damage, as far as is known.
    pub(super) fn is_in_damage(&self) -> bool {
        self.damaged.is_some()
    }

    /// Returns the offset of the first byte that was not yet used.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) const fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Takes the next bytes of the file. Payloads of earlier records are gone afterwards.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn payload(&self, found: &Found) -> &[u8] {
        &self.buffer[found.payload.clone()]
    }

    /// Returns what comes next. `at_end` says that no more bytes are there for now: whole records behind an unfinished one then prove that
    /// it is damaged. The walk may go on after more bytes were pushed.
    pub(super) fn step(&mut self, at_end: bool) -> Step {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return step;
            }
            if let Some(begin) = self.damaged {
                if !self.resynchronise(begin, at_end) {
                    return Step::Need;
                }
                continue;
            }
            match self.place(self.at) {
                Place::Whole(head) => self.take(head),
                Place::Bad => {
                    self.damaged = Some(self.offset);
                    self.consume(1);
                }
                Place::Unfinished if at_end => match self.look_behind() {
                    Some(len) => self.pass_over(len),
                    None => return Step::Need,
                },
                Place::Unfinished => return Step::Need,
            }
        }
    }

    /// Returns what stands at the end and is no whole record.
    pub(super) fn pending(&self) -> Option<Loss> {
        let left = (self.buffer.len() - self.at) as u64;
        match self.damaged {
            Some(begin) => Some(corrupt(begin, self.offset + left - begin)),
            None if left > 0 => Some(Loss {
                offset: self.offset,
                bytes: left,
                reason: format!(
                    "a whole record was expected, found the end of the file after {left} bytes of it"
                ),
            }),
            None => None,
        }
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
        self.offset += len as u64;
    }

    fn pass_over(&mut self, len: usize) {
        self.damaged_before = true;
        self.ready.push_back(Step::Loss(corrupt(self.offset, len as u64)));
        self.consume(len);
    }

    fn place(&mut self, at: usize) -> Place {
        let bytes = &self.buffer[at..];
        if bytes.len() < RECORD_HEAD_BYTES {
            return Place::Unfinished;
        }
        let Some(head) = RecordHead::parse(&self.header, bytes) else {
            return Place::Bad;
        };
        let Some(payload) = bytes.get(RECORD_HEAD_BYTES..head.record_bytes()) else {
            return Place::Unfinished;
        };
        let cost = payload.len() as u64;
        if self.allowance < cost {
            return Place::Bad;
        }
        if head.verify(&self.header, payload) {
            return Place::Whole(head);
        }
        self.allowance -= cost;
        Place::Bad
    }

    /// Moves to the next whole record; returns whether there is one.
    fn resynchronise(&mut self, begin: u64, at_end: bool) -> bool {
        let mut keep = None;
        let mut at = self.at;
        while at < self.buffer.len() {
            match self.place(at) {
                Place::Whole(_) => {
                    self.consume(at - self.at);
                    self.damaged = None;
                    self.damaged_before = true;
                    self.ready
                        .push_back(Step::Loss(corrupt(begin, self.offset - begin)));
                    return true;
                }
                Place::Unfinished => {
                    keep = keep.or(Some(at));
                    if !at_end {
                        break;
                    }
                }
                Place::Bad => {}
            }
            at += 1;
            self.allowance = (self.allowance + 16).min(ALLOWANCE);
        }
        // What may still become a record stays; everything before it is done with.
        self.consume(keep.unwrap_or(at) - self.at);
        false
    }

    fn look_behind(&mut self) -> Option<usize> {
        let end = self.offset + (self.buffer.len() - self.at) as u64;
        if std::mem::replace(&mut self.looked_to, end) == end {
            return None;
        }
        let found = (self.at + 1..self.buffer.len()).find(|&at| matches!(self.place(at), Place::Whole(_)));
        found.map(|at| at - self.at)
    }

    fn take(&mut self, head: RecordHead) {
        let mut found = Found {
            offset: self.offset,
            head,
            again: false,
            payload: self.at + RECORD_HEAD_BYTES..self.at + head.record_bytes(),
        };
        self.consume(head.record_bytes());
        let (seq, offset) = (found.seq(), found.offset);
        if std::mem::take(&mut self.joins_anywhere) {
            // Damage before the first record took at least one.
            let lost = u64::from(std::mem::take(&mut self.damaged_before));
            self.seen = Seen::up_to(seq.saturating_sub(lost));
        }
        let next = self.seen.next();
        if !self.seen.insert(seq) {
            self.ready.push_back(Step::Loss(Loss {
                offset,
                bytes: head.record_bytes() as u64,
                reason: format!("record {next} was expected, found record {seq} once more"),
            }));
            found.again = true;
            self.ready.push_back(Step::Record(found));
            return;
        }
        if seq != next {
            let reason = if seq > next {
                format!(
                    "record {next} was expected, found record {seq}: {} are missing",
                    seq - next
                )
            } else {
                format!("record {next} was expected, found record {seq}, which belongs further up")
            };
            self.ready.push_back(Step::Loss(Loss {
                offset,
                bytes: 0,
                reason,
            }));
        }
        self.ready.push_back(Step::Record(found));
    }
}

fn corrupt(offset: u64, bytes: u64) -> Loss {
    Loss {
        offset,
        bytes,
        reason: format!("a record was expected, found {bytes} bytes that are none"),
    }
}
