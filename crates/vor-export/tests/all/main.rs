//! The tests of the exporters: made spans in, files out, which other programs judge.

mod chrome;
mod csv;
#[cfg(feature = "firefox")]
mod firefox;
#[cfg(feature = "parquet")]
mod parquet_dataset;
#[cfg(feature = "parquet")]
mod parquet_spans;
mod perfetto;
#[cfg(feature = "pprof")]
mod pprof;
mod stacks;
mod views;
