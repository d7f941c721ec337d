//! Work of a known kind, which the compiler cannot remove.

/// Multiplies along a chain of `steps`. Each step depends on the previous one, so the cost of code
/// around the chain is not hidden by it.
#[inline(always)]
#[must_use]
pub fn chain(seed: u64, steps: u32) -> u64 {
    let mut x = seed;
    for _ in 0..steps {
        x = (x ^ x >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    x
}

/// A sequence of pseudo-random numbers, the same in every run.
#[derive(Clone, Debug)]
pub struct Sequence(u64);

impl Sequence {
    /// Starts a sequence.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number below `limit`, which must not be 0.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
