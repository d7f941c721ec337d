//! A table that maps the addresses of code objects to their call sites, or to none if their calls
//! are not recorded.
//!
//! Every event looks up an address. So the table is a hash table with open addressing over two
//! words: the address, and a pointer to the value. Both are read without a lock, and in a
//! free-threaded interpreter by many threads at the same time. Changes take a lock. A weak
//! reference removes the entry together with the code object, because another object may get the
//! same address. Until then, replaced values stay in memory: a thread may be about to use them.

#![expect(
    unsafe_code,
    reason = "a lock at every event would cost more than the rest"
)]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyWeakrefReference};
use vor_recorder::hot::callsite::CallSite;

use crate::recording::filter;
use crate::recording::sites::{self, Place};

/// The way to record the calls of a code object.
#[derive(Debug)]
pub(crate) struct Code {
    /// `None` if its calls are not recorded.
    pub(crate) site: Option<&'static CallSite>,
    /// The names of the arguments that are recorded, as in the call site.
    pub(crate) args: Box<[String]>,
    /// Set for an `async def`, with or without `yield`, whose activations are one task.
    pub(crate) coroutine: Option<Coroutine>,
}

/// The properties of an `async def`.
#[derive(Debug)]
pub(crate) struct Coroutine {
    /// Its instructions. The C profile callback cannot distinguish a start from a resumption, or a
    /// suspension from an end.
    #[cfg(not(Py_3_12))]
    pub(crate) instructions: Box<[u8]>,
}

impl Coroutine {
    /// Returns the properties of an `async def`; `None` for other code.
    pub(crate) fn of(code: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        const CO_COROUTINE_OR_ASYNC_GENERATOR: u32 = 0x80 | 0x200;
        let flags = code.getattr("co_flags")?.extract::<u32>()?;
        if flags & CO_COROUTINE_OR_ASYNC_GENERATOR == 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            #[cfg(not(Py_3_12))]
            instructions: code.getattr("co_code")?.extract::<Vec<u8>>()?.into(),
        }))
    }
}

/// Written under the lock [`USED`]; read by every event (acquire). The key is read first and
/// written last (release).
struct Entry {
    /// The code object's address, 0 for an empty entry, or [`REMOVED`].
    key: AtomicUsize,
    value: AtomicPtr<Value>,
}

struct Value {
    code: Code,
    /// Removes the entry together with the code object.
    _weak: Py<PyAny>,
    /// The replaced value, which other threads may be using.
    _replaced: Option<Box<Value>>,
}

/// The key of a removed entry. A search continues after it.
const REMOVED: usize = 1;

struct Table {
    /// The number of entries is a power of two. At most half of them are not empty.
    entries: Box<[Entry]>,
}

/// The table; null before the first entry. Written under the lock [`USED`] (release), read by every
/// event (acquire). A table that became too small stays in memory, because a thread may be reading
/// it. All old tables together are smaller than the current one.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// The lock for changes of the table, with the number of its entries that are not empty. No Python
/// code runs under it.
static USED: Mutex<usize> = Mutex::new(0);

/// Whether code that is not in the table is recorded too. Written by [`trace_all`] and read by
/// every event, relaxed.
static ALL: AtomicBool = AtomicBool::new(false);

/// Records all code that passes the filter, or only the code objects that [`put`] entered.
pub(crate) fn trace_all(all: bool) {
    ALL.store(all, Ordering::Relaxed);
}

/// Returns whether all code that passes the filter is recorded.
pub(crate) fn traces_all() -> bool {
    ALL.load(Ordering::Relaxed)
}

/// Returns the way to record the calls of the code object at this address.
///
/// # Safety
///
/// The code object is alive for as long as the returned value is used.
#[inline(always)]
pub(crate) unsafe fn find<'a>(key: usize) -> Option<&'a Code> {
    // SAFETY: a table is never freed.
    let table = unsafe { TABLE.load(Ordering::Acquire).as_ref() }?;
    let value = table.at(key)?.value.load(Ordering::Acquire);
    // SAFETY: the value of an entry with an address is freed only with the code object.
    unsafe { value.as_ref() }.map(|value| &value.code)
}

