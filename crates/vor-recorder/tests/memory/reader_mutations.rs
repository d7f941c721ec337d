//! Damaged captures of both versions: 5 000 seeded mutations.
//!
//! A mutation keeps pieces of the original and may insert bytes between them. A frame is whole if
//! all its bytes are in one kept piece. In version 3, all whole frames must come back, unless
//! another end with their number precedes them. No other frame may pass for one, and losses must be
//! reported.
//!
//! Version 2 has no checksum. There, nothing can detect a changed number in a record that
//! still unpacks, or a record that is cut out completely.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

use std::io::Cursor;
use std::ops::Range;
#[cfg(not(feature = "off"))]
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Capture, Frame, Recovered};
use vor_fixtures::any_input::check_summaries;
use vor_fixtures::cpu_time::cpu_time;
use vor_fixtures::mutation::{Mutant, mutate, mutate_any, v2_records};
use vor_fixtures::own_process;
use vor_fixtures::random::rounds;
use vor_fixtures::{Random, TestCapture, make};
use vor_recorder::bridges::reader::Reader;

const CASES: usize = 2500;
const MAX_LIVE_BYTES: usize = 64 << 20;
/// CPU time of one case. A case takes some milliseconds; one that reaches this limit hangs.
const MAX_CASE_TIME: Duration = Duration::from_secs(20);

fn same_bits(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
}

fn same_frame(found: &FrameSnapshot, expected: &FrameSnapshot) -> bool {
    let metrics = found.metrics.iter().zip(&expected.metrics);
    let mut names = found
        .threads
        .iter()
        .flat_map(|tree| &tree.spans)
        .map(|span| span.site);
    found.index == expected.index
        && (found.start_ticks, found.end_ticks) == (expected.start_ticks, expected.end_ticks)
        && (found.dropped_spans, found.span_count) == (expected.dropped_spans, expected.span_count)
        && found.metrics.len() == expected.metrics.len()
        && metrics.into_iter().all(|(a, b)| a.column == b.column && same_bits(a.value, b.value))
        && found.threads == expected.threads
        // A lost declaration leaves no name, but never a wrong one.
        && names.all(|id| {
            let name = found.catalog.site_name(id);
            name == "?" || name == expected.catalog.site_name(id)
        })
}

/// The number of whole frames to be found, and of those that were found.
#[derive(Default)]
struct Tally {
    expected: usize,
    found: usize,
}

/// Returns the record that ends a frame.
fn mark(made: &TestCapture, frame: usize) -> Range<usize> {
    let end = made.frame_ends[frame];
    let at = made.records.partition_point(|&begin| begin < end) - 1;
    made.records[at]..end
}

/// Returns whether a copy of the record that ends a frame precedes the frame, or one of another
/// capture with the same number. For a reader, that one is the frame's.
fn has_earlier_mark(
    made: &TestCapture,
    donor: &TestCapture,
    mutant: &Mutant,
    frame: usize,
) -> bool {
    mutant.copied.as_ref().is_some_and(|copied| {
        let of = if copied.is_foreign { donor } else { made };
        let mark = mark(of, frame);
        copied.before < made.frame_ends[frame]
            && copied.range.start <= mark.start
            && mark.end <= copied.range.end
    })
}

