//! The account of a thread: the growth of the counter beyond that of the thread's clock, from a
//! first pair of readings to each later one.
//!
//! Nothing is summed from reading to reading, so nothing is lost between them. The exact sum is one
//! subtraction from the start of the account, and the reported sum follows it.

#[cfg(all(test, loom))]
mod models;

use super::{Reading, rate, thread_clock};
use crate::clock;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, const_fn, fence};

/// Smallest growth of the reported sum. A thread that was switched out is away for longer, and
/// readings of the two clocks jitter by less.
pub(super) const MIN_GROWTH_NS: u64 = 500;
/// Largest debt: how far the exact sum may lie below the reported one. It is more than an interrupt
/// between two readings takes, and bounds the time that an error of the rate can hide.
const MAX_DEBT_NS: u64 = 1_000_000;

/// Off-CPU ticks of one thread. Only that thread writes, relaxed except for the version. Other
/// threads read the reported sum (relaxed) and, with the version, the start; only the thread itself
/// reads the rest.
#[derive(Debug)]
pub(crate) struct Account {
    /// The reported sum; it never falls.
    reported_ticks: AtomicU64,
    has_begun: AtomicBool,
    /// [`rate::current`] when the account last began.
    rate: AtomicU64,
    /// [`MAX_DEBT_NS`] at that rate.
    max_debt_ticks: AtomicU64,
    /// [`MAX_DEBT_NS`] and [`MIN_GROWTH_NS`] together, at that rate.
    window_ticks: AtomicU64,
    /// Start of the account plus the reported sum: unreported ticks count from here.
    unreported_from_ticks: AtomicU64,
    /// Odd while the next two fields are being written. Stored before them (relaxed, with a release
    /// fence after it) and after them (release); loaded with acquire.
    version: AtomicU32,
    /// Ticks minus off-CPU ticks, at the start of the account.
    begin_ticks: AtomicU64,
    /// The thread's clock, at the start of the account.
    begin_cpu: AtomicU64,
}

