//! `vor info`, `vor frames`, `vor check` and `vor export`.

use serde_json::Value;

use crate::command::recording::{FRAMES, SLOW_FRAME, recording};
use crate::command::{run, v2, v2_expected, vor};

#[test]
fn info_describes_the_recording() {
    let recording = recording();
    let info = run("info", &recording.path, &["--json"]).json();
    assert_eq!(info["version"], 3);
    assert_eq!(info["frames"], FRAMES);
    assert_eq!(info["spans"], recording.spans.len());
    assert_eq!(info["dropped_spans"], 0);
    assert_eq!(
        (&info["closed"], &info["indexed"]),
        (&true.into(), &true.into())
    );
    assert_eq!(info["file_bytes"], recording.bytes.len());
    assert_eq!(info["process"]["pid"], std::process::id());
    assert_eq!(info["frame_sets"], serde_json::json!(["physics"]));
    let last = recording.frames.last().unwrap();
    let whole = last.catalog.unix_ns(last.end_ticks)
        - last.catalog.unix_ns(recording.frames[0].start_ticks);
    assert_eq!(info["duration_ns"], whole);
    let threads = info["threads"].as_array().unwrap();
    for name in ["driver", "worker-1", "worker-2"] {
        assert!(
            threads.iter().any(|thread| thread["name"] == name),
            "{threads:?}"
        );
    }
    let columns = info["columns"].as_array().unwrap();
    let loss = columns
        .iter()
        .find(|column| column["name"] == "loss")
        .unwrap();
    assert_eq!(
        (&loss["unit"], &loss["system"]),
        (&"nats".into(), &false.into())
    );
    assert_eq!(info["damage"]["count"], 0);
}

#[test]
fn info_reads_captures_of_version_2() {
    for name in [
        "metrics_only",
        "user_units",
        "flame",
        "every3_threads",
        "max5",
        "torn",
    ] {
        let info = run("info", &v2(&format!("{name}.vor")), &["--json"]).json();
        let expected = v2_expected(name);
        assert_eq!(info["version"], 2, "{name}");
        assert_eq!(info["frames"], expected["n_frames"], "{name}");
        assert_eq!(info["file_bytes"], expected["size_bytes"], "{name}");
        let mut columns = expected["columns"].as_array().unwrap().clone();
        columns.extend(expected["user_columns"].as_array().unwrap().clone());
        let said = info["columns"].as_array().unwrap();
        let names = |columns: &[Value]| -> Vec<(Value, Value)> {
            let each = columns.iter();
            each.map(|column| (column["name"].clone(), column["unit"].clone()))
                .collect()
        };
        assert_eq!(names(said), names(&columns), "{name}");
    }
}

#[test]
fn frames_follow_the_marks() {
    let recording = recording();
    let json = run("frames", &recording.path, &["--json"]).json();
    let frames = json["frames"].as_array().unwrap();
    assert_eq!(frames.len(), recording.frames.len());
    for (said, seen) in frames.iter().zip(&recording.frames) {
        assert_eq!(said["index"], seen.index);
        assert_eq!(
            said["start_unix_ns"],
            seen.catalog.unix_ns(seen.start_ticks)
        );
        assert_eq!(said["duration_ns"], seen.duration_ns());
        assert_eq!(said["spans"], seen.span_count);
        // The JSON parser of this test rounds the last digit in its own way.
        let close =
            |said: &Value, value: f64| (said.as_f64().unwrap() - value).abs() <= value * 1e-15;
        assert!(close(
            &said["user"]["loss"],
            1.0 / (seen.index as f64 + 1.0)
        ));
        assert!(close(
            &said["system"]["frame_ms"],
            seen.metric("frame_ms").unwrap()
        ));
    }
    let table = run("frames", &recording.path, &[]).stdout;
    assert_eq!(table.lines().count() as u64, FRAMES + 1, "{table}");
}

#[test]
fn the_slowest_frames_come_with_their_causes() {
    let recording = recording();
    let json = run("frames", &recording.path, &["--json", "--slowest", "5"]).json();
    let frames = json["frames"].as_array().unwrap();
    let mut lengths: Vec<i64> = recording
        .frames
        .iter()
        .map(|frame| frame.duration_ns())
        .collect();
    lengths.sort_unstable_by_key(|length| -length);
    let said: Vec<i64> = frames
        .iter()
        .map(|frame| frame["duration_ns"].as_i64().unwrap())
        .collect();
    assert_eq!(said, lengths[..5]);
    let slow = frames
        .iter()
        .find(|frame| frame["index"] == SLOW_FRAME)
        .unwrap();
    assert_eq!(slow["top_scope"]["name"], "stall");
    assert_eq!(slow["top_scope"]["thread"], "driver");
    assert!(slow["top_scope"]["self_ns"].as_u64().unwrap() >= 80_000_000);
    let table = run("frames", &recording.path, &["--slowest", "5"]).stdout;
    assert!(table.contains("% stall"), "{table}");
}

