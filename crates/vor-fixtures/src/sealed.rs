//! Records with any payload and the right checksum, so that only the decoder of the payload can
//! refuse them.
//!
//! A byte that changes in a file breaks the checksum of its record, so such a file tests the
//! checksum and nothing behind it. [`Sealed`] takes a capture apart, changes payloads, and seals
//! each record again.

use std::sync::OnceLock;

use vor_capture::format::{Header, Index, Record, Seek};

use crate::captures::{every_kind, make, make_without_marks};
use crate::random::Random;
use crate::reference;

/// Kinds of records, as `FORMAT.md` numbers them.
pub mod kind {
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
}

const RAW: u8 = 0;
const LZ4: u8 = 1;
/// Bytes of a record before its payload.
const HEAD_BYTES: usize = 16;
/// Most records that an input of a fuzz target makes of its own bytes.
const MAX_GIVEN_RECORDS: usize = 8;
const MAX_GIVEN_BYTES: usize = 4096;
/// Most changes that an input of a fuzz target makes.
const MAX_MUTATIONS: usize = 32;
/// Bytes of a mutation in such an input.
const MUTATION_BYTES: usize = 6;

/// A capture as its records.
#[derive(Clone, Debug)]
pub struct Sealed {
    header: Header,
    pub records: Vec<SealedRecord>,
}

/// A record to be sealed.
#[derive(Clone, Debug)]
pub struct SealedRecord {
    pub seq: u32,
    pub kind: u8,
    /// How the payload is stored: 0 as it is, 1 as an LZ4 block.
    pub codec: u8,
    /// The payload, not compressed.
    pub payload: Vec<u8>,
    /// The codec that the record states, where that is not how it is stored.
    pub stated_codec: Option<u8>,
    /// The length of the payload that the record states, where that is not how long it is.
    pub stated_bytes: Option<usize>,
    /// A byte of the stored payload to change after compression, and the bits of it to flip.
    pub flip: Option<(usize, u8)>,
    /// Where it was in the file from which it came.
    offset: usize,
}

impl SealedRecord {
    /// Makes a record that is not compressed.
    fn new(seq: u32, kind: u8, payload: &[u8]) -> Self {
        Self {
            seq,
            kind,
            codec: RAW,
            payload: payload.to_vec(),
            stated_codec: None,
            stated_bytes: None,
            flip: None,
            offset: usize::MAX,
        }
    }

    /// Returns the payload as the file stores it.
    fn stored(&self) -> Vec<u8> {
        let mut stored = match self.codec {
            LZ4 => {
                let mut stored = Vec::new();
                put_varint(&mut stored, self.payload.len() as u64);
                stored.extend(lz4_flex::block::compress(&self.payload));
                stored
            }
            _ => self.payload.clone(),
        };
        if let Some((at, bits)) = self.flip
            && !stored.is_empty()
        {
            let at = at % stored.len();
            stored[at] ^= bits;
        }
        stored
    }
}

impl Sealed {
    /// Makes a file without records.
    pub fn new(header: Header) -> Self {
        Self {
            header,
            records: Vec::new(),
        }
    }

    /// Takes an undamaged capture apart.
    pub fn of(capture: &[u8]) -> Self {
        let (header, mut at) = Header::decode(capture).unwrap().unwrap();
        let mut sealed = Self::new(header);
        while at < capture.len() {
            let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
            let end = at + 4 + word(at) as usize;
            let codec = capture[at + 13];
            let payload = reference::unpack(codec, &capture[at + HEAD_BYTES..end]);
            let payload = payload.unwrap().unwrap();
            sealed.records.push(SealedRecord {
                codec,
                offset: at,
                ..SealedRecord::new(word(at + 8), capture[at + 12], &payload)
            });
            at = end;
        }
        sealed
    }

    /// Appends a record that is not compressed.
    pub fn push(&mut self, kind: u8, payload: &[u8]) {
        let seq = self.records.last().map_or(0, |last| last.seq + 1);
        self.records.push(SealedRecord::new(seq, kind, payload));
    }

