//! The reasons of a slow frame: its scopes beside those of the median frame, one by one.
//!
//! The median is that of many frames: of all in a running program, and of a capture of those that
//! are [spread evenly](SAMPLE) over it. A scope's time in each frame comes from the spans
//! themselves, cut at the ends of the frame. The interval of a difference is that of the median:
//! with 95 % probability, the median of all frames is between two of the sorted values, whatever
//! their distribution is.

mod cells;
mod show;

pub use cells::{FrameCells, WhyOptions, WhyResult, WhyRow};
pub use show::Why;

/// Maximum number of frames of a capture that the median is of.
pub const SAMPLE: usize = 1024;
