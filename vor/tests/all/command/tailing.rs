//! `vor tail` of small captures, whose whole output is known.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use vor_capture::filled;
use vor_capture::format::{OpenScopes, RecordRef};
use vor_capture::model::catalog::{Catalog, Column, MetricColumn, SegmentInfo, SiteId, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_fixtures::sealed::kind;

use crate::command::drafts::{Draft, damage, frame, put, shop, thread, write_shop};
use crate::command::{Run, run, v2, v2_expected};

const HEADS: &str = "   frame        start   duration      spans  loss nats\n";
const ROWS: [&str; 3] = [
    "      10   0.000000 s    4.00 µs          3      0.500\n",
    "      11   0.000004 s    4.00 µs          3\n",
    "      12   0.000008 s    11.0 µs          1      0.250\n",
];

/// The scopes that are open at 1.6 ms. One of them begins later, which only damage can say.
fn open() -> OpenScopes {
    let main = vec![(SiteId(1), 100_000), (SiteId(2), 1_300_000)];
    let loader = vec![(SiteId(3), 1_700_000)];
    filled!(OpenScopes {
        ticks: 1_600_000,
        threads: vec![(ThreadId(0), main), (ThreadId(1), loader)]
    })
}

const OPEN: &str = "open at the end in main: request for 1.50 ms > parse for 300 µs\n\
    open at the end in loader: render for 0 ns\n";

fn tail(path: &Path, options: &[&str]) -> String {
    let tail = run("tail", path, options);
    assert_eq!((tail.code, tail.stderr.as_str()), (0, ""), "{options:?}");
    tail.stdout
}

#[test]
fn frames_of_the_main_set_and_open_scopes_have_a_line_each() {
    let folder = tempfile::tempdir().unwrap();
    let mut draft = write_shop();
    draft.record(RecordRef::OpenScopes(&open()));
    let path = put(folder.path(), "run.vor", &draft.close());
    let all = [HEADS, &ROWS.concat(), OPEN].concat();
    assert_eq!(tail(&path, &[]), all);
    assert_eq!(tail(&path, &["-n", "3"]), all);
    assert_eq!(tail(&path, &["-n", "1"]), [HEADS, ROWS[2], OPEN].concat());
    assert_eq!(tail(&path, &["-n", "0"]), OPEN);
    // In JSON, each line is a frame.
    let json = tail(&path, &["--json"]);
    let lines = json.lines().map(|line| {
        let frame: Value = serde_json::from_str(line).unwrap();
        (frame["index"].clone(), frame["user"].clone())
    });
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            (json!(10), json!({ "loss": 0.5 })),
            (json!(11), json!({})),
            (json!(12), json!({ "loss": 0.25 })),
        ]
    );
}

#[test]
fn a_segment_begins_with_the_scopes_that_were_open_before_it() {
    let folder = tempfile::tempdir().unwrap();
    for is_segment in [true, false] {
        let segment = filled!(SegmentInfo { run: 5, number: 1 });
        let mut draft = Draft::new(filled!(Catalog {
            segment: is_segment.then_some(segment),
            ..shop()
        }));
        draft.record(RecordRef::OpenScopes(&open()));
        // An even number of batches and frames.
        for index in 0..2 {
            let start = 1_000 * index;
            draft.batch(vec![thread(0, &[(start + 10, 500, 2)])]);
            draft.frame(frame(index, (start, start + 1_000), 1));
        }
        draft.record(RecordRef::OpenScopes(&open()));
        let path = put(folder.path(), "run.vor", &draft.close());
        let begin = if is_segment { "" } else { OPEN };
        let rows = "       0   0.000000 s    1.00 µs          1\n       \
            1   0.000001 s    1.00 µs          1\n";
        assert_eq!(tail(&path, &[]), [begin, HEADS, rows, OPEN].concat());
    }
}