    /// Returns the file: every record has the right length and checksum.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.header.encode(&mut bytes);
        for record in &self.records {
            put_record(&mut bytes, self.header.file_id, record);
        }
        bytes
    }

    /// Returns the number of the first record of a kind.
    pub fn find(&self, kind: u8) -> usize {
        let found = self.records.iter().position(|record| record.kind == kind);
        found.expect("a record of this kind")
    }

    /// Changes payloads. Index and end record first follow the other records to their new places,
    /// so that a reader believes them, and are then changed themselves.
    pub fn mutate(&mut self, mutations: &[Mutation]) {
        let original = self.clone();
        let is_place = |mutation: &&Mutation| {
            let kind = original.at(mutation.record).map(|record| record.kind);
            matches!(kind, Some(kind::INDEX | kind::END))
        };
        for mutation in mutations.iter().filter(|mutation| !is_place(mutation)) {
            self.change(mutation, &original);
        }
        self.relocate();
        for mutation in mutations.iter().filter(is_place) {
            self.change(mutation, &original);
        }
    }

    fn at(&self, number: usize) -> Option<&SealedRecord> {
        self.records.get(number % self.records.len().max(1))
    }

    fn change(&mut self, mutation: &Mutation, original: &Self) {
        let number = mutation.record % self.records.len().max(1);
        if let Some(record) = self.records.get_mut(number) {
            let of_kind = |other: &&SealedRecord| other.kind == record.kind;
            let donors: Vec<_> = original.records.iter().filter(of_kind).collect();
            let donor = donors[mutation.value as usize % donors.len()];
            mutation.apply(record, &donor.payload);
        }
    }

    /// Writes the new offsets of records into the index and the end record.
    fn relocate(&mut self) {
        let mut at = vor_capture::format::HEADER_BYTES;
        let mut places = Vec::new();
        for number in 0..self.records.len() {
            let moved = |offset: u64| {
                let of = |(before, after): &(usize, usize)| {
                    (*before as u64 == offset).then_some(*after as u64)
                };
                places.iter().find_map(of).unwrap_or(offset)
            };
            let record = &self.records[number];
            let decoded = reference::decode(record.kind, record.seq, &record.payload);
            let payload = match decoded {
                Ok(Some(Record::Index(index))) => Some(index_payload(&index, moved)),
                Ok(Some(Record::End { index_offset })) => {
                    let mut payload = moved(index_offset).to_le_bytes().to_vec();
                    payload.extend_from_slice(b"VOR3END.");
                    Some(payload)
                }
                _ => None,
            };
            let record = &mut self.records[number];
            record.payload = payload.unwrap_or_else(|| std::mem::take(&mut record.payload));
            places.push((record.offset, at));
            at += HEAD_BYTES + record.stored().len();
        }
    }
}

/// Returns the payload of an index whose places and tables are at `moved` of their offsets.
pub fn index_payload(index: &Index, moved: impl Fn(u64) -> u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, moved(index.tables_offset));
    put_varint(&mut out, index.frames.len() as u64);
    let totals = [
        index.spans,
        index.dropped_spans,
        index.messages,
        index.async_spans,
        index.records,
        index.start_ticks,
        index.end_ticks,
        index.seeks.len() as u64,
    ];
    let numbers = index.frames.iter().chain(&totals);
    numbers.for_each(|number| put_varint(&mut out, *number));
    let mut before = Seek::default();
    for seek in &index.seeks {
        let seek = Seek {
            offset: moved(seek.offset),
            ..*seek
        };
        put_varint(&mut out, seek.ordinal.wrapping_sub(before.ordinal));
        put_zigzag(&mut out, seek.index.wrapping_sub(before.index) as i64);
        put_varint(&mut out, seek.offset.wrapping_sub(before.offset));
        let ticks = seek.start_ticks.wrapping_sub(before.start_ticks);
        put_zigzag(&mut out, ticks as i64);
        before = seek;
    }
    out
}

/// One change of a payload. Every combination of numbers is one.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// Number of the record.
    pub record: usize,
    /// The kind of change.
    pub how: u8,
    /// The place in the payload.
    pub at: usize,
    /// A number for the change, such as a bit or a length.
    pub value: u64,
}

