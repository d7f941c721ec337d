//! What a profiled generator function or `async def` returns on CPython 3.11: the generator or
//! coroutine, and around each of its activations a span.
//!
//! As the [wrapper](crate::wrapper) it looks like what it stands for. What an asynchronous
//! generator gives to be awaited is put into such an object too: it is where its code runs.

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use vor_recorder::hot::callsite::CallSite;
use vor_recorder::hot::scope::manual::{self, ArgWords, ManualScope};

use crate::object::{
    Py_am_send, TypeCell, methods, no_args, offsets, positional, raise, text, visit_held,
};
use crate::open;
use crate::values::Value;

/// The object. All fields but `weak`, `values` and `life` are set where it is made and not changed
/// after that, but `inner` is taken away by the garbage collector.
#[repr(C)]
struct Activation {
    base: ffi::PyObject,
    weak: *mut ffi::PyObject,
    inner: *mut ffi::PyObject,
    site: &'static CallSite,
    /// What the function was called with, a box, until the first activation takes it (acquire);
    /// null after that. Without an interpreter's lock two threads may resume the object at once, of
    /// which one is refused.
    values: AtomicPtr<Vec<Value>>,
    is_coroutine: bool,
    /// The first activation of a coroutine that is suspended, with which its task began. Whoever
    /// resumes the object changes it, and has the interpreter's lock meanwhile.
    life: Option<ManualScope>,
    was_resumed: bool,
}

static TYPE: TypeCell = TypeCell::new();

/// Makes the type.
pub(crate) fn make_type(py: Python<'_>) -> PyResult<()> {
    let table = methods([
        positional(c"send", send, c"Resume with a value."),
        positional(c"throw", throw, c"Resume with an exception."),
        no_args(c"close", close, c"Resume with GeneratorExit."),
        positional(
            c"asend",
            asend,
            c"Return an awaitable that resumes with a value.",
        ),
        positional(
            c"athrow",
            athrow,
            c"Return an awaitable that resumes with an exception.",
        ),
        no_args(
            c"aclose",
            aclose,
            c"Return an awaitable that resumes with GeneratorExit.",
        ),
    ]);
    TYPE.make(
        py,
        c"vor._core.Activation",
        size_of::<Activation>(),
        ffi::Py_TPFLAGS_HAVE_GC,
        &[
            (
                ffi::Py_tp_members,
                offsets([(c"__weaklistoffset__", offset_of!(Activation, weak))]),
            ),
            (ffi::Py_tp_methods, table.cast()),
            (ffi::Py_tp_dealloc, dealloc as *mut c_void),
            (ffi::Py_tp_traverse, traverse as *mut c_void),
            (ffi::Py_tp_clear, clear as *mut c_void),
            (ffi::Py_tp_getattro, get_attribute as *mut c_void),
            (ffi::Py_tp_setattro, set_attribute as *mut c_void),
            (ffi::Py_tp_repr, repr as *mut c_void),
            (ffi::Py_tp_iter, iterate as *mut c_void),
            (ffi::Py_tp_iternext, next as *mut c_void),
            (ffi::Py_am_await, wait as *mut c_void),
            (Py_am_send, resume as *mut c_void),
            (ffi::Py_am_aiter, async_iterate as *mut c_void),
            (ffi::Py_am_anext, async_next as *mut c_void),
        ],
    )?;
    Ok(())
}

