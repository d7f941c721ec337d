//! Ticks, and their conversion to nanoseconds.
//!
//! A tick is one step of the cheapest counter that runs evenly: the invariant TSC on x86-64,
//! `cntvct_el0` on aarch64, and the system's monotonic clock (`performance.now()` on the web)
//! everywhere else. Scopes read it raw; only the drain's worker converts.
//!
//! *Resolution*: one tick, 0.2 to 1 ns for a TSC, 1 to 42 ns for `cntvct_el0`, 1 ns for the
//! system's clock.
//!
//! *Drift*: the rate is measured when recording starts. It is compared with the system's wall clock
//! several times in the first second and about once a second after that. The line follows the wall
//! clock's rate, and bends by at most 50 parts per million more until the error is gone. So
//! durations stay accurate and time never steps
//! ([`Timeline`](vor_capture::model::timeline::Timeline)). A wall clock that is set is not
//! followed.

pub mod cpu;
mod sync;
mod system;

use std::sync::OnceLock;

use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

pub(crate) use sync::Synchroniser;
use vor_capture::model::timeline::{ClockSnapshot, ClockSync, RATE_BITS};

/// The counter is not chosen yet.
const UNKNOWN: u32 = 0;
/// The processor's own counter.
const HARDWARE: u32 = 1;
/// The system's clock.
const FALLBACK: u32 = 2;

/// The counter that [`ticks`] reads. Written by the first reading of any thread, always with the
/// same value, and read by every reading, both relaxed.
static COUNTER: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Reads the counter.
///
/// ```
/// # mod vor { pub use vor_recorder::clock::ticks; }
/// let before = vor::ticks();
/// assert!(vor::ticks() >= before);
/// ```
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    if COUNTER.load(Ordering::Relaxed) == HARDWARE {
        hardware_ticks()
    } else {
        other_ticks()
    }
}

/// Reads the counter after all loads before the call and before all loads after it. A processor
/// may move [`ticks`] past either.
pub(crate) fn ordered_ticks() -> u64 {
    wait_for_loads();
    let ticks = ticks();
    wait_for_loads();
    ticks
}

/// Completes the loads and readings of the counter before the call before it begins those after
/// it.
#[inline(always)]
#[cfg_attr(
    all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)),
    expect(unsafe_code, reason = "barriers are instructions of the processor")
)]
fn wait_for_loads() {
    crate::sync::global::fence(Ordering::SeqCst);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: LFENCE is part of SSE2, which every x86-64 processor has, and changes no memory.
    // RDTSC stays on its side of it (Intel SDM volume 2, RDTSC; AMD APM volume 3, RDTSC).
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: ISB changes no memory and no register. Without it, the counter may be read
    // speculatively (Arm ARM, CNTVCT_EL0).
    unsafe {
        core::arch::asm!("isb", options(nostack, preserves_flags));
    }
}

