//! Columns of numbers as groups of 256, bit-packed above a base, with patched exceptions.
//!
//! ```text
//! group = width u8 | exceptions u8 | base varint | packed |
//!         positions u8 × exceptions | high parts varint × exceptions
//! ```
//!
//! Within a group every value is `base + low + (high << width)`: `low` has `width` bits and is
//! packed, `high` is zero except for the exceptions. The width is the one for which the group is
//! smallest. A full group is packed in the interleaved order of [`lanes`](super::lanes), eight
//! values at a time; the last, shorter group of a column one value after the other, lowest bit
//! first, since padding it to 256 would cost a batch of ten spans more than its content. Width 64
//! stands for plain values, 8 bytes each, without base or exceptions.

use super::lanes::{self, GROUP};
use super::wire::{Cursor, put_varint};
use crate::Error;

/// Approximate bits of an exception: a position, and a high part of one byte or two.
const EXCEPTION_BITS: u32 = 18;
/// The width that stands for unpacked values.
const WIDTH_PLAIN: u8 = 64;
/// Widest packed value.
const WIDTH_MAX: u32 = 32;

/// The columns of a block. Each remembers its last width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Spans that end inside each span.
    Children,
    /// Times between an end and the next start.
    Gaps,
    Durations,
    /// Times from the start of a span to that of its first child.
    Leads,
}

/// Packs columns, and keeps the buffers for it.
#[derive(Clone)]
pub(super) struct Packer {
    low: [u32; GROUP],
    /// The widths of the last groups that were shorter than a full one, by [`Column`].
    short_widths: [u32; 4],
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self {
            low: [0; GROUP],
            short_widths: [0; 4],
        }
    }
}

impl Packer {
    /// Appends a column.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, column: Column, values: &[u64]) {
        for group in values.chunks(GROUP) {
            self.put_group(out, column, group);
        }
    }

    fn put_group(&mut self, out: &mut Vec<u8>, column: Column, values: &[u64]) {
        let low = &mut self.low[..values.len()];
        let (base, range_bits) = lower(values, low);
        let width = if values.len() == GROUP {
            best_width(values, low, base, range_bits)
        } else {
            // The groups of many short batches in a row are alike.
            let last = &mut self.short_widths[column as usize];
            *last = width_near(*last, low, range_bits)
                .unwrap_or_else(|| best_width(values, low, base, range_bits));
            *last
        };
        if width == u32::from(WIDTH_PLAIN) {
            out.push(WIDTH_PLAIN);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            return;
        }
        out.push(width as u8);
        let exceptions_at = out.len();
        out.push(0);
        put_varint(out, base);
        put_bits(out, low, width);
        if width < range_bits {
            // The places of exceptions cannot be predicted, so every position is stored and only
            // the count depends on the value.
            let mut positions = [0_u8; GROUP];
            let mut count = 0;
            for (at, value) in values.iter().enumerate() {
                positions[count % GROUP] = at as u8;
                count += usize::from((value - base) >> width != 0);
            }
            let positions = &positions[..count];
            out[exceptions_at] = count as u8;
            out.extend_from_slice(positions);
            for &at in positions {
                put_varint(out, (values[usize::from(at)] - base) >> width);
            }
        }
    }
}

/// Appends values below `2^width` without a head of their own.
pub(super) fn put_fixed(out: &mut Vec<u8>, values: &[u32], width: u8) {
    for group in values.chunks(GROUP) {
        put_bits(out, group, u32::from(width));
    }
}

/// Reads a column into `values`, which it fills.
pub(super) fn get(cursor: &mut Cursor<'_>, values: &mut [u64]) -> Result<(), Error> {
    for group in values.chunks_mut(GROUP) {
        get_group(cursor, group)?;
    }
    Ok(())
}

