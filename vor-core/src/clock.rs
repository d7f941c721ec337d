//! Ticks, and what they mean in nanoseconds.
//!
//! A tick is one step of the cheapest counter that runs evenly: the invariant TSC on x86-64, `cntvct_el0` on aarch64, and the clock of `quanta`
//! (the system's monotonic clock, or `performance.now()` on the web) everywhere else. Scopes read it raw; only the drain's worker converts.
//!
//! *Resolution*: one tick, 0.2 to 1 ns for a TSC, 1 to 42 ns for `cntvct_el0`, 1 ns for the fallback. *Drift*: the rate is calibrated by `quanta` when
//! recording starts and compared with the system's wall clock about once a second. The line follows the wall clock's rate, and the error is taken out by
//! bending it by at most 50 parts per million more, so that lengths stay true and time never steps ([`Timeline`]). A wall clock that is set is not followed.

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
pub(crate) fn hardware_ticks() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A reading of the counter in halves, as the processor gives it where there is no 64-bit register for it: to compare and subtract them, they need
/// not be put together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves {
    low: u32,
    high: u32,
}

impl Halves {
    /// Reads [`hardware_ticks`].
    #[inline(always)]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "the intrinsic puts the halves together")
    )]
    pub(crate) fn read() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let (low, high);
            // SAFETY: as for `hardware_ticks`; RDTSC writes the two registers named and nothing else.
            unsafe {
                core::arch::asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
            };
            Self { low, high }
        }
        #[cfg(not(target_arch = "x86_64"))]
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

    /// Returns the ticks since `start_ticks`, or `None` where a high half lies between, or the clock stepped back.
    #[inline(always)]
    pub(crate) fn since(self, start_ticks: u64) -> Option<u32> {
        if self.high != (start_ticks >> 32) as u32 {
            return None;
        }
        self.low.checked_sub(start_ticks as u32)
    }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[expect(unsafe_code, reason = "the virtual counter is a system register")]
