//! Keeps the timeline in step with the wall clock.

use vor_capture::filled;

use super::{ClockSync, RATE_BITS, Reading, rate, read_both, ticks};

/// Keeps a [`Timeline`](super::Timeline) in step with the wall clock. The worker owns it.
///
/// The calibration at the start may be some hundred parts per million off on a busy machine. So in
/// the first second the clocks are compared often, and each check takes the rate from the start to
/// now. After that they are compared once a second, and the rate follows that of the wall clock
/// since the last check. So a clock that NTP slews is followed within a check or two. The remaining
/// error is corrected by bending the line a little more. A wall clock that was *set* in between ran
/// at an impossible rate. The difference is stored, and the line stays parallel to the clock from
/// then on.
#[derive(Debug)]
pub(crate) struct Synchroniser {
    last: ClockSync,
    /// The rate of the wall clock without the bend, in the unit of [`ClockSync::rate`].
    rate: u64,
    /// Sum of the steps by which the wall clock was set since the start.
    set_ns: i64,
    checked_ticks: u64,
    checked_wall_ns: i64,
    /// The first reading.
    start: Reading,
    /// Number of early checks made.
    early_checks: usize,
    /// The impossible rate of the last check, if it was one.
    impossible_rate: Option<u64>,
}

/// Times of the early checks, in milliseconds from the start.
const EARLY_MS: [i64; 5] = [20, 50, 100, 250, 500];
/// Largest width of the readings for an early check to count, relative to the time between them, as
/// a divisor: 50 parts per million.
const MAX_EARLY_NOISE: u64 = 20_000;
/// Time between two later checks, in milliseconds.
const USUAL_MS: i64 = 1_000;
/// Largest bend of the line to correct an error, as a divisor of the rate: 50 parts per million.
const MAX_BEND: i128 = 20_000;
/// Largest difference between the rate of a slewed wall clock and the rate in force, as a divisor:
/// NTP slews by at most 500 parts per million, up or down.
const MAX_SLEW: i128 = 1_000;
/// Largest error of two readings beyond that.
const MAX_NOISE_NS: i64 = 100_000;
/// Errors below this are noise of the reading.
const MIN_ERROR_NS: i64 = 5_000;
/// Number of checks over which an error is corrected.
const CHECKS_TO_CORRECT: i128 = 10;

impl Synchroniser {
    /// Calibrates for a recording that began at a tick. Takes some milliseconds.
    pub(crate) fn start(begin_ticks: u64) -> Self {
        let rate = rate();
        Self::from_reading(read_both(), rate).since(begin_ticks)
    }

    /// Begins as [`start`](Self::start) does, with a rate that is one part in `divisor` too high.
    #[cfg(all(test, not(any(loom, feature = "off", target_family = "wasm"))))]
    pub(crate) fn start_too_fast(divisor: u64) -> Self {
        Self::from_reading(read_both(), rate() + rate() / divisor)
    }

    /// Moves the first point to an earlier tick on the same line: threads record while the clock is
    /// being calibrated, and no record may lie before the timeline.
    fn since(mut self, begin_ticks: u64) -> Self {
        if begin_ticks < self.last.ticks {
            let unix_ns = self.last.unix_ns_at(begin_ticks);
            self.last = filled!(ClockSync {
                ticks: begin_ticks,
                unix_ns,
                wall_ns: unix_ns,
                ..self.last
            });
        }
        self
    }

    fn from_reading(start: Reading, rate: u64) -> Self {
        let last = filled!(ClockSync {
            ticks: start.ticks,
            unix_ns: start.wall_ns,
            rate,
            wall_ns: start.wall_ns,
        });
        Self {
            last,
            rate,
            set_ns: 0,
            checked_ticks: start.ticks,
            checked_wall_ns: start.wall_ns,
            start,
            early_checks: 0,
            impossible_rate: None,
        }
    }

    /// Returns the point in force.
    pub(crate) fn last(&self) -> ClockSync {
        self.last
    }