/// Puts an object around a generator, a coroutine or what an asynchronous generator gives. Takes
/// `inner` over; returns null, with the error set, where there is no memory.
///
/// # Safety
///
/// `inner` is a reference that the caller owns, and the thread is attached to the interpreter.
pub(crate) unsafe fn around(
    inner: *mut ffi::PyObject,
    site: &'static CallSite,
    values: Option<Vec<Value>>,
) -> *mut ffi::PyObject {
    // SAFETY: the type's objects have room for an `Activation`; the collector finds null in the
    // field that it looks at until it is set.
    unsafe {
        let made = ffi::PyType_GenericAlloc(TYPE.get(), 0);
        if made.is_null() {
            ffi::Py_DECREF(inner);
            return made;
        }
        let object = made.cast::<Activation>();
        (&raw mut (*object).site).write(site);
        let values = values.map_or(ptr::null_mut(), |values| Box::into_raw(Box::new(values)));
        (&raw mut (*object).values).write(AtomicPtr::new(values));
        (&raw mut (*object).is_coroutine).write(is_coroutine(inner));
        (&raw mut (*object).life).write(None);
        (&raw mut (*object).was_resumed).write(false);
        (&raw mut (*object).inner).write(inner);
        made
    }
}

/// Returns whether this is a coroutine: it is awaited as it is, and nothing else steps through it.
///
/// # Safety
///
/// `inner` is alive.
unsafe fn is_coroutine(inner: *mut ffi::PyObject) -> bool {
    // SAFETY: as the caller says.
    unsafe {
        let kind = ffi::Py_TYPE(inner);
        !ffi::PyType_GetSlot(kind, ffi::Py_am_await).is_null()
            && ffi::PyType_GetSlot(kind, ffi::Py_tp_iternext).is_null()
    }
}

/// Returns what this is around.
///
/// # Safety
///
/// `object` is of the type and alive.
#[inline(always)]
unsafe fn inner(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe { (*object.cast::<Activation>()).inner }
}

/// Takes what the function was called with, which only the first activation finds.
///
/// # Safety
///
/// As for [`inner`].
#[inline]
unsafe fn take_values(object: *mut ffi::PyObject) -> Option<Vec<Value>> {
    // SAFETY: as the caller says; what is not null is a box of `around`, and whoever swaps it out
    // has it.
    unsafe {
        let values = &(*object.cast::<Activation>()).values;
        if values.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let values = values.swap(ptr::null_mut(), Ordering::Acquire);
        (!values.is_null()).then(|| *Box::from_raw(values))
    }
}

/// A span that is open around an activation.
struct Span {
    object: *mut ffi::PyObject,
    is_first: bool,
    height: usize,
    scope: ManualScope,
    args: ArgWords,
}

impl Span {
    /// Begins the span of an activation; the first one has the arguments.
    ///
    /// # Safety
    ///
    /// As for [`inner`], and the object outlives the span.
    #[inline]
    unsafe fn begin(object: *mut ffi::PyObject) -> Self {
        // SAFETY: as the caller says.
        let (site, is_first, values) = unsafe {
            let activation = &*object.cast::<Activation>();
            (
                activation.site,
                !activation.was_resumed,
                take_values(object),
            )
        };
        let height = open::height();
        let (scope, args) = match values {
            None => (manual::begin(site), ArgWords::default()),
            Some(values) => manual::begin_with(site, |put| {
                values.iter().for_each(|value| put(value.word()));
            }),
        };
        Self {
            object,
            is_first,
            height,
            scope,
            args,
        }
    }

    /// Ends it. A coroutine that is suspended is a task from its first activation on, and to its
    /// last.
    #[inline]
    fn end(self, is_suspended: bool) {
        if open::height() != self.height {
            open::end_above(self.height);
        }
        self.scope.end_with(&self.args);
        // SAFETY: the object is alive, as `begin` was told.
        let activation = unsafe { &mut *self.object.cast::<Activation>() };
        if !activation.is_coroutine {
            return;
        }
        activation.was_resumed = true;
        if is_suspended {
            if self.is_first {
                activation.life = Some(self.scope);
            }
        } else if let Some(first) = activation.life.take() {
            first.end_as_task();
        }
    }
}

