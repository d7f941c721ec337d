//! Run after run into one folder of a small disk, while the clock jumps, other files fill the disk,
//! and the runs are killed. The spans of each run stay without a gap up to the last one that was
//! flushed.
//!
//! Variables, for longer soaks: `SOAK_ROUNDS`, `SOAK_SEED`, and `SOAK_FAKETIME`, the path of
//! libfaketime, without which the clock does not jump.

#![cfg(all(target_os = "linux", feature = "cli", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::robust_support::{captures, child, folder, on_small_disk, role};
use crate::segments::SEGMENT_BYTES;
use vor::capture::{ArgValue, Capture, Piece, SegmentedCapture};
use vor_fixtures::random::Random;
use vor_fixtures::test_name;

const ROUNDS: u64 = 8;
const DISK_BYTES: usize = 400_000;
/// Room that other files leave, in which the recorder has some segments to delete.
const LEFT_BYTES: usize = 8 * SEGMENT_BYTES as usize;
const FRAME_SPANS: u64 = 20;
/// Jumps of the clock, as libfaketime reads them.
const JUMPS: [&str; 8] = ["+0", "-2h", "+3d", "-40d", "+1s", "-1s", "+400d", "-9y"];

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a whole number"))
}

/// Records numbered spans until it is killed or a file says that it is to end. Writes into a file
/// elsewhere which span has ended and was flushed.
fn record() {
    let round = number("SOAK_ROUND").unwrap();
    vor::Config::new()
        .capture(folder().join("disk/runs/run-%Y%m%dT%H%M%S.vor"))
        .segments(vor::Segments::new().size(SEGMENT_BYTES))
        .enable();
    let mut progress = fs::File::create(folder().join("progress")).unwrap();
    let end = folder().join("end");
    for frame in 0_u64.. {
        for span in 0..FRAME_SPANS {
            vor::profile_scope!("work", round = round, number = FRAME_SPANS * frame + span);
        }
        vor::frame_mark();
        // A run writes about as much as the disk holds, so that some of the run before is left.
        sleep(Duration::from_micros(300));
        if frame % 10 == 0 {
            vor::flush();
            let flushed = FRAME_SPANS * (frame + 1);
            progress.write_all(&flushed.to_le_bytes()).unwrap();
            if end.exists() {
                break;
            }
        }
    }
    vor::close_capture().expect("the capture is still being written");
}

/// Sets the clock of the recorder.
fn set_clock(random: &mut Random) {
    let jump = JUMPS[random.below(JUMPS.len())];
    fs::write(folder().join("clock"), jump).unwrap();
}

/// Has other files take a part of the disk.
fn fill_disk(random: &mut Random) {
    let bytes = random.below(DISK_BYTES - LEFT_BYTES);
    // The recorder may have taken the room of the last of these bytes.
    let _ = fs::write(folder().join("disk/other"), vec![0; bytes]);
}

