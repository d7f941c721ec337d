//! The exception for files that cannot be read.

use std::io;
use std::path::Path;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

pyo3::create_exception!(
    vor,
    CaptureError,
    PyOSError,
    "A file cannot be read: it is missing, is not a capture, or is damaged beyond recovery."
);

/// Makes the exception for a file. Its text has the path once, whether or not the error has it.
pub(super) fn failed(path: &Path, error: vor_capture::Error) -> PyErr {
    let shown = path.display().to_string();
    let reason = error.to_string();
    let reason = reason
        .strip_prefix(&shown)
        .and_then(|rest| rest.strip_prefix(": "))
        .unwrap_or(&reason)
        .to_owned();
    let kind = error.is_io().then(|| io::Error::from(error).kind());
    let errno = match kind {
        Some(io::ErrorKind::NotFound) => Some(errno_of::NOT_FOUND),
        Some(io::ErrorKind::PermissionDenied) => Some(errno_of::PERMISSION_DENIED),
        Some(io::ErrorKind::IsADirectory) => Some(errno_of::IS_A_DIRECTORY),
        _ => None,
    };
    let raised = CaptureError::new_err(format!("{shown}: {reason}"));
    // The exception is valid without these attributes too, so errors are ignored.
    drop(Python::attach(|py| -> PyResult<()> {
        let value = raised.value(py);
        value.setattr("path", path)?;
        value.setattr("reason", reason)?;
        value.setattr("errno", errno)
    }));
    raised
}

/// Error numbers, which are the same on every system that Python supports.
mod errno_of {
    pub(super) const NOT_FOUND: i32 = 2;
    pub(super) const PERMISSION_DENIED: i32 = 13;
    pub(super) const IS_A_DIRECTORY: i32 = 21;
}
