//! Ticks, and what they mean in nanoseconds.
//!
//! A tick is one step of the cheapest counter that runs evenly: the invariant TSC on x86-64, `cntvct_el0` on aarch64, and the clock of `quanta`
//! (the system's monotonic clock, or `performance.now()` on the web) everywhere else. Scopes read it raw; only the drain's worker converts.
//!
//! *Resolution*: one tick, 0.2 to 1 ns for a TSC, 1 to 42 ns for `cntvct_el0`, 1 ns for the fallback. *Drift*: the rate is calibrated by `quanta` when
//! recording starts and compared with the system's wall clock about once a second; the error is taken out by
//! bending the line by at most 50 parts per million, so that lengths stay true and time never steps ([`Timeline`]).

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

/// The counter is not chosen yet.
const UNKNOWN: u32 = 0;
/// The processor's own counter.
const HARDWARE: u32 = 1;
/// The clock of `quanta`.
const FALLBACK: u32 = 2;

/// Which counter [`ticks`] reads. Written once, always with the same value; read relaxed.
static COUNTER: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Reads the counter.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    if COUNTER.load(Ordering::Relaxed) == HARDWARE {
        hardware_ticks()
    } else {
        other_ticks()
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "the time-stamp counter is an intrinsic")]
fn hardware_ticks() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[expect(unsafe_code, reason = "the virtual counter is a system register")]
fn hardware_ticks() -> u64 {
    let ticks: u64;
    // SAFETY: cntvct_el0 is readable in user mode on the systems `has_hardware` accepts, and reading it has no effect.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn hardware_ticks() -> u64 {
    other_ticks()
}

/// Returns whether the processor has a counter that runs at one rate on all cores and in all power states.
fn has_hardware() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let extended = core::arch::x86_64::__cpuid(0x8000_0000).eax;
        // Leaf 0x8000_0007, EDX bit 8: invariant TSC (Intel SDM volume 3, 17.17.1; AMD APM volume 3, E.4.6).
        extended >= 0x8000_0007 && core::arch::x86_64::__cpuid(0x8000_0007).edx & 1 << 8 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        cfg!(all(
            target_arch = "aarch64",
            any(target_os = "linux", target_os = "macos", target_os = "android")
        ))
    }
}

#[cold]
#[inline(never)]
fn other_ticks() -> u64 {
    match COUNTER.load(Ordering::Relaxed) {
        UNKNOWN => {
            let counter = if has_hardware() { HARDWARE } else { FALLBACK };
            COUNTER.store(counter, Ordering::Relaxed);
            if counter == HARDWARE {
                hardware_ticks()
            } else {
                fallback().raw()
            }
        }
        _ => fallback().raw(),
    }
}

fn fallback() -> &'static quanta::Clock {
    static CLOCK: OnceLock<quanta::Clock> = OnceLock::new();
    CLOCK.get_or_init(quanta::Clock::new)
}

/// Returns the length of `ticks` in nanoseconds by the last calibration; for ages and estimates.
pub(crate) fn approximate_ns(ticks: u64) -> u64 {
    let rate = u128::from(rate());
    u64::try_from((u128::from(ticks) * rate) >> RATE_BITS).unwrap_or(u64::MAX)
}

/// Returns nanoseconds per tick, in units of 2^-40, as `quanta` calibrated it. The first call takes some milliseconds.
fn rate() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        #[cfg(target_arch = "aarch64")]
        if has_hardware() {
            return frequency_rate();
        }
        // Over 2^32 ticks the rounding of the result to a nanosecond is below one part per billion.
        let ns = fallback().delta_as_nanos(0, 1 << 32);
        ((u128::from(ns) << RATE_BITS) >> 32) as u64
    })
}

#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code, reason = "the counter's frequency is a system register")]
fn frequency_rate() -> u64 {
    let hertz: u64;
    // SAFETY: cntfrq_el0 is readable in user mode wherever cntvct_el0 is, and reading it has no effect.
    unsafe {
        core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags))
    };
    ((1_000_000_000_u128 << RATE_BITS) / u128::from(hertz.max(1))) as u64
}

/// Reads the counter and the wall clock as close together as it can: the tick, and nanoseconds since 1970.
fn read_both() -> (u64, i64) {
    let mut best = (0, 0, u64::MAX);
    for _ in 0..8 {
        let before = ticks();
        let wall = SystemTime::now();
        let width = ticks().saturating_sub(before);
        if width < best.2 {
            let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
            best = (
                before + width / 2,
                i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX),
                width,
            );
        }
    }
    (best.0, best.1)
}

/// Keeps a [`Timeline`] true to the wall clock. Owned by the worker.
#[derive(Debug)]
pub(crate) struct Synchroniser {
    last: ClockSync,
    checked_ticks: u64,
    checked_wall_ns: i64,
}

/// The most by which the line is bent to take out an error, as a divisor of the rate: 50 parts per million.
const MAX_BEND: i128 = 20_000;
/// A wall clock that is off by more was set, not drifting; the timeline does not follow it.
const MAX_ERROR_NS: i64 = 20_000_000;
/// Errors below are noise of the reading.
const MIN_ERROR_NS: i64 = 5_000;

