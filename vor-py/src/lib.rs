//! `vor._core`: what the Python package `vor` has in Rust. The package's own files are in
//! `python/vor`.
//!
//! # How a call in Python becomes a span
//!
//! A [`CallSite`](vor_recorder::hot::callsite::CallSite) is made once for each function, name and
//! place (`sites`) and lives as long as the process; a span is begun and ended at it as in Rust, by
//! callbacks of the interpreter instead of by a guard ([`vor_recorder::hot::scope::manual`]). The
//! open scopes of a thread are a stack of their own (`open`), since callbacks come one by one and
//! Python's blocks need not nest: a `with` in a coroutine stays open while others run.
//!
//! Who calls back depends on the interpreter:
//!
//! - CPython 3.12 and later: `sys.monitoring` (`monitor`). A function under `@vor.profile` has
//!   events switched on for its code object while recording is on. It stays the object that it was,
//!   and costs nothing while recording is off. `python -m vor run` switches the same events on for
//!   all code. A table (`codes`) leads from the code object to its call site.
//! - CPython 3.11: `@vor.profile` puts an object around the function that is called by vectorcall
//!   and looks like the function (`wrapper`); generators and coroutines get one around what they
//!   return (`activation`). `python -m vor run` sets the C profile callback of each thread
//!   (`callback`). There is no frame of vor's in a traceback either way.
//!
//! Callables without a code object are wrapped on every version. An activation of a generator or
//! coroutine, from a resumption to the next suspension, is one span, as a poll of a future is in
//! Rust.
//!
//! # How it is built
//!
//! A wheel is for the version of CPython that builds it (feature `module`). A release has one for
//! 3.11, one by the stable ABI (feature `abi3`) for 3.12 and later, and one for each version
//! without an interpreter's lock. Without a feature the crate is empty and needs no Python, so a
//! workspace builds and tests anywhere; maturin sets the feature. Hot paths are C functions of the
//! interpreter's own calling conventions, everything else is PyO3's. Interpreters without a lock
//! have a wheel for each version, and leave the lock off for it: what threads share here is atomic
//! or has a lock of its own. Interpreters within a process beside the first are refused with
//! `ImportError`.

#![cfg(feature = "module")]

mod module;
mod sites;
mod open;
mod object;
mod entry;
mod proxy;
mod values;
mod config;
mod functions;
mod scope;
mod ticker;
mod filter;
mod codes;
mod callee;
mod monitor;
mod wrapper;
mod activation;
mod loops;
#[cfg(not(Py_3_12))]
mod callback;
mod reading;
