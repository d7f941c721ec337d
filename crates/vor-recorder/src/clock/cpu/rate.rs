//! Conversion of the thread clock's nanoseconds to ticks.
//!
//! The thread's clock counts like the kernel's scheduler: at the rate of the raw monotonic clock,
//! which is never adjusted. The rate is measured against that clock over the milliseconds of the
//! test at the start, accurate to some parts per million. It is measured again each time that the
//! measured time has doubled: after a second the error is below 0.1 parts per million. A second of
//! CPU time is then accurate to a tenth of a microsecond, while the calibration of
//! [`clock`](crate::clock) at the start may leave hundreds.

use crate::clock;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// Fraction bits of the rate.
const BITS: u32 = 40;
/// Largest change of the rate, in parts per million. A rate that differs by more is rejected unless
/// it occurs twice: after a sleep of the system, its clocks count that sleep differently.
const MAX_CHANGE_PPM: u64 = 1_000;

/// Ticks per nanosecond in units of 2^-40. Written by `measure` and `review`, read by any thread,
/// both relaxed: each value is independent.
static RATE: AtomicU64 = AtomicU64::new(0);
/// Start of the measurement in ticks. Written by `begin` and by the thread that has taken
/// [`NEXT_MEASUREMENT`], read by the latter, both relaxed: the exchange orders them.
static FROM_TICKS: AtomicU64 = AtomicU64::new(0);
/// Start of the measurement in nanoseconds; otherwise like [`FROM_TICKS`].
static FROM_NS: AtomicU64 = AtomicU64::new(0);
/// The last rejected rate. Read and written by the thread that has taken [`NEXT_MEASUREMENT`]
/// (relaxed).
static REJECTED: AtomicU64 = AtomicU64::new(0);
/// Tick of the next measurement. A thread takes it by an exchange for `u64::MAX` (acquire), and
/// stores the next one (release). Read by any thread (relaxed).
static NEXT_MEASUREMENT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Begins the first measurement.
pub(super) fn begin() {
    let (ticks, ns) = read_both();
    FROM_TICKS.store(ticks, Ordering::Relaxed);
    FROM_NS.store(ns, Ordering::Relaxed);
}

/// Ends the first measurement. There is no rate before that.
pub(super) fn measure() {
    let (ticks, ns) = read_both();
    let passed = ticks.saturating_sub(FROM_TICKS.load(Ordering::Relaxed));
    if let Some(rate) = rate_of(passed, ns.saturating_sub(FROM_NS.load(Ordering::Relaxed))) {
        RATE.store(rate, Ordering::Relaxed);
    }
    NEXT_MEASUREMENT.store(ticks.saturating_add(passed), Ordering::Release);
}

/// Returns whether a measurement is due.
#[inline(always)]
pub(super) fn is_due(now_ticks: u64) -> bool {
    now_ticks >= NEXT_MEASUREMENT.load(Ordering::Relaxed)
}

/// Measures again if a measurement is due.
pub(super) fn review(now_ticks: u64) {
    let due = NEXT_MEASUREMENT.load(Ordering::Relaxed);
    if now_ticks >= due
        && NEXT_MEASUREMENT
            .compare_exchange(due, u64::MAX, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    {
        measure_again();
    }
}

#[cold]
fn measure_again() {
    let (ticks, ns) = read_both();
    let passed = ticks.saturating_sub(FROM_TICKS.load(Ordering::Relaxed));
    let before = RATE.load(Ordering::Relaxed);
    let near = |rate: u64, other: u64| rate.abs_diff(other) <= other / 1_000_000 * MAX_CHANGE_PPM;
    match rate_of(passed, ns.saturating_sub(FROM_NS.load(Ordering::Relaxed))) {
        Some(rate) if near(rate, before) || near(rate, REJECTED.load(Ordering::Relaxed)) => {
            RATE.store(rate, Ordering::Relaxed);
        }
        rejected => {
            REJECTED.store(rejected.unwrap_or(0), Ordering::Relaxed);
            FROM_TICKS.store(ticks, Ordering::Relaxed);
            FROM_NS.store(ns, Ordering::Relaxed);
        }
    }
    NEXT_MEASUREMENT.store(ticks.saturating_add(passed.max(1)), Ordering::Release);
}

fn rate_of(ticks: u64, ns: u64) -> Option<u64> {
    let rate = (u128::from(ticks) << BITS).checked_div(u128::from(ns))?;
    u64::try_from(rate).ok().filter(|&rate| rate > 0)
}

/// Returns the rate: ticks per nanosecond in units of 2^-40, 0 before it is measured.
#[inline(always)]
pub(super) fn current() -> u64 {
    RATE.load(Ordering::Relaxed)
}

/// Converts nanoseconds of the raw clock to ticks.
pub(super) fn ticks_of_ns(ns: u64) -> u64 {
    ticks_by(current(), ns)
}

/// Converts nanoseconds to ticks by a rate that [`current`] returned.
#[inline(always)]
pub(super) fn ticks_by(rate: u64, ns: u64) -> u64 {
    let ticks = (u128::from(ns) * u128::from(rate)) >> BITS;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Like [`ticks_by`], modulo 2⁶⁴.
#[inline(always)]
pub(super) fn wrapping_ticks_by(rate: u64, ns: u64) -> u64 {
    ((u128::from(ns) * u128::from(rate)) >> BITS) as u64
}

/// Converts ticks to nanoseconds of the raw clock.
pub(super) fn ns_of_ticks(ticks: u64) -> u64 {
    let ns = (u128::from(ticks) << BITS).checked_div(u128::from(RATE.load(Ordering::Relaxed)));
    u64::try_from(ns.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Reads the counter and the raw clock as close together as possible.
fn read_both() -> (u64, u64) {
    let read = || {
        let before = clock::ticks();
        let ns = raw_ns();
        let width = clock::ticks().saturating_sub(before);
        (width, before + width / 2, ns)
    };
    let mut best = read();
    for _ in 0..15 {
        let next = read();
        if next.0 < best.0 {
            best = next;
        }
    }
    (best.1, best.2)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn raw_ns() -> u64 {
    super::thread_clock::system_ns(libc::CLOCK_MONOTONIC_RAW).unwrap_or(0)
}

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    all(target_arch = "wasm32", target_os = "unknown")
)))]
fn raw_ns() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Browsers have no thread clocks, and nothing is measured.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
fn raw_ns() -> u64 {
    0
}
