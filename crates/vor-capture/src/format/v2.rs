//! Captures of the predecessor (vor 0.2.1): file format version 2, read only.
//!
//! A file is a header that names the system columns, then records of `u32 len, len bytes`. The
//! bytes of a record are `u32 raw size, one raw LZ4 block`; the first byte of the unpacked body is
//! its kind: 0 a frame, 1 the declaration of a user column. All integers are little-endian. There
//! is no checksum, no sequence number and no index.
//!
//! [`Decoder`] is a push parser without input or output: it takes bytes and returns [`Event`]s.
//! Without checksums, a record can only be checked by its structure: its block must unpack to
//! exactly the declared size, and its body must be used up exactly. This check is strict enough to
//! find the next whole record behind damage by trying every offset, which is how the decoder
//! resynchronises. It reports skipped bytes as [`Damage`]. A changed number inside a record that
//! still unpacks cannot be noticed, and neither can a record that was cut out whole.

mod cursor;
pub mod flame;

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

use super::{Candidate, Search};
use crate::Error;
use crate::model::catalog::MetricColumn;
pub(crate) use cursor::Cursor;
use flame::Flame;

/// The first four bytes of every capture, of version 2 and later ones.
pub const MAGIC: [u8; 4] = *b"VOR1";

/// Largest record, packed or unpacked, that is read. A frame of a million spans is smaller.
pub const MAX_RECORD_BYTES: usize = 24 << 20;

/// Largest header that is read; real ones have some hundred bytes.
pub const MAX_HEADER_BYTES: usize = 1 << 20;

/// Bytes that are needed to rule out a record at a place: length, raw size, LZ4 token, first
/// literal.
const PROBE_BYTES: usize = 10;

/// The part before the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Whether the recorder was set to keep flames; no frame need have one.
    pub flame_enabled: bool,
    /// The system columns; every frame has a value for each.
    pub columns: Vec<MetricColumn>,
    /// Length of the header in bytes; the first record follows.
    pub len: usize,
}

/// One result of a [`Decoder`], in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A user column was declared: an index into [`Decoder::user_columns`].
    Column(usize),
    /// A frame.
    Frame(Frame),
    /// Something was lost.
    Damage(Damage),
}

/// A frame as it is in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Where its record begins in the file.
    pub offset: u64,
    /// Values of the system columns, in the header's order.
    pub system: Vec<f64>,
    /// Indices into [`Decoder::user_columns`] and their values, in the order of the file.
    pub user: Vec<(usize, f64)>,
    /// The puffin frame as it is stored, if the record has one that is whole.
    pub flame: Option<Vec<u8>>,
    /// The contents of the puffin frame.
    pub parsed: Option<Flame>,
}

/// Something in the file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins in the file.
    pub offset: u64,
    /// How many bytes were skipped, 0 when only a part of a record could not be used.
    pub bytes: u64,
    /// The reason, in one line.
    pub reason: String,
}

/// Reads the header at the beginning of `bytes`; `None` when more bytes are needed.
///
/// # Errors
///
/// The bytes are not a capture, or one of another version, or the header breaks the rules of the
/// format.
pub fn parse_header(bytes: &[u8]) -> Result<Option<Header>, Error> {
    let mut cursor = Cursor::new(bytes);
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(Error::corrupt(format!(
            "not a vor capture: it starts with {:?}",
            String::from_utf8_lossy(&bytes[..known])
        )));
    }
    let Some(version) = cursor.bytes(MAGIC.len()).and_then(|_| cursor.u16()) else {
        return Ok(None);
    };
    if version != 2 {
        return Err(Error::version(format!(
            "not a capture of version 2: its version is {version}"
        )));
    }
    let (Some(flame), Some(n)) = (cursor.u8(), cursor.u16()) else {
        return Ok(None);
    };
    let mut columns = Vec::new();
    for _ in 0..n {
        let (Some(name), Some(unit)) = (cursor.str_bytes(), cursor.str_bytes()) else {
            if bytes.len() >= MAX_HEADER_BYTES {
                return Err(Error::corrupt(format!(
                    "its {n} columns do not fit into a header of {MAX_HEADER_BYTES} bytes"
                )));
            }
            return Ok(None);
        };
        columns.push(MetricColumn {
            name: utf8(name, "the name of a system column")?,
            unit: utf8(unit, "the unit of a system column")?,
        });
    }
    Ok(Some(Header {
        flame_enabled: flame != 0,
        columns,
        len: cursor.at(),
    }))
}

