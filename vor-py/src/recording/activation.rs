//! The object around a generator or coroutine that a profiled function returns on CPython 3.11. It
//! records each activation as a span.
//!
//! Like the [wrapper](crate::recording::wrapper), it looks like its target. The awaitables of an
//! asynchronous generator are wrapped in such objects too, because its code runs in them. All of
//! them together are one task, which ends with the generator.

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use vor_recorder::hot::callsite::CallSite;
use vor_recorder::hot::scope::manual::{self, ArgWords, ManualScope};
use vor_recorder::setup;

use crate::recording::entry::{no_args, positional};
use crate::recording::object::{
    Py_am_send, TypeCell, allocate, raise, type_name, with_error_aside,
};
use crate::recording::open;
use crate::recording::proxy::{self, Proxy, target};
use crate::recording::values::{self, Value};

/// The object. `site` and `is_coroutine` are set at its creation and never change.
#[repr(C)]
struct Activation {
    proxy: Proxy,
    site: &'static CallSite,
    /// The arguments of the function, a box, until the first activation takes it (acquire). Null
    /// after that. Without an interpreter's lock, two threads may resume the object at the same
    /// time, and one of them is refused.
    values: AtomicPtr<Vec<Value>>,
    is_coroutine: bool,
    /// The asynchronous generator whose code runs in an awaitable, which holds a reference to it;
    /// null for other targets.
    generator: *mut ffi::PyObject,
    /// Only the thread that resumes the object changes it, and holds the interpreter's lock then.
    was_resumed: bool,
}

static TYPE: TypeCell<Activation> = TypeCell::new();

/// Makes the type.
pub(crate) fn make_type(py: Python<'_>) -> PyResult<()> {
    let spec = Proxy::type_spec(c"vor._core.Activation")
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_clear, proxy::clear as *mut c_void)
        .slot(ffi::Py_tp_getattro, get_attribute as *mut c_void)
        .slot(ffi::Py_tp_iter, iterate as *mut c_void)
        .slot(ffi::Py_tp_iternext, next as *mut c_void)
        .slot(ffi::Py_am_await, wait as *mut c_void)
        .slot(Py_am_send, resume as *mut c_void)
        .slot(ffi::Py_am_aiter, async_iterate as *mut c_void)
        .slot(ffi::Py_am_anext, async_next as *mut c_void)
        .methods([
            positional!(c"send", send, c"Resume with a value."),
            positional!(c"throw", throw, c"Resume with an exception."),
            no_args!(c"close", close, c"Resume with GeneratorExit."),
            positional!(
                c"asend",
                asend,
                c"Return an awaitable that resumes with a value."
            ),
            positional!(
                c"athrow",
                athrow,
                c"Return an awaitable that resumes with an exception."
            ),
            no_args!(
                c"aclose",
                aclose,
                c"Return an awaitable that resumes with GeneratorExit."
            ),
        ]);
    TYPE.make(py, spec)?;
    Ok(())
}

/// Makes an object around a generator, a coroutine or an awaitable of an asynchronous generator.
/// Takes over the reference `target`. Returns null, with the error set, if there is no memory.
///
/// # Safety
///
/// `target` is a reference that the caller owns, and the thread is attached to the interpreter.
pub(crate) unsafe fn around(
    target: *mut ffi::PyObject,
    site: &'static CallSite,
    values: Option<Vec<Value>>,
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe { around_part(target, ptr::null_mut(), site, values) }
}

/// Does the same as [`around`], for an awaitable of `generator` if that is not null.
///
/// # Safety
///
/// As for [`around`], and `target` holds a reference to `generator`.
unsafe fn around_part(
    target: *mut ffi::PyObject,
    generator: *mut ffi::PyObject,
    site: &'static CallSite,
    values: Option<Vec<Value>>,
) -> *mut ffi::PyObject {
    // SAFETY: all fields are written, the target last.
    unsafe {
        let made = allocate(TYPE.get(), |object: *mut Activation| {
            (&raw mut (*object).site).write(site);
            let values = values.map_or(ptr::null_mut(), |values| Box::into_raw(Box::new(values)));
            (&raw mut (*object).values).write(AtomicPtr::new(values));
            (&raw mut (*object).is_coroutine).write(is_coroutine(target));
            (&raw mut (*object).generator).write(generator);
            (&raw mut (*object).was_resumed).write(false);
            Proxy::set_target(object.cast(), target);
        });
        if made.is_null() {
            ffi::Py_DECREF(target);
        }
        made
    }
}

