//! A callable that is called through an object of vor's: functions on CPython 3.11, and on every
//! version what has no code of Python.
//!
//! The object looks like what it stands for: everything that is asked of it, it asks that, its
//! class included. So `inspect`, `pickle` by name and documentation see the function. It is called
//! by vectorcall and calls on by vectorcall, and leaves no frame in a traceback. What a generator
//! function or an `async def` returns is put into an [`Activation`](crate::activation).

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use vor_recorder::hot::callsite::CallSite;
use vor_recorder::hot::scope::manual;
use vor_recorder::setup;

use crate::activation;
use crate::object::{
    PyVectorcall_Call, TypeCell, methods, no_args, offsets, positional, positional_count, raise,
    text, visit_held,
};
use crate::open;
use crate::values::Value;

/// An argument whose value is recorded.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    /// Its place without keyword, if it may stand there.
    pub(crate) place: Option<usize>,
    pub(crate) default: Option<Value>,
}

/// The object. All fields but `weak` are set where it is made, and `function` is taken away by the
/// garbage collector.
#[repr(C)]
struct Wrapper {
    base: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
    weak: *mut ffi::PyObject,
    function: *mut ffi::PyObject,
    /// How the function is called.
    inner: ffi::vectorcallfunc,
    site: &'static CallSite,
    args: Box<[Argument]>,
}

/// Functions, which become methods when they are looked up in an object.
static FUNCTION: TypeCell = TypeCell::new();
/// Other callables, which do not.
static CALLABLE: TypeCell = TypeCell::new();

/// Makes the types.
pub(crate) fn make_types(py: Python<'_>) -> PyResult<()> {
    let flags = ffi::Py_TPFLAGS_HAVE_VECTORCALL | ffi::Py_TPFLAGS_HAVE_GC;
    let table = methods([
        no_args(c"__reduce__", reduce, c"Pickle by name, as functions are."),
        positional(
            c"__reduce_ex__",
            reduce_ex,
            c"Pickle by name, as functions are.",
        ),
    ]);
    let members = offsets([
        (c"__vectorcalloffset__", offset_of!(Wrapper, vectorcall)),
        (c"__weaklistoffset__", offset_of!(Wrapper, weak)),
    ]);
    let mut slots = vec![
        (ffi::Py_tp_members, members),
        (ffi::Py_tp_methods, table.cast()),
        (ffi::Py_tp_call, PyVectorcall_Call as *mut c_void),
        (ffi::Py_tp_dealloc, dealloc as *mut c_void),
        (ffi::Py_tp_traverse, traverse as *mut c_void),
        (ffi::Py_tp_clear, clear as *mut c_void),
        (ffi::Py_tp_getattro, get_attribute as *mut c_void),
        (ffi::Py_tp_setattro, set_attribute as *mut c_void),
        (ffi::Py_tp_repr, repr as *mut c_void),
    ];
    CALLABLE.make(
        py,
        c"vor._core.ProfiledCallable",
        size_of::<Wrapper>(),
        flags,
        &slots,
    )?;
    slots.push((ffi::Py_tp_descr_get, bind as *mut c_void));
    let flags = flags | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR;
    FUNCTION.make(
        py,
        c"vor._core.ProfiledFunction",
        size_of::<Wrapper>(),
        flags,
        &slots,
    )?;
    Ok(())
}

/// Puts an object around a callable.
pub(crate) fn wrap<'py>(
    function: Bound<'py, PyAny>,
    site: &'static CallSite,
    args: Vec<Argument>,
    is_function: bool,
    is_suspended: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let vectorcall: ffi::vectorcallfunc = match (is_suspended, args.is_empty()) {
        (true, _) => call_suspended,
        (false, true) => call,
        (false, false) => call_with,
    };
    make(function, site, args, is_function, vectorcall)
}