#[test]
fn a_new_metric_gets_a_column() {
    let folder = tempfile::tempdir().unwrap();
    let mut draft = Draft::new(shop());
    draft.frame(frame(10, (1_000, 5_000), 0));
    let mut columns = Vec::clone(&shop().columns);
    columns.push(filled!(Column {
        metric: MetricColumn {
            name: "queue".to_owned(),
            unit: String::new()
        },
        system: false
    }));
    draft.declare(filled!(Catalog {
        columns: Arc::new(columns),
        ..shop()
    }));
    for (index, value) in [(11, 7.0), (12, 9.0)] {
        draft.frame(filled!(FrameSnapshot {
            metrics: vec![filled!(MetricValue { column: 2, value })],
            ..frame(index, (5_000, 9_000), 0)
        }));
    }
    let path = put(folder.path(), "run.vor", &draft.close());
    let expected = "   frame        start   duration      spans  loss nats    queue\n      \
        11   0.000004 s    4.00 µs          0                   7\n      \
        12   0.000004 s    4.00 µs          0                   9\n";
    let first = "      10   0.000000 s    4.00 µs          0\n";
    assert_eq!(tail(&path, &[]), [HEADS, first, expected].concat());
}

#[test]
fn damage_is_reported_beside_the_frames() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = write_shop().close();
    damage(&mut bytes, kind::BATCH, 1);
    let path = put(folder.path(), "run.vor", &bytes);
    let check = run("check", &path, &["--json"]).stdout;
    let check: Value = serde_json::from_str(&check).unwrap();
    let losses = check["damage"]["losses"].as_array().unwrap();
    let tail = run("tail", &path, &[]);
    assert_eq!(tail.code, 0, "{tail:?}");
    let lost = "          ^ 1 record lost to damage\n";
    assert_eq!(
        tail.stdout,
        [HEADS, ROWS[0], ROWS[1], lost, ROWS[2]].concat()
    );
    let line = |loss: &Value| {
        let reason = loss["reason"].as_str().unwrap();
        format!("vor: {}: damaged: {reason}\n", path.display())
    };
    assert_eq!(tail.stderr, losses.iter().map(line).collect::<String>());
}

/// A frame of version 2 as `vor tail` must show it.
fn expected_of(frame: &Value, index: usize, start_ns: u64, spans: u64, columns: &Value) -> Value {
    let system = columns
        .as_array()
        .unwrap()
        .iter()
        .zip(frame["system"].as_array().unwrap());
    let named = |(column, value): (&Value, &Value)| {
        (column["name"].as_str().unwrap().to_owned(), value.clone())
    };
    let user = frame["user"].as_array().unwrap().iter();
    let user = user.map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone()));
    json!({
        "index": index, "start_unix_ns": start_ns, "duration_ns": duration_ns(frame),
        "spans": spans, "dropped_spans": 0, "merged_marks": 0, "lost_records": 0,
        "system": system.map(named).collect::<Map<_, _>>(),
        "user": user.collect::<Map<_, _>>(),
    })
}

/// Returns the duration of a frame of version 2, whose first column is its milliseconds.
fn duration_ns(frame: &Value) -> u64 {
    (frame["system"][0].as_f64().unwrap() * 1e6) as u64
}

#[test]
fn frames_of_version_2_have_the_values_that_the_predecessor_read() {
    for name in [
        "flame",
        "every3_threads",
        "max5",
        "user_units",
        "metrics_only",
    ] {
        let lines = run(
            "tail",
            &v2(&format!("{name}.vor")),
            &["--once", "--json", "-n", "100000"],
        );
        assert_eq!((lines.code, lines.stderr.as_str()), (0, ""), "{name}");
        let (expected, mut last, mut start_ns) = (v2_expected(name), None, 0);
        assert_eq!(expected["columns"][0]["name"], "frame_ms");
        let mut lines = lines.stdout.lines();
        for (index, frame) in expected["frames"].as_array().unwrap().iter().enumerate() {
            let flame = &frame["flame"];
            // A mark without a closed outermost scope repeats the previous flame.
            let number = flame["frame_index"].as_u64();
            let spans = match flame.is_null() || number == last {
                true => 0,
                false => {
                    let threads = flame["threads"].as_array().unwrap().iter();
                    let scopes = threads.map(|thread| thread["scopes"].as_array().unwrap().len());
                    scopes.sum::<usize>() as u64
                }
            };
            last = number.or(last);
            let shown: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
            let columns = &expected["columns"];
            assert_eq!(
                shown,
                expected_of(frame, index, start_ns, spans, columns),
                "{name}"
            );
            start_ns += duration_ns(frame);
        }
        assert_eq!(lines.next(), None, "{name}");
    }
    let torn = run("tail", &v2("torn.vor"), &["--once"]);
    assert_eq!(torn.code, 0, "{torn:?}");
}

