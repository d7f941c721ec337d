//! From the order in which scopes ended to a tree.
//!
//! A thread's spans arrive in post-order: children before the span around them. Two passes turn
//! them into pre-order without a pointer in sight.
//!
//! 1. *Sizes*, as the spans arrive. A span that no other contains yet (a root so far) ends a
//!    subtree whose size is known, so the roots are found from the last span backwards, subtree by
//!    subtree. A span that ends takes the nearest roots as long as it contains them; all that lies
//!    behind the first position taken is its subtree. Roots ascend by start, so one comparison per
//!    root decides.
//! 2. *Positions*, when the frame is finished. The first pass also counted, at each position, how
//!    many larger subtrees begin there. The depth of a span is how many have begun up to its
//!    position and not ended before it, its own left out: a running sum, without a branch to
//!    mispredict. A span at position `i` with `n` spans in its subtree has `i + 1 - n` spans before
//!    its subtree in post-order, and those plus its `depth` ancestors before it in pre-order.
//!
//! A span contains another one that ended before it, started at or after it, and has its end
//! inside. If two spans have the same start, the one that ended later is therefore the parent, even
//! of an equal one of zero length. A span whose parent ends in a later frame is a root.
//!
//! # The limit
//!
//! A builder holds a settable number of spans. Beyond it, a span that contains nothing held is only
//! counted. One that does contain held spans was open when the limit was reached, and it matters
//! more than the last leaf below it: that leaf makes room. So a frame of an hour shows its
//! outermost scopes and its first details, and the tree has no gaps above any span it shows. Tasks
//! stand beside the tree, and so does what happened in them, and the points of flows; as many of
//! each are held, the first ones.

use crate::sort::sort_by;
use rustc_hash::FxHashMap;

use super::{Span, ThreadTree};
use crate::model::batch::{ArgValue, SpanArgs, SpanBatch, ThreadBatch};
use crate::model::catalog::{SiteId, ThreadId};

/// Builds the trees of one frame after the other from batches, in the same buffers.
#[derive(Debug, Default)]
pub struct TreeBuilder {
    max_spans: usize,
    held_spans: usize,
    held_async_spans: usize,
    held_task_events: usize,
    held_flows: usize,
    span_count: u64,
    dropped_spans: u64,
    /// Slots of `growing` by thread; the first `used` of them belong to the current frame.
    slots: FxHashMap<ThreadId, usize>,
    growing: Vec<GrowingTree>,
    used: usize,
    /// Trees that were recycled.
    spare: Vec<ThreadTree>,
}

/// The trees that a [`TreeBuilder`] made of a frame's batches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trees {
    /// The trees, ascending by thread. A thread that wrote messages or ended tasks, but ended no
    /// span, has an entry without spans.
    pub threads: Vec<ThreadTree>,
    /// Spans that were added, whether or not they are held in `threads`.
    pub span_count: u64,
    /// Spans that the batches report as lost in a full ring.
    pub dropped_spans: u64,
}

/// A thread's spans so far.
#[derive(Debug, Default)]
struct GrowingTree {
    ended: Vec<EndedSpan>,
    tree: ThreadTree,
}

/// A span at its position in post-order.
#[derive(Clone, Copy, Debug)]
struct EndedSpan {
    start_ticks: u64,
    duration_ticks: u64,
    site: SiteId,
    subtree_len: u32,
    /// How many subtrees of more than one span have this one as their first in post-order.
    begins: u32,
    args: (u32, u32),
}

impl TreeBuilder {
    /// Makes a builder that holds at most `max_spans` spans of a frame, of all threads together.
    #[must_use]
    pub fn new(max_spans: usize) -> Self {
        // Positions are 32-bit, and so are their sums with a depth.
        let max_spans = max_spans.min(i32::MAX as usize);
        Self {
            max_spans,
            ..Self::default()
        }
    }

    /// Returns how many spans of the current frame were added, held or not.
    #[must_use]
    pub fn span_count(&self) -> u64 {
        self.span_count
    }

