//! The frames of the panel, with their spans in a form that is fast to draw at any zoom.
//!
//! The store works the same way for a running program and for a capture. Frames are appended in
//! time order, and the oldest are removed when there are too many frames or spans. All spans of a
//! thread share one time axis across frames. Times are nanoseconds since an origin near the first
//! frame, so that `f64` arithmetic is exact when drawing.

mod block;
mod changes;
mod measured_args;
mod depths;
mod layer;
mod metric_bins;
mod off_cpu;
mod open_tasks;
mod polls;
mod row;
mod track;
mod walk;
mod level_of_detail;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use vor_capture::model::catalog::Catalog;

use crate::holder::{Holder, has_holder};

pub(crate) use block::Clock;
pub use block::{
    FlowPoint, FrameBlock, FrameEntry, Message, RowBlock, Step, Task, TaskBegin, ThreadBlock,
};
use changes::Changes;
pub use layer::Layer;
pub(crate) use layer::LayerTotals;
pub(crate) use level_of_detail::{END_PX, MIN_LABELLED_PX};
pub use level_of_detail::{PixelScale, RowPixels, SiteSet, WideSpan};
pub(crate) use measured_args::MeasuredArgs;
pub(crate) use metric_bins::last_ns;
pub use metric_bins::{MetricBin, MetricBins, Series, ValueSummary};
pub use off_cpu::OffCpu;
pub use open_tasks::TaskArgs;
use open_tasks::{EndedTask, OpenTasks};
pub use polls::{LanePoll, Poll, Polls};
pub use row::{Row, Span};
use track::TaskNames;
pub use track::{Track, TrackId, TrackKind};
pub use walk::{Extent, SpanPart, SpanVisitor, Walk};

/// Returns the holder of the lock that a task waited for, if one of its steps names it.
fn holder_of(task: &Task, steps: &[Step], catalog: &Catalog) -> Option<Holder> {
    let mut names = steps.iter().map(|step| catalog.site_name(step.site));
    let holder = names.find_map(Holder::of_step)?;
    catalog
        .site(task.site)
        .is_some_and(has_holder)
        .then_some(holder)
}

/// Identifies a frame of a store for its whole life: the n-th frame pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u64);

/// Frames in time order, with their spans.
#[derive(Clone, Debug)]
pub struct Store {
    catalog: Arc<Catalog>,
    frames: VecDeque<FrameEntry>,
    first: FrameId,
    /// In the order of their ids: first those of ended tasks, which are not drawn.
    tracks: Vec<Track>,
    open_tasks: OpenTasks,
    task_names: TaskNames,
    max_frames: usize,
    max_spans: usize,
    stored_spans: usize,
    /// Number of polls beside the lanes of tasks.
    stored_polls: usize,
    version: u64,
    changes: Changes,
    /// The picture that the flame chart shows instead of the spans of the frames.
    layer: Option<Box<Layer>>,
}

impl Store {
    /// Makes a store with a maximum number of frames and spans; the number of polls of tasks has
    /// the same maximum. It always holds at least one frame, regardless of its number of spans.
    #[must_use]
    pub fn new(max_frames: usize, max_spans: usize) -> Self {
        Self {
            catalog: Arc::default(),
            frames: VecDeque::new(),
            first: FrameId(0),
            tracks: Vec::new(),
            open_tasks: OpenTasks::default(),
            task_names: TaskNames::default(),
            max_frames: max_frames.max(1),
            max_spans,
            stored_spans: 0,
            stored_polls: 0,
            version: 0,
            changes: Changes::default(),
            layer: None,
        }
    }

    /// Sets the maximum number of spans.
    pub fn set_max_spans(&mut self, max_spans: usize) {
        self.max_spans = max_spans;
        self.evict();
    }

