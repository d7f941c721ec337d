//! Tests that need crates with which no other member should be built.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod parquet_recorded;
