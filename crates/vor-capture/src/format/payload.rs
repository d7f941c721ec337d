//! From the payload of a record to its contents.
//!
//! A payload is stored as it is or as one LZ4 block. Batches and events have modules of their own;
//! all other kinds are decoded in [`records`].

use super::batches::BatchCoder;
use super::head::{CODEC_LZ4, CODEC_RAW, kind};
use super::wire::Cursor;
use super::{Header, MAX_PAYLOAD_BYTES, Record, RecordHead, events, records};
use crate::Error;

/// Most bytes that LZ4 can make of one.
const LZ4_RATIO: usize = 255;

/// Decodes the payloads of records, and keeps the buffers for it.
#[derive(Debug, Default)]
pub struct PayloadDecoder {
    /// Made for the first batch: a reader that skips batches needs none.
    batches: Option<Box<BatchCoder>>,
    raw: Vec<u8>,
}

impl PayloadDecoder {
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

    /// Like [`decode`](Self::decode), for a payload whose checksum is known to be right.
    pub(crate) fn decode_verified(
        &mut self,
        head: &RecordHead,
        payload: &[u8],
    ) -> Result<Option<Record>, Error> {
        if !(kind::PROCESS..=kind::SCOPE_MODES).contains(&head.kind) {
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

/// Decodes one record whose head was [parsed](RecordHead::parse). A [`PayloadDecoder`] is faster
/// for several.
///
/// # Errors
///
/// As [`PayloadDecoder::decode`].
pub fn decode_payload(
    header: &Header,
    head: &RecordHead,
    payload: &[u8],
) -> Result<Option<Record>, Error> {
    PayloadDecoder::new().decode(header, head, payload)
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
