//! Work over the spans of some frames, a slice per pass of the UI.
//!
//! A job walks all tracks, one after the other, and passes the spans of the frames to a [`Gather`].
//! Its options say [which spans](Extent) these are. Then the gathered data settles, in slices as
//! well: it is sorted, or percentiles are computed. A finished result is valid until the store or
//! the frames change:
//!
//! - If other frames are selected, the job restarts immediately. The old result stays,
//!   [dimmed](Job::is_dimmed), until the new one is complete.
//! - If the store grew, as it does while a program runs, the job finishes first. It restarts a
//!   quarter of a second after its last begin.
//!
//! A slice is limited by a number of spans, not by time: clock readings vary from pass to pass, and
//! the web has no clock that is allowed here.
//!
//! The frames of a store may be a part of a capture. Then a job over a range of time or over the
//! whole capture asks the reader of the capture ([`Spans`]), and waits for the answer.

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::model::measures::Measured;

use crate::holder::Holder;
use crate::store::{
    Extent, FrameId, MeasuredArgs, Message, Span, SpanPart, SpanVisitor, Store, TrackId, TrackKind,
    Walk,
};
use crate::view::Scope;
use crate::whole::{RangeScope, Spans, Ticket};

/// Minimum time between two begins while frames arrive, in seconds.
const REFRESH_S: f64 = 0.25;

/// Time between two looks for an answer, in seconds.
const WAIT_S: f64 = 0.02;

/// Spans per pass; each costs 15 to 25 ns.
const SLICE_SPANS: usize = 30_000;

/// Spans between two checks of the slice's limit.
const STEP_SPANS: usize = 2_000;

/// Call sites or nodes that are settled per pass.
const SLICE_SETTLED: usize = 1_000;

/// Computes the result of a [`Job`] from spans.
pub trait Gather: SpanVisitor + Clone + Debug + Send + 'static {
    /// Settings for the whole computation.
    type Options: Clone + Debug + PartialEq;
    /// The result.
    type Output: Clone + Debug + Send + 'static;

    /// Whether it reads spans. Otherwise it gets messages only.
    const READS_SPANS: bool = true;

    /// Whether it takes [measured](Self::measure) values.
    const MEASURES: bool = false;

    /// Makes an empty one.
    fn new(options: &Self::Options) -> Self;

    /// Returns which spans of the frames it needs.
    fn extent(options: &Self::Options) -> Extent;

    /// Begins the spans of another track; returns whether it needs them.
    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind) -> bool;

    /// Returns the cost so far beyond adding spans to existing entries, as a number of spans of
    /// equal cost. The first span of a call site costs more than others.
    fn extra_cost(&self) -> usize;

    /// Settles up to `most` gathered entries; returns whether there is more to do.
    fn settle(&mut self, catalog: &Catalog, most: usize) -> bool;

    /// Announces the time that the spans are of, before the first of them.
    fn begin_range(&mut self, catalog: &Catalog, time_ns: Range<i64>) {
        let _ = (catalog, time_ns);
    }

    /// Takes what a scope measured beside its duration, before the span is entered. Spans that
    /// measured nothing are left out.
    fn measure(&mut self, span: &Span, measured: Measured) {
        let _ = (span, measured);
    }

    /// Returns whether a span of the current track is to be [visited](Self::visit).
    #[inline]
    fn wants(&self, span: &Span) -> bool {
        let _ = span;
        false
    }

    /// Takes a wanted span with its arguments, once, before it is entered. Tasks come without
    /// arguments. A wait has the holder of its lock, if one is known.
    fn visit(&mut self, span: &Span, depth: usize, args: &[ArgValue], holder: Option<Holder>) {
        let _ = (span, depth, args, holder);
    }

    /// Takes a message of the current track.
    fn message(&mut self, message: &Message) {
        let _ = message;
    }

    /// Returns the result for `frames` frames with a total duration of `time_ns`; for a range of
    /// time, `frames` is 1.
    fn finish(self, frames: usize, time_ns: u64) -> Self::Output;
}

/// The range that a result covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    Frames {
        first: FrameId,
        last: FrameId,
        /// Whether these are all frames, so that new frames are included.
        all: bool,
    },
    Time {
        begin_ns: i64,
        end_ns: i64,
    },
}

