//! Event loops: a block that is open when a turn of a loop ends is suspended.
//!
//! A coroutine that is not profiled has no span that ends at its suspension. So a block in it would
//! seem to stay open around all other work of the loop. `asyncio` runs tasks and callbacks through
//! `Handle._run`. This module wraps that function when recording begins, or when a block with a new
//! name begins after `asyncio` was imported. A program without a loop pays nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use vor_recorder::setup;

use crate::recording::object::with_error_aside;
use crate::recording::sites::{self, Place};
use crate::recording::{codes, open, wrapper};

/// Whether turns of loops are watched. Written (relaxed) by the thread that wraps them, read by
/// every look-up of a new name. It is harmless if two threads both wrap them.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Watches the turns of `asyncio`'s loops, if `asyncio` was imported. If every call is recorded, so
/// are activations of coroutines, and turns need not be watched.
pub(crate) fn watch(py: Python<'_>) {
    if WATCHED.load(Ordering::Relaxed) || codes::traces_all() || !setup::is_enabled() {
        return;
    }
    // Loops of other libraries are not watched.
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
        open::set_turn_running();
    }
    Ok(true)
}
