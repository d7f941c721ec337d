//! Holders of locks: the thread and its scope that a wait for a lock names. The wait of a task has
//! a step that names the scope in which the holder took the lock, or what is known instead.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};
use vor_capture::model::waits::{HOLDER_SCOPE_STEP, HOLDER_STEP, Wait};

use crate::store::SiteSet;

/// Most holders of the waits of a call site that are counted.
const MAX_HOLDERS: usize = 1 << 12;

/// The holder of a lock when a wait for it began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// The innermost scope of the thread; empty if none was open. For a task that waits, the scope
    /// in which the lock was taken.
    pub scope: Arc<str>,
    /// The name of the thread, or what is known instead; empty for a task that waits if the scope
    /// is known.
    pub thread: Arc<str>,
}

impl Holder {
    /// Reads the holder from the arguments of a wait for a lock.
    #[must_use]
    pub fn of(args: &[ArgValue]) -> Option<Self> {
        let [_, ArgValue::Str(thread), ArgValue::Str(scope), ..] = args else {
            return None;
        };
        Some(Self {
            scope: Arc::clone(scope),
            thread: Arc::clone(thread),
        })
    }

    /// Reads the holder from the name of a step of a task that waits for a lock.
    #[must_use]
    pub fn of_step(name: &str) -> Option<Self> {
        let thread = name.strip_prefix(HOLDER_STEP);
        let scope = name.strip_prefix(HOLDER_SCOPE_STEP);
        (thread.is_some() || scope.is_some()).then(|| Self {
            scope: scope.unwrap_or_default().into(),
            thread: thread.unwrap_or_default().into(),
        })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.scope, &*self.thread) {
            ("", one) | (one, "") => f.write_str(one),
            (scope, thread) => write!(f, "{scope} on {thread}"),
        }
    }
}

/// Returns whether the spans of a call site are waits with a holder.
pub(crate) fn has_holder(site: &SiteInfo) -> bool {
    Wait::of(site).is_some_and(|wait| wait.has_holder)
}

/// Returns the call sites whose spans are waits with a holder.
pub(crate) fn sites_with_holder(catalog: &Catalog) -> SiteSet {
    let sites = (1..).map(SiteId).zip(catalog.sites.iter());
    let waits = sites.filter(|(_, site)| site.as_deref().is_some_and(has_holder));
    SiteSet::new(waits.map(|(id, _)| id))
}

/// Counts the waits of a call site by their holders.
#[derive(Clone, Debug, Default)]
pub(crate) struct HolderCounts {
    counts: FxHashMap<Holder, u64>,
    /// Whether there were too many holders to count all.
    is_full: bool,
}

impl HolderCounts {
    /// Adds a wait.
    pub(crate) fn add(&mut self, holder: &Holder) {
        if let Some(count) = self.counts.get_mut(holder) {
            *count += 1;
        } else if self.counts.len() < MAX_HOLDERS {
            self.counts.insert(holder.clone(), 1);
        } else {
            self.is_full = true;
        }
    }

    /// Returns the most frequent holder and the number of its waits; `None` if that is not known.
    pub(crate) fn most_frequent(self) -> Option<(Holder, u64)> {
        if self.is_full {
            return None;
        }
        // The first name wins a tie.
        let order = |one: &(Holder, u64), other: &(Holder, u64)| {
            one.1.cmp(&other.1).then_with(|| other.0.cmp(&one.0))
        };
        self.counts.into_iter().max_by(order)
    }
}
