//! A survey that was kept in a file, compared with the one that was made.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use proptest::prelude::*;
use vor_fixtures::programs::Shape;

use super::{
    Made, Opened, PART_BYTES, RangeScope, made, opened, part_of, shape, sums_of, surveyed,
};
use crate::store::{Extent, Layer};
use crate::whole::SurveyFile;

/// Longer than any survey takes to be written.
const TIMEOUT: Duration = Duration::from_secs(60);

fn kept_path(capture: &Path) -> PathBuf {
    capture.with_extension("vor.survey")
}

/// Writes a capture, surveys it, and keeps the survey.
fn keep(made: &Made, capture: &Path, max_spans: usize) -> (SurveyFile, Layer) {
    fs::write(capture, &made.bytes).unwrap();
    let file = SurveyFile::of(capture.to_owned(), made.origin_ns, max_spans);
    let stamp = file.stamp().unwrap();
    let (catalog, archive, survey) = surveyed(
        made.bytes.clone(),
        made.origin_ns,
        Some(PART_BYTES),
        max_spans,
    );
    let layer = survey.layer(catalog.catalog());
    let thinned = survey.into_thinned();
    assert!(file.clone().write(stamp, &archive, thinned));
    let began = Instant::now();
    while !kept_path(capture).exists() {
        assert!(began.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(1));
    }
    (file, layer)
}

fn assert_same(found: &Layer, expected: &Layer) {
    let shown = |layer: &Layer| format!("{:?}", layer.tracks());
    assert_eq!(shown(found), shown(expected));
    assert_eq!(found.time_ns(), expected.time_ns());
    assert_eq!(found.bin_ns(), expected.bin_ns());
    assert_eq!(
        format!("{:?}", found.metrics()),
        format!("{:?}", expected.metrics())
    );
    for track in expected.tracks() {
        assert_eq!(found.total_spans(track.id), expected.total_spans(track.id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The picture of a kept survey, and any sums that are read with it, are those of the survey
    /// that was made.
    #[test]
    fn a_kept_survey_is_the_one_that_was_made(
        seed in any::<u64>(),
        shape in shape(),
        max_spans in prop_oneof![Just(40), Just(super::MAX_SPANS)],
        (from, to) in (-0.1..1.1_f64, -0.1..1.1_f64),
    ) {
        let made = made(seed, shape);
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("run.vor");
        let (file, layer) = keep(&made, &capture, max_spans);
        let (archive, thinned) = file.read(&file.stamp().unwrap()).unwrap();
        let mut fresh = opened(made.bytes.clone(), made.origin_ns, Some(PART_BYTES));
        assert_same(&archive.kept_layer(&thinned, fresh.capture.catalog()), &layer);
        let (begin_ns, end_ns) = part_of(&archive, from, to);
        let scope = RangeScope { begin_ns, end_ns, extent: Extent::Clipped };
        let expected = sums_of(&fresh.rows(scope));
        let mut kept = Opened { archive, layer, ..fresh };
        prop_assert_eq!(sums_of(&kept.rows(scope)), expected);
    }
}

fn small() -> Made {
    let shape = Shape {
        threads: 2,
        spans: 300,
        sites: 5,
        max_depth: 6,
        opens: 30,
        ends: 30,
        max_batch: 30,
        drops: 0,
        max_ticks: 100,
        tick_ps: 1_300,
    };
    made(7, shape)
}

#[test]
fn damage_is_found() {
    let made = small();
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("run.vor");
    let (file, layer) = keep(&made, &capture, super::MAX_SPANS);
    let stamp = file.stamp().unwrap();
    let catalog = opened(made.bytes, made.origin_ns, None).capture;
    let kept = fs::read(kept_path(&capture)).unwrap();
    let mut read = 0;
    let mut check = |damaged: &[u8]| {
        fs::write(kept_path(&capture), damaged).unwrap();
        // Some bits mean nothing, and neither does the end behind the last block.
        if let Some((archive, thinned)) = file.read(&stamp) {
            assert_same(&archive.kept_layer(&thinned, catalog.catalog()), &layer);
            read += 1;
        }
    };
    for at in (0..kept.len()).step_by(19).chain([kept.len() - 1]) {
        let mut damaged = kept.clone();
        damaged[at] ^= 1 << (at % 8);
        check(&damaged);
        check(&kept[..at]);
    }
    assert!(read < 8, "{read} of {} bytes", kept.len());
}

#[test]
fn a_survey_of_another_capture_is_not_used() {
    let made = small();
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("run.vor");
    let (file, _) = keep(&made, &capture, super::MAX_SPANS);
    let stamp = file.stamp().unwrap();
    assert!(file.read(&stamp).is_some());
    let others = [
        SurveyFile::of(capture.clone(), made.origin_ns + 1, super::MAX_SPANS),
        SurveyFile::of(capture.clone(), made.origin_ns, 40),
    ];
    for other in others {
        assert!(other.read(&other.stamp().unwrap()).is_none());
    }
    // One byte in the middle, and the time of writing alone.
    let mut bytes = made.bytes.clone();
    bytes[40] ^= 1;
    fs::write(&capture, &bytes).unwrap();
    assert!(file.read(&file.stamp().unwrap()).is_none());
    fs::write(&capture, &made.bytes).unwrap();
    let written = fs::File::options().write(true).open(&capture).unwrap();
    written
        .set_modified(SystemTime::UNIX_EPOCH + stamp.modified())
        .unwrap();
    assert!(file.read(&file.stamp().unwrap()).is_some());
    written.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert!(file.read(&file.stamp().unwrap()).is_none());
}

#[test]
fn a_capture_that_changes_during_the_survey_keeps_none() {
    let made = small();
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("run.vor");
    fs::write(&capture, &made.bytes).unwrap();
    let file = SurveyFile::of(capture.clone(), made.origin_ns, super::MAX_SPANS);
    let stamp = file.stamp().unwrap();
    let (_, archive, survey) = surveyed(made.bytes, made.origin_ns, None, super::MAX_SPANS);
    fs::write(&capture, b"another").unwrap();
    assert!(!file.write(stamp, &archive, survey.into_thinned()));
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1);
}
