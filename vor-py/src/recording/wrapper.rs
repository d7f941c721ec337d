//! Objects around callables that record the calls: for functions on CPython 3.11, and for callables
//! without a code object on every version.
//!
//! The object looks like its target: every attribute is the target's, including its class. So
//! `inspect`, `pickle` by name and documentation see the function. It is called by vectorcall and
//! calls its target by vectorcall, and leaves no frame in a traceback. A generator or coroutine
//! that the target returns is wrapped in an [`Activation`](crate::recording::activation).

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

use crate::recording::entry::{VectorcallArgs, no_args, positional, vectorcall};
use crate::recording::object::{TypeCell, TypeSpec, allocate, raise, text};
use crate::recording::proxy::{self, Proxy};
use crate::recording::values::{self, Value};
use crate::recording::{activation, open};

/// A parameter whose value is recorded.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// Its position, unless it is keyword-only.
    pub(crate) position: Option<usize>,
    pub(crate) default: Option<Value>,
}

/// The object. All fields are set at its creation, and do not change until the collector clears it.
#[repr(C)]
struct Wrapper {
    proxy: Proxy,
    vectorcall: ffi::vectorcallfunc,
    /// The function that calls the target.
    call_target: ffi::vectorcallfunc,
    site: &'static CallSite,
    parameters: Box<[Parameter]>,
}

/// The type for functions, which become methods when they are looked up in an object.
static FUNCTION: TypeCell<Wrapper> = TypeCell::new();
/// The type for other callables, which do not become methods.
static CALLABLE: TypeCell<Wrapper> = TypeCell::new();

/// Makes the types.
pub(crate) fn make_types(py: Python<'_>) -> PyResult<()> {
    CALLABLE.make(py, type_spec(c"vor._core.ProfiledCallable"))?;
    let function = type_spec(c"vor._core.ProfiledFunction")
        .flag(ffi::Py_TPFLAGS_METHOD_DESCRIPTOR)
        .slot(ffi::Py_tp_descr_get, bind as *mut c_void);
    FUNCTION.make(py, function)?;
    Ok(())
}

fn type_spec(name: &'static std::ffi::CStr) -> TypeSpec {
    Proxy::type_spec(name)
        .vectorcall(offset_of!(Wrapper, vectorcall))
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_clear, clear as *mut c_void)
        .slot(ffi::Py_tp_getattro, get_attribute as *mut c_void)
        .methods([
            no_args!(c"__reduce__", reduce, c"Pickle by name, as functions are."),
            positional!(
                c"__reduce_ex__",
                reduce_ex,
                c"Pickle by name, as functions are."
            ),
        ])
}

/// Wraps a callable so that its calls are recorded. With `is_suspended`, it returns a generator or
/// coroutine, and the activations of that are recorded instead.
pub(crate) fn wrap<'py>(
    callable: Bound<'py, PyAny>,
    site: &'static CallSite,
    parameters: Vec<Parameter>,
    is_function: bool,
    is_suspended: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let vectorcall = match (is_suspended, parameters.is_empty()) {
        (true, _) => vectorcall!(call_suspended),
        (false, true) => vectorcall!(call),
        (false, false) => vectorcall!(call_with),
    };
    make(callable, site, parameters, is_function, vectorcall)
}

/// Wraps a function that an event loop calls in each of its turns. Its calls are not spans, but
/// scopes that are still open in it when it returns are suspended.
pub(crate) fn wrap_turn<'py>(
    function: Bound<'py, PyAny>,
    site: &'static CallSite,
) -> PyResult<Bound<'py, PyAny>> {
    make(function, site, Vec::new(), true, vectorcall!(call_turn))
}