fn get_group(cursor: &mut Cursor<'_>, values: &mut [u64]) -> Result<(), Error> {
    let width = cursor.u8()?;
    if width == WIDTH_PLAIN {
        let plain = cursor.take(values.len() * 8)?;
        for (value, bytes) in values.iter_mut().zip(plain.as_chunks::<8>().0) {
            *value = u64::from_le_bytes(*bytes);
        }
        return Ok(());
    }
    let exceptions = usize::from(cursor.u8()?);
    let base = cursor.varint()?;
    get_bits(cursor, values, width, |low| {
        base.wrapping_add(u64::from(low))
    })?;
    for &at in cursor.take(exceptions)? {
        let high = cursor.varint()?;
        let Some(value) = values.get_mut(usize::from(at)) else {
            return Err(Error::corrupt(format!(
                "an exception is at {at} of {} values",
                values.len()
            )));
        };
        *value = value.wrapping_add(high << width);
    }
    Ok(())
}

/// Reads the values that [`put_fixed`] wrote.
pub(super) fn get_fixed(
    cursor: &mut Cursor<'_>,
    values: &mut [u32],
    width: u8,
) -> Result<(), Error> {
    for group in values.chunks_mut(GROUP) {
        get_bits(cursor, group, width, |value| value)?;
    }
    Ok(())
}

/// Returns the least value and how many bits the greatest one has above it, and fills `low` with
/// the values above the least, cut to 32 bits.
///
/// Values of at most 31 bits, as nearly all are, are compared as `i32`: half the bytes, and the one
/// kind of comparison that every vector unit has.
fn lower(values: &[u64], low: &mut [u32]) -> (u64, u32) {
    let (mut any, mut base) = (0, i32::MAX);
    for (low, &value) in low.iter_mut().zip(values) {
        *low = value as u32;
        any |= value;
        base = base.min(value as i32);
    }
    if any >> 31 == 0 {
        let mut bits = 0;
        for low in low {
            *low -= base as u32;
            bits |= *low;
        }
        return (base as u64, u32::BITS - bits.leading_zeros());
    }
    let (mut base, mut max) = (u64::MAX, 0);
    for &value in values {
        base = base.min(value);
        max = max.max(value);
    }
    low.iter_mut()
        .for_each(|low| *low = low.wrapping_sub(base as u32));
    (base, u64::BITS - (max - base).leading_zeros())
}

/// Returns the width at which a group is smallest. `low` holds the values above the base, cut to 32
/// bits; the largest has `range_bits`.
///
/// Most groups are narrow noise, where the widest values are too many to be exceptions: a few
/// comparisons of the whole group, which compile to vector code, then settle the width. Only groups
/// with outliers need the histogram.
fn best_width(values: &[u64], low: &[u32], base: u64, range_bits: u32) -> u32 {
    if range_bits <= WIDTH_MAX {
        let len = low.len() as u32;
        let (mut best, mut best_bits) = (range_bits, range_bits * len);
        for width in (0..range_bits).rev().take(COMPARISONS) {
            let limit = 1_u32 << width;
            let exceptions: u32 = low.iter().map(|&low| u32::from(low >= limit)).sum();
            // Every narrower width has at least these exceptions. Beyond a sixth of the group they
            // cost more than three bits of width give back, and distributions that win with four
            // are too rare to look for.
            if exceptions * 6 > len {
                return best;
            }
            let bits = width * len + exceptions * EXCEPTION_BITS;
            if bits < best_bits {
                (best, best_bits) = (width, bits);
            }
        }
        if range_bits as usize <= COMPARISONS {
            return best;
        }
    }
    width_by_histogram(values, base, range_bits)
}

/// Returns the best of the widths around one that was the best before; `None` where more than a
/// sixth of the group would be exceptions, and a wider one may be better.
fn width_near(near: u32, low: &[u32], range_bits: u32) -> Option<u32> {
    if range_bits >= WIDTH_MAX {
        return None;
    }
    let len = low.len() as u32;
    let with_size = |width: u32| {
        // A loop for each width: one for all does not compile to vector code.
        let exceptions: u32 = low.iter().map(|&low| u32::from(low >> width != 0)).sum();
        (width * len + exceptions * EXCEPTION_BITS, exceptions, width)
    };
    let near = near.min(range_bits);
    let mut best = with_size(near);
    if best.1 * EXCEPTION_BITS > len {
        // One bit more for each value may cost less than these exceptions.
        best = best.min(with_size(near + 1));
    } else if near > 0 {
        best = best.min(with_size(near - 1));
    }
    let (_, exceptions, width) = best;
    (exceptions * 6 <= len).then_some(width)
}

