//! Statistics of frames and of scopes: those of `vor-capture`, and the sums that threads keep
//! themselves.
//!
//! Where the program has its scopes [counted](crate::config::Config::aggregate) instead of
//! recorded, each thread keeps its sums itself, and there are no spans; [`ThreadStats`] are the
//! rows of one thread.

pub use vor_capture::stats::{
    Block, Blocks, Bucket, Counted, FrameStats, Histogram, ScopeStats, StatsBuilder,
};

pub use crate::hot::sums::ThreadStats;
