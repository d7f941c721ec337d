//! The captures of the profiler vor in the formats of other programs.
//!
//! | module | writes |
//! |---|---|
//! | [`chrome`] | Chrome's trace events, as JSON |
//! | [`collapsed`] | a line per stack, for flame graphs |
//! | [`csv`] | tables of spans and metrics |
//! | `firefox` | profiles for the Firefox Profiler |
//! | `parquet` | tables for DuckDB, Spark and others |
//! | [`perfetto`] | Perfetto's traces |
//! | `pprof` | profiles for `go tool pprof` and Pyroscope |
//! | [`samply`] | markers for a profile of samply |
//! | [`speedscope`] | profiles for speedscope.app |
//!
//! Each exporter is a [`FrameSink`](vor_capture::sink::FrameSink) over a writer, so a running
//! program and a capture are the same to it. The crate starts no thread, has no global state and
//! reads no clock. Programs use the facade crate `vor`; this crate is for tools that convert
//! captures without the recorder.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(feature = "formats", feature = "pprof")),
    allow(
        dead_code,
        reason = "shared code is complete, but some formats may be disabled"
    )
)]
#![forbid(unsafe_code)]

mod args;
mod labels;
mod text;
mod proto;
mod chunked;
mod per_site;
#[cfg(any(feature = "formats", feature = "pprof"))]
mod spill;
#[cfg(feature = "formats")]
mod replay;
#[cfg(any(feature = "formats", feature = "pprof"))]
mod stacks;
#[cfg(any(feature = "formats", feature = "pprof"))]
mod merged;
#[cfg(any(feature = "formats", feature = "pprof"))]
mod tasks;

#[cfg(feature = "formats")]
pub mod chrome;
#[cfg(feature = "formats")]
pub mod collapsed;
#[cfg(feature = "formats")]
pub mod csv;
#[cfg(feature = "firefox")]
pub mod firefox;
#[cfg(feature = "parquet")]
pub mod parquet;
#[cfg(feature = "formats")]
pub mod perfetto;
#[cfg(feature = "pprof")]
pub mod pprof;
#[cfg(feature = "formats")]
pub mod samply;
#[cfg(feature = "formats")]
pub mod speedscope;

use vor_capture::model::catalog::Catalog;

pub use args::{arg_keys, arg_name, push_args_text};
pub use labels::thread_label;

/// Returns the wall-clock time from which exporters count, in nanoseconds since 1970: that of the
/// timeline's first point.
///
/// Viewers store times as floating-point numbers, which cannot represent nanoseconds since 1970.
#[must_use]
pub fn origin_ns(catalog: &Catalog) -> i64 {
    catalog
        .timeline
        .syncs()
        .first()
        .map_or(0, |sync| sync.unix_ns)
}

/// Returns the time of a tick in nanoseconds since [`origin_ns`], and 0 before it: viewers reject
/// negative times.
#[inline]
pub(crate) fn since_origin_ns(catalog: &Catalog, ticks: u64, origin_ns: i64) -> u64 {
    u64::try_from(catalog.unix_ns(ticks).saturating_sub(origin_ns)).unwrap_or(0)
}

/// Returns a number as formats without unsigned integers store it.
#[cfg(any(feature = "parquet", feature = "pprof"))]
pub(crate) fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
