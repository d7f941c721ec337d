//! The cost of scopes in a loop that runs millions of times per second.
//!
//! ```text
//! cargo run --release --example hot_loop
//! ```
//!
//! It prints the cost of an empty scope and of the two clock reads in it, as `calibrate()` measures
//! them on this machine. Then it times a checksum of small blocks: bare, with a scope around each,
//! and with the usual code by hand, two `Instant`s around each.

use std::hint::black_box;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use vor_examples::Outcome;

/// At about 1 ns per byte, a block is work that is worth a scope.
const BLOCK_BYTES: usize = 256;
/// Blocks per round: few, so that most rounds run without an interruption.
const BLOCKS: usize = 1000;
const ROUNDS: usize = 2001;

fn main() -> ExitCode {
    vor_examples::run(measure)
}

fn measure(out: &mut dyn Write) -> Outcome {
    let counts = Arc::new(Counts::default());
    vor::Config::from_env()
        .sink("counts", CountingSink(Arc::clone(&counts)))
        .enable();

    vor::calibrate();
    let (scope_ns, floor_ns) = (vor::empty_span_ns(), vor::clock_floor_ns());
    writeln!(out, "an empty scope          {scope_ns:>4} ns")?;
    writeln!(out, "two clock reads         {floor_ns:>4} ns")?;
    match vor::SpanBudget::new().max_ratio(1.1).check() {
        Ok(()) => writeln!(out, "span budget: within 1.1 times two clock reads")?,
        Err(error) => writeln!(out, "{error}")?,
    }

    let mut generator = vor_examples::Generator::new(1);
    let input: Vec<u8> = (0..BLOCKS * BLOCK_BYTES)
        .map(|_| generator.bits() as u8)
        .collect();
    let (mut bare, mut measured, mut by_hand) = (Vec::new(), Vec::new(), Vec::new());
    // The variants alternate, so that a load on the machine slows all of them.
    for _ in 0..ROUNDS {
        bare.push(nanoseconds_per_block(&input, checksum));
        measured.push(nanoseconds_per_block(&input, checksum_with_scope));
        by_hand.push(nanoseconds_per_block(&input, checksum_with_instants));
        vor::frame_mark();
    }
    vor::flush();
    let bare_ns = median(&mut bare);
    writeln!(
        out,
        "\na block of {BLOCK_BYTES} bytes     {bare_ns:>6.1} ns"
    )?;
    for (variant, rounds) in [("a scope", &mut measured), ("two Instants", &mut by_hand)] {
        let more_ns = median(rounds) - bare_ns;
        writeln!(out, "  with {variant:<12}     {more_ns:>6.1} ns more")?;
    }

    let (spans, dropped) = (
        counts.spans.load(Ordering::Relaxed),
        counts.dropped.load(Ordering::Relaxed),
    );
    writeln!(
        out,
        "\n{spans} spans reached the sink, {dropped} were dropped."
    )?;
    Ok(())
}

/// A checksum that depends on every byte and on their order.
#[inline(never)]
fn checksum(sum: u32, block: &[u8]) -> u32 {
    block.iter().fold(sum, |sum: u32, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[inline(never)]
fn checksum_with_scope(sum: u32, block: &[u8]) -> u32 {
    vor::profile_scope!("checksum");
    checksum(sum, block)
}

#[inline(never)]
fn checksum_with_instants(sum: u32, block: &[u8]) -> u32 {
    let begin = Instant::now();
    let sum = checksum(sum, block);
    black_box(begin.elapsed());
    sum
}

/// Computes the checksum of block after block. Each starts with the sum of the previous block, so
/// the CPU cannot run them in parallel.
fn nanoseconds_per_block(input: &[u8], work: fn(u32, &[u8]) -> u32) -> f64 {
    let begin = Instant::now();
    let blocks = input.chunks_exact(BLOCK_BYTES);
    black_box(blocks.fold(0x811c_9dc5, |sum, block| work(sum, black_box(block))));
    begin.elapsed().as_nanos() as f64 / BLOCKS as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The spans that reached the sink, and those that were dropped.
#[derive(Debug, Default)]
struct Counts {
    spans: AtomicU64,
    dropped: AtomicU64,
}

/// Adds up the two counts, which every frame has, so it needs no span trees.
struct CountingSink(Arc<Counts>);

impl vor::sinks::FrameSink for CountingSink {
    fn interest(&self) -> vor::sinks::Interest {
        vor::sinks::Interest::METRICS
    }

    fn accept_frame(&mut self, frame: &Arc<vor::capture::FrameSnapshot>) -> Result<(), vor::Error> {
        self.0.spans.fetch_add(frame.span_count, Ordering::Relaxed);
        self.0
            .dropped
            .fetch_add(frame.dropped_spans, Ordering::Relaxed);
        Ok(())
    }
}
