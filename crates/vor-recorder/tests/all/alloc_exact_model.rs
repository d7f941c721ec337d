//! The counting and the exact allocator against a model, for any sequence of requests. The program
//! itself has another allocator, so only the requests count.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "allocators are called by hand")]

use std::alloc::{GlobalAlloc, Layout};

use proptest::prelude::*;
use vor_capture::model::heap::HeapMode;
use vor_fixtures::own_process;
use vor_recorder::allocations::{AllocCounts, thread_allocations};
use vor_recorder::heap::{TrackingAllocator, heap_snapshot};

use crate::alloc_model::{CheckedAllocator, Expected, requests, run_requests};

static COUNTING: TrackingAllocator<CheckedAllocator> =
    TrackingAllocator::new(CheckedAllocator::new());
static EXACT: TrackingAllocator<CheckedAllocator> =
    TrackingAllocator::new(CheckedAllocator::new()).exact();

fn is_counted(before: AllocCounts, expected: Expected) {
    let since = thread_allocations().since(before);
    let seen = Expected {
        alloc_objects: since.alloc_objects,
        alloc_bytes: since.alloc_bytes,
        free_objects: since.free_objects,
        free_bytes: since.free_bytes,
    };
    assert_eq!(seen, expected);
}

/// Returns the live objects and bytes according to the exact allocator.
fn in_use() -> (u64, u64) {
    let total = heap_snapshot().total();
    (total.inuse_objects, total.inuse_bytes)
}

#[test]
fn counting_agrees_with_the_model() {
    own_process!();
    proptest!(|(requests in requests(0))| {
        let before = thread_allocations();
        run_requests(&COUNTING, &requests, |expected, _| is_counted(before, expected));
    });
}

#[test]
fn the_exact_heap_agrees_with_the_model() {
    own_process!();
    proptest!(|(requests in requests(0))| {
        let before = thread_allocations();
        run_requests(&EXACT, &requests, |expected, expected_in_use| {
            is_counted(before, expected);
            assert_eq!(in_use(), expected_in_use);
        });
        prop_assert_eq!(in_use(), (0, 0));
    });
}

#[test]
fn a_size_that_leaves_no_room_for_the_trailer_is_refused() {
    own_process!();
    static HUGE: TrackingAllocator = TrackingAllocator::system().exact();
    let huge = Layout::from_size_align(isize::MAX as usize, 1).unwrap();
    let small = Layout::new::<u64>();
    // SAFETY: the layouts are not empty, and the object is freed with the layout of its allocation.
    unsafe {
        assert!(HUGE.alloc(huge).is_null());
        assert!(HUGE.alloc_zeroed(huge).is_null());
        let object = HUGE.alloc(small);
        object.cast::<u64>().write(7);
        assert!(
            HUGE.realloc(object, small, isize::MAX as usize - 7)
                .is_null()
        );
        assert_eq!(object.cast::<u64>().read(), 7);
        HUGE.dealloc(object, small);
    }
    assert_ne!(heap_snapshot().mode, HeapMode::Off);
}

/// The size classes of glibc are 16 bytes apart.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#[test]
fn the_trailer_takes_four_bytes_on_average() {
    own_process!();
    static SYSTEM: TrackingAllocator = TrackingAllocator::system().exact();
    let sizes = 25..25 + 4096;
    let usable = |allocator: &dyn GlobalAlloc, bytes| {
        let layout = Layout::from_size_align(bytes, 1).unwrap();
        // SAFETY: the object comes from the C library, and is freed with the layout of its
        // allocation.
        unsafe {
            let object = allocator.alloc(layout);
            let usable = libc::malloc_usable_size(object.cast());
            allocator.dealloc(object, layout);
            usable
        }
    };
    let extra: usize = sizes
        .clone()
        .map(|bytes| usable(&SYSTEM, bytes) - usable(&std::alloc::System, bytes))
        .sum();
    // A free block that is reused may be one step larger than the request.
    let mean = extra as f64 / sizes.len() as f64;
    assert!((3.0..=5.0).contains(&mean), "{mean}");
}