#[test]
fn other_frame_sets_are_listed_by_name() {
    let recording = recording();
    let json = run(
        "frames",
        &recording.path,
        &["--json", "--frame-set", "physics"],
    )
    .json();
    assert_eq!(json["frame_set"], "physics");
    assert_eq!(json["frames"].as_array().unwrap().len(), recording.physics);
    assert_eq!(recording.physics, 6);
    let slowest = run(
        "frames",
        &recording.path,
        &["--json", "--frame-set", "physics", "--slowest", "2"],
    )
    .json();
    assert_eq!(slowest["frames"].as_array().unwrap().len(), 2);
    let refused = run("frames", &recording.path, &["--frame-set", "chemistry"]);
    assert!(refused.refusal().contains("`physics`"), "{refused:?}");
}

#[test]
fn check_passes_whole_captures_and_finds_every_damaged_byte() {
    let recording = recording();
    let fine = run("check", &recording.path, &["--json"]).json();
    assert_eq!((&fine["ok"], &fine["closed"]), (&true.into(), &true.into()));
    assert_eq!(fine["spans"], recording.spans.len());
    assert_eq!(fine["frames"], FRAMES);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.vor");
    let len = recording.bytes.len();
    for at in (48..len).step_by(len / 23) {
        let mut bytes = recording.bytes.clone();
        bytes[at] ^= 0x20;
        std::fs::write(&path, &bytes).unwrap();
        let found = run("check", &path, &[]);
        assert_eq!(found.code, 1, "byte {at}: {found:?}");
        assert!(
            found.stdout.contains("DAMAGED") && found.stdout.contains("at byte"),
            "{found:?}"
        );
        let json = run("check", &path, &["--json"]);
        let json: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(json["ok"], false, "byte {at}");
        let losses = json["damage"]["losses"].as_array().unwrap();
        let covers = |loss: &Value| {
            let offset = loss["offset"].as_u64().unwrap();
            (offset..offset + loss["bytes"].as_u64().unwrap()).contains(&(at as u64))
        };
        assert!(
            losses
                .iter()
                .chain([&json["damage"]["tail"]])
                .any(|loss| !loss.is_null() && covers(loss)),
            "byte {at}: {json}"
        );
    }
}

#[test]
fn a_capture_that_was_not_closed_is_whole_and_a_torn_one_is_not() {
    let recording = recording();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.vor");
    let (mut whole, mut torn) = (0, 0);
    // A record ends somewhere among these lengths.
    for len in (recording.bytes.len() / 2..).take(600) {
        std::fs::write(&path, &recording.bytes[..len]).unwrap();
        let check = run("check", &path, &[]);
        if check.code == 0 {
            whole += 1;
            assert!(check.stdout.contains("not closed"), "{check:?}");
        } else {
            torn += 1;
            assert_eq!(check.code, 1, "{check:?}");
            assert!(check.stdout.contains("at byte"), "{check:?}");
        }
        if whole > 0 && torn > 0 {
            return;
        }
    }
    panic!("{whole} whole and {torn} torn of 600 neighbouring lengths");
}

#[test]
fn the_other_commands_report_damage_too() {
    let torn = v2("torn.vor");
    let check = run("check", &torn, &[]);
    assert_eq!(check.code, 1);
    assert!(check.stdout.contains("at byte 10290, 223 B"), "{check:?}");
    for command in ["stats", "frames"] {
        let run = run(command, &torn, &[]);
        assert_eq!(run.code, 0);
        assert!(run.stderr.contains("223 B"), "{run:?}");
    }
}

#[test]
fn a_chrome_trace_holds_every_span() {
    let recording = recording();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("trace.json");
    let to_file = run(
        "export",
        &recording.path,
        &["--to", "chrome", "-o", out.to_str().unwrap()],
    );
    assert_eq!(
        (
            to_file.code,
            to_file.stdout.as_str(),
            to_file.stderr.as_str()
        ),
        (0, "", "")
    );
    let to_stdout = run("export", &recording.path, &["--to", "chrome"]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), to_stdout.stdout);
    let events = to_stdout.json();
    let of_phase = |phase: &str| -> Vec<&Value> {
        let events = events.as_array().unwrap().iter();
        events.filter(|event| event["ph"] == phase).collect()
    };
    let spans = of_phase("X");
    assert_eq!(spans.len(), recording.spans.len());
    let ns = |event: &Value| (event["dur"].as_f64().unwrap() * 1000.0).round() as i64;
    let said: i64 = spans.iter().map(|event| ns(event)).sum();
    let seen: i64 = recording
        .spans
        .iter()
        .map(|span| span.end_ns - span.start_ns)
        .sum();
    assert_eq!(said, seen);
    let frames = of_phase("b");
    assert_eq!(frames.len(), recording.frames.len() + recording.physics);

    let part = run(
        "export",
        &recording.path,
        &["--to", "chrome", "--frames", "40..43"],
    )
    .json();
    let events = part.as_array().unwrap().iter();
    let spans = events.filter(|event| event["ph"] == "X").count();
    let expected = recording
        .spans
        .iter()
        .filter(|span| (40..43).contains(&span.frame));
    assert_eq!(spans, expected.count());
}

