//! A log-linear histogram of nanoseconds that costs one increment per value.
//!
//! Each octave (the values between two powers of two) is cut into 32 buckets of equal width, and
//! values below 64 have a bucket of their own. A bucket is at most 1/32 as wide as its lowest
//! value, so its middle is at most 1.6 % away from any value in it.
//!
//! All of `u64` needs 1 920 buckets, 15 KiB. The durations of one call site rarely span more than a
//! few octaves, so only the octaves between the lowest and the highest counted are stored:
//! `counts[i]` counts bucket `base + i`.
//!
//! There is one per call site, and every span adds to one, so `hdrhistogram` does not serve here:
//! for durations of 20 to 130 µs, a value costs 17 instructions and a site 768 bytes, where a
//! histogram of two digits takes 75 instructions and 11 264 bytes (callgrind, x86-64).

/// Log2 of the number of buckets per octave.
const OCTAVE_BITS: u32 = 5;

/// Number of buckets per octave.
const OCTAVE: usize = 1 << OCTAVE_BITS;

/// Counts values by size.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    base: usize,
    counts: Vec<u64>,
}

/// Returns the bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - 1 - (value | 1 << OCTAVE_BITS).leading_zeros()) - OCTAVE_BITS;
    ((shift as usize) << OCTAVE_BITS) + (value >> shift) as usize
}

/// Returns the lowest value of a bucket, and how many values it holds.
fn bounds(bucket: usize) -> (u64, u64) {
    let shift = (bucket >> OCTAVE_BITS).saturating_sub(1);
    let mantissa = (bucket - (shift << OCTAVE_BITS)) as u64;
    (mantissa << shift, 1 << shift)
}

/// A bucket that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its number, of 1 920.
    pub number: usize,
    /// The lowest value that belongs here.
    pub low: u64,
    /// How many different values belong here.
    pub width: u64,
    /// How many values were counted.
    pub count: u64,
}

impl Counted {
    /// Returns the value in the middle, which stands for all of the bucket.
    #[must_use]
    pub fn middle(&self) -> u64 {
        self.low + (self.width - 1) / 2
    }
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        match self.counts.get_mut(bucket.wrapping_sub(self.base)) {
            Some(count) => *count += 1,
            None => self.add_slow(bucket, 1),
        }
    }

    /// Counts `count` values in a bucket that `counts` may not include yet.
    #[cold]
    fn add_slow(&mut self, bucket: usize, count: u64) {
        self.reach(bucket);
        self.counts[bucket - self.base] += count;
    }

    /// Extends `counts` to the whole octave of `bucket`.
    fn reach(&mut self, bucket: usize) {
        let first = bucket & !(OCTAVE - 1);
        if self.counts.is_empty() {
            self.base = first;
        }
        if first < self.base {
            let missing = self.base - first;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.base = first;
        }
        let length = first + OCTAVE - self.base;
        if self.counts.len() < length {
            self.counts.resize(length, 0);
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (i, &count) in other.counts.iter().enumerate() {
            if count > 0 {
                self.add_slow(other.base + i, count);
            }
        }
    }

    /// Returns the buckets that are not empty, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = Counted> {
        let counted = (self.base..)
            .zip(&self.counts)
            .filter(|&(_, &count)| count > 0);
        counted.map(|(number, &count)| {
            let (low, width) = bounds(number);
            Counted {
                number,
                low,
                width,
                count,
            }
        })
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the value below or at which the fraction `quantile` of all values lies: the middle
    /// of the bucket that holds the value of rank `ceil(quantile * count)`, counted from 1. Returns
    /// 0 when nothing was counted.
    #[must_use]
    pub fn value_at(&self, quantile: f64) -> u64 {
        let total = self.count();
        let rank = ((quantile * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut passed = 0;
        let reaches = |bucket: &Counted| {
            passed += bucket.count;
            passed >= rank
        };
        self.buckets()
            .find(reaches)
            .map_or(0, |bucket| bucket.middle())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_tile_the_whole_range() {
        let mut next = 0_u64;
        for i in 0..bucket(u64::MAX) {
            let (low, width) = bounds(i);
            assert_eq!(low, next, "bucket {i} begins where the one before it ends");
            assert_eq!(bucket(low), i);
            assert_eq!(bucket(low + (width - 1)), i);
            assert!(
                width == 1 || low / width >= 32,
                "bucket {i} is at most 1/32 of its value wide"
            );
            next = low + width;
        }
        let (low, width) = bounds(bucket(u64::MAX));
        assert_eq!(low, next);
        assert_eq!(low + (width - 1), u64::MAX);
        assert_eq!(bucket(u64::MAX), 1_919);
    }

    #[test]
    fn an_empty_histogram_is_zero() {
        assert_eq!(Histogram::default().value_at(0.5), 0);
    }

    #[test]
    fn memory_follows_the_octaves() {
        let mut histogram = Histogram::default();
        for value in 300..400 {
            histogram.add(value);
        }
        assert_eq!(
            histogram.counts.len(),
            OCTAVE,
            "one octave holds 256 to 511"
        );
        histogram.add(100);
        assert_eq!(
            histogram.counts.len(),
            3 * OCTAVE,
            "it grows downwards to the octave of 64 to 127"
        );
        assert_eq!(histogram.counts.iter().sum::<u64>(), 101);
        assert_eq!(histogram.value_at(0.0), 100);
    }

    fn mixed_values() -> impl Strategy<Value = Vec<u64>> {
        let value = (any::<u64>(), 0_u32..64).prop_map(|(bits, shift)| bits >> shift);
        proptest::collection::vec(value, 1..400)
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_64th_of_the_exact_ones(
            mut values in mixed_values(),
            quantile in 0.0_f64..=1.0,
        ) {
            let mut histogram = Histogram::default();
            for &value in &values {
                histogram.add(value);
            }
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            let found = histogram.value_at(quantile);
            prop_assert!(
                exact.abs_diff(found) <= exact / 64 + 1,
                "{found} instead of {exact}"
            );
            prop_assert!(
                exact >= 64 || found == exact,
                "values below 64 are exact: {found} instead of {exact}"
            );
        }

        #[test]
        fn merging_equals_counting_together(left in mixed_values(), right in mixed_values()) {
            let of = |values: &[u64]| {
                let mut histogram = Histogram::default();
                for &value in values {
                    histogram.add(value);
                }
                histogram
            };
            let mut merged = of(&left);
            merged.merge(&of(&right));
            let together = of(&[left, right].concat());
            for percent in 0..=100 {
                let quantile = f64::from(percent) / 100.0;
                prop_assert_eq!(merged.value_at(quantile), together.value_at(quantile));
            }
        }
    }
}
