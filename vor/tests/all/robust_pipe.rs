//! Outputs whose path is a FIFO: without a reader, with a reader that stops, and with one that goes
//! on.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use vor::Sink as _;
use vor_fixtures::test_name;

use crate::robust_support::{child, folder, read, role, run, vor_lines};

const OUTPUTS: [&str; 3] = ["capture", "chrome", "perfetto"];

#[expect(unsafe_code, reason = "the standard library makes no FIFOs")]
fn make_fifo(folder: &Path) -> PathBuf {
    let path = folder.join("run.fifo");
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends with a zero and lives across the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path
}

/// Opens the FIFO for reading, without waiting for a writer.
fn open_reader(path: &Path) -> File {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    options.open(path).unwrap()
}

/// Records so many frames of so many spans into the FIFO, through the output that the role names.
fn record(output: &str, frames: u32, spans: u32) {
    let path = folder().join("run.fifo");
    let guard = match output {
        "chrome" => Some(vor::ChromeTraceSink { path }.install()),
        "perfetto" => Some(vor::sinks::PerfettoSink::new(path).install()),
        _ => {
            vor::Config::new().capture(path).enable();
            None
        }
    };
    // Recording starts even where the output could not be opened.
    vor::Config::new().enable();
    for _ in 0..frames {
        for _ in 0..spans {
            vor::profile_scope!("work");
        }
        vor::frame_mark();
    }
    // As with `std::process::exit`: the end of the process finishes the output.
    std::mem::forget(guard);
    println!("done {}", vor::is_enabled());
}

fn is_done(output: &Output) -> bool {
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("done true")
}

#[test]
fn a_fifo_without_a_reader_is_one_line() {
    let test = test_name!();
    if let Some(role) = role() {
        return record(&role, 10, 10);
    }
    for output in OUTPUTS {
        let folder = tempfile::tempdir().unwrap();
        let path = make_fifo(folder.path());
        let ended = run(&mut child(test, output, folder.path()));
        assert!(is_done(&ended), "{output}: {ended:?}");
        let lines = vor_lines(&ended);
        assert_eq!(lines.len(), 1, "{output}: {lines:?}");
        let path = path.to_str().unwrap();
        assert!(
            lines[0].contains(path) && lines[0].contains("nobody reads this FIFO"),
            "{output}: {lines:?}"
        );
    }
}

/// Returns the number before a word.
fn number_before(line: &str, word: &str) -> u64 {
    let words: Vec<_> = line.split_whitespace().collect();
    let at = words
        .iter()
        .position(|one| one.trim_end_matches(',') == word);
    words[at.expect(word) - 1].parse().expect(line)
}

#[test]
fn a_reader_that_stops_delays_no_exit_and_missed_spans_are_counted() {
    let test = test_name!();
    const FRAMES: u32 = 1_000;
    const SPANS: u32 = 1_000;
    if let Some(role) = role() {
        return record(&role, FRAMES, SPANS);
    }
    let made = u64::from(FRAMES * SPANS);
    for output in OUTPUTS {
        let folder = tempfile::tempdir().unwrap();
        let path = make_fifo(folder.path());
        let mut reader = open_reader(&path);
        let ended = run(&mut child(test, output, folder.path()));
        assert!(is_done(&ended), "{output}: {ended:?}");
        let lines = vor_lines(&ended);
        assert_eq!(lines.len(), 2, "{output}: {lines:?}");
        assert!(
            lines[0].contains("is switched off") && lines[0].contains("its reader"),
            "{output}: {lines:?}"
        );
        let missed = number_before(&lines[1], "spans");
        assert!(0 < missed && missed <= made, "{output}: {lines:?}");
        assert!(
            (1..=u64::from(FRAMES)).contains(&number_before(&lines[1], "frames")),
            "{output}: {lines:?}"
        );
        if output == "capture" {
            // The bytes that reached the pipe are there; together with the missed spans they are
            // complete.
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            let copy = folder.path().join("copy.vor");
            std::fs::write(&copy, bytes).unwrap();
            let held = read(&copy).count("work") as u64;
            assert!(
                held < made && held + missed >= made,
                "{held} spans were read, {lines:?}"
            );
        }
    }
}

#[test]
fn a_reader_that_is_slow_gets_everything() {
    let test = test_name!();
    const FRAMES: u32 = 300;
    const SPANS: u32 = 1_000;
    if let Some(role) = role() {
        return record(&role, FRAMES, SPANS);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = make_fifo(folder.path());
    let mut reader = open_reader(&path);
    let copy = folder.path().join("copy.vor");
    let copier = std::thread::spawn({
        let copy = copy.clone();
        move || {
            let mut piece = vec![0; 8 << 10];
            let mut bytes = Vec::new();
            loop {
                match reader.read(&mut piece) {
                    // There is no writer yet, or no longer.
                    Ok(0) if !bytes.is_empty() => break,
                    Ok(n) => bytes.extend_from_slice(&piece[..n]),
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            std::fs::write(copy, bytes).unwrap();
        }
    });
    let ended = run(&mut child(test, "capture", folder.path()));
    copier.join().unwrap();
    assert!(is_done(&ended), "{ended:?}");
    assert_eq!(vor_lines(&ended), [""; 0]);
    let summary = read(&copy);
    assert_eq!(summary.damage, [""; 0]);
    assert!(summary.closed);
    assert_eq!(summary.frames.len(), FRAMES as usize);
    let held = summary.count("work") as u64 + summary.dropped_in_batches;
    assert_eq!(held, u64::from(FRAMES * SPANS));
}
