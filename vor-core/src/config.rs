//! Settings: a builder, and the variables that stand for it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::drain;
use crate::sink::FrameSink;

/// How vor records. Start from [`Config::new`] (no variables) or [`Config::from_env`], then [`enable`](Config::enable).
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_core::config::Config; }
/// let path = std::env::temp_dir().join("run.vor");
/// vor::Config::new().capture(path).ring_kib(512).enable();
/// # vor_core::drain::disable();
/// ```
pub struct Config {
    pub(crate) ring_kib: usize,
    pub(crate) capture: Option<PathBuf>,
    pub(crate) spans: bool,
    pub(crate) every: u64,
    pub(crate) max_frames: Option<u64>,
    pub(crate) slow_ns: Option<u64>,
    pub(crate) before: usize,
    pub(crate) statistics: bool,
    pub(crate) inline_drain: bool,
    pub(crate) drain_interval: Duration,
    pub(crate) max_spans_per_frame: usize,
    #[cfg(feature = "puffin")]
    pub(crate) puffin: Option<bool>,
    pub(crate) sinks: Vec<(String, Box<dyn FrameSink>)>,
    /// Whether the capture's path comes from `VOR_RECORD`, for messages.
    pub(crate) from_env: bool,
}

/// Default size of a thread's ring, in KiB: where the system hands out memory as it is touched, enough for a worker that gets no core for 20 ms.
pub const DEFAULT_RING_KIB: usize = if cfg!(unix) { 16 << 10 } else { 4 << 10 };
/// Smallest and largest size of a thread's ring, in KiB.
pub const RING_KIB_RANGE: std::ops::RangeInclusive<usize> = 4..=1 << 20;
/// Longest time that a finished span waits for its drain.
pub const DEFAULT_DRAIN_INTERVAL: Duration = Duration::from_millis(20);
/// Default bound of the spans that a frame holds as trees.
pub const DEFAULT_MAX_SPANS_PER_FRAME: usize = 1 << 20;

/// The variables that [`Config::from_env`] reads.
const VARIABLES: [&str; 7] = [
    "VOR_RECORD",
    "VOR_RECORD_FLAME",
    "VOR_RECORD_SLOW_MS",
    "VOR_RECORD_BEFORE",
    "VOR_RECORD_EVERY",
    "VOR_RECORD_MAX_FRAMES",
    "VOR_RING_KIB",
];

/// Returns those names that are meant for vor and unknown to it: slips of the pen, and variables of other versions.
fn unknown_variables(set: impl Iterator<Item = OsString>) -> Vec<String> {
    let ours = |name: &String| name.starts_with("VOR_RECORD") || name.starts_with("VOR_RING");
    let mut unknown: Vec<String> = set
        .filter_map(|name| name.into_string().ok())
        .filter(|name| ours(name) && !VARIABLES.contains(&name.as_str()))
        .collect();
    unknown.sort_unstable();
    unknown
}

