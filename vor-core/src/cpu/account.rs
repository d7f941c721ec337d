//! The account of a thread: what the counter went on by and the thread's clock did not, from a first pair of readings to each later one.
//!
//! Nothing is added up from reading to reading, so nothing is lost between them: the exact sum is one subtraction from where the account began, and what was given out follows it.

use super::{Reading, rate, thread_clock};
use crate::clock;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU32, AtomicU64, fence};

/// The least that is given out at a time: a thread that was switched out is away for longer, and readings of the two clocks jitter by less.
pub(super) const LEAST_NS: u64 = 500;
/// By how much the exact sum may lie below the one given out: more than an interrupt between two readings takes. It bounds what an error of the rate can hide.
const MOST_DEBT_NS: u64 = 1_000_000;

/// Ticks off the processor, of one thread. It alone writes, and others may read what is given out and, with its version, where it began; the rest is the thread's own. All is relaxed but the version.
#[derive(Debug)]
pub(crate) struct Account {
    /// Ticks as given out; they never fall.
    off_ticks: AtomicU64,
    has_begun: AtomicBool,
    /// As it was when the account last began anew, as told by [`rate::now`], and [`LEAST_NS`] and [`MOST_DEBT_NS`] by it.
    rate: AtomicU64,
    least_ticks: AtomicU64,
    most_debt_ticks: AtomicU64,
    /// Odd while the next two are written. Stored with release behind them, and before them followed by a fence; loaded with acquire.
    version: AtomicU32,
    /// Ticks less off-CPU ticks, and the thread's clock, where the account began.
    begin_ticks: AtomicU64,
    begin_cpu: AtomicU64,
}

/// What of an account tells what is given out at a reading.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    begin: Reading,
    given: u64,
    rate: u64,
    least_ticks: i64,
    most_debt_ticks: i64,
}

impl Account {
    pub(super) const fn new() -> Self {
        Self {
            off_ticks: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            rate: AtomicU64::new(0),
            least_ticks: AtomicU64::new(0),
            most_debt_ticks: AtomicU64::new(0),
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
    #[inline(always)]
    fn settle_at_once(&self, reading: Reading, rate: u64) -> Option<u64> {
        self.terms().settle(reading, rate)
    }

    #[inline(always)]
    pub(super) fn terms(&self) -> Terms {
        Terms {
            begin: self.begin_reading(),
            given: self.given(),
            rate: self.rate.load(Ordering::Relaxed),
            least_ticks: self.least_ticks.load(Ordering::Relaxed) as i64,
            most_debt_ticks: self.most_debt_ticks.load(Ordering::Relaxed) as i64,
        }
    }

    /// Gives out what is exact, where it is as much as is given out at a time; moves it up to where it is as far below the one given out as it may be; takes over a new
    /// rate, and what lies behind stays as the old one told it.
    #[cold]
    fn settle_more(&self, reading: Reading, rate: u64) -> u64 {
        let terms = self.terms();
        let exact = terms.exact(reading);
        let pending = exact.wrapping_sub(terms.given) as i64;
        if pending >= terms.least_ticks {
            self.off_ticks.store(exact, Ordering::Relaxed);
        }
        if pending < -terms.most_debt_ticks {
            let least = terms.given.wrapping_sub(terms.most_debt_ticks as u64);
            self.begin_with(reading, least, rate);
        } else if rate != terms.rate {
            self.begin_with(reading, exact, rate);
        }
        self.given()
    }

    fn begin_with(&self, reading: Reading, exact: u64, rate: u64) {
        let clamped = |ns| rate::ticks_by(rate, ns).min(i64::MAX as u64);
        self.rate.store(rate, Ordering::Relaxed);
        self.least_ticks.store(clamped(LEAST_NS), Ordering::Relaxed);
        self.most_debt_ticks
            .store(clamped(MOST_DEBT_NS), Ordering::Relaxed);
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.begin_ticks
            .store(reading.ticks.wrapping_sub(exact), Ordering::Relaxed);
        self.begin_cpu.store(reading.cpu, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
        self.has_begun.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    fn begin_reading(&self) -> Reading {
        Reading {
            ticks: self.begin_ticks.load(Ordering::Relaxed),
            cpu: self.begin_cpu.load(Ordering::Relaxed),
        }
    }

    /// Returns what [`off_cpu_ticks`](super::off_cpu_ticks) would say now on the thread whose account this is, and whose number `os_id`; to some microseconds. `None` where that thread has never asked,
    /// or the system does not tell the time of others.
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

impl Terms {
    /// Returns what is given out at a reading; `None` where more is to be done than to say so.
    #[inline(always)]
    pub(super) fn settle(&self, reading: Reading, rate: u64) -> Option<u64> {
        let pending = self.exact(reading).wrapping_sub(self.given) as i64;
        let is_within = pending < self.least_ticks && pending >= -self.most_debt_ticks;
        (is_within && rate == self.rate).then_some(self.given)
    }

    /// Returns how much the counter went on by since the account began, and the thread's clock did not. Below zero it wraps.
    #[inline(always)]
    fn exact(&self, reading: Reading) -> u64 {
        off_between(self.begin, reading, self.rate)
    }
}

/// Returns the ticks between two readings that the thread's clock does not account for. Below zero it wraps.
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
        assert_eq!(settle(&account, 1_000 + 1_000_499, 50 + 5_000_000), 0);
        assert_eq!(settle(&account, 1_000 + 1_000_500, 50 + 5_000_000), 500);
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
