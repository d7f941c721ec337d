//! Selects the spans of an export by thread, name and duration.
//!
//! A filter removes spans from batches and keeps the order of the others. The result is a normal
//! batch, so exporters need not know: streaming ones take it as it is, and a [`TreeBuilder`] makes
//! trees of it for the others. A span whose parent was removed becomes a child of the next kept
//! span around it.
//!
//! - A thread that is not selected is removed with its messages, tasks and drops.
//! - Names select tasks by the name of their scope, and messages by their text, which viewers show
//!   as the name.
//! - Durations select spans and tasks. The duration of a task is unknown before its end, so with a
//!   minimum duration the events within tasks are removed.
//! - Flows connect spans, and are removed if spans may be.

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_capture::model::timeline::Timeline;
use vor_export::thread_label;

use crate::command::patterns::{Pattern, is_selected};

/// A selection of spans, applied to batches and frames.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    threads: Vec<Pattern>,
    names: Vec<Pattern>,
    min_ns: u64,
    /// The catalog for which the next two fields hold, by call site and by thread.
    catalog: Arc<Catalog>,
    kept_sites: Vec<bool>,
    kept_threads: Vec<bool>,
    /// Number of spans and tasks kept so far.
    kept: u64,
}

impl Filter {
    pub(crate) fn new(threads: &[Pattern], names: &[Pattern], min_ns: u64) -> Self {
        let mut filter = Self {
            threads: threads.to_vec(),
            names: names.to_vec(),
            min_ns,
            ..Self::default()
        };
        filter.resolve(&Arc::default());
        filter
    }

    /// Returns whether the filter keeps everything.
    pub(crate) fn keeps_all(&self) -> bool {
        self.threads.is_empty() && self.names.is_empty() && self.min_ns == 0
    }

    /// Returns the number of spans and tasks kept so far.
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// Removes everything that is not selected.
    pub(crate) fn retain(&mut self, batch: &mut SpanBatch) {
        if !self.keeps_all() {
            if !Arc::ptr_eq(&self.catalog, &batch.catalog) {
                self.resolve(&batch.catalog);
            }
            batch
                .threads
                .retain(|thread| self.keeps_thread(thread.thread));
            let timeline = Arc::clone(&batch.catalog.timeline);
            for thread in &mut batch.threads {
                self.retain_spans(&timeline, thread);
            }
            batch.threads.retain(|thread| !thread.is_empty());
        }
        self.kept += (batch.span_count() + batch.async_span_count()) as u64;
    }

    /// Returns the selected spans of a frame, as a batch and as a frame with trees.
    pub(crate) fn rebuild(
        &mut self,
        frame: &FrameSnapshot,
        builder: &mut TreeBuilder,
    ) -> (SpanBatch, FrameSnapshot) {
        let mut batch = SpanBatch::of_trees(frame);
        self.retain(&mut batch);
        builder.add_batch(&batch);
        let trees = builder.finish();
        let head = filled!(FrameSnapshot {
            catalog: Arc::clone(&frame.catalog),
            metrics: frame.metrics.clone(),
            threads: trees.threads,
            span_count: trees.span_count,
            index: frame.index,
            frame_set: frame.frame_set,
            start_ticks: frame.start_ticks,
            end_ticks: frame.end_ticks,
            dropped_spans: frame.dropped_spans,
            merged_marks: frame.merged_marks,
        });
        (batch, head)
    }

    /// Resolves which call sites and threads of a catalog are kept. A later catalog may have
    /// declarations that were missing before, so nothing is reused.
    fn resolve(&mut self, catalog: &Arc<Catalog>) {
        let Self { threads, names, .. } = &*self;
        let sites = 0..=u32::try_from(catalog.sites.len()).unwrap_or(u32::MAX);
        let ids = 0..u32::try_from(catalog.threads.len()).unwrap_or(u32::MAX);
        let kept_sites = sites.map(|id| is_selected(names, catalog.site_name(SiteId(id))));
        let kept_threads = ids.map(|id| is_selected(threads, &thread_label(catalog, ThreadId(id))));
        (self.kept_sites, self.kept_threads) = (kept_sites.collect(), kept_threads.collect());
        self.catalog = Arc::clone(catalog);
    }

