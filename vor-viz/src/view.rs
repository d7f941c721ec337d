//! The state that all parts of the panel share: what the user looks at.
//!
//! Bars, overview, flame chart and plots share one time axis. It shows all frames of the store, or
//! those of a selection. A pin is a cursor on one frame in all parts, and it pauses the panel. The
//! flame chart shows the pinned frame, or the whole axis without a pin, until the user zooms it.
//!
//! The frames of the store may be a part of a capture. Then the flame chart shows all of the
//! capture, and so do tables without a selection. Frames or a range of time may be selected.

use std::ops::Range;
use std::sync::Arc;

use crate::bookmarks::Bookmarks;
use crate::frame_axis::PointerUse;
use crate::store::{Extent, FrameId, Span, Store, TrackId};
use crate::whole::Spans;
use vor_capture::model::catalog::{SiteId, ThreadId};

/// Minimum time range of the flame chart, in nanoseconds.
const MIN_RANGE_NS: f64 = 20.0;

/// A time range, in nanoseconds since the store's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeRange {
    /// Its begin.
    pub begin_ns: f64,
    /// Its end, never before its begin.
    pub end_ns: f64,
}

impl TimeRange {
    /// Returns its length.
    #[must_use]
    pub fn len_ns(&self) -> f64 {
        self.end_ns - self.begin_ns
    }

    /// Returns whether a moment lies in the range.
    #[must_use]
    pub fn contains(&self, ns: f64) -> bool {
        self.begin_ns <= ns && ns <= self.end_ns
    }
}

/// The range that tables and flame graphs cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Frames of the store, from the first to the last index.
    Frames(usize, usize),
    /// A range of time, in nanoseconds since the store's origin.
    Time {
        /// Its begin.
        begin_ns: i64,
        /// Its end.
        end_ns: i64,
    },
    /// The whole capture.
    Whole,
}

impl From<(usize, usize)> for Scope {
    /// Makes a scope of frames, from the first to the last index.
    fn from((first, last): (usize, usize)) -> Self {
        Self::Frames(first, last)
    }
}

/// A capture of which the store holds a part.
#[derive(Clone, Debug)]
pub(crate) struct WholeCapture {
    /// Answers questions about any range.
    pub(crate) spans: Arc<Spans>,
    /// The time of everything.
    pub(crate) time: TimeRange,
    /// The part that was surveyed so far, from 0 to 1.
    pub(crate) progress: f32,
}

/// The axis of a running program, which ends with the newest frame.
///
/// Its length changes in steps, so that the picture of the spans moves by whole pixels, and only
/// what is new is painted.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    /// The length of the axis: that of all frames, or a little more.
    len_ns: f64,
    /// The end of the newest frame in the last pass.
    end_ns: i64,
}

impl Followed {
    /// Longest axis for frames of this length, which leaves room for longer ones.
    const ROOM: f64 = 1.05;
    /// Most of the axis that may be empty.
    const MAX_EMPTY: f64 = 0.1;

    /// Returns the axis of frames over this time.
    fn axis(&mut self, time: &Range<i64>) -> TimeRange {
        let len_ns = ((time.end - time.start) as f64).max(1.0);
        let fits = len_ns <= self.len_ns && self.len_ns * (1.0 - Self::MAX_EMPTY) <= len_ns;
        if !fits {
            let has_moved = self.end_ns != time.end && self.len_ns > 0.0;
            self.len_ns = if has_moved {
                len_ns * Self::ROOM
            } else {
                len_ns
            };
        }
        self.end_ns = time.end;
        TimeRange {
            begin_ns: time.end as f64 - self.len_ns,
            end_ns: time.end as f64,
        }
    }
}

/// A span that was clicked. The reference stays valid when other spans come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanRef {
    /// Its track.
    pub track: TrackId,
    /// Index of its row.
    pub row: usize,
    /// The span.
    pub span: Span,
}

