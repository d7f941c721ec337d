//! Types and functions by the interpreter's own calling conventions, for what is called too often
//! for PyO3's.
//!
//! A type is made once, when the module is loaded, and lives as long as the process. All of this is
//! in the stable ABI of 3.12; in 3.11 the same names are outside it.

#![expect(unsafe_code, reason = "the interpreter's own interface is one of C")]

use std::ffi::{CStr, c_int, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

unsafe extern "C" {
    /// What a type that is called by vectorcall has for other callers. In the stable ABI since
    /// 3.12.
    pub(crate) fn PyVectorcall_Call(
        callable: *mut ffi::PyObject,
        args: *mut ffi::PyObject,
        keywords: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

/// The slot of what resumes a generator. In the stable ABI since 3.10.
#[expect(non_upper_case_globals, reason = "the interpreter's own name")]
pub(crate) const Py_am_send: c_int = 81;

/// Returns how many arguments a vectorcall has without keywords: the upmost bit says something
/// else.
pub(crate) fn positional_count(count: usize) -> usize {
    count & (usize::MAX >> 1)
}

/// A type of this module. Written once by [`make`](Self::make) where the module is made (release),
/// read by whoever makes an object of it (acquire).
pub(crate) struct TypeCell(AtomicPtr<ffi::PyTypeObject>);

impl TypeCell {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Makes the type, and returns it for the module to name.
    pub(crate) fn make<'py>(
        &self,
        py: Python<'py>,
        name: &'static CStr,
        size: usize,
        flags: c_ulong,
        slots: &[(c_int, *mut c_void)],
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut all: Vec<ffi::PyType_Slot> = slots
            .iter()
            .map(|(slot, value)| ffi::PyType_Slot {
                slot: *slot,
                pfunc: *value,
            })
            .collect();
        all.push(ffi::PyType_Slot {
            slot: 0,
            pfunc: std::ptr::null_mut(),
        });
        let mut spec = ffi::PyType_Spec {
            name: name.as_ptr(),
            basicsize: c_int::try_from(size).unwrap_or(c_int::MAX),
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | flags) as c_uint,
            slots: all.as_mut_ptr(),
        };
        // SAFETY: the specification ends with slot 0 and is copied; what the slots point to are
        // functions and leaked tables, and the name is a literal.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec)) }?;
        self.0
            .store(made.clone().into_ptr().cast(), Ordering::Release);
        Ok(made)
    }

    /// Returns the type; null before it was made.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut ffi::PyTypeObject {
        self.0.load(Ordering::Acquire)
    }
}

/// Returns a leaked table of methods, with the entry that ends it.
pub(crate) fn methods<const N: usize>(methods: [ffi::PyMethodDef; N]) -> *mut ffi::PyMethodDef {
    let mut all = Vec::from(methods);
    all.push(ffi::PyMethodDef::zeroed());
    Vec::leak(all).as_mut_ptr()
}

/// Returns a leaked table of members that say where the interpreter finds things in an object:
/// names like `__vectorcalloffset__`, and offsets in bytes.
pub(crate) fn offsets<const N: usize>(offsets: [(&'static CStr, usize); N]) -> *mut c_void {
    let mut all: Vec<ffi::PyMemberDef> = offsets
        .into_iter()
        .map(|(name, offset)| ffi::PyMemberDef {
            name: name.as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: offset as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: std::ptr::null(),
        })
        .collect();
    // SAFETY: all zero is the entry that ends such a table.
    all.push(unsafe { std::mem::zeroed() });
    Vec::leak(all).as_mut_ptr().cast()
}

/// Adds functions to a module.
pub(crate) fn add_functions<const N: usize>(
    module: &Bound<'_, PyModule>,
    functions: [ffi::PyMethodDef; N],
) -> PyResult<()> {
    // SAFETY: the module is alive, and the table ends and is leaked.
    let added = unsafe { ffi::PyModule_AddFunctions(module.as_ptr(), methods(functions)) };
    match added {
        0 => Ok(()),
        _ => Err(take_error(module.py())),
    }
}

/// Returns the error that a function of the interpreter has set.
pub(crate) fn take_error(py: Python<'_>) -> PyErr {
    PyErr::take(py)
        .unwrap_or_else(|| PyRuntimeError::new_err("vor: the interpreter failed without an error"))
}

/// A function without arguments.
pub(crate) const fn no_args(
    name: &'static CStr,
    function: ffi::PyCFunction,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunction: function,
        },
        ml_flags: ffi::METH_NOARGS,
        ml_doc: doc.as_ptr(),
    }
}

/// A function with positional arguments, as an array.
pub(crate) const fn positional(
    name: &'static CStr,
    function: ffi::PyCFunctionFast,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionFast: function,
        },
        ml_flags: ffi::METH_FASTCALL,
        ml_doc: doc.as_ptr(),
    }
}

/// A function with positional arguments and keywords, as an array.
pub(crate) const fn keywords(
    name: &'static CStr,
    function: ffi::PyCFunctionFastWithKeywords,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionFastWithKeywords: function,
        },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.as_ptr(),
    }
}

/// Returns the text of a `str` without a copy; `None`, with the error set, where it is no `str` or
/// has no UTF-8.
///
/// # Safety
///
/// `object` is alive, and stays so as long as the text is used.
pub(crate) unsafe fn text<'a>(object: *mut ffi::PyObject) -> Option<&'a str> {
    let mut bytes = 0;
    // SAFETY: as the caller says; the function checks the type.
    let start = unsafe { ffi::PyUnicode_AsUTF8AndSize(object, &mut bytes) };
    if start.is_null() {
        return None;
    }
    // SAFETY: the interpreter gives so many bytes of UTF-8, which it keeps with the object.
    Some(unsafe {
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(
            start.cast(),
            bytes.unsigned_abs(),
        ))
    })
}

/// Shows the collector what an object holds: one reference, where it is there, and its type.
/// Returns what the first visit that did not give zero gave.
///
/// # Safety
///
/// Called from the object's `tp_traverse`, with what that was called with; `held` is null or a
/// reference that `object` owns.
pub(crate) unsafe fn visit_held(
    object: *mut ffi::PyObject,
    held: *mut ffi::PyObject,
    visit: ffi::visitproc,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as the caller says; an object of a type made on the heap owns a reference to it.
    unsafe {
        if !held.is_null() {
            let stopped = visit(held, context);
            if stopped != 0 {
                return stopped;
            }
        }
        visit(ffi::Py_TYPE(object).cast(), context)
    }
}

/// Sets an error and returns the null that says so.
pub(crate) fn raise(error: PyErr) -> *mut ffi::PyObject {
    // SAFETY: this is called in functions of the interpreter's, whose thread is attached to it.
    unsafe { error.restore(Python::assume_attached()) };
    std::ptr::null_mut()
}

/// Returns a new reference to `None`.
#[inline(always)]
pub(crate) fn none() -> *mut ffi::PyObject {
    // SAFETY: `None` is always there.
    unsafe {
        let none = ffi::Py_None();
        // From 3.12 on it is immortal, and need not be counted.
        if cfg!(not(Py_3_12)) {
            ffi::Py_INCREF(none);
        }
        none
    }
}
