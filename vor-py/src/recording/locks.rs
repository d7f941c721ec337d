//! `vor.Lock` and `vor.RLock`: the locks of `threading` that record who waited for whom.
//!
//! A lock is one of the interpreter ([`RawLock`]), with the recording part of the recorder's own
//! locks beside it ([`ForeignLock`]). A thread tries it first, which records nothing. If another
//! thread holds the lock, the wait is a scope, as `vor_recorder::locks` says.
//!
//! `threading.Condition` calls three private methods of its lock: `_release_save` before it waits
//! for a notification, `_acquire_restore` after that, and `_is_owned`. So a lock also records the
//! waits for the conditions, events, semaphores, barriers and queues that are built on it.

#![expect(
    unsafe_code,
    reason = "functions by the interpreter's own calling conventions"
)]

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use pyo3::{IntoPyObjectExt, intern};
use vor_recorder::locks::foreign::{ForeignLock, ForeignName, LockerToken};
use vor_recorder::setup;

use crate::recording::entry::{Outcome, VectorcallArgs, blocking, no_args, positional};
use crate::recording::maker;
use crate::recording::object::{
    TypeCell, TypeSpec, allocate, raise, text, type_name, with_error_aside,
};
use crate::recording::open;
use crate::recording::raw_lock::{Blocking, RawLock, this_thread};
use crate::recording::sites::intern_text;

/// The value of [`Object::owner`] of a `vor.Lock` that is locked, which any thread may unlock.
const LOCKED: usize = 1;

/// A `vor.Lock` or a `vor.RLock`.
#[repr(C)]
struct Object {
    base: ffi::PyObject,
    weak: *mut ffi::PyObject,
    raw: RawLock,
    /// The name that the program gave, or the file that made the lock: a `str`, and a reference.
    name: *mut ffi::PyObject,
    /// The line in the file, or `None` for a name.
    line: Option<u32>,
    /// 0 while the lock is free. Written by the thread that has the lock (relaxed); the raw lock
    /// orders it. Others read it for a comparison with their own number.
    owner: AtomicUsize,
    /// How often the owner of a `vor.RLock` has it. Used by the owner only.
    count: AtomicUsize,
    record: ForeignLock,
}

/// The arguments of a constructor.
struct Arguments<'py> {
    name: Option<Bound<'py, PyString>>,
    holds: bool,
}

static LOCK: TypeCell<Object> = TypeCell::new();
static RLOCK: TypeCell<Object> = TypeCell::new();

/// Adds `Lock` and `RLock`.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let acquire_doc = c"acquire($self, /, blocking=True, timeout=-1)\n--\n\n\
        Lock. Wait until the lock is free, unless `blocking` is false, and for at most `timeout` \
        seconds. Return whether this thread has the lock now.";
    let enter_doc = c"__enter__($self, /)\n--\n\nLock.";
    let exit_doc = c"__exit__($self, type, value, traceback, /)\n--\n\nUnlock.";
    let locked_doc = c"locked($self, /)\n--\n\nReturn whether a thread has the lock.";
    let fork_doc = c"_at_fork_reinit($self, /)\n--\n\nUnlock in the child of a fork.";
    let lock = type_spec(c"vor.Lock")
        .slot(ffi::Py_tp_new, new_lock as *mut c_void)
        .doc(
            c"Lock(name=None, *, holds=False)\n--\n\n\
              A threading.Lock that records who waited for whom. Without a name it has that of its \
              place, as in `app.py:12`. With `holds` it also records how long it is held.",
        )
        .methods([
            blocking!(c"acquire", lock_acquire, acquire_doc),
            no_args!(
                c"release",
                lock_release,
                c"release($self, /)\n--\n\nUnlock, on any thread."
            ),
            no_args!(c"locked", locked, locked_doc),
            blocking!(c"__enter__", lock_acquire, enter_doc),
            positional!(c"__exit__", lock_exit, exit_doc),
            no_args!(c"_release_save", lock_release_save, c"For Condition."),
            blocking!(c"_acquire_restore", lock_acquire_restore, c"For Condition."),
            no_args!(c"_is_owned", locked, c"For Condition."),
            no_args!(c"_at_fork_reinit", at_fork_reinit, fork_doc),
        ]);
    module.add("Lock", LOCK.make(py, lock)?)?;
    let rlock = type_spec(c"vor.RLock")
        .slot(ffi::Py_tp_new, new_rlock as *mut c_void)
        .doc(
            c"RLock(name=None, *, holds=False)\n--\n\n\
              A threading.RLock that records who waited for whom. Without a name it has that of \
              its place, as in `app.py:12`. With `holds` it also records how long it is held.",
        )
        .methods([
            blocking!(c"acquire", rlock_acquire, acquire_doc),
            no_args!(
                c"release",
                rlock_release,
                c"release($self, /)\n--\n\nUnlock, as often as the thread has locked."
            ),
            no_args!(c"locked", locked, locked_doc),
            blocking!(c"__enter__", rlock_acquire, enter_doc),
            positional!(c"__exit__", rlock_exit, exit_doc),
            no_args!(c"_release_save", rlock_release_save, c"For Condition."),
            blocking!(
                c"_acquire_restore",
                rlock_acquire_restore,
                c"For Condition."
            ),
            no_args!(c"_is_owned", is_owned, c"For Condition."),
            no_args!(
                c"_recursion_count",
                recursion_count,
                c"How often this thread has the lock."
            ),
            no_args!(c"_at_fork_reinit", at_fork_reinit, fork_doc),
        ]);
    module.add("RLock", RLOCK.make(py, rlock)?)
}

