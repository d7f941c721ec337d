//! The waits of tasks for locks, with their holders.
//!
//! A step at the begin of a wait names the holder. In a walk from the end, the wait comes first: a
//! batch has its events before the tasks that ended in it. So a wait is kept until its step comes.

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
}

impl TaskWaits {
    /// Makes an empty one for the call sites of a catalog.
    pub(super) fn new(catalog: &Catalog) -> Self {
        Self {
            sites: sites_with_holder(catalog),
            open: FxHashMap::default(),
        }
    }

    /// Keeps a task that ended on a thread until its step comes, if it is a wait with a holder;
    /// returns whether it does.
    pub(super) fn keep(&mut self, id: u64, thread: ThreadId, span: &Span) -> bool {
        let keeps = self.sites.has(span.site) && self.open.len() < MAX_OPEN;
        if keeps {
            self.open.insert(id, (thread, *span));
        }
        keeps
    }

    /// Takes the wait whose holder a step names.
    pub(super) fn take(
        &mut self,
        step: &Step,
        catalog: &Catalog,
    ) -> Option<(ThreadId, Span, Holder)> {
        if !self.open.contains_key(&step.task) {
            return None;
        }
        let holder = Holder::of_step(catalog.site_name(step.site))?;
        let (thread, span) = self.open.remove(&step.task)?;
        Some((thread, span, holder))
    }

    /// Takes the waits whose steps did not come.
    pub(super) fn take_all(&mut self) -> Vec<(ThreadId, Span)> {
        let mut open: Vec<(ThreadId, Span)> = self.open.drain().map(|(_, wait)| wait).collect();
        open.sort_unstable_by_key(|(thread, span)| (*thread, span.begin_ns, span.duration_ns));
        open
    }
}
