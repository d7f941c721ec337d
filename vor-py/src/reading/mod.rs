//! Captures read from Python.
//!
//! ```text
//! vor.read ─▶ Reading (one open file) ─▶ gather: one pass of the file ─▶ Columns of vor-capture
//!                                                                             │ no copy of what is kept per span
//! NumPy ◀─ buffer protocol ─ Column ◀─ Table ─ Arrow C data interface ─▶ Polars, PyArrow, pandas, DuckDB …
//! ```
//!
//! Times, lengths, self times and depths are Arrow buffers from the moment at which they are read,
//! and whoever asks gets these. What follows from a row's call site and run (its name and file,
//! thread and frame) is made a column when it is asked for, once.
//!
//! The interpreter's lock is not held while a file is read. Ctrl-C is heeded meanwhile.

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
