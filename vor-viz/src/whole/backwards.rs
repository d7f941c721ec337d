//! A walk over the spans of a capture from the last one to the first.
//!
//! Spans are stored in the order in which they ended, so from the end a span comes before all spans
//! inside it. The open spans of each thread are a stack: a span closes those that began after it,
//! and the innermost of the rest is around it. So the depth and the surroundings of a span are
//! known when it comes, however large the capture is, and memory follows the depth.

use rustc_hash::FxHashMap;
use vor_capture::model::batch::{ArgValue, SpanArgs, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::ThreadId;
use vor_capture::reader::{PartContents, PartFrame};

use crate::store::{Clock, FlowPoint, Message, Poll, Span, Step, Task, TaskBegin, TrackKind};

/// An open span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) span: Span,
    /// Total so far of the measured parts of the spans directly inside it.
    pub(crate) inside_ns: u64,
    /// Whether `inside_ns` is complete although not all spans inside come.
    pub(crate) is_settled: bool,
    /// The visitor's own value.
    pub(crate) tag: u32,
}

/// Visits what parts hold. Scopes are entered and left; their threads alternate.
pub(crate) trait Visitor {
    /// The next calls are of a track; `open` are its open spans, the outermost first. Returns
    /// whether the visitor wants the track.
    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind, open: &[Opened]) -> bool;

    /// Returns whether spans and tasks are visited, and not only messages.
    fn reads_spans(&self) -> bool {
        true
    }

    /// Returns the measured part of a span.
    fn part_ns(&self, span: &Span) -> u64 {
        span.duration_ns
    }

    /// A span begins; `depth` is the number of spans around it, and `args` is empty if it has no
    /// arguments. Returns its tag.
    fn enter(&mut self, span: &Span, depth: usize, args: &[ArgValue]) -> u32;

    /// Returns the total of the measured parts of the spans inside a span, if it is known.
    fn inside_ns(&self, thread: ThreadId, span: &Span) -> Option<u64> {
        let _ = (thread, span);
        None
    }

    /// The innermost open span ends, with all spans inside it visited.
    fn leave(&mut self, opened: &Opened, depth: usize);

    /// A task.
    fn task(&mut self, task: Task);

    /// A frame, from its begin to its end.
    fn frame(&mut self, time_ns: (i64, i64), frame: &PartFrame) {
        let _ = (time_ns, frame);
    }

    /// A message, an event of a task, or a point of a flow.
    fn moment(&mut self, moment: Moment) {
        let _ = moment;
    }
}

/// An event in the walk.
#[derive(Clone, Debug)]
pub(crate) enum Moment {
    Message(Message),
    Step(Step),
    Begin(TaskBegin),
    Poll(Poll),
    Flow(FlowPoint),
}

impl Moment {
    /// Returns its begin and its end, which differ for a poll only; `None` if it has no time.
    pub(crate) fn time_ns(&self) -> Option<(i64, i64)> {
        match self {
            Self::Message(message) => Some((message.ns, message.ns)),
            Self::Step(step) => Some((step.ns, step.ns)),
            Self::Flow(point) => Some((point.ns, point.ns)),
            Self::Poll(poll) => Some((poll.begin_ns, poll.end_ns())),
            Self::Begin(_) => None,
        }
    }
}

/// The open spans of a thread, the outermost first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    pub(crate) open: Vec<Opened>,
}

impl Stack {
    /// Adds the span that ended before all others so far.
    #[inline]
    pub(crate) fn add(
        &mut self,
        thread: ThreadId,
        span: Span,
        args: &[ArgValue],
        visitor: &mut impl Visitor,
    ) {
        while let Some(top) = self.open.last()
            && top.span.begin_ns > span.begin_ns
        {
            self.leave(visitor);
        }
        let known = visitor.inside_ns(thread, &span);
        let tag = visitor.enter(&span, self.open.len(), args);
        self.open.push(Opened {
            span,
            inside_ns: known.unwrap_or(0),
            is_settled: known.is_some(),
            tag,
        });
    }

    #[inline]
    fn leave(&mut self, visitor: &mut impl Visitor) {
        let Some(opened) = self.open.pop() else {
            return;
        };
        visitor.leave(&opened, self.open.len());
        if let Some(around) = self.open.last_mut().filter(|around| !around.is_settled) {
            let part_ns = visitor.part_ns(&opened.span);
            around.inside_ns = around.inside_ns.saturating_add(part_ns);
        }
    }

    /// Leaves all open spans.
    fn finish(&mut self, visitor: &mut impl Visitor) {
        while !self.open.is_empty() {
            self.leave(visitor);
        }
    }
}

/// The state of a walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backwards {
    threads: FxHashMap<ThreadId, Stack>,
}

impl Backwards {
    /// Visits a part; all later parts were visited before.
    pub(crate) fn part(
        &mut self,
        contents: &PartContents,
        clock: &mut Clock<'_>,
        visitor: &mut impl Visitor,
    ) {
        for frame in contents.frames.iter().rev() {
            let time_ns = (clock.ns(frame.start_ticks), clock.ns(frame.end_ticks));
            visitor.frame(time_ns, frame);
        }
        for batch in contents.threads.iter().rev() {
            self.spans(batch, clock, visitor);
            if visitor.reads_spans() {
                tasks(batch, clock, visitor);
            }
        }
    }

