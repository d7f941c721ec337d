//! The whole output of `vor diff` for captures whose numbers a reader can add up. Most durations
//! are below 64 ns, so their percentiles are exact.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use vor::capture::{ArgValue, FrameSnapshot, SpanArgs, SpanBatch};
use vor::sinks::FrameSink;
use vor_capture::filled;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::scope_modes::ScopeMode;
use vor_fixtures::sealed::{Sealed, kind};
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

use crate::command::made::{self, ScopeSpec, scope};
use crate::command::{Run, lines_of_cells, unclosed, vor};

/// A call in nanoseconds.
#[derive(Clone, Copy)]
struct Call {
    /// The number of its scope, from 1 on.
    scope: u32,
    ns: u64,
    /// Scope and duration of the call inside.
    inside: Option<(u32, u64)>,
    /// Time off the CPU, and in the queue.
    waits: Option<[u64; 2]>,
}

/// The calls before a mark.
struct Frame {
    set: u32,
    index: u64,
    dropped_spans: u64,
    calls: Vec<Call>,
}

const fn call(scope: u32, ns: u64) -> Call {
    Call {
        scope,
        ns,
        inside: None,
        waits: None,
    }
}

/// Makes equal calls.
fn calls(number: usize, call: Call) -> Vec<Call> {
    vec![call; number]
}

fn frame(index: u64, dropped_spans: u64, calls: &[Vec<Call>]) -> Frame {
    Frame {
        set: 0,
        index,
        dropped_spans,
        calls: calls.concat(),
    }
}

/// Appends calls, one after the other.
fn end_calls(thread: &mut ThreadBatch, now: &mut u64, calls: &[Call]) {
    for call in calls {
        if let Some((scope, ns)) = call.inside {
            made::end(thread, *now + 1, ns, scope);
        }
        if let Some(waits) = call.waits {
            thread.args.push(filled!(SpanArgs {
                span: thread.len() as u32,
                values: waits.map(ArgValue::U64).to_vec(),
            }));
        }
        made::end(thread, *now, call.ns, call.scope);
        *now += call.ns + 1;
    }
}

/// Writes a capture of one thread with these frames, and calls after the last one. It is not
/// closed: a closed one has the scopes that other tests of this process have open.
fn write(path: &Path, catalog: &Catalog, frames: &[Frame], after: &[Call]) {
    let catalog = Arc::new(filled!(Catalog {
        frame_sets: Arc::new(vec![String::new(), "physics".into()]),
        ..catalog.clone()
    }));
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    let mut now = 1_000_000;
    let mut put_batch = |sink: &mut CaptureSink, calls: &[Call], dropped_spans| {
        let start_ticks = now;
        let mut thread = filled!(ThreadBatch { dropped_spans });
        end_calls(&mut thread, &mut now, calls);
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![thread],
        });
        if !batch.is_empty() {
            sink.accept_batch(&batch).unwrap();
        }
        (start_ticks, now, batch.span_count() as u64)
    };
    let mut spans_before = 0;
    for frame in frames {
        let in_batch = if frame.set == 0 {
            frame.dropped_spans
        } else {
            0
        };
        let (start_ticks, end_ticks, spans) = put_batch(&mut sink, &frame.calls, in_batch);
        let span_count = spans_before + spans;
        spans_before = if frame.set == 0 { 0 } else { span_count };
        let frame = filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index: frame.index,
            frame_set: frame.set,
            dropped_spans: frame.dropped_spans,
            start_ticks,
            end_ticks,
            span_count,
        });
        sink.accept_frame(&Arc::new(frame)).unwrap();
    }
    put_batch(&mut sink, after, 0);
    sink.commit().unwrap();
}

/// Runs the command on two files of a folder, so that its output has no other paths.
fn diff(folder: &Path, files: [&str; 2], options: &[&str]) -> Run {
    let mut command = vor();
    command.current_dir(folder).arg("diff");
    Run::from(command.args(files).args(options).output().unwrap())
}

