//! What the statistics cost the worker per span.

use std::time::Instant;

use vor_core::batch::ThreadBatch;
use vor_core::catalog::SiteId;
use vor_core::clock::{ClockSync, RATE_BITS, Timeline};
use vor_core::stats::StatsBuilder;

/// Most that a span may cost, in nanoseconds. Twice and more what was measured; a build without optimisation is not held to it.
const BUDGET_NS: f64 = if cfg!(debug_assertions) {
    f64::INFINITY
} else {
    12.0
};

const SPANS: usize = 65_536;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Flat spans of 200 to 800 ns at 3 ticks per nanosecond.
fn flat(sites: u64) -> ThreadBatch {
    let (mut state, mut now_ticks) = (0x9e37_79b9_7f4a_7c15, 1_000_000);
    let mut batch = ThreadBatch::default();
    for _ in 0..SPANS {
        let ticks = 600 + random(&mut state) % 1_800;
        batch.start_ticks.push(now_ticks);
        batch.duration_ticks.push(ticks);
        batch.sites.push(SiteId(1 + (random(&mut state) % sites) as u32));
        now_ticks += ticks + 60;
    }
    batch
}

/// A random tree, up to 6 deep, of the same length.
fn tree(sites: u64) -> ThreadBatch {
    let (mut state, mut now_ticks) = (0x9e37_79b9_7f4a_7c15, 1_000_000_u64);
    let mut batch = ThreadBatch::default();
    let mut open = Vec::new();
    while batch.sites.len() < SPANS {
        now_ticks += 30 + random(&mut state) % 600;
        if open.is_empty() || (open.len() < 6 && random(&mut state).is_multiple_of(2)) {
            open.push((now_ticks, SiteId(1 + (random(&mut state) % sites) as u32)));
        } else if let Some((start_ticks, site)) = open.pop() {
            batch.start_ticks.push(start_ticks);
            batch.duration_ticks.push(now_ticks - start_ticks);
            batch.sites.push(site);
        }
    }
    batch
}

/// The same small tree over and over, as a loop in a program makes it: a root of three children, the second of which has two.
fn regular() -> ThreadBatch {
    let (mut state, mut now_ticks) = (0x9e37_79b9_7f4a_7c15, 1_000_000_u64);
    let mut batch = ThreadBatch::default();
    let mut open = Vec::new();
    while batch.sites.len() < SPANS {
        for step in *b"(()(()())())" {
            now_ticks += 60 + random(&mut state) % 600;
            if step == b'(' {
                open.push(now_ticks);
            } else if let Some(start_ticks) = open.pop() {
                batch.sites.push(SiteId(1 + open.len() as u32));
                batch.start_ticks.push(start_ticks);
                batch.duration_ticks.push(now_ticks - start_ticks);
            }
        }
    }
    batch.start_ticks.truncate(SPANS);
    batch.duration_ticks.truncate(SPANS);
    batch.sites.truncate(SPANS);
    batch
}

fn median_ns_per_span(batch: &ThreadBatch) -> f64 {
    let mut timeline = Timeline::default();
    let unix_ns = 1_700_000_000_000_000_000;
    timeline.push(ClockSync {
        ticks: 1,
        unix_ns,
        rate: (1 << RATE_BITS) / 3,
        wall_ns: unix_ns,
    });
    let mut stats = StatsBuilder::new();
    let mut batch = batch.clone();
    let ticks = batch.start_ticks[SPANS - 1] + 10_000;
    let rounds = 41;
    let mut measured: Vec<f64> = (0..rounds)
        .map(|_| {
            let began = Instant::now();
            stats.add(&timeline, &batch);
            stats.settle(batch.thread, batch.start_ticks[SPANS - 1] + 9_000, &[]);
            let elapsed_ns = began.elapsed().as_nanos() as f64;
            batch.start_ticks.iter_mut().for_each(|start| *start += ticks);
            elapsed_ns / SPANS as f64
        })
        .collect();
    assert_eq!(stats.span_count(), (rounds * SPANS) as u64);
    measured.sort_unstable_by(f64::total_cmp);
    measured[rounds / 2]
}

#[test]
fn a_span_costs_a_few_nanoseconds() {
    let cases = [
        ("flat, 1 site", flat(1)),
        ("flat, 50 sites", flat(50)),
        ("regular tree, 3 sites", regular()),
        ("random tree, 20 sites", tree(20)),
    ];
    for (name, batch) in cases {
        let ns = median_ns_per_span(&batch);
        println!("{name}: {ns:.2} ns/span");
        assert!(ns > 0.0 && ns < BUDGET_NS, "{name}: {ns:.2} ns/span");
    }
}
