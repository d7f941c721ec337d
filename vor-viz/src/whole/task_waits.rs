//! The waits of tasks for locks, with their holders.
//!
//! A step at the begin of a wait names the holder. In a walk from the end, the wait comes first, so
//! it is kept until its step comes. Only within a part may the step come first: the threads of a
//! part come one after the other.

use rustc_hash::FxHashMap;
use vor_capture::model::catalog::{Catalog, ThreadId};

use crate::holder::{Holder, sites_with_holder};
use crate::store::{SiteSet, Span, Step};

/// Most waits that are kept. Further ones have no holder.
const MAX_OPEN: usize = 1 << 18;

/// The waits whose steps did not come yet.
#[derive(Debug)]
pub(super) struct TaskWaits {
    sites: SiteSet,
    /// Waits by their ids, with the threads on which they ended.
    open: FxHashMap<u64, (ThreadId, Span)>,
    /// Holders by the ids of waits that did not come yet in this part.
    early: FxHashMap<u64, Holder>,
}

/// What becomes of a task.
pub(super) enum Added {
    /// It is kept until its step comes.
    Kept,
    /// All that can be known of it is known.
    Complete(Option<Holder>),
}

impl TaskWaits {
    /// Makes an empty one for the call sites of a catalog.
    pub(super) fn new(catalog: &Catalog) -> Self {
        Self {
            sites: sites_with_holder(catalog),
            open: FxHashMap::default(),
            early: FxHashMap::default(),
        }
    }

    /// Adds a task that ended on a thread.
    pub(super) fn task(&mut self, id: u64, thread: ThreadId, span: &Span) -> Added {
        if !self.sites.has(span.site) {
            return Added::Complete(None);
        }
        match self.early.remove(&id) {
            None if self.open.len() < MAX_OPEN => {
                self.open.insert(id, (thread, *span));
                Added::Kept
            }
            holder => Added::Complete(holder),
        }
    }

    /// Adds a step. Returns the wait whose holder it names, if that is kept.
    pub(super) fn step(
        &mut self,
        step: &Step,
        catalog: &Catalog,
    ) -> Option<(ThreadId, Span, Holder)> {
        let holder = Holder::of_step(catalog.site_name(step.site))?;
        let Some((thread, span)) = self.open.remove(&step.task) else {
            self.early.insert(step.task, holder);
            return None;
        };
        Some((thread, span, holder))
    }

    /// Ends a part.
    pub(super) fn end_part(&mut self) {
        self.early.clear();
    }

    /// Takes the waits whose steps did not come.
    pub(super) fn take_open(&mut self) -> Vec<(ThreadId, Span)> {
        let mut open: Vec<(ThreadId, Span)> = self.open.drain().map(|(_, wait)| wait).collect();
        open.sort_unstable_by_key(|(thread, span)| (*thread, span.begin_ns, span.duration_ns));
        open
    }
}
