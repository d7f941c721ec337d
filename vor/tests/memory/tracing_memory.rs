//! Spans leave no memory behind: the layer and the subscriber store data for open spans only.

#![cfg(all(feature = "tracing-layer", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use tracing::{Dispatch, info_span};
use vor_fixtures::memory::{live_bytes, thread_allocations};

/// Makes `count` spans as a program does, and returns the number of allocations.
fn spans(count: u64) -> u64 {
    let mut allocations = 0;
    for _ in 0..count / 4000 {
        let before = thread_allocations();
        for i in 0..1000 {
            let _request = info_span!("request", i, path = "a/path").entered();
            info_span!("parse").in_scope(|| {});
            let task = info_span!("task", ok = true);
            task.in_scope(|| {});
            task.in_scope(|| {});
            drop(info_span!("never entered"));
        }
        allocations += thread_allocations() - before;
        vor::flush();
    }
    allocations
}

/// Returns the number of allocations of `count` spans, and the bytes that remain allocated after
/// them.
fn measure(dispatch: &Dispatch, count: u64) -> (u64, i64) {
    tracing::dispatcher::with_default(dispatch, || {
        spans(40_000);
        let before = live_bytes();
        let allocations = spans(count);
        (allocations, live_bytes() as i64 - before as i64)
    })
}

#[test]
fn a_million_spans_leave_nothing_and_the_subscriber_allocates_nothing() {
    vor::Config::new().puffin(false).inline_drain(true).enable();
    let (_, left) = measure(&crate::tracing_support::layer(), 1_000_000);
    assert!(left.abs() < 1 << 20, "{left} bytes are left by the layer");
    let (allocations, left) = measure(&crate::tracing_support::subscriber(), 100_000);
    assert!(
        left.abs() < 1 << 20,
        "{left} bytes are left by the subscriber"
    );
    assert_eq!(allocations, 0);
    vor::disable();
}
