//! What is in use at one moment, by the stack of scopes that allocated it, and what came between two such moments.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use super::local::{self, live_by_stack};
use super::sampled::{self, Sample};
use super::{EXACT, HEAP, stacks};
use crate::catalog::{Catalog, SiteId, SiteInfo};
use crate::sync::Ordering;
use crate::{callsite, clock, thread};

/// How a [`HeapSnapshot`] knows what is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapMode {
    /// Not at all: the program's allocator is no [`TrackingAllocator`](super::TrackingAllocator), or it only counts.
    #[default]
    Off,
    /// From samples, on average one per so many bytes allocated.
    Sampled {
        /// Mean distance of two samples, in bytes allocated.
        interval_bytes: u64,
    },
    /// From every object.
    Exact,
}

/// A scope of a stack: its call site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapScope {
    /// The id of the call site, as in batches and captures of this run.
    pub site: SiteId,
    /// Its name, file and line; empty in a [record](crate::format::Record::Heap), see [`HeapSnapshot::name_by`].
    pub info: Arc<SiteInfo>,
}

/// What one stack of scopes has allocated and is still in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeapStack {
    /// The scopes that were open at the allocation, outermost first; empty for what was allocated outside of all scopes.
    pub scopes: Vec<HeapScope>,
    /// Objects in use; an estimate where the heap is sampled.
    pub inuse_objects: u64,
    /// Bytes in use, as they were asked for; an estimate where the heap is sampled.
    pub inuse_bytes: u64,
    /// Samples that the estimates stand on, 0 where the heap is exact.
    pub samples: u64,
    /// Standard error of the objects, 0 where they are exact.
    pub objects_error: f64,
    /// Standard error of the bytes, 0 where they are exact.
    pub bytes_error: f64,
}

/// What is in use at one moment. Made by [`heap_snapshot`], and read back from a capture.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HeapSnapshot {
    /// How it is known.
    pub mode: HeapMode,
    /// When it was made, in ticks.
    pub ticks: u64,
    /// By stack of scopes, the most bytes first.
    pub stacks: Vec<HeapStack>,
}

/// By how much two snapshots of one stack differ.
#[derive(Clone, Debug)]
pub struct HeapChange {
    /// The scopes that were open at the allocation, outermost first; empty for what was allocated outside of all scopes.
    pub scopes: Vec<HeapScope>,
    /// Objects in use more than before.
    pub inuse_objects: i64,
    /// Bytes in use more than before.
    pub inuse_bytes: i64,
    /// Most that the standard error of the bytes can be: what is in use in both snapshots has none. 0 where they are exact.
    pub bytes_error: f64,
}

/// Returns what is in use now, by the stack of scopes that allocated it. The mode is [`HeapMode::Off`] where that is not kept.
///
/// Other threads go on meanwhile: an object that moves between them may be missing, or counted twice. Takes some ten nanoseconds per sample or stack; allocations
/// of other threads do not wait for it, but for their first one, their samples and their first in a stack.
#[must_use]
pub fn heap_snapshot() -> HeapSnapshot {
    thread::while_busy(|| {
        let ticks = clock::ticks();
        let (mode, stacks) = match HEAP.load(Ordering::Relaxed) {
            0 => (HeapMode::Off, Vec::new()),
            EXACT => (HeapMode::Exact, exact_stacks()),
            interval_bytes => (
                HeapMode::Sampled { interval_bytes },
                sampled_stacks(interval_bytes),
            ),
        };
        let mut snapshot = HeapSnapshot {
            mode,
            ticks,
            stacks: with_scopes(stacks),
        };
        snapshot.sort();
        snapshot
    })
}

/// Returns whether the program's allocator keeps what is in use.
pub(crate) fn keeps_heap() -> bool {
    HEAP.load(Ordering::Relaxed) != 0
}

fn exact_stacks() -> Vec<(u32, HeapStack)> {
    let in_use = |(stack, (objects, bytes)): (u32, (u64, u64))| {
        let in_use = HeapStack {
            inuse_objects: objects,
            inuse_bytes: bytes,
            ..HeapStack::default()
        };
        (objects > 0).then_some((stack, in_use))
    };
    (0..).zip(live_by_stack()).filter_map(in_use).collect()
}

/// Sums over the samples of a stack.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    samples: u64,
    objects: f64,
    bytes: f64,
    objects_variance: f64,
    bytes_variance: f64,
}

impl Estimate {
    fn add(&mut self, sample: Sample, interval_bytes: u64) {
        let bytes = sample.bytes as f64;
        // The chance that an object of this size has a sample.
        let chance = -(-bytes / interval_bytes as f64).exp_m1();
        let (objects, missing) = (1.0 / chance, 1.0 - chance);
        self.samples += 1;
        self.objects += objects;
        self.bytes += objects * bytes;
        self.objects_variance += missing * objects.powi(2);
        self.bytes_variance += missing * (objects * bytes).powi(2);
    }
}

fn sampled_stacks(interval_bytes: u64) -> Vec<(u32, HeapStack)> {
    let mut estimates: HashMap<u32, Estimate, FxBuildHasher> = HashMap::default();
    sampled::for_each(|sample| {
        estimates
            .entry(sample.stack)
            .or_default()
            .add(sample, interval_bytes);
    });
    let in_use = |(stack, sums): (u32, Estimate)| {
        let in_use = HeapStack {
            scopes: Vec::new(),
            inuse_objects: sums.objects.round() as u64,
            inuse_bytes: sums.bytes.round() as u64,
            samples: sums.samples,
            objects_error: sums.objects_variance.sqrt(),
            bytes_error: sums.bytes_variance.sqrt(),
        };
        (stack, in_use)
    };
    estimates.into_iter().map(in_use).collect()
}

