//! How much of a file is read for a frame: its neighbourhood, and in order each byte about once.
//! Frames are the same however much is read for them, so nothing else shows that work is saved.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vor_capture::filled;
use vor_capture::format::{Encoder, Header, Record, RecordRef};
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_capture::reader::Capture;
use vor_fixtures::captures::record_offsets;
use vor_fixtures::sealed::{Sealed, index_payload, kind};
use vor_fixtures::{Random, catalog, reference, thread_batch};

use crate::reader_summaries::Counting;

/// A file is read in pieces of this size.
const PIECE: u64 = 64 << 10;

/// More batches than wait for a frame whose begin is unknown.
const MANY_BATCHES: u64 = 70_000;

/// Writes a capture of so many frames, with numbers so far apart and so many batches of a span or
/// two each.
pub fn written(
    frames: u64,
    number_step: u64,
    batches: impl Fn(u64) -> u64,
    close: bool,
) -> Vec<u8> {
    let mut random = Random(45);
    let known = Arc::new(catalog());
    let mut encoder = Encoder::new(Header {
        file_id: 45,
        flags: Header::KEEPS_SPANS,
        ..Header::default()
    });
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    let mut now = 2000;
    for i in 0..frames {
        let (start_ticks, mut trees) = (now, TreeBuilder::new(usize::MAX));
        for _ in 0..batches(i) {
            let batch = filled!(SpanBatch {
                catalog: Arc::clone(&known),
                threads: vec![thread_batch(&mut random, 0, 1, &mut now)],
            });
            trees.add_batch(&batch);
            encoder.encode(RecordRef::Batch(&batch), &mut bytes);
        }
        now += 10;
        let trees = trees.finish();
        let frame = filled!(FrameSnapshot {
            index: i * number_step,
            start_ticks,
            end_ticks: now,
            dropped_spans: trees.dropped_spans,
            span_count: trees.span_count
        });
        encoder.encode(RecordRef::Frame(&frame), &mut bytes);
    }
    if close {
        encoder.close(&known, &mut bytes);
    }
    bytes
}

/// Removes all places but the first and the last from the index.
fn with_two_places(bytes: &[u8]) -> Sealed {
    let mut sealed = Sealed::of(bytes);
    let at = sealed.find(kind::INDEX);
    let record = &mut sealed.records[at];
    let decoded = reference::decode(record.kind, record.seq, &record.payload);
    let Ok(Some(Record::Index(mut index))) = decoded else {
        panic!("{decoded:?}");
    };
    index.seeks = vec![index.seeks[0], *index.seeks.last().unwrap()];
    record.payload = index_payload(&index, |offset| offset);
    sealed
}

/// An open capture in memory, of which bytes are counted.
struct Counted {
    capture: Capture,
    bytes_read: Arc<AtomicU64>,
}

impl Counted {
    fn open(bytes: &[u8]) -> Self {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let input = Counting(Cursor::new(bytes.to_vec()), Arc::clone(&bytes_read));
        let capture = Capture::new(input).unwrap();
        bytes_read.store(0, Ordering::Relaxed);
        Self {
            capture,
            bytes_read,
        }
    }

    /// Returns how many bytes are read for frames in order. All are whole.
    fn bytes_for(&mut self, frames: Range<u64>) -> u64 {
        self.bytes_read.store(0, Ordering::Relaxed);
        for i in frames {
            let recovered = self.capture.recovered(i).unwrap();
            assert_eq!((recovered.frame.index, recovered.lost_records), (i, 0));
        }
        self.bytes_read.load(Ordering::Relaxed)
    }
}

#[test]
fn a_frame_is_read_from_the_place_before_it() {
    // An index has up to 16 384 places, so it has one for every fourth of these frames.
    let bytes = written(40_000, 1, |_| 1, true);
    assert!(bytes.len() as u64 > 30 * PIECE);
    for i in [0, 1, 2, 3, 20_000, 20_003, 39_998, 39_999] {
        let read = Counted::open(&bytes).bytes_for(i..i + 1);
        assert!(read <= 2 * PIECE, "frame {i}: {read} bytes");
    }
}

