//! The archive that the quickstart writes: files in blocks, each compressed on its own, in any
//! order.
//!
//! ```text
//! archive = "vorpack1" | block… | 0xffff
//! block   = path_len u16 | path | offset u64 | raw_len u32 | packed_len u32 | packed
//! ```
//!
//! Integers are little-endian, and `packed` is a raw LZ4 block. Every block names its file, so
//! blocks need no order and the archive needs no table.

use std::io::{self, Write};

const MAGIC: &[u8; 8] = b"vorpack1";
/// Takes the place of `path_len` after the last block.
const END: u16 = u16::MAX;

/// A piece of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Path of the file below the packed folder, with `/` between its parts. Bytes that are not
    /// UTF-8 are replaced.
    pub path: String,
    /// The start of the piece in the file, in bytes.
    pub offset: u64,
    /// The number of bytes before compression.
    pub raw_len: u32,
    /// The content: raw before the compressor, packed after it.
    pub bytes: Vec<u8>,
}

/// Writes an archive.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Starts an archive.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out })
    }

    /// Appends a packed block, and returns its size in the archive.
    pub fn put(&mut self, block: &Block) -> io::Result<u64> {
        let path = block.path.as_bytes();
        let too_long = |what| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{}: {what} is too long", block.path),
            )
        };
        let path_len = u16::try_from(path.len())
            .ok()
            .filter(|len| *len != END)
            .ok_or_else(|| too_long("the path"))?;
        let packed_len = u32::try_from(block.bytes.len()).map_err(|_| too_long("a block"))?;
        let mut head = Vec::with_capacity(18 + path.len());
        head.extend(path_len.to_le_bytes());
        head.extend(path);
        head.extend(block.offset.to_le_bytes());
        head.extend(block.raw_len.to_le_bytes());
        head.extend(packed_len.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(&block.bytes)?;
        Ok(head.len() as u64 + u64::from(packed_len))
    }

    /// Ends the archive.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&END.to_le_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Reads an archive back: contents by path.
    pub fn unpack(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut rest = archive.strip_prefix(MAGIC).expect("the magic");
        let mut take = |n: usize| {
            let (head, tail) = rest.split_at(n);
            rest = tail;
            head
        };
        let mut files = BTreeMap::<String, Vec<u8>>::new();
        loop {
            let path_len = u16::from_le_bytes(take(2).try_into().unwrap());
            if path_len == END {
                break;
            }
            let path = String::from_utf8(take(path_len.into()).to_vec()).unwrap();
            let offset = u64::from_le_bytes(take(8).try_into().unwrap()) as usize;
            let raw_len = u32::from_le_bytes(take(4).try_into().unwrap()) as usize;
            let packed_len = u32::from_le_bytes(take(4).try_into().unwrap()) as usize;
            let raw = lz4_flex::block::decompress(take(packed_len), raw_len).unwrap();
            let content = files.entry(path).or_default();
            content.resize(content.len().max(offset + raw.len()), 0);
            content[offset..][..raw.len()].copy_from_slice(&raw);
        }
        assert!(rest.is_empty(), "{} bytes after the end", rest.len());
        files
    }
}