/// Makes a number unique among captures, from the hasher's random keys, the process and the time.
pub(crate) fn unique_number() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u64(ticks());
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// Returns once the clock has passed an earlier tick: immediately with a fine clock, within a tick
/// with a coarse one. So nothing that begins later has that tick. Gives up on a clock that stands
/// still.
pub(crate) fn wait_past(read_ticks: u64) {
    const MAX_SPINS: u32 = 10_000;
    for _ in 0..MAX_SPINS {
        if ticks() != read_ticks {
            return;
        }
        // Not a `Backoff`: no other thread is waited for, and longer pauses would overshoot.
        std::hint::spin_loop();
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
#[expect(unsafe_code, reason = "the time-stamp counter is an intrinsic")]
pub(crate) fn hardware_ticks() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A reading of the counter in halves, as x86-64 returns it. Comparing and subtracting the halves
/// does not need the whole number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves {
    low: u32,
    high: u32,
}

impl Halves {
    /// Reads [`hardware_ticks`].
    ///
    /// The code after the reading is aligned to 32 bytes, a unit of the processor's fetch. Without
    /// that its position depends on the rest of the program. An empty scope took 1.13 times two
    /// readings in one build of the same code and 1.07 in another, and a phase 1.29 times one
    /// reading.
    #[inline(always)]
    #[cfg_attr(
        all(target_arch = "x86_64", not(miri)),
        expect(unsafe_code, reason = "the intrinsic puts the halves together")
    )]
    pub(crate) fn read() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let (low, high);
            // SAFETY: As for `hardware_ticks`. RDTSC writes the two named registers and nothing
            // else, and the padding does nothing.
            unsafe {
                core::arch::asm!(
                    "rdtsc",
                    ".p2align 5",
                    out("eax") low,
                    out("edx") high,
                    options(nomem, nostack, preserves_flags),
                )
            };
            Self { low, high }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            let ticks = hardware_ticks();
            Self {
                low: ticks as u32,
                high: (ticks >> 32) as u32,
            }
        }
    }

    /// Returns the reading as one number.
    #[inline(always)]
    pub(crate) fn ticks(self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }

    /// Returns the low half of the ticks since `start_ticks`, and whether it may be incomplete: the
    /// high halves differ, or the clock stepped back. Then the slow path reads the clock again, so
    /// that the fast path need not keep the reading.
    #[inline(always)]
    pub(crate) fn since(self, start_ticks: u64) -> (u32, bool) {
        let (low, borrow) = self.low.overflowing_sub(start_ticks as u32);
        (low, borrow || self.high != (start_ticks >> 32) as u32)
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
#[expect(unsafe_code, reason = "the virtual counter is a system register")]
pub(crate) fn hardware_ticks() -> u64 {
    let ticks: u64;
    // SAFETY: cntvct_el0 is readable in user mode on the systems that `has_hardware` accepts, and
    // reading it has no effect.
    unsafe {
        core::arch::asm!(
            "mrs {}, cntvct_el0",
            out(reg) ticks,
            options(nomem, nostack, preserves_flags),
        )
    };
    ticks
}

// Miri has no counter.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
pub(crate) fn hardware_ticks() -> u64 {
    other_ticks()
}

/// Returns whether the processor has a counter that runs at one rate on all cores and in all power
/// states.
fn has_hardware() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let extended = core::arch::x86_64::__cpuid(0x8000_0000).eax;
        // Leaf 0x8000_0007, EDX bit 8: invariant TSC (Intel SDM volume 3, 17.17.1; AMD APM volume
        // 3, E.4.6).
        extended >= 0x8000_0007 && core::arch::x86_64::__cpuid(0x8000_0007).edx & 1 << 8 != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        cfg!(all(
            target_arch = "aarch64",
            not(miri),
            any(
                target_os = "linux",
                target_os = "macos",
                target_os = "android"
            )
        ))
    }
}

/// Returns whether [`ticks`] reads the processor's own counter rather than the slower fallback.
#[must_use]
pub fn is_hardware() -> bool {
    let _ = ticks();
    COUNTER.load(Ordering::Relaxed) == HARDWARE
}

/// Returns whether [`ticks`] reads [`hardware_ticks`], as the fast path of scopes does. Always
/// `true` if vor knows no counter of the processor, as in browsers.
pub(crate) fn allows_fast_path() -> bool {
    cfg!(any(
        miri,
        not(any(target_arch = "x86_64", target_arch = "aarch64"))
    )) || is_hardware()
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
                system::ticks()
            }
        }
        _ => system::ticks(),
    }
}

/// Converts ticks to nanoseconds by the first calibration; for ages and estimates.
pub(crate) fn approximate_ns(ticks: u64) -> u64 {
    let rate = u128::from(rate());
    u64::try_from((u128::from(ticks) * rate) >> RATE_BITS).unwrap_or(u64::MAX)
}

/// Converts nanoseconds to ticks by the first calibration; for estimates.
pub fn approximate_ticks(ns: u64) -> u64 {
    let ticks = (u128::from(ns) << RATE_BITS) / u128::from(rate().max(1));
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Returns nanoseconds per tick, in units of 2^-40, as first measured. The first call takes some
/// milliseconds.
fn rate() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        #[cfg(target_arch = "aarch64")]
        if has_hardware() {
            return frequency_rate();
        }
        #[cfg(target_arch = "x86_64")]
        if has_hardware() {
            return system::measure(hardware_ticks, system::ticks);
        }
        system::RATE
    })
}

