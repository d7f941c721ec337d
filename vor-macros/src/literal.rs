//! The values of literals, which the compiler has already checked.

use crate::tokens::Literal;

/// Returns the value of a string literal, or `None` for a literal of another kind.
pub(crate) fn string_value(literal: &Literal) -> Option<String> {
    let text = literal.to_string();
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let (hashes, quoted) = raw.split_at(hashes);
        let (value, _suffix) = quoted
            .strip_prefix('"')?
            .split_once(&format!("\"{hashes}"))?;
        return Some(value.to_owned());
    }
    let mut characters = text.strip_prefix('"')?.chars().peekable();
    let mut value = String::new();
    loop {
        let character = match characters.next()? {
            '"' => return Some(value),
            '\\' => match characters.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'x' => {
                    let digits: String = characters.by_ref().take(2).collect();
                    char::from(u8::from_str_radix(&digits, 16).ok()?)
                }
                'u' => {
                    let digits = characters
                        .by_ref()
                        .skip(1)
                        .take_while(|digit| *digit != '}');
                    let digits: String = digits.filter(|digit| *digit != '_').collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                // The line goes on after the white space of the next ones.
                '\n' | '\r' => {
                    while characters
                        .next_if(|next| " \t\r\n".contains(*next))
                        .is_some()
                    {}
                    continue;
                }
                escaped => escaped,
            },
            character => character,
        };
        value.push(character);
    }
}

/// Returns whether a literal is an integer.
pub(crate) fn is_integer(literal: &Literal) -> bool {
    let text = literal.to_string();
    let is_number = text.starts_with(|first: char| first.is_ascii_digit());
    let has_base = ["0x", "0o", "0b"].iter().any(|base| text.starts_with(base));
    let rest = text.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == '_');
    let exponent = rest.strip_prefix(['e', 'E']).unwrap_or_default();
    let exponent = exponent.trim_start_matches('_');
    let is_float = rest.starts_with('.')
        || exponent.starts_with(|first: char| first.is_ascii_digit() || "+-".contains(first));
    is_number && (has_base || !is_float)
}

/// Returns the value of an integer without a suffix, if it fits.
pub(crate) fn integer_value(literal: &Literal) -> Option<u32> {
    let text = literal.to_string().replace('_', "");
    let (base, digits) = match text.get(..2) {
        Some("0x") => (16, &text[2..]),
        Some("0o") => (8, &text[2..]),
        Some("0b") => (2, &text[2..]),
        _ => (10, text.as_str()),
    };
    u32::from_str_radix(digits, base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Literal {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn strings_have_the_value_that_syn_reads() {
        for text in [
            r#""""#,
            r##"r"""##,
            r###"r##""##"###,
            r#""\
               ""#,
            r#""plain""#,
            r##"r#"raw "quoted" \n"#"##,
            r#""\n\r\t\\\0\'\"\x41\u{1F600}\u{4_1}é""#,
            "\"two \\\n   lines\\n\"",
            r#""suffix"suffix"#,
            r#"b"bytes""#,
            r#"c"text""#,
            "'c'",
            "17",
            "1.5",
        ] {
            let expected = match syn::Lit::new(literal(text)) {
                syn::Lit::Str(text) => Some(text.value()),
                _ => None,
            };
            assert_eq!(string_value(&literal(text)), expected, "{text}");
        }
    }

    #[test]
    fn integers_have_the_value_that_syn_reads() {
        for text in [
            "0",
            "255",
            "0xff_ff_ff",
            "0xFFe1",
            "0o17",
            "0b1_01",
            "1_000_",
            "4294967295",
            "4294967296",
            "17u8",
            "0xffu32",
            "0b1usize",
            "1e5",
            "1E+5",
            "1.0",
            "1.",
            "1f32",
            "1e_3",
            "1em",
            "\"1\"",
            "'1'",
            "b'1'",
        ] {
            let expected = match syn::Lit::new(literal(text)) {
                syn::Lit::Int(number) => Some(number),
                _ => None,
            };
            assert_eq!(is_integer(&literal(text)), expected.is_some(), "{text}");
            let value = expected.filter(|number| number.suffix().is_empty());
            let value = value.and_then(|number| number.base10_parse::<u32>().ok());
            if is_integer(&literal(text)) {
                assert_eq!(integer_value(&literal(text)), value, "{text}");
            }
        }
    }
}
