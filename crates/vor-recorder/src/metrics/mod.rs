//! Numbers of the program: metrics by name, counters, histograms and I/O, collected at each mark of
//! the main frame set.
//!
//! A metric is a slot: its latest value and whether it was written since the last mark. Threads
//! find the slot of a name in their own cache, so recording is a look-up and two stores, without a
//! lock. The mark takes the written values and passes them to the worker.
//!
//! The numbers of graphics cards (`gpu`) do not come from the program: a thread reads them.

mod counter;
#[cfg_attr(
    not(feature = "percentiles"),
    allow(dead_code, reason = "nothing makes a histogram")
)]
mod distribution;
mod frame;
#[cfg_attr(
    any(
        loom,
        not(any(feature = "locks", feature = "tokio", feature = "tower"))
    ),
    allow(dead_code, reason = "nothing makes a gauge")
)]
mod gauge;
pub(crate) mod gpu;
#[cfg_attr(
    not(feature = "percentiles"),
    allow(dead_code, reason = "nothing makes a histogram")
)]
mod histogram;
mod timed;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use rustc_hash::FxBuildHasher;
use vor_capture::filled;
use vor_capture::format::MAX_FRAME_SETS;
use vor_capture::model::catalog::{Column, MetricColumn};

use crate::allocations::{self, Counts};
use crate::hot::{record_state, thread};
use crate::sync::global::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::{Ordering, lock};

pub use counter::Counter;
#[cfg(all(test, not(loom), not(feature = "off")))]
pub(crate) use counter::block_count;
#[cfg(unix)]
pub(crate) use counter::lock_blocks_for_fork;
pub(crate) use frame::{FrameMetrics, take};
use gauge::Gauges;
#[cfg(all(
    any(feature = "locks", feature = "tokio", feature = "tower"),
    not(loom)
))]
#[doc(hidden)]
pub use gauge::{Gauge, GaugeRegistration, LastCount, register};
#[cfg(feature = "percentiles")]
pub use histogram::Histogram;
#[cfg(not(feature = "percentiles"))]
use histogram::Histogram;
pub use timed::Timed;

/// Most metrics by name; values of later names are lost, which one line on stderr reports.
pub const MAX_METRICS: usize = 16_384;

/// Longest kept name or unit, in bytes.
const MAX_NAME_BYTES: usize = 1024;

#[derive(Debug)]
struct Slot {
    /// Bits of the latest value. Written by any thread (relaxed) before `written`.
    value: AtomicU64,
    /// Set by any thread (release) after `value`, taken by the mark (acquire).
    written: AtomicBool,
    /// Number of the user column, by order of first value.
    column: u32,
}

struct Metrics {
    /// Slots by column.
    slots: Vec<&'static Slot>,
    columns: Vec<Column>,
    by_name: HashMap<Box<str>, &'static Slot, FxBuildHasher>,
    units: HashMap<Box<str>, String, FxBuildHasher>,
    counters: Vec<(&'static Counter, u32)>,
    histograms: Vec<(&'static Histogram, [u32; 3])>,
    gauges: Gauges,
    /// The allocations of the process at the last mark.
    allocations: Counts,
    full: bool,
}

/// Number of declared columns. Written under the lock of the metrics (release), read without it
/// (acquire).
static COLUMNS: AtomicU32 = AtomicU32::new(0);

static METRICS: Mutex<Metrics> = Mutex::new(Metrics {
    slots: Vec::new(),
    columns: Vec::new(),
    by_name: HashMap::with_hasher(FxBuildHasher),
    units: HashMap::with_hasher(FxBuildHasher),
    counters: Vec::new(),
    histograms: Vec::new(),
    gauges: Gauges::new(),
    allocations: Counts::NONE,
    full: false,
});

fn metrics() -> MutexGuard<'static, Metrics> {
    lock(&METRICS)
}

/// Locks the metrics and all histograms for the duration of a fork.
#[cfg(unix)]
pub(crate) fn lock_for_fork() -> impl std::any::Any {
    let metrics = metrics();
    let histograms: Vec<_> = metrics
        .histograms
        .iter()
        .map(|(histogram, _)| histogram.lock())
        .collect();
    (histograms, metrics)
}

/// Returns whether no thread holds one of the locks; used at the end of a process.
#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    crate::os::detach::is_open(METRICS.try_lock())
        && counter::are_blocks_open()
        && (metrics().histograms.iter()).all(|(histogram, _)| histogram.is_open())
}

/// Discards the values since the last mark, in the child of a fork.
#[cfg(unix)]
pub(crate) fn forget() {
    drop(take());
}

thread_local! {
    static SLOTS: RefCell<HashMap<Box<str>, &'static Slot, FxBuildHasher>> =
        const { RefCell::new(HashMap::with_hasher(FxBuildHasher)) };
}

