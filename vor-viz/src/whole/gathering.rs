//! Sums over a range of time of a capture, computed where the capture is read.
//!
//! A part of the panel asks for a [`Gather`] over a range and gets a [`Ticket`]; the reader of the
//! capture does the work in the background. So tables and flame graphs are of all spans of the
//! range and not only of those in the [`Store`](crate::store::Store).

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::reader::PartContents;

use super::archive::{PartReader, Settled};
use super::backwards::{Backwards, Moment, Opened, Visitor};
use super::task_waits::TaskWaits;
use crate::holder::Holder;
use crate::scopes::Gather;
use crate::store::{Clock, Extent, MeasuredArgs, Span, SpanPart, Task, TrackKind};

/// A range of time, in nanoseconds since the begin of the first frame, and what of its spans is
/// measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeScope {
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) extent: Extent,
}

/// The spans of a whole capture, for questions about any range of it.
#[derive(Debug, Default)]
pub struct Spans {
    questions: Mutex<VecDeque<Question>>,
    /// Every unanswered question has a copy.
    unanswered: Arc<()>,
}

/// A question, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) scope: RangeScope,
    pub(crate) work: Box<dyn Answering>,
    shared: Arc<Shared>,
    _unanswered: Arc<()>,
}

#[derive(Debug, Default)]
struct Shared {
    answer: Mutex<Option<Box<dyn Any + Send>>>,
    /// The part that is done, in millionths.
    progress: AtomicU32,
    is_dropped: AtomicBool,
}

/// Waits for an answer. Dropping it drops the question.
#[derive(Debug)]
pub(crate) struct Ticket {
    shared: Arc<Shared>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.is_dropped.store(true, Ordering::Relaxed);
    }
}

impl Ticket {
    /// Takes the answer, if it is there.
    pub(crate) fn take<T: 'static>(&self) -> Option<T> {
        let answer = locked(&self.shared.answer).take()?;
        answer.downcast::<T>().ok().map(|answer| *answer)
    }

    /// Returns the part that is done, from 0 to 1.
    pub(crate) fn progress(&self) -> f32 {
        self.shared.progress.load(Ordering::Relaxed) as f32 / 1e6
    }
}

impl Question {
    /// Returns whether nobody waits for the answer.
    pub(crate) fn is_dropped(&self) -> bool {
        self.shared.is_dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn set_progress(&self, progress: f32) {
        let millionths = (progress * 1e6) as u32;
        self.shared.progress.store(millionths, Ordering::Relaxed);
    }

    /// Delivers the answer.
    pub(crate) fn answer(self, catalog: &Catalog, bounds_ns: (i64, i64)) {
        let answer = self.work.answer(catalog, bounds_ns);
        *locked(&self.shared.answer) = Some(answer);
    }
}

impl Spans {
    /// Asks for sums over a range.
    pub(crate) fn ask<G: Gather>(
        &self,
        scope: RangeScope,
        options: &G::Options,
        catalog: &Arc<Catalog>,
    ) -> Ticket {
        let shared = Arc::new(Shared::default());
        locked(&self.questions).push_back(Question {
            scope,
            work: Box::new(RangeGather::<G>::new(scope, options, catalog)),
            shared: Arc::clone(&shared),
            _unanswered: Arc::clone(&self.unanswered),
        });
        Ticket { shared }
    }

    /// Returns whether a question waits to be begun.
    pub(crate) fn has_questions(&self) -> bool {
        !locked(&self.questions).is_empty()
    }

    /// Returns whether a question is unanswered.
    pub(crate) fn is_busy(&self) -> bool {
        Arc::strong_count(&self.unanswered) > 1
    }