/// Checks the frames that a reader returned for a version-3 mutant.
fn check_frames(
    made: &TestCapture,
    donor: &TestCapture,
    mutant: &Mutant,
    frames: &[Recovered],
    is_reported: bool,
    tally: &mut Tally,
) {
    let marks = 0..made.frames.len();
    if !marks.into_iter().any(|i| mutant.contains(&mark(made, i))) && !frames.is_empty() {
        // The rest is one frame, as in a program without marks.
        assert!(is_reported, "{}: no mark and no damage", mutant.what);
        assert_eq!(frames.len(), 1, "{}: frames without marks", mutant.what);
        let frame = &frames[0].frame;
        assert!(
            frame.index == 0 && frame.metrics.is_empty(),
            "{}: {frame:?}",
            mutant.what
        );
        assert_eq!(frames[0].held_spans(), frame.span_count, "{}", mutant.what);
        return;
    }
    let mut whole = vec![false; made.frames.len()];
    for recovered in frames {
        if recovered.lost_records > 0 {
            assert!(
                is_reported,
                "{}: an incomplete frame and no damage",
                mutant.what
            );
            continue;
        }
        let index = recovered.frame.index as usize;
        let expected = &made.frames[index];
        assert!(
            same_frame(&recovered.frame, expected),
            "{}: frame {index} is wrong:\n{:?}\n{expected:?}",
            mutant.what,
            recovered.frame
        );
        assert!(!whole[index], "{}: frame {index} is repeated", mutant.what);
        whole[index] = true;
    }
    for (i, &found) in whole.iter().enumerate() {
        let begin = if i == 0 {
            made.records[0]
        } else {
            made.frame_ends[i - 1]
        };
        let range = begin..made.frame_ends[i];
        if mutant.contains(&range) {
            tally.expected += 1;
            tally.found += usize::from(found);
            assert!(
                found || has_earlier_mark(made, donor, mutant, i),
                "{}: the whole frame {i} is lost",
                mutant.what
            );
        }
    }
    let all = whole.iter().all(|&found| found) && frames.len() == whole.len();
    assert!(
        all || is_reported,
        "{}: frames are missing and no damage is reported",
        mutant.what
    );
}

/// Keeps frames as a sink received them during the recording.
#[cfg(not(feature = "off"))]
#[derive(Clone, Default)]
struct Live(Arc<Mutex<Vec<Arc<FrameSnapshot>>>>);

#[cfg(not(feature = "off"))]
impl vor_capture::sink::FrameSink for Live {
    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        if frame.frame_set == 0 {
            self.0.lock().unwrap().push(Arc::clone(frame));
        }
        Ok(())
    }
}

/// Records a capture with the recorder itself. Returns it closed, and as it was before the close.
#[cfg(not(feature = "off"))]
fn recorded() -> Vec<TestCapture> {
    use vor_capture::format::Record;
    use vor_recorder::{drain, metrics, profile_scope, setup};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let live = Live::default();
    vor_recorder::setup::Config::new()
        .capture(&path)
        .sink("live", live.clone())
        .enable();
    std::thread::scope(|threads| {
        for thread in 0..3_u64 {
            threads.spawn(move || {
                for n in 0..400 {
                    profile_scope!("outer", n = n);
                    let _named = vor_recorder::hot::scope::scope(["a", "b", "c"][thread as usize]);
                    profile_scope!("inner", text = "some text");
                    std::thread::yield_now();
                }
            });
        }
        for frame in 0..60 {
            profile_scope!("frame");
            vor_recorder::message!("frame {frame}");
            metrics::record_metric(if frame < 30 { "early" } else { "late" }, f64::from(frame));
            drain::frame_mark_named("physics");
            drain::frame_mark();
            drain::flush();
        }
    });
    drain::flush();
    let torn_bytes = std::fs::metadata(&path).unwrap().len() as usize;
    assert_eq!(drain::close_capture(), Some(path.clone()));
    setup::disable();
    let bytes = std::fs::read(&path).unwrap();
    let (mut records, mut frame_ends, mut spans) = (Vec::new(), Vec::new(), 0);
    for (found, record) in vor_fixtures::decoded::records(&bytes) {
        records.push(found.bytes.start);
        match record {
            Record::Frame(frame) if frame.frame_set == 0 => frame_ends.push(found.bytes.end),
            Record::Batch(threads) => {
                spans += threads
                    .iter()
                    .map(|thread| thread.len() as u64)
                    .sum::<u64>()
            }
            _ => {}
        }
    }
    let frames = std::mem::take(&mut *live.0.lock().unwrap());
    assert_eq!((frames.len(), frame_ends.len()), (60, 60));
    let of = |end: usize| TestCapture {
        bytes: bytes[..end].to_vec(),
        records: records
            .iter()
            .copied()
            .filter(|at| *at < end)
            .chain([end])
            .collect(),
        frames: frames.clone(),
        frame_ends: frame_ends.clone(),
        spans,
        catalog: Arc::clone(&frames[59].catalog),
        ticks_frames: 60,
    };
    vec![of(bytes.len()), of(torn_bytes)]
}

