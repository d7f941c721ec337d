//! Tests of what the panel allocates for hostile captures and programs, under an allocator that
//! counts, in a process of its own for each.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../all/headless/mod.rs"]
mod headless;
mod hostile_captures;
mod hostile_frames;
mod hostile_programs;

#[global_allocator]
static ALLOCATOR: vor_fixtures::memory::Counting = vor_fixtures::memory::Counting;
