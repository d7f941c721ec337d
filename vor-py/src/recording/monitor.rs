//! The callbacks of `sys.monitoring`, on CPython 3.12 and later.
//!
//! The package registers one object for each kind of event (`_monitor.py`), and switches events on
//! and off. The interpreter calls an object by vectorcall, with the code object first. For code
//! that is not recorded, the call returns `sys.monitoring.DISABLE`, and the interpreter does not
//! call again at that place.
//!
//! | event | begins or ends |
//! |---|---|
//! | `PY_START`, `PY_RESUME` | a call, or an activation of a generator or coroutine |
//! | `PY_THROW` | an activation, by an exception |
//! | `PY_YIELD` | ends an activation; the task of a coroutine continues |
//! | `PY_RETURN` | ends a call or an activation, and the task |
//! | `PY_UNWIND` | ends a call or an activation, and the task, by an exception |
//! | `CALL`, `C_RETURN`, `C_RAISE` | a call of a function that is not written in Python, if switched on |

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vor_recorder::hot::scope::manual;

use crate::recording::codes::{self, Code};
use crate::recording::entry::{VectorcallArgs, vectorcall};
use crate::recording::object::{Callback, TypeCell, none};
use crate::recording::values::{self, Value};
use crate::recording::{callee, open};

/// The type of the objects that are called for events.
static HOOK: TypeCell<Callback> = TypeCell::new();

/// `sys.monitoring.DISABLE`, which lives as long as the process. Written by [`hooks`] before any
/// event, always with the same object.
static DISABLE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(ptr::null_mut());

/// Calls shorter than this many ticks leave no record. Written when tracing begins, read relaxed by
/// every end.
pub(crate) static MIN_TICKS: AtomicU64 = AtomicU64::new(0);

/// Makes the type of the callbacks.
pub(crate) fn make_type(py: Python<'_>) -> PyResult<()> {
    HOOK.make(py, Callback::type_spec(c"vor._core.Hook"))?;
    Ok(())
}

/// Makes the callbacks, by the names of their events.
pub(crate) fn hooks<'py>(
    py: Python<'py>,
    disable: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let old = DISABLE.swap(disable.clone().into_ptr(), Ordering::Relaxed);
    // SAFETY: this is the reference that was stored here.
    unsafe { ffi::Py_XDECREF(old) };
    let all = PyDict::new(py);
    let functions: [(&str, ffi::vectorcallfunc); 9] = [
        ("PY_START", vectorcall!(start)),
        ("PY_RESUME", vectorcall!(resume)),
        ("PY_THROW", vectorcall!(throw)),
        ("PY_RETURN", vectorcall!(end)),
        ("PY_YIELD", vectorcall!(suspend)),
        ("PY_UNWIND", vectorcall!(unwind)),
        ("CALL", vectorcall!(call)),
        ("C_RETURN", vectorcall!(c_end)),
        ("C_RAISE", vectorcall!(c_end)),
    ];
    for (event, function) in functions {
        all.set_item(event, Callback::make(py, &HOOK, function)?)?;
    }
    Ok(all)
}

#[inline(always)]
fn disable() -> *mut ffi::PyObject {
    let disable = DISABLE.load(Ordering::Relaxed);
    // SAFETY: `DISABLE` holds a reference, so the object is alive.
    unsafe { ffi::Py_INCREF(disable) };
    disable
}

/// Begins a call, and returns whether its code is recorded.
///
/// # Safety
///
/// `code` is a code object, and the thread is attached to the interpreter.
#[inline(always)]
pub(crate) unsafe fn begin(code: *mut ffi::PyObject) -> bool {
    // SAFETY: as the caller says; a code object lives as long as the call of it.
    match unsafe { codes::find(code.addr()) } {
        Some(Code {
            site: Some(site),
            args,
            ..
        }) if args.is_empty() => {
            open::push(open::call_key(code), manual::begin(site));
            true
        }
        Some(Code { site: None, .. }) => false,
        // SAFETY: as the caller says.
        _ => unsafe { begin_slow(code) },
    }
}

/// Begins an activation of a generator or coroutine after its first one. It has no arguments.
/// Returns the same as [`begin`].
///
/// # Safety
///
/// As for [`begin`].
#[inline(always)]
pub(crate) unsafe fn begin_again(code: *mut ffi::PyObject) -> bool {
    // SAFETY: as for `begin`.
    match unsafe { codes::find(code.addr()) } {
        Some(Code {
            site: Some(site),
            coroutine,
            ..
        }) => {
            let key = match coroutine {
                None => open::call_key(code),
                Some(_) => open::resumed_key(code),
            };
            open::push(key, manual::begin(site));
            true
        }
        Some(Code { site: None, .. }) => false,
        // SAFETY: as the caller says.
        None => unsafe { begin_slow(code) },
    }
}