impl Metrics {
    /// Declares a column and its slot, under the unit registered for the name.
    fn declare(&mut self, name: &str) -> Option<&'static Slot> {
        let unit = self.units.get(name).cloned().unwrap_or_default();
        self.declare_as(name, unit, false)
    }

    fn declare_as(&mut self, name: &str, unit: String, system: bool) -> Option<&'static Slot> {
        if self.slots.len() >= MAX_METRICS {
            if !std::mem::replace(&mut self.full, true) {
                crate::os::report::line(&format!(
                    "more than {MAX_METRICS} metrics; `{name}` and later names are not recorded"
                ));
            }
            return None;
        }
        let column = u32::try_from(self.slots.len()).ok()?;
        let value = AtomicU64::new(0);
        let slot = Box::leak(Box::new(Slot {
            value,
            written: AtomicBool::new(false),
            column,
        }));
        let name = name.to_owned();
        let metric = MetricColumn { name, unit };
        self.columns.push(filled!(Column { metric, system }));
        self.slots.push(slot);
        COLUMNS.store(column + 1, Ordering::Release);
        Some(slot)
    }

    /// Takes the allocations of the process since the last call; all 0 if its allocator is not
    /// tracked.
    fn take_allocations(&mut self) -> Counts {
        if !allocations::is_installed() {
            return Counts::NONE;
        }
        let now = allocations::process_allocations();
        now.since(std::mem::replace(&mut self.allocations, now))
    }

    fn named(&mut self, name: &str) -> Option<&'static Slot> {
        if let Some(slot) = self.by_name.get(name) {
            return Some(slot);
        }
        let slot = self.declare(name)?;
        self.by_name.insert(Box::from(name), slot);
        Some(slot)
    }
}

/// Records the latest value of a metric; the next [`frame_mark`](crate::drain::frame_mark) puts it
/// into its frame.
///
/// The last of several values between two marks is kept. Does nothing while recording is off.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::metrics::{record_metric, record_metric_unit}; }
/// vor::record_metric_unit("throughput", "MB/s"); // once
/// vor::record_metric("throughput", 81.5);
/// ```
#[inline]
pub fn record_metric(name: &str, value: f64) {
    if !cfg!(feature = "off") && record_state::is_on() {
        record_value(name, value);
    }
}

fn record_value(name: &str, value: f64) {
    if thread::drop_if_busy() {
        return;
    }
    let name = crate::hot::args::cut(name, MAX_NAME_BYTES);
    // Busy, because a thread's first use of a thread-local allocates.
    let cached =
        thread::while_busy(|| SLOTS.try_with(|slots| slots.try_borrow().ok()?.get(name).copied()));
    if let Ok(Some(slot)) = cached {
        return slot.set(value);
    }
    thread::while_busy(|| {
        let Some(slot) = metrics().named(name) else {
            return;
        };
        slot.set(value);
        // Without a cache the next call takes the lock again.
        let _ = SLOTS.try_with(|slots| {
            if let Ok(mut slots) = slots.try_borrow_mut() {
                slots.insert(Box::from(name), slot);
            }
        });
    });
}

impl Slot {
    #[inline]
    fn set(&self, value: f64) {
        self.value.store(value.to_bits(), Ordering::Relaxed);
        self.written.store(true, Ordering::Release);
    }
}

/// Sets the displayed unit of a metric. A metric keeps the unit that it had when its first value
/// was recorded.
///
/// ```
/// # mod vor { pub use vor_recorder::metrics::{record_metric, record_metric_unit}; }
/// vor::record_metric_unit("loss", "nats"); // once
/// vor::record_metric("loss", 0.25);
/// ```
#[inline]
pub fn record_metric_unit(name: &str, unit: &str) {
    if !cfg!(feature = "off") {
        set_unit(name, unit);
    }
}

fn set_unit(name: &str, unit: &str) {
    let name = crate::hot::args::cut(name, MAX_NAME_BYTES);
    let unit = crate::hot::args::cut(unit, MAX_NAME_BYTES);
    if thread::is_busy() {
        return;
    }
    thread::while_busy(|| {
        metrics().units.insert(Box::from(name), unit.to_owned());
    });
}

/// Time and bytes of I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoTick {
    /// Time spent, in nanoseconds.
    pub elapsed_ns: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// Sums of I/O since they were last taken. Written by any thread; relaxed, since their order does
/// not matter.
struct IoSums {
    ns: AtomicU64,
    bytes: AtomicU64,
}

/// I/O recorded while recording was on. Taken by the mark and by [`drain_io`].
static IO: IoSums = IoSums::new();
/// I/O recorded while recording was off. No frame has it, but [`drain_io`] returns it. Cleared when
/// recording is switched on.
static IO_WHILE_OFF: IoSums = IoSums::new();