/// Returns an LZ4 block that holds the bytes as they are.
fn lz4_literals(bytes: &[u8]) -> Vec<u8> {
    let more = bytes.len().checked_sub(15).unwrap();
    let mut block = vec![0xf0];
    block.extend(std::iter::repeat_n(255, more / 255));
    block.push((more % 255) as u8);
    block.extend_from_slice(bytes);
    block
}

/// The header does not fit the first read.
#[test]
fn a_header_of_version_2_may_be_long() {
    let names: Vec<String> = (0..100).map(|at| format!("{at:050}")).collect();
    let mut bytes = b"VOR1\x02\x00\x00\x64\x00".to_vec();
    for name in &names {
        bytes.extend_from_slice(&[50, 0]);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&[0, 0]);
    }
    // A frame: its kind, the values, no values of the program, and no flame.
    let mut body = vec![0];
    for at in 0..100 {
        body.extend_from_slice(&f64::from(at).to_le_bytes());
    }
    body.extend_from_slice(&[0; 6]);
    let block = lz4_literals(&body);
    bytes.extend_from_slice(&(block.len() as u32 + 4).to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&block);
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "long.vor", &bytes);
    let frame = run("tail", &path, &["--once", "--json"]).json();
    let system = frame["system"].as_object().unwrap();
    assert_eq!(system.len(), 100);
    for (at, name) in names.iter().enumerate() {
        assert_eq!(system[name].as_f64(), Some(at as f64));
    }
    // No column is called `frame_ms`.
    assert_eq!(
        (&frame["index"], &frame["duration_ns"]),
        (&json!(0), &json!(0))
    );
}

#[cfg(unix)]
mod live {
    use std::io::Write;

    use super::*;
    use crate::command::served::{Served, wait_for_the_end};

    /// Runs the command on a program that sends these bytes.
    fn tail_live(bytes: Vec<u8>, options: &[&str]) -> (Run, String) {
        let program = Served::start(move |client| client.write_all(&bytes).unwrap());
        let address = program.address.clone();
        let tail = run("tail", Path::new(&address), options);
        assert_eq!(program.request(), "vor 1 stream spans=all\n");
        (tail, address)
    }

    #[test]
    fn a_running_program_has_the_same_lines_as_its_capture() {
        let mut draft = write_shop();
        draft.record(RecordRef::OpenScopes(&open()));
        let bytes = draft.close();
        let (tail, _) = tail_live(bytes.clone(), &[]);
        let all = [HEADS, &ROWS.concat(), OPEN].concat();
        assert_eq!((tail.code, tail.stderr.as_str()), (0, ""));
        assert_eq!(tail.stdout, all);
        let folder = tempfile::tempdir().unwrap();
        let path = put(folder.path(), "run.vor", &bytes);
        let json = tail_live(bytes, &["--json"]).0;
        assert_eq!(json.stdout, super::tail(&path, &["--json"]));

        let mut bytes = write_shop().close();
        damage(&mut bytes, kind::BATCH, 1);
        let path = put(folder.path(), "damaged.vor", &bytes);
        let of_file = run("tail", &path, &[]);
        let (tail, address) = tail_live(bytes, &[]);
        assert_eq!(tail.stdout, of_file.stdout);
        let path = path.display().to_string();
        assert_eq!(tail.stderr, of_file.stderr.replace(&path, &address));
    }

    #[test]
    fn once_shows_what_is_there() {
        let bytes = write_shop().bytes();
        let program = Served::start(move |client| {
            client.write_all(&bytes).unwrap();
            wait_for_the_end(client);
        });
        let tail = run("tail", Path::new(&program.address), &["--once"]);
        assert_eq!((tail.code, tail.stderr.as_str()), (0, ""));
        assert_eq!(tail.stdout, [HEADS, &ROWS.concat()].concat());
        program.request();
    }
}
