//! The call site of scopes that are named after a value of the program, such as a lock or a file.
//!
//! The value holds the site, and the site is registered when its first scope opens. Values of one
//! name share the id.

use std::fmt;
use std::panic::Location;

use vor_capture::filled;
use vor_capture::model::catalog::{SiteId, SiteInfo};
use vor_capture::model::measures::Measures;

use super::callsite::Kinds;
use super::ring::{MAX_SITE, SITE_BITS};
use super::{callsite, record_state, thread};
use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

/// The name of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueName {
    /// A name that the program chose.
    Named(&'static str),
    /// The place at which the value was made.
    Place(&'static Location<'static>),
    /// A file and a line of another language.
    #[cfg_attr(
        any(loom, not(feature = "locks")),
        allow(dead_code, reason = "only a lock of another language has one")
    )]
    Line(&'static str, u32),
}

impl fmt::Display for ValueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Place(place) => write!(f, "{}:{}", place.file(), place.line()),
            Self::Line(file, line) => write!(f, "{file}:{line}"),
        }
    }
}

/// The parts of a site's description that all scopes of a kind have in common.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The text before the name of the value.
    pub(crate) prefix: &'static str,
    /// The text after it.
    pub(crate) suffix: &'static str,
    pub(crate) category: &'static str,
    pub(crate) arg_names: &'static [&'static str],
    pub(crate) kinds: Kinds,
}

impl Shape {
    /// Returns the id of the scopes of this kind with a whole name, for these measures. `place` is
    /// a file and a line.
    pub(crate) fn register(
        &self,
        name: &str,
        (file, line): (&'static str, u32),
        measures: Measures,
    ) -> u32 {
        let info = || {
            filled!(SiteInfo {
                file: file.into(),
                line,
                category: self.category.into(),
                arg_names: self.arg_names.iter().map(|name| (*name).into()).collect(),
            })
        };
        callsite::lock().name_id_with(name, self.kinds, measures, info)
    }
}

/// The site of the scopes of a kind that are named after one value.
#[derive(Debug)]
pub(crate) struct NamedSite {
    shape: &'static Shape,
    /// The id in the low [`SITE_BITS`], and the measures that it is registered for above them; 0
    /// before the first scope. Relaxed: the name behind an id is read under the registry's lock.
    word: AtomicU32,
}

impl NamedSite {
    pub(crate) const fn new(shape: &'static Shape) -> Self {
        Self {
            shape,
            word: AtomicU32::new(0),
        }
    }

    /// Returns the id of the site of the value with this name, which is always the same.
    pub(crate) fn id(&self, name: ValueName) -> SiteId {
        let measures = record_state::measures();
        let word = self.word.load(Ordering::Relaxed);
        let id = word & MAX_SITE;
        if id != 0 && word >> SITE_BITS == u32::from(measures.bits()) {
            return SiteId(id);
        }
        thread::while_busy(|| self.register(name, measures))
    }

    #[cold]
    fn register(&self, name: ValueName, measures: Measures) -> SiteId {
        let shape = self.shape;
        let place = match name {
            ValueName::Named(_) => ("", 0),
            ValueName::Place(place) => (place.file(), place.line()),
            ValueName::Line(file, line) => (file, line),
        };
        let name = format!("{}{name}{}", shape.prefix, shape.suffix);
        let id = shape.register(&name, place, measures);
        let word = id | u32::from(measures.bits()) << SITE_BITS;
        self.word.store(word, Ordering::Relaxed);
        SiteId(id)
    }
}