impl Mutation {
    /// Makes a mutation at random. Half of them are near the begin of a payload, where the counts
    /// are.
    pub fn random(random: &mut Random) -> Self {
        let at = random.below(1 << 16);
        Self {
            record: random.below(1 << 16),
            how: random.next() as u8,
            at: if random.below(2) == 0 { at % 32 } else { at },
            value: random.next() >> random.below(64),
        }
    }

    fn of_bytes(bytes: &[u8; MUTATION_BYTES]) -> Self {
        Self {
            record: usize::from(bytes[0]),
            how: bytes[1],
            at: usize::from(u16::from_le_bytes([bytes[2], bytes[3]])),
            value: u64::from(u16::from_le_bytes([bytes[4], bytes[5]])),
        }
    }

    fn apply(&self, record: &mut SealedRecord, donor: &[u8]) {
        let (value, payload) = (self.value, &mut record.payload);
        let at = self.at % payload.len().max(1);
        let few = 1 + value as usize % 8;
        let end = (at + few).min(payload.len());
        match self.how % 11 {
            0 if !payload.is_empty() => payload[at] ^= 1 << (value % 8),
            1 if !payload.is_empty() => {
                const BYTES: [u8; 12] = [0, 1, 2, 3, 31, 32, 33, 64, 0x7f, 0x80, 0xfe, 0xff];
                payload[at] = BYTES[value as usize % BYTES.len()];
            }
            2 if !payload.is_empty() => payload[at] = value as u8,
            3 if !payload.is_empty() => {
                let step = if value % 2 == 0 { 1 } else { u8::MAX };
                payload[at] = payload[at].wrapping_add(step);
            }
            4 => {
                let bytes = (value >> 3).to_le_bytes();
                payload.splice(at..at, bytes.into_iter().take(few));
            }
            5 => drop(payload.drain(at..end)),
            6 => {
                // A number of another size in place of the one here.
                let digits = payload[at..].iter().take_while(|byte| **byte >= 0x80);
                let end = (at + digits.count() + 1).min(payload.len());
                let bit = 1_u64 << (value % 64);
                let mut number = Vec::new();
                put_varint(&mut number, bit.wrapping_sub(value >> 6 & 1));
                if value >> 7 & 1 == 1 {
                    // One that is longer than it has to be, or than it may be.
                    *number.last_mut().unwrap() |= 0x80;
                    number.push(0);
                }
                payload.splice(at..end, number);
            }
            7 => {
                let from = (value >> 3) as usize % donor.len().max(1);
                let len = (donor.len() - from).min(few * 4);
                payload.splice(at..end, donor[from..from + len].to_vec());
            }
            8 => payload.truncate(at),
            9 => record.codec = RAW + LZ4 - record.codec.min(LZ4),
            10 => {
                record.codec = LZ4;
                record.flip = Some((self.at, 1 << (value % 8)));
            }
            _ => payload.push(value as u8),
        }
    }
}

/// The captures that are changed; together they hold every kind of record.
pub fn seeds() -> [Vec<u8>; 4] {
    [
        every_kind(1, true),
        every_kind(2, false),
        make(7, 6, 9, true).bytes,
        make_without_marks(3, 4, 9, true).bytes,
    ]
}

