//! `vor.Scope` and `vor.scope`: a block of Python as a span.
//!
//! A scope's object holds its call site and its arguments. The open span is on the thread's stack,
//! under the object's address. So one object may be entered any number of times, recursively and by
//! several threads. `vor.scope` returns the object that it made last under a name again, if the
//! program has released it.
//!
//! An object is its own `__enter__` and its own `__exit__`. Looking up either in an object returns
//! the object, which distinguishes calls by the number of arguments. A bound method would be made
//! at each `with`, which takes longer than the rest of the `with`.

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use vor_recorder::hot::callsite::{CallSite, MAX_ARGS};
use vor_recorder::hot::scope::manual;

use crate::recording::entry::{VectorcallArgs, add_functions, keywords, vectorcall};
use crate::recording::object::{
    Callback, TypeCell, TypeSpec, allocate, none, raise, text, type_name, with_error_aside,
};
use crate::recording::sites::{self, Place};
use crate::recording::values::{self, Value};
use crate::recording::{loops, open};

/// An object of `vor.Scope`. All fields are set at its creation and never change.
#[repr(C)]
struct Object {
    base: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
    site: &'static CallSite,
    args: Option<Box<[Value]>>,
}

static TYPE: TypeCell<Object> = TypeCell::new();

/// The type of the object that `vor.Scope` has as `__enter__` and `__exit__`.
static METHOD: TypeCell<Callback> = TypeCell::new();

/// Adds `Scope` and `scope`.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let spec = TypeSpec::new(c"vor.Scope")
        .vectorcall(offset_of!(Object, vectorcall))
        .slot(ffi::Py_tp_new, new as *mut c_void)
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_repr, repr as *mut c_void)
        .doc(
            c"Scope(name, /, **args)\n--\n\n\
             A span around a block (`with`, any number of times) or around a function (decorator).",
        );
    let scope_type = TYPE.make(py, spec)?;
    let spec = Callback::type_spec(c"vor._core.ScopeMethod")
        .slot(ffi::Py_tp_descr_get, method_of as *mut c_void);
    METHOD.make(py, spec)?;
    let method = Callback::make(py, &METHOD, vectorcall!(call_by_type))?;
    scope_type.setattr("__enter__", &method)?;
    scope_type.setattr("__exit__", &method)?;
    module.add("Scope", scope_type)?;
    add_functions(
        module,
        [keywords!(
            c"scope",
            scope,
            c"scope(name, /, **args)\n--\n\n\
              Return a Scope: `with vor.scope(\"load\", batch=i):` records a span with an argument."
        )],
    )
}

/// A cache slot: the call site that was looked up last for the objects of a name and of the
/// argument names. A call in a loop passes the same constants. A slot holds a reference to both
/// objects, so no other object can have their addresses. It is a seqlock. Any thread reads and
/// writes the fields relaxed. `sequence` is odd while they change, and a read during a change is
/// discarded.
struct CacheSlot {
    sequence: AtomicUsize,
    name: AtomicPtr<ffi::PyObject>,
    keywords: AtomicPtr<ffi::PyObject>,
    site: AtomicPtr<CallSite>,
    /// A reference to the object that was made last for the name without arguments, or null. Used
    /// only under the interpreter's lock. In a free-threaded interpreter it stays null.
    object: AtomicPtr<ffi::PyObject>,
}

static CACHE: [CacheSlot; 256] = [const {
    CacheSlot {
        sequence: AtomicUsize::new(0),
        name: AtomicPtr::new(ptr::null_mut()),
        keywords: AtomicPtr::new(ptr::null_mut()),
        site: AtomicPtr::new(ptr::null_mut()),
        object: AtomicPtr::new(ptr::null_mut()),
    }
}; 256];

