//! Parts of a capture: read in any order, they hold what a pass over the file holds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::Path;

use proptest::prelude::*;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::reader::{Capture, Part, PartScan};
use vor_fixtures::even::{TestCapture, make};
use vor_fixtures::framed::make_damaged;

fn parts(capture: &mut Capture, scan: &mut PartScan) -> Vec<Part> {
    std::iter::from_fn(|| capture.next_part(scan).unwrap()).collect()
}

/// Reads the parts from the last to the first; returns the batches in the order of the file, and
/// how many places could not be read.
fn read_backwards(capture: &mut Capture, parts: &[Part]) -> (Vec<ThreadBatch>, u64) {
    let mut batches = Vec::new();
    let mut losses = 0;
    for part in parts.iter().rev() {
        let contents = capture.part(*part).unwrap();
        losses += contents.losses;
        batches.extend(contents.threads.into_iter().rev());
    }
    batches.reverse();
    (batches, losses)
}

/// Returns the batches of a pass over the file.
fn all_batches(capture: &mut Capture) -> Vec<ThreadBatch> {
    let batches = capture.batches().unwrap();
    batches.flat_map(|batch| batch.unwrap().threads).collect()
}

proptest! {
    /// The same of any damaged capture, also if the parts begin or end in the damage.
    #[test]
    fn parts_of_a_damaged_capture_hold_all_batches(
        seed in any::<u32>(),
        part_bytes in prop_oneof![Just(0), 1..400_u64, Just(1 << 20)],
    ) {
        let bytes = make_damaged(u64::from(seed));
        let Ok(mut capture) = Capture::new(Cursor::new(bytes)) else {
            return Ok(());
        };
        let parts = parts(&mut capture, &mut PartScan::with_part_bytes(part_bytes));
        let expected = all_batches(&mut capture);
        prop_assert_eq!(read_backwards(&mut capture, &parts).0, expected);
    }

    #[test]
    fn parts_hold_all_batches(
        frames in 1..60_u64,
        spans in 1..40_u32,
        is_closed in any::<bool>(),
        part_bytes in 0..4_000_u64,
    ) {
        let bytes = make(frames, spans, is_closed).bytes;
        let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
        let mut scan = PartScan::with_part_bytes(part_bytes);
        let parts = parts(&mut capture, &mut scan);
        if part_bytes == 0 {
            // Every part has one batch, and the marks before it.
            prop_assert!(parts.len() as u64 >= frames);
        }
        let expected = all_batches(&mut capture);
        prop_assert_eq!(expected.len() as u64, frames);
        prop_assert_eq!(read_backwards(&mut capture, &parts), (expected, 0));
        // A frame that is read in between is not disturbed, and disturbs nothing.
        prop_assert_eq!(capture.frame(frames - 1).unwrap().index, frames + 9);
        let first = capture.part(parts[0]).unwrap();
        prop_assert_eq!(first.losses, 0);
    }

    /// Only the damaged records are left out.
    #[test]
    fn parts_leave_out_what_is_damaged(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 1..5),
        cut in 0..200_usize,
        part_bytes in 0..2_000_u64,
        is_closed in any::<bool>(),
    ) {
        let mut bytes = make(40, 9, is_closed).bytes;
        for (at, bit) in flips {
            let at = 44 + at.index(bytes.len() - 44);
            bytes[at] ^= 1 << bit;
        }
        bytes.truncate(bytes.len() - cut);
        let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
        let mut scan = PartScan::with_part_bytes(part_bytes);
        let parts = parts(&mut capture, &mut scan);
        let expected = all_batches(&mut capture);
        let (found, _) = read_backwards(&mut capture, &parts);
        prop_assert_eq!(found, expected);
    }
}

