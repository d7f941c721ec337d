//! The sums of a thread's scopes that are counted and not recorded.
//!
//! Each thread has a table: call sites by their id, in two levels of 256 entries, which are made
//! when they are first used. An entry holds the sums of that call site's scopes on this thread.
//! Only the thread writes them, with plain loads and stores, and any thread may add them up. So a
//! scope that ends costs no lock, no read-modify-write and no place in a ring, and cannot be lost.
//! Besides the sums, the table holds two words for each level of open scopes. One is the duration
//! of the scopes that ended directly inside it, which is not self time. The other is a set of the
//! sites that are open there and further out. A scope whose own site is in the set of the level
//! around it may be a recursive call. Then the stack decides.
//!
//! When a thread ends, it adds its sums to those of all ended threads, under a lock, and empties
//! its table for the next thread. So the memory depends on the call sites and on the number of
//! concurrent threads: 1.5 KiB for each call site on each thread.

use std::sync::{Arc, PoisonError};

use rustc_hash::FxHashMap;
use vor_capture::model::catalog::ThreadId;

use super::current::StandIn;
use super::list::threads;
use super::once_box::OnceBox;
use super::state::MAX_OPEN;
use super::{StateBox, ThreadState, count_drop, while_busy};
use crate::allocations;
use crate::hot::modes;
use crate::hot::sums::{BUCKETS, Sums, bucket};
use crate::sync::{self, AtomicU64, Mutex, MutexGuard, Ordering, const_fn, statics};

/// Log2 of the number of entries at each of the two levels. A model has few.
const WIDTH_BITS: u32 = if cfg!(loom) { 1 } else { 8 };

/// Entries at each of the two levels. Ids beyond the last one share the entry of the id 0, which
/// belongs to no call site.
const WIDTH: usize = 1 << WIDTH_BITS;

/// Selects the entry at a level.
const MASK: u32 = WIDTH as u32 - 1;

/// The last id that has an entry of its own.
pub(crate) const LAST_SITE: u32 = (WIDTH * WIDTH - 1) as u32;

/// Levels of open scopes for which the table stores the duration of nested scopes. A program's
/// stack has room for fewer, unless the program forgets guards without dropping them.
const MAX_LEVELS: usize = 1 << 20;

/// The sums of one thread. Only the thread writes the fields (relaxed). Any thread may read the
/// sums (relaxed). It may see only some of the numbers of a scope that ends at that moment.
#[derive(Debug)]
pub(crate) struct CountTable {
    /// One for each scope on the stack. The first is the level around the outermost scope.
    levels: [Level; MAX_OPEN + 1],
    /// For each scope on the stack that has such a bound, the duration from which it is recorded
    /// instead of counted. Apart from the levels, whose size the fast path multiplies by.
    bounds_ticks: [AtomicU64; MAX_OPEN],
    /// The levels from `MAX_OPEN` on. Only the thread locks it.
    deep: sync::global::Mutex<Vec<DeepLevel>>,
    leaves: [OnceBox<Leaf>; WIDTH],
}

type Leaf = [OnceBox<SiteCounts>; WIDTH];

/// A level of open scopes that are on the stack.
#[derive(Debug)]
pub(crate) struct Level {
    /// Sum of the durations of the scopes that ended directly inside it.
    inside_ticks: AtomicU64,
    /// Sites of the scopes that are open here and further out, as a set with possible false
    /// positives.
    sites: AtomicU64,
}

impl Level {
    const_fn! {
        const fn new() -> Self {
            Self {
                inside_ticks: AtomicU64::new(0),
                sites: AtomicU64::new(0),
            }
        }
    }

    /// Adds the duration of a scope that ended directly inside.
    #[inline(always)]
    pub(crate) fn add(&self, ticks: u64) {
        add(&self.inside_ticks, ticks);
    }

    /// Returns whether a scope of this site may be open here or further out.
    #[inline(always)]
    pub(crate) fn may_hold(&self, site: u32) -> bool {
        self.sites.load(Ordering::Relaxed) >> (site % u64::BITS) & 1 != 0
    }
}

/// A level of open scopes that are too deep for the stack.
#[derive(Clone, Copy, Debug, Default)]
struct DeepLevel {
    /// Site of the scope that was opened here last.
    site: u32,
    /// Start of that scope, which identifies it.
    start_ticks: u64,
    /// Sum of the durations of the scopes that ended directly inside it.
    inside_ticks: u64,
}

