//! Event loops: a block that is open when a turn of one ends is suspended.
//!
//! A block in a coroutine that nobody profiles has nothing around it that ends where the coroutine
//! is suspended, and would seem to be open all the time, around whatever else the loop runs.
//! `asyncio` calls everything by `Handle._run`, its tasks as well as its callbacks, and that is
//! wrapped where recording begins, or as soon as a new name of a block is seen after `asyncio` was
//! imported. A program that has no loop pays nothing for that.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use vor_recorder::setup;

use crate::object::with_error_aside;
use crate::sites::{self, Place};
use crate::{codes, open, wrapper};

/// Whether the loop's turns are watched. Written by who wraps them, read relaxed by every look-up
/// of a new name; two threads may both wrap them, which does no harm.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Watches the turns of `asyncio`'s loops, if it was imported. Where every call is recorded,
/// activations of coroutines are, and nothing needs to be watched.
pub(crate) fn watch(py: Python<'_>) {
    if WATCHED.load(Ordering::Relaxed) || codes::traces_all() || !setup::is_enabled() {
        return;
    }
    // A loop that is not `asyncio`'s own is not watched.
    let is_wrapped = with_error_aside(py, || matches!(wrap_turns(py), Ok(true)));
    if is_wrapped {
        WATCHED.store(true, Ordering::Relaxed);
    }
}

fn wrap_turns(py: Python<'_>) -> PyResult<bool> {
    let modules = py
        .import("sys")?
        .getattr("modules")?
        .cast_into::<PyDict>()?;
    let Some(events) = modules.get_item("asyncio.events")? else {
        return Ok(false);
    };
    let handle = events.getattr("Handle")?;
    let place = Place {
        name: "Handle._run".into(),
        module: "asyncio.events".into(),
        ..Place::default()
    };
    let turn = wrapper::wrap_turn(handle.getattr("_run")?, sites::intern(place))?;
    handle.setattr("_run", turn)?;
    if !events.call_method0("_get_running_loop")?.is_none() {
        open::note_turn();
    }
    Ok(true)
}
