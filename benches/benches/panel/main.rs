//! The cost of a pass of the panel: its UI and its tessellation, warm, at 1920 × 1080, without the
//! GPU.
//!
//! Each picture moves a little from pass to pass, so that no pass only repeats the last one. Run it
//! with `cargo bench -p vor-benches --features panel --bench panel`.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod browse;
mod flame;
mod headless;
mod live;
mod numbers;
#[path = "../../../vor-viz/tests/all/synthetic.rs"]
mod synthetic;
mod tables;
mod whole;
mod zoom;

use criterion::{Criterion, criterion_group, criterion_main};

// The first group, because the heap that others leave would count as the panel's memory.
criterion_group! { name = first; config = few_runs(); targets = live::benches }
criterion_group!(
    passes,
    flame::benches,
    numbers::benches,
    tables::benches,
    whole::benches
);
criterion_group! { name = last; config = few_runs(); targets = browse::benches, zoom::benches }
criterion_main!(first, passes, last);

/// A bench that takes seconds and reports more than a time.
fn few_runs() -> Criterion {
    Criterion::default().sample_size(10)
}
