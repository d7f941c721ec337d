//! The sampled heap: its estimates are right, and freed samples are removed. Its allocators are not
//! the one of this program, so the allocations are known to the byte. The samples start from a
//! seed, so every run has the same ones.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "allocators are called by hand")]

use std::alloc::{GlobalAlloc, Layout};

use proptest::prelude::*;
use vor_capture::model::heap::{HeapMode, HeapStack};
use vor_fixtures::own_process;
use vor_recorder::allocations::untracked;
use vor_recorder::heap::{TrackingAllocator, heap_snapshot, seed_samples};
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

use crate::alloc_model::{CheckedAllocator, requests, run_requests};
use vor_fixtures::random::Random;

const INTERVAL_BYTES: u64 = 4096;
static SAMPLED: TrackingAllocator = TrackingAllocator::system().sampled(INTERVAL_BYTES);

fn stack(name: &str) -> Option<HeapStack> {
    heap_snapshot()
        .stacks
        .into_iter()
        .find(|stack| stack.name() == name)
}

struct Object(*mut u8, Layout);

fn make(bytes: usize) -> Object {
    let layout = Layout::from_size_align(bytes, 8).unwrap();
    // SAFETY: no size in this test is 0.
    Object(unsafe { SAMPLED.alloc(layout) }, layout)
}

fn give_back(Object(object, layout): Object) {
    // SAFETY: this allocator made the object with this layout, and the caller does not use it
    // again.
    unsafe { SAMPLED.dealloc(object, layout) }
}

/// Sizes of three kinds: many small ones, some near the interval, and a few that are far larger.
fn size(random: &mut Random) -> usize {
    match random.below(100) {
        0..90 => 16 + random.below(500),
        90..99 => 1000 + random.below(10_000),
        _ => 20_000 + random.below(100_000),
    }
}

#[test]
fn estimates_lie_within_their_interval_in_200_runs() {
    own_process!();
    const RUNS: usize = 200;
    Config::new().enable();
    let (mut bytes_within, mut objects_within) = (0, 0);
    let (mut estimated, mut expected) = ([0.0; 2], [0.0; 2]);
    for run in 0..RUNS {
        seed_samples(run as u64 * 7919 + 1);
        let mut random = Random(run as u64);
        let mut objects: Vec<Object> = Vec::new();
        for _ in 0..4000 {
            profile_scope!("sampled run");
            objects.push(make(size(&mut random)));
        }
        // Half of them are freed, in no particular order.
        for _ in 0..2000 {
            give_back(objects.swap_remove(random.below(objects.len())));
        }
        let bytes: usize = objects.iter().map(|object| object.1.size()).sum();
        let seen = stack("sampled run").unwrap();
        assert!(seen.samples > 100, "{seen:?}");
        bytes_within += usize::from(seen.bytes_interval().contains(&(bytes as u64)));
        objects_within += usize::from(seen.objects_interval().contains(&(objects.len() as u64)));
        estimated = [
            estimated[0] + seen.inuse_bytes as f64,
            estimated[1] + seen.inuse_objects as f64,
        ];
        expected = [
            expected[0] + bytes as f64,
            expected[1] + objects.len() as f64,
        ];
        objects.into_iter().for_each(give_back);
        assert!(stack("sampled run").is_none(), "no sample remains");
    }
    // At 95 %, 190 of 200 intervals are expected to hold, with a standard deviation of 3.
    assert!((181..=199).contains(&bytes_within), "{bytes_within}");
    assert!((181..=199).contains(&objects_within), "{objects_within}");
    // The estimate is unbiased: an error of a few per cent in each run averages to some tenths of a
    // per cent.
    for (estimated, expected) in estimated.into_iter().zip(expected) {
        let ratio = estimated / expected;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
    }
    assert_eq!(
        heap_snapshot().mode,
        HeapMode::Sampled {
            interval_bytes: INTERVAL_BYTES
        }
    );
}

#[test]
fn an_object_that_grows_is_one_object() {
    own_process!();
    Config::new().enable();
    seed_samples(5);
    let mut object = {
        profile_scope!("grows");
        make(100_000)
    };
    for step in 1..2000 {
        profile_scope!("grows");
        let bytes = 100_000 + step % 7 * 10_000;
        // SAFETY: this allocator made the object with this layout; the new size fits a layout.
        let moved = unsafe { SAMPLED.realloc(object.0, object.1, bytes) };
        object = Object(moved, Layout::from_size_align(bytes, 8).unwrap());
        // The chance of no sample is 1 in 10^10.
        let seen = stack("grows").unwrap();
        assert_eq!(
            (seen.samples, seen.inuse_objects, seen.inuse_bytes),
            (1, 1, bytes as u64)
        );
    }
    give_back(object);
    assert!(stack("grows").is_none());
}

#[test]
fn untracked_objects_are_no_samples_and_samples_freed_anywhere_are_removed() {
    own_process!();
    Config::new().enable();
    seed_samples(6);
    profile_scope!("elsewhere");
    let not_seen = untracked(|| make(1_000_000));
    assert!(stack("elsewhere").is_none());
    let seen = make(1_000_000);
    assert_eq!(stack("elsewhere").unwrap().inuse_bytes, 1_000_000);
    untracked(|| give_back(seen));
    assert!(stack("elsewhere").is_none());
    give_back(not_seen);
    let address = make(1_000_000);
    let (object, layout) = (address.0.expose_provenance(), address.1);
    std::thread::spawn(move || {
        give_back(Object(
            std::ptr::with_exposed_provenance_mut(object),
            layout,
        ))
    })
    .join()
    .unwrap();
    assert!(stack("elsewhere").is_none());
    // A refused request leaves the object unchanged.
    let object = make(1_000_000);
    // SAFETY: this allocator made the object with this layout; the new size fits a layout.
    assert!(unsafe { SAMPLED.realloc(object.0, object.1, isize::MAX as usize - 7) }.is_null());
    assert_eq!(stack("elsewhere").unwrap().inuse_bytes, 1_000_000);
    give_back(object);
}

/// With an interval far below the sizes, every object is a sample.
#[test]
fn the_table_agrees_with_the_model() {
    own_process!();
    proptest!(|(requests in requests(64))| {
        static EVERY: TrackingAllocator<CheckedAllocator> =
            TrackingAllocator::new(CheckedAllocator::new()).sampled(1);
        seed_samples(7);
        run_requests(&EVERY, &requests, |_, (objects, bytes)| {
            let total = heap_snapshot().total();
            assert_eq!(
                (total.samples, total.inuse_objects, total.inuse_bytes),
                (objects, objects, bytes)
            );
        });
        // The first sample of the next test is drawn with that test's interval, which the snapshots
        // use.
        seed_samples(8);
    });
}