/// The part of the capture that the user looks at, and the last click.
#[derive(Clone, Debug, Default)]
pub struct View {
    pinned: Option<FrameId>,
    selection: Option<(FrameId, FrameId)>,
    time_selection: Option<(i64, i64)>,
    whole: Option<WholeCapture>,
    axis: TimeRange,
    followed: Option<Followed>,
    zoom: Option<TimeRange>,
    /// Position of the pointer on the time axis in the previous pass, so that parts above the
    /// pointed one see it as well.
    pointed_ns: Option<f64>,
    pointed_next_ns: Option<f64>,
    /// The pointer's action on bars and plots.
    pub(crate) busy: PointerUse,
    /// The span that was clicked.
    pub focus: Option<SpanRef>,
    /// A span that gets the focus as soon as the flame chart has it.
    pub(crate) sought: Option<(TrackId, Span)>,
    /// The moment of a thread that was gone to.
    marked: Option<(ThreadId, i64)>,
    /// Whether the flame chart is to scroll to that thread.
    pub(crate) seeks_mark: bool,
    /// The bookmarks of a capture.
    pub(crate) bookmarks: Bookmarks,
    /// The scope whose calls are to be listed.
    pub(crate) wanted_calls: Option<SiteId>,
    /// The text that names are searched for; empty for no search.
    pub search: String,
    /// Which spans of their frames the tables and flame graphs measure, and which part of each.
    pub extent: Extent,
    /// Whether vor's own cost is shown beside `frame_ms`.
    pub shows_load: bool,
}

impl View {
    /// Begins a pass: forgets frames that left the store, and sets the axis.
    pub fn begin_pass(&mut self, store: &Store) {
        let lives = |id: &FrameId| store.index_of(*id).is_some();
        self.pinned = self.pinned.filter(lives);
        if self
            .selection
            .is_some_and(|(first, last)| !lives(&first) || !lives(&last))
        {
            self.selection = None;
        }
        let (first, last) = self.shown_frames(store).unwrap_or((0, 0));
        let time = store.time_of(first..last + 1).unwrap_or(0..0);
        self.axis = match &mut self.followed {
            Some(followed) if self.selection.is_none() => followed.axis(&time),
            _ => TimeRange {
                begin_ns: time.start as f64,
                end_ns: (time.end as f64).max(time.start as f64 + 1.0),
            },
        };
        self.pointed_ns = self.pointed_next_ns.take();
    }

    /// Sets whether frames come and go, as in the panel of a running program. Then the axis is up
    /// to a tenth longer than the frames and empty at its begin, so its length seldom changes.
    pub fn follow(&mut self, follows: bool) {
        self.followed = follows.then(Followed::default);
    }

    /// Returns whether the flame chart shows all frames of a running program.
    pub(crate) fn is_following(&self) -> bool {
        let is_free = self.pinned.is_none() && self.selection.is_none() && self.zoom.is_none();
        self.followed.is_some() && self.whole.is_none() && is_free
    }

    /// Returns the first and the last index of the frames on the axis; `None` when the store is
    /// empty.
    #[must_use]
    pub fn shown_frames(&self, store: &Store) -> Option<(usize, usize)> {
        let last = store.frames().len().checked_sub(1)?;
        let selected = self.selection_indices(store);
        Some(selected.unwrap_or((0, last)))
    }

    /// Returns the time range of bars and plots.
    #[must_use]
    pub fn axis(&self) -> TimeRange {
        self.axis
    }

    /// Returns whether the bars show all frames of a capture over the time of the flame chart. They
    /// show those of the store where these are in sight, or where frames are pinned or selected.
    pub(crate) fn shows_all_bars(&self, store: &Store) -> bool {
        let is_free = self.pinned.is_none() && self.selection.is_none();
        let shown = self.flame_axis(store);
        let is_stored = self.axis.begin_ns <= shown.begin_ns && shown.end_ns <= self.axis.end_ns;
        self.whole.is_some() && is_free && !is_stored
    }

    /// Returns the time range of the flame chart.
    #[must_use]
    pub fn flame_axis(&self, store: &Store) -> TimeRange {
        self.zoom.unwrap_or_else(|| self.unzoomed(store))
    }

    /// Returns the time range of the flame chart without a zoom.
    #[must_use]
    pub fn unzoomed(&self, store: &Store) -> TimeRange {
        let pinned = self.pinned.and_then(|id| store.frame(id));
        let all = match &self.whole {
            Some(whole) if self.selection.is_none() => whole.time,
            _ => self.axis,
        };
        pinned.map_or(all, |frame| TimeRange {
            begin_ns: frame.begin_ns as f64,
            end_ns: (frame.end_ns as f64).max(frame.begin_ns as f64 + MIN_RANGE_NS),
        })
    }

    /// Returns whether the flame chart is zoomed or moved.
    #[must_use]
    pub fn is_zoomed(&self) -> bool {
        self.zoom.is_some()
    }

    /// Shows a time range in the flame chart.
    pub fn zoom_to(&mut self, begin_ns: f64, end_ns: f64) {
        if begin_ns.is_finite() && end_ns.is_finite() {
            let middle = (begin_ns + end_ns) / 2.0;
            let half = ((end_ns - begin_ns) / 2.0).max(MIN_RANGE_NS / 2.0);
            self.zoom = Some(TimeRange {
                begin_ns: middle - half,
                end_ns: middle + half,
            });
        }
    }

