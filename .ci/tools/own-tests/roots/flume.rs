//! Tests of flume.

#[path = "flume/array.rs"]
mod array;
#[path = "flume/basic.rs"]
mod basic;
#[path = "flume/check_same_channel.rs"]
mod check_same_channel;
#[path = "flume/iter.rs"]
mod iter;
#[path = "flume/list.rs"]
mod list;
#[path = "flume/method_sharing.rs"]
mod method_sharing;
#[path = "support/mod.rs"]
mod support;
#[path = "flume/zero.rs"]
mod zero;

/// The types of vor under the names of `flume`.
mod of_vor {
    pub use vor::sync::flume::*;
}
