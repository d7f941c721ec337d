//! Tests that need features which the crates under test do not turn on for their own tests.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod parquet_recorded;
