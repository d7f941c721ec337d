//! The search for single calls and frames: every call of a scope as a list, and the slowest frames.
//!
//! The list covers the selected range, or everything: a whole capture, of which the store holds a
//! part. [`Instances`] gathers it where the spans are, like the table of scopes does its sums. It
//! counts all calls that pass the filters, and keeps a page of them in the chosen order. Memory is
//! thus bounded, and further pages reach every call.
//!
//! ```text
//! Filters ─▶ FindOptions ─▶ Job (Store, or the reader of the capture) ─▶ Found ─▶ list, histogram
//! Summary or Store ─▶ SlowFrames ─▶ list
//! ```

pub mod instances;
mod filters;
mod slow_frames;
mod show;

pub use instances::{FindOptions, Found, Instance, Instances, Order, Rank};
pub use show::Find;
pub(crate) use show::FindAction;
pub use slow_frames::{FramePlace, SlowFrame, slowest_frames};
