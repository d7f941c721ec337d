//! A running program shows itself to clients, which may be slow, wrong, many, or gone.

#![cfg(all(feature = "live", feature = "reader", unix, not(feature = "off")))]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod access;
mod bad_clients;
mod ends;
mod pages;
mod stream;
mod support;

vor_fixtures::tests_wait!();
