//! Measures the cost of a scope on this machine, with the real scope.

use std::hint::black_box;

use vor_capture::Error;
use vor_capture::sort::sort_by;

use crate::hot::record_state;
use crate::setup::Config;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;
use crate::{clock, setup};

/// Picoseconds per empty scope and per two clock readings, 0 before [`calibrate`]. Written by it,
/// read by any thread.
static SCOPE_PS: AtomicU64 = AtomicU64::new(0);
static FLOOR_PS: AtomicU64 = AtomicU64::new(0);

/// Scopes per round. They fit in any ring, and most rounds stay within pages of the ring that are
/// already in memory. A program pays for the first touch of a page once per thread, but for a scope
/// each time.
const SCOPES: u32 = 64;
/// Number of rounds, of which the median counts.
const ROUNDS: usize = 512;

/// Measures an empty scope and the clock on this thread, in a millisecond or two. It stores both
/// for [`empty_span_ns`] and [`SpanBudget`].
///
/// The scope is that of `profile_scope!`, including everything that the features of this build add.
/// The result is the median of many rounds, so it excludes interruptions and the first touch of a
/// ring's pages.
///
/// If recording is on, the scopes of the measurement are recorded as `vor::calibrate`. If it is
/// off, it is switched on for the measurement without a sink, so that the real scope is measured.
///
/// ```
/// # mod vor { pub use vor_recorder::setup::{calibrate, clock_floor_ns, empty_span_ns}; }
/// vor::calibrate();
/// println!("a scope costs {} ns", vor::empty_span_ns());
/// println!("reading the clock twice costs {} ns", vor::clock_floor_ns());
/// ```
pub fn calibrate() {
    let was_on = record_state::is_on();
    if !was_on {
        Config::new().enable();
    }
    let mut scopes = Vec::with_capacity(ROUNDS);
    let mut floors = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        floors.push(two_readings());
        let begin = clock::ticks();
        for _ in 0..SCOPES {
            // Under loom a call site is not a static.
            #[cfg(not(loom))]
            crate::profile_scope!("vor::calibrate");
        }
        scopes.push(clock::ticks().saturating_sub(begin));
    }
    if !was_on {
        setup::disable();
    }
    SCOPE_PS.store(median_ps(&mut scopes), Ordering::Relaxed);
    FLOOR_PS.store(median_ps(&mut floors), Ordering::Relaxed);
}

/// Returns the ticks that a round of two clock readings takes.
fn two_readings() -> u64 {
    let begin = clock::ticks();
    for _ in 0..SCOPES {
        black_box(clock::ticks());
        black_box(clock::ticks());
    }
    clock::ticks().saturating_sub(begin)
}

/// Returns the cost of a scope in nanoseconds, for budgets: what [`calibrate`] has measured, or an
/// upper bound from two clock readings, which are measured here without recording anything.
pub(super) fn cost_for_budgets_ns() -> f64 {
    const RATIO: f64 = 1.5;
    match SCOPE_PS.load(Ordering::Relaxed) {
        0 => {
            let mut rounds: Vec<u64> = (0..ROUNDS).map(|_| two_readings()).collect();
            RATIO * median_ps(&mut rounds) as f64 / 1000.0
        }
        scope_ps => scope_ps as f64 / 1000.0,
    }
}

fn median_ps(rounds: &mut [u64]) -> u64 {
    sort_by(rounds, Ord::cmp);
    let ticks = rounds.get(rounds.len() / 2).copied().unwrap_or(0);
    // At least 1, so that 0 keeps meaning "not measured".
    (clock::approximate_ns(ticks.saturating_mul(1000)) / u64::from(SCOPES)).max(1)
}

/// Returns the cost of an empty scope, in nanoseconds; 0 before [`calibrate`].
///
/// ```
/// # mod vor { pub use vor_recorder::setup::{calibrate, empty_span_ns}; }
/// vor::calibrate();
/// let calls = 1_000;
/// println!("{calls} scopes cost about {} ns", calls * vor::empty_span_ns());
/// ```
#[must_use]
pub fn empty_span_ns() -> u64 {
    SCOPE_PS.load(Ordering::Relaxed).div_ceil(1000)
}

/// Returns the cost of two clock readings, in nanoseconds; 0 before [`calibrate`].
///
/// ```
/// # mod vor { pub use vor_recorder::setup::{calibrate, clock_floor_ns}; }
/// vor::calibrate();
/// println!("no scope can cost less than {} ns", vor::clock_floor_ns());
/// ```
#[must_use]
pub fn clock_floor_ns() -> u64 {
    FLOOR_PS.load(Ordering::Relaxed).div_ceil(1000)
}

/// A bound on the cost of a scope that a program or a CI job can enforce.
///
/// A ratio to the clock hardly depends on the machine, so it is the bound for CI jobs on any
/// machine. Nanoseconds are the bound for a known machine. Both are meant for optimized builds:
/// without optimization a scope costs some ten times as much. A busy machine can distort one
/// measurement, so a test should try a few times.
///
/// # Examples
///
/// A test that fails when a scope becomes expensive, run by `cargo test --release`:
///
/// ```
/// # mod vor { pub use vor_recorder::setup::{SpanBudget, calibrate}; }
/// fn scopes_are_cheap() -> bool {
///     let budget = vor::SpanBudget::new().max_ratio(2.0).max_ns(200);
///     (0..5).any(|_| {
///         vor::calibrate();
///         budget.check().inspect_err(|error| eprintln!("{error}")).is_ok()
///     })
/// }
/// # let _ = scopes_are_cheap();
/// # vor::SpanBudget::new().max_ns(10_000).check().unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanBudget {
    max_ns: Option<u64>,
    max_ratio: Option<f64>,
}

impl SpanBudget {
    /// A budget without bounds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows at most `ns` nanoseconds per empty scope.
    #[must_use]
    pub fn max_ns(mut self, ns: u64) -> Self {
        self.max_ns = Some(ns);
        self
    }

    /// Allows at most `ratio` times the cost of two clock readings.
    #[must_use]
    pub fn max_ratio(mut self, ratio: f64) -> Self {
        self.max_ratio = Some(ratio);
        self
    }

    /// Compares the budget with the last [`calibrate`], and calls it first if there was none.
    ///
    /// # Errors
    ///
    /// A bound is exceeded; the message names the bound and the measurement
    /// ([`Error::is_config`]).
    pub fn check(&self) -> Result<(), Error> {
        if SCOPE_PS.load(Ordering::Relaxed) == 0 {
            calibrate();
        }
        let scope_ns = SCOPE_PS.load(Ordering::Relaxed) as f64 / 1000.0;
        let floor_ns = FLOOR_PS.load(Ordering::Relaxed) as f64 / 1000.0;
        if let Some(max_ns) = self.max_ns
            && scope_ns > max_ns as f64
        {
            let message =
                format!("an empty scope takes {scope_ns:.1} ns; the budget is {max_ns} ns");
            return Err(Error::config(message));
        }
        let ratio = scope_ns / floor_ns;
        if let Some(max_ratio) = self.max_ratio
            && ratio > max_ratio
        {
            let message = format!(
                "an empty scope takes {ratio:.2} times two clock readings ({scope_ns:.1} ns, clock \
                {floor_ns:.1} ns); the budget is {max_ratio} times"
            );
            return Err(Error::config(message));
        }
        Ok(())
    }
}
