//! Numbers as people read them.

/// Returns a length of time in the unit that fits, to three digits: `950 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`, `2 min 5 s`.
#[must_use]
pub fn duration(ns: f64) -> String {
    if !ns.is_finite() {
        return "–".to_owned();
    }
    let scaled = |value: f64, unit: &str| format!("{} {unit}", three_digits(value));
    match ns.abs() {
        size if size < 999.5 => format!("{ns:.0} ns"),
        size if size < 999.5e3 => scaled(ns / 1e3, "µs"),
        size if size < 999.5e6 => scaled(ns / 1e6, "ms"),
        size if size < 120e9 => scaled(ns / 1e9, "s"),
        _ => {
            let seconds = (ns / 1e9).round();
            format!(
                "{:.0} min {:.0} s",
                (seconds / 60.0).trunc(),
                (seconds % 60.0).abs()
            )
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

/// Returns a count with a thin space between groups of three digits: `1 234 567`.
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
