//! Live memory at one moment, by the stack of scopes that allocated it, and the difference between
//! two such moments.

use crate::sort::sort_by;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use super::catalog::{Catalog, SiteId, SiteInfo};

/// The way in which a [`HeapSnapshot`] knows the live memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapMode {
    /// Not at all: the program's allocator is not a `TrackingAllocator`, or it only counts.
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
#[non_exhaustive]
pub struct HeapScope {
    /// The id of the call site, as in batches and captures of this run.
    pub site: SiteId,
    /// Its name, file and line; empty in a [record](crate::format::Record::Heap), see
    /// [`HeapSnapshot::name_by`].
    pub info: Arc<SiteInfo>,
}

/// The live memory that one stack of scopes has allocated.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HeapStack {
    /// The scopes that were open at the allocation, outermost first; empty for what was allocated
    /// outside of all scopes.
    pub scopes: Vec<HeapScope>,
    /// Live objects; an estimate where the heap is sampled.
    pub inuse_objects: u64,
    /// Live bytes, as requested; an estimate where the heap is sampled.
    pub inuse_bytes: u64,
    /// Samples behind the estimates, 0 where the heap is exact.
    pub samples: u64,
    /// Standard error of the objects, 0 where they are exact.
    pub objects_error: f64,
    /// Standard error of the bytes, 0 where they are exact.
    pub bytes_error: f64,
}

/// Live memory at one moment. `heap_snapshot` makes it, and a capture stores it.
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
#[non_exhaustive]
pub struct HeapChange {
    /// The scopes that were open at the allocation, outermost first; empty for what was allocated
    /// outside of all scopes.
    pub scopes: Vec<HeapScope>,
    /// Live objects more than before.
    pub inuse_objects: i64,
    /// Live bytes more than before.
    pub inuse_bytes: i64,
    /// The largest standard error that the bytes can have: memory that is live in both snapshots
    /// has none. 0 where they are exact.
    pub bytes_error: f64,
}

/// Half the width of an interval that holds the truth in 95 of 100 cases, in standard errors.
const STANDARD_ERRORS: f64 = 1.96;

impl HeapStack {
    /// Returns the call sites of its scopes, which identify a stack within one run.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.scopes.iter().map(|scope| scope.site)
    }

    /// Returns the sums over stacks, without scopes.
    pub(crate) fn sum<'a>(stacks: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        let mut variances = (0.0, 0.0);
        for stack in stacks {
            // The numbers of a damaged capture may be anything.
            sum.inuse_objects = sum.inuse_objects.saturating_add(stack.inuse_objects);
            sum.inuse_bytes = sum.inuse_bytes.saturating_add(stack.inuse_bytes);
            sum.samples = sum.samples.saturating_add(stack.samples);
            variances.0 += stack.objects_error.powi(2);
            variances.1 += stack.bytes_error.powi(2);
        }
        sum.objects_error = variances.0.sqrt();
        sum.bytes_error = variances.1.sqrt();
        sum
    }

    fn path(&self) -> Vec<SiteId> {
        self.sites().collect()
    }

    /// Returns the range that holds the true number of bytes in 95 of 100 cases; where there are
    /// fewer than about 20 samples, in fewer. Both ends are the number itself where it is exact.
    #[must_use]
    pub fn bytes_interval(&self) -> RangeInclusive<u64> {
        interval(self.inuse_bytes, self.bytes_error)
    }

    /// Like [`bytes_interval`](Self::bytes_interval), for objects.
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
    /// Makes a snapshot of these stacks, and puts the most bytes first.
    #[must_use]
    pub fn new(mode: HeapMode, ticks: u64, stacks: Vec<HeapStack>) -> Self {
        let mut snapshot = Self {
            mode,
            ticks,
            stacks,
        };
        snapshot.sort();
        snapshot
    }

    /// Returns the sums over all stacks, without scopes.
    #[must_use]
    pub fn total(&self) -> HeapStack {
        HeapStack::sum(self.stacks.iter())
    }

    /// Puts the most bytes first; equal stacks are always in the same order.
    pub(crate) fn sort(&mut self) {
        sort_by(&mut self.stacks, |a, b| {
            let by_bytes = b.inuse_bytes.cmp(&a.inuse_bytes);
            by_bytes.then_with(|| a.sites().cmp(b.sites()))
        });
    }

    /// Fills in the names of the scopes from a catalog, in a snapshot that was read as a record.
    pub fn name_by(&mut self, catalog: &Catalog) {
        let nameless = Arc::default();
        let scopes = self.stacks.iter_mut().flat_map(|stack| &mut stack.scopes);
        for scope in scopes {
            let index = (scope.site.0 as usize).wrapping_sub(1);
            let info = catalog.sites.get(index).and_then(Option::as_ref);
            scope.info = Arc::clone(info.unwrap_or(&nameless));
        }
    }

    /// Returns how much more live memory each stack has than in `earlier`, or less: the view for
    /// leaks. Unchanged stacks are left out, and the most bytes come first. Both snapshots are of
    /// one run of a program.
    ///
    /// # Examples
    ///
    /// ```
    /// use vor_capture::filled;
    /// use vor_capture::model::heap::{HeapMode, HeapSnapshot, HeapStack};
    ///
    /// let at = |ticks, inuse_bytes| {
    ///     let stack = filled!(HeapStack { inuse_bytes });
    ///     HeapSnapshot::new(HeapMode::Exact, ticks, vec![stack])
    /// };
    /// let (before, after) = (at(1, 100), at(2, 164));
    /// for leak in after.difference(&before) {
    ///     println!("{:+} bytes in {} objects", leak.inuse_bytes, leak.inuse_objects);
    ///     assert_eq!(leak.inuse_bytes, 64);
    /// }
    /// ```
    #[must_use]
    pub fn difference(&self, earlier: &Self) -> Vec<HeapChange> {
        let mut before: HashMap<Vec<SiteId>, &HeapStack, FxBuildHasher> = earlier
            .stacks
            .iter()
            .map(|stack| (stack.path(), stack))
            .collect();
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
        sort_by(&mut changes, |a, b| b.inuse_bytes.cmp(&a.inuse_bytes));
        changes
    }
}

fn change(now: Option<&HeapStack>, before: Option<&HeapStack>) -> HeapChange {
    let number = |of: fn(&HeapStack) -> u64| {
        let signed = |stack: Option<&HeapStack>| {
            let number = stack.map_or(0, of);
            i64::try_from(number).unwrap_or(i64::MAX)
        };
        signed(now) - signed(before)
    };
    let error = |stack: Option<&HeapStack>| stack.map_or(0.0, |stack| stack.bytes_error);
    HeapChange {
        scopes: now
            .or(before)
            .map_or_else(Vec::new, |stack| stack.scopes.clone()),
        inuse_objects: number(|stack| stack.inuse_objects),
        inuse_bytes: number(|stack| stack.inuse_bytes),
        bytes_error: error(now).hypot(error(before)),
    }
}
