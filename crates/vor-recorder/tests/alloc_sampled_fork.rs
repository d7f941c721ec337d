//! Forks of a program with a sampling allocator, with as many samples as it can hold.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_capture::model::heap::HeapMode;
use vor_recorder::heap::{TrackingAllocator, heap_snapshot};
use vor_recorder::setup::Config;

#[path = "tracking_exact/alloc_fork.rs"]
mod alloc_fork;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::system().sampled(256);

#[test]
fn a_forks_child_goes_on() {
    Config::new().enable();
    alloc_fork::torture(60, || {
        assert_eq!(
            heap_snapshot().mode,
            HeapMode::Sampled {
                interval_bytes: 256
            }
        );
    });
}
