//! Bytes in, records and damage out.
//!
//! While all is well, records follow one another. Where one is damaged, the decoder moves on byte
//! by byte until a head agrees with its own check and its payload with its checksum, and reports
//! what it passed over. Sequence numbers tell what is missing, what comes twice and what comes
//! late, in whatever way the bytes were mixed up.

use super::batches::BatchCoder;
use super::head::{CODEC_LZ4, CODEC_RAW, kind};
use super::wire::Cursor;
use super::{
    Damage, DamageReason, Event, Header, MAX_PAYLOAD_BYTES, RECORD_HEAD_BYTES, Record, RecordHead,
    events, records,
};
use crate::Error;

/// Checksums at wrong places may read this many bytes, and [`SCAN_FACTOR`] more per byte of the
/// file. The check in a head lets hardly any through by chance, but a hostile file could ask for a
/// checksum of megabytes at every one of its bytes.
const SCAN_BYTES: u64 = 64 << 20;
const SCAN_FACTOR: u64 = 32;
/// Ranges of missing sequence numbers that are remembered; late records of older ones count as
/// repeated.
const MAX_GAPS: usize = 1024;
/// LZ4 can make at most this many bytes of one.
const LZ4_RATIO: usize = 255;

/// Reads a capture from pieces of any size.
///
/// It keeps what was pushed and not yet returned: after [`next`](Self::next) returned `None`, at
/// most one unfinished record.
#[derive(Debug, Default)]
pub struct Decoder {
    header: Option<Header>,
    seed: u32,
    buffer: Vec<u8>,
    /// Index into `buffer` of the first byte that was not yet used.
    at: usize,
    /// Offset of `buffer[0]` in the file.
    base: u64,
    seqs: Sequence,
    skip: Option<Skip>,
    /// The record to which the damage that was returned last belongs.
    held: Option<Event>,
    payloads: RecordDecoder,
    scanned_bytes: u64,
    closed: bool,
    unknown_records: u64,
}

/// Bytes that are being passed over.
#[derive(Clone, Copy, Debug)]
struct Skip {
    offset: u64,
    reason: DamageReason,
}

impl Decoder {
    /// Makes a decoder for a file from its first byte on.
    #[must_use]
    pub fn new() -> Self {
        let mut decoder = Self::default();
        decoder.seqs.next = Some(0);
        decoder
    }

    /// Makes a decoder for the records of a file from `offset` on, where a record should begin.
    /// Records missing before it are not reported.
    #[must_use]
    pub fn resume_at(header: Header, offset: u64) -> Self {
        Self {
            header: Some(header),
            seed: header.crc_seed(),
            base: offset,
            ..Self::default()
        }
    }