fn utf8(bytes: &[u8], what: &str) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Error::corrupt(format!("{what} of {} bytes is not UTF-8", bytes.len())))
}

/// Turns the bytes behind the header into [`Event`]s.
#[derive(Debug)]
pub struct Decoder {
    system_columns: usize,
    user_columns: Vec<MetricColumn>,
    /// How many of the user columns are declared before the current place.
    declared: usize,
    /// The user columns that each id was declared for, one after the other; ids wrap in files with
    /// more than 65 535 names.
    ids: FxHashMap<u16, Vec<usize>>,
    /// Bytes that were pushed and not used up: those from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// Offset in the file of `buffer[at]`.
    offset: u64,
    /// The damage that is being skipped.
    damaged: Option<Damaged>,
    /// The search for a whole record behind damage, or behind a record that is not there to its
    /// end.
    search: Option<Search>,
    /// Bytes of unpacking that the search may still spend on places that only look like records; a
    /// file made of such places would otherwise be unpacked once per byte.
    allowance: u64,
    ready: VecDeque<Event>,
}

/// Damage whose end was not found yet.
#[derive(Debug)]
struct Damaged {
    /// Where in the file it begins.
    begin: u64,
    reason: String,
}

const ALLOWANCE: u64 = 64 << 20;

/// The contents of the buffer at a place.
enum Place {
    /// A whole record of so many bytes.
    Whole(usize, Body),
    /// The bytes so far may become a record.
    Unfinished,
    /// Not a record.
    Bad(String),
}

/// A record's content.
enum Body {
    Column { id: u16, column: MetricColumn },
    Frame(RawFrame),
}

struct RawFrame {
    system: Vec<f64>,
    user: Vec<(u16, f64)>,
    flame: Vec<u8>,
}

impl Decoder {
    /// Makes a decoder for the records behind `header`.
    #[must_use]
    pub fn new(header: &Header) -> Self {
        Self {
            system_columns: header.columns.len(),
            user_columns: Vec::new(),
            declared: 0,
            ids: FxHashMap::default(),
            buffer: Vec::new(),
            at: 0,
            offset: header.len as u64,
            damaged: None,
            search: None,
            allowance: ALLOWANCE,
            ready: VecDeque::new(),
        }
    }

    /// Continues at the record that begins at `offset` of the file, before which `declared` of
    /// the user columns known so far were declared.
    pub fn resume_at(&mut self, offset: u64, declared: usize) {
        self.declared = declared.min(self.user_columns.len());
        self.buffer.clear();
        self.at = 0;
        self.offset = offset;
        self.damaged = None;
        self.search = None;
        self.ready.clear();
    }

    /// Returns the user columns declared so far.
    #[must_use]
    pub fn user_columns(&self) -> &[MetricColumn] {
        &self.user_columns
    }

    /// Returns how many of them are declared before the next record: all, unless the decoder
    /// continued at an earlier place.
    #[must_use]
    pub fn declared(&self) -> usize {
        self.declared
    }