unsafe extern "C" fn next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with objects of the type.
    unsafe {
        let span = Span::begin(object);
        let mut result = ptr::null_mut();
        let how = ffi::PyIter_Send(inner(object), ffi::Py_None(), &mut result);
        span.end(how == ffi::PySendResult::PYGEN_NEXT);
        match how {
            ffi::PySendResult::PYGEN_NEXT => result,
            // The end is no value and no error, or a `StopIteration` with the value that was
            // returned.
            ffi::PySendResult::PYGEN_RETURN => {
                if result != ffi::Py_None() {
                    stop_with(result);
                }
                ffi::Py_DECREF(result);
                ptr::null_mut()
            }
            ffi::PySendResult::PYGEN_ERROR => ptr::null_mut(),
        }
    }
}

/// Sets `StopIteration` with a value, which may be a tuple or an exception itself.
///
/// # Safety
///
/// `value` is alive, and the thread is attached to the interpreter.
unsafe fn stop_with(value: *mut ffi::PyObject) {
    // SAFETY: as the caller says.
    unsafe {
        let stop = ffi::PyObject_CallFunctionObjArgs(
            ffi::PyExc_StopIteration,
            value,
            ptr::null_mut::<ffi::PyObject>(),
        );
        if !stop.is_null() {
            ffi::PyErr_SetObject(ffi::PyExc_StopIteration, stop);
            ffi::Py_DECREF(stop);
        }
    }
}

unsafe extern "C" fn resume(
    object: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: as for `next`.
    unsafe {
        let span = Span::begin(object);
        let how = ffi::PyIter_Send(inner(object), value, result);
        span.end(how == ffi::PySendResult::PYGEN_NEXT);
        how
    }
}

/// Calls a method of what this is around, within a span.
///
/// # Safety
///
/// As for [`inner`], and `args` has `count` objects.
unsafe fn activate(
    object: *mut ffi::PyObject,
    method: &str,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe {
        let span = Span::begin(object);
        let returned = call_method(object, method, args, count);
        // It gives a value where it is suspended, and raises or says `None` to a close where it
        // ends.
        span.end(!returned.is_null() && method != "close");
        returned
    }
}

/// Calls a method of what this is around.
///
/// # Safety
///
/// As for [`activate`].
unsafe fn call_method(
    object: *mut ffi::PyObject,
    method: &str,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe {
        let py = Python::assume_attached();
        let given = (0..count.unsigned_abs()).map(|at| Bound::from_borrowed_ptr(py, *args.add(at)));
        let returned = PyTuple::new(py, given.collect::<Vec<_>>()).and_then(|given| {
            Bound::from_borrowed_ptr(py, inner(object)).call_method1(method, given)
        });
        returned.map_or_else(raise, Bound::into_ptr)
    }
}

/// Calls a method of an asynchronous generator, and puts what it returns into an object of its own.
///
/// # Safety
///
/// As for [`activate`].
unsafe fn awaitable(
    object: *mut ffi::PyObject,
    method: &str,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says. The arguments go on to the awaitable, whose activation is the
    // first.
    unsafe {
        let returned = call_method(object, method, args, count);
        if returned.is_null() {
            return returned;
        }
        let values = take_values(object);
        around(returned, (*object.cast::<Activation>()).site, values)
    }
}

unsafe extern "C" fn send(
    object: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as for `next`, here and below.
    unsafe { activate(object, "send", args, count) }
}

unsafe extern "C" fn throw(
    object: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { activate(object, "throw", args, count) }
}

unsafe extern "C" fn close(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe {
        if is_suspended(inner(object)) {
            activate(object, "close", ptr::null_mut(), 0)
        } else {
            call_method(object, "close", ptr::null_mut(), 0)
        }
    }
}

/// Returns whether a generator or coroutine has begun and not ended, so that closing it runs code
/// of it.
///
/// # Safety
///
/// `inner` is alive.
unsafe fn is_suspended(inner: *mut ffi::PyObject) -> bool {
    // SAFETY: as the caller says, whose thread is attached to the interpreter.
    let inner = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), inner) };
    let asked = |name: &str| inner.getattr(name).and_then(|answer| answer.is_truthy());
    asked("gi_suspended")
        .or_else(|_| asked("cr_suspended"))
        .unwrap_or(false)
}

