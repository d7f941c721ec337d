//! The part of the protobuf wire format that traces and profiles need: fields are appended to a
//! buffer directly.
//!
//! A nested message is written in place, and its length is inserted before it afterwards.

/// Most bytes of a [`short_varint`].
pub(super) const SHORT_VARINT_BYTES: usize = 8;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// Appends `value` as a varint: seven bits per byte, the lowest first.
#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns a value below 2^56 as a varint, and its number of bytes.
#[inline(always)]
pub(super) fn short_varint(value: u64) -> Option<([u8; SHORT_VARINT_BYTES], usize)> {
    if value >> (7 * SHORT_VARINT_BYTES) != 0 {
        return None;
    }
    let bytes = value.checked_ilog2().map_or(1, |bit| bit as usize / 7 + 1);
    // Groups of 28, then 14, then 7 bits move to the lower ends of twice the room.
    let mut word = value;
    word = word & 0x0fff_ffff | (word & 0x00ff_ffff_f000_0000) << 4;
    word = word & 0x3fff_0000_3fff | (word & 0x0fff_c000_0fff_c000) << 2;
    word = word & 0x007f_007f_007f_007f | (word & 0x3f80_3f80_3f80_3f80) << 1;
    let continued = 0x8080_8080_8080_8080 & ((1_u64 << (8 * (bytes - 1))) - 1);
    Some(((word | continued).to_le_bytes(), bytes))
}

fn put_key(out: &mut Vec<u8>, field: u32, wire: u32) {
    put_varint(out, u64::from(field << 3 | wire));
}

/// Appends an unsigned number, an enum, a `bool`, or the bits of an `int64`.
pub(super) fn put_u64(out: &mut Vec<u8>, field: u32, value: u64) {
    put_key(out, field, VARINT);
    put_varint(out, value);
}

/// Appends an `int64` or `int32`.
pub(super) fn put_i64(out: &mut Vec<u8>, field: u32, value: i64) {
    put_u64(out, field, value as u64);
}

/// Appends a `double`.
pub(super) fn put_f64(out: &mut Vec<u8>, field: u32, value: f64) {
    put_key(out, field, FIXED64);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

/// Appends a text. Readers stop at a NUL, so `␀` replaces it.
pub(super) fn put_str(out: &mut Vec<u8>, field: u32, text: &str) {
    if text.contains('\0') {
        return put_bytes(out, field, text.replace('\0', "␀").as_bytes());
    }
    put_bytes(out, field, text.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_key(out, field, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a message, whose fields `fields` appends.
pub(super) fn put_message(out: &mut Vec<u8>, field: u32, fields: impl FnOnce(&mut Vec<u8>)) {
    put_key(out, field, BYTES);
    let begin = out.len();
    fields(out);
    let end = out.len();
    put_varint(out, (end - begin) as u64);
    let length_bytes = out.len() - end;
    out[begin..].rotate_right(length_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_length_before_them() {
        let mut out = Vec::new();
        put_message(&mut out, 1, |out| {
            put_u64(out, 10, 300);
            put_message(out, 11, |out| put_str(out, 2, &"x".repeat(200)));
        });
        // Two bytes of length before 3 + 2 + (1 + 2 + 200) bytes, and two before those 203.
        assert_eq!(&out[..9], [0x0a, 209, 1, 0x50, 172, 2, 0x5a, 203, 1]);
        assert_eq!(&out[9..12], [0x12, 200, 1]);
        assert_eq!(out.len(), 12 + 200);
    }

    #[test]
    fn short_varints_are_varints() {
        let around = |bit: u32| [(1_u64 << bit) - 1, 1 << bit];
        for value in (0..64).flat_map(around).chain([300, u64::MAX]) {
            let mut expected = Vec::new();
            put_varint(&mut expected, value);
            let short = short_varint(value);
            assert_eq!(short.is_some(), value < 1 << 56, "{value}");
            if let Some((bytes, length)) = short {
                assert_eq!(bytes[..length], expected, "{value}");
            }
        }
    }
}
