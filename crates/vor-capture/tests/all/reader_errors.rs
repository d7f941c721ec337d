//! A file that is not a capture gets one line that names it and says what is wrong with it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

use std::path::Path;

use vor_capture::reader::{Capture, Reader};

/// Opens a file with both readers; both must fail with the same message.
fn complaint(path: &Path) -> String {
    let streamed = Reader::open(path).unwrap_err().to_string();
    let error = Capture::open(path).unwrap_err();
    for text in [&streamed, &error.to_string()] {
        assert!(text.len() < 400, "{} bytes of text", text.len());
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(text.matches(path.to_str().unwrap()).count(), 1, "{text}");
    }
    assert_eq!(error.is_version(), streamed.contains("version"), "{error}");
    streamed
}

fn with_bytes(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.vor");
    std::fs::write(&path, bytes).unwrap();
    complaint(&path)
}

#[test]
fn a_missing_file() {
    let folder = tempfile::tempdir().unwrap();
    complaint(&folder.path().join("missing.vor"));
    assert!(
        Capture::open(folder.path().join("missing.vor"))
            .unwrap_err()
            .is_io()
    );
}

#[test]
fn a_directory() {
    let folder = tempfile::tempdir().unwrap();
    assert!(complaint(folder.path()).ends_with("not a vor capture: it is a directory"));
}

#[test]
fn an_empty_file() {
    assert!(with_bytes(b"").ends_with("not a vor capture: the file is empty"));
}

#[test]
fn no_capture() {
    let text = with_bytes(b"%PDF and so on");
    assert!(
        text.ends_with("not a vor capture: it starts with \"%PDF\""),
        "{text}"
    );
    assert!(with_bytes(b"V").contains("header"));
}

#[test]
fn a_newer_version() {
    let text = with_bytes(b"VOR1\x09\x00 and what version 9 may hold");
    assert!(
        text.ends_with("the capture has version 9; this vor reads versions 2 and 3"),
        "{text}"
    );
}

#[test]
fn a_header_that_ends_early() {
    for bytes in [
        &b"VOR1\x02\x00\x01\x04\x00\x08\x00fra"[..],
        b"VOR1\x03\x00\x2c\x00abc",
    ] {
        assert!(with_bytes(bytes).ends_with(" bytes, within its header"));
    }
}

#[test]
fn a_header_that_never_ends() {
    let mut bytes = b"VOR1\x02\x00\x01\xff\xff".to_vec();
    bytes.resize(40 << 20, b'a');
    assert!(with_bytes(&bytes).contains("columns"));
}

#[test]
fn zero_frames_are_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.vor");
    std::fs::write(&path, b"VOR1\x02\x00\x00\x01\x00\x01\x00a\x00\x00").unwrap();
    let mut capture = Capture::open(&path).unwrap();
    assert_eq!(capture.frame_count(), 0);
    assert!(capture.frame(0).is_err());
    assert_eq!(capture.frames(0..9).count(), 0);
    assert_eq!(capture.info().frames, 0);
    assert!(capture.info().damage.is_none());
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.columns()[0].name, "a");
    assert_eq!(reader.next_frame().unwrap(), None);
}
