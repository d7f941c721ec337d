//! Work over the spans of some frames, a slice per pass of the UI.
//!
//! A job walks all tracks, one after the other, and passes each span that ended in the frames to a
//! [`Gather`]. Then the gathered data settles, in slices as well: it is sorted, or percentiles are
//! computed. A finished result is valid until the store or the frames change:
//!
//! - If other frames are selected, the job restarts immediately. The old result stays,
//!   [dimmed](Job::is_dimmed), until the new one is complete.
//! - If the store grew, as it does while a program runs, the job finishes first. It restarts a
//!   quarter of a second after its last begin.
//!
//! A slice is limited by a number of spans, not by time: clock readings vary from pass to pass, and
//! the web has no clock that is allowed here.

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use vor_capture::model::catalog::ThreadId;

use crate::store::{FrameId, Span, SpanVisitor, Store, Track, TrackKind, Walk};

/// Minimum time between two begins while frames arrive, in seconds.
const REFRESH_S: f64 = 0.25;

/// Spans per pass; each costs 15 to 25 ns.
const SLICE_SPANS: usize = 30_000;

/// Spans between two checks of the slice's limit.
const STEP_SPANS: usize = 2_000;

/// Call sites or nodes that are settled per pass.
const SLICE_SETTLED: usize = 1_000;

/// Computes the result of a [`Job`] from spans.
pub trait Gather: SpanVisitor + Clone + Debug {
    /// Settings for the whole computation.
    type Options: Clone + Debug + PartialEq;
    /// The result.
    type Output: Clone + Debug;

    /// Makes an empty one.
    fn new(options: &Self::Options) -> Self;

    /// Begins the spans of another track; returns whether it needs them.
    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind) -> bool;

    /// Returns the cost so far beyond adding spans to existing entries, as a number of spans of
    /// equal cost. The first span of a call site costs more than others.
    fn extra_cost(&self) -> usize;

    /// Settles up to `most` gathered entries; returns whether there is more to do.
    fn settle(&mut self, store: &Store, most: usize) -> bool;

    /// Announces the frames before their first span.
    fn begin_frames(&mut self, store: &Store, frames: Range<usize>) {
        let _ = (store, frames);
    }

    /// Returns the result for `frames` frames with a total duration of `time_ns`.
    fn finish(self, store: &Store, frames: usize, time_ns: u64) -> Self::Output;
}

/// The frames that a result covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Selection {
    first: FrameId,
    last: FrameId,
    /// Whether these are all frames, so that new frames are included.
    all: bool,
}

impl Selection {
    fn new(store: &Store, (first, last): (usize, usize)) -> Option<Self> {
        let all = store.frames().len();
        (first <= last && last < all).then(|| Self {
            first: store.id_at(first),
            last: store.id_at(last),
            all: first == 0 && last + 1 == all,
        })
    }

    /// Returns whether the user's choice of frames is the same, even if frames arrived or left.
    fn selects_same(&self, other: &Self) -> bool {
        (self.all && other.all) || (self.first, self.last) == (other.first, other.last)
    }
}

/// Work that is split over passes, and its last result.
#[derive(Clone, Debug)]
pub struct Job<G: Gather> {
    running: Option<Running<G>>,
    done: Option<Finished<G>>,
    /// Begin of the last work, in seconds of the UI's clock.
    began_s: f64,
    generation: u64,
    dimmed: bool,
}

#[derive(Clone, Debug)]
struct Running<G: Gather> {
    wanted: Selection,
    version: u64,
    options: G::Options,
    begin_ns: i64,
    end_ns: i64,
    frames: usize,
    tracks: std::vec::IntoIter<(ThreadId, TrackKind)>,
    walk: Option<(ThreadId, TrackKind, Walk)>,
    gather: G,
    /// Number of spans processed, and the approximate total.
    seen: usize,
    expected: usize,
}

#[derive(Clone, Debug)]
struct Finished<G: Gather> {
    wanted: Selection,
    version: u64,
    options: G::Options,
    output: G::Output,
}

