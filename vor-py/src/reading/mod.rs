//! Captures read from Python.
//!
//! ```text
//! vor.read ─▶ Reading (one open file) ─▶ gather: one pass of the file ─▶ Columns of vor-capture
//!                                                       no copy of values per span │
//! NumPy ◀─ buffer protocol ─ Column ◀─ Table ─ Arrow C data interface ─▶ Polars, pandas, DuckDB …
//! ```
//!
//! Times, durations, self times and depths are read into Arrow buffers, which Python accesses
//! without a copy. Columns that depend only on a row's call site and run (name, file, thread and
//! frame) are made at first use.
//!
//! The interpreter's lock is not held while a file is read, and Ctrl-C interrupts.

mod capture;
mod column;
mod listing;
mod error;
mod gather;
mod make;
mod pages;
mod table;

pub(crate) use capture::Reading;
pub(crate) use column::Column;
pub(crate) use error::CaptureError;
pub(crate) use listing::contents;
pub(crate) use table::Table;
