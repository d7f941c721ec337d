//! Gauges: numbers that others keep, and that each mark reads.
//!
//! A number that changes with each message of a channel is too frequent to be recorded at each
//! change. Its owner, which may be another library, keeps it wherever it is cheap, and the mark
//! reads the latest value.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use rustc_hash::FxBuildHasher;
use vor_capture::sort::sort_by;

use super::{Metrics, metrics};
use crate::hot::thread;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// A number that each mark reads. A mark reads it under the lock of the metrics, so reading takes
/// no lock and waits for nothing.
pub trait Gauge: Send + Sync {
    /// Returns the name of its metric. Gauges of one name are one metric: their sum.
    fn name(&self) -> String;

    /// Returns the unit of its metric.
    fn unit(&self) -> &'static str;

    /// Returns the number.
    fn read(&self) -> f64;

    /// Returns the name of a second metric, for a gauge that also counts events since the last
    /// mark. It has the same unit.
    fn count_name(&self) -> Option<String> {
        None
    }

    /// Returns the number of these events, and begins to count again.
    fn take_count(&self) -> f64 {
        0.0
    }
}

/// A count as of the last mark. Marks read and write it, relaxed.
#[derive(Debug, Default)]
pub struct LastCount(AtomicU64);

impl LastCount {
    /// Returns how much `count` has grown since the last call.
    pub fn growth(&self, count: u64) -> f64 {
        let before = self.0.swap(count, Ordering::Relaxed);
        count.wrapping_sub(before) as f64
    }
}

struct Entry {
    gauge: Weak<dyn Gauge>,
    /// The number of the user column; `None` before the first mark.
    column: Option<u32>,
    /// The column of the events that it counts, if it does.
    count_column: Option<u32>,
}

/// The gauges that exist.
pub(super) struct Gauges {
    next: u64,
    all: HashMap<u64, Entry, FxBuildHasher>,
}

/// Lets marks read a gauge until it is dropped. A gauge may hold its own.
#[derive(Debug)]
pub struct GaugeRegistration(u64);

/// The values of all gauges.
#[derive(Default)]
pub(super) struct Readings {
    /// By user column, ascending.
    pub(super) values: Vec<(u32, f64)>,
    /// Dropped without the lock of the metrics, since the end of a gauge takes it.
    pub(super) gauges: Vec<Arc<dyn Gauge>>,
}

impl Gauges {
    pub(super) const fn new() -> Self {
        Self {
            next: 0,
            all: HashMap::with_hasher(FxBuildHasher),
        }
    }
}

/// Registers a gauge. It has a column after the first mark that it sees.
pub fn register(gauge: Weak<dyn Gauge>) -> GaugeRegistration {
    thread::while_busy(|| {
        let gauges = &mut metrics().gauges;
        gauges.next += 1;
        let entry = Entry {
            gauge,
            column: None,
            count_column: None,
        };
        gauges.all.insert(gauges.next, entry);
        GaugeRegistration(gauges.next)
    })
}

impl Drop for GaugeRegistration {
    fn drop(&mut self) {
        thread::while_busy(|| {
            metrics().gauges.all.remove(&self.0);
        });
    }
}

/// Reads all gauges.
pub(super) fn read_all(metrics: &mut Metrics) -> Readings {
    if metrics.gauges.all.is_empty() {
        return Readings::default();
    }
    let mut all = std::mem::take(&mut metrics.gauges.all);
    let mut values: Vec<(u32, f64)> = Vec::with_capacity(all.len());
    let mut gauges = Vec::with_capacity(all.len());
    // Of a gauge beyond the most metrics, one line on stderr has said that it has no values.
    all.retain(|_, entry| {
        // One that is about to begin or to end has no value.
        let Some(gauge) = entry.gauge.upgrade() else {
            return true;
        };
        if entry.column.is_none() {
            entry.column = declare(metrics, &gauge.name(), gauge.unit());
            let name = gauge.count_name();
            entry.count_column = name.and_then(|name| declare(metrics, &name, gauge.unit()));
        }
        values.extend(entry.column.map(|column| (column, gauge.read())));
        let count = entry.count_column;
        values.extend(count.map(|column| (column, gauge.take_count())));
        gauges.push(gauge);
        entry.column.is_some()
    });
    metrics.gauges.all = all;
    sort_by(&mut values, |a, b| a.0.cmp(&b.0));
    values.dedup_by(|later, first| {
        let is_same = later.0 == first.0;
        first.1 += if is_same { later.1 } else { 0.0 };
        is_same
    });
    Readings { values, gauges }
}

fn declare(metrics: &mut Metrics, name: &str, unit: &str) -> Option<u32> {
    let name = crate::hot::args::cut(name, super::MAX_NAME_BYTES);
    let unit = || unit.to_owned();
    metrics.units.entry(name.into()).or_insert_with(unit);
    Some(metrics.named(name)?.column)
}
