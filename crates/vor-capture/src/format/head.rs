//! The header of a file and the head of a record, which are read without decoding a payload.
//!
//! Both are bound to the file by its random id. The head of a record ends in a 16-bit check over
//! the rest of the head, so that a scan through damaged bytes needs no checksum of a payload at
//! nearly all wrong places, and never waits for the bytes of a damaged length.

use super::{END_RECORD_BYTES, HEADER_BYTES, MAGIC, MAX_PAYLOAD_BYTES, RECORD_HEAD_BYTES, VERSION};
use crate::Error;
use crate::format::wire::Cursor;

/// Kinds of records; see `FORMAT.md`.
pub(super) mod kind {
    pub const PROCESS: u8 = 1;
    pub const SITES: u8 = 2;
    pub const THREADS: u8 = 3;
    pub const COLUMNS: u8 = 4;
    pub const FRAME_SETS: u8 = 5;
    pub const CLOCK: u8 = 6;
    pub const BATCH: u8 = 7;
    pub const FRAME: u8 = 8;
    pub const OPEN_SCOPES: u8 = 9;
    pub const INDEX: u8 = 10;
    pub const END: u8 = 11;
    pub const MACHINE: u8 = 12;
    pub const EVENTS: u8 = 13;
    pub const HEAP: u8 = 14;
    pub const SEGMENT: u8 = 15;
    pub const DUMP: u8 = 16;
    pub const SCOPE_MODES: u8 = 17;
    pub const SCHEDULER: u8 = 18;
    /// The last kind that this version knows.
    pub const LAST: u8 = SCHEDULER;
}

/// Payload as it is.
pub(super) const CODEC_RAW: u8 = 0;
/// Payload is a varint of its raw length and one raw LZ4 block.
pub(super) const CODEC_LZ4: u8 = 1;

/// Codecs are below this; those that this version does not know are skipped.
const CODECS: u8 = 16;

/// Marks the payload of the end record, the last eight bytes of a cleanly closed file.
pub(super) const END_MARK: [u8; 8] = *b"VOR3END.";

/// The header of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// A random number that binds records to their file.
    pub file_id: u64,
    /// Process id of the recorder.
    pub pid: u32,
    /// Possible contents of the file: [`KEEPS_SPANS`](Self::KEEPS_SPANS), other bits 0.
    pub flags: u32,
    /// When recording began, in nanoseconds since 1970.
    pub start_unix_ns: i64,
    /// When recording began, in ticks.
    pub start_ticks: u64,
}

impl Header {
    /// The bit of `flags` for a recorder that keeps spans, of some frames at least; without it a
    /// capture holds metrics only.
    pub const KEEPS_SPANS: u32 = 1;

    /// Returns whether the recorder keeps spans.
    #[must_use]
    pub const fn keeps_spans(&self) -> bool {
        self.flags & Self::KEEPS_SPANS != 0
    }

    /// Appends the header's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.file_id.to_le_bytes());
        out.extend_from_slice(&self.start_unix_ns.to_le_bytes());
        out.extend_from_slice(&self.start_ticks.to_le_bytes());
        let crc = crc32fast::hash(&out[begin..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// Reads a header from the beginning of `bytes`. Returns it and its length, or `None` when more
    /// bytes are needed.
    ///
    /// # Errors
    ///
    /// The bytes are not a capture, its version is not 3 ([`Error::is_version`]), or the header is
    /// damaged.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Error> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(Error::corrupt(format!(
                "not a vor capture: it starts with {:?}",
                String::from_utf8_lossy(&bytes[..known])
            )));
        }
        let mut cursor = Cursor::new(bytes);
        if bytes.len() < 8 {
            return Ok(None);
        }
        cursor.take(MAGIC.len())?;
        let version = cursor.u16()?;
        if version != VERSION {
            return Err(Error::version(format!(
                "not a capture of version {VERSION}: its version is {version}"
            )));
        }
        let len = usize::from(cursor.u16()?);
        if !(HEADER_BYTES..=4096).contains(&len) {
            return Err(Error::corrupt(format!(
                "the length of the header is {len}, not {HEADER_BYTES} to 4096"
            )));
        }
        let Some(whole) = bytes.get(..len) else {
            return Ok(None);
        };
        let (body, crc) = whole.split_at(len - 4);
        let expected = crc32fast::hash(body);
        let found = Cursor::new(crc).u32()?;
        if expected != found {
            return Err(Error::corrupt(format!(
                "the checksum of the header is {found:08x}, not {expected:08x}"
            )));
        }
        let header = Self {
            flags: cursor.u32()?,
            pid: cursor.u32()?,
            file_id: cursor.u64()?,
            start_unix_ns: cursor.u64()? as i64,
            start_ticks: cursor.u64()?,
        };
        Ok(Some((header, len)))
    }

    /// Returns the seed of the checksums of this file.
    pub(crate) fn crc_seed(&self) -> u32 {
        crc32fast::hash(&self.file_id.to_le_bytes())
    }
}