pub(crate) fn hardware_ticks() -> u64 {
    let ticks: u64;
    // SAFETY: cntvct_el0 is readable in user mode on the systems `has_hardware` accepts, and reading it has no effect.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn hardware_ticks() -> u64 {
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

/// Returns whether [`ticks`] reads the processor's own counter, and not the slower fallback.
#[must_use]
pub fn is_hardware() -> bool {
    let _ = ticks();
    COUNTER.load(Ordering::Relaxed) == HARDWARE
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
///
/// At each look it measures how fast the wall clock ran since the last one, and follows that rate, so that a clock which NTP slews is followed
/// within a look or two. What error is left is taken out by bending the line a little more. A wall clock that was *set* in between ran
/// at an impossible rate; the difference is remembered, and the line stays parallel to the clock from then on.
#[derive(Debug)]
pub(crate) struct Synchroniser {
    last: ClockSync,
    /// The rate of the wall clock without the bend, in the unit of [`ClockSync::rate`].
    rate: u64,
    /// By how much the wall clock was set since the start.
    set_ns: i64,
    checked_ticks: u64,
    checked_wall_ns: i64,
    /// The rate that the last look found, where it was an impossible one.
    impossible_rate: Option<u64>,
}

/// The most by which the line is bent to take out an error, as a divisor of the rate: 50 parts per million.
const MAX_BEND: i128 = 20_000;
/// The most by which the rate of a wall clock that runs, however it is slewed, differs from the one in force, as a divisor: NTP slews by at most 500
/// parts per million, up or down.
const MAX_SLEW: i128 = 1_000;
/// What two readings may be off beyond that.
const MAX_NOISE_NS: i64 = 100_000;
/// Errors below are noise of the reading.
const MIN_ERROR_NS: i64 = 5_000;
/// Time over which an error is taken out, in looks.
const LOOKS_TO_CORRECT: i128 = 10;

impl Synchroniser {
    /// Calibrates and returns the first point. Takes some milliseconds.
    pub(crate) fn start() -> Self {
        let rate = rate();
        let (ticks, wall_ns) = read_both();
        Self::from_reading(ticks, wall_ns, rate)
    }

    fn from_reading(ticks: u64, wall_ns: i64, rate: u64) -> Self {
        let last = ClockSync {
            ticks,
            unix_ns: wall_ns,
            rate,
            wall_ns,
        };
        Self {
            last,
            rate,
            set_ns: 0,
            checked_ticks: ticks,
            checked_wall_ns: wall_ns,
            impossible_rate: None,
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
        let elapsed_ticks = ticks
            .checked_sub(self.checked_ticks)
            .filter(|elapsed| *elapsed > 0)?;
        let elapsed_ns = wall_ns.saturating_sub(self.checked_wall_ns);
        let expected_ns = approximate(elapsed_ticks, self.rate);
        self.checked_ticks = ticks;
        self.checked_wall_ns = wall_ns;
        let surplus_ns = elapsed_ns.saturating_sub(expected_ns);
        let possible = i128::from(expected_ns) / MAX_SLEW + i128::from(MAX_NOISE_NS);
        let measured = (i128::from(elapsed_ns) << RATE_BITS) / i128::from(elapsed_ticks);
        if i128::from(surplus_ns).abs() > possible {
            // A clock that was set says nothing about the rate.
            self.set_ns = self.set_ns.saturating_add(surplus_ns);
            return self.recalibrate(ticks, wall_ns, u64::try_from(measured).ok()?);
        }
        self.impossible_rate = None;
        let old = i128::from(self.rate);
        let measured = measured.clamp(old - old / MAX_SLEW, old + old / MAX_SLEW);
        // Three quarters of the way at once: a single bad reading must not become the rate.
        let rate = old + (measured - old) * 3 / 4;
        self.rate = u64::try_from(rate).ok()?;

        let mapped = map(&self.last, ticks);
        let error_ns = wall_ns.saturating_sub(self.set_ns).saturating_sub(mapped);
        if error_ns.abs() < MIN_ERROR_NS {
            return None;
        }
        let bend = (i128::from(error_ns) << RATE_BITS) / (LOOKS_TO_CORRECT * i128::from(elapsed_ticks));
        let bend = bend.clamp(-(rate / MAX_BEND), rate / MAX_BEND);
        let rate = u64::try_from(rate + bend).ok()?;
        self.last = ClockSync {
            ticks,
            unix_ns: mapped,
            rate,
            wall_ns,
        };
        Some(self.last)
    }
}

impl Synchroniser {
    /// Takes an impossible rate for the true one when two looks in a row find it: then it was the calibration that was wrong, as it may be where the
    /// process was stopped in the midst of it.
    fn recalibrate(&mut self, ticks: u64, wall_ns: i64, measured: u64) -> Option<ClockSync> {
        let before = self.impossible_rate.replace(measured)?;
        let most = u64::try_from(i128::from(before) / MAX_SLEW).ok()?;
        if before.abs_diff(measured) > most {
            return None;
        }
        self.impossible_rate = None;
        self.rate = measured;
        self.last = ClockSync {
            ticks,
            unix_ns: map(&self.last, ticks),
            rate: measured,
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
    // Both factors may have 64 bits in a damaged capture; the product saturates, and so does the sum.
    let elapsed = delta.saturating_mul(i128::from(sync.rate)) >> RATE_BITS;
    let ns = i128::from(sync.unix_ns) + elapsed;
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
        u64::try_from(i128::from(self.unix_ns(end)) - i128::from(self.unix_ns(start_ticks))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2.5 ticks per nanosecond.
    const RATE: u64 = (1 << RATE_BITS) * 2 / 5;
    const SECOND_TICKS: u64 = 2_500_000_000;

    /// A wall clock beside a counter, with a seeded noise.
    struct World {
        seed: u64,
        ticks: u64,
        true_ns: f64,
        start_ns: i64,
    }

    impl World {
        fn noise(&mut self, range: f64) -> f64 {
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((self.seed >> 11) as f64 / (1_u64 << 53) as f64 - 0.5) * 2.0 * range
        }

        /// Lets time pass; the wall clock runs `ppm` too fast.
        fn pass(&mut self, seconds: f64, ppm: f64) {
            self.ticks += (seconds * SECOND_TICKS as f64) as u64;
            self.true_ns += seconds * 1e9 * (1.0 + ppm / 1e6);
        }

        fn wall_ns(&mut self) -> i64 {
            let noise = self.noise(200.0);
            self.start_ns + (self.true_ns + noise) as i64
        }
    }

    fn world() -> (World, Synchroniser, Timeline) {
        let world = World {
            seed: 7,
            ticks: 1 << 40,
            true_ns: 0.0,
            start_ns: 1_700_000_000_000_000_000,
        };
        // The calibration is 20 parts per million off.
        let synchroniser = Synchroniser::from_reading(world.ticks, world.start_ns, RATE + RATE / 50_000);
        let mut timeline = Timeline::default();
        timeline.push(synchroniser.last());
        (world, synchroniser, timeline)
    }

    /// The processor's counter cannot be made unfit, so a process of its own is told that it is.
    #[test]
    #[cfg(not(any(feature = "off", target_arch = "wasm32")))]
    fn scopes_without_a_fit_counter_are_recorded_by_the_fallback() {
        const ROLE: &str = "VOR_FALLBACK_CLOCK";
        if std::env::var_os(ROLE).is_some() {
            COUNTER.store(FALLBACK, Ordering::Relaxed);
            return record_by_the_fallback();
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["scopes_without_a_fit_counter", "--nocapture"]);
        match child.env(ROLE, "1").output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            // An emulator of another processor may not be able to start a second program of that processor.
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::NotFound),
        }
    }

    #[cfg(not(any(feature = "off", target_arch = "wasm32")))]
    fn record_by_the_fallback() {
        use crate::{drain, message, profile_phase, profile_scope};

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        crate::config::Config::new().capture(&path).enable();
        assert!(!is_hardware());
        let around = ticks();
        let mut inside = Vec::new();
        for n in 0..100_u64 {
            profile_scope!("outer");
            let begin = ticks();
            {
                profile_scope!("inner", n = n, text = "text");
                let _named = crate::scope::scope("named");
                let mut phases = profile_phase!("first");
                profile_phase!(phases, "second");
                message!("at {n}");
                let open = crate::thread::open_scopes();
                assert_eq!(open[0].scopes.len(), 4);
                assert!(open[0].scopes.iter().all(|scope| scope.start_ticks >= around));
            }
            inside.push(ticks() - begin);
        }
        // Open while recording is switched off, and recorded still.
        let open = crate::scope::scope("open");
        drain::disable();
        drop(open);
        drain::start_without_sinks();
        drain::frame_mark();
        let around = ticks() - around;
        assert_eq!(drain::close_capture(), Some(path.clone()));

        let mut capture = crate::reader::Capture::open(&path).unwrap();
        let frame = capture.frame(0).unwrap();
        let spans = &frame.threads[0].spans;
        let named = |name: &str| {
            let spans = spans
                .iter()
                .filter(|span| frame.catalog.site_name(span.site) == name);
            spans.map(|span| span.duration_ticks).collect::<Vec<_>>()
        };
        for name in ["outer", "inner", "named", "first", "second"] {
            assert_eq!(named(name).len(), 100, "{name}");
        }
        assert_eq!((named("open").len(), spans.len()), (1, 501));
        assert_eq!(frame.threads[0].messages.len(), 100);
        let outer = named("outer");
        assert!(outer.iter().zip(&inside).all(|(outer, inside)| outer >= inside));
        assert!(outer.iter().sum::<u64>() <= around);
        assert_eq!(crate::scope::backward_ticks(), 0);
    }

    #[test]
    fn a_day_of_slewing_stays_within_a_millisecond_and_never_steps() {
        let (mut world, mut synchroniser, mut timeline) = world();
        let (mut worst, mut last_ns, mut ppm) = (0, i64::MIN, 0.0);
        for second in 0..86_400 {
            if second % 600 == 0 {
                ppm = [0.0, 500.0, 480.0, -500.0, -20.0, 130.0][second / 600 % 6] / 2.0;
            }
            let length = 1.0 + world.noise(0.02);
            world.pass(length, ppm);
            let wall_ns = world.wall_ns();
            // Just before the look, when the error is largest.
            let mapped = timeline.unix_ns(world.ticks);
            assert!(mapped > last_ns, "time goes on");
            last_ns = mapped;
            worst = worst.max((mapped - wall_ns).abs());
            if let Some(sync) = synchroniser.check_reading(world.ticks, wall_ns) {
                assert!(timeline.push(sync));
                assert_eq!(
                    timeline.unix_ns(world.ticks),
                    mapped,
                    "a new point continues the line"
                );
            }
        }
        assert!(worst < 1_000_000, "at most 1 ms was expected, found {worst} ns");
    }

    #[test]
    fn a_slew_of_500_ppm_that_sets_in_at_once_is_followed() {
        for sign in [1.0, -1.0] {
            let (mut world, mut synchroniser, mut timeline) = world();
            for second in 0..200 {
                let ppm = if (50..150).contains(&second) {
                    500.0 * sign
                } else {
                    0.0
                };
                world.pass(1.0, ppm);
                let wall_ns = world.wall_ns();
                let error = timeline.unix_ns(world.ticks) - wall_ns;
                assert!(error.abs() < 1_000_000, "second {second}: {error} ns");
                if let Some(sync) = synchroniser.check_reading(world.ticks, wall_ns) {
                    timeline.push(sync);
                }
            }
        }
    }

    #[test]
    fn a_calibration_that_went_wrong_is_noticed() {
        for off in [RATE / 20, RATE / 500] {
            for wrong in [RATE + off, RATE - off] {
                let (mut world, _, _) = world();
                let mut synchroniser = Synchroniser::from_reading(world.ticks, world.start_ns, wrong);
                let mut timeline = Timeline::default();
                timeline.push(synchroniser.last());
                let mut last_ns = i64::MIN;
                for look in 0..100 {
                    world.pass(1.0, 30.0);
                    if let Some(sync) = synchroniser.check_reading(world.ticks, world.wall_ns()) {
                        assert!(timeline.push(sync));
                    }
                    let now_ns = timeline.unix_ns(world.ticks);
                    assert!(now_ns > last_ns, "time does not step back");
                    last_ns = now_ns;
                    let second = timeline.duration_ns(world.ticks, SECOND_TICKS);
                    if look >= 20 {
                        assert!(
                            second.abs_diff(1_000_000_000) < 100_000,
                            "{wrong}: {second} ns at look {look}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_is_not_followed_but_its_rate_is() {
        for step_ns in [7_200_000_000_000, -7_200_000_000_000, 30_000_000, -2_000_000] {
            let (mut world, mut synchroniser, mut timeline) = world();
            let mut unset_ns = 0;
            for second in 0..2_000 {
                // The wall clock runs fast all the time, and is set once.
                world.pass(1.0, 40.0);
                if second == 1_000 {
                    world.start_ns += step_ns;
                    unset_ns = step_ns;
                }
                let wall_ns = world.wall_ns();
                let error = timeline.unix_ns(world.ticks) - (wall_ns - unset_ns);
                assert!(
                    error.abs() < 1_000_000,
                    "second {second}, set by {step_ns}: {error} ns"
                );
                if let Some(sync) = synchroniser.check_reading(world.ticks, wall_ns) {
                    timeline.push(sync);
                }
            }
        }
    }

    #[test]
    fn absurd_points_saturate() {
        for rate in [0, 1, RATE, u64::MAX] {
            for unix_ns in [i64::MIN, 0, i64::MAX] {
                for ticks in [0, 1, u64::MAX] {
                    let mut timeline = Timeline::default();
                    timeline.push(ClockSync {
                        ticks,
                        unix_ns,
                        rate,
                        wall_ns: unix_ns,
                    });
                    for at in [0, 1, u64::MAX / 2, u64::MAX] {
                        let ends = (timeline.unix_ns(at), timeline.unix_ns(at.saturating_add(5)));
                        assert!(ends.0 <= ends.1);
                        assert!(timeline.duration_ns(at, 0) == 0);
                        assert!(timeline.duration_ns(0, at) <= timeline.duration_ns(0, u64::MAX));
                    }
                    let mut synchroniser = Synchroniser::from_reading(ticks, unix_ns, rate);
                    synchroniser.check_reading(u64::MAX, i64::MIN);
                    synchroniser.check_reading(u64::MAX, i64::MAX);
                    assert!(synchroniser.last().rate <= rate.saturating_add(rate / 500));
                }
            }
        }
    }
}
