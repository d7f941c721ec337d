//! The system's monotonic clock. It is the fallback if the processor has no counter that runs
//! evenly, and otherwise the reference for its calibration.

use super::RATE_BITS;

/// Nanoseconds per tick of [`ticks`], in units of 2^-40.
pub(super) const RATE: u64 = 1 << RATE_BITS;

/// Reads the clock, in nanoseconds since about the first reading.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub(super) fn ticks() -> u64 {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    static FIRST: OnceLock<Instant> = OnceLock::new();
    // No reading is 0.
    let since_first = FIRST.get_or_init(Instant::now).elapsed() + Duration::from_secs(1);
    u64::try_from(since_first.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads the clock of the page, in nanoseconds.
///
/// Browsers round their clock to 5 or 100 microseconds. Consecutive scopes would begin and end at
/// one tick, and seem nested. So each reading is at least a tick later than the one before.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
pub(super) fn ticks() -> u64 {
    use crate::sync::Ordering;
    use crate::sync::global::AtomicU64;

    static NEXT: AtomicU64 = AtomicU64::new(0);
    let ticks = crate::os::js::now_ns().max(NEXT.load(Ordering::Relaxed));
    NEXT.fetch_max(ticks + 1, Ordering::Relaxed).max(ticks)
}

/// Measures a counter against a clock in nanoseconds, for some milliseconds. Returns nanoseconds
/// per tick, in units of 2^-40.
///
/// Each end of the measured time is the best of a few readings of both clocks, some tens of
/// nanoseconds apart. So the rate is accurate to about ten parts per million; the wall clock
/// corrects it from then on.
#[cfg(target_arch = "x86_64")]
pub(super) fn measure(counter: impl Fn() -> u64, clock: impl Fn() -> u64) -> u64 {
    /// Duration of the measurement.
    const MEASURED_NS: u64 = 4_000_000;

    let read = || {
        let readings = (0..16).map(|_| {
            let (before, now, after) = (counter(), clock(), counter());
            (after.saturating_sub(before), before / 2 + after / 2, now)
        });
        readings.min().unwrap_or_default()
    };
    let (_, first, first_ns) = read();
    while clock() < first_ns + MEASURED_NS {
        // Not a `Backoff`: no other thread is waited for, and longer pauses would overshoot.
        std::hint::spin_loop();
    }
    let (_, last, last_ns) = read();
    let counted = last.saturating_sub(first).max(1);
    let rate = (u128::from(last_ns - first_ns) << RATE_BITS) / u128::from(counted);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Time passes by 20 ns with each reading, and every few readings the thread is interrupted.
    #[test]
    fn interruptions_do_not_change_the_measured_rate() {
        for (ticks_per_us, interrupted_ns) in [(3_000_u64, 0), (2_445, 10_000), (250, 77_777)] {
            let (now_ns, reads) = (Cell::new(1_000_000_u64), Cell::new(0));
            let read = || {
                let interruption = if reads.get() % 7 == 3 {
                    interrupted_ns
                } else {
                    0
                };
                reads.set(reads.get() + 1);
                now_ns.set(now_ns.get() + 20 + interruption);
                now_ns.get()
            };
            let rate = measure(|| read() * ticks_per_us / 1000, read);
            let error = rate as f64 / RATE as f64 * ticks_per_us as f64 / 1000.0 - 1.0;
            assert!(
                error.abs() < 10e-6,
                "off by {error} at {ticks_per_us} per microsecond"
            );
        }
    }
}
