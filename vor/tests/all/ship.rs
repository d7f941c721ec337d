//! A program that ships its own segments, and the command `vor ship`.

#![cfg(all(unix, feature = "cli", feature = "ship", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::robust_support::{child, folder, role, run, vor_lines};
use vor::ship::{ShipSink, Shipper};
use vor_fixtures::captures::make;
use vor_fixtures::process::{Ended, run_to_success};
use vor_fixtures::test_name;

/// The smallest segments.
const SEGMENT_BYTES: u64 = 16_000;

/// Records into `in/`, which is shipped to a URL.
fn record_and_ship(url: &str, exit_bound: Duration) {
    let captures = folder().join("in");
    let sink = ShipSink::new(Shipper::new(&captures, url).unwrap().host("web-1"));
    vor::Config::new()
        .capture(format!("{}/", captures.display()))
        .segments(vor::Segments::new().size(SEGMENT_BYTES))
        .sink("ship", sink.exit_bound(exit_bound).build().unwrap())
        .enable();
}

fn out_url(folder: &Path) -> String {
    format!("file://{}", folder.join("out").display())
}

/// Opens scopes with arguments, until there are several segments.
fn work() {
    for frame in 0..300_u64 {
        for i in 0..40_u64 {
            vor::profile_scope!("work", i = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ frame);
        }
        vor::frame_mark();
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Returns the files of a folder and its folders, by their names, which are unique.
fn files(folder: &Path, ending: &str) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(found.insert(name, path).is_none());
        }
    }
    found
}

/// Asserts that the storage has these segments, byte for byte, and returns their number.
fn expect_shipped(folder: &Path) -> usize {
    let (segments, shipped) = (
        files(&folder.join("in"), ".vor"),
        files(&folder.join("out/captures"), ".vor"),
    );
    assert_eq!(
        segments.keys().collect::<Vec<_>>(),
        shipped.keys().collect::<Vec<_>>()
    );
    for (name, path) in &segments {
        assert!(
            std::fs::read(path).unwrap() == std::fs::read(&shipped[name]).unwrap(),
            "{name}"
        );
    }
    segments.len()
}

#[test]
fn a_program_ships_all_its_segments_until_it_ends() {
    if role().is_some() {
        record_and_ship(&out_url(&folder()), Duration::from_secs(60));
        work();
        // The first segments are shipped while the program runs.
        let begun = Instant::now();
        while files(&folder().join("out/captures"), ".vor").len() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(20));
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run_to_success(&mut child(test_name!(), "program", folder.path()));
    assert!(vor_lines(&output).is_empty(), "{output:?}");
    assert!(expect_shipped(folder.path()) >= 3);
}

#[test]
fn a_sink_that_is_older_than_the_capture_ships_its_last_segment() {
    if role().is_some() {
        let captures = folder().join("in");
        let shipper = Shipper::new(&captures, &out_url(&folder())).unwrap();
        let sink = ShipSink::new(shipper).exit_bound(Duration::from_secs(60));
        // The recorder ends and drops its sinks in this order.
        std::mem::forget(vor::add_sink("ship", sink.build().unwrap()));
        vor::Config::new()
            .capture(format!("{}/", captures.display()))
            .segments(vor::Segments::new().size(SEGMENT_BYTES))
            .enable();
        work();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run_to_success(&mut child(test_name!(), "program", folder.path()));
    assert!(expect_shipped(folder.path()) >= 3);
}

#[test]
fn a_forked_child_ships_nothing_and_its_segments_are_shipped() {
    if role().is_some() {
        record_and_ship(&out_url(&folder()), Duration::from_secs(60));
        work();
        #[expect(unsafe_code, reason = "only the C library forks")]
        // SAFETY: the child uses functions of vor and of the standard library, which vor's hooks
        // keep usable, and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            work();
            // Nothing waits for a thread that the child has not.
            std::process::exit(0);
        }
        let mut status = 0;
        #[expect(unsafe_code, reason = "only the C library waits for a child")]
        // SAFETY: the pointer is to an integer.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!((waited, status), (pid, 0));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run_to_success(&mut child(test_name!(), "program", folder.path()));
    assert!(expect_shipped(folder.path()) >= 4);
    let names = files(&folder.path().join("in"), ".vor").into_keys();
    let mut processes: Vec<String> = names
        .map(|name| {
            let process = name.rsplit('-').next().unwrap();
            let digits = process.chars().take_while(char::is_ascii_digit);
            digits.collect()
        })
        .collect();
    processes.dedup();
    assert!(processes.len() >= 2, "{processes:?}");
}

#[test]
fn a_storage_that_does_not_answer_holds_up_neither_scopes_nor_the_end_for_long() {
    if role().is_some() {
        let address = std::env::var("TEST_SHIP_ENDPOINT").unwrap();
        assert!(address.starts_with("http://127.0.0.1:"));
        record_and_ship("s3://bucket/fleet", Duration::from_millis(300));
        let begun = Instant::now();
        work();
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(vor::failed_sinks(), 0);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Connections are accepted by the system, and nobody reads.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut command = child(test_name!(), "program", folder.path());
    command
        .env("TEST_SHIP_ENDPOINT", &endpoint)
        .env("AWS_ENDPOINT", &endpoint)
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "not-to-be-printed");
    let begun = Instant::now();
    let output = run_to_success(&mut command);
    assert!(begun.elapsed() < Duration::from_secs(40));
    let lines = vor_lines(&output).join("\n");
    assert!(
        lines.contains("not shipped yet; the next run ships them"),
        "{lines}"
    );
    assert!(!lines.contains("not-to-be-printed"));
    // The next run ships them.
    let shipper = Shipper::new(folder.path().join("in"), &out_url(folder.path())).unwrap();
    assert_eq!(shipper.ship().unwrap().left, 0);
    assert!(expect_shipped(folder.path()) >= 3);
}

fn vor(folder: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vor"));
    command.arg("ship").args(options).arg(folder.join("in"));
    command.env("AWS_SECRET_ACCESS_KEY", "not-to-be-printed");
    command
}

/// Makes a folder with the input of this many segments.
fn with_segments(count: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    (0..count).for_each(|number| add_segment(folder.path(), number));
    folder
}

fn add_segment(folder: &Path, number: u64) {
    let path = folder.join(format!("in/app-{number}.vor"));
    std::fs::write(path, make(number + 1, 20, 20, true).bytes).unwrap();
}

#[test]
fn the_command_ships_what_is_there() {
    let folder = with_segments(3);
    let url = out_url(folder.path());
    let output = run(vor(folder.path(), &["--once", "--host", "a b"]).arg(&url));
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    assert!(stdout.starts_with("3 segments as 12 objects, "), "{stdout}");
    assert_eq!(expect_shipped(folder.path()), 3);
    let spans = folder.path().join("out/spans/host=a%20b/date=2023-11-14");
    assert_eq!(files(&spans, ".parquet").len(), 3);
    let output = run(vor(folder.path(), &["--once", "--host", "a b", "--delete"]).arg(&url));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .starts_with("0 segments as 0 objects, ")
    );
    assert!(files(&folder.path().join("in"), ".vor").is_empty());
}

