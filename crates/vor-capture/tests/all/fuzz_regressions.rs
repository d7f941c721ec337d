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

use vor_fixtures::captures::every_kind;
use vor_fixtures::sealed::{Sealed, file_of_input, kind};

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

#[test]
fn sealed_payloads_survive_their_corpus() {
    run("sealed", vor_fixtures::any_input::sealed);
}

#[test]
fn growing_files_survive_their_corpus() {
    run("growing", vor_fixtures::any_input::growing);
}

#[test]
fn pieces_survive_their_corpus() {
    run("pieces", vor_fixtures::any_input::pieces);
}

/// Returns the seeds of the targets whose inputs describe a file.
fn described_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let every_kind = Sealed::of(&every_kind(1, true));
    let given = |kind: u8, number: usize| {
        let mut of_kind = every_kind
            .records
            .iter()
            .filter(|record| record.kind == kind);
        let payload = &of_kind.nth(number).unwrap().payload;
        let len = (payload.len() as u16).to_le_bytes();
        [&[kind][..], &len, payload].concat()
    };
    let batches = [
        &[0x80][..],
        &given(kind::EVENTS, 0),
        &given(kind::BATCH, 0),
        &given(kind::BATCH, 2),
    ];
    let rest = [
        &[0x80][..],
        &given(kind::HEAP, 0),
        &given(kind::HEAP, 1),
        &given(kind::OPEN_SCOPES, 0),
        &given(kind::SITES, 0),
        &given(kind::INDEX, 0),
    ];
    vec![
        ("every_kind", vec![0]),
        (
            "changed",
            [&[1][..], &[15, 3, 4, 0, 0, 0], &[17, 6, 9, 0, 99, 1]].concat(),
        ),
        ("not_closed", [&[2][..], &[13, 0, 7, 0, 2, 0]].concat()),
        ("without_marks", [&[3][..], &[12, 4, 3, 0, 77, 0]].concat()),
        ("given_batches", batches.concat()),
        ("given_others", rest.concat()),
    ]
}

/// With `VOR_FUZZ_SEEDS` the seeds are written again.
#[test]
fn described_seeds_are_in_the_corpus() {
    for target in ["sealed", "growing", "pieces"] {
        for (name, mut seed) in described_seeds() {
            if target == "growing" {
                seed.insert(0, 2);
            }
            let path = corpus(target).join(name);
            if std::env::var_os("VOR_FUZZ_SEEDS").is_some() {
                fs::create_dir_all(corpus(target)).unwrap();
                fs::write(&path, &seed).unwrap();
            }
            assert!(path.exists(), "{}", path.display());
            let file = file_of_input(&seed[usize::from(target == "growing")..]);
            assert!(vor_capture::reader::Reader::new(&file[..]).is_ok());
        }
    }
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