/// Does the same as [`begin`], for code that runs for the first time, or whose arguments are
/// recorded.
///
/// # Safety
///
/// As for [`begin`].
#[cold]
unsafe fn begin_slow(code: *mut ffi::PyObject) -> bool {
    // SAFETY: as the caller says.
    let code = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), code) };
    let key = open::call_key(code.as_ptr());
    match codes::find_or_trace(&code) {
        Ok(Some(Code {
            site: Some(site),
            args,
            ..
        })) => {
            if args.is_empty() {
                open::push(key, manual::begin(site));
            } else {
                // Reading the values may run code of the program, which may change this entry.
                let names = args.to_vec();
                let values =
                    arguments(code.py(), &names).unwrap_or_else(|_| vec![Value::None; names.len()]);
                let (scope, words) = values::begin(site, || values);
                open::push_with(key, scope, words);
            }
            true
        }
        Ok(Some(Code { site: None, .. })) => false,
        Ok(None) => true,
        // A code object whose attributes cannot be read is skipped.
        Err(_) => true,
    }
}

/// Reads arguments from the frame that has just begun.
fn arguments(py: Python<'_>, names: &[String]) -> PyResult<Vec<Value>> {
    // SAFETY: the frame is borrowed from the thread, and counted here.
    let frame = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    let Some(frame) = frame else {
        return Ok(vec![Value::None; names.len()]);
    };
    let locals = frame.getattr("f_locals")?;
    let value = |name: &String| {
        let value = locals.get_item(name);
        value.map_or(Value::None, |value| Value::of(&value))
    };
    Ok(names.iter().map(value).collect())
}

unsafe fn start(_: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with the code object first, on a thread that is attached to it.
    if unsafe { begin(args.get(0)) } {
        none()
    } else {
        disable()
    }
}

unsafe fn resume(_: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: as for `start`.
    if unsafe { begin_again(args.get(0)) } {
        none()
    } else {
        disable()
    }
}

unsafe fn throw(_: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: as for `start`. This event cannot be disabled by place.
    unsafe { begin_again(args.get(0)) };
    none()
}

/// Ends an activation of a generator or coroutine that is suspended.
unsafe fn suspend(_: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: as for `start`.
    unsafe {
        let code = args.get(0);
        let min_ticks = MIN_TICKS.load(Ordering::Relaxed);
        match codes::find(code.addr()) {
            Some(Code { site: None, .. }) => return disable(),
            Some(Code {
                coroutine: Some(_), ..
            }) => open::suspend(open::call_key(code), min_ticks, frame),
            _ => open::end(open::call_key(code), min_ticks),
        }
    }
    none()
}

unsafe fn end(_: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: as for `start`.
    unsafe {
        let code = args.get(0);
        match codes::find(code.addr()) {
            Some(Code { site: None, .. }) => return disable(),
            found => end_call(code, found),
        }
    }
    none()
}

unsafe fn unwind(_: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: as for `start`. This event comes for all code, recorded or not, and cannot be
    // disabled by place.
    unsafe {
        let code = args.get(0);
        if let Some(found @ Code { site: Some(_), .. }) = codes::find(code.addr()) {
            end_call(code, Some(found));
        }
    }
    none()
}

/// Ends a call or a last activation.
#[inline(always)]
fn end_call(code: *mut ffi::PyObject, found: Option<&Code>) {
    let (key, min_ticks) = (open::call_key(code), MIN_TICKS.load(Ordering::Relaxed));
    match found {
        Some(Code {
            coroutine: Some(_), ..
        }) => open::end_coroutine(key, min_ticks, frame),
        _ => open::end(key, min_ticks),
    }
}

/// Returns the address of the frame of an event. A coroutine has the same frame to its end.
fn frame() -> usize {
    // SAFETY: events come on threads that are attached to the interpreter. The frame object lives
    // as long as the code runs or is suspended.
    unsafe { ffi::PyEval_GetFrame() }.addr()
}

unsafe fn call(_: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with the code, the offset, the callable and its first argument.
    unsafe {
        // Callables that are written in Python have events of their own, and their end does not
        // reach `c_end`.
        if matches!(
            codes::find(args.get(0).addr()),
            Some(Code { site: Some(_), .. })
        ) {
            let called = Bound::from_borrowed_ptr(Python::assume_attached(), args.get(2));
            callee::begin(&called);
        }
    }
    none()
}

unsafe fn c_end(_: *mut ffi::PyObject, _: VectorcallArgs) -> *mut ffi::PyObject {
    callee::end();
    none()
}