    /// Scales the time range of the flame chart by `factor`, so that `anchor_ns` stays in its
    /// place. The zoom ends when the range covers everything.
    pub fn zoom_by(&mut self, store: &Store, anchor_ns: f64, factor: f64) {
        let now = self.flame_axis(store);
        let begin_ns = anchor_ns - (anchor_ns - now.begin_ns) * factor;
        let end_ns = anchor_ns + (now.end_ns - anchor_ns) * factor;
        let all = self.reach(store);
        if end_ns - begin_ns >= all.len_ns() {
            self.zoom_to(all.begin_ns, all.end_ns);
            if all == self.unzoomed(store) {
                self.zoom = None;
            }
        } else {
            self.zoom_to(begin_ns, end_ns);
            self.keep_within(&all);
        }
    }

    /// Moves the flame chart's range; a positive `delta_ns` moves it to later times.
    pub fn pan_by(&mut self, store: &Store, delta_ns: f64) {
        let now = self.flame_axis(store);
        self.zoom_to(now.begin_ns + delta_ns, now.end_ns + delta_ns);
        let all = self.reach(store);
        self.keep_within(&all);
    }

    /// Resets the flame chart to the pinned frame, or to the axis without a pin.
    pub fn reset_zoom(&mut self) {
        self.zoom = None;
    }

    /// Returns the time range of all that can be shown.
    fn reach(&self, store: &Store) -> TimeRange {
        if let Some(whole) = &self.whole {
            return whole.time;
        }
        if self.followed.is_some() && self.selection.is_none() {
            return self.axis;
        }
        let time = store.time_of(0..store.frames().len()).unwrap_or(0..1);
        TimeRange {
            begin_ns: time.start as f64,
            end_ns: time.end as f64,
        }
    }

    /// Moves the zoomed range into `all`, if it is not longer.
    fn keep_within(&mut self, all: &TimeRange) {
        if let Some(zoom) = &mut self.zoom {
            let length = zoom.len_ns().min(all.len_ns()).max(MIN_RANGE_NS);
            let begin_ns = zoom.begin_ns.min(all.end_ns - length).max(all.begin_ns);
            *zoom = TimeRange {
                begin_ns,
                end_ns: begin_ns + length,
            };
        }
    }

    /// Returns the pinned frame.
    #[must_use]
    pub fn pinned(&self) -> Option<FrameId> {
        self.pinned
    }

    /// Pins a frame, which pauses, and shows it in the flame chart.
    pub fn pin(&mut self, id: FrameId) {
        self.pinned = Some(id);
        self.time_selection = None;
        self.zoom = None;
        self.focus = None;
        self.marked = None;
    }

    /// Returns the time that a bookmark keeps, on the scale above the flame chart: the selected
    /// time, else that of the span in focus, of the pinned frame, or of the whole flame chart.
    /// `None` unless a capture is shown.
    pub(crate) fn time_to_keep(&self, store: &Store) -> Option<(i64, i64)> {
        self.whole.as_ref()?;
        let focus = self
            .focus
            .map(|focus| (focus.span.begin_ns, focus.span.end_ns()));
        let pinned = self.pinned.and_then(|id| store.frame(id));
        let pinned = pinned.map(|frame| (frame.begin_ns, frame.end_ns));
        let shown = self.flame_axis(store);
        let shown = (shown.begin_ns as i64, shown.end_ns as i64);
        let time = self.time_selection.or(focus).or(pinned).unwrap_or(shown);
        let zero_ns = self.zero_ns(store) as i64;
        Some((
            time.0.saturating_sub(zero_ns),
            time.1.saturating_sub(zero_ns),
        ))
    }

    /// Marks a moment of a thread, until something else is gone to.
    pub(crate) fn mark(&mut self, thread: ThreadId, ns: i64) {
        self.marked = Some((thread, ns));
        self.seeks_mark = true;
    }

    /// Returns the marked moment, unless a span is in focus.
    #[must_use]
    pub fn marked(&self) -> Option<(ThreadId, i64)> {
        self.marked.filter(|_| self.focus.is_none())
    }

    /// Pins the newest frame, if there is one.
    pub fn pin_latest(&mut self, store: &Store) {
        if let Some(last) = store.frames().len().checked_sub(1) {
            self.pin(store.id_at(last));
        }
    }

    /// Removes the pin and the selection, and resumes.
    pub fn unpin(&mut self) {
        self.pinned = None;
        self.selection = None;
        self.time_selection = None;
        self.zoom = None;
        self.focus = None;
        self.marked = None;
    }

