//! The spans of the current frame, whose depth is known when the frame ends.
//!
//! A thread's spans arrive children first, so the depth of a span is known when all spans around it
//! have ended. Spans wait for the end of their frame in columns, in order of arrival. Each has two
//! counts, as in [`TreeBuilder`](vor_capture::model::frame::TreeBuilder): the size of its subtree,
//! and the number of larger subtrees that begin with it. The depth is a running sum of these.
//!
//! A frame of an hour would fill the memory, so at most [`MAX_SPANS`] spans wait. Beyond that, all
//! waiting spans are written without a depth. Spans that arrive later have a depth again, since the
//! spans around them arrive later still.

use rustc_hash::FxHashMap;
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, ThreadBatch};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::stats::SpanTimes;

use super::coded::NULL;

/// Most spans that wait for the end of their frame: as many as a frame with trees has. Texts of
/// arguments count as a span per [`SPAN_BYTES`].
pub(super) const MAX_SPANS: usize = if cfg!(any(test, miri)) {
    1 << 10
} else {
    1 << 20
};

/// Approximate size of a waiting span.
const SPAN_BYTES: usize = 40;

/// Spans of a thread whose memory always remains allocated.
const RETAINED_SPANS: usize = 1 << 14;

/// The spans of all threads that ended in the current frame.
#[derive(Debug, Default)]
pub(super) struct CurrentFrame {
    slots: FxHashMap<ThreadId, usize>,
    threads: Vec<ThreadSpans>,
    used: usize,
    weight: usize,
}

/// The spans of a thread that ended in the current frame, as columns, in order of their ends.
#[derive(Debug, Default)]
pub(super) struct ThreadSpans {
    pub(super) thread: ThreadId,
    pub(super) start_ticks: Vec<u64>,
    pub(super) duration_ticks: Vec<u64>,
    pub(super) sites: Vec<SiteId>,
    pub(super) self_ns: Vec<u64>,
    pub(super) args: Vec<SpanArgs>,
    subtree_len: Vec<u32>,
    /// Number of subtrees of more than one span whose first span is this one.
    begins: Vec<u32>,
}

impl CurrentFrame {
    /// Adds the spans that a thread ended.
    pub(super) fn add(&mut self, batch: &ThreadBatch, times: &[SpanTimes]) {
        if batch.sites.is_empty() {
            return;
        }
        let slot = *self.slots.entry(batch.thread).or_insert(self.used);
        if slot == self.used {
            self.used += 1;
            if slot == self.threads.len() {
                self.threads.push(ThreadSpans::default());
            }
            self.threads[slot].thread = batch.thread;
        }
        self.weight += self.threads[slot].add(batch, times);
    }

    /// Returns whether more spans wait than allowed.
    pub(super) fn is_full(&self) -> bool {
        self.weight > MAX_SPANS
    }

    /// Returns the threads that ended a span, in the order in which they first did.
    pub(super) fn threads(&self) -> &[ThreadSpans] {
        &self.threads[..self.used]
    }

    /// Removes all spans, and keeps the memory that the next frame is likely to need.
    pub(super) fn clear(&mut self) {
        for thread in &mut self.threads[..self.used] {
            thread.clear();
        }
        // Threads come and go; the memory of threads that ended long ago is freed.
        self.threads.truncate(self.used.max(8));
        self.slots.clear();
        self.used = 0;
        self.weight = 0;
    }
}

impl ThreadSpans {
    /// Appends a batch, and returns its weight in spans.
    fn add(&mut self, batch: &ThreadBatch, times: &[SpanTimes]) -> usize {
        let first = self.sites.len();
        self.start_ticks.extend_from_slice(&batch.start_ticks);
        self.duration_ticks.extend_from_slice(&batch.duration_ticks);
        self.sites.extend_from_slice(&batch.sites);
        self.self_ns.extend(times.iter().map(|times| times.self_ns));
        self.begins.resize(self.sites.len(), 0);
        for position in first..self.sites.len() {
            let begin = self.first_contained(position);
            let subtree_len = (position - begin) as u32 + 1;
            self.subtree_len.push(subtree_len);
            self.begins[begin] += u32::from(subtree_len > 1);
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

    /// Returns the position where the subtree of a span begins: the span itself, or the first span
    /// that it contains.
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

    /// Appends the depth of every span, or [`NULL`].
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
                    // A span that contains others is counted in `begins`, and ends here.
                    around -= u32::from(subtree_len > 1);
                    around
                }),
        );
    }

    fn clear(&mut self) {
        // Many short frames do not retain the memory of one long frame, in each of several threads.
        if self.sites.capacity() > RETAINED_SPANS && self.sites.capacity() > 4 * self.sites.len() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(count: usize) -> ThreadBatch {
        filled!(ThreadBatch {
            start_ticks: (0..count as u64).collect(),
            duration_ticks: vec![1; count],
            sites: vec![SiteId(1); count]
        })
    }

    #[test]
    fn a_frame_is_full_with_more_spans_than_allowed() {
        let mut frame = CurrentFrame::default();
        frame.add(&spans(MAX_SPANS - 1), &[]);
        frame.add(&spans(1), &[]);
        assert!(!frame.is_full());
        frame.add(&spans(1), &[]);
        assert!(frame.is_full());
        frame.clear();
        assert!(!frame.is_full());
    }

    #[test]
    fn texts_of_arguments_weigh_as_much_as_the_spans_that_fit_into_them() {
        let text = |bytes: usize| ArgValue::Str("x".repeat(bytes).into());
        let weight = |values: Vec<ArgValue>| {
            let mut batch = spans(7);
            batch.args = vec![filled!(SpanArgs { span: 3, values })];
            ThreadSpans::default().add(&batch, &[])
        };
        // The list of arguments is as much as a span.
        let list = ThreadSpans::default().add(&spans(7), &[]) + 1;
        assert_eq!(list, 8);
        assert_eq!(weight(vec![ArgValue::U64(u64::MAX); 100]), list);
        assert_eq!(weight(vec![text(SPAN_BYTES - 1)]), list);
        assert_eq!(weight(vec![text(3 * SPAN_BYTES)]), list + 3);
        let halves = vec![text(SPAN_BYTES / 2), text(2 * SPAN_BYTES - SPAN_BYTES / 2)];
        assert_eq!(weight(halves), list + 2);
    }

    /// Adds spans and removes them, and returns how many have memory then.
    fn used(thread: &mut ThreadSpans, count: usize) -> usize {
        thread.add(&spans(count), &[]);
        thread.clear();
        assert!(thread.sites.is_empty());
        thread.sites.capacity()
    }

    #[test]
    fn a_short_frame_frees_the_memory_of_a_long_one() {
        let mut thread = ThreadSpans::default();
        let long = RETAINED_SPANS + 1;
        assert_eq!(used(&mut thread, long), long, "the next may be as long");
        assert_eq!(used(&mut thread, long), long);
        assert_eq!(used(&mut thread, 10), 0);
        // A frame of a fourth is long enough.
        let long = 4 * RETAINED_SPANS;
        assert_eq!(used(&mut thread, long), long);
        assert_eq!(used(&mut thread, RETAINED_SPANS), long);
        assert_eq!(used(&mut thread, RETAINED_SPANS - 1), 0);
        // A little memory always remains.
        assert_eq!(used(&mut thread, RETAINED_SPANS), RETAINED_SPANS);
        assert_eq!(used(&mut thread, 1), RETAINED_SPANS);
    }
}
