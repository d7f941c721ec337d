//! The environment variables: their settings, and the detection of misspelt names.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vor_capture::sort::sort_by;

#[cfg(feature = "shared-memory")]
use super::config::SharedMemory;
use super::config::{Config, RING_KIB_RANGE};
#[cfg(feature = "rules")]
use crate::hot::rules::ScopeRules;
use crate::os::report;
#[cfg(all(feature = "live", not(target_family = "wasm")))]
use crate::sinks::live::{Listen, Token};

/// The variables that [`Config::from_env`](crate::setup::Config::from_env) reads.
pub(crate) const KNOWN: &[&str] = &[
    "VOR_RECORD",
    "VOR_RECORD_SPANS",
    "VOR_RECORD_FLAME",
    "VOR_RECORD_SLOW_FRAMES_MS",
    "VOR_RECORD_FRAMES_BEFORE",
    "VOR_RECORD_EVERY",
    "VOR_RECORD_MAX_FRAMES",
    "VOR_RECORD_SEGMENT",
    "VOR_RECORD_KEEP",
    "VOR_RECORD_LAST",
    "VOR_RECORD_SHM",
    "VOR_DUMP_ON",
    "VOR_LISTEN",
    "VOR_LISTEN_TOKEN",
    "VOR_LISTEN_TOKEN_FILE",
    "VOR_LISTEN_ORIGIN",
    "VOR_RING_KIB",
    "VOR_COUNT_SCOPES",
    "VOR_CPU",
    "VOR_CPU_TIME",
    "VOR_CPU_SPLIT",
    "VOR_WAITS",
    "VOR_ALLOCATIONS",
    "VOR_HEAP_SNAPSHOTS_S",
    "VOR_SCHED",
    "VOR_WATCHDOG_MS",
    "VOR_SCOPES",
    "VOR_SCOPE_BUDGET",
    "VOR_SIGNALS",
];

/// The variables that `get` reads; an unusable value goes to `report`, in one line.
pub(super) struct Variables<'a> {
    pub(super) get: &'a dyn Fn(&str) -> Option<OsString>,
    pub(super) report: &'a mut dyn FnMut(&str),
}