impl IoSums {
    const fn new() -> Self {
        Self {
            ns: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn take(&self) -> IoTick {
        IoTick {
            elapsed_ns: self.ns.swap(0, Ordering::Relaxed),
            bytes: self.bytes.swap(0, Ordering::Relaxed),
        }
    }
}

/// Adds time and bytes of I/O to the current frame. Lock-free, from any thread.
///
/// While recording is off, only [`drain_io`] returns this I/O, until recording is switched on.
///
/// ```
/// # mod vor { pub use vor_recorder::metrics::record_io; }
/// let begin = std::time::Instant::now();
/// let text = std::fs::read("Cargo.toml").unwrap_or_default();
/// vor::record_io(begin.elapsed().as_nanos() as u64, text.len() as u64);
/// ```
#[inline]
pub fn record_io(elapsed_ns: u64, bytes: u64) {
    if cfg!(feature = "off") {
        return;
    }
    let sums = if record_state::is_on() {
        &IO
    } else {
        &IO_WHILE_OFF
    };
    sums.ns.fetch_add(elapsed_ns, Ordering::Relaxed);
    sums.bytes.fetch_add(bytes, Ordering::Relaxed);
}

/// Returns the I/O recorded since the last mark or call, and resets it to zero.
#[inline]
#[must_use]
pub fn drain_io() -> IoTick {
    if cfg!(feature = "off") {
        return IoTick::default();
    }
    let mut io = IO.take();
    io.add(IO_WHILE_OFF.take());
    io
}

/// Discards the I/O and the allocations from the time when recording was off, which no frame saw.
/// Recording is about to be switched on.
pub(crate) fn forget_while_off() {
    let _ = IO_WHILE_OFF.take();
    let _ = metrics().take_allocations();
}

impl IoTick {
    fn add(&mut self, other: Self) {
        self.elapsed_ns = self.elapsed_ns.saturating_add(other.elapsed_ns);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Returns the columns numbered from `known` on.
pub(crate) fn columns_after(known: usize) -> Vec<Column> {
    // If there are none, as for nearly every frame, this does not take the lock, for which marks
    // would wait.
    if COLUMNS.load(Ordering::Acquire) as usize <= known {
        return Vec::new();
    }
    metrics().columns.get(known..).unwrap_or(&[]).to_vec()
}

/// Declares a system column that was not known at the start, and returns its number. Only the
/// recorder has values for it.
#[cfg(all(
    any(
        all(feature = "cuda", any(target_os = "linux", windows)),
        all(feature = "mac", target_os = "macos")
    ),
    not(feature = "off")
))]
pub(crate) fn declare_system(name: &str, unit: &str) -> Option<u32> {
    let slot = metrics().declare_as(name, unit.to_owned(), true)?;
    Some(slot.column)
}

/// Most secondary frame sets; marks of later names are lost, which one line on stderr reports. The
/// main set does not count here.
pub const MAX_NAMED_FRAME_SETS: usize = MAX_FRAME_SETS as usize - 1;

/// Whether too many frame sets were reported.
static TOO_MANY_SETS: AtomicBool = AtomicBool::new(false);

/// Returns the number of a frame set, and declares it at its first use. `None` when there are too
/// many.
pub(crate) fn frame_set(name: &str, sets: &Mutex<Vec<String>>) -> Option<u32> {
    let name = crate::hot::args::cut(name, MAX_NAME_BYTES);
    let mut sets = lock(sets);
    let index = match sets.iter().position(|known| known == name) {
        Some(index) => index,
        None if sets.len() >= MAX_NAMED_FRAME_SETS => {
            if !TOO_MANY_SETS.swap(true, Ordering::Relaxed) {
                crate::os::report::line(&format!(
                    "more than {MAX_NAMED_FRAME_SETS} frame sets; marks of `{name}` and later \
                    names are not recorded"
                ));
            }
            return None;
        }
        None => {
            sets.push(name.to_owned());
            sets.len() - 1
        }
    };
    // Set 0 is the main set.
    u32::try_from(index + 1).ok()
}

/// Returns the number of metrics, for tests and overviews.
#[must_use]
pub fn metric_count() -> usize {
    metrics().slots.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_sets_beyond_the_cap_are_refused_and_known_ones_are_not() {
        let sets = Mutex::new(Vec::new());
        for i in 1..=MAX_NAMED_FRAME_SETS {
            assert_eq!(frame_set(&format!("set {i}"), &sets), Some(i as u32));
        }
        assert_eq!(frame_set("one more", &sets), None);
        assert_eq!(frame_set("set 7", &sets), Some(7));
        assert_eq!(sets.into_inner().unwrap().len(), MAX_NAMED_FRAME_SETS);
    }
}
