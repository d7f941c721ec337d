//! Both readers return the same frames of a damaged capture, in any order of access. Each frame is
//! unchanged or flagged.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{Encoder, Header, Record, RecordRef};
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{SiteId, SiteInfo};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, ThreadTree, TreeBuilder};
use vor_capture::reader::{Capture, Reader, Recovered};
use vor_fixtures::decoded;
use vor_fixtures::mutation::{mutate, mutate_any, v2_records};
use vor_fixtures::random::rounds;
use vor_fixtures::{Random, catalog, make, thread_batch};

use crate::reader_work::written;

/// A frame without its catalog: each reader has read a different part of the catalog.
#[derive(Clone, Debug, PartialEq)]
struct FrameContent {
    number: u64,
    others: (u32, u64, u64, u64, u64, u64),
    metrics: Vec<(u32, u64)>,
    threads: Vec<ThreadTree>,
    lost_records: u64,
}

fn of(recovered: &Recovered) -> FrameContent {
    let frame = &recovered.frame;
    FrameContent {
        number: frame.index,
        others: (
            frame.frame_set,
            frame.start_ticks,
            frame.end_ticks,
            frame.dropped_spans,
            frame.merged_marks,
            frame.span_count,
        ),
        metrics: frame
            .metrics
            .iter()
            .map(|value| (value.column, value.value.to_bits()))
            .collect(),
        threads: frame.threads.clone(),
        lost_records: recovered.lost_records,
    }
}

/// An undamaged capture.
struct Intact {
    bytes: Vec<u8>,
    /// Offsets of the records, and the length of the file.
    records: Vec<usize>,
    declarations: Vec<Range<usize>>,
    /// By the numbers that the program gave them.
    frames: BTreeMap<u64, FrameContent>,
}

impl Intact {
    fn new(bytes: Vec<u8>) -> Self {
        let (mut records, mut declarations) = (Vec::new(), Vec::new());
        for (found, record) in decoded::records(&bytes) {
            records.push(found.bytes.start);
            if record.declare_into(&mut vor_capture::model::catalog::Catalog::default()) {
                declarations.push(found.bytes);
            } else if let Record::Batch(threads) = record {
                assert!(!threads.is_empty());
            }
        }
        records.push(bytes.len());
        let mut reader = Reader::new(bytes.as_slice()).unwrap();
        let mut frames = BTreeMap::new();
        while let Some(recovered) = reader.next_recovered().unwrap() {
            assert_eq!(recovered.lost_records, 0);
            frames.insert(recovered.frame.index, of(&recovered));
        }
        assert!(!frames.is_empty() && reader.damage().count == 0);
        Self {
            bytes,
            records,
            declarations,
            frames,
        }
    }

    fn record(&self, i: usize) -> Range<usize> {
        self.records[i]..self.records[i + 1]
    }

    /// Joins pieces of the file.
    fn of_pieces(&self, pieces: &[Range<usize>]) -> Vec<u8> {
        pieces
            .iter()
            .flat_map(|piece| &self.bytes[piece.clone()])
            .copied()
            .collect()
    }

    fn swapped(&self, a: usize, b: usize) -> Vec<u8> {
        let (a, b) = (self.record(a.min(b)), self.record(a.max(b)));
        self.of_pieces(&[
            0..a.start,
            b.clone(),
            a.end..b.start,
            a,
            b.end..self.bytes.len(),
        ])
    }

    /// Moves record `from` before record `to`.
    fn moved(&self, from: usize, to: usize) -> Vec<u8> {
        let (record, place, end) = (self.record(from), self.records[to], self.bytes.len());
        if place <= record.start {
            self.of_pieces(&[
                0..place,
                record.clone(),
                place..record.start,
                record.end..end,
            ])
        } else {
            self.of_pieces(&[0..record.start, record.end..place, record, place..end])
        }
    }
}

