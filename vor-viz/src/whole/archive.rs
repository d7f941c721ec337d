//! The parts of a capture, as a survey found them, and the readings that use them.
//!
//! A *survey* reads all parts once, from the last one to the first. It makes the
//! [picture](Thinned) of the whole capture, and an entry per part: the time of its spans, and the
//! spans that are around the ends of earlier parts. With these, any range of time is read without
//! the parts before and behind it: from behind come only the spans that reach into it.
//!
//! A range is also read while the survey is at work: from the surveyed parts as after the survey,
//! and then every part before them back to the begin of the range. Parts that hold nothing of it
//! are only decoded, or skipped if their [times](PartTimes) are noted. No part behind is left out,
//! so each span is in its row. Spans are missing only if an earlier part ends after the begin of
//! the range. The format does not say when a part ends; parts overlap in time where threads do not
//! end their spans in the order of the file. So such a picture is [partial](Layer::is_partial), and
//! is read again after the survey.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use vor_capture::Error;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::model::timeline::TickMapper;
use vor_capture::reader::{Capture, Part, PartContents, PartFrame, PartScan};

use super::backwards::{Backwards, Moment, Opened, Visitor, args_of};
use super::part_times::{PartTime, PartTimes, first_end_ns};
use super::thinned::Thinned;
use crate::store::{Clock, Layer, LayerTotals, Span, Task, TrackKind};

/// Bins of the picture of a whole capture.
const BINS: u64 = 1 << 17;

/// Most tasks that are listed because they are around the end of a part.
const MAX_ACROSS: usize = 1 << 20;

/// The parts of a capture.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Archive {
    /// Used up when the parts are found.
    #[serde(skip)]
    scan: PartScan,
    parts: Vec<PartEntry>,
    /// Noted while a survey is at work.
    #[serde(skip)]
    times: PartTimes,
    /// Spans around the ends of earlier parts, by the part in which they end.
    across: Vec<Across>,
    tasks_across: Vec<(u32, ThreadId, Task)>,
    /// The latest end in this part and all before it.
    ends_ns: Vec<i64>,
    /// The time of all spans; none while it is empty.
    bounds_ns: (i64, i64),
    totals: LayerTotals,
    losses: u64,
}

/// A part, and the time of its spans.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct PartEntry {
    part: Part,
    /// The earliest begin of its spans, without those that are listed as being across.
    begin_ns: i64,
    end_ns: i64,
    /// Its range of `Archive::across`, and of `tasks_across`.
    across: (u32, u32),
    tasks_across: (u32, u32),
}

/// A span that is around the end of a part before that in which it ends.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Across {
    thread: ThreadId,
    span: Span,
    args: Box<[ArgValue]>,
    /// The total duration of the spans directly inside.
    inside_ns: u64,
}

/// A survey at work.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The number of parts that are still to be read.
    left: usize,
    walk: Backwards,
    thinned: Thinned,
    /// The part that is being read, and what is known of it.
    at: u32,
    begin_ns: i64,
    end_ns: i64,
    first_ns: i64,
    thread: ThreadId,
    /// Those of the archive while a part is read.
    across: Vec<Across>,
    tasks_across: Vec<(u32, ThreadId, Task)>,
    bounds_ns: (i64, i64),
    reach: Reach,
}

/// How far parts were read, from the last one to the first.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// The earliest end in them.
    first_ns: i64,
    /// The longest time by which a part ended after the earliest end behind it.
    overlap_ns: i64,
}

impl Reach {
    const NOTHING: Self = Self {
        first_ns: i64::MAX,
        overlap_ns: 0,
    };

    /// Adds a part, by its first and its last end.
    fn add(&mut self, first_ns: i64, end_ns: i64) {
        let overlap_ns = end_ns.saturating_sub(self.first_ns);
        self.overlap_ns = self.overlap_ns.max(overlap_ns);
        self.first_ns = self.first_ns.min(first_ns);
    }