/// Reads one variable. A value that `parse` refuses is reported and counts as none.
fn value<T>(
    get: &impl Fn(&str) -> Option<OsString>,
    report: &mut impl FnMut(&str),
    name: &str,
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let raw = get(name)?;
    let text = raw.to_string_lossy();
    let value = parse(text.trim());
    if value.is_none() {
        report(&format!(
            "{name}: expected {expected}, found `{text}`; it is ignored"
        ));
    }
    value
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("ring_kib", &self.ring_kib)
            .field("capture", &self.capture)
            .field("spans", &self.spans)
            .field(
                "sinks",
                &self.sinks.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

impl Config {
    /// The defaults: no capture, no sinks.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ring_kib: DEFAULT_RING_KIB,
            capture: None,
            spans: true,
            every: 1,
            max_frames: None,
            slow_ns: None,
            before: 2,
            statistics: false,
            inline_drain: false,
            drain_interval: DEFAULT_DRAIN_INTERVAL,
            max_spans_per_frame: DEFAULT_MAX_SPANS_PER_FRAME,
            #[cfg(feature = "puffin")]
            puffin: None,
            sinks: Vec::new(),
            from_env: false,
        }
    }

    /// The settings that the environment asks for. A value that cannot be used is reported on stderr, in one line, and left out.
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | `VOR_RECORD=PATH` | writes a capture: metrics only, unless one of the next two asks for spans |
    /// | `VOR_RECORD_FLAME=1` | spans too |
    /// | `VOR_RECORD_SLOW_MS=X` | spans of frames slower than X milliseconds |
    /// | `VOR_RECORD_BEFORE=N` | and of the N frames before each (2) |
    /// | `VOR_RECORD_EVERY=N` | spans of one frame in N |
    /// | `VOR_RECORD_MAX_FRAMES=N` | spans of N frames at most |
    /// | `VOR_RING_KIB=N` | size of each thread's ring |
    ///
    /// A variable that begins like these and is none of them is reported as well.
    #[must_use]
    pub fn from_env() -> Self {
        if cfg!(all(target_arch = "wasm32", target_os = "unknown")) {
            // A page has no variables, and the standard library panics where they are asked for.
            return Self::new();
        }
        let set = std::env::vars_os().map(|(name, _)| name);
        for name in unknown_variables(set) {
            drain::report::line(&format!(
                "{name}: one of {} was expected, found a variable that vor does not have; it is ignored",
                VARIABLES.join(", ")
            ));
        }
        Self::from_variables(|name| std::env::var_os(name), drain::report::line)
    }

    pub(crate) fn from_variables(
        get: impl Fn(&str) -> Option<OsString>,
        mut report: impl FnMut(&str),
    ) -> Self {
        let mut config = Self::new();
        if let Some(kib) = value(
            &get,
            &mut report,
            "VOR_RING_KIB",
            "a whole number from 4 to 1048576",
            |text| text.parse().ok().filter(|kib| RING_KIB_RANGE.contains(kib)),
        ) {
            config.ring_kib = kib;
        }
        if let Some(every) = value(
            &get,
            &mut report,
            "VOR_RECORD_EVERY",
            "a whole number of at least 1",
            |text| text.parse().ok().filter(|every| *every >= 1),
        ) {
            config.every = every;
        }
        config.max_frames = value(
            &get,
            &mut report,
            "VOR_RECORD_MAX_FRAMES",
            "a whole number",
            |text| text.parse().ok(),
        );
        let expected = "a number of milliseconds of at least 0";
        let slow = value(&get, &mut report, "VOR_RECORD_SLOW_MS", expected, |text| {
            text.parse().ok().filter(|ms| (0.0..1e12).contains(ms))
        });
        if let Some(before) = value(
            &get,
            &mut report,
            "VOR_RECORD_BEFORE",
            "a whole number up to 1000",
            |text| text.parse().ok().filter(|before| *before <= 1000),
        ) {
            config.before = before;
        }
        let flame = get("VOR_RECORD_FLAME");
        if let Some(value) = &flame
            && value != "1"
            && value != "0"
            && !value.is_empty()
        {
            let text = value.to_string_lossy();
            report(&format!(
                "VOR_RECORD_FLAME: expected 0 or 1, found `{text}`; spans are not recorded"
            ));
        }
        config.slow_ns = slow.map(|ms: f64| (ms * 1e6) as u64);
        config.spans = flame.is_some_and(|value| value == "1") || config.slow_ns.is_some();
        match get("VOR_RECORD") {
            Some(path) if path.is_empty() => {
                report("VOR_RECORD: expected a path, found nothing; no capture is written")
            }
            Some(path) if path.to_string_lossy().starts_with("tcp://") => {
                let text = path.to_string_lossy();
                report(&format!(
                    "VOR_RECORD: expected a path, found the address `{text}`; no capture is written"
                ));
            }
            path => {
                config.from_env = path.is_some();
                config.capture = path.map(PathBuf::from);
            }
        }
        config
    }

    /// Writes a capture to `path`, spans included unless [`spans`](Self::spans) says otherwise.
    #[must_use]
    pub fn capture(mut self, path: impl Into<PathBuf>) -> Self {
        self.capture = Some(path.into());
        self.from_env = false;
        self
    }

    /// Sets whether the capture holds spans, or metrics only.
    #[must_use]
    pub fn spans(mut self, spans: bool) -> Self {
        self.spans = spans;
        self
    }

    /// Keeps the spans of one frame in `every`; 0 is taken as 1.
    #[must_use]
    pub fn every(mut self, every: u64) -> Self {
        self.every = every.max(1);
        self
    }

    /// Keeps the spans of `frames` frames at most; metrics continue.
    #[must_use]
    pub fn max_frames(mut self, frames: u64) -> Self {
        self.max_frames = Some(frames);
        self
    }

    /// Keeps spans only of frames slower than `limit`, and of the `before` frames before each: a flight recorder.
    #[must_use]
    pub fn slow_frames(mut self, limit: Duration, before: usize) -> Self {
        self.slow_ns = Some(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        self.before = before;
        self
    }

    /// Sets the size of each thread's ring, in KiB, cut to [`RING_KIB_RANGE`]. It holds for threads that record for the first time afterwards.
    #[must_use]
    pub fn ring_kib(mut self, kib: usize) -> Self {
        self.ring_kib = kib.clamp(*RING_KIB_RANGE.start(), *RING_KIB_RANGE.end());
        self
    }

    /// Sets whether the worker keeps statistics of every scope for [`drain::stats`].
    #[must_use]
    pub fn statistics(mut self, statistics: bool) -> Self {
        self.statistics = statistics;
        self
    }

    /// Drains inside `frame_mark()` instead of on a worker thread, as is always done where there are no threads.
    #[must_use]
    pub fn inline_drain(mut self, inline: bool) -> Self {
        self.inline_drain = inline;
        self
    }

    /// Sets the longest time that a finished span waits for its drain while the program records; 1 to 50 ms.
    #[must_use]
    pub fn drain_interval(mut self, interval: Duration) -> Self {
        self.drain_interval = interval.clamp(Duration::from_millis(1), Duration::from_millis(50));
        self
    }

    /// Sets how many spans a frame holds as trees; the rest is counted.
    #[must_use]
    pub fn max_spans_per_frame(mut self, spans: usize) -> Self {
        self.max_spans_per_frame = spans;
        self
    }

    /// Sets whether puffin is fed while its scopes are on ([`puffin::are_scopes_on`]); it is unless the last call says otherwise.
    ///
    /// Each main frame then ends a frame of puffin's, as `frame_mark()` of vor 0.2.1 did. A program that calls
    /// [`puffin::GlobalProfiler::new_frame`] by itself may want to switch that off.
    #[cfg(feature = "puffin")]
    #[must_use]
    pub fn puffin(mut self, puffin: bool) -> Self {
        self.puffin = Some(puffin);
        self
    }

    /// Adds a sink. `name` is what it is called when it fails.
    #[must_use]
    pub fn sink(mut self, name: impl Into<String>, sink: impl FrameSink + 'static) -> Self {
        self.sinks.push((name.into(), Box::new(sink)));
        self
    }

    /// Starts recording with these settings. Where recording is on already, the sinks are added and the rest is left as it is.
    pub fn enable(self) {
        drain::start(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_almost_ours_are_found() {
        let set = [
            "HOME",
            "VOR_RECORD",
            "VOR_RECORD_FLAMES",
            "VOR_RING",
            "VOR_RING_KIB",
            "VORTEX",
        ];
        let mut found = unknown_variables(set.into_iter().map(OsString::from));
        assert_eq!(found, ["VOR_RECORD_FLAMES", "VOR_RING"]);
        found = unknown_variables(VARIABLES.into_iter().map(OsString::from));
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn every_known_variable_is_read() {
        let asked = std::cell::RefCell::new(Vec::new());
        let get = |name: &str| {
            asked.borrow_mut().push(name.to_owned());
            None
        };
        let _ = Config::from_variables(get, |line| panic!("{line}"));
        let mut asked = asked.into_inner();
        asked.sort_unstable();
        asked.dedup();
        let mut known = VARIABLES.map(str::to_owned).to_vec();
        known.sort_unstable();
        assert_eq!(asked, known);
    }
}
