//! From bytes of a version-3 capture to whole records, without decoding their payloads.
//!
//! [`Walker`] is fed bytes and gives back records whose checksum is right, in the order of the
//! file. Damage is passed over byte by byte until the next whole record; sequence numbers tell what
//! is missing, repeated or out of place.

use std::collections::VecDeque;
use std::ops::Range;

use super::Loss;
use super::seen::Seen;
use crate::format::{Header, Look, RECORD_HEAD_BYTES, RecordHead, Search};

/// The next result of a [`Walker`].
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
    /// Whether the record was read before.
    pub(super) again: bool,
    payload: Range<usize>,
}

impl Found {
    pub(super) fn seq(&self) -> u64 {
        u64::from(self.head.seq)
    }
}

/// A place between two records, and all that a walk from there needs to know of the records before
/// it.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    pub(super) offset: u64,
    /// Numbers of the records before it.
    pub(super) seen: Seen,
    /// Number of the record that should come next; `None` when any may.
    pub(super) next: Option<u64>,
    /// Bytes of checksums that may still be computed in vain: a file made of heads that only look
    /// right would otherwise be summed once per byte.
    pub(super) allowance: u64,
}

const ALLOWANCE: u64 = 64 << 20;

impl Checkpoint {
    /// Makes the beginning of a file's records.
    pub(super) fn first(offset: u64) -> Self {
        Self {
            next: Some(0),
            ..Self::anywhere(offset)
        }
    }

    /// Makes a place before which nothing is known.
    pub(super) fn anywhere(offset: u64) -> Self {
        Self {
            offset,
            seen: Seen::default(),
            next: None,
            allowance: ALLOWANCE,
        }
    }
}

#[derive(Debug)]
pub(super) struct Walker {
    header: Header,
    /// The seed of the checksums of this file.
    seed: u32,
    /// Bytes that were pushed and not used up: those from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// Where the walk stands: `offset` is that of `buffer[at]`.
    here: Checkpoint,
    /// Where the damage begins that is being passed over.
    damaged: Option<u64>,
    /// The search for a whole record behind damage, or behind a record that is not there to its
    /// end.
    search: Option<Search>,
    ready: VecDeque<Step>,
    /// Bytes that were looked at, summed or moved.
    #[cfg(test)]
    work: u64,
}

enum Place {
    Whole(RecordHead),
    Unfinished,
    Bad,
}

impl Walker {
    /// Makes a walker for the records of a file from a place on.
    pub(super) fn new(header: Header, from: Checkpoint) -> Self {
        Self {
            header,
            seed: header.crc_seed(),
            buffer: Vec::new(),
            at: 0,
            here: from,
            damaged: None,
            search: None,
            ready: VecDeque::new(),
            #[cfg(test)]
            work: 0,
        }
    }

    /// Goes on at another place.
    pub(super) fn resume(&mut self, from: Checkpoint) {
        self.buffer.clear();
        self.at = 0;
        self.here = from;
        self.damaged = None;
        self.search = None;
        self.ready.clear();
    }

    /// Returns the place behind the record that was given last, from which [`resume`](Self::resume)
    /// goes on alike.
    pub(super) fn checkpoint(&self) -> &Checkpoint {
        &self.here
    }

    /// Returns whether the first byte that was not yet used is within damage, as far as is known.
    pub(super) fn is_in_damage(&self) -> bool {
        self.damaged.is_some()
    }

    /// Returns the offset of the first byte that was not yet pushed.
    pub(super) fn fed_to(&self) -> u64 {
        self.here.offset + self.left() as u64
    }

    pub(super) const fn header(&self) -> &Header {
        &self.header
    }

