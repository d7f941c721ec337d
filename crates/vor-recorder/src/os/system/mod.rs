//! The resource usage of this process, from the operating system.
//!
//! A [`ProcessSampler`] reads the counters of the whole process: [`ProcessSample`]. Most of them
//! only grow. [`SystemSample::between`] converts two consecutive samples, and the time between
//! them, to the values of a frame, in the order of [`columns`]. A value that a system does not
//! report is `None`, and the frame omits it; it is never shown as zero.
//!
//! A sample costs system calls, so the drain's worker takes it, never the caller of `frame_mark()`.
//! Each system has one file here with the same three functions, and only this module chooses among
//! them:
//!
//! | | Linux | macOS | Windows |
//! |---|---|---|---|
//! | memory, threads | `/proc/self/stat` | `proc_pidinfo` | `K32GetProcessMemoryInfo`, Toolhelp |
//! | CPU time | `clock_gettime` | `clock_gettime` | `GetProcessTimes` |
//! | page faults | `getrusage` | `getrusage` | `K32GetProcessMemoryInfo` |
//! | context switches | `getrusage` | `getrusage` | – |
//! | disk I/O | `/proc/self/io` | `proc_pid_rusage` | `GetProcessIoCounters` |
//!
//! In Chromium the memory is that of the page's heap, from `performance.memory`, with the feature
//! `web`. Browsers report nothing else.

use vor_capture::model::catalog::MetricColumn;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as platform;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as platform;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as platform;
#[cfg(all(feature = "web", target_arch = "wasm32", target_os = "unknown"))]
mod browser;
#[cfg(all(feature = "web", target_arch = "wasm32", target_os = "unknown"))]
use browser as platform;
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "macos",
    windows,
    all(feature = "web", target_arch = "wasm32", target_os = "unknown")
)))]
mod other;
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "macos",
    windows,
    all(feature = "web", target_arch = "wasm32", target_os = "unknown")
)))]
use other as platform;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
mod unix;

/// Counters of this process at one moment; `None` if the system does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessSample {
    /// Physical memory in use (resident set, working set).
    pub memory_bytes: Option<u64>,
    /// CPU time of all threads since the process began, user and system.
    pub cpu_time_ns: Option<u64>,
    /// Page faults since the process began that needed no disk. Windows does not distinguish them:
    /// there it is all page faults.
    pub minor_page_faults: Option<u64>,
    /// Page faults since the process began that waited for the disk.
    pub major_page_faults: Option<u64>,
    /// Context switches since the process began because a thread waited for something.
    pub voluntary_context_switches: Option<u64>,
    /// Context switches since the process began because another thread got the processor.
    pub involuntary_context_switches: Option<u64>,
    /// Threads alive now.
    pub threads: Option<u64>,
    /// Bytes that the storage layer read for the process since it began. On Windows, the bytes of
    /// all its reads, including those from caches and pipes.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that the process caused to be sent to storage since it began. On Windows, the bytes of
    /// all its writes, including those to caches and pipes.
    pub disk_write_bytes: Option<u64>,
}

impl ProcessSample {
    /// Returns all page faults since the process began.
    #[must_use]
    pub fn page_faults(&self) -> Option<u64> {
        sum(self.minor_page_faults, self.major_page_faults)
    }

    /// Returns all context switches since the process began.
    #[must_use]
    pub fn context_switches(&self) -> Option<u64> {
        sum(
            self.voluntary_context_switches,
            self.involuntary_context_switches,
        )
    }
}

/// Takes [`ProcessSample`]s. It keeps its sources open, and a sample allocates nothing.
///
/// In the child of a `fork` it reports on the child.
#[derive(Debug)]
pub struct ProcessSampler {
    platform: platform::Sampler,
}

impl ProcessSampler {
    /// Opens the sources of a sample. Values of a source that cannot be opened are `None`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            platform: platform::Sampler::new(),
        }
    }

    /// Reads the counters.
    pub fn sample(&mut self) -> ProcessSample {
        self.platform.sample()
    }
}