/// A capture that declares a site before each frame. Its frames have several batches, and their
/// numbers may have gaps.
fn declaring(seed: u64, frames: u64, number_step: u64, close: bool) -> Vec<u8> {
    let mut random = Random(seed);
    let mut known = catalog();
    let mut encoder = Encoder::new(Header {
        file_id: random.next(),
        flags: Header::KEEPS_SPANS,
        ..Header::default()
    });
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    encoder.encode(RecordRef::Process(&known.process), &mut bytes);
    encoder.encode(RecordRef::Clock(&known.timeline.syncs()[0]), &mut bytes);
    encoder.encode(
        RecordRef::Columns {
            first: 0,
            columns: &known.columns,
        },
        &mut bytes,
    );
    let mut now = 2000;
    for i in 0..frames {
        let first = SiteId(known.sites.len() as u32 + 1);
        Arc::make_mut(&mut known.sites).push(Some(Arc::new(filled!(SiteInfo {
            name: format!("site {i}").into()
        }))));
        let sites = &known.sites[first.0 as usize - 1..];
        encoder.encode(RecordRef::Sites { first, sites }, &mut bytes);
        let start_ticks = now;
        let shared = Arc::new(known.clone());
        let mut trees = TreeBuilder::new(usize::MAX);
        for _ in 0..1 + random.below(4) {
            let mut batch = filled!(SpanBatch {
                catalog: Arc::clone(&shared),
                threads: vec![
                    thread_batch(&mut random, 0, 6, &mut now),
                    thread_batch(&mut random, 1, 3, &mut now),
                ],
            });
            batch.threads[0]
                .sites
                .iter_mut()
                .for_each(|site| *site = first);
            trees.add_batch(&batch);
            encoder.encode(RecordRef::Batch(&batch), &mut bytes);
        }
        let trees = trees.finish();
        now += 10;
        let frame = filled!(FrameSnapshot {
            index: i * number_step
                + if number_step > 1 {
                    random.below(2) as u64
                } else {
                    0
                },
            start_ticks,
            end_ticks: now,
            metrics: vec![filled!(MetricValue {
                column: 1,
                value: i as f64,
            })],
            dropped_spans: trees.dropped_spans,
            span_count: trees.span_count
        });
        encoder.encode(RecordRef::Frame(&frame), &mut bytes);
        if i % 4 == 0 {
            let other = filled!(FrameSnapshot {
                index: i / 4,
                frame_set: 1,
                start_ticks,
                end_ticks: now
            });
            encoder.encode(RecordRef::Frame(&other), &mut bytes);
        }
    }
    if close {
        encoder.close(&known, &mut bytes);
    }
    bytes
}

fn streamed(bytes: &[u8]) -> (Vec<FrameContent>, bool) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut read_frames = Vec::new();
    while let Some(recovered) = reader.next_recovered().unwrap() {
        read_frames.push(of(&recovered));
    }
    (read_frames, !reader.damage().is_none())
}

/// Frames by their place in the capture; `None` for a frame lost to damage.
type ReadFrames = BTreeMap<u64, Option<FrameContent>>;

fn read_frame(capture: &mut Capture, i: u64, read_frames: &mut ReadFrames, what: &str) {
    let found = match capture.recovered(i) {
        Ok(recovered) => Some(of(&recovered)),
        Err(error) => {
            assert!(error.is_corrupt(), "{what}: {error}");
            None
        }
    };
    if let Some(before) = read_frames.insert(i, found.clone()) {
        assert_eq!(before, found, "{what}: frame {i} read again");
    }
}

/// Reads all frames in an order, and checks that the capture reports the missing ones.
fn in_order(
    bytes: &[u8],
    name: &str,
    what: &str,
    order: impl FnOnce(u64) -> Vec<u64>,
) -> ReadFrames {
    let mut capture = Capture::new(Cursor::new(bytes.to_vec())).unwrap();
    let what = format!("{what}, {name}");
    let mut read_frames = ReadFrames::new();
    let count = capture.frame_count();
    for i in order(count) {
        read_frame(&mut capture, i, &mut read_frames, &what);
    }
    assert_eq!(capture.frame_count(), count, "{what}");
    let whole = read_frames
        .values()
        .flatten()
        .filter(|found| found.lost_records == 0);
    assert!(
        whole.count() == read_frames.len() || !capture.info().damage.is_none(),
        "{what}: frames are missing and no damage is reported"
    );
    read_frames
}

