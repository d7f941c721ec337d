//! The change of a scope, with its confidence interval.
//!
//! The change is the ratio of a measure after and before, minus 1. Its interval comes from a
//! *bootstrap*, which estimates the ratio for other samples of the two recordings: each of
//! [`RESAMPLES`] resamples rebuilds both recordings from as many [`Blocks`] as there were, drawn
//! with replacement. It assumes no shape of the distribution; durations are skewed and have long
//! tails. It draws blocks instead of spans because neighbours resemble each other (H. Künsch, The
//! jackknife and the bootstrap for general stationary observations, Annals of Statistics 17
//! (1989)).
//!
//! The interval is the middle 95 % of the ratios, widened for the number of blocks. With few
//! blocks, a bootstrap underestimates the scatter: it lacks the factor `n / (n - 1)` of a variance,
//! and the heavier tails of Student's t (T. Hesterberg, What teachers should know about the
//! bootstrap, The American Statistician 69 (2015)). Both ends are moved out by that much, as
//! ratios.
//!
//! The random numbers start from the same seed for every scope, so a result depends neither on the
//! time nor on other scopes.

use fastrand::Rng;
use vor_capture::stats::{Blocks, Bucket};

/// Number of resamples.
const RESAMPLES: usize = if cfg!(test) { 400 } else { 2_000 };

/// Minimum number of blocks for an interval.
const MIN_BLOCKS: usize = 10;

/// Minimum number of spans above a percentile; with fewer, it is hardly more than the longest span.
const MIN_ABOVE: f64 = 10.0;

/// The 97.5th percentile of the standard normal distribution.
const NORMAL: f64 = 1.959_964;

/// The measure that is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Measure {
    /// The mean duration.
    Mean,
    /// The mean self time.
    OwnMean,
    /// The duration that this share of the spans does not exceed.
    Quantile(f64),
}

/// The relative change of a measure: 0.05 is 5 % more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) change: f64,
    /// The ends of the 95 % confidence interval; `None` if there are too few spans.
    pub(super) interval: Option<(f64, f64)>,
}

/// The blocks of a scope, prepared for a measure.
#[derive(Debug)]
enum Sample {
    /// Count and sum of each block.
    Sums(Vec<(f64, f64)>),
    Durations {
        quantile: f64,
        buckets: Vec<Bucket>,
        /// For each bucket, the number of spans of each block in it or in a shorter one.
        up_to: Vec<Vec<f64>>,
    },
}

/// Computes the change of a measure between two recordings; `None` if it was 0 or undefined before.
pub(super) fn change(measure: Measure, before: &Blocks, after: &Blocks) -> Option<Change> {
    let samples = [Sample::new(measure, before), Sample::new(measure, after)];
    let whole = |sample: &Sample| sample.value(&vec![1.0; sample.len()]);
    let ratio = whole(&samples[1]) / whole(&samples[0]);
    let is_known = ratio.is_finite();
    is_known.then(|| Change {
        change: ratio - 1.0,
        interval: interval(&samples, ratio),
    })
}

