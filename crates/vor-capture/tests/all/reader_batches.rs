//! The spans of a frame in columns instead of trees, and files whose frames are searched for later.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up should stop"
)]

use std::io::Cursor;

use vor_capture::model::frame::TreeBuilder;
use vor_capture::reader::{Capture, DEFAULT_MAX_SPANS};
use vor_fixtures::make;

#[test]
fn batches_make_the_trees_of_the_frame() {
    for close in [true, false] {
        let made = make(31, 200, 12, close);
        let mut capture = Capture::new(Cursor::new(made.bytes.clone())).unwrap();
        let mut trees = TreeBuilder::new(DEFAULT_MAX_SPANS);
        for i in [0, 1, 2, 150, 3, 199, 199] {
            let whole = capture.recovered(i).unwrap();
            let (bare, batches) = capture.recovered_batches(i).unwrap();
            assert!(bare.frame.threads.is_empty() && bare.lost_records == 0);
            batches.iter().for_each(|batch| trees.add(batch));
            assert_eq!(trees.finish().threads, whole.frame.threads, "frame {i}");
            assert_eq!(bare.frame.span_count, whole.frame.span_count);
        }
        assert!(capture.recovered_batches(200).is_err());
        assert_eq!(capture.info().damage.count, 0);
    }
}

#[test]
fn a_frame_above_the_limit_of_spans_has_trees() {
    let made = make(32, 40, 12, true);
    let mut capture = Capture::new(Cursor::new(made.bytes)).unwrap();
    capture.set_max_spans(3);
    for i in 0..40 {
        let (recovered, batches) = capture.recovered_batches(i).unwrap();
        let spans: usize = batches
            .iter()
            .map(vor_capture::model::batch::ThreadBatch::len)
            .sum();
        assert!(recovered.held_spans() <= 3 && spans <= 3, "frame {i}");
        if recovered.frame.span_count > 3 {
            assert!(batches.is_empty());
            assert_eq!(recovered, capture.recovered(i).unwrap());
        }
    }
}

#[test]
fn a_lazily_opened_file_has_its_frames_once_extended() {
    let folder = tempfile::tempdir().unwrap();
    for close in [true, false] {
        let made = make(33, 120, 9, close);
        let path = folder.path().join("run.vor");
        std::fs::write(&path, &made.bytes).unwrap();
        let mut lazy = Capture::open_lazily(&path).unwrap();
        assert_eq!(
            (lazy.info().indexed, lazy.frame_count()),
            (close, if close { 120 } else { 0 })
        );
        assert_eq!(lazy.extend().unwrap(), 120);
        let mut eager = Capture::open(&path).unwrap();
        let (found, expected) = (lazy.info(), eager.info());
        assert_eq!(
            (found.frames, found.closed, found.file_bytes),
            (120, close, expected.file_bytes)
        );
        assert_eq!(
            (found.duration_ns, found.threads),
            (expected.duration_ns, expected.threads)
        );
        assert_eq!(found.damage, expected.damage);
        for i in [119, 0, 60] {
            assert_eq!(lazy.frame(i).unwrap(), eager.frame(i).unwrap());
        }
    }
}
