//! Reads the capture, a small step at a time.
//!
//! A loader owns the capture and does one thing after the other: the requested frame, the frames
//! around it, the durations of all frames, then the growth of the file. A step reads one frame with
//! its spans, or a piece of the durations. A newer request therefore waits for at most one step.
//! The loader does not depend on its thread or on the way of its results to the drawing thread (see
//! `driver`).
//!
//! The loader builds a window with its levels of detail and delivers it as a whole; the drawing
//! thread only replaces the previous one. New frames of a growing file arrive one by one.
//!
//! A window is a sequence of frames without gaps: a lost frame keeps its place in it, without spans
//! and with zero duration.

use std::sync::Arc;

use vor_capture::Error;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::timeline::TickMapper;
use vor_capture::reader::{Capture, FrameScan, FrameSummary, Info};

use super::capture_file::Origin;
use super::summary::FrameSummaryRow;
use super::whole_work::{PictureRequest, Surveyed, WholeRequest, WholeWork};
use crate::store::{FrameBlock, FrameEntry, Layer, Store};
use crate::whole::SurveyFile;

/// Frames that are summarised in one step. They take about 2 ms. Frames of a version-2 capture must
/// be read whole.
const SUMMARIES_PER_STEP: usize = 8192;
const SUMMARIES_PER_STEP_V2: usize = 32;

/// Maximum number of shown spans per frame; the rest is counted.
const MAX_FRAME_SPANS: u64 = vor_capture::reader::DEFAULT_MAX_SPANS as u64;

/// Maximum number of frames that are read to find the time of a lost frame.
const NEIGHBOURS: usize = 64;

/// Limits for the window of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// Maximum number of frames.
    pub frames: usize,
    /// Maximum number of spans; one frame is shown regardless of its size. A picture of the capture
    /// or of a range of it has so many spans too: of more, the shortest are left out.
    pub spans: usize,
}

/// As many frames as there is room for bars, and about twenty spans per pixel of a large screen.
/// Millions more would only increase the waiting time.
impl Default for WindowLimits {
    fn default() -> Self {
        Self {
            frames: 256,
            spans: 3_000_000,
        }
    }
}

/// The frames to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Identifies the request.
    pub(crate) job: u64,
    /// The requested frame.
    pub(crate) frame: u64,
    /// The side on which its neighbours are loaded.
    pub(crate) side: Side,
    /// Whether the frame itself is delivered before its neighbours.
    pub(crate) is_urgent: bool,
    pub(crate) limits: WindowLimits,
}

/// The position of a window relative to the requested frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Both,
    After,
    Before,
}

/// A result of a loader.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A window whose last frame precedes the frame `end` of the capture. It is either the whole
    /// window, or before that only the requested frame.
    Window {
        job: u64,
        end: u64,
        store: Box<Store>,
        is_whole: bool,
    },
    /// A frame that follows the whole window.
    Block { job: u64, block: Box<FrameBlock> },
    /// Summaries of the next frames.
    Summaries(Vec<FrameSummaryRow>),
    /// The state of the whole capture.
    Surveyed(Surveyed),
    /// The spans of a range of time.
    Picture {
        request: PictureRequest,
        layer: Box<Layer>,
    },
    /// The file has grown, or its first scan is complete.
    Grown {
        info: Box<Info>,
        catalog: Arc<Catalog>,
    },
    /// Another capture is read from now on, for the reason in `notice`. No delivery of the previous
    /// one follows.
    Replaced {
        info: Box<Info>,
        catalog: Arc<Catalog>,
        notice: &'static str,
    },
    /// A part of the capture is damaged.
    Problem(String),
    /// The file cannot be read; no delivery follows until the next request.
    Failed(String),
}

/// The result of a step.
#[derive(Debug)]
pub(crate) enum Step {
    Delivered(Delivery),
    /// There is more to do.
    Working,
    /// There is nothing to do until the next request or file growth.
    Idle,
}

