//! Numbers and units as people read them: one spelling for the command, the panel and the
//! recorder's reports.
//!
//! Three digits are enough to compare two values, so that is what most values have. Digits stand in
//! groups of three with a narrow no-break space (U+202F) between them, as ISO 80000 writes them: it
//! is neither a decimal comma nor a thousands point to anyone, and a line does not break there.

use std::borrow::Cow;

/// Digits in front of the next unit would round up to 1000, so that unit begins here.
const ROUNDS_UP: f64 = 999.5;

/// Returns a duration in the unit that fits, with three digits: `950 ns`, `12.3 µs`, `4.56 ms`,
/// `1.20 s`, `2 min 5 s`, `3 h 20 min`; `–` for what is no number.
#[must_use]
pub fn duration(ns: f64) -> String {
    if !ns.is_finite() {
        return "–".to_owned();
    }
    let scaled = |value: f64, unit: &str| format!("{} {unit}", three_digits(value));
    match ns.abs() {
        size if size < ROUNDS_UP => format!("{ns:.0} ns"),
        size if size < ROUNDS_UP * 1e3 => scaled(ns / 1e3, "µs"),
        size if size < ROUNDS_UP * 1e6 => scaled(ns / 1e6, "ms"),
        size if size < 120e9 => scaled(ns / 1e9, "s"),
        size => {
            let sign = if ns < 0.0 { "-" } else { "" };
            let seconds = (size / 1e9).round() as u64;
            match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
                (0, minutes, seconds) => format!("{sign}{minutes} min {seconds} s"),
                (hours @ ..100, minutes, _) => format!("{sign}{hours} h {minutes} min"),
                (hours, ..) => format!("{sign}{} h", count(hours)),
            }
        }
    }
}

/// Returns a number with three digits, and more only before the point.
#[must_use]
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns a count with a narrow space between groups of three digits: `1 234 567`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Returns a count of things, whose plural ends in `s`: `1 frame`, `2 000 frames`.
#[must_use]
pub fn counted(value: u64, thing: &str) -> String {
    match value {
        1 => format!("1 {thing}"),
        _ => format!("{} {thing}s", count(value)),
    }
}

/// Returns a number of bytes in the unit that fits, in powers of 1000: `999 B`, `1.50 GB`.
#[must_use]
pub fn bytes(value: u64) -> String {
    scaled(value as f64, "B")
}

/// Returns a metric's value in the unit that fits: `1.50 GB` for 1 500 000 000 `B`, `12.3 ms` for
/// 0.0123 `s`. A value in an unknown unit keeps it, and has three digits.
#[must_use]
pub fn scaled(value: f64, unit: &str) -> String {
    metric(value, unit, false)
}

/// Returns a metric's value as [`scaled`] does; an integer in an unknown unit has all its digits
/// in groups and no decimals.
#[must_use]
pub fn metric(value: f64, unit: &str, integer: bool) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let (base, rate) = split_rate(unit);
    let known = Family::of(base);
    if let (Some((Family::Time, step)), false) = (&known, rate) {
        return duration(value * Family::Time.size(*step));
    }
    if known.is_some() {
        let scale = Scale::of(value.abs(), unit, integer);
        return format!("{} {}", scale.number(value), scale.unit());
    }
    let number = if integer { whole(value) } else { number(value) };
    if unit.is_empty() {
        number
    } else {
        format!("{number} {unit}")
    }
}

/// One unit for all values of a range, such as an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale<'a> {
    divisor: f64,
    unit: Cow<'a, str>,
    /// Follows each number: the magnitude of values in an unknown unit.
    suffix: &'static str,
    integer: bool,
}

