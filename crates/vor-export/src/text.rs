//! Text of the formats: integers and JSON strings.

/// Appends an integer in decimal.
#[inline]
pub(crate) fn push_integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends text as a JSON string, in UTF-8 except for the characters that JSON forbids.
pub(crate) fn push_json_str(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut done = 0;
    for (i, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[done..i]);
        done = i + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_like_those_of_the_standard_library() {
        let mut values: Vec<u64> = (0..20).map(|exponent| 10_u64.pow(exponent)).collect();
        values.extend(values.clone().iter().map(|value| value - 1));
        values.extend([u64::MAX, i64::MAX as u64, 7, 42, 105, 1_234_567]);
        for value in values {
            let mut out = Vec::new();
            push_integer(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
            let signed = (value as i64).wrapping_neg();
            out.clear();
            push_integer(&mut out, signed);
            assert_eq!(out, signed.to_string().into_bytes());
        }
    }

    #[test]
    fn characters_with_a_short_escape_have_it() {
        let mut out = Vec::new();
        push_json_str(&mut out, "\"\\\n\t\r\u{1f}ä");
        assert_eq!(out, r#""\"\\\n\t\r\u001fä""#.as_bytes());
    }

    #[test]
    fn json_strings_read_back() {
        let text: String = (0..0x180).filter_map(char::from_u32).collect();
        for text in ["", &text, "\u{2028}🦀\"\\"] {
            let mut out = Vec::new();
            push_json_str(&mut out, text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