#[test]
fn csv_has_a_row_per_span_and_per_frame() {
    let recording = recording();
    let spans = run("export", &recording.path, &["--to", "csv"]).stdout;
    let in_frames = recording.spans.iter().filter(|span| span.frame < FRAMES);
    assert_eq!(spans.lines().count(), 1 + in_frames.count());
    assert!(
        spans.contains("\"inner, \"\"quoted\"\"\""),
        "names with commas and quotes are quoted"
    );
    let metrics = run(
        "export",
        &recording.path,
        &["--to", "metrics-csv", "--frames", "10..20"],
    )
    .stdout;
    let lines: Vec<&str> = metrics.lines().collect();
    assert_eq!(lines.len(), 11, "{metrics}");
    let loss = lines[0].split(',').position(|head| head == "loss").unwrap();
    let value: f64 = lines[1].split(',').nth(loss).unwrap().parse().unwrap();
    assert_eq!(value, 1.0 / 11.0);
}

#[test]
fn exports_of_version_2_begin_near_zero() {
    let events = run("export", &v2("flame.vor"), &["--to", "chrome"]).json();
    let spans = events
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X");
    let starts: Vec<f64> = spans.map(|event| event["ts"].as_f64().unwrap()).collect();
    assert_eq!(starts.len(), 120);
    assert!(starts.iter().all(|&start| start < 1e7), "{starts:?}");
}

#[test]
fn an_export_does_not_overwrite_a_capture() {
    let recording = recording();
    let own = recording.path.to_str().unwrap();
    let refused = run("export", &recording.path, &["--to", "csv", "-o", own]);
    assert!(
        refused
            .refusal()
            .contains("is a capture, which is never overwritten"),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&recording.path).unwrap(), recording.bytes);
    let nowhere = vor()
        .args(["export", "--to", "csv", "-o", "/nonexistent/x.csv", own])
        .output()
        .unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
}

#[test]
fn a_csv_export_reports_omitted_spans() {
    let recording = recording();
    let csv = run("export", &recording.path, &["--to", "csv"]);
    // `after the last mark`, the `decode` inside it, and the scopes inside that.
    let outside = recording
        .spans
        .iter()
        .filter(|span| span.frame == FRAMES)
        .count();
    assert!(outside >= 2, "{outside}");
    assert_eq!(csv.code, 0);
    assert!(
        csv.stderr.contains(&format!(
            "{outside} spans left out: ended after the last frame"
        )),
        "{}",
        csv.stderr
    );
    let range = run("export", &recording.path, &["--to", "csv", "--frames", "3"]);
    assert_eq!((range.code, range.stderr.as_str()), (0, ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_with_the_path() {
    let run = run(
        "export",
        &recording().path,
        &["--to", "csv", "-o", "/dev/full"],
    );
    assert!(run.refusal().starts_with("vor: /dev/full: "), "{run:?}");
}

#[test]
fn narrow_terminals_get_all_of_info_and_the_causes_of_slow_frames() {
    let recording = recording();
    let narrow = |arguments: &[&str]| {
        let mut command = vor();
        command
            .args(arguments)
            .arg(&recording.path)
            .env("COLUMNS", "40");
        let run = crate::command::Run::from(command.output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        run.stdout
    };
    let info = narrow(&["info"]);
    // The order of threads differs between runs, and the last one has no comma.
    let words = info
        .split_whitespace()
        .map(|word| word.trim_end_matches(','));
    let words: Vec<&str> = words.collect();
    for word in ["closed", "frame_ms", "disk_write_MB", "worker-2"] {
        assert!(words.contains(&word), "{word} in\n{info}");
    }
    let frames = narrow(&["frames", "--slowest", "2"]);
    assert!(frames.contains("stall"), "{frames}");
    for line in info.lines().chain(frames.lines()) {
        assert!(line.chars().count() <= 40, "{line}");
    }
}