/// Returns whether this is a coroutine: it can be awaited and cannot be iterated over.
///
/// # Safety
///
/// `target` is alive.
unsafe fn is_coroutine(target: *mut ffi::PyObject) -> bool {
    // SAFETY: as the caller says.
    unsafe {
        let kind = ffi::Py_TYPE(target);
        !ffi::PyType_GetSlot(kind, ffi::Py_am_await).is_null()
            && ffi::PyType_GetSlot(kind, ffi::Py_tp_iternext).is_null()
    }
}

/// Takes the arguments of the function. Only the first activation gets them.
///
/// # Safety
///
/// `object` is of the type and alive.
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

/// The span of an activation, open.
struct Span {
    object: *mut ffi::PyObject,
    is_first: bool,
    height: usize,
    scope: ManualScope,
    args: ArgWords,
}

impl Span {
    /// Begins the span of an activation. The first one has the arguments.
    ///
    /// # Safety
    ///
    /// `object` is of the type and alive, and outlives the span.
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
            Some(values) => values::begin(site, || values),
        };
        Self {
            object,
            is_first,
            height,
            scope,
            args,
        }
    }

    /// Ends the span. A coroutine that was ever suspended is a task, from its first activation to
    /// its last.
    #[inline]
    fn end(self, is_suspended: bool) {
        if open::height() != self.height {
            open::end_above(self.height);
        }
        // SAFETY: the object is alive, as the caller of `begin` promised.
        let activation = unsafe { &mut *self.object.cast::<Activation>() };
        if activation.is_coroutine {
            activation.was_resumed = true;
            self.end_of_task(self.object.addr(), is_suspended, self.is_first);
        } else if activation.generator.is_null() {
            self.scope.end_with(&self.args);
        } else {
            let generator = activation.generator;
            // SAFETY: the awaitable holds a reference to it.
            let is_suspended = is_suspended || unsafe { has_frame(generator) };
            let is_first = !open::has_task(generator.addr());
            self.end_of_task(generator.addr(), is_suspended, is_first);
        }
    }

    /// Ends the span, and the task that `of` identifies unless that is only suspended.
    fn end_of_task(&self, of: usize, is_suspended: bool, is_first: bool) {
        if is_suspended {
            open::suspend_task(of, self.scope, is_first);
            return self.scope.end_with(&self.args);
        }
        let task = (!is_first).then(|| open::take_task(of)).flatten();
        if let Some(task) = task {
            task.poll(self.scope);
        }
        self.scope.end_with(&self.args);
        if let Some(task) = task {
            task.end();
        }
    }
}

/// Returns whether an asynchronous generator has not ended. Keeps an error that is set.
///
/// # Safety
///
/// `generator` is alive, and the thread is attached to the interpreter.
unsafe fn has_frame(generator: *mut ffi::PyObject) -> bool {
    // SAFETY: as the caller says.
    let (py, generator) = unsafe {
        let py = Python::assume_attached();
        (py, Bound::from_borrowed_ptr(py, generator))
    };
    with_error_aside(py, || {
        let frame = generator.getattr("ag_frame");
        frame.is_ok_and(|frame| !frame.is_none())
    })
}

unsafe extern "C" fn next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with objects of the type.
    unsafe {
        let span = Span::begin(object);
        let mut result = ptr::null_mut();
        let how = ffi::PyIter_Send(target(object), ffi::Py_None(), &mut result);
        span.end(how == ffi::PySendResult::PYGEN_NEXT);
        match how {
            ffi::PySendResult::PYGEN_NEXT => result,
            // The end has neither value nor error, or is a `StopIteration` with the returned value.
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
        let how = ffi::PyIter_Send(target(object), value, result);
        span.end(how == ffi::PySendResult::PYGEN_NEXT);
        how
    }
}

/// Calls a method of the target, within a span.
///
/// # Safety
///
/// As for [`take_values`], and `args` are alive.
unsafe fn activate(
    object: *mut ffi::PyObject,
    method: &str,
    args: &[*mut ffi::PyObject],
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe {
        let span = Span::begin(object);
        let returned = call_method(object, method, args);
        // A value means that it is suspended. At its end it raises, or returns `None` from `close`.
        span.end(!returned.is_null() && method != "close");
        returned
    }
}

