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
use crate::whole::{
    Archive, PictureReader, Question, RangeRead, Spans, Stamp, Survey, SurveyFile, Thinned,
};

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
    /// Whether the survey of a large capture is kept beside its file.
    pub(crate) keeps_survey: bool,
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
    /// The picture of a survey that was kept, until it is delivered.
    kept: Option<Thinned>,
    /// Where the survey will be kept, and the stamp of the capture before it.
    keep: Option<(SurveyFile, Stamp)>,
    began: Instant,
    pictured: Duration,
    picture: Option<(PictureRequest, RangeRead, PictureReader)>,
    question: Option<(Question, RangeRead)>,
    is_failed: bool,
}

impl WholeWork {
    /// Begins a survey, unless the one in `file` is of this capture.
    pub(crate) fn new(
        request: WholeRequest,
        capture: &mut Capture,
        origin_ns: i64,
        file: Option<SurveyFile>,
    ) -> Result<Self, Error> {
        let began = Instant::now();
        let keep = file.and_then(|file| Some((file.clone(), file.stamp()?)));
        let found = keep.as_ref().and_then(|(file, stamp)| file.read(stamp));
        let (archive, survey, kept, keep) = match found {
            Some((archive, thinned)) => (archive, None, Some(thinned), None),
            None => {
                let mut archive = Archive::default();
                archive.find(capture)?;
                let survey = archive.survey(capture.info().duration_ns, request.max_spans);
                (archive, Some(survey), None, keep)
            }
        };
        Ok(Self {
            request,
            origin_ns,
            archive,
            survey,
            kept,
            keep,
            began,
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
        if let Some(thinned) = self.kept.take() {
            let layer = self.archive.kept_layer(&thinned, capture.catalog());
            return Ok(self.surveyed(layer));
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
        let layer = survey.layer(capture.catalog());
        if let Some((file, stamp)) = self.keep.take()
            && SurveyFile::is_worth(self.began.elapsed())
        {
            _ = file.write(stamp, &self.archive, survey.into_thinned());
        }
        Ok(self.surveyed(layer))
    }

    /// Delivers the picture of a complete survey.
    fn surveyed(&self, layer: Layer) -> Step {
        Step::Delivered(Delivery::Surveyed(Surveyed {
            generation: self.request.generation,
            layer: Some(Box::new(layer)),
            bounds_ns: self.archive.bounds_ns(),
            progress: 1.0,
            losses: self.archive.losses(),
        }))
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

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Cursor;

    use vor_fixtures::even::make;

    use super::*;

    const MAX_SPANS: usize = 1000;

    /// Does all steps. Returns the number of steps, and the last result.
    fn finish(work: &mut WholeWork, capture: &mut Capture) -> (u32, Surveyed) {
        let (mut steps, mut last) = (0, None);
        loop {
            match work.step(capture).unwrap() {
                Step::Idle => return (steps, last.unwrap()),
                Step::Delivered(Delivery::Surveyed(surveyed)) => last = Some(surveyed),
                _ => {}
            }
            steps += 1;
        }
    }

    #[test]
    fn the_second_opening_reads_the_survey_and_not_the_capture() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        let bytes = make(2_000, 100, true).bytes;
        std::fs::write(&path, &bytes).unwrap();
        let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
        let request = || WholeRequest {
            generation: 3,
            spans: Arc::default(),
            max_spans: MAX_SPANS,
            keeps_survey: true,
        };
        let file = SurveyFile::of(path.clone(), 0, MAX_SPANS);
        let mut begin = |file| WholeWork::new(request(), &mut capture, 0, file).unwrap();
        let (mut first, mut none) = (begin(Some(file.clone())), begin(None));
        let (steps, expected) = finish(&mut first, &mut capture);
        assert!(steps > 1 && expected.progress == 1.0);
        let began = Instant::now();
        while !path.with_extension("vor.survey").exists() {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut second = WholeWork::new(request(), &mut capture, 0, Some(file)).unwrap();
        assert!(second.survey.is_none() && second.keep.is_none());
        let (steps, kept) = finish(&mut second, &mut capture);
        assert_eq!(steps, 1);
        assert_eq!(
            (kept.generation, kept.progress, kept.losses, kept.bounds_ns),
            (3, 1.0, 0, expected.bounds_ns)
        );
        assert_eq!(format!("{:?}", kept.layer), format!("{:?}", expected.layer));
        // Without a file, the capture is surveyed.
        assert!(finish(&mut none, &mut capture).0 > 1);
    }
}
