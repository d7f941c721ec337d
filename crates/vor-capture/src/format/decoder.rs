//! From bytes of a capture to whole records, without input or output.
//!
//! A [`Decoder`] is fed bytes in pieces of any size. It returns the records whose checksum is
//! right, in the order of the file, and skips damage byte by byte until the next whole record.
//! Sequence numbers show which records are missing, repeated or out of place.

use std::ops::Range;

use super::{
    Candidate, Damage, DamageReason, Header, PayloadDecoder, RECORD_HEAD_BYTES, Record, RecordHead,
    Search, SeqSet,
};
use crate::Error;

/// Bytes that checksums in vain may read without a whole record between them, and how many more
/// each further byte of the file allows. Otherwise a file made of heads that only look right would
/// be summed once per byte.
const ALLOWANCE: u64 = 64 << 20;
const ALLOWANCE_PER_BYTE: u64 = 16;

/// One result of a [`Decoder`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A record whose checksum is right.
    Record(RawRecord<'a>),
    /// Something is wrong or missing.
    Damage(Damage),
}

/// A record whose checksum is right, with its payload as it is in the file.
#[derive(Clone, Debug)]
pub struct RawRecord<'a> {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its sequence number, which goes on where the stored one wraps.
    pub seq: u64,
    /// Whether a record of this number came before.
    pub is_repeated: bool,
    /// Its head.
    pub head: RecordHead,
    payload: &'a [u8],
}

impl RawRecord<'_> {
    /// Decodes the contents. Returns `None` for a kind or codec that this version does not know.
    ///
    /// # Errors
    ///
    /// The payload breaks the rules of its kind.
    pub fn decode(&self, payloads: &mut PayloadDecoder) -> Result<Option<Record>, Error> {
        payloads.decode_verified(&self.head, self.payload)
    }
}

/// A place between two records, with all that decoding from there needs to know of the records
/// before it.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub(crate) offset: u64,
    /// Numbers of the records before it.
    pub(crate) seen: SeqSet,
    /// Number of the record that should come next; `None` when any may.
    pub(crate) next: Option<u64>,
    /// Bytes that checksums in vain may still read.
    allowance: u64,
}

impl Checkpoint {
    /// Makes the beginning of a file's records, which is where its header ends.
    #[must_use]
    pub fn first(offset: u64) -> Self {
        Self {
            next: Some(0),
            ..Self::anywhere(offset)
        }
    }

    /// Makes a place before which nothing is known. Records missing before it are not reported.
    #[must_use]
    pub fn anywhere(offset: u64) -> Self {
        Self {
            offset,
            seen: SeqSet::default(),
            next: None,
            allowance: ALLOWANCE,
        }
    }

    /// Returns where it is in the file.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the place before the last record, which begins at `offset` and has the number `seq`.
    pub(crate) fn before_record(&self, offset: u64, seq: u64) -> Self {
        let mut before = Self {
            offset,
            next: Some(seq),
            ..self.clone()
        };
        before.seen.remove(seq);
        before
    }

    /// Returns the whole sequence number of a record with the stored number `seq`, which wraps at
    /// 2^32: the one closest to the number that should come next.
    pub(crate) fn whole_seq(&self, seq: u32) -> u64 {
        let Some(next) = self.next else {
            return u64::from(seq);
        };
        let ahead = seq.wrapping_sub(next as u32) as i32;
        // Before the first wrap nothing is below 0.
        next.checked_add_signed(i64::from(ahead))
            .unwrap_or_else(|| u64::from(seq))
    }
}

