//! The numbers that a thread adds to where the program counts something.

use crate::sync::sum::Sum;

/// Counters that a block has room for.
pub(crate) const BLOCK_COUNTERS: usize = 64;

/// One thread's numbers, by the counter's number. The thread alone adds, the mark reads: the
/// numbers only grow, and nothing depends on their order.
#[derive(Debug)]
pub(crate) struct CounterBlock(pub(crate) [Sum; BLOCK_COUNTERS]);
