//! Numbers as people read them.

/// Formats nanoseconds with three digits: `17 ns`, `1.25 µs`, `31.0 ms`, `2.50 s`.
pub(crate) fn duration(ns: f64) -> String {
    let units = [(1e3, 1.0, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")];
    for (limit, unit_ns, unit) in units {
        let text = digits(ns / unit_ns, unit_ns > 1.0);
        // 999.7 µs would be shown as 1000 µs, which is 1.00 ms.
        if ns < limit && text != "1000" {
            return format!("{text} {unit}");
        }
    }
    let s = ns / 1e9;
    if s < 600.0 {
        return format!("{} s", digits(s, true));
    }
    let whole = s.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, min, s) => format!("{min} min {s:02} s"),
        (h, min, _) => format!("{h} h {min:02} min"),
    }
}

/// Formats a non-negative number with three digits, and at most two behind the point.
fn digits(value: f64, fraction: bool) -> String {
    let decimals = match value {
        _ if !fraction => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Formats a count with separators: `12,345,678`.
pub(crate) fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut text = String::with_capacity(plain.len() + plain.len() / 3);
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count of things: `1 frame`, `2,000 frames`.
pub(crate) fn counted(value: u64, thing: &str) -> String {
    match value {
        1 => format!("1 {thing}"),
        _ => format!("{} {thing}s", count(value)),
    }
}

/// Formats a number of bytes, with MB as 10^6.
pub(crate) fn bytes(value: u64) -> String {
    match value {
        0..1_000 => format!("{value} B"),
        1_000..1_000_000 => format!("{} kB", digits(value as f64 / 1e3, true)),
        1_000_000..1_000_000_000 => format!("{} MB", digits(value as f64 / 1e6, true)),
        _ => format!("{} GB", digits(value as f64 / 1e9, true)),
    }
}

/// Formats the value of a metric with about four digits.
pub(crate) fn metric(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || value == 0.0 {
        format!("{value}")
    } else if !(1e-3..1e9).contains(&size) {
        format!("{value:.2e}")
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        let decimals = match size {
            s if s < 1.0 => 4,
            s if s < 10.0 => 3,
            s if s < 100.0 => 2,
            s if s < 10_000.0 => 1,
            _ => 0,
        };
        format!("{value:.decimals$}")
    }
}

/// Formats a moment as a UTC date and time to the second.
pub(crate) fn date(unix_ns: i64) -> String {
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
            (999.6, "1.00 µs"),
            (1_254.0, "1.25 µs"),
            (99_960.0, "100 µs"),
            (999_700.0, "1.00 ms"),
            (31_000_000.0, "31.0 ms"),
            (2.5e9, "2.50 s"),
            (599.0e9, "599 s"),
            (605.0e9, "10 min 05 s"),
            (7_260.0e9, "2 h 01 min"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn counts_and_bytes_and_metrics() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(12_345_678), "12,345,678");
        assert_eq!(counted(1, "frame"), "1 frame");
        assert_eq!(counted(2_000, "frame"), "2,000 frames");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(4_826), "4.83 kB");
        assert_eq!(bytes(1_500_000_000), "1.50 GB");
        assert_eq!(metric(-0.25), "-0.2500");
        assert_eq!(metric(1024.0), "1024");
        assert_eq!(metric(1.5e-7), "1.50e-7");
        assert_eq!(metric(f64::NAN), "NaN");
        assert_eq!(metric(123.456), "123.5");
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_248_063_247_486_823), "2026-11-21 08:01:03 UTC");
        assert_eq!(date(-1_000_000_000), "1969-12-31 23:59:59 UTC");
    }
}
