//! Pictures of ranges that are read while a survey is at work, compared with the spans of the parts
//! that are read for them and with the pictures after the survey.

use std::collections::BTreeSet;
use std::io::Cursor;

use proptest::prelude::*;
use vor_capture::reader::{Capture, PartScan};

use super::tasks::{DrawnStep, DrawnTask, drawn, with_tasks};
use super::{
    Drawn, Given, MAX_SPANS, PART_BYTES, drawn_of, drawn_spans, made, opened, part_of, shape,
};
use crate::store::{Layer, Track};
use crate::whole::{Archive, PictureReader, Survey};

/// Returns the numbers of spans, tasks and steps before each part, and those of all parts.
fn before_parts(bytes: &[u8]) -> Vec<[usize; 3]> {
    let mut capture = Capture::new(Cursor::new(bytes.to_vec())).unwrap();
    let mut scan = PartScan::with_part_bytes(PART_BYTES);
    let mut before = vec![[0; 3]];
    while let Some(part) = capture.next_part(&mut scan).unwrap() {
        let mut counts = *before.last().unwrap();
        for batch in &capture.part(part).unwrap().threads {
            counts[0] += batch.len();
            counts[1] += batch.async_spans.len();
            counts[2] += batch.task_events.len();
        }
        before.push(counts);
    }
    before
}

/// A survey at work, with its capture.
struct Surveying {
    capture: Capture,
    archive: Archive,
    survey: Survey,
    origin_ns: i64,
}

impl Surveying {
    /// Begins a survey. The times of the parts whose bit of `noted` is set are noted.
    fn new(bytes: Vec<u8>, origin_ns: i64, noted: u64) -> Self {
        let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
        let mut archive = Archive::with_part_bytes(PART_BYTES);
        archive.find(&mut capture).unwrap();
        archive.note_some(noted, &mut capture, origin_ns);
        let survey = archive.survey(capture.info().duration_ns, MAX_SPANS);
        Self {
            capture,
            archive,
            survey,
            origin_ns,
        }
    }

    fn picture(&mut self, (begin_ns, end_ns): (i64, i64), max_spans: usize) -> Layer {
        let Self {
            capture,
            archive,
            survey,
            origin_ns,
        } = self;
        let mut range = archive.read(Some(survey), begin_ns, end_ns);
        let mut reader = PictureReader::new(begin_ns, end_ns, 1, max_spans);
        while archive
            .read_part(&mut range, capture, *origin_ns, &mut reader)
            .unwrap()
        {}
        archive.layer(&reader, Some(survey), capture.catalog())
    }

    /// Surveys the next part; returns whether there was one.
    fn survey_part(&mut self) -> bool {
        let left = self.survey.left();
        let (survey, capture) = (&mut self.survey, &mut self.capture);
        let has_more = self.archive.survey_part(survey, capture, self.origin_ns);
        assert_eq!(has_more.unwrap(), left > 1);
        left > 0
    }
}

/// Returns the time that a survey has passed: the first end in its parts, and the longest time by
/// which a part ended after the first end in one behind it. `parts` are the numbers before parts.
fn expected_passed_ns(
    (spans, tasks, steps): (&[Given], &[DrawnTask], &[DrawnStep]),
    parts: &[[usize; 3]],
) -> i64 {
    let ends = parts.windows(2).map(|part| {
        let spans = spans[part[0][0]..part[1][0]].iter().map(Given::end_ns);
        let tasks = tasks[part[0][1]..part[1][1]].iter().map(|task| task.3);
        let steps = steps[part[0][2]..part[1][2]].iter().map(|step| step.1);
        let ends: Vec<i64> = spans.chain(tasks).collect();
        let last = ends.iter().copied().chain(steps).max();
        (ends.into_iter().min(), last)
    });
    let ends: Vec<(Option<i64>, Option<i64>)> = ends.collect();
    let behind = (0..ends.len()).flat_map(|i| (i + 1..ends.len()).map(move |j| (i, j)));
    let overlaps = behind.filter_map(|(i, j)| Some(ends[i].1? - ends[j].0?));
    let overlap_ns = overlaps.fold(0, i64::max);
    let first_ns = ends.iter().filter_map(|ends| ends.0).min();
    first_ns.map_or(i64::MAX, |ns| ns + overlap_ns)
}