impl Default for ProcessSampler {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the physical memory that the process uses, in bytes, or `None` if the system does not
/// report it. In Chromium, with the feature `web`, it is the heap of the page.
#[must_use]
pub fn current_memory_bytes() -> Option<u64> {
    platform::memory_bytes()
}

/// Reports which rows frames lack, and why, based on a sample that was taken before the first
/// frame. `None` if they have all.
pub(crate) fn absences(sample: &ProcessSample) -> Option<String> {
    let rows = [
        ("memory_mb", sample.memory_bytes),
        ("cpu_pct", sample.cpu_time_ns),
        ("page_faults", sample.page_faults()),
        ("ctx_switches", sample.context_switches()),
        ("threads", sample.threads),
        ("disk_read_MB", sample.disk_read_bytes),
        ("disk_write_MB", sample.disk_write_bytes),
    ];
    let absent = rows.into_iter().filter(|(_, value)| value.is_none());
    describe_absent(absent.map(|(row, _)| (row.to_owned(), platform::why_absent(row))))
}

/// Describes absent rows, each given with its reason; adjacent rows with the same reason share it.
/// `None` without rows.
pub(crate) fn describe_absent(rows: impl IntoIterator<Item = (String, String)>) -> Option<String> {
    let mut described = String::new();
    let mut last = None;
    for (row, why) in rows {
        if let Some(before) = last.replace(why.clone())
            && before != why
        {
            described += &format!(" ({before})");
        }
        if !described.is_empty() {
            described += ", ";
        }
        described += &row;
    }
    Some(format!("these rows are absent: {described} ({})", last?))
}

/// Values of a frame besides its scopes and the program's own metrics.
///
/// The first four are those of vor 0.2.1 and have its types. The others are `None` if the system
/// does not report them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SystemSample {
    /// Time from the frame's first mark to the mark that ended it.
    pub frame_ns: u64,
    /// Physical memory in use at the end of the frame, in units of 10^6 bytes. NaN if the system
    /// does not report it.
    pub memory_mb: f64,
    /// Time that the program reported as spent on I/O.
    pub io_ns: u64,
    /// Bytes that the program reported as read or written.
    pub io_bytes: u64,
    /// CPU time of all threads as a share of the elapsed time: 100 is one core all the time.
    pub cpu_pct: Option<f64>,
    /// Page faults, minor and major.
    pub page_faults: Option<u64>,
    /// Context switches of all threads, voluntary and involuntary.
    pub context_switches: Option<u64>,
    /// Threads alive at the end of the frame.
    pub threads: Option<u64>,
    /// Bytes that the system read from storage for the process.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that the system wrote to storage for the process.
    pub disk_write_bytes: Option<u64>,
}

/// Number of [`columns`].
pub const COLUMN_COUNT: usize = 10;

const COLUMNS: [(&str, &str); COLUMN_COUNT] = [
    ("frame_ms", "ms"),
    ("memory_mb", "MB"),
    ("io_ms", "ms"),
    ("io_MB", "MB"),
    ("cpu_pct", "%"),
    ("page_faults", ""),
    ("ctx_switches", ""),
    ("threads", ""),
    ("disk_read_MB", "MB"),
    ("disk_write_MB", "MB"),
];

/// Returns the names and units of the system metrics, in the order of [`SystemSample::values`]. MB
/// are 10^6 bytes.
#[must_use]
pub fn columns() -> Vec<MetricColumn> {
    let column = |&(name, unit): &(&str, &str)| MetricColumn {
        name: name.into(),
        unit: unit.into(),
    };
    COLUMNS.iter().map(column).collect()
}

impl SystemSample {
    /// Compares two consecutive samples, `wall_ns` nanoseconds apart.
    ///
    /// `frame_ns` is set to `wall_ns`; a worker that samples less often than frames end sets the
    /// frame's own duration. The I/O that the program reports is set to 0. A counter that fell
    /// gives `None`; only one of another process can fall.
    #[must_use]
    pub fn between(previous: &ProcessSample, current: &ProcessSample, wall_ns: u64) -> Self {
        let since = |counter: fn(&ProcessSample) -> Option<u64>| {
            counter(current)?.checked_sub(counter(previous)?)
        };
        let cpu_ns = since(|sample| sample.cpu_time_ns).filter(|_| wall_ns > 0);
        Self {
            frame_ns: wall_ns,
            memory_mb: current.memory_bytes.map_or(f64::NAN, megabytes),
            io_ns: 0,
            io_bytes: 0,
            cpu_pct: cpu_ns.map(|cpu_ns| cpu_ns as f64 / wall_ns as f64 * 100.0),
            page_faults: since(ProcessSample::page_faults),
            context_switches: since(ProcessSample::context_switches),
            threads: current.threads,
            disk_read_bytes: since(|sample| sample.disk_read_bytes),
            disk_write_bytes: since(|sample| sample.disk_write_bytes),
        }
    }

    /// Returns the values of vor's own columns, in their order and units. A frame must omit a value
    /// that is `None`.
    #[must_use]
    pub fn values(&self) -> [Option<f64>; COLUMN_COUNT] {
        let milliseconds = |ns: u64| ns as f64 / 1e6;
        let number = |count: u64| count as f64;
        [
            Some(milliseconds(self.frame_ns)),
            Some(self.memory_mb).filter(|memory_mb| !memory_mb.is_nan()),
            Some(milliseconds(self.io_ns)),
            Some(megabytes(self.io_bytes)),
            self.cpu_pct,
            self.page_faults.map(number),
            self.context_switches.map(number),
            self.threads.map(number),
            self.disk_read_bytes.map(megabytes),
            self.disk_write_bytes.map(megabytes),
        ]
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Adds the known values; `None` if neither is known.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}
