//! Takes snapshots of the live heap that the allocator tracks.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::sampled::{self, Sample};
use super::stacks;
use crate::allocations::local::{self, live_by_stack};
use crate::allocations::{EXACT, HEAP};
use crate::clock;
use crate::hot::{callsite, thread};
use crate::sync::Ordering;
use vor_capture::filled;

use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};

/// Returns the live heap by the stack of scopes that allocated it. The mode is [`HeapMode::Off`] if
/// the heap is not tracked.
///
/// Other threads continue meanwhile: an object that moves between them may be missing, or counted
/// twice. The call takes some ten nanoseconds per sample or stack. Other threads' allocations do
/// not wait for it, except their first one, their samples and their first one in a stack.
///
/// ```
/// # mod vor { pub mod heap { pub use vor_recorder::heap::heap_snapshot; } }
/// let heap = vor::heap::heap_snapshot();
/// let bytes: u64 = heap.stacks.iter().map(|stack| stack.inuse_bytes).sum();
/// println!("{bytes} bytes are live");
/// ```
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
        HeapSnapshot::new(mode, ticks, with_scopes(stacks))
    })
}

/// Returns whether the program's allocator tracks the live heap.
pub(crate) fn tracks_heap() -> bool {
    HEAP.load(Ordering::Relaxed) != 0
}

fn exact_stacks() -> Vec<(u32, HeapStack)> {
    let live = |(stack, (objects, bytes)): (u32, (u64, u64))| {
        let live = filled!(HeapStack {
            inuse_objects: objects,
            inuse_bytes: bytes
        });
        (objects > 0).then_some((stack, live))
    };
    (0..).zip(live_by_stack()).filter_map(live).collect()
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
        // The probability that an object of this size has a sample.
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
    let live = |(stack, sums): (u32, Estimate)| {
        let live = filled!(HeapStack {
            scopes: Vec::new(),
            inuse_objects: sums.objects.round() as u64,
            inuse_bytes: sums.bytes.round() as u64,
            samples: sums.samples,
            objects_error: sums.objects_variance.sqrt(),
            bytes_error: sums.bytes_variance.sqrt(),
        });
        (stack, live)
    };
    estimates.into_iter().map(live).collect()
}

/// Fills in the scopes of numbered stacks.
fn with_scopes(live: Vec<(u32, HeapStack)>) -> Vec<HeapStack> {
    let sites = local::internally(|| stacks::sites(live.iter().map(|(number, _)| *number)));
    let registry = callsite::lock();
    let scope = |site| {
        filled!(HeapScope {
            site,
            info: registry.info_of(site).unwrap_or_default(),
        })
    };
    let filled = live.into_iter().zip(sites).map(|((_, stack), sites)| {
        filled!(HeapStack {
            scopes: sites.into_iter().map(scope).collect(),
            ..stack
        })
    });
    filled.collect()
}