/// Summaries of all frames; frames are read between them.
fn summed_up(bytes: &[u8], what: &str) -> (ReadFrames, Vec<Option<(u64, u64)>>) {
    let mut capture = Capture::new(Cursor::new(bytes.to_vec())).unwrap();
    let mut read_frames = ReadFrames::new();
    let count = capture.frame_count();
    let mut scan = vor_capture::reader::FrameScan::new(0);
    let mut summaries = Vec::new();
    while let Some(summary) = capture.next_summary(&mut scan) {
        let at = summaries.len() as u64;
        summaries.push(match summary {
            Ok(summary) => Some((summary.index, summary.lost_records)),
            Err(error) => {
                assert!(error.is_corrupt(), "{what}: {error}");
                None
            }
        });
        if at % 3 == 1 {
            read_frame(&mut capture, (at * 7) % count, &mut read_frames, what);
        }
    }
    for i in 0..count {
        read_frame(&mut capture, i, &mut read_frames, what);
    }
    (read_frames, summaries)
}

/// Checks the guarantees of both readers. Returns the number of whole frames.
fn check(intact: &Intact, bytes: &[u8], random: &mut Random, what: &str) -> usize {
    let (read_frames, is_reported) = streamed(bytes);
    let given_count = read_frames.len();
    let streamed: BTreeMap<_, _> = read_frames
        .into_iter()
        .map(|found| (found.number, found))
        .collect();
    assert_eq!(streamed.len(), given_count, "{what}: a repeated frame");
    for (number, found) in &streamed {
        if found.lost_records == 0 {
            assert_eq!(
                Some(found),
                intact.frames.get(number),
                "{what}: frame {number}"
            );
        } else {
            assert!(
                is_reported,
                "{what}: frame {number} is not whole and no damage is reported"
            );
        }
    }
    assert!(
        is_reported || streamed.len() == intact.frames.len(),
        "{what}: frames are missing and no damage is reported"
    );

    let capture = Capture::new(Cursor::new(bytes.to_vec())).unwrap();
    if streamed.is_empty() && !capture.info().closed {
        // The file has no marks and is not closed: `Reader` waits for a mark, and `Capture` treats
        // it as one frame.
        assert!(capture.frame_count() <= 1, "{what}: no frame has a mark");
        return 0;
    }
    let forwards = check_orders(intact, bytes, random, what);
    let numbers = numbers(&forwards);
    assert_eq!(numbers.len(), streamed.len(), "{what}: {numbers:?}");
    for found in forwards.values().flatten() {
        let expected = streamed.get(&found.number);
        assert_eq!(Some(found), expected, "{what}: frame {}", found.number);
    }
    streamed
        .values()
        .filter(|found| found.lost_records == 0)
        .count()
}

fn numbers(read_frames: &ReadFrames) -> Vec<u64> {
    read_frames
        .values()
        .flatten()
        .map(|found| found.number)
        .collect()
}

