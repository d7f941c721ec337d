//! Sizes, times and lists in the values of variables: `64MB`, `10m`, `2GB,7d,200`,
//! `frame:50ms,panic`.

use std::str::FromStr;
use std::time::Duration;

use vor_capture::Error;

use crate::sinks::last::{DumpOn, Last, MIN_LAST_AGE, MIN_LAST_BYTES};
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

/// What `VOR_RECORD_SEGMENT` may be.
pub(super) const SEGMENT: &str =
    "a size from 16KB, a time from 1s, or both: `64MB`, `10m`, `64MB,10m`";
/// What `VOR_RECORD_KEEP` may be.
pub(super) const KEEP: &str =
    "a size from 64KB, a time from 1s, a number from 2, or several: `2GB`, `7d`, `2GB,200`";
/// What `VOR_RECORD_LAST` may be.
pub(super) const LAST: &str = "a time from 1s, a size from 1MB, or both: `30s`, `64MB`, `30s,64MB`";
/// What `VOR_DUMP_ON` may be.
pub(super) const DUMP_ON: &str = "a list of `frame:50ms`, `scope:NAME:200ms`, `count:NAME:10/1s`, `stall`, `panic`, `crash`, \
    `exit` and `failure`, or `nothing`";

impl FromStr for Last {
    type Err = Error;

    /// Reads a value of `VOR_RECORD_LAST`: a time, a size, or both.
    fn from_str(text: &str) -> Result<Self, Error> {
        last(text).ok_or_else(|| Error::config(format!("`{text}` is not {LAST}")))
    }
}

impl FromStr for DumpOn {
    type Err = Error;

    /// Reads a value of `VOR_DUMP_ON`: a list, or `nothing`.
    fn from_str(text: &str) -> Result<Self, Error> {
        dump_on(text).ok_or_else(|| Error::config(format!("`{text}` is not {DUMP_ON}")))
    }
}

impl Segments {
    /// Sets when a segment ends, by a value of `VOR_RECORD_SEGMENT`.
    ///
    /// # Errors
    ///
    /// The text is no such value ([`Error::is_config`]).
    pub fn end_at(self, text: &str) -> Result<Self, Error> {
        let set = segment(text);
        let set = set.ok_or_else(|| Error::config(format!("`{text}` is not {SEGMENT}")))?;
        Ok(set.or(self))
    }

    /// Sets which segments are kept, by a value of `VOR_RECORD_KEEP`.
    ///
    /// # Errors
    ///
    /// The text is no such value ([`Error::is_config`]).
    pub fn keep(self, text: &str) -> Result<Self, Error> {
        let set = keep(text);
        let set = set.ok_or_else(|| Error::config(format!("`{text}` is not {KEEP}")))?;
        Ok(set.or(self))
    }
}

/// Reads how much is kept in memory: a time, a size, or both.
pub(super) fn last(text: &str) -> Option<Last> {
    let mut last = Last::new();
    each_once(text, |limit| {
        last = match limit {
            Limit::Bytes(bytes) if bytes >= MIN_LAST_BYTES as u64 => {
                last.size(usize::try_from(bytes).ok()?)
            }
            Limit::Age(age) if age >= MIN_LAST_AGE => last.age(age),
            _ => return None,
        };
        Some(())
    })?;
    Some(last)
}

/// Reads what asks for a dump: a list, or `nothing`.
pub(super) fn dump_on(text: &str) -> Option<DumpOn> {
    let nothing = DumpOn::nothing();
    if text == "nothing" {
        return Some(nothing);
    }
    text.split(',').try_fold(nothing, |dump_on, part| {
        let (kind, rest) = match part.trim().split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (part.trim(), None),
        };
        Some(match (kind, rest) {
            ("frame", Some(limit)) => dump_on.slow_frame(short_time(limit)?),
            ("scope", Some(rest)) => {
                let (name, limit) = rest.rsplit_once(':').filter(|(name, _)| !name.is_empty())?;
                dump_on.slow_scope(name, short_time(limit)?)
            }
            ("count", Some(rest)) => {
                let (name, rest) = rest.rsplit_once(':').filter(|(name, _)| !name.is_empty())?;
                let (times, within) = rest.split_once('/')?;
                let times = times.trim().parse().ok().filter(|times| *times > 0)?;
                dump_on.count(name, times, short_time(within)?)
            }
            ("stall", None) => dump_on.stall(true),
            ("panic", None) => dump_on.panic(true),
            ("crash", None) => dump_on.crash(true),
            ("exit", None) => dump_on.exit(true),
            ("failure", None) => dump_on.failure(true),
            _ => return None,
        })
    })
}

/// Reads the duration of a scope or of a frame.
fn short_time(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let text = text.trim();
    let (number, seconds) = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))?;
    let seconds = number.trim().parse::<f64>().ok()? * seconds;
    (0.0..=MAX_SECONDS)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
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
