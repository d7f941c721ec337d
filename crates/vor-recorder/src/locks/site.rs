//! The site of the waits for one lock, condition or channel: its name, and its id when it has one.

use std::fmt;
use std::panic::Location;

use vor_capture::filled;
use vor_capture::model::catalog::{SiteId, SiteInfo};
use vor_capture::model::measures::Measures;

use crate::hot::callsite::Kinds;
use crate::hot::ring::{MAX_SITE, SITE_BITS};
use crate::hot::scope::{Scope, open_registered};
use crate::hot::{callsite, record_state, thread};
use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

/// The text before the name of a lock in the name of its waits.
pub(super) const PREFIX: &str = "wait: ";

/// The name of a lock, a condition or a channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitName {
    /// A name that the program chose.
    Named(&'static str),
    /// The place at which the lock was made.
    Place(&'static Location<'static>),
}

impl fmt::Display for WaitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Place(place) => write!(f, "{}:{}", place.file(), place.line()),
        }
    }
}

/// The parts of a site's description that all waits of a kind have in common.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) category: &'static str,
    pub(super) arg_names: &'static [&'static str],
    pub(super) kinds: Kinds,
}

/// Waits for something without a holder have no arguments.
const NO_HOLDER: Shape = Shape {
    category: "wait",
    arg_names: &[],
    kinds: 0,
};

/// The site of the waits for one thing.
#[derive(Debug)]
pub(super) struct WaitSite {
    name: WaitName,
    /// The text after the name.
    suffix: &'static str,
    /// The site in the low [`SITE_BITS`], and the measures that it is registered for above them; 0
    /// before the first wait. Relaxed: the name behind an id is read under the registry's lock.
    word: AtomicU32,
}

impl WaitSite {
    pub(super) const fn new(name: WaitName) -> Self {
        Self::with_suffix(name, "")
    }

    pub(super) const fn with_suffix(name: WaitName, suffix: &'static str) -> Self {
        Self {
            name,
            suffix,
            word: AtomicU32::new(0),
        }
    }

    pub(super) fn name(&self) -> WaitName {
        self.name
    }

    /// Opens the scope of a wait for something without a holder.
    pub(super) fn begin_wait(&self) -> Scope {
        if cfg!(feature = "off") || !record_state::is_on() || thread::drop_if_busy() {
            return Scope::off();
        }
        open_registered(self.id(&NO_HOLDER).0, [])
    }

    /// Returns the id of the site. Sites of one name share it.
    pub(super) fn id(&self, shape: &Shape) -> SiteId {
        let measures = record_state::measures();
        let word = self.word.load(Ordering::Relaxed);
        let id = word & MAX_SITE;
        if id != 0 && word >> SITE_BITS == u32::from(measures.bits()) {
            return SiteId(id);
        }
        thread::while_busy(|| self.register(shape, measures))
    }

    #[cold]
    fn register(&self, shape: &Shape, measures: Measures) -> SiteId {
        let name = format!("{PREFIX}{}{}", self.name, self.suffix);
        let (file, line) = match self.name {
            WaitName::Named(_) => ("", 0),
            WaitName::Place(place) => (place.file(), place.line()),
        };
        let info = || {
            filled!(SiteInfo {
                file: file.into(),
                line,
                category: shape.category.into(),
                arg_names: shape.arg_names.iter().map(|name| (*name).into()).collect(),
            })
        };
        let id = callsite::lock().name_id_with(&name, shape.kinds, measures, info);
        let word = id | u32::from(measures.bits()) << SITE_BITS;
        self.word.store(word, Ordering::Relaxed);
        SiteId(id)
    }
}
