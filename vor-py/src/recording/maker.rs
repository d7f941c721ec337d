//! The place in the program at which a lock is made.
//!
//! The standard library makes locks for the program: a queue has one, and so has the result of a
//! job. Such a lock is named after the line of the program that asked for it.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Most frames that are looked at. A program's own frame is near.
const MAX_FRAMES: usize = 24;

/// Folders of installed packages inside the folder of the standard library.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// The folders of the standard library and of this package.
static FOLDERS: OnceLock<[String; 2]> = OnceLock::new();

/// Returns the file and the line of the innermost frame outside the standard library, or of the
/// innermost one if there is none.
pub(crate) fn place(py: Python<'_>) -> PyResult<(Bound<'_, PyString>, u32)> {
    let folders = match FOLDERS.get() {
        Some(folders) => folders,
        None => {
            let folders = [folder_of(py, "threading")?, folder_of(py, "vor")?];
            FOLDERS.get_or_init(|| folders)
        }
    };
    let mut innermost = None;
    let mut frame = innermost_frame(py);
    for _ in 0..MAX_FRAMES {
        let Some(here) = frame else {
            break;
        };
        let code = here.getattr(intern!(py, "f_code"))?;
        let file = code.getattr(intern!(py, "co_filename"))?;
        let file = file.cast_into::<PyString>()?;
        let is_program = file.to_str().is_ok_and(|file| !is_library(file, folders));
        if is_program || innermost.is_none() {
            let place = (file, line_of(&here)?);
            if is_program {
                return Ok(place);
            }
            innermost = Some(place);
        }
        frame = Some(here.getattr(intern!(py, "f_back"))?).filter(|back| !back.is_none());
    }
    // A lock that is made without any Python code.
    Ok(innermost.unwrap_or_else(|| (PyString::new(py, "<unknown>"), 0)))
}

fn is_library(file: &str, folders: &[String; 2]) -> bool {
    if file.starts_with("<frozen ") {
        return true;
    }
    folders.iter().any(|folder| {
        let inside = file.strip_prefix(folder.as_str());
        let inside = inside.and_then(|inside| inside.strip_prefix(['/', '\\']));
        inside.is_some_and(|inside| !PACKAGES.iter().any(|name| inside.starts_with(name)))
    })
}

/// Returns the folder of a module's file.
fn folder_of(py: Python<'_>, module: &str) -> PyResult<String> {
    let file: String = py.import(module)?.getattr("__file__")?.extract()?;
    let end = file.rfind(['/', '\\']).unwrap_or(0);
    Ok(file[..end].to_owned())
}

fn line_of(frame: &Bound<'_, PyAny>) -> PyResult<u32> {
    let line = frame.getattr(intern!(frame.py(), "f_lineno"))?;
    Ok(line.extract().unwrap_or(0))
}

/// Returns the frame of Python that calls.
pub(crate) fn innermost_frame(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    #[expect(unsafe_code, reason = "PyO3 has no function for the running frame")]
    // SAFETY: the thread is attached to the interpreter; the frame lives as long as the call.
    unsafe {
        Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast())
    }
}
