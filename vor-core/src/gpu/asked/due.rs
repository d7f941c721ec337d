//! When a question is due: as often as it is wished for, and no more often than its share of a processor allows.
//!
//! A driver may wait for its card in a loop, so what an answer takes is processor time of the thread that asks: from some microseconds to all of the 20 ms that the card watches its bus. What
//! it took on average says how long to wait until it is asked for again.

use std::time::{Duration, Instant};

/// The most that counts of what one time takes: a driver that once computed for seconds does not do so each time.
const MOST: Duration = Duration::from_millis(50);
/// The longest time between two questions.
const LONGEST: Duration = Duration::from_secs(300);

/// A question that is asked again and again.
#[derive(Debug)]
pub(super) struct Due {
    /// How often it is wished for.
    every: Duration,
    /// How often it is asked.
    interval: Duration,
    /// The processor time that it takes, on average over some times, in seconds. `None` before it was asked for the first time.
    cost_s: Option<f64>,
    next: Instant,
}

impl Due {
    /// Makes a question that is due at once.
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self {
            every,
            interval: every,
            cost_s: None,
            next: now,
        }
    }

    /// Makes it due at once, after a time in which it was not asked.
    pub(super) fn begin(&mut self, now: Instant) {
        self.next = now;
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// Returns whether it is asked much more seldom than wished.
    pub(super) fn is_put_off(&self) -> bool {
        self.interval >= self.every * 2
    }

    /// Returns the processor time that it takes, on average over some times.
    pub(super) fn cost(&self) -> Duration {
        Duration::from_secs_f64(self.cost_s.unwrap_or(0.0))
    }

    /// Returns the share of a processor that it takes.
    pub(super) fn taken(&self) -> f64 {
        self.cost().as_secs_f64() / self.interval.as_secs_f64()
    }

    /// Notes that it was asked and what that took, and puts off the next time until no more than `share` of a processor is taken.
    pub(super) fn asked(&mut self, cost: Duration, share: f64, now: Instant) {
        // What is made ready at the first time is not made ready again. Other times take longer by chance, and a quarter of each counts.
        let cost_s = self.cost_s.map_or(0.0, |before_s| {
            before_s + (cost.min(MOST).as_secs_f64() - before_s) / 4.0
        });
        self.cost_s = Some(cost_s);
        let seldom = Duration::try_from_secs_f64(cost_s / share).unwrap_or(LONGEST);
        self.interval = seldom.min(LONGEST).max(self.every);
        self.next += self.interval;
        if self.next <= now {
            // What came too late is left out.
            self.next = now + self.interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVERY: Duration = Duration::from_millis(100);

    /// Asks for so many seconds, each time at such a cost, whenever it is due; returns how often, and the share that was taken.
    fn ask(seconds: f64, share: f64, mut cost: impl FnMut(u32) -> Duration) -> (u32, f64) {
        let begin = Instant::now();
        let mut due = Due::new(EVERY, begin);
        let (mut times, mut taken) = (0, Duration::ZERO);
        while (due.next() - begin).as_secs_f64() < seconds {
            let cost = cost(times);
            due.asked(cost, share, due.next() + cost);
            taken += cost;
            times += 1;
        }
        (times, taken.as_secs_f64() / seconds)
    }

    #[test]
    fn what_costs_little_is_asked_as_often_as_wished() {
        assert_eq!(ask(100.0, 0.001, |_| Duration::from_micros(99)).0, 1000);
    }

    #[test]
    fn what_costs_more_is_asked_for_its_share() {
        let (times, taken) = ask(1000.0, 0.001, |_| Duration::from_millis(2));
        assert!((495..=510).contains(&times), "{times}");
        assert!(taken < 0.00102, "{taken}");
    }

    #[test]
    fn one_time_that_took_long_is_made_up_for_and_forgotten() {
        let once = |at: u32| move |time: u32| Duration::from_micros(if time == at { 4000 } else { 50 });
        let (times, _) = ask(100.0, 0.001, once(7));
        assert!((950..1000).contains(&times), "{times}");
        assert_eq!(ask(100.0, 0.001, once(0)).0, 1000);
    }

    #[test]
    fn what_was_not_asked_for_a_while_is_not_made_up_for() {
        let begin = Instant::now();
        let mut due = Due::new(EVERY, begin);
        let later = begin + Duration::from_secs(9);
        due.asked(Duration::ZERO, 0.001, later);
        assert!(!due.is_due(later) && due.is_due(later + EVERY));
    }

    #[test]
    fn one_time_that_took_forever_is_forgotten_soon() {
        let (times, _) = ask(700.0, 0.001, |time| {
            Duration::from_secs(if time == 10 { 100 } else { 0 })
        });
        // The 100 seconds, and 50 of being put off.
        assert!((5500..5550).contains(&times), "{times}");
    }

    #[test]
    fn with_no_share_it_is_put_off_for_long() {
        for share in [0.0, -1.0] {
            let now = Instant::now();
            let mut due = Due::new(EVERY, now);
            due.asked(EVERY, 0.001, now);
            due.asked(EVERY, share, now);
            assert_eq!(due.interval(), LONGEST, "{share}");
        }
    }

    proptest! {
        #[test]
        fn whatever_it_costs_the_share_is_kept(costs_us in prop::collection::vec(0_u64..5000, 1..50)) {
            let cost = |time: u32| Duration::from_micros(costs_us[time as usize % costs_us.len()]);
            let (_, taken) = ask(2000.0, 0.001, cost);
            // The first question, and what is not averaged in yet when the time is over: some of the last.
            prop_assert!(taken < 0.001 + 5.0 * 0.005 / 2000.0, "{}", taken);
        }
    }
}
