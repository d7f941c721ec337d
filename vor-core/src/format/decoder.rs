//! Bytes in, records and damage out.

use super::{Event, Header, Record, RecordHead};
use crate::Error;

/// Reads a capture from pieces of any size.
///
/// It keeps what was pushed and not yet returned: after [`next`](Self::next) returned `None`, at most one unfinished record.
#[derive(Debug, Default)]
pub struct Decoder {}

impl Decoder {
    /// Makes a decoder for a file from its first byte on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a decoder for the records of a file from `offset` on, where a record should begin. Records missing before it are not reported.
    #[must_use]
    pub fn resume_at(header: Header, offset: u64) -> Self {
        let _ = (header, offset);
        Self {}
    }

    /// Takes the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// Returns what comes next, or `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// The file is not a capture, is of another version, or its header is damaged. Every later call fails alike.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end where more bytes are needed"
    )]
    pub fn next(&mut self) -> Result<Option<Event>, Error> {
        Ok(None)
    }

    /// Returns what comes next, taking the bytes at hand for all there are: called until `None`, it searches the rest for
    /// whole records and reports a torn tail. Nothing may be pushed afterwards.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next), and when the file ends within its header.
    pub fn finish(&mut self) -> Result<Option<Event>, Error> {
        Ok(None)
    }

    /// Returns the file header once it was read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        None
    }

    /// Returns whether the end record was read: the file was closed cleanly and does not grow any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        false
    }

    /// Returns the offset of the first byte that was not yet used.
    #[must_use]
    pub fn offset(&self) -> u64 {
        0
    }

    /// Returns how many records are missing so far, by their sequence numbers.
    #[must_use]
    pub fn lost_records(&self) -> u64 {
        0
    }

    /// Returns how many records were of a kind or codec that this version does not know.
    #[must_use]
    pub fn unknown_records(&self) -> u64 {
        0
    }
}

/// Decodes a record whose head was [parsed](RecordHead::parse). Returns `None` for a kind that this version does not know.
///
/// # Errors
///
/// The checksum is wrong, or the payload breaks the rules of its kind.
pub fn decode_payload(header: &Header, head: &RecordHead, payload: &[u8]) -> Result<Option<Record>, Error> {
    let _ = (header, head, payload);
    Ok(None)
}