/// The head of a record, enough to skip it or to decode its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// Bytes of the payload.
    pub payload_bytes: usize,
    /// Checksum over sequence number, kind, codec and payload.
    pub(super) crc: u32,
    /// Sequence number.
    pub seq: u32,
    /// The kind of the payload; see `FORMAT.md`.
    pub kind: u8,
    /// How the payload is compressed.
    pub codec: u8,
}

impl RecordHead {
    /// Reads a head from the first [`RECORD_HEAD_BYTES`] of `bytes`. Returns `None` when there are
    /// fewer, or when they are not a head of this file.
    #[must_use]
    pub fn parse(header: &Header, bytes: &[u8]) -> Option<Self> {
        Self::parse_seeded(header.crc_seed(), bytes)
    }

    /// Like [`parse`](Self::parse), with the seed of the file, which is worth storing for many
    /// heads.
    pub(crate) fn parse_seeded(seed: u32, bytes: &[u8]) -> Option<Self> {
        let head = bytes.first_chunk::<RECORD_HEAD_BYTES>()?;
        // The cheap checks come first: a scan through damage calls this at every byte.
        if head[3] != 0 || head[13] >= CODECS {
            return None;
        }
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let len = word(0) as usize;
        let payload_bytes = len.checked_sub(RECORD_HEAD_BYTES - 4)?;
        if payload_bytes > MAX_PAYLOAD_BYTES {
            return None;
        }
        let found = u16::from_le_bytes([head[14], head[15]]);
        if check(seed, word(0), word(4), word(8), head[12], head[13]) != found {
            return None;
        }
        Some(Self {
            payload_bytes,
            crc: word(4),
            seq: word(8),
            kind: head[12],
            codec: head[13],
        })
    }

    /// Returns the length of the whole record.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        RECORD_HEAD_BYTES + self.payload_bytes
    }

    /// Returns whether the record is a frame, so that a scan can look for frames without decoding
    /// the spans between them.
    #[must_use]
    pub fn is_frame(&self) -> bool {
        self.kind == kind::FRAME
    }

    /// Returns whether the record holds spans, or other things of a
    /// [`Record::Batch`](super::Record::Batch).
    #[must_use]
    pub fn is_batch(&self) -> bool {
        matches!(self.kind, kind::BATCH | kind::EVENTS)
    }

    /// Returns whether the record declares something: a process, sites, threads, columns, frame
    /// sets, a clock point, a machine or modes of scopes.
    #[must_use]
    pub fn is_declaration(&self) -> bool {
        (kind::PROCESS..=kind::CLOCK).contains(&self.kind)
            || matches!(
                self.kind,
                kind::MACHINE | kind::SEGMENT | kind::DUMP | kind::SCOPE_MODES
            )
    }

    /// Returns whether `payload` is what was written.
    #[must_use]
    pub fn verify(&self, header: &Header, payload: &[u8]) -> bool {
        self.verify_seeded(header.crc_seed(), payload)
    }

    /// Like [`verify`](Self::verify), with the seed of the file.
    pub(crate) fn verify_seeded(&self, seed: u32, payload: &[u8]) -> bool {
        payload.len() == self.payload_bytes
            && checksum(seed, self.seq, self.kind, self.codec, payload) == self.crc
    }
}