impl Account {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                reported_ticks: AtomicU64::new(0),
                has_begun: AtomicBool::new(false),
                rate: AtomicU64::new(0),
                max_debt_ticks: AtomicU64::new(0),
                window_ticks: AtomicU64::new(0),
                unreported_from_ticks: AtomicU64::new(0),
                version: AtomicU32::new(0),
                begin_ticks: AtomicU64::new(0),
                begin_cpu: AtomicU64::new(0),
            }
        }
    }

    /// Returns the reported sum.
    #[inline(always)]
    pub(super) fn reported(&self) -> u64 {
        self.reported_ticks.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Begins at a reading, `off_ticks` of off-CPU time after the reported sum.
    pub(super) fn begin(&self, reading: Reading, off_ticks: u64, rate: u64) {
        self.begin_with(reading, self.reported().wrapping_add(off_ticks), rate);
    }

    /// Forgets the start of the account; the reported sum stays.
    #[cfg(unix)]
    pub(super) fn end(&self) {
        self.has_begun.store(false, Ordering::Relaxed);
    }

    /// Accounts for all time up to a reading, and returns the reported sum.
    pub(super) fn settle(&self, reading: Reading, rate: u64) -> u64 {
        self.try_settle(reading, rate)
            .unwrap_or_else(|| self.settle_slow(reading, rate))
    }

    /// Returns the reported sum if a reading does not change the account; otherwise `None`.
    ///
    /// Computes modulo 2⁶⁴ and with one comparison for both bounds, because each instruction after
    /// the system call that read the thread's clock counts.
    #[inline(always)]
    pub(super) fn try_settle(&self, reading: Reading, rate: u64) -> Option<u64> {
        let cpu = reading
            .cpu
            .wrapping_sub(self.begin_cpu.load(Ordering::Relaxed));
        let own_rate = self.rate.load(Ordering::Relaxed);
        let from_ticks = self.unreported_from_ticks.load(Ordering::Relaxed);
        let on_ticks = if thread_clock::counts_ticks() {
            cpu
        } else {
            rate::wrapping_ticks_by(own_rate, cpu)
        };
        let pending = reading
            .ticks
            .wrapping_sub(from_ticks)
            .wrapping_sub(on_ticks);
        let above_least = pending.wrapping_add(self.max_debt_ticks.load(Ordering::Relaxed));
        let is_within = above_least < self.window_ticks.load(Ordering::Relaxed);
        (is_within && rate == own_rate).then(|| self.reported())
    }

    /// Reports the exact sum if it has grown by the smallest growth. If it is below the largest
    /// debt, raises it to half of that. A new rate takes effect from here on; earlier time keeps
    /// the old rate.
    #[cold]
    fn settle_slow(&self, reading: Reading, rate: u64) -> u64 {
        let (reported, own_rate) = (self.reported(), self.rate.load(Ordering::Relaxed));
        let max_debt_ticks = self.max_debt_ticks.load(Ordering::Relaxed);
        let min_ticks = self.window_ticks.load(Ordering::Relaxed) - max_debt_ticks;
        let exact = off_between(self.begin_reading(), reading, own_rate);
        let pending = exact.wrapping_sub(reported) as i64;
        if pending >= min_ticks as i64 {
            self.reported_ticks.store(exact, Ordering::Relaxed);
        }
        if pending < -(max_debt_ticks as i64) {
            // Not to the bound: an error of the rate would soon reach it again, and each reading
            // would take this slow path.
            self.begin_with(reading, reported.wrapping_sub(max_debt_ticks / 2), rate);
        } else if rate != own_rate {
            self.begin_with(reading, exact, rate);
        } else {
            self.update_unreported_from();
        }
        self.reported()
    }

    /// Updates the tick from which unreported ticks count.
    fn update_unreported_from(&self) {
        let from_ticks = self.begin_reading().ticks.wrapping_add(self.reported());
        self.unreported_from_ticks
            .store(from_ticks, Ordering::Relaxed);
    }

    fn begin_with(&self, reading: Reading, exact: u64, rate: u64) {
        let clamped = |ns| rate::ticks_by(rate, ns).min(i64::MAX as u64);
        let max_debt_ticks = clamped(MAX_DEBT_NS);
        self.rate.store(rate, Ordering::Relaxed);
        self.max_debt_ticks.store(max_debt_ticks, Ordering::Relaxed);
        self.window_ticks
            .store(max_debt_ticks + clamped(MIN_GROWTH_NS), Ordering::Relaxed);
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.begin_ticks
            .store(reading.ticks.wrapping_sub(exact), Ordering::Relaxed);
        self.begin_cpu.store(reading.cpu, Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
        self.update_unreported_from();
        self.has_begun.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    fn begin_reading(&self) -> Reading {
        Reading {
            ticks: self.begin_ticks.load(Ordering::Relaxed),
            cpu: self.begin_cpu.load(Ordering::Relaxed),
        }
    }

    /// Returns the value of [`off_cpu_ticks`](super::off_cpu_ticks) on the thread with this account
    /// and the number `os_id`, accurate to some microseconds. `None` if that thread has never read
    /// it, or the system does not report the time of other threads.
    pub(crate) fn off_cpu_ticks(&self, os_id: u64) -> Option<u64> {
        let begin = self.begin_reading_from_other_thread()?;
        let reported = self.reported();
        let ticks = clock::ticks();
        let cpu = thread_clock::read_of(os_id)?;
        let exact = off_between(begin, Reading { ticks, cpu }, rate::current());
        // The exact sum may be below the reported one.
        let is_more = exact.wrapping_sub(reported) as i64 > 0;
        Some(if is_more { exact } else { reported })
    }

    fn begin_reading_from_other_thread(&self) -> Option<Reading> {
        // A few tries: an account begins again when the rate changes, which happens ever more
        // rarely. A model of all orders of events needs few.
        const TRIES: u32 = if cfg!(loom) { 2 } else { 16 };
        for _ in 0..TRIES {
            let version = self.version.load(Ordering::Acquire);
            let begin = self.begin_reading();
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return (version != 0).then_some(begin);
            }
        }
        None
    }
}

/// Returns the growth of the counter between two readings beyond that of the thread's clock. A
/// negative value wraps.
#[inline(always)]
fn off_between(begin: Reading, now: Reading, rate: u64) -> u64 {
    let cpu = now.cpu.saturating_sub(begin.cpu);
    let on_ticks = if thread_clock::counts_ticks() {
        cpu
    } else {
        rate::ticks_by(rate, cpu)
    };
    now.ticks.wrapping_sub(begin.ticks).wrapping_sub(on_ticks)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// One tick per nanosecond.
    const RATE: u64 = 1 << 40;

    fn settle(account: &Account, ticks: u64, cpu: u64) -> u64 {
        account.settle(Reading { ticks, cpu }, RATE)
    }

    fn account() -> Account {
        let account = Account::new();
        account.begin(
            Reading {
                ticks: 1_000,
                cpu: 50,
            },
            0,
            RATE,
        );
        account
    }

    #[test]
    fn cpu_time_is_not_off_cpu_time() {
        let account = account();
        assert_eq!(settle(&account, 2_000, 1_050), 0);
        assert_eq!(settle(&account, 1_000_000, 999_050), 0);
    }

    #[test]
    fn growth_below_a_switch_is_reported_later() {
        let account = account();
        assert_eq!(settle(&account, 2_000, 1_050 - 499), 0);
        assert_eq!(settle(&account, 2_001, 1_050 - 499), 500);
        assert_eq!(settle(&account, 2_600, 1_050 + 100), 500);
    }

    #[test]
    fn the_sum_never_falls_and_errors_even_out() {
        let account = account();
        assert_eq!(settle(&account, 11_000, 50), 10_000);
        // Now it turns out that the clock had been late by that much.
        assert_eq!(settle(&account, 12_000, 50 + 5_000), 10_000);
        assert_eq!(settle(&account, 15_000, 50 + 5_000), 10_000);
        assert_eq!(settle(&account, 17_000, 50 + 5_000), 11_000);
    }

    #[test]
    fn a_debt_is_bounded() {
        let account = account();
        assert_eq!(settle(&account, 1_000, 50 + 5_000_000), 0);
        assert_eq!(settle(&account, 1_000 + 500_499, 50 + 5_000_000), 0);
        assert_eq!(settle(&account, 1_000 + 500_500, 50 + 5_000_000), 500);
    }

    #[cfg_attr(miri, ignore = "Miri takes an hour for three million readings")]
    #[test]
    fn a_rate_that_is_off_does_not_stay_at_the_bound() {
        let account = account();
        // The thread's clock gains one part in a thousand.
        let is_quick = |i: u64| {
            let (ticks, cpu) = (1_000 + 1_000 * i, 50 + 1_001 * i);
            let unchanged = account.try_settle(Reading { ticks, cpu }, RATE);
            account.settle(Reading { ticks, cpu }, RATE);
            unchanged.is_some()
        };
        let slow = (0..3_000_000).filter(|i| !is_quick(*i)).count();
        assert!((1..20).contains(&slow), "{slow}");
    }

    // On Windows the thread's clock counts ticks, and has no rate.
    #[cfg(not(windows))]
    #[test]
    fn a_new_rate_applies_from_its_first_reading() {
        let account = account();
        let (ticks, cpu) = (1_000 + 1_000_000, 50 + 1_000_000);
        assert_eq!(account.settle(Reading { ticks, cpu }, RATE / 2), 0);
        let (ticks, cpu) = (ticks + 10_000, cpu + 20_000);
        assert_eq!(account.settle(Reading { ticks, cpu }, RATE / 2), 0);
        let ticks = ticks + 700;
        assert_eq!(account.settle(Reading { ticks, cpu }, RATE / 2), 700);
    }

    #[test]
    fn the_reported_sum_stays_when_the_account_begins_again() {
        let account = account();
        assert_eq!(settle(&account, 11_000, 50), 10_000);
        account.begin(
            Reading {
                ticks: 50_000,
                cpu: 7,
            },
            0,
            RATE,
        );
        assert_eq!(settle(&account, 51_000, 1_007), 10_000);
        assert_eq!(settle(&account, 52_000, 1_007), 11_000);
    }
}
