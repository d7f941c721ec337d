//! Changes between two sides: two captures, or two ranges of frames of one.
//!
//! Call sites have other ids in every run, so sides match by a scope's name and its module path. A
//! module path differs if a scope moved to another module or the sides are other programs. So a
//! name with one module path left on each side matches as well. Sides may have different numbers of
//! frames, so all compared values are per frame.
//!
//! ```text
//! Side A ─▶ Job ─┐
//!                ├▶ Merged: rows by name, and a tree of stacks ─▶ table, icicle
//! Side B ─▶ Job ─┘
//! ```

pub mod merged;
mod show;

use crate::store::Store;
use crate::view::Scope;

pub use merged::{BothSums, Merged, MergedRow, SideSums};
pub use show::Compare;

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its name, such as that of a file.
    pub name: &'a str,
    /// The store of its frames.
    pub store: &'a Store,
    /// Index of the first and of the last frame.
    pub frames: (usize, usize),
}

impl Side<'_> {
    fn scope(&self) -> Scope {
        Scope::Frames(self.frames.0, self.frames.1)
    }
}