fn begin_recorder(round: u64) -> Child {
    let folder = folder();
    let _ = fs::remove_file(folder.join("end"));
    let _ = fs::remove_file(folder.join("progress"));
    let mut recorder = child(
        test_name!("runs_on_a_small_disk_lose_only_their_oldest_spans"),
        "recorder",
        &folder,
    );
    recorder.env("SOAK_ROUND", round.to_string());
    if let Some(library) = std::env::var_os("SOAK_FAKETIME") {
        recorder
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", folder.join("clock"))
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    recorder.stdout(Stdio::null()).stderr(Stdio::piped());
    recorder.spawn().unwrap()
}

/// Returns the spans of each run, as the first number and the one behind the last.
fn spans_by_run(runs: &Path) -> BTreeMap<u64, (u64, u64)> {
    let mut spans: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut segments = SegmentedCapture::open(runs).unwrap();
    let mut pieces = segments.pieces().unwrap();
    while let Some(piece) = pieces.next_piece().unwrap() {
        let Piece::Batch(batch) = piece else { continue };
        for thread in &batch.threads {
            assert_eq!(thread.dropped_spans, 0, "spans were dropped");
            for args in &thread.args {
                let [ArgValue::U64(round), ArgValue::U64(number)] = args.values[..] else {
                    panic!("{args:?}");
                };
                let (_, next) = spans.entry(round).or_insert((number, number));
                assert_eq!(number, *next, "round {round}: a gap");
                *next += 1;
            }
        }
    }
    spans
}

/// Asserts that all segments are closed but at most the last two of each killed run.
fn assert_closed(runs: &Path, killed: &[u64]) {
    let mut unclosed: BTreeMap<u64, u32> = BTreeMap::new();
    for path in captures(runs) {
        // An empty file is a segment that was just created.
        let is_empty = fs::metadata(&path).unwrap().len() < 44;
        if is_empty || Capture::open(&path).unwrap().info().closed {
            continue;
        }
        // Without a span it is the newest segment of its run.
        if let Some(round) = spans_by_run(&path).keys().next() {
            *unclosed.entry(*round).or_default() += 1;
        }
    }
    for (round, segments) in unclosed {
        assert!(killed.contains(&round), "round {round} is not closed");
        assert!(
            segments <= 2,
            "round {round}: {segments} segments are not closed"
        );
    }
}

fn supervise() {
    let seed = number("SOAK_SEED")
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    println!("SOAK_SEED={seed}");
    let mut random = Random(seed);
    let runs = folder().join("disk/runs");
    let mut ends = BTreeMap::new();
    let mut killed = Vec::new();
    for round in 0..number("SOAK_ROUNDS").unwrap_or(ROUNDS) {
        set_clock(&mut random);
        let mut recorder = begin_recorder(round);
        let progress = folder().join("progress");
        while fs::metadata(&progress).map_or(0, |file| file.len()) < 8 * 5 {
            if recorder.try_wait().unwrap().is_some() {
                panic!("round {round}: {:?}", recorder.wait_with_output());
            }
            sleep(Duration::from_millis(1));
        }
        for _ in 0..random.below(20) {
            match random.below(3) {
                0 => set_clock(&mut random),
                1 => fill_disk(&mut random),
                _ => {}
            }
            sleep(Duration::from_micros(random.below(40_000) as u64));
        }
        if random.below(3) > 0 {
            recorder.kill().unwrap();
            killed.push(round);
        } else {
            fs::write(folder().join("end"), "").unwrap();
        }
        let output = recorder.wait_with_output().unwrap();
        assert!(
            output.status.success() || killed.contains(&round),
            "{output:?}"
        );
        for line in String::from_utf8(output.stderr).unwrap().lines() {
            let is_expected = line.contains("the disk is full; the oldest segments are deleted");
            assert!(is_expected, "round {round}: {line}");
        }

        let notes = fs::read(&progress).unwrap();
        let last = notes.chunks_exact(8).next_back().unwrap();
        let flushed = u64::from_le_bytes(last.try_into().unwrap());
        let spans = spans_by_run(&runs);
        let (first, end) = spans[&round];
        assert!(
            end >= flushed,
            "round {round}: {flushed} were flushed, {end} are there"
        );
        let is_alone = spans.len() == 1;
        assert!(
            first == 0 || is_alone,
            "round {round}: earlier runs are there"
        );
        for (earlier, (_, end)) in &spans {
            let known = ends.get(earlier).unwrap_or(end);
            assert_eq!(
                end, known,
                "round {round}: the last spans of {earlier} are missing"
            );
        }
        println!(
            "round {round}{}: {first}..{end}, {flushed} flushed, {} runs, {} segments",
            if output.status.success() {
                ""
            } else {
                ", killed"
            },
            spans.len(),
            captures(&runs).len()
        );
        ends.insert(round, end);
        assert_closed(&runs, &killed);
    }
}

#[test]
fn runs_on_a_small_disk_lose_only_their_oldest_spans() {
    match role().as_deref() {
        Some("recorder") => return record(),
        Some(_) => return supervise(),
        None => {}
    }
    let folder = tempfile::tempdir().unwrap();
    let inside = child(test_name!(), "supervisor", folder.path());
    let Some(output) = on_small_disk(inside, folder.path(), DISK_BYTES) else {
        return;
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    println!("{stdout}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
}
