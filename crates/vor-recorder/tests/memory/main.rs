//! Tests of the allocations of the recorder and the readers, under an allocator that counts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod reader_mutations;
mod recorder_allocations;

#[global_allocator]
static ALLOCATOR: vor_fixtures::memory::Counting = vor_fixtures::memory::Counting;
