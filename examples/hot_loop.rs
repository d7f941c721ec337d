//! Scopes left on in a loop that runs millions of times a second, and what they cost there.
//!
//! ```text
//! cargo run --release --example hot_loop
//! ```
//!
//! First the price of an empty scope beside that of the two clock readings in it, as `calibrate()` measures them on this machine. Then a
//! checksum over small blocks: bare, with a scope around each, and with what people write by hand, two `Instant`s around each.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of a block: at about 1 ns per byte, work that a scope is worth.
const BLOCK_BYTES: usize = 256;
/// Blocks to a round: few, so that most rounds run without an interruption.
const BLOCKS: usize = 1000;
const ROUNDS: usize = 2001;

fn main() {
    let counts = Arc::new(Counts::default());
    vor::Config::new()
        .sink("counts", CountingSink(Arc::clone(&counts)))
        .enable();

    vor::calibrate();
    let (scope_ns, floor_ns) = (vor::empty_span_ns(), vor::clock_floor_ns());
    println!("an empty scope          {scope_ns:>4} ns");
    println!("two clock readings      {floor_ns:>4} ns");
    match vor::SpanBudget::new().max_ratio(1.1).check() {
        Ok(()) => println!("                             within 1.10 times the clock"),
        Err(error) => println!("                             {error}"),
    }

    let mut generator = vor_examples::Generator::new(1);
    let input: Vec<u8> = (0..BLOCKS * BLOCK_BYTES)
        .map(|_| generator.bits() as u8)
        .collect();
    let (mut bare, mut measured, mut by_hand) = (Vec::new(), Vec::new(), Vec::new());
    // They take turns, so that a machine that gets busier slows all.
    for _ in 0..ROUNDS {
        bare.push(nanoseconds_per_block(&input, checksum));
        measured.push(nanoseconds_per_block(&input, checksum_with_scope));
        by_hand.push(nanoseconds_per_block(&input, checksum_with_instants));
        vor::frame_mark();
    }
    vor::flush();
    let bare_ns = median(&mut bare);
    println!("\na block of {BLOCK_BYTES} bytes     {bare_ns:>6.1} ns");
    for (what, rounds) in [("a scope", &mut measured), ("two Instants", &mut by_hand)] {
        println!("  with {what:<12}     {:>6.1} ns more", median(rounds) - bare_ns);
    }

    let (spans, dropped) = (
        counts.spans.load(Ordering::Relaxed),
        counts.dropped.load(Ordering::Relaxed),
    );
    println!("\n{spans} spans reached the sink, {dropped} were dropped.");
}

/// A sum that every byte changes and whose order matters.
#[inline(never)]
fn checksum(block: &[u8]) -> u32 {
    block.iter().fold(0x811c_9dc5, |sum: u32, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[inline(never)]
fn checksum_with_scope(block: &[u8]) -> u32 {
    vor::profile_scope!("checksum");
    checksum(block)
}

#[inline(never)]
fn checksum_with_instants(block: &[u8]) -> u32 {
    let begin = Instant::now();
    let sum = checksum(block);
    black_box(begin.elapsed());
    sum
}

fn nanoseconds_per_block(input: &[u8], work: fn(&[u8]) -> u32) -> f64 {
    let begin = Instant::now();
    for block in input.chunks_exact(BLOCK_BYTES) {
        black_box(work(black_box(block)));
    }
    begin.elapsed().as_nanos() as f64 / BLOCKS as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What reached the sink.
#[derive(Debug, Default)]
struct Counts {
    spans: AtomicU64,
    dropped: AtomicU64,
}

/// Counts spans and drops. Frames carry both, so it needs no trees.
struct CountingSink(Arc<Counts>);

impl vor::FrameSink for CountingSink {
    fn interest(&self) -> vor::Interest {
        vor::Interest::METRICS
    }

    fn accept_frame(&mut self, frame: &Arc<vor::FrameSnapshot>) -> Result<(), vor::Error> {
        self.0.spans.fetch_add(frame.span_count, Ordering::Relaxed);
        self.0.dropped.fetch_add(frame.dropped_spans, Ordering::Relaxed);
        Ok(())
    }
}
