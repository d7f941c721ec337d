//! The Python module: its contents, with and without the recorder.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The part of the package `vor` that is in Rust.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::reading::{CaptureError, Column, Reading, Table, contents};

    #[cfg(feature = "module")]
    #[pymodule_export]
    use crate::recording::interface::{
        calibrate, capture_path, close_capture, command, disable, dump, empty_span_ns, enable,
        flush, forget_gil, hooks, is_enabled, mark_frames_every, measure_gil, put_code,
        record_metric_unit, scope_rules, scopes, set_scopes, stop_marking_frames,
        stop_measuring_gil, trace, wait_scope, wrap,
    };

    use super::*;

    /// Whether this build has the recorder and the command.
    #[pymodule_export]
    const RECORDS: bool = cfg!(feature = "module");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        refuse_second_interpreter()?;
        #[cfg(feature = "module")]
        crate::recording::init(module)?;
        // PyO3 adds private names to it too. The package has its own `__all__`.
        let _ = module.delattr("__all__");
        Ok(())
    }
}

/// Fails in subinterpreters. The process shares types, tables and the recorder, and they refer to
/// objects of one interpreter.
fn refuse_second_interpreter() -> PyResult<()> {
    #[expect(
        unsafe_code,
        reason = "PyO3 has no function for the number of the interpreter"
    )]
    // SAFETY: a module is made by a thread that is attached to its interpreter, which lives as long
    // as the call.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match number {
        0 => Ok(()),
        _ => Err(PyImportError::new_err(
            "vor does not support subinterpreters",
        )),
    }
}