    /// Pauses on the newest frame, or resumes.
    pub fn toggle_pause(&mut self, store: &Store) {
        if self.pinned.is_some() {
            self.unpin();
        } else {
            self.pin_latest(store);
        }
    }

    /// Moves the pin by some frames; without a pin, pins the newest frame.
    pub fn step_pin(&mut self, store: &Store, frames: i64) {
        let Some(last) = store.frames().len().checked_sub(1) else {
            return;
        };
        let from = self.pinned.and_then(|id| store.index_of(id));
        let to = from.map_or(last, |from| {
            let from = i64::try_from(from).unwrap_or(i64::MAX);
            // Within the frames before it becomes an index, which has 32 bits in a page.
            let to = from.saturating_add(frames).clamp(0, last as i64);
            to as usize
        });
        self.pin(store.id_at(to));
        if self
            .selection_indices(store)
            .is_some_and(|(first, last)| to < first || to > last)
        {
            self.selection = None;
        }
    }

    /// Returns the first and the last frame of the selection.
    #[must_use]
    pub fn selection(&self) -> Option<(FrameId, FrameId)> {
        self.selection
    }

    /// Returns the first and the last index of the selected frames.
    #[must_use]
    pub fn selection_indices(&self, store: &Store) -> Option<(usize, usize)> {
        let (first, last) = self.selection?;
        Some((store.index_of(first)?, store.index_of(last)?))
    }

    /// Selects frames by index, in either order: all axes show only these. Pins the slowest of
    /// them.
    pub fn select(&mut self, store: &Store, from: usize, to: usize) {
        let Some(last) = store.frames().len().checked_sub(1) else {
            return;
        };
        let (first, last) = (from.min(to).min(last), from.max(to).min(last));
        self.pin(store.id_at(slowest(store, first, last)));
        self.selection = Some((store.id_at(first), store.id_at(last)));
    }

    /// Moves one end of the selection by some frames: the end without the pin. A new selection
    /// begins at the pin. The pin stays.
    pub fn extend_selection(&mut self, store: &Store, frames: i64) {
        let Some(newest) = store.frames().len().checked_sub(1) else {
            return;
        };
        let pin = self
            .pinned
            .and_then(|id| store.index_of(id))
            .unwrap_or(newest);
        let (first, last) = self.selection_indices(store).unwrap_or((pin, pin));
        let by = usize::try_from(frames.unsigned_abs()).unwrap_or(usize::MAX);
        let (first, last) = match (
            frames < 0,
            first < pin || last == pin,
            last > pin || first == pin,
        ) {
            (true, true, _) => (first.saturating_sub(by), last),
            (true, false, _) => (first, last.saturating_sub(by).max(first)),
            (false, _, true) => (first, last.saturating_add(by).min(newest)),
            (false, _, false) => (first.saturating_add(by).min(last), last),
        };
        self.pinned = Some(store.id_at(pin));
        self.time_selection = None;
        self.selection = (first < last).then(|| (store.id_at(first), store.id_at(last)));
    }

    /// Pins the slowest of the frames on the axis.
    pub fn pin_slowest(&mut self, store: &Store) {
        if let Some((first, last)) = self.shown_frames(store) {
            self.pin(store.id_at(slowest(store, first, last)));
        }
    }

    /// Ends the selection of frames or of a range of time; the pin stays.
    pub fn clear_selection(&mut self) {
        self.selection = None;
        self.time_selection = None;
    }

    /// Selects the time between two moments, in either order: tables and flame graphs cover it. The
    /// panel is paused. A range without length selects nothing.
    pub fn select_time(&mut self, store: &Store, from_ns: i64, to_ns: i64) {
        let (begin_ns, end_ns) = (from_ns.min(to_ns), from_ns.max(to_ns));
        self.selection = None;
        self.time_selection = (begin_ns < end_ns).then_some((begin_ns, end_ns));
        if self.whole.is_none() && self.pinned.is_none() {
            // The axis of a running program would move on. It stays where it is now.
            let shown = self.flame_axis(store);
            self.zoom_to(shown.begin_ns, shown.end_ns);
            let last = store.frames().len().checked_sub(1);
            self.pinned = last.map(|last| store.id_at(last));
        }
    }

    /// Selects the time between two moments, and shows it with a margin.
    pub(crate) fn go_to_time(&mut self, store: &Store, begin_ns: i64, end_ns: i64) {
        self.select_time(store, begin_ns, end_ns);
        let margin_ns = 0.1 * end_ns.saturating_sub(begin_ns) as f64;
        self.zoom_to(begin_ns as f64 - margin_ns, end_ns as f64 + margin_ns);
        self.focus = None;
    }

