//! The recorded waits of `vor::sync`: spans `wait: NAME`. A wait for something that somebody holds
//! has the holder in its arguments. Any other, such as one for a message, has a category. The waits
//! of tasks are in `wait_tasks`.

use std::collections::HashMap;
use std::sync::Arc;

use vor_capture::model::batch::{ArgValue, SpanArgs, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::waits::Wait;

use crate::command::table::printable;

/// What a thread waited for, and who held it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Cause {
    pub(super) name: Arc<str>,
    /// Empty if nobody holds it, or a task.
    pub(super) thread: Arc<str>,
    /// Empty if the holder had no scope open, or it is unknown, or nobody holds it. Of a task, the
    /// scope in which it took the lock.
    pub(super) scope: Arc<str>,
}

impl Cause {
    pub(super) fn has_holder(&self) -> bool {
        !(self.thread.is_empty() && self.scope.is_empty())
    }

    /// Returns the holder: `evict on worker-3`, or `evict` for a task.
    pub(super) fn holder(&self) -> String {
        match (&*self.scope, &*self.thread) {
            ("", "") => "(no holder)".to_owned(),
            (holder, "") | ("", holder) => printable(holder),
            (scope, thread) => format!("{} on {}", printable(scope), printable(thread)),
        }
    }
}

/// Finds the waits among spans. Each distinct cause is in memory once.
#[derive(Debug, Default)]
pub(super) struct WaitSpans {
    causes: HashMap<Cause, Arc<Cause>>,
}

/// A span of a thread.
#[derive(Debug)]
pub(super) struct SpanEnd<'a> {
    pub(super) site: SiteId,
    pub(super) start_ticks: u64,
    pub(super) duration_ticks: u64,
    pub(super) args: Option<&'a SpanArgs>,
    /// What it waited for, if it is a wait.
    pub(super) cause: Option<Arc<Cause>>,
}

impl WaitSpans {
    /// Passes the spans of a thread to `visit`, in the order of their ends.
    pub(super) fn visit<'a>(
        &mut self,
        catalog: &Catalog,
        thread: &'a ThreadBatch,
        mut visit: impl FnMut(SpanEnd<'a>),
    ) {
        let mut args = thread.args.iter().peekable();
        for (at, &start_ticks) in thread.start_ticks.iter().enumerate() {
            let site = thread.sites.get(at).copied().unwrap_or_default();
            while args.next_if(|args| (args.span as usize) < at).is_some() {}
            let args = args.next_if(|args| args.span as usize == at);
            visit(SpanEnd {
                site,
                start_ticks,
                duration_ticks: thread.duration_ticks.get(at).copied().unwrap_or(0),
                args,
                cause: cause(catalog, site, args).map(|cause| self.intern(cause)),
            });
        }
    }

    pub(super) fn intern(&mut self, cause: Cause) -> Arc<Cause> {
        if let Some(known) = self.causes.get(&cause) {
            return Arc::clone(known);
        }
        let new = Arc::new(cause.clone());
        self.causes.insert(cause, Arc::clone(&new));
        new
    }
}

/// Returns what a wait was for, or `None` for any other span.
fn cause(catalog: &Catalog, site: SiteId, args: Option<&SpanArgs>) -> Option<Cause> {
    let Wait {
        name, has_holder, ..
    } = Wait::of(catalog.site(site)?)?;
    let (thread, scope) = match &args.map(|args| &args.values[..]) {
        _ if !has_holder => Default::default(),
        Some([_, ArgValue::Str(thread), ArgValue::Str(scope), ..]) => {
            (Arc::clone(thread), Arc::clone(scope))
        }
        _ => return None,
    };
    Some(Cause {
        name: name.into(),
        thread,
        scope,
    })
}
