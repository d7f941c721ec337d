//! Functions of the module that programs call in loops.

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use vor_recorder::hot::scope;
use vor_recorder::{drain, metrics};

use crate::recording::entry::{add_functions, positional};
use crate::recording::object::{raise, repr_text, text};
use crate::recording::ticker;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions(
        module,
        [
            positional!(
                c"record_metric",
                record_metric,
                c"record_metric(name, value, /)\n--\n\n\
                  Record a value of the current frame; the last one before the mark counts."
            ),
            positional!(
                c"record_io",
                record_io,
                c"record_io(ns, nbytes, /)\n--\n\n\
                  Record a read or write of `nbytes` bytes that took `ns` nanoseconds."
            ),
            positional!(
                c"message",
                message,
                c"message(text, /)\n--\n\nRecord a text at this moment on this thread."
            ),
            positional!(
                c"frame_mark",
                frame_mark,
                c"frame_mark(name=None, /)\n--\n\n\
                  End a frame here: a training step, a request, a batch. \
                  A name marks frames of another set."
            ),
        ],
    )
}

/// Returns the arguments of a function that has exactly `N`, or raises.
fn exactly<const N: usize>(
    function: &str,
    args: &[*mut ffi::PyObject],
) -> Option<[*mut ffi::PyObject; N]> {
    match args.try_into() {
        Ok(args) => Some(args),
        Err(_) => raise_count(function, N, args.len()),
    }
}

/// Raises an error: a call has `found` arguments, and may have at most `most`.
#[cold]
fn raise_count<T>(function: &str, most: usize, found: usize) -> Option<T> {
    raise(PyTypeError::new_err(format!(
        "{function}: expected {most} argument{}, found {found}",
        if most == 1 { "" } else { "s" }
    )));
    None
}

unsafe fn record_metric(_: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> Option<()> {
    let [name, value] = exactly("record_metric", args)?;
    // SAFETY: the interpreter keeps the arguments alive, and the thread is attached to it.
    let (name, value) = unsafe {
        let name = text(name)?;
        let value = ffi::PyFloat_AsDouble(value);
        if value == -1.0 && !ffi::PyErr_Occurred().is_null() {
            return None;
        }
        (name, value)
    };
    metrics::record_metric(name, value);
    Some(())
}

unsafe fn record_io(_: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> Option<()> {
    let [elapsed_ns, bytes] = exactly("record_io", args)?;
    // SAFETY: as for `record_metric`.
    let (elapsed_ns, bytes) = unsafe {
        (
            whole("record_io: ns", elapsed_ns)?,
            whole("record_io: nbytes", bytes)?,
        )
    };
    metrics::record_io(elapsed_ns, bytes);
    Some(())
}

/// Returns a whole number of at least 0, or raises.
///
/// # Safety
///
/// `object` is alive.
unsafe fn whole(what: &str, object: *mut ffi::PyObject) -> Option<u64> {
    // SAFETY: as the caller says, whose thread is attached to the interpreter.
    let object = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), object) };
    // Every object with an `__index__` is a whole number, for example one of NumPy.
    match object
        .call_method0("__index__")
        .and_then(|index| index.extract::<u64>())
    {
        Ok(value) => Some(value),
        Err(_) => {
            let found = repr_text(&object);
            let error = if object.hasattr("__index__").unwrap_or(false) {
                PyValueError::new_err(format!(
                    "{what}: expected a whole number from 0 to 2^64 - 1, found {found}"
                ))
            } else {
                PyTypeError::new_err(format!("{what}: expected a whole number, found {found}"))
            };
            raise(error);
            None
        }
    }
}

unsafe fn message(_: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> Option<()> {
    let [line] = exactly("message", args)?;
    // SAFETY: as for `record_metric`.
    let line = unsafe { text(line) }?;
    scope::message(format_args!("{line}"));
    Some(())
}

unsafe fn frame_mark(_: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> Option<()> {
    let name = match args {
        [] => None,
        &[name] => Some(name),
        _ => return raise_count("frame_mark", 1, args.len()),
    };
    // SAFETY: as for `record_metric`; `None` is always there.
    match name.filter(|name| *name != unsafe { ffi::Py_None() }) {
        Some(name) => {
            // SAFETY: as for `record_metric`.
            drain::frame_mark_named(unsafe { text(name) }?);
        }
        None => {
            ticker::stop();
            drain::frame_mark();
        }
    }
    Some(())
}
