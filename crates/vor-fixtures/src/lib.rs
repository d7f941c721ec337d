//! What the tests of several crates share.
//!
//! | module | holds |
//! |---|---|
//! | [`made`] | captures from a seed, and the frames that they should read back as |
//! | [`programs`] | spans of made-up programs, and what they spent where |
//! | [`views`] | a recording with everything that exporters must show |
//! | [`mutation`] | damage to a capture |
//! | [`any_input`] | what readers promise of any input; for fuzzing and its corpus |
//! | [`wire`], `pprof`, `parquet_rows`, [`json`] | readers of other programs' formats |
//! | [`server`] | a server on loopback that keeps what it is sent |
//! | [`memory`], [`cpu_time`] | what a test has used up |
//! | [`random`] | numbers that look random and are the same in every run |

#![allow(
    missing_docs,
    missing_debug_implementations,
    reason = "only tests call it"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "a test that cannot be set up should stop"
)]

pub mod any_input;
pub mod cpu_time;
pub mod json;
pub mod made;
pub mod memory;
pub mod mutation;
#[cfg(feature = "parquet")]
pub mod parquet_rows;
#[cfg(feature = "pprof")]
pub mod pprof;
pub mod programs;
pub mod random;
pub mod server;
pub mod views;
pub mod wire;

pub use made::{Made, catalog, make, make_without_marks, thread_batch};
pub use random::Random;