const fn elsewhere(name: &'static str, file: &'static str, line: u32) -> ScopeSpec {
    ScopeSpec {
        name,
        file,
        line,
        mean_ns: 0,
    }
}

const REQUEST: u32 = 1;
const PARSE: u32 = 2;
const FASTER: u32 = 3;
const SLOW: u32 = 4;
const TWICE: u32 = 5;
const TWICE_ELSEWHERE: u32 = 6;
const IDLE: u32 = 7;
const ONE_SIDED: u32 = 8;

const FILES: [&str; 2] = ["before.vor", "after_1.vor"];

/// Makes two captures. Before, the frames 2 and 3 have spans; after, 0, 1 and 3 do.
fn captures() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let scopes = |shift: u32, one_sided: ScopeSpec| {
        made::catalog(&[
            scope("request", 10 + shift, 0),
            elsewhere("parse", "", 0),
            scope("faster", 30 + shift, 0),
            scope("slow", 40 + shift, 0),
            scope("twice", 50 + shift, 0),
            elsewhere("twice", "src/made.rs", 60),
            scope("idle", 70, 0),
            one_sided,
            scope("unused", 99, 0),
        ])
    };
    let request = |ns, parse_ns| Call {
        inside: Some((PARSE, parse_ns)),
        ..call(REQUEST, ns)
    };
    let physics = Frame {
        set: 1,
        ..frame(0, 100, &[calls(6, request(50, 20))])
    };
    let before = [
        frame(1, 0, &[]),
        physics,
        frame(
            2,
            2,
            &[
                calls(10, call(FASTER, 40)),
                calls(5, call(SLOW, 10)),
                vec![call(ONE_SIDED, 21), call(ONE_SIDED, 22)],
            ],
        ),
        frame(
            3,
            3,
            &[
                calls(4, request(50, 20)),
                calls(6, call(SLOW, 10)),
                vec![call(ONE_SIDED, 23), call(TWICE, 7)],
                vec![call(TWICE_ELSEWHERE, 12), call(IDLE, 0)],
            ],
        ),
    ];
    let after = [
        frame(
            0,
            0,
            &[calls(5, request(49, 25)), calls(9, call(FASTER, 30))],
        ),
        frame(
            1,
            0,
            &[
                calls(4, request(49, 25)),
                calls(10, call(SLOW, 60)),
                vec![call(ONE_SIDED, 5)],
            ],
        ),
        frame(2, 0, &[]),
        frame(
            3,
            0,
            &[
                calls(3, request(49, 25)),
                vec![call(ONE_SIDED, 24), call(ONE_SIDED, 10)],
                vec![call(TWICE, 14), call(TWICE_ELSEWHERE, 12)],
                vec![call(IDLE, 6)],
            ],
        ),
    ];
    let [old, new] = FILES.map(|name| folder.path().join(name));
    write(&old, &scopes(0, scope("old|one", 80, 0)), &before, &[]);
    write(&new, &scopes(2, scope("fresh", 90, 0)), &after, &[]);
    folder
}

