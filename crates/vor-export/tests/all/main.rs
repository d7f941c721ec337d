//! Tests of the exporters: spans in, files out, which independent readers check.

mod chrome;
mod csv;
#[cfg(feature = "firefox")]
mod firefox;
mod full_disk;
mod golden;
#[cfg(feature = "parquet")]
mod parquet_dataset;
#[cfg(feature = "parquet")]
mod parquet_exporter;
#[cfg(feature = "parquet")]
mod parquet_rows;
#[cfg(feature = "parquet")]
mod parquet_sketches;
#[cfg(feature = "parquet")]
mod parquet_spans;
mod perfetto;
mod perfetto_scheduler;
#[cfg(feature = "pprof")]
mod pprof;
mod sinks;
mod stacks;
mod views;