#[cfg(feature = "off")]
fn recorded() -> Vec<TestCapture> {
    Vec::new()
}

#[test]
fn version_3() {
    own_process!();
    let mut random = Random(0x3);
    let made = (0..6).map(|i| make(90 + i, 60, [3, 12, 0][i as usize % 3], i % 2 == 0));
    let made: Vec<TestCapture> = made.chain(recorded()).collect();
    let (mut streamed, mut sought) = (Tally::default(), Tally::default());
    for case in 0..rounds(CASES) {
        let began = cpu_time();
        let original = &made[case % made.len()];
        let donor = &made[(case + 1) % made.len()];
        let from = original.records[0];
        let mutant = mutate(
            &mut random,
            &original.bytes,
            &original.records,
            &donor.bytes,
            from,
        );

        let mut reader = Reader::new(mutant.bytes.as_slice()).unwrap();
        let mut frames = Vec::new();
        while let Some(recovered) = reader.next_recovered().unwrap() {
            frames.push(recovered);
        }
        check_frames(
            original,
            donor,
            &mutant,
            &frames,
            !reader.damage().is_none(),
            &mut streamed,
        );

        let mut capture = Capture::new(Cursor::new(mutant.bytes.clone())).unwrap();
        let mut frames = Vec::new();
        let mut missing = false;
        // Not in order, so that the places of the index are used.
        let count = capture.frame_count();
        for i in (0..count).rev().step_by(7).chain(0..count) {
            match capture.recovered(i) {
                Ok(recovered) => frames.push((i, recovered)),
                Err(error) => {
                    assert!(error.is_corrupt(), "{}: {error}", mutant.what);
                    missing = true;
                }
            }
        }
        let in_order = frames.split_off(
            frames.len()
                - frames
                    .iter()
                    .rev()
                    .take_while({
                        let mut last = u64::MAX;
                        move |(i, _)| {
                            let before = *i < last;
                            last = *i;
                            before
                        }
                    })
                    .count(),
        );
        for (i, early) in &frames {
            if let Some((_, again)) = in_order.iter().find(|(j, _)| j == i) {
                assert_eq!(
                    early.frame.index, again.frame.index,
                    "{}: frame {i}",
                    mutant.what
                );
            }
        }
        let is_reported = !capture.info().damage.is_none();
        assert!(
            is_reported || !missing,
            "{}: lost frames and no damage",
            mutant.what
        );
        check_summaries(&mut capture, &in_order, &mutant.what);
        let frames: Vec<Recovered> = in_order
            .into_iter()
            .map(|(_, recovered)| recovered)
            .collect();
        check_frames(original, donor, &mutant, &frames, is_reported, &mut sought);
        let took = cpu_time() - began;
        assert!(took < MAX_CASE_TIME, "{}: took {took:?}", mutant.what);
    }
    for tally in [&streamed, &sought] {
        println!(
            "version 3: {} of {} whole frames",
            tally.found, tally.expected
        );
        assert!(tally.expected > 50 * rounds(CASES));
    }
    assert!(vor_fixtures::memory::peak_bytes() < MAX_LIVE_BYTES);
}

/// A version-2 capture and its contents.
struct Old {
    bytes: Vec<u8>,
    records: Vec<usize>,
    /// The record of each frame, and the reader's value for it.
    frames: Vec<(Range<usize>, Frame)>,
}

fn old(name: &str) -> Old {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/data/v2");
    let bytes = std::fs::read(format!("{folder}/{name}.vor")).unwrap();
    let records = v2_records(&bytes);
    let mut ranges = Vec::new();
    for (&at, &end) in records.iter().zip(&records[1..]) {
        // The first literal of the block is the kind of the record; the length of a long run of
        // literals precedes it.
        let kind = if bytes[at + 8] >> 4 == 15 {
            let extra = bytes[at + 9..]
                .iter()
                .take_while(|&&byte| byte == 255)
                .count();
            bytes[at + 10 + extra]
        } else {
            bytes[at + 9]
        };
        if kind == 0 {
            ranges.push(at..end);
        }
    }
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push((ranges[frames.len()].clone(), frame));
    }
    Old {
        bytes,
        records,
        frames,
    }
}