impl<'a> Scale<'a> {
    /// Makes the scale that fits values of up to `most`, given in `unit`. In an unknown unit,
    /// numbers of a scale of a million and more end in `M`, `G` or `T`.
    #[must_use]
    pub fn of(most: f64, unit: &'a str, integer: bool) -> Self {
        let most = if most.is_finite() { most.abs() } else { 0.0 };
        let plain = Self {
            divisor: 1.0,
            unit: Cow::Borrowed(unit),
            suffix: "",
            integer,
        };
        let (base, rate) = split_rate(unit);
        let Some((family, given)) = Family::of(base) else {
            let magnitudes = [(1e12, "T"), (1e9, "G"), (1e6, "M")];
            let fits = magnitudes.iter().find(|(size, _)| most >= 0.9995 * size);
            return match fits {
                Some(&(divisor, suffix)) => Self {
                    divisor,
                    suffix,
                    integer: false,
                    ..plain
                },
                None => plain,
            };
        };
        let in_smallest = most * family.size(given);
        let fits = |step: &usize| in_smallest >= 0.9995 * family.size(*step);
        let steps = family.names().len();
        let step = match most {
            0.0 => given,
            _ => (0..steps).rev().find(fits).unwrap_or(0),
        };
        let name = family.names()[step];
        Self {
            divisor: family.size(step) / family.size(given),
            unit: if rate {
                Cow::Owned(format!("{name}/s"))
            } else {
                Cow::Borrowed(name)
            },
            integer: integer && step == 0,
            ..plain
        }
    }

    /// Returns the unit that the numbers are in.
    #[must_use]
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// Returns a value as a number in this unit, without it; `–` for what is no number.
    #[must_use]
    pub fn number(&self, value: f64) -> String {
        let given = value;
        let value = value / self.divisor;
        if !self.suffix.is_empty() && value != 0.0 && value.abs() < 0.9995 {
            // The unit is the same for all magnitudes, and a small part of one has many digits.
            return Scale::of(given, &self.unit, self.integer).number(given);
        }
        let text = if self.integer {
            whole(value)
        } else {
            number(value)
        };
        match self.suffix {
            "" => text,
            suffix if value.is_finite() => text + suffix,
            _ => text,
        }
    }

    /// Returns the same scale for values between integers, such as their mean.
    #[must_use]
    pub fn with_decimals(&self) -> Self {
        Self {
            integer: false,
            ..self.clone()
        }
    }
}

/// Units that differ by powers of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    /// Bytes in powers of 1000: megabytes of 10⁶ bytes.
    Bytes,
    /// Bytes in powers of 1024, if that is their unit.
    BinaryBytes,
    Time,
    Frequency,
}

impl Family {
    /// Returns the family of a unit, and which of its steps that is.
    fn of(unit: &str) -> Option<(Self, usize)> {
        let unit = match unit {
            "us" | "\u{3bc}s" => "µs",
            "KB" => "kB",
            "bytes" | "byte" => "B",
            unit => unit,
        };
        let families = [Self::Bytes, Self::BinaryBytes, Self::Time, Self::Frequency];
        families.into_iter().find_map(|family| {
            let step = family.names().iter().position(|name| *name == unit)?;
            Some((family, step))
        })
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Bytes => &["B", "kB", "MB", "GB", "TB", "PB"],
            Self::BinaryBytes => &["B", "KiB", "MiB", "GiB", "TiB", "PiB"],
            Self::Time => &["ns", "µs", "ms", "s"],
            Self::Frequency => &["Hz", "kHz", "MHz", "GHz"],
        }
    }

    /// Returns how many of the first step one of a step is.
    fn size(self, step: usize) -> f64 {
        let base: f64 = if self == Self::BinaryBytes {
            1024.0
        } else {
            1000.0
        };
        base.powi(step as i32)
    }
}

/// Returns a unit without its `/s`, and whether it had one.
fn split_rate(unit: &str) -> (&str, bool) {
    match unit.strip_suffix("/s") {
        Some(base) => (base, true),
        None => (unit, false),
    }
}