/// Decodes the records of a capture.
///
/// It keeps the bytes that were pushed and not yet used: after it returned `None`, those of one
/// unfinished record or of unfinished damage.
///
/// # Examples
///
/// ```
/// use vor_capture::format::{Checkpoint, Decoder, Encoder, Event, Header, PayloadDecoder};
///
/// # let mut encoder = Encoder::new(Header::default());
/// # let mut bytes = Vec::new();
/// # encoder.header(&mut bytes);
/// # encoder.close(&vor_capture::model::catalog::Catalog::default(), &mut bytes);
/// let (header, header_bytes) = Header::decode(&bytes)?.ok_or("the header is unfinished")?;
/// let mut decoder = Decoder::new(header, Checkpoint::first(header_bytes as u64));
/// let mut payloads = PayloadDecoder::new();
/// decoder.push(&bytes[header_bytes..]);
/// while let Some(event) = decoder.next_event() {
///     match event {
///         Event::Record(record) => println!("{:?}", record.decode(&mut payloads)?),
///         Event::Damage(damage) => println!("{} at {}", damage, damage.offset),
///         _ => {}
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    header: Header,
    /// The seed of the checksums of this file.
    seed: u32,
    /// Bytes that were pushed and not used up: those from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// The place behind the record that was returned last: `offset` is that of `buffer[at]`.
    here: Checkpoint,
    /// Where the damage begins that is being skipped.
    damage_begin: Option<u64>,
    /// The search for a whole record behind damage, or behind a record that is not there to its
    /// end.
    search: Option<Search>,
    /// The record to which the damage that was returned last belongs.
    found: Option<FoundRecord>,
    /// Bytes that were read, summed or moved.
    #[cfg(test)]
    work: u64,
}

/// A [`RawRecord`] whose payload is in the buffer.
#[derive(Debug)]
struct FoundRecord {
    offset: u64,
    seq: u64,
    is_repeated: bool,
    head: RecordHead,
    payload: Range<usize>,
}

/// The bytes at a place of the buffer.
enum Place {
    Whole(RecordHead),
    Unfinished,
    Bad,
}

impl Decoder {
    /// Makes a decoder for the records of a file from a place on.
    #[must_use]
    pub fn new(header: Header, from: Checkpoint) -> Self {
        Self {
            header,
            seed: header.crc_seed(),
            buffer: Vec::new(),
            at: 0,
            here: from,
            damage_begin: None,
            search: None,
            found: None,
            #[cfg(test)]
            work: 0,
        }
    }

    /// Goes on at another place of the same file.
    pub fn resume(&mut self, from: Checkpoint) {
        self.buffer.clear();
        self.at = 0;
        self.here = from;
        self.damage_begin = None;
        self.search = None;
        self.found = None;
    }

