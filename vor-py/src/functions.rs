//! Functions of the module that are called in loops.

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::slice;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use vor_recorder::hot::scope;
use vor_recorder::{drain, metrics};

use crate::object::{add_functions, none, positional, raise, text};
use crate::ticker;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions(
        module,
        [
            positional(
                c"record_metric",
                record_metric,
                c"record_metric(name, value, /)\n--\n\nRecord a number of the current frame; the last one before the mark counts.",
            ),
            positional(
                c"record_io",
                record_io,
                c"record_io(ns, nbytes, /)\n--\n\nRecord a read or write: how many nanoseconds it took, and how many bytes it moved.",
            ),
            positional(
                c"message",
                message,
                c"message(text, /)\n--\n\nRecord a text at this moment of this thread.",
            ),
            positional(
                c"frame_mark",
                frame_mark,
                c"frame_mark(name=None, /)\n--\n\nEnd a frame here: a training step, a request, a batch. A name marks frames of another kind.",
            ),
        ],
    )
}

/// Returns the arguments of a call, or raises an error that says what they must be.
///
/// # Safety
///
/// `args` has `count` objects, which live as long as the call.
unsafe fn arguments<'a>(
    function: &str,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    expected: std::ops::RangeInclusive<usize>,
) -> Option<&'a [*mut ffi::PyObject]> {
    let count = count.unsigned_abs();
    if expected.contains(&count) {
        // A pointer to no arguments may be null.
        if count == 0 {
            return Some(&[]);
        }
        // SAFETY: as the caller says.
        return Some(unsafe { slice::from_raw_parts(args, count) });
    }
    let most = expected.end();
    raise(PyTypeError::new_err(format!(
        "{function}: expected {most} argument{}, found {count}",
        if *most == 1 { "" } else { "s" }
    )));
    None
}

unsafe extern "C" fn record_metric(
    _: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with so many arguments, which it keeps alive.
    unsafe {
        let Some(&[name, value]) = arguments("record_metric", args, count, 2..=2) else {
            return std::ptr::null_mut();
        };
        let Some(name) = text(name) else {
            return std::ptr::null_mut();
        };
        let value = ffi::PyFloat_AsDouble(value);
        if value == -1.0 && !ffi::PyErr_Occurred().is_null() {
            return std::ptr::null_mut();
        }
        metrics::record_metric(name, value);
        none()
    }
}

unsafe extern "C" fn record_io(
    _: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as for `record_metric`.
    unsafe {
        let Some(&[elapsed_ns, bytes]) = arguments("record_io", args, count, 2..=2) else {
            return std::ptr::null_mut();
        };
        let Some(elapsed_ns) = whole("record_io: ns", elapsed_ns) else {
            return std::ptr::null_mut();
        };
        let Some(bytes) = whole("record_io: nbytes", bytes) else {
            return std::ptr::null_mut();
        };
        metrics::record_io(elapsed_ns, bytes);
        none()
    }
}

/// Returns a whole number of at least 0, or raises.
///
/// # Safety
///
/// `object` is alive.
unsafe fn whole(what: &str, object: *mut ffi::PyObject) -> Option<u64> {
    // SAFETY: as the caller says; who calls is attached to the interpreter.
    let object = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), object) };
    // What has an `__index__` is a whole number, NumPy's among them.
    match object
        .call_method0("__index__")
        .and_then(|index| index.extract::<u64>())
    {
        Ok(value) => Some(value),
        Err(_) => {
            let found = object
                .repr()
                .map_or_else(|_| "?".into(), |repr| repr.to_string());
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

unsafe extern "C" fn message(
    _: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as for `record_metric`.
    unsafe {
        let Some(&[line]) = arguments("message", args, count, 1..=1) else {
            return std::ptr::null_mut();
        };
        let Some(line) = text(line) else {
            return std::ptr::null_mut();
        };
        scope::message(format_args!("{line}"));
        none()
    }
}

unsafe extern "C" fn frame_mark(
    _: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as for `record_metric`.
    unsafe {
        let Some(args) = arguments("frame_mark", args, count, 0..=1) else {
            return std::ptr::null_mut();
        };
        match args.first() {
            Some(&name) if name != ffi::Py_None() => {
                let Some(name) = text(name) else {
                    return std::ptr::null_mut();
                };
                drain::frame_mark_named(name);
            }
            _ => {
                ticker::stop();
                drain::frame_mark();
            }
        }
        none()
    }
}