    /// Compares the clocks when a check is due, and returns a new point when the line must bend.
    /// Must be called often.
    pub(crate) fn check(&mut self) -> Option<ClockSync> {
        let due_ms = EARLY_MS.get(self.early_checks);
        let since = due_ms.map_or(self.checked_ticks, |_| self.start.ticks);
        let passed_ns = approximate(ticks().saturating_sub(since), self.rate);
        if passed_ns < due_ms.unwrap_or(&USUAL_MS) * 1_000_000 {
            return None;
        }
        self.check_reading(read_both())
    }

    /// Returns whether a wall clock that was not set may have advanced by `ns` while the rate in
    /// force gives `expected_ns`.
    fn is_possible(ns: i64, expected_ns: i64) -> bool {
        let possible = i128::from(expected_ns) / MAX_SLEW + i128::from(MAX_NOISE_NS);
        (i128::from(ns) - i128::from(expected_ns)).abs() <= possible
    }

    /// Makes an early check: the rate from the start to now takes effect, unless the readings are
    /// too wide.
    fn check_early(&mut self, reading: Reading) -> Option<ClockSync> {
        let Reading { ticks, wall_ns, .. } = reading;
        self.early_checks += 1;
        let elapsed_ticks = ticks
            .checked_sub(self.start.ticks)
            .filter(|elapsed| *elapsed > 0)?;
        let elapsed_ns = wall_ns.saturating_sub(self.start.wall_ns);
        if !Self::is_possible(elapsed_ns, approximate(elapsed_ticks, self.rate)) {
            // It was set, or the calibration is far off: the usual checks determine which.
            self.early_checks = EARLY_MS.len();
            return None;
        }
        if (self.start.width_ticks + reading.width_ticks).saturating_mul(MAX_EARLY_NOISE)
            > elapsed_ticks
        {
            return None;
        }
        let rate = (i128::from(elapsed_ns) << RATE_BITS) / i128::from(elapsed_ticks);
        let rate = u64::try_from(rate).ok().filter(|rate| *rate > 0)?;
        self.checked_ticks = ticks;
        self.checked_wall_ns = wall_ns;
        self.rate = rate;
        self.last = filled!(ClockSync {
            ticks,
            unix_ns: self.last.unix_ns_at(ticks),
            rate,
            wall_ns,
        });
        Some(self.last)
    }

    fn check_reading(&mut self, reading: Reading) -> Option<ClockSync> {
        if self.early_checks < EARLY_MS.len() {
            return self.check_early(reading);
        }
        let Reading { ticks, wall_ns, .. } = reading;
        let elapsed_ticks = ticks
            .checked_sub(self.checked_ticks)
            .filter(|elapsed| *elapsed > 0)?;
        let elapsed_ns = wall_ns.saturating_sub(self.checked_wall_ns);
        let expected_ns = approximate(elapsed_ticks, self.rate);
        self.checked_ticks = ticks;
        self.checked_wall_ns = wall_ns;
        let surplus_ns = elapsed_ns.saturating_sub(expected_ns);
        let measured = (i128::from(elapsed_ns) << RATE_BITS) / i128::from(elapsed_ticks);
        if !Self::is_possible(elapsed_ns, expected_ns) {
            // A clock that was set gives no information about the rate.
            self.set_ns = self.set_ns.saturating_add(surplus_ns);
            return self.recalibrate(ticks, wall_ns, u64::try_from(measured).ok()?);
        }
        self.impossible_rate = None;
        let old = i128::from(self.rate);
        let measured = measured.clamp(old - old / MAX_SLEW, old + old / MAX_SLEW);
        // Only three quarters of the way: a single bad reading must not become the rate.
        let rate = old + (measured - old) * 3 / 4;
        self.rate = u64::try_from(rate).ok()?;

        let mapped = self.last.unix_ns_at(ticks);
        let error_ns = wall_ns.saturating_sub(self.set_ns).saturating_sub(mapped);
        if error_ns.abs() < MIN_ERROR_NS {
            return None;
        }
        let bend =
            (i128::from(error_ns) << RATE_BITS) / (CHECKS_TO_CORRECT * i128::from(elapsed_ticks));
        let bend = bend.clamp(-(rate / MAX_BEND), rate / MAX_BEND);
        let rate = u64::try_from(rate + bend).ok()?;
        self.last = filled!(ClockSync {
            ticks,
            unix_ns: mapped,
            rate,
            wall_ns,
        });
        Some(self.last)
    }
}