    /// Returns the time at which all earlier parts are expected to have ended. A part is expected
    /// to end before those behind it, or to overlap them as long as one that was read did.
    fn passed_ns(&self) -> i64 {
        self.first_ns.saturating_add(self.overlap_ns)
    }
}

impl Archive {
    /// Makes one with parts of at least some bytes.
    #[cfg(test)]
    pub(crate) fn with_part_bytes(bytes: u64) -> Self {
        Self {
            scan: PartScan::with_part_bytes(bytes),
            ..Self::default()
        }
    }

    /// Notes the times of the parts whose bit of a mask is set.
    #[cfg(test)]
    pub(crate) fn note_some(&mut self, mask: u64, capture: &mut Capture, origin_ns: i64) {
        self.times = PartTimes::of_len(self.parts.len());
        for (at, entry) in self.parts.iter().enumerate() {
            if mask >> (at % 64) & 1 == 1 {
                self.times.note(at, entry.part, capture, origin_ns);
            }
        }
    }

    /// Finds the parts.
    pub(crate) fn find(&mut self, capture: &mut Capture) -> Result<(), Error> {
        while let Some(part) = capture.next_part(&mut self.scan)? {
            self.parts.push(PartEntry {
                part,
                begin_ns: i64::MAX,
                end_ns: i64::MIN,
                across: (0, 0),
                tasks_across: (0, 0),
            });
        }
        self.losses = self.scan.copies();
        Ok(())
    }

    /// Begins to note the times of parts, in a capture that a thread of its own opens.
    pub(crate) fn note_times(
        &mut self,
        origin_ns: i64,
        open: impl FnOnce() -> Option<Capture> + Send + 'static,
    ) {
        let parts = self.parts.iter().map(|entry| entry.part).collect();
        self.times = PartTimes::begin(parts, origin_ns, open);
    }

    /// Returns the number of parts.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns the begin and the end of everything; `None` without any span.
    pub(crate) fn bounds_ns(&self) -> Option<(i64, i64)> {
        (self.bounds_ns.0 <= self.bounds_ns.1).then_some(self.bounds_ns)
    }

    /// Returns the number of places that could not be read.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// Begins a survey of all parts. `length_ns` is the likely length of the capture.
    /// Its picture has up to `max_spans` spans.
    pub(crate) fn survey(&self, length_ns: u64, max_spans: usize) -> Survey {
        Survey {
            left: self.parts.len(),
            walk: Backwards::default(),
            thinned: Thinned::new((i64::MIN, i64::MAX), length_ns / BINS, max_spans),
            at: 0,
            begin_ns: i64::MAX,
            end_ns: i64::MIN,
            first_ns: i64::MAX,
            thread: ThreadId(0),
            across: Vec::new(),
            tasks_across: Vec::new(),
            bounds_ns: (i64::MAX, i64::MIN),
            reach: Reach::NOTHING,
        }
    }

    /// Surveys the next part; returns whether there are more.
    pub(crate) fn survey_part(
        &mut self,
        survey: &mut Survey,
        capture: &mut Capture,
        origin_ns: i64,
    ) -> Result<bool, Error> {
        let Some(at) = survey.left.checked_sub(1) else {
            return Ok(false);
        };
        survey.left = at;
        let catalog = Arc::clone(capture.catalog());
        let contents = capture.part(self.parts[at].part)?;
        self.losses += contents.losses;
        let mut clock = Clock::new(TickMapper::new(&catalog.timeline), origin_ns);
        self.swap_across(survey);
        let (across, tasks_across) = (survey.across.len(), survey.tasks_across.len());
        (survey.begin_ns, survey.end_ns) = (i64::MAX, i64::MIN);
        survey.first_ns = first_end_ns(&contents, &mut clock);
        survey.at = at as u32;
        survey.thinned.set_catalog(&catalog);
        let mut walk = std::mem::take(&mut survey.walk);
        walk.part(&contents, &mut clock, survey);
        walk.list_open(survey, &contents, &mut clock);
        survey.walk = walk;
        let range = |from: usize, to: usize| (from as u32, to as u32);
        let entry = &mut self.parts[at];
        entry.across = range(across, survey.across.len());
        entry.tasks_across = range(tasks_across, survey.tasks_across.len());
        (entry.begin_ns, entry.end_ns) = (survey.begin_ns, survey.end_ns);
        self.swap_across(survey);
        survey.reach.add(survey.first_ns, survey.end_ns);
        Ok(at > 0)
    }