/// Writes a record around `payload`.
pub(super) fn put_record(
    out: &mut Vec<u8>,
    seed: u32,
    seq: u32,
    kind: u8,
    codec: u8,
    payload: &[u8],
) {
    let len = (RECORD_HEAD_BYTES - 4 + payload.len()) as u32;
    let crc = checksum(seed, seq, kind, codec, payload);
    out.reserve(RECORD_HEAD_BYTES + payload.len());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&seq.to_le_bytes());
    out.push(kind);
    out.push(codec);
    out.extend_from_slice(&check(seed, len, crc, seq, kind, codec).to_le_bytes());
    out.extend_from_slice(payload);
}

/// Reads the last [`END_RECORD_BYTES`] of a file. Returns the offset of the index record, or `None`
/// when the file was not closed cleanly.
#[must_use]
pub fn parse_end(header: &Header, tail: &[u8]) -> Option<u64> {
    let record = tail.get(tail.len().checked_sub(END_RECORD_BYTES)?..)?;
    let head = RecordHead::parse(header, record)?;
    let payload = record.get(RECORD_HEAD_BYTES..)?;
    if head.kind != kind::END || head.codec != CODEC_RAW || !head.verify(header, payload) {
        return None;
    }
    decode_end(payload).ok()
}

/// Decodes the payload of the end record.
pub(super) fn decode_end(payload: &[u8]) -> Result<u64, Error> {
    let mut cursor = Cursor::new(payload);
    let index_offset = cursor.u64()?;
    let mark = cursor.array::<8>()?;
    if mark != END_MARK {
        return Err(Error::corrupt(format!(
            "the end record ends with {mark:02x?}, not with the end mark"
        )));
    }
    cursor.end()?;
    Ok(index_offset)
}

fn checksum(seed: u32, seq: u32, kind: u8, codec: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&seq.to_le_bytes());
    hasher.update(&[kind, codec]);
    hasher.update(payload);
    hasher.finalize()
}

/// Folds the fields of a head into 16 bits: two rounds of multiply and fold, which a changed bit
/// anywhere spreads over all of them.
fn check(seed: u32, len: u32, crc: u32, seq: u32, kind: u8, codec: u8) -> u16 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let first = (u64::from(len) << 32 | u64::from(crc)) ^ u64::from(seed).wrapping_mul(ODD);
    let second = u64::from(seq) << 32 | u64::from(kind) << 8 | u64::from(codec);
    let mixed = first.wrapping_mul(ODD);
    let mixed = (mixed ^ mixed >> 29 ^ second).wrapping_mul(ODD);
    (mixed >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            file_id: 0x0123_4567_89ab_cdef,
            pid: 7,
            flags: 0,
            start_unix_ns: -5,
            start_ticks: u64::MAX,
        }
    }

    #[test]
    fn header_round_trips_and_a_short_one_needs_more_bytes() {
        let mut bytes = Vec::new();
        header().encode(&mut bytes);
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(
            Header::decode(&bytes).unwrap(),
            Some((header(), HEADER_BYTES))
        );
        for len in 0..HEADER_BYTES {
            assert_eq!(Header::decode(&bytes[..len]).unwrap(), None, "{len} bytes");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_an_error() {
        let mut bytes = Vec::new();
        header().encode(&mut bytes);
        bytes.resize(5000, 0);
        for bit in 0..HEADER_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = Header::decode(&bytes).unwrap_err();
            assert_eq!(
                error.is_version(),
                (32..48).contains(&bit),
                "bit {bit}: {error}"
            );
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn every_flipped_bit_of_a_head_is_detected_without_the_payload() {
        let mut bytes = Vec::new();
        put_record(
            &mut bytes,
            header().crc_seed(),
            9,
            kind::FRAME,
            CODEC_RAW,
            b"payload",
        );
        let head = RecordHead::parse(&header(), &bytes).unwrap();
        assert!(head.verify(&header(), b"payload"));
        assert!(!head.verify(&header(), b"paylaod"));
        assert_eq!(head.record_bytes(), bytes.len());
        let mut missed = 0;
        for bit in 0..RECORD_HEAD_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            missed += u32::from(RecordHead::parse(&header(), &bytes).is_some());
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(missed, 0);
    }
}
