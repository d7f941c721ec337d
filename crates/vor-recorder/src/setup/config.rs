//! The settings of a recording, as a builder.

use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "rules")]
use vor_capture::Error;
use vor_capture::model::measures::Measures;
use vor_capture::sink::FrameSink;

#[cfg(feature = "rules")]
use crate::hot::rules::ScopeRules;
use crate::os::report;
use crate::setup::retention::Retention;
use crate::setup::{self, variables};
#[cfg(all(feature = "live", not(target_family = "wasm")))]
use crate::sinks::live::Listen;

/// The settings of a recording. Start from [`Config::new`] (no variables) or [`Config::from_env`],
/// then call [`enable`](Config::enable).
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::setup::Config; }
/// let path = std::env::temp_dir().join("run.vor");
/// vor::Config::new().capture(path).ring_kib(512).enable();
/// # vor_recorder::setup::disable();
/// ```
pub struct Config {
    pub(crate) ring_kib: usize,
    pub(crate) capture: Option<PathBuf>,
    pub(crate) retention: Retention,
    pub(crate) spans: bool,
    pub(crate) every: u64,
    pub(crate) max_frames: Option<u64>,
    pub(crate) slow: Option<Duration>,
    pub(crate) frames_before: usize,
    pub(crate) stats: bool,
    /// Whether scopes are counted instead of recorded.
    pub(crate) count_scopes: bool,
    /// Whether the table of counted scopes is printed.
    pub(crate) print_stats: bool,
    /// Measures of every scope besides its duration.
    pub(crate) measures: Measures,
    /// Whether allocations are measured; `None` means if the program has a tracking allocator.
    pub(crate) allocations: Option<bool>,
    pub(crate) inline_drain: bool,
    pub(crate) drain_interval: Duration,
    pub(crate) max_spans_per_frame: usize,
    #[cfg(feature = "puffin")]
    pub(crate) puffin: Option<bool>,
    pub(crate) watchdog: Option<Duration>,
    /// The rules that say which scopes are recorded, and how; `None` to leave those that are on.
    #[cfg(feature = "rules")]
    pub(crate) scopes: Option<Result<ScopeRules, Error>>,
    /// The share of a core that recording the scopes of a call site may take.
    pub(crate) scope_budget: Option<f64>,
    /// Whether signals that end the process are handled.
    pub(crate) signals: bool,
    pub(crate) heap_snapshots: Option<Duration>,
    pub(crate) scheduler: bool,
    /// Where the rings are in shared memory; `None` if they are not.
    #[cfg(feature = "shared-memory")]
    pub(crate) shared_memory: Option<SharedMemory>,
    pub(crate) sinks: Vec<(String, Box<dyn FrameSink>)>,
    /// The address at which clients may watch the program.
    #[cfg(all(feature = "live", not(target_family = "wasm")))]
    pub(crate) listen: Option<Listen>,
    /// Whether the capture's path comes from `VOR_RECORD`, for messages.
    pub(crate) from_env: bool,
}

/// The folder of a file of shared memory.
#[cfg(feature = "shared-memory")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SharedMemory {
    /// The folder of the user's session, or else the system's for shared memory.
    Default,
    In(PathBuf),
}

