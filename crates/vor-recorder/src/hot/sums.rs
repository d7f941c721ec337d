//! Sums of scopes that were counted when they ended, and not recorded: the sums of a call site in
//! ticks, and its row in nanoseconds.
//!
//! The histogram has four buckets of equal width in each octave (the values between two powers of
//! two), and one for each value below 4. A bucket is at most a quarter as wide as its lowest value,
//! so its middle is at most 12.5 % away from any value in it. Values of 2^46 ticks and more, which
//! are hours, share the last one.

use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::timeline::{RATE_BITS, Timeline};
use vor_capture::sort::sort_by;
use vor_capture::stats::ScopeStats;

/// Log2 of the number of buckets per octave.
const OCTAVE_BITS: u32 = 2;

/// Log2 of the first value that shares its bucket with all higher ones. A model has few buckets.
const RANGE_BITS: u32 = if cfg!(loom) { 2 } else { 46 };

/// Number of buckets.
pub(crate) const BUCKETS: usize = ((RANGE_BITS - OCTAVE_BITS + 1) << OCTAVE_BITS) as usize;

/// Returns the bucket of a value. If the value belongs to the last bucket, the number may be beyond
/// it.
#[inline(always)]
pub(crate) fn bucket(ticks: u64) -> usize {
    let shift = (u64::BITS - 1 - OCTAVE_BITS) - (ticks | 1 << OCTAVE_BITS).leading_zeros();
    ((shift as usize) << OCTAVE_BITS) + (ticks >> shift) as usize
}

/// Returns the value in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let shift = (bucket >> OCTAVE_BITS).saturating_sub(1);
    let low = ((bucket - (shift << OCTAVE_BITS)) as u64) << shift;
    low + ((1 << shift) - 1) / 2
}

/// The scopes of one call site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Sum of all durations, including those of recursive calls.
    pub(crate) total_ticks: u64,
    /// The part of it in recursive calls, which the calls around them include too.
    pub(crate) nested_ticks: u64,
    /// The part of it outside of nested scopes.
    pub(crate) self_ticks: u64,
    pub(crate) min_ticks: u64,
    pub(crate) max_ticks: u64,
    /// Number of scopes that were skipped, so that nothing else is known of them.
    pub(crate) skipped: u64,
    /// Number of scopes by duration.
    pub(crate) buckets: [u64; BUCKETS],
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            total_ticks: 0,
            nested_ticks: 0,
            self_ticks: 0,
            min_ticks: u64::MAX,
            max_ticks: 0,
            skipped: 0,
            buckets: [0; BUCKETS],
        }
    }
}

impl Sums {
    /// Counts a scope of this duration. `self_ticks` is the part outside of nested scopes.
    pub(crate) fn add(&mut self, ticks: u64, self_ticks: u64) {
        self.total_ticks = self.total_ticks.wrapping_add(ticks);
        self.self_ticks = self.self_ticks.wrapping_add(self_ticks);
        self.min_ticks = self.min_ticks.min(ticks);
        self.max_ticks = self.max_ticks.max(ticks);
        self.buckets[bucket(ticks).min(BUCKETS - 1)] += 1;
    }

