//! `vor._core`: the part of the Python package `vor` that is in Rust. The rest of the package is in
//! `python/vor`.
//!
//! `module` lists what Python finds in it. `recording` says how a call in Python becomes a span,
//! and `reading` how a capture is read.
//!
//! # How it is built
//!
//! `reading` imports `vor-capture` and `vor-export`. With the feature `reading` alone, the module
//! holds nothing else, and no recorder is linked that it could import. The feature `module` adds
//! `recording` and the command, which need the recorder.
//!
//! A wheel is built for the version of CPython that builds it (feature `module`). A release has one
//! for 3.11, one for the stable ABI (feature `abi3`) of 3.12 and later, and one for each
//! free-threaded version. Without a feature the crate is empty and needs no Python, so the
//! workspace builds and tests anywhere; maturin sets the feature. The module does not enable the
//! lock of a free-threaded interpreter: all state that threads share is atomic or has a lock of its
//! own. In a subinterpreter the import fails with `ImportError`.

#![cfg(feature = "reading")]

mod module;
mod reading;
#[cfg(feature = "module")]
mod recording;
