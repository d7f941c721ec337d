//! C entry points: functions that the interpreter calls with its own conventions, which cost less
//! than PyO3's.
//!
//! A function is plain Rust. A macro makes the C function around it at its registration:
//! [`vectorcall!`] for callable objects and events, [`no_args!`], [`positional!`] and [`keywords!`]
//! for methods and functions of the module. The interpreter attaches the thread before it calls,
//! and passes objects that live as long as the call.

#![expect(unsafe_code, reason = "the interpreter's own interface is one of C")]

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::recording::object::{none, take_error};

/// The arguments of a vectorcall, as the interpreter passes them.
#[derive(Clone, Copy)]
pub(crate) struct VectorcallArgs {
    first: *const *mut ffi::PyObject,
    /// The number of positional arguments. The highest bit means that the place before the first
    /// argument may be overwritten.
    count_and_flag: usize,
    keywords: *mut ffi::PyObject,
}

impl VectorcallArgs {
    #[inline(always)]
    pub(crate) fn new(
        first: *const *mut ffi::PyObject,
        count_and_flag: usize,
        keywords: *mut ffi::PyObject,
    ) -> Self {
        Self {
            first,
            count_and_flag,
            keywords,
        }
    }

    /// Returns the number of positional arguments.
    #[inline(always)]
    pub(crate) fn positional_count(self) -> usize {
        self.count_and_flag & (usize::MAX >> 1)
    }

    /// Returns the names of the keyword arguments, a tuple of `str`; null if there are none.
    #[inline(always)]
    pub(crate) fn keywords(self) -> *mut ffi::PyObject {
        self.keywords
    }

    /// Returns the argument at a position. Keyword arguments follow the positional ones.
    ///
    /// # Safety
    ///
    /// There are more arguments than `at`.
    #[inline(always)]
    pub(crate) unsafe fn get(self, at: usize) -> *mut ffi::PyObject {
        // SAFETY: as the caller says.
        unsafe { *self.first.add(at) }
    }

    /// Returns the arguments after the first one, which is positional.
    ///
    /// # Safety
    ///
    /// There is a positional argument.
    #[inline(always)]
    pub(crate) unsafe fn skip_first(self) -> Self {
        // SAFETY: as the caller says.
        let first = unsafe { self.first.add(1) };
        Self::new(first, self.positional_count() - 1, self.keywords)
    }

    /// Passes the arguments on unchanged.
    ///
    /// # Safety
    ///
    /// `callable` may be called by `function`.
    #[inline(always)]
    pub(crate) unsafe fn pass_to(
        self,
        function: ffi::vectorcallfunc,
        callable: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: as the caller says; the arguments are those of the call that this is in.
        unsafe { function(callable, self.first, self.count_and_flag, self.keywords) }
    }

    /// Passes the arguments on unchanged to any callable.
    ///
    /// # Safety
    ///
    /// `callable` is alive.
    #[inline(always)]
    pub(crate) unsafe fn pass_to_object(self, callable: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: as the caller says; the arguments are those of the call that this is in.
        unsafe {
            ffi::PyObject_Vectorcall(callable, self.first, self.count_and_flag, self.keywords)
        }
    }
}

/// A result that a function returns to the interpreter.
pub(crate) trait Outcome {
    /// Returns a new reference, or null if an error is set.
    fn into_raw(self) -> *mut ffi::PyObject;
}

impl Outcome for *mut ffi::PyObject {
    #[inline(always)]
    fn into_raw(self) -> *mut ffi::PyObject {
        self
    }
}

impl Outcome for Option<()> {
    /// Returns Python's `None`, or null if an error is set.
    #[inline(always)]
    fn into_raw(self) -> *mut ffi::PyObject {
        self.map_or(ptr::null_mut(), |()| none())
    }
}

/// Makes the C function that calls an
/// `unsafe fn(callable: *mut ffi::PyObject, args: VectorcallArgs) -> impl Outcome`.
macro_rules! vectorcall {
    ($function:path) => {{
        unsafe extern "C" fn entry(
            callable: *mut ::pyo3::ffi::PyObject,
            args: *const *mut ::pyo3::ffi::PyObject,
            count: usize,
            keywords: *mut ::pyo3::ffi::PyObject,
        ) -> *mut ::pyo3::ffi::PyObject {
            let args = $crate::recording::entry::VectorcallArgs::new(args, count, keywords);
            // SAFETY: the interpreter calls with an object of the type, or for an event, and with
            // arguments that live as long as the call.
            $crate::recording::entry::Outcome::into_raw(unsafe { $function(callable, args) })
        }
        entry as ::pyo3::ffi::vectorcallfunc
    }};
}

/// Makes the entry of a method table for an
/// `unsafe fn(object: *mut ffi::PyObject) -> impl Outcome`.
macro_rules! no_args {
    ($name:literal, $function:path, $doc:expr) => {{
        unsafe extern "C" fn entry(
            object: *mut ::pyo3::ffi::PyObject,
            _: *mut ::pyo3::ffi::PyObject,
        ) -> *mut ::pyo3::ffi::PyObject {
            // SAFETY: the interpreter calls with the module or an object of the type.
            $crate::recording::entry::Outcome::into_raw(unsafe { $function(object) })
        }
        ::pyo3::ffi::PyMethodDef {
            ml_name: $name.as_ptr(),
            ml_meth: ::pyo3::ffi::PyMethodDefPointer { PyCFunction: entry },
            ml_flags: ::pyo3::ffi::METH_NOARGS,
            ml_doc: $doc.as_ptr(),
        }
    }};
}

