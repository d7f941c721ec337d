//! The spans of the frame that runs, until its end tells how deep each lies.
//!
//! A thread's spans come children first, so the depth of one is known when all around it have
//! ended. Spans are held until their frame ends, in columns, in the order in which they came. Two
//! counts are kept with each, as in [`TreeBuilder`](vor_capture::model::frame::TreeBuilder): the size of its
//! subtree, and how many larger subtrees begin with it. The depth is then a running sum.
//!
//! A frame of an hour would fill the memory, so at most [`MAX_WAITING`] spans wait. When there are
//! more, those that wait are handed out without a depth; what comes after them has one again, since
//! what lies around it comes later still.

use rustc_hash::FxHashMap;
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, ThreadBatch};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::stats::SpanTimes;

use super::coded::NULL;

/// Spans of a frame that wait for its end, as many as a frame with trees holds. Texts of arguments
/// count as a span per [`SPAN_BYTES`].
pub(super) const MAX_WAITING: usize = 1 << 20;

/// What a waiting span takes, about.
const SPAN_BYTES: usize = 40;

/// Spans of a thread for which memory is kept in any case.
const KEPT_SPANS: usize = 1 << 14;

/// The spans of all threads that ended in the frame that runs.
#[derive(Debug, Default)]
pub(super) struct RunningFrame {
    slots: FxHashMap<ThreadId, usize>,
    threads: Vec<EndedInFrame>,
    used: usize,
    weight: usize,
}

/// The spans of a thread that ended in the frame that runs, as columns, in the order in which they
/// ended.
#[derive(Debug, Default)]
pub(super) struct EndedInFrame {
    pub(super) thread: ThreadId,
    pub(super) start_ticks: Vec<u64>,
    pub(super) duration_ticks: Vec<u64>,
    pub(super) sites: Vec<SiteId>,
    pub(super) self_ns: Vec<u64>,
    pub(super) args: Vec<SpanArgs>,
    subtree_len: Vec<u32>,
    /// How many subtrees of more than one span have this one as their first.
    begins: Vec<u32>,
}

impl RunningFrame {
    /// Adds what a thread ended.
    pub(super) fn add(&mut self, batch: &ThreadBatch, times: &[SpanTimes]) {
        if batch.sites.is_empty() {
            return;
        }
        let slot = *self.slots.entry(batch.thread).or_insert(self.used);
        if slot == self.used {
            self.used += 1;
            if slot == self.threads.len() {
                self.threads.push(EndedInFrame::default());
            }
            self.threads[slot].thread = batch.thread;
        }
        self.weight += self.threads[slot].add(batch, times);
    }

    /// Returns whether more waits than should be held.
    pub(super) fn is_full(&self) -> bool {
        self.weight > MAX_WAITING
    }

    /// Returns the threads that ended a span, in the order in which they first did.
    pub(super) fn threads(&self) -> &[EndedInFrame] {
        &self.threads[..self.used]
    }

    /// Forgets all spans, and keeps their memory for the next frame as far as that may need it.
    pub(super) fn clear(&mut self) {
        for thread in &mut self.threads[..self.used] {
            thread.clear();
        }
        // Threads come and go; what those of long ago took is not kept for ever.
        self.threads.truncate(self.used.max(8));
        self.slots.clear();
        self.used = 0;
        self.weight = 0;
    }
}

impl EndedInFrame {
    /// Appends a batch; returns what it weighs.
    fn add(&mut self, batch: &ThreadBatch, times: &[SpanTimes]) -> usize {
        let first = self.sites.len();
        self.start_ticks.extend_from_slice(&batch.start_ticks);
        self.duration_ticks.extend_from_slice(&batch.duration_ticks);
        self.sites.extend_from_slice(&batch.sites);
        self.self_ns.extend(times.iter().map(|times| times.self_ns));
        self.begins.resize(self.sites.len(), 0);
        for position in first..self.sites.len() {
            let begin = self.first_contained(position);
            let length = (position - begin) as u32 + 1;
            self.subtree_len.push(length);
            self.begins[begin] += u32::from(length > 1);
        }
        let mut weight = batch.len();
        for args in &batch.args {
            weight += 1 + args.values.iter().map(text_bytes).sum::<usize>() / SPAN_BYTES;
            self.args.push(filled!(SpanArgs {
                span: first as u32 + args.span,
                values: args.values.clone(),
            }));
        }
        weight
    }

    /// Returns where the subtree of a span begins: with itself, or with the first that it contains.
    #[inline]
    fn first_contained(&self, position: usize) -> usize {
        let start_ticks = self.start_ticks[position];
        let end_ticks = start_ticks.saturating_add(self.duration_ticks[position]);
        let mut first = position;
        while let Some(root) = first.checked_sub(1)
            && self.start_ticks[root] >= start_ticks
            && self.start_ticks[root].saturating_add(self.duration_ticks[root]) <= end_ticks
        {
            first -= self.subtree_len[root] as usize;
        }
        first
    }

    /// Appends the depth of every span, or that it is not known.
    pub(super) fn push_depths(&self, are_known: bool, depths: &mut Vec<u32>) {
        if !are_known {
            depths.resize(depths.len() + self.sites.len(), NULL);
            return;
        }
        let mut around = 0;
        depths.extend(
            self.begins
                .iter()
                .zip(&self.subtree_len)
                .map(|(&begins, &subtree_len)| {
                    around += begins;
                    // A span that contains others is among those that began, and ends here.
                    around -= u32::from(subtree_len > 1);
                    around
                }),
        );
    }

    fn clear(&mut self) {
        // The memory of one long frame is not kept for many short ones, in each of several threads.
        if self.sites.capacity() > KEPT_SPANS && self.sites.capacity() > 4 * self.sites.len() {
            *self = Self::default();
            return;
        }
        self.start_ticks.clear();
        self.duration_ticks.clear();
        self.sites.clear();
        self.self_ns.clear();
        self.args.clear();
        self.subtree_len.clear();
        self.begins.clear();
    }
}

fn text_bytes(value: &ArgValue) -> usize {
    match value {
        ArgValue::Str(text) => text.len(),
        _ => 0,
    }
}