/// Checks that a capture returns the same frames in any order. Returns the frames.
fn check_orders(intact: &Intact, bytes: &[u8], random: &mut Random, what: &str) -> ReadFrames {
    let forwards = in_order(bytes, "forwards", what, |count| (0..count).collect());
    for found in forwards.values().flatten() {
        let expected = intact.frames.get(&found.number);
        let is_flagged = found.lost_records > 0;
        assert!(
            is_flagged || Some(found) == expected,
            "{what}: {found:?} is not {expected:?}"
        );
    }
    let numbers = numbers(&forwards);
    let is_indexed = Capture::new(Cursor::new(bytes.to_vec()))
        .unwrap()
        .info()
        .indexed;
    assert!(
        numbers.is_sorted() || !is_indexed,
        "{what}: frames out of order"
    );
    let distinct: BTreeSet<_> = numbers.iter().collect();
    assert_eq!(
        distinct.len(),
        numbers.len(),
        "{what}: one frame in two places"
    );

    let backwards = in_order(bytes, "backwards", what, |count| (0..count).rev().collect());
    assert_eq!(backwards, forwards, "{what}, backwards");
    let mixed = in_order(bytes, "mixed", what, |count| {
        let runs = (0..2 * count).flat_map(|_| {
            let from = random.below(count as usize) as u64;
            from..(from + random.below(4) as u64).min(count)
        });
        runs.chain(0..count).collect()
    });
    assert_eq!(mixed, forwards, "{what}, mixed");
    for i in [
        0,
        random.below(forwards.len().max(1)),
        forwards.len().saturating_sub(1),
    ] {
        let alone = in_order(bytes, "alone", what, |count| {
            (i as u64..count).take(1).collect()
        });
        for (i, found) in alone {
            assert_eq!(Some(&found), forwards.get(&i), "{what}: frame {i} alone");
        }
    }
    let (after, summaries) = summed_up(bytes, what);
    assert_eq!(after, forwards, "{what}, with summaries");
    assert_eq!(summaries.len(), forwards.len(), "{what}");
    for (summary, (i, found)) in summaries.iter().zip(&forwards) {
        assert_eq!(summary.is_some(), found.is_some(), "{what}: summary {i}");
        if let (Some(summary), Some(found)) = (summary, found) {
            assert_eq!(summary.0, found.number, "{what}: summary {i}");
            assert!(summary.1 <= found.lost_records, "{what}: summary {i}");
        }
    }
    forwards
}

fn captures() -> Vec<Intact> {
    let mut captures = Vec::new();
    for close in [true, false] {
        captures.push(make(41, 30, 9, close).bytes);
        captures.push(declaring(42, 40, 1, close));
        captures.push(declaring(43, 25, 3, close));
    }
    captures.push(include_bytes!("../data/golden_v3.vor").to_vec());
    captures.into_iter().map(Intact::new).collect()
}

#[test]
fn a_bit_in_a_declaration_costs_no_frame() {
    let mut random = Random(1);
    for (at, intact) in captures().iter().enumerate() {
        for declaration in &intact.declarations {
            let mut bytes = intact.bytes.clone();
            let place = declaration.start + random.below(declaration.len());
            bytes[place] ^= 1 << random.below(8);
            let what = format!("capture {at}, a bit flipped in byte {place}");
            let whole = check(intact, &bytes, &mut random, &what);
            // The declaration is among the records of at most one frame.
            assert!(whole + 1 >= intact.frames.len(), "{what}: {whole} frames");
        }
    }
}

#[test]
fn swapped_records_cost_only_their_frames() {
    let mut random = Random(2);
    for (at, intact) in captures().iter().enumerate() {
        let records = intact.records.len() - 1;
        for case in 0..rounds(40) {
            let a = random.below(records);
            let b = match case % 3 {
                0 => (a + 1).min(records - 1),
                1 => (a + random.below(6)).min(records - 1),
                _ => random.below(records),
            };
            if a == b {
                continue;
            }
            let what = format!("capture {at}, records {a} and {b} swapped");
            let whole = check(intact, &intact.swapped(a, b), &mut random, &what);
            // Each of the two is missing at its old place, and ends the wrong frame at its new
            // place. The frame after that one is damaged too.
            assert!(whole + 4 >= intact.frames.len(), "{what}: {whole} frames");
        }
    }
}

#[test]
fn dropped_repeated_and_moved_records_cost_only_their_frames() {
    let mut random = Random(3);
    for (at, intact) in captures().iter().enumerate() {
        let (records, end) = (intact.records.len() - 1, intact.bytes.len());
        for _ in 0..rounds(24) {
            let a = random.below(records);
            let (record, to) = (intact.record(a), random.below(records + 1));
            let place = intact.records[to];
            for (bytes, what) in [
                (
                    intact.of_pieces(&[0..record.start, record.end..end]),
                    "dropped",
                ),
                (
                    intact.of_pieces(&[0..place, record.clone(), place..end]),
                    "repeated",
                ),
                (intact.moved(a, to), "moved"),
            ] {
                let what = format!("capture {at}, record {a} {what}, place {to}");
                let whole = check(intact, &bytes, &mut random, &what);
                assert!(whole + 4 >= intact.frames.len(), "{what}: {whole} frames");
            }
        }
    }
}