#[inline(always)]
fn hash(key: usize) -> usize {
    // The upper half of a product with a large odd number depends on every bit. Objects are at
    // multiples of 16.
    ((key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Does the same as [`find`]. If all code is recorded, also enters a code object that is not in the
/// table.
pub(crate) fn find_or_trace<'py>(code: &Bound<'py, PyAny>) -> PyResult<Option<&'py Code>> {
    // SAFETY: a bound object is alive, for as long as the returned value.
    if let Some(found) = unsafe { find(code.as_ptr().addr()) } {
        return Ok(Some(found));
    }
    if !ALL.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let name: String = code.getattr("co_qualname")?.extract()?;
    let file: String = code.getattr("co_filename")?.extract()?;
    let site = filter::passes(&file, &name).then(|| {
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
    let found = Code {
        site,
        args: Box::default(),
        coroutine: Coroutine::of(code)?,
    };
    // Another thread may have entered it already, with a name that the program chose.
    enter(code, found, false)?;
    // SAFETY: as above.
    Ok(unsafe { find(code.as_ptr().addr()) })
}

/// Enters a code object, or changes its entry.
pub(crate) fn put(code: &Bound<'_, PyAny>, value: Code) -> PyResult<()> {
    enter(code, value, true)
}

fn enter(code: &Bound<'_, PyAny>, value: Code, replaces: bool) -> PyResult<()> {
    let py = code.py();
    let key = code.as_ptr().addr();
    let on_end = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| remove(key);
    let on_end = PyCFunction::new_closure(py, None, None, on_end)?;
    // This may run Python code, so it comes before the lock.
    let weak = PyWeakrefReference::new_with(code, on_end)?
        .into_any()
        .unbind();
    let value = Box::new(Value {
        code: value,
        _weak: weak,
        _replaced: None,
    });
    let unused = {
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        Table::with_room(&mut used).put(key, value, replaces, &mut used)
    };
    // This releases a weak reference, which may run Python code, so it comes after the lock.
    drop(unused);
    Ok(())
}

fn remove(key: usize) {
    let removed = {
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a table is never freed.
        let table = unsafe { TABLE.load(Ordering::Relaxed).as_ref() };
        table.and_then(|table| table.take(key, &mut used))
    };
    drop(removed);
}

impl Table {
    /// Returns the entry with an address.
    #[inline(always)]
    fn at(&self, key: usize) -> Option<&Entry> {
        let mask = self.entries.len().wrapping_sub(1);
        let mut at = hash(key);
        loop {
            // The search terminates, because at least half of the entries are empty.
            let entry = self.entries.get(at & mask)?;
            match entry.key.load(Ordering::Acquire) {
                found if found == key => return Some(entry),
                0 => return None,
                _ => at += 1,
            }
        }
    }

    /// Returns the table, with room for one more entry. The caller holds the lock.
    fn with_room(used: &mut usize) -> &'static Self {
        // SAFETY: a table is never freed.
        let table = unsafe { TABLE.load(Ordering::Relaxed).as_ref() };
        let entries = table.map_or(&[][..], |table| &table.entries);
        if let Some(table) = table
            && 2 * (*used + 1) <= entries.len()
        {
            return table;
        }
        let has_key = |entry: &&Entry| entry.key.load(Ordering::Relaxed) > REMOVED;
        *used = 0;
        // The size doubles each time, so all previous tables together are smaller.
        let capacity = (2 * entries.len()).max(1024);
        let empty = || Entry {
            key: AtomicUsize::new(0),
            value: AtomicPtr::new(ptr::null_mut()),
        };
        let larger = Self {
            entries: std::iter::repeat_with(empty).take(capacity).collect(),
        };
        for entry in entries.iter().filter(has_key) {
            let key = entry.key.load(Ordering::Relaxed);
            larger.insert(key, entry.value.load(Ordering::Relaxed), used);
        }
        let larger = Box::into_raw(Box::new(larger));
        TABLE.store(larger, Ordering::Release);
        // SAFETY: as above.
        unsafe { &*larger }
    }

    /// Enters a value. There is room, and the caller holds the lock. Returns the value if it is not
    /// needed.
    fn put(
        &self,
        key: usize,
        mut value: Box<Value>,
        replaces: bool,
        used: &mut usize,
    ) -> Option<Box<Value>> {
        let Some(entry) = self.at(key) else {
            self.insert(key, Box::into_raw(value), used);
            return None;
        };
        let old = entry.value.load(Ordering::Relaxed);
        // SAFETY: a value is freed only under the lock.
        let same = unsafe { (*old).code == value.code };
        if same || !replaces {
            return Some(value);
        }
        // SAFETY: the entry owns it; from now on it is freed together with its replacement.
        value._replaced = Some(unsafe { Box::from_raw(old) });
        entry.value.store(Box::into_raw(value), Ordering::Release);
        None
    }

    /// Fills the first entry without an address. There is one, and the caller holds the lock.
    fn insert(&self, key: usize, value: *mut Value, used: &mut usize) {
        let mask = self.entries.len() - 1;
        let mut at = hash(key);
        while self.entries[at & mask].key.load(Ordering::Relaxed) > REMOVED {
            at += 1;
        }
        let entry = &self.entries[at & mask];
        *used += usize::from(entry.key.load(Ordering::Relaxed) == 0);
        entry.value.store(value, Ordering::Relaxed);
        entry.key.store(key, Ordering::Release);
    }

    /// Removes the value of an address. The caller holds the lock.
    fn take(&self, key: usize, used: &mut usize) -> Option<Box<Value>> {
        let entry = self.at(key)?;
        let value = entry.value.swap(ptr::null_mut(), Ordering::Relaxed);
        entry.key.store(REMOVED, Ordering::Relaxed);
        let mask = self.entries.len() - 1;
        let key_at = |at: usize| &self.entries[at & mask].key;
        // No search needs a removed entry before an empty one, so it becomes empty.
        let mut at = hash(key);
        while key_at(at).load(Ordering::Relaxed) != 0 {
            at += 1;
        }
        while key_at(at.wrapping_sub(1)).load(Ordering::Relaxed) == REMOVED {
            at = at.wrapping_sub(1);
            key_at(at).store(0, Ordering::Relaxed);
            *used -= 1;
        }
        // SAFETY: it was made in `enter`; its code object is dropped, so no thread looks it up.
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }
}

impl PartialEq for Code {
    /// Sites are equal if they are the same object: there is one per name and place.
    fn eq(&self, other: &Self) -> bool {
        let site = |code: &Self| code.site.map_or(ptr::null(), ptr::from_ref);
        site(self) == site(other) && self.args == other.args
    }
}
