//! Where the time goes, by stack: equal stacks of all frames are one, and a box's width is the time
//! that it took together.
//!
//! ```text
//! Store ─▶ Job (Walk) ─▶ Tree of stacks ─▶ Boxes (only what is wide enough to be seen) ─▶ one mesh
//! ```
//!
//! The [`tree`] and the boxes do not know what a box means: [`compare`](crate::compare) draws
//! the stacks of two sides with them.

pub mod tree;
pub(crate) mod boxes;
pub(crate) mod show;

pub use show::Icicle;
pub use tree::{StackKey, StackOptions, StackSums, Stacks, Tree};
