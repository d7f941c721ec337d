//! Types of the module that C structs define, for objects that are made or called too often for
//! PyO3's classes.
//!
//! A type is made once, when the module is loaded, and lives as long as the process. The functions
//! that it uses are in the stable ABI of 3.12. In 3.11 the same names are outside it.

#![expect(unsafe_code, reason = "the interpreter's own interface is one of C")]

use std::ffi::{CStr, c_int, c_uint, c_ulong, c_void};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::recording::entry::method_table;

unsafe extern "C" {
    /// `tp_call` of a type whose objects have a vectorcall function. In the stable ABI since 3.12.
    fn PyVectorcall_Call(
        callable: *mut ffi::PyObject,
        args: *mut ffi::PyObject,
        keywords: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

/// The slot of the function that resumes a generator. In the stable ABI since 3.10.
#[expect(non_upper_case_globals, reason = "the interpreter's own name")]
pub(crate) const Py_am_send: c_int = 81;

/// The parts of a type: flags, slots, and places of fields that the interpreter uses.
pub(crate) struct TypeSpec {
    name: &'static CStr,
    flags: c_ulong,
    slots: Vec<ffi::PyType_Slot>,
    offsets: Vec<ffi::PyMemberDef>,
}

impl TypeSpec {
    pub(crate) fn new(name: &'static CStr) -> Self {
        Self {
            name,
            flags: ffi::Py_TPFLAGS_DEFAULT,
            slots: Vec::new(),
            offsets: Vec::new(),
        }
    }

    pub(crate) fn flag(mut self, flag: c_ulong) -> Self {
        self.flags |= flag;
        self
    }

    /// Fills a slot with a function that has the slot's convention.
    pub(crate) fn slot(mut self, slot: c_int, pfunc: *mut c_void) -> Self {
        self.slots.push(ffi::PyType_Slot { slot, pfunc });
        self
    }

    pub(crate) fn doc(self, doc: &'static CStr) -> Self {
        self.slot(ffi::Py_tp_doc, doc.as_ptr().cast_mut().cast())
    }

    pub(crate) fn methods<const N: usize>(self, methods: [ffi::PyMethodDef; N]) -> Self {
        self.slot(ffi::Py_tp_methods, method_table(methods).cast())
    }

    /// Adds properties.
    pub(crate) fn getters<const N: usize>(self, getters: [ffi::PyGetSetDef; N]) -> Self {
        let mut table = Vec::from(getters);
        table.push(ffi::PyGetSetDef::default());
        self.slot(ffi::Py_tp_getset, Vec::leak(table).as_mut_ptr().cast())
    }

    /// Makes objects callable through the vectorcall function in the field at this offset.
    pub(crate) fn vectorcall(self, offset: usize) -> Self {
        self.flag(ffi::Py_TPFLAGS_HAVE_VECTORCALL)
            .offset(c"__vectorcalloffset__", offset)
            .slot(ffi::Py_tp_call, PyVectorcall_Call as *mut c_void)
    }

    /// Allows weak references to objects. The field at this offset holds them.
    pub(crate) fn weak_references(self, offset: usize) -> Self {
        self.offset(c"__weaklistoffset__", offset)
    }

    fn offset(mut self, name: &'static CStr, offset: usize) -> Self {
        self.offsets.push(ffi::PyMemberDef {
            name: name.as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: offset as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: ptr::null(),
        });
        self
    }
}

/// A type whose objects are a `T`, a C struct that starts with `ffi::PyObject`.
/// [`make`](Self::make) writes it once, when the module is made (release). Every thread that makes
/// an object of the type reads it (acquire).
pub(crate) struct TypeCell<T> {
    made: AtomicPtr<ffi::PyTypeObject>,
    object: PhantomData<fn() -> T>,
}

impl<T> TypeCell<T> {
    pub(crate) const fn new() -> Self {
        Self {
            made: AtomicPtr::new(ptr::null_mut()),
            object: PhantomData,
        }
    }

    /// Makes the type, and returns it, so that the module can add it.
    pub(crate) fn make<'py>(&self, py: Python<'py>, spec: TypeSpec) -> PyResult<Bound<'py, PyAny>> {
        let TypeSpec {
            name,
            flags,
            mut slots,
            mut offsets,
        } = spec;
        if !offsets.is_empty() {
            // SAFETY: all zero is the entry that ends such a table.
            offsets.push(unsafe { std::mem::zeroed() });
            slots.push(ffi::PyType_Slot {
                slot: ffi::Py_tp_members,
                pfunc: Vec::leak(offsets).as_mut_ptr().cast(),
            });
        }
        slots.push(ffi::PyType_Slot {
            slot: 0,
            pfunc: ptr::null_mut(),
        });
        let mut spec = ffi::PyType_Spec {
            name: name.as_ptr(),
            basicsize: c_int::try_from(size_of::<T>()).unwrap_or(c_int::MAX),
            itemsize: 0,
            flags: flags as c_uint,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the specification ends with slot 0 and is copied; the slots point to functions
        // and leaked tables, and the name is a literal.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec)) }?;
        self.made
            .store(made.clone().into_ptr().cast(), Ordering::Release);
        Ok(made)
    }

    /// Returns the type, or null before it was made.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut ffi::PyTypeObject {
        self.made.load(Ordering::Acquire)
    }
}

