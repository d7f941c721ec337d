//! Tests of crossbeam-channel.

#[path = "crossbeam_channel/array.rs"]
mod array;
#[path = "crossbeam_channel/iter.rs"]
mod iter;
#[path = "crossbeam_channel/list.rs"]
mod list;
#[path = "crossbeam_channel/mpsc.rs"]
mod mpsc;
#[path = "crossbeam_channel/same_channel.rs"]
mod same_channel;
#[path = "support/mod.rs"]
mod support;
#[path = "crossbeam_channel/zero.rs"]
mod zero;

/// The types of vor under the names of `crossbeam_channel`.
mod of_vor {
    pub use crossbeam_channel::{after, never, select, tick, Select};

    pub use vor::sync::crossbeam::*;
}
