//! Interleaved rounds: A B C, B C A, …, each a short loop, compared round by round. The first of a
//! round is another one each time, so none always runs behind the same neighbour.
//!
//! Other load on a machine slows whole periods of time. Contestants that run within the same
//! hundred microseconds are slowed alike, so the median of the ratios within rounds is stable while
//! the times are not.

#[cfg(not(target_arch = "wasm32"))]
use std::time::Instant;
#[cfg(target_arch = "wasm32")]
use web_time::Instant;

/// A loop to time, which runs its body a given number of times.
pub type Loop<'a> = Box<dyn FnMut(u32) + 'a>;

/// Nanoseconds per pass of one contestant, round by round.
#[derive(Clone, Debug)]
pub struct Times(Vec<f64>);

/// Runs every contestant `iterations` times in each round. `between` runs untimed after every
/// `every`-th round.
pub fn contest(
    rounds: usize,
    iterations: u32,
    contestants: &mut [Loop<'_>],
    every: usize,
    between: &mut dyn FnMut(),
) -> Vec<Times> {
    for contestant in &mut *contestants {
        contestant(iterations);
    }
    let mut times = vec![Times(Vec::with_capacity(rounds)); contestants.len()];
    for round in 0..rounds {
        for place in 0..contestants.len() {
            let which = (round + place) % contestants.len();
            let begin = Instant::now();
            contestants[which](iterations);
            let passed_ns = begin.elapsed().as_nanos() as f64;
            times[which].0.push(passed_ns / f64::from(iterations));
        }
        if round % every == every - 1 {
            between();
        }
    }
    times
}

/// Keeps the rounds in which the first contestant ran at full speed, and returns their number.
///
/// If two CPUs share a core, a neighbour slows other code more than bare clock reads, so the ratio
/// depends on the neighbour. The first contestant is the bare clock: a round in which it takes over
/// 2 % more than in the fastest tenth of the rounds had a neighbour. On a machine that was never
/// quiet for long, few rounds are left, and the caller reports their number.
pub fn keep_quiet(times: &mut [Times]) -> usize {
    let Some(reference) = times.first() else {
        return 0;
    };
    let mut sorted = reference.0.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let most = 1.02 * sorted.get(sorted.len() / 10).copied().unwrap_or(f64::NAN);
    let is_quiet: Vec<bool> = reference.0.iter().map(|time| *time <= most).collect();
    for times in times {
        let mut quiet = is_quiet.iter();
        times.0.retain(|_| quiet.next() == Some(&true));
    }
    is_quiet.into_iter().filter(|quiet| *quiet).count()
}

impl Times {
    /// Returns the median, in nanoseconds per pass.
    #[must_use]
    pub fn median_ns(&self) -> f64 {
        median(self.0.clone())
    }

    /// Returns the median over the rounds of this contestant's time divided by the other's.
    #[must_use]
    pub fn ratio_to(&self, other: &Self) -> f64 {
        median(
            self.0
                .iter()
                .zip(&other.0)
                .map(|(this, other)| this / other)
                .collect(),
        )
    }

    /// Returns the median over the rounds of this contestant's time minus the other's, in
    /// nanoseconds per pass.
    #[must_use]
    pub fn more_than_ns(&self, other: &Self) -> f64 {
        median(
            self.0
                .iter()
                .zip(&other.0)
                .map(|(this, other)| this - other)
                .collect(),
        )
    }
}

/// Returns the median of `values`, or NaN if there are none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contestant_is_first_in_turn() {
        let order = std::cell::RefCell::new(Vec::new());
        let note = |name: char| -> Loop<'_> {
            let order = &order;
            Box::new(move |_| order.borrow_mut().push(name))
        };
        let mut contestants = [note('a'), note('b'), note('c')];
        let times = contest(3, 1, &mut contestants, 1, &mut || {});
        drop(contestants);
        assert_eq!(
            order.into_inner(),
            "abcabcbcacab".chars().collect::<Vec<_>>()
        );
        assert!(times.iter().all(|times| times.0.len() == 3));
    }

    #[test]
    fn a_slow_stretch_moves_the_times_and_not_the_ratio() {
        let floor = Times(vec![10.0, 10.0, 30.0, 30.0, 30.0]);
        let scope = Times(vec![11.0, 11.0, 33.0, 33.0, 33.0]);
        assert!((scope.ratio_to(&floor) - 1.1).abs() < 1e-9);
        assert!((scope.median_ns() - 33.0).abs() < 1e-9);
        assert!((scope.more_than_ns(&floor) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn rounds_with_a_neighbour_are_set_aside() {
        let floor = Times(vec![10.0, 10.1, 13.0, 10.0, 14.0]);
        let scope = Times(vec![11.0, 11.1, 19.0, 11.0, 20.0]);
        let mut times = [floor, scope];
        assert_eq!(keep_quiet(&mut times), 3);
        assert!((times[1].median_ns() - 11.0).abs() < 1e-9);
    }

    #[test]
    fn every_contestant_runs_in_every_round() {
        let (mut a, mut b, mut pauses) = (0, 0, 0);
        contest(
            6,
            10,
            &mut [Box::new(|n| a += n), Box::new(|n| b += 2 * n)],
            3,
            &mut || pauses += 1,
        );
        // One more round for the warm-up.
        assert_eq!((a, b, pauses), (70, 140, 2));
    }
}