/// The rows of these captures: name, numbers and place. The sums of self times are divided by 2
/// frames before and by 3 after.
const ROWS: [(&str, &str, &str); 9] = [
    (
        "slow",
        "+145 ns | +500.0 % | +500.0 to +500.0 % | 10 ns → 60 ns | 10 ns → 60 ns | \
         10 ns → 60 ns | 11 → 10 | 110 ns → 600 ns | 110 ns → 600 ns",
        "made.rs:42",
    ),
    (
        "faster",
        "-110 ns | -25.0 % | – | 40 ns → 30 ns | 40 ns → 30 ns | 40 ns → 30 ns | 10 → 9 | \
         400 ns → 270 ns | 400 ns → 270 ns",
        "made.rs:32",
    ),
    (
        "request",
        "-54 ns | -2.0 % | -2.0 to -2.0 % | 50 ns → 49 ns | 50 ns → 49 ns | 50 ns → 49 ns | \
         10 → 12 | 500 ns → 588 ns | 300 ns → 288 ns",
        "made.rs:12",
    ),
    (
        "old|one",
        "-33 ns | gone | – | 22 ns | 22 ns | 23 ns | 3 | 66 ns | 66 ns",
        "made.rs:80",
    ),
    (
        "fresh",
        "+13 ns | new | – | 13 ns | 10 ns | 24 ns | 3 | 39 ns | 39 ns",
        "made.rs:90",
    ),
    (
        "idle",
        "+2 ns | – | – | 0 ns → 6 ns | 0 ns → 6 ns | 0 ns → 6 ns | 1 → 1 | 0 ns → 6 ns | \
         0 ns → 6 ns",
        "made.rs:70",
    ),
    (
        "twice made.rs:60",
        "-2 ns | 0.0 % | – | 12 ns → 12 ns | 12 ns → 12 ns | 12 ns → 12 ns | 1 → 1 | \
         12 ns → 12 ns | 12 ns → 12 ns",
        "src/made.rs:60",
    ),
    (
        "twice made.rs:52",
        "+1 ns | +100.0 % | – | 7 ns → 14 ns | 7 ns → 14 ns | 7 ns → 14 ns | 1 → 1 | \
         7 ns → 14 ns | 7 ns → 14 ns",
        "made.rs:52",
    ),
    (
        "parse",
        "0 ns | +25.0 % | +25.0 to +25.0 % | 20 ns → 25 ns | 20 ns → 25 ns | 20 ns → 25 ns | \
         10 → 12 | 200 ns → 300 ns | 200 ns → 300 ns",
        "",
    ),
];

const DROPPED: &str = "before.vor: 5 spans DROPPED while recording (a ring was full): \
                       counts and totals are too small";

const HEADS: &str =
    "Δ self/frame | Δ mean | 95 % interval | mean | p50 | p99 | count | total | self";

/// The line between the heads and the rows in Markdown, of nine columns.
const RULE: &str = "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

fn explanation(measure: &str, unit: &str) -> String {
    format!(
        "Δ {measure}: its change, with the 95 % confidence interval within these two recordings; \
         Δ self: change of the sum of self times, per {unit}"
    )
}

/// Returns the lines of a table of the captures.
fn table(rows: &[(&str, &str, &str)]) -> Vec<String> {
    let mut lines = vec![
        "before: before.vor, 47 spans in 3 frames (1 to 3)".to_owned(),
        "after: after_1.vor, 49 spans in 4 frames (0 to 3)".to_owned(),
        DROPPED.to_owned(),
        explanation("mean", "frame"),
        String::new(),
        format!("scope | {HEADS} | where"),
    ];
    let row = |(name, cells, place): &(&str, &str, &str)| match *place {
        "" => format!("{name} | {cells}"),
        place => format!("{name} | {cells} | {place}"),
    };
    lines.extend(rows.iter().map(row));
    lines
}

#[test]
fn a_table_has_all_numbers_of_each_scope() {
    let folder = captures();
    let all = diff(folder.path(), FILES, &[]);
    assert_eq!((all.code, all.stderr.as_str()), (0, ""));
    assert_eq!(lines_of_cells(&all.stdout), table(&ROWS));
    for (limit, more) in [
        ("9", None),
        ("8", Some("and 1 more scope")),
        ("2", Some("and 7 more scopes")),
        ("0", Some("and 9 more scopes")),
    ] {
        let some = diff(folder.path(), FILES, &["--limit", limit]);
        let mut expected = table(&ROWS[..limit.parse().unwrap()]);
        expected.extend(more.map(str::to_owned));
        assert_eq!(lines_of_cells(&some.stdout), expected);
    }
}

