//! `vor export` of a selection: every option alone and combined, against the witness.

use serde_json::Value;

use crate::command::recording::{FRAMES, RecordedSpan, Recording, SLOW_FRAME, recording};
use crate::command::{Run, run};

/// Exports a Chrome trace. Returns the name and duration in nanoseconds of its spans, sorted.
fn spans(recording: &Recording, options: &[&str]) -> Vec<(String, i64)> {
    let events = chrome(recording, options).json();
    let spans = events
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X");
    let ns = |event: &Value| (event["dur"].as_f64().unwrap() * 1000.0).round() as i64;
    let mut spans: Vec<(String, i64)> = spans
        .map(|event| (event["name"].as_str().unwrap().to_owned(), ns(event)))
        .collect();
    spans.sort();
    spans
}

fn chrome(recording: &Recording, options: &[&str]) -> Run {
    run(
        "export",
        &recording.path,
        &[&["--to", "chrome"], options].concat(),
    )
}

/// Returns the rows of a CSV without its heading, split at commas outside of quotes.
fn rows(recording: &Recording, options: &[&str]) -> Vec<Vec<String>> {
    let csv = run(
        "export",
        &recording.path,
        &[&["--to", "csv"], options].concat(),
    );
    assert_eq!(csv.code, 0, "{csv:?}");
    let row = |line: &str| {
        let mut quoted = false;
        let split = line.split(|c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        split.map(str::to_owned).collect()
    };
    csv.stdout.lines().skip(1).map(row).collect()
}

/// Returns the spans of the witness that `wanted` accepts.
fn seen(recording: &Recording, wanted: impl Fn(&RecordedSpan) -> bool) -> Vec<(String, i64)> {
    let wanted = recording.spans.iter().filter(|span| wanted(span));
    let mut seen: Vec<(String, i64)> = wanted
        .map(|span| (span.name.clone(), span.end_ns - span.start_ns))
        .collect();
    seen.sort();
    assert!(!seen.is_empty());
    seen
}

/// Returns the numbers of the slowest frames.
fn slowest(recording: &Recording, most: usize) -> Vec<u64> {
    let mut frames: Vec<(i64, u64)> = recording
        .frames
        .iter()
        .map(|frame| (-frame.duration_ns(), frame.index))
        .collect();
    frames.sort_unstable();
    frames[..most].iter().map(|&(_, index)| index).collect()
}

fn thread_of<'a>(recording: &'a Recording, span: &RecordedSpan) -> &'a str {
    recording.catalog.thread_name(span.thread)
}

#[test]
fn threads_names_and_durations_select_spans() {
    let recording = recording();
    assert_eq!(
        spans(recording, &["--thread", "worker-*"]),
        seen(recording, |span| thread_of(recording, span)
            .starts_with("worker-"))
    );
    assert_eq!(
        spans(recording, &["--thread", "worker-1", "--thread", "dri?er"]),
        seen(recording, |span| thread_of(recording, span) != "worker-2")
    );
    assert_eq!(
        spans(recording, &["--name", "inner*", "--name", "s*"]),
        seen(recording, |span| span.name.starts_with("inner")
            || span.name.starts_with('s'))
    );
    assert_eq!(
        spans(recording, &["--min-us", "0.7"]),
        seen(recording, |span| span.end_ns - span.start_ns >= 700)
    );
    // The selected spans keep their arguments.
    let decode = chrome(recording, &["--name", "decode"]).stdout;
    assert!(
        decode.contains("\"codec\":\"lz4\"") && !decode.contains("\"frame\":41"),
        "{decode}"
    );
    // An option that selects everything changes nothing.
    assert_eq!(spans(recording, &["--name", "*"]), spans(recording, &[]));
}

