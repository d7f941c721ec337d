//! The C profile callback of CPython 3.11, which a thread calls at the start and end of every
//! function.
//!
//! It is also called when a generator or coroutine is resumed or suspended. It cannot distinguish
//! an exception from a return.

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::recording::codes::{self, Coroutine};
use crate::recording::entry::{add_functions, positional};
use crate::recording::monitor::{self, MIN_TICKS};
use crate::recording::{callee, open};

/// Whether threads have the callback. Written when tracing begins and ends, read relaxed by events.
static TRACING: AtomicBool = AtomicBool::new(false);
/// Whether calls of functions that are not written in Python are recorded too. Written and read
/// like [`TRACING`].
static C_CALLS: AtomicBool = AtomicBool::new(false);

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions(
        module,
        [positional!(
            c"thread_hook",
            thread_hook,
            c"thread_hook(frame, event, arg, /)\n--\n\n\
              Replace itself with the C callback; for threading.setprofile."
        )],
    )
}

/// Sets or removes the callback of this thread.
pub(crate) fn set(on: bool, c_calls: bool) {
    C_CALLS.store(c_calls, Ordering::Relaxed);
    TRACING.store(on, Ordering::Relaxed);
    // SAFETY: the thread is attached to the interpreter; the function lives as long as the process.
    unsafe { ffi::PyEval_SetProfile(on.then_some(event as ffi::Py_tracefunc), ptr::null_mut()) };
}

/// The profile function of a new thread, which replaces itself with [`event`].
unsafe fn thread_hook(_: *mut ffi::PyObject, _: &[*mut ffi::PyObject]) -> Option<()> {
    if TRACING.load(Ordering::Relaxed) {
        // SAFETY: as in `set`.
        unsafe { ffi::PyEval_SetProfile(Some(event), ptr::null_mut()) };
    }
    Some(())
}

unsafe extern "C" fn event(
    _: *mut ffi::PyObject,
    frame: *mut ffi::PyFrameObject,
    what: c_int,
    arg: *mut ffi::PyObject,
) -> c_int {
    if !TRACING.load(Ordering::Relaxed) {
        // SAFETY: as in `set`; it was switched off by another thread.
        unsafe { ffi::PyEval_SetProfile(None, ptr::null_mut()) };
        return 0;
    }
    match what {
        ffi::PyTrace_CALL | ffi::PyTrace_RETURN => {
            // SAFETY: the interpreter passes a frame, which keeps its code alive.
            unsafe {
                let code: *mut ffi::PyObject = ffi::PyFrame_GetCode(frame).cast();
                ffi::Py_DECREF(code);
                let coroutine = codes::find(code.addr()).and_then(|code| code.coroutine.as_ref());
                let at = coroutine.map(|coroutine| Instruction::at(coroutine, frame));
                let (key, min_ticks) = (open::call_key(code), MIN_TICKS.load(Ordering::Relaxed));
                match (what, at) {
                    (ffi::PyTrace_CALL, None | Some(Instruction::Begin)) => {
                        monitor::begin(code);
                    }
                    // Resumed, with a value or an exception.
                    (ffi::PyTrace_CALL, Some(_)) => {
                        monitor::begin_again(code);
                    }
                    (_, None) => open::end(key, min_ticks),
                    (_, Some(Instruction::Yield)) if !arg.is_null() => {
                        open::suspend(key, min_ticks, || frame.addr());
                    }
                    (_, Some(_)) => open::end_coroutine(key, min_ticks, || frame.addr()),
                }
            }
        }
        ffi::PyTrace_C_CALL if C_CALLS.load(Ordering::Relaxed) => {
            // SAFETY: the interpreter passes the callable, on a thread that is attached to it.
            callee::begin(&unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), arg) });
        }
        ffi::PyTrace_C_RETURN | ffi::PyTrace_C_EXCEPTION if C_CALLS.load(Ordering::Relaxed) => {
            callee::end()
        }
        _ => {}
    }
    0
}

/// The instruction that a frame of a coroutine executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instruction {
    /// The first instruction.
    Begin,
    /// A suspension.
    Yield,
    /// Any other instruction.
    Other,
}

impl Instruction {
    /// Returns the instruction that a frame of this coroutine executes.
    ///
    /// # Safety
    ///
    /// The frame is alive, and of code with these instructions.
    unsafe fn at(coroutine: &Coroutine, frame: *mut ffi::PyFrameObject) -> Self {
        // Opcodes of CPython 3.11, the only version that uses this module. The first instruction of
        // a function is the only `RESUME` with argument 0.
        const YIELD_VALUE: u8 = 86;
        const RESUME: u8 = 151;
        // SAFETY: as the caller says.
        let at = unsafe { ffi::PyFrame_GetLasti(frame) };
        let at = usize::try_from(at).ok();
        match at.and_then(|at| coroutine.instructions.get(at..at + 2)) {
            Some([RESUME, 0]) => Self::Begin,
            Some([YIELD_VALUE, _]) => Self::Yield,
            _ => Self::Other,
        }
    }
}