fn type_spec(name: &'static std::ffi::CStr) -> TypeSpec {
    TypeSpec::new(name)
        .weak_references(offset_of!(Object, weak))
        .slot(ffi::Py_tp_dealloc, dealloc as *mut c_void)
        .slot(ffi::Py_tp_repr, repr as *mut c_void)
        .getters([ffi::PyGetSetDef {
            name: c"name".as_ptr(),
            get: Some(get_name),
            set: None,
            doc: c"The name that reports show.".as_ptr(),
            closure: ptr::null_mut(),
        }])
}

unsafe extern "C" fn new_lock(
    kind: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter passes the type, a tuple, and a dictionary or null.
    unsafe { new(kind, "Lock", args, keywords) }
}

unsafe extern "C" fn new_rlock(
    kind: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `new_lock`.
    unsafe { new(kind, "RLock", args, keywords) }
}

/// Makes a lock.
///
/// # Safety
///
/// `kind` is one of the two types; `args` is a tuple, and `keywords` a dictionary or null.
unsafe fn new(
    kind: *mut ffi::PyTypeObject,
    of: &str,
    args: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as the caller says, whose thread is attached to the interpreter.
    let (py, args, keywords) = unsafe {
        let py = Python::assume_attached();
        let args = Bound::from_borrowed_ptr(py, args);
        (py, args, Bound::from_borrowed_ptr_or_opt(py, keywords))
    };
    let made = arguments_of(of, &args, keywords.as_ref()).and_then(|arguments| {
        let (name, line) = match arguments.name {
            Some(name) => (name, None),
            None => {
                let (file, line) = maker::place(py)?;
                (file, Some(line))
            }
        };
        Ok((RawLock::new()?, name.into_ptr(), line, arguments.holds))
    });
    let (raw, name, line, holds) = match made {
        Ok(made) => made,
        Err(error) => return raise(error),
    };
    // SAFETY: all fields are written, but for the weak references, which are none.
    unsafe {
        allocate(kind, |object: *mut Object| {
            (&raw mut (*object).raw).write(raw);
            (&raw mut (*object).name).write(name);
            (&raw mut (*object).line).write(line);
            (&raw mut (*object).owner).write(AtomicUsize::new(0));
            (&raw mut (*object).count).write(AtomicUsize::new(0));
            (&raw mut (*object).record).write(ForeignLock::with_holds(holds));
        })
    }
}

