//! Spans leave no memory behind: the layer and the subscriber store data for open spans only.

#![cfg(all(feature = "tracing-layer", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use tracing::{Dispatch, info_span};
use vor_fixtures::memory::{live_bytes, thread_allocations};
use vor_fixtures::own_process;

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

/// Checks that `count` spans leave less than a byte each, and returns the number of allocations.
fn measure(dispatch: &Dispatch, count: u64) -> u64 {
    tracing::dispatcher::with_default(dispatch, || {
        spans(40_000);
        let before = live_bytes();
        let allocations = spans(count);
        let left = live_bytes() as i64 - before as i64;
        assert!(left.abs() < count as i64, "{left} bytes are left");
        allocations
    })
}

#[test]
fn spans_of_the_layer_leave_nothing() {
    own_process!();
    vor::Config::new().puffin(false).inline_drain(true).enable();
    measure(&crate::tracing_support::layer(), 400_000);
    vor::disable();
}

#[test]
fn spans_of_the_subscriber_leave_nothing_and_it_allocates_nothing() {
    own_process!();
    vor::Config::new().puffin(false).inline_drain(true).enable();
    let allocations = measure(&crate::tracing_support::subscriber(), 200_000);
    assert_eq!(allocations, 0);
    vor::disable();
}