/// How many widths are tried one by one: about as many as the histogram costs.
const COMPARISONS: usize = 6;

fn width_by_histogram(values: &[u64], base: u64, range_bits: u32) -> u32 {
    // Four histograms, since in a single one equal lengths in a row would wait for one another.
    let mut lengths = [[0_u32; 65]; 4];
    for (i, &value) in values.iter().enumerate() {
        lengths[i & 3][(64 - (value - base).leading_zeros()) as usize] += 1;
    }
    let len = values.len() as u32;
    let (mut best, mut best_bits) = (u32::from(WIDTH_PLAIN), len * 64);
    let (mut exceptions, mut high_bytes) = (0, 0);
    for width in (0..=range_bits).rev() {
        // A high part grows by a byte about every seven bits.
        let bits = width * len + exceptions * EXCEPTION_BITS + high_bytes * 8;
        if width <= WIDTH_MAX && exceptions <= 255 && bits < best_bits {
            (best, best_bits) = (width, bits);
        }
        exceptions += lengths
            .iter()
            .map(|lengths| lengths[width as usize])
            .sum::<u32>();
        if (range_bits - width) % 7 == 6 {
            high_bytes += exceptions;
        }
    }
    best
}

/// Appends the lowest `width` bits of each value of a group.
fn put_bits(out: &mut Vec<u8>, values: &[u32], width: u32) {
    if width == 0 {
        return;
    }
    if let Ok(group) = values.try_into() {
        lanes::pack(out, group, width);
        return;
    }
    // As many values at once as fit 64 bits beside those of a byte that is not full.
    match width {
        ..=14 => put_chunks::<4>(out, values, width),
        15..=28 => put_chunks::<2>(out, values, width),
        29.. => put_chunks::<1>(out, values, width),
    }
}

/// Like [`put_bits`], `N` values at a time: their bits are at most 57.
fn put_chunks<const N: usize>(out: &mut Vec<u8>, values: &[u32], width: u32) {
    let end = out.len() + (values.len() * width as usize).div_ceil(8);
    let mut at = out.len();
    // Room for whole words.
    out.resize(end + size_of::<u64>(), 0);
    let mask = (1_u64 << width) - 1;
    let (mut bits, mut filled) = (0_u64, 0);
    let mut put = |values: &[u32]| {
        let joined = values.iter().rev().fold(0, |joined, &value| {
            joined << width | u64::from(value) & mask
        });
        bits |= joined << filled;
        out[at..at + size_of::<u64>()].copy_from_slice(&bits.to_le_bytes());
        let total = filled + width * values.len() as u32;
        at += total as usize / 8;
        bits >>= total & !7;
        filled = total & 7;
    };
    let (chunks, rest) = values.as_chunks::<N>();
    chunks.iter().for_each(|chunk| put(chunk));
    rest.iter()
        .for_each(|value| put(std::slice::from_ref(value)));
    out.truncate(end);
}

