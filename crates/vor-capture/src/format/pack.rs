//! Columns of numbers as groups of 256, bit-packed above a base, with patched exceptions.
//!
//! ```text
//! group = width u8 | exceptions u8 | base varint | packed |
//!         positions u8 × exceptions | high parts varint × exceptions
//! ```
//!
//! Within a group every value is `base + low + (high << width)`: `low` has `width` bits and is
//! packed, `high` is zero except for the exceptions. Base and width are those for which the group
//! is smallest, or those of the group before it if they fit. A full group is packed in the
//! interleaved order of [`lanes`](super::lanes), eight values at a time; the last, shorter group of
//! a column one value after the other, lowest bit first, since padding it to 256 would cost a batch
//! of ten spans more than its content. Width 64 stands for plain values, 8 bytes each, without base
//! or exceptions.

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
    /// The shapes of the last full groups, by [`Column`].
    kept: [Option<KeptShape>; 4],
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
            kept: [None; 4],
            short_widths: [0; 4],
        }
    }
}

impl Packer {
    /// Appends a column.
    ///
    /// The groups of a column are alike, so the shape of one is kept for those behind it while it
    /// fits: finding it takes longer than packing does.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, column: Column, values: &[u64]) {
        let (groups, rest) = values.as_chunks::<GROUP>();
        for (at, group) in groups.iter().enumerate() {
            let kept = &mut self.kept[column as usize];
            let fitting = kept
                .as_mut()
                .and_then(|kept| kept.fit(group, &mut self.low));
            let shape = fitting.unwrap_or_else(|| {
                let range = lower(group, &mut self.low);
                let shape = range.with_width(best_width(group, &self.low, range));
                // The first gap of a block is 0, unlike all others.
                if at > 0 || column != Column::Gaps {
                    *kept = Some(KeptShape { shape, uses: 0 });
                }
                shape
            });
            put_group(out, group, &self.low, shape);
        }
        if !rest.is_empty() {
            let low = &mut self.low[..rest.len()];
            let range = lower(rest, low);
            // The groups of many short batches in a row are alike.
            let last = &mut self.short_widths[column as usize];
            *last =
                width_near(*last, low, range.bits).unwrap_or_else(|| best_width(rest, low, range));
            put_group(out, rest, low, range.with_width(*last));
        }
    }
}

/// The least value of a group, and how many bits the greatest one has above it.
#[derive(Clone, Copy, Debug)]
struct Range {
    base: u64,
    bits: u32,
}

impl Range {
    fn with_width(self, width: u32) -> Shape {
        Shape {
            base: self.base,
            width,
            has_exceptions: width < self.bits,
        }
    }
}

/// The way in which a group is packed.
#[derive(Clone, Copy, Debug)]
struct Shape {
    base: u64,
    width: u32,
    /// Whether values may be wider.
    has_exceptions: bool,
}

/// A shape that was the best for a group.
#[derive(Clone, Copy, Debug)]
struct KeptShape {
    shape: Shape,
    /// Number of groups that it was tried for since.
    uses: u32,
}

/// Groups after which a kept shape is found anew: by then a higher base may be better.
const MAX_USES: u32 = 16;

impl KeptShape {
    /// Returns the shape for a group if no width one bit narrower or wider would be better, and
    /// fills `low` with the values above the base.
    ///
    /// Only values of at most 31 bits are compared, as `i32`: see [`lower`].
    fn fit(&mut self, values: &[u64; GROUP], low: &mut [u32; GROUP]) -> Option<Shape> {
        let Shape { base, width, .. } = self.shape;
        if self.uses == MAX_USES || base >> 31 != 0 || width >= 31 {
            return None;
        }
        self.uses += 1;
        let limit = (1_i32 << width) - 1;
        let any = narrow(values, low);
        let (mut any_low, mut exceptions, mut widest) = (0, 0, 0);
        for low in low {
            *low = low.wrapping_sub(base as u32);
            any_low |= *low;
            exceptions += u32::from(*low as i32 > limit);
            widest += u32::from(*low as i32 > limit >> 1);
        }
        // A value below the base has the highest bit.
        let are_above = (any | u64::from(any_low)) >> 31 == 0;
        let is_wide_enough = exceptions * EXCEPTION_BITS <= GROUP as u32;
        let is_narrow = width == 0 || (widest - exceptions) * EXCEPTION_BITS >= GROUP as u32;
        (are_above && is_wide_enough && is_narrow).then_some(Shape {
            has_exceptions: exceptions > 0,
            ..self.shape
        })
    }
}