#[test]
fn inserted_removed_and_truncated_bytes_cost_only_their_frames() {
    let mut random = Random(4);
    for (at, intact) in captures().iter().enumerate() {
        let (from, end) = (intact.records[0], intact.bytes.len());
        for _ in 0..rounds(24) {
            let place = from + random.below(end - from);
            let len = (1 + random.below(60)).min(end - place);
            let mut longer = intact.bytes.clone();
            longer.splice(place..place, (0..len).map(|_| random.next() as u8));
            // Further on, as many bytes are inserted as were removed. The end is at the place in
            // the index; everything in between is shifted.
            let mut shifted = intact.of_pieces(&[0..place, place + len..end]);
            let back = place + random.below(shifted.len() + 1 - place);
            shifted.splice(back..back, vec![0; len]);
            for (bytes, what) in [
                (longer, "put in"),
                (intact.of_pieces(&[0..place, place + len..end]), "cut out"),
                (intact.bytes[..place].to_vec(), "cut off"),
                (shifted, "moved"),
            ] {
                let what = format!("capture {at}, {len} bytes {what} at {place}");
                check(intact, &bytes, &mut random, &what);
            }
        }
    }
}

#[test]
fn all_orders_agree_under_any_damage() {
    let mut random = Random(5);
    let captures = captures();
    for case in 0..rounds(350) {
        let (intact, donor) = (
            &captures[case % captures.len()],
            &captures[(case + 1) % captures.len()],
        );
        let from = intact.records[0];
        let mutant = mutate(
            &mut random,
            &intact.bytes,
            &intact.records,
            &donor.bytes,
            from,
        );
        let what = format!("capture {}, {}", case % captures.len(), mutant.what);
        check(intact, &mutant.bytes, &mut random, &what);
    }
}

/// The stream returns the first of two records with one number, because it cannot know that a
/// better one follows.
#[test]
fn all_orders_agree_where_records_overwrite_others() {
    let (mut random, mut cases) = (Random(9), 0);
    for (at, intact) in captures().iter().enumerate() {
        let records = intact.records.len() - 1;
        for _ in 0..400 {
            let (a, b) = (random.below(records), random.below(records));
            let (from, to) = (intact.record(a), intact.record(b));
            if a == b || from.len() != to.len() {
                continue;
            }
            let mut bytes = intact.bytes.clone();
            bytes.copy_within(from, to.start);
            let what = format!("capture {at}, record {a} over record {b}");
            check_orders(intact, &bytes, &mut random, &what);
            cases += 1;
        }
    }
    assert!(cases > 50, "{cases} cases");
}

#[test]
fn batches_out_of_order_make_the_same_tree() {
    let intact = Intact::new(declaring(44, 12, 1, true));
    let mut random = Random(6);
    let mut batches = Vec::new();
    for (at, (found, record)) in decoded::records(&intact.bytes).enumerate() {
        assert_eq!(found.bytes, intact.record(at));
        batches.extend(matches!(record, Record::Batch(_)).then_some(at));
    }
    let neighbours = batches.windows(2).filter(|pair| pair[0] + 1 == pair[1]);
    let mut swaps = 0;
    for pair in neighbours {
        let what = format!("batches {pair:?} swapped");
        let whole = check(
            &intact,
            &intact.swapped(pair[0], pair[1]),
            &mut random,
            &what,
        );
        // The frame is complete.
        assert_eq!(whole, intact.frames.len(), "{what}");
        swaps += 1;
    }
    assert!(swaps > 6);
}