#[test]
fn the_slowest_frames_are_exported_in_order_of_time() {
    let recording = recording();
    let slow = slowest(recording, 4);
    assert!(slow.contains(&SLOW_FRAME));
    assert_eq!(
        spans(recording, &["--slowest", "4"]),
        seen(recording, |span| slow.contains(&span.frame))
    );
    let mut in_order = slow.clone();
    in_order.sort_unstable();
    let mut frames: Vec<u64> = rows(recording, &["--slowest", "4"])
        .iter()
        .map(|row| row[1].parse().unwrap())
        .collect();
    frames.dedup();
    assert_eq!(frames, in_order);
    let metrics = run(
        "export",
        &recording.path,
        &["--to", "metrics-csv", "--slowest", "4"],
    );
    let numbers: Vec<u64> = metrics
        .stdout
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers, in_order);
    // The slowest frame of a range is chosen from the range alone.
    let events = chrome(recording, &["--slowest", "1", "--frames", "35..45"]).json();
    let is_frame = |event: &&Value| event["ph"] == "b" && event["cat"] == "frame";
    let frames: Vec<&Value> = events.as_array().unwrap().iter().filter(is_frame).collect();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0]["args"]["index"], SLOW_FRAME);
    assert_eq!(
        spans(recording, &["--slowest", "1000"]),
        seen(recording, |span| span.frame < FRAMES)
    );
}

#[test]
fn selections_combine() {
    let recording = recording();
    let slow = slowest(recording, 20);
    let options = [
        "--frames",
        "5..50",
        "--slowest",
        "60",
        "--thread",
        "driver",
        "--name",
        "decode",
        "--name",
        "step",
        "--min-us",
        "0.5",
    ];
    let wanted = |span: &RecordedSpan| {
        (5..50).contains(&span.frame)
            && thread_of(recording, span) == "driver"
            && ["decode", "step"].contains(&span.name.as_str())
            && span.end_ns - span.start_ns >= 500
    };
    assert_eq!(spans(recording, &options), seen(recording, wanted));
    let lengths: Vec<(String, i64)> = {
        let rows = rows(recording, &options);
        let mut lengths: Vec<(String, i64)> = rows
            .iter()
            .map(|row| (row[4].clone(), row[8].parse().unwrap()))
            .collect();
        lengths.sort();
        lengths
    };
    assert_eq!(lengths, seen(recording, wanted));
    assert_eq!(
        spans(recording, &["--slowest", "20", "--name", "decode"]),
        seen(recording, |span| slow.contains(&span.frame)
            && span.name == "decode")
    );
}

#[test]
fn depths_and_self_times_follow_the_selected_spans() {
    let recording = recording();
    // Without `step`, `decode` is outermost; without `inner`, all of its time is its own.
    let all = rows(recording, &["--name", "decode", "--name", "inner*"]);
    assert!(all.iter().any(|row| row[4] == "decode"));
    for row in &all {
        let depth = if row[4] == "decode" { "0" } else { "1" };
        assert_eq!(row[3], depth, "{row:?}");
    }
    for row in rows(recording, &["--name", "decode"]) {
        assert_eq!((row[3].as_str(), &row[8]), ("0", &row[9]), "{row:?}");
    }
}

#[test]
fn names_that_match_nothing_are_refused_and_leave_no_output() {
    let recording = recording();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let cases: [(&[&str], &str); 7] = [
        (
            &["--name", "decoder"],
            "no scope is called `decoder`; did you mean `decode`? There are `",
        ),
        (
            &["--name", "decode", "--name", "x*"],
            "no scope is called `x*`",
        ),
        (
            &["--thread", "worker"],
            "no thread is called `worker`; did you mean `worker-",
        ),
        (
            &["--name", "stall", "--thread", "worker-1"],
            "no spans in the selected frames, threads, names and durations",
        ),
        (&["--min-us", "1e9"], "names and durations"),
        (
            &["--min-us", "long"],
            "`long` is not a number of microseconds",
        ),
        (&["--slowest", "0"], "`0` is not a number from 1 to 100000"),
    ];
    for (options, said) in cases {
        for format in ["chrome", "csv"] {
            let to = ["--to", format, "-o", out.to_str().unwrap()];
            let refused = run("export", &recording.path, &[&to, options].concat());
            assert!(refused.refusal().contains(said), "{options:?}: {refused:?}");
            assert_eq!(
                std::fs::read_dir(&folder).unwrap().count(),
                0,
                "{options:?}"
            );
        }
    }
}
