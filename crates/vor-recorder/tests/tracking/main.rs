//! Tests under the allocator that counts allocations. Each test that records does so in a process
//! of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alloc_counting;
mod alloc_frames;
#[cfg(not(feature = "off"))]
mod measured;
mod measured_allocations;
mod profiles_open;

#[global_allocator]
static ALLOCATOR: vor_recorder::heap::TrackingAllocator =
    vor_recorder::heap::TrackingAllocator::system();
