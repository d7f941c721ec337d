//! The code objects that are recorded, and those that are not: a table from their addresses to
//! their call sites.
//!
//! It is looked into at every event, so it is open addressing over two words, the address and what
//! is known, which are read without a lock; an interpreter without one has many threads here at
//! once. Who changes it takes turns. A code object that goes takes its entry along, by a weak
//! reference, since its address may be another's next. Until then whatever was known of it stays in
//! memory: a thread may be about to use it.

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

use crate::filter;
use crate::sites::{self, Place};

/// What is known of a code object.
#[derive(Debug)]
pub(crate) struct Code {
    /// `None` where its calls are not recorded.
    pub(crate) site: Option<&'static CallSite>,
    /// The names of its arguments that are recorded, as the call site has them.
    pub(crate) args: Box<[String]>,
    /// Set where it is an `async def`, whose activations are one task.
    pub(crate) coroutine: Option<Coroutine>,
}

/// What is known of an `async def` beside its call site.
#[derive(Debug)]
pub(crate) struct Coroutine {
    /// Its instructions: the C profile callback does not say whether a coroutine begins or goes on,
    /// is suspended or ends.
    #[cfg(not(Py_3_12))]
    pub(crate) instructions: Box<[u8]>,
}

impl Coroutine {
    /// Returns what is known of an `async def`; `None` of any other code.
    pub(crate) fn of(code: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        const CO_COROUTINE: u32 = 0x80;
        if code.getattr("co_flags")?.extract::<u32>()? & CO_COROUTINE == 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            #[cfg(not(Py_3_12))]
            instructions: code.getattr("co_code")?.extract::<Vec<u8>>()?.into(),
        }))
    }
}

/// Written by who has [`CHANGES`]; read by every event (acquire), the address first, which is
/// stored last (release).
struct Entry {
    /// The code object's address; 0 where there is none, [`GONE`] where there is none and the
    /// search goes on.
    key: AtomicUsize,
    known: AtomicPtr<Known>,
}

struct Known {
    code: Code,
    /// Takes the entry away with the code object.
    _weak: Py<PyAny>,
    /// What was known before, which other threads may be using.
    _before: Option<Box<Known>>,
}

const GONE: usize = 1;

struct Table {
    /// A power of two of entries. At most half are in use.
    entries: Box<[Entry]>,
}

/// The table; null before the first entry. Written by who has [`CHANGES`] (release), read by every
/// event (acquire). A table that became too small stays in memory, since a thread may be reading
/// it; all of them together are smaller than the last one.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// Whose turn it is to change the table, and how many of its entries are not empty. Nothing of
/// Python runs in such a turn.
static CHANGES: Mutex<usize> = Mutex::new(0);

/// Whether code that is not in the table is recorded as well. Written by [`trace_all`] and read by
/// every event, relaxed.
static ALL: AtomicBool = AtomicBool::new(false);

/// Has all code recorded that the filter lets pass, or only what was [`put`] in.
pub(crate) fn trace_all(all: bool) {
    ALL.store(all, Ordering::Relaxed);
}

/// Returns whether all code is recorded that the filter lets pass.
pub(crate) fn traces_all() -> bool {
    ALL.load(Ordering::Relaxed)
}

/// Returns what is known of the code object at this address.
///
/// # Safety
///
/// The code object is alive for as long as what is returned is used.
#[inline(always)]
pub(crate) unsafe fn find<'a>(key: usize) -> Option<&'a Code> {
    // SAFETY: a table is never freed.
    let table = unsafe { TABLE.load(Ordering::Acquire).as_ref() }?;
    let known = table.at(key)?.known.load(Ordering::Acquire);
    // SAFETY: what an entry with an address has is freed only with the code object.
    unsafe { known.as_ref() }.map(|known| &known.code)
}

