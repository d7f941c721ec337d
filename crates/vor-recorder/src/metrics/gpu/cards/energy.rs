//! The energy of a frame, from a counter that is read ten times a second, or less often if the
//! driver takes long to read it: 4 ms of CPU time for an H100.
//!
//! Frames can be shorter or longer than the time between two readings. A line extends the counter's
//! growth between the last two readings in both directions. Where a reading is left out, the card's
//! power estimates the growth. A frame's energy is the growth of that line since the end of the
//! previous frame. Each reading bends the line, which corrects earlier errors: over many frames the
//! sum is the counter's.

/// Readings of a counter so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EnergyLine {
    /// The last reading.
    counter_mj: u64,
    /// Energy used from the first reading to the last one. If the counter restarts, the part that
    /// was not read yet is an estimate, or lost.
    counted_mj: f64,
    /// When the last reading was taken or estimated.
    ticks: u64,
    /// Energy used until then.
    used_mj: f64,
    per_tick_mj: f64,
    /// Whether estimates came after the last reading.
    is_estimated: bool,
}

impl EnergyLine {
    /// Adds a reading, in millijoules, to the previous ones.
    pub(super) fn with(before: Option<Self>, ticks: u64, counter_mj: u64) -> Self {
        let mut line = Self {
            counter_mj,
            counted_mj: 0.0,
            ticks,
            used_mj: 0.0,
            per_tick_mj: 0.0,
            is_estimated: false,
        };
        if let Some(before) = before {
            line.counted_mj = match counter_mj.checked_sub(before.counter_mj) {
                Some(grown_mj) => before.counted_mj + grown_mj as f64,
                None => before.used_mj,
            };
            line.used_mj = line.counted_mj;
            // A mean over a long time is a worse slope than the last estimate.
            line.per_tick_mj = if before.is_estimated {
                before.per_tick_mj
            } else {
                (line.used_mj - before.used_mj) / before.ticks_to(ticks)
            };
        }
        line
    }

    /// Adds an estimate of the energy used since the last reading or estimate, in place of a
    /// reading.
    pub(super) fn with_estimate(self, ticks: u64, grown_mj: f64) -> Self {
        Self {
            ticks,
            used_mj: self.used_mj + grown_mj,
            per_tick_mj: grown_mj / self.ticks_to(ticks),
            is_estimated: true,
            ..self
        }
    }

    /// When the last reading was taken or estimated.
    pub(super) fn ticks(&self) -> u64 {
        self.ticks
    }

    fn ticks_to(&self, ticks: u64) -> f64 {
        ticks.saturating_sub(self.ticks).max(1) as f64
    }

    fn at(&self, ticks: u64) -> f64 {
        // A frame may have ended before the last reading.
        let ahead = ticks.wrapping_sub(self.ticks) as i64;
        self.used_mj + self.per_tick_mj * ahead as f64
    }
}

/// The part of a card's energy that frames have reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EnergyCursor {
    /// Height of the line at the end of the last frame, in millijoules; `None` before the first.
    until_mj: Option<f64>,
}

impl EnergyCursor {
    /// Returns the joules of a frame that ended at `end_ticks`. `None` if the height at its begin
    /// is unknown.
    pub(super) fn take(&mut self, line: &EnergyLine, end_ticks: u64) -> Option<f64> {
        let now_mj = line.at(end_ticks);
        let Some(until_mj) = &mut self.until_mj else {
            self.until_mj = Some(now_mj);
            return None;
        };
        // If too much was reported, frames report nothing until the counter has caught up.
        let used_mj = (now_mj - *until_mj).max(0.0);
        *until_mj += used_mj;
        Some(used_mj / 1e3)
    }

