//! Fixtures that the tests of several crates share.
//!
//! | module | contains |
//! |---|---|
//! | [`even`] | captures whose frames and spans have lengths that a test can state |
//! | [`captures`] | captures from a seed, and the frames that reading them must return |
//! | [`framed`] | captures of random programs with frames, tasks and drops, and damaged ones |
//! | [`recorded`] | the spans of a capture as a list, and their sums in any range |
//! | [`programs`] | spans of random programs, and the self time of their stacks |
//! | [`views`] | random trees of spans, and the rows that a viewer must find in them |
//! | [`mod@v2`] | captures of version 2, byte by byte |
//! | [`mutation`] | damage to a capture |
//! | [`sealed`] | changed payloads under the right checksums |
//! | [`payload`] | payloads that a test writes field by field |
//! | [`largest`] | a capture of the largest numbers |
//! | [`mod@reference`] | a second decoder of payloads, which judges the first |
//! | [`invariants`] | rules that hold for all contents that a reader returns |
//! | [`any_input`] | the guarantees of readers for any input; for fuzzing and its corpus |
//! | [`decoded`] | the records of a capture in memory |
//! | [`wire`], [`perfetto`], `pprof`, [`json`] | readers of other formats |
//! | [`process`] | tests in processes of their own |
//! | [`mod@skip`] | reports of checks that do not run |
//! | [`libraries`] | test libraries in place of NVIDIA's |
//! | `late` | code that runs when a thread ends |
//! | [`server`] | an HTTP server on loopback that stores its requests |
//! | [`memory`], [`cpu_time`] | memory and CPU time of a test |
//! | [`random`] | pseudorandom numbers, the same in every run |

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
pub mod captures;
pub mod cpu_time;
pub mod decoded;
pub mod even;
pub mod framed;
pub mod invariants;
pub mod json;
#[cfg(unix)]
pub mod late;
pub mod largest;
pub mod libraries;
pub mod memory;
pub mod mutation;
#[cfg(feature = "pprof")]
pub mod pprof;
pub mod payload;
pub mod perfetto;
pub mod process;
pub mod programs;
pub mod random;
pub mod recorded;
pub mod reference;
pub mod sealed;
pub mod server;
pub mod skip;
pub mod v2;
pub mod views;
pub mod wire;

pub use captures::{TestCapture, catalog, make, make_without_marks, thread_batch};
pub use random::Random;
pub use skip::skip;
