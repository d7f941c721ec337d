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

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::batch::{AsyncSpan, TaskEvent};
    use vor_capture::model::catalog::SiteInfo;
    use vor_capture::model::waits::HELD;

    use super::*;

    const CACHE: u32 = 1;
    const PLAIN: u32 = 2;
    const HOLDER: u32 = 3;
    const SCOPE: u32 = 4;

    fn catalog() -> Catalog {
        let site = |(name, category): (&'static str, &'static str)| {
            Some(Arc::new(filled!(SiteInfo {
                name: name.into(),
                category: category.into()
            })))
        };
        let sites = [
            ("wait: cache", HELD),
            ("wait: of the program", ""),
            ("holder: released meanwhile", ""),
            ("holder_scope: evict", ""),
        ];
        filled!(Catalog {
            sites: Arc::new(sites.map(site).to_vec())
        })
    }

    fn event(task: u64, site: u32, start_ticks: u64, kind: TaskEventKind) -> TaskEvent {
        filled!(TaskEvent {
            task,
            site: SiteId(site),
            start_ticks,
            kind
        })
    }

    /// Returns a batch in which tasks end that begin at tick 100 and last as long as their id.
    fn ended(tasks: &[(u64, u32)]) -> ThreadBatch {
        let span = |&(id, site): &(u64, u32)| {
            filled!(AsyncSpan {
                id,
                site: SiteId(site),
                start_ticks: 100,
                duration_ticks: id
            })
        };
        filled!(ThreadBatch {
            thread: ThreadId(5),
            async_spans: tasks.iter().map(span).collect()
        })
    }

    /// Returns the task of a wait, its holder, waiter, duration, ticks and thread.
    fn texts(wait: &EndedWait) -> String {
        let Cause {
            name,
            thread,
            scope,
        } = &wait.cause;
        let (waiter, on) = (wait.waiter.0, wait.thread.0);
        format!(
            "{}: {name} [{thread}/{scope}] in {waiter}, {} ns, {:?} on {on}",
            wait.task, wait.duration_ns, wait.ticks
        )
    }

    #[test]
    fn a_wait_is_over_once_its_end_and_its_scope_are_known() {
        let catalog = catalog();
        let begin = TaskEventKind::Begin { given_id: 0 };
        let poll = TaskEventKind::Poll { duration_ticks: 1 };
        let first = filled!(ThreadBatch {
            task_events: vec![
                event(12, CACHE, 30, begin),
                event(12, SCOPE, 30, TaskEventKind::Step),
                event(11, CACHE, 20, begin),
                event(11, HOLDER, 20, TaskEventKind::Step),
                // A poll says nothing, and others are no waits.
                event(11, SCOPE, 21, poll),
                event(13, PLAIN, 22, begin),
                event(13, SCOPE, 22, TaskEventKind::Step),
                event(14, CACHE, 25, begin),
            ]
        });
        let mut tasks = WaitTasks::default();
        let begun = tasks.begun(&catalog, &first);
        assert_eq!(begun, [(20, 11), (25, 14), (30, 12)]);
        let of_end = |tasks: &mut WaitTasks, ids: &[(u64, u32)]| {
            let waits = tasks.ended(&catalog, &ended(ids));
            waits.iter().map(texts).collect::<Vec<_>>()
        };

        assert!(tasks.waiter(11, SiteId(8)).is_none(), "it has not ended");
        assert_eq!(
            of_end(&mut tasks, &[(11, CACHE)]),
            ["11: cache [released meanwhile/] in 8, 11 ns, 100..111 on 5"]
        );
        assert!(tasks.waiter(11, SiteId(9)).is_none(), "it is taken");
        let unknown = of_end(&mut tasks, &[(12, CACHE), (13, PLAIN)]);
        assert!(
            unknown.is_empty(),
            "their scopes are not known: {unknown:?}"
        );
        let over = tasks.waiter(12, SiteId(9));
        assert_eq!(
            over.as_ref().map(texts),
            Some("12: cache [/evict] in 9, 12 ns, 100..112 on 5".to_owned())
        );
        // Task 15 has lost its begin, and task 14 never ends.
        assert!(of_end(&mut tasks, &[(15, CACHE)]).is_empty());
        let rest: Vec<String> = tasks.take_ended().iter().map(texts).collect();
        assert_eq!(rest, ["15: cache [/] in 0, 15 ns, 100..115 on 5"]);
    }
}
