//! The captures of the profiler vor in the formats of other programs.
//!
//! | module | writes |
//! |---|---|
//! | [`chrome`] | Chrome's trace events, as JSON |
//! | [`collapsed`] | a line per stack, for flame graphs |
//! | [`csv`] | tables of spans and metrics |
//! | `firefox` | profiles for the Firefox Profiler |
//! | `parquet` | tables for DuckDB, Spark and others |
//! | [`perfetto`] | Perfetto's traces |
//! | `pprof` | profiles for `go tool pprof` and Pyroscope |
//! | [`samply`] | markers for a profile of samply |
//! | [`speedscope`] | profiles for speedscope.app |
//!
//! Each exporter is a [`FrameSink`](vor_capture::sink::FrameSink) over a writer: it cannot
//! distinguish a running program from a capture. The crate starts no thread, keeps no global state
//! and reads no clock. Programs use the facade crate `vor`; this crate is for tools that convert
//! captures without the recorder.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod chrome;
mod chunked;
pub mod collapsed;
pub mod csv;
#[cfg(feature = "firefox")]
pub mod firefox;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod perfetto;
#[cfg(feature = "pprof")]
pub mod pprof;
mod proto;
mod replay;
pub mod samply;
pub mod speedscope;
mod spill;
mod stacks;
mod merged;
mod tasks;

use std::borrow::Cow;
use std::io::Write as _;

use rustc_hash::FxHashSet;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, SiteInfo, ThreadId};

/// Returns the wall-clock time from which exporters count: the first point of the catalog's
/// timeline, in nanoseconds since 1970.
///
/// Viewers hold times as floating-point numbers, in which nanoseconds since 1970 do not fit.
#[must_use]
pub fn origin_ns(catalog: &Catalog) -> i64 {
    catalog
        .timeline
        .syncs()
        .first()
        .map_or(0, |sync| sync.unix_ns)
}

/// Returns what a viewer calls a thread: its name, or one made of its number.
#[must_use]
pub fn thread_label(catalog: &Catalog, id: ThreadId) -> Cow<'_, str> {
    match catalog.thread(id) {
        Some(thread) if !thread.name.is_empty() => Cow::Borrowed(&thread.name),
        Some(thread) if thread.os_id != 0 => Cow::Owned(format!("thread {}", thread.os_id)),
        _ => Cow::Owned(format!("thread #{}", id.0)),
    }
}

/// Thread numbers that the operating system did not give begin here; Linux stays below 2^22.
const FIRST_MADE_TID: u64 = 1 << 30;

/// Numbers of threads in a trace.
///
/// The operating system gives a number again after its thread is gone; a track must not hold two
/// threads.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    taken: FxHashSet<u64>,
}

impl Numbers {
    /// Returns a thread's number, which no other thread gets. Asked once for each thread.
    pub(crate) fn of(&mut self, catalog: &Catalog, thread: ThreadId) -> u64 {
        let os_id = catalog.thread(thread).map_or(0, |thread| thread.os_id);
        if os_id != 0 && os_id < FIRST_MADE_TID && self.taken.insert(os_id) {
            os_id
        } else {
            FIRST_MADE_TID + u64::from(thread.0)
        }
    }
}

/// Returns the name of a call site's argument; a value beyond the declared names is called by its
/// position.
#[must_use]
pub fn arg_name(site: Option<&SiteInfo>, position: usize) -> Cow<'_, str> {
    match site.and_then(|site| site.arg_names.get(position)) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("arg{position}")),
    }
}

/// Returns the keys of the first arguments of a call site. A map has each key once, so a name that
/// another argument of the site has becomes one of its position.
///
/// # Examples
///
/// ```
/// use vor_capture::filled;
/// use vor_capture::model::catalog::SiteInfo;
///
/// let site = filled!(SiteInfo { arg_names: vec!["size".into(), "size".into()] });
/// assert_eq!(vor_export::arg_keys(Some(&site), 3), ["size", "arg1", "arg2"]);
/// ```
#[must_use]
pub fn arg_keys(site: Option<&SiteInfo>, count: usize) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(count);
    for position in 0..count {
        let mut key = arg_name(site, position).into_owned();
        if keys.contains(&key) {
            key = format!("arg{position}");
        }
        while keys.contains(&key) {
            key.push('_');
        }
        keys.push(key);
    }
    keys
}

/// Appends arguments as people read them: `k=v, k=v`.
pub fn push_args_text(out: &mut Vec<u8>, site: Option<&SiteInfo>, values: &[ArgValue]) {
    for (position, value) in values.iter().enumerate() {
        if position > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(arg_name(site, position).as_bytes());
        out.push(b'=');
        match value {
            ArgValue::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            ArgValue::I64(value) => push_i64(out, *value),
            ArgValue::U64(value) => push_u64(out, *value),
            ArgValue::Str(value) => out.extend_from_slice(value.as_bytes()),
            // Writing to a `Vec` does not fail.
            other => drop(write!(out, "{other}")),
        }
    }
}

/// Two digits at a time: the decimal numbers from 00 to 99.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut i = 0;
    while i < 100 {
        pairs[2 * i] = b'0' + (i / 10) as u8;
        pairs[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    pairs
};

/// Digits of the largest `u64`.
const U64_DIGITS: usize = 20;

/// Appends a number in decimal.
#[inline]
pub(crate) fn push_u64(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0; U64_DIGITS];
    let from = write_digits(&mut digits, value);
    out.extend_from_slice(&digits[from..]);
}

/// Appends a number in decimal.
pub(crate) fn push_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_u64(out, value.unsigned_abs());
}

/// Writes a number to the end of `digits`; returns where it begins.
#[inline]
fn write_digits(digits: &mut [u8; U64_DIGITS], mut value: u64) -> usize {
    let mut at = U64_DIGITS;
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    let pair = value as usize * 2;
    if value >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        digits[at] = PAIRS[pair + 1];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_the_standard_library_writes_them() {
        let mut values: Vec<u64> = (0..20).map(|exponent| 10_u64.pow(exponent)).collect();
        values.extend(values.clone().iter().map(|value| value - 1));
        values.extend([u64::MAX, i64::MAX as u64, 7, 42, 105, 1_234_567]);
        for value in values {
            let mut out = Vec::new();
            push_u64(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
            let signed = (value as i64).wrapping_neg();
            out.clear();
            push_i64(&mut out, signed);
            assert_eq!(out, signed.to_string().into_bytes());
        }
    }
}