fn make<'py>(
    target: Bound<'py, PyAny>,
    site: &'static CallSite,
    parameters: Vec<Parameter>,
    is_function: bool,
    vectorcall: ffi::vectorcallfunc,
) -> PyResult<Bound<'py, PyAny>> {
    let py = target.py();
    let kind = if is_function { &FUNCTION } else { &CALLABLE };
    // SAFETY: all fields are written, the target last.
    unsafe {
        let made = allocate(kind.get(), |object: *mut Wrapper| {
            (&raw mut (*object).vectorcall).write(vectorcall);
            (&raw mut (*object).call_target).write(how_to_call(&target, is_function));
            (&raw mut (*object).site).write(site);
            (&raw mut (*object).parameters).write(parameters.into_boxed_slice());
            Proxy::set_target(object.cast(), target.into_ptr());
        });
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Calls any object by vectorcall.
const CALL_OBJECT: ffi::vectorcallfunc = vectorcall!(call_object);

/// Returns the function that calls a callable. For a function it is its own vectorcall function,
/// which does not change. For any other object it is [`CALL_OBJECT`].
fn how_to_call(callable: &Bound<'_, PyAny>, is_function: bool) -> ffi::vectorcallfunc {
    #[cfg(not(feature = "abi3"))]
    if is_function {
        // SAFETY: the object is alive and can be called.
        return unsafe { ffi::PyVectorcall_Function(callable.as_ptr()) }.unwrap_or(CALL_OBJECT);
    }
    // The stable ABI has no other way.
    #[cfg(feature = "abi3")]
    let _ = (callable, is_function);
    CALL_OBJECT
}

unsafe fn call_object(callable: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: the callable is alive.
    unsafe { args.pass_to_object(callable) }
}

/// Returns the fields of an object.
///
/// # Safety
///
/// `object` is of one of the two types and alive.
#[inline(always)]
unsafe fn fields<'a>(object: *mut ffi::PyObject) -> &'a Wrapper {
    // SAFETY: as the caller says.
    unsafe { &*object.cast::<Wrapper>() }
}

/// Calls the target of an object.
///
/// # Safety
///
/// `object` is of one of the two types and alive.
#[inline(always)]
unsafe fn call_target(object: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    unsafe { args.pass_to(fields(object).call_target, proxy::target(object)) }
}

// The functions that call the target have nothing to clean up: if the interpreter shuts down and
// ends the thread inside them, they do not return.

unsafe fn call(object: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type.
    unsafe {
        if !setup::is_enabled() {
            return call_target(object, args);
        }
        let height = open::height();
        let scope = manual::begin(fields(object).site);
        let returned = call_target(object, args);
        if open::height() != height {
            open::end_above(height);
        }
        scope.end();
        returned
    }
}

unsafe fn call_with(object: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: as for `call`.
    unsafe {
        if !setup::is_enabled() {
            return call_target(object, args);
        }
        let height = open::height();
        let wrapper = fields(object);
        let (scope, words) = values::begin(wrapper.site, || arguments(wrapper, args));
        let returned = call_target(object, args);
        open::end_above(height);
        scope.end_with(&words);
        returned
    }
}

unsafe fn call_turn(object: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: as for `call`.
    unsafe {
        let height = open::begin_turn();
        let returned = call_target(object, args);
        if open::height() > height {
            open::end_above(height);
        }
        returned
    }
}

unsafe fn call_suspended(object: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: as for `call`.
    unsafe {
        let wrapper = fields(object);
        let returned = call_target(object, args);
        if returned.is_null() || !setup::is_enabled() {
            return returned;
        }
        let values = (!wrapper.parameters.is_empty()).then(|| arguments(wrapper, args));
        activation::around(returned, wrapper.site, values)
    }
}

/// Returns the values of the arguments that are recorded.
///
/// # Safety
///
/// The arguments are those of a vectorcall.
unsafe fn arguments(wrapper: &Wrapper, args: VectorcallArgs) -> Vec<Value> {
    // SAFETY: as the caller says, whose thread is attached to the interpreter; names of keywords
    // are `str`.
    unsafe {
        let py = Python::assume_attached();
        let (count, keywords) = (args.positional_count(), args.keywords());
        let named = match keywords.is_null() {
            true => 0,
            false => ffi::PyTuple_Size(keywords).unsigned_abs(),
        };
        let given = |at: usize| Value::of(&Bound::from_borrowed_ptr(py, args.get(at)));
        let by_keyword = |name: &str| {
            (0..named).find(|at| {
                text(ffi::PyTuple_GetItem(keywords, *at as ffi::Py_ssize_t)) == Some(name)
            })
        };
        let value = |parameter: &Parameter| match (parameter.position, by_keyword(&parameter.name))
        {
            (Some(position), _) if position < count => given(position),
            (_, Some(at)) => given(count + at),
            _ => parameter.default.clone().unwrap_or(Value::None),
        };
        wrapper.parameters.iter().map(value).collect()
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: nobody refers to the object any more.
    unsafe {
        proxy::free(object, || {
            ffi::Py_XDECREF(proxy::target(object));
            ptr::drop_in_place(&raw mut (*object.cast::<Wrapper>()).parameters);
        });
    }
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector calls with objects of the type; a call from here on is one of `None`,
    // which has no vectorcall function.
    unsafe {
        (&raw mut (*object.cast::<Wrapper>()).call_target).write(CALL_OBJECT);
        proxy::clear(object)
    }
}

unsafe extern "C" fn get_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type and a name.
    unsafe {
        proxy::get_attribute(object, name, |text| match text {
            "__reduce__" | "__reduce_ex__" | "__call__" | "__get__" => {
                Some(ffi::PyObject_GenericGetAttr(object, name))
            }
            "__wrapped__" => {
                let target = proxy::target(object);
                ffi::Py_INCREF(target);
                Some(target)
            }
            _ => None,
        })
    }
}

/// Makes a method of the object, as functions become methods.
unsafe extern "C" fn bind(
    object: *mut ffi::PyObject,
    to: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type; `to` is null or an object.
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

unsafe fn reduce(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type. A text names an object of its
    // module.
    unsafe { ffi::PyObject_GetAttrString(proxy::target(object), c"__qualname__".as_ptr()) }
}

unsafe fn reduce_ex(object: *mut ffi::PyObject, _: &[*mut ffi::PyObject]) -> *mut ffi::PyObject {
    // SAFETY: as for `reduce`.
    unsafe { reduce(object) }
}