#[test]
fn frames_in_order_are_read_once() {
    for (frames, close) in [(40_000, true), (40_000, false), (4000, true), (4000, false)] {
        let bytes = written(frames, 1, |_| 1, close);
        let mut counted = Counted::open(&bytes);
        let read = counted.bytes_for(1001..3001);
        let all = bytes.len() as u64 * 2000 / frames;
        assert!(
            read <= all + all / 4 + 2 * PIECE,
            "{frames} frames, closed: {close}: {read} bytes for {all}"
        );
    }
}

/// Flips a bit in record `number` of a kind.
fn damage(sealed: &Sealed, kind: u8, number: u64) -> Vec<u8> {
    let records = sealed.records.iter().enumerate();
    let mut of_kind = records.filter(|(_, record)| record.kind == kind);
    let (record, _) = of_kind.nth(number as usize).unwrap();
    let mut bytes = sealed.bytes();
    let end = record_offsets(&bytes)[record + 1];
    bytes[end - 1] ^= 1;
    bytes
}

#[test]
fn damage_before_frames_is_read_once() {
    const DAMAGED: u64 = 100;
    let sealed = with_two_places(&written(4000, 1, |_| 1, true));
    let bytes = damage(&sealed, kind::BATCH, DAMAGED);
    let all = bytes.len() as u64;
    for is_damaged_read in [true, false] {
        let mut counted = Counted::open(&bytes);
        if is_damaged_read {
            let damaged = counted.capture.recovered(DAMAGED);
            assert!(damaged.is_ok_and(|recovered| recovered.lost_records > 0));
        }
        // The frames behind it are found by a pass over the whole file, to which the index is no
        // help.
        let read = counted.bytes_for(DAMAGED + 1..DAMAGED + 301);
        assert!(read <= all + 4 * PIECE, "{read} of {all} bytes");
    }

    // Summaries do not read batches.
    let mut counted = Counted::open(&damage(&sealed, kind::FRAME, DAMAGED));
    let summaries = counted.capture.summaries(DAMAGED);
    let found = summaries.filter(Result::is_ok).count() as u64;
    assert_eq!(found, 4000 - DAMAGED - 1);
    let read = counted.bytes_read.load(Ordering::Relaxed);
    assert!(read <= 3 * all, "{read} of {all} bytes");
}

#[test]
fn a_frame_of_many_batches_is_whole_whatever_was_read_before() {
    // Without a place at the second frame, it is reached from the first one.
    let batches = |frame| if frame == 1 { MANY_BATCHES } else { 1 };
    let bytes = with_two_places(&written(3, 1, batches, true)).bytes();
    let read = Counted::open(&bytes).bytes_for(1..2);
    let all = bytes.len() as u64;
    assert!(read <= all + PIECE, "{read} of {all} bytes");

    // A pass has up to 8192 places, so it has one for every second of these frames.
    let batches = |frame| if frame == 8193 { MANY_BATCHES } else { 1 };
    let bytes = written(8200, 1, batches, false);
    for frames in [8193..8194, 8192..8194] {
        Counted::open(&bytes).bytes_for(frames);
    }
}

#[test]
fn batches_of_other_frames_are_not_decoded() {
    // A pass has a place for every second of these frames.
    let mut sealed = Sealed::of(&written(8200, 1, |_| 1, false));
    let batches = sealed.records.iter_mut();
    let mut batches = batches.filter(|record| record.kind == kind::BATCH);
    let batch = batches.nth(8192).unwrap();
    // The checksum is right, and the payload has no meaning.
    batch.payload = vec![0xFF; 20];
    let mut counted = Counted::open(&sealed.bytes());
    counted.bytes_for(8193..8194);
    assert_eq!(counted.capture.info().damage.count, 0);
    let damaged = counted.capture.recovered(8192).unwrap();
    assert_eq!(damaged.lost_records, 1);
    // The batch, and the frame without it.
    assert_eq!(counted.capture.info().damage.count, 2);
}