/// Appends a group. `low` holds its values above the base, cut to 32 bits.
fn put_group(out: &mut Vec<u8>, values: &[u64], low: &[u32], shape: Shape) {
    let Shape { base, width, .. } = shape;
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
    if shape.has_exceptions {
        let mut positions = [0; GROUP];
        let positions = exceptions(values, shape, &mut positions);
        out[exceptions_at] = positions.len() as u8;
        out.extend_from_slice(positions);
        for &at in positions {
            put_varint(out, (values[usize::from(at)] - base) >> width);
        }
    }
}

/// Finds the values of a group that are wider than its shape, and returns their positions.
///
/// Where they are cannot be predicted, so both loops store every position, and only the count
/// depends on the values.
fn exceptions<'a>(values: &[u64], shape: Shape, positions: &'a mut [u8; GROUP]) -> &'a [u8] {
    let Shape { base, width, .. } = shape;
    let mut count = 0;
    let mut put = |from: usize, values: &[u64]| {
        for (i, value) in values.iter().enumerate() {
            positions[count % GROUP] = (from + i) as u8;
            count += usize::from((value - base) >> width != 0);
        }
    };
    let (rows, rest) = values.as_chunks::<ROW>();
    let mut high_rows = [0; GROUP / ROW];
    let mut high_count = 0;
    for (at, row) in rows.iter().enumerate() {
        high_rows[high_count % high_rows.len()] = at;
        let any = row.iter().fold(0, |any, value| any | (value - base));
        high_count += usize::from(any >> width != 0);
    }
    for &row in &high_rows[..high_count] {
        put(row * ROW, &rows[row]);
    }
    put(rows.len() * ROW, rest);
    &positions[..count]
}

/// Values that are searched for exceptions together.
const ROW: usize = 8;

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

/// Returns the range of a group, and fills `low` with the values above the least, cut to 32 bits.
///
/// Values of at most 31 bits, as nearly all are, are compared as `i32`: half the bytes, and the one
/// kind of comparison that every vector unit has.
fn lower(values: &[u64], low: &mut [u32]) -> Range {
    if narrow(values, low) >> 31 == 0 {
        let base = low.iter().fold(i32::MAX, |base, &low| base.min(low as i32));
        let mut bits = 0;
        for low in low {
            *low -= base as u32;
            bits |= *low;
        }
        return Range {
            base: base as u64,
            bits: u32::BITS - bits.leading_zeros(),
        };
    }
    let (mut base, mut max) = (u64::MAX, 0);
    for &value in values {
        base = base.min(value);
        max = max.max(value);
    }
    low.iter_mut()
        .for_each(|low| *low = low.wrapping_sub(base as u32));
    Range {
        base,
        bits: u64::BITS - (max - base).leading_zeros(),
    }
}

/// Fills `low` with the lowest 32 bits of values, and returns which bits any of them has.
///
/// These are loops of their own: a loop over values of two sizes compiles to vectors that are half
/// empty.
fn narrow(values: &[u64], low: &mut [u32]) -> u64 {
    for (low, &value) in low.iter_mut().zip(values) {
        *low = value as u32;
    }
    values.iter().fold(0, |any, value| any | value)
}