/// Fills a group with the converted numbers that [`put_bits`] wrote.
fn get_bits<T: Copy>(
    cursor: &mut Cursor<'_>,
    values: &mut [T],
    width: u8,
    convert: impl Fn(u32) -> T,
) -> Result<(), Error> {
    let width = u32::from(width);
    if width > WIDTH_MAX {
        return Err(Error::corrupt(format!(
            "packed integers are {width} bits wide, more than 32"
        )));
    }
    if width == 0 {
        values.fill(convert(0));
        return Ok(());
    }
    let packed = cursor.take((values.len() * width as usize).div_ceil(8))?;
    if let Ok(group) = (&mut *values).try_into() {
        lanes::unpack(packed, group, width, convert);
        return Ok(());
    }
    let mask = (1_u64 << width) - 1;
    let (mut bits, mut filled) = (0_u64, 0);
    let mut packed = packed.iter();
    for value in values {
        while filled < width {
            // The slice was taken for exactly these values, so it does not run out; a zero could
            // not be distinguished if it did.
            bits |= u64::from(packed.next().copied().unwrap_or(0)) << filled;
            filled += 8;
        }
        *value = convert((bits & mask) as u32);
        bits >>= width;
        filled -= width;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(values: &[u64]) -> usize {
        round_trip_near(values, 0)
    }

    /// As [`round_trip`], behind a group for which a width was the best.
    fn round_trip_near(values: &[u64], near: u32) -> usize {
        let mut packer = Packer::default();
        packer.short_widths[Column::Gaps as usize] = near;
        let mut bytes = Vec::new();
        packer.put(&mut bytes, Column::Gaps, values);
        let mut back = vec![1; values.len()];
        let mut cursor = Cursor::new(&bytes);
        get(&mut cursor, &mut back).unwrap();
        assert!(cursor.is_empty());
        assert_eq!(back, values);
        bytes.len()
    }

    fn any_value() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => 0..20_u64,
            4 => 500..3000_u64,
            1 => any::<u64>(),
            1 => (0..64_u32, any::<bool>())
                .prop_map(|(bit, minus)| (1_u64 << bit).wrapping_sub(u64::from(minus))),
        ]
    }

    proptest! {
        #[test]
        fn columns_round_trip(values in prop::collection::vec(any_value(), 0..600)) {
            round_trip(&values);
        }

        #[test]
        fn short_groups_round_trip_near_any_width(
            values in prop::collection::vec(any_value(), 1..GROUP),
            near in 0..=64_u32,
        ) {
            round_trip_near(&values, near);
        }

        /// A few groups after its numbers change, a column is packed as if it had always been as it
        /// is now.
        #[test]
        fn widths_follow_the_packed_values(bits in 0..30_u32, near in 0..=64_u32, seed: u64) {
            let value =
                |i: u64| (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits.max(1));
            let values: Vec<u64> = (0..100).map(value).collect();
            let mut packer = Packer::default();
            let alone = {
                let mut bytes = Vec::new();
                packer.put(&mut bytes, Column::Gaps, &values);
                bytes.len()
            };
            packer.short_widths[Column::Gaps as usize] = near;
            let mut bytes = Vec::new();
            for _ in 0..32 {
                bytes.clear();
                packer.put(&mut bytes, Column::Gaps, &values);
            }
            prop_assert!(bytes.len() <= alone + 4, "{} and {alone}", bytes.len());
        }

        #[test]
        fn wild_columns_round_trip(values in prop::collection::vec(any::<u64>(), 0..600)) {
            round_trip(&values);
        }

        #[test]
        fn fixed_columns_round_trip(width in 0..=32_u8, seed: Vec<u32>, len in 0..600_usize) {
            let mask = ((1_u64 << width) - 1) as u32;
            let values: Vec<u32> = (0..len)
                .map(|i| seed.get(i).copied().unwrap_or(i as u32 * 77) & mask)
                .collect();
            let mut bytes = Vec::new();
            put_fixed(&mut bytes, &values, width);
            let mut back = vec![1; len];
            get_fixed(&mut Cursor::new(&bytes), &mut back, width).unwrap();
            prop_assert_eq!(back, values);
        }

        #[test]
        fn hostile_columns_are_values_or_errors(bytes: Vec<u8>, len in 0..600_usize) {
            let mut back = vec![0; len];
            let _ = get(&mut Cursor::new(&bytes), &mut back);
        }
    }

    #[test]
    fn one_outlier_does_not_widen_its_group() {
        let mut values = vec![5_u64; GROUP];
        for (i, value) in values.iter_mut().enumerate() {
            *value += i as u64 % 8;
        }
        let narrow = round_trip(&values);
        values[77] = u64::MAX;
        assert!(round_trip(&values) <= narrow + 12);
    }

    #[test]
    fn equal_values_take_no_bits() {
        assert!(round_trip(&[1 << 60; GROUP]) <= 12);
        assert!(round_trip(&[3; 10]) <= 3);
    }
}
