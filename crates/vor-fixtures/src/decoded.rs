//! The records of a capture in memory, as the decoder returns them.

use std::ops::Range;

use vor_capture::Error;
use vor_capture::format::{
    Checkpoint, Damage, Decoder, Event, Header, PayloadDecoder, RawRecord, Record,
};

/// The decoder's events for some bytes.
#[derive(Debug)]
pub struct Decoded {
    pub header: Header,
    pub records: Vec<DecodedRecord>,
    pub damage: Vec<Damage>,
    /// Errors of payloads that could not be decoded.
    pub refused: Vec<Error>,
    /// The bytes at the end that are not a whole record.
    pub unfinished: Option<Damage>,
    /// According to the sequence numbers.
    pub missing_records: u64,
}

/// A record that could be decoded.
#[derive(Debug)]
pub struct DecodedRecord {
    /// Its range in the file.
    pub bytes: Range<usize>,
    pub seq: u64,
    pub is_repeated: bool,
    /// Absent for a kind or codec that this version does not know.
    pub record: Option<Record>,
}

impl Decoded {
    /// Returns whether the last record is the end record.
    pub fn is_closed(&self) -> bool {
        let last = self.records.last();
        last.is_some_and(|last| matches!(last.record, Some(Record::End { .. })))
    }

    fn add(&mut self, raw: &RawRecord<'_>, payloads: &mut PayloadDecoder) {
        let begin = raw.offset as usize;
        match raw.decode(payloads) {
            Ok(record) => self.records.push(DecodedRecord {
                bytes: begin..begin + raw.head.record_bytes(),
                seq: raw.seq,
                is_repeated: raw.is_repeated,
                record,
            }),
            Err(error) => self.refused.push(error),
        }
    }
}

/// Decodes a whole file in pieces. A file that ends within its header is an error.
pub fn decode(file: &[u8], piece_bytes: usize) -> Result<Decoded, String> {
    let header = Header::decode(file).map_err(|error| error.to_string())?;
    let (header, len) = header.ok_or("the header is unfinished")?;
    let from = Checkpoint::first(len as u64);
    Ok(decode_from(header, from, &file[len..], piece_bytes))
}

/// Calls `take` with every event of a whole file. Returns its header and the length of that, if it
/// has one.
pub fn visit(
    file: &[u8],
    mut take: impl FnMut(Event<'_>, &mut PayloadDecoder),
) -> Option<(Header, usize)> {
    let (header, len) = Header::decode(file).ok()??;
    let mut decoder = Decoder::new(header, Checkpoint::first(len as u64));
    let mut payloads = PayloadDecoder::new();
    decoder.push(&file[len..]);
    while let Some(event) = decoder.next_event_at_end() {
        take(event, &mut payloads);
    }
    Some((header, len))
}

/// Decodes the bytes of a file from a place on, in pieces.
pub fn decode_from(header: Header, from: Checkpoint, bytes: &[u8], piece_bytes: usize) -> Decoded {
    let mut decoded = Decoded {
        header,
        records: Vec::new(),
        damage: Vec::new(),
        refused: Vec::new(),
        unfinished: None,
        missing_records: 0,
    };
    let (mut decoder, mut payloads) = (Decoder::new(header, from), PayloadDecoder::new());
    let mut take = |event: Event<'_>| match event {
        Event::Record(raw) => decoded.add(&raw, &mut payloads),
        Event::Damage(damage) => decoded.damage.push(damage),
        other => panic!("an event that the tests do not know: {other:?}"),
    };
    for piece in bytes.chunks(piece_bytes) {
        decoder.push(piece);
        while let Some(event) = decoder.next_event() {
            take(event);
        }
    }
    while let Some(event) = decoder.next_event_at_end() {
        take(event);
    }
    decoded.unfinished = decoder.unfinished();
    decoded.missing_records = decoder.missing_records();
    decoded
}

/// Decodes an undamaged file whose records are all known.
pub fn records(file: &[u8]) -> impl Iterator<Item = (DecodedRecord, Record)> {
    let decoded = decode(file, 1 << 16).unwrap();
    assert_eq!(decoded.damage, []);
    assert!(decoded.refused.is_empty(), "{:?}", decoded.refused);
    assert_eq!(decoded.unfinished, None);
    decoded.records.into_iter().map(|mut found| {
        let record = found.record.take().expect("a record of an unknown kind");
        (found, record)
    })
}
