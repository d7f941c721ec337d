//! Durations and ranges of time as text, as a user types them: `20us`, `1.5 ms`, `1s..1.25s`.

/// Returns the nanoseconds of a duration such as `20us` or `-1.5 ms`.
pub(crate) fn duration_ns(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let unit_at = digits.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = digits.split_at(unit_at);
    let unit_ns = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        _ => return None,
    };
    // Casts of floats saturate.
    Some((sign * number.parse::<f64>().ok()? * unit_ns).round() as i64)
}

/// Returns the begin and the end of a range such as `1.2s..1.3s`; `None` where it has no length.
pub(crate) fn range_ns(text: &str) -> Option<(i64, i64)> {
    let (begin, end) = text.split_once("..")?;
    let (begin_ns, end_ns) = (duration_ns(begin)?, duration_ns(end)?);
    (begin_ns < end_ns).then_some((begin_ns, end_ns))
}

/// Returns a range as text that [`range_ns`] reads as the same nanoseconds.
pub(crate) fn range_text((begin_ns, end_ns): (i64, i64)) -> String {
    format!("{}..{}", exact(begin_ns), exact(end_ns))
}

/// Returns a moment in milliseconds with as many decimals as it has.
fn exact(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let (whole, part) = (ns.unsigned_abs() / 1_000_000, ns.unsigned_abs() % 1_000_000);
    let decimals = format!("{part:06}");
    match decimals.trim_end_matches('0') {
        "" => format!("{sign}{whole}ms"),
        decimals => format!("{sign}{whole}.{decimals}ms"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{duration_ns, range_ns, range_text};

    #[test]
    fn a_duration_has_a_number_and_a_unit() {
        for (text, ns) in [
            ("950ns", 950),
            (" 20us ", 20_000),
            ("12 µs", 12_000),
            ("1.5 ms", 1_500_000),
            (".5s", 500_000_000),
            ("2min", 120_000_000_000),
            ("-1 ms", -1_000_000),
        ] {
            assert_eq!(duration_ns(text), Some(ns), "{text}");
        }
        for text in ["", "5", "ms", "1.2.3 ms", "--1 ms", "1 m", "1 ms or so"] {
            assert_eq!(duration_ns(text), None, "{text}");
        }
    }

    #[test]
    fn a_range_has_a_length() {
        assert_eq!(range_ns("1us..2us"), Some((1000, 2000)));
        for text in ["1us", "1us..", "2us..1us", "1us..1us", "1..2", "1us...2us"] {
            assert_eq!(range_ns(text), None, "{text}");
        }
    }

    proptest! {
        /// A year has fewer nanoseconds than an `f64` has exact whole numbers times four.
        #[test]
        fn a_range_is_read_as_it_was_written(
            begin_ns in -1_000_000_000_000..1_000_000_000_000_000_i64,
            length_ns in 1..1_000_000_000_000_i64,
        ) {
            let range = (begin_ns, begin_ns + length_ns);
            prop_assert_eq!(range_ns(&range_text(range)), Some(range));
        }
    }
}