impl Synchroniser {
    /// Accepts an impossible rate if two consecutive checks find it. Then the calibration was
    /// wrong, for example because the process was stopped in the middle of it.
    fn recalibrate(&mut self, ticks: u64, wall_ns: i64, measured: u64) -> Option<ClockSync> {
        let before = self.impossible_rate.replace(measured)?;
        let most = u64::try_from(i128::from(before) / MAX_SLEW).ok()?;
        if before.abs_diff(measured) > most {
            return None;
        }
        self.impossible_rate = None;
        self.rate = measured;
        self.last = filled!(ClockSync {
            ticks,
            unix_ns: self.last.unix_ns_at(ticks),
            rate: measured,
            wall_ns,
        });
        Some(self.last)
    }
}

fn approximate(ticks: u64, rate: u64) -> i64 {
    i64::try_from((u128::from(ticks) * u128::from(rate)) >> RATE_BITS).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vor_capture::model::timeline::Timeline;

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

    fn reading(ticks: u64, wall_ns: i64) -> Reading {
        Reading {
            ticks,
            wall_ns,
            width_ticks: 100,
        }
    }

    /// A clock whose calibration is 20 parts per million off.
    fn world() -> (World, Synchroniser, Timeline) {
        world_calibrated(RATE + RATE / 50_000)
    }

    fn world_calibrated(rate: u64) -> (World, Synchroniser, Timeline) {
        let world = World {
            seed: 7,
            ticks: 1 << 40,
            true_ns: 0.0,
            start_ns: 1_700_000_000_000_000_000,
        };
        let synchroniser = Synchroniser::from_reading(reading(world.ticks, world.start_ns), rate);
        let mut timeline = Timeline::default();
        timeline.push(synchroniser.last());
        (world, synchroniser, timeline)
    }

    #[test]
    fn a_calibration_some_hundred_ppm_off_is_corrected_in_the_first_second() {
        for off in [RATE / 3_000, RATE / 100_000] {
            for wrong in [RATE + off, RATE - off] {
                let (mut world, mut synchroniser, mut timeline) = world_calibrated(wrong);
                let mut passed_ms = 0;
                for due_ms in EARLY_MS {
                    world.pass((due_ms - passed_ms) as f64 / 1e3, 0.0);
                    passed_ms = due_ms;
                    let mapped = timeline.unix_ns(world.ticks);
                    let sync = synchroniser.check_reading(reading(world.ticks, world.wall_ns()));
                    assert!(timeline.push(sync.expect("an early check yields a point")));
                    assert_eq!(timeline.unix_ns(world.ticks), mapped);
                    let second = timeline.duration_ns(world.ticks, SECOND_TICKS);
                    // Two readings with an error of 200 ns each.
                    let most = 400_000 / due_ms as u64 + 1;
                    assert!(
                        second.abs_diff(1_000_000_000) <= most,
                        "{wrong}, after {due_ms} ms: a second is {second} ns"
                    );
                }
                // A reading that is too wide changes nothing.
                let mut wide = Synchroniser::from_reading(reading(1 << 40, 0), wrong);
                let passed = Reading {
                    width_ticks: SECOND_TICKS / 1000,
                    ..reading((1 << 40) + SECOND_TICKS / 50, 20_000_000)
                };
                assert_eq!((wide.check_reading(passed), wide.rate), (None, wrong));
            }
        }
    }

    #[test]
    fn the_first_point_moves_back_along_its_line() {
        let at = reading(1 << 40, 1_700_000_000_000_000_000);
        let plain = Synchroniser::from_reading(at, RATE).last();
        let moved = Synchroniser::from_reading(at, RATE)
            .since(at.ticks - 10_000_003)
            .last();
        assert_eq!(moved.ticks, at.ticks - 10_000_003);
        assert_eq!(moved.unix_ns, at.wall_ns - 4_000_002);
        for ticks in [at.ticks, at.ticks + 7, at.ticks + SECOND_TICKS] {
            assert!(plain.unix_ns_at(ticks) - moved.unix_ns_at(ticks) <= 1);
        }
        // A recording cannot begin after its first reading.
        let late = Synchroniser::from_reading(at, RATE)
            .since(at.ticks + 1)
            .last();
        assert_eq!(late, plain);
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
            // Just before the check, when the error is largest.
            let mapped = timeline.unix_ns(world.ticks);
            assert!(mapped > last_ns, "time advances");
            last_ns = mapped;
            worst = worst.max((mapped - wall_ns).abs());
            if let Some(sync) = synchroniser.check_reading(reading(world.ticks, wall_ns)) {
                assert!(timeline.push(sync));
                assert_eq!(
                    timeline.unix_ns(world.ticks),
                    mapped,
                    "a new point continues the line"
                );
            }
        }
        assert!(
            worst < 1_000_000,
            "the error is at most 1 ms, but was {worst} ns"
        );
    }

    #[test]
    fn a_sudden_slew_of_500_ppm_is_followed() {
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
                if let Some(sync) = synchroniser.check_reading(reading(world.ticks, wall_ns)) {
                    timeline.push(sync);
                }
            }
        }
    }

    #[test]
    fn a_wrong_calibration_is_detected() {
        for off in [RATE / 20, RATE / 500] {
            for wrong in [RATE + off, RATE - off] {
                let (mut world, mut synchroniser, mut timeline) = world_calibrated(wrong);
                let mut last_ns = i64::MIN;
                for check in 0..100 {
                    world.pass(1.0, 30.0);
                    if let Some(sync) =
                        synchroniser.check_reading(reading(world.ticks, world.wall_ns()))
                    {
                        assert!(timeline.push(sync));
                    }
                    let now_ns = timeline.unix_ns(world.ticks);
                    assert!(now_ns > last_ns, "time does not step back");
                    last_ns = now_ns;
                    let second = timeline.duration_ns(world.ticks, SECOND_TICKS);
                    if check >= 20 {
                        assert!(
                            second.abs_diff(1_000_000_000) < 100_000,
                            "{wrong}: {second} ns at check {check}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_set_clock_is_not_followed_but_its_rate_is() {
        for step_ns in [
            7_200_000_000_000,
            -7_200_000_000_000,
            30_000_000,
            -2_000_000,
        ] {
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
                if let Some(sync) = synchroniser.check_reading(reading(world.ticks, wall_ns)) {
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
                    timeline.push(filled!(ClockSync {
                        ticks,
                        unix_ns,
                        rate,
                        wall_ns: unix_ns,
                    }));
                    for at in [0, 1, u64::MAX / 2, u64::MAX] {
                        let ends = (timeline.unix_ns(at), timeline.unix_ns(at.saturating_add(5)));
                        assert!(ends.0 <= ends.1);
                        assert!(timeline.duration_ns(at, 0) == 0);
                        assert!(timeline.duration_ns(0, at) <= timeline.duration_ns(0, u64::MAX));
                    }
                    let mut synchroniser =
                        Synchroniser::from_reading(reading(ticks, unix_ns), rate);
                    synchroniser.check_reading(reading(u64::MAX, i64::MIN));
                    synchroniser.check_reading(reading(u64::MAX, i64::MAX));
                    assert!(synchroniser.last().rate <= rate.saturating_add(rate / 500));
                }
            }
        }
    }
}
