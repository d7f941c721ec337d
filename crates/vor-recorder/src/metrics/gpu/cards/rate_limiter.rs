//! Schedules polls: at the desired interval, but no more often than their share of a CPU allows.
//!
//! A driver may wait for its card in a busy loop, which takes CPU time of the polling thread: from
//! some microseconds to all of the 20 ms that the card watches its bus. Each kind of poll has an
//! account. The account earns a share of the elapsed time and pays the CPU time of the polls. After
//! a poll that makes a debt, the next one waits until the debt is paid.

use std::time::{Duration, Instant};

/// Most CPU time that one poll pays: a driver that once computed for seconds does not do so each
/// time.
const MAX_COST: Duration = Duration::from_millis(50);
/// Largest savings of an account, as earnings of this time. They let an occasional long call delay
/// nothing if the other calls are short.
const MAX_SAVING: Duration = Duration::from_secs(10);
/// The longest time between two polls.
const MAX_INTERVAL: Duration = Duration::from_secs(300);

/// The rate of one kind of poll.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// The desired interval.
    every: Duration,
    /// The minimum share of a CPU that it earns.
    share: f64,
    /// The account, in seconds of CPU time.
    saved_s: f64,
    /// `None` before the first poll.
    last: Option<Instant>,
    /// The CPU time of the last poll.
    cost: Duration,
    /// The time from the last poll to the next.
    interval: Duration,
    next: Instant,
}

impl RateLimiter {
    /// Creates a limiter whose first poll is due.
    pub(super) fn new(every: Duration, share: f64, now: Instant) -> Self {
        Self {
            every,
            share,
            saved_s: 0.0,
            last: None,
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

    /// Returns whether polls are much less frequent than desired.
    pub(super) fn is_throttled(&self) -> bool {
        self.interval >= self.every * 2
    }

    /// Returns the CPU time of the last poll.
    pub(super) fn cost(&self) -> Duration {
        self.cost
    }

    /// Returns the last poll's CPU time as a share of the time until the next.
    pub(super) fn used_share(&self) -> f64 {
        self.cost.as_secs_f64() / self.interval.as_secs_f64()
    }

    /// Records a poll and its CPU time. `earned` is the share that the account earned since the
    /// last poll; it is negative if other polls took more than theirs.
    pub(super) fn record(&mut self, cost: Duration, earned: f64, now: Instant) {
        let Some(before) = self.last.replace(now) else {
            // The first poll initializes the driver, a cost that later polls do not have.
            self.next = now + self.every;
            return;
        };
        self.cost = cost.min(MAX_COST);
        let max_s = self.share * MAX_SAVING.as_secs_f64();
        let earned_s = earned * now.saturating_duration_since(before).as_secs_f64();
        self.saved_s = (self.saved_s + earned_s).min(max_s) - self.cost.as_secs_f64();
        let debt_s = (-self.saved_s).max(0.0);
        let wait =
            Duration::try_from_secs_f64(debt_s / earned.max(self.share)).unwrap_or(MAX_INTERVAL);
        self.interval = wait.clamp(self.every, MAX_INTERVAL);
        self.next += self.interval;
        if self.interval > self.every || self.next <= now {
            // A debt counts from now, and overdue polls are skipped.
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

    /// Polls for `seconds`, whenever a poll is due, with the CPU times of `cost`. Returns how often
    /// it polled, and the share that was used.
    fn poll(seconds: f64, mut cost: impl FnMut(u32) -> Duration) -> (u32, f64) {
        let begin = Instant::now();
        let mut limiter = RateLimiter::new(EVERY, SHARE, begin);
        let (mut times, mut taken, mut now) = (0, Duration::ZERO, begin);
        while (now - begin).as_secs_f64() < seconds {
            let cost = cost(times);
            limiter.record(cost, SHARE, now);
            taken += cost;
            times += 1;
            now = limiter.next().max(now + cost);
        }
        (times, taken.as_secs_f64() / seconds)
    }

    #[test]
    fn a_cheap_poll_has_its_desired_interval() {
        assert_eq!(poll(100.0, |_| Duration::from_micros(99)).0, 1000);
    }

    #[test]
    fn an_expensive_poll_uses_its_share() {
        let (times, taken) = poll(1000.0, |_| Duration::from_millis(2));
        assert!((500..=502).contains(&times), "{times}");
        assert!(taken < 0.001005, "{taken}");
    }

    #[test]
    fn a_poll_that_took_long_is_paid_from_savings() {
        let once =
            |at: u32| move |time: u32| Duration::from_micros(if time == at { 4000 } else { 50 });
        // 40 polls earn 4 ms; by the seventh poll, 0.3 ms are saved.
        let (times, _) = poll(100.0, once(7));
        assert!((960..=965).contains(&times), "{times}");
        for at in [0, 100] {
            assert_eq!(poll(100.0, once(at)).0, 1000, "{at}");
        }
    }

    #[test]
    fn savings_are_at_most_the_earnings_of_ten_seconds() {
        let (times, _) = poll(1000.0, |time| {
            Duration::from_millis(if time < 9000 { 0 } else { 1 })
        });
        // 900 seconds cost nothing, savings pay for ten polls, and a hundred seconds pay for a
        // hundred.
        assert!((9105..=9115).contains(&times), "{times}");
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let begin = Instant::now();
        let mut limiter = RateLimiter::new(EVERY, SHARE, begin);
        for seconds in [0, 9, 100] {
            let later = begin + Duration::from_secs(seconds);
            limiter.record(Duration::ZERO, SHARE, later);
            assert!(!limiter.is_due(later) && limiter.is_due(later + EVERY));
        }
    }

    #[test]
    fn a_poll_that_took_forever_is_forgotten_soon() {
        let (times, _) = poll(700.0, |time| {
            Duration::from_secs(if time == 10 { 100 } else { 0 })
        });
        // The poll itself took 100 seconds, whose earnings pay for it.
        assert!((5995..=6005).contains(&times), "{times}");
    }

    #[test]
    fn a_share_that_others_took_is_not_earned() {
        for earned in [0.0, -1.0] {
            let now = Instant::now();
            let mut limiter = RateLimiter::new(EVERY, SHARE, now);
            limiter.record(EVERY, SHARE, now);
            let later = now + EVERY;
            limiter.record(Duration::from_millis(1), earned, later);
            let wait = (limiter.next() - later).as_secs_f64();
            let expected = 1.0 - earned * EVERY.as_secs_f64() / SHARE;
            assert!((wait - expected).abs() < 1e-6, "{wait} {expected}");
        }
    }

    proptest! {
        #[test]
        fn polls_of_any_cost_stay_within_the_share(
            costs_us in prop::collection::vec(0_u64..5000, 1..50),
        ) {
            let cost = |time: u32| Duration::from_micros(costs_us[time as usize % costs_us.len()]);
            let (_, taken) = poll(2000.0, cost);
            // The first poll is free, and the last one is not paid for yet.
            prop_assert!(taken < SHARE + 2.0 * 0.005 / 2000.0, "{}", taken);
        }
    }
}