    /// Lends what is across to a survey, or takes it back.
    fn swap_across(&mut self, survey: &mut Survey) {
        std::mem::swap(&mut self.across, &mut survey.across);
        std::mem::swap(&mut self.tasks_across, &mut survey.tasks_across);
    }

    /// Takes the results of a complete survey.
    pub(crate) fn take(&mut self, survey: &mut Survey) {
        self.swap_across(survey);
        std::mem::take(&mut survey.walk).finish(survey);
        self.swap_across(survey);
        self.bounds_ns = survey.bounds_ns;
        self.totals = survey.thinned.totals();
        // Ends the thread.
        self.times = PartTimes::default();
        let mut latest_ns = i64::MIN;
        let ends = self.parts.iter().map(|entry| {
            latest_ns = latest_ns.max(entry.end_ns);
            latest_ns
        });
        self.ends_ns = ends.collect();
    }

    /// Begins to read the spans that overlap a time, of a survey that may be at work.
    pub(crate) fn read(&self, survey: Option<&Survey>, begin_ns: i64, end_ns: i64) -> RangeRead {
        let parts = self.parts.iter();
        let overlapping =
            parts.filter(|entry| entry.begin_ns <= end_ns && entry.end_ns >= begin_ns);
        RangeRead {
            begin_ns,
            end_ns,
            left: self.parts.len(),
            unknown: survey.map_or(0, |survey| survey.left),
            reach: survey.map_or(Reach::NOTHING, |survey| survey.reach),
            read: 0,
            expected: overlapping.count(),
        }
    }

    /// Reads the next part of a range for `reader`; returns whether there are more.
    pub(crate) fn read_part(
        &self,
        range: &mut RangeRead,
        capture: &mut Capture,
        origin_ns: i64,
        reader: &mut dyn PartReader,
    ) -> Result<bool, Error> {
        reader.set_catalog(capture.catalog());
        while let Some(at) = range.left.checked_sub(1) {
            range.left = at;
            let entry = &self.parts[at];
            if at < range.unknown {
                if range.reach.passed_ns() <= range.begin_ns {
                    range.left = 0;
                    break;
                }
                if let Some(time) = self.times.get(at)
                    && time.begin_ns > range.end_ns
                {
                    range.reach.add(time.first_end_ns, time.end_ns);
                    continue;
                }
                let catalog = Arc::clone(capture.catalog());
                let contents = capture.part(entry.part)?;
                let mut clock = Clock::new(TickMapper::new(&catalog.timeline), origin_ns);
                let time = PartTime::of(&contents, &mut clock);
                range.reach.add(time.first_end_ns, time.end_ns);
                if time.begin_ns <= range.end_ns {
                    reader.part(&contents, &mut clock);
                }
                break;
            }
            let ends_ns = self.ends_ns.get(at);
            if ends_ns.is_some_and(|&end_ns| end_ns < range.begin_ns) {
                range.left = 0;
                break;
            }
            if entry.end_ns < range.begin_ns {
                continue;
            }
            let slice = |(from, to): (u32, u32)| from as usize..to as usize;
            let across = &self.across[slice(entry.across)];
            let tasks = &self.tasks_across[slice(entry.tasks_across)];
            let ends_later = |one: &Across| one.span.end_ns() > range.end_ns;
            if entry.begin_ns > range.end_ns && across.iter().all(ends_later) {
                let reaches = |begin_ns: i64| begin_ns <= range.end_ns;
                for one in across.iter().filter(|one| reaches(one.span.begin_ns)) {
                    reader.span(one.thread, one.span, &one.args, one.inside_ns);
                }
                for (_, thread, task) in tasks.iter().filter(|(.., task)| reaches(task.begin_ns)) {
                    reader.task(*thread, *task);
                }
                continue;
            }
            let catalog = Arc::clone(capture.catalog());
            let contents = capture.part(entry.part)?;
            let mut clock = Clock::new(TickMapper::new(&catalog.timeline), origin_ns);
            let early = across
                .iter()
                .filter(|one| one.span.begin_ns < range.begin_ns);
            let early = early.map(|one| ((one.thread, one.span), one.inside_ns));
            reader.settle(early.collect());
            reader.part(&contents, &mut clock);
            range.read += 1;
            break;
        }
        Ok(range.left > 0)
    }