    /// Takes the next bytes of the file. Payloads of earlier records are gone afterwards.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        #[cfg(test)]
        {
            let moved = if self.at > 0 { self.left() } else { 0 };
            self.work += (moved + bytes.len()) as u64;
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn payload(&self, found: &Found) -> &[u8] {
        &self.buffer[found.payload.clone()]
    }

    /// Returns what comes next. `at_end` says that no more bytes are there for now: whole records
    /// behind an unfinished one then prove that it is damaged. The walk may go on after more bytes
    /// were pushed.
    pub(super) fn step(&mut self, at_end: bool) -> Step {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return step;
            }
            if self.damaged.is_none() {
                match self.place(self.at) {
                    Place::Whole(head) => {
                        self.take(head);
                        continue;
                    }
                    Place::Unfinished if !at_end => return Step::Need,
                    Place::Unfinished => {}
                    Place::Bad => self.damaged = Some(self.here.offset),
                }
            }
            let begin = self.damaged.unwrap_or(self.here.offset);
            let Some(offset) = self.find(at_end) else {
                return Step::Need;
            };
            self.consume((offset - self.here.offset) as usize);
            self.damaged = None;
            self.search = None;
            self.ready
                .push_back(Step::Loss(corrupt(begin, offset - begin)));
        }
    }

    /// Returns what stands at the end and is no whole record.
    pub(super) fn pending(&self) -> Option<Loss> {
        let left = self.left() as u64;
        match self.damaged {
            Some(begin) => Some(corrupt(begin, self.fed_to() - begin)),
            None if left > 0 => Some(Loss {
                offset: self.here.offset,
                bytes: left,
                reason: format!("the file ends {left} bytes into a record"),
            }),
            None => None,
        }
    }

    fn left(&self) -> usize {
        self.buffer.len() - self.at
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
        self.here.offset += len as u64;
    }

    fn place(&mut self, at: usize) -> Place {
        let bytes = &self.buffer[at..];
        #[cfg(test)]
        {
            self.work += 1;
        }
        if bytes.len() < RECORD_HEAD_BYTES {
            return Place::Unfinished;
        }
        let Some(head) = RecordHead::parse_seeded(self.seed, bytes) else {
            return Place::Bad;
        };
        let Some(payload) = bytes.get(RECORD_HEAD_BYTES..head.record_bytes()) else {
            return Place::Unfinished;
        };
        let cost = payload.len() as u64;
        if self.here.allowance < cost {
            return Place::Bad;
        }
        #[cfg(test)]
        {
            self.work += cost;
        }
        if head.verify(&self.header, payload) {
            return Place::Whole(head);
        }
        self.here.allowance -= cost;
        Place::Bad
    }

    /// Returns where the first whole record stands behind the place that is none. Within damage,
    /// bytes that cannot become a record are used up.
    fn find(&mut self, at_end: bool) -> Option<u64> {
        let mut search = self
            .search
            .take()
            .unwrap_or_else(|| Search::behind(self.here.offset));
        let end = self.fed_to();
        let found = search.go_on(end, RECORD_HEAD_BYTES, at_end, |offset, is_new| {
            if is_new {
                self.here.allowance = (self.here.allowance + 16).min(ALLOWANCE);
            }
            match self.place(self.at + (offset - self.here.offset) as usize) {
                Place::Whole(_) => Look::Whole,
                Place::Unfinished => Look::Unfinished,
                Place::Bad => Look::Bad,
            }
        });
        if found.is_none() {
            if self.damaged.is_some() {
                self.consume((search.begin() - self.here.offset) as usize);
            }
            self.search = Some(search);
        }
        found
    }

    fn take(&mut self, head: RecordHead) {
        let mut found = Found {
            offset: self.here.offset,
            head,
            again: false,
            payload: self.at + RECORD_HEAD_BYTES..self.at + head.record_bytes(),
        };
        self.search = None;
        self.consume(head.record_bytes());
        let (seq, offset, here) = (found.seq(), found.offset, &mut self.here);
        let next = here.next.unwrap_or(seq);
        found.again = !here.seen.insert(seq);
        let loss = if found.again {
            let reason = format!("record {seq} is repeated; record {next} is next");
            Some((head.record_bytes() as u64, reason))
        } else {
            here.next = Some(seq + 1);
            let missing = here.seen.missing(next, seq);
            let wrong = if seq < next {
                Some("it belongs further up".to_owned())
            } else {
                // Records between that were met before were told then.
                (missing > 0).then(|| format!("{missing} are missing"))
            };
            wrong.map(|wrong| {
                (
                    0,
                    format!("record {seq} follows where record {next} is next: {wrong}"),
                )
            })
        };
        if let Some((bytes, reason)) = loss {
            self.ready.push_back(Step::Loss(Loss {
                offset,
                bytes,
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
        reason: format!("{bytes} bytes are not a record"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Encoder, RecordRef};
    use crate::model::batch::{SpanBatch, ThreadBatch};
    use crate::model::catalog::SiteId;
    use crate::model::frame::FrameSnapshot;

    /// Records of 200 kB, which neither packing nor LZ4 makes smaller, and small ones between them.
    fn capture() -> (Header, Vec<u8>, Vec<usize>) {
        let header = Header::default();
        let (mut encoder, mut bytes, mut ends) = (Encoder::new(header), Vec::new(), Vec::new());
        encoder.header(&mut bytes);
        let mut state = 1_u64;
        for _ in 0..2 {
            let mut thread = ThreadBatch::default();
            for i in 0..40_000_u64 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                thread.start_ticks.push(i << 40);
                thread.duration_ticks.push(state >> 26);
                thread.sites.push(SiteId(1));
            }
            let batch = SpanBatch {
                threads: vec![thread],
                ..SpanBatch::default()
            };
            encoder.encode(RecordRef::Batch(&batch), &mut bytes);
            ends.push(bytes.len());
            for _ in 0..3 {
                encoder.encode(RecordRef::Frame(&FrameSnapshot::default()), &mut bytes);
            }
        }
        (header, bytes, ends)
    }

    /// Follows a file that grows by pieces; returns its records, the bytes passed over, and the
    /// work.
    fn follow(header: Header, bytes: &[u8], piece: usize) -> (usize, u64, u64) {
        let begin = crate::format::HEADER_BYTES;
        let mut walker = Walker::new(header, Checkpoint::first(begin as u64));
        let (mut records, mut lost) = (0, 0);
        for piece in bytes[begin..].chunks(piece) {
            walker.push(piece);
            for at_end in [false, true] {
                loop {
                    match walker.step(at_end) {
                        Step::Record(_) => records += 1,
                        Step::Loss(loss) => lost += loss.bytes,
                        Step::Need => break,
                    }
                }
            }
        }
        (records, lost, walker.work)
    }

    #[test]
    fn small_pieces_make_no_more_work() {
        let (header, sound, ends) = capture();
        let mut damaged = sound.clone();
        damaged[ends[0] - 100_000] ^= 1;
        // A head that is right and says that its record is longer than all that follows.
        let mut cut = sound.clone();
        cut.drain(ends[1] - 200_000..ends[1] - 100);
        for bytes in [&sound, &damaged, &cut] {
            let whole = follow(header, bytes, bytes.len());
            assert_eq!(whole.1 > 0, bytes != &sound);
            for piece in [200_000, 3000, 100, 1] {
                let (records, lost, work) = follow(header, bytes, piece);
                let what = format!("{} bytes in pieces of {piece}: {work}", bytes.len());
                assert_eq!((records, lost), (whole.0, whole.1), "{what}");
                // Each byte is taken and moved, looked at and summed once or twice, and each piece
                // ends in a few places.
                assert!(work < 8 * bytes.len() as u64, "{what}");
            }
        }
    }
}
