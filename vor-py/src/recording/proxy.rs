//! Objects that look like another object, their *target*: attributes, `repr`, weak references, and
//! the functions for the garbage collector.

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use pyo3::ffi;

use crate::recording::object::{TypeSpec, text};

/// The first field of such an object.
#[repr(C)]
pub(crate) struct Proxy {
    base: ffi::PyObject,
    weak: *mut ffi::PyObject,
    /// Null until the object is complete; `None` once the collector has cleared it.
    target: *mut ffi::PyObject,
}

impl Proxy {
    /// Returns the common specification of the types of such objects. The caller adds the slots
    /// `tp_dealloc`, which calls [`free`], `tp_clear` and `tp_getattro`.
    pub(crate) fn type_spec(name: &'static CStr) -> TypeSpec {
        TypeSpec::new(name)
            .flag(ffi::Py_TPFLAGS_HAVE_GC)
            .weak_references(offset_of!(Self, weak))
            .slot(ffi::Py_tp_traverse, traverse as *mut c_void)
            .slot(ffi::Py_tp_setattro, set_attribute as *mut c_void)
            .slot(ffi::Py_tp_repr, repr as *mut c_void)
    }

    /// Sets the target of an object that is otherwise complete, and takes over the reference.
    ///
    /// # Safety
    ///
    /// `proxy` is a new object, and `target` a reference that the caller owns.
    #[inline(always)]
    pub(crate) unsafe fn set_target(proxy: *mut Self, target: *mut ffi::PyObject) {
        // SAFETY: as the caller says.
        unsafe { (&raw mut (*proxy).target).write(target) };
    }
}

/// Returns the target of an object.
///
/// # Safety
///
/// `object` starts with a [`Proxy`] and is alive.
#[inline(always)]
pub(crate) unsafe fn target(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe { (*object.cast::<Proxy>()).target }
}

/// Returns an attribute: the result of `own` for its name, otherwise the target's attribute.
///
/// # Safety
///
/// As for [`target`], and `name` is alive.
pub(crate) unsafe fn get_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    own: impl FnOnce(&str) -> Option<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe {
        let Some(text) = text(name) else {
            return ptr::null_mut();
        };
        own(text).unwrap_or_else(|| ffi::PyObject_GetAttr(target(object), name))
    }
}

unsafe extern "C" fn set_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: the interpreter calls with an object of the type and a name; null deletes.
    unsafe { ffi::PyObject_SetAttr(target(object), name, value) }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type.
    unsafe { ffi::PyObject_Repr(target(object)) }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the collector calls with objects of the type. Their references are the target, if it
    // is set, and their type, which is made on the heap.
    unsafe {
        let target = target(object);
        if !target.is_null() {
            let stopped = visit(target, context);
            if stopped != 0 {
                return stopped;
            }
        }
        visit(ffi::Py_TYPE(object).cast(), context)
    }
}

/// Implements `tp_clear`: releases the target, and replaces it by `None`.
///
/// # Safety
///
/// As for [`target`].
pub(crate) unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        ffi::Py_INCREF(ffi::Py_None());
        let target = ptr::replace(&raw mut (*object.cast::<Proxy>()).target, ffi::Py_None());
        ffi::Py_XDECREF(target);
    }
    0
}

/// Frees an object. `release` releases its target and drops its other fields.
///
/// # Safety
///
/// Called from `tp_dealloc`: nobody refers to the object any more.
pub(crate) unsafe fn free(object: *mut ffi::PyObject, release: impl FnOnce()) {
    // SAFETY: as the caller says; the object's type was counted where it was made.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        if !(*object.cast::<Proxy>()).weak.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        release();
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}
