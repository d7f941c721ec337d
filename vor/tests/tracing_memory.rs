//! Spans come and go without memory: what the layer and the subscriber keep is for those that are
//! open.

#![cfg(all(feature = "tracing-layer", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "an allocator that counts is unsafe to write")]

mod tracing_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

use tracing::{Dispatch, info_span};

struct Counting;

/// Bytes that are allocated and not given back, of all threads.
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Makes so many spans, as a program does, and returns how often they allocated.
fn spans(count: u64) -> u64 {
    let mut allocations = 0;
    for _ in 0..count / 4000 {
        let before = ALLOCATIONS.get();
        for i in 0..1000 {
            let _request = info_span!("request", i, path = "a/path").entered();
            info_span!("parse").in_scope(|| {});
            let task = info_span!("task", ok = true);
            task.in_scope(|| {});
            task.in_scope(|| {});
            drop(info_span!("never entered"));
        }
        allocations += ALLOCATIONS.get() - before;
        vor::flush();
    }
    allocations
}

/// Returns how often `count` spans allocate, and how many bytes are left of them.
fn measure(dispatch: &Dispatch, count: u64) -> (u64, i64) {
    tracing::dispatcher::with_default(dispatch, || {
        spans(40_000);
        let before = LIVE_BYTES.load(Ordering::Relaxed);
        let allocations = spans(count);
        (allocations, LIVE_BYTES.load(Ordering::Relaxed) - before)
    })
}

#[test]
fn a_million_spans_leave_nothing_and_those_of_the_subscriber_allocate_nothing() {
    vor::Config::new().puffin(false).inline_drain(true).enable();
    let (_, left) = measure(&tracing_support::layer(), 1_000_000);
    assert!(left.abs() < 1 << 20, "{left} bytes are left by the layer");
    let (allocations, left) = measure(&tracing_support::subscriber(), 100_000);
    assert!(
        left.abs() < 1 << 20,
        "{left} bytes are left by the subscriber"
    );
    assert_eq!(allocations, 0);
    vor::disable();
}