/// Default size of a thread's ring, in KiB. On Unix, where memory is only used once it is touched,
/// it lasts for a worker that gets no core for 20 ms.
pub const DEFAULT_RING_KIB: usize = if cfg!(unix) { 16 << 10 } else { 4 << 10 };
/// Smallest and largest size of a thread's ring, in KiB.
pub const RING_KIB_RANGE: std::ops::RangeInclusive<usize> = 4..=1 << 20;
/// Longest time that a finished span waits for its drain.
pub const DEFAULT_DRAIN_INTERVAL: Duration = Duration::from_millis(20);
/// Default bound on the spans that a frame holds as trees.
pub const DEFAULT_MAX_SPANS_PER_FRAME: usize = 1 << 20;

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
            retention: Retention::default(),
            spans: true,
            every: 1,
            max_frames: None,
            slow: None,
            frames_before: 2,
            stats: false,
            count_scopes: false,
            print_stats: true,
            measures: Measures::NONE,
            allocations: None,
            inline_drain: false,
            drain_interval: DEFAULT_DRAIN_INTERVAL,
            max_spans_per_frame: DEFAULT_MAX_SPANS_PER_FRAME,
            #[cfg(feature = "puffin")]
            puffin: None,
            watchdog: None,
            #[cfg(feature = "rules")]
            scopes: None,
            scope_budget: None,
            signals: true,
            heap_snapshots: None,
            scheduler: false,
            #[cfg(feature = "shared-memory")]
            shared_memory: None,
            sinks: Vec::new(),
            #[cfg(all(feature = "live", not(target_family = "wasm")))]
            listen: None,
            from_env: false,
        }
    }

    /// Reads the settings from the environment. A value that cannot be used is ignored, which one
    /// line on stderr reports.
    ///
    /// The name of a variable is `VOR_` and that of the method it calls; those of the capture begin
    /// with `VOR_RECORD`.
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | `VOR_RECORD=PATH` | writes a capture: metrics only, unless one of the next two keeps spans |
    /// | `VOR_RECORD_SPANS=1` | spans too; `0`: metrics only, without a line on stderr |
    /// | `VOR_RECORD_SLOW_FRAMES_MS=X` | spans of frames slower than X milliseconds |
    /// | `VOR_RECORD_FRAMES_BEFORE=N` | also spans of the N frames before each (default: 2) |
    /// | `VOR_RECORD_EVERY=N` | spans of one frame in N |
    /// | `VOR_RECORD_MAX_FRAMES=N` | spans of at most N frames |
    /// | `VOR_RECORD=DIR/` | writes a capture in segments; see [`segments`](Self::segments) |
    /// | `VOR_RECORD_SEGMENT=SIZE` or `TIME` | a segment ends at this size or age: `64MB` (default), `10m` |
    /// | `VOR_RECORD_KEEP=SIZE`, `TIME` or `N` | keeps this much of all segments, the newest: `2GB`, `7d`, `200` |
    /// | `VOR_RECORD_LAST=TIME` or `SIZE` | keeps the newest records in memory, and writes them when something asks for a dump: `30s`, `64MB`, `30s,64MB`; see [`last`](Self::last) |
    /// | `VOR_RECORD_SHM=1` or `DIR/` | keeps the rings in shared memory, so that `vor recover` gets the last spans of a killed process; see [`shared_memory`](Self::shared_memory) |
    /// | `VOR_DUMP_ON=LIST` | what asks for a dump: `frame:50ms`, `scope:NAME:200ms`, `count:NAME:10/1s`, `stall`, `panic`, `crash`, `exit`, `failure`, or `nothing`; by default `panic,crash` |
    /// | `VOR_LISTEN=unix`, `unix:PATH` or `HOST:PORT` | lets `vor view`, `tail`, `top` and `record` watch the program while it runs (feature `live`) |
    /// | `VOR_LISTEN_TOKEN=TEXT`, `VOR_LISTEN_TOKEN_FILE=PATH` | the token that clients must have |
    /// | `VOR_LISTEN_ORIGIN=LIST` | the origins whose pages may watch it by a WebSocket, separated by commas |
    /// | `VOR_RING_KIB=N` | size of each thread's ring |
    /// | `VOR_COUNT_SCOPES=1` | no spans: scopes are counted, and a table of them is printed at the end and on SIGUSR1; see [`count_scopes`](Self::count_scopes) |
    /// | `VOR_CPU=time`, `split` or `wait` | another name for one of the next three |
    /// | `VOR_CPU_TIME=1` | the CPU time of every scope |
    /// | `VOR_CPU_SPLIT=1` | the same, and its part in the kernel |
    /// | `VOR_WAITS=1` | the CPU time, and how much of the rest was a wait for a processor; see [`waits`](Self::waits) |
    /// | `VOR_ALLOCATIONS=0` | no allocations of scopes, even if the program has a [tracking allocator](crate::heap::TrackingAllocator) |
    /// | `VOR_SCHED=1` | events of the operating system's scheduler; see [`scheduler`](Self::scheduler) |
    /// | `VOR_HEAP_SNAPSHOTS_S=X` | a snapshot of the heap every X seconds, for the capture; see [`heap_snapshots`](Self::heap_snapshots) |
    /// | `VOR_WATCHDOG_MS=X` | reports the open scopes of every thread when a frame or a scope takes longer than X milliseconds |
    /// | `VOR_SCOPES=RULES` | which scopes are recorded, and how: `db::*=count,render::tile=off`; see [`scopes`](Self::scopes) |
    /// | `VOR_SCOPE_BUDGET=X` | counts a scope instead of recording it while that takes more than this share of a core: `0.01`; see [`scope_budget`](Self::scope_budget) |
    /// | `VOR_SIGNALS=0` | no signal handlers; see [`signals`](Self::signals) |
    ///
    /// `VOR_RECORD_FLAME`, the name in vor 0.2.1, is read if `VOR_RECORD_SPANS` is not set.
    ///
    /// An unknown variable is reported once if its name resembles one of these: `VOR_RECRD`.
    #[must_use]
    pub fn from_env() -> Self {
        if cfg!(all(target_arch = "wasm32", target_os = "unknown")) {
            // A web page has no variables, and the standard library panics when they are read.
            return Self::new();
        }
        variables::report_unknown();
        Self::from_variables(|name| std::env::var_os(name), report::line)
    }

    /// Returns the prefix of messages about the capture: the variable that names it, if one does.
    pub(super) fn variable(&self) -> &'static str {
        if self.from_env { "VOR_RECORD: " } else { "" }
    }

    /// Writes a capture to `path`. It includes spans unless [`spans`](Self::spans) excludes them.
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

    /// Sets whether the rings and the names of scopes are in a file of shared memory (default: no).
    /// With it, `vor recover` writes a capture from what a process left that was killed, and
    /// `vor attach` from one that hangs. On Unix; elsewhere one line says that there is no such
    /// file.
    ///
    /// The file is `vor-PID.shm` in `$XDG_RUNTIME_DIR`, or else in `/dev/shm` or the temporary
    /// folder, for this user alone. It is removed when the process ends by itself, and stays if the
    /// process is killed or crashes. A scope costs the same.
    ///
    /// If a capture holds all spans, the file has those that are not in the capture yet. Otherwise
    /// the newest half of each ring stays in it. If there is no memory left, one line says so, and
    /// spans that find no room are dropped and counted.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod vor { pub use vor_recorder::setup::Config; }
    /// vor::Config::new().shared_memory(true).capture("run.vor").enable();
    /// ```
    #[cfg(feature = "shared-memory")]
    #[must_use]
    pub fn shared_memory(mut self, shared: bool) -> Self {
        self.shared_memory = shared.then_some(SharedMemory::Default);
        self
    }

    /// Sets the folder of the file of [`shared_memory`](Self::shared_memory), and switches it on.
    /// The folder should be in memory: on a disk, the system writes the rings again and again.
    #[cfg(feature = "shared-memory")]
    #[must_use]
    pub fn shared_memory_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.shared_memory = Some(SharedMemory::In(folder.into()));
        self
    }

    /// Keeps the spans of one frame in `every`; 0 counts as 1.
    #[must_use]
    pub fn every(mut self, every: u64) -> Self {
        self.every = every.max(1);
        self
    }

    /// Keeps the spans of at most `frames` frames; metrics continue.
    #[must_use]
    pub fn max_frames(mut self, frames: u64) -> Self {
        self.max_frames = Some(frames);
        self
    }

    /// Keeps spans only of frames slower than `limit`, and of the `frames_before` frames before
    /// each, like a flight recorder.
    #[must_use]
    pub fn slow_frames(mut self, limit: Duration, frames_before: usize) -> Self {
        self.slow = Some(limit);
        self.frames_before = frames_before;
        self
    }

    /// Sets the size of each thread's ring, in KiB, clamped to [`RING_KIB_RANGE`]. It applies to
    /// threads that first record afterwards.
    #[must_use]
    pub fn ring_kib(mut self, kib: usize) -> Self {
        self.ring_kib = kib.clamp(*RING_KIB_RANGE.start(), *RING_KIB_RANGE.end());
        self
    }

    /// Sets whether the worker keeps statistics of every scope for
    /// [`drain::stats`](crate::drain::stats).
    #[cfg(feature = "stats")]
    #[must_use]
    pub fn stats(mut self, stats: bool) -> Self {
        self.stats = stats;
        self
    }

    /// Counts scopes instead of recording them: exact statistics of every scope and thread, without
    /// drops. The memory depends on neither time nor rate.
    ///
    /// Each thread keeps, by call site, the number of its scopes, their total and self time, the
    /// shortest, the longest and a histogram. This takes 1.5 KiB per call site that the thread
    /// uses. [`drain::stats`](crate::drain::stats) adds them up.
    ///
    /// A table is printed on stderr when the process ends, and on Unix when it receives SIGUSR1;
    /// see [`print_stats`](Self::print_stats). For SIGUSR1 vor installs a handler unless the
    /// program has one. A capture and other sinks get marks, metrics, messages and asynchronous
    /// spans, but no scopes: no arguments, no CPU time, no allocations. Scopes of
    /// [`ProfileFuture`](crate::hot::future::ProfileFuture) are counted by their polls. Once on, it
    /// stays on until the process ends.
    ///
    /// The self time of a scope is its duration minus those of the scopes that were opened in it
    /// and ended before it. Scopes may end in a different order than they were opened in; nothing
    /// else changes.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod vor {
    /// #     pub use vor_recorder::{drain::stats, profile_scope, setup::Config, setup::disable};
    /// # }
    /// vor::Config::new().count_scopes(true).print_stats(false).enable();
    /// for _ in 0..1000 {
    ///     vor::profile_scope!("step");
    /// }
    /// let rows = vor::stats();
    /// assert_eq!((rows[0].name.as_str(), rows[0].count), ("step", 1000));
    /// # vor::disable();
    /// ```
    #[must_use]
    pub fn count_scopes(mut self, count_scopes: bool) -> Self {
        self.count_scopes = count_scopes;
        self
    }

    /// Sets whether [`count_scopes`](Self::count_scopes) prints its table (default: yes).
    #[must_use]
    pub fn print_stats(mut self, print_stats: bool) -> Self {
        self.print_stats = print_stats;
        self
    }

    /// Measures the CPU time of every scope. Once on, it stays on until the process ends.
    ///
    /// If the kernel reports to a thread that it was switched out, this costs a load and a
    /// comparison at each end of a scope. Otherwise the thread's clock is read twice. A scope's
    /// off-CPU time is the argument [`off_cpu_ns`](vor_capture::model::measures::OFF_CPU_NS) of its
    /// span.
    #[must_use]
    pub fn cpu_time(mut self, cpu_time: bool) -> Self {
        if cpu_time {
            self.measures = self.measures.union(Measures::CPU);
        }
        self
    }

    /// Also measures what a scope waited for while its thread was off the CPU: for a processor (the
    /// argument [`run_queue_ns`](vor_capture::model::measures::RUN_QUEUE_NS) of its span), or for
    /// something else. Also counts how often the thread got a processor again
    /// ([`context_switches`](vor_capture::model::measures::CONTEXT_SWITCHES)). On Linux, and where
    /// the system does not report it, one line says so. Once on, it stays on until the process
    /// ends.
    ///
    /// A scope whose thread was not switched out pays nothing more than for its CPU time; otherwise
    /// reading the kernel's count takes about a microsecond.
    #[must_use]
    pub fn waits(mut self, waits: bool) -> Self {
        if waits {
            self.measures = self.measures.union(Measures::WAITS);
        }
        self
    }

    /// Also measures how a scope's CPU time divides between program and kernel, with the system's
    /// resolution.
    ///
    /// This takes two system calls per scope, some 900 ns each, because the values are only up to
    /// date once the thread's clock was read. Once on, it stays on until the process ends.
    #[must_use]
    pub fn cpu_split(mut self, cpu_split: bool) -> Self {
        if cpu_split {
            self.measures = self
                .measures
                .union(Measures::CPU)
                .union(Measures::CPU_SPLIT);
        }
        self
    }

    /// Sets whether the allocations of every scope are measured. By default they are if the program
    /// has a [`TrackingAllocator`](crate::heap::TrackingAllocator), which this needs. Once on, it
    /// stays on until the process ends.
    #[must_use]
    pub fn allocations(mut self, allocations: bool) -> Self {
        self.allocations = Some(allocations);
        self
    }

    /// Drains inside `frame_mark()` instead of on a worker thread. This is always so if there are
    /// no threads.
    #[must_use]
    pub fn inline_drain(mut self, inline: bool) -> Self {
        self.inline_drain = inline;
        self
    }

    /// Sets the longest time that a finished span waits for its drain while the program records; 1
    /// to 50 ms.
    #[must_use]
    pub fn drain_interval(mut self, interval: Duration) -> Self {
        self.drain_interval = interval.clamp(Duration::from_millis(1), Duration::from_millis(50));
        self
    }

    /// Sets how many spans a frame holds as trees; the others are only counted.
    #[must_use]
    pub fn max_spans_per_frame(mut self, spans: usize) -> Self {
        self.max_spans_per_frame = spans;
        self
    }

    /// Sets whether puffin is fed (default: yes).
    ///
    /// When the program has given [`puffin::GlobalProfiler`] a sink, as every viewer does, the
    /// drain switches puffin's scopes on, once each time that recording is switched on. While they
    /// are on ([`puffin::are_scopes_on`]), each main frame ends a puffin frame, as `frame_mark()`
    /// of vor 0.2.1 did. A program that calls [`puffin::GlobalProfiler::new_frame`] itself may want
    /// to disable this.
    #[cfg(feature = "puffin")]
    #[must_use]
    pub fn puffin(mut self, puffin: bool) -> Self {
        self.puffin = Some(puffin);
        self
    }

    /// Makes the worker report the open scopes of every thread when a frame or an open scope is
    /// older than `limit`. Each stall is reported once, with the ages of the scopes, as lines on
    /// stderr and as messages to the sinks. Frames count from the first
    /// [`frame_mark`](crate::drain::frame_mark) on.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use vor_recorder::setup::Config;
    /// # use vor_recorder::profile_scope;
    /// Config::new().watchdog(Duration::from_millis(20)).enable();
    /// profile_scope!("load");
    /// std::thread::sleep(Duration::from_millis(60));
    /// // vor: stalled: `load` has been open for 22.5 ms on thread 0 `main`, the limit is 20.0 ms
    /// // vor: stalled: thread 0 `main`: load 22.5 ms
    /// ```
    #[must_use]
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = Some(limit);
        self
    }

    /// Sets the rules that say which scopes are recorded, and how, as
    /// [`set_scopes`](crate::hot::rules::set_scopes) does. If they cannot be read, one line on
    /// stderr says why when recording starts, and the rules that are on stay.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod vor { pub use vor_recorder::setup::Config; }
    /// vor::Config::new()
    ///     .scopes("*=record, db::*=count, render::tile=off, lock=min:50us, x=1/100")
    ///     .enable();
    /// # vor_recorder::setup::disable();
    /// ```
    #[cfg(feature = "rules")]
    #[must_use]
    pub fn scopes(mut self, rules: &str) -> Self {
        self.scopes = Some(rules.parse());
        self
    }

    /// Limits the share of a core's time that recording the scopes of one call site may take: 0.01
    /// is one percent, clamped to 0.0001 to 1. A site that takes more is counted from then on, as
    /// the rule `count` does, until it has taken less than half for five seconds.
    ///
    /// The drain judges once a second, by the number of scopes times their cost. The cost is what
    /// [`calibrate`](crate::setup::calibrate) has measured; without it, 1.5 times that of two clock
    /// readings, which this measures. A line on stderr reports each site once; captures and
    /// [`scopes`](crate::drain::scopes) have each change.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod vor { pub use vor_recorder::setup::Config; }
    /// vor::Config::new().scope_budget(0.01).enable();
    /// # vor_recorder::setup::disable();
    /// ```
    #[must_use]
    pub fn scope_budget(mut self, share: f64) -> Self {
        // A number that is none compares with nothing.
        self.scope_budget = (share > 0.0).then(|| share.clamp(0.0001, 1.0));
        self
    }

    /// Sets whether vor handles signals that end the process (default: yes). It does so on Unix,
    /// from the first capture on.
    ///
    /// At a crash (SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE) the open scopes of all threads are
    /// appended to the capture, and the previous handler runs. At SIGTERM, SIGINT, SIGHUP and
    /// SIGQUIT the capture is closed, with everything that ended and with the open scopes. So are
    /// traces that are written to files. Then the process ends by the signal, after about two
    /// seconds at most.
    ///
    /// If the program handles or ignores a signal when the capture begins, vor does not handle it.
    /// Vor does not handle any of these signals in the first process of a container either. A
    /// handler that the program installs later replaces vor's. Code that installs a handler only if
    /// there was none finds vor's: `signals(false)` is for such programs.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod vor { pub use vor_recorder::setup::Config; }
    /// vor::Config::new().capture("run.vor").signals(false).enable();
    /// ```
    #[must_use]
    pub fn signals(mut self, signals: bool) -> Self {
        self.signals = signals;
        self
    }

    /// Takes snapshots of the heap at the start, at every `interval` of at least 10 ms, and at the
    /// end, for the capture and for [other sinks](FrameSink::accept_heap). With them,
    /// `vor heap run.vor` finds leaks, even after hours. They need a
    /// [`TrackingAllocator`](crate::heap::TrackingAllocator) that is `sampled` or `exact`; if there
    /// is none, one line on stderr reports it.
    ///
    /// A snapshot has a row per stack of scopes with live objects, some 10 to 50 bytes each in the
    /// capture.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # mod vor { pub use vor_recorder::setup::Config; }
    /// vor::Config::new()
    ///     .capture("run.vor")
    ///     .heap_snapshots(Duration::from_secs(60))
    ///     .enable();
    /// ```
    #[must_use]
    pub fn heap_snapshots(mut self, interval: Duration) -> Self {
        self.heap_snapshots = Some(interval);
        self
    }

    /// Records what the scheduler of Linux does with the threads of the program: when each of them
    /// ran, on which processor, why it stopped, and which thread made it runnable again. They are
    /// for [sinks](FrameSink::accept_scheduler) and the capture; a Perfetto trace shows them as
    /// states of threads, and Perfetto finds critical paths by them.
    ///
    /// It needs the feature `scheduler`, root, tracefs and an x86-64 processor, and a process that
    /// is in no container of its own. Otherwise one line says why there are no events. The kernel
    /// writes 72 bytes for each switch of a thread.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod vor { pub use vor_recorder::setup::Config; }
    /// vor::Config::new().capture("run.vor").scheduler(true).enable();
    /// ```
    #[must_use]
    pub fn scheduler(mut self, enabled: bool) -> Self {
        self.scheduler = enabled;
        self
    }

    /// Lets clients watch the program while it runs: `vor view`, `vor tail`, `vor top` and
    /// `vor record` with the address, or with the number of the process.
    ///
    /// Each client gets a capture that begins when it comes, with spans whatever
    /// [`spans`](Self::spans) says. Nothing is encoded while there is no client, and a client that
    /// reads slowly loses whole batches, which are counted. A socket in the file system is for the
    /// same user only. An address that is not loopback needs a [token](Listen::token).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod vor { pub use vor_recorder::setup::Config; }
    /// vor::Config::new().listen("127.0.0.1:5005".parse()?).enable();
    /// # Ok::<(), vor_capture::Error>(())
    /// ```
    #[cfg(all(feature = "live", not(target_family = "wasm")))]
    #[must_use]
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen = Some(listen);
        self
    }

    /// Adds a sink. `name` identifies it in the message when it fails.
    #[must_use]
    pub fn sink(mut self, name: impl Into<String>, sink: impl FrameSink + 'static) -> Self {
        self.sinks.push((name.into(), Box::new(sink)));
        self
    }

    /// Starts recording with these settings. If recording is already on, the sinks are added and
    /// the other settings do not change.
    pub fn enable(self) {
        setup::start(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_clamped() {
        let interval = |interval| Config::new().drain_interval(interval).drain_interval;
        let ms = Duration::from_millis;
        assert_eq!(interval(Duration::ZERO), ms(1));
        assert_eq!((interval(ms(1)), interval(ms(50))), (ms(1), ms(50)));
        assert_eq!(interval(Duration::MAX), ms(50));
        let ring_kib = |kib| Config::new().ring_kib(kib).ring_kib;
        assert_eq!((ring_kib(0), ring_kib(4), ring_kib(5)), (4, 4, 5));
        assert_eq!(ring_kib(usize::MAX), 1 << 20);
        let every = |every| Config::new().every(every).every;
        assert_eq!((every(0), every(1), every(7)), (1, 1, 7));
    }
}
