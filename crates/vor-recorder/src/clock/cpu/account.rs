//! The account of a thread: what the counter went on by and the thread's clock did not, from a
//! first pair of readings to each later one.
//!
//! Nothing is added up from reading to reading, so nothing is lost between them: the exact sum is
//! one subtraction from where the account began, and what was given out follows it.

use super::{Reading, rate, thread_clock};
use crate::clock;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU32, AtomicU64, fence};

/// The least that is given out at a time: a thread that was switched out is away for longer, and
/// readings of the two clocks jitter by less.
pub(super) const LEAST_NS: u64 = 500;
/// By how much the exact sum may lie below the one given out: more than an interrupt between two
/// readings takes. It bounds what an error of the rate can hide.
const MOST_DEBT_NS: u64 = 1_000_000;

/// Ticks off the processor, of one thread. It alone writes, and others may read what is given out
/// and, with its version, where it began; the rest is the thread's own. All is relaxed but the
/// version.
#[derive(Debug)]
pub(crate) struct Account {
    /// Ticks as given out; they never fall.
    off_ticks: AtomicU64,
    has_begun: AtomicBool,
    /// As it was when the account last began anew, as told by [`rate::now`], and by it
    /// [`MOST_DEBT_NS`], and that and [`LEAST_NS`] together.
    rate: AtomicU64,
    most_debt_ticks: AtomicU64,
    window_ticks: AtomicU64,
    /// Where the account began, later by what is given out: what is to be given out yet is counted
    /// from here.
    given_from_ticks: AtomicU64,
    /// Odd while the next two are written. Stored with release behind them, and before them
    /// followed by a fence; loaded with acquire.
    version: AtomicU32,
    /// Ticks less off-CPU ticks, and the thread's clock, where the account began.
    begin_ticks: AtomicU64,
    begin_cpu: AtomicU64,
}

impl Account {
    pub(super) const fn new() -> Self {
        Self {
            off_ticks: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            rate: AtomicU64::new(0),
            most_debt_ticks: AtomicU64::new(0),
            window_ticks: AtomicU64::new(0),
            given_from_ticks: AtomicU64::new(0),
            version: AtomicU32::new(0),
            begin_ticks: AtomicU64::new(0),
            begin_cpu: AtomicU64::new(0),
        }
    }