    fn keeps_thread(&self, thread: ThreadId) -> bool {
        match self.kept_threads.get(thread.0 as usize) {
            Some(&known) => known,
            None => is_selected(&self.threads, &thread_label(&self.catalog, thread)),
        }
    }

    fn keeps_site(&self, site: SiteId) -> bool {
        match self.kept_sites.get(site.0 as usize) {
            Some(&known) => known,
            None => is_selected(&self.names, self.catalog.site_name(site)),
        }
    }

    fn keeps_span(
        &self,
        timeline: &Timeline,
        site: SiteId,
        start_ticks: u64,
        duration_ticks: u64,
    ) -> bool {
        self.keeps_site(site)
            && (self.min_ns == 0
                || timeline.duration_ns(start_ticks, duration_ticks) >= self.min_ns)
    }

    /// Moves the kept spans of a thread, with their arguments, to the front of its columns.
    fn retain_spans(&self, timeline: &Timeline, thread: &mut ThreadBatch) {
        let mut left = 0;
        let mut left_args = 0;
        let mut next_args = 0;
        for i in 0..thread.len() {
            let (start, duration, site) = (
                thread.start_ticks[i],
                thread.duration_ticks[i],
                thread.sites[i],
            );
            // Skip the arguments of the spans before, and of spans that do not exist, which would
            // block those behind them.
            while thread
                .args
                .get(next_args)
                .is_some_and(|args| (args.span as usize) < i)
            {
                next_args += 1;
            }
            let has_args = thread
                .args
                .get(next_args)
                .is_some_and(|args| args.span as usize == i);
            if self.keeps_span(timeline, site, start, duration) {
                thread.start_ticks[left] = start;
                thread.duration_ticks[left] = duration;
                thread.sites[left] = site;
                if has_args {
                    thread.args.swap(left_args, next_args);
                    thread.args[left_args].span = left as u32;
                    left_args += 1;
                }
                left += 1;
            }
        }
        thread.start_ticks.truncate(left);
        thread.duration_ticks.truncate(left);
        thread.sites.truncate(left);
        thread.args.truncate(left_args);
        thread
            .messages
            .retain(|message| is_selected(&self.names, &message.text));
        thread.async_spans.retain(|task| {
            self.keeps_span(timeline, task.site, task.start_ticks, task.duration_ticks)
        });
        let any_duration = self.min_ns == 0;
        thread.task_events.retain(|event| {
            let of_task = !matches!(event.kind, TaskEventKind::Step);
            any_duration && (!of_task || self.keeps_site(event.site))
        });
        if !any_duration || !self.names.is_empty() {
            thread.flows.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vor_capture::model::batch::{ArgValue, AsyncSpan, FlowPoint, Message, SpanArgs, TaskEvent};
    use vor_capture::model::catalog::{SiteInfo, ThreadInfo};

    use super::*;

    /// Thread, start, duration, site and arguments of a span.
    type FlatSpan = (u32, u64, u64, u32, Vec<ArgValue>);

    const SITES: [&str; 4] = ["decode", "decode row", "sort", "tile [1]"];
    const THREADS: [&str; 3] = ["main", "worker-1", "worker-2"];

    fn catalog() -> Arc<Catalog> {
        let site = |name: &&'static str| {
            Some(Arc::new(filled!(SiteInfo {
                name: (*name).into()
            })))
        };
        let thread = |name: &&str| {
            Some(Arc::new(filled!(ThreadInfo {
                os_id: 1,
                name: (*name).into(),
            })))
        };
        Arc::new(filled!(Catalog {
            sites: Arc::new(SITES.iter().map(site).collect()),
            threads: Arc::new(THREADS.iter().map(thread).collect())
        }))
    }

    fn flat_spans(batch: &SpanBatch) -> Vec<FlatSpan> {
        let mut spans = Vec::new();
        for thread in &batch.threads {
            for i in 0..thread.len() {
                let args = thread.args.iter().find(|args| args.span as usize == i);
                spans.push((
                    thread.thread.0,
                    thread.start_ticks[i],
                    thread.duration_ticks[i],
                    thread.sites[i].0,
                    args.map_or_else(Vec::new, |args| args.values.clone()),
                ));
            }
        }
        spans
    }

    /// Spans and tasks with any threads, sites and durations, since a filter ignores nesting. Some
    /// ids are not declared.
    fn batches() -> impl Strategy<Value = SpanBatch> {
        let span = (
            0_u64..1_000,
            0_u64..2_000,
            0_u32..6,
            proptest::option::of(0_u64..9),
        );
        let thread = proptest::collection::vec(span, 0..40);
        proptest::collection::vec(thread, 0..5).prop_map(|threads| {
            filled!(SpanBatch {
                catalog: catalog(),
                threads: (0..)
                    .zip(&threads)
                    .map(|(id, spans)| thread_batch(id, spans))
                    .collect(),
            })
        })
    }

    fn thread_batch(id: u32, spans: &[(u64, u64, u32, Option<u64>)]) -> ThreadBatch {
        let mut thread = filled!(ThreadBatch {
            thread: ThreadId(id),
            dropped_spans: u64::from(id % 2)
        });
        for (i, &(start_ticks, duration_ticks, site, arg)) in (0..).zip(spans) {
            thread.start_ticks.push(start_ticks);
            thread.duration_ticks.push(duration_ticks);
            thread.sites.push(SiteId(site));
            if let Some(value) = arg {
                let values = vec![ArgValue::U64(value)];
                thread.args.push(filled!(SpanArgs { span: i, values }));
            }
            thread.async_spans.push(filled!(AsyncSpan {
                id: u64::from(i),
                site: SiteId(site),
                start_ticks,
                duration_ticks,
            }));
            let text = SITES[site as usize % SITES.len()].into();
            thread.messages.push(filled!(Message {
                ticks: start_ticks,
                text,
            }));
        }
        thread
    }

    proptest! {
        #[test]
        fn filtering_a_batch_equals_filtering_its_spans_one_by_one(
            batch in batches(),
            threads in proptest::sample::subsequence(vec!["worker-?", "main", "thread*"], 0..3),
            names in proptest::sample::subsequence(vec!["decode*", "sort", "?ile [1]"], 0..3),
            min_ns in prop_oneof![Just(0_u64), 0_u64..2_500],
        ) {
            let parsed = |patterns: &[&str]| -> Vec<Pattern> {
                patterns.iter().map(|pattern| pattern.parse().unwrap()).collect()
            };
            let (threads, names) = (parsed(&threads), parsed(&names));
            let keeps_thread = |id: u32| {
                is_selected(&threads, &thread_label(&batch.catalog, ThreadId(id)))
            };
            let keeps_name = |site: u32| is_selected(&names, batch.catalog.site_name(SiteId(site)));
            let mut expected = flat_spans(&batch);
            // Without synchronisation points, a tick of the timeline is a nanosecond.
            expected.retain(|&(thread, _, duration, site, _)| {
                keeps_thread(thread) && keeps_name(site) && duration >= min_ns
            });
            let mut filter = Filter::new(&threads, &names, min_ns);
            let mut left = batch.clone();
            filter.retain(&mut left);
            prop_assert_eq!(flat_spans(&left), expected.clone());
            // Each span has a task like it.
            prop_assert_eq!(filter.kept(), 2 * expected.len() as u64);
            for thread in &left.threads {
                prop_assert!(thread.args.is_sorted_by(|a, b| a.span < b.span));
                prop_assert!(thread.args.iter().all(|args| (args.span as usize) < thread.len()));
                let tasks = thread.async_spans.iter();
                let tasks = tasks.map(|task| (task.start_ticks, task.duration_ticks, task.site));
                let times = thread.start_ticks.iter().zip(&thread.duration_ticks);
                let columns = times.zip(&thread.sites);
                let columns = columns.map(|((start, duration), site)| (*start, *duration, *site));
                prop_assert!(tasks.eq(columns));
                let mut messages = thread.messages.iter();
                prop_assert!(messages.all(|message| is_selected(&names, &message.text)));
            }
            let drops = |batch: &SpanBatch, keeps: &dyn Fn(u32) -> bool| -> u64 {
                let threads = batch.threads.iter().filter(|thread| keeps(thread.thread.0));
                threads.map(|thread| thread.dropped_spans).sum()
            };
            prop_assert_eq!(drops(&left, &|_| true), drops(&batch, &keeps_thread));
        }
    }

    /// Returns what a filter with these threads, names and duration leaves of a thread.
    fn filtered(
        thread: &ThreadBatch,
        threads: &[&str],
        names: &[&str],
        min_ns: u64,
    ) -> Option<ThreadBatch> {
        let parsed = |patterns: &[&str]| -> Vec<Pattern> {
            patterns.iter().map(|text| text.parse().unwrap()).collect()
        };
        let mut batch = filled!(SpanBatch {
            catalog: catalog(),
            threads: vec![thread.clone()],
        });
        Filter::new(&parsed(threads), &parsed(names), min_ns).retain(&mut batch);
        batch.threads.pop()
    }

    #[test]
    fn names_select_events_of_tasks_and_durations_select_none() {
        let event = |site, kind| {
            filled!(TaskEvent {
                site: SiteId(site),
                kind
            })
        };
        let polled = TaskEventKind::Poll {
            duration_ticks: 9_000,
        };
        let begun = TaskEventKind::Begin { given_id: 7 };
        let events = [
            event(1, polled),
            event(3, polled),
            event(1, begun),
            event(3, begun),
            event(3, TaskEventKind::Step),
        ];
        let thread = filled!(ThreadBatch {
            task_events: events.to_vec(),
            flows: vec![FlowPoint::default()],
            dropped_spans: 1
        });
        let left = |threads: &[&str], names: &[&str], min_ns| {
            let left = filtered(&thread, threads, names, min_ns).unwrap();
            (left.task_events, left.flows.len())
        };
        assert_eq!(left(&["main"], &[], 0), (events.to_vec(), 1));
        // The scope of a step is not that of its task.
        let decode = vec![events[0], events[2], events[4]];
        assert_eq!(left(&[], &["decode"], 0), (decode, 0));
        assert_eq!(left(&[], &[], 1), (Vec::new(), 0));
        assert_eq!(left(&["main"], &["decode"], 1), (Vec::new(), 0));
        assert_eq!(filtered(&thread, &["worker-1"], &[], 0), None);
    }

    #[test]
    fn arguments_without_a_span_of_their_own_leave_those_behind_them() {
        let args = |span, value| {
            let values = vec![ArgValue::U64(value)];
            filled!(SpanArgs { span, values })
        };
        let thread = filled!(ThreadBatch {
            start_ticks: vec![0, 10, 20],
            duration_ticks: vec![5; 3],
            sites: [1, 2, 1].map(SiteId).to_vec(),
            args: vec![args(1, 7), args(1, 8), args(2, 9)],
        });
        let left = filtered(&thread, &[], &["decode"], 0).unwrap();
        assert_eq!(left.start_ticks, [0, 20]);
        assert_eq!(left.args, [args(1, 9)]);
    }

    #[test]
    fn trees_are_built_from_the_kept_spans() {
        // `sort` contains `decode`, which contains `decode row`; without `decode`, the last is a
        // child of the first.
        let thread = filled!(ThreadBatch {
            start_ticks: vec![20, 10, 0],
            duration_ticks: vec![10, 40, 100],
            sites: vec![SiteId(2), SiteId(1), SiteId(3)]
        });
        let mut builder = TreeBuilder::new(100);
        builder.add(&thread);
        let frame = filled!(FrameSnapshot {
            catalog: catalog(),
            threads: builder.finish().threads,
            index: 5,
            span_count: 3
        });
        let names = ["sort", "decode row"].map(|name| name.parse().unwrap());
        let mut filter = Filter::new(&[], &names, 0);
        let (batch, left) = filter.rebuild(&frame, &mut builder);
        assert_eq!(batch.threads[0].sites, [SiteId(2), SiteId(3)]);
        let depths: Vec<(u32, u32)> = left.threads[0]
            .spans
            .iter()
            .map(|span| (span.site.0, span.depth))
            .collect();
        assert_eq!(depths, [(3, 0), (2, 1)]);
        assert_eq!((left.index, left.span_count), (5, 2));
    }
}
