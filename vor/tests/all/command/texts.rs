//! The whole texts of `vor info` and `vor frames` on captures of known content.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor::capture::{ArgValue, FrameSnapshot, SpanArgs, SpanBatch};
use vor_capture::filled;
use vor_capture::format::RecordRef;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{
    Catalog, Column, DumpInfo, MachineInfo, MetricColumn, ProcessInfo, SiteInfo, ThreadId,
    ThreadInfo,
};
use vor_capture::model::frame::MetricValue;
use vor_capture::units;

use crate::command::made::{self, records, scope, spans};
use crate::command::{Run, run, v2, vor};

const NS_PER_S: u64 = 1_000_000_000;
const WORK: u32 = 1;
const PLAIN: u32 = 2;

/// Runs a subcommand in the folder of a capture, so that its output has a short path.
fn run_beside(subcommand: &str, path: &Path, options: &[&str], columns: Option<&str>) -> Run {
    let mut command = vor();
    command
        .current_dir(path.parent().unwrap())
        .arg(subcommand)
        .arg(path.file_name().unwrap())
        .args(options);
    if let Some(columns) = columns {
        command.env("COLUMNS", columns);
    }
    Run::from(command.output().unwrap())
}

fn lines(run: &Run) -> Vec<&str> {
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    run.stdout.lines().collect()
}

fn file_size(path: &Path) -> String {
    units::bytes(std::fs::metadata(path).unwrap().len())
}

fn frame(
    catalog: &Arc<Catalog>,
    frame_set: u32,
    index: u64,
    ticks: [u64; 2],
    span_count: u64,
    dropped_spans: u64,
) -> FrameSnapshot {
    filled!(FrameSnapshot {
        catalog: Arc::clone(catalog),
        index,
        frame_set,
        start_ticks: ticks[0],
        end_ticks: ticks[1],
        dropped_spans,
        span_count
    })
}

/// The catalog of a program with metrics, a frame set and a measured scope. The declaration of its
/// second thread was lost.
fn busy_catalog() -> Arc<Catalog> {
    let scopes = [scope("work", 1, 0), scope("plain", 2, 0)];
    let mut catalog = Catalog::clone(&made::catalog(&scopes));
    let work = Arc::make_mut(&mut catalog.sites)[0].as_mut().unwrap();
    Arc::<SiteInfo>::make_mut(work).arg_names =
        ["off_cpu_ns", "run_queue_ns"].map(Into::into).to_vec();
    catalog.process = Arc::new(filled!(ProcessInfo {
        pid: 4711,
        name: "game".into(),
        recorder: "0.3.0".into()
    }));
    catalog.machine = Arc::new(filled!(MachineInfo { scope_ps: 17_400 }));
    catalog.dump = Some(Arc::new(filled!(DumpInfo {
        reason: "frame over 50 ms".into(),
        ticks: 3 * NS_PER_S + 1,
        number: 4,
        missed: 2
    })));
    let nameless = Arc::new(filled!(ThreadInfo { os_id: 7 }));
    Arc::make_mut(&mut catalog.threads).extend([None, Some(nameless)]);
    let column = |name: &str, unit: &str, system| {
        let (name, unit) = (name.into(), unit.into());
        let metric = MetricColumn { name, unit };
        filled!(Column { metric, system })
    };
    catalog.columns = Arc::new(vec![
        column("frame_ms", "ms", true),
        column("loss", "nats", false),
        column("memory_mb", "MB", true),
        column("items", "", false),
        column("step_ms", "ms", false),
    ]);
    catalog.frame_sets = Arc::new(vec![String::new(), "physics".into()]);
    Arc::new(catalog)
}

/// A span: site, begin, duration, and the time off the CPU and in the queue if it is measured.
type Made = (u32, u64, u64, Option<[u64; 2]>);

fn thread(id: u32, spans: &[Made], dropped_spans: u64) -> ThreadBatch {
    let mut thread = filled!(ThreadBatch {
        thread: ThreadId(id),
        dropped_spans
    });
    for &(site, begin, duration, measures) in spans {
        thread.args.extend(measures.map(|values| {
            filled!(SpanArgs {
                span: thread.len() as u32,
                values: values.map(ArgValue::U64).to_vec()
            })
        }));
        made::end(&mut thread, begin, duration, site);
    }
    thread
}

