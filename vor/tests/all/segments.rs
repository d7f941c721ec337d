//! A capture in segments against one file of the same run, and what happens to its segments.

#![cfg(all(unix, feature = "cli", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::robust_support::{captures, child, folder, on_small_disk, role, vor_lines};
use vor::capture::{Capture, Event, Piece, SegmentedCapture};
use vor_fixtures::process::run_to_success as run;
use vor_fixtures::random::rounds;
use vor_fixtures::test_name;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

/// The smallest segments.
pub(crate) const SEGMENT_BYTES: u64 = 16_000;

fn one_file(folder: &Path) -> PathBuf {
    folder.join("one.vor")
}

fn several(folder: &Path) -> PathBuf {
    folder.join("several")
}

/// Records into segments and into one file.
fn record_both(segments: vor::Segments) {
    let one = CaptureSink::create(&one_file(&folder()), CaptureOptions::default()).unwrap();
    vor::Config::new()
        .sink("one file", one)
        .capture(format!("{}/", several(&folder()).display()))
        .segments(segments)
        .enable();
}

/// Ends the segments; the other file ends with the process.
fn close_both() {
    vor::close_capture().unwrap();
}

/// Opens a scope that stays open until the process ends.
fn open_for_the_whole_run() {
    let (opened, is_open) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        vor::profile_scope!("whole run");
        opened.send(()).unwrap();
        loop {
            std::thread::park();
        }
    });
    is_open.recv().unwrap();
}

