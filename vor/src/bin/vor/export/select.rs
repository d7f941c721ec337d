//! Which spans an export takes: those of some threads, of some names, of some length.
//!
//! A filter takes batches and leaves of each the spans that are wanted, in their order. What is left is a batch as any other, so exporters need not know:
//! streaming ones get it as it is, and for the others a [`TreeBuilder`] makes trees of it, in which a span whose
//! parent is gone hangs below the next one around it that is left.
//!
//! A thread that is not wanted goes with its messages, tasks and drops. Names choose tasks by that of their scope, and messages by their text, which
//! is what viewers show as their name. Lengths choose spans and tasks.

use std::sync::Arc;

use vor_core::batch::{SpanBatch, ThreadBatch};
use vor_core::catalog::{Catalog, SiteId, ThreadId};
use vor_core::clock::Timeline;
use vor_core::export::thread_label;
use vor_core::frame::{FrameSnapshot, TreeBuilder};

use crate::patterns::{Pattern, wanted};
use crate::source::batch_of;

/// What to leave of batches and frames.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    threads: Vec<Pattern>,
    names: Vec<Pattern>,
    min_ns: u64,
    /// Verdicts on the call sites and threads of this catalog, by number.
    catalog: Arc<Catalog>,
    wanted_sites: Vec<bool>,
    wanted_threads: Vec<bool>,
    /// Spans and tasks that were left so far.
    taken: u64,
}

impl Filter {
    pub(crate) fn new(threads: &[Pattern], names: &[Pattern], min_ns: u64) -> Self {
        let mut filter = Self {
            threads: threads.to_vec(),
            names: names.to_vec(),
            min_ns,
            ..Self::default()
        };
        filter.judge(&Arc::default());
        filter
    }

    /// Returns whether there is anything that is not wanted.
    pub(crate) fn takes_all(&self) -> bool {
        self.threads.is_empty() && self.names.is_empty() && self.min_ns == 0
    }

    /// Returns how many spans and tasks were left of all batches so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Removes what is not wanted.
    pub(crate) fn retain(&mut self, batch: &mut SpanBatch) {
        if !self.takes_all() {
            if !Arc::ptr_eq(&self.catalog, &batch.catalog) {
                self.judge(&batch.catalog);
            }
            batch.threads.retain(|thread| self.wants_thread(thread.thread));
            let timeline = Arc::clone(&batch.catalog.timeline);
            for thread in &mut batch.threads {
                self.retain_spans(&timeline, thread);
            }
            batch.threads.retain(|thread| !thread.is_empty());
        }
        self.taken += (batch.span_count() + batch.async_span_count()) as u64;
    }

    /// Makes a frame whose trees hold what is wanted of those of another, and the batch that they come from.
    pub(crate) fn rebuild(
        &mut self,
        frame: &FrameSnapshot,
        builder: &mut TreeBuilder,
    ) -> (SpanBatch, FrameSnapshot) {
        let mut batch = batch_of(frame);
        self.retain(&mut batch);
        builder.add_batch(&batch);
        let trees = builder.finish();
        let head = FrameSnapshot {
            catalog: Arc::clone(&frame.catalog),
            metrics: frame.metrics.clone(),
            threads: trees.threads,
            span_count: trees.span_count,
            ..*frame
        };
        (batch, head)
    }

    /// Notes which names of a catalog are wanted. Lost declarations may turn up in a later one, so nothing is kept of what was said before.
    fn judge(&mut self, catalog: &Arc<Catalog>) {
        let Self { threads, names, .. } = &*self;
        let sites = 0..=u32::try_from(catalog.sites.len()).unwrap_or(u32::MAX);
        let ids = 0..u32::try_from(catalog.threads.len()).unwrap_or(u32::MAX);
        let wanted_sites = sites.map(|id| wanted(names, catalog.site_name(SiteId(id))));
        let wanted_threads = ids.map(|id| wanted(threads, &thread_label(catalog, ThreadId(id))));
        (self.wanted_sites, self.wanted_threads) = (wanted_sites.collect(), wanted_threads.collect());
        self.catalog = Arc::clone(catalog);
    }

    fn wants_thread(&self, thread: ThreadId) -> bool {
        match self.wanted_threads.get(thread.0 as usize) {
            Some(&known) => known,
            None => wanted(&self.threads, &thread_label(&self.catalog, thread)),
        }
    }

    fn wants_site(&self, site: SiteId) -> bool {
        match self.wanted_sites.get(site.0 as usize) {
            Some(&known) => known,
            None => wanted(&self.names, self.catalog.site_name(site)),
        }
    }

    fn wants_span(&self, timeline: &Timeline, site: SiteId, start_ticks: u64, duration_ticks: u64) -> bool {
        self.wants_site(site)
            && (self.min_ns == 0 || timeline.duration_ns(start_ticks, duration_ticks) >= self.min_ns)
    }

    /// Moves the wanted spans of a thread to the front of its columns, and their arguments with them.
    fn retain_spans(&self, timeline: &Timeline, thread: &mut ThreadBatch) {
        let mut left = 0;
        let mut left_args = 0;
        let mut next_args = 0;
        for i in 0..thread.len() {
            let (start, duration, site) = (thread.start_ticks[i], thread.duration_ticks[i], thread.sites[i]);
            // A list for a span that is not there would hold up those behind it.
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
            if self.wants_span(timeline, site, start, duration) {
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
            next_args += usize::from(has_args);
        }
        thread.start_ticks.truncate(left);
        thread.duration_ticks.truncate(left);
        thread.sites.truncate(left);
        thread.args.truncate(left_args);
        thread
            .messages
            .retain(|message| wanted(&self.names, &message.text));
        thread
            .async_spans
            .retain(|task| self.wants_span(timeline, task.site, task.start_ticks, task.duration_ticks));
    }
}