impl Selection {
    fn new(store: &Store, scope: Scope) -> Option<Self> {
        let all = store.frames().len();
        match scope {
            Scope::Frames(first, last) => (first <= last && last < all).then(|| Self::Frames {
                first: store.id_at(first),
                last: store.id_at(last),
                all: first == 0 && last + 1 == all,
            }),
            Scope::Time { begin_ns, end_ns } => Some(Self::Time { begin_ns, end_ns }),
            Scope::Whole => Some(Self::Time {
                begin_ns: i64::MIN,
                end_ns: i64::MAX,
            }),
        }
    }

    /// Returns whether the user's choice is the same, even if frames arrived or left.
    fn selects_same(&self, other: &Self) -> bool {
        let both_all = |one: &Self| matches!(one, Self::Frames { all: true, .. });
        match (self, other) {
            (one, other) if both_all(one) && both_all(other) => true,
            (
                Self::Frames { first, last, .. },
                Self::Frames {
                    first: other_first,
                    last: other_last,
                    ..
                },
            ) => (first, last) == (other_first, other_last),
            _ => self == other,
        }
    }
}

/// A question to the reader of the capture.
#[derive(Debug)]
struct Asked<G: Gather> {
    selection: Selection,
    options: G::Options,
    ticket: Ticket,
}

/// Work that is split over passes, and its last result.
#[derive(Debug)]
pub struct Job<G: Gather> {
    running: Option<JobProgress<G>>,
    asked: Option<Asked<G>>,
    done: Option<JobResult<G>>,
    /// Begin of the last work, in seconds of the UI's clock.
    began_s: f64,
    generation: u64,
    dimmed: bool,
}

#[derive(Clone, Debug)]
struct JobProgress<G: Gather> {
    selection: Selection,
    version: u64,
    options: G::Options,
    begin_ns: i64,
    end_ns: i64,
    frames: usize,
    tracks: std::vec::IntoIter<TrackId>,
    walk: Option<(TrackId, Walk)>,
    gather: G,
    measured: MeasuredArgs,
    /// Number of spans processed, and the approximate total.
    processed: usize,
    expected: usize,
}

#[derive(Clone, Debug)]
struct JobResult<G: Gather> {
    selection: Selection,
    version: u64,
    options: G::Options,
    output: G::Output,
}

/// A copy has the result, and no question of its own.
impl<G: Gather> Clone for Job<G> {
    fn clone(&self) -> Self {
        Self {
            running: self.running.clone(),
            asked: None,
            done: self.done.clone(),
            began_s: self.began_s,
            generation: self.generation,
            dimmed: self.dimmed,
        }
    }
}

impl<G: Gather> Default for Job<G> {
    fn default() -> Self {
        Self {
            running: None,
            asked: None,
            done: None,
            began_s: f64::NEG_INFINITY,
            generation: 0,
            dimmed: false,
        }
    }
}

impl<G: Gather> Job<G> {
    /// Returns the latest result, if there is one.
    #[must_use]
    pub fn output(&self) -> Option<&G::Output> {
        self.done.as_ref().map(|done| &done.output)
    }

    /// Returns a number that changes whenever [`output`](Self::output) does.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns whether the latest result covers other frames than selected.
    #[must_use]
    pub fn is_dimmed(&self) -> bool {
        self.output().is_some() && self.dimmed && (self.running.is_some() || self.asked.is_some())
    }

    /// Returns the progress of the running work, from 0 to 1; `None` without running work.
    #[must_use]
    pub fn progress(&self) -> Option<f32> {
        if let Some(asked) = &self.asked {
            return Some(asked.ticket.progress());
        }
        let running = self.running.as_ref()?;
        Some((running.processed as f32 / running.expected.max(1) as f32).min(1.0))
    }

    /// Does a slice of work if there is any, and requests another pass for the rest. With `spans`,
    /// ranges of time are of a capture that `store` holds a part of.
    pub fn advance(
        &mut self,
        ui: &egui::Ui,
        store: &Store,
        spans: Option<&Spans>,
        scope: Option<Scope>,
        options: &G::Options,
    ) {
        let now_s = ui.input(|input| input.time);
        let wait_s = match (spans, scope) {
            (Some(spans), Some(scope @ (Scope::Time { .. } | Scope::Whole))) => {
                self.ask(store, spans, scope, options)
            }
            _ => {
                self.asked = None;
                self.work(store, scope, options, now_s)
            }
        };
        match wait_s {
            Some(wait_s) if wait_s > 0.0 => {
                let wait = Duration::from_secs_f64(wait_s.min(REFRESH_S));
                ui.ctx().request_repaint_after(wait);
            }
            Some(_) => ui.ctx().request_repaint(),
            None => {}
        }
    }