/// Puts an object around a function that an event loop calls in each of its turns. No call of it is
/// a span, but what is still open in it when it returns is suspended.
pub(crate) fn wrap_turn<'py>(
    function: Bound<'py, PyAny>,
    site: &'static CallSite,
) -> PyResult<Bound<'py, PyAny>> {
    make(function, site, Vec::new(), true, call_turn)
}

fn make<'py>(
    function: Bound<'py, PyAny>,
    site: &'static CallSite,
    args: Vec<Argument>,
    is_function: bool,
    vectorcall: ffi::vectorcallfunc,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let kind = if is_function { &FUNCTION } else { &CALLABLE };
    // SAFETY: the type's objects have room for a `Wrapper`, which is complete before anyone sees
    // it: the collector may, which finds null in the one field that it looks at until it is set.
    unsafe {
        let made = ffi::PyType_GenericAlloc(kind.get(), 0);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let object = made.as_ptr().cast::<Wrapper>();
        (&raw mut (*object).vectorcall).write(vectorcall);
        (&raw mut (*object).inner).write(how_to_call(&function, is_function));
        (&raw mut (*object).site).write(site);
        (&raw mut (*object).args).write(args.into_boxed_slice());
        (&raw mut (*object).function).write(function.into_ptr());
        Ok(made)
    }
}

/// Returns how a callable is called: a function by what it says itself, which it does not change,
/// anything else by asking it each time.
fn how_to_call(callable: &Bound<'_, PyAny>, is_function: bool) -> ffi::vectorcallfunc {
    #[cfg(not(feature = "abi3"))]
    if is_function {
        // SAFETY: the object is alive and can be called.
        return unsafe { ffi::PyVectorcall_Function(callable.as_ptr()) }.unwrap_or(ask);
    }
    // By the stable ABI there is no other way.
    #[cfg(feature = "abi3")]
    let _ = (callable, is_function);
    ask
}

unsafe extern "C" fn ask(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the arguments are passed on as they are.
    unsafe { ffi::PyObject_Vectorcall(callable, args, count, keywords) }
}

/// Returns the object that this is.
///
/// # Safety
///
/// `object` is of one of the two types and alive.
#[inline(always)]
unsafe fn of<'a>(object: *mut ffi::PyObject) -> &'a Wrapper {
    // SAFETY: as the caller says.
    unsafe { &*object.cast::<Wrapper>() }
}

// The functions that call on have nothing to clean up: a thread that is ended inside, while the
// interpreter goes down, leaves them without a return.

unsafe extern "C" fn call(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type, and the arguments are passed on as
    // they are.
    unsafe {
        let wrapper = of(object);
        if !setup::is_enabled() {
            return (wrapper.inner)(wrapper.function, args, count, keywords);
        }
        let height = open::height();
        let scope = manual::begin(wrapper.site);
        let returned = (wrapper.inner)(wrapper.function, args, count, keywords);
        if open::height() != height {
            open::end_above(height);
        }
        scope.end();
        returned
    }
}

unsafe extern "C" fn call_with(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `call`.
    unsafe {
        let wrapper = of(object);
        if !setup::is_enabled() {
            return (wrapper.inner)(wrapper.function, args, count, keywords);
        }
        let height = open::height();
        let (scope, words) = manual::begin_with(wrapper.site, |put| {
            for value in arguments(wrapper, args, count, keywords) {
                put(value.word());
            }
        });
        let returned = (wrapper.inner)(wrapper.function, args, count, keywords);
        open::end_above(height);
        scope.end_with(&words);
        returned
    }
}

unsafe extern "C" fn call_turn(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `call`.
    unsafe {
        let wrapper = of(object);
        let height = open::begin_turn();
        let returned = (wrapper.inner)(wrapper.function, args, count, keywords);
        if open::height() > height {
            open::end_above(height);
        }
        returned
    }
}