    /// Returns what was given out last.
    #[inline(always)]
    pub(super) fn given(&self) -> u64 {
        self.off_ticks.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Begins at a reading, at which what was given out is exact.
    pub(super) fn begin(&self, reading: Reading, rate: u64) {
        self.begin_with(reading, self.given(), rate);
    }

    /// Forgets where it began; what was given out stays.
    #[cfg(unix)]
    pub(super) fn end(&self) {
        self.has_begun.store(false, Ordering::Relaxed);
    }

    /// Takes account of all up to a reading, and returns what is given out by now.
    pub(super) fn settle(&self, reading: Reading, rate: u64) -> u64 {
        self.settle_at_once(reading, rate)
            .unwrap_or_else(|| self.settle_more(reading, rate))
    }

    /// As [`settle`](Self::settle), `None` where anything is to be done.
    ///
    /// All of it modulo 2⁶⁴ and with one comparison for both bounds: each instruction behind the
    /// system call that read the thread's clock counts.
    #[inline(always)]
    pub(super) fn settle_at_once(&self, reading: Reading, rate: u64) -> Option<u64> {
        let cpu = reading
            .cpu
            .wrapping_sub(self.begin_cpu.load(Ordering::Relaxed));
        let own_rate = self.rate.load(Ordering::Relaxed);
        let from_ticks = self.given_from_ticks.load(Ordering::Relaxed);
        let on_ticks = if thread_clock::counts_ticks() {
            cpu
        } else {
            rate::wrapping_ticks_by(own_rate, cpu)
        };
        let pending = reading
            .ticks
            .wrapping_sub(from_ticks)
            .wrapping_sub(on_ticks);
        let above_least = pending.wrapping_add(self.most_debt_ticks.load(Ordering::Relaxed));
        let is_within = above_least < self.window_ticks.load(Ordering::Relaxed);
        (is_within && rate == own_rate).then(|| self.given())
    }

    /// Gives out what is exact, where it is as much as is given out at a time; where it is further
    /// below the one given out than it may be, moves it up to half of that; takes over a new rate,
    /// and what lies behind stays as the old one told it.
    #[cold]
    fn settle_more(&self, reading: Reading, rate: u64) -> u64 {
        let (given, own_rate) = (self.given(), self.rate.load(Ordering::Relaxed));
        let most_debt_ticks = self.most_debt_ticks.load(Ordering::Relaxed);
        let least_ticks = self.window_ticks.load(Ordering::Relaxed) - most_debt_ticks;
        let exact = off_between(self.begin_reading(), reading, own_rate);
        let pending = exact.wrapping_sub(given) as i64;
        if pending >= least_ticks as i64 {
            self.off_ticks.store(exact, Ordering::Relaxed);
        }
        if pending < -(most_debt_ticks as i64) {
            // Not to the bound: an error of the rate would be back there at the next reading, and
            // each of them would come here.
            self.begin_with(reading, given.wrapping_sub(most_debt_ticks / 2), rate);
        } else if rate != own_rate {
            self.begin_with(reading, exact, rate);
        } else {
            self.note_given();
        }
        self.given()
    }

    /// Notes anew from where on what is to be given out is counted.
    fn note_given(&self) {
        let from_ticks = self.begin_reading().ticks.wrapping_add(self.given());
        self.given_from_ticks.store(from_ticks, Ordering::Relaxed);
    }

    fn begin_with(&self, reading: Reading, exact: u64, rate: u64) {
        let clamped = |ns| rate::ticks_by(rate, ns).min(i64::MAX as u64);
        let most_debt_ticks = clamped(MOST_DEBT_NS);
        self.rate.store(rate, Ordering::Relaxed);
        self.most_debt_ticks
            .store(most_debt_ticks, Ordering::Relaxed);
        self.window_ticks
            .store(most_debt_ticks + clamped(LEAST_NS), Ordering::Relaxed);
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.begin_ticks
            .store(reading.ticks.wrapping_sub(exact), Ordering::Relaxed);
        self.begin_cpu.store(reading.cpu, Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
        self.note_given();
        self.has_begun.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    fn begin_reading(&self) -> Reading {
        Reading {
            ticks: self.begin_ticks.load(Ordering::Relaxed),
            cpu: self.begin_cpu.load(Ordering::Relaxed),
        }
    }

    /// Returns what [`off_cpu_ticks`](super::off_cpu_ticks) would say now on the thread whose
    /// account this is, and whose number `os_id`; to some microseconds. `None` where that thread
    /// has never asked, or the system does not tell the time of others.
    pub(crate) fn off_cpu_ticks(&self, os_id: u64) -> Option<u64> {
        let begin = self.begin_seen_by_others()?;
        let given = self.given();
        let ticks = clock::ticks();
        let cpu = thread_clock::read_of(os_id)?;
        let exact = off_between(begin, Reading { ticks, cpu }, rate::now());
        // What is not given out yet may be below it.
        let is_more = exact.wrapping_sub(given) as i64 > 0;
        Some(if is_more { exact } else { given })
    }

    fn begin_seen_by_others(&self) -> Option<Reading> {
        // A thread begins anew when the rate changes, which it does ever more rarely.
        for _ in 0..16 {
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

/// Returns the ticks between two readings that the thread's clock does not account for. Below zero
/// it wraps.
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

#[cfg(test)]
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
            RATE,
        );
        account
    }

    #[test]
    fn time_on_the_processor_is_not_off() {
        let account = account();
        assert_eq!(settle(&account, 2_000, 1_050), 0);
        assert_eq!(settle(&account, 1_000_000, 999_050), 0);
    }

    #[test]
    fn less_than_a_switch_waits_until_it_is_more() {
        let account = account();
        assert_eq!(settle(&account, 2_000, 1_050 - 499), 0);
        assert_eq!(settle(&account, 2_001, 1_050 - 499), 500);
        assert_eq!(settle(&account, 2_600, 1_050 + 100), 500);
    }

    #[test]
    fn it_never_falls_and_errors_even_out() {
        let account = account();
        assert_eq!(settle(&account, 11_000, 50), 10_000);
        // The clock was late by so much, as it turns out.
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

    #[test]
    fn a_rate_that_is_off_does_not_stay_at_the_bound() {
        let account = account();
        // The thread's clock gains one in a thousand.
        let is_quick = |i: u64| {
            let (ticks, cpu) = (1_000 + 1_000 * i, 50 + 1_001 * i);
            let at_once = account.settle_at_once(Reading { ticks, cpu }, RATE);
            account.settle(Reading { ticks, cpu }, RATE);
            at_once.is_some()
        };
        let slow = (0..3_000_000).filter(|i| !is_quick(*i)).count();
        assert!((1..20).contains(&slow), "{slow}");
    }

    // There the thread's clock counts ticks, and has no rate.
    #[cfg(not(windows))]
    #[test]
    fn a_new_rate_holds_from_where_it_is_known() {
        let account = account();
        let (ticks, cpu) = (1_000 + 1_000_000, 50 + 1_000_000);
        assert_eq!(account.settle(Reading { ticks, cpu }, RATE / 2), 0);
        let (ticks, cpu) = (ticks + 10_000, cpu + 20_000);
        assert_eq!(account.settle(Reading { ticks, cpu }, RATE / 2), 0);
        let ticks = ticks + 700;
        assert_eq!(account.settle(Reading { ticks, cpu }, RATE / 2), 700);
    }

    #[test]
    fn what_was_given_out_stays_when_it_begins_anew() {
        let account = account();
        assert_eq!(settle(&account, 11_000, 50), 10_000);
        account.begin(
            Reading {
                ticks: 50_000,
                cpu: 7,
            },
            RATE,
        );
        assert_eq!(settle(&account, 51_000, 1_007), 10_000);
        assert_eq!(settle(&account, 52_000, 1_007), 11_000);
    }
}