/// Writes three frames, 7 to 9, of 61.5 s, about an hour and 2.5 ms, and two of the set `physics`
/// between them. Returns where the records of the batches and the frames end.
fn busy(path: &Path, is_closed: bool) -> Vec<usize> {
    let catalog = &busy_catalog();
    let begin = |ms: u64| ms * 1_000_000 + 1;
    let (second, third) = (begin(61_500), begin(3_761_250));
    let batches = [
        vec![
            thread(
                0,
                &[
                    (WORK, 1_000, 9_000, Some([5_000, 2_000])),
                    (PLAIN, 20_000, 500, None),
                ],
                0,
            ),
            thread(2, &[(WORK, 1_000, 3_000, Some([1_000, 100]))], 0),
        ],
        vec![thread(0, &[(PLAIN, second + 10, 700, None)], 3)],
        vec![thread(0, &[(WORK, third + 10, 50, Some([8, 3]))], 0)],
    ];
    let batches = batches.map(|threads| {
        let catalog = Arc::clone(catalog);
        filled!(SpanBatch { catalog, threads })
    });
    let mut frames = [
        frame(catalog, 0, 7, [1, second], 3, 0),
        frame(catalog, 0, 8, [second, third], 1, 3),
        frame(catalog, 0, 9, [third, third + 2_500_000], 1, 0),
    ];
    (frames[1].merged_marks, frames[2].merged_marks) = (2, 1);
    let metrics: [&[(u32, f64)]; 3] = [
        &[(0, 61_500.0), (1, 0.25), (2, 1234.6), (3, 12.0), (4, 9.5)],
        &[(0, 3_699_750.0), (3, 12_345.0)],
        &[(0, 2.5), (1, f64::NAN), (2, 2_000.0)],
    ];
    for (frame, values) in frames.iter_mut().zip(metrics) {
        let values = values.iter();
        let metric = |&(column, value)| filled!(MetricValue { column, value });
        frame.metrics = values.map(metric).collect();
    }
    let physics = [
        frame(catalog, 1, 0, [1, 4_001], 0, 5),
        frame(catalog, 1, 1, [4_001, 10_001], 0, 6),
    ];
    let all = [
        RecordRef::Batch(&batches[0]),
        RecordRef::Frame(&frames[0]),
        RecordRef::Frame(&physics[0]),
        RecordRef::Batch(&batches[1]),
        RecordRef::Frame(&frames[1]),
        RecordRef::Frame(&physics[1]),
        RecordRef::Batch(&batches[2]),
        RecordRef::Frame(&frames[2]),
    ];
    records(path, catalog, &all, is_closed)
}

/// Writes two frames of a program whose name is not known, which dropped all its spans, and three
/// frames of the set `physics`. It is not closed.
fn quiet(path: &Path) {
    let mut catalog = Catalog::clone(&made::catalog(&[]));
    let recorder = "0.3.0".into();
    catalog.process = Arc::new(filled!(ProcessInfo { recorder }));
    catalog.threads = Arc::default();
    catalog.frame_sets = Arc::new(vec![String::new(), "physics".into()]);
    let catalog = &Arc::new(catalog);
    let frames = [
        frame(catalog, 0, 0, [1, 2_000_001], 0, 1),
        frame(catalog, 1, 0, [1, 1_001], 0, 5),
        frame(catalog, 1, 1, [1_001, 2_001], 0, 5),
        frame(catalog, 1, 2, [2_001, 3_001], 0, 5),
        frame(catalog, 0, 1, [2_000_001, 2_500_001], 0, 2),
    ];
    records(
        path,
        catalog,
        &frames.each_ref().map(RecordRef::Frame),
        false,
    );
}

