//! Captures without marks are one frame, from the first event to the last.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up should stop"
)]

use std::io::Cursor;

use vor_capture::format::RECORD_HEAD_BYTES;
use vor_capture::reader::{Capture, Event, FrameScan, Piece, Pieces, Reader};
use vor_fixtures::{TestCapture, make, make_without_marks};

const BATCHES: usize = 300;

fn open(made: &TestCapture) -> Capture {
    Capture::new(Cursor::new(made.bytes.clone())).unwrap()
}

#[test]
fn a_capture_without_marks_is_one_frame() {
    for close in [true, false] {
        let made = make_without_marks(41, BATCHES, 9, close);
        let expected = &made.frames[0];
        let mut capture = open(&made);
        assert_eq!(capture.frame_count(), 1);
        let info = capture.info();
        assert_eq!((info.frames, info.spans), (1, made.spans));
        // One tick is two nanoseconds.
        assert_eq!(
            info.duration_ns,
            2 * (expected.end_ticks - expected.start_ticks)
        );
        for _ in 0..2 {
            let recovered = capture.recovered(0).unwrap();
            assert_eq!((&recovered.frame, recovered.lost_records), (expected, 0));
        }
        let (bare, batches) = capture.recovered_batches(0).unwrap();
        let spans: usize = batches
            .iter()
            .map(vor_capture::model::batch::ThreadBatch::len)
            .sum();
        assert_eq!((bare.frame.threads.len(), spans as u64), (0, made.spans));
        assert!(capture.frame(1).is_err());
        let mut scan = FrameScan::new(0);
        let summary = capture.next_summary(&mut scan).unwrap().unwrap();
        assert_eq!(summary.span_count, made.spans);
        assert_eq!(
            (summary.start_ticks, summary.end_ticks),
            (expected.start_ticks, expected.end_ticks)
        );
        assert!(capture.next_summary(&mut scan).is_none());
        // In between, frames of other sets and spans in columns are read from the same file.
        assert_eq!(capture.batches().unwrap().count(), BATCHES);
        assert_eq!(&capture.frame(0).unwrap(), expected);
        capture.select_frame_set(1).unwrap();
        assert_eq!(capture.frame_count(), 0);
        assert_eq!(capture.info().damage.count, 0);
    }
}

#[test]
fn the_frame_holds_as_many_spans_as_any_other() {
    let made = make_without_marks(42, BATCHES, 9, true);
    let mut capture = open(&made);
    capture.set_max_spans(100);
    let recovered = capture.recovered(0).unwrap();
    assert_eq!((recovered.held_spans(), recovered.lost_records), (100, 0));
    assert_eq!(recovered.frame.span_count, made.spans);
    assert!(capture.recovered_batches(0).unwrap().1.is_empty());
}

#[test]
fn a_stream_returns_the_frame_at_the_end_record() {
    let closed = make_without_marks(43, BATCHES, 9, true);
    let mut reader = Reader::new(&closed.bytes[..]).unwrap();
    let recovered = reader.next_recovered().unwrap().unwrap();
    assert_eq!(
        (&recovered.frame, recovered.lost_records),
        (&closed.frames[0], 0)
    );
    assert!(reader.next_recovered().unwrap().is_none());
    let mut events = Reader::new(&closed.bytes[..]).unwrap();
    let mut frames = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        if let Event::Frame(recovered) = event {
            frames.push((recovered.frame.span_count, recovered.lost_records));
        }
    }
    assert_eq!(frames, [(closed.spans, 0)]);
    // A file that may grow may still get a mark.
    let open = make_without_marks(43, BATCHES, 9, false);
    let mut reader = Reader::new(&open.bytes[..]).unwrap();
    assert!(reader.next_recovered().unwrap().is_none());
}

#[test]
fn the_frame_follows_its_batches() {
    let folder = tempfile::tempdir().unwrap();
    for close in [true, false] {
        let made = make_without_marks(44, BATCHES, 9, close);
        let path = folder.path().join("run.vor");
        std::fs::write(&path, &made.bytes).unwrap();
        let mut capture = Capture::open(&path).unwrap();
        let mut pieces = Pieces::open(&path, &mut capture).unwrap();
        let (mut batches, mut frames) = (0, Vec::new());
        while let Some(piece) = pieces.next_piece().unwrap() {
            match piece {
                Piece::Batch(_) => batches += 1,
                Piece::Frame(recovered) => frames.push((batches, recovered.frame.span_count)),
                _ => {}
            }
        }
        assert_eq!(frames, [(BATCHES, made.spans)], "closed: {close}");
        // Opening alone returns the frame of a file that its recorder closed.
        let mut lazy = Capture::open_lazily(&path).unwrap();
        assert_eq!(lazy.frame_count(), u64::from(close));
        assert_eq!(lazy.extend().unwrap(), 1);
        assert_eq!(lazy.frame(0).unwrap().span_count, made.spans);
        assert!(!lazy.info().marked);
    }
}

#[test]
fn a_mark_ends_the_frame_of_a_growing_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let made = make(45, 3, 9, false);
    // Some of the first frame's batches, all of them, and its mark.
    let mark = made
        .records
        .iter()
        .rposition(|&at| at < made.frame_ends[0])
        .unwrap();
    std::fs::write(&path, &made.bytes[..made.records[mark]]).unwrap();
    let mut capture = Capture::open(&path).unwrap();
    assert_eq!((capture.frame_count(), capture.info().marked), (1, false));
    assert_eq!(capture.frame(0).unwrap().threads, made.frames[0].threads);
    std::fs::write(&path, &made.bytes).unwrap();
    assert_eq!(capture.extend().unwrap(), 3);
    assert!(capture.info().marked);
    for (i, frame) in (0..).zip(&made.frames) {
        assert_eq!(capture.frame(i).unwrap().index, frame.index);
        assert_eq!(&capture.frame(i).unwrap().threads, &frame.threads);
    }
    assert_eq!(capture.info().spans, made.spans);
}

#[test]
fn missing_records_of_the_frame_are_reported() {
    for close in [true, false] {
        let mut made = make_without_marks(46, BATCHES, 9, close);
        // A batch in the middle; the records before it are declarations.
        let at = made.records[BATCHES / 2] + RECORD_HEAD_BYTES;
        made.bytes[at] ^= 1;
        let mut capture = open(&made);
        let recovered = capture.recovered(0).unwrap();
        assert!(recovered.lost_records > 0);
        assert!(recovered.frame.span_count < made.spans);
        assert_eq!(recovered.held_spans(), recovered.frame.span_count);
        let summary = capture.summaries(0).next().unwrap().unwrap();
        assert_eq!(
            (summary.lost_records, summary.span_count),
            (recovered.lost_records, recovered.frame.span_count)
        );
        if close {
            let mut reader = Reader::new(&made.bytes[..]).unwrap();
            let streamed = reader.next_recovered().unwrap().unwrap();
            assert_eq!(streamed.frame, recovered.frame);
            assert!(streamed.lost_records > 0);
        }
    }
}

#[test]
fn an_empty_capture_has_no_frame() {
    let made = make(47, 0, 9, true);
    assert_eq!(open(&made).frame_count(), 0);
    assert_eq!(open(&made).info().duration_ns, 0);
    assert!(
        Reader::new(&made.bytes[..])
            .unwrap()
            .next_recovered()
            .unwrap()
            .is_none()
    );
}