/// Makes an object. `write` fills the fields after `ffi::PyObject`, which are zero. If there is no
/// memory, returns null, with the error set, and does not call `write`.
///
/// # Safety
///
/// `kind` is the type of a `TypeCell<T>` or one below it, and the thread is attached to the
/// interpreter. `write` leaves the object complete. Nobody else sees it before, but for the
/// collector, which visits the field with a reference and skips null there.
#[inline(always)]
pub(crate) unsafe fn allocate<T>(
    kind: *mut ffi::PyTypeObject,
    write: impl FnOnce(*mut T),
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    let made = unsafe { ffi::PyType_GenericAlloc(kind, 0) };
    if !made.is_null() {
        write(made.cast());
    }
    made
}

/// An object that only calls a function.
#[repr(C)]
pub(crate) struct Callback {
    base: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
}

impl Callback {
    /// Returns the specification of a type whose objects are callbacks.
    pub(crate) fn type_spec(name: &'static CStr) -> TypeSpec {
        TypeSpec::new(name).vectorcall(offset_of!(Self, vectorcall))
    }

    /// Makes an object of a type of callbacks.
    pub(crate) fn make<'py>(
        py: Python<'py>,
        kind: &TypeCell<Self>,
        function: ffi::vectorcallfunc,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the one field is written, and there is no reference in it.
        unsafe {
            let made = allocate(kind.get(), |object: *mut Self| {
                (&raw mut (*object).vectorcall).write(function);
            });
            Bound::from_owned_ptr_or_err(py, made)
        }
    }
}

/// Returns the error that a function of the interpreter has set.
pub(crate) fn take_error(py: Python<'_>) -> PyErr {
    PyErr::take(py)
        .unwrap_or_else(|| PyRuntimeError::new_err("vor: the interpreter failed without an error"))
}

/// Calls a function while an exception may be pending, and preserves that exception.
pub(crate) fn with_error_aside<R>(py: Python<'_>, work: impl FnOnce() -> R) -> R {
    let pending = PyErr::take(py);
    let done = work();
    if let Some(pending) = pending {
        pending.restore(py);
    }
    done
}

/// Returns the text of a `str` without a copy. Returns `None`, with the error set, if it is no
/// `str` or has no UTF-8.
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
    // SAFETY: the interpreter returns so many bytes of UTF-8, which live as long as the object.
    Some(unsafe {
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(
            start.cast(),
            bytes.unsigned_abs(),
        ))
    })
}

/// Returns the name of an object's type, for messages.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    let kind = object.get_type();
    kind.name()
        .map_or_else(|_| "?".into(), |name| name.to_string())
}

/// Returns an object's `repr`, for messages.
pub(crate) fn repr_text(object: &Bound<'_, PyAny>) -> String {
    object
        .repr()
        .map_or_else(|_| "?".into(), |repr| repr.to_string())
}

/// Sets an error and returns null, which reports it.
pub(crate) fn raise(error: PyErr) -> *mut ffi::PyObject {
    // SAFETY: this is called in functions of the interpreter's, whose thread is attached to it.
    unsafe { error.restore(Python::assume_attached()) };
    ptr::null_mut()
}

/// Returns a new reference to `None`.
#[inline(always)]
pub(crate) fn none() -> *mut ffi::PyObject {
    // SAFETY: `None` is always there.
    unsafe {
        let none = ffi::Py_None();
        // From 3.12 on, it is immortal and not counted.
        if cfg!(not(Py_3_12)) {
            ffi::Py_INCREF(none);
        }
        none
    }
}
