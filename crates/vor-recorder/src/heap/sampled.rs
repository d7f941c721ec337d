//! The sampled heap: one byte per interval of allocated bytes is a sample, and a table holds the
//! live objects with a sample.
//!
//! The distances between samples have an exponential distribution, so every byte has the same
//! chance, independently of earlier samples (a Poisson process). An object of *s* bytes at an
//! interval of *T* then has a sample with the probability p = 1 − e^(−s/T), and represents 1/p
//! objects and s/p bytes. The sums of these are unbiased. Their variance is at most the sum over
//! the samples of (1 − p) s²/p².
//!
//! A free reads a filter to check whether the object may be in the table. The filter has a byte per
//! slot of 256 bytes of addresses, which counts the samples in the slot. Neighbouring objects have
//! neighbouring slots. So a program's heap uses a 256th of its size in the filter, which stays in
//! the cache; beyond 1 GiB the heap is folded. A sample takes some 50 bytes of the table.

use std::collections::HashMap;
use std::mem::MaybeUninit;

use rustc_hash::FxBuildHasher;

use super::stacks;
use crate::allocations::HEAP;
use crate::allocations::local::Local;
use crate::allocations::lock::Lock;
use crate::clock;
use crate::hot::thread;
use crate::sync::Ordering;
use crate::sync::global::AtomicU8;
use crate::sync::{self, statics};

/// A live object with a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) bytes: usize,
    pub(super) stack: u32,
}

const SLOTS: usize = 1 << 22;

/// Bytes of addresses that share a slot, as a power of two.
const SLOT_BITS: u32 = 8;

/// Samples by slot; a slot that ever had 255 keeps that number. Written by threads that sample or
/// free a sampled object, read by every free, both relaxed. An object reaches another thread after
/// its sample was counted, and the program's own synchronisation orders the two.
///
/// The compiler checks each of the four million values of an array, which takes seconds, but not
/// what is inside `MaybeUninit`.
static FILTER: MaybeUninit<[AtomicU8; SLOTS]> = MaybeUninit::zeroed();

const SHARDS: usize = 64;

statics! {
    static SHARD: [Lock<HashMap<usize, Sample, FxBuildHasher>>; SHARDS] =
        sync::array![Lock::new(HashMap::with_hasher(FxBuildHasher)); SHARDS];
}

#[inline(always)]
fn slot(address: usize) -> &'static AtomicU8 {
    #[expect(unsafe_code, reason = "the filter is made of zeros, not of values")]
    // SAFETY: A zero byte is a valid `AtomicU8`.
    let filter = unsafe { FILTER.assume_init_ref() };
    // Folded, so that big objects, which all begin at the same offset of a page, have different
    // slots. Addresses of 32 bits have 2 bits to fold.
    &filter[(address >> SLOT_BITS ^ address >> (SLOT_BITS + SLOTS.ilog2())) % SLOTS]
}

fn shard(address: usize) -> &'static Lock<HashMap<usize, Sample, FxBuildHasher>> {
    super::hold_locks_across_forks();
    let hash = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &SHARD[(hash >> 58) as usize % SHARDS]
}

/// Counts a new object, and takes a sample of it if one is due.
#[inline(always)]
pub(super) fn allocated(local: &Local, object: *mut u8, bytes: usize, interval: u64) {
    if local.allocated(bytes) && local.alloc_bytes() >= local.sample_at.get() {
        sample(local, object, bytes, interval);
    }
}

#[cold]
#[inline(never)]
fn sample(local: &Local, object: *mut u8, bytes: usize, interval: u64) {
    let counted = local.alloc_bytes();
    if local.sample_at.get() == 0 {
        HEAP.store(interval, Ordering::Relaxed);
        let first = counted - bytes as u64 + gap(local, interval);
        local.sample_at.set(first);
        if counted < first {
            return;
        }
    }
    // The process restarts after the object, since it has no memory.
    local.sample_at.set(counted + gap(local, interval));
    let stack = match thread::current() {
        Some(state) => stacks::of(state.own_open_sites()),
        None => 0,
    };
    put(object.addr(), Sample { bytes, stack });
}

/// Draws the bytes until the next sample: at least 1.
fn gap(local: &Local, interval: u64) -> u64 {
    // Above 0, at most 1.
    let uniform = ((random(local) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    // An object has a sample if its last byte is at or after the drawn position, so round up.
    (-uniform.ln() * interval as f64).ceil().max(1.0) as u64
}

/// Draws a random number (SplitMix64).
fn random(local: &Local) -> u64 {
    if local.random.get() == 0 {
        let seed = std::ptr::from_ref(local).addr() as u64;
        local.random.set(seed.rotate_left(32) ^ clock::ticks() | 1);
    }
    let state = local.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
    local.random.set(state);
    let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// Restarts the samples of this thread from a seed.
pub(super) fn seed(local: &Local, seed: u64) {
    local.random.set(seed | 1);
    local.sample_at.set(0);
}

fn put(address: usize, sample: Sample) {
    let added = shard(address).with(|samples| {
        // Without memory, this sample is missing.
        let has_room = samples.try_reserve(1).is_ok();
        has_room && samples.insert(address, sample).is_none()
    });
    if added {
        let count = |samples: u8| samples.checked_add(1);
        // A full slot stays full.
        let _ = slot(address).fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
    }
}

/// Removes an object from the table before it is freed. Must be called before the free: afterwards
/// another thread may get its address.
#[inline(always)]
pub(super) fn take(local: &Local, object: *mut u8) -> Option<Sample> {
    if slot(object.addr()).load(Ordering::Relaxed) == 0 {
        return None;
    }
    take_slow(local, object.addr())
}

#[cold]
#[inline(never)]
fn take_slow(local: &Local, address: usize) -> Option<Sample> {
    // Objects that this module frees itself are not in the table, and the thread may hold the lock.
    if local.is_internal() {
        return None;
    }
    let sample = shard(address).with(|samples| samples.remove(&address))?;
    let count = |samples: u8| match samples {
        0 | u8::MAX => None,
        samples => Some(samples - 1),
    };
    let _ = slot(address).fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
    Some(sample)
}

/// Inserts an object again after its reallocation failed.
pub(super) fn put_back(object: *mut u8, sample: Option<Sample>) {
    if let Some(sample) = sample {
        put(object.addr(), sample);
    }
}

/// Calls `each` with every live object with a sample.
pub(super) fn for_each(mut each: impl FnMut(Sample)) {
    super::hold_locks_across_forks();
    for shard in SHARD.iter() {
        shard.with(|samples| samples.values().copied().for_each(&mut each));
    }
}

#[cfg(unix)]
pub(super) fn take_locks_for_fork() {
    SHARD.iter().for_each(Lock::take_for_fork);
}

#[cfg(unix)]
pub(super) fn release_locks_after_fork() {
    SHARD.iter().for_each(Lock::release_after_fork);
}

#[cfg(any(unix, windows))]
pub(super) fn is_open() -> bool {
    SHARD.iter().all(Lock::is_open)
}