    /// Returns the begin and the end of the selected time, in nanoseconds since the store's origin.
    #[must_use]
    pub fn time_selection(&self) -> Option<(i64, i64)> {
        self.time_selection
    }

    /// Sets the capture of which the store holds a part.
    pub(crate) fn set_whole(&mut self, whole: Option<WholeCapture>) {
        self.whole = whole;
    }

    /// Returns the capture of which the store holds a part.
    pub(crate) fn whole(&self) -> Option<&WholeCapture> {
        self.whole.as_ref()
    }

    /// Returns what answers questions about ranges of a capture.
    pub(crate) fn spans(&self) -> Option<&Spans> {
        self.whole.as_ref().map(|whole| &*whole.spans)
    }

    /// Returns whether what covers a scope is asked of the reader of a capture.
    pub(crate) fn asks(&self, scope: Option<Scope>) -> bool {
        self.whole.is_some() && matches!(scope, Some(Scope::Time { .. } | Scope::Whole))
    }

    /// Returns the moment at which the scale above the flame chart is 0.
    #[must_use]
    pub fn zero_ns(&self, store: &Store) -> f64 {
        match &self.whole {
            Some(whole) => whole.time.begin_ns,
            None => self.unzoomed(store).begin_ns,
        }
    }

    /// Returns what tables and flame graphs cover: the selected time, else the selected frames,
    /// else the pinned frame, else everything; `None` while there is nothing.
    #[must_use]
    pub fn scope(&self, store: &Store) -> Option<Scope> {
        if let Some((begin_ns, end_ns)) = self.time_selection {
            return Some(Scope::Time { begin_ns, end_ns });
        }
        let is_open = self.pinned.is_none() && self.selection.is_none();
        if self.whole.is_some() && is_open {
            return Some(Scope::Whole);
        }
        let (first, last) = self.table_frames(store)?;
        Some(Scope::Frames(first, last))
    }

    /// Returns what is covered without a pin.
    #[must_use]
    pub fn wide_scope(&self, store: &Store) -> Option<Scope> {
        if self.whole.is_some() && self.selection.is_none() {
            return Some(Scope::Whole);
        }
        let (first, last) = self.shown_frames(store)?;
        Some(Scope::Frames(first, last))
    }

    /// Returns the first and the last index of the frames that tables cover: the selected frames,
    /// else the pinned one, else all.
    #[must_use]
    pub fn table_frames(&self, store: &Store) -> Option<(usize, usize)> {
        let pinned = self
            .pinned
            .and_then(|id| store.index_of(id))
            .map(|i| (i, i));
        self.selection_indices(store)
            .or(pinned)
            .or_else(|| self.shown_frames(store))
    }

    /// Sets the pointer's position on the time axis.
    pub fn point_at(&mut self, ns: f64) {
        self.pointed_next_ns = Some(ns);
    }

    /// Returns the pointer's position on the time axis, in whichever part it is.
    #[must_use]
    pub fn pointed_ns(&self) -> Option<f64> {
        self.pointed_ns
    }
}

/// Returns the index of the slowest frame from `first` to `last`; the first one wins a tie.
fn slowest(store: &Store, first: usize, last: usize) -> usize {
    let length_ns = |i: &usize| {
        let frame = &store.frames()[*i];
        (
            frame.end_ns.saturating_sub(frame.begin_ns),
            std::cmp::Reverse(*i),
        )
    };
    (first..=last).max_by_key(length_ns).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_of_a_running_program_keeps_its_length() {
        let mut followed = Followed::default();
        let mut axis = |time: Range<i64>| followed.axis(&time);
        let range = |begin_ns: f64, end_ns: f64| TimeRange { begin_ns, end_ns };
        // The first picture is that of all frames.
        assert_eq!(axis(0..1_000), range(0.0, 1_000.0));
        assert_eq!(axis(0..1_000), range(0.0, 1_000.0));
        // New frames make room for more.
        assert_eq!(axis(0..2_000), range(-100.0, 2_000.0));
        assert_eq!(axis(0..2_050), range(-50.0, 2_050.0));
        // Frames that differ a little in length come and go.
        assert_eq!(axis(300..2_300), range(200.0, 2_300.0));
        assert_eq!(axis(700..2_600), range(500.0, 2_600.0));
        assert_eq!(axis(1_000..3_000), range(900.0, 3_000.0));
        // Much of the axis would be empty.
        assert_eq!(axis(2_100..3_100), range(2_050.0, 3_100.0));
    }
}