/// Reads the arguments of a constructor.
fn arguments_of<'py>(
    of: &str,
    args: &Bound<'py, PyAny>,
    keywords: Option<&Bound<'py, PyAny>>,
) -> PyResult<Arguments<'py>> {
    let args = args.cast::<PyTuple>()?;
    let mut name = match args.len() {
        0 => None,
        1 => Some(args.get_item(0)?),
        found => {
            return Err(PyTypeError::new_err(format!(
                "{of}: expected at most 1 argument by position, the name, found {found}"
            )));
        }
    };
    let mut holds = false;
    if let Some(keywords) = keywords {
        for (key, value) in keywords.cast::<PyDict>()? {
            match key.cast::<PyString>()?.to_str()? {
                "name" if name.is_none() => name = Some(value),
                "holds" => holds = value.is_truthy()?,
                key => {
                    return Err(PyTypeError::new_err(format!(
                        "{of}: unexpected keyword {key}; the arguments are name, holds"
                    )));
                }
            }
        }
    }
    let name = name.filter(|name| !name.is_none());
    let name = name.map(|name| name_in(of, &name)).transpose()?;
    Ok(Arguments { name, holds })
}

fn name_in<'py>(of: &str, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let Ok(name) = name.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "{of}: name: expected str or None, found {}",
            type_name(name)
        )));
    };
    // A wait must find the name in UTF-8.
    name.to_str()?;
    Ok(name.clone())
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: nobody refers to the object any more; its type was counted where it was made.
    unsafe {
        let lock = object.cast::<Object>();
        if !(*lock).weak.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        let is_locked = (*lock).owner.load(Ordering::Relaxed) != 0;
        (*lock).raw.free(is_locked);
        let kind = ffi::Py_TYPE(object);
        ffi::Py_DECREF((*lock).name);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// Returns the fields of an object.
///
/// # Safety
///
/// `object` is of one of the types and alive for as long as the result is used.
#[inline(always)]
unsafe fn fields<'a>(object: *mut ffi::PyObject) -> &'a Object {
    // SAFETY: as the caller says; the fields that change are atomic.
    unsafe { &*object.cast::<Object>() }
}

impl Object {
    /// Returns the name for a wait that is recorded. The thread is attached to the interpreter.
    fn name(&self) -> ForeignName {
        // SAFETY: the name lives as long as the object.
        let text = unsafe { text(self.name) }.unwrap_or_else(|| {
            // A file may have any name.
            // SAFETY: as the caller says.
            drop(PyErr::take(unsafe { Python::assume_attached() }));
            "<unknown>"
        });
        let text = intern_text(text);
        match self.line {
            Some(line) => ForeignName::Place(text, line),
            None => ForeignName::Named(text),
        }
    }

    fn name_text(&self) -> String {
        match self.name() {
            ForeignName::Named(name) => name.to_owned(),
            ForeignName::Place(file, line) => format!("{file}:{line}"),
        }
    }

    /// Locks the raw lock. Returns whether the thread has it, or `None` with the error set.
    ///
    /// # Safety
    ///
    /// As for [`RawLock::lock`].
    #[inline(always)]
    unsafe fn lock(
        &self,
        owner: usize,
        blocking: Blocking,
        is_interruptible: bool,
    ) -> Option<bool> {
        // Taken before the lock, because it may run code of the program.
        let token = LockerToken::of_this_thread();
        let mut has_lock = self.raw.try_lock();
        if !has_lock {
            if blocking == Blocking::No {
                return Some(false);
            }
            // SAFETY: as the caller says.
            has_lock = unsafe { self.lock_contended(token, blocking, is_interruptible) }?;
        } else {
            self.record.locked(token);
        }
        if has_lock {
            self.owner.store(owner, Ordering::Relaxed);
        }
        Some(has_lock)
    }

    /// Locks the raw lock, which another thread has.
    ///
    /// # Safety
    ///
    /// As for [`RawLock::lock`].
    #[cold]
    #[inline(never)]
    unsafe fn lock_contended(
        &self,
        token: LockerToken,
        blocking: Blocking,
        is_interruptible: bool,
    ) -> Option<bool> {
        let wait = self.record.begin_wait(|| self.name());
        // SAFETY: as the caller says.
        let locked = unsafe { self.raw.lock(blocking, is_interruptible) };
        if locked == Some(true) {
            self.record.locked(token);
        }
        wait.end(locked == Some(true));
        locked
    }

    /// Unlocks the raw lock. The thread has it, or no thread unlocks it at the same time.
    #[inline(always)]
    fn unlock(&self) {
        self.record.unlocking(|| self.name());
        // SAFETY: as the caller says.
        unsafe { self.raw.unlock() };
    }

    /// Marks a `vor.Lock` as unlocked, and returns whether it was locked.
    #[inline(always)]
    fn take_locked(&self) -> bool {
        if cfg!(Py_GIL_DISABLED) {
            return self.owner.swap(0, Ordering::Relaxed) != 0;
        }
        // No other thread runs here.
        let was_locked = self.owner.load(Ordering::Relaxed) != 0;
        self.owner.store(0, Ordering::Relaxed);
        was_locked
    }

    #[inline(always)]
    fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == this_thread()
    }
}

