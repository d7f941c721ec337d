//! An aggregated flame graph: equal stacks of all frames are merged, and a box's width is their
//! total time.
//!
//! ```text
//! Store ─▶ Job (Walk) ─▶ Tree of stacks ─▶ Boxes (only what is wide enough to be seen) ─▶ one mesh
//! ```
//!
//! The [`tree`] and the boxes do not depend on the meaning of a box: [`compare`](crate::compare)
//! draws the stacks of two sides with them.

pub mod tree;
mod callers;
pub(crate) mod boxes;
pub(crate) mod show;

pub use show::Icicle;
pub use tree::{StackKey, StackOptions, StackSums, Stacks, Tree};
