//! The variables of the environment that vor reads, and those that only look as if it did.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::os::report;

/// The variables that [`Config::from_env`](crate::setup::Config::from_env) reads.
pub(crate) const KNOWN: &[&str] = &[
    "VOR_RECORD",
    "VOR_RECORD_FLAME",
    "VOR_RECORD_SLOW_MS",
    "VOR_RECORD_BEFORE",
    "VOR_RECORD_EVERY",
    "VOR_RECORD_MAX_FRAMES",
    "VOR_RING_KIB",
    "VOR_STATS",
    "VOR_CPU",
    "VOR_ALLOC",
    "VOR_HEAP_S",
    "VOR_WATCHDOG_MS",
    "VOR_SIGNALS",
];

/// How the names of such variables begin, for those of other versions and those that are misspelt.
const PREFIXES: [&str; 8] = [
    "VOR_RECORD",
    "VOR_RING",
    "VOR_STAT",
    "VOR_CPU",
    "VOR_ALLOC",
    "VOR_HEAP",
    "VOR_WATCH",
    "VOR_SIGNAL",
];

/// Letters of a known name, behind `VOR_`, for each slip of the pen that a name may have and still
/// be taken for it. Names of vor's own build and tests are farther away.
const LETTERS_PER_SLIP: usize = 3;

/// Returns those names that are meant for vor and unknown to it, slips of the pen and variables of
/// other versions, each with the known one that is nearest.
fn unknown(set: impl Iterator<Item = OsString>) -> Vec<(String, &'static str)> {
    let meant = |name: String| {
        // That of the processor time is its own, which asks for it by itself.
        if name == "VOR_CPU_SOURCE" || KNOWN.contains(&name.as_str()) || !name.starts_with("VOR") {
            return None;
        }
        let most_slips = |known: &str| (known.len() - "VOR_".len()) / LETTERS_PER_SLIP;
        let is_near = |known: &&str| slips(&name, known) <= most_slips(known);
        let near = KNOWN.iter().copied().filter(is_near);
        if let Some(nearest) = near.min_by_key(|known| slips(&name, known)) {
            return Some((name, nearest));
        }
        if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            return None;
        }
        let alike = |known: &&str| {
            known
                .bytes()
                .zip(name.bytes())
                .take_while(|(a, b)| a == b)
                .count()
        };
        let nearest = KNOWN.iter().copied().max_by_key(alike)?;
        Some((name, nearest))
    };
    let mut unknown: Vec<_> = set
        .filter_map(|name| name.into_string().ok())
        .filter_map(meant)
        .collect();
    unknown.sort_unstable();
    unknown
}

/// Returns how many bytes must be inserted, removed, replaced, or exchanged with their neighbour,
/// to get from one text to the other.
fn slips(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    // Rows of the table of distances between beginnings of both: the one before the last, the last.
    let mut earlier: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, &byte) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &other) in to.iter().enumerate() {
            let mut least = (last[j] + usize::from(byte != other))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            let is_exchange = i > 0 && j > 0 && byte == to[j - 1] && from[i - 1] == other;
            if is_exchange {
                least = least.min(earlier[j - 1] + 1);
            }
            row.push(least);
        }
        earlier = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

/// Reports, once for the process, variables that are meant for vor and unknown to it.
pub(crate) fn report_unknown() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if REPORTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let set = std::env::vars_os().map(|(name, _)| name);
    for (name, nearest) in unknown(set) {
        report::line(&format!(
            "{name}: vor has no such variable and ignores it; did you mean {nearest}?"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_almost_ours_are_found() {
        let set = [
            "HOME",
            "VOR_RECORD",
            "VOR_RECORD_FLAMES",
            "VOR_RING",
            "VOR_RING_KIB",
            "VOR_RECRD",
            "VOR_RCEORD",
            "VOR_HEAPS",
            "VOR_STATISTICS",
            "VORTEX",
            // Of vor's own processor account, build, tests and Python package.
            "VOR_CPU_SOURCE",
            "VOR_CACHE",
            "VOR_CI_INSTALL",
            "VOR_CI_SKIPS",
            "VOR_ORACLE_CACHE",
            "VOR_ORACLE_OUT",
            "VOR_FALLBACK_CLOCK",
            "VOR_FUZZ_SEEDS",
            "VOR_BENCH_CHILD",
            "VOR_TEST_ROLE",
            "VOR_TEST_HEAP",
            "VOR_PYTHON_RUN",
            "VOR_COMMAND",
        ];
        let found = unknown(set.into_iter().map(OsString::from));
        let found = found.iter().map(|(name, near)| (name.as_str(), *near));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ("VOR_HEAPS", "VOR_HEAP_S"),
                ("VOR_RCEORD", "VOR_RECORD"),
                ("VOR_RECORD_FLAMES", "VOR_RECORD_FLAME"),
                ("VOR_RECRD", "VOR_RECORD"),
                ("VOR_RING", "VOR_RING_KIB"),
                ("VOR_STATISTICS", "VOR_STATS"),
            ]
        );
        let found = unknown(KNOWN.iter().map(OsString::from));
        assert!(found.is_empty(), "{found:?}");
    }
}