/// The sums of one call site on one thread.
#[derive(Debug)]
pub(crate) struct SiteCounts {
    /// Sum of all durations, including those of recursive calls.
    total_ticks: AtomicU64,
    /// The part of it in scopes directly inside.
    inside_ticks: AtomicU64,
    /// The part of it in recursive calls, which the calls around them include too.
    nested_ticks: AtomicU64,
    min_ticks: AtomicU64,
    max_ticks: AtomicU64,
    /// Number of scopes that were skipped.
    skipped: AtomicU64,
    /// Number of scopes of which a sample decided whether they are recorded.
    sampled: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// Adds to a number that this thread alone writes.
#[inline(always)]
fn add(to: &AtomicU64, more: u64) {
    to.store(
        to.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

impl SiteCounts {
    const_fn! {
        const fn new() -> Self {
            Self {
                total_ticks: AtomicU64::new(0),
                inside_ticks: AtomicU64::new(0),
                nested_ticks: AtomicU64::new(0),
                min_ticks: AtomicU64::new(u64::MAX),
                max_ticks: AtomicU64::new(0),
                skipped: AtomicU64::new(0),
                sampled: AtomicU64::new(0),
                buckets: sync::array![AtomicU64::new(0); BUCKETS],
            }
        }
    }

    /// Counts a scope of this duration. Called by the table's thread.
    pub(crate) fn add(&self, ticks: u64) {
        if !self.add_short(ticks) {
            self.add_sums(ticks);
            add(&self.buckets[BUCKETS - 1], 1);
        }
    }

    /// Counts a scope of this duration. Returns `false`, and counts nothing, if the duration is
    /// beyond the range of the buckets. Called by the table's thread.
    #[inline(always)]
    pub(crate) fn add_short(&self, ticks: u64) -> bool {
        let Some(bucket) = self.buckets.get(bucket(ticks)) else {
            return false;
        };
        self.add_sums(ticks);
        add(bucket, 1);
        true
    }

    #[inline(always)]
    fn add_sums(&self, ticks: u64) {
        add(&self.total_ticks, ticks);
        if ticks < self.min_ticks.load(Ordering::Relaxed) {
            self.min_ticks.store(ticks, Ordering::Relaxed);
        }
        if ticks > self.max_ticks.load(Ordering::Relaxed) {
            self.max_ticks.store(ticks, Ordering::Relaxed);
        }
    }

    /// Adds the part of a scope that its direct children took. Called by the table's thread.
    #[inline(always)]
    pub(crate) fn add_inside(&self, level: &Level) {
        let inside_ticks = level.inside_ticks.load(Ordering::Relaxed);
        if inside_ticks != 0 {
            add(&self.inside_ticks, inside_ticks);
        }
    }

    /// Adds the duration of a scope that was a recursive call. Called by the table's thread.
    pub(crate) fn add_nested(&self, ticks: u64) {
        add(&self.nested_ticks, ticks);
    }

    /// Adds a scope that was skipped. Called by the table's thread.
    #[inline]
    pub(crate) fn add_skipped(&self) {
        add(&self.skipped, 1);
    }

    /// Returns whether a sample records the next scope of this site: one in `one_in`, by the hash
    /// of `seed` and the number of the scope. [`take_sample`](Self::take_sample) takes it.
    pub(crate) fn is_next_sampled(&self, seed: u32, one_in: u32) -> bool {
        let number = self.sampled.load(Ordering::Relaxed);
        // The finalizer of splitmix64. Its upper bits choose, by a multiplication.
        let mut hash = (number ^ u64::from(seed) << 40).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let upper = (hash ^ hash >> 31) >> 32;
        (upper * u64::from(one_in)) >> 32 == 0
    }

    /// Returns whether a sample records a scope that opens now, and skips it if not. Called by the
    /// table's thread.
    pub(crate) fn take_sample(&self, seed: u32, one_in: u32) -> bool {
        let is_sampled = self.is_next_sampled(seed, one_in);
        add(&self.sampled, 1);
        if !is_sampled {
            self.add_skipped();
        }
        is_sampled
    }

    fn sums(&self) -> Sums {
        let read = |from: &AtomicU64| from.load(Ordering::Relaxed);
        let total_ticks = read(&self.total_ticks);
        Sums {
            total_ticks,
            self_ticks: total_ticks.saturating_sub(read(&self.inside_ticks)),
            nested_ticks: read(&self.nested_ticks),
            min_ticks: read(&self.min_ticks),
            max_ticks: read(&self.max_ticks),
            skipped: read(&self.skipped),
            buckets: std::array::from_fn(|i| read(&self.buckets[i])),
        }
    }

    fn clear(&self) {
        let sums = [
            &self.total_ticks,
            &self.inside_ticks,
            &self.nested_ticks,
            &self.max_ticks,
            &self.skipped,
        ];
        for sum in sums {
            sum.store(0, Ordering::Relaxed);
        }
        self.min_ticks.store(u64::MAX, Ordering::Relaxed);
        for count in &self.buckets {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// Returns the number of the entry with the sums of a site.
pub(crate) fn entry_of(site: u32) -> u32 {
    if site <= LAST_SITE { site } else { 0 }
}

impl Default for CountTable {
    fn default() -> Self {
        Self {
            levels: sync::array![Level::new(); MAX_OPEN + 1],
            bounds_ticks: sync::array![AtomicU64::new(0); MAX_OPEN],
            deep: sync::global::Mutex::default(),
            leaves: sync::array![OnceBox::new(); WIDTH],
        }
    }
}

impl CountTable {
    /// Returns the sums of an entry, if it has been counted on this thread before.
    #[inline(always)]
    pub(crate) fn get(&self, entry: u32) -> Option<&SiteCounts> {
        let (high, low) = (entry >> WIDTH_BITS & MASK, entry & MASK);
        self.leaves[high as usize].get()?[low as usize].get()
    }

    /// Returns the sums of a site. Call it only inside vor, because it may allocate.
    fn get_or_make(&self, site: u32) -> &SiteCounts {
        let (high, low) = (entry_of(site) >> WIDTH_BITS, entry_of(site) & MASK);
        let leaf = self.leaves[high as usize].get_or_make(|| sync::array![OnceBox::new(); WIDTH]);
        leaf[low as usize].get_or_make(SiteCounts::new)
    }

    /// Begins the level of a scope that opens at this depth of the stack.
    #[inline(always)]
    pub(crate) fn begin(&self, depth: usize, site: u32) {
        let levels = self.levels.get(depth..).and_then(<[Level]>::first_chunk);
        if let Some([around, level]) = levels {
            let sites = around.sites.load(Ordering::Relaxed) | 1 << (site % u64::BITS);
            level.sites.store(sites, Ordering::Relaxed);
            level.inside_ticks.store(0, Ordering::Relaxed);
        }
    }

    /// Begins the level of a scope as [`begin`](Self::begin) does, where scopes around it may be
    /// recorded. These have not begun their levels, so the sets of sites are unknown, and the stack
    /// decides about recursion.
    #[inline]
    pub(crate) fn begin_among_recorded(&self, depth: usize, site: u32, bound_ticks: u64) {
        // Nothing is open around the outermost scope.
        if let Some(around) = self.levels.get(depth).filter(|_| depth > 0) {
            around.sites.store(u64::MAX, Ordering::Relaxed);
        }
        self.begin(depth, site);
        if let Some(bound) = self.bounds_ticks.get(depth) {
            bound.store(bound_ticks, Ordering::Relaxed);
        }
    }

    /// Returns the duration from which the scope at this depth of the stack is recorded, as it was
    /// set when the scope opened. 0 if it is too deep for the stack.
    #[inline]
    pub(crate) fn bound_ticks(&self, depth: usize) -> u64 {
        let bound = self.bounds_ticks.get(depth);
        bound.map_or(0, |bound| bound.load(Ordering::Relaxed))
    }

    /// Returns the level of the scope at this depth of the stack, and the one around it.
    #[inline(always)]
    pub(crate) fn levels(&self, depth: usize) -> Option<(&Level, &Level)> {
        let [around, level] = self.levels.get(depth..)?.first_chunk()?;
        Some((level, around))
    }

    /// Begins the level of a scope that opens at any depth. Call it only inside vor, because it may
    /// allocate.
    fn begin_at_any_depth(&self, depth: usize, site: u32, start_ticks: u64, bound_ticks: u64) {
        let Some(deep) = depth.checked_sub(MAX_OPEN) else {
            return match modes::are_active() {
                true => self.begin_among_recorded(depth, site, bound_ticks),
                false => self.begin(depth, site),
            };
        };
        let mut levels = self.deep();
        if deep >= levels.len() && deep < MAX_LEVELS {
            levels.resize(deep + 1, DeepLevel::default());
        }
        if let Some(level) = levels.get_mut(deep) {
            *level = DeepLevel {
                site,
                start_ticks,
                inside_ticks: 0,
            };
        }
    }

    /// Returns whether a scope of this site is open further out than this depth.
    fn is_nested(&self, state: &ThreadState, depth: usize, site: u32) -> bool {
        // The level around the innermost scope on the stack holds the sites of all of them.
        let around = &self.levels[depth.min(MAX_OPEN)];
        if around.may_hold(site) && state.own_open_sites().take(depth).any(|open| open == site) {
            return true;
        }
        let deep = depth.saturating_sub(MAX_OPEN);
        deep > 0
            && self
                .deep()
                .iter()
                .take(deep)
                .any(|level| level.site == site)
    }

    /// Ends the level of a scope, at any depth and in any order. Returns the time that nested
    /// scopes took, and whether the scope is the one that was opened last at its depth.
    fn end_at_any_depth(
        &self,
        state: &ThreadState,
        depth: usize,
        start_ticks: u64,
        ticks: u64,
    ) -> (u64, bool) {
        let mut levels = self.deep();
        let start_of = |depth: usize| match depth.checked_sub(MAX_OPEN) {
            None => state.start_at(depth),
            Some(deep) => levels.get(deep).map(|level| level.start_ticks),
        };
        // A scope that opened later may have replaced the one around this one, or this one.
        let is_inside =
            depth > 0 && start_of(depth - 1).is_some_and(|around| around <= start_ticks);
        // Beyond the deepest level, scopes are assumed to end in order.
        let is_last = start_of(depth).is_none_or(|start| start == start_ticks);
        if is_inside {
            match (depth - 1).checked_sub(MAX_OPEN) {
                None => self.levels[depth].add(ticks),
                Some(deep) => levels[deep].inside_ticks += ticks,
            }
        }
        let inside_ticks = match depth.checked_sub(MAX_OPEN) {
            _ if !is_last => 0,
            None => self.levels[depth + 1].inside_ticks.load(Ordering::Relaxed),
            Some(deep) => levels.get(deep).map_or(0, |level| level.inside_ticks),
        };
        (inside_ticks.min(ticks), is_last)
    }

    fn deep(&self) -> sync::global::MutexGuard<'_, Vec<DeepLevel>> {
        sync::lock(&self.deep)
    }

    /// Continues with the open scopes of `before`, which a fork copied.
    pub(super) fn inherit(&self, before: &Self) {
        for (mine, theirs) in self.levels.iter().zip(&before.levels) {
            let fields = [
                (&mine.inside_ticks, &theirs.inside_ticks),
                (&mine.sites, &theirs.sites),
            ];
            for (to, from) in fields {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        for (mine, theirs) in self.bounds_ticks.iter().zip(&before.bounds_ticks) {
            mine.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.deep().clone_from(&before.deep());
    }

    /// Returns the sums of all call sites that were counted on this thread.
    fn entries(&self) -> impl Iterator<Item = (u32, &SiteCounts)> {
        let leaves = (0_u32..).zip(&self.leaves);
        let leaves = leaves.filter_map(|(high, leaf)| Some((high, leaf.get()?)));
        leaves.flat_map(|(high, leaf)| {
            let entries = (high * WIDTH as u32..).zip(leaf);
            entries.filter_map(|(site, sums)| Some((site, sums.get()?)))
        })
    }
}

/// Sums of call sites.
pub(crate) type SiteSums = FxHashMap<u32, Box<Sums>>;

statics! {
    /// The sums of the ended threads, and of scopes that end while their thread ends.
    static ENDED: Mutex<Option<SiteSums>> = Mutex::new(None);
}

fn ended() -> MutexGuard<'static, Option<SiteSums>> {
    ENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the sums of ended threads for the time of a fork.
#[cfg(unix)]
pub(crate) fn lock_counted_for_fork() -> impl std::any::Any {
    ended()
}

/// Returns whether the sums of ended threads are unlocked. Used at the end of a process.
#[cfg(any(unix, windows))]
pub(super) fn is_open() -> bool {
    crate::os::detach::is_open(ENDED.try_lock())
}

/// Clears the sums of ended threads. Used in the child of a fork.
#[cfg(unix)]
pub(crate) fn forget_counted() {
    *ended() = None;
}

impl ThreadState {
    /// Returns the thread's table, once it has one.
    #[inline(always)]
    pub(crate) fn counted(&self) -> Option<&CountTable> {
        self.counted.get()
    }

    fn counted_or_new(&self) -> &CountTable {
        self.counted.get_or_make(CountTable::default)
    }

    /// Adds the thread's sums to those of ended threads. Called by the thread at its end, inside
    /// vor.
    pub(super) fn end_counting(&self) {
        let Some(table) = self.counted() else {
            return;
        };
        // Locked from the first entry to the last, so that a reader finds each entry in exactly one
        // of the two.
        let mut ended = ended();
        let sites = ended.get_or_insert_default();
        for (site, sums) in table.entries() {
            let found = sums.sums();
            if found.max_ticks > 0 || found.min_ticks == 0 || found.skipped > 0 {
                sites.entry(site).or_default().merge(&found);
                sums.clear();
            }
        }
        *table.deep() = Vec::new();
    }
}

/// Begins the level of a scope that opens at `depth`, and makes the table if it is missing. `state`
/// is this thread's own, and no handler records at the same time. The scope is recorded instead
/// from the duration `bound_ticks` on, if it has such a bound.
pub(crate) fn begin_counting(
    state: &ThreadState,
    depth: usize,
    site: u32,
    start_ticks: u64,
    bound_ticks: u64,
) {
    allocations::untracked(|| {
        let table = state.counted_or_new();
        table.begin_at_any_depth(depth, site, start_ticks, bound_ticks);
    });
}

/// Returns the duration from which an open scope is recorded instead of counted. 0 if it is too
/// deep for the stack, or not the one that was opened last at its place.
pub(crate) fn bound_of(state: &ThreadState, place: u32, start_ticks: u64) -> u64 {
    let table = state
        .counted()
        .filter(|_| state.has_start(place, start_ticks));
    table.map_or(0, |table| table.bound_ticks(ThreadState::depth_of(place)))
}

/// Counts a scope as skipped that opens on this thread. `state` is as for [`begin_counting`].
pub(crate) fn count_skipped(state: &ThreadState, site: u32) {
    allocations::untracked(|| state.counted_or_new().get_or_make(site).add_skipped());
}

/// Returns whether a sample records a scope that opens on this thread, and skips it if not. `state`
/// is as for [`begin_counting`].
pub(crate) fn take_sample(state: &ThreadState, site: u32, one_in: u32) -> bool {
    let seed = state.id().0;
    allocations::untracked(|| {
        state
            .counted_or_new()
            .get_or_make(site)
            .take_sample(seed, one_in)
    })
}

/// Counts a scope that has ended on this thread, and pops it from the stack. `state` is as for
/// [`begin_counting`].
pub(crate) fn count(state: &ThreadState, site: u32, place: u32, start_ticks: u64, ticks: u64) {
    allocations::untracked(|| {
        let table = state.counted_or_new();
        let depth = ThreadState::depth_of(place);
        let (inside_ticks, is_last) = table.end_at_any_depth(state, depth, start_ticks, ticks);
        let sums = table.get_or_make(site);
        sums.add(ticks);
        if table.is_nested(state, depth, site) {
            sums.add_nested(ticks);
        }
        add(&sums.inside_ticks, inside_ticks);
        if is_last {
            state.pop_open(place);
        }
    });
}

/// Counts a scope that ends while its thread ends. The thread has no table any more, so the time of
/// nested scopes is unknown. A scope that ends inside vor is dropped.
pub(crate) fn count_without_state(site: u32, ticks: u64) {
    if !StandIn::Ended.is_current() {
        return count_drop();
    }
    while_busy(|| {
        let mut ended = ended();
        let sites = ended.get_or_insert_default();
        sites.entry(entry_of(site)).or_default().add(ticks, ticks);
    });
}

/// Returns the sums so far, by thread. The first entry has no thread: it holds the sums of all
/// ended threads.
pub(crate) fn read_counted() -> Vec<(Option<ThreadId>, SiteSums)> {
    // A thread that ends from here on counts as ended. A new thread may be missed.
    let live: Vec<Arc<StateBox>> = threads().live.clone();
    let ended = ended();
    let mut all = vec![(None, ended.clone().unwrap_or_default())];
    for state in live {
        if let Some(table) = state.counted() {
            let sums = table
                .entries()
                .map(|(site, sums)| (site, Box::new(sums.sums())));
            all.push((Some(state.id()), sums.collect()));
        }
    }
    all
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sites_have_sums_of_their_own_up_to_the_last() {
        let table = CountTable::default();
        for site in [1, 255, 256, LAST_SITE, LAST_SITE + 1, 1 << 23] {
            assert_eq!(
                table.get(entry_of(site)).is_some(),
                site == 1 << 23,
                "{site}"
            );
            table.get_or_make(site).add(u64::from(site));
        }
        let totals = table
            .entries()
            .map(|(site, sums)| (site, sums.sums().total_ticks));
        let expected = [
            (0, u64::from(LAST_SITE) + 1 + (1 << 23)),
            (1, 1),
            (255, 255),
            (256, 256),
            (LAST_SITE, LAST_SITE.into()),
        ];
        assert_eq!(totals.collect::<Vec<_>>(), expected);
    }
}