    /// Asks the reader of the capture, or looks for its answer. Returns the seconds until the next
    /// look, or `None` if the result is there.
    fn ask(
        &mut self,
        store: &Store,
        spans: &Spans,
        scope: Scope,
        options: &G::Options,
    ) -> Option<f64> {
        self.running = None;
        let selection = Selection::new(store, scope)?;
        let Selection::Time { begin_ns, end_ns } = selection else {
            return None;
        };
        let is_wanted = |other: &Selection, of: &G::Options| *other == selection && of == options;
        if let Some(done) = &self.done
            && is_wanted(&done.selection, &done.options)
        {
            self.asked = None;
            return None;
        }
        let asked = self.asked.take();
        let asked = asked.filter(|asked| is_wanted(&asked.selection, &asked.options));
        let asked = asked.unwrap_or_else(|| {
            self.dimmed = true;
            let scope = RangeScope {
                begin_ns,
                end_ns,
                extent: G::extent(options),
            };
            Asked {
                selection,
                options: options.clone(),
                ticket: spans.ask::<G>(scope, options, store.catalog()),
            }
        });
        let Some(output) = asked.ticket.take::<G::Output>() else {
            self.asked = Some(asked);
            return Some(WAIT_S);
        };
        self.done = Some(JobResult {
            selection,
            version: store.version(),
            options: asked.options,
            output,
        });
        self.generation += 1;
        None
    }

    /// Does a slice of work. Returns the seconds until the next slice, or `None` if the result is
    /// complete.
    fn work(
        &mut self,
        store: &Store,
        scope: Option<Scope>,
        options: &G::Options,
        now_s: f64,
    ) -> Option<f64> {
        let Some(selection) = scope.and_then(|scope| Selection::new(store, scope)) else {
            self.forget();
            return None;
        };
        let matches_request =
            |other: &Selection, of: &G::Options| other.selects_same(&selection) && of == options;
        let is_current = match &self.running {
            Some(running) => matches_request(&running.selection, &running.options),
            None => false,
        };
        if !is_current {
            self.running = None;
            let done = self.done.as_ref();
            let same_selection =
                done.is_some_and(|done| matches_request(&done.selection, &done.options));
            let is_valid = |done: &JobResult<G>| {
                done.version == store.version() && done.selection == selection
            };
            if same_selection && done.is_some_and(is_valid) {
                return None;
            }
            // The clock of a test harness may stop or step back.
            let wait_s = (self.began_s + REFRESH_S - now_s).min(REFRESH_S);
            if same_selection && wait_s > 0.0 {
                return Some(wait_s);
            }
            self.dimmed = !same_selection;
            self.began_s = now_s;
            self.running = JobProgress::new(store, selection, options.clone());
        }
        self.slice(store, SLICE_SPANS, SLICE_SETTLED).then_some(0.0)
    }

    /// Does all the work in one pass, for screenshots and tests.
    pub fn finish(&mut self, store: &Store, scope: Option<Scope>, options: &G::Options) {
        self.running = scope
            .and_then(|scope| Selection::new(store, scope))
            .and_then(|selection| JobProgress::new(store, selection, options.clone()));
        if self.running.is_none() {
            self.forget();
        }
        while self.slice(store, usize::MAX, usize::MAX) {}
    }

    fn forget(&mut self) {
        self.generation += u64::from(self.done.is_some());
        self.running = None;
        self.done = None;
    }

    /// Continues the running work; returns whether there is more to do.
    fn slice(&mut self, store: &Store, spans: usize, settled: usize) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        if running.continue_walk(store, spans) || running.gather.settle(store.catalog(), settled) {
            return true;
        }
        if let Some(running) = self.running.take() {
            let time_ns = running
                .end_ns
                .saturating_sub(running.begin_ns)
                .max(0)
                .unsigned_abs();
            self.done = Some(JobResult {
                selection: running.selection,
                version: running.version,
                options: running.options,
                output: running.gather.finish(running.frames, time_ns),
            });
            self.generation += 1;
        }
        false
    }
}

