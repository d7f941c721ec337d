//! The counters of one thread.

use crate::sync::sum::Sum;

/// Counters that a block has room for.
pub(crate) const BLOCK_COUNTERS: usize = 64;

/// One thread's sums, by the index of the counter. Only the thread adds, and a frame mark reads.
/// The sums only grow, and nothing depends on their order.
#[derive(Debug)]
pub(crate) struct CounterBlock(pub(crate) [Sum; BLOCK_COUNTERS]);