/// Makes the entry of a method table for an
/// `unsafe fn(object: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> impl Outcome`.
macro_rules! positional {
    ($name:literal, $function:path, $doc:expr) => {{
        unsafe extern "C" fn entry(
            object: *mut ::pyo3::ffi::PyObject,
            args: *mut *mut ::pyo3::ffi::PyObject,
            count: ::pyo3::ffi::Py_ssize_t,
        ) -> *mut ::pyo3::ffi::PyObject {
            // SAFETY: the interpreter calls with the module or an object of the type, and with so
            // many arguments, which live as long as the call.
            $crate::recording::entry::Outcome::into_raw(unsafe {
                $function(object, $crate::recording::entry::slice(args, count))
            })
        }
        ::pyo3::ffi::PyMethodDef {
            ml_name: $name.as_ptr(),
            ml_meth: ::pyo3::ffi::PyMethodDefPointer {
                PyCFunctionFast: entry,
            },
            ml_flags: ::pyo3::ffi::METH_FASTCALL,
            ml_doc: $doc.as_ptr(),
        }
    }};
}

/// Makes the entry of a method table for an
/// `unsafe fn(object: *mut ffi::PyObject, args: VectorcallArgs) -> impl Outcome`.
macro_rules! keywords {
    ($name:literal, $function:path, $doc:expr) => {{
        unsafe extern "C" fn entry(
            object: *mut ::pyo3::ffi::PyObject,
            args: *const *mut ::pyo3::ffi::PyObject,
            count: ::pyo3::ffi::Py_ssize_t,
            keywords: *mut ::pyo3::ffi::PyObject,
        ) -> *mut ::pyo3::ffi::PyObject {
            let args =
                $crate::recording::entry::VectorcallArgs::new(args, count.unsigned_abs(), keywords);
            // SAFETY: the interpreter calls with the module, and with arguments that live as long
            // as the call.
            $crate::recording::entry::Outcome::into_raw(unsafe { $function(object, args) })
        }
        ::pyo3::ffi::PyMethodDef {
            ml_name: $name.as_ptr(),
            ml_meth: ::pyo3::ffi::PyMethodDefPointer {
                PyCFunctionFastWithKeywords: entry,
            },
            ml_flags: ::pyo3::ffi::METH_FASTCALL | ::pyo3::ffi::METH_KEYWORDS,
            ml_doc: $doc.as_ptr(),
        }
    }};
}

/// Makes the entry of a method table for a function as in [`keywords!`] that may block. The
/// interpreter may end its thread meanwhile, and the C library unwinds it then. So neither the
/// function nor one that it calls owns anything with a destructor while it blocks.
macro_rules! blocking {
    ($name:literal, $function:path, $doc:expr) => {{
        unsafe extern "C-unwind" fn entry(
            object: *mut ::pyo3::ffi::PyObject,
            args: *const *mut ::pyo3::ffi::PyObject,
            count: ::pyo3::ffi::Py_ssize_t,
            keywords: *mut ::pyo3::ffi::PyObject,
        ) -> *mut ::pyo3::ffi::PyObject {
            let args =
                $crate::recording::entry::VectorcallArgs::new(args, count.unsigned_abs(), keywords);
            // SAFETY: the interpreter calls with an object of the type, and with arguments that
            // live as long as the call.
            $crate::recording::entry::Outcome::into_raw(unsafe { $function(object, args) })
        }
        ::pyo3::ffi::PyMethodDef {
            ml_name: $name.as_ptr(),
            ml_meth: ::pyo3::ffi::PyMethodDefPointer {
                // SAFETY: the two conventions differ only in what may unwind, and the interpreter
                // is written in C, through which the C library unwinds.
                PyCFunctionFastWithKeywords: unsafe {
                    ::std::mem::transmute::<
                        $crate::recording::entry::BlockingFunction,
                        ::pyo3::ffi::PyCFunctionFastWithKeywords,
                    >(entry)
                },
            },
            ml_flags: ::pyo3::ffi::METH_FASTCALL | ::pyo3::ffi::METH_KEYWORDS,
            ml_doc: $doc.as_ptr(),
        }
    }};
}

/// The C function that [`blocking!`] makes.
pub(crate) type BlockingFunction = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

pub(crate) use {blocking, keywords, no_args, positional, vectorcall};

/// Returns the arguments of a call as a slice.
///
/// # Safety
///
/// `args` has `count` objects, which live as long as the slice is used.
#[inline(always)]
pub(crate) unsafe fn slice<'a>(
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> &'a [*mut ffi::PyObject] {
    // A pointer to no arguments may be null.
    if count == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(args, count.unsigned_abs()) }
}

/// Returns a leaked method table with its terminating entry.
pub(crate) fn method_table<const N: usize>(
    methods: [ffi::PyMethodDef; N],
) -> *mut ffi::PyMethodDef {
    let mut table = Vec::from(methods);
    table.push(ffi::PyMethodDef::zeroed());
    Vec::leak(table).as_mut_ptr()
}

/// Adds functions to a module.
pub(crate) fn add_functions<const N: usize>(
    module: &Bound<'_, PyModule>,
    functions: [ffi::PyMethodDef; N],
) -> PyResult<()> {
    // SAFETY: the module is alive, and the table ends and is leaked.
    let added = unsafe { ffi::PyModule_AddFunctions(module.as_ptr(), method_table(functions)) };
    match added {
        0 => Ok(()),
        _ => Err(take_error(module.py())),
    }
}