proptest! {
    /// A record that comes a second time, in the same part or a later one, is in no second part.
    #[test]
    fn parts_leave_out_records_that_come_again(
        copied in prop::collection::vec((0..40_usize, 0..40_usize), 1..4),
        flip in prop::option::of(any::<prop::sample::Index>()),
        part_bytes in 0..2_000_u64,
    ) {
        let TestCapture { mut bytes, frame_ends } = make(40, 9, false);
        // A frame and the batch before it.
        let record = |i: usize| frame_ends[i]..frame_ends[i + 1];
        let ends = frame_ends.len();
        let mut copies: Vec<(usize, Vec<u8>)> = copied
            .iter()
            .map(|&(from, to)| (from % (ends - 1), to % ends))
            .map(|(from, to)| (frame_ends[to.max(from + 1)], bytes[record(from)].to_vec()))
            .collect();
        if let Some(at) = flip {
            // The first of two is the damaged one.
            let damaged = record(copied[0].0 % (ends - 1));
            bytes[damaged.start + at.index(damaged.len())] ^= 1;
        }
        copies.sort_by_key(|(at, _)| *at);
        for (at, copy) in copies.iter().rev() {
            bytes.splice(at..at, copy.iter().copied());
        }
        let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
        let mut scan = PartScan::with_part_bytes(part_bytes);
        let parts = parts(&mut capture, &mut scan);
        let expected = all_batches(&mut capture);
        if flip.is_none() {
            prop_assert_eq!(expected.len(), 40);
            // The batch and the frame of each.
            prop_assert!(scan.copies() >= 2 * copied.len() as u64);
        }
        prop_assert_eq!(read_backwards(&mut capture, &parts).0, expected);
    }
}

/// The head of a record whose other bytes are missing claims to go on beyond the end of the file.
#[test]
fn a_record_that_was_cut_hides_nothing_behind_it() {
    let declared = make(0, 0, false).bytes.len();
    let long = make(1, 300, false).bytes;
    let TestCapture {
        mut bytes,
        frame_ends,
    } = make(2, 3, false);
    let cut = &long[declared..declared + 20];
    bytes.splice(frame_ends[0]..frame_ends[0], cut.iter().copied());
    let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
    let expected = all_batches(&mut capture);
    assert_eq!(expected.len(), 2);
    for part_bytes in [0, 1 << 20] {
        let parts = parts(&mut capture, &mut PartScan::with_part_bytes(part_bytes));
        let (batches, losses) = read_backwards(&mut capture, &parts);
        assert_eq!((&batches, losses), (&expected, 1));
    }
}

#[test]
fn a_search_goes_on_in_a_growing_file() {
    let TestCapture { bytes, frame_ends } = make(30, 9, false);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    // The file ends within a record.
    let torn = frame_ends[9] + 20;
    fs::write(&path, &bytes[..torn]).unwrap();
    let mut capture = Capture::open(&path).unwrap();
    let mut scan = PartScan::with_part_bytes(0);
    let mut found = parts(&mut capture, &mut scan);
    assert_eq!(scan.position(), frame_ends[9] as u64);
    assert_eq!(read_backwards(&mut capture, &found).0.len(), 10);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&bytes[torn..]).unwrap();
    capture.extend().unwrap();
    found.extend(parts(&mut capture, &mut scan));
    let expected = all_batches(&mut capture);
    assert_eq!(expected.len(), 30);
    assert_eq!(read_backwards(&mut capture, &found), (expected, 0));
}

#[test]
fn a_part_of_a_version_2_capture_is_a_frame() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/data/v2");
    let mut capture = Capture::open(folder.join("flame.vor")).unwrap();
    let parts = parts(&mut capture, &mut PartScan::new());
    assert_eq!(parts.len() as u64, capture.frame_count());
    let (batches, losses) = read_backwards(&mut capture, &parts);
    let spans: usize = batches.iter().map(ThreadBatch::len).sum();
    let expected: u64 = (0..capture.frame_count())
        .map(|i| capture.frame(i).unwrap().span_count)
        .sum();
    assert!(expected > 0);
    assert_eq!((spans as u64, losses), (expected, 0));
}