proptest! {
    /// A picture has all spans, tasks and steps of the surveyed parts and of those before them back
    /// to its begin, in their rows, whether the times of parts are noted or not. So it equals the
    /// picture after the survey if nothing else overlaps its range.
    #[test]
    fn a_range_has_all_parts_back_to_its_begin(
        seed in any::<u64>(),
        shape in shape(),
        shares in prop::collection::vec((-0.1..1.1_f64, -0.1..1.1_f64), 1..4),
        noted in any::<u64>(),
    ) {
        let mut made = made(seed, shape);
        let (bytes, tasks, steps) = with_tasks(&mut made);
        let before = before_parts(&bytes);
        prop_assert_eq!(before.last(), Some(&[made.spans.len(), tasks.len(), steps.len()]));
        let spans = drawn_of(&made.spans);
        let all: BTreeSet<&Drawn> = spans.iter().collect();
        let mut after = opened(bytes.clone(), made.origin_ns, Some(PART_BYTES));
        let mut surveying = Surveying::new(bytes, made.origin_ns, noted);
        let ranges: Vec<(i64, i64)> =
            shares.iter().map(|&(from, to)| part_of(&after.archive, from, to)).collect();
        let events = (&*made.spans, &*tasks, &*steps);
        let passed_ns = |at: usize| expected_passed_ns(events, &before[at..]);
        let passed_ns: Vec<i64> = (0..before.len()).map(passed_ns).collect();
        loop {
            let left = surveying.survey.left();
            for &(begin_ns, end_ns) in &ranges {
                let has_passed = |at: &usize| passed_ns[*at] <= begin_ns;
                let first = (0..=left).rev().find(has_passed).unwrap_or(0);
                let [first_span, first_task, first_step] = before[first];
                let overlaps = |&(_, _, begin, duration, _): &Drawn| {
                    begin <= end_ns && begin + duration as i64 >= begin_ns
                };
                let is_during =
                    |&(_, _, begin, end): &DrawnTask| begin <= end_ns && end >= begin_ns;
                let is_within = |&(_, ns): &DrawnStep| (begin_ns..=end_ns).contains(&ns);
                let picture = surveying.picture((begin_ns, end_ns), MAX_SPANS);
                prop_assert!(picture.is_partial());
                let mut tracks = picture.tracks().iter();
                let is_counted = |track: &Track| picture.total_spans(track.id) > 0;
                prop_assert!(tracks.all(|track| track.span_count() == 0 || is_counted(track)));
                let of_spans = spans[first_span..].iter().copied().filter(overlaps);
                let mut of_spans: Vec<Drawn> = of_spans.collect();
                of_spans.sort_unstable();
                prop_assert_eq!(drawn_spans(&picture), of_spans, "from {} of {}", first, left);
                let of_tasks = tasks[first_task..].iter().copied().filter(is_during);
                let of_steps = steps[first_step..].iter().copied().filter(is_within);
                let mut expected: (Vec<_>, Vec<_>) = (of_tasks.collect(), of_steps.collect());
                expected.0.sort_unstable();
                expected.1.sort_unstable();
                prop_assert_eq!(drawn(&picture)?, expected, "from {} of {}", first, left);
                let is_all = !spans[..first_span].iter().any(overlaps)
                    && !tasks[..first_task].iter().any(is_during)
                    && !steps[..first_step].iter().any(is_within);
                if is_all {
                    let expected = after.picture(begin_ns, end_ns);
                    prop_assert_eq!(drawn_spans(&picture), drawn_spans(&expected));
                    prop_assert_eq!(drawn(&picture)?, drawn(&expected)?);
                }
                // Of too much, only spans of the capture are kept.
                let picture = surveying.picture((begin_ns, end_ns), 40);
                prop_assert!(drawn_spans(&picture).iter().all(|span| all.contains(span)));
            }
            if !surveying.survey_part() {
                break;
            }
        }
        // The pauses did not change the survey.
        let Surveying { capture, mut archive, mut survey, .. } = surveying;
        archive.take(&mut survey);
        let layer = survey.layer(capture.catalog());
        prop_assert!(!layer.is_partial());
        prop_assert_eq!(format!("{:?}", layer.tracks()), format!("{:?}", after.layer.tracks()));
    }

    /// The picture of the whole covers the time behind that at which earlier parts may end.
    #[test]
    fn a_survey_at_work_covers_what_it_passed(seed in any::<u64>(), shape in shape()) {
        let mut made = made(seed, shape);
        let (bytes, tasks, steps) = with_tasks(&mut made);
        let before = before_parts(&bytes);
        let mut surveying = Surveying::new(bytes, made.origin_ns, 0);
        loop {
            let left = surveying.survey.left();
            let events = (&*made.spans, &*tasks, &*steps);
            let passed_ns = expected_passed_ns(events, &before[left..]);
            let layer = surveying.survey.layer(surveying.capture.catalog());
            if left > 0 {
                prop_assert_eq!(layer.time_ns(), passed_ns..i64::MAX);
            }
            if shape.threads == 1 {
                let unread = made.spans[..before[left][0]].iter();
                prop_assert!(unread.clone().all(|span| span.end_ns() < passed_ns));
            }
            if !surveying.survey_part() {
                break;
            }
        }
    }
}