/// Fills in the scopes of numbered stacks.
fn with_scopes(in_use: Vec<(u32, HeapStack)>) -> Vec<HeapStack> {
    let sites = local::inside(|| stacks::sites(in_use.iter().map(|(number, _)| *number)));
    let registry = callsite::lock();
    let scope = |site| HeapScope {
        site,
        info: registry.name_of(site).unwrap_or_default(),
    };
    let filled = in_use
        .into_iter()
        .zip(sites)
        .map(|((_, stack), sites)| HeapStack {
            scopes: sites.into_iter().map(scope).collect(),
            ..stack
        });
    filled.collect()
}

/// Half the width of an interval that holds the truth in 95 of 100 cases, in standard errors.
const STANDARD_ERRORS: f64 = 1.96;

impl HeapStack {
    /// Returns the call sites of its scopes, by which stacks of one run are told apart.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.scopes.iter().map(|scope| scope.site)
    }

    fn path(&self) -> Vec<SiteId> {
        self.sites().collect()
    }

    /// Returns the range that holds the true number of bytes in 95 of 100 cases; where there are fewer than about 20 samples, in fewer. Both ends are the number itself
    /// where it is exact.
    #[must_use]
    pub fn bytes_interval(&self) -> RangeInclusive<u64> {
        interval(self.inuse_bytes, self.bytes_error)
    }

    /// As [`bytes_interval`](Self::bytes_interval), of objects.
    #[must_use]
    pub fn objects_interval(&self) -> RangeInclusive<u64> {
        interval(self.inuse_objects, self.objects_error)
    }

    /// Returns the name of the innermost scope, empty where none was open.
    #[must_use]
    pub fn name(&self) -> &str {
        self.scopes.last().map_or("", |scope| &scope.info.name)
    }
}

fn interval(estimate: u64, error: f64) -> RangeInclusive<u64> {
    let half = (error * STANDARD_ERRORS).ceil() as u64;
    estimate.saturating_sub(half)..=estimate.saturating_add(half)
}

impl HeapSnapshot {
    /// Returns the sums over all stacks, without scopes.
    #[must_use]
    pub fn total(&self) -> HeapStack {
        let mut total = HeapStack::default();
        let mut variances = (0.0, 0.0);
        for stack in &self.stacks {
            total.inuse_objects += stack.inuse_objects;
            total.inuse_bytes += stack.inuse_bytes;
            total.samples += stack.samples;
            variances.0 += stack.objects_error.powi(2);
            variances.1 += stack.bytes_error.powi(2);
        }
        total.objects_error = variances.0.sqrt();
        total.bytes_error = variances.1.sqrt();
        total
    }

    /// Puts the most bytes first, and has equal ones always in the same order.
    pub(crate) fn sort(&mut self) {
        self.stacks.sort_by(|a, b| {
            let by_bytes = b.inuse_bytes.cmp(&a.inuse_bytes);
            by_bytes.then_with(|| a.sites().cmp(b.sites()))
        });
    }

    /// Fills in the names of the scopes from a catalog: for a snapshot that was read as a record.
    pub fn name_by(&mut self, catalog: &Catalog) {
        let nameless = Arc::default();
        let scopes = self.stacks.iter_mut().flat_map(|stack| &mut stack.scopes);
        for scope in scopes {
            let index = (scope.site.0 as usize).wrapping_sub(1);
            let info = catalog.sites.get(index).and_then(Option::as_ref);
            scope.info = Arc::clone(info.unwrap_or(&nameless));
        }
    }

    /// Returns what every stack has in use more than in `earlier`, or less: the view of leaks. Stacks that have not changed are left out, the most bytes come
    /// first. Both snapshots are of one run of a program.
    ///
    /// # Examples
    ///
    /// ```
    /// # use vor_core::alloc as vor;
    /// let before = vor::heap_snapshot();
    /// // … what is under suspicion runs …
    /// for leak in vor::heap_snapshot().difference(&before) {
    ///     println!("{:+} bytes in {} objects", leak.inuse_bytes, leak.inuse_objects);
    /// }
    /// ```
    #[must_use]
    pub fn difference(&self, earlier: &Self) -> Vec<HeapChange> {
        let mut before: HashMap<Vec<SiteId>, &HeapStack, FxBuildHasher> =
            earlier.stacks.iter().map(|stack| (stack.path(), stack)).collect();
        let mut changes: Vec<HeapChange> = self
            .stacks
            .iter()
            .map(|stack| change(Some(stack), before.remove(&stack.path())))
            .collect();
        // In the order of the snapshot, so that the result is always the same.
        let gone = earlier
            .stacks
            .iter()
            .filter(|stack| before.contains_key(&stack.path()));
        changes.extend(gone.map(|stack| change(None, Some(stack))));
        changes.retain(|change| (change.inuse_objects, change.inuse_bytes) != (0, 0));
        changes.sort_by_key(|change| std::cmp::Reverse(change.inuse_bytes));
        changes
    }
}

fn change(now: Option<&HeapStack>, before: Option<&HeapStack>) -> HeapChange {
    let number = |of: fn(&HeapStack) -> u64| {
        let signed = |stack: Option<&HeapStack>| stack.map_or(0, |stack| of(stack) as i64);
        signed(now) - signed(before)
    };
    let error = |stack: Option<&HeapStack>| stack.map_or(0.0, |stack| stack.bytes_error);
    HeapChange {
        scopes: now.or(before).map_or_else(Vec::new, |stack| stack.scopes.clone()),
        inuse_objects: number(|stack| stack.inuse_objects),
        inuse_bytes: number(|stack| stack.inuse_bytes),
        bytes_error: error(now).hypot(error(before)),
    }
}
