//! What has changed between two sides: two captures, or two ranges of frames of one.
//!
//! Call sites have other ids in every run, so sides match by a scope's name and its module path. As
//! sides may have different numbers of frames, all that is compared is per frame.
//!
//! ```text
//! Side A ─▶ Job ─┐
//!                ├▶ Merged: rows by name, and a tree of stacks ─▶ table, icicle
//! Side B ─▶ Job ─┘
//! ```

pub mod merged;
mod show;

use crate::store::Store;

pub use merged::{BothSums, Merged, MergedRow, SideSums};
pub use show::Compare;

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What it is called, such as the name of a file.
    pub name: &'a str,
    /// Where its frames are.
    pub store: &'a Store,
    /// Index of the first and of the last frame.
    pub frames: (usize, usize),
}
