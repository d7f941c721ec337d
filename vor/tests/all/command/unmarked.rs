//! Captures without marks: every command treats them as one frame.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use vor::sinks::FrameSink as _;
use vor_capture::reader::{Capture, Piece, Pieces};
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

use crate::command::made::{capture, scope};
use crate::command::{FORMATS, Run, export, run, vor};

const REQUESTS: u64 = 100;
const SPANS: usize = 2 * REQUESTS as usize;

/// Copies a capture without its frames, which gives the file that the recorder writes for a program
/// without marks. Unless `closed`, it ends as after a kill.
fn without_marks(from: &Path, to: &Path, closed: bool) {
    let mut capture = Capture::open(from).unwrap();
    let mut pieces = Pieces::open(from, &mut capture).unwrap();
    let mut sink = CaptureSink::create(to, CaptureOptions::default()).unwrap();
    while let Some(piece) = pieces.next_piece().unwrap() {
        if let Piece::Batch(batch) = piece {
            sink.accept_batch(&batch).unwrap();
        }
    }
    sink.flush().unwrap();
    if closed {
        sink.finish().unwrap();
    } else {
        // Dropping the sink would close the file.
        std::mem::forget(Arc::new(sink));
    }
}

fn made(closed: bool) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (marked, path) = (
        folder.path().join("marked.vor"),
        folder.path().join("run.vor"),
    );
    let scopes = [scope("request", 10, 1_000), scope("parse", 20, 5_000)];
    capture(&marked, &scopes, 1, REQUESTS, 3);
    without_marks(&marked, &path, closed);
    (folder, path)
}

#[test]
fn looking_at_a_capture_without_marks() {
    for closed in [true, false] {
        let (_folder, path) = made(closed);
        let info = run("info", &path, &["--json"]).json();
        assert_eq!(
            (&info["frames"], &info["closed"]),
            (&1.into(), &closed.into())
        );
        assert_eq!(info["spans"], SPANS);
        let duration_ns = info["duration_ns"].as_u64().unwrap();
        assert!(duration_ns > REQUESTS * 3_000, "{duration_ns}");
        let frames = run("frames", &path, &["--json"]).json();
        let frame = &frames["frames"][0];
        assert_eq!(frames["frames"].as_array().unwrap().len(), 1, "{frames}");
        assert_eq!(
            (&frame["index"], &frame["spans"]),
            (&0.into(), &SPANS.into()),
            "{frame}"
        );
        assert_eq!(frame["duration_ns"], duration_ns);
        let stats = run("stats", &path, &[]);
        assert_eq!((stats.code, stats.stderr.as_str()), (0, ""), "{stats:?}");
        assert!(stats.stdout.contains("1 frame"), "{stats:?}");
        assert_eq!(run("stats", &path, &["--frames", "0..1"]).code, 0);
        assert_eq!(run("check", &path, &[]).code, 0);
        let tail = run("tail", &path, &["--once"]);
        assert_eq!((tail.code, tail.stdout.lines().count()), (0, 2), "{tail:?}");
        let diff = Run::from(vor().arg("diff").args([&path, &path]).output().unwrap());
        assert_eq!(diff.code, 0, "{diff:?}");
    }
}

#[test]
fn every_format_has_the_spans_of_a_capture_without_marks() {
    for closed in [true, false] {
        let (folder, path) = made(closed);
        for format in FORMATS {
            for options in [&[][..], &["--frames", "0..1"], &["--slowest", "1"]] {
                let out = folder.path().join("out");
                let _ = std::fs::remove_file(&out);
                let exported = export(&path, format, &out, options);
                assert_eq!(exported.code, 0, "{format} {options:?}: {exported:?}");
                let bytes = std::fs::read(&out).unwrap();
                let lines = || String::from_utf8_lossy(&bytes).lines().count();
                match format {
                    "csv" => assert_eq!(lines(), 1 + SPANS),
                    "metrics-csv" => assert_eq!(lines(), 2),
                    "collapsed" => assert_eq!(lines(), 2),
                    _ => assert!(bytes.len() > 100, "{format}: {}", bytes.len()),
                }
            }
        }
    }
}