    /// Returns the picture of a survey that was kept.
    pub(crate) fn kept_layer(&self, thinned: &Thinned, catalog: &Arc<Catalog>) -> Layer {
        thinned.layer(catalog, &self.totals)
    }

    /// Returns what was read of a range as a picture. It has the rows of the whole capture; while a
    /// survey is at work, those that are known.
    pub(crate) fn layer(
        &self,
        picture: &PictureReader,
        survey: Option<&Survey>,
        catalog: &Arc<Catalog>,
    ) -> Layer {
        match survey {
            Some(survey) => {
                let mut totals = survey.thinned.totals();
                for (track, total) in picture.thinned.totals() {
                    totals.entry(track).or_insert(total);
                }
                let layer = picture.thinned.layer(catalog, &totals);
                layer.into_partial(i64::MIN)
            }
            None => picture.thinned.layer(catalog, &self.totals),
        }
    }
}

impl Survey {
    /// Returns the number of parts that are still to be read.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Returns the picture so far.
    pub(crate) fn layer(&self, catalog: &Arc<Catalog>) -> Layer {
        let layer = self.thinned.layer(catalog, &self.thinned.totals());
        match self.left {
            0 => layer,
            _ => layer.into_partial(self.reach.passed_ns()),
        }
    }

    /// Returns the picture itself, to be kept.
    pub(crate) fn into_thinned(self) -> Thinned {
        self.thinned
    }

    /// Returns the begin and the end of what was read so far.
    pub(crate) fn bounds_ns(&self) -> Option<(i64, i64)> {
        (self.bounds_ns.0 <= self.bounds_ns.1).then_some(self.bounds_ns)
    }

    fn cover(&mut self, begin_ns: i64, end_ns: i64) {
        self.end_ns = self.end_ns.max(end_ns);
        self.bounds_ns.0 = self.bounds_ns.0.min(begin_ns);
        self.bounds_ns.1 = self.bounds_ns.1.max(end_ns);
    }
}

impl Backwards {
    /// Lists the spans that are open at the begin of the part that was read and end in it.
    fn list_open(&mut self, survey: &mut Survey, contents: &PartContents, clock: &mut Clock<'_>) {
        self.for_each_open(|thread, opened| {
            if opened.tag == PENDING {
                opened.tag = survey.across.len() as u32;
                survey.across.push(Across {
                    thread,
                    span: opened.span,
                    args: args_of(contents, clock, thread, &opened.span).into(),
                    inside_ns: 0,
                });
            }
        });
    }
}

/// The tag of a span that ended in the part that is being read.
const PENDING: u32 = 1 << 31;