#[test]
fn markdown_has_the_same_numbers_and_what_is_slower() {
    let folder = captures();
    let options = ["--format", "markdown", "--fail-above", "20", "-n", "8"];
    let run = diff(folder.path(), FILES, &options);
    assert_eq!(run.code, 1);
    let mut expected = vec![format!("| scope | {HEADS} |"), RULE.to_owned()];
    for (name, cells, _) in &ROWS[..8] {
        let name = match *name {
            "slow" => "**slow**",
            "old|one" => "old\\|one",
            name => name,
        };
        expected.push(format!("| {name} | {cells} |"));
    }
    let below = [
        "",
        "And 1 more scope.",
        "",
        "Slower by more than 20 %: 2 scopes.",
        "",
        "- before: before.vor, 47 spans in 3 frames (1 to 3)",
        "- after: after\\_1.vor, 49 spans in 4 frames (0 to 3)",
    ];
    expected.extend(below.map(str::to_owned));
    expected.push(format!("- {DROPPED}"));
    expected.push(format!("- {}", explanation("mean", "frame")));
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
    let above = "the mean is more than 20 % above that of before.vor";
    let slower = [
        format!("vor: after_1.vor: slow (made.rs:42): {above}: +500.0 % (+500.0 to +500.0 %)"),
        format!("vor: after_1.vor: parse: {above}: +25.0 % (+25.0 to +25.0 %)"),
    ];
    assert_eq!(run.stderr.lines().collect::<Vec<_>>(), slower);

    // A change is not above itself.
    let run = diff(folder.path(), FILES, &["--fail-above", "25", "-n", "0"]);
    assert_eq!((run.code, run.stderr.lines().count()), (1, 1), "{run:?}");
    let run = diff(folder.path(), FILES, &["--fail-above", "500"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

/// Makes a scope as JSON has it, all of whose calls take the same time.
fn equal_calls(site: u32, line: u32, count: u64, ns: u64) -> Value {
    json!({
        "site": site,
        "module_path": "",
        "file": "made.rs",
        "line": line,
        "count": count,
        "total_ns": count * ns,
        "self_ns": count * ns,
        "mean_ns": ns as f64,
        "p50_ns": ns,
        "p99_ns": ns,
    })
}

#[test]
fn json_has_the_same_numbers() {
    let folder = captures();
    let names = ["--name", "slow", "--name", "old*", "--name", "idle"];
    let options = ["--format", "json", "--fail-above", "20%", "--sort", "name"];
    let run = diff(folder.path(), FILES, &[&options[..], &names].concat());
    assert_eq!(run.code, 1);
    let side = |file: &str, spans: u64, dropped_spans: u64, frames: [u64; 3]| {
        json!({
            "file": file,
            "version": 3,
            "frames": { "first": frames[0], "last": frames[1], "count": frames[2] },
            "spans": spans,
            "dropped_spans": dropped_spans,
            "estimated_self_times": 0,
            "damage": unclosed(&folder.path().join(file)),
        })
    };
    let row = |name, status, percent: Option<f64>, interval: Option<f64>, self_ns: f64| {
        json!({
            "name": name,
            "status": status,
            "change_percent": percent,
            "low_percent": interval,
            "high_percent": interval,
            "slower": interval.is_some(),
            "self_change_ns": self_ns,
        })
    };
    let with = |mut row: Value, before: Value, after: Value| {
        row["before"] = before;
        row["after"] = after;
        row
    };
    let old = json!({
        "site": ONE_SIDED,
        "module_path": "",
        "file": "made.rs",
        "line": 80,
        "count": 3,
        "total_ns": 66,
        "self_ns": 66,
        "mean_ns": 22.0,
        "p50_ns": 22,
        "p99_ns": 23,
    });
    let expected = json!({
        "before": side("before.vor", 47, 5, [1, 3, 3]),
        "after": side("after_1.vor", 49, 0, [0, 3, 4]),
        "metric": "mean",
        "confidence": 0.95,
        "per": "frame",
        "fail_above_percent": 20.0,
        "slower": 1,
        "scopes": [
            with(
                row("idle", "both", None, None, 2.0),
                equal_calls(IDLE, 70, 1, 0),
                equal_calls(IDLE, 70, 1, 6),
            ),
            with(row("old|one", "gone", None, None, -33.0), old, Value::Null),
            with(
                row("slow", "both", Some(500.0), Some(500.0), 145.0),
                equal_calls(SLOW, 40, 11, 10),
                equal_calls(SLOW, 42, 10, 60),
            ),
        ],
    });
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn rows_are_sorted_by_each_column() {
    let folder = captures();
    for (sort, expected) in [
        (
            "change",
            "slow faster request old|one fresh idle twice:60 twice:52 parse",
        ),
        (
            "percent",
            "slow twice:52 parse twice:60 request faster fresh idle old|one",
        ),
        (
            "self",
            "slow parse request faster old|one fresh twice:52 twice:60 idle",
        ),
        (
            "total",
            "slow request parse faster old|one fresh twice:52 twice:60 idle",
        ),
        (
            "mean",
            "slow request faster parse old|one twice:52 fresh twice:60 idle",
        ),
        (
            "p50",
            "slow request faster parse old|one twice:52 twice:60 fresh idle",
        ),
        (
            "p99",
            "slow request faster parse fresh old|one twice:52 twice:60 idle",
        ),
        (
            "count",
            "parse request slow faster fresh old|one idle twice:52 twice:60",
        ),
        (
            "name",
            "faster fresh idle old|one parse request slow twice:52 twice:60",
        ),
    ] {
        let options = ["--format", "json", "--sort", sort];
        let found = diff(folder.path(), FILES, &options).json();
        let rows = found["scopes"].as_array().unwrap().iter();
        let name = |row: &Value| match row["name"].as_str().unwrap() {
            "twice" => format!("twice:{}", row["after"]["line"]),
            name => name.to_owned(),
        };
        let names: Vec<String> = rows.map(name).collect();
        assert_eq!(names.join(" "), expected, "{sort}");
    }
}

#[test]
fn names_select_scopes_of_either_capture() {
    let folder = captures();
    for name in ["old*", "fres?"] {
        let options = ["--format", "json", "--name", name];
        let found = diff(folder.path(), FILES, &options).json();
        assert_eq!(found["scopes"].as_array().unwrap().len(), 1, "{name}");
    }
    let run = diff(
        folder.path(),
        FILES,
        &["--name", "slow", "--name", "nothing"],
    );
    assert_eq!(
        run.refusal(),
        "vor: after_1.vor: no scope is called `nothing` in either capture; there are `faster`, \
         `fresh`, `idle`, `old|one`, `parse`, `request`, `slow`, `twice`, 1 more"
    );
    let run = diff(folder.path(), FILES, &["--name", "unused"]);
    assert_eq!(
        run.refusal(),
        "vor: after_1.vor: neither capture has spans of the chosen names"
    );
    let run = diff(
        folder.path(),
        FILES,
        &["--name", "slow", "--name", "unused"],
    );
    assert_eq!(run.code, 0, "{run:?}");
}

/// Writes two captures of these scopes, and returns their names.
fn two(
    folder: &Path,
    scopes: &[ScopeSpec],
    before: (&[Frame], &[Call]),
    after: (&[Frame], &[Call]),
) -> [&'static str; 2] {
    let files = ["before.vor", "after.vor"];
    for (file, (frames, calls)) in files.into_iter().zip([before, after]) {
        write(&folder.join(file), &made::catalog(scopes), frames, calls);
    }
    files
}

#[test]
fn each_metric_has_its_change_and_its_head() {
    let folder = tempfile::tempdir().unwrap();
    let mixed = |calls: [u64; 3], inside_ns| {
        let last = Call {
            inside: Some((2, inside_ns)),
            ..call(1, calls[2])
        };
        [frame(
            0,
            0,
            &[vec![call(1, calls[0]), call(1, calls[1]), last]],
        )]
    };
    let scopes = [scope("mixed", 1, 0), scope("inner", 2, 0)];
    let (before, after) = (mixed([10, 20, 60], 15), mixed([10, 30, 56], 8));
    let files = two(folder.path(), &scopes, (&before, &[]), (&after, &[]));
    // Percentiles are interpolated: 20.5 to 30.5 ns, and 60.97 to 56.97 ns.
    for (metric, measure, head, change, own_head, own) in [
        ("mean", "mean", "mean", "+6.7 %", "self", "75 ns → 88 ns"),
        ("p50", "p50", "p50", "+48.8 %", "self", "75 ns → 88 ns"),
        ("p99", "p99", "p99", "-6.6 %", "self", "75 ns → 88 ns"),
        (
            "self",
            "mean self time",
            "mean self",
            "+17.3 %",
            "mean self",
            "25 ns → 29 ns",
        ),
    ] {
        let options = [
            "--format", "markdown", "--name", "mixed", "--metric", metric,
        ];
        let run = diff(folder.path(), files, &options);
        let expected = [
            format!(
                "| scope | Δ self/frame | Δ {head} | 95 % interval | mean | p50 | p99 | count | \
                 total | {own_head} |"
            ),
            RULE.to_owned(),
            format!(
                "| mixed | +13 ns | {change} | – | 30 ns → 32 ns | 20 ns → 30 ns | \
                 60 ns → 56 ns | 3 → 3 | 90 ns → 96 ns | {own} |"
            ),
            String::new(),
            "- before: before.vor, 4 spans in 1 frame (0 to 0)".to_owned(),
            "- after: after.vor, 4 spans in 1 frame (0 to 0)".to_owned(),
            format!("- {}", explanation(measure, "frame")),
        ];
        assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn only_the_spans_and_drops_of_the_selected_frames_count() {
    let folder = tempfile::tempdir().unwrap();
    let frames = |durations: [u64; 4]| {
        let frames = (0..).zip(durations).zip([7, 0, 4, 9]);
        let frames =
            frames.map(|((index, ns), dropped)| frame(index, dropped, &[vec![call(1, ns)]]));
        frames.collect::<Vec<_>>()
    };
    let (before, after) = (frames([10, 20, 40, 50]), frames([63, 30, 50, 7]));
    let scopes = [scope("a", 1, 0)];
    let files = two(folder.path(), &scopes, (&before, &[]), (&after, &[]));
    let options = ["--format", "markdown", "--frames", "1..3"];
    let run = diff(folder.path(), files, &options);
    let dropped = "4 spans DROPPED while recording (a ring was full): \
                   counts and totals are too small";
    let expected = [
        format!("| scope | {HEADS} |"),
        RULE.to_owned(),
        "| a | +10 ns | +33.3 % | – | 30 ns → 40 ns | 20 ns → 30 ns | 40 ns → 50 ns | 2 → 2 | \
         60 ns → 80 ns | 60 ns → 80 ns |"
            .to_owned(),
        String::new(),
        "- before: before.vor, 2 spans in 2 frames (1 to 2)".to_owned(),
        "- after: after.vor, 2 spans in 2 frames (1 to 2)".to_owned(),
        format!("- before.vor: {dropped}"),
        format!("- after.vor: {dropped}"),
        format!("- {}", explanation("mean", "frame")),
    ];
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn sums_are_those_of_the_recording_if_a_capture_has_no_frame_with_spans() {
    let folder = tempfile::tempdir().unwrap();
    let before = [0, 1].map(|index| frame(index, 0, &[vec![call(1, 10)]]));
    // Its spans ended after the last mark.
    let (after, late) = ([frame(0, 0, &[])], [call(1, 12), call(1, 24)]);
    let scopes = [scope("a", 1, 0)];
    let files = two(folder.path(), &scopes, (&before, &[]), (&after, &late));
    let [before, after] = files;
    let side_before = "before.vor, 2 spans in 2 frames (0 to 1)";
    let side_after = "after.vor, 2 spans in 1 frame (0 to 0)";
    for (files, cells, sides) in [
        (
            [before, after],
            "+16 ns | +80.0 % | – | 10 ns → 18 ns | 10 ns → 12 ns | 10 ns → 24 ns | 2 → 2 | \
             20 ns → 36 ns | 20 ns → 36 ns",
            [side_before, side_after],
        ),
        (
            [after, before],
            "-16 ns | -44.4 % | – | 18 ns → 10 ns | 12 ns → 10 ns | 24 ns → 10 ns | 2 → 2 | \
             36 ns → 20 ns | 36 ns → 20 ns",
            [side_after, side_before],
        ),
    ] {
        let run = diff(folder.path(), files, &["--format", "markdown"]);
        let expected = [
            format!("| scope | {} |", HEADS.replace("frame", "recording")),
            RULE.to_owned(),
            format!("| a | {cells} |"),
            String::new(),
            format!("- before: {}", sides[0]),
            format!("- after: {}", sides[1]),
            format!("- {}", explanation("mean", "recording")),
        ];
        assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
        let json = diff(folder.path(), files, &["--format", "json"]).json();
        assert_eq!(json["per"], "recording");
    }
}

#[test]
fn rules_are_why_scopes_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let scopes = ["work", "off", "counted", "sampled"];
    let scopes = [1, 2, 3, 4].map(|line| scope(scopes[line as usize - 1], line, 0));
    let sample = ScopeMode::Sample {
        one_in: 100,
        tree: true,
    };
    let rules = [(2, ScopeMode::Off), (3, ScopeMode::Count), (4, sample)];
    made::modes(&folder.path().join("plain.vor"), &scopes, &[]);
    made::modes(&folder.path().join("ruled.vor"), &scopes, &rules);
    let spans = |file| match file {
        "plain.vor" => "4 spans",
        _ => "2 spans",
    };
    for (files, sign, status) in [
        (["plain.vor", "ruled.vor"], "-", "not recorded"),
        (["ruled.vor", "plain.vor"], "+", "not recorded before"),
    ] {
        let run = diff(folder.path(), files, &[]);
        let once = format!(
            "{sign}1.00 µs | {status} | – | 1.00 µs | 1.00 µs | 1.00 µs | 1 | 1.00 µs | 1.00 µs"
        );
        let both = "0 ns | 0.0 % | – | 1.00 µs → 1.00 µs | 1.00 µs → 1.00 µs | \
                    1.00 µs → 1.00 µs | 1 → 1 | 1.00 µs → 1.00 µs | 1.00 µs → 1.00 µs";
        let side = |file| format!("{file}, {} in 1 frame (0 to 0)", spans(file));
        let expected = [
            format!("before: {}", side(files[0])),
            format!("after: {}", side(files[1])),
            "ruled.vor: not each scope was recorded: counted count; off off; \
             sampled 1/100+tree"
                .to_owned(),
            explanation("mean", "frame"),
            String::new(),
            format!("scope | {HEADS} | where"),
            format!("counted | {once} | made.rs:3"),
            format!("off | {once} | made.rs:2"),
            format!("sampled | {both} | made.rs:4"),
            format!("work | {both} | made.rs:1"),
        ];
        assert_eq!(lines_of_cells(&run.stdout), expected);
    }
    let neither = diff(folder.path(), ["ruled.vor"; 2], &["--name", "off"]);
    assert_eq!(
        neither.refusal(),
        "vor: ruled.vor: neither capture has spans of the chosen names"
    );
}

#[test]
fn waits_have_columns_if_one_capture_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let plain = made::catalog(&[scope("outer", 1, 0), scope("other", 2, 0)]);
    let mut measured = Arc::clone(&plain);
    let sites = Arc::make_mut(&mut Arc::make_mut(&mut measured).sites);
    let names = ["off_cpu_ns", "run_queue_ns"].map(Into::into);
    Arc::make_mut(sites[0].as_mut().unwrap()).arg_names = names.to_vec();
    let outer = |waits| Call {
        waits,
        ..call(1, 60)
    };
    let frames = |waits: [_; 2]| {
        let calls = waits.map(outer).to_vec();
        [frame(0, 0, &[calls, vec![call(2, 40)]])]
    };
    let [before, after] = ["before.vor", "after.vor"];
    write(&folder.path().join(before), &plain, &frames([None; 2]), &[]);
    let waits = [Some([26, 9]), Some([20, 7])];
    write(&folder.path().join(after), &measured, &frames(waits), &[]);
    for (files, queued, blocked) in [
        ([before, after], "– → 8 ns", "– → 15 ns"),
        ([after, before], "8 ns → –", "15 ns → –"),
        ([after, after], "8 ns → 8 ns", "15 ns → 15 ns"),
    ] {
        let run = diff(folder.path(), files, &["--format", "markdown"]);
        let row = |name, ns: u64, count: u64, waits: &str| {
            let each = format!("{ns} ns → {ns} ns");
            let sum = format!("{0} ns → {0} ns", ns * count);
            format!(
                "| {name} | 0 ns | 0.0 % | – | {each} | {each} | {each} | {count} → {count} | \
                 {sum} | {sum} | {waits} |"
            )
        };
        let expected = [
            format!("| scope | {HEADS} | queued | blocked |"),
            format!("{RULE}---:|---:|"),
            row("other", 40, 1, "– → – | – → –"),
            row("outer", 60, 2, &format!("{queued} | {blocked}")),
            String::new(),
            format!("- before: {}, 3 spans in 1 frame (0 to 0)", files[0]),
            format!("- after: {}, 3 spans in 1 frame (0 to 0)", files[1]),
            format!("- {}", explanation("mean", "frame")),
        ];
        assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
    }
    let json = diff(folder.path(), [before, after], &["--format", "json"]).json();
    let outer = &json["scopes"][1];
    assert!(outer["before"].get("off_cpu_ns").is_none(), "{outer}");
    assert!(outer["before"].get("run_queue_ns").is_none(), "{outer}");
    assert_eq!(
        (
            &outer["after"]["off_cpu_ns"],
            &outer["after"]["run_queue_ns"]
        ),
        (&46.into(), &16.into())
    );
}

#[test]
fn captures_without_spans_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = made::catalog(&[scope("a", 1, 0)]);
    let file = |name: &str| folder.path().join(name);
    write(&file("begun.vor"), &catalog, &[], &[]);
    let frames = [0, 1, 2].map(|index| frame(index, 0, &[]));
    write(&file("idle.vor"), &catalog, &frames, &[]);
    write(&file("good.vor"), &catalog, &[], &[call(1, 10)]);
    for (bad, problem) in [
        ("begun.vor", "no frames"),
        (
            "idle.vor",
            "no spans in 3 frames: the program opened no scope, or recorded metrics only \
             (VOR_RECORD_SPANS=1 records spans too)",
        ),
    ] {
        for files in [["good.vor", bad], [bad, "good.vor"]] {
            let run = diff(folder.path(), files, &[]);
            assert_eq!(run.refusal(), format!("vor: {bad}: {problem}"));
        }
    }
}

#[test]
fn a_frame_without_one_of_its_records_is_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let frames = [0, 1, 2].map(|index| frame(index, 0, &[vec![call(1, 10)]]));
    let scopes = [scope("a", 1, 0)];
    let files = two(folder.path(), &scopes, (&frames, &[]), (&frames, &[]));
    let path = folder.path().join(files[1]);
    let mut sealed = Sealed::of(&std::fs::read(&path).unwrap());
    let records = sealed.records.iter_mut();
    let mut marks = records.filter(|record| record.kind == kind::FRAME);
    // The record of the frame 1 counts one record more than there is. Its fifth number is the
    // count, which fits a byte.
    let payload = &mut marks.nth(1).unwrap().payload;
    let ends = (0..payload.len()).filter(|&at| payload[at] < 0x80);
    let before = ends.take(4).last().unwrap();
    payload[before + 1] += 1;
    std::fs::write(&path, sealed.bytes()).unwrap();
    for (frames, code) in [("..", 3), ("..2", 3), ("1", 3), ("2..", 0), ("0", 0)] {
        let options = ["--format", "json", "--frames", frames];
        let run = diff(folder.path(), files, &options);
        let report = format!(
            "vor: {}: 1 frame with lost records; see `vor check`\n",
            files[1]
        );
        let reports = if code == 0 { "" } else { &report };
        assert_eq!((run.code, run.stderr.as_str()), (code, reports), "{frames}");
        // All of the file is readable.
        let json: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(json["after"]["damage"]["count"], 0, "{json}");
    }
}