/// Reads the arguments of `acquire`. Returns `None` with the error set.
#[inline(always)]
unsafe fn how_to_block(args: VectorcallArgs) -> Option<Blocking> {
    if args.positional_count() == 0 && args.keywords().is_null() {
        return Some(Blocking::Forever);
    }
    // SAFETY: as the caller says.
    match unsafe { read_arguments(args) } {
        Ok(blocking) => Some(blocking),
        Err(error) => {
            raise(error);
            None
        }
    }
}

#[cold]
unsafe fn read_arguments(args: VectorcallArgs) -> PyResult<Blocking> {
    // SAFETY: as the caller says, whose thread is attached to the interpreter.
    let py = unsafe { Python::assume_attached() };
    let count = args.positional_count();
    if count > 2 {
        return Err(PyTypeError::new_err(format!(
            "acquire: expected at most 2 arguments, found {count}"
        )));
    }
    let mut given: [Option<Bound<'_, PyAny>>; 2] = [None, None];
    // SAFETY: there are so many arguments.
    let value = |at: usize| unsafe { Bound::from_borrowed_ptr(py, args.get(at)) };
    for (at, place) in given.iter_mut().enumerate().take(count) {
        *place = Some(value(at));
    }
    if !args.keywords().is_null() {
        // SAFETY: the interpreter passes a tuple of the names.
        let names = unsafe { Bound::from_borrowed_ptr(py, args.keywords()) };
        for (at, name) in names.cast::<PyTuple>()?.iter().enumerate() {
            let name: String = name.extract()?;
            let place = match name.as_str() {
                "blocking" => &mut given[0],
                "timeout" => &mut given[1],
                _ => {
                    return Err(PyTypeError::new_err(format!(
                        "acquire: unexpected keyword {name}; the arguments are blocking, timeout"
                    )));
                }
            };
            if place.replace(value(count + at)).is_some() {
                return Err(PyTypeError::new_err(format!(
                    "acquire: found two values for {name}"
                )));
            }
        }
    }
    let [blocking, timeout] = given;
    let blocks = blocking.map_or(Ok(true), |blocking| blocking.is_truthy())?;
    let timeout: f64 = timeout.map_or(Ok(-1.0), |timeout| timeout.extract())?;
    match timeout {
        _ if timeout.is_nan() => Err(PyValueError::new_err(
            "acquire: timeout: expected a number of seconds, found nan",
        )),
        -1.0 if blocks => Ok(Blocking::Forever),
        -1.0 => Ok(Blocking::No),
        _ if !blocks => Err(PyValueError::new_err(
            "can't specify a timeout for a non-blocking call",
        )),
        _ if timeout < 0.0 => Err(PyValueError::new_err(
            "timeout value must be a non-negative number",
        )),
        _ => Blocking::seconds(timeout),
    }
}

fn bool_object(value: Option<bool>) -> *mut ffi::PyObject {
    // SAFETY: both objects are always there.
    unsafe {
        match value {
            Some(true) => ffi::Py_NewRef(ffi::Py_True()),
            Some(false) => ffi::Py_NewRef(ffi::Py_False()),
            None => ptr::null_mut(),
        }
    }
}

unsafe fn lock_acquire(object: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type.
    unsafe {
        let Some(blocking) = how_to_block(args) else {
            return ptr::null_mut();
        };
        bool_object(fields(object).lock(LOCKED, blocking, true))
    }
}

unsafe fn lock_release(object: *mut ffi::PyObject) -> Option<()> {
    // SAFETY: the interpreter calls with an object of the type.
    let lock = unsafe { fields(object) };
    if !lock.take_locked() {
        raise(PyRuntimeError::new_err("release unlocked lock"));
        return None;
    }
    lock.unlock();
    Some(())
}

unsafe fn lock_exit(object: *mut ffi::PyObject, _: &[*mut ffi::PyObject]) -> Option<()> {
    // SAFETY: as for `lock_release`.
    unsafe { lock_release(object) }
}

unsafe fn lock_release_save(object: *mut ffi::PyObject) -> Option<()> {
    // SAFETY: as for `lock_release`.
    unsafe {
        lock_release(object)?;
        begin_notification(object);
    }
    Some(())
}

unsafe fn lock_acquire_restore(
    object: *mut ffi::PyObject,
    _: VectorcallArgs,
) -> *mut ffi::PyObject {
    // SAFETY: as for `lock_acquire`.
    unsafe {
        open::end_block(open::block_key(object), || false);
        match fields(object).lock(LOCKED, Blocking::Forever, true) {
            Some(_) => Some(()).into_raw(),
            None => ptr::null_mut(),
        }
    }
}

unsafe fn rlock_acquire(object: *mut ffi::PyObject, args: VectorcallArgs) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type.
    unsafe {
        let Some(blocking) = how_to_block(args) else {
            return ptr::null_mut();
        };
        let lock = fields(object);
        if lock.is_mine() {
            let Some(count) = lock.count.load(Ordering::Relaxed).checked_add(1) else {
                return raise(PyOverflowError::new_err("Internal lock count overflowed"));
            };
            lock.count.store(count, Ordering::Relaxed);
            return bool_object(Some(true));
        }
        let locked = lock.lock(this_thread(), blocking, true);
        if locked == Some(true) {
            lock.count.store(1, Ordering::Relaxed);
        }
        bool_object(locked)
    }
}