/// Returns the width at which a group is smallest. `low` holds the values above the base, cut to 32
/// bits.
///
/// Most groups are narrow noise, where the widest values are too many to be exceptions: a few
/// comparisons of the whole group, which compile to vector code, then settle the width. Only groups
/// with outliers need the histogram.
fn best_width(values: &[u64], low: &[u32], range: Range) -> u32 {
    let range_bits = range.bits;
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
    width_by_histogram(values, range)
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

fn width_by_histogram(values: &[u64], range: Range) -> u32 {
    // Four histograms, since in a single one equal lengths in a row would wait for one another.
    let mut lengths = [[0_u32; 65]; 4];
    for (i, &value) in values.iter().enumerate() {
        lengths[i & 3][(64 - (value - range.base).leading_zeros()) as usize] += 1;
    }
    let len = values.len() as u32;
    let (mut best, mut best_bits) = (u32::from(WIDTH_PLAIN), len * 64);
    let (mut exceptions, mut high_bytes) = (0, 0);
    for width in (0..=range.bits).rev() {
        // A high part grows by a byte about every seven bits.
        let bits = width * len + exceptions * EXCEPTION_BITS + high_bytes * 8;
        // The least value is no exception, so their number fits a byte.
        if width <= WIDTH_MAX && bits < best_bits {
            (best, best_bits) = (width, bits);
        }
        exceptions += lengths
            .iter()
            .map(|lengths| lengths[width as usize])
            .sum::<u32>();
        if (range.bits - width) % 7 == 6 {
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

    /// Returns a number of at most `bits` bits.
    fn noise(i: u64, bits: u32) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits.max(1))
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

        /// The numbers change where a group has the shape of the one before it.
        #[test]
        fn columns_that_change_round_trip(
            bases in prop::collection::vec((any_value(), 0..34_u32, 1..600_usize), 1..6),
            seed: u64,
        ) {
            let parts = bases.iter().flat_map(|&(base, bits, len)| {
                (0..len as u64).map(move |i| base.saturating_add(noise(i ^ seed, bits)))
            });
            round_trip(&parts.collect::<Vec<_>>());
        }

        /// The shape of one group is as good as their own for others that are like it.
        #[test]
        fn kept_shapes_cost_little(base in 0..1_u64 << 30, bits in 0..30_u32, seed: u64) {
            let values: Vec<u64> = (0..8 * GROUP as u64)
                .map(|i| base + noise(i ^ seed, bits) + if i % 90 == 0 { 1 << 20 } else { 0 })
                .collect();
            let alone: usize = values.chunks(GROUP).map(round_trip).sum();
            let together = round_trip(&values);
            prop_assert!(together <= alone + alone / 20 + 16, "{together} and {alone}");
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
            let values: Vec<u64> = (0..100).map(|i| noise(i ^ seed, bits)).collect();
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

    /// Returns numbers by how many bits they have: so many of each.
    fn by_bits(counts: &[(u32, usize)]) -> Vec<u64> {
        let of = |&(bits, count): &(u32, usize)| {
            let value = if bits == 0 { 0 } else { 1_u64 << (bits - 1) };
            std::iter::repeat_n(value, count)
        };
        counts.iter().flat_map(of).collect()
    }

    fn best_width_of(values: &[u64]) -> u32 {
        let mut low = vec![0; values.len()];
        let range = lower(values, &mut low);
        best_width(values, &low, range)
    }

    #[test]
    fn the_best_width_pays_for_its_exceptions() {
        for (counts, expected) in [
            // An exception costs as much as a bit of 18 values.
            (&[(0, 1), (1, 16), (2, 1)][..], 2),
            (&[(0, 1), (1, 17), (2, 1)], 1),
            // A sixth of the group may be exceptions.
            (&[(0, 50), (5, 10)], 0),
            (&[(0, 49), (5, 11)], 5),
            // More than six widths from the widest: by the histogram.
            (&[(0, 127), (3, 128), (20, 1)], 3),
            // High parts of more than seven bits take a byte more: 26 bits for each of these.
            (&[(0, 1), (7, 242), (8, 7), (21, 6)], 7),
            (&[(0, 1), (7, 241), (8, 8), (21, 6)], 8),
            // The widest that is packed, and plain values.
            (&[(0, 1), (32, 255)], 32),
            (&[(0, 1), (33, 127), (32, 128)], 32),
            (&[(0, 1), (64, 255)], 64),
            (&[(64, 256)], 0),
        ] {
            assert_eq!(best_width_of(&by_bits(counts)), expected, "{counts:?}");
        }
    }

    #[test]
    fn a_width_near_the_last_one_is_tried_in_one_direction() {
        let of = |near, counts: &[(u32, usize)]| {
            let values = by_bits(counts);
            let mut low = vec![0; values.len()];
            let bits = lower(&values, &mut low).bits;
            width_near(near, &low, bits)
        };
        // Two exceptions cost as much as a bit of 36 values, so a wider one is not tried.
        assert_eq!(of(3, &[(0, 1), (3, 33), (4, 2)]), Some(3));
        assert_eq!(of(3, &[(0, 1), (3, 32), (4, 3)]), Some(4));
        assert_eq!(of(3, &[(0, 1), (2, 34), (3, 1)]), Some(2));
        assert_eq!(of(9, &[(0, 1), (2, 34), (3, 1)]), Some(2));
        assert_eq!(of(0, &[(0, 36)]), Some(0));
        // A sixth of the group.
        assert_eq!(of(2, &[(0, 1), (2, 29), (6, 6)]), Some(2));
        assert_eq!(of(2, &[(0, 1), (2, 28), (6, 7)]), None);
        assert_eq!(of(31, &[(0, 1), (31, 35)]), Some(31));
        assert_eq!(of(32, &[(0, 1), (32, 35)]), None);
    }

    #[test]
    fn a_kept_shape_fits_groups_for_which_no_width_beside_it_is_better() {
        let kept = |base, width, uses| KeptShape {
            shape: Shape {
                base,
                width,
                has_exceptions: true,
            },
            uses,
        };
        // Returns whether it fits, and has exceptions.
        let fit = |kept: &mut KeptShape, parts: &[(u64, usize)]| {
            let parts = parts.iter();
            let mut values: Vec<u64> = parts
                .flat_map(|&(value, count)| std::iter::repeat_n(value, count))
                .collect();
            values.resize(GROUP, kept.shape.base);
            let values: &[u64; GROUP] = values.as_slice().try_into().unwrap();
            let mut low = [7; GROUP];
            let shape = kept.fit(values, &mut low)?;
            assert_eq!(
                (shape.base, shape.width),
                (kept.shape.base, kept.shape.width)
            );
            let above = values.map(|value| (value - shape.base) as u32);
            assert_eq!(low, above);
            Some(shape.has_exceptions)
        };
        let wide = 1 << 29;
        for (base, width, parts, expected) in [
            // Values of 5 bits are exceptions, and those of 4 need the width.
            (100, 4, &[(116, 14), (108, 15)][..], Some(true)),
            (100, 4, &[(116, 15), (108, 15)], None),
            (100, 4, &[(116, 14), (108, 14)], None),
            (100, 4, &[(115, 15)], Some(false)),
            (100, 4, &[(107, 15)], None),
            (100, 0, &[], Some(false)),
            (100, 0, &[(101, 14)], Some(true)),
            (100, 0, &[(101, 15)], None),
            // Below the base, and of more than 31 bits.
            (100, 4, &[(108, 15), (99, 1)], None),
            (100, 4, &[(108, 15), (100 + (1 << 31), 1)], None),
            (100, 4, &[(108, 15), (100 + (1 << 32), 1)], None),
            ((1 << 31) - 1, 0, &[], Some(false)),
            (1 << 31, 0, &[], None),
            (100, 30, &[(100 + wide, 15)], Some(false)),
            (100, 31, &[(100 + wide, 15)], None),
        ] {
            let found = fit(&mut kept(base, width, 0), parts);
            assert_eq!(found, expected, "{base}, {width}: {parts:?}");
        }
        // It is found anew after 16 groups.
        let mut used = kept(100, 0, 0);
        let fits: Vec<_> = (0..18).map(|_| fit(&mut used, &[]).is_some()).collect();
        assert_eq!(fits, [vec![true; 16], vec![false; 2]].concat());
    }

    #[test]
    fn the_shape_of_a_column_is_kept_but_not_that_of_the_first_gap() {
        let groups = |values: &[u64]| {
            let heads = |column| {
                let (mut packer, mut bytes) = (Packer::default(), Vec::new());
                packer.put(&mut bytes, column, values);
                let mut cursor = Cursor::new(&bytes);
                let mut heads = Vec::new();
                while !cursor.is_empty() {
                    let (width, exceptions) = (cursor.u8().unwrap(), cursor.u8().unwrap());
                    heads.push((width, exceptions, cursor.varint().unwrap()));
                    cursor.take(usize::from(width) * 32).unwrap();
                }
                heads
            };
            [Column::Gaps, Column::Durations].map(heads)
        };
        let group = |base: u64| (0..GROUP as u64).map(move |i| base + i % 8);
        let mut values: Vec<u64> = group(1000).chain(group(1000)).chain(group(1000)).collect();
        values[0] = 0;
        // The third group has no value at its base.
        for value in &mut values[2 * GROUP..] {
            *value = (*value).max(1001);
        }
        let [gaps, durations] = groups(&values);
        assert_eq!(gaps, [(10, 0, 0), (3, 0, 1000), (3, 0, 1000)]);
        assert_eq!(durations, [(10, 0, 0); 3]);
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
    fn a_kept_shape_keeps_the_high_bits_of_a_value() {
        for bit in (8..64).step_by(if cfg!(miri) { 11 } else { 1 }) {
            let mut values: Vec<u64> = (0..4 * GROUP as u64).map(|i| i % 200).collect();
            values[3 * GROUP + 77] |= 1 << bit;
            round_trip(&values);
        }
    }

    #[test]
    fn equal_values_take_no_bits() {
        assert!(round_trip(&[1 << 60; GROUP]) <= 12);
        assert!(round_trip(&[3; 10]) <= 3);
    }
}