impl CacheSlot {
    /// Returns the slot for a name and argument names.
    #[inline(always)]
    fn of(name: *mut ffi::PyObject, keywords: *mut ffi::PyObject) -> &'static Self {
        let hash = (name.addr() >> 4) ^ (keywords.addr() >> 5);
        &CACHE[hash % CACHE.len()]
    }

    /// Returns the site, if the slot is for these objects.
    #[inline(always)]
    fn get(
        &self,
        name: *mut ffi::PyObject,
        keywords: *mut ffi::PyObject,
    ) -> Option<&'static CallSite> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let is_hit = self.name.load(Ordering::Relaxed) == name
            && self.keywords.load(Ordering::Relaxed) == keywords;
        let site = self.site.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if !is_hit
            || !sequence.is_multiple_of(2)
            || self.sequence.load(Ordering::Relaxed) != sequence
        {
            return None;
        }
        // SAFETY: the slot had a name at this sequence number, so it had a site, which is never
        // freed.
        Some(unsafe { &*site })
    }

    /// Stores a site for these objects, unless another thread is changing the slot.
    ///
    /// # Safety
    ///
    /// As for [`site_of`].
    unsafe fn set(
        &self,
        name: *mut ffi::PyObject,
        keywords: *mut ffi::PyObject,
        site: &'static CallSite,
    ) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        let is_locked = sequence.is_multiple_of(2)
            && self
                .sequence
                .compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !is_locked {
            return;
        }
        fence(Ordering::Release);
        // SAFETY: both are alive or null, as the caller says; the slot owns its old references.
        unsafe {
            ffi::Py_INCREF(name);
            ffi::Py_XINCREF(keywords);
            let name = self.name.swap(name, Ordering::Relaxed);
            let keywords = self.keywords.swap(keywords, Ordering::Relaxed);
            self.site
                .store(ptr::from_ref(site).cast_mut(), Ordering::Relaxed);
            let object = self.object.swap(ptr::null_mut(), Ordering::Relaxed);
            self.sequence.store(sequence + 2, Ordering::Release);
            ffi::Py_XDECREF(object);
            ffi::Py_XDECREF(name);
            ffi::Py_XDECREF(keywords);
        }
    }

    /// Returns a new reference to an object for the slot's name without arguments, at its site.
    ///
    /// # Safety
    ///
    /// The thread is attached to the interpreter.
    #[inline(always)]
    unsafe fn object(&self, site: &'static CallSite) -> *mut ffi::PyObject {
        // Without a lock, two threads might get the same object.
        if cfg!(Py_GIL_DISABLED) {
            // SAFETY: as the caller says.
            return unsafe { make(TYPE.get(), site, None) };
        }
        let object = self.object.load(Ordering::Relaxed);
        // SAFETY: the slot holds a reference, so the object is alive; if that is the only one, the
        // object is not entered.
        unsafe {
            if !object.is_null() && ffi::Py_REFCNT(object) == 1 {
                ffi::Py_INCREF(object);
                return object;
            }
            self.make_object(site)
        }
    }

    /// Does the same as [`object`](Self::object), with a new object, to which the slot holds a
    /// reference.
    ///
    /// # Safety
    ///
    /// As for [`object`](Self::object).
    #[cold]
    unsafe fn make_object(&self, site: &'static CallSite) -> *mut ffi::PyObject {
        // SAFETY: as the caller says.
        unsafe {
            let made = make(TYPE.get(), site, None);
            ffi::Py_XINCREF(made);
            ffi::Py_XDECREF(self.object.swap(made, Ordering::Relaxed));
            made
        }
    }
}

/// Returns the call site of a name and argument names, or raises.
///
/// # Safety
///
/// `name` is alive; `keywords` is null or a tuple of `str`.
#[inline]
unsafe fn site_of(
    name: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> Option<&'static CallSite> {
    let slot = CacheSlot::of(name, keywords);
    if let Some(site) = slot.get(name, keywords) {
        return Some(site);
    }
    // SAFETY: as the caller says.
    unsafe { look_up(name, keywords, slot) }
}

