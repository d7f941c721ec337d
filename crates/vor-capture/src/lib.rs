//! The meaning of a capture of the profiler vor: the model, the file format, the readers and the
//! statistics.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | batches of spans, frames, the catalog that resolves their ids, measures, the timeline, heap snapshots: plain data |
//! | [`sink`] | the trait [`FrameSink`](sink::FrameSink), which takes the model |
//! | [`format`](mod@format) | the capture format as a codec without I/O: version 3, and version 2 read-only |
//! | [`reader`] | reads captures: as a stream, by frame, as columns |
//! | [`stats`] | exact sums and percentiles per call site |
//! | [`units`] | numbers and units as people read them |
//!
//! The crate starts no thread, keeps no global state and reads no clock. Programs use the facade
//! crate `vor`; this crate is for tools that read captures without the recorder.

//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `reader` | [`reader::Reader`], which reads a capture from its beginning |
//! | `seek` (default) | [`reader::Capture`], which reads any frame, and `reader` and `stats` |
//! | `stats` | [`stats::StatsBuilder`], which adds up spans |
//!
//! Without features the crate writes captures.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "seek"),
    allow(
        dead_code,
        reason = "the codec is whole, and without a reader only half of it is used"
    )
)]
#![forbid(unsafe_code)]

#[macro_use]
mod filled;
pub mod error;
#[doc(hidden)]
pub mod sort;
pub mod units;
pub mod model;
pub mod sink;
pub mod format;
pub mod stats;
#[cfg(feature = "reader")]
pub mod reader;

pub use error::Error;
