//! Tests of the panel's allocations for hostile captures and programs, under an allocator that
//! counts. Each test has a process of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../all/headless/mod.rs"]
mod headless;
mod hostile_captures;
mod hostile_frames;
mod hostile_programs;

#[global_allocator]
static ALLOCATOR: vor_fixtures::memory::Counting = vor_fixtures::memory::Counting;