unsafe extern "C" fn call_suspended(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `call`.
    unsafe {
        let wrapper = of(object);
        let returned = (wrapper.inner)(wrapper.function, args, count, keywords);
        if returned.is_null() || !setup::is_enabled() {
            return returned;
        }
        let values = (!wrapper.args.is_empty()).then(|| arguments(wrapper, args, count, keywords));
        activation::around(returned, wrapper.site, values)
    }
}

/// Returns the values of the arguments that are recorded.
///
/// # Safety
///
/// The arguments are those of a vectorcall.
unsafe fn arguments(
    wrapper: &Wrapper,
    args: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> Vec<Value> {
    // SAFETY: as the caller says, whose thread is attached to the interpreter; names of keywords
    // are `str`.
    unsafe {
        let py = Python::assume_attached();
        let count = positional_count(count);
        let named = match keywords.is_null() {
            true => 0,
            false => ffi::PyTuple_Size(keywords).unsigned_abs(),
        };
        let given = |at: usize| Value::of(&Bound::from_borrowed_ptr(py, *args.add(at)));
        let by_keyword = |name: &str| {
            (0..named).find(|at| {
                text(ffi::PyTuple_GetItem(keywords, *at as ffi::Py_ssize_t)) == Some(name)
            })
        };
        let value = |argument: &Argument| match (argument.place, by_keyword(&argument.name)) {
            (Some(place), _) if place < count => given(place),
            (_, Some(at)) => given(count + at),
            _ => argument.default.clone().unwrap_or(Value::None),
        };
        wrapper.args.iter().map(value).collect()
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: nobody refers to the object any more; its type was counted where it was made.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let wrapper = object.cast::<Wrapper>();
        if !(*wrapper).weak.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        ffi::Py_XDECREF((*wrapper).function);
        ptr::drop_in_place(&raw mut (*wrapper).args);
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
    unsafe { visit_held(object, of(object).function, visit, context) }
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: as for `traverse`; whoever still asks the object from here on is answered by `None`.
    unsafe {
        ffi::Py_INCREF(ffi::Py_None());
        (&raw mut (*object.cast::<Wrapper>()).inner).write(ask);
        let function = ptr::replace(
            &raw mut (*object.cast::<Wrapper>()).function,
            ffi::Py_None(),
        );
        ffi::Py_XDECREF(function);
    }
    0
}

unsafe extern "C" fn get_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type and a name.
    unsafe {
        let function = of(object).function;
        match text(name) {
            Some("__reduce__" | "__reduce_ex__" | "__call__" | "__get__") => {
                ffi::PyObject_GenericGetAttr(object, name)
            }
            Some("__wrapped__") => {
                ffi::Py_INCREF(function);
                function
            }
            Some(_) => ffi::PyObject_GetAttr(function, name),
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
    unsafe { ffi::PyObject_SetAttr(of(object).function, name, value) }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `get_attribute`.
    unsafe { ffi::PyObject_Repr(of(object).function) }
}

/// Makes a method of the object, as functions become methods.
unsafe extern "C" fn bind(
    object: *mut ffi::PyObject,
    to: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `get_attribute`; `to` is null or an object.
    unsafe {
        if to.is_null() || to == ffi::Py_None() {
            ffi::Py_INCREF(object);
            return object;
        }
        let py = Python::assume_attached();
        let bound = (
            Bound::from_borrowed_ptr(py, object),
            Bound::from_borrowed_ptr(py, to),
        );
        let made = py
            .import("types")
            .and_then(|types| types.getattr("MethodType"))
            .and_then(|method| method.call1(bound));
        made.map_or_else(raise, Bound::into_ptr)
    }
}

unsafe extern "C" fn reduce(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `get_attribute`. A text means: what the module has under this name.
    unsafe { ffi::PyObject_GetAttrString(of(object).function, c"__qualname__".as_ptr()) }
}

unsafe extern "C" fn reduce_ex(
    object: *mut ffi::PyObject,
    _: *mut *mut ffi::PyObject,
    _: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as for `reduce`.
    unsafe { reduce(object, ptr::null_mut()) }
}
