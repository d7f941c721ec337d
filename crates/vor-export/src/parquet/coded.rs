//! Columns of few distinct values: a dictionary, and a code per row.
//!
//! Names, files, threads and frames repeat from row to row, and a table has a small number for
//! each before it has its text. The `parquet` crate accepts texts, and hashes each to find its
//! code again, which costs more than the rest of a row. So this module encodes such a column from
//! the codes: a dictionary page of plain values, and a data page of codes in the format's hybrid of
//! runs and bit-packed groups.
//!
//! ```text
//! data page  = [presence: u32 length, runs of 1 bit]  bits of a code: u8  codes
//! codes      = ( varint(count << 1)       value in whole bytes     // the value, count times
//!              | varint(groups << 1 | 1)  groups × 8 packed codes  // lowest bit first
//!              )*
//! ```
//!
//! Only a nullable column has the presence. Pages are not compressed: codes leave little
//! redundancy.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::proto::put_varint;

/// The code of a row without a value.
pub(super) const NULL: u32 = u32::MAX;

/// Runs below this length are packed: a head and a value take about as many bytes.
const MIN_RUN_LENGTH: usize = 16;

/// The values of a column, by code.
#[derive(Clone, Debug)]
pub enum Dictionary<'a> {
    Texts(Vec<&'a str>),
    Ints(Vec<i64>),
}

/// Encodes a column chunk of one page. Returns its bytes and their description for the row group.
///
/// `codes` are below the dictionary's length, or [`NULL`] in a nullable column.
pub(super) fn encode(
    column: ColumnDescPtr,
    codes: &[u32],
    dictionary: &Dictionary<'_>,
) -> Result<(Bytes, ColumnCloseResult)> {
    let rows = codes.len();
    let mut page = Vec::new();
    let mut present = Vec::new();
    let mut nulls = 0;
    if column.max_def_level() > 0 {
        nulls = codes.iter().filter(|&&code| code == NULL).count();
        page.extend_from_slice(&[0; 4]);
        if nulls == 0 {
            push_run(&mut page, 1, 1, rows);
        } else {
            let presence: Vec<u32> = codes.iter().map(|&code| u32::from(code != NULL)).collect();
            push_hybrid(&mut page, 1, &presence);
            present.extend(codes.iter().filter(|&&code| code != NULL));
        }
        let bytes = page.len() as u32 - 4;
        page[..4].copy_from_slice(&bytes.to_le_bytes());
    }
    let codes = if nulls > 0 { &present } else { codes };
    // The format allows codes of no bits, but few writers use them.
    let bits = (u32::BITS - (dictionary.len() as u32).saturating_sub(1).leading_zeros()).max(1);
    page.push(bits as u8);
    push_hybrid(&mut page, bits, codes);

    let mut sink = TrackedWrite::new(Vec::new());
    let mut pages = SerializedPageWriter::new(&mut sink);
    let values = dictionary.plain();
    let bytes = values.len();
    let dictionary_page = Page::DictionaryPage {
        buf: values.into(),
        num_values: dictionary.len() as u32,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    let dictionary_spec = pages.write_page(CompressedPage::new(dictionary_page, bytes))?;
    let bytes = page.len();
    let data_page = Page::DataPage {
        buf: page.into(),
        num_values: rows as u32,
        encoding: Encoding::RLE_DICTIONARY,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let data_spec = pages.write_page(CompressedPage::new(data_page, bytes))?;
    pages.close()?;
    let bytes = sink.into_inner()?;
    let metadata = ColumnChunkMetaData::builder(column)
        .set_encodings(vec![
            Encoding::PLAIN,
            Encoding::RLE,
            Encoding::RLE_DICTIONARY,
        ])
        .set_compression(Compression::UNCOMPRESSED)
        .set_num_values(rows as i64)
        .set_total_compressed_size(bytes.len() as i64)
        .set_total_uncompressed_size(bytes.len() as i64)
        .set_dictionary_page_offset(Some(dictionary_spec.offset as i64))
        .set_data_page_offset(data_spec.offset as i64)
        .set_statistics(dictionary.statistics(nulls as u64))
        .build()?;
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((bytes.into(), close))
}

impl Dictionary<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Ints(ints) => ints.len(),
        }
    }

    fn plain(&self) -> Vec<u8> {
        match self {
            Self::Texts(texts) => {
                let mut plain = Vec::new();
                for text in texts {
                    plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    plain.extend_from_slice(text.as_bytes());
                }
                plain
            }
            Self::Ints(ints) => ints.iter().flat_map(|int| int.to_le_bytes()).collect(),
        }
    }

    /// Returns the least and the greatest value, by which readers skip row groups. Every value of
    /// the dictionary is in some row.
    fn statistics(&self, nulls: u64) -> Statistics {
        match self {
            Self::Texts(texts) => {
                let bytes = |text: Option<&&str>| text.map(|text| ByteArray::from(*text));
                let (least, greatest) = (bytes(texts.iter().min()), bytes(texts.iter().max()));
                Statistics::byte_array(least, greatest, None, Some(nulls), false)
            }
            Self::Ints(ints) => {
                let (least, greatest) = (ints.iter().min(), ints.iter().max());
                Statistics::int64(least.copied(), greatest.copied(), None, Some(nulls), false)
            }
        }
    }
}