#[inline(always)]
fn hash(key: usize) -> usize {
    // The upper half of a product with a large odd number depends on every bit; objects lie at
    // multiples of 16.
    ((key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Returns what is known of a code object, after finding out where that is nothing and all code is
/// recorded.
pub(crate) fn find_or_trace<'py>(code: &Bound<'py, PyAny>) -> PyResult<Option<&'py Code>> {
    // SAFETY: what is bound is alive, as long as what is returned.
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
    let found = Code {
        site,
        args: Box::default(),
        coroutine: Coroutine::of(code)?,
    };
    // Another thread may have come first, with a name that the program gave.
    enter(code, found, false)?;
    // SAFETY: as above.
    Ok(unsafe { find(code.as_ptr().addr()) })
}

/// Enters a code object, or changes what is known of it.
pub(crate) fn put(code: &Bound<'_, PyAny>, known: Code) -> PyResult<()> {
    enter(code, known, true)
}

fn enter(code: &Bound<'_, PyAny>, known: Code, replaces: bool) -> PyResult<()> {
    let py = code.py();
    let key = code.as_ptr().addr();
    let gone = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| remove(key);
    let gone = PyCFunction::new_closure(py, None, None, gone)?;
    // Whatever runs code of Python stands before the turn.
    let weak = PyWeakrefReference::new_with(code, gone)?
        .into_any()
        .unbind();
    let known = Box::new(Known {
        code: known,
        _weak: weak,
        _before: None,
    });
    let unused = {
        let mut used = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        Table::with_room(&mut used).put(key, known, replaces, &mut used)
    };
    // This lets a weak reference go, which is nothing to do in a turn.
    drop(unused);
    Ok(())
}

fn remove(key: usize) {
    let known = {
        let mut used = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a table is never freed.
        let table = unsafe { TABLE.load(Ordering::Relaxed).as_ref() };
        table.and_then(|table| table.take(key, &mut used))
    };
    drop(known);
}

impl Table {
    /// Returns the entry with an address.
    #[inline(always)]
    fn at(&self, key: usize) -> Option<&Entry> {
        let mask = self.entries.len().wrapping_sub(1);
        let mut at = hash(key);
        loop {
            // The search ends, since half of them are empty.
            let entry = self.entries.get(at & mask)?;
            match entry.key.load(Ordering::Acquire) {
                found if found == key => return Some(entry),
                0 => return None,
                _ => at += 1,
            }
        }
    }

    /// Returns the table, which has room for one more entry; in the caller's turn.
    fn with_room(used: &mut usize) -> &'static Self {
        // SAFETY: a table is never freed.
        let table = unsafe { TABLE.load(Ordering::Relaxed).as_ref() };
        let entries = table.map_or(&[][..], |table| &table.entries);
        if let Some(table) = table
            && 2 * (*used + 1) <= entries.len()
        {
            return table;
        }
        let alive = |entry: &&Entry| entry.key.load(Ordering::Relaxed) > GONE;
        *used = 0;
        // Twice as large each time, so that all tables before it are together smaller.
        let capacity = (2 * entries.len()).max(1024);
        let empty = || Entry {
            key: AtomicUsize::new(0),
            known: AtomicPtr::new(ptr::null_mut()),
        };
        let larger = Self {
            entries: std::iter::repeat_with(empty).take(capacity).collect(),
        };
        for entry in entries.iter().filter(alive) {
            let key = entry.key.load(Ordering::Relaxed);
            larger.insert(key, entry.known.load(Ordering::Relaxed), used);
        }
        let larger = Box::into_raw(Box::new(larger));
        TABLE.store(larger, Ordering::Release);
        // SAFETY: as above.
        unsafe { &*larger }
    }

    /// Enters what is known, in the caller's turn; there is room. Returns what nobody needs.
    fn put(
        &self,
        key: usize,
        mut known: Box<Known>,
        replaces: bool,
        used: &mut usize,
    ) -> Option<Box<Known>> {
        let Some(entry) = self.at(key) else {
            self.insert(key, Box::into_raw(known), used);
            return None;
        };
        let before = entry.known.load(Ordering::Relaxed);
        // SAFETY: what is known of an address is freed in a turn at the earliest.
        let same = unsafe { (*before).code == known.code };
        if same || !replaces {
            return Some(known);
        }
        // SAFETY: the entry's own; nobody frees it but with what is known from now on.
        known._before = Some(unsafe { Box::from_raw(before) });
        entry.known.store(Box::into_raw(known), Ordering::Release);
        None
    }

    /// Fills the first entry that has no address, in the caller's turn; there is one.
    fn insert(&self, key: usize, known: *mut Known, used: &mut usize) {
        let mask = self.entries.len() - 1;
        let mut at = hash(key);
        while self.entries[at & mask].key.load(Ordering::Relaxed) > GONE {
            at += 1;
        }
        let entry = &self.entries[at & mask];
        *used += usize::from(entry.key.load(Ordering::Relaxed) == 0);
        entry.known.store(known, Ordering::Relaxed);
        entry.key.store(key, Ordering::Release);
    }

    /// Takes what is known away, in the caller's turn.
    fn take(&self, key: usize, used: &mut usize) -> Option<Box<Known>> {
        let entry = self.at(key)?;
        let known = entry.known.swap(ptr::null_mut(), Ordering::Relaxed);
        entry.key.store(GONE, Ordering::Relaxed);
        let mask = self.entries.len() - 1;
        let key_at = |at: usize| &self.entries[at & mask].key;
        // No search goes on over what stands before an empty entry, so it is empty itself.
        let mut at = hash(key);
        while key_at(at).load(Ordering::Relaxed) != 0 {
            at += 1;
        }
        while key_at(at.wrapping_sub(1)).load(Ordering::Relaxed) == GONE {
            at = at.wrapping_sub(1);
            key_at(at).store(0, Ordering::Relaxed);
            *used -= 1;
        }
        // SAFETY: it was made in `put`; its code object is gone, so no thread asks for it.
        (!known.is_null()).then(|| unsafe { Box::from_raw(known) })
    }
}

impl PartialEq for Code {
    /// The same site is that of one name and place.
    fn eq(&self, other: &Self) -> bool {
        let site = |code: &Self| code.site.map_or(ptr::null(), ptr::from_ref);
        site(self) == site(other) && self.args == other.args
    }
}