    /// Returns where in the file the next record begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.at = 0;
        // Exact growth, so that a buffer for a large record is not doubled beyond it.
        if self.buffer.capacity() - self.buffer.len() < bytes.len() && self.buffer.len() > (1 << 20)
        {
            self.buffer.reserve_exact(bytes.len().max(1 << 20));
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next event, or `None` when more bytes are needed.
    ///
    /// `at_end` says that no more bytes are there for now. The decoder then also searches behind a
    /// record whose length reaches beyond the end: whole records there prove that the length is
    /// wrong. Decoding may continue after more bytes were pushed.
    pub fn next_event(&mut self, at_end: bool) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.damaged.is_none() {
                match self.place(self.at) {
                    Place::Whole(len, body) => {
                        self.take(len, body);
                        continue;
                    }
                    Place::Unfinished if !at_end => return None,
                    Place::Unfinished => {}
                    Place::Bad(reason) => {
                        let begin = self.offset;
                        self.damaged = Some(Damaged { begin, reason });
                        self.search = None;
                    }
                }
            }
            let offset = self.find(at_end)?;
            let damaged = self.damaged.take().unwrap_or_else(|| Damaged {
                begin: self.offset,
                reason: format!(
                    "a record of {} bytes is cut off after {} bytes, where whole records follow",
                    self.announced(),
                    offset - self.offset
                ),
            });
            self.ready.push_back(Event::Damage(Damage {
                offset: damaged.begin,
                bytes: offset - damaged.begin,
                reason: damaged.reason,
            }));
            self.search = None;
            self.consume((offset - self.offset) as usize);
        }
    }

    /// Returns the bytes behind the last event that are not a record: an unfinished one, or damage
    /// whose end was not found.
    #[must_use]
    pub fn pending(&self) -> Option<Damage> {
        let left = (self.buffer.len() - self.at) as u64;
        match &self.damaged {
            Some(damaged) => Some(Damage {
                offset: damaged.begin,
                bytes: self.offset + left - damaged.begin,
                reason: damaged.reason.clone(),
            }),
            None if left > 0 => Some(Damage {
                offset: self.offset,
                bytes: left,
                reason: format!(
                    "the file ends {left} bytes into a record of {}",
                    self.announced()
                ),
            }),
            None => None,
        }
    }

    /// Returns where the unfinished record will end, if its length is known.
    #[must_use]
    pub fn unfinished_to(&self) -> Option<u64> {
        let is_known = self.damaged.is_none() && self.buffer.len() - self.at >= 4;
        is_known.then(|| self.offset + self.announced())
    }

    /// Returns the length of the record at the current place as its first bytes state it, those
    /// bytes included.
    fn announced(&self) -> u64 {
        let len = Cursor::new(&self.buffer[self.at..]).u32().unwrap_or(0);
        u64::from(len) + 4
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
        self.offset += len as u64;
    }

    /// Returns the offset of the first whole record behind a place that is not one. Within damage,
    /// bytes that cannot become a record are used up. Behind an unfinished record it must prove
    /// that its length is wrong: two whole records in a row, or one that ends where the file ends.
    fn find(&mut self, at_end: bool) -> Option<u64> {
        let mut search = self.search.take().unwrap_or_else(|| {
            self.allowance = ALLOWANCE;
            Search::behind(self.offset)
        });
        let in_damage = self.damaged.is_some();
        let end = self.offset + (self.buffer.len() - self.at) as u64;
        let found = search.advance(end, PROBE_BYTES, at_end, |offset, is_new| {
            let at = self.at + (offset - self.offset) as usize;
            let candidate = match self.probe(at) {
                Place::Whole(len, _) if in_damage || self.may_follow(at + len) => Candidate::Whole,
                Place::Whole(..) | Place::Bad(_) => Candidate::Bad,
                Place::Unfinished => Candidate::Unfinished,
            };
            self.allowance += 16 * u64::from(is_new);
            candidate
        });
        if found.is_none() {
            if in_damage {
                self.consume((search.begin() - self.offset) as usize);
            }
            self.search = Some(search);
        }
        found
    }

    /// Returns whether a record may begin at `buffer[at..]`, or the file ends there.
    fn may_follow(&self, at: usize) -> bool {
        at == self.buffer.len() || !matches!(self.place(at), Place::Bad(_))
    }

    /// Like [`place`](Self::place), but stricter and cheaper where most places are no record.
    fn probe(&mut self, at: usize) -> Place {
        let bytes = &self.buffer[at..];
        let Some(&[l0, l1, l2, l3, r0, r1, r2, r3, token, _]) = bytes.first_chunk::<PROBE_BYTES>()
        else {
            return Place::Unfinished;
        };
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        let raw = u32::from_le_bytes([r0, r1, r2, r3]);
        if check_sizes(len, raw).is_err() {
            return Place::Bad(String::new());
        }
        // A block begins with literals, and the first of them is the kind.
        let mut literal = 9;
        if token >> 4 == 15 {
            while bytes.get(literal) == Some(&255) {
                literal += 1;
            }
            literal += 1;
        }
        let smallest = match bytes.get(literal) {
            _ if token >> 4 == 0 => return Place::Bad(String::new()),
            None => return Place::Unfinished,
            Some(0) => 1 + 8 * self.system_columns + 2 + 4,
            Some(1) => 7,
            Some(_) => return Place::Bad(String::new()),
        };
        if (raw as usize) < smallest {
            return Place::Bad(String::new());
        }
        if bytes.len() < 4 + len as usize {
            return Place::Unfinished;
        }
        let cost = u64::from(raw) + u64::from(len);
        if self.allowance < cost {
            return Place::Bad(String::new());
        }
        self.allowance -= cost;
        match self.place(at) {
            Place::Whole(_, Body::Column { id, .. }) if usize::from(id) < self.system_columns => {
                Place::Bad(String::new())
            }
            place => place,
        }
    }

    /// Returns what is at `buffer[at..]`.
    fn place(&self, at: usize) -> Place {
        let mut cursor = Cursor::new(&self.buffer[at..]);
        let (Some(len), Some(raw)) = (cursor.u32(), cursor.u32()) else {
            return match Cursor::new(&self.buffer[at..]).u32() {
                Some(len) if len < 5 || len as usize > MAX_RECORD_BYTES => {
                    Place::Bad(size_reason(len))
                }
                _ => Place::Unfinished,
            };
        };
        if let Err(reason) = check_sizes(len, raw) {
            return Place::Bad(reason);
        }
        let Some(block) = cursor.bytes(len as usize - 4) else {
            return Place::Unfinished;
        };
        let mut body = vec![0; raw as usize];
        match lz4_flex::block::decompress_into(block, &mut body) {
            Ok(n) if n == body.len() => {}
            Ok(n) => return Place::Bad(format!("a block of {raw} bytes unpacks to {n}")),
            Err(error) => {
                return Place::Bad(format!("a block of {raw} bytes is not LZ4: {error}"));
            }
        }
        match self.parse(body) {
            Ok(body) => Place::Whole(4 + len as usize, body),
            Err(reason) => Place::Bad(reason),
        }
    }

    fn parse(&self, mut body: Vec<u8>) -> Result<Body, String> {
        let mut cursor = Cursor::new(&body);
        match cursor.u8() {
            Some(0) => {
                let (system, user, flame_at) = self
                    .frame_fields(&mut cursor)
                    .ok_or_else(|| format!("a frame is cut off after {} bytes", body.len()))?;
                body.drain(..flame_at);
                let flame = body;
                Ok(Body::Frame(RawFrame {
                    system,
                    user,
                    flame,
                }))
            }
            Some(1) => {
                let (id, column) = declaration(&body[1..]).ok_or_else(|| {
                    format!("{} bytes are not the declaration of a column", body.len())
                })?;
                Ok(Body::Column { id, column })
            }
            kind => Err(format!("the kind of a record is {kind:?}, not 0 or 1")),
        }
    }

    /// Reads the fields of a frame up to its flame, and checks that the flame is all that follows.
    fn frame_fields(&self, cursor: &mut Cursor<'_>) -> Option<FrameFields> {
        // Memory grows with the values that are there, not with the number that the file states.
        let system = (0..self.system_columns).map(|_| cursor.f64());
        let system = system.collect::<Option<Vec<_>>>()?;
        let count = cursor.u16()?;
        let user = (0..count).map(|_| Some((cursor.u16()?, cursor.f64()?)));
        let user = user.collect::<Option<Vec<_>>>()?;
        let flame_len = cursor.u32()? as usize;
        (cursor.left() == flame_len).then_some((system, user, cursor.at()))
    }

    /// Uses up a whole record and queues its events.
    fn take(&mut self, len: usize, body: Body) {
        let offset = self.offset;
        self.search = None;
        self.consume(len);
        match body {
            Body::Column { id, column } => {
                let known = self
                    .column(id)
                    .is_some_and(|index| self.user_columns[index] == column);
                if known {
                    return;
                }
                // A place that is read again repeats its declarations.
                if self.declared == self.user_columns.len() {
                    self.ids.entry(id).or_default().push(self.declared);
                    self.ready.push_back(Event::Column(self.declared));
                    self.user_columns.push(column);
                }
                self.declared += 1;
            }
            Body::Frame(raw) => {
                let frame = self.resolve(offset, raw);
                self.ready.push_back(Event::Frame(frame));
            }
        }
    }

    /// Returns the user column for which an id was declared last.
    fn column(&self, id: u16) -> Option<usize> {
        let columns = self.ids.get(&id)?;
        let declared = columns.partition_point(|&index| index < self.declared);
        columns.get(declared.checked_sub(1)?).copied()
    }

    /// Assigns the values of a frame to their columns and parses its flame; parts that cannot be
    /// used are queued as damage.
    fn resolve(&mut self, offset: u64, raw: RawFrame) -> Frame {
        let mut frame = Frame {
            offset,
            system: raw.system,
            ..Frame::default()
        };
        for (id, value) in raw.user {
            match self.column(id) {
                Some(index) => frame.user.push((index, value)),
                None => self.ready.push_back(Event::Damage(Damage {
                    offset,
                    bytes: 0,
                    reason: format!(
                        "the value {value} belongs to column {id}, which is not declared"
                    ),
                })),
            }
        }
        if raw.flame.is_empty() {
            return frame;
        }
        match flame::parse(&raw.flame) {
            Ok(parsed) => {
                frame.flame = Some(raw.flame);
                frame.parsed = Some(parsed);
            }
            Err(reason) => self.ready.push_back(Event::Damage(Damage {
                offset,
                bytes: 0,
                reason: format!("the flame of a frame is damaged: {reason}"),
            })),
        }
        frame
    }
}

