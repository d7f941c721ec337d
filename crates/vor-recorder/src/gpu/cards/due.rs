//! When a question is due: as often as it is wished for, and no more often than its share of a
//! processor allows.
//!
//! A driver may wait for its card in a loop, so what an answer takes is processor time of the
//! thread that asks: from some microseconds to all of the 20 ms that the card watches its bus. Each
//! question has an account, which earns a share of the time that passes and pays what answers took.
//! A question that is in debt waits until it is out of it.

use std::time::{Duration, Instant};

/// The most that is paid for one time: a driver that once computed for seconds does not do so each
/// time.
const MOST: Duration = Duration::from_millis(50);
/// What an account keeps at most: what it earns at least in this time. So an answer that takes long
/// by chance puts nothing off where others take little.
const KEPT: Duration = Duration::from_secs(10);
/// The longest time between two questions.
const LONGEST: Duration = Duration::from_secs(300);

/// A question that is asked again and again.
#[derive(Debug)]
pub(super) struct Due {
    /// How often it is wished for.
    every: Duration,
    /// The share of a processor that it earns at least.
    share: f64,
    /// The account, in seconds of processor time.
    saved_s: f64,
    /// When it was asked last. `None` before it was asked for the first time.
    asked: Option<Instant>,
    /// What that took.
    cost: Duration,
    /// The time from then to the next.
    interval: Duration,
    next: Instant,
}

impl Due {
    /// Makes a question that is due at once.
    pub(super) fn new(every: Duration, share: f64, now: Instant) -> Self {
        Self {
            every,
            share,
            saved_s: 0.0,
            asked: None,
            cost: Duration::ZERO,
            interval: every,
            next: now,
        }
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

    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// Returns whether it is asked much more seldom than wished.
    pub(super) fn is_put_off(&self) -> bool {
        self.interval >= self.every * 2
    }

    /// Returns the processor time that it took the last time.
    pub(super) fn cost(&self) -> Duration {
        self.cost
    }

    /// Returns the share of a processor that it takes until it is asked again.
    pub(super) fn taken(&self) -> f64 {
        self.cost.as_secs_f64() / self.interval.as_secs_f64()
    }

    /// Notes that it was asked and what that took. Since the last time it earned the share
    /// `earned`, which may be less than nothing where others took what it would have had.
    pub(super) fn asked(&mut self, cost: Duration, earned: f64, now: Instant) {
        let Some(before) = self.asked.replace(now) else {
            // What is made ready at the first time is not made ready again.
            self.next = now + self.every;
            return;
        };
        self.cost = cost.min(MOST);
        let most_s = self.share * KEPT.as_secs_f64();
        let earned_s = earned * now.saturating_duration_since(before).as_secs_f64();
        self.saved_s = (self.saved_s + earned_s).min(most_s) - self.cost.as_secs_f64();
        let debt_s = (-self.saved_s).max(0.0);
        let wait = Duration::try_from_secs_f64(debt_s / earned.max(self.share)).unwrap_or(LONGEST);
        self.interval = wait.clamp(self.every, LONGEST);
        self.next += self.interval;
        if self.interval > self.every || self.next <= now {
            // The debt counts from now on, and what came too late is left out.
            self.next = now + self.interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVERY: Duration = Duration::from_millis(100);
    const SHARE: f64 = 0.001;

    /// Asks for so many seconds, each time at such a cost, whenever it is due; returns how often,
    /// and the share that was taken.
    fn ask(seconds: f64, mut cost: impl FnMut(u32) -> Duration) -> (u32, f64) {
        let begin = Instant::now();
        let mut due = Due::new(EVERY, SHARE, begin);
        let (mut times, mut taken, mut now) = (0, Duration::ZERO, begin);
        while (now - begin).as_secs_f64() < seconds {
            let cost = cost(times);
            due.asked(cost, SHARE, now);
            taken += cost;
            times += 1;
            now = due.next().max(now + cost);
        }
        (times, taken.as_secs_f64() / seconds)
    }

    #[test]
    fn what_costs_little_is_asked_as_often_as_wished() {
        assert_eq!(ask(100.0, |_| Duration::from_micros(99)).0, 1000);
    }

    #[test]
    fn what_costs_more_is_asked_for_its_share() {
        let (times, taken) = ask(1000.0, |_| Duration::from_millis(2));
        assert!((500..=502).contains(&times), "{times}");
        assert!(taken < 0.001005, "{taken}");
    }

    #[test]
    fn one_time_that_took_long_is_paid_from_what_was_saved() {
        let once =
            |at: u32| move |time: u32| Duration::from_micros(if time == at { 4000 } else { 50 });
        // 40 polls earn 4 ms; by the seventh, 0.3 of them are saved.
        let (times, _) = ask(100.0, once(7));
        assert!((960..=965).contains(&times), "{times}");
        for at in [0, 100] {
            assert_eq!(ask(100.0, once(at)).0, 1000, "{at}");
        }
    }

    #[test]
    fn no_more_is_saved_than_ten_seconds_earn() {
        let (times, _) = ask(1000.0, |time| {
            Duration::from_millis(if time < 9000 { 0 } else { 1 })
        });
        // 900 seconds cost nothing, ten polls are paid from what they left, and a hundred seconds
        // pay for a hundred.
        assert!((9105..=9115).contains(&times), "{times}");
    }

    #[test]
    fn what_was_not_asked_for_a_while_is_not_made_up_for() {
        let begin = Instant::now();
        let mut due = Due::new(EVERY, SHARE, begin);
        for seconds in [0, 9, 100] {
            let later = begin + Duration::from_secs(seconds);
            due.asked(Duration::ZERO, SHARE, later);
            assert!(!due.is_due(later) && due.is_due(later + EVERY));
        }
    }

    #[test]
    fn one_time_that_took_forever_is_forgotten_soon() {
        let (times, _) = ask(700.0, |time| {
            Duration::from_secs(if time == 10 { 100 } else { 0 })
        });
        // It took 100 seconds, which pay for it.
        assert!((5995..=6005).contains(&times), "{times}");
    }

    #[test]
    fn what_others_took_is_not_earned() {
        for earned in [0.0, -1.0] {
            let now = Instant::now();
            let mut due = Due::new(EVERY, SHARE, now);
            due.asked(EVERY, SHARE, now);
            let later = now + EVERY;
            due.asked(Duration::from_millis(1), earned, later);
            let wait = (due.next() - later).as_secs_f64();
            let expected = 1.0 - earned * EVERY.as_secs_f64() / SHARE;
            assert!((wait - expected).abs() < 1e-6, "{wait} {expected}");
        }
    }

    proptest! {
        #[test]
        fn whatever_it_costs_the_share_is_kept(costs_us in prop::collection::vec(0_u64..5000, 1..50)) {
            let cost = |time: u32| Duration::from_micros(costs_us[time as usize % costs_us.len()]);
            let (_, taken) = ask(2000.0, cost);
            // The first time is free, and the last one is not paid for yet.
            prop_assert!(taken < SHARE + 2.0 * 0.005 / 2000.0, "{}", taken);
        }
    }
}
