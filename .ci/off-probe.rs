//! The functions that `.ci/off` compiles twice: with vor's macros, and without them.
#![allow(missing_docs, reason = "only its assembly matters")]
#![cfg_attr(feature = "bare", allow(unused_variables, reason = "only the macros use it"))]

/// Expands to the statement, or to nothing with the feature `bare`.
macro_rules! measured {
    ($($statement:tt)*) => {
        #[cfg(not(feature = "bare"))]
        $($statement)*
    };
}

#[cfg_attr(not(feature = "bare"), vor::profile)]
#[unsafe(no_mangle)]
pub fn probe_function(items: &[u64]) -> u64 {
    items.iter().fold(0, |sum, item| sum.wrapping_add(*item))
}

#[unsafe(no_mangle)]
pub fn probe_scope(items: &[u64]) -> u64 {
    measured!(vor::profile_scope!("sum"););
    items.iter().fold(0, |sum, item| sum ^ item)
}

#[unsafe(no_mangle)]
pub fn probe_arguments(items: &[u64], codec: &str) -> u64 {
    measured!(vor::profile_scope!("product", items = items.len(), codec = codec););
    measured!(vor::message!("product of {} items", items.len()););
    items.iter().fold(1, |product, item| product.wrapping_mul(*item))
}

#[unsafe(no_mangle)]
pub fn probe_phases(items: &mut [u64]) {
    measured!(let mut phases = vor::profile_phase!("reverse"););
    items.reverse();
    measured!(vor::profile_phase!(phases, "invert"););
    for item in items.iter_mut() {
        *item = !*item;
    }
    measured!(let _ = &mut phases;);
}

pub struct Probe(u64);

#[cfg_attr(not(feature = "bare"), vor::all_functions)]
impl Probe {
    #[unsafe(no_mangle)]
    pub fn probe_method(&mut self, by: u64) -> u64 {
        self.0 = self.0.rotate_left(7) ^ by;
        self.0
    }
}

#[cfg(not(feature = "bare"))]
static STEPS: vor::Counter = vor::Counter::new("steps", "");

#[unsafe(no_mangle)]
pub fn probe_counter(n: u64) -> u64 {
    measured!(STEPS.add(1););
    n.count_ones().into()
}

#[cfg(not(feature = "bare"))]
static SIZES: vor::Histogram = vor::Histogram::new("sizes", "B");

/// Instrumentation by functions instead of macros.
#[unsafe(no_mangle)]
pub fn probe_metrics(bytes: u64) -> u64 {
    measured!(vor::record_metric_unit("bytes", "B"););
    measured!(vor::record_metric("bytes", bytes as f64););
    measured!(SIZES.record(bytes););
    measured!(vor::record_io(1, bytes););
    measured!(let _ = vor::drain_io(););
    bytes.leading_zeros().into()
}

#[unsafe(no_mangle)]
pub fn probe_named_scope(name: &str) -> usize {
    measured!(let _scope = vor::scope(name););
    name.len()
}

#[unsafe(no_mangle)]
pub fn probe_marks(frame: u64) -> u64 {
    measured!(vor::frame_mark(););
    measured!(vor::frame_mark_named("physics"););
    frame.rotate_left(3)
}