/// Returns a number with three digits, or two from 0.1 to 1; larger ones have all digits before the
/// point.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "–".to_owned(),
        0.0 => "0".to_owned(),
        size if !(1e-4..1e15).contains(&size) => format!("{value:.2e}"),
        size if size < 0.000_999_5 => format!("{value:.6}"),
        size if size < 0.009_995 => format!("{value:.5}"),
        size if size < 0.099_95 => format!("{value:.4}"),
        size if size < 9999.5 => three_digits(value),
        _ => whole(value),
    }
}

/// Returns a number without decimals, its digits in groups.
fn whole(value: f64) -> String {
    match value.abs().round() {
        size if !size.is_finite() => "–".to_owned(),
        size if size >= 1e15 => format!("{value:.2e}"),
        size if value < 0.0 && size > 0.0 => format!("-{}", count(size as u64)),
        size => count(size as u64),
    }
}

/// Formats a moment as a UTC date and time to the second.
#[must_use]
pub fn date(unix_ns: i64) -> String {
    let s = unix_ns.div_euclid(1_000_000_000);
    let (days, s) = (s.div_euclid(86_400), s.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (h, min, s) = (s / 3600, s / 60 % 60, s % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{min:02}:{s:02} UTC")
}

/// Returns year, month and day of a number of days since 1970, in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    // Whole cycles of 400 years first: all of them have the same number of days.
    let (mut year, mut days) = (
        1970 + days.div_euclid(146_097) * 400,
        days.rem_euclid(146_097),
    );
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_fitting_unit() {
        let cases = [
            (0.0, "0 ns"),
            (17.4, "17 ns"),
            (999.0, "999 ns"),
            (999.5, "1.00 µs"),
            (999.6, "1.00 µs"),
            (1_254.0, "1.25 µs"),
            (99_960.0, "100 µs"),
            (999_500.0, "1.00 ms"),
            (999_700.0, "1.00 ms"),
            (999_500_000.0, "1.00 s"),
            (31_000_000.0, "31.0 ms"),
            (-31_000_000.0, "-31.0 ms"),
            (2.5e9, "2.50 s"),
            (119.6e9, "120 s"),
            (120.0e9, "2 min 0 s"),
            (605.0e9, "10 min 5 s"),
            (-605.0e9, "-10 min 5 s"),
            (7_260.0e9, "2 h 1 min"),
            (360_000.0e9, "100 h"),
            (u64::MAX as f64, "5\u{202f}124\u{202f}095 h"),
            (f64::NAN, "–"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
        let cases = [
            (9.99, "9.99"),
            (9.995, "10.0"),
            (99.9, "99.9"),
            (99.95, "100"),
        ];
        for (value, text) in cases {
            assert_eq!(three_digits(value), text);
        }
    }

    #[test]
    fn counts_and_bytes() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1\u{202f}000");
        assert_eq!(count(12_345_678), "12\u{202f}345\u{202f}678");
        assert_eq!(counted(1, "frame"), "1 frame");
        assert_eq!(counted(2_000, "frame"), "2\u{202f}000 frames");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(4_826), "4.83 kB");
        assert_eq!(bytes(1_500_000_000), "1.50 GB");
    }

    #[test]
    fn numbers_have_three_digits_or_all_before_the_point() {
        let cases = [
            (-0.25, "-0.25"),
            (1024.0, "1024"),
            (123.456, "123"),
            (12_345.6, "12\u{202f}346"),
            (1.5e-7, "1.50e-7"),
            (0.000_5, "0.000500"),
            (0.000_999_5, "0.00100"),
            (0.005, "0.00500"),
            (0.009_995, "0.0100"),
            (0.099_95, "0.10"),
            (9999.4, "9999"),
            (9999.5, "10\u{202f}000"),
            (1e15, "1.00e15"),
            (f64::NAN, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_248_063_247_486_823), "2026-11-21 08:01:03 UTC");
        assert_eq!(date(-1_000_000_000), "1969-12-31 23:59:59 UTC");
        // The day after the end of each month, in a leap year and in others.
        let leap = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (year, february) in [(1900, 28), (1999, 28), (2000, 29), (2004, 29), (2100, 28)] {
            let before = (1970..year)
                .chain(year..1970)
                .map(|year| 365 + i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)));
            let mut days = before.sum::<i64>() * if year < 1970 { -1 } else { 1 };
            for (month, length) in (1..).zip(leap) {
                assert_eq!(civil(days), (year, month, 1));
                days += if month == 2 { february } else { length };
                assert_eq!(civil(days - 1).1, month);
            }
            assert_eq!(civil(days), (year + 1, 1, 1));
        }
    }

    #[test]
    fn values_have_the_unit_that_fits() {
        let cases = [
            (0.0, "B", "0 B"),
            (0.0, "MiB", "0 MiB"),
            (999.6, "B", "1.00 kB"),
            (512.0, "B", "512 B"),
            (1536.0, "B", "1.54 kB"),
            (1536.0, "KiB", "1.50 MiB"),
            (1_610_612_736.0, "B", "1.61 GB"),
            (-2048.0, "B/s", "-2.05 kB/s"),
            (815.4, "MB", "815 MB"),
            (0.0154, "MB", "15.4 kB"),
            (2500.0, "MB/s", "2.50 GB/s"),
            (16.67, "ms", "16.7 ms"),
            (0.0042, "ms", "4.20 µs"),
            (1.5e6, "us", "1.50 s"),
            (125.0, "s", "2 min 5 s"),
            (101.26, "%", "101 %"),
            (0.0123, "", "0.0123"),
            (3.5e6, "Hz", "3.50 MHz"),
            (1_234_567.0, "req", "1\u{202f}234\u{202f}567 req"),
            (1e300, "req", "1.00e300 req"),
            (f64::NAN, "B", "–"),
            (f64::NEG_INFINITY, "req", "–"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(scaled(value, unit), expected, "{value} {unit}");
        }
    }

    #[test]
    fn integers_have_no_decimals() {
        assert_eq!(metric(7.0, "", true), "7");
        assert_eq!(metric(-12_345.0, "faults", true), "-12\u{202f}345 faults");
        assert_eq!(metric(-0.0, "", true), "0");
        assert_eq!(metric(7.0, "B", true), "7 B");
        assert_eq!(metric(2048.0, "B", true), "2.05 kB");
        assert_eq!(metric(-0.4, "", true), "0");
        assert_eq!(
            metric(999_999_999_999_999.0, "", true).matches('9').count(),
            15
        );
        assert_eq!(metric(1e15, "", true), "1.00e15");
    }

    #[test]
    fn the_values_of_a_scale_share_a_unit() {
        let scale = Scale::of(3e9, "B", false);
        assert_eq!(scale.unit(), "GB");
        assert_eq!(scale.number(1e9), "1.00");
        assert_eq!(scale.number(1e8), "0.10");
        let scale = Scale::of(25e6, "items/s", true);
        assert_eq!(
            (scale.number(25e6).as_str(), scale.unit()),
            ("25.0M", "items/s")
        );
        // A small part of a million would have too many digits.
        assert_eq!(
            Scale::of(1.3e6, "1/s", false).number(59_300.0),
            number(59_300.0)
        );
        assert_eq!(Scale::of(2e9, "1/s", false).number(3e6), "3.00M");
        assert_eq!(Scale::of(2e9, "1/s", false).number(0.0), "0G");
        let scale = Scale::of(999.0, "", true);
        assert_eq!(scale.number(3.0), "3");
        assert_eq!(scale.with_decimals().number(3.25), "3.25");
        assert_eq!(scale.number(f64::INFINITY), "–");
        assert_eq!(scale.number(f64::NAN), "–");
        assert_eq!(Scale::of(f64::INFINITY, "ms", false).number(f64::NAN), "–");
        let scale = Scale::of(999_600.0, "items", true);
        assert_eq!(
            (scale.number(999_600.0).as_str(), scale.unit()),
            ("1.00M", "items")
        );
        assert_eq!(scale.number(f64::NAN), "–");
    }
}
