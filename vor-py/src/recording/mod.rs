//! Spans recorded from Python.
//!
//! # How a call in Python becomes a span
//!
//! A [`CallSite`](vor_recorder::hot::callsite::CallSite) is made once for each function, name and
//! place (`sites`) and lives as long as the process. A span begins and ends at it as in Rust, but
//! callbacks of the interpreter take the role of the guard ([`vor_recorder::hot::scope::manual`]).
//! Each thread has a stack of open scopes (`open`), because callbacks come one by one and Python's
//! blocks need not nest: a `with` in a coroutine stays open while others run. A coroutine that is
//! suspended is a task (`tasks`), and its activations are the polls of it.
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
//! Locks (`locks`) are those of the interpreter (`raw_lock`) with the recording part of the
//! recorder's own locks, and are named after the place that made them (`maker`).
//!
//! Hot paths are C functions with the interpreter's own calling conventions (`entry`, `object`).
//! All other functions use PyO3 (`interface`).

pub(crate) mod interface;
mod sites;
mod tasks;
mod open;
mod object;
mod entry;
mod proxy;
mod values;
mod config;
mod functions;
mod scope;
mod ticker;
mod gil;
mod filter;
mod codes;
mod callee;
mod monitor;
mod maker;
mod raw_lock;
mod locks;
mod wrapper;
mod activation;
mod loops;
#[cfg(not(Py_3_12))]
mod callback;

use pyo3::prelude::*;
use vor_recorder::hot::thread;

/// Makes the types, and adds the functions that PyO3 does not wrap.
pub(crate) fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    wrapper::make_types(py)?;
    activation::make_type(py)?;
    monitor::make_type(py)?;
    functions::add(module)?;
    scope::add(module)?;
    locks::add(module)?;
    #[cfg(not(Py_3_12))]
    callback::add(module)?;
    thread::name_threads_by(interface::thread_name);
    Ok(())
}