/// Does the same as [`site_of`], for names that are not in the cache.
///
/// # Safety
///
/// As for [`site_of`].
#[cold]
unsafe fn look_up(
    name: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
    slot: &CacheSlot,
) -> Option<&'static CallSite> {
    // SAFETY: as the caller says, whose thread is attached to the interpreter.
    let (py, name_text) = unsafe { (Python::assume_attached(), text(name)) };
    let Some(name_text) = name_text else {
        // SAFETY: as above.
        let found = unsafe { Bound::from_borrowed_ptr(py, name) };
        if !found.is_instance_of::<PyString>() {
            let found = type_name(&found);
            drop(PyErr::take(py));
            raise(PyTypeError::new_err(format!(
                "scope: expected a name as str, found {found}"
            )));
        }
        return None;
    };
    loops::watch(py);
    let mut args = Vec::new();
    if !keywords.is_null() {
        // SAFETY: as the caller says.
        let keywords = unsafe { Bound::from_borrowed_ptr(py, keywords) };
        match keywords.extract::<Vec<String>>() {
            Ok(names) => args = names,
            Err(error) => {
                raise(error);
                return None;
            }
        }
    }
    if args.len() > MAX_ARGS {
        let found = args.len();
        raise(PyValueError::new_err(format!(
            "scope: expected at most {MAX_ARGS} arguments, found {found}"
        )));
        return None;
    }
    let site = sites::intern(Place {
        name: name_text.to_owned(),
        args,
        ..Place::default()
    });
    // SAFETY: as the caller says.
    unsafe { slot.set(name, keywords, site) };
    Some(site)
}

/// Makes an object of `vor.Scope`.
///
/// # Safety
///
/// `kind` is the type or one below it.
#[inline]
unsafe fn make(
    kind: *mut ffi::PyTypeObject,
    site: &'static CallSite,
    args: Option<Box<[Value]>>,
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says; all fields are written, and none is a reference.
    unsafe {
        allocate(kind, |object: *mut Object| {
            (&raw mut (*object).vectorcall).write(vectorcall!(call));
            (&raw mut (*object).site).write(site);
            (&raw mut (*object).args).write(args);
        })
    }
}

/// Makes an object of `vor.Scope` without arguments.
pub(crate) fn of_site<'py>(
    py: Python<'py>,
    site: &'static CallSite,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the type was made with the module.
    unsafe { Bound::from_owned_ptr_or_err(py, make(TYPE.get(), site, None)) }
}

unsafe fn scope(_: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    let count = args.positional_count();
    if count != 1 {
        return raise(PyTypeError::new_err(format!(
            "scope: expected one name, and arguments by keyword; found {count} without keyword"
        )));
    }
    // SAFETY: the interpreter calls with one argument, and behind it a value for each keyword.
    unsafe {
        let (name, keywords) = (args.get(0), args.keywords());
        let Some(site) = site_of(name, keywords) else {
            return ptr::null_mut();
        };
        if keywords.is_null() {
            return CacheSlot::of(name, keywords).object(site);
        }
        let py = Python::assume_attached();
        let count = ffi::PyTuple_Size(keywords).unsigned_abs();
        let values = (1..=count).map(|at| Value::of(&Bound::from_borrowed_ptr(py, args.get(at))));
        make(TYPE.get(), site, Some(values.collect()))
    }
}

