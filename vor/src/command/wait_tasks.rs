//! The waits of tasks in `vor::sync::tokio`: tasks `wait: NAME`, with the holder in a step.
//!
//! A wait begins on one thread and may end on another, whose batch may come first. So a wait is
//! kept until its end and the scope around its begin are both known.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use vor_capture::model::batch::{TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::waits::{HOLDER_SCOPE_STEP, HOLDER_STEP, Wait};

use crate::command::wait_spans::Cause;

/// A wait of a task that is over.
#[derive(Debug)]
pub(super) struct EndedWait {
    pub(super) cause: Cause,
    /// The scope in which it began; 0 if none was open.
    pub(super) waiter: SiteId,
    pub(super) duration_ns: u64,
    /// The id of the wait, and its begin and end.
    pub(super) task: u64,
    pub(super) ticks: Range<u64>,
    /// The thread on which it ended.
    pub(super) thread: ThreadId,
}

/// What is known of a wait.
#[derive(Debug)]
struct Known {
    cause: Cause,
    waiter: Option<SiteId>,
    /// Its begin, its end and the time between them, and the thread on which it ended.
    ended: Option<(Range<u64>, u64, ThreadId)>,
}

/// Waits of which something is not known yet, by the id of their task.
#[derive(Debug, Default)]
pub(super) struct WaitTasks {
    known: HashMap<u64, Known>,
}

impl WaitTasks {
    /// Takes the begins of a thread, and returns them in the order of time, with the id of each
    /// task.
    pub(super) fn begun(&mut self, catalog: &Catalog, thread: &ThreadBatch) -> Vec<(u64, u64)> {
        let mut begun = Vec::new();
        for event in &thread.task_events {
            match event.kind {
                TaskEventKind::Begin { .. }
                    if self.get(catalog, event.task, event.site).is_some() =>
                {
                    begun.push((event.start_ticks, event.task));
                }
                TaskEventKind::Step => {
                    if let Some(known) = self.known.get_mut(&event.task) {
                        let step = catalog.site_name(event.site);
                        if let Some(holder) = step.strip_prefix(HOLDER_STEP) {
                            known.cause.thread = holder.into();
                        } else if let Some(scope) = step.strip_prefix(HOLDER_SCOPE_STEP) {
                            known.cause.scope = scope.into();
                        }
                    }
                }
                _ => {}
            }
        }
        begun.sort_unstable();
        begun
    }

    /// Takes the ends of a thread, and returns the waits of which everything is known.
    pub(super) fn ended(&mut self, catalog: &Catalog, thread: &ThreadBatch) -> Vec<EndedWait> {
        let mut ended = Vec::new();
        for span in &thread.async_spans {
            let duration_ns = catalog
                .timeline
                .duration_ns(span.start_ticks, span.duration_ticks);
            if let Some(known) = self.get(catalog, span.id, span.site) {
                let end = span.start_ticks.saturating_add(span.duration_ticks);
                known.ended = Some((span.start_ticks..end, duration_ns, thread.thread));
                ended.extend(self.take(span.id));
            }
        }
        ended
    }

    /// The scope around the begin of a wait is known. Returns the wait if its end is known, too.
    pub(super) fn waiter(&mut self, task: u64, waiter: SiteId) -> Option<EndedWait> {
        self.known.get_mut(&task)?.waiter = Some(waiter);
        self.take(task)
    }

    /// Takes the waits that are over, and around whose begin no scope is known.
    pub(super) fn take_ended(&mut self) -> Vec<EndedWait> {
        let known = std::mem::take(&mut self.known).into_iter();
        let ended = known.filter_map(|(task, known)| {
            let waiter = known.waiter.unwrap_or_default();
            known.end(task, waiter)
        });
        ended.collect()
    }

    fn take(&mut self, task: u64) -> Option<EndedWait> {
        let known = self.known.get(&task)?;
        let waiter = known.waiter.filter(|_| known.ended.is_some())?;
        self.known.remove(&task)?.end(task, waiter)
    }

    /// Returns what is known of a task, or `None` if it is no wait.
    fn get(&mut self, catalog: &Catalog, task: u64, site: SiteId) -> Option<&mut Known> {
        let name = Wait::of(catalog.site(site)?)?.name;
        let nothing = || Known {
            cause: Cause {
                name: name.into(),
                thread: Arc::default(),
                scope: Arc::default(),
            },
            waiter: None,
            ended: None,
        };
        Some(self.known.entry(task).or_insert_with(nothing))
    }
}

impl Known {
    /// Returns the wait, if it is over.
    fn end(self, task: u64, waiter: SiteId) -> Option<EndedWait> {
        let (ticks, duration_ns, thread) = self.ended?;
        Some(EndedWait {
            cause: self.cause,
            waiter,
            duration_ns,
            task,
            ticks,
            thread,
        })
    }
}