    /// Adds all threads of a batch to the current frame.
    pub fn add_batch(&mut self, batch: &SpanBatch) {
        for thread in &batch.threads {
            self.add(thread);
        }
    }

    /// Adds what a thread ended to the current frame. Batches of one thread must come in the order
    /// in which they were drained.
    pub fn add(&mut self, batch: &ThreadBatch) {
        self.span_count += batch.len() as u64;
        self.dropped_spans = self.dropped_spans.saturating_add(batch.dropped_spans);
        if batch.has_no_content() {
            return;
        }
        let slot = *self.slots.entry(batch.thread).or_insert(self.used);
        if slot == self.used {
            self.used += 1;
            if slot == self.growing.len() {
                self.growing.push(GrowingTree::default());
            }
            self.growing[slot].tree = self.spare.pop().unwrap_or_default();
            self.growing[slot].tree.thread = batch.thread;
        }
        let growing = &mut self.growing[slot];
        growing.tree.messages.extend_from_slice(&batch.messages);
        let (tree, most) = (&mut growing.tree, self.max_spans);
        extend_up_to(
            &mut tree.async_spans,
            &batch.async_spans,
            &mut self.held_async_spans,
            most,
        );
        tree.async_span_count += batch.async_spans.len() as u64;
        extend_up_to(
            &mut tree.task_events,
            &batch.task_events,
            &mut self.held_task_events,
            most,
        );
        extend_up_to(&mut tree.flows, &batch.flows, &mut self.held_flows, most);

        let free = self.max_spans - self.held_spans;
        let fitting = batch.len().min(free);
        let args_done = growing.add_fitting(batch, fitting);
        self.held_spans += fitting;
        if fitting < batch.len() && self.max_spans > 0 {
            growing.add_ancestors(batch, fitting, args_done);
        }
    }

    /// Ends the frame: returns its trees, and is ready for the next one.
    pub fn finish(&mut self) -> Trees {
        let mut threads = Vec::with_capacity(self.used);
        for growing in &mut self.growing[..self.used] {
            threads.push(growing.finish());
        }
        sort_by(&mut threads, |a, b| a.thread.cmp(&b.thread));
        let trees = Trees {
            threads,
            span_count: self.span_count,
            dropped_spans: self.dropped_spans,
        };
        self.slots.clear();
        self.used = 0;
        self.held_spans = 0;
        self.held_async_spans = 0;
        self.held_task_events = 0;
        self.held_flows = 0;
        self.span_count = 0;
        self.dropped_spans = 0;
        trees
    }

    /// Takes back trees that are no longer needed, so that the next frames use their memory.
    pub fn recycle(&mut self, threads: Vec<ThreadTree>) {
        for mut tree in threads {
            // More than a few spare trees per thread seen at once would only hoard memory.
            if self.spare.len() > self.growing.len() {
                break;
            }
            tree.arg_values.clear();
            tree.messages.clear();
            tree.async_spans.clear();
            tree.async_span_count = 0;
            tree.task_events.clear();
            tree.flows.clear();
            self.spare.push(tree);
        }
    }
}

/// Appends the first of the items, as long as at most `most` are held.
fn extend_up_to<T: Copy>(items: &mut Vec<T>, added: &[T], held: &mut usize, most: usize) {
    let fits = added.len().min(most - *held);
    items.extend_from_slice(&added[..fits]);
    *held += fits;
}

impl GrowingTree {
    /// Adds the first `count` spans of a batch, for which there is room; returns how many of its
    /// argument lists were used.
    fn add_fitting(&mut self, batch: &ThreadBatch, count: usize) -> usize {
        self.ended.reserve(count);
        let columns = batch.start_ticks[..count]
            .iter()
            .zip(&batch.duration_ticks[..count])
            .zip(&batch.sites[..count]);
        let first_position = self.ended.len();
        for ((&start_ticks, &duration_ticks), &site) in columns {
            let end_ticks = start_ticks.saturating_add(duration_ticks);
            let first = self.first_contained(start_ticks, end_ticks);
            self.push(start_ticks, duration_ticks, site, first);
        }
        let fits = |args: &&SpanArgs| (args.span as usize) < count;
        let mut args_done = 0;
        for args in batch.args.iter().take_while(fits) {
            let range = self.store_args(&args.values);
            self.ended[first_position + args.span as usize].args = range;
            args_done += 1;
        }
        args_done
    }