/// Lets a generator or coroutine go. Where nobody else has it and it is suspended, it is closed,
/// and that is an activation.
///
/// # Safety
///
/// As for [`inner`], and nobody refers to `object` any more.
unsafe fn let_go(object: *mut ffi::PyObject) {
    // SAFETY: as the caller says. An error that is on its way through here stays as it is.
    unsafe {
        let inner = inner(object);
        if inner.is_null() {
            return;
        }
        if ffi::Py_REFCNT(inner) == 1 && vor_recorder::setup::is_enabled() {
            let pending = PyErr::take(Python::assume_attached());
            let is_suspended = is_suspended(inner);
            if let Some(pending) = pending {
                pending.restore(Python::assume_attached());
            }
            if is_suspended {
                let span = Span::begin(object);
                ffi::Py_DECREF(inner);
                return span.end(false);
            }
        }
        ffi::Py_DECREF(inner);
    }
}

unsafe extern "C" fn asend(
    object: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { awaitable(object, "asend", args, count) }
}

unsafe extern "C" fn athrow(
    object: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { awaitable(object, "athrow", args, count) }
}

unsafe extern "C" fn aclose(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { awaitable(object, "aclose", ptr::null_mut(), 0) }
}

unsafe extern "C" fn async_next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { awaitable(object, "__anext__", ptr::null_mut(), 0) }
}

/// Returns the object itself where what it is around has this method, and raises what Python would
/// raise elsewhere.
///
/// # Safety
///
/// As for [`inner`].
unsafe fn itself_if(object: *mut ffi::PyObject, method: &str, what: &str) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe {
        let inner = Bound::from_borrowed_ptr(Python::assume_attached(), inner(object));
        if inner.hasattr(method).unwrap_or(false) {
            ffi::Py_INCREF(object);
            return object;
        }
        let kind = inner.get_type();
        let kind = kind
            .name()
            .map_or_else(|_| "?".into(), |name| name.to_string());
        raise(PyTypeError::new_err(format!(
            "'{kind}' object is not {what}"
        )))
    }
}

unsafe extern "C" fn iterate(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `next`.
    unsafe { itself_if(object, "__iter__", "iterable") }
}

unsafe extern "C" fn wait(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `next`.
    unsafe { itself_if(object, "__await__", "awaitable") }
}

unsafe extern "C" fn async_iterate(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `next`.
    unsafe { itself_if(object, "__aiter__", "asynchronously iterable") }
}

unsafe extern "C" fn get_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type and a name.
    unsafe {
        match text(name) {
            Some(
                "send" | "throw" | "close" | "asend" | "athrow" | "aclose" | "__next__"
                | "__iter__" | "__await__" | "__aiter__" | "__anext__",
            ) if ffi::PyObject_HasAttr(inner(object), name) != 0 => {
                ffi::PyObject_GenericGetAttr(object, name)
            }
            Some(_) => ffi::PyObject_GetAttr(inner(object), name),
            None => ptr::null_mut(),
        }
    }
}

unsafe extern "C" fn set_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: as for `get_attribute`; null deletes.
    unsafe { ffi::PyObject_SetAttr(inner(object), name, value) }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `get_attribute`.
    unsafe { ffi::PyObject_Repr(inner(object)) }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: nobody refers to the object any more; its type was counted where it was made.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let activation = object.cast::<Activation>();
        if !(*activation).weak.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        let_go(object);
        drop(take_values(object));
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the collector calls with objects of the type, whose reference beside that to its type
    // this is.
    unsafe { visit_held(object, inner(object), visit, context) }
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: as for `traverse`; whoever still asks the object from here on is answered by `None`.
    unsafe {
        ffi::Py_INCREF(ffi::Py_None());
        let inner = ptr::replace(
            &raw mut (*object.cast::<Activation>()).inner,
            ffi::Py_None(),
        );
        ffi::Py_XDECREF(inner);
    }
    0
}