    /// Visits a span of a later part without the rest of that part.
    pub(crate) fn span(
        &mut self,
        thread: ThreadId,
        span: Span,
        args: &[ArgValue],
        visitor: &mut impl Visitor,
    ) {
        let stack = self.threads.entry(thread).or_default();
        if visitor.reads_spans() && visitor.begin_track(thread, TrackKind::Scopes, &stack.open) {
            stack.add(thread, span, args, visitor);
        }
    }

    fn spans(&mut self, batch: &ThreadBatch, clock: &mut Clock<'_>, visitor: &mut impl Visitor) {
        if batch.sites.is_empty() && batch.messages.is_empty() && batch.flows.is_empty() {
            return;
        }
        let thread = batch.thread;
        let stack = self.threads.entry(thread).or_default();
        if !visitor.begin_track(thread, TrackKind::Scopes, &stack.open) {
            return;
        }
        for message in batch.messages.iter().rev() {
            visitor.moment(Moment::Message(Message {
                ns: clock.ns(message.ticks),
                text: std::sync::Arc::clone(&message.text),
            }));
        }
        if !visitor.reads_spans() {
            return;
        }
        for point in batch.flows.iter().rev() {
            visitor.moment(Moment::Flow(FlowPoint {
                flow: point.flow,
                ns: clock.ns(point.ticks),
                stage: point.stage,
            }));
        }
        let len = batch.len();
        let ends = (0..len).map(|i| batch.end_ticks(i));
        if ends.is_sorted() {
            let mut args = batch.args.iter().rev().peekable();
            for i in (0..len).rev() {
                while args.next_if(|args| args.span as usize > i).is_some() {}
                let args = args.next_if(|args| args.span as usize == i);
                let args = args.map_or(&[][..], |args| &args.values);
                stack.add(thread, span_of(batch, i, clock), args, visitor);
            }
        } else {
            // This is so in a damaged capture only.
            let mut order: Vec<usize> = (0..len).collect();
            order.sort_by_key(|&i| (batch.end_ticks(i), std::cmp::Reverse(batch.start_ticks[i])));
            for &i in order.iter().rev() {
                let args = batch.args.iter().find(|args| args.span as usize == i);
                let args = args.map_or(&[][..], |args| &args.values);
                stack.add(thread, span_of(batch, i, clock), args, visitor);
            }
        }
    }

    /// Calls `each` for the open spans of every thread.
    pub(crate) fn for_each_open(&mut self, mut each: impl FnMut(ThreadId, &mut Opened)) {
        for (&thread, stack) in &mut self.threads {
            stack
                .open
                .iter_mut()
                .for_each(|opened| each(thread, opened));
        }
    }

    /// Leaves all open spans.
    pub(crate) fn finish(mut self, visitor: &mut impl Visitor) {
        let mut threads: Vec<ThreadId> = self.threads.keys().copied().collect();
        threads.sort_unstable();
        for thread in threads {
            if let Some(stack) = self.threads.get_mut(&thread)
                && visitor.begin_track(thread, TrackKind::Scopes, &stack.open)
            {
                stack.finish(visitor);
            }
        }
    }
}

/// Returns the arguments of a span that ended in a part; empty if it has none.
pub(crate) fn args_of<'a>(
    contents: &'a PartContents,
    clock: &mut Clock<'_>,
    thread: ThreadId,
    span: &Span,
) -> &'a [ArgValue] {
    for batch in contents
        .threads
        .iter()
        .filter(|batch| batch.thread == thread)
    {
        let of = |args: &SpanArgs, clock: &mut Clock<'_>| match args.span as usize {
            at if at < batch.len() => Some(span_of(batch, at, clock)),
            _ => None,
        };
        // Spans are in the order of their ends.
        let first = batch.args.partition_point(|args| {
            of(args, clock).is_some_and(|other| other.end_ns() < span.end_ns())
        });
        for args in &batch.args[first..] {
            match of(args, clock) {
                Some(other) if other == *span => return &args.values,
                Some(other) if other.end_ns() == span.end_ns() => {}
                _ => break,
            }
        }
    }
    &[]
}

#[inline]
fn span_of(batch: &ThreadBatch, i: usize, clock: &mut Clock<'_>) -> Span {
    let (begin_ns, duration_ns) = clock.span(batch.start_ticks[i], batch.end_ticks(i));
    Span {
        begin_ns,
        duration_ns,
        site: batch.sites[i],
    }
}

fn tasks(batch: &ThreadBatch, clock: &mut Clock<'_>, visitor: &mut impl Visitor) {
    if batch.async_spans.is_empty() && batch.task_events.is_empty() {
        return;
    }
    if !visitor.begin_track(batch.thread, TrackKind::Tasks, &[]) {
        return;
    }
    for task in batch.async_spans.iter().rev() {
        let (begin_ns, duration_ns) = clock.span(task.start_ticks, task.end_ticks());
        visitor.task(Task {
            id: task.id,
            site: task.site,
            begin_ns,
            duration_ns,
        });
    }
    for event in batch.task_events.iter().rev() {
        match event.kind {
            TaskEventKind::Step => visitor.moment(Moment::Step(Step {
                task: event.task,
                site: event.site,
                ns: clock.ns(event.start_ticks),
            })),
            TaskEventKind::Begin { given_id } => visitor.moment(Moment::Begin(TaskBegin {
                task: event.task,
                given_id,
            })),
            TaskEventKind::Poll { .. } => {
                let (begin_ns, duration_ns) = clock.span(event.start_ticks, event.end_ticks());
                visitor.moment(Moment::Poll(Poll {
                    task: event.task,
                    begin_ns,
                    duration_ns,
                }));
            }
            _ => {}
        }
    }
}