impl Variables<'_> {
    /// Reads one variable. A value that `parse` refuses is reported and ignored.
    pub(super) fn value<T>(
        &mut self,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let value = parse(text.trim());
        if value.is_none() {
            self.refuse(name, &text, expected);
        }
        value
    }

    // Out of line: `value` is compiled for each of its callers.
    #[inline(never)]
    fn text(&self, name: &str) -> Option<String> {
        Some((self.get)(name)?.to_string_lossy().into_owned())
    }

    fn refuse(&mut self, name: &str, text: &str, expected: &str) {
        let shown = match text {
            "" => "an empty value".to_owned(),
            text => format!("`{text}`"),
        };
        (self.report)(&format!("{name}: {shown} is not {expected}; it is ignored"));
    }

    /// Reads a variable that is 0 or 1; an empty value counts as unset.
    fn flag(&mut self, name: &str) -> Option<bool> {
        let parse = |text: &str| match text {
            "" => Some(None),
            "0" => Some(Some(false)),
            "1" => Some(Some(true)),
            _ => None,
        };
        self.value(name, "0 or 1", parse).flatten()
    }

    /// Reads a duration for which `is_allowed` holds.
    fn time(
        &mut self,
        name: &str,
        expected: &str,
        is_allowed: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        self.value(name, expected, |text| {
            text.parse().ok().filter(|value| is_allowed(*value))
        })
    }

    /// Reads whether the capture holds spans, from the current variable or else from that of vor
    /// 0.2.1. Only an exact 1 switches them on. `None` if neither is set.
    fn spans(&mut self) -> Option<bool> {
        let set = ["VOR_RECORD_SPANS", "VOR_RECORD_FLAME"]
            .map(|name| (name, (self.get)(name).filter(|value| !value.is_empty())));
        let (name, value) = set
            .into_iter()
            .find_map(|(name, value)| Some((name, value?)))?;
        if value != "1" && value != "0" {
            let text = value.to_string_lossy();
            (self.report)(&format!(
                "{name}: `{text}` is not 0 or 1; spans are not recorded"
            ));
        }
        Some(value == "1")
    }

    /// Reads whether the rings are in shared memory, and in which folder.
    #[cfg(feature = "shared-memory")]
    fn shared_memory(&mut self, config: &mut Config) {
        let value = (self.get)("VOR_RECORD_SHM").unwrap_or_default();
        config.shared_memory = match value.to_str() {
            Some("" | "0") => None,
            Some("1") => Some(SharedMemory::Default),
            _ => Some(SharedMemory::In(PathBuf::from(value))),
        };
    }

    #[cfg(not(feature = "shared-memory"))]
    fn shared_memory(&mut self, _: &mut Config) {
        self.lacks_feature("shared-memory", &["VOR_RECORD_SHM"]);
    }

    /// Reads the rules that say which scopes are recorded. Bad ones are reported and ignored.
    #[cfg(feature = "rules")]
    fn scopes(&mut self, config: &mut Config) {
        let Some(text) = (self.get)("VOR_SCOPES") else {
            return;
        };
        match text.to_string_lossy().parse::<ScopeRules>() {
            Ok(rules) => config.scopes = Some(Ok(rules)),
            Err(error) => (self.report)(&format!("VOR_SCOPES: {error}; all rules are ignored")),
        }
    }

    #[cfg(not(feature = "rules"))]
    fn scopes(&mut self, _: &mut Config) {
        self.lacks_feature("rules", &["VOR_SCOPES"]);
    }

    /// Reports variables that are set, and need a feature that this build lacks.
    #[cfg(not(all(feature = "rules", feature = "segments", feature = "shared-memory")))]
    pub(super) fn lacks_feature(&mut self, feature: &str, names: &[&str]) {
        for name in names {
            let value = (self.get)(name).unwrap_or_default();
            if !value.is_empty() && value != "0" {
                (self.report)(&format!(
                    "{name}: the program was built without vor's feature `{feature}`; it is ignored"
                ));
            }
        }
    }

    /// Reads where clients may watch the program. Without its token it must not listen.
    #[cfg(all(feature = "live", not(target_family = "wasm")))]
    fn listen(&mut self, config: &mut Config) {
        let [address, origins] =
            ["VOR_LISTEN", "VOR_LISTEN_ORIGIN"].map(|name| (self.get)(name).unwrap_or_default());
        // The command reads the token too, so it may be set for that one only.
        let token = Token::from_variables(self.get);
        if address.is_empty() || address == "0" {
            return;
        }
        let listen = address.to_string_lossy().parse::<Listen>();
        match listen.and_then(|listen| Ok((listen, token?))) {
            Ok((listen, token)) => {
                let origins = origins.to_string_lossy();
                let origins = origins.split(',').map(str::trim);
                let origins = origins.filter(|origin| !origin.is_empty());
                config.listen = Some(Listen {
                    token,
                    origins: origins.map(str::to_owned).collect(),
                    ..listen
                });
            }
            Err(error) => {
                (self.report)(&format!("VOR_LISTEN: {error}; the program does not listen"));
            }
        }
    }

    /// Reports that the program cannot listen.
    #[cfg(not(all(feature = "live", not(target_family = "wasm"))))]
    fn listen(&mut self, _: &mut Config) {
        let names = [
            "VOR_LISTEN",
            "VOR_LISTEN_TOKEN",
            "VOR_LISTEN_TOKEN_FILE",
            "VOR_LISTEN_ORIGIN",
        ];
        let [address, ..] = names.map(|name| (self.get)(name).unwrap_or_default());
        if !address.is_empty() && address != "0" {
            (self.report)(
                "VOR_LISTEN: this program was built without vor's feature `live`, and does not listen",
            );
        }
    }

    /// Reads the path of the capture.
    fn path(&mut self) -> Option<PathBuf> {
        let path = (self.get)("VOR_RECORD")?;
        if path.is_empty() {
            (self.report)("VOR_RECORD: the path is empty; no capture is written");
            return None;
        }
        let text = path.to_string_lossy();
        if text.starts_with("tcp://") {
            (self.report)(&format!(
                "VOR_RECORD: `{text}` is an address, not a path; no capture is written"
            ));
            return None;
        }
        Some(PathBuf::from(path))
    }
}

