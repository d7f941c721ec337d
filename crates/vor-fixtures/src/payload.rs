//! Payloads that a test writes field by field, and what a reader must make of them.

use vor_capture::format::Record;
use vor_capture::reader::{Event, Reader};

use crate::sealed::{declarations, frame_payload, kind, put_varint, put_zigzag};
use crate::{decoded, invariants};

/// A payload that is written field by field.
#[derive(Clone, Default)]
pub struct Payload(pub Vec<u8>);

impl Payload {
    pub fn numbers(mut self, numbers: &[u64]) -> Self {
        numbers
            .iter()
            .for_each(|number| put_varint(&mut self.0, *number));
        self
    }

    pub fn zigzag(mut self, number: i64) -> Self {
        put_zigzag(&mut self.0, number);
        self
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn text(self, text: &str) -> Self {
        self.numbers(&[text.len() as u64]).bytes(text.as_bytes())
    }

    /// A column of different numbers.
    pub fn column(mut self, numbers: &[u64]) -> Self {
        assert!(numbers.len() <= 256);
        self.0.push(64);
        numbers
            .iter()
            .for_each(|number| self.0.extend_from_slice(&number.to_le_bytes()));
        self
    }

    /// A column of equal numbers.
    pub fn equal(mut self, count: usize, number: u64) -> Self {
        for _ in 0..count.div_ceil(256) {
            self = self.bytes(&[0, 0]).numbers(&[number]);
        }
        self
    }

    /// The head of a block of the first thread, and the times of its spans.
    pub fn block(self, flags: u8, spans: usize) -> Self {
        let head = self.numbers(&[0]).bytes(&[1 | flags]);
        let head = head.numbers(&[spans as u64]);
        match spans {
            0 => head,
            _ => head.numbers(&[5000]).equal(spans, 3).equal(spans, 7),
        }
    }

    pub fn repeated(mut self, count: usize, bytes: &[u8]) -> Self {
        (0..count).for_each(|_| self.0.extend_from_slice(bytes));
        self
    }
}

/// Flags of a block, as `FORMAT.md` numbers them.
pub const PACKED_SITES: u8 = 1 << 2;
pub const BYTE_SITES: u8 = 2 << 2;
pub const TREE: u8 = 1 << 1;
pub const ARGS: u8 = 1 << 4;
pub const MESSAGES: u8 = 1 << 5;
pub const DROPS: u8 = 1 << 6;
pub const TASKS: u8 = 1 << 7;

/// Makes a file of declarations, a record with this payload, and a frame of it.
pub fn file_with(kind: u8, codec: u8, stored: &[u8]) -> Vec<u8> {
    let mut sealed = declarations();
    sealed.push(kind, stored);
    sealed.records.last_mut().unwrap().stated_codec = Some(codec);
    sealed.push(kind::FRAME, &frame_payload(1, 0));
    sealed.bytes()
}

/// Expects that a payload is refused for a reason, by the decoder and by the reader: it reports the
/// loss, and the frame behind it lacks a record.
#[track_caller]
pub fn refuse_stored(kind: u8, codec: u8, stored: &[u8], reason: &str) {
    let file = file_with(kind, codec, stored);
    let refused = decoded::decode(&file, file.len()).unwrap().refused;
    assert_eq!(refused.len(), 1, "the payload is not refused for: {reason}");
    assert!(refused[0].is_corrupt());
    let found = refused[0].to_string();
    assert!(found.contains(reason), "{found}, not {reason}");
    let mut reader = Reader::new(&file[..]).unwrap();
    let Some(Event::Loss(loss)) = reader.next_event().unwrap() else {
        panic!("the loss is not reported");
    };
    assert_eq!(loss.reason, found);
    let Some(Event::Frame(recovered)) = reader.next_event().unwrap() else {
        panic!("the frame behind the loss is not read");
    };
    assert_eq!(recovered.lost_records, 1);
    assert_eq!(reader.damage().count, 1);
    invariants::records(&file);
}

/// Like [`refuse_stored`], for a payload that is not compressed.
#[track_caller]
pub fn refuse(kind: u8, payload: &Payload, reason: &str) {
    refuse_stored(kind, 0, &payload.0, reason);
}

/// Expects that a payload is decoded; returns the record.
#[track_caller]
pub fn accept_stored(kind: u8, codec: u8, stored: &[u8]) -> Record {
    let file = file_with(kind, codec, stored);
    invariants::records(&file);
    let mut records: Vec<_> = decoded::records(&file).collect();
    let (_, record) = records.swap_remove(records.len() - 2);
    record
}

/// Like [`accept_stored`], for a payload that is not compressed.
#[track_caller]
pub fn accept(kind: u8, payload: &Payload) -> Record {
    accept_stored(kind, 0, &payload.0)
}

/// Expects that the payload of a large batch is decoded.
#[track_caller]
pub fn accept_large(payload: &Payload) {
    let mut sealed = declarations();
    sealed.push(kind::BATCH, &payload.0);
    assert!(
        decoded::decode(&sealed.bytes(), 1 << 20)
            .unwrap()
            .refused
            .is_empty()
    );
}
