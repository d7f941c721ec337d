//! Tests of the allocations made while recording, under an allocator that counts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tracing_memory;
#[cfg(all(feature = "tracing-layer", not(feature = "off")))]
#[path = "../all/tracing_support/mod.rs"]
mod tracing_support;

#[global_allocator]
static ALLOCATOR: vor_fixtures::memory::Counting = vor_fixtures::memory::Counting;