/// More frames than an index has places, so frames are counted from the place before them.
#[test]
fn frames_between_the_places_of_an_index_are_distinguished() {
    for number_step in [1, 3] {
        let mut random = Random(7);
        let bytes = written(40_000, number_step, |_| 1, true);
        let intact = Intact::new(bytes);
        let records = intact.records.len() - 1;
        for (a, b) in [(1000, 61_000), (30_001, 30_002), (5, 900)] {
            let swapped = intact.swapped(a, b.min(records - 1));
            let (streamed, _) = streamed(&swapped);
            let streamed = streamed.into_iter().map(|found| (found.number, found));
            let streamed: BTreeMap<_, _> = streamed.collect();
            let order: Vec<u64> = (0..400).map(|_| random.below(40_000) as u64).collect();
            let near = (500..520).chain(14_990..15_010).chain(30_490..30_510);
            let order: Vec<u64> = order.into_iter().chain(near).collect();
            let what = format!("numbers by {number_step}, records {a} and {b} swapped");
            let mut known = 0;
            let read_frames = in_order(&swapped, "mixed", &what, |_| order);
            for (i, found) in read_frames {
                let Some(found) = found else { continue };
                assert_eq!(found.number, i * number_step, "{what}: frame {i}");
                assert_eq!(
                    streamed.get(&found.number),
                    Some(&found),
                    "{what}: frame {i}"
                );
                known += 1;
            }
            // After a lost frame whose neighbours leave gaps in the numbers, no frame is known up
            // to the next place of the index.
            assert!(known > 440, "{what}: {known} frames");
        }
    }
}

/// Version 2 has neither checksums nor numbers, so a frame is right as far as its bytes show. The
/// frames are the same in any order of reading.
#[test]
fn frames_of_version_2_are_the_same_in_any_order() {
    let mut random = Random(8);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/data/v2");
    let names = [
        "metrics_only",
        "user_units",
        "flame",
        "every3_threads",
        "max5",
    ];
    let files = names.map(|name| std::fs::read(format!("{folder}/{name}.vor")).unwrap());
    for case in 0..rounds(400) {
        let (original, donor) = (&files[case % files.len()], &files[(case + 1) % files.len()]);
        let mutant = mutate_any(&mut random, original, &v2_records(original), donor);
        let what = format!("{}, {}", names[case % files.len()], mutant.what);
        let Ok(mut reader) = Reader::new(mutant.bytes.as_slice()) else {
            continue;
        };
        let forwards = in_order(&mutant.bytes, "forwards", &what, |count| {
            (0..count).collect()
        });
        let backwards = in_order(&mutant.bytes, "backwards", &what, |count| {
            (0..count).rev().collect()
        });
        assert_eq!(backwards, forwards, "{what}");
        let mixed = in_order(&mutant.bytes, "mixed", &what, |count| {
            let first = (0..count).map(|_| random.below(count as usize) as u64);
            first
                .collect::<Vec<_>>()
                .into_iter()
                .chain(0..count)
                .collect()
        });
        assert_eq!(mixed, forwards, "{what}");
        let mut capture = Capture::new(Cursor::new(mutant.bytes.clone())).unwrap();
        for i in 0..capture.frame_count() {
            let found = reader
                .next_frame()
                .unwrap()
                .expect("as many frames as Capture has");
            let frame = capture.frame(i).unwrap();
            let catalog = capture.catalog();
            let mut user: Vec<_> = frame
                .metrics
                .iter()
                .map(|value| {
                    (
                        &catalog.columns[value.column as usize],
                        value.value.to_bits(),
                    )
                })
                .filter(|(column, _)| !column.system)
                .map(|(column, value)| (column.metric.name.clone(), value))
                .collect();
            let mut expected: Vec<_> = found
                .user
                .iter()
                .map(|(name, value)| (name.clone(), value.to_bits()))
                .collect();
            user.sort();
            expected.sort();
            assert_eq!(user, expected, "{what}: frame {i}");
        }
        assert!(reader.next_frame().unwrap().is_none(), "{what}");
    }
}
