//! The meaning of the numbers in a batch or a frame: names of call sites, threads, metrics and
//! frame sets, and the clock.
//!
//! Spans carry 32-bit ids and raw ticks. A [`Catalog`] resolves them. It is the same type whether
//! it was filled by the running program or read from a capture, and every
//! [`SpanBatch`](crate::model::batch::SpanBatch) and
//! [`FrameSnapshot`](crate::model::frame::FrameSnapshot) holds the one that was current when it was
//! made. A catalog only ever grows: an id that was resolved once resolves to the same thing in
//! every later catalog of the same run.

use std::borrow::Cow;
use std::sync::Arc;

use super::scope_modes::ScopeModes;
use super::timeline::{ClockSnapshot, Timeline};

/// Identifies a call site within one process run or capture. Ids are dense from 1; 0 stands for no
/// site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub struct SiteId(pub u32);

/// Identifies a recorded thread within one process run or capture. Dense from 0, never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub struct ThreadId(pub u32);

/// A call site: the name of a scope, and its place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SiteInfo {
    /// The name that tables and charts show.
    pub name: Cow<'static, str>,
    /// Module path, empty for names made at run time.
    pub module_path: Cow<'static, str>,
    /// Source file, empty for names made at run time.
    pub file: Cow<'static, str>,
    /// Line in the source file, 1-based; 0 when unknown.
    pub line: u32,
    /// Group the site belongs to, empty for none.
    pub category: Cow<'static, str>,
    /// Colour as 0x00RRGGBB.
    pub color: Option<u32>,
    /// Names of the arguments, in the order in which their values are recorded.
    pub arg_names: Vec<Cow<'static, str>>,
}

/// A thread that recorded something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// The operating system's number for the thread; 0 when unknown.
    pub os_id: u64,
    /// The thread's name, empty when it has none.
    pub name: String,
}

/// A column of numbers: a metric's name and unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MetricColumn {
    /// Name, unique among the columns of its kind.
    pub name: String,
    /// Unit as it is shown, empty for none.
    pub unit: String,
}

/// The program that recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Process id.
    pub pid: u32,
    /// Name of the executable.
    pub name: String,
    /// Version of vor that recorded, such as `0.3.0`.
    pub recorder: String,
}

/// The machine on which the program ran, as far as it is known; captures of older recorders do not
/// say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineInfo {
    /// Its host name, empty when unknown.
    pub host: String,
    /// Unique among the boots of the operating system; empty where the system does not say.
    pub boot_id: String,
    /// Whether ticks come from the CPU's own counter: they then mean the same in all processes
    /// since the machine was started.
    pub hardware_ticks: bool,
    /// Readings of the system's clocks when recording began, where it has such clocks.
    pub clocks: Option<ClockSnapshot>,
    /// Picoseconds that an empty scope cost its thread when recording began; 0 if that was not
    /// measured.
    pub scope_ps: u64,
}

/// The place of a capture among those of one run that is recorded in several, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// A random number, the same in all segments of the run.
    pub run: u64,
    /// Number of the segment within the run, from 0.
    pub number: u64,
}

/// Why a capture was written whose records had been kept in memory until then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DumpInfo {
    /// The text of the program, or the limit that was passed.
    pub reason: String,
    /// When the dump was asked for, in ticks.
    pub ticks: u64,
    /// Number of the dump within the process, from 0.
    pub number: u64,
    /// Triggers since the dump before that wrote none of their own, because they came too soon
    /// after it.
    pub missed: u64,
}

/// Everything that ids and ticks refer to.
///
/// Cloning is cheap: each table is shared until it grows.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Catalog {
    /// The program that recorded.
    pub process: Arc<ProcessInfo>,
    /// The machine on which it ran.
    pub machine: Arc<MachineInfo>,
    /// Which segment of a run the capture is; `None` where the run has one capture.
    pub segment: Option<SegmentInfo>,
    /// Why the capture was written; `None` for one that was written as it was recorded.
    pub dump: Option<Arc<DumpInfo>>,
    /// Ticks to wall-clock time.
    pub timeline: Arc<Timeline>,
    /// Call sites; [`SiteId`] `n` is at index `n - 1`. `None` where a capture lost the declaration.
    pub sites: Arc<Vec<Option<Arc<SiteInfo>>>>,
    /// When which sites were not recorded as ever: counted, off, only if long, or a sample.
    pub scope_modes: Arc<ScopeModes>,
    /// Threads; [`ThreadId`] is the index. `None` where a capture lost the declaration.
    pub threads: Arc<Vec<Option<Arc<ThreadInfo>>>>,
    /// Metrics, system and user; a value names its column by index. Columns keep the unit they were
    /// declared with.
    pub columns: Arc<Vec<Column>>,
    /// Names of the frame sets; index 0 is the main one, with an empty name.
    pub frame_sets: Arc<Vec<String>>,
}

/// A declared metric, and who fills it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Name and unit.
    pub metric: MetricColumn,
    /// Whether vor samples it (`frame_ms`, `memory_mb` …) rather than the program.
    pub system: bool,
}

impl Catalog {
    /// Returns the call site of `id`, or `None` for an id that was never declared or whose
    /// declaration was lost.
    #[inline]
    #[must_use]
    pub fn site(&self, id: SiteId) -> Option<&SiteInfo> {
        let index = usize::try_from(id.0.checked_sub(1)?).ok()?;
        self.sites.get(index)?.as_deref()
    }

    /// Returns the name of a call site, `?` when it is unknown.
    #[inline]
    #[must_use]
    pub fn site_name(&self, id: SiteId) -> &str {
        self.site(id).map_or("?", |site| &site.name)
    }

    /// Returns the thread of `id`, or `None` for an id that was never declared or whose declaration
    /// was lost.
    #[must_use]
    pub fn thread(&self, id: ThreadId) -> Option<&ThreadInfo> {
        self.threads.get(id.0 as usize)?.as_deref()
    }

    /// Returns the name of a thread, empty when it has none.
    #[must_use]
    pub fn thread_name(&self, id: ThreadId) -> &str {
        self.thread(id).map_or("", |thread| &thread.name)
    }

    /// Returns the wall-clock time of a tick, in nanoseconds since 1970.
    #[must_use]
    pub fn unix_ns(&self, ticks: u64) -> i64 {
        self.timeline.unix_ns(ticks)
    }
}