    /// Returns the place behind the record that was returned last, from which
    /// [`resume`](Self::resume) goes on alike.
    #[must_use]
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.here
    }

    /// Returns the header of the file.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the seed of the checksums of the file.
    pub(crate) const fn seed(&self) -> u32 {
        self.seed
    }

    /// Returns the offset of the first byte that was not yet pushed.
    #[must_use]
    pub fn end_offset(&self) -> u64 {
        self.here.offset + self.left() as u64
    }

    /// Returns how many records before the last one are missing so far, counted from the first of
    /// the file. The records that a torn end lost cannot be counted.
    #[must_use]
    pub fn missing_records(&self) -> u64 {
        self.here.seen.missing(0, self.here.seen.end())
    }

    /// Returns whether the first byte that was not yet used is within damage, as far as is known.
    pub(crate) const fn is_in_damage(&self) -> bool {
        self.damage_begin.is_some()
    }

    /// Takes the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        #[cfg(test)]
        {
            let moved = if self.at > 0 { self.left() } else { 0 };
            self.work += (moved + bytes.len()) as u64;
        }
        let used = match &mut self.found {
            Some(found) => {
                let used = found.payload.start;
                found.payload = 0..found.payload.len();
                used
            }
            None => self.at,
        };
        self.buffer.drain(..used);
        self.at -= used;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns what comes next, or `None` when more bytes are needed.
    pub fn next_event(&mut self) -> Option<Event<'_>> {
        self.event(false)
    }

    /// Like [`next_event`](Self::next_event), where no more bytes are there for now: whole records
    /// behind an unfinished one then prove that it is damaged. Decoding may go on after more bytes
    /// were pushed.
    pub fn next_event_at_end(&mut self) -> Option<Event<'_>> {
        self.event(true)
    }

    /// Returns the bytes at the end that are not a whole record.
    #[must_use]
    pub fn unfinished(&self) -> Option<Damage> {
        if let Some(begin) = self.damage_begin {
            return Some(corrupt(begin, self.end_offset() - begin));
        }
        let left = self.left() as u64;
        (left > 0).then_some(Damage {
            offset: self.here.offset,
            bytes: left,
            reason: DamageReason::Torn,
        })
    }

    pub(crate) fn event(&mut self, at_end: bool) -> Option<Event<'_>> {
        if let Some(found) = self.found.take() {
            return Some(Event::Record(self.raw(found)));
        }
        if self.damage_begin.is_none() {
            match self.place(self.at) {
                Place::Whole(head) => return Some(self.take(head)),
                Place::Unfinished if !at_end => return None,
                Place::Unfinished => {}
                Place::Bad => self.damage_begin = Some(self.here.offset),
            }
        }
        let begin = self.damage_begin.unwrap_or(self.here.offset);
        let offset = self.find(at_end)?;
        self.consume((offset - self.here.offset) as usize);
        self.damage_begin = None;
        self.search = None;
        Some(Event::Damage(corrupt(begin, offset - begin)))
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
        let Some(head) = RecordHead::parse_seeded(self.seed, bytes) else {
            return if bytes.len() < RECORD_HEAD_BYTES {
                Place::Unfinished
            } else {
                Place::Bad
            };
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
        if head.verify_seeded(self.seed, payload) {
            return Place::Whole(head);
        }
        self.here.allowance -= cost;
        Place::Bad
    }

    /// Returns the offset of the first whole record behind the place that is none. Within damage,
    /// bytes that cannot become a record are used up.
    fn find(&mut self, at_end: bool) -> Option<u64> {
        let mut search = self
            .search
            .take()
            .unwrap_or_else(|| Search::behind(self.here.offset));
        let end = self.end_offset();
        let found = search.advance(end, RECORD_HEAD_BYTES, at_end, |offset, is_new| {
            if is_new {
                self.here.allowance = (self.here.allowance + ALLOWANCE_PER_BYTE).min(ALLOWANCE);
            }
            match self.place(self.at + (offset - self.here.offset) as usize) {
                Place::Whole(_) => Candidate::Whole,
                Place::Unfinished => Candidate::Unfinished,
                Place::Bad => Candidate::Bad,
            }
        });
        if found.is_none() {
            if self.damage_begin.is_some() {
                self.consume((search.begin() - self.here.offset) as usize);
            }
            self.search = Some(search);
        }
        found
    }

    /// Uses up the whole record at hand. Returns what its number says is wrong, or else the record.
    fn take(&mut self, head: RecordHead) -> Event<'_> {
        let (offset, seq) = (self.here.offset, self.here.whole_seq(head.seq));
        let payload = self.at + RECORD_HEAD_BYTES..self.at + head.record_bytes();
        self.search = None;
        self.consume(head.record_bytes());
        let here = &mut self.here;
        let next = here.next.unwrap_or(seq);
        let is_repeated = !here.seen.insert(seq);
        let found = FoundRecord {
            offset,
            seq,
            is_repeated,
            head,
            payload,
        };
        let wrong = if is_repeated {
            Some((
                head.record_bytes() as u64,
                DamageReason::Repeated { seq, next },
            ))
        } else {
            here.next = Some(seq + 1);
            if seq < next {
                Some((0, DamageReason::Late { seq, next }))
            } else {
                // Records between that were read before were reported then.
                let missing = here.seen.missing(next, seq);
                (missing > 0).then_some((0, DamageReason::Gap { seq, next, missing }))
            }
        };
        let Some((bytes, reason)) = wrong else {
            return Event::Record(self.raw(found));
        };
        self.found = Some(found);
        Event::Damage(Damage {
            offset,
            bytes,
            reason,
        })
    }

    fn raw(&self, found: FoundRecord) -> RawRecord<'_> {
        RawRecord {
            offset: found.offset,
            seq: found.seq,
            is_repeated: found.is_repeated,
            head: found.head,
            payload: &self.buffer[found.payload],
        }
    }
}