impl<G: Gather> Default for Job<G> {
    fn default() -> Self {
        Self {
            running: None,
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
        self.dimmed && self.running.is_some()
    }

    /// Returns the progress of the running work, from 0 to 1; `None` without running work.
    #[must_use]
    pub fn progress(&self) -> Option<f32> {
        let running = self.running.as_ref()?;
        Some((running.seen as f32 / running.expected.max(1) as f32).min(1.0))
    }

    /// Does a slice of work if there is any, and requests another pass for the rest. `frames` are
    /// the first and the last index.
    pub fn advance(
        &mut self,
        ui: &egui::Ui,
        store: &Store,
        frames: Option<(usize, usize)>,
        options: &G::Options,
    ) {
        let now_s = ui.input(|input| input.time);
        let wait_s = self.work(store, frames, options, now_s);
        match wait_s {
            Some(wait_s) if wait_s > 0.0 => {
                let wait = Duration::from_secs_f64(wait_s.min(REFRESH_S));
                ui.ctx().request_repaint_after(wait);
            }
            Some(_) => ui.ctx().request_repaint(),
            None => {}
        }
    }

    /// Does a slice of work. Returns the seconds until the next slice, or `None` if the result is
    /// complete.
    fn work(
        &mut self,
        store: &Store,
        frames: Option<(usize, usize)>,
        options: &G::Options,
        now_s: f64,
    ) -> Option<f64> {
        let Some(wanted) = frames.and_then(|frames| Selection::new(store, frames)) else {
            self.forget();
            return None;
        };
        let asked_for =
            |choice: &Selection, of: &G::Options| choice.selects_same(&wanted) && of == options;
        let goes_on = match &self.running {
            Some(running) => asked_for(&running.wanted, &running.options),
            None => false,
        };
        if !goes_on {
            self.running = None;
            let done = self.done.as_ref();
            let same_choice = done.is_some_and(|done| asked_for(&done.wanted, &done.options));
            let holds =
                |done: &Finished<G>| done.version == store.version() && done.wanted == wanted;
            if same_choice && done.is_some_and(holds) {
                return None;
            }
            // The clock of a test harness may stop or step back.
            let wait_s = (self.began_s + REFRESH_S - now_s).min(REFRESH_S);
            if same_choice && wait_s > 0.0 {
                return Some(wait_s);
            }
            self.dimmed = !same_choice;
            self.began_s = now_s;
            self.running = Running::new(store, wanted, options.clone());
        }
        self.slice(store, SLICE_SPANS, SLICE_SETTLED).then_some(0.0)
    }

    /// Does all the work in one pass, for screenshots and tests.
    pub fn finish(&mut self, store: &Store, frames: Option<(usize, usize)>, options: &G::Options) {
        self.running = frames
            .and_then(|frames| Selection::new(store, frames))
            .and_then(|wanted| Running::new(store, wanted, options.clone()));
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
        if running.walk_on(store, spans) || running.gather.settle(store, settled) {
            return true;
        }
        if let Some(running) = self.running.take() {
            let time_ns = running
                .end_ns
                .saturating_sub(running.begin_ns)
                .max(0)
                .unsigned_abs();
            self.done = Some(Finished {
                wanted: running.wanted,
                version: running.version,
                options: running.options,
                output: running.gather.finish(store, running.frames, time_ns),
            });
            self.generation += 1;
        }
        false
    }
}

impl<G: Gather> Running<G> {
    fn new(store: &Store, wanted: Selection, options: G::Options) -> Option<Self> {
        let (first, last) = (store.index_of(wanted.first)?, store.index_of(wanted.last)?);
        let time = store.time_of(first..last + 1)?;
        let rows = store.tracks().iter().flat_map(|track| &track.rows);
        let tracks = store
            .tracks()
            .iter()
            .map(|track| (track.thread, track.kind));
        let mut gather = G::new(&options);
        gather.begin_frames(store, first..last + 1);
        Some(Self {
            wanted,
            version: store.version(),
            gather,
            options,
            begin_ns: time.start,
            end_ns: time.end,
            frames: last - first + 1,
            expected: rows.map(|row| row.count(time.start, time.end)).sum(),
            tracks: tracks.collect::<Vec<_>>().into_iter(),
            walk: None,
            seen: 0,
        })
    }

    /// Walks over about `most` spans; returns whether more may follow.
    fn walk_on(&mut self, store: &Store, most: usize) -> bool {
        let track = |thread, kind| {
            let tracks = store.tracks();
            let at =
                tracks.binary_search_by_key(&(thread, kind), |track| (track.thread, track.kind));
            at.ok().and_then(|at| tracks.get(at))
        };
        let cost = |running: &Self| running.seen.saturating_add(running.gather.extra_cost());
        let until = cost(self).saturating_add(most);
        loop {
            while let Some((thread, kind, walk)) = &mut self.walk
                && let Some(track) = track(*thread, *kind)
            {
                let mut counted = SpanCounter {
                    gather: &mut self.gather,
                    spans: 0,
                };
                let more = walk.resume(track, STEP_SPANS.min(most), &mut counted);
                self.seen += counted.spans;
                if !more {
                    break;
                }
                if cost(self) >= until {
                    return true;
                }
            }
            let Some((thread, kind)) = self.tracks.next() else {
                return false;
            };
            self.walk = track(thread, kind)
                .filter(|_| self.gather.begin_track(thread, kind))
                .map(|track: &Track| (thread, kind, Walk::new(track, self.begin_ns, self.end_ns)));
        }
    }
}

/// Counts spans and forwards them.
struct SpanCounter<'a, G> {
    gather: &'a mut G,
    spans: usize,
}

impl<G: Gather> SpanVisitor for SpanCounter<'_, G> {
    #[inline]
    fn enter(&mut self, span: &Span, depth: usize) {
        self.spans += 1;
        self.gather.enter(span, depth);
    }

    #[inline]
    fn leave(&mut self, span: &Span, depth: usize, inside_ns: u64) {
        self.gather.leave(span, depth, inside_ns);
    }
}
