//! Scopes with a name made at run time. The registry gives each name an id, and each thread caches
//! the ids of the names that it has used.

use std::cell::RefCell;
use std::collections::HashMap;
use std::thread::LocalKey;

use rustc_hash::FxBuildHasher;
use vor_capture::model::measures::Measures;

use super::{Scope, ScopeGuard, begin_slow};
use crate::hot::{callsite, record_state, thread};

thread_local! {
    /// Ids of the names this thread has used.
    static NAMES: RefCell<NameIds> = const { RefCell::new(NameIds::new()) };
}

/// Ids of names, all for scopes with the same measures.
#[derive(Debug)]
pub(crate) struct NameIds {
    measures: Measures,
    ids: HashMap<Box<str>, u32, FxBuildHasher>,
}

impl NameIds {
    pub(crate) const fn new() -> Self {
        Self {
            measures: Measures::NONE,
            ids: HashMap::with_hasher(FxBuildHasher),
        }
    }
}

/// Most names in a thread's cache. A full cache is cleared.
const MAX_CACHED_NAMES: usize = 4096;

/// Opens a scope with a name made at run time. A name that this thread has used before costs one
/// look-up in the thread's cache, and neither a lock nor an allocation.
///
/// # Examples
///
/// ```
/// # use vor_recorder::hot::scope as vor;
/// # let step = 3;
/// let _scope = vor::scope(&format!("step {step}"));
/// ```
#[inline]
pub fn scope(name: &str) -> ScopeGuard {
    if cfg!(feature = "off") || !record_state::is_on() {
        return Scope::off();
    }
    open_named(name_id(name))
}

/// Opens a scope with a name made at run time, by the id that [`name_id`] returned.
#[inline]
pub(crate) fn open_named(id: u32) -> ScopeGuard {
    open_registered(id, [])
}

/// Opens a scope by an id of the registry, with arguments of the kinds of that id. It is never also
/// a `tracing` span.
#[inline(always)]
pub(crate) fn open_registered<const ARGS: usize>(id: u32, words: [u64; ARGS]) -> Scope<ARGS> {
    if record_state::are_names_fast() && callsite::is_fast(id) {
        return Scope::begin(id, words);
    }
    Scope::from_opened(begin_slow(id), words)
}

/// Returns the id of a name made at run time, or [`callsite::UNREGISTERED`] inside vor.
pub(crate) fn name_id(name: &str) -> u32 {
    cached_id(&NAMES, name, |measures| {
        callsite::lock().name_id(name, measures)
    })
}

/// Returns the id of a name from a thread's cache, or [`callsite::UNREGISTERED`] inside vor. A name
/// that the cache lacks is passed to `register`.
pub(crate) fn cached_id(
    cache: &'static LocalKey<RefCell<NameIds>>,
    name: &str,
    register: impl FnOnce(Measures) -> u32,
) -> u32 {
    if thread::is_busy() {
        return callsite::UNREGISTERED;
    }
    let measures = record_state::measures();
    // Busy, because a thread's first use of a thread-local allocates.
    let cached = thread::while_busy(|| {
        cache.try_with(|names| {
            let names = names.try_borrow().ok()?;
            names
                .ids
                .get(name)
                .copied()
                .filter(|_| names.measures == measures)
        })
    });
    if let Ok(Some(id)) = cached {
        return id;
    }
    thread::while_busy(|| {
        let id = register(measures);
        // If the cache is destroyed or borrowed, the next call registers the name again.
        let _ = cache.try_with(|names| {
            if let Ok(mut names) = names.try_borrow_mut() {
                if names.ids.len() >= MAX_CACHED_NAMES || names.measures != measures {
                    names.measures = measures;
                    names.ids.clear();
                }
                names.ids.insert(Box::from(name), id);
            }
        });
        id
    })
}