fn folder_with(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

#[test]
fn info_has_a_line_for_each_property() {
    let (_folder, path) = folder_with("busy.vor");
    busy(&path, true);
    let size = file_size(&path);
    assert_eq!(
        lines(&run_beside("info", &path, &[], None)),
        [
            "capture       busy.vor",
            &format!("file          version 3, {size}, closed, with an index"),
            "program       game, process 4711, recorded by vor 0.3.0",
            "recorded      2023-11-14 22:13:20 UTC",
            "duration      1 h 2 min",
            "dumped        at 2023-11-14 22:13:23 UTC: frame over 50 ms; 2 triggers before it had \
             no dump of their own",
            "frames        3, 20 min 54 s each on average",
            "frame sets    physics",
            "spans         5 of 2 call sites, 3 DROPPED (37.50 %)",
            "cost          an empty scope took 17 ns when recording began; so many spans took \
             87 ns",
            "threads       main, thread #1, thread 7",
            "sampled       frame_ms, memory_mb",
            "metrics       loss, items, step_ms",
            "damage        none known; `vor check` reads everything",
        ]
    );
    assert_eq!(
        lines(&run_beside("info", &path, &[], Some("40"))),
        [
            "capture       busy.vor",
            &format!("file          version 3, {size},"),
            "              closed, with an index",
            "program       game, process 4711,",
            "              recorded by vor 0.3.0",
            "recorded      2023-11-14 22:13:20 UTC",
            "duration      1 h 2 min",
            "dumped        at 2023-11-14 22:13:23",
            "              UTC: frame over 50 ms; 2",
            "              triggers before it had no",
            "              dump of their own",
            "frames        3, 20 min 54 s each on",
            "              average",
            "frame sets    physics",
            "spans         5 of 2 call sites, 3",
            "              DROPPED (37.50 %)",
            "cost          an empty scope took 17 ns",
            "              when recording began; so",
            "              many spans took 87 ns",
            "threads       main, thread #1, thread 7",
            "sampled       frame_ms, memory_mb",
            "metrics       loss, items, step_ms",
            "damage        none known; `vor check`",
            "              reads everything",
        ]
    );
    let json = run_beside("info", &path, &["--json"], None).json();
    let expected = serde_json::json!({
        "file": "busy.vor",
        "version": 3,
        "file_bytes": std::fs::metadata(&path).unwrap().len(),
        "closed": true,
        "indexed": true,
        "recorder": "0.3.0",
        "process": {"pid": 4711, "name": "game"},
        "start_unix_ns": 1_700_000_000_000_000_000_i64,
        "duration_ns": 3_761_252_500_000_u64,
        "scope_ns": 17.4,
        "dump": {
            "reason": "frame over 50 ms",
            "unix_ns": 1_700_000_003_000_000_000_i64,
            "number": 4,
            "missed": 2,
        },
        "frames": 3,
        "frame_sets": ["physics"],
        "spans": 5,
        "dropped_spans": 3,
        "call_sites": 2,
        "threads": [
            {"name": "main", "os_id": 1},
            {"name": "thread #1", "os_id": 0},
            {"name": "thread 7", "os_id": 7},
        ],
        "columns": [
            {"name": "frame_ms", "unit": "ms", "system": true},
            {"name": "loss", "unit": "nats", "system": false},
            {"name": "memory_mb", "unit": "MB", "system": true},
            {"name": "items", "unit": "", "system": false},
            {"name": "step_ms", "unit": "ms", "system": false},
        ],
        "damage": {"count": 0, "bytes": 0, "losses": [], "tail": null},
    });
    assert_eq!(json, expected);
}

#[test]
fn info_says_what_a_capture_lacks() {
    let (_folder, path) = folder_with("quiet.vor");
    quiet(&path);
    let size = file_size(&path);
    assert_eq!(
        lines(&run_beside("info", &path, &[], None)),
        [
            "capture       quiet.vor",
            &format!(
                "file          version 3, {size}, not closed: the program still records, or it \
                 was killed"
            ),
            "program       not known, recorded by vor 0.3.0",
            "recorded      2023-11-14 22:13:20 UTC",
            "duration      2.50 ms",
            "frames        2, 1.25 ms each on average",
            "frame sets    physics",
            "spans         0 of 0 call sites, 3 DROPPED (100.00 %)",
            "threads       none",
            "sampled       none",
            "metrics       none",
            "damage        none",
        ]
    );
    let (_folder, path) = folder_with("empty.vor");
    let mut catalog = Catalog::clone(&made::catalog(&[]));
    let (name, recorder) = ("tool".into(), "0.3.0".into());
    catalog.process = Arc::new(filled!(ProcessInfo { name, recorder }));
    records(&path, &catalog, &[], true);
    let size = file_size(&path);
    assert_eq!(
        lines(&run_beside("info", &path, &[], None)),
        [
            "capture       empty.vor",
            &format!("file          version 3, {size}, closed, with an index"),
            "program       tool, recorded by vor 0.3.0",
            "recorded      2023-11-14 22:13:20 UTC",
            "duration      0 ns",
            "frames        none",
            "spans         none",
            "threads       main",
            "sampled       none",
            "metrics       none",
            "damage        none known; `vor check` reads everything",
        ]
    );
}

/// Returns the lines of `vor info` on the state of the file, its spans and its damage.
fn state(path: &Path) -> [String; 3] {
    let info = run("info", path, &[]);
    ["file", "spans", "damage"].map(|head| {
        let mut lines = info.stdout.lines();
        let line = lines.find(|line| line.starts_with(head)).unwrap();
        line[14..].to_owned()
    })
}

#[test]
fn info_says_how_a_file_ends_and_what_is_damaged() {
    let [file, spans, damage] = state(&v2("flame.vor"));
    assert!(file.ends_with("closed, without an index"), "{file}");
    assert!(spans.ends_with(", none dropped"), "{spans}");
    assert_eq!(damage, "none");
    let [file, _, damage] = state(&v2("torn.vor"));
    assert!(file.contains(", not closed: "), "{file}");
    assert_eq!(damage, "in 1 place; see `vor check`");
    // Its end is whole, and a record in the middle is missing.
    let (_folder, path) = folder_with("cut.vor");
    cut(&path);
    assert_eq!(state(&path)[2], "in 1 place; see `vor check`");
}

/// Writes the three frames without the record that has the spans of the second one.
fn cut(path: &Path) {
    let ends = busy(path, false);
    let mut bytes = std::fs::read(path).unwrap();
    bytes.drain(ends[2]..ends[3]);
    std::fs::write(path, bytes).unwrap();
}

const HEADS: &str = "   frame        start   duration      spans    queued   blocked  loss nats    \
                     items  step_ms  memory_mb";
const FRAME_7: &str = "       7   0.000000 s     61.5 s          3   2.10 µs   3.90 µs      \
                       0.250       12     9.50       1235";
const FRAME_8: &str = "       8     1:01.500  1 h 1 min          1         -         \
                       -              12\u{202f}345";
const FRAME_9: &str = "       9  1:02:41.250    2.50 ms          1      3 ns      5 ns        \
                       NaN                        2\u{202f}000";

#[test]
fn frames_are_rows_with_their_waits_metrics_and_losses() {
    let (_folder, path) = folder_with("busy.vor");
    busy(&path, true);
    let shown = run("frames", &path, &[]);
    let rows = [
        HEADS,
        FRAME_7,
        FRAME_8,
        "          ^ 3 spans dropped, 2 marks merged into it",
        FRAME_9,
        "          ^ 1 mark merged into it",
    ];
    assert_eq!(lines(&shown), rows);
    assert_eq!(lines(&run("frames", &path, &["-n", "1"])), rows[..2]);
    assert_eq!(lines(&run("frames", &path, &["-n", "2"])), rows[..4]);
    // The metrics that come first in the table are the last ones to go.
    for (columns, width) in [("83", 83), ("82", 74)] {
        let narrow = run_beside("frames", &path, &["-n", "1"], Some(columns));
        let cut = |line: &str| line.chars().take(width).collect::<String>();
        assert_eq!(lines(&narrow), [cut(HEADS), cut(FRAME_7)]);
    }

    let (_folder, path) = folder_with("cut.vor");
    cut(&path);
    let shown = run_beside("frames", &path, &[], None);
    let expected = [
        HEADS,
        FRAME_7,
        FRAME_8,
        "          ^ 3 spans dropped, 2 marks merged into it, 1 record lost to damage",
        FRAME_9,
        "          ^ 1 mark merged into it",
    ];
    assert_eq!(shown.stdout.lines().collect::<Vec<_>>(), expected);
    assert_eq!(
        shown.stderr,
        "vor: cut.vor: damaged in 1 place, 0 B skipped; see `vor check`\n"
    );
}

#[test]
fn frames_are_json_with_a_line_each() {
    let (_folder, path) = folder_with("busy.vor");
    busy(&path, true);
    let shown = run_beside("frames", &path, &["--json"], None);
    assert_eq!(
        lines(&shown),
        [
            r#"{"file":"busy.vor","frame_set":"","frames":["#,
            "{\"index\":7,\"start_unix_ns\":1700000000000000000,\"duration_ns\":61500000000,\
             \"spans\":3,\"dropped_spans\":0,\"merged_marks\":0,\"lost_records\":0,\
             \"system\":{\"frame_ms\":61500.0,\"memory_mb\":1234.6},\
             \"user\":{\"loss\":0.25,\"items\":12.0,\"step_ms\":9.5},\
             \"waits\":{\"queued_ns\":2100,\"blocked_ns\":3900}},",
            "{\"index\":8,\"start_unix_ns\":1700000061500000000,\"duration_ns\":3699750000000,\
             \"spans\":1,\"dropped_spans\":3,\"merged_marks\":2,\"lost_records\":0,\
             \"system\":{\"frame_ms\":3699750.0},\"user\":{\"items\":12345.0}},",
            "{\"index\":9,\"start_unix_ns\":1700003761250000000,\"duration_ns\":2500000,\
             \"spans\":1,\"dropped_spans\":0,\"merged_marks\":1,\"lost_records\":0,\
             \"system\":{\"frame_ms\":2.5,\"memory_mb\":2000.0},\"user\":{\"loss\":\"NaN\"},\
             \"waits\":{\"queued_ns\":3,\"blocked_ns\":5}}",
            "]}",
        ]
    );
    let slowest = ["--json", "--slowest", "1", "--frame-set", "physics"];
    let shown = run_beside("frames", &path, &slowest, None);
    assert_eq!(
        lines(&shown),
        [
            r#"{"file":"busy.vor","frame_set":"physics","frames":["#,
            "{\"index\":1,\"start_unix_ns\":1700000000000004000,\"duration_ns\":6000,\
             \"spans\":0,\"dropped_spans\":6,\"merged_marks\":0,\"lost_records\":0,\
             \"system\":{},\"user\":{}}",
            "]}",
        ]
    );
}

#[test]
fn the_slowest_frames_name_the_scope_with_the_most_time() {
    let (_folder, path) = folder_with("slow.vor");
    let scopes = [scope("work", 1, 0), scope("plain", 2, 0)];
    let made = [
        // Two frames of equal duration: the earlier one comes first.
        (1_000, 3_000, WORK),
        (5_000, 5_000, PLAIN),
        (10_500, 4_000, WORK),
        (14_500, 5_500, PLAIN),
        // The shortest.
        (21_000, 2_000, WORK),
        (23_000, 2_000, WORK),
        // Two scopes with equal times: the first one of the capture counts.
        (26_000, 3_000, PLAIN),
        (29_000, 3_000, WORK),
    ];
    spans(&path, &scopes, &made, 2);
    let shown = run("frames", &path, &["--slowest", "3"]);
    assert_eq!(
        lines(&shown),
        [
            "   frame        start   duration      spans  most time in",
            "       0   0.000000 s    10.0 µs          2  50 % plain",
            "       1   0.000010 s    10.0 µs          2  55 % plain",
            "       3   0.000025 s    7.00 µs          2  43 % work",
        ]
    );
    // Without `--slowest` nothing names a scope, and nothing was measured.
    let shown = run("frames", &path, &["-n", "1"]);
    assert_eq!(
        lines(&shown),
        [
            "   frame        start   duration      spans",
            "       0   0.000000 s    10.0 µs          2",
        ]
    );
    let last = run("frames", &path, &["--slowest", "4", "--json"]).json();
    let top = serde_json::json!({"name": "work", "thread": "main", "self_ns": 4_000});
    assert_eq!(last["frames"][3]["top_scope"], top);
}

#[test]
fn the_slowest_frames_without_spans_name_no_scope() {
    let (_folder, path) = folder_with("quiet.vor");
    quiet(&path);
    let shown = run("frames", &path, &["--slowest", "1"]);
    assert_eq!(
        lines(&shown),
        [
            "   frame        start   duration      spans",
            "       0   0.000000 s    2.00 ms          0",
            "          ^ 1 span dropped",
        ]
    );
    let (_folder, path) = folder_with("busy.vor");
    busy(&path, true);
    let shown = run(
        "frames",
        &path,
        &["--slowest", "1", "--frame-set", "physics"],
    );
    assert_eq!(
        lines(&shown),
        [
            "   frame        start   duration      spans  loss nats    items  step_ms  memory_mb",
            "       1   0.000004 s    6.00 µs          0",
            "          ^ 6 spans dropped",
        ]
    );
}

#[test]
fn losses_of_other_frame_sets_do_not_count() {
    let (_folder, path) = folder_with("busy.vor");
    busy(&path, true);
    for command in ["locks", "waits"] {
        assert_eq!(run(command, &path, &["--json"]).json()["dropped_spans"], 3);
    }
    let (_folder, path) = folder_with("quiet.vor");
    quiet(&path);
    for command in ["locks", "waits"] {
        let refused = run_beside(command, &path, &[], None);
        assert_eq!(
            refused.refusal(),
            "vor: quiet.vor: no spans in 2 frames: the program opened no scope, or recorded \
             metrics only (VOR_RECORD_SPANS=1 records spans too)"
        );
    }
}