impl Config {
    /// Makes the settings from the variables that `get` reads.
    pub(super) fn from_variables(
        get: impl Fn(&str) -> Option<OsString>,
        mut report: impl FnMut(&str),
    ) -> Self {
        let mut variables = Variables {
            get: &get,
            report: &mut report,
        };
        let mut config = Self::new();
        let expected = "a whole number from 4 to 1048576";
        let kib = variables.value("VOR_RING_KIB", expected, |text| {
            text.parse().ok().filter(|kib| RING_KIB_RANGE.contains(kib))
        });
        config.ring_kib = kib.unwrap_or(config.ring_kib);
        let expected = "a whole number of at least 1";
        let every = variables.value("VOR_RECORD_EVERY", expected, |text| {
            text.parse().ok().filter(|every| *every >= 1)
        });
        config.every = every.unwrap_or(config.every);
        config.max_frames = variables.value("VOR_RECORD_MAX_FRAMES", "a whole number", |text| {
            text.parse().ok()
        });
        let expected = "a number of milliseconds of at least 0";
        let slow_ms = variables.time("VOR_RECORD_SLOW_FRAMES_MS", expected, |ms| {
            (0.0..1e12).contains(&ms)
        });
        config.slow = slow_ms.map(|ms| Duration::from_nanos((ms * 1e6) as u64));
        let expected = "a whole number up to 1000";
        let before = variables.value("VOR_RECORD_FRAMES_BEFORE", expected, |text| {
            text.parse().ok().filter(|before| *before <= 1000)
        });
        config.frames_before = before.unwrap_or(config.frames_before);
        config.count_scopes = variables.flag("VOR_COUNT_SCOPES").unwrap_or(false);
        let cpu_time = variables.flag("VOR_CPU_TIME").unwrap_or(false);
        let cpu_split = variables.flag("VOR_CPU_SPLIT").unwrap_or(false);
        let waits = variables.flag("VOR_WAITS").unwrap_or(false);
        let measured = variables.value("VOR_CPU", "`time`, `split` or `wait`", |text| {
            let is_known = ["", "time", "split", "wait"].contains(&text);
            is_known.then(|| text.to_owned())
        });
        let measures = |what| measured.as_deref() == Some(what);
        config = config
            .cpu_time(cpu_time || measures("time"))
            .cpu_split(cpu_split || measures("split"))
            .waits(waits || measures("wait"));
        config.allocations = variables.flag("VOR_ALLOCATIONS");
        config.capture = variables.path();
        config.retention = variables.retention(config.capture.as_deref());
        let keeps_last = config.retention.keeps_last();
        let spans = variables.spans();
        // Without spans a dump says little.
        let by_default = config.slow.is_some() || keeps_last;
        config.spans = spans.unwrap_or(false) || by_default && spans != Some(false);
        let expected = "a number of milliseconds above 0";
        let watchdog_ms = variables.time("VOR_WATCHDOG_MS", expected, |ms| ms > 0.0 && ms < 1e12);
        config.watchdog = watchdog_ms.map(|ms| Duration::from_nanos((ms * 1e6) as u64));
        variables.scopes(&mut config);
        let expected = "a share of a core above 0 and up to 1, such as 0.01";
        let share = variables.time("VOR_SCOPE_BUDGET", expected, |share| {
            share > 0.0 && share <= 1.0
        });
        config.scope_budget = share.map(|share| share.max(0.0001));
        config.signals = variables.flag("VOR_SIGNALS").unwrap_or(true);
        let expected = "a number of seconds above 0";
        let heap_s = variables.time("VOR_HEAP_SNAPSHOTS_S", expected, |s| s > 0.0 && s < 1e9);
        config.heap_snapshots = heap_s.map(Duration::from_secs_f64);
        config.scheduler = variables.flag("VOR_SCHED").unwrap_or(false);
        variables.shared_memory(&mut config);
        variables.listen(&mut config);
        config.from_env = config.capture.is_some() || keeps_last;
        if let Some(path) = &config.capture
            && spans.is_none()
            && !config.spans
            && !config.count_scopes
        {
            (variables.report)(&format!(
                "VOR_RECORD: {} keeps metrics only; set VOR_RECORD_SPANS=1 to keep spans too",
                path.display()
            ));
        }
        config
    }
}