fn interval(samples: &[Sample; 2], ratio: f64) -> Option<(f64, f64)> {
    let is_enough = samples.iter().all(Sample::is_enough);
    if !is_enough || ratio <= 0.0 {
        return None;
    }
    let mut rng = Rng::with_seed(1);
    let mut ratios: Vec<f64> = Vec::with_capacity(RESAMPLES);
    let mut times_drawn = Vec::new();
    for _ in 0..RESAMPLES {
        let [before, after] = samples.each_ref().map(|sample| {
            times_drawn.clear();
            times_drawn.resize(sample.len(), 0.0);
            for _ in 0..sample.len() {
                times_drawn[rng.usize(..sample.len())] += 1.0;
            }
            sample.value(&times_drawn)
        });
        ratios.push(after / before);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| ratios[(part * (RESAMPLES - 1) as f64).round() as usize];
    let blocks = samples.iter().map(Sample::len).min().unwrap_or(0);
    let widened = |end: f64| ratio * (end / ratio).powf(widening(blocks)) - 1.0;
    let (low, high) = (widened(at(0.025)), widened(at(0.975)));
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

/// Returns the exponent that widens an interval from `blocks` blocks.
fn widening(blocks: usize) -> f64 {
    let degrees = blocks as f64 - 1.0;
    // Student's t from the normal distribution: M. Abramowitz and I. Stegun, Handbook of
    // mathematical functions, 26.7.5.
    let z = NORMAL;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let t = z + first / degrees + second / degrees.powi(2);
    t / z * (blocks as f64 / degrees).sqrt()
}

impl Sample {
    fn new(measure: Measure, blocks: &Blocks) -> Self {
        let quantile = match measure {
            Measure::Mean => {
                let sums = blocks
                    .iter()
                    .map(|block| (block.count as f64, block.total_ns as f64));
                return Self::Sums(sums.collect());
            }
            Measure::OwnMean => {
                let sums = blocks
                    .iter()
                    .map(|block| (block.count as f64, block.self_ns as f64));
                return Self::Sums(sums.collect());
            }
            Measure::Quantile(quantile) => quantile,
        };
        let buckets = blocks.buckets();
        let mut sums = vec![0.0; blocks.iter().count()];
        let up_to = buckets.iter().map(|bucket| {
            for (sum, &count) in sums.iter_mut().zip(&bucket.counts) {
                *sum += count as f64;
            }
            sums.clone()
        });
        let up_to = up_to.collect();
        Self::Durations {
            quantile,
            buckets,
            up_to,
        }
    }

    /// Returns the number of blocks.
    fn len(&self) -> usize {
        match self {
            Self::Sums(sums) => sums.len(),
            Self::Durations { up_to, .. } => up_to.first().map_or(0, Vec::len),
        }
    }

    /// Returns whether there are enough spans for an interval.
    fn is_enough(&self) -> bool {
        let above = match self {
            Self::Sums(_) => MIN_ABOVE,
            Self::Durations {
                quantile, up_to, ..
            } => {
                let count: f64 = up_to.last().map_or(0.0, |counts| counts.iter().sum());
                count * (1.0 - quantile)
            }
        };
        self.len() >= MIN_BLOCKS && above >= MIN_ABOVE
    }

    /// Returns the measure of a recording in which each block occurs as often as `times` says.
    fn value(&self, times: &[f64]) -> f64 {
        match self {
            Self::Sums(sums) => {
                let (mut count, mut total) = (0.0, 0.0);
                for (&times, &(block_count, block_total)) in times.iter().zip(sums) {
                    count += times * block_count;
                    total += times * block_total;
                }
                total / count
            }
            Self::Durations {
                quantile,
                buckets,
                up_to,
            } => {
                let weigh = |counts: &Vec<f64>| -> f64 {
                    let each = counts.iter().zip(times);
                    each.map(|(count, times)| count * times).sum()
                };
                let rank = quantile * up_to.last().map_or(0.0, weigh);
                let at = up_to.partition_point(|counts| weigh(counts) < rank);
                let Some(bucket) = buckets.get(at) else {
                    return 0.0;
                };
                let shorter = at.checked_sub(1).map_or(0.0, |below| weigh(&up_to[below]));
                let within = weigh(&up_to[at]) - shorter;
                // Interpolate within the bucket, or the result would jump from bucket to bucket.
                // A block with spans was drawn, so the rank is above 0 and the bucket not empty.
                let part = (rank - shorter) / within;
                bucket.low_ns as f64 + bucket.width_ns as f64 * part
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes durations with a long tail, whose neighbours correlate by `memory`.
    fn blocks(rng: &mut Rng, mean_ns: f64, memory: f64, count: usize) -> Blocks {
        let mut blocks = Blocks::new(true);
        let mut state = 0.0;
        for _ in 0..count {
            // The sum of 12 is normal enough.
            let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
            state = memory * state + (1.0 - memory * memory).sqrt() * normal;
            // A log-normal duration; the exponent's mean makes up for its scatter.
            let duration_ns = mean_ns * (0.6 * state - 0.18_f64).exp();
            blocks.add(duration_ns as u64, duration_ns as u64);
        }
        blocks
    }

    /// Returns how many of a hundred intervals contain the true change.
    fn coverage(measure: Measure, memory: f64, count: usize, change: f64) -> usize {
        let mut rng = Rng::with_seed(7);
        let holds = |_: &usize| {
            let before = blocks(&mut rng, 20_000.0, memory, count);
            let after = blocks(&mut rng, 20_000.0 * (1.0 + change), memory, count);
            let found = super::change(measure, &before, &after).unwrap();
            let (low, high) = found.interval.unwrap();
            assert!(low <= found.change && found.change <= high, "{found:?}");
            (low..=high).contains(&change)
        };
        (0..100).filter(holds).count()
    }

    #[track_caller]
    fn check_coverage(measure: Measure, memory: f64, count: usize, change: f64) {
        let (fewest, all) = (89, 100);
        let held = coverage(measure, memory, count, change);
        assert!(
            (fewest..=all).contains(&held),
            "{held} of 100 for {measure:?}, {memory}, {count} spans"
        );
    }

    #[test]
    fn nineteen_of_twenty_intervals_contain_the_true_change_of_a_mean() {
        check_coverage(Measure::Mean, 0.0, 20, 0.0);
        check_coverage(Measure::Mean, 0.0, 1_000, 0.1);
        check_coverage(Measure::OwnMean, 0.0, 500, -0.2);
        // Neighbours within 20 spans are alike.
        check_coverage(Measure::Mean, 0.95, 8_000, 0.05);
    }

    #[test]
    fn nineteen_of_twenty_intervals_contain_the_true_change_of_a_quantile() {
        check_coverage(Measure::Quantile(0.5), 0.0, 2_000, 0.1);
        check_coverage(Measure::Quantile(0.99), 0.0, 8_000, 0.1);
    }

    #[test]
    fn the_same_question_has_the_same_answer() {
        let mut rng = Rng::with_seed(3);
        let (before, after) = (
            blocks(&mut rng, 900.0, 0.0, 300),
            blocks(&mut rng, 950.0, 0.0, 200),
        );
        for measure in [Measure::Mean, Measure::Quantile(0.5)] {
            let answer = change(measure, &before, &after);
            assert_eq!(answer, change(measure, &before, &after));
            let itself = change(measure, &before, &before).unwrap();
            assert_eq!(itself.change, 0.0);
            let (low, high) = itself.interval.unwrap();
            assert!(low < 0.0 && high > 0.0);
        }
    }

    #[test]
    fn too_few_spans_have_no_interval() {
        let mut rng = Rng::with_seed(3);
        let many = blocks(&mut rng, 900.0, 0.0, 3_000);
        let few = blocks(&mut rng, 900.0, 0.0, 9);
        let some = blocks(&mut rng, 900.0, 0.0, 999);
        assert_eq!(change(Measure::Mean, &many, &few).unwrap().interval, None);
        assert!(
            change(Measure::Mean, &many, &some)
                .unwrap()
                .interval
                .is_some()
        );
        let p99 = Measure::Quantile(0.99);
        assert!(change(p99, &many, &many).unwrap().interval.is_some());
        assert_eq!(change(p99, &many, &few).unwrap().interval, None);
        let mut zero = Blocks::new(false);
        (0..50).for_each(|_| zero.add(0, 0));
        assert_eq!(change(Measure::Mean, &zero, &many), None);
        let gone = Change {
            change: -1.0,
            interval: None,
        };
        assert_eq!(change(Measure::Mean, &many, &zero), Some(gone));
    }

    #[test]
    fn an_interval_needs_10_spans_and_10_above_a_percentile() {
        let spans = |count: u64| {
            let mut blocks = Blocks::new(true);
            (0..count).for_each(|ns| blocks.add(50 + ns % 7, 1));
            blocks
        };
        for (measure, count) in [
            (Measure::Mean, 10),
            (Measure::OwnMean, 10),
            (Measure::Quantile(0.5), 20),
            (Measure::Quantile(0.99), 1_000),
        ] {
            let (enough, few) = (spans(count), spans(count - 1));
            let has_interval =
                |before, after| change(measure, before, after).unwrap().interval.is_some();
            assert!(has_interval(&enough, &enough), "{measure:?}");
            assert!(!has_interval(&few, &enough), "{measure:?}");
            assert!(!has_interval(&enough, &few), "{measure:?}");
        }
    }

    #[test]
    fn a_mean_is_that_of_all_drawn_blocks() {
        let sample = Sample::Sums(vec![(2.0, 10.0), (3.0, 30.0), (4.0, 8.0)]);
        // (2 * 10 + 3 * 8) / (2 * 2 + 3 * 4)
        assert_eq!(sample.value(&[2.0, 0.0, 3.0]), 2.75);
    }

    #[test]
    fn a_percentile_is_interpolated_within_its_bucket() {
        let mut blocks = Blocks::new(true);
        // A bucket of a nanosecond each, but that of 200 goes to 203.
        [10, 20, 20, 200]
            .into_iter()
            .for_each(|ns| blocks.add(ns, ns));
        let value = |quantile, times: [f64; 4]| {
            Sample::new(Measure::Quantile(quantile), &blocks).value(&times)
        };
        // Rank 3.5 of 7: 3 are shorter, and 2 are in the bucket.
        assert_eq!(value(0.5, [3.0, 1.0, 1.0, 2.0]), 20.25);
        // Rank 5.25 of 7: 5 are shorter, and 2 are in the bucket.
        assert_eq!(value(0.75, [3.0, 1.0, 1.0, 2.0]), 200.5);
        // Rank 3 of 6 is the end of a bucket.
        assert_eq!(value(0.5, [3.0, 1.0, 1.0, 1.0]), 11.0);
        // Blocks that were not drawn.
        assert_eq!(value(0.5, [0.0, 1.0, 1.0, 2.0]), 21.0);
        assert_eq!(value(0.5, [0.0, 0.0, 0.0, 1.0]), 202.0);
    }

    #[test]
    fn an_interval_has_the_middle_of_the_resamples() {
        let mut rng = Rng::with_seed(9);
        let mut spans = |count| -> Vec<u64> {
            let draw = |_| 1_000 + rng.u64(..1 << 20);
            (0..count).map(draw).collect()
        };
        let (old, new) = (spans(12), spans(15));
        let blocks = |spans: &[u64]| {
            let mut blocks = Blocks::new(false);
            spans.iter().for_each(|&ns| blocks.add(2 * ns, ns));
            blocks
        };
        let (before, after) = (blocks(&old), blocks(&new));
        // The same draws, span by span.
        let mut rng = Rng::with_seed(1);
        let mut drawn_mean = |spans: &[u64]| {
            let drawn = (0..spans.len()).map(|_| spans[rng.usize(..spans.len())]);
            drawn.sum::<u64>() as f64 / spans.len() as f64
        };
        let mut ratios = [0.0; 400];
        for ratio in &mut ratios {
            let before = drawn_mean(&old);
            *ratio = drawn_mean(&new) / before;
        }
        ratios.sort_unstable_by(f64::total_cmp);
        // Their neighbours are other ratios.
        for at in [10, 389] {
            assert!(ratios[at - 1] < ratios[at] && ratios[at] < ratios[at + 1]);
        }
        let mean = |spans: &[u64]| spans.iter().sum::<u64>() as f64 / spans.len() as f64;
        let ratio = mean(&new) / mean(&old);
        let widened = |at: usize| ratio * (ratios[at] / ratio).powf(widening(12)) - 1.0;
        for measure in [Measure::Mean, Measure::OwnMean] {
            let found = change(measure, &before, &after).unwrap();
            let (low, high) = found.interval.unwrap();
            for (found, expected) in [
                (found.change, ratio - 1.0),
                (low, widened(10)),
                (high, widened(389)),
            ] {
                assert!(
                    (found - expected).abs() < 1e-12,
                    "{found} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn an_interval_without_an_end_is_none() {
        let mut before = Blocks::new(false);
        (0..10).for_each(|span| before.add(if span == 4 { 100 } else { 0 }, 0));
        let mut after = Blocks::new(false);
        (0..10).for_each(|_| after.add(11, 0));
        // A third of the resamples lacks the only block before that takes time.
        let found = change(Measure::Mean, &before, &after).unwrap();
        assert_eq!(found.interval, None);
        assert!((found.change - 0.1).abs() < 1e-12);
    }

    #[test]
    fn few_blocks_widen_by_the_t_distribution() {
        // t of 97.5 % for 9, 31 and 63 degrees of freedom.
        for (blocks, t) in [(10, 2.2622), (32, 2.0395), (64, 1.9983)] {
            let n = blocks as f64;
            let expected = t / NORMAL * (n / (n - 1.0)).sqrt();
            assert!((widening(blocks) - expected).abs() < 4e-3, "{blocks}");
        }
        // The approximation itself.
        for (blocks, expected) in [(10, 1.214_592_580_416), (32, 1.057_192_280_159)] {
            assert!((widening(blocks) - expected).abs() < 1e-11, "{blocks}");
        }
    }
}
