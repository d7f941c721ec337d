//! The search for single calls, messages and frames: every call of a scope as a list, all messages,
//! the slowest frames, and bookmarks.
//!
//! A list covers the selected range, or everything: a whole capture, of which the store holds a
//! part. [`Instances`] and [`Messages`] gather it where the spans are, as the table of scopes
//! gathers its sums. They count all that pass the filters, and keep a page of them in the chosen
//! order. Memory is thus bounded, and further pages reach everything.
//!
//! ```text
//! Filters ─▶ FindOptions ─▶ Job (Store, or the reader of the capture) ─▶ Found ─▶ list, histogram
//! Summary or Store ─▶ SlowFrames ─▶ list
//! ```

mod bookmark_list;
mod call_list;
mod filters;
mod frame_list;
pub mod instances;
mod message_list;
mod messages;
mod page;
mod paged;
mod pages;
mod show;
mod slow_frames;

pub use instances::{FindOptions, Found, Instance, Instances};
pub use messages::{FoundMessages, ListedMessage, MessageOptions, Messages};
pub use page::{Order, Rank};
pub(crate) use show::FindAction;
pub use show::{Find, Listed};
pub use slow_frames::{FramePlace, SlowFrame, slowest_frames};