/// System values, user values by id, and where the flame begins.
type FrameFields = (Vec<f64>, Vec<(u16, f64)>, usize);

/// Checks the two sizes of a record against the limits and against each other, before anything is
/// allocated.
fn check_sizes(len: u32, raw: u32) -> Result<(), String> {
    if len < 5 || len as usize > MAX_RECORD_BYTES {
        return Err(size_reason(len));
    }
    // LZ4 packs at most 255 bytes into one.
    let most = (u64::from(len) * 255).min(MAX_RECORD_BYTES as u64);
    if raw == 0 || u64::from(raw) > most {
        return Err(format!(
            "a record of {len} bytes declares {raw} unpacked bytes, not 1 to {most}"
        ));
    }
    Ok(())
}

fn size_reason(len: u32) -> String {
    format!("the length of a record is {len}, not 5 to {MAX_RECORD_BYTES}")
}

/// Reads the declaration of a column that takes up all of `bytes`.
///
/// The recorder stored lengths modulo 65 536 but the whole text, so longer lengths are tried until
/// both texts fit exactly.
fn declaration(bytes: &[u8]) -> Option<(u16, MetricColumn)> {
    let mut cursor = Cursor::new(bytes);
    let id = cursor.u16()?;
    let mut name_len = usize::from(cursor.u16()?);
    let text = &bytes[cursor.at()..];
    while name_len + 2 <= text.len() {
        let (name, rest) = text.split_at(name_len);
        let unit_len = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        let unit = &rest[2..];
        if unit.len() % 0x1_0000 == unit_len
            && let (Ok(name), Ok(unit)) = (std::str::from_utf8(name), std::str::from_utf8(unit))
        {
            return Some((
                id,
                MetricColumn {
                    name: name.into(),
                    unit: unit.into(),
                },
            ));
        }
        name_len += 0x1_0000;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_record_is_stored_without_doubling() {
        const MIB: usize = 1 << 20;
        let mut decoder = Decoder::new(&Header::default());
        decoder.push(&vec![0; MIB + 1]);
        let mut growths = 0;
        for _ in 0..100 {
            let before = decoder.buffer.capacity();
            decoder.push(&[0; 50_000]);
            growths += usize::from(decoder.buffer.capacity() != before);
            let room = decoder.buffer.capacity() - decoder.buffer.len();
            assert!(room <= MIB, "room for {room} bytes");
        }
        // Five mebibytes.
        assert!(growths <= 6, "{growths} growths");
        let capacity = decoder.buffer.capacity();
        let room = capacity - decoder.buffer.len();
        decoder.push(&vec![0; room]);
        assert_eq!(decoder.buffer.capacity(), capacity);

        let mut decoder = Decoder::new(&Header::default());
        (0..100).for_each(|_| decoder.push(&[0; 100]));
        assert!(decoder.buffer.capacity() < MIB / 8);
    }
}
