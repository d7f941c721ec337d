//! Counters: sums to which any thread adds at the cost of an addition.
//!
//! Each thread adds to its own numbers, in a block that no other thread writes. So threads that
//! count the same thing do not contend for a cache line. A mark sums the blocks and takes the
//! difference from the previous mark. When a thread ends, the next thread gets its block, with its
//! numbers: only differences count.
//!
//! Counters that do not fit in a block, and threads without their own state, add to one number that
//! all threads share.

use std::sync::{Mutex, MutexGuard};

use super::metrics;
use crate::allocations;
use crate::hot::thread::{BLOCK_COUNTERS, CounterBlock, ThreadState};
use crate::hot::{record_state, thread};
use crate::sync::global::{AtomicU32, AtomicU64};
use crate::sync::sum::Sum;
use crate::sync::{Ordering, array, lock};

struct Blocks {
    all: Vec<&'static CounterBlock>,
    /// Blocks of ended threads.
    free: Vec<&'static CounterBlock>,
}

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks {
    all: Vec::new(),
    free: Vec::new(),
});

fn blocks() -> MutexGuard<'static, Blocks> {
    lock(&BLOCKS)
}

/// Locks the list of blocks for the duration of a fork. Must be taken after the list of threads,
/// whose states return their blocks.
#[cfg(unix)]
pub(crate) fn lock_blocks_for_fork() -> impl std::any::Any {
    blocks()
}

/// Returns whether no thread holds the list of blocks; used by the last thread of a process.
#[cfg(any(unix, windows))]
pub(super) fn are_blocks_open() -> bool {
    crate::os::detach::is_open(BLOCKS.try_lock())
}

impl CounterBlock {
    /// Returns a block that no other thread adds to.
    fn take() -> &'static Self {
        let mut blocks = blocks();
        if let Some(block) = blocks.free.pop() {
            return block;
        }
        let numbers = array![Sum::new(); BLOCK_COUNTERS];
        let block: &'static Self = Box::leak(Box::new(Self(numbers)));
        blocks.all.push(block);
        block
    }

    /// Returns the block for the next thread.
    pub(crate) fn give_back(&'static self) {
        blocks().free.push(self);
    }
}

/// A counter with a static handle: any thread adds to it, and each frame holds the sum of its
/// additions. Counters with one name are one metric.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::metrics::Counter; }
/// static REQUESTS: vor::Counter = vor::Counter::new("requests", "");
///
/// REQUESTS.add(1);
/// ```
#[derive(Debug)]
pub struct Counter {
    name: &'static str,
    unit: &'static str,
    /// Its index in the list of counters plus 1, 0 until it is used. Written once under the lock of
    /// the metrics, read relaxed by threads that add.
    number: AtomicU32,
    /// The sum of additions outside of blocks. Written by any thread, read by the mark, relaxed.
    shared: AtomicU64,
    /// The total at the last mark. Used under the lock of the metrics.
    taken: AtomicU64,
}

impl Counter {
    /// Describes a counter. An empty unit means none.
    #[must_use]
    pub const fn new(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            number: AtomicU32::new(0),
            shared: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// Adds to the current frame. Does nothing while recording is off.
    #[inline]
    pub fn add(&'static self, amount: u64) {
        if cfg!(feature = "off") || !record_state::is_on() {
            return;
        }
        let place = self.number.load(Ordering::Relaxed).wrapping_sub(1) as usize;
        match thread::hot().counts() {
            Some(CounterBlock(numbers)) if place < BLOCK_COUNTERS => numbers[place].add(amount),
            _ => self.add_slow(amount),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_slow(&'static self, amount: u64) {
        if !thread::is_busy() {
            if self.number.load(Ordering::Relaxed) == 0 {
                thread::while_busy(|| self.register());
            }
            let place = self.number.load(Ordering::Relaxed).wrapping_sub(1) as usize;
            // A thread without its own state, for example while it starts or ends, has no block.
            if place < BLOCK_COUNTERS && thread::with_state(give_block).is_some() {
                return self.add(amount);
            }
        }
        self.shared.fetch_add(amount, Ordering::Relaxed);
    }

    fn register(&'static self) {
        let mut metrics = metrics();
        if self.number.load(Ordering::Relaxed) != 0 {
            return;
        }
        metrics
            .units
            .entry(Box::from(self.name))
            .or_insert_with(|| self.unit.to_owned());
        let Some(slot) = metrics.named(self.name) else {
            // There are too many metrics, which was reported in one line; this one is counted and
            // never shown.
            self.number.store(u32::MAX, Ordering::Relaxed);
            return;
        };
        metrics.counters.push((self, slot.column));
        let number = u32::try_from(metrics.counters.len()).unwrap_or(u32::MAX);
        self.number.store(number, Ordering::Relaxed);
    }
}

/// Gives a thread its own numbers.
fn give_block(state: &ThreadState) {
    if state.counts().is_none() {
        allocations::untracked(|| state.set_counts(CounterBlock::take()));
    }
}

/// Takes the sums since the last call, by user column.
pub(super) fn take(counters: &[(&'static Counter, u32)]) -> Vec<(u32, u64)> {
    if counters.is_empty() {
        return Vec::new();
    }
    let mut totals = [0_u64; BLOCK_COUNTERS];
    for CounterBlock(numbers) in &blocks().all {
        for (total, number) in totals.iter_mut().zip(numbers).take(counters.len()) {
            *total = total.wrapping_add(number.read());
        }
    }
    let taken = |(place, (counter, column)): (usize, &(&'static Counter, u32))| {
        let in_blocks = totals.get(place).copied().unwrap_or(0);
        let total = in_blocks.wrapping_add(counter.shared.load(Ordering::Relaxed));
        (
            *column,
            total.wrapping_sub(counter.taken.swap(total, Ordering::Relaxed)),
        )
    };
    counters.iter().enumerate().map(taken).collect()
}

/// Returns the number of blocks, of running and of ended threads.
#[cfg(all(test, not(loom), not(feature = "off")))]
pub(crate) fn block_count() -> usize {
    blocks().all.len()
}
