//! Tests under the allocator that attributes every object to its stack. Each test that records does
//! so in a process of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alloc_exact;
#[cfg(all(unix, not(feature = "off")))]
mod alloc_fork;
mod alloc_recorded;
mod pprof_known;
mod process_end;
mod profiles_heap;

/// Its locks are among those that a thread may hold when it is ended; see `process_end`.
#[global_allocator]
static ALLOCATOR: vor_recorder::heap::TrackingAllocator =
    vor_recorder::heap::TrackingAllocator::system().exact();
