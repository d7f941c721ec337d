//! `vor._core`: the part of the Python package `vor` that is in Rust. The rest of the package is in
//! `python/vor`.
//!
//! # How a call in Python becomes a span
//!
//! A [`CallSite`](vor_recorder::hot::callsite::CallSite) is made once for each function, name and
//! place (`sites`) and lives as long as the process. A span begins and ends at it as in Rust, but
//! callbacks of the interpreter take the role of the guard ([`vor_recorder::hot::scope::manual`]).
//! Each thread has a stack of open scopes (`open`), because callbacks come one by one and Python's
//! blocks need not nest: a `with` in a coroutine stays open while others run.
//!
//! The callbacks depend on the interpreter:
//!
//! - CPython 3.12 and later: `sys.monitoring` (`monitor`). `@vor.profile` switches events on for
//!   the function's code object while recording is on. The function itself does not change, and
//!   costs nothing while recording is off. `python -m vor run` switches the same events on for all
//!   code. A table (`codes`) maps code objects to call sites.
//! - CPython 3.11: `@vor.profile` wraps the function in an object that is called by vectorcall and
//!   looks like the function (`wrapper`). It wraps each generator or coroutine that the function
//!   returns in another object (`activation`). `python -m vor run` sets the C profile callback of
//!   each thread (`callback`). Tracebacks contain no frames of vor on either.
//!
//! Callables without a code object are wrapped on every version. An activation of a generator or
//! coroutine lasts from a resumption to the next suspension. It is one span, like a poll of a
//! future in Rust.
//!
//! # How a capture is read
//!
//! `reading` imports `vor-capture` and `vor-export`, and nothing of the recorder. Every other
//! module records. Both are in one module file, so the recorder is linked into it.
//!
//! # How it is built
//!
//! A wheel is built for the version of CPython that builds it (feature `module`). A release has one
//! for 3.11, one for the stable ABI (feature `abi3`) of 3.12 and later, and one for each
//! free-threaded version. Without a feature the crate is empty and needs no Python, so the
//! workspace builds and tests anywhere; maturin sets the feature. Hot paths are C functions with
//! the interpreter's own calling conventions (`entry`, `object`). All other functions use PyO3. The
//! module does not enable the lock of a free-threaded interpreter: all state that threads share is
//! atomic or has a lock of its own. In a subinterpreter the import fails with `ImportError`.

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
