//! Pseudorandom numbers, the same in every run, and the number of rounds of tests that use them.

/// The number of cases for which proptest tests a property by default.
const ALL_CASES: usize = 256;

/// Returns how many of `all` rounds a test with random inputs makes: the share of proptest's 256
/// cases that the variable `PROPTEST_CASES` asks for, and at least one.
pub fn rounds(all: usize) -> usize {
    let cases = std::env::var("PROPTEST_CASES").ok();
    let cases = cases.and_then(|cases| cases.parse().ok());
    (all * cases.unwrap_or(ALL_CASES) / ALL_CASES).max(1)
}

/// Returns the seeds of as many [`rounds`].
pub fn seeds(all: usize) -> std::ops::Range<u64> {
    0..rounds(all) as u64
}

/// A small generator (splitmix64), whose state names a failed case.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "an endless iterator would not help"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}