/// Reads a capture step by step.
#[derive(Debug)]
pub(crate) struct Loader {
    capture: Capture,
    /// The file or the bytes, if they may grow or be replaced.
    origin: Option<Origin>,
    is_v2: bool,
    /// Whether the file must still be scanned for its frames.
    is_unknown: bool,
    /// The request that waits for the scan.
    waiting: Option<Request>,
    scan: FrameScan,
    /// Whether the file can no longer be read.
    failed: bool,
    origin_ns: Option<i64>,
    job: Option<Job>,
    following: bool,
    /// The last delivered window: its request, and the frame that follows it.
    window: Option<(Request, u64)>,
    /// A delivery that waits for an earlier one.
    ready: Option<Delivery>,
    /// The work on the whole capture that is requested, and the work itself.
    whole_request: Option<WholeRequest>,
    whole: Option<Box<WholeWork>>,
    /// Whether the next step is for the whole capture and not for the durations of frames.
    whole_is_next: bool,
}

#[derive(Debug)]
struct Job {
    request: Request,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The requested frame.
    Single,
    /// The span counts of the frames around it, to find out how many of them fit.
    Measure {
        scan: Box<FrameScan>,
        first: u64,
        end: u64,
        spans: Vec<u64>,
    },
    /// One frame after the other.
    Fill {
        next: u64,
        end: u64,
        spans: u64,
        store: Box<Store>,
    },
    /// Frames that arrived after the window was complete.
    Append {
        next: u64,
        end: u64,
        previous: Option<FrameEntry>,
    },
}

impl Loader {
    /// Makes a loader of a capture; `origin` is where it grows, if it may. A lazily opened file
    /// without an index is scanned first.
    pub(crate) fn new(capture: Capture, origin: Option<Origin>) -> Self {
        let info = capture.info();
        Self {
            is_v2: info.version == 2,
            is_unknown: origin.as_ref().is_some_and(Origin::is_lazy) && !info.indexed,
            waiting: None,
            capture,
            origin,
            scan: FrameScan::new(0),
            failed: false,
            origin_ns: None,
            job: None,
            following: false,
            window: None,
            ready: None,
            whole_request: None,
            whole: None,
            whole_is_next: true,
        }
    }

    /// Begins the work on the whole capture, or ends it.
    pub(crate) fn set_whole(&mut self, request: Option<WholeRequest>) {
        self.whole = None;
        self.whole_request = request;
    }

    /// Requests a picture of a range of time; this replaces an earlier request.
    pub(crate) fn request_picture(&mut self, request: PictureRequest) {
        if let Some(whole) = &mut self.whole {
            whole.request_picture(request);
        }
    }

    /// Accepts a request; it replaces the previous one, complete or not.
    pub(crate) fn request(&mut self, request: Request) {
        if self.is_unknown {
            self.waiting = Some(request);
            self.failed = false;
            return;
        }
        let stage = if request.is_urgent {
            Stage::Single
        } else {
            self.begin_measure(&request)
        };
        self.window = None;
        self.failed = false;
        self.job = Some(Job { request, stage });
    }

    pub(crate) fn set_following(&mut self, following: bool) {
        self.following = following;
    }

    pub(crate) fn is_following(&self) -> bool {
        self.following
    }

    /// Checks the file for growth or replacement; returns a delivery if there is any.
    pub(crate) fn poll_growth(&mut self) -> Option<Delivery> {
        if self.job.is_some() {
            return None;
        }
        if self.origin.as_mut().is_some_and(Origin::is_replaced) {
            return self.reopen("another file has taken its place, and is read from its start");
        }
        if self.failed {
            return None;
        }
        let (count, before) = (self.capture.frame_count(), self.capture.info());
        match self.capture.extend() {
            Err(error) => Some(self.fail(&error)),
            // Without marks, frame 0 covers everything recorded; now it ends at the first mark.
            Ok(_) if count > 0 && self.capture.info().marked != before.marked => {
                self.reopen("the program marks frames now; the capture is read from its start")
            }
            Ok(frames) => {
                let is_closed = self.capture.info().closed;
                (frames != count || is_closed != before.closed).then(|| self.grown())
            }
        }
    }