impl Visitor for Survey {
    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind, open: &[Opened]) -> bool {
        self.thread = thread;
        self.thinned.begin_track(thread, kind, open)
    }

    #[inline]
    fn enter(&mut self, span: &Span, depth: usize, args: &[ArgValue]) -> u32 {
        self.cover(span.begin_ns, span.end_ns());
        self.thinned.enter(span, depth, args);
        PENDING
    }

    #[inline]
    fn leave(&mut self, opened: &Opened, _: usize) {
        if opened.tag == PENDING {
            self.begin_ns = self.begin_ns.min(opened.span.begin_ns);
        } else if let Some(across) = self.across.get_mut(opened.tag as usize) {
            across.inside_ns = opened.inside_ns;
        }
    }

    fn task(&mut self, task: Task) {
        let end_ns = task.begin_ns.saturating_add_unsigned(task.duration_ns);
        self.cover(task.begin_ns, end_ns);
        if task.begin_ns < self.first_ns && self.tasks_across.len() < MAX_ACROSS {
            self.tasks_across.push((self.at, self.thread, task));
        } else {
            self.begin_ns = self.begin_ns.min(task.begin_ns);
        }
        self.thinned.task(task);
    }

    fn frame(&mut self, time_ns: (i64, i64), frame: &PartFrame) {
        // Its values are read together with the part in which it ended.
        self.begin_ns = self.begin_ns.min(time_ns.0);
        self.end_ns = self.end_ns.max(time_ns.1);
        self.thinned.frame(time_ns, frame);
    }

    fn moment(&mut self, moment: Moment) {
        // A poll is read together with the part in which it ended.
        if let Some((begin_ns, end_ns)) = moment.time_ns() {
            self.cover(begin_ns, end_ns);
            self.begin_ns = self.begin_ns.min(begin_ns);
        }
        self.thinned.moment(moment);
    }
}

/// The position of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeRead {
    begin_ns: i64,
    end_ns: i64,
    left: usize,
    /// The number of parts that are not surveyed.
    unknown: usize,
    /// How far the parts were read that are surveyed, and then those before them.
    reach: Reach,
    read: usize,
    expected: usize,
}

impl RangeRead {
    /// Returns the part that is done, from 0 to 1.
    pub(crate) fn progress(&self) -> f32 {
        (self.read as f32 / self.expected.max(1) as f32).min(1.0)
    }
}

/// The totals of the durations inside some spans.
pub(crate) type Settled = FxHashMap<(ThreadId, Span), u64>;

/// Takes what is read, the last first.
pub(crate) trait PartReader: Send + std::fmt::Debug {
    /// The next spans are of this catalog.
    fn set_catalog(&mut self, catalog: &Arc<Catalog>) {
        let _ = catalog;
    }

    /// The next part has these spans that began before the range.
    fn settle(&mut self, early: Settled) {
        let _ = early;
    }

    /// A part.
    fn part(&mut self, contents: &PartContents, clock: &mut Clock<'_>);

    /// A span that reaches into the range, of a part that is not read, with its arguments and the
    /// total duration of the spans inside.
    fn span(&mut self, thread: ThreadId, span: Span, args: &[ArgValue], inside_ns: u64);

    /// A task that reaches into the range, of a part that is not read.
    fn task(&mut self, thread: ThreadId, task: Task);
}

/// Reads the spans of a range for a picture.
#[derive(Debug)]
pub(crate) struct PictureReader {
    walk: Backwards,
    thinned: Thinned,
}

impl PictureReader {
    /// Makes one for the spans that overlap a time, thinned to bins of at most `bin_ns` if there
    /// are more than `max_spans`.
    pub(crate) fn new(begin_ns: i64, end_ns: i64, bin_ns: u64, max_spans: usize) -> Self {
        Self {
            walk: Backwards::default(),
            thinned: Thinned::new((begin_ns, end_ns), bin_ns, max_spans),
        }
    }
}

impl PartReader for PictureReader {
    fn set_catalog(&mut self, catalog: &Arc<Catalog>) {
        self.thinned.set_catalog(catalog);
    }

    fn part(&mut self, contents: &PartContents, clock: &mut Clock<'_>) {
        self.walk.part(contents, clock, &mut self.thinned);
    }

    fn span(&mut self, thread: ThreadId, span: Span, args: &[ArgValue], _: u64) {
        self.walk.span(thread, span, args, &mut self.thinned);
    }

    fn task(&mut self, thread: ThreadId, task: Task) {
        if self.thinned.begin_track(thread, TrackKind::Tasks, &[]) {
            self.thinned.task(task);
        }
    }
}