    /// Adds the scopes of the same call site that were counted elsewhere.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.total_ticks = self.total_ticks.wrapping_add(other.total_ticks);
        self.nested_ticks = self.nested_ticks.wrapping_add(other.nested_ticks);
        self.self_ticks = self.self_ticks.wrapping_add(other.self_ticks);
        self.min_ticks = self.min_ticks.min(other.min_ticks);
        self.max_ticks = self.max_ticks.max(other.max_ticks);
        self.skipped += other.skipped;
        for (mine, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += others;
        }
    }

    /// Returns the number of scopes.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the duration at a quantile, in ticks: the middle of the bucket that holds the scope
    /// of that rank.
    // Out of line, because each of the percentiles of a row would get a copy of the loop.
    #[inline(never)]
    fn value_at(&self, quantile: f64) -> u64 {
        let total = self.count();
        let rank = ((quantile * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        // During a concurrent count, the minimum may be newer than the maximum.
        let (min, max) = (self.min_ticks.min(self.max_ticks), self.max_ticks);
        found.map_or(0, middle).clamp(min, max)
    }

    /// Returns the row of the scopes, with durations in nanoseconds.
    pub(crate) fn row(&self, site: SiteId, name: &str, rate: Rate) -> ScopeStats {
        let count = self.count();
        let at = |quantile| rate.ns(self.value_at(quantile));
        let mut row = ScopeStats::default();
        row.site = site;
        row.name = name.to_owned();
        row.count = count;
        row.total_ns = rate.ns(self.total_ticks.saturating_sub(self.nested_ticks));
        row.self_ns = rate.ns(self.self_ticks);
        row.min_ns = rate.ns(self.min_ticks.min(self.max_ticks));
        row.mean_ns = rate.ns(self.total_ticks) as f64 / count.max(1) as f64;
        row.p50_ns = at(0.50);
        row.p95_ns = at(0.95);
        row.p99_ns = at(0.99);
        row.max_ns = rate.ns(self.max_ticks);
        row
    }
}

/// Nanoseconds per tick, over the whole time since recording began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(u128);

impl Rate {
    /// Returns the mean rate of the timeline between two ticks.
    pub(crate) fn of(timeline: &Timeline, start_ticks: u64, now_ticks: u64) -> Self {
        let ns =
            i128::from(timeline.unix_ns(now_ticks)) - i128::from(timeline.unix_ns(start_ticks));
        let ns = u128::try_from(ns).unwrap_or(0);
        Self((ns << RATE_BITS) / u128::from(now_ticks.saturating_sub(start_ticks).max(1)))
    }

    fn ns(self, ticks: u64) -> u64 {
        u64::try_from(u128::from(ticks).saturating_mul(self.0) >> RATE_BITS).unwrap_or(u64::MAX)
    }
}

/// Statistics of the scopes of one thread.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ThreadStats {
    /// The thread; `None` for all ended threads together.
    pub thread: Option<ThreadId>,
    /// Its name, empty if it has none.
    pub name: String,
    /// A row per call site that ended a scope, ascending by [`SiteId`].
    pub scopes: Vec<ScopeStats>,
}

/// Name of the row for the scopes of all sites whose ids are too large for a row of their own.
const BEYOND: &str = "(scopes beyond 65 535)";

/// Makes rows of the sums of call sites, ascending.
pub(crate) fn rows<'a>(
    sums: impl IntoIterator<Item = (u32, &'a Sums)>,
    catalog: &Catalog,
    rate: Rate,
) -> Vec<ScopeStats> {
    let mut rows: Vec<ScopeStats> = sums
        .into_iter()
        .map(|(site, sums)| {
            let name = match site {
                0 => BEYOND,
                _ => catalog.site_name(SiteId(site)),
            };
            sums.row(SiteId(site), name, rate)
        })
        .filter(|row| row.count > 0)
        .collect();
    sort_by(&mut rows, |a, b| a.site.cmp(&b.site));
    rows
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_middle_is_in_its_bucket_and_near_all_that_is() {
        let mut before = None;
        for i in 0..BUCKETS - 1 {
            assert_eq!(bucket(middle(i)), i);
            assert!(before < Some(middle(i)));
            before = Some(middle(i));
        }
        assert_eq!(bucket((1 << RANGE_BITS) - 1), BUCKETS - 1);
        assert_eq!(bucket(1 << RANGE_BITS), BUCKETS);
        assert!(bucket(u64::MAX) > BUCKETS);
    }

    proptest! {
        #[test]
        fn percentiles_are_an_eighth_off_at_most(
            values in proptest::collection::vec(
                (0_u32..46).prop_flat_map(|bits| 0..1_u64 << bits),
                1..300,
            ),
            percent in 0_u32..=100,
        ) {
            let mut sums = Sums::default();
            for &value in &values {
                sums.add(value, value / 2);
            }
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let quantile = f64::from(percent) / 100.0;
            let rank = ((quantile * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let (exact, found) = (sorted[rank - 1], sums.value_at(quantile));
            prop_assert!(
                exact.abs_diff(found) as f64 <= exact as f64 / 8.0,
                "{found} instead of {exact}"
            );
            prop_assert_eq!(sums.count(), values.len() as u64);
            prop_assert_eq!(sums.total_ticks, values.iter().sum::<u64>());
            prop_assert_eq!(
                (sums.min_ticks, sums.max_ticks),
                (sorted[0], sorted[sorted.len() - 1])
            );
        }

        #[test]
        fn merging_equals_counting_together(
            left in proptest::collection::vec(any::<u32>(), 0..50),
            right in proptest::collection::vec(any::<u32>(), 0..50),
        ) {
            let of = |values: &[u32]| {
                let mut sums = Sums::default();
                values.iter().for_each(|&value| sums.add(value.into(), u64::from(value) / 3));
                sums
            };
            let mut merged = of(&left);
            merged.merge(&of(&right));
            prop_assert_eq!(merged, of(&[left, right].concat()));
        }
    }
}