    /// Takes the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.base += self.at as u64;
            self.at = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns what comes next, or `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// The file is not a capture, is of another version, or its header is damaged. Every later call
    /// fails alike.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end where more bytes are needed"
    )]
    pub fn next(&mut self) -> Result<Option<Event>, Error> {
        self.step(false)
    }

    /// Returns what comes next, taking the bytes at hand for all there are: called until `None`, it
    /// searches the rest for whole records and reports a torn tail. Nothing may be pushed
    /// afterwards.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next), and when the file ends within its header.
    pub fn finish(&mut self) -> Result<Option<Event>, Error> {
        self.step(true)
    }

    /// Returns the file header once it was read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Returns whether the last record was the end record: the file was closed cleanly and does not
    /// grow any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the offset of the first byte that was not yet used.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Returns how many records are missing so far, by their sequence numbers. Those that a torn
    /// end lost cannot be known.
    #[must_use]
    pub fn lost_records(&self) -> u64 {
        self.seqs.lost
    }

    /// Returns how many records were of a kind or codec that this version does not know.
    #[must_use]
    pub fn unknown_records(&self) -> u64 {
        self.unknown_records
    }

    fn step(&mut self, at_end: bool) -> Result<Option<Event>, Error> {
        if let Some(event) = self.held.take() {
            return Ok(Some(event));
        }
        if self.header.is_none() {
            return self.read_header(at_end);
        }
        loop {
            let rest = &self.buffer[self.at..];
            if rest.len() < RECORD_HEAD_BYTES {
                return Ok(self.end_of_bytes(at_end));
            }
            let Some(head) = RecordHead::parse_seeded(self.seed, rest) else {
                self.pass_over(DamageReason::Corrupt);
                self.find_head();
                continue;
            };
            let bytes = head.record_bytes();
            if rest.len() < bytes {
                if !at_end {
                    return Ok(None);
                }
                self.pass_over(DamageReason::Torn);
                continue;
            }
            let scanning = self.skip.is_some();
            let allowed = SCAN_BYTES + SCAN_FACTOR * self.offset();
            let exhausted = scanning && self.scanned_bytes.saturating_add(bytes as u64) > allowed;
            if exhausted {
                self.pass_over(DamageReason::Corrupt);
                continue;
            }
            if !head.verify_seeded(self.seed, &rest[RECORD_HEAD_BYTES..bytes]) {
                self.scanned_bytes = self.scanned_bytes.saturating_add(bytes as u64);
                self.pass_over(DamageReason::Corrupt);
                continue;
            }
            if let Some(skip) = self.skip.take() {
                // The record is verified once more by the next call, which is cheaper than to keep
                // a second state.
                return Ok(Some(self.damage(skip)));
            }
            if let Some(event) = self.take_record(&head) {
                return Ok(Some(event));
            }
        }
    }

    fn read_header(&mut self, at_end: bool) -> Result<Option<Event>, Error> {
        let rest = &self.buffer[self.at..];
        if let Some((header, len)) = Header::decode(rest)? {
            self.at += len;
            self.seed = header.crc_seed();
            self.header = Some(header);
            return Ok(Some(Event::Header(header)));
        }
        if at_end {
            return Err(Error::corrupt(format!(
                "too short for a capture: {} bytes",
                rest.len()
            )));
        }
        Ok(None)
    }

    /// Uses a record whose checksum is right. Returns `None` when there is nothing to say about it.
    fn take_record(&mut self, head: &RecordHead) -> Option<Event> {
        let offset = self.offset();
        let bytes = head.record_bytes();
        let payload = self.at + RECORD_HEAD_BYTES..self.at + bytes;
        self.at += bytes;
        let damage = |reason, bytes: usize, lost_records| {
            Event::Damage(Damage {
                offset,
                bytes: bytes as u64,
                lost_records,
                reason,
            })
        };
        let order = match self.seqs.see(head.seq) {
            Seen::Expected => None,
            Seen::Gap(lost) => Some(damage(DamageReason::Gap, 0, lost)),
            Seen::Late => Some(damage(DamageReason::Late, 0, 0)),
            Seen::Repeated => return Some(damage(DamageReason::Repeated, bytes, 0)),
        };
        let content = match self.payloads.decode_verified(head, &self.buffer[payload]) {
            Ok(Some(record)) => {
                self.closed = matches!(record, Record::End { .. });
                Some(Event::Record {
                    offset,
                    seq: head.seq,
                    record,
                })
            }
            Ok(None) => {
                self.unknown_records += 1;
                None
            }
            Err(_) => Some(damage(DamageReason::Payload, bytes, 0)),
        };
        if order.is_some() {
            self.held = content;
            return order;
        }
        content
    }

    /// Moves on by one byte, which is no beginning of a record.
    fn pass_over(&mut self, reason: DamageReason) {
        let offset = self.offset();
        self.skip.get_or_insert(Skip { offset, reason });
        self.at += 1;
    }

    /// Moves on to the next head, or to where too few bytes are left for one.
    fn find_head(&mut self) {
        let rest = &self.buffer[self.at..];
        let heads = rest.windows(RECORD_HEAD_BYTES);
        let places = heads.len();
        let found = heads
            .map(|bytes| RecordHead::parse_seeded(self.seed, bytes))
            .position(|head| head.is_some());
        self.at += found.unwrap_or(places);
    }

    fn end_of_bytes(&mut self, at_end: bool) -> Option<Event> {
        if !at_end {
            return None;
        }
        if self.at < self.buffer.len() {
            let offset = self.offset();
            self.skip.get_or_insert(Skip {
                offset,
                reason: DamageReason::Torn,
            });
            self.at = self.buffer.len();
        }
        let skip = self.skip.take()?;
        Some(self.damage(skip))
    }

    fn damage(&self, skip: Skip) -> Event {
        Event::Damage(Damage {
            offset: skip.offset,
            bytes: self.offset() - skip.offset,
            lost_records: 0,
            reason: skip.reason,
        })
    }
}

/// Which sequence numbers came, and which are missing.
#[derive(Debug, Default)]
struct Sequence {
    /// The number after the highest so far; `None` before the first when it may be any.
    next: Option<u32>,
    /// Missing numbers, as half-open ranges.
    gaps: Vec<(u32, u32)>,
    lost: u64,
}

enum Seen {
    Expected,
    Gap(u32),
    Late,
    Repeated,
}

impl Sequence {
    fn see(&mut self, seq: u32) -> Seen {
        let ahead = seq.wrapping_sub(self.next.unwrap_or(seq));
        if ahead >> 31 == 0 {
            let begin = self.next.replace(seq.wrapping_add(1)).unwrap_or(seq);
            if ahead == 0 {
                return Seen::Expected;
            }
            if self.gaps.len() == MAX_GAPS {
                self.gaps.remove(0);
            }
            self.gaps.push((begin, seq));
            self.lost += u64::from(ahead);
            return Seen::Gap(ahead);
        }
        let holds = |&(begin, end): &(u32, u32)| seq.wrapping_sub(begin) < end.wrapping_sub(begin);
        let Some(at) = self.gaps.iter().position(holds) else {
            return Seen::Repeated;
        };
        let (begin, end) = self.gaps[at];
        let parts = [(begin, seq), (seq.wrapping_add(1), end)];
        self.gaps.splice(
            at..=at,
            parts.into_iter().filter(|(begin, end)| begin != end),
        );
        self.lost -= 1;
        Seen::Late
    }
}

/// Decodes single records, and keeps the room for it: for a reader that finds its own way through a
/// file.
#[derive(Debug, Default)]
pub struct RecordDecoder {
    /// Made for the first batch: whoever passes over batches needs none.
    batches: Option<Box<BatchCoder>>,
    raw: Vec<u8>,
}

impl RecordDecoder {
    /// Makes a decoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes a record whose head was [parsed](RecordHead::parse). Returns `None` for a kind or
    /// codec that this version does not know.
    ///
    /// # Errors
    ///
    /// The checksum is wrong, or the payload breaks the rules of its kind.
    pub fn decode(
        &mut self,
        header: &Header,
        head: &RecordHead,
        payload: &[u8],
    ) -> Result<Option<Record>, Error> {
        if !head.verify(header, payload) {
            return Err(Error::corrupt(format!(
                "the checksum of a record is not {:08x}",
                head.crc
            )));
        }
        self.decode_verified(head, payload)
    }

    /// Like [`decode`](Self::decode), of a payload whose checksum is known to be right.
    pub(crate) fn decode_verified(
        &mut self,
        head: &RecordHead,
        payload: &[u8],
    ) -> Result<Option<Record>, Error> {
        if !(kind::PROCESS..=kind::HEAP).contains(&head.kind) {
            return Ok(None);
        }
        let payload = match head.codec {
            CODEC_RAW => payload,
            CODEC_LZ4 => decompress(payload, &mut self.raw)?,
            _ => return Ok(None),
        };
        if head.kind == kind::BATCH {
            return Ok(Some(Record::Batch(
                self.batches.get_or_insert_default().get(payload)?,
            )));
        }
        if head.kind == kind::EVENTS {
            return Ok(Some(Record::Batch(events::get(payload)?)));
        }
        records::get(head.kind, head.seq, payload)
    }
}

/// Decodes a record whose head was [parsed](RecordHead::parse), with a [`RecordDecoder`] for this
/// once.
///
/// # Errors
///
/// As [`RecordDecoder::decode`].
pub fn decode_payload(
    header: &Header,
    head: &RecordHead,
    payload: &[u8],
) -> Result<Option<Record>, Error> {
    RecordDecoder::new().decode(header, head, payload)
}

fn decompress<'a>(payload: &[u8], raw: &'a mut Vec<u8>) -> Result<&'a [u8], Error> {
    let mut cursor = Cursor::new(payload);
    let raw_bytes = cursor.varint()?;
    let most = MAX_PAYLOAD_BYTES.min(cursor.left().saturating_mul(LZ4_RATIO));
    if raw_bytes > most as u64 {
        return Err(Error::corrupt(format!(
            "a payload is {raw_bytes} bytes long, more than {most}"
        )));
    }
    raw.clear();
    raw.resize(raw_bytes as usize, 0);
    let block = cursor.take(cursor.left())?;
    let bytes = lz4_flex::block::decompress_into(block, raw)
        .map_err(|error| Error::corrupt(format!("a payload is not LZ4: {error}")))?;
    if bytes != raw.len() {
        return Err(Error::corrupt(format!(
            "a payload of {raw_bytes} bytes unpacks to {bytes}"
        )));
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::super::head::put_record;
    use super::*;

    /// Heads that are right, all over a file, each of which asks for a checksum of two megabytes.
    #[test]
    fn hostile_heads_cannot_make_a_scan_quadratic() {
        let header = Header::default();
        let mut record = Vec::new();
        put_record(
            &mut record,
            header.crc_seed(),
            0,
            kind::BATCH,
            CODEC_RAW,
            &vec![0; 2 << 20],
        );
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        let begin = bytes.len();
        for _ in 0..1 << 18 {
            bytes.extend_from_slice(&record[..RECORD_HEAD_BYTES]);
        }
        let mut decoder = Decoder::new();
        decoder.push(&bytes);
        let mut passed_over = 0;
        while let Some(event) = decoder.finish().unwrap() {
            match event {
                Event::Damage(damage) => passed_over += damage.bytes,
                event => assert!(matches!(event, Event::Header(_)), "{event:?}"),
            }
        }
        assert_eq!(passed_over, (bytes.len() - begin) as u64);
        let allowed = SCAN_BYTES + SCAN_FACTOR * bytes.len() as u64;
        assert!(
            decoder.scanned_bytes <= allowed,
            "{} bytes",
            decoder.scanned_bytes
        );
        assert!(
            decoder.scanned_bytes > allowed / 2,
            "the cap was not reached"
        );
    }

    #[test]
    fn sequence_numbers_wrap_and_late_ones_close_their_gap() {
        let mut seqs = Sequence {
            next: Some(u32::MAX - 1),
            ..Sequence::default()
        };
        assert!(matches!(seqs.see(u32::MAX - 1), Seen::Expected));
        assert!(matches!(seqs.see(3), Seen::Gap(4)));
        assert!(matches!(seqs.see(0), Seen::Late));
        assert!(matches!(seqs.see(0), Seen::Repeated));
        assert!(matches!(seqs.see(u32::MAX), Seen::Late));
        assert!(matches!(seqs.see(3), Seen::Repeated));
        assert_eq!((seqs.lost, seqs.gaps.as_slice()), (2, &[(1, 3)][..]));
        assert!(matches!(seqs.see(4), Seen::Expected));
    }
}