/// Makes a file of an input of a fuzz target, in one of three ways.
///
/// ```text
/// "VOR1" …                            the input is the file
/// 0x00 to 0x7f | mutation × n         a seed, changed: record u8, how u8, at u16, value u16
/// 0x80 to 0xff | record × n           declarations, and these records: kind u8 (top bit:
///                                     compressed), length u16, payload; behind them a frame
/// ```
pub fn file_of_input(input: &[u8]) -> Vec<u8> {
    let Some((&way, rest)) = input.split_first() else {
        return Vec::new();
    };
    if input.starts_with(b"VOR1") {
        return input.to_vec();
    }
    if way < 0x80 {
        static SEEDS: OnceLock<[Sealed; 4]> = OnceLock::new();
        let seeds = SEEDS.get_or_init(|| seeds().map(|seed| Sealed::of(&seed)));
        let mut sealed = seeds[usize::from(way) % seeds.len()].clone();
        let mutations = rest.as_chunks().0.iter().take(MAX_MUTATIONS);
        let mutations: Vec<_> = mutations.map(Mutation::of_bytes).collect();
        sealed.mutate(&mutations);
        return sealed.bytes();
    }
    let mut sealed = declarations();
    let before = sealed.records.len();
    let mut rest = rest;
    for _ in 0..MAX_GIVEN_RECORDS {
        let Some((&[kind, low, high], after)) = rest.split_first_chunk() else {
            break;
        };
        let len = usize::from(u16::from_le_bytes([low, high]));
        let (payload, after) = after.split_at(len.min(MAX_GIVEN_BYTES).min(after.len()));
        sealed.push(kind & 0x7f, payload);
        if kind >= 0x80 {
            sealed.records.last_mut().unwrap().codec = LZ4;
        }
        rest = after;
    }
    let spans = sealed.records[before..].iter().map(span_count).sum();
    let records = (sealed.records.len() - before) as u64;
    let frame = frame_payload(records, spans);
    sealed.push(kind::FRAME, &frame);
    sealed.bytes()
}

/// Returns the declarations with which a capture of every kind begins.
pub fn declarations() -> Sealed {
    static DECLARATIONS: OnceLock<Sealed> = OnceLock::new();
    DECLARATIONS.get_or_init(make_declarations).clone()
}

fn make_declarations() -> Sealed {
    let mut sealed = Sealed::of(&every_kind(1, false));
    let is_declaration = |record: &SealedRecord| {
        matches!(
            record.kind,
            1..=6 | kind::MACHINE | kind::SEGMENT | kind::DUMP | kind::SCOPE_MODES
        )
    };
    let end = sealed
        .records
        .iter()
        .position(|record| !is_declaration(record));
    sealed.records.truncate(end.unwrap());
    sealed
}

/// Returns the payload of a frame that has the `records` before it, with `spans` spans.
pub fn frame_payload(records: u64, spans: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    for number in [0, 0, 1000, 1 << 40, records, spans, 0, 0, 0] {
        put_varint(&mut frame, number);
    }
    frame
}

/// Returns how many spans a record holds.
fn span_count(record: &SealedRecord) -> u64 {
    match reference::decode(record.kind, record.seq, &record.payload) {
        Ok(Some(Record::Batch(threads))) => threads.iter().map(|of| of.sites.len() as u64).sum(),
        _ => 0,
    }
}

/// Appends a number.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number.
pub fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Returns a record with the length, the checksum and the check of this payload, which the file
/// stores as it is.
pub fn seal(file_id: u64, seq: u32, kind: u8, codec: u8, stored: &[u8]) -> Vec<u8> {
    let record = SealedRecord {
        stated_codec: Some(codec),
        ..SealedRecord::new(seq, kind, stored)
    };
    let mut bytes = Vec::new();
    put_record(&mut bytes, file_id, &record);
    bytes
}

/// Appends a record with the length, the checksum and the check of its payload.
fn put_record(out: &mut Vec<u8>, file_id: u64, record: &SealedRecord) {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (seq, kind) = (record.seq, record.kind);
    let codec = record.stated_codec.unwrap_or(record.codec);
    let stored = record.stored();
    let seed = crc32fast::hash(&file_id.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&seq.to_le_bytes());
    hasher.update(&[kind, codec]);
    hasher.update(&stored);
    let checksum = hasher.finalize();
    let length = (HEAD_BYTES - 4 + record.stated_bytes.unwrap_or(stored.len())) as u32;
    let a = u64::from(length) << 32 | u64::from(checksum);
    let a = (a ^ u64::from(seed).wrapping_mul(ODD)).wrapping_mul(ODD);
    let b = u64::from(seq) << 32 | u64::from(kind) << 8 | u64::from(codec);
    let check = ((a ^ (a >> 29) ^ b).wrapping_mul(ODD) >> 48) as u16;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(&[kind, codec]);
    out.extend_from_slice(&check.to_le_bytes());
    out.extend_from_slice(&stored);
}
