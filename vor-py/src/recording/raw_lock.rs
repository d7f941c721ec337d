//! The interpreter's own lock, of which `_thread.lock` is made. A thread that blocks for it
//! releases the interpreter, and handles signals as it does in `_thread.lock`.
//!
//! # Threads that end inside
//!
//! CPython up to 3.13 ends a daemon thread that comes back while the interpreter shuts down, and
//! the C library unwinds its stack. So the functions around a blocking call are `C-unwind`, and own
//! nothing that has a destructor during the call.

#![expect(
    unsafe_code,
    reason = "PyO3 lacks these functions of the interpreter, which unwind"
)]

use std::ffi::{c_int, c_longlong, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyMemoryError, PyOverflowError};
use pyo3::ffi;
use pyo3::prelude::*;

/// Results of [`PyThread_acquire_lock_timed`].
const FAILURE: c_int = 0;
const INTERRUPTED: c_int = 2;

// In the stable ABI, but for `PyEval_*` absent from PyO3, whose declarations do not unwind.
unsafe extern "C-unwind" {
    fn PyThread_allocate_lock() -> *mut c_void;
    fn PyThread_free_lock(lock: *mut c_void);
    fn PyThread_acquire_lock_timed(
        lock: *mut c_void,
        microseconds: c_longlong,
        is_interruptible: c_int,
    ) -> c_int;
    fn PyThread_release_lock(lock: *mut c_void);
    fn PyThread_get_thread_ident() -> c_ulong;
    fn PyEval_SaveThread() -> *mut ffi::PyThreadState;
    fn PyEval_RestoreThread(state: *mut ffi::PyThreadState);
    fn Py_MakePendingCalls() -> c_int;
}

/// Returns the number of this thread, as `threading.get_ident` does. It is not 0.
#[inline(always)]
pub(crate) fn this_thread() -> usize {
    // SAFETY: the function needs nothing.
    unsafe { PyThread_get_thread_ident() as usize }
}

/// How long a thread blocks for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// Not at all.
    No,
    /// For at most so many microseconds, which are more than 0.
    Micros(c_longlong),
    /// Until it has the lock.
    Forever,
}

impl Blocking {
    /// Returns the duration of a `timeout` in seconds, not negative. `Err` if it is too long.
    pub(crate) fn seconds(seconds: f64) -> PyResult<Self> {
        // `threading.TIMEOUT_MAX`: the interpreter counts nanoseconds in 64 bits, and Windows
        // milliseconds in 32.
        const MAX_SECONDS: f64 = if cfg!(windows) {
            4_294_967.0
        } else {
            9_223_372_036.0
        };
        if seconds > MAX_SECONDS {
            return Err(PyOverflowError::new_err("timeout value is too large"));
        }
        Ok(match (seconds * 1e6).ceil() as c_longlong {
            0 => Self::No,
            micros => Self::Micros(micros),
        })
    }
}

/// A lock of the interpreter. The pointer changes only in the child of a fork, where it has one
/// thread.
pub(crate) struct RawLock(AtomicPtr<c_void>);

impl RawLock {
    /// Makes an unlocked lock.
    pub(crate) fn new() -> PyResult<Self> {
        // SAFETY: the function needs nothing.
        let made = unsafe { PyThread_allocate_lock() };
        match made.is_null() {
            true => Err(PyMemoryError::new_err("cannot allocate a lock")),
            false => Ok(Self(AtomicPtr::new(made))),
        }
    }

    #[inline(always)]
    fn pointer(&self) -> *mut c_void {
        self.0.load(Ordering::Relaxed)
    }

    /// Locks if the lock is free.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> bool {
        // SAFETY: the pointer is a lock's as long as this value lives.
        unsafe { PyThread_acquire_lock_timed(self.pointer(), 0, 0) != FAILURE }
    }

    /// Blocks until the lock is free, and locks. Returns whether the thread has the lock, or `None`
    /// with the error set if a signal handler raised one. Handlers run only if the wait is
    /// interruptible.
    ///
    /// # Safety
    ///
    /// The thread is attached to the interpreter, and nothing on its stack up to the interpreter
    /// has a destructor.
    pub(crate) unsafe fn lock(&self, blocking: Blocking, is_interruptible: bool) -> Option<bool> {
        let mut micros = match blocking {
            Blocking::No => return Some(self.try_lock()),
            Blocking::Micros(micros) => micros,
            Blocking::Forever => -1,
        };
        let deadline = match blocking {
            Blocking::Micros(micros) => {
                Instant::now().checked_add(Duration::from_micros(micros.unsigned_abs()))
            }
            _ => None,
        };
        loop {
            // SAFETY: as the caller says; the pointer is a lock's as long as this value lives.
            let result = unsafe {
                let state = PyEval_SaveThread();
                let result =
                    PyThread_acquire_lock_timed(self.pointer(), micros, is_interruptible.into());
                PyEval_RestoreThread(state);
                result
            };
            if result != INTERRUPTED {
                return Some(result != FAILURE);
            }
            // SAFETY: as the caller says.
            if unsafe { Py_MakePendingCalls() } < 0 {
                return None;
            }
            if self.try_lock() {
                return Some(true);
            }
            if let Some(deadline) = deadline {
                let rest = deadline.saturating_duration_since(Instant::now());
                if rest.is_zero() {
                    return Some(false);
                }
                micros = rest.as_micros().max(1) as c_longlong;
            }
        }
    }

    /// Unlocks.
    ///
    /// # Safety
    ///
    /// The lock is locked, and no other thread unlocks it.
    #[inline(always)]
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: as the caller says.
        unsafe { PyThread_release_lock(self.pointer()) };
    }

    /// Replaces the lock by an unlocked one. The memory of the old one stays, as the interpreter
    /// leaves its own, because freeing a lock that a lost thread holds is undefined.
    pub(crate) fn replace(&self) -> PyResult<()> {
        let new = Self::new()?;
        self.0.store(new.pointer(), Ordering::Relaxed);
        Ok(())
    }

    /// Frees the lock, which is unlocked first if `is_locked`.
    ///
    /// # Safety
    ///
    /// No other thread uses it any more.
    pub(crate) unsafe fn free(&self, is_locked: bool) {
        // SAFETY: as the caller says.
        unsafe {
            if is_locked {
                self.unlock();
            }
            PyThread_free_lock(self.pointer());
        }
    }
}