unsafe extern "C" fn new(
    kind: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter passes a tuple, and a dictionary or null.
    unsafe {
        let py = Python::assume_attached();
        let made = (|| -> PyResult<_> {
            let args = Bound::from_borrowed_ptr(py, args).cast_into::<PyTuple>()?;
            if args.len() != 1 {
                let found = args.len();
                return Err(PyTypeError::new_err(format!(
                    "Scope: expected one name, and arguments by keyword; found {found} without \
                    keyword"
                )));
            }
            let mut names = ptr::null_mut();
            let (mut names_tuple, mut values) = (None, None);
            if let Some(keywords) = Bound::from_borrowed_ptr_or_opt(py, keywords) {
                let keywords = keywords.cast_into::<PyDict>()?;
                if !keywords.is_empty() {
                    let tuple = PyTuple::new(py, keywords.keys())?;
                    names = tuple.as_ptr();
                    names_tuple = Some(tuple);
                    values = Some(
                        keywords
                            .values()
                            .iter()
                            .map(|value| Value::of(&value))
                            .collect(),
                    );
                }
            }
            let site = site_of(args.get_item(0)?.as_ptr(), names);
            // `names` points to it until here.
            drop(names_tuple);
            Ok(site.map(|site| (site, values)))
        })();
        match made {
            Ok(Some((site, values))) => make(kind, site, values),
            // The error is set.
            Ok(None) => ptr::null_mut(),
            Err(error) => raise(error),
        }
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: nobody refers to the object any more; its type was counted where it was made.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        ptr::drop_in_place(&raw mut (*object.cast::<Object>()).args);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// Returns the object for its own `__enter__` and `__exit__`, and the method itself for those of
/// the type.
unsafe extern "C" fn method_of(
    method: *mut ffi::PyObject,
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let found = if object.is_null() { method } else { object };
    // SAFETY: the interpreter passes the method, and null or an object.
    unsafe { ffi::Py_INCREF(found) };
    found
}

/// Begins the span if there are no arguments, ends it if there are the three of `__exit__`, and
/// decorates the function if there is one argument.
unsafe fn call(object: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    if !args.keywords().is_null() {
        return raise(PyTypeError::new_err(
            "Scope: a call takes no keyword arguments",
        ));
    }
    // SAFETY: the interpreter calls with an object of the type, and so many arguments.
    unsafe {
        match args.positional_count() {
            0 => enter(object),
            3 => {
                open::end_block(open::block_key(object), is_in_coroutine);
                none()
            }
            1 => decorate(object, args.get(0)),
            found => raise(PyTypeError::new_err(format!(
                "Scope: expected a function to decorate, found {found} arguments"
            ))),
        }
    }
}

/// Implements `Scope.__enter__(scope)` and `Scope.__exit__(scope, …)`.
unsafe fn call_by_type(_: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with so many arguments. The type of the first one is checked
    // before it is used as an object of it.
    unsafe {
        let is_call = matches!(args.positional_count(), 1 | 4)
            && ffi::PyObject_TypeCheck(args.get(0), TYPE.get()) != 0;
        if !is_call {
            return raise(PyTypeError::new_err(
                "Scope: expected a Scope, and the three arguments of __exit__ or none",
            ));
        }
        call(args.get(0), args.skip_first())
    }
}

/// Begins the span.
///
/// # Safety
///
/// `object` is of the type and alive.
#[inline(always)]
unsafe fn enter(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let key = open::block_key(object);
    // SAFETY: as the caller says.
    unsafe {
        let scope = &*object.cast::<Object>();
        match &scope.args {
            None => open::push(key, manual::begin(scope.site)),
            Some(values) => {
                let (scope, words) = values::begin(scope.site, || values);
                open::push_with(key, scope, words);
            }
        }
        ffi::Py_INCREF(object);
    }
    object
}

/// Returns whether the running code is that of a coroutine or generator.
fn is_in_coroutine() -> bool {
    const CO_GENERATOR: u32 = 0x20;
    const CO_COROUTINE: u32 = 0x80;
    const CO_ASYNC_GENERATOR: u32 = 0x200;
    // SAFETY: this is called in functions of the interpreter's, whose thread is attached to it; its
    // frame lives as long.
    let (py, frame) = unsafe {
        let py = Python::assume_attached();
        (
            py,
            Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()),
        )
    };
    let flags = with_error_aside(py, || {
        let code = frame?.getattr("f_code").ok()?;
        code.getattr("co_flags").ok()?.extract::<u32>().ok()
    });
    flags.is_some_and(|flags| flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR) != 0)
}

/// Returns a function, profiled under the scope's name.
///
/// # Safety
///
/// `object` is of the type, and both are alive.
#[cold]
unsafe fn decorate(object: *mut ffi::PyObject, function: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as the caller says, whose thread is attached to the interpreter.
    unsafe {
        let py = Python::assume_attached();
        let name = (*object.cast::<Object>()).site.name();
        let profiled = (|| {
            let named = PyDict::new(py);
            named.set_item("name", name)?;
            let function = Bound::from_borrowed_ptr(py, function);
            py.import("vor")?
                .getattr("profile")?
                .call((function,), Some(&named))
        })();
        profiled.map_or_else(raise, Bound::into_ptr)
    }
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter passes objects of the type.
    let (py, name) = unsafe {
        (
            Python::assume_attached(),
            (*object.cast::<Object>()).site.name(),
        )
    };
    let made = PyString::new(py, &name)
        .repr()
        .map(|name| PyString::new(py, &format!("vor.Scope({name})")));
    made.map_or_else(raise, |text| text.into_any().into_ptr())
}