    /// Opens the current file at the capture's path. The file or its header may not exist yet.
    fn reopen(&mut self, notice: &'static str) -> Option<Delivery> {
        let (capture, origin) = self.origin.as_ref()?.reopen()?;
        *self = Self {
            following: self.following,
            ..Self::new(capture, Some(origin))
        };
        Some(Delivery::Replaced {
            info: Box::new(self.capture.info()),
            catalog: Arc::clone(self.capture.catalog()),
            notice,
        })
    }

    fn grown(&self) -> Delivery {
        Delivery::Grown {
            info: Box::new(self.capture.info()),
            catalog: Arc::clone(self.capture.catalog()),
        }
    }

    fn fail(&mut self, error: &Error) -> Delivery {
        self.failed = true;
        Delivery::Failed(error.to_string())
    }

    /// Finds the frames of a file that has no index.
    fn scan_frames(&mut self) -> Step {
        if let Err(error) = self.capture.extend() {
            return Step::Delivered(self.fail(&error));
        }
        self.is_unknown = false;
        if let Some(request) = self.waiting.take() {
            self.request(request);
        }
        Step::Delivered(self.grown())
    }

    /// Does one step of the pending work.
    pub(crate) fn step(&mut self) -> Step {
        if let Some(ready) = self.ready.take() {
            return Step::Delivered(ready);
        }
        if self.failed {
            return Step::Idle;
        }
        if self.is_unknown {
            return self.scan_frames();
        }
        if let Some(job) = self.job.take() {
            return self.work(job);
        }
        if self.whole.as_ref().is_some_and(|whole| whole.is_urgent()) {
            return self.whole_step();
        }
        if self.following
            && let Some(job) = self.append_job()
        {
            self.job = Some(job);
            return Step::Working;
        }
        // Both go on at the same time: neither waits long for its first results.
        self.whole_is_next = !self.whole_is_next;
        if self.whole_is_next {
            match self.summaries() {
                Step::Idle => self.whole_step(),
                step => step,
            }
        } else {
            match self.whole_step() {
                Step::Idle => self.summaries(),
                step => step,
            }
        }
    }

    /// Does a step of the work on the whole capture.
    fn whole_step(&mut self) -> Step {
        if self.capture.frame_count() > 0
            && let Some(request) = self.whole_request.take()
        {
            let origin_ns = self.origin_ns(0);
            let file = self.survey_file(&request, origin_ns);
            let origin = self.origin.clone();
            match WholeWork::new(request, &mut self.capture, origin_ns, origin, file) {
                Ok(whole) => self.whole = Some(Box::new(whole)),
                Err(error) => return Step::Delivered(self.fail(&error)),
            }
        }
        let Some(whole) = &mut self.whole else {
            return Step::Idle;
        };
        match whole.step(&mut self.capture) {
            Ok(step) => step,
            Err(error) => Step::Delivered(self.fail(&error)),
        }
    }

    /// Returns the file in which the survey is kept, if it is.
    fn survey_file(&self, request: &WholeRequest, origin_ns: i64) -> Option<SurveyFile> {
        cfg_select! {
            target_arch = "wasm32" => {
                let _ = (request.keeps_survey, origin_ns);
                None
            }
            _ => {
                let path = self.origin.as_ref().and_then(Origin::path)?;
                let file = || SurveyFile::of(path.to_owned(), origin_ns, request.max_spans);
                request.keeps_survey.then(file)
            }
        }
    }