/// Counts the records by their lengths alone, if these lead exactly to the end.
fn records_in(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut count = 0;
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().unwrap());
        at = at.checked_add(4 + len as usize)?;
        count += 1;
    }
    (at == bytes.len()).then_some(count)
}

fn same_old(found: &Frame, expected: &Frame) -> bool {
    let system = found.system.iter().zip(&expected.system);
    let user = found.user.iter().zip(&expected.user);
    (found.system.len(), found.user.len()) == (expected.system.len(), expected.user.len())
        && system.into_iter().all(|(&a, &b)| same_bits(a, b))
        && user
            .into_iter()
            .all(|(a, b)| a.0 == b.0 && same_bits(a.1, b.1))
        && found.flame == expected.flame
}

#[test]
fn version_2() {
    own_process!();
    let mut random = Random(0x2);
    let names = [
        "metrics_only",
        "user_units",
        "flame",
        "every3_threads",
        "max5",
        "torn",
    ];
    let originals = names.map(old);
    let mut tally = Tally::default();
    for case in 0..CASES {
        let began = cpu_time();
        let original = &originals[case % originals.len()];
        let donor = &originals[(case + 1) % originals.len()];
        let mutant = mutate_any(
            &mut random,
            &original.bytes,
            &original.records,
            &donor.bytes,
        );
        let intact = mutant.contains(&(0..original.records[0]));

        let reader = Reader::new(mutant.bytes.as_slice());
        let capture = Capture::new(Cursor::new(mutant.bytes.clone()));
        let (Ok(mut reader), Ok(mut capture)) = (reader, capture) else {
            assert!(!intact, "{}: a whole header was refused", mutant.what);
            continue;
        };
        let mut frames = Vec::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            frames.push(frame);
        }
        assert_eq!(
            capture.frame_count(),
            frames.len() as u64,
            "{}",
            mutant.what
        );
        for i in (0..frames.len() as u64).rev() {
            capture.frame(i).unwrap();
        }
        let numbered: Vec<_> = (0..frames.len() as u64)
            .map(|i| (i, capture.recovered(i).unwrap()))
            .collect();
        check_summaries(&mut capture, &numbered, &mutant.what);
        let took = cpu_time() - began;
        assert!(took < MAX_CASE_TIME, "{}: took {took:?}", mutant.what);
        if !intact {
            continue;
        }
        let before = original.frames.iter();
        let before = before.take_while(|(range, _)| range.end <= mutant.intact[0].end);
        let mut rest = frames.as_slice();
        for (i, (_, frame)) in before.enumerate() {
            let found = rest.split_off_first();
            assert!(
                found.is_some_and(|found| same_old(found, frame)),
                "{}: frame {i} before the damage",
                mutant.what
            );
        }
        // Whole frames must follow in order.
        let whole = original
            .frames
            .iter()
            .filter(|(range, _)| mutant.contains(range));
        let mut rest = frames.as_slice();
        for (_, frame) in whole {
            tally.expected += 1;
            if let Some(at) = rest.iter().position(|found| same_old(found, frame)) {
                rest = &rest[at + 1..];
                tally.found += 1;
            }
        }
        let is_reported = !reader.damage().is_none();
        assert_eq!(
            is_reported,
            !capture.info().damage.is_none(),
            "{}",
            mutant.what
        );
        // If every record that the lengths lead to was used, nothing in the file indicates a loss.
        let used = frames.len() + reader.user_columns().len();
        let unnoticeable = records_in(&mutant.bytes, original.records[0]) == Some(used);
        assert!(
            is_reported || mutant.is_clean || unnoticeable || frames.len() >= original.frames.len(),
            "{}: {} of {} frames and no damage is reported",
            mutant.what,
            frames.len(),
            original.frames.len()
        );
    }
    println!(
        "version 2: {} of {} whole frames",
        tally.found, tally.expected
    );
    assert!(tally.expected > 10 * CASES);
    // The mutants are the same in every run. The others are behind a length that leads past them.
    assert_eq!(tally.expected - tally.found, 1_407);
    assert!(vor_fixtures::memory::peak_bytes() < MAX_LIVE_BYTES);
}
