//! The smallest parts: little-endian integers, varints, text, and a cursor over bytes that never
//! reads past their end.

use super::MAX_TEXT_BYTES;
use crate::Error;

/// Most bytes of a varint: 64 bits, seven at a time.
const MAX_VARINT_BYTES: usize = 10;

/// Appends `value`, seven bits at a time, the lowest first; the top bit of a byte is set where
/// another follows.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 … become 0, 1, 2, 3 ….
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Reverses [`zigzag`].
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Returns the longest beginning of `text` that is at most [`MAX_TEXT_BYTES`] long and ends at a
/// character boundary.
pub(super) fn clip(text: &str) -> &str {
    clip_to(text, MAX_TEXT_BYTES)
}

/// Returns the longest beginning of `text` that is at most `max_bytes` long and ends at a character
/// boundary.
pub(super) fn clip_to(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let mut end = max_bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Appends the clipped text after its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = clip(text);
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads from the front of a slice; every read that does not fit is an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns how many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        match self.bytes.split_at_checked(len) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(short(len, self.bytes.len())),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        match self.bytes.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(*taken)
            }
            None => Err(short(N, self.bytes.len())),
        }
    }

    pub(super) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for (i, &byte) in self.bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
            if i == MAX_VARINT_BYTES - 1 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err(Error::corrupt(format!(
            "the number in the next {} bytes is longer than 64 bits",
            self.bytes.len().min(MAX_VARINT_BYTES)
        )))
    }

    pub(super) fn varint_u32(&mut self) -> Result<u32, Error> {
        let value = self.varint()?;
        u32::try_from(value)
            .map_err(|_| Error::corrupt(format!("{value} does not fit into 32 bits")))
    }

    /// Reads a count of items, at most `cap`, each of which takes at least `min_bytes` of the rest.
    ///
    /// A caller may reserve memory for as many, since the input is large enough for them.
    pub(super) fn count(&mut self, min_bytes: usize, cap: usize) -> Result<usize, Error> {
        let value = self.varint()?;
        let most = cap.min(self.left() / min_bytes.max(1));
        match usize::try_from(value) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(Error::corrupt(format!(
                "a count is {value}, more than {most}"
            ))),
        }
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Error> {
        let len = self.count(1, MAX_TEXT_BYTES)?;
        std::str::from_utf8(self.take(len)?)
            .map_err(|error| Error::corrupt(format!("a text is not UTF-8: {error}")))
    }

    /// Confirms that nothing is left.
    pub(super) fn end(&self) -> Result<(), Error> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "{} bytes are left at the end of a payload",
            self.bytes.len()
        )))
    }
}

fn short(expected: usize, found: usize) -> Error {
    Error::corrupt(format!(
        "a payload ends too early: {expected} more bytes are needed, {found} are left"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.varint().unwrap(), value);
            prop_assert!(cursor.is_empty());
        }

        #[test]
        fn zigzag_round_trips(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn an_overlong_or_cut_varint_is_an_error() {
        assert!(Cursor::new(&[0xff; 11]).varint().is_err());
        assert!(Cursor::new(&[0x80, 0x80]).varint().is_err());
        assert!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2])
                .varint()
                .is_err()
        );
    }

    #[test]
    fn text_is_cut_at_a_character() {
        let text = "€".repeat(MAX_TEXT_BYTES);
        let clipped = clip(&text);
        assert!(clipped.len() <= MAX_TEXT_BYTES && clipped.len() > MAX_TEXT_BYTES - 3);
        assert!(clipped.chars().all(|c| c == '€'));
    }
}
