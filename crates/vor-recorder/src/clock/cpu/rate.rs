//! Nanoseconds of the thread's clock as ticks.
//!
//! The thread's clock counts as the kernel's scheduler does: at the rate of the raw monotonic
//! clock, which nobody adjusts. The rate is measured against that clock over the milliseconds of
//! the test at the start, which is some parts per million off, and again each time that the time
//! since has doubled: after a second it is off by less than 0.1 parts per million. A stretch of a
//! second on the processor is then right to a tenth of a microsecond, where the calibration of
//! [`clock`](crate::clock) at the start may leave hundreds.

use crate::clock;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// Fraction bits of the rate.
const BITS: u32 = 40;
/// A rate that differs by more from the one before (in parts per million) is not believed unless it
/// comes twice: a system that slept meanwhile has clocks that count that differently.
const MOST_CHANGE_PPM: u64 = 1_000;

/// Ticks per nanosecond in units of 2^-40. Written by `measure` and `review`, read by anyone,
/// relaxed: each value is good by itself.
static RATE: AtomicU64 = AtomicU64::new(0);
/// Where the measurement began. Written by `begin` and, with [`DUE`] taken, by `review`; read by
/// who has taken that. Relaxed: the exchange of `DUE` orders them.
static FROM_TICKS: AtomicU64 = AtomicU64::new(0);
static FROM_NS: AtomicU64 = AtomicU64::new(0);
/// The last rate that was not believed. Written and read by who has taken [`DUE`].
static DOUBTED: AtomicU64 = AtomicU64::new(0);
/// When to measure again. Taken by an exchange for `u64::MAX` (acquire), given back with a release;
/// read by anyone, relaxed.
static DUE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Begins to measure.
pub(super) fn begin() {
    let (ticks, ns) = read_both();
    FROM_TICKS.store(ticks, Ordering::Relaxed);
    FROM_NS.store(ns, Ordering::Relaxed);
}

/// Ends the first measurement. Until then there is no rate.
pub(super) fn measure() {
    let (ticks, ns) = read_both();
    let passed = ticks.saturating_sub(FROM_TICKS.load(Ordering::Relaxed));
    if let Some(rate) = rate_of(passed, ns.saturating_sub(FROM_NS.load(Ordering::Relaxed))) {
        RATE.store(rate, Ordering::Relaxed);
    }
    DUE.store(ticks.saturating_add(passed), Ordering::Release);
}

/// Returns whether the rate is to be measured again.
#[inline(always)]
pub(super) fn is_due(now_ticks: u64) -> bool {
    now_ticks >= DUE.load(Ordering::Relaxed)
}

/// Measures again where that is due.
pub(super) fn review(now_ticks: u64) {
    let due = DUE.load(Ordering::Relaxed);
    if now_ticks >= due
        && DUE
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
    let near = |rate: u64, other: u64| rate.abs_diff(other) <= other / 1_000_000 * MOST_CHANGE_PPM;
    match rate_of(passed, ns.saturating_sub(FROM_NS.load(Ordering::Relaxed))) {
        Some(rate) if near(rate, before) || near(rate, DOUBTED.load(Ordering::Relaxed)) => {
            RATE.store(rate, Ordering::Relaxed);
        }
        doubted => {
            DOUBTED.store(doubted.unwrap_or(0), Ordering::Relaxed);
            FROM_TICKS.store(ticks, Ordering::Relaxed);
            FROM_NS.store(ns, Ordering::Relaxed);
        }
    }
    DUE.store(ticks.saturating_add(passed.max(1)), Ordering::Release);
}

fn rate_of(ticks: u64, ns: u64) -> Option<u64> {
    let rate = (u128::from(ticks) << BITS).checked_div(u128::from(ns))?;
    u64::try_from(rate).ok().filter(|&rate| rate > 0)
}

/// Returns the rate: ticks per nanosecond in units of 2^-40, 0 before it is measured.
#[inline(always)]
pub(super) fn now() -> u64 {
    RATE.load(Ordering::Relaxed)
}

/// Returns the length in ticks of so many nanoseconds of the raw clock.
pub(super) fn ticks_of_ns(ns: u64) -> u64 {
    ticks_by(now(), ns)
}

/// As [`ticks_of_ns`], by a rate that [`now`] returned.
#[inline(always)]
pub(super) fn ticks_by(rate: u64, ns: u64) -> u64 {
    let ticks = (u128::from(ns) * u128::from(rate)) >> BITS;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// As [`ticks_by`], modulo 2⁶⁴.
#[inline(always)]
pub(super) fn wrapping_ticks_by(rate: u64, ns: u64) -> u64 {
    ((u128::from(ns) * u128::from(rate)) >> BITS) as u64
}

/// Returns the length in nanoseconds of so many ticks.
pub(super) fn ns_of_ticks(ticks: u64) -> u64 {
    let ns = (u128::from(ticks) << BITS).checked_div(u128::from(RATE.load(Ordering::Relaxed)));
    u64::try_from(ns.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Reads the counter and the raw clock as close together as it can.
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

/// Pages have no threads' clocks, and nothing is measured.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
fn raw_ns() -> u64 {
    0
}