/// Raises if the thread does not have the lock.
fn check_owned(lock: &Object) -> Option<()> {
    if !lock.is_mine() {
        raise(PyRuntimeError::new_err("cannot release un-acquired lock"));
        return None;
    }
    Some(())
}

unsafe fn rlock_release(object: *mut ffi::PyObject) -> Option<()> {
    // SAFETY: the interpreter calls with an object of the type.
    let lock = unsafe { fields(object) };
    check_owned(lock)?;
    let count = lock.count.load(Ordering::Relaxed) - 1;
    lock.count.store(count, Ordering::Relaxed);
    if count == 0 {
        lock.owner.store(0, Ordering::Relaxed);
        lock.unlock();
    }
    Some(())
}

unsafe fn rlock_exit(object: *mut ffi::PyObject, _: &[*mut ffi::PyObject]) -> Option<()> {
    // SAFETY: as for `rlock_release`.
    unsafe { rlock_release(object) }
}

unsafe fn rlock_release_save(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type, on a thread attached to it.
    let (py, lock) = unsafe { (Python::assume_attached(), fields(object)) };
    if check_owned(lock).is_none() {
        return ptr::null_mut();
    }
    let owner = lock.owner.load(Ordering::Relaxed);
    let state = (lock.count.load(Ordering::Relaxed), owner).into_py_any(py);
    let state = match state {
        Ok(state) => state,
        Err(error) => return raise(error),
    };
    lock.count.store(0, Ordering::Relaxed);
    lock.owner.store(0, Ordering::Relaxed);
    lock.unlock();
    // SAFETY: as above.
    unsafe { begin_notification(object) };
    state.into_ptr()
}

unsafe fn rlock_acquire_restore(
    object: *mut ffi::PyObject,
    args: VectorcallArgs,
) -> *mut ffi::PyObject {
    // SAFETY: as for `rlock_acquire`.
    unsafe {
        let Some((count, owner)) = saved_state(args) else {
            return ptr::null_mut();
        };
        open::end_block(open::block_key(object), || false);
        let lock = fields(object);
        // Like that of the interpreter, it ends only with the lock.
        if lock.lock(owner, Blocking::Forever, false).is_none() {
            return ptr::null_mut();
        }
        lock.count.store(count, Ordering::Relaxed);
        Some(()).into_raw()
    }
}

