//! Recording into a file of shared memory, and what is recovered from it.

#![cfg(all(unix, feature = "recovery", not(feature = "off")))]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod counters;
mod damaged;
mod forked;
mod killed;
mod running;

vor_fixtures::tests_wait!();
