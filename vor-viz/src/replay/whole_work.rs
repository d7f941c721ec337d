//! The work of a loader for the whole capture: a survey of it, pictures of ranges, and answers to
//! questions about ranges.
//!
//! Each step reads one part of the capture, so a newer request waits for about a millisecond.
//! Pictures come first, since the user waits for them: the survey pauses between two parts while a
//! range is read. Such pictures are partial (see [`Archive`]). Questions wait for the end of the
//! survey, because their answers are exact.

use std::sync::Arc;
use std::time::Duration;

use vor_capture::Error;
use vor_capture::reader::Capture;
use web_time::Instant;

use super::capture_file::Origin;
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
    /// The newest request for a picture, until it is begun.
    asked: Option<PictureRequest>,
    picture: Option<(PictureRequest, RangeRead, PictureReader)>,
    question: Option<(Question, RangeRead)>,
    is_failed: bool,
}

impl WholeWork {
    /// Begins a survey, unless the one in `file` is of this capture. A capture that has an `origin`
    /// is opened once more meanwhile.
    pub(crate) fn new(
        request: WholeRequest,
        capture: &mut Capture,
        origin_ns: i64,
        origin: Option<Origin>,
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
                if let Some(origin) = origin {
                    archive.note_times(origin_ns, move || Some(origin.reopen()?.0));
                }
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
            asked: None,
            picture: None,
            question: None,
            is_failed: false,
        })
    }

    /// Accepts a request for a picture; it replaces the previous one, unless that is being read.
    pub(crate) fn request_picture(&mut self, request: PictureRequest) {
        if request.generation == self.request.generation {
            self.asked = Some(request);
        }
    }

    /// Returns whether a picture is being made.
    pub(crate) fn is_urgent(&self) -> bool {
        self.picture.is_some() || self.asked.is_some()
    }

    /// Begins to read the picture that is asked for.
    fn begin_picture(&mut self) -> Option<(PictureRequest, RangeRead, PictureReader)> {
        let request = self.asked.take()?;
        let (begin_ns, end_ns) = (request.begin_ns, request.end_ns);
        let range = self.archive.read(self.survey.as_ref(), begin_ns, end_ns);
        let max_spans = self.request.max_spans;
        let reader = PictureReader::new(begin_ns, end_ns, request.bin_ns, max_spans);
        Some((request, range, reader))
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
        if let Some(thinned) = self.kept.take() {
            let layer = self.archive.kept_layer(&thinned, capture.catalog());
            return Ok(self.surveyed(layer));
        }
        let picture = self.picture.take().or_else(|| self.begin_picture());
        if let Some((request, mut range, mut reader)) = picture {
            let (archive, origin_ns) = (&self.archive, self.origin_ns);
            if archive.read_part(&mut range, capture, origin_ns, &mut reader)? {
                self.picture = Some((request, range, reader));
                return Ok(Step::Working);
            }
            let layer = archive.layer(&reader, self.survey.as_ref(), capture.catalog());
            return Ok(Step::Delivered(Delivery::Picture {
                request,
                layer: Box::new(layer),
            }));
        }
        if let Some(survey) = self.survey.take() {
            return self.survey(survey, capture);
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
            .read(None, question.scope.begin_ns, question.scope.end_ns);
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
    use crate::scopes::{ScopeRows, ScopeSums};
    use crate::store::Extent;
    use crate::whole::RangeScope;

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
        let mut begin = |file| WholeWork::new(request(), &mut capture, 0, None, file).unwrap();
        let (mut first, mut none) = (begin(Some(file.clone())), begin(None));
        let (steps, expected) = finish(&mut first, &mut capture);
        assert!(steps > 1 && expected.progress == 1.0);
        let began = Instant::now();
        while !path.with_extension("vor.survey").exists() {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut second = WholeWork::new(request(), &mut capture, 0, None, Some(file)).unwrap();
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

    /// Work on a capture of many small parts.
    struct Surveying {
        work: WholeWork,
        capture: Capture,
    }

    impl Surveying {
        fn new() -> Self {
            let mut capture = Capture::new(Cursor::new(make(200, 100, true).bytes)).unwrap();
            let request = WholeRequest {
                generation: 3,
                spans: Arc::default(),
                max_spans: 1_000_000,
                keeps_survey: false,
            };
            let origin_ns = capture.catalog().unix_ns(0);
            let mut work = WholeWork::new(request, &mut capture, origin_ns, None, None).unwrap();
            work.archive = Archive::with_part_bytes(1);
            work.archive.find(&mut capture).unwrap();
            assert!(work.archive.len() > 40);
            let length_ns = capture.info().duration_ns;
            work.survey = Some(work.archive.survey(length_ns, work.request.max_spans));
            Self { work, capture }
        }

        /// Returns the number of parts that are not surveyed.
        fn left(&self) -> usize {
            self.work.survey.as_ref().map_or(0, Survey::left)
        }

        /// Does a step; returns the picture of a range that it delivers.
        fn step(&mut self) -> Option<(PictureRequest, Box<Layer>)> {
            match self.work.step(&mut self.capture).unwrap() {
                Step::Idle => panic!("nothing is left to do"),
                Step::Delivered(Delivery::Picture { request, layer }) => Some((request, layer)),
                _ => None,
            }
        }

        /// Does steps until a picture is delivered; returns it, and the number of steps.
        fn picture(&mut self) -> (PictureRequest, Box<Layer>, usize) {
            let mut steps = 0;
            loop {
                steps += 1;
                if let Some((request, layer)) = self.step() {
                    return (request, layer, steps);
                }
            }
        }

        /// Asks for a range of five frames, which begins at a share of the capture.
        fn ask(&mut self, share: f64) -> PictureRequest {
            let begin_ns = (share * self.capture.info().duration_ns as f64) as i64;
            let request = PictureRequest {
                generation: 3,
                begin_ns,
                end_ns: begin_ns + 5_000_000,
                bin_ns: 1,
            };
            self.work.request_picture(request);
            request
        }
    }

    /// Returns a survey that has passed half of its parts, and the number of all parts.
    fn half_way() -> (Surveying, usize) {
        let mut surveying = Surveying::new();
        let all = surveying.left();
        while surveying.left() > all / 2 {
            assert!(surveying.step().is_none());
        }
        (surveying, all)
    }

    #[test]
    fn a_range_is_read_before_the_survey_ends() {
        let (mut surveying, all) = half_way();
        // The survey pauses for a range that it has passed.
        let request = surveying.ask(0.8);
        assert!(surveying.work.is_urgent());
        let left = surveying.left();
        let (delivered, layer, steps) = surveying.picture();
        assert_eq!((delivered, surveying.left()), (request, left));
        assert!(layer.is_partial() && layer.bin_ns() == 0);
        // These are the parts with spans of the range, and not those behind it.
        assert!((2..=all / 20).contains(&steps), "{steps} of {all}");
        assert!(!surveying.work.is_urgent());
        // Of an earlier range, it reads the parts between too, and none before it.
        let request = surveying.ask(0.3);
        let (delivered, early, steps) = surveying.picture();
        assert_eq!((delivered, surveying.left()), (request, left));
        assert!((all / 6..all / 4).contains(&steps), "{steps} of {all}");
        // After the survey, it has the same spans.
        while surveying.left() > 0 {
            assert!(surveying.step().is_none());
        }
        surveying.work.request_picture(request);
        let (delivered, layer, _) = surveying.picture();
        assert!(delivered == request && early.is_partial() && !layer.is_partial());
        let rows = |layer: &Layer| {
            let tracks = layer.tracks().iter().flat_map(|track| &track.rows);
            let spans = tracks.map(|row| row.spans(i64::MIN, i64::MAX).collect::<Vec<_>>());
            spans.collect::<Vec<_>>()
        };
        assert_eq!(rows(&early), rows(&layer));
        assert!(rows(&layer).iter().map(Vec::len).sum::<usize>() >= 500);
    }

    #[test]
    fn the_newest_range_is_read_and_a_begun_one_is_completed() {
        let (mut surveying, _) = half_way();
        // The first is not begun, so the second replaces it.
        surveying.ask(0.1);
        let begun = surveying.ask(0.7);
        assert!(surveying.step().is_none());
        surveying.ask(0.6);
        let newest = surveying.ask(0.8);
        let left = surveying.left();
        let delivered = [surveying.picture().0, surveying.picture().0];
        assert_eq!((delivered, surveying.left()), ([begun, newest], left));
        while surveying.left() > 0 {
            assert!(surveying.step().is_none());
        }
    }

    #[test]
    fn questions_wait_for_the_end_of_the_survey() {
        let mut surveying = Surveying::new();
        let scope = RangeScope {
            begin_ns: i64::MIN,
            end_ns: i64::MAX,
            extent: Extent::Clipped,
        };
        let spans = Arc::clone(&surveying.work.request.spans);
        let catalog = surveying.capture.catalog();
        let ticket = spans.ask::<ScopeSums>(scope, &scope.extent, catalog);
        surveying.ask(0.9);
        while surveying.work.survey.is_some() {
            surveying.step();
            assert!(spans.has_questions());
        }
        while spans.is_busy() {
            surveying.step();
        }
        let rows: ScopeRows = ticket.take().unwrap();
        assert_eq!(rows.spans, 200 * 100);
    }
}