    /// Goes on with a batch, from span `from`, when there is no room: spans that contain held ones
    /// take the place of a leaf below them.
    fn add_ancestors(&mut self, batch: &ThreadBatch, from: usize, args_done: usize) {
        let mut args = batch.args[args_done..].iter().peekable();
        for i in from..batch.len() {
            let values = args.next_if(|args| args.span as usize == i);
            let (start_ticks, end_ticks) = (batch.start_ticks[i], batch.end_ticks(i));
            let first = self.first_contained(start_ticks, end_ticks);
            if first as usize == self.ended.len() {
                continue;
            }
            self.evict_last_leaf();
            self.push(start_ticks, batch.duration_ticks[i], batch.sites[i], first);
            let range = values.map(|args| self.store_args(&args.values));
            if let (Some(range), Some(span)) = (range, self.ended.last_mut()) {
                span.args = range;
            }
        }
    }

    /// Returns where the subtree of the next span begins.
    #[inline]
    fn first_contained(&self, start_ticks: u64, end_ticks: u64) -> u32 {
        let mut first = self.ended.len();
        while let Some(root) = self.ended[..first].last()
            && root.start_ticks >= start_ticks
            && root.start_ticks.saturating_add(root.duration_ticks) <= end_ticks
        {
            first -= root.subtree_len as usize;
        }
        first as u32
    }

    /// Appends a span whose subtree begins at `first`.
    #[inline]
    fn push(&mut self, start_ticks: u64, duration_ticks: u64, site: SiteId, first: u32) {
        let subtree_len = self.ended.len() as u32 - first + 1;
        self.ended.push(EndedSpan {
            start_ticks,
            duration_ticks,
            site,
            subtree_len,
            begins: 0,
            args: (0, 0),
        });
        self.ended[first as usize].begins += u32::from(subtree_len > 1);
    }

    /// Removes the last leaf in post-order. All spans behind it are a chain of its ancestors.
    fn evict_last_leaf(&mut self) {
        let Some(leaf) = self.ended.iter().rposition(|span| span.subtree_len == 1) else {
            return;
        };
        let removed = self.ended.remove(leaf);
        for ancestor in &mut self.ended[leaf..] {
            ancestor.subtree_len -= 1;
        }
        // Subtrees that began with the leaf begin with its parent, except the parent's own: it had
        // no other child and is a leaf now.
        if let (Some(begins), Some(parent)) =
            (removed.begins.checked_sub(1), self.ended.get_mut(leaf))
        {
            parent.begins += begins;
        }
    }

    fn store_args(&mut self, values: &[ArgValue]) -> (u32, u32) {
        let stored = &mut self.tree.arg_values;
        let begin = stored.len();
        stored.extend_from_slice(values);
        match (u32::try_from(begin), u32::try_from(stored.len())) {
            (Ok(begin), Ok(end)) => (begin, end),
            // A range beyond 2^32 values does not fit, so the span has no arguments.
            _ => {
                stored.truncate(begin);
                (0, 0)
            }
        }
    }

    /// Returns the spans in pre-order, and is empty afterwards.
    fn finish(&mut self) -> ThreadTree {
        let mut tree = std::mem::take(&mut self.tree);
        // The loop below overwrites the contents of a recycled tree, span by span.
        tree.spans.resize(self.ended.len(), Span::default());
        let mut around = 0;
        for (position, span) in self.ended.iter().enumerate() {
            around += span.begins;
            // A span that contains others is among those that began, and ends here.
            around -= u32::from(span.subtree_len > 1);
            let first = position + 1 - span.subtree_len as usize;
            tree.spans[first + around as usize] = Span {
                start_ticks: span.start_ticks,
                duration_ticks: span.duration_ticks,
                site: span.site,
                depth: around,
                subtree_len: span.subtree_len,
                args: span.args,
            };
        }
        self.ended.clear();
        tree
    }
}