    /// Forgets the previous frames: the next one starts again.
    pub(super) fn forget(&mut self) {
        self.until_mj = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the energy of frames that end at `ends`, from readings of `counter` every 100 ticks.
    /// Each reading is known from its own tick on.
    fn energies(ends: &[u64], counter: impl Fn(u64) -> u64) -> Vec<Option<f64>> {
        let (mut line, mut cursor, mut read) = (None, EnergyCursor::default(), 0);
        let mut take = |&end: &u64| {
            while read <= end {
                line = Some(EnergyLine::with(line, read, counter(read)));
                read += 100;
            }
            cursor.take(&line?, end)
        };
        ends.iter().map(&mut take).collect()
    }

    #[test]
    fn under_even_load_each_frame_has_its_share() {
        let ends: Vec<u64> = (0..100).map(|frame| 200 + frame * 16).collect();
        for joules in energies(&ends, |ticks| ticks * 1000).into_iter().skip(1) {
            assert!((joules.unwrap() - 16.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_counter_that_restarts_loses_one_interval_and_nothing_else() {
        let ends: Vec<u64> = (2..60).map(|frame| frame * 100).collect();
        let joules = energies(&ends, |ticks| {
            if ticks < 2000 {
                9_000_000 + ticks * 1000
            } else {
                (ticks - 2000) * 1000
            }
        });
        let joules: Vec<f64> = joules.into_iter().skip(1).map(Option::unwrap).collect();
        assert!(joules.iter().all(|joules| *joules >= 0.0), "{joules:?}");
        assert!(
            (joules.iter().sum::<f64>() - 5600.0).abs() < 101.0,
            "{joules:?}"
        );
    }

    #[test]
    fn a_reading_corrects_the_estimates_before_it() {
        for watts_off in [-0.5, 0.0, 0.5] {
            // One reading in 100 000 ticks, and estimates that are off. A frame ends at each.
            let (mut line, mut cursor, mut joules) = (None, EnergyCursor::default(), 0.0);
            for ticks in (0..=300_000).step_by(100) {
                line = Some(match line {
                    Some(line) if ticks % 100_000 != 0 => {
                        EnergyLine::with_estimate(line, ticks, 100.0 * (1.0 + watts_off))
                    }
                    line => EnergyLine::with(line, ticks, ticks),
                });
                joules += cursor.take(&line.unwrap(), ticks).unwrap_or(0.0);
                let expected = ticks as f64 / 1e3;
                assert!((joules - expected).abs() <= 50.1, "{joules} {expected}");
            }
            // Frames cannot take back what the last estimates were too high.
            let most = if watts_off > 0.0 { 50.1 } else { 1e-6 };
            assert!((joules - 300.0).abs() <= most, "{watts_off} {joules}");
        }
    }

    #[test]
    fn a_counter_that_restarts_keeps_its_estimates() {
        let line = EnergyLine::with(None, 0, 5_000).with_estimate(100, 70.0);
        let line = EnergyLine::with(Some(line), 200, 3).with_estimate(300, 10.0);
        assert!((line.at(300) - 80.0).abs() < 1e-9, "{line:?}");
        let line = EnergyLine::with(Some(line), 400, 33);
        assert!((line.at(400) - 100.0).abs() < 1e-9, "{line:?}");
    }

    proptest! {
        #[test]
        fn no_frame_has_negative_energy_and_all_add_up_to_the_counter(
            steps in prop::collection::vec(1_u64..700, 2..50),
            loads in prop::collection::vec(0_u64..5000, 8),
        ) {
            // The load changes every 1000 ticks.
            let counter = |ticks: u64| {
                (0..ticks / 100)
                    .map(|step| loads[(step / 10) as usize % loads.len()] * 100)
                    .sum::<u64>()
            };
            let mut ends: Vec<u64> = Vec::new();
            let mut at = 200;
            for step in steps {
                at += step;
                ends.push(at);
            }
            // Two long frames at the end leave time to catch up.
            ends.extend([at + 10_000, at + 20_000]);
            let joules = energies(&ends, counter);
            prop_assert_eq!(joules[0], None);
            let all: f64 = joules[1..].iter().map(|joules| joules.unwrap()).sum();
            prop_assert!(joules[1..].iter().all(|joules| joules.unwrap() >= 0.0));
            let expected = (counter(at + 20_000) - counter(ends[0])) as f64 / 1e3;
            // Largest error of the line: one interval at either end, at the highest load.
            prop_assert!(
                (all - expected).abs() <= 2.0 * 100.0 * 5.0 + 1e-6,
                "{all} {expected}"
            );
        }
    }
}