impl<G: Gather> JobProgress<G> {
    fn new(store: &Store, selection: Selection, options: G::Options) -> Option<Self> {
        let mut gather = G::new(&options);
        let (frames, time) = match selection {
            Selection::Frames { first, last, .. } => {
                let (first, last) = (store.index_of(first)?, store.index_of(last)?);
                (last - first + 1, store.time_of(first..last + 1)?)
            }
            Selection::Time { begin_ns, end_ns } => (1, begin_ns..end_ns),
        };
        gather.begin_range(store.catalog(), time.clone());
        let rows = store.tracks().iter().flat_map(|track| &track.rows);
        let tracks = store.tracks().iter().map(|track| track.id);
        Some(Self {
            selection,
            version: store.version(),
            gather,
            measured: MeasuredArgs::default(),
            options,
            begin_ns: time.start,
            end_ns: time.end,
            frames,
            expected: rows.map(|row| row.count(time.start, time.end)).sum(),
            tracks: tracks.collect::<Vec<_>>().into_iter(),
            walk: None,
            processed: 0,
        })
    }

    /// Walks over about `most` spans; returns whether more may follow.
    fn continue_walk(&mut self, store: &Store, most: usize) -> bool {
        let track = |id| {
            let tracks = store.tracks();
            let at = tracks.binary_search_by_key(&id, |track| track.id);
            at.ok().and_then(|at| tracks.get(at))
        };
        let cost = |running: &Self| {
            running
                .processed
                .saturating_add(running.gather.extra_cost())
        };
        let until = cost(self).saturating_add(most);
        loop {
            while let Some((id, walk)) = &mut self.walk
                && let Some(track) = track(*id)
            {
                let mut counted = SpanCounter {
                    gather: &mut self.gather,
                    catalog: store.catalog(),
                    measured: &mut self.measured,
                    is_of_scopes: track.id.kind() == TrackKind::Scopes,
                    spans: 0,
                };
                let more = walk.resume(track, STEP_SPANS.min(most), &mut counted);
                self.processed += counted.spans;
                if !more {
                    break;
                }
                if cost(self) >= until {
                    return true;
                }
            }
            let Some(id) = self.tracks.next() else {
                return false;
            };
            self.walk = None;
            let (Some(thread), Some(track)) = (id.thread(), track(id)) else {
                continue;
            };
            if !self.gather.begin_track(thread, id.kind()) {
                continue;
            }
            // As a span without a duration, one at the begin belongs to the range before.
            let first_ns = self.begin_ns.saturating_add(1);
            track
                .messages_within(first_ns, self.end_ns)
                .for_each(|message| self.gather.message(message));
            if G::READS_SPANS {
                let extent = G::extent(&self.options);
                let walk = Walk::new(track, self.begin_ns, self.end_ns, extent);
                self.walk = Some((id, walk));
            }
        }
    }
}

/// Counts spans and forwards them.
struct SpanCounter<'a, G> {
    gather: &'a mut G,
    catalog: &'a Catalog,
    measured: &'a mut MeasuredArgs,
    /// The store's arguments of a task are vor's own.
    is_of_scopes: bool,
    spans: usize,
}

impl<G: Gather> SpanCounter<'_, G> {
    fn measure(&mut self, span: &Span, args: &[ArgValue]) {
        if let Some(measured) = self.measured.read(self.catalog, span.site, args) {
            self.gather.measure(span, measured);
        }
    }
}

impl<G: Gather> SpanVisitor for SpanCounter<'_, G> {
    #[inline]
    fn enter(&mut self, span: &Span, depth: usize) {
        self.enter_with(span, depth, &[]);
    }

    #[inline]
    fn enter_with(&mut self, span: &Span, depth: usize, args: &[ArgValue]) {
        self.spans += 1;
        let own = if self.is_of_scopes { args } else { &[] };
        if G::MEASURES && !own.is_empty() {
            self.measure(span, own);
        }
        if self.gather.wants(span) {
            self.gather.visit(span, depth, own, Holder::of(args));
        }
        self.gather.enter(span, depth);
    }

    #[inline]
    fn leave(&mut self, span: &Span, depth: usize, part: SpanPart) {
        self.gather.leave(span, depth, part);
    }
}