/// Scopes on two threads, with arguments and messages, until there are some segments.
fn work(frames: u64, spans: u64, marks: bool) {
    let other = std::thread::Builder::new().name("other".into());
    let other = other.spawn(move || {
        for i in 0..frames {
            vor::profile_scope!("other work", i = i);
            for _ in 0..spans {
                vor::profile_scope!("other inside");
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    for i in 0..frames {
        vor::profile_scope!("frame work", i = i);
        for j in 0..spans {
            vor::profile_scope!("inside", j = j);
            if j % 64 == 0 {
                vor::message!("message {i} {j}");
            }
        }
        vor::record_metric("value", i as f64 / 3.0);
        if marks {
            vor::frame_mark();
        }
        if i % 10 == 9 {
            vor::frame_mark_named!("tenth");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    other.unwrap().join().unwrap();
}

/// A span: thread, name, start, duration, arguments.
type Span = (u32, String, u64, u64, String);
/// A frame: set, number, start, end, spans, metrics.
type Frame = (u32, u64, u64, u64, u64, String);

/// Everything in a capture.
#[derive(Debug, Default, PartialEq)]
struct Contents {
    /// By thread, in the order in which they ended.
    spans: BTreeMap<u32, Vec<Span>>,
    messages: Vec<(u32, u64, String)>,
    frames: Vec<Frame>,
    dropped: u64,
}

fn contents(path: &Path) -> Contents {
    let mut segments = SegmentedCapture::open(path).unwrap();
    let mut pieces = segments.pieces().unwrap();
    let mut all = Contents::default();
    while let Some(piece) = pieces.next_piece().unwrap() {
        match piece {
            Piece::Batch(batch) => {
                for thread in &batch.threads {
                    let id = thread.thread.0;
                    all.dropped += thread.dropped_spans;
                    let mut args = thread.args.iter().peekable();
                    for i in 0..thread.len() {
                        let values = args.next_if(|args| args.span as usize == i);
                        let span = (
                            id,
                            batch.catalog.site_name(thread.sites[i]).to_owned(),
                            thread.start_ticks[i],
                            thread.duration_ticks[i],
                            format!("{:?}", values.map(|args| &args.values)),
                        );
                        all.spans.entry(id).or_default().push(span);
                    }
                    for message in &thread.messages {
                        all.messages
                            .push((id, message.ticks, message.text.to_string()));
                    }
                }
            }
            Piece::Frame(recovered) => {
                assert_eq!(recovered.lost_records, 0);
                let frame = &recovered.frame;
                let metric = |value: &vor::capture::MetricValue| {
                    let column = &frame.catalog.columns[value.column as usize];
                    format!("{}={:?}", column.metric.name, value.value)
                };
                let metrics: Vec<String> = frame.metrics.iter().map(metric).collect();
                all.frames.push((
                    frame.frame_set,
                    frame.index,
                    frame.start_ticks,
                    frame.end_ticks,
                    frame.span_count,
                    metrics.join(" "),
                ));
            }
            _ => {}
        }
    }
    assert!(pieces.damage().is_none(), "{:?}", pieces.damage());
    assert_eq!(segments.problems(), [""; 0]);
    all.messages.sort();
    all
}

pub(crate) fn vor(args: &[&str], path: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vor"));
    command.env_remove("COLUMNS").env_remove("VOR_RECORD");
    command.arg(args[0]).arg(path).args(&args[1..]);
    command.output().unwrap()
}

/// Returns the output of a command, without the name of the capture.
fn said(args: &[&str], path: &Path) -> String {
    let output = vor(args, path);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {stderr}");
    let text = stderr + &String::from_utf8(output.stdout).unwrap();
    text.replace(&path.display().to_string(), "CAPTURE")
}

/// Asserts that each segment is a whole capture, with the scope around the run open at both ends.
fn assert_whole(path: &Path, is_first: bool) {
    let info = Capture::open(path).unwrap().info();
    assert!(info.closed && info.indexed, "{path:?}: {info:?}");
    let output = vor(&["check"], path);
    assert!(output.status.success(), "{path:?}: {output:?}");
    let mut reader = vor::capture::Reader::open(path).unwrap();
    let (mut before, mut behind, mut has_data) = (0, 0, false);
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::OpenScopes(open) => {
                let catalog = reader.catalog().unwrap();
                let scopes = open.threads.iter().flat_map(|(_, scopes)| scopes);
                let names = scopes.map(|(site, _)| catalog.site_name(*site).to_owned());
                let has_whole = names.into_iter().any(|name| name == "whole run");
                let place = if has_data { &mut behind } else { &mut before };
                *place += u32::from(has_whole);
            }
            _ => has_data = true,
        }
    }
    assert_eq!((before > 0, behind > 0), (!is_first, true), "{path:?}");
}

fn assert_same(folder: &Path, commands: &[&[&str]], min_segments: usize) {
    let (one, several) = (one_file(folder), several(folder));
    let paths = captures(&several);
    assert!(paths.len() >= min_segments, "{} segments", paths.len());
    for (i, path) in paths.iter().enumerate() {
        assert_whole(path, i == 0);
    }
    let (whole, parts) = (contents(&one), contents(&several));
    assert!(whole.spans.values().map(Vec::len).sum::<usize>() > 20_000);
    assert_eq!(whole.spans, parts.spans);
    assert_eq!(whole.messages, parts.messages);
    assert_eq!(whole.frames, parts.frames);
    assert_eq!(whole.dropped, parts.dropped);
    let (mut whole, mut parts) = (
        SegmentedCapture::open(&one).unwrap(),
        SegmentedCapture::open(&several).unwrap(),
    );
    let totals = |segments: &SegmentedCapture| {
        let info = segments.info();
        (
            info.frames,
            info.marked,
            info.spans,
            info.dropped_spans,
            info.threads,
            info.duration_ns,
        )
    };
    assert_eq!(totals(&whole), totals(&parts));
    assert_eq!(whole.frame_count(), parts.frame_count());
    for i in 0..whole.frame_count() {
        let (one, part) = (whole.frame(i).unwrap(), parts.frame(i).unwrap());
        assert_eq!(one.threads, part.threads, "frame {i}");
        assert_eq!(one.index, part.index);
        assert_eq!(one.duration_ns(), part.duration_ns());
    }
    for args in commands {
        assert_eq!(said(args, &one), said(args, &several), "{args:?}");
    }
    let pattern = several.join("*.vor");
    assert_eq!(contents(&pattern), contents(&several));
}

#[test]
fn segments_hold_what_one_file_holds() {
    if role().is_some() {
        record_both(vor::Segments::new().size(SEGMENT_BYTES));
        open_for_the_whole_run();
        work(300, 100, true);
        return close_both();
    }
    let folder = tempfile::tempdir().unwrap();
    run(&mut child(test_name!(), "both", folder.path()));
    let commands: [&[&str]; 9] = [
        &["stats"],
        &["stats", "--json"],
        &["stats", "--frames", "100..200", "--json"],
        &["frames", "--json"],
        &["frames", "--json", "--slowest", "7"],
        &["frames", "--frame-set", "tenth", "--json"],
        &["export", "--to", "csv"],
        &["export", "--to", "csv", "--slowest", "3"],
        &["export", "--to", "metrics-csv"],
    ];
    assert_same(folder.path(), &commands, 10);
}

#[test]
fn segments_without_marks_hold_what_one_file_holds() {
    if role().is_some() {
        record_both(vor::Segments::new().size(SEGMENT_BYTES));
        open_for_the_whole_run();
        work(300, 100, false);
        return close_both();
    }
    let folder = tempfile::tempdir().unwrap();
    run(&mut child(test_name!(), "both", folder.path()));
    let commands: [&[&str]; 3] = [&["stats"], &["stats", "--json"], &["export", "--to", "csv"]];
    assert_same(folder.path(), &commands, 5);
}

/// Names and sizes of the segments.
fn sizes(folder: &Path) -> Vec<(PathBuf, u64)> {
    let size = |path: PathBuf| {
        let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
        (path, bytes)
    };
    captures(folder).into_iter().map(size).collect()
}

#[test]
fn limits_hold_at_every_moment() {
    const KEEP: u64 = 100_000;
    if role().is_some() {
        vor::Config::new()
            .capture(folder().join("run-%Y%m%dT%H%M%S.vor"))
            .segments(vor::Segments::new().size(SEGMENT_BYTES).keep_size(KEEP))
            .enable();
        work(1000, 100, true);
        vor::close_capture().unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let foreign = ["run-1.vor", "other.vor", "run-20200101T000000.txt"];
    for name in foreign {
        std::fs::write(folder.path().join(name), vec![0; 50_000]).unwrap();
    }
    let is_own = |path: &Path| !foreign.iter().any(|name| path.ends_with(name));
    // A segment of an earlier run, which counts; and one that a reader holds.
    let old = folder.path().join("run-20200101T000000.vor");
    let held = folder.path().join("run-20200101T000000_000001.vor");
    for path in [&old, &held] {
        std::fs::write(path, vec![0; 10_000]).unwrap();
    }
    std::fs::write(
        folder.path().join("run-20200101T000000_000001.vor.lock"),
        "",
    )
    .unwrap();
    let mut process = child(test_name!(), "limits", folder.path());
    process.stdout(std::process::Stdio::null());
    let mut process = process.spawn().unwrap();
    let (mut most, mut most_count, mut names) = (0, 0, std::collections::BTreeSet::new());
    while process.try_wait().unwrap().is_none() {
        let own: Vec<_> = sizes(folder.path());
        let own: Vec<_> = own.into_iter().filter(|(path, _)| is_own(path)).collect();
        most = most.max(own.iter().map(|(_, bytes)| bytes).sum());
        most_count = most_count.max(own.len());
        names.extend(own.into_iter().map(|(path, _)| path));
        std::thread::sleep(Duration::from_micros(500));
    }
    assert!(process.wait().unwrap().success());
    assert!(names.len() > 12, "{} segments", names.len());
    assert!(most <= KEEP + SEGMENT_BYTES, "{most} bytes of {KEEP}");
    assert!(most >= KEEP / 2, "{most} bytes of {KEEP}");
    for name in foreign {
        let bytes = std::fs::metadata(folder.path().join(name)).unwrap().len();
        assert_eq!(bytes, 50_000, "{name}");
    }
    assert!(!old.exists() && held.exists());
    // The end of the run is left, without a gap.
    std::fs::remove_file(held).unwrap();
    foreign
        .iter()
        .for_each(|name| std::fs::remove_file(folder.path().join(name)).unwrap());
    let left = contents(folder.path());
    let frames: Vec<u64> = left
        .frames
        .iter()
        .filter(|frame| frame.0 == 0)
        .map(|frame| frame.1)
        .collect();
    let last = *frames.last().unwrap();
    assert_eq!(last, 999);
    assert!(frames.iter().copied().eq(frames[0]..=last));
}

#[test]
fn the_number_and_the_age_of_segments_are_limited() {
    if role().is_some() {
        let segments = vor::Segments::new().size(SEGMENT_BYTES).keep_count(3);
        vor::Config::new()
            .capture(folder().join("counted/"))
            .segments(segments)
            .enable();
        work(300, 100, true);
        vor::close_capture().unwrap();
        // The smallest age of a segment is a second.
        let segments = vor::Segments::new()
            .age(Duration::from_millis(1))
            .keep_age(Duration::ZERO);
        vor::Config::new()
            .capture(folder().join("aged/"))
            .segments(segments)
            .enable();
        for _ in 0..26 {
            vor::profile_scope!("slow");
            std::thread::sleep(Duration::from_millis(100));
        }
        vor::close_capture().unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run(&mut child(test_name!(), "limits", folder.path()));
    let counted = captures(&folder.path().join("counted"));
    assert_eq!(counted.len(), 3, "{counted:?}");
    let mut aged = SegmentedCapture::open(folder.path().join("aged")).unwrap();
    // Each is deleted as soon as the next one begins.
    assert_eq!(aged.paths().len(), 1);
    let segment = Capture::open(aged.paths().next().unwrap())
        .unwrap()
        .catalog()
        .segment
        .unwrap();
    assert_eq!(segment.number, 2);
    assert!((1..=12).contains(&aged.frame(0).unwrap().span_count));
}

#[test]
fn damaged_and_missing_segments_cost_themselves() {
    if role().is_some() {
        record_both(vor::Segments::new().size(SEGMENT_BYTES));
        work(200, 100, true);
        return close_both();
    }
    let folder = tempfile::tempdir().unwrap();
    run(&mut child(test_name!(), "both", folder.path()));
    let several = several(folder.path());
    let paths = captures(&several);
    let frames = |path: &Path| {
        let contents = contents(path);
        let numbers = contents.frames.iter().filter(|frame| frame.0 == 0);
        numbers.map(|frame| frame.1).collect::<Vec<_>>()
    };
    let all = frames(&several);
    let without = |lost: &[&PathBuf]| {
        let lost: Vec<u64> = lost.iter().flat_map(|path| frames(path)).collect();
        let left: Vec<u64> = all
            .iter()
            .copied()
            .filter(|frame| !lost.contains(frame))
            .collect();
        left
    };
    let (left, left_by_both) = (without(&[&paths[3]]), without(&[&paths[3], &paths[5]]));
    let lines = |output: &Output| {
        let text = String::from_utf8(output.stderr.clone()).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let numbers = |path: &Path| {
        let mut segments = SegmentedCapture::open(path).unwrap();
        let count = segments.frame_count();
        (0..count)
            // The record of a frame may be what is damaged.
            .filter_map(|i| Some(segments.frame(i).ok()?.index))
            .collect::<Vec<_>>()
    };
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();

    std::fs::write(&paths[3], "not a capture").unwrap();
    let output = vor(&["stats"], &several);
    assert!(output.status.success());
    let said = lines(&output);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains(&name(&paths[3])), "{said:?}");
    assert!(said[0].contains("not a vor capture"), "{said:?}");
    assert_eq!(numbers(&several), left);

    std::fs::remove_file(&paths[3]).unwrap();
    let output = vor(&["info", "--json"], &several);
    let said = lines(&output);
    assert_eq!(said.len(), 1, "{said:?}");
    let (before, after) = (name(&paths[2]), name(&paths[4]));
    assert!(said[0].contains("1 segment is missing between"), "{said:?}");
    assert!(
        said[0].contains(&before) && said[0].ends_with(&after),
        "{said:?}"
    );

    // Damage in the middle of a segment is damage of the capture.
    let mut bytes = std::fs::read(&paths[5]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].fill(0x55);
    std::fs::write(&paths[5], bytes).unwrap();
    let output = vor(&["stats"], &several);
    let said = lines(&output);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].contains("damaged in"), "{said:?}");
    let found = numbers(&several);
    assert!(left_by_both.iter().all(|frame| found.contains(frame)));

    // The oldest are missing in every folder with a limit.
    std::fs::remove_file(&paths[0]).unwrap();
    std::fs::remove_file(&paths[1]).unwrap();
    std::fs::remove_file(&paths[2]).unwrap();
    std::fs::remove_file(&paths[5]).unwrap();
    let said = lines(&vor(&["info"], &several));
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn several_runs_are_one_capture() {
    if let Some(role) = role() {
        vor::Config::new()
            .capture(folder().join("runs/"))
            .segments(vor::Segments::new().size(SEGMENT_BYTES))
            .enable();
        if role == "second" {
            // Another order of sites and metrics.
            vor::profile_scope!("only in the second run");
            vor::record_metric("only in the second run", 1.0);
            vor::frame_mark();
        }
        work(100, 100, true);
        vor::close_capture().unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    run(&mut child(test_name!(), "first", folder.path()));
    let first = contents(&runs);
    run(&mut child(test_name!(), "second", folder.path()));
    let both = contents(&runs);
    let names = |contents: &Contents| {
        let mut names = BTreeMap::<String, u64>::new();
        for span in contents.spans.values().flatten() {
            *names.entry(span.1.clone()).or_default() += 1;
        }
        names
    };
    let mut expected = names(&first);
    expected.values_mut().for_each(|count| *count *= 2);
    expected.insert("only in the second run".into(), 1);
    assert_eq!(names(&both), expected);
    let numbers: Vec<u64> = both
        .frames
        .iter()
        .filter(|frame| frame.0 == 0)
        .map(|frame| frame.1)
        .collect();
    assert!(numbers.iter().copied().eq(0..201), "{numbers:?}");
    let values = |name: &str| {
        both.frames
            .iter()
            .filter(|frame| frame.5.contains(name))
            .count()
    };
    assert_eq!(
        (values(" value="), values("only in the second run=")),
        (200, 1)
    );
    // Spans of both runs have one row.
    let output = said(&["stats", "--json"], &runs);
    let stats: serde_json::Value = serde_json::from_str(&output).unwrap();
    let scopes = stats["scopes"].as_array().unwrap();
    let counts: Vec<u64> = scopes
        .iter()
        .filter(|scope| scope["name"] == "inside")
        .map(|scope| scope["count"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [20_000]);
    let times: Vec<u64> = both
        .frames
        .iter()
        .filter(|frame| frame.0 == 0)
        .map(|frame| frame.2)
        .collect();
    assert!(times.is_sorted());
}

#[test]
fn a_second_enable_goes_on_and_a_child_of_a_fork_has_its_own_segments() {
    if role().is_some() {
        let config = || {
            vor::Config::new()
                .capture(folder().join("runs/"))
                .segments(vor::Segments::new().size(SEGMENT_BYTES))
        };
        config().enable();
        config().enable();
        assert_eq!(vor::capture_path(), Some(folder().join("runs/")));
        work(50, 100, true);
        #[expect(unsafe_code, reason = "only the C library forks")]
        // SAFETY: the child uses only what vor supports after a fork, and exits at once.
        let pid = unsafe { libc::fork() };
        work(50, 100, true);
        vor::close_capture().unwrap();
        if pid == 0 {
            std::process::exit(0);
        }
        let mut status = 0;
        #[expect(unsafe_code, reason = "only the C library waits for a child")]
        // SAFETY: `status` is a valid place for the result.
        unsafe {
            libc::waitpid(pid, &raw mut status, 0)
        };
        assert_eq!(status, 0);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test_name!(), "fork", folder.path()));
    assert_eq!(vor_lines(&output), [""; 0]);
    let mut runs = BTreeMap::<u64, Vec<(u64, u32)>>::new();
    for path in captures(&folder.path().join("runs")) {
        let capture = Capture::open(&path).unwrap();
        let segment = capture.catalog().segment.unwrap();
        let numbers = runs.entry(segment.run).or_default();
        numbers.push((segment.number, capture.catalog().process.pid));
        assert!(capture.info().closed);
    }
    assert_eq!(runs.len(), 2, "{runs:?}");
    for numbers in runs.values_mut() {
        numbers.sort_unstable();
        assert!(
            numbers
                .iter()
                .map(|(number, _)| *number)
                .eq(0..numbers.len() as u64)
        );
        assert!(numbers.iter().all(|(_, pid)| *pid == numbers[0].1));
    }
}

/// The numbers of the frames in a capture, and its damage.
fn frames_of(path: &Path) -> (Vec<u64>, usize) {
    let mut reader = vor::capture::Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Frame(recovered) = event
            && recovered.frame.frame_set == 0
        {
            frames.push(recovered.frame.index);
        }
    }
    let damage = reader.damage();
    let torn = damage.tail.as_ref().is_some_and(|tail| tail.bytes > 0);
    (frames, damage.losses.len() + usize::from(torn))
}

/// Makes spans and frames for ever, and writes into a file which span has ended and was flushed.
fn record_until_killed() {
    use std::io::Write;
    let segments = vor::Segments::new().size(SEGMENT_BYTES);
    vor::Config::new()
        .capture(folder().join("runs/"))
        .segments(segments)
        .enable();
    let mut progress = std::fs::File::create(folder().join("progress")).unwrap();
    for i in 0_u64.. {
        for j in 0..20 {
            vor::profile_scope!("work", number = 20 * i + j);
        }
        vor::frame_mark();
        if i % 50 == 0 {
            vor::flush();
            progress.write_all(&(20 * (i + 1)).to_le_bytes()).unwrap();
        }
    }
}

#[test]
fn a_killed_process_leaves_whole_segments_and_one_torn_record_at_most() {
    if role().is_some() {
        return record_until_killed();
    }
    let mut random = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let mut unfinished = 0;
    for kill in 0..rounds(15) {
        let folder = tempfile::tempdir().unwrap();
        let mut process = child(test_name!(), "killed", folder.path());
        process.stdout(std::process::Stdio::null());
        let mut process = process.spawn().unwrap();
        let progress = folder.path().join("progress");
        while std::fs::metadata(&progress).map_or(0, |file| file.len()) < 8 * 60 {
            std::thread::sleep(Duration::from_millis(1));
        }
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::sleep(Duration::from_micros((random >> 33) % 60_000));
        process.kill().unwrap();
        process.wait().unwrap();

        let notes = std::fs::read(&progress).unwrap();
        let last = notes.chunks_exact(8).next_back().unwrap();
        let flushed = u64::from_le_bytes(last.try_into().unwrap());
        let paths = captures(&folder.path().join("runs"));
        assert!(paths.len() >= 3, "kill {kill}: {} segments", paths.len());
        // A kill during a rotation leaves the segment before the last one without its index.
        let (ends, whole) = (&paths[paths.len() - 2..], &paths[..paths.len() - 2]);
        for path in whole {
            assert!(Capture::open(path).unwrap().info().closed, "kill {kill}");
            assert_eq!(frames_of(path).1, 0, "kill {kill}: {path:?}");
        }
        let mut damage = 0;
        for path in ends {
            // An empty file is a segment that was just created.
            if std::fs::metadata(path).unwrap().len() >= 44 {
                damage += frames_of(path).1;
                unfinished += usize::from(!Capture::open(path).unwrap().info().closed);
            }
        }
        assert!(damage <= 1, "kill {kill}: {damage}");
        // Every flushed span is there, once, in order.
        let mut segments = SegmentedCapture::open(folder.path().join("runs")).unwrap();
        let mut pieces = segments.pieces().unwrap();
        let (mut next, mut dropped) = (0, 0);
        while let Some(piece) = pieces.next_piece().unwrap() {
            let Piece::Batch(batch) = piece else { continue };
            for thread in &batch.threads {
                dropped += thread.dropped_spans;
                for args in &thread.args {
                    let vor::capture::ArgValue::U64(number) = args.values[0] else {
                        panic!("{args:?}");
                    };
                    assert!(number >= next, "kill {kill}: {number} after {next}");
                    dropped -= number - next;
                    next = number + 1;
                }
            }
        }
        assert_eq!(dropped, 0, "kill {kill}: a gap");
        assert!(
            next >= flushed,
            "kill {kill}: {flushed} were flushed, {next} are there"
        );
    }
    assert!(unfinished > 0, "no kill hit a segment");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_the_oldest_segments() {
    if role().is_some() {
        let runs = folder().join("disk/runs");
        vor::Config::new()
            .capture(runs.join("run-%Y%m%dT%H%M%S.vor"))
            .segments(vor::Segments::new().size(SEGMENT_BYTES))
            .enable();
        work(600, 100, true);
        vor::close_capture().expect("the capture is still being written");
        // The name space ends with this process.
        let kept = folder().join("kept");
        std::fs::create_dir(&kept).unwrap();
        for path in captures(&runs) {
            std::fs::copy(&path, kept.join(path.file_name().unwrap())).unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let inside = child(test_name!(), "full", folder.path());
    let Some(output) = on_small_disk(inside, folder.path(), 200_000) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let lines = vor_lines(&output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("the disk is full; the oldest segments are deleted early"));
    let kept = folder.path().join("kept");
    let left = contents(&kept);
    let frames: Vec<u64> = left
        .frames
        .iter()
        .filter(|frame| frame.0 == 0)
        .map(|frame| frame.1)
        .collect();
    let last = *frames.last().unwrap();
    assert_eq!(last, 599);
    assert!(frames[0] > 0 && frames.iter().copied().eq(frames[0]..=last));
    assert_eq!(left.dropped, 0);
    assert!(captures(&kept).len() >= 5);
}

/// Frames wait for the decision whether their spans are kept, also across two segments.
#[test]
fn chosen_frames_are_those_of_one_file() {
    let choices = |name: &str| {
        let mut options = CaptureOptions::default();
        match name {
            "every" => (options.every, options.max_frames) = (3, Some(150)),
            _ => (options.slow, options.frames_before) = (Some(Duration::from_millis(8)), 2),
        }
        options
    };
    if let Some(role) = role() {
        let options = choices(&role);
        let one = CaptureSink::create(&one_file(&folder()), options).unwrap();
        let config = vor::Config::new()
            .sink("one file", one)
            .capture(several(&folder()).join("run-%Y%m%dT%H%M%S.vor"))
            .segments(vor::Segments::new().size(SEGMENT_BYTES));
        let config = match options.slow {
            Some(limit) => config.slow_frames(limit, options.frames_before),
            None => config.every(3).max_frames(150),
        };
        config.enable();
        for i in 0..600_u64 {
            for j in 0..100 {
                vor::profile_scope!(
                    "inside",
                    product = (i * j).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                );
            }
            if i % 10 == 9 {
                std::thread::sleep(Duration::from_millis(10));
            }
            vor::frame_mark();
            // Several frames in each pass of the drain, and several passes in each segment.
            if i % 16 == 0 {
                vor::flush();
            }
        }
        return close_both();
    }
    for name in ["every", "slow"] {
        let folder = tempfile::tempdir().unwrap();
        run(&mut child(test_name!(), name, folder.path()));
        let several = several(folder.path());
        let segments = captures(&several).len();
        assert!(segments >= 3, "{name}: {segments} segments");
        let (one, parts) = (contents(&one_file(folder.path())), contents(&several));
        let kept = one.frames.iter().filter(|frame| frame.4 > 0).count();
        assert!((100..400).contains(&kept), "{name}: {kept} frames");
        assert_eq!(one.frames, parts.frames, "{name}");
        assert_eq!(one.spans, parts.spans, "{name}");
    }
}
