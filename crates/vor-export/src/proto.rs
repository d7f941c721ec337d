//! The part of the protobuf wire format that traces and profiles need: fields are appended to a
//! buffer directly.
//!
//! A nested message is written in place, and its length is inserted before it afterwards.

/// Most bytes of a varint.
pub(super) const MAX_VARINT_BYTES: usize = 10;

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

/// Writes `value` as a varint to the beginning of `bytes`, and returns its number of bytes.
#[inline(always)]
pub(super) fn write_varint(bytes: &mut [u8; MAX_VARINT_BYTES], mut value: u64) -> usize {
    let mut at = 0;
    while value >= 0x80 && at < MAX_VARINT_BYTES - 1 {
        bytes[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    bytes[at] = value as u8;
    at + 1
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
    let mut length = [0; MAX_VARINT_BYTES];
    let length_bytes = write_varint(&mut length, (out.len() - begin) as u64);
    out.extend_from_slice(&length[..length_bytes]);
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
    fn varints_are_the_same_either_way() {
        for value in [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let (mut pushed, mut written) = (Vec::new(), [0; MAX_VARINT_BYTES]);
            put_varint(&mut pushed, value);
            let bytes = write_varint(&mut written, value);
            assert_eq!(pushed, written[..bytes]);
        }
    }
}