/// Prefixes of variables that are meant for vor, for those of other versions and misspelt ones.
const PREFIXES: &[&str] = &[
    "VOR_RECORD",
    "VOR_DUMP",
    "VOR_LISTEN",
    "VOR_RING",
    "VOR_COUNT",
    "VOR_CPU",
    "VOR_ALLOC",
    "VOR_HEAP",
    "VOR_SCHED",
    "VOR_WATCH",
    "VOR_SCOPE",
    "VOR_SIGNAL",
];

/// Letters of a known name, after `VOR_`, for each typing error that a similar name may have. Names
/// of vor's own build and tests differ by more.
const LETTERS_PER_EDIT: usize = 3;

/// Returns the names that are meant for vor but unknown to it, each with the nearest known one.
/// They are misspelt, or variables of other versions.
fn unknown(set: impl Iterator<Item = OsString>) -> Vec<(String, &'static str)> {
    let meant = |name: String| {
        // The CPU-time module reads this one itself.
        if name == "VOR_CPU_SOURCE" || KNOWN.contains(&name.as_str()) || !name.starts_with("VOR") {
            return None;
        }
        // Words left out: `VOR_RECORD_BEFORE` is nearer to another name by its letters.
        let has_all_words = |known: &&str| {
            let is_in = |word: &str| known.split('_').any(|other| other == word);
            name.split('_').all(is_in)
        };
        if name != "VOR"
            && let Some(&longer) = KNOWN.iter().find(|known| has_all_words(known))
        {
            return Some((name, longer));
        }
        let max_distance = |known: &str| (known.len() - "VOR_".len()) / LETTERS_PER_EDIT;
        let is_near = |known: &&str| edit_distance(&name, known) <= max_distance(known);
        let suggestions = KNOWN.iter().copied().filter(is_near);
        if let Some(nearest) = suggestions.min_by_key(|known| edit_distance(&name, known)) {
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
        // The first of several, which is the most common one: `VOR_CPU_TIME` before
        // `VOR_CPU_SPLIT`.
        let nearest = KNOWN.iter().copied().rev().max_by_key(alike)?;
        Some((name, nearest))
    };
    let mut unknown: Vec<_> = set
        .filter_map(|name| name.into_string().ok())
        .filter_map(meant)
        .collect();
    sort_by(&mut unknown, Ord::cmp);
    unknown
}

/// Returns how many bytes must be inserted, removed, replaced, or exchanged with a neighbour, to
/// turn one text into the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    // The last two rows of the table of distances between prefixes of both.
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

/// Reports, once per process, variables that are meant for vor but unknown to it.
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
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_similar_to_ours_are_found() {
        let set = [
            "HOME",
            "VOR_RECORD",
            "VOR_RECORD_FLAMES",
            "VOR_RING",
            "VOR_RING_KIB",
            "VOR_RECRD",
            "VOR_RCEORD",
            "VOR_HEAPS",
            "VOR_COUNT_SCOPE",
            "VOR_ALLOC",
            "VOR_CPUS",
            "VOR_CPU_TIM",
            "VOR_RECORD_SLOW_MS",
            "VOR_RECORD_BEFORE",
            "VOR",
            "VORTEX",
            // Names of vor's own CPU account, build, tests and Python package.
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
        let found = found
            .iter()
            .map(|(name, nearest)| (name.as_str(), *nearest));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ("VOR_ALLOC", "VOR_ALLOCATIONS"),
                ("VOR_COUNT_SCOPE", "VOR_COUNT_SCOPES"),
                ("VOR_CPUS", "VOR_CPU"),
                ("VOR_CPU_TIM", "VOR_CPU_TIME"),
                ("VOR_HEAPS", "VOR_HEAP_SNAPSHOTS_S"),
                ("VOR_RCEORD", "VOR_RECORD"),
                ("VOR_RECORD_BEFORE", "VOR_RECORD_FRAMES_BEFORE"),
                ("VOR_RECORD_FLAMES", "VOR_RECORD_FLAME"),
                ("VOR_RECORD_SLOW_MS", "VOR_RECORD_SLOW_FRAMES_MS"),
                ("VOR_RECRD", "VOR_RECORD"),
                ("VOR_RING", "VOR_RING_KIB"),
            ]
        );
        let found = unknown(KNOWN.iter().map(OsString::from));
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn every_known_variable_is_read() {
        let read_names = std::cell::RefCell::new(Vec::new());
        let get = |name: &str| {
            read_names.borrow_mut().push(name.to_owned());
            None
        };
        let _ = Config::from_variables(get, |line| panic!("{line}"));
        let mut read_names = read_names.into_inner();
        read_names.sort_unstable();
        read_names.dedup();
        let mut known = KNOWN
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>();
        known.sort_unstable();
        assert_eq!(read_names, known);
    }

    #[test]
    fn a_capture_without_spans_is_reported_unless_it_was_requested() {
        let lines = |set: &[(&str, &str)]| {
            let lines = std::cell::RefCell::new(Vec::new());
            let get = |name: &str| {
                let of = |(key, value): &(&str, &str)| (*key == name).then(|| value.into());
                set.iter().find_map(of)
            };
            let _ = Config::from_variables(get, |line| lines.borrow_mut().push(line.to_owned()));
            lines.into_inner()
        };
        let record = ("VOR_RECORD", "run.vor");
        assert_eq!(
            lines(&[record]),
            ["VOR_RECORD: run.vor keeps metrics only; set VOR_RECORD_SPANS=1 to keep spans too"]
        );
        for name in ["VOR_RECORD_SPANS", "VOR_RECORD_FLAME"] {
            assert_eq!(lines(&[record, (name, "")]).len(), 1);
        }
        for (name, value) in [
            ("VOR_RECORD_SPANS", "0"),
            ("VOR_RECORD_SPANS", "1"),
            ("VOR_RECORD_FLAME", "0"),
            ("VOR_RECORD_FLAME", "1"),
            ("VOR_RECORD_SLOW_FRAMES_MS", "8"),
            ("VOR_COUNT_SCOPES", "1"),
        ] {
            assert_eq!(lines(&[record, (name, value)]), [""; 0], "{name}={value}");
        }
    }

    /// The settings of some variables, and the reports.
    pub(in crate::setup) fn from(set: &[(&str, &str)]) -> (Config, Vec<String>) {
        let mut lines = Vec::new();
        let get = |name: &str| {
            let of = |(key, value): &(&str, &str)| (*key == name).then(|| value.into());
            set.iter().find_map(of)
        };
        let config = Config::from_variables(get, |line| lines.push(line.to_owned()));
        (config, lines)
    }

    #[test]
    fn a_value_out_of_its_range_is_reported_and_ignored() {
        let settings = |config: Config| {
            (
                (config.ring_kib, config.every, config.max_frames),
                (config.slow, config.frames_before, config.spans),
                (config.watchdog, config.heap_snapshots, config.capture),
                (config.signals, config.count_scopes, config.allocations),
                format!("{:?}", config.retention),
            )
        };
        let (unset, lines) = from(&[]);
        assert_eq!(lines, [""; 0]);
        assert!(unset.signals, "signals are handled by default");
        let unset = settings(unset);
        for (name, most, beyond) in [
            ("VOR_RING_KIB", "4", "3"),
            ("VOR_RING_KIB", "1048576", "1048577"),
            ("VOR_RECORD_EVERY", "2", "0"),
            ("VOR_RECORD_MAX_FRAMES", "0", "-1"),
            ("VOR_RECORD_SLOW_FRAMES_MS", "0", "-0.5"),
            ("VOR_RECORD_SLOW_FRAMES_MS", "999999999999", "1e12"),
            ("VOR_RECORD_SLOW_FRAMES_MS", "1", "NaN"),
            ("VOR_RECORD_FRAMES_BEFORE", "1000", "1001"),
            ("VOR_WATCHDOG_MS", "0.001", "0"),
            ("VOR_WATCHDOG_MS", "999999999999", "inf"),
            ("VOR_HEAP_SNAPSHOTS_S", "0.5", "0"),
            ("VOR_HEAP_SNAPSHOTS_S", "999999999", "1e9"),
            ("VOR_SIGNALS", "0", "no"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_SEGMENT", "16KB", "15999B"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_SEGMENT", "1s,1GiB", "0.9s"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_SEGMENT", "10m", "10M"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_SEGMENT", "64mb", "64"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_SEGMENT", "1h", "1h,2h"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_KEEP", "2", "1"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_KEEP", "64KB", "63KB"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_KEEP", "1.5GB,7d,200", "1.5GB,7d,200,1"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_KEEP", "7d", "-7d"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_LAST", "1s", "0.9s"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_LAST", "30s,1MB", "30s,999KB"),
            #[cfg(feature = "segments")]
            ("VOR_RECORD_LAST", "64MB", "64"),
            ("VOR_COUNT_SCOPES", "1", "2"),
            ("VOR_ALLOCATIONS", "0", "true"),
        ] {
            let (config, lines) = from(&[(name, most)]);
            assert_eq!(lines, [""; 0], "{name}={most}");
            assert_ne!(settings(config), unset, "{name}={most}");
            let (config, lines) = from(&[(name, beyond)]);
            let expected = format!("{name}: `{beyond}` is not ");
            assert!(lines[0].starts_with(&expected), "{lines:?}");
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert_eq!(settings(config), unset, "{name}={beyond}");
        }
    }

    /// Values near valid ones, and any text.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<f64>().prop_map(|number| number.to_string()),
            any::<i128>().prop_map(|number| number.to_string()),
            (0..4).prop_map(|number| format!(" {number} ")),
            "[+-]?[0-9._eE]{0,24}",
            any::<String>(),
        ]
    }

    proptest! {
        #[test]
        fn any_value_is_used_or_reported_in_a_line_of_its_own(
            values in proptest::collection::vec(value(), KNOWN.len()),
        ) {
            let set: Vec<_> = KNOWN.iter().zip(&values)
                .map(|(name, value)| (*name, value.as_str())).collect();
            let (config, lines) = from(&set);
            for line in &lines {
                let named = KNOWN.iter().filter(|name| line.starts_with(&format!("{name}: ")));
                prop_assert_eq!(named.count(), 1, "{}", line);
            }
            prop_assert!(lines.len() <= KNOWN.len());
            prop_assert!(RING_KIB_RANGE.contains(&config.ring_kib));
            prop_assert!(config.every >= 1 && config.frames_before <= 1000);
        }
    }

    #[test]
    fn a_variable_whose_feature_is_missing_is_reported() {
        for (name, feature, is_on) in [
            ("VOR_SCOPES", "rules", cfg!(feature = "rules")),
            ("VOR_RECORD_SEGMENT", "segments", cfg!(feature = "segments")),
            ("VOR_RECORD_KEEP", "segments", cfg!(feature = "segments")),
            ("VOR_RECORD_LAST", "segments", cfg!(feature = "segments")),
            ("VOR_DUMP_ON", "segments", cfg!(feature = "segments")),
            (
                "VOR_RECORD_SHM",
                "shared-memory",
                cfg!(feature = "shared-memory"),
            ),
        ] {
            let (_, lines) = from(&[(name, "4GB")]);
            let report = format!(
                "{name}: the program was built without vor's feature `{feature}`; it is ignored"
            );
            assert_eq!(lines == [report], !is_on, "{lines:?}");
        }
    }

    #[cfg(feature = "shared-memory")]
    #[test]
    fn rings_are_in_shared_memory_as_the_variable_says() {
        let set = |value| from(&[("VOR_RECORD_SHM", value)]);
        for (value, expected) in [
            ("", None),
            ("0", None),
            ("1", Some(SharedMemory::Default)),
            ("/run/app/", Some(SharedMemory::In("/run/app/".into()))),
        ] {
            let (config, lines) = set(value);
            assert_eq!((config.shared_memory, lines), (expected, vec![]), "{value}");
        }
    }

    #[cfg(all(feature = "live", not(target_family = "wasm")))]
    #[test]
    fn a_program_listens_as_the_variables_say() {
        let set = |more: &[(&'static str, &'static str)]| {
            let (config, lines) = from(&[&[("VOR_LISTEN", "127.0.0.1:5005")], more].concat());
            (config.listen, lines)
        };
        let plain: Listen = "127.0.0.1:5005".parse().unwrap();
        assert_eq!(set(&[]), (Some(plain.clone()), vec![]));
        let origins = ("VOR_LISTEN_ORIGIN", "https://a.example, http://b:80,");
        let token = ("VOR_LISTEN_TOKEN", "0123456789abcdef");
        let listen = plain
            .token(Token::new("0123456789abcdef").unwrap())
            .origin("https://a.example")
            .origin("http://b:80");
        assert_eq!(set(&[origins, token]), (Some(listen), vec![]));
        for off in ["", "0"] {
            let (config, lines) = from(&[("VOR_LISTEN", off), token]);
            assert_eq!((config.listen, lines), (None, vec![]));
        }
        let (listen, lines) = set(&[("VOR_LISTEN_TOKEN", "short")]);
        assert_eq!((listen, lines.len()), (None, 1));
        assert!(
            lines[0].starts_with("VOR_LISTEN: VOR_LISTEN_TOKEN: a token has"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_capture_needs_a_path() {
        let set = |path| from(&[("VOR_RECORD", path), ("VOR_RECORD_SPANS", "1")]);
        let (config, lines) = set("run.vor");
        assert_eq!((config.capture, lines), (Some("run.vor".into()), vec![]));
        for (path, reason) in [
            ("", "the path is empty"),
            ("tcp://host:1", "`tcp://host:1` is an address, not a path"),
        ] {
            let (config, lines) = set(path);
            assert_eq!(config.capture, None);
            let expected = format!("VOR_RECORD: {reason}; no capture is written");
            assert_eq!(lines, [expected]);
        }
    }

    #[test]
    fn spans_are_kept_by_either_name_and_the_new_one_wins() {
        let spans = |set: &[(&str, &str)]| {
            let get = |name: &str| {
                let of = |(key, value): &(&str, &str)| (*key == name).then(|| value.into());
                set.iter().find_map(of)
            };
            Config::from_variables(get, |line| panic!("{line}")).spans
        };
        let (new, old) = ("VOR_RECORD_SPANS", "VOR_RECORD_FLAME");
        assert!(!spans(&[]));
        assert!(spans(&[(new, "1")]) && spans(&[(old, "1")]));
        assert!(!spans(&[(new, "0"), (old, "1")]) && spans(&[(new, "1"), (old, "0")]));
        assert!(spans(&[(new, ""), (old, "1")]));
    }
}