/// Calls a method of the target.
///
/// # Safety
///
/// As for [`activate`].
unsafe fn call_method(
    object: *mut ffi::PyObject,
    method: &str,
    args: &[*mut ffi::PyObject],
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe {
        let py = Python::assume_attached();
        let args = args.iter().map(|&arg| Bound::from_borrowed_ptr(py, arg));
        let returned = PyTuple::new(py, args.collect::<Vec<_>>()).and_then(|args| {
            Bound::from_borrowed_ptr(py, target(object)).call_method1(method, args)
        });
        returned.map_or_else(raise, Bound::into_ptr)
    }
}

/// Calls a method of an asynchronous generator, and wraps the returned awaitable in an object of
/// its own.
///
/// # Safety
///
/// As for [`activate`].
unsafe fn awaitable(
    object: *mut ffi::PyObject,
    method: &str,
    args: &[*mut ffi::PyObject],
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says. The arguments go on to the awaitable, whose activation is the
    // first.
    unsafe {
        let returned = call_method(object, method, args);
        if returned.is_null() {
            return returned;
        }
        let values = take_values(object);
        let site = (*object.cast::<Activation>()).site;
        around_part(returned, target(object), site, values)
    }
}

unsafe fn send(object: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> *mut ffi::PyObject {
    // SAFETY: as for `next`, here and below.
    unsafe { activate(object, "send", args) }
}

unsafe fn throw(object: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { activate(object, "throw", args) }
}

unsafe fn close(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe {
        if is_suspended(target(object)) {
            activate(object, "close", &[])
        } else {
            call_method(object, "close", &[])
        }
    }
}

/// Returns whether a generator or coroutine has begun and not ended. If so, closing it runs its
/// code.
///
/// # Safety
///
/// `target` is alive.
unsafe fn is_suspended(target: *mut ffi::PyObject) -> bool {
    // SAFETY: as the caller says, whose thread is attached to the interpreter.
    let target = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), target) };
    let flag = |name: &str| target.getattr(name).and_then(|value| value.is_truthy());
    flag("gi_suspended")
        .or_else(|_| flag("cr_suspended"))
        .unwrap_or(false)
}

/// Releases the target. If this is the last reference to a suspended generator or coroutine, its
/// close is an activation.
///
/// # Safety
///
/// As for [`take_values`], and nobody refers to `object` any more.
unsafe fn release_target(object: *mut ffi::PyObject) {
    // SAFETY: as the caller says.
    unsafe {
        let target = target(object);
        if target.is_null() {
            return;
        }
        // The event loop closes an asynchronous generator itself, without this object.
        if (*object.cast::<Activation>()).generator.is_null()
            && let Some(task) = open::take_task(target.addr())
        {
            task.end();
        }
        if ffi::Py_REFCNT(target) == 1 && setup::is_enabled() {
            let py = Python::assume_attached();
            if with_error_aside(py, || is_suspended(target)) {
                let span = Span::begin(object);
                ffi::Py_DECREF(target);
                return span.end(false);
            }
        }
        ffi::Py_DECREF(target);
    }
}

unsafe fn asend(object: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { awaitable(object, "asend", args) }
}

unsafe fn athrow(object: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { awaitable(object, "athrow", args) }
}

unsafe fn aclose(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { awaitable(object, "aclose", &[]) }
}

unsafe extern "C" fn async_next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `send`.
    unsafe { awaitable(object, "__anext__", &[]) }
}

/// Returns the object itself if its target has this method, otherwise raises the interpreter's own
/// error.
///
/// # Safety
///
/// As for [`take_values`].
unsafe fn itself_if(object: *mut ffi::PyObject, method: &str, what: &str) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe {
        let target = Bound::from_borrowed_ptr(Python::assume_attached(), target(object));
        if target.hasattr(method).unwrap_or(false) {
            ffi::Py_INCREF(object);
            return object;
        }
        let kind = type_name(&target);
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
        proxy::get_attribute(object, name, |text| {
            let is_own = matches!(
                text,
                "send"
                    | "throw"
                    | "close"
                    | "asend"
                    | "athrow"
                    | "aclose"
                    | "__next__"
                    | "__iter__"
                    | "__await__"
                    | "__aiter__"
                    | "__anext__"
            ) && ffi::PyObject_HasAttr(target(object), name) != 0;
            is_own.then(|| ffi::PyObject_GenericGetAttr(object, name))
        })
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: nobody refers to the object any more.
    unsafe {
        proxy::free(object, || {
            release_target(object);
            drop(take_values(object));
        });
    }
}
