//! The corpus of the fuzz targets, as ordinary tests: the seeds, and every input that once broke a
//! reader.
//!
//! The targets are in `fuzz/fuzz_targets`. A new finding moves from `fuzz/artifacts` into
//! `fuzz/corpus`, under a name that describes its fault.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::PathBuf;

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

/// Runs a target over its folder, and over every prefix of its shorter files.
fn run(target: &str, body: fn(&[u8])) {
    let mut files = 0;
    for entry in fs::read_dir(corpus(target)).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        println!("{}", path.display());
        body(&bytes);
        for len in (0..bytes.len()).step_by(bytes.len() / 64 + 1) {
            body(&bytes[..len]);
        }
        files += 1;
    }
    assert!(files >= 4, "{target} has a corpus of {files} files");
}

#[test]
fn reader_survives_its_corpus() {
    run("reader", vor_fixtures::any_input::reader);
}

#[test]
fn capture_survives_its_corpus() {
    run("capture", vor_fixtures::any_input::capture);
}

#[test]
fn header_survives_its_corpus() {
    run("header", vor_fixtures::any_input::header);
}

/// The seeds of version 3 are files of `vor_fixtures::make`; with `VOR_FUZZ_SEEDS` they are written
/// again.
#[test]
fn seeds_are_captures_of_this_version() {
    for (name, close) in [("v3_closed.vor", true), ("v3_torn.vor", false)] {
        let made = vor_fixtures::make(7, 6, 9, close);
        for target in ["reader", "capture", "header"] {
            let path = corpus(target).join(name);
            let bytes = match target {
                "header" => &made.bytes[..made.records[0]],
                _ => &made.bytes[..],
            };
            if std::env::var_os("VOR_FUZZ_SEEDS").is_some() {
                fs::write(&path, bytes).unwrap();
            }
            let mut reader = vor_capture::reader::Reader::new(&made.bytes[..]).unwrap();
            let mut frames = 0;
            while reader.next_frame().unwrap().is_some() {
                frames += 1;
            }
            assert_eq!(frames, 6);
            let seed = fs::read(&path).unwrap();
            assert!(
                vor_capture::format::Header::decode(&seed)
                    .unwrap()
                    .is_some(),
                "{}",
                path.display()
            );
        }
    }
}