impl Synchroniser {
    /// Calibrates and returns the first point. Takes some milliseconds.
    pub(crate) fn start() -> Self {
        let rate = rate();
        let (ticks, wall_ns) = read_both();
        let last = ClockSync {
            ticks,
            unix_ns: wall_ns,
            rate,
            wall_ns,
        };
        Self {
            last,
            checked_ticks: ticks,
            checked_wall_ns: wall_ns,
        }
    }

    /// Returns the point in force.
    pub(crate) fn last(&self) -> ClockSync {
        self.last
    }

    /// Compares with the wall clock and returns a new point when the line has to bend. Call it about once a second.
    pub(crate) fn check(&mut self) -> Option<ClockSync> {
        let (ticks, wall_ns) = read_both();
        self.check_reading(ticks, wall_ns)
    }

    fn check_reading(&mut self, ticks: u64, wall_ns: i64) -> Option<ClockSync> {
        let elapsed_ticks = ticks.checked_sub(self.checked_ticks)?;
        let elapsed_ns = wall_ns - self.checked_wall_ns;
        let mapped = map(&self.last, ticks);
        let error_ns = wall_ns - mapped;
        let expected_ns = approximate(elapsed_ticks, self.last.rate);
        self.checked_ticks = ticks;
        self.checked_wall_ns = wall_ns;
        // A clock that was set since the last look says nothing about the rate: begin to measure from here.
        if (elapsed_ns - expected_ns).abs() > MAX_ERROR_NS || elapsed_ticks == 0 || elapsed_ns <= 0 {
            return None;
        }
        if error_ns.abs() < MIN_ERROR_NS || error_ns.abs() > MAX_ERROR_NS {
            return None;
        }
        let measured = (i128::from(elapsed_ns) << RATE_BITS) / i128::from(elapsed_ticks);
        let old = i128::from(self.last.rate);
        // A reading is good to some tens of nanoseconds, so a second's rate is good to a tenth of a part per million.
        let target = measured.clamp(old - old / MAX_BEND, old + old / MAX_BEND);
        let bend = (i128::from(error_ns) << RATE_BITS) / (10 * i128::from(elapsed_ticks).max(1));
        let bend = bend.clamp(-(target / MAX_BEND), target / MAX_BEND);
        let rate = u64::try_from(target + bend).ok()?;
        self.last = ClockSync {
            ticks,
            unix_ns: mapped,
            rate,
            wall_ns,
        };
        Some(self.last)
    }
}

fn approximate(ticks: u64, rate: u64) -> i64 {
    i64::try_from((u128::from(ticks) * u128::from(rate)) >> RATE_BITS).unwrap_or(i64::MAX)
}

fn map(sync: &ClockSync, ticks: u64) -> i64 {
    let delta = i128::from(ticks) - i128::from(sync.ticks);
    let ns = i128::from(sync.unix_ns) + ((delta * i128::from(sync.rate)) >> RATE_BITS);
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// One point at which the tick counter was compared with the wall clock.
///
/// From its tick on, until the next one's, time runs as `unix_ns + (ticks - self.ticks) * rate / 2^40`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSync {
    /// The tick at which this point takes effect.
    pub ticks: u64,
    /// The time assigned to that tick, in nanoseconds since 1970. It continues the previous point's line without a step.
    pub unix_ns: i64,
    /// Nanoseconds per tick, in units of 2^-40.
    pub rate: u64,
    /// What the system's wall clock said at that tick; the difference to `unix_ns` is the error being corrected.
    pub wall_ns: i64,
}

/// Fraction bits of [`ClockSync::rate`].
pub const RATE_BITS: u32 = 40;

/// A continuous, monotonic map from ticks to wall-clock time: straight lines between [`ClockSync`] points.
///
/// A tick is always mapped by the point at or before it, so the result does not depend on when the question is asked:
/// a live sink and a reader of the capture agree to the nanosecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    syncs: Vec<ClockSync>,
}

impl Timeline {
    /// Adds a point. A point at an earlier or the same tick than the last is ignored and `false` returned.
    pub fn push(&mut self, sync: ClockSync) -> bool {
        if self.syncs.last().is_some_and(|last| sync.ticks <= last.ticks) {
            return false;
        }
        self.syncs.push(sync);
        true
    }

    /// Returns the points, ascending by tick.
    #[must_use]
    pub fn syncs(&self) -> &[ClockSync] {
        &self.syncs
    }

    /// Returns the wall-clock time of a tick, in nanoseconds since 1970. An empty timeline takes ticks for nanoseconds.
    #[must_use]
    pub fn unix_ns(&self, ticks: u64) -> i64 {
        let sync = match self.syncs.last() {
            None => return i64::try_from(ticks).unwrap_or(i64::MAX),
            Some(last) if ticks >= last.ticks => last,
            Some(_) => {
                let after = self.syncs.partition_point(|sync| sync.ticks <= ticks);
                &self.syncs[after.saturating_sub(1)]
            }
        };
        map(sync, ticks)
    }

    /// Returns the length in nanoseconds of a span that starts at `start_ticks` and lasts `duration_ticks`: the difference of its mapped ends.
    #[must_use]
    pub fn duration_ns(&self, start_ticks: u64, duration_ticks: u64) -> u64 {
        let end = start_ticks.saturating_add(duration_ticks);
        u64::try_from(self.unix_ns(end) - self.unix_ns(start_ticks)).unwrap_or(0)
    }
}
