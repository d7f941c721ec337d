//! What `sys.monitoring` calls, on CPython 3.12 and later.
//!
//! The package registers one object for each kind of event (`_monitor.py`), and switches events on
//! and off. Each is called by vectorcall with the code object first. A place whose code is not
//! recorded answers `sys.monitoring.DISABLE`, and is not asked again.
//!
//! | event | begins or ends |
//! |---|---|
//! | `PY_START`, `PY_RESUME` | a call, or an activation of a generator or coroutine |
//! | `PY_THROW` | such an activation, by an exception |
//! | `PY_YIELD` | ends an activation; of a coroutine, the task that the activations are goes on |
//! | `PY_RETURN` | ends a call or an activation, and the task |
//! | `PY_UNWIND` | ends them, by an exception |
//! | `CALL`, `C_RETURN`, `C_RAISE` | a call of what is not written in Python, if asked for |

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vor_recorder::hot::scope::manual;

use crate::codes::{self, Code};
use crate::object::{PyVectorcall_Call, TypeCell, none, offsets};
use crate::values::Value;
use crate::{callee, open};

/// An object that is called for events.
#[repr(C)]
struct Hook {
    base: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
}

static TYPE: TypeCell = TypeCell::new();

/// `sys.monitoring.DISABLE`, which lives as long as the process. Written by [`hooks`], always with
/// this object, before any event comes.
static DISABLE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(ptr::null_mut());

/// Calls shorter than this many ticks leave no record. Written when tracing begins, read relaxed by
/// every end.
pub(crate) static MIN_TICKS: AtomicU64 = AtomicU64::new(0);

/// Makes the type of the objects to be registered.
pub(crate) fn make_type(py: Python<'_>) -> PyResult<()> {
    TYPE.make(
        py,
        c"vor._core.Hook",
        size_of::<Hook>(),
        ffi::Py_TPFLAGS_HAVE_VECTORCALL,
        &[
            (
                ffi::Py_tp_members,
                offsets([(c"__vectorcalloffset__", offset_of!(Hook, vectorcall))]),
            ),
            (ffi::Py_tp_call, PyVectorcall_Call as *mut c_void),
        ],
    )?;
    Ok(())
}

/// Makes the objects to be registered, by the names of their events.
pub(crate) fn hooks<'py>(
    py: Python<'py>,
    disable: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let had = DISABLE.swap(disable.clone().into_ptr(), Ordering::Relaxed);
    // SAFETY: what was there before was counted here.
    unsafe { ffi::Py_XDECREF(had) };
    let all = PyDict::new(py);
    let functions: [(&str, ffi::vectorcallfunc); 9] = [
        ("PY_START", start),
        ("PY_RESUME", resume),
        ("PY_THROW", throw),
        ("PY_RETURN", end),
        ("PY_YIELD", suspend),
        ("PY_UNWIND", unwind),
        ("CALL", call),
        ("C_RETURN", c_end),
        ("C_RAISE", c_end),
    ];
    for (event, function) in functions {
        // SAFETY: the type's objects have room for a `Hook`, which is complete before anyone sees
        // it.
        let hook = unsafe {
            let hook = ffi::PyType_GenericAlloc(TYPE.get(), 0);
            if !hook.is_null() {
                (&raw mut (*hook.cast::<Hook>()).vectorcall).write(function);
            }
            Bound::from_owned_ptr_or_err(py, hook)
        }?;
        all.set_item(event, hook)?;
    }
    Ok(all)
}

#[inline(always)]
fn disable() -> *mut ffi::PyObject {
    let disable = DISABLE.load(Ordering::Relaxed);
    // SAFETY: the object is counted above, and this is one reference more.
    unsafe { ffi::Py_INCREF(disable) };
    disable
}

/// Begins a call of what is known, and returns whether its code is recorded.
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

/// Begins an activation of a generator or coroutine after its first, which has no arguments;
/// returns as [`begin`].
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

/// As [`begin`], of code that is seen for the first time, or whose arguments are recorded.
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
                // Reading them may run code of the program, which may change what is known of this
                // code.
                let names = args.to_vec();
                let values =
                    arguments(code.py(), &names).unwrap_or_else(|_| vec![Value::None; names.len()]);
                let (begun, words) = manual::begin_with(site, |put| {
                    values.iter().for_each(|value| put(value.word()));
                });
                open::push_with(key, begun, words);
            }
            true
        }
        Ok(Some(Code { site: None, .. })) => false,
        Ok(None) => true,
        // A code object whose attributes cannot be read is passed over.
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

unsafe extern "C" fn start(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    _: usize,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with the code object first, on a thread that is attached to it.
    if unsafe { begin(*args) } {
        none()
    } else {
        disable()
    }
}

unsafe extern "C" fn resume(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    _: usize,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `start`.
    if unsafe { begin_again(*args) } {
        none()
    } else {
        disable()
    }
}

unsafe extern "C" fn throw(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    _: usize,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `start`. This event cannot be disabled by place.
    unsafe { begin_again(*args) };
    none()
}

/// Ends an activation of what is suspended.
unsafe extern "C" fn suspend(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    _: usize,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `start`.
    unsafe {
        let code = *args;
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

unsafe extern "C" fn end(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    _: usize,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `start`.
    unsafe {
        let code = *args;
        match codes::find(code.addr()) {
            Some(Code { site: None, .. }) => return disable(),
            known => end_call(code, known),
        }
    }
    none()
}

unsafe extern "C" fn unwind(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    _: usize,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `start`. This event is for all code, also what is not recorded, and cannot be
    // disabled by place.
    unsafe {
        let code = *args;
        if let Some(known @ Code { site: Some(_), .. }) = codes::find(code.addr()) {
            end_call(code, Some(known));
        }
    }
    none()
}

/// Ends a call or the last activation of what is known so.
#[inline(always)]
fn end_call(code: *mut ffi::PyObject, known: Option<&Code>) {
    let (key, min_ticks) = (open::call_key(code), MIN_TICKS.load(Ordering::Relaxed));
    match known {
        Some(Code {
            coroutine: Some(_), ..
        }) => open::end_life(key, min_ticks, frame),
        _ => open::end(key, min_ticks),
    }
}

/// Returns the address of the frame that an event comes from, which a coroutine has to its end.
fn frame() -> usize {
    // SAFETY: events come on threads that are attached to the interpreter. It keeps a frame that
    // was asked for as long as the code runs or is suspended.
    unsafe { ffi::PyEval_GetFrame() }.addr()
}

unsafe extern "C" fn call(
    _: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    _: usize,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with the code, the offset, what is called and its first
    // argument.
    unsafe {
        // What is written in Python has events of its own, and no end comes for it here.
        if matches!(
            codes::find((*args).addr()),
            Some(Code { site: Some(_), .. })
        ) {
            let called = Bound::from_borrowed_ptr(Python::assume_attached(), *args.add(2));
            callee::begin(&called);
        }
    }
    none()
}

unsafe extern "C" fn c_end(
    _: *mut ffi::PyObject,
    _: *const *mut ffi::PyObject,
    _: usize,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    callee::end();
    none()
}