    fn work(&mut self, job: Job) -> Step {
        let Job { request, stage } = job;
        let result = match stage {
            Stage::Single => self.deliver_single(&request),
            Stage::Measure { .. } => self.continue_measure(&request, stage),
            Stage::Fill { .. } => self.fill(&request, stage),
            Stage::Append { .. } => self.append(&request, stage),
        };
        match result {
            Ok((step, stage)) => {
                self.job = stage.map(|stage| Job { request, stage });
                step
            }
            Err(error) => Step::Delivered(self.fail(&error)),
        }
    }

    fn deliver_single(&mut self, request: &Request) -> Result<(Step, Option<Stage>), Error> {
        let count = self.capture.frame_count();
        let frame = request.frame.min(count.saturating_sub(1));
        if count == 0 {
            return Ok((Step::Working, Some(self.begin_measure(request))));
        }
        let block = self.block(frame, None)?;
        let mut store = Box::new(store(request.limits));
        store.push_block(block);
        let delivery = Delivery::Window {
            job: request.job,
            end: frame + 1,
            store,
            is_whole: false,
        };
        Ok((Step::Delivered(delivery), Some(self.begin_measure(request))))
    }

    /// Begins to measure the frames around the requested one.
    fn begin_measure(&self, request: &Request) -> Stage {
        let count = self.capture.frame_count();
        let frame = request.frame.min(count.saturating_sub(1));
        let others = (request.limits.frames as u64).saturating_sub(1);
        let (before, after) = match request.side {
            Side::Both => (others, others),
            Side::After => (0, others),
            Side::Before => (others, 0),
        };
        let first = frame.saturating_sub(before);
        Stage::Measure {
            scan: Box::new(FrameScan::new(first)),
            first,
            end: frame.saturating_add(after).saturating_add(1).min(count),
            spans: Vec::new(),
        }
    }

    fn continue_measure(
        &mut self,
        request: &Request,
        stage: Stage,
    ) -> Result<(Step, Option<Stage>), Error> {
        let Stage::Measure {
            mut scan,
            first,
            end,
            mut spans,
        } = stage
        else {
            return Ok((Step::Idle, None));
        };
        let most = if self.is_v2 {
            SUMMARIES_PER_STEP_V2
        } else {
            SUMMARIES_PER_STEP
        };
        for _ in 0..most {
            if scan.next_frame() >= end {
                break;
            }
            match self.capture.next_summary(&mut scan) {
                Some(Ok(summary)) => spans.push(summary.span_count.min(MAX_FRAME_SPANS)),
                Some(Err(error)) if error.is_corrupt() => spans.push(0),
                Some(Err(error)) => return Err(error),
                None => break,
            }
        }
        let known = first + spans.len() as u64;
        if scan.next_frame() < end && known == scan.next_frame() {
            let stage = Stage::Measure {
                scan,
                first,
                end,
                spans,
            };
            return Ok((Step::Working, Some(stage)));
        }
        let (first, end) = choose_window(request, first, &spans);
        let stage = Stage::Fill {
            next: first,
            end,
            spans: 0,
            store: Box::new(store(request.limits)),
        };
        Ok((Step::Working, Some(stage)))
    }

    fn fill(&mut self, request: &Request, stage: Stage) -> Result<(Step, Option<Stage>), Error> {
        let Stage::Fill {
            next,
            mut end,
            spans,
            mut store,
        } = stage
        else {
            return Ok((Step::Idle, None));
        };
        if next >= end {
            self.window = Some((*request, next));
            let delivery = Delivery::Window {
                job: request.job,
                end: next,
                store,
                is_whole: true,
            };
            return Ok((Step::Delivered(delivery), None));
        }
        let block = self.block(next, store.frames().back())?;
        let spans = spans + span_total(&block);
        store.push_block(block);
        if spans > request.limits.spans as u64 && next >= request.frame {
            // Tasks are not part of the frames' span counts, so there may be more spans than
            // expected.
            end = next + 1;
        }
        let stage = Stage::Fill {
            next: next + 1,
            end,
            spans,
            store,
        };
        Ok((Step::Working, Some(stage)))
    }

