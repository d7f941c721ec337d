//! The panel in a program that records twelve million spans per second: it must keep up, and
//! nothing may grow.
//!
//! A thread opens and closes scopes at that rate, which the clock sets and not the CPU. Another one
//! ticks and shows the panel sixty times per second. The output has the spans per second, the spans
//! lost on the way to the panel, the passes, and the memory at the start and at the end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::Criterion;
use vor_viz::{Metric, PanelConfig, PanelState};

use crate::headless::Headless;

const SECONDS: u64 = 5;
/// Spans below an outer one.
const INNER: u32 = 7;
/// Spans per second: a fifth more than the panel must take.
const SPANS_PER_SECOND: u32 = 12_000_000;
const PASS: Duration = Duration::from_micros(16_667);

pub fn benches(criterion: &mut Criterion) {
    // Criterion filters by name, so this minute is only spent if the bench runs.
    criterion.bench_function("live", |bencher| {
        bencher.iter_custom(|passes| {
            let mut told = run();
            told.sort_unstable();
            let median = told.get(told.len() / 2).copied().unwrap_or_default();
            median * u32::try_from(passes).unwrap_or(u32::MAX)
        });
    });
}

/// Runs for some seconds, prints the results, and returns the duration of each pass.
fn run() -> Vec<Duration> {
    let memory_mb = || vor::current_memory_bytes().unwrap_or(0) as f64 / 1e6;
    let before_mb = memory_mb();
    vor::Config::new().enable();
    let stop = AtomicBool::new(false);
    let mut state = PanelState::new(PanelConfig::FRAME_MS);
    let mut headless = Headless::new();
    let history: VecDeque<()> = VecDeque::new();
    let metrics: &[Metric<()>] = &[];
    let mut passes = Vec::new();
    let (mut spans, mut held, mut dropped, mut lowest_mb, mut highest_mb) =
        (0, 0, 0, f64::MAX, 0.0_f64);
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let pace = Duration::from_secs(1) * (INNER + 1) / SPANS_PER_SECOND;
            let mut due = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                vor::profile_scope!("outer");
                for _ in 0..INNER {
                    vor::profile_scope!("inner");
                }
                due += pace;
                while Instant::now() < due {}
            }
        });
        let mut seen = 0;
        while began.elapsed() < Duration::from_secs(SECONDS) {
            let pass = Instant::now();
            state.tick();
            headless.pass(|ui| vor_viz::show(ui, &mut state, &history, metrics));
            passes.push(pass.elapsed());
            let from = seen;
            for frame in state
                .store()
                .frames()
                .iter()
                .filter(|frame| frame.span_count > 0 && frame.number >= from)
            {
                seen = frame.number + 1;
                spans += frame.span_count;
                held += frame.stored_spans;
                dropped += frame.dropped_spans;
            }
            let memory_mb = memory_mb();
            if began.elapsed() > Duration::from_secs(SECONDS / 2) {
                lowest_mb = lowest_mb.min(memory_mb);
                highest_mb = highest_mb.max(memory_mb);
            }
            thread::sleep(PASS.saturating_sub(pass.elapsed()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    vor::disable();
    let seconds = began.elapsed().as_secs_f64();
    let mut sorted = passes.clone();
    sorted.sort_unstable();
    eprintln!(
        "live: {:.1} M spans/s into frames, {held} of {spans} shown, {dropped} dropped; {} passes, \
        median {:?}, p99 {:?}; {before_mb:.0} MB before, {lowest_mb:.0} to {highest_mb:.0} in the \
        second half, {:.0} of them spans",
        spans as f64 / seconds / 1e6,
        sorted.len(),
        sorted[sorted.len() / 2],
        sorted[sorted.len() * 99 / 100],
        state.store().span_bytes() as f64 / 1e6,
    );
    passes
}
