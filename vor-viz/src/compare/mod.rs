//! Changes between two sides: two captures, or two ranges of one.
//!
//! Call sites have other ids in every run, so sides match by a scope's name and its module path. A
//! module path differs if a scope moved to another module or the sides are other programs. So a
//! name with one module path left on each side matches as well. Sides may have different numbers of
//! frames, so all compared values are per frame; where the frames of a side are not counted, as in
//! a range of time, they are [per second](Per).
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
use crate::whole::Spans;

pub use merged::{BothSums, Merged, MergedRow, Per, SideSums};
pub use show::Compare;

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its name, such as that of a file.
    pub name: &'a str,
    /// The store of its frames.
    pub store: &'a Store,
    /// The part that it covers.
    pub scope: Scope,
    /// The spans of a capture of which the store holds a part; ranges of time are asked of them.
    pub spans: Option<&'a Spans>,
    /// Number of frames of the whole capture, if that is known.
    pub whole_frames: Option<u64>,
}

impl Side<'_> {
    /// Returns whether it is known how many frames it has.
    fn counts_frames(&self) -> bool {
        match self.scope {
            Scope::Frames(..) => true,
            Scope::Whole => self.whole_frames.is_some_and(|frames| frames > 0),
            Scope::Time { .. } => false,
        }
    }

    /// Returns whether it has nothing.
    fn is_empty(&self) -> bool {
        matches!(self.scope, Scope::Frames(..)) && self.store.frames().is_empty()
    }
}
