//! Records in, bytes out.

use super::{Header, Index, RecordRef};
use crate::catalog::Catalog;

/// Writes a capture, piece by piece, into buffers of the caller.
///
/// The pieces must reach the file in the order in which they were made: sequence numbers, offsets and the index count on it.
#[derive(Debug)]
pub struct Encoder {
    header: Header,
    offset: u64,
}

impl Encoder {
    /// Makes an encoder for a new file.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self { header, offset: 0 }
    }

    /// Appends the file header to `out`. Called once, first.
    pub fn header(&mut self, out: &mut Vec<u8>) {
        let before = out.len();
        self.header.encode(out);
        self.offset += (out.len() - before) as u64;
    }

    /// Appends a record to `out`: declarations twice, a large batch as several records.
    pub fn encode(&mut self, record: RecordRef<'_>, out: &mut Vec<u8>) {
        let _ = (record, out);
    }

    /// Appends everything of `catalog` once more, the index and the end record. Nothing may follow.
    pub fn close(&mut self, catalog: &Catalog, out: &mut Vec<u8>) {
        let _ = (catalog, out);
    }

    /// Returns how many bytes have been made: the length of the file when all of them were written.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the index as it would be written now.
    #[must_use]
    pub fn index(&self) -> Index {
        Index::default()
    }
}
