//! Sizes and times in the values of variables: `64MB`, `10m`, `2GB,7d,200`.

use std::time::Duration;

use crate::sinks::segments::{MIN_SEGMENT_AGE, MIN_SEGMENT_BYTES, Segments};

/// One value of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Bytes(u64),
    Age(Duration),
    Count(u64),
}

/// Units of sizes, in lower case. `M` alone would be mistaken for minutes.
const SIZES: [(&str, f64); 8] = [
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
];
const TIMES: [(&str, f64); 4] = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
/// Limits above these are mistakes: a petabyte, and a hundred years.
const MAX_BYTES: f64 = 1e15;
const MAX_SECONDS: f64 = 100.0 * 366.0 * 86_400.0;

/// Reads when a segment ends: a size, a time, or both.
pub(super) fn segment(text: &str) -> Option<Segments> {
    let mut segments = Segments::new();
    each_once(text, |limit| {
        segments = match limit {
            Limit::Bytes(bytes) if bytes >= MIN_SEGMENT_BYTES => segments.size(bytes),
            Limit::Age(age) if age >= MIN_SEGMENT_AGE => segments.age(age),
            _ => return None,
        };
        Some(())
    })?;
    Some(segments)
}

/// Reads which segments are kept: a size, a time, a number, or several of them.
pub(super) fn keep(text: &str) -> Option<Segments> {
    let mut segments = Segments::new();
    each_once(text, |limit| {
        segments = match limit {
            Limit::Bytes(bytes) if bytes >= 4 * MIN_SEGMENT_BYTES => segments.keep_size(bytes),
            Limit::Age(age) if age >= MIN_SEGMENT_AGE => segments.keep_age(age),
            Limit::Count(count) if count >= 2 => segments.keep_count(count),
            _ => return None,
        };
        Some(())
    })?;
    Some(segments)
}

/// Passes the values of a list to `set`; `None` if one is wrong, or if two are of the same kind.
fn each_once(text: &str, mut set: impl FnMut(Limit) -> Option<()>) -> Option<()> {
    let mut seen = Vec::new();
    for part in text.split(',') {
        let limit = limit(part.trim())?;
        let kind = std::mem::discriminant(&limit);
        if seen.contains(&kind) {
            return None;
        }
        seen.push(kind);
        set(limit)?;
    }
    Some(())
}

fn limit(text: &str) -> Option<Limit> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim();
    if unit.is_empty() {
        return number.parse().ok().map(Limit::Count);
    }
    let number: f64 = number.parse().ok()?;
    if let Some((_, seconds)) = TIMES.iter().find(|(name, _)| *name == unit) {
        let seconds = number * seconds;
        return (seconds <= MAX_SECONDS).then(|| Limit::Age(Duration::from_secs_f64(seconds)));
    }
    let unit = unit.to_ascii_lowercase();
    let (_, bytes) = SIZES.iter().find(|(name, _)| *name == unit)?;
    let bytes = number * bytes;
    (bytes <= MAX_BYTES).then_some(Limit::Bytes(bytes as u64))
}