    /// Returns the number after that of the newest frame; 0 if there is none.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.frames
            .back()
            .map_or(0, |frame| frame.number.saturating_add(1))
    }

    /// Returns a number that changes whenever the contents do.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns a time whose spans have not changed since a version: those that were removed ended
    /// by its begin, and those that were added or moved to another row begin at its end or later.
    /// `None` if any span may have changed.
    pub(crate) fn unchanged_since(&self, version: u64) -> Option<Range<i64>> {
        self.changes.unchanged_since(version)
    }

    /// Returns the catalog that resolves ids: the newest one that came with a frame.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Sets a newer catalog.
    pub fn set_catalog(&mut self, catalog: Arc<Catalog>) {
        self.catalog = catalog;
        self.version += 1;
        self.changes.all(self.version);
    }

    /// Returns the frames, the oldest first.
    #[must_use]
    pub fn frames(&self) -> &VecDeque<FrameEntry> {
        &self.frames
    }

    /// Returns a frame, if it is still stored.
    #[must_use]
    pub fn frame(&self, id: FrameId) -> Option<&FrameEntry> {
        self.frames.get(self.index_of(id)?)
    }

    /// Returns the index of a frame in [`frames`](Self::frames), if it is still stored.
    #[must_use]
    pub fn index_of(&self, id: FrameId) -> Option<usize> {
        let index = usize::try_from(id.0.checked_sub(self.first.0)?).ok()?;
        (index < self.frames.len()).then_some(index)
    }

    /// Returns the id of the frame at an index of [`frames`](Self::frames).
    #[must_use]
    pub fn id_at(&self, index: usize) -> FrameId {
        FrameId(self.first.0 + index as u64)
    }

    /// Returns the index of the frame at a moment: the one that contains it, else the nearest.
    #[must_use]
    pub fn frame_at(&self, ns: i64) -> Option<usize> {
        let after = self.frames.partition_point(|frame| frame.end_ns <= ns);
        Some(after.min(self.frames.len().checked_sub(1)?))
    }

    /// Returns the time range of some frames; `None` if one of the ends does not exist.
    #[must_use]
    pub fn time_of(&self, frames: Range<usize>) -> Option<Range<i64>> {
        let first = self.frames.get(frames.start)?;
        let last = self.frames.get(frames.end.checked_sub(1)?)?;
        Some(first.begin_ns..last.end_ns.max(first.begin_ns))
    }

    /// Returns the tracks by thread, each span once: the tasks that ended on each thread, then the
    /// scopes of each.
    #[must_use]
    pub fn tracks(&self) -> &[Track] {
        let is_of_a_thread = |track: &Track| track.id.thread().is_some();
        &self.tracks[..self.tracks.partition_point(is_of_a_thread)]
    }

    /// Returns the tracks that the flame chart shows: those of the [layer](Self::layer), else those
    /// of the frames. The scopes of each thread come first, then the tasks of each name.
    #[must_use]
    pub fn shown_tracks(&self) -> &[Track] {
        match &self.layer {
            Some(layer) => layer.tracks(),
            None => &self.tracks[self.first_shown()..],
        }
    }

    fn first_shown(&self) -> usize {
        let is_ended = |track: &Track| matches!(track.id, TrackId::Ended(_));
        self.tracks.partition_point(is_ended)
    }

    /// Takes the tracks that the flame chart shows.
    fn take_shown_tracks(mut self) -> Vec<Track> {
        self.tracks.split_off(self.first_shown())
    }

    /// Returns the spans of a capture that are shown instead of those of the frames.
    #[must_use]
    pub fn layer(&self) -> Option<&Layer> {
        self.layer.as_deref()
    }

    /// Replaces the layer; returns the previous one.
    pub(crate) fn set_layer(&mut self, layer: Option<Box<Layer>>) -> Option<Box<Layer>> {
        self.version += 1;
        self.changes.all(self.version);
        std::mem::replace(&mut self.layer, layer)
    }

    /// Returns the number of stored spans, including tasks that have a lane.
    #[must_use]
    pub fn stored_spans(&self) -> usize {
        self.stored_spans
    }

    /// Appends a frame without spans, and returns its id.
    pub fn push_frame(&mut self, frame: FrameEntry) -> FrameId {
        self.frames.push_back(frame);
        self.version += 1;
        let id = self.id_at(self.frames.len() - 1);
        self.evict();
        id
    }

    /// Appends a frame with its spans, and returns its id.
    pub fn push_block(&mut self, mut block: FrameBlock) -> FrameId {
        let frame = std::mem::take(&mut block.frame);
        self.add_spans(&block);
        self.push_frame(frame)
    }

    /// Appends spans of frames that are already stored. Spans must come in the order of their
    /// frames.
    pub fn add_spans(&mut self, block: &FrameBlock) {
        for thread in &block.threads {
            self.stored_spans += thread.rows.iter().map(RowBlock::len).sum::<usize>();
            if !thread.has_no_scopes() {
                self.track(TrackId::Scopes(thread.thread))
                    .add_scopes(thread);
            }
            // A task may begin and make its steps on other threads than it ends on.
            thread
                .begins
                .iter()
                .for_each(|begin| self.open_tasks.begin(begin));
            thread
                .steps
                .iter()
                .for_each(|step| self.open_tasks.step(step));
            thread
                .polls
                .iter()
                .for_each(|poll| self.open_tasks.poll(thread.thread, poll));
        }
        for thread in &block.threads {
            if !thread.tasks.is_empty() || !thread.steps.is_empty() {
                self.add_tasks(thread, &block.catalog);
            }
        }
        self.open_tasks.keep_to_limit();
        self.catalog = Arc::clone(&block.catalog);
        self.version += 1;
        self.changes.add(self.version, block.first_begin_ns());
    }

    /// Appends the tasks that ended on a thread: once to those of the thread, and once to those of
    /// their name.
    fn add_tasks(&mut self, block: &ThreadBlock, catalog: &Catalog) {
        let ended = TrackId::Ended(block.thread);
        self.track(ended).steps.extend(&block.steps);
        for task in &block.tasks {
            let EndedTask { args, steps, polls } = self.open_tasks.end(task.id, block.thread);
            let holder = holder_of(task, &steps, catalog);
            let lane = self.track(ended).add_task(task, &args, holder.as_ref());
            self.stored_spans += usize::from(lane.is_some());
            let name = self.task_names.first(task.site, catalog);
            let named = self.track(TrackId::Tasks(name));
            let lane = named.add_task(task, &args, holder.as_ref());
            steps.into_iter().for_each(|step| named.add_step(step));
            let added = lane.map_or(0, |lane| named.add_polls(lane, task, polls));
            self.stored_polls += added;
        }
    }

    /// Updates a frame, if it is still stored.
    pub fn update_frame(&mut self, id: FrameId, update: impl FnOnce(&mut FrameEntry)) {
        if let Some(frame) = self
            .index_of(id)
            .and_then(|index| self.frames.get_mut(index))
        {
            update(frame);
            self.version += 1;
        }
    }

    /// Removes all frames and spans; ids are not reused.
    pub fn clear(&mut self) {
        self.first.0 += self.frames.len() as u64;
        self.frames.clear();
        self.tracks.clear();
        self.open_tasks = OpenTasks::default();
        (self.stored_spans, self.stored_polls) = (0, 0);
        self.version += 1;
        self.changes.all(self.version);
    }

    /// Prepares this store to replace another one: its frame ids and its version differ from those
    /// of the other.
    pub(crate) fn replace(&mut self, other: &Self) {
        self.first.0 = self.first.0.max(other.first.0 + other.frames.len() as u64);
        self.version = self.version.max(other.version) + 1;
        self.changes.all(self.version);
    }

    /// Returns the bytes of the spans and of their levels of detail; arguments are not included.
    #[must_use]
    pub fn span_bytes(&self) -> usize {
        let rows = self.tracks.iter().flat_map(|track| &track.rows);
        rows.map(Row::bytes).sum()
    }

    fn track(&mut self, id: TrackId) -> &mut Track {
        let at = self.tracks.binary_search_by_key(&id, |track| track.id);
        let at = at.unwrap_or_else(|at| {
            self.tracks.insert(at, Track::new(id));
            at
        });
        &mut self.tracks[at]
    }

    /// Removes the oldest frames while there are too many frames, spans or polls.
    fn evict(&mut self) {
        while self.frames.len() > self.max_frames
            || (self.stored_spans.max(self.stored_polls) > self.max_spans && self.frames.len() > 1)
        {
            let Some(gone) = self.frames.pop_front() else {
                return;
            };
            self.first.0 += 1;
            self.version += 1;
            let mut has_spans = false;
            for track in &mut self.tracks {
                let spans = track.evict(gone.end_ns);
                has_spans |= spans > 0;
                // Tasks are counted where they ended.
                if track.id.thread().is_some() {
                    self.stored_spans -= spans;
                }
            }
            self.stored_polls = self.tracks.iter().map(Track::poll_count).sum();
            self.tracks.retain(|track| !track.is_empty());
            if has_spans {
                self.changes.remove(self.version, gone.end_ns);
            }
        }
    }
}
