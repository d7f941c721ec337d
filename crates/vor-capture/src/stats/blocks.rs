//! The spans of a call site in stretches of time, to distinguish chance from change.
//!
//! A mean is off by chance. The scatter of independent spans would say how far. But spans are not
//! independent: caches warm up, frequencies change, a phase of the program makes many neighbours
//! slow. Blocks of consecutive spans keep what neighbours have in common within a block, so what
//! one block has over another is chance (*batch means*: B. Schmeiser, Batch size effects in the
//! analysis of simulation output, Operations Research 30 (1982), who also finds that more than some
//! 30 blocks are of little use).
//!
//! The number of spans is not known in advance. So the first blocks hold a span each, and whenever
//! there are [`MAX_BLOCKS`], neighbours are merged two by two and later blocks hold twice as many.
//! At any time there are between half of `MAX_BLOCKS` and all of them, however many spans there
//! were:
//!
//! ```text
//! 64 blocks of n spans  ─▶  32 blocks of 2n spans  ─▶  33, 34, … of 2n spans
//! ```
//!
//! Percentiles need a histogram per block, which is optional.

use super::histogram::Histogram;

/// Number of blocks at which neighbours are merged.
const MAX_BLOCKS: usize = 64;

/// The spans of a call site, cut into blocks of equally many consecutive ones; the last may hold
/// fewer.
///
/// # Examples
///
/// ```
/// use vor_capture::stats::Blocks;
///
/// let mut blocks = Blocks::new(false);
/// for duration_ns in 0..1_000 {
///     blocks.add(duration_ns, duration_ns / 2);
/// }
/// let counts: Vec<u64> = blocks.iter().map(|block| block.count).collect();
/// assert_eq!(counts.iter().sum::<u64>(), 1_000);
/// assert_eq!((counts.len(), counts[0]), (63, 16));
/// ```
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Spans of a full block.
    block_spans: u64,
    whole: Vec<Block>,
    /// The block that is being filled.
    last: Block,
    has_histograms: bool,
}

/// The sums of consecutive spans. They wrap around as those of
/// [`StatsBuilder`](super::StatsBuilder) do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Block {
    /// Number of spans.
    pub count: u64,
    /// Sum of their durations in nanoseconds.
    pub total_ns: u64,
    /// Sum of their self times in nanoseconds.
    pub self_ns: u64,
    histogram: Histogram,
}

/// Spans of nearly the same duration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bucket {
    /// The shortest duration that belongs here, in nanoseconds.
    pub low_ns: u64,
    /// How many durations belong here: those from `low_ns` to `low_ns + width_ns - 1`.
    pub width_ns: u64,
    /// How many spans of each block have one of them.
    pub counts: Vec<u64>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Blocks {
    /// Makes blocks of no spans. Only blocks with histograms have [`buckets`](Self::buckets); a
    /// histogram takes a few kilobytes.
    #[must_use]
    pub fn new(has_histograms: bool) -> Self {
        Self {
            block_spans: 1,
            whole: Vec::new(),
            last: Block::default(),
            has_histograms,
        }
    }

    /// Adds the next span.
    #[inline]
    pub fn add(&mut self, total_ns: u64, self_ns: u64) {
        let last = &mut self.last;
        last.count += 1;
        last.total_ns = last.total_ns.wrapping_add(total_ns);
        last.self_ns = last.self_ns.wrapping_add(self_ns);
        if self.has_histograms {
            last.histogram.add(total_ns);
        }
        if last.count == self.block_spans {
            self.end_block();
        }
    }

    #[cold]
    fn end_block(&mut self) {
        self.whole.push(std::mem::take(&mut self.last));
        if self.whole.len() == MAX_BLOCKS {
            self.block_spans *= 2;
            for i in 0..MAX_BLOCKS / 2 {
                let mut block = std::mem::take(&mut self.whole[2 * i]);
                block.append(&self.whole[2 * i + 1]);
                self.whole[i] = block;
            }
            self.whole.truncate(MAX_BLOCKS / 2);
        }
    }

    /// Returns the blocks in the order of time, those without spans left out.
    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        let last = Some(&self.last).filter(|last| last.count > 0);
        self.whole.iter().chain(last)
    }

    /// Returns the durations of the spans, ascending, with a count for each block of
    /// [`iter`](Self::iter): a histogram in which a bucket is at most 1/32 as wide as its shortest
    /// duration. It is empty without histograms.
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        let number = self.iter().count();
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut all = Histogram::default();
        for block in self.iter() {
            all.merge(&block.histogram);
        }
        buckets.extend(all.buckets().map(|bucket| Bucket {
            low_ns: bucket.low,
            width_ns: bucket.width,
            counts: vec![0; number],
        }));
        for (i, block) in self.iter().enumerate() {
            // Both ascend, and every bucket of a block is among them.
            let mut at = 0;
            for own in block.histogram.buckets() {
                while buckets
                    .get(at)
                    .is_some_and(|bucket| bucket.low_ns < own.low)
                {
                    at += 1;
                }
                if let Some(bucket) = buckets.get_mut(at) {
                    bucket.counts[i] = own.count;
                }
            }
        }
        buckets
    }
}

impl Block {
    /// Appends the block behind this one.
    fn append(&mut self, next: &Self) {
        self.count += next.count;
        self.total_ns = self.total_ns.wrapping_add(next.total_ns);
        self.self_ns = self.self_ns.wrapping_add(next.self_ns);
        self.histogram.merge(&next.histogram);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_number_of_blocks_stays_between_half_and_all() {
        let mut blocks = Blocks::new(true);
        assert_eq!(blocks.iter().count(), 0);
        for i in 1..10_000_u64 {
            blocks.add(i, 0);
            let number = blocks.iter().count();
            assert!(number <= MAX_BLOCKS, "{number} blocks after {i} spans");
            assert!(
                number >= MAX_BLOCKS / 2 || number as u64 == i,
                "{number} blocks after {i} spans"
            );
        }
    }

    proptest! {
        #[test]
        fn blocks_hold_consecutive_spans_and_all_of_them(
            durations in proptest::collection::vec(0_u64..100_000, 0..700),
        ) {
            let mut blocks = Blocks::new(true);
            for &ns in &durations {
                blocks.add(ns, ns / 3);
            }
            let buckets = blocks.buckets();
            let mut rest = durations.as_slice();
            for (i, block) in blocks.iter().enumerate() {
                let (own, later) = rest.split_at(block.count as usize);
                rest = later;
                prop_assert_eq!(block.total_ns, own.iter().sum::<u64>());
                prop_assert_eq!(block.self_ns, own.iter().map(|ns| ns / 3).sum::<u64>());
                for bucket in &buckets {
                    let within = own.iter().filter(|&ns| {
                        (bucket.low_ns..bucket.low_ns + bucket.width_ns).contains(ns)
                    });
                    prop_assert_eq!(bucket.counts[i], within.count() as u64);
                }
                prop_assert_eq!(
                    buckets.iter().map(|bucket| bucket.counts[i]).sum::<u64>(),
                    block.count
                );
            }
            prop_assert!(rest.is_empty());
            prop_assert!(buckets.is_sorted_by(|a, b| a.low_ns + a.width_ns <= b.low_ns));
        }
    }
}
