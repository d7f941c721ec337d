//! Histograms of the program's values: a static handle each, emptied at each mark.

use std::sync::{Mutex, MutexGuard};

use super::distribution::Distribution;
use super::metrics;
use crate::hot::{record_state, thread};
use crate::sync::global::AtomicBool;
use crate::sync::{Ordering, lock};

/// A distribution with a static handle; each frame holds its p50, p99 and maximum as rows
/// `name.p50`, `name.p99`, `name.max`.
///
/// Values are kept to three significant digits in an HDR histogram. Histograms with one name are
/// one distribution.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::metrics::Histogram; }
/// static LATENCY: vor::Histogram = vor::Histogram::new("latency", "us");
///
/// LATENCY.record(120);
/// ```
#[derive(Debug)]
pub struct Histogram {
    name: &'static str,
    unit: &'static str,
    /// Whether it is in the list of histograms. Set under the lock of the metrics, after it was
    /// added.
    known: AtomicBool,
    /// Locked only after it is known, so that a thread which locks the metrics can lock all
    /// histograms.
    values: Mutex<Option<Distribution>>,
}

impl Histogram {
    /// Describes a distribution. An empty unit means none.
    #[must_use]
    pub const fn new(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            known: AtomicBool::new(false),
            values: Mutex::new(None),
        }
    }

    /// Adds a value to the current frame. Does nothing while recording is off.
    #[inline]
    pub fn record(&'static self, value: u64) {
        if !cfg!(feature = "off") && record_state::is_on() {
            self.record_value(value);
        }
    }

    fn record_value(&'static self, value: u64) {
        if thread::drop_if_busy() {
            return;
        }
        thread::while_busy(|| {
            if !self.known.load(Ordering::Acquire) && !self.register() {
                return;
            }
            let mut values = self.lock();
            if values.is_none() {
                *values = Distribution::new();
            }
            if let Some(values) = values.as_mut() {
                values.record(value);
            }
        });
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Distribution>> {
        lock(&self.values)
    }

    /// Returns whether nobody holds the lock.
    #[cfg(any(unix, windows))]
    pub(super) fn is_open(&self) -> bool {
        crate::os::detach::is_open(self.values.try_lock())
    }

    /// Adds it to the list; returns `false` if there are too many metrics.
    fn register(&'static self) -> bool {
        let mut metrics = metrics();
        if self.known.load(Ordering::Acquire) {
            return true;
        }
        let mut columns = [0; 3];
        for (column, suffix) in columns.iter_mut().zip(["p50", "p99", "max"]) {
            let name = format!("{}.{suffix}", self.name);
            metrics
                .units
                .entry(Box::from(name.as_str()))
                .or_insert_with(|| self.unit.to_owned());
            let Some(slot) = metrics.named(&name) else {
                return false;
            };
            *column = slot.column;
        }
        metrics.histograms.push((self, columns));
        self.known.store(true, Ordering::Release);
        true
    }

    /// Takes the values since the last mark, and leaves an empty histogram.
    pub(super) fn take(&self) -> Option<Distribution> {
        let mut values = self.lock();
        if values.as_ref()?.is_empty() {
            return None;
        }
        values.replace(Distribution::new()?)
    }
}