    /// Returns the work after file growth: the new frames, or a new window if there are too many.
    fn append_job(&self) -> Option<Job> {
        let (request, next) = self.window?;
        let end = self.capture.frame_count();
        if next >= end {
            return None;
        }
        let stage = if end - next > request.limits.frames as u64 {
            self.begin_measure(&Request {
                frame: end - 1,
                side: Side::Before,
                ..request
            })
        } else {
            Stage::Append {
                next,
                end,
                previous: None,
            }
        };
        let request = Request {
            frame: end - 1,
            side: Side::Before,
            ..request
        };
        Some(Job { request, stage })
    }

    fn append(&mut self, request: &Request, stage: Stage) -> Result<(Step, Option<Stage>), Error> {
        let Stage::Append {
            next,
            end,
            previous,
        } = stage
        else {
            return Ok((Step::Idle, None));
        };
        let block = self.block(next, previous.as_ref())?;
        self.window = Some((*request, next + 1));
        let stage = (next + 1 < end).then(|| Stage::Append {
            next: next + 1,
            end,
            previous: Some(block.frame.clone()),
        });
        let delivery = Delivery::Block {
            job: request.job,
            block: Box::new(block),
        };
        Ok((Step::Delivered(delivery), stage))
    }

    /// Reads a frame; a lost one becomes an empty frame between its neighbours.
    fn block(&mut self, frame: u64, previous: Option<&FrameEntry>) -> Result<FrameBlock, Error> {
        match self.capture.recovered_batches(frame) {
            Ok((recovered, batches)) => {
                let origin_ns = self.origin_ns(recovered.frame.start_ticks);
                let mut block = FrameBlock::of_batches(&recovered.frame, batches, origin_ns);
                block.frame.lost_records = recovered.lost_records;
                Ok(block)
            }
            Err(error) if error.is_corrupt() => {
                let at_ns = previous.map(|previous| previous.end_ns);
                let at_ns = at_ns.unwrap_or_else(|| self.next_begin_ns(frame));
                let number = previous.map_or(frame, |previous| previous.number.saturating_add(1));
                Ok(FrameBlock {
                    frame: FrameEntry {
                        number,
                        begin_ns: at_ns,
                        end_ns: at_ns,
                        lost_records: 1,
                        ..FrameEntry::default()
                    },
                    catalog: Arc::clone(self.capture.catalog()),
                    ..FrameBlock::default()
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the begin of the next frame with a known begin.
    fn next_begin_ns(&mut self, frame: u64) -> i64 {
        let next = self
            .capture
            .summaries(frame)
            .take(NEIGHBOURS)
            .find_map(Result::ok);
        next.map_or(0, |next| {
            let origin_ns = self.origin_ns(next.start_ticks);
            let begin_ns = self.capture.catalog().unix_ns(next.start_ticks);
            begin_ns.saturating_sub(origin_ns)
        })
    }

    /// Returns the origin of times: the begin of the capture's first frame.
    fn origin_ns(&mut self, otherwise_ticks: u64) -> i64 {
        if let Some(origin_ns) = self.origin_ns {
            return origin_ns;
        }
        let first = self
            .capture
            .summaries(0)
            .take(NEIGHBOURS)
            .find_map(Result::ok);
        let ticks = first.map_or(otherwise_ticks, |first| first.start_ticks);
        let origin_ns = self.capture.catalog().unix_ns(ticks);
        self.origin_ns = Some(origin_ns);
        origin_ns
    }

    /// Summarises the next frames.
    fn summaries(&mut self) -> Step {
        if self.origin_ns.is_none() && self.capture.frame_count() > 0 {
            self.origin_ns(0);
        }
        let most = if self.is_v2 {
            SUMMARIES_PER_STEP_V2
        } else {
            SUMMARIES_PER_STEP
        };
        let catalog = Arc::clone(self.capture.catalog());
        let mut mapper = TickMapper::new(&catalog.timeline);
        let origin_ns = self.origin_ns.unwrap_or(0);
        let mut summaries = Vec::new();
        while summaries.len() < most {
            match self.capture.next_summary(&mut self.scan) {
                None => break,
                Some(Ok(summary)) => summaries.push(summary_row(&summary, &mut mapper, origin_ns)),
                Some(Err(error)) if error.is_corrupt() => summaries.push(FrameSummaryRow {
                    number: None,
                    time_ns: None,
                    spans: 0,
                    dropped_spans: 0,
                    is_damaged: true,
                }),
                Some(Err(error)) => return Step::Delivered(self.fail(&error)),
            }
        }
        if summaries.is_empty() {
            return Step::Idle;
        }
        let summaries = Delivery::Summaries(summaries);
        if self.scan.next_frame() >= self.capture.frame_count()
            && let Some(problem) = self.damage()
        {
            // Damage is reported no later than the last summaries.
            self.ready = Some(summaries);
            return Step::Delivered(Delivery::Problem(problem));
        }
        Step::Delivered(summaries)
    }

    /// Returns a description of the damage.
    fn damage(&self) -> Option<String> {
        let damage = self.capture.info().damage;
        let first = damage.losses.first()?;
        Some(match damage.count {
            1 => format!("damaged: {}", first.reason),
            count => format!("damaged in {count} places; the first: {}", first.reason),
        })
    }
}

fn summary_row(
    summary: &FrameSummary,
    mapper: &mut TickMapper<'_>,
    origin_ns: i64,
) -> FrameSummaryRow {
    let mut ns = |ticks| mapper.unix_ns(ticks).saturating_sub(origin_ns);
    FrameSummaryRow {
        number: Some(summary.index),
        time_ns: Some((ns(summary.start_ticks), ns(summary.end_ticks))),
        spans: summary.span_count,
        dropped_spans: summary.dropped_spans,
        is_damaged: summary.lost_records > 0,
    }
}

/// Makes a store for a window. The loader enforces the limit of spans itself, so the store's limit
/// has a margin of a quarter.
pub(crate) fn store(limits: WindowLimits) -> Store {
    Store::new(limits.frames, limits.spans.saturating_add(limits.spans / 4))
}

/// Returns the most spans that a block adds to the store, which leaves out tasks without a lane, or
/// the number of its polls if there are more of these: both have the same limit.
fn span_total(block: &FrameBlock) -> u64 {
    let threads = block.threads.iter();
    let spans = threads.map(|thread| {
        let rows: usize = thread.rows.iter().map(crate::store::RowBlock::len).sum();
        (rows + thread.tasks.len()).max(thread.polls.len()) as u64
    });
    spans.sum()
}

/// Returns the first frame of a window and the one after its last. The window holds the requested
/// frame and as many neighbours as fit, the nearest first. `spans` holds the span counts of the
/// frames from `first` on.
fn choose_window(request: &Request, first: u64, spans: &[u64]) -> (u64, u64) {
    let count = spans.len();
    let Some(last) = count.checked_sub(1) else {
        return (first, first);
    };
    let requested = usize::try_from(request.frame.saturating_sub(first))
        .map_or(last, |requested| requested.min(last));
    let (mut begin, mut end) = (requested, requested + 1);
    let mut sum = spans[requested];
    let most = request.limits.spans as u64;
    let fits = |sum: u64, at: Option<usize>, begin: usize, end: usize| {
        let more = *spans.get(at?)?;
        let sum = sum.saturating_add(more);
        (end - begin < request.limits.frames && sum <= most).then_some(sum)
    };
    loop {
        let before = fits(sum, begin.checked_sub(1), begin, end);
        if let Some(more) = before {
            (sum, begin) = (more, begin - 1);
        }
        let after = fits(sum, Some(end), begin, end);
        if let Some(more) = after {
            (sum, end) = (more, end + 1);
        }
        if before.is_none() && after.is_none() {
            return (first + begin as u64, first + end as u64);
        }
    }
}