/// Reads what `_release_save` returned. Returns `None` with the error set.
unsafe fn saved_state(args: VectorcallArgs) -> Option<(usize, usize)> {
    let is_one = args.positional_count() == 1 && args.keywords().is_null();
    let state = is_one.then(|| {
        // SAFETY: there is one argument, on a thread attached to the interpreter.
        let state = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), args.get(0)) };
        state.extract::<(usize, usize)>()
    });
    match state {
        Some(Ok(state)) => Some(state),
        Some(Err(error)) => {
            raise(error);
            None
        }
        None => {
            raise(PyTypeError::new_err(
                "_acquire_restore: expected 1 argument, what _release_save returned",
            ));
            None
        }
    }
}

/// Begins the wait for a notification, if `Condition.wait` has unlocked.
///
/// # Safety
///
/// `object` is of one of the types and alive, and the thread is attached to the interpreter.
unsafe fn begin_notification(object: *mut ffi::PyObject) {
    if !setup::is_enabled() {
        return;
    }
    // SAFETY: as the caller says.
    let (py, lock) = unsafe { (Python::assume_attached(), fields(object)) };
    if with_error_aside(py, || is_called_by_condition(py)) {
        let scope = lock.record.begin_notification(|| lock.name());
        open::push(open::block_key(object), scope);
    }
}

/// Returns whether `Condition.wait` is the function of Python that calls. Others that unlock for a
/// while do something meanwhile.
fn is_called_by_condition(py: Python<'_>) -> bool {
    let find = || -> PyResult<bool> {
        let Some(frame) = maker::innermost_frame(py) else {
            return Ok(false);
        };
        let code = frame.getattr(intern!(py, "f_code"))?;
        code.getattr(intern!(py, "co_qualname"))?
            .eq("Condition.wait")
    };
    find().unwrap_or(false)
}

unsafe fn locked(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type.
    let owner = unsafe { fields(object) }.owner.load(Ordering::Relaxed);
    bool_object(Some(owner != 0))
}

unsafe fn is_owned(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type.
    bool_object(Some(unsafe { fields(object) }.is_mine()))
}

unsafe fn recursion_count(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of the type, on a thread attached to it.
    unsafe {
        let lock = fields(object);
        let count = match lock.is_mine() {
            true => lock.count.load(Ordering::Relaxed),
            false => 0,
        };
        ffi::PyLong_FromSize_t(count)
    }
}

unsafe fn at_fork_reinit(object: *mut ffi::PyObject) -> Option<()> {
    // SAFETY: the interpreter calls with an object of the type.
    let lock = unsafe { fields(object) };
    if let Err(error) = lock.raw.replace() {
        raise(error);
        return None;
    }
    lock.owner.store(0, Ordering::Relaxed);
    lock.count.store(0, Ordering::Relaxed);
    lock.record.forget_threads();
    Some(())
}

unsafe extern "C" fn get_name(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with an object of one of the types.
    let (py, lock) = unsafe { (Python::assume_attached(), fields(object)) };
    PyString::new(py, &lock.name_text()).into_any().into_ptr()
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter passes objects of the types.
    let (py, lock, kind) = unsafe {
        (
            Python::assume_attached(),
            fields(object),
            ffi::Py_TYPE(object),
        )
    };
    let owner = lock.owner.load(Ordering::Relaxed);
    let state = if owner == 0 { "unlocked" } else { "locked" };
    let name = PyString::new(py, &lock.name_text());
    let made = name.repr().map(|name| {
        let text = if kind == RLOCK.get() {
            let count = lock.count.load(Ordering::Relaxed);
            format!("<{state} vor.RLock object {name} owner={owner} count={count} at {object:p}>")
        } else {
            format!("<{state} vor.Lock object {name} at {object:p}>")
        };
        PyString::new(py, &text)
    });
    made.map_or_else(raise, |text| text.into_any().into_ptr())
}