#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code, reason = "the counter's frequency is a system register")]
fn frequency_rate() -> u64 {
    let hertz: u64;
    // SAFETY: cntfrq_el0 is readable in user mode wherever cntvct_el0 is, and reading it has no
    // effect.
    unsafe {
        core::arch::asm!(
            "mrs {}, cntfrq_el0",
            out(reg) hertz,
            options(nomem, nostack, preserves_flags),
        )
    };
    ((1_000_000_000_u128 << RATE_BITS) / u128::from(hertz.max(1))) as u64
}

/// The counter and the wall clock, read at almost the same moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    /// Nanoseconds since 1970.
    wall_ns: i64,
    /// Width in ticks of the interval in which the wall clock was read.
    width_ticks: u64,
}

/// Reads the counter and the wall clock as close together as possible.
fn read_both() -> Reading {
    let read = |_| {
        let before = ticks();
        let wall_ns = wall_ns();
        let width_ticks = ticks().saturating_sub(before);
        Reading {
            ticks: before + width_ticks / 2,
            wall_ns,
            width_ticks,
        }
    };
    let first = read(0);
    (1..8).map(read).fold(first, |best, reading| {
        if reading.width_ticks < best.width_ticks {
            reading
        } else {
            best
        }
    })
}

/// Reads the wall clock, in nanoseconds since 1970.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
fn wall_ns() -> i64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX)
}

/// The standard library has no clocks in browsers.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use crate::os::js::wall_ns;

/// Reads the clocks that other recorders of the system use; `None` if there are none.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn snapshot() -> Option<ClockSnapshot> {
    let read = |()| {
        let before = ticks();
        let monotonic_ns = system_ns(libc::CLOCK_MONOTONIC)?;
        let boottime_ns = system_ns(libc::CLOCK_BOOTTIME)?;
        let width_ticks = ticks().saturating_sub(before);
        let snapshot = vor_capture::filled!(ClockSnapshot {
            ticks: before + width_ticks / 2,
            monotonic_ns,
            boottime_ns,
        });
        Some((width_ticks, snapshot))
    };
    // The narrowest of some readings: the thread was interrupted during the others.
    let readings = std::iter::repeat_n((), 8).filter_map(read);
    readings
        .min_by_key(|(width_ticks, _)| *width_ticks)
        .map(|(_, snapshot)| snapshot)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn snapshot() -> Option<ClockSnapshot> {
    None
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(
    unsafe_code,
    reason = "the standard library has no reading of these clocks as numbers"
)]
fn system_ns(clock: libc::clockid_t) -> Option<i64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes only the given `timespec`.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    #[allow(
        clippy::useless_conversion,
        reason = "the fields have 32 bits on some systems"
    )]
    let (seconds, ns) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
    (result == 0).then_some(seconds * 1_000_000_000 + ns)
}

/// Makes [`ticks`] read the system's clock, as if the counter did not run evenly.
#[cfg(all(test, not(any(feature = "off", loom))))]
pub(crate) fn use_fallback() {
    COUNTER.store(FALLBACK, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_halves_reports_when_it_is_incomplete() {
        let edge = 1_u64 << 32;
        for start in [0, 1, edge - 1, edge, edge + 5, 7 * edge - 2] {
            for passed in [0, 1, 2, edge - 1, edge, edge + 1, 3 * edge] {
                for end in [start + passed, start.saturating_sub(passed)] {
                    let halves = Halves {
                        low: end as u32,
                        high: (end >> 32) as u32,
                    };
                    let (low, may_be_more) = halves.since(start);
                    let fits = end >= start && end >> 32 == start >> 32;
                    assert_eq!(may_be_more, !fits, "from {start} to {end}");
                    assert!(!fits || u64::from(low) == end - start);
                }
            }
        }
    }
}
