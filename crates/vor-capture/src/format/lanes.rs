//! The bits of a full group: 256 numbers of one width, in eight interleaved lanes.
//!
//! Number `8 j + l` is in lane `l`. A lane is a stream of 32 numbers, lowest bit first, in words of
//! 32 bits; word `k` of lane `l` is at byte `4 × (8 k + l)`. So a row of eight numbers is shifted
//! by the same count in all lanes, and the loops over a row compile to vector instructions that
//! every x86-64 and aarch64 has. The width is a value at run time: a loop for each width is a
//! quarter faster, and takes the compiler longer than the rest of the format does.

/// Numbers in a full group.
pub(super) const GROUP: usize = 256;
const LANES: usize = 8;
/// Bytes of one word in each lane.
const ROW_BYTES: usize = 4 * LANES;

type Row = [u32; LANES];

/// Appends the lowest `width` bits of each value, 1 to 32 of them.
pub(super) fn pack(out: &mut Vec<u8>, values: &[u32; GROUP], width: u32) {
    let begin = out.len();
    out.resize(begin + ROW_BYTES * width as usize, 0);
    let mut words = out[begin..].as_chunks_mut::<ROW_BYTES>().0.iter_mut();
    let mask = u32::MAX >> (32 - width);
    let mut bits: Row = [0; LANES];
    let mut filled = 0;
    for row in values.as_chunks::<LANES>().0 {
        let row = row.map(|value| value & mask);
        for (bits, value) in bits.iter_mut().zip(row) {
            *bits |= value << filled;
        }
        let free = 32 - filled;
        if width < free {
            filled += width;
            continue;
        }
        // There are as many words as the bits of a lane fill.
        let Some(word) = words.next() else { return };
        for (bytes, bits) in word.as_chunks_mut().0.iter_mut().zip(bits) {
            *bytes = bits.to_le_bytes();
        }
        // All 32 bits may be stored, and a shift by 32 is none.
        bits = row.map(|value| value >> (free - 1) >> 1);
        filled = width - free;
    }
}

/// Fills `values` with the converted numbers that [`pack`] wrote with this width.
pub(super) fn unpack<T>(
    packed: &[u8],
    values: &mut [T; GROUP],
    width: u32,
    convert: impl Fn(u32) -> T,
) {
    let mut words = packed.as_chunks::<ROW_BYTES>().0.iter();
    let mask = u32::MAX >> (32 - width);
    let mut bits: Row = [0; LANES];
    let mut filled = 0;
    for values in values.as_chunks_mut::<LANES>().0 {
        let row: Row;
        if width <= filled {
            row = bits.map(|bits| bits & mask);
            bits = bits.map(|bits| bits >> width);
            filled -= width;
        } else {
            // There are as many words as the bits of a lane fill.
            let Some(word) = words.next() else { return };
            let mut next: Row = [0; LANES];
            for (next, bytes) in next.iter_mut().zip(word.as_chunks().0) {
                *next = u32::from_le_bytes(*bytes);
            }
            row = std::array::from_fn(|lane| (bits[lane] | next[lane] << filled) & mask);
            let used = width - filled;
            // All 32 bits may be used, and a shift by 32 is none.
            bits = next.map(|bits| bits >> (used - 1) >> 1);
            filled = 32 - used;
        }
        *values = row.map(&convert);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packs one bit after the other, as FORMAT.md describes it.
    fn pack_bitwise(values: &[u32; GROUP], width: u32) -> Vec<u8> {
        let mut bytes = vec![0; ROW_BYTES * width as usize];
        for (number, value) in values.iter().enumerate() {
            let (row, lane) = (number / LANES, number % LANES);
            for bit in 0..width as usize {
                let at = row * width as usize + bit;
                let byte = 4 * (LANES * (at / 32) + lane) + at % 32 / 8;
                bytes[byte] |= ((value >> bit & 1) as u8) << (at % 8);
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn bits_are_where_the_format_says(
            values: [[u32; 16]; 16],
            width in 1..=32_u32,
            before: Vec<u8>,
        ) {
            let values: [u32; GROUP] = values.concat().try_into().unwrap();
            let mut bytes = before.clone();
            pack(&mut bytes, &values, width);
            prop_assert_eq!(&bytes[..before.len()], &before);
            let packed = &bytes[before.len()..];
            prop_assert_eq!(packed, pack_bitwise(&values, width));
            let mut back = [0_u64; GROUP];
            unpack(packed, &mut back, width, |value| u64::from(value) + 7);
            let low = values.map(|value| u64::from(value & (u32::MAX >> (32 - width))) + 7);
            prop_assert_eq!(back, low);
        }
    }

    /// Checksums of the output of the 8-lane packer of the crate `bitpacking` 0.9.3 for the same
    /// values.
    const CHECKSUMS: [u32; 32] = [
        0x8d87_6e9c,
        0x38e2_643c,
        0x44c5_f295,
        0x9d8a_d276,
        0x7a1b_9122,
        0xc8c8_8c85,
        0x2aff_67f2,
        0xa47d_993f,
        0xd07e_c9bd,
        0xf312_be16,
        0x570e_beeb,
        0xb84e_952c,
        0x8295_dc14,
        0x22a1_ca0d,
        0xdc67_310c,
        0x9cc8_3011,
        0xafec_f475,
        0x61e1_a2b1,
        0x74cb_a799,
        0xbc00_cd9c,
        0xe729_dfa2,
        0x9b45_422c,
        0x7576_0fe5,
        0x5e1a_8488,
        0x54a2_ee6d,
        0x51ad_6b80,
        0x8887_2c96,
        0x0052_1a8f,
        0xeada_6cf6,
        0xc2a8_8985,
        0x8593_ffef,
        0x3bdd_6d4c,
    ];

    #[test]
    fn every_width_is_packed_as_by_the_crate_that_wrote_the_first_captures() {
        for (width, checksum) in (1..).zip(CHECKSUMS) {
            let values =
                std::array::from_fn(|i| (i as u32 + 1).wrapping_mul(0x9e37_79b1) >> (32 - width));
            let mut bytes = Vec::new();
            pack(&mut bytes, &values, width);
            assert_eq!(crc32fast::hash(&bytes), checksum, "width {width}");
            let mut back = [0; GROUP];
            unpack(&bytes, &mut back, width, |value| value);
            assert_eq!(back, values, "width {width}");
        }
    }
}