    /// Takes the next question.
    pub(crate) fn next(&self) -> Option<Question> {
        let mut questions = locked(&self.questions);
        questions.retain(|question| !question.is_dropped());
        questions.pop_front()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under the lock is complete before anything can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Computes an answer.
pub(crate) trait Answering: PartReader {
    fn as_reader(&mut self) -> &mut dyn PartReader;

    /// Returns the answer; `bounds_ns` are the begin and the end of the capture.
    fn answer(self: Box<Self>, catalog: &Catalog, bounds_ns: (i64, i64)) -> Box<dyn Any + Send>;
}

/// Passes the spans of a range to a gather.
#[derive(Debug)]
struct RangeGather<G> {
    walk: Backwards,
    sums: RangeSums<G>,
}

#[derive(Debug)]
struct RangeSums<G> {
    scope: RangeScope,
    gather: G,
    catalog: Arc<Catalog>,
    measured: MeasuredArgs,
    early: Settled,
    waits: TaskWaits,
    /// The thread of the track.
    thread: ThreadId,
    /// Number of visited spans around the next one.
    depth: usize,
}

/// The tag of a visited span.
const VISITED: u32 = 1;

impl<G: Gather> RangeGather<G> {
    fn new(scope: RangeScope, options: &G::Options, catalog: &Arc<Catalog>) -> Self {
        let mut gather = G::new(options);
        gather.begin_range(catalog, scope.begin_ns..scope.end_ns);
        Self {
            walk: Backwards::default(),
            sums: RangeSums {
                scope,
                gather,
                catalog: Arc::clone(catalog),
                measured: MeasuredArgs::default(),
                early: Settled::default(),
                waits: TaskWaits::new(catalog),
                thread: ThreadId(0),
                depth: 0,
            },
        }
    }
}

impl<G: Gather> Answering for RangeGather<G> {
    fn as_reader(&mut self) -> &mut dyn PartReader {
        self
    }

    fn answer(
        mut self: Box<Self>,
        catalog: &Catalog,
        bounds_ns: (i64, i64),
    ) -> Box<dyn Any + Send> {
        self.walk.finish(&mut self.sums);
        for (thread, span) in self.sums.waits.take_all() {
            self.sums.add_wait(thread, &span, None);
        }
        let RangeSums {
            mut gather, scope, ..
        } = self.sums;
        while gather.settle(catalog, usize::MAX) {}
        let (begin_ns, end_ns) = (
            scope.begin_ns.max(bounds_ns.0),
            scope.end_ns.min(bounds_ns.1),
        );
        let time_ns = end_ns.saturating_sub(begin_ns).max(0);
        Box::new(gather.finish(1, time_ns.unsigned_abs()))
    }
}

impl<G: Gather> PartReader for RangeGather<G> {
    fn settle(&mut self, early: Settled) {
        self.sums.early = early;
    }

    fn part(&mut self, contents: &PartContents, clock: &mut Clock<'_>) {
        self.walk.part(contents, clock, &mut self.sums);
    }

    fn span(&mut self, thread: ThreadId, span: Span, args: &[ArgValue], inside_ns: u64) {
        if self.sums.scope.extent == Extent::Whole {
            self.sums.early.insert((thread, span), inside_ns);
        }
        self.walk.span(thread, span, args, &mut self.sums);
    }

    fn task(&mut self, thread: ThreadId, task: Task) {
        if self.sums.begin_track(thread, TrackKind::Tasks, &[]) {
            Visitor::task(&mut self.sums, task);
        }
    }
}

/// Returns whether a span with this begin and end belongs to a time when it is clipped to it. One
/// without a duration does at the end of the time, and not at its begin.
#[inline]
pub(crate) fn overlaps((begin_ns, end_ns): (i64, i64), (from, to): (i64, i64)) -> bool {
    end_ns > from && (begin_ns < to || end_ns == to)
}

impl<G: Gather> RangeSums<G> {
    /// Returns whether a span belongs to the range; see [`Walk`](crate::store::Walk).
    #[inline]
    fn visits(&self, begin_ns: i64, end_ns: i64) -> bool {
        let scope = &self.scope;
        match scope.extent {
            Extent::Whole => end_ns > scope.begin_ns && end_ns <= scope.end_ns,
            Extent::Clipped => overlaps((begin_ns, end_ns), (scope.begin_ns, scope.end_ns)),
        }
    }

    fn add_task(&mut self, span: &Span, holder: Option<Holder>) {
        if self.gather.wants(span) {
            self.gather.visit(span, 0, &[], holder);
        }
        self.gather.enter(span, 0);
        let part = SpanPart {
            ns: self.part_ns(span),
            inside_ns: 0,
        };
        self.gather.leave(span, 0, part);
    }

    /// Adds the wait of a task that ended on a thread. The steps of a batch come after its tasks,
    /// so no task of the track before follows.
    fn add_wait(&mut self, thread: ThreadId, span: &Span, holder: Option<Holder>) {
        if self.gather.begin_track(thread, TrackKind::Tasks) {
            self.add_task(span, holder);
        }
    }
}

impl<G: Gather> Visitor for RangeSums<G> {
    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind, open: &[Opened]) -> bool {
        self.thread = thread;
        if !self.gather.begin_track(thread, kind) {
            return false;
        }
        // The open spans are entered again: other threads came between.
        self.depth = 0;
        for opened in open.iter().filter(|opened| opened.tag == VISITED) {
            self.gather.enter(&opened.span, self.depth);
            self.depth += 1;
        }
        true
    }

    fn reads_spans(&self) -> bool {
        G::READS_SPANS
    }

    fn moment(&mut self, moment: Moment) {
        let time = (self.scope.begin_ns, self.scope.end_ns);
        match moment {
            Moment::Message(message) if overlaps((message.ns, message.ns), time) => {
                self.gather.message(&message);
            }
            Moment::Step(step) => {
                let wait = self.waits.take(&step, &self.catalog);
                if let Some((thread, span, holder)) = wait {
                    self.add_wait(thread, &span, Some(holder));
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn part_ns(&self, span: &Span) -> u64 {
        match self.scope.extent {
            Extent::Whole => span.duration_ns,
            Extent::Clipped => {
                let (begin_ns, end_ns) = (self.scope.begin_ns, self.scope.end_ns);
                if begin_ns <= span.begin_ns && span.end_ns() <= end_ns {
                    return span.duration_ns;
                }
                let begin_ns = span.begin_ns.max(begin_ns);
                span.end_ns().min(end_ns).max(begin_ns).abs_diff(begin_ns)
            }
        }
    }

    #[inline]
    fn inside_ns(&self, thread: ThreadId, span: &Span) -> Option<u64> {
        if self.scope.extent == Extent::Clipped || span.begin_ns >= self.scope.begin_ns {
            return None;
        }
        self.early.get(&(thread, *span)).copied()
    }

    #[inline]
    fn enter(&mut self, span: &Span, _: usize, args: &[ArgValue]) -> u32 {
        if !self.visits(span.begin_ns, span.end_ns()) {
            return 0;
        }
        if G::MEASURES
            && let Some(measured) = self.measured.read(&self.catalog, span.site, args)
        {
            self.gather.measure(span, measured);
        }
        if self.gather.wants(span) {
            self.gather.visit(span, self.depth, args, Holder::of(args));
        }
        self.gather.enter(span, self.depth);
        self.depth += 1;
        VISITED
    }

    #[inline]
    fn leave(&mut self, opened: &Opened, _: usize) {
        if opened.tag == VISITED {
            self.depth = self.depth.saturating_sub(1);
            let part = SpanPart {
                ns: self.part_ns(&opened.span),
                inside_ns: opened.inside_ns,
            };
            self.gather.leave(&opened.span, self.depth, part);
        }
    }

    fn task(&mut self, task: Task) {
        let span = Span {
            begin_ns: task.begin_ns,
            duration_ns: task.duration_ns,
            site: task.site,
        };
        if !self.visits(span.begin_ns, span.end_ns()) {
            return;
        }
        let is_wanted = self.gather.wants(&span);
        if !(is_wanted && self.waits.keep(task.id, self.thread, &span)) {
            self.add_task(&span, None);
        }
    }
}
