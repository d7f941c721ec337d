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

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::catalog::SiteInfo;
    use vor_capture::model::waits::{ARG_NAMES, NO_HOLDER};

    use super::*;

    #[test]
    fn a_holder_is_a_scope_or_a_thread_or_both() {
        for (thread, scope, holder) in [
            ("", "", None),
            ("main", "", Some("main")),
            ("", "evict", Some("evict")),
            ("main", "evict\n", Some("evict\\n on main")),
        ] {
            let (thread, scope) = (thread.into(), scope.into());
            let name = "cache".into();
            let cause = Cause {
                name,
                thread,
                scope,
            };
            assert_eq!(cause.has_holder(), holder.is_some(), "{cause:?}");
            assert_eq!(cause.holder(), holder.unwrap_or("(no holder)"));
        }
    }

    #[test]
    fn spans_are_waits_by_their_site_and_their_arguments() {
        let site = |name: &'static str, category: &'static str, args: &[&'static str]| {
            Some(Arc::new(filled!(SiteInfo {
                name: name.into(),
                category: category.into(),
                arg_names: args.iter().map(|&name| name.into()).collect()
            })))
        };
        let catalog = filled!(Catalog {
            sites: Arc::new(vec![
                site("plain", "", &["n"]),
                site("wait: cache", "", &ARG_NAMES),
                site("wait: jobs", NO_HOLDER, &[]),
            ])
        });
        let args = |span: u32, texts: &[&str]| {
            let text = |text: &&str| ArgValue::Str((*text).into());
            let values = texts.iter().map(text).collect();
            filled!(SpanArgs { span, values })
        };
        let thread = filled!(ThreadBatch {
            start_ticks: vec![10, 20, 30, 40, 50, 60],
            duration_ticks: vec![1, 2, 3, 4, 5, 6],
            // The fourth span waits for the cache and does not say who holds it.
            sites: [1, 2, 1, 2, 3, 2].map(SiteId).to_vec(),
            args: vec![
                args(1, &["cache", "main", "evict"]),
                args(2, &["7"]),
                args(5, &["cache", "main", "evict"]),
            ]
        });
        let mut wait_spans = WaitSpans::default();
        let (mut seen, mut causes) = (Vec::new(), Vec::new());
        wait_spans.visit(&catalog, &thread, |span| {
            let values = span.args.map_or(0, |args| args.values.len());
            let holder = span.cause.as_ref().map(|cause| cause.holder());
            seen.push((
                span.site.0,
                span.start_ticks,
                span.duration_ticks,
                values,
                holder,
            ));
            causes.extend(span.cause);
        });
        let evict = || Some("evict on main".to_owned());
        let expected = [
            (1, 10, 1, 0, None),
            (2, 20, 2, 3, evict()),
            (1, 30, 3, 1, None),
            (2, 40, 4, 0, None),
            (3, 50, 5, 0, Some("(no holder)".to_owned())),
            (2, 60, 6, 3, evict()),
        ];
        assert_eq!(seen, expected);
        let names: Vec<&str> = causes.iter().map(|cause| &*cause.name).collect();
        assert_eq!(names, ["cache", "jobs", "cache"]);
        assert!(
            Arc::ptr_eq(&causes[0], &causes[2]),
            "each is in memory once"
        );
    }
}
