//! The work of a loader for the whole capture: a survey of it, pictures of ranges, and answers to
//! questions about ranges.
//!
//! Each step reads one part of the capture, so a newer request waits for about a millisecond.
//! Pictures come first, since the user waits for them; but nothing is read before the survey is
//! complete, because a range needs to know which spans reach into it.

use std::sync::Arc;
use std::time::Duration;

use vor_capture::Error;
use vor_capture::reader::Capture;
use web_time::Instant;

use super::loader::{Delivery, Step};
use crate::store::Layer;
use crate::whole::{Archive, PictureReader, Question, RangeRead, Spans, Survey};

/// Time until the first picture of an incomplete survey, and between two of them. A picture takes
/// some ten milliseconds.
const FIRST_PICTURE: Duration = Duration::from_millis(150);
const NEXT_PICTURE: Duration = Duration::from_millis(600);

/// The survey of a capture that begins.
#[derive(Clone, Debug)]
pub(crate) struct WholeRequest {
    /// Distinguishes its results from those of earlier ones.
    pub(crate) generation: u64,
    pub(crate) spans: Arc<Spans>,
    /// Maximum number of spans of a picture; more are thinned.
    pub(crate) max_spans: usize,
}

/// A range of time to be drawn, with bins of at most `bin_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PictureRequest {
    pub(crate) generation: u64,
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) bin_ns: u64,
}

/// The results of a survey so far.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) generation: u64,
    /// The picture of the whole capture; absent where it did not change.
    pub(crate) layer: Option<Box<Layer>>,
    /// Begin and end of everything, if there is anything.
    pub(crate) bounds_ns: Option<(i64, i64)>,
    /// The part that was surveyed, from 0 to 1.
    pub(crate) progress: f32,
    /// Number of places that could not be read.
    pub(crate) losses: u64,
}

/// The state of the work.
#[derive(Debug)]
pub(crate) struct WholeWork {
    request: WholeRequest,
    origin_ns: i64,
    archive: Archive,
    /// The survey, until it is complete.
    survey: Option<Survey>,
    began: Instant,
    pictured: Duration,
    picture: Option<(PictureRequest, RangeRead, PictureReader)>,
    question: Option<(Question, RangeRead)>,
    is_failed: bool,
}

impl WholeWork {
    /// Begins a survey.
    pub(crate) fn new(
        request: WholeRequest,
        capture: &mut Capture,
        origin_ns: i64,
    ) -> Result<Self, Error> {
        let mut archive = Archive::default();
        archive.find(capture)?;
        let survey = archive.survey(capture.info().duration_ns, request.max_spans);
        Ok(Self {
            request,
            origin_ns,
            archive,
            survey: Some(survey),
            began: Instant::now(),
            pictured: Duration::ZERO,
            picture: None,
            question: None,
            is_failed: false,
        })
    }

    /// Accepts a request for a picture; it replaces the previous one.
    pub(crate) fn request_picture(&mut self, request: PictureRequest) {
        if request.generation == self.request.generation {
            let PictureRequest {
                begin_ns,
                end_ns,
                bin_ns,
                ..
            } = request;
            let range = self.archive.read(begin_ns, end_ns);
            let reader = PictureReader::new(begin_ns, end_ns, bin_ns, self.request.max_spans);
            self.picture = Some((request, range, reader));
        }
    }

    /// Returns whether a picture is being made.
    pub(crate) fn is_urgent(&self) -> bool {
        self.survey.is_none() && self.picture.is_some()
    }

    /// Does the next step; the result is `Idle` when there is nothing to do.
    pub(crate) fn step(&mut self, capture: &mut Capture) -> Result<Step, Error> {
        if self.is_failed {
            return Ok(Step::Idle);
        }
        let step = self.try_step(capture);
        self.is_failed = step.is_err();
        step
    }

    fn try_step(&mut self, capture: &mut Capture) -> Result<Step, Error> {
        if let Some(survey) = self.survey.take() {
            return self.survey(survey, capture);
        }
        if let Some((request, mut range, mut reader)) = self.picture.take() {
            let (archive, origin_ns) = (&self.archive, self.origin_ns);
            if archive.read_part(&mut range, capture, origin_ns, &mut reader)? {
                self.picture = Some((request, range, reader));
                return Ok(Step::Working);
            }
            return Ok(Step::Delivered(Delivery::Picture {
                generation: request.generation,
                layer: Box::new(archive.layer(&reader, capture.catalog())),
            }));
        }
        let Some((mut question, mut range)) = self.question.take().or_else(|| self.next_question())
        else {
            return Ok(Step::Idle);
        };
        if question.is_dropped() {
            return Ok(Step::Working);
        }
        let (archive, origin_ns) = (&self.archive, self.origin_ns);
        if archive.read_part(&mut range, capture, origin_ns, question.work.as_reader())? {
            question.set_progress(range.progress());
            self.question = Some((question, range));
        } else {
            question.answer(
                capture.catalog(),
                self.archive.bounds_ns().unwrap_or((0, 0)),
            );
        }
        Ok(Step::Working)
    }

    fn next_question(&self) -> Option<(Question, RangeRead)> {
        let question = self.request.spans.next()?;
        let range = self
            .archive
            .read(question.scope.begin_ns, question.scope.end_ns);
        let range = range.with_args(question.needs_args);
        Some((question, range))
    }

    fn survey(&mut self, mut survey: Survey, capture: &mut Capture) -> Result<Step, Error> {
        if self
            .archive
            .survey_part(&mut survey, capture, self.origin_ns)?
        {
            let delivery = self.survey_delivery(&survey, capture);
            self.survey = Some(survey);
            return Ok(delivery.map_or(Step::Working, Step::Delivered));
        }
        self.archive.take(&mut survey);
        Ok(Step::Delivered(Delivery::Surveyed(Surveyed {
            generation: self.request.generation,
            layer: Some(Box::new(survey.layer(capture.catalog()))),
            bounds_ns: self.archive.bounds_ns(),
            progress: 1.0,
            losses: self.archive.losses(),
        })))
    }

    /// Returns a picture of what was surveyed so far, from time to time.
    fn survey_delivery(&mut self, survey: &Survey, capture: &Capture) -> Option<Delivery> {
        let now = self.began.elapsed();
        let is_due = match self.pictured {
            Duration::ZERO => now >= FIRST_PICTURE,
            pictured => now >= pictured + NEXT_PICTURE,
        };
        if !is_due {
            return None;
        }
        let layer = Box::new(survey.layer(capture.catalog()));
        self.pictured = self.began.elapsed();
        let all = self.archive.len().max(1);
        Some(Delivery::Surveyed(Surveyed {
            generation: self.request.generation,
            layer: Some(layer),
            bounds_ns: survey.bounds_ns(),
            progress: 1.0 - survey.left() as f32 / all as f32,
            losses: self.archive.losses(),
        }))
    }
}