#[test]
fn the_command_ends_with_an_error_if_anything_is_left() {
    let folder = with_segments(2);
    std::fs::write(folder.path().join("out"), "a file").unwrap();
    let output = run(vor(folder.path(), &["--once"]).arg(out_url(folder.path())));
    assert_eq!(output.status.code(), Some(2));
    let lines = vor_lines(&output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("2 segments left: "), "{lines:?}");

    // A damaged one is shipped, without Parquet.
    std::fs::remove_file(folder.path().join("out")).unwrap();
    let path = folder.path().join("in/app-0.vor");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(&path, bytes).unwrap();
    let output = run(vor(folder.path(), &["--once"]).arg(out_url(folder.path())));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(vor_lines(&output).len(), 1);
    assert_eq!(expect_shipped(folder.path()), 2);
}

#[test]
fn the_command_refuses_bad_arguments_in_one_line() {
    let folder = with_segments(1);
    for (options, url, expected) in [
        (&["--keep", "2"][..], "out", "cannot be read; use s3://"),
        (
            &[],
            "s3://a:not-to-be-printed@b/c",
            "credentials come from the environment",
        ),
        (&["--keep", "1KB"], "file:///tmp/x", "--keep"),
        (&["--as", "csv"], "file:///tmp/x", "--as"),
    ] {
        let output = run(vor(folder.path(), options).arg("--once").arg(url));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let lines = vor_lines(&output);
        assert!(lines.len() == 1 && lines[0].contains(expected), "{lines:?}");
        assert!(!lines[0].contains("not-to-be-printed"), "{lines:?}");
    }
}

#[test]
fn the_command_follows_the_folder_until_a_signal() {
    let folder = with_segments(1);
    let url = out_url(folder.path());
    let mut command = vor(folder.path(), &["--as", "captures", "--keep", "2"]);
    command
        .arg(&url)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut following = Ended(command.spawn().unwrap());
    for number in 1..4 {
        std::thread::sleep(Duration::from_millis(30));
        add_segment(folder.path(), number);
        let begun = Instant::now();
        while files(&folder.path().join("out"), ".vor").len() as u64 <= number {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let begun = Instant::now();
    while files(&folder.path().join("in"), ".vor").len() > 2 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = following.0.id().cast_signed();
    #[expect(unsafe_code, reason = "only the C library sends signals")]
    // SAFETY: the call takes numbers, and the child was not waited for.
    let sent = unsafe { libc::kill(pid, libc::SIGTERM) };
    assert_eq!(sent, 0);
    let status = following.0.wait().unwrap();
    assert!(status.success(), "{status}");
    let mut stdout = String::new();
    let mut pipe = following.0.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut pipe, &mut stdout).unwrap();
    assert!(stdout.starts_with("4 segments as 4 objects, "), "{stdout}");
    assert!(!folder.path().join("out/spans").exists());
}

/// What a shipper may have in memory at most, with the program: a part of 8 MiB, and not a segment.
#[cfg(target_os = "linux")]
const MAX_MEMORY_KB: u64 = 48_000;

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_a_segment() {
    let folder = with_segments(0);
    let path = folder.path().join("in/large.vor");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(4 * 1024 * MAX_MEMORY_KB).unwrap();
    let hour = Duration::from_secs(3600);
    file.set_modified(std::time::SystemTime::now() - hour)
        .unwrap();
    let mut command = vor(folder.path(), &["--host", "web-1"]);
    command.arg(out_url(folder.path())).stdout(Stdio::null());
    let following = Ended(command.stderr(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    while files(&folder.path().join("out"), ".vor").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = format!("/proc/{}/status", following.0.id());
    let status = std::fs::read_to_string(status).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kb = peak.unwrap().trim().trim_end_matches(" kB");
    let peak_kb: u64 = peak_kb.parse().unwrap();
    assert!(peak_kb < MAX_MEMORY_KB, "{peak_kb} KB");
    let shipped = files(&folder.path().join("out"), ".vor");
    let bytes = std::fs::metadata(&shipped["large.vor"]).unwrap().len();
    assert_eq!(bytes, 4 * 1024 * MAX_MEMORY_KB);
}