/// Appends values of at most `bits` bits each, in runs and packed groups.
fn push_hybrid(out: &mut Vec<u8>, bits: u32, values: &[u32]) {
    let mut unwritten = 0;
    let mut at = 0;
    while at < values.len() {
        let value = values[at];
        let length = values[at..]
            .iter()
            .position(|&other| other != value)
            .unwrap_or(values.len() - at);
        // A packed group has eight values, so the values before a run are completed from the run.
        let lacking = (at - unwritten).wrapping_neg() % 8;
        if length >= lacking + MIN_RUN_LENGTH {
            push_packed(out, bits, &values[unwritten..at + lacking]);
            push_run(out, bits, value, length - lacking);
            unwritten = at + length;
        }
        at += length;
    }
    push_packed(out, bits, &values[unwritten..]);
}

/// Appends the same value `count` times.
fn push_run(out: &mut Vec<u8>, bits: u32, value: u32, count: usize) {
    put_varint(out, (count as u64) << 1);
    out.extend_from_slice(&value.to_le_bytes()[..bits.div_ceil(8) as usize]);
}

/// Appends packed values; zeros fill the last group.
fn push_packed(out: &mut Vec<u8>, bits: u32, values: &[u32]) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    put_varint(out, (groups as u64) << 1 | 1);
    let end = out.len() + groups * bits as usize;
    let (mut word, mut filled) = (0_u64, 0);
    for &value in values {
        word |= u64::from(value) << filled;
        filled += bits;
        if filled >= u32::BITS {
            out.extend_from_slice(&(word as u32).to_le_bytes());
            word >>= u32::BITS;
            filled -= u32::BITS;
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
    out.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes the hybrid as the format's specification describes it.
    fn read(bytes: &[u8], bits: usize, count: usize) -> Vec<u32> {
        let mut values = Vec::new();
        let mut at = 0;
        while values.len() < count {
            let (mut head, mut shift) = (0, 0);
            loop {
                let byte = bytes[at];
                at += 1;
                head |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let bit = |i: usize| u32::from(bytes[at + i / 8] >> (i % 8) & 1);
            let value = |from: usize| (0..bits).fold(0, |value, i| value | bit(from + i) << i);
            if head & 1 == 0 {
                values.extend(std::iter::repeat_n(value(0), head >> 1));
                at += bits.div_ceil(8);
            } else {
                values.extend((0..(head >> 1) * 8).map(|i| value(i * bits)));
                at += (head >> 1) * bits;
            }
        }
        assert_eq!(at, bytes.len(), "nothing is left over");
        assert!(values.len() < count + 8, "only the last group is padded");
        values.truncate(count);
        values
    }

    proptest! {
        #[test]
        fn codes_read_back(
            runs in proptest::collection::vec((any::<u32>(), 1_usize..60), 0..60),
            bits in 1_u32..=32,
        ) {
            let mask = u32::MAX >> (32 - bits);
            let values: Vec<u32> = runs.iter().flat_map(|&(value, n)| {
                std::iter::repeat_n(value & mask, if n > 40 { n } else { n % 4 })
            }).collect();
            let mut bytes = Vec::new();
            push_hybrid(&mut bytes, bits, &values);
            prop_assert_eq!(read(&bytes, bits as usize, values.len()), values);
        }
    }

    #[test]
    fn a_run_costs_a_few_bytes() {
        let mut bytes = Vec::new();
        push_hybrid(&mut bytes, 5, &[7; 100_000]);
        assert_eq!(bytes.len(), 4);
    }

    #[test]
    fn a_run_behind_other_values_costs_a_few_bytes() {
        let mut values = vec![1, 2, 3];
        values.resize(1_003, 7);
        let mut bytes = Vec::new();
        push_hybrid(&mut bytes, 5, &values);
        // A group of eight values of 5 bits with its head, and a run of the other 995.
        assert_eq!(bytes.len(), (1 + 5) + (2 + 1));
    }

    #[test]
    fn values_that_do_not_repeat_are_packed() {
        let values: Vec<u32> = (0..80).map(|i| i % 32).collect();
        let mut bytes = Vec::new();
        push_hybrid(&mut bytes, 5, &values);
        assert_eq!(bytes.len(), 1 + 80 * 5 / 8);
    }
}