const fn corrupt(offset: u64, bytes: u64) -> Damage {
    Damage {
        offset,
        bytes,
        reason: DamageReason::Corrupt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::head::{CODEC_RAW, kind, put_record};
    use crate::format::{Encoder, HEADER_BYTES, RecordRef};
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

    /// Follows a file that grows by pieces; returns its records, the skipped bytes, and the work.
    fn follow(header: Header, bytes: &[u8], piece: usize) -> (usize, u64, u64) {
        let mut decoder = Decoder::new(header, Checkpoint::first(HEADER_BYTES as u64));
        let (mut records, mut lost) = (0, 0);
        for piece in bytes[HEADER_BYTES..].chunks(piece) {
            decoder.push(piece);
            for at_end in [false, true] {
                while let Some(event) = decoder.event(at_end) {
                    match event {
                        Event::Record(_) => records += 1,
                        Event::Damage(damage) => lost += damage.bytes,
                    }
                }
            }
        }
        (records, lost, decoder.work)
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads megabytes byte by byte, which takes Miri hours")]
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

    /// Heads that are right, all over a file, each of which asks for a checksum of two megabytes.
    #[test]
    #[cfg_attr(miri, ignore = "reads megabytes, which takes Miri hours")]
    fn hostile_heads_cannot_make_a_search_quadratic() {
        let header = Header::default();
        let mut record = Vec::new();
        let seed = header.crc_seed();
        put_record(
            &mut record,
            seed,
            0,
            kind::BATCH,
            CODEC_RAW,
            &vec![0; 2 << 20],
        );
        let bytes = record[..RECORD_HEAD_BYTES].repeat(1 << 18);
        let mut decoder = Decoder::new(header, Checkpoint::first(HEADER_BYTES as u64));
        decoder.push(&bytes);
        let mut skipped = 0;
        while let Some(event) = decoder.next_event_at_end() {
            match event {
                Event::Damage(damage) => skipped += damage.bytes,
                Event::Record(record) => panic!("{record:?}"),
            }
        }
        skipped += decoder.unfinished().unwrap().bytes;
        assert_eq!(skipped, bytes.len() as u64);
        // Each byte is moved once, and each place read once, or again for an unfinished record.
        let allowed = ALLOWANCE + (ALLOWANCE_PER_BYTE + 3) * bytes.len() as u64;
        assert!(decoder.work <= allowed, "{} bytes", decoder.work);
        assert!(decoder.work > ALLOWANCE, "the cap was not reached");
    }

    /// Decodes records of these stored numbers, the first of which should be `next`. Returns their
    /// whole numbers and the damage before each, and how many are missing at the end.
    fn in_order(next: u64, stored: &[u32]) -> (Vec<(u64, Option<DamageReason>)>, u64) {
        let header = Header::default();
        let from = Checkpoint {
            next: Some(next),
            ..Checkpoint::anywhere(0)
        };
        let mut decoder = Decoder::new(header, from);
        let mut bytes = Vec::new();
        for &seq in stored {
            put_record(
                &mut bytes,
                header.crc_seed(),
                seq,
                kind::FRAME,
                CODEC_RAW,
                &[],
            );
        }
        let (mut records, mut reason) = (Vec::new(), None);
        for piece in bytes.chunks(7) {
            decoder.push(piece);
            while let Some(event) = decoder.next_event() {
                match event {
                    Event::Damage(damage) => reason = Some(damage.reason),
                    Event::Record(record) => {
                        assert_eq!(record.is_repeated, {
                            matches!(reason, Some(DamageReason::Repeated { .. }))
                        });
                        records.push((record.seq, reason.take()));
                    }
                }
            }
        }
        let seen = &decoder.checkpoint().seen;
        (records, seen.missing(next, seen.end()))
    }

    #[test]
    fn sequence_numbers_wrap_and_late_ones_close_their_gap() {
        let max = u64::from(u32::MAX);
        let stored = [u32::MAX - 1, 3, 0, 0, u32::MAX, 3, 4];
        let (records, missing) = in_order(max - 1, &stored);
        let gap = DamageReason::Gap {
            seq: max + 4,
            next: max,
            missing: 4,
        };
        let still = DamageReason::Gap {
            seq: max + 5,
            next: max + 1,
            missing: 2,
        };
        let late = |seq, next| DamageReason::Late { seq, next };
        let repeated = |seq, next| DamageReason::Repeated { seq, next };
        let expected = [
            (max - 1, None),
            (max + 4, Some(gap)),
            (max + 1, Some(late(max + 1, max + 5))),
            (max + 1, Some(repeated(max + 1, max + 2))),
            (max, Some(late(max, max + 2))),
            (max + 4, Some(repeated(max + 4, max + 1))),
            // Records 1 and 2 behind the wrap are still missing.
            (max + 5, Some(still)),
        ];
        assert_eq!(records, expected);
        assert_eq!(missing, 2);
    }
}
