//! The code objects that are recorded, and those that are not: a table from their addresses to their call sites.
//!
//! It is looked into at every event, so it is open addressing over two words: the address and what is known. The interpreter's lock guards it. A code object that goes takes its entry along,
//! by a weak reference, since its address may be another's next.

#![expect(
    unsafe_code,
    reason = "a lock at every event would cost more than the rest; the interpreter has one"
)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyWeakrefReference};
use vor_core::callsite::CallSite;

use crate::filter;
use crate::sites::{self, Place};

/// What is known of a code object.
#[derive(Debug)]
pub(crate) struct Code {
    /// `None` where its calls are not recorded.
    pub(crate) site: Option<&'static CallSite>,
    /// The names of its arguments that are recorded, as the call site has them.
    pub(crate) args: Box<[String]>,
}

struct Entry {
    /// The code object's address; 0 where there never was one, [`GONE`] where there was one.
    key: usize,
    code: *mut Known,
}

struct Known {
    code: Code,
    /// Takes the entry away with the code object.
    _weak: Py<PyAny>,
}

const GONE: usize = 1;

struct Table {
    /// A power of two of entries, or none. At most half are in use.
    entries: Vec<Entry>,
    used: usize,
}

/// What the interpreter's lock guards.
struct UnderTheLock(UnsafeCell<Table>);

// SAFETY: the functions of this module are called with the interpreter's lock held, and let go of no reference into the table's memory while they give it up.
unsafe impl Sync for UnderTheLock {}

static TABLE: UnderTheLock = UnderTheLock(UnsafeCell::new(Table {
    entries: Vec::new(),
    used: 0,
}));

/// Whether code that is not in the table is recorded as well. Written by [`trace_all`] and read by every event, relaxed, under the interpreter's lock.
static ALL: AtomicBool = AtomicBool::new(false);

/// Has all code recorded that the filter lets pass, or only what was [`put`] in.
pub(crate) fn trace_all(all: bool) {
    ALL.store(all, Ordering::Relaxed);
}

/// Returns what is known of the code object at this address.
///
/// # Safety
///
/// The thread holds the interpreter's lock, and does not give it up while it uses what is returned.
#[inline(always)]
pub(crate) unsafe fn find<'a>(key: usize) -> Option<&'a Code> {
    // SAFETY: as the caller says, so nobody changes the table meanwhile.
    let table = unsafe { &*TABLE.0.get() };
    let mask = table.entries.len().wrapping_sub(1);
    let mut at = hash(key);
    loop {
        // An empty table has no entry at any place.
        let entry = table.entries.get(at & mask)?;
        if entry.key == key {
            // SAFETY: an entry with an address has what is known, and frees it only when it loses the address.
            return Some(unsafe { &(*entry.code).code });
        }
        if entry.key == 0 {
            return None;
        }
        at += 1;
    }
}

#[inline(always)]
fn hash(key: usize) -> usize {
    // The upper half of a product with a large odd number depends on every bit; objects lie at multiples of 16.
    ((key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Returns what is known of a code object, after finding out where that is nothing and all code is recorded.
pub(crate) fn find_or_trace<'py>(code: &Bound<'py, PyAny>) -> PyResult<Option<&'py Code>> {
    // SAFETY: whoever has a `Bound` holds the lock, and the callers give it up only when they are done.
    if let Some(known) = unsafe { find(code.as_ptr().addr()) } {
        return Ok(Some(known));
    }
    if !ALL.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let name: String = code.getattr("co_qualname")?.extract()?;
    let file: String = code.getattr("co_filename")?.extract()?;
    let site = filter::wants(&file, &name).then(|| {
        sites::intern(Place {
            name,
            line: code
                .getattr("co_firstlineno")
                .and_then(|line| line.extract())
                .unwrap_or(0),
            file,
            ..Place::default()
        })
    });
    put(
        code,
        Code {
            site,
            args: Box::default(),
        },
    )?;
    // SAFETY: as above.
    Ok(unsafe { find(code.as_ptr().addr()) })
}

/// Enters a code object, or changes what is known of it.
pub(crate) fn put(code: &Bound<'_, PyAny>, known: Code) -> PyResult<()> {
    let py = code.py();
    let key = code.as_ptr().addr();
    let gone = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| remove(key);
    let gone = PyCFunction::new_closure(py, None, None, gone)?;
    // Whatever runs code of Python stands before the table is touched.
    let weak = PyWeakrefReference::new_with(code, gone)?.into_any().unbind();
    let known = Box::into_raw(Box::new(Known {
        code: known,
        _weak: weak,
    }));
    let before = {
        // SAFETY: the lock is held, and nothing here gives it up.
        let table = unsafe { &mut *TABLE.0.get() };
        table.make_room();
        table.put(key, known)
    };
    // SAFETY: what the entry had is this function's now; it was made above, by an earlier call.
    drop(before.map(|before| unsafe { Box::from_raw(before) }));
    Ok(())
}

fn remove(key: usize) {
    let known = {
        // SAFETY: the interpreter calls with its lock held, and nothing here gives it up.
        let table = unsafe { &mut *TABLE.0.get() };
        table.take(key)
    };
    // SAFETY: as in `put`.
    drop(known.map(|known| unsafe { Box::from_raw(known) }));
}

impl Table {
    /// Makes room for one more entry.
    fn make_room(&mut self) {
        if 2 * (self.used + 1) <= self.entries.len() {
            return;
        }
        let live = self.entries.iter().filter(|entry| entry.key > GONE).count();
        let capacity = (4 * (live + 1)).next_power_of_two().max(1024);
        let empty = || Entry {
            key: 0,
            code: std::ptr::null_mut(),
        };
        let before = std::mem::replace(
            &mut self.entries,
            std::iter::repeat_with(empty).take(capacity).collect(),
        );
        self.used = 0;
        for entry in before.iter().filter(|entry| entry.key > GONE) {
            self.put(entry.key, entry.code);
        }
    }

    /// Enters what is known; returns what was known before. There is room.
    fn put(&mut self, key: usize, code: *mut Known) -> Option<*mut Known> {
        let mask = self.entries.len() - 1;
        let mut at = hash(key);
        loop {
            let entry = &mut self.entries[at & mask];
            if entry.key == key {
                return Some(std::mem::replace(&mut entry.code, code));
            }
            if entry.key == 0 {
                *entry = Entry { key, code };
                self.used += 1;
                return None;
            }
            at += 1;
        }
    }

    fn take(&mut self, key: usize) -> Option<*mut Known> {
        let mask = self.entries.len().checked_sub(1)?;
        let mut at = hash(key);
        loop {
            let entry = &mut self.entries[at & mask];
            if entry.key == key {
                entry.key = GONE;
                return Some(std::mem::replace(&mut entry.code, std::ptr::null_mut()));
            }
            if entry.key == 0 {
                return None;
            }
            at += 1;
        }
    }
}
