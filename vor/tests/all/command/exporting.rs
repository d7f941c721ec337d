//! `vor export` of small captures, whose whole output is known.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use vor_capture::filled;
use vor_capture::format::RecordRef;
use vor_capture::model::catalog::Catalog;
use vor_capture::units;
use vor_fixtures::sealed::{Sealed, kind};

use crate::command::drafts::{
    Draft, WOKEN, args, contradict, damage, frame, put, scheduler, shop, site, thread, write_shop,
};
use crate::command::{Run, run, vor};

fn export(path: &Path, to: &str, options: &[&str]) -> Run {
    run("export", path, &[&["--to", to], options].concat())
}

/// Returns the lines of a selection's stacks.
fn stacks(path: &Path, options: &[&str]) -> Vec<String> {
    let exported = export(path, "collapsed", options);
    assert_eq!((exported.code, exported.stderr.as_str()), (0, ""));
    let mut lines: Vec<String> = exported.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn stacks_have_the_times_of_the_selected_spans() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "run.vor", &write_shop().close());
    let cases: [(&[&str], &[&str]); 9] = [
        (
            &[],
            &[
                "loader;render 2500",
                "main;parse 50",
                "main;request 12200",
                "main;request;parse 800",
            ],
        ),
        (
            &["--frames", "11"],
            &["main;request 1500", "main;request;parse 500"],
        ),
        (&["--frames", "12.."], &["main;request 10000"]),
        (&["--slowest", "1"], &["main;request 10000"]),
        (
            // Of two equally slow frames, the earlier one.
            &["--slowest", "2"],
            &[
                "loader;render 2500",
                "main;request 10700",
                "main;request;parse 300",
            ],
        ),
        (
            &["--slowest", "1", "--frames", "..11"],
            &[
                "loader;render 2500",
                "main;request 700",
                "main;request;parse 300",
            ],
        ),
        (&["--name", "parse"], &["main;parse 850"]),
        (&["--thread", "loader"], &["loader;render 2500"]),
        (
            &["--min-us", "0.4"],
            &[
                "loader;render 2500",
                "main;request 12600",
                "main;request;parse 400",
            ],
        ),
    ];
    for (options, expected) in cases {
        assert_eq!(stacks(&path, options), expected, "{options:?}");
    }
}

const HEADS: &str = "process,frame,thread,depth,name,file,line,start_ns,dur_ns,self_ns,args\n";
/// The rows of a CSV by frame.
const ROWS: [&str; 3] = [
    "shop,10,main,0,request,src/shop.rs,10,1100,1000,700,id=7\n\
    shop,10,main,1,parse,src/shop.rs,20,1200,300,300,\n\
    shop,10,loader,0,render,src/page.rs,30,2000,2500,2500,\n",
    "shop,11,main,0,request,src/shop.rs,10,5000,2000,1500,id=8\n\
    shop,11,main,1,parse,src/shop.rs,20,5100,400,400,\n\
    shop,11,main,1,parse,src/shop.rs,20,5600,100,100,\n",
    "shop,12,main,0,request,src/shop.rs,10,9500,10000,10000,id=9\n",
];

#[test]
fn a_table_has_the_spans_of_frames_and_counts_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "run.vor", &write_shop().close());
    let outside = format!(
        "vor: {}: 1 span left out: ended after the last frame\n",
        path.display()
    );
    let cases: [(&[&str], &[&str], &str); 4] = [
        (&[], &ROWS, &outside),
        (&["--frames", "10..12"], &ROWS[..2], ""),
        (&["--slowest", "1"], &ROWS[2..], ""),
        (&["--frames", "11..", "--slowest", "9"], &ROWS[1..], ""),
    ];
    for (options, rows, said) in cases {
        let csv = export(&path, "csv", options);
        assert_eq!(csv.code, 0, "{options:?}: {csv:?}");
        assert_eq!(csv.stdout, format!("{HEADS}{}", rows.concat()));
        assert_eq!(csv.stderr, said, "{options:?}");
    }
    // A file that is not closed is as good.
    let open = put(folder.path(), "open.vor", &write_shop().bytes());
    let csv = export(&open, "csv", &[]);
    assert_eq!(csv.stdout, format!("{HEADS}{}", ROWS.concat()));
    let outside = outside.replace("run.vor", "open.vor");
    assert_eq!((csv.code, csv.stderr), (0, outside));
    let chrome = export(&open, "chrome", &[]);
    assert_eq!((chrome.code, chrome.stderr.as_str()), (0, ""));
    // Without spans behind the last frame, nothing is left out.
    let mut draft = Draft::new(shop());
    draft.batch(vec![thread(1, &[(2_000, 2_500, 3)])]);
    draft.frame(frame(10, (1_000, 5_000), 1));
    let whole = put(folder.path(), "whole.vor", &draft.close());
    let csv = export(&whole, "csv", &[]);
    assert_eq!((csv.code, csv.stderr.as_str()), (0, ""));
}

#[test]
fn a_table_of_metrics_has_the_selected_frames_of_the_main_set() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "run.vor", &write_shop().close());
    let rows = ["10,0.004,0.5\n", "11,0.004,\n", "12,0.011,0.25\n"];
    let cases: [(&[&str], &[usize]); 4] = [
        (&[], &[0, 1, 2]),
        (&["--frames", "11.."], &[1, 2]),
        (&["--frames", "..11"], &[0]),
        (&["--slowest", "2"], &[0, 2]),
    ];
    for (options, selected) in cases {
        let table = export(&path, "metrics-csv", options);
        let selected: Vec<&str> = selected.iter().map(|row| rows[*row]).collect();
        let expected = format!("frame,frame_ms,loss\n{}", selected.concat());
        assert_eq!((table.code, table.stderr.as_str()), (0, ""), "{options:?}");
        assert_eq!(table.stdout, expected, "{options:?}");
    }
    let options = ["--name", "parse"];
    let refused =
        "vor: --thread, --name and --min-us select spans, and a table of metrics has none";
    assert_eq!(export(&path, "metrics-csv", &options).refusal(), refused);
    #[cfg(feature = "parquet")]
    {
        let out = folder.path().join("metrics.parquet");
        let table = ["--table", "metrics", "-o", out.to_str().unwrap()];
        assert_eq!(export(&path, "parquet", &table).code, 0);
        std::fs::remove_file(&out).unwrap();
        let options = [&table[..], &options].concat();
        assert_eq!(export(&path, "parquet", &options).refusal(), refused);
        assert!(!out.exists());
    }
}

/// Returns how many bytes were skipped, as warnings say it.
fn skipped(bytes: usize) -> String {
    format!("{} skipped", units::bytes(bytes as u64))
}

#[test]
fn damaged_frames_and_spans_are_left_out_and_counted() {
    const MOST: &str = "8\u{202f}388\u{202f}608";
    let folder = tempfile::tempdir().unwrap();
    // The batch of frame 11: bytes that no record has, a missing record, and an incomplete frame.
    let mut bytes = write_shop().close();
    let (_, lost) = damage(&mut bytes, kind::BATCH, 1);
    let path = put(folder.path(), "batch.vor", &bytes);
    let (name, csv) = (path.display(), export(&path, "csv", &[]));
    assert_eq!(csv.code, 3, "{csv:?}");
    assert_eq!(csv.stdout, [HEADS, ROWS[0], ROWS[2]].concat());
    assert_eq!(
        csv.stderr,
        format!(
            "vor: {name}: 3 spans left out: damaged, or of a frame with over {MOST} spans\n\
            vor: {name}: 1 span left out: ended after the last frame\n\
            vor: {name}: damaged in 3 places, {}; see `vor check`\n",
            skipped(lost)
        )
    );
    // The record of frame 11 too.
    let (_, also_lost) = damage(&mut bytes, kind::FRAME, 2);
    let path = put(folder.path(), "frame.vor", &bytes);
    let (name, csv) = (path.display(), export(&path, "csv", &[]));
    assert_eq!(csv.code, 3, "{csv:?}");
    assert_eq!(csv.stdout, [HEADS, ROWS[0], ROWS[2]].concat());
    assert_eq!(
        csv.stderr,
        format!(
            "vor: {name}: 1 frame left out: damaged, or of a frame with over {MOST} spans\n\
            vor: {name}: damaged in 2 places, {}; see `vor check`\n",
            skipped(lost + also_lost)
        )
    );
    let intact = export(&path, "csv", &["--frames", "10"]);
    assert_eq!((intact.code, intact.stderr.as_str()), (0, ""));
}

#[test]
fn frames_that_contradict_themselves_make_an_output_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let mut sealed = Sealed::of(&write_shop().close());
    contradict(&mut sealed, &[11, 12]);
    let path = put(folder.path(), "run.vor", &sealed.bytes());
    let name = path.display();
    // No byte of them is damaged, so there is no other report.
    let report = format!("vor: {name}: 2 frames with lost records; see `vor check`\n");
    for to in ["chrome", "metrics-csv"] {
        let exported = export(&path, to, &[]);
        assert_eq!((exported.code, &exported.stderr), (3, &report), "{to}");
    }
    let whole = export(&path, "metrics-csv", &["--frames", "..11"]);
    assert_eq!((whole.code, whole.stderr.as_str()), (0, ""));
}

#[test]
fn a_capture_whose_only_spans_are_damaged_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut draft = Draft::new(shop());
    draft.batch(vec![thread(1, &[(2_000, 2_500, 3)])]);
    let mut bytes = draft.close();
    let (_, lost) = damage(&mut bytes, kind::BATCH, 0);
    let path = put(folder.path(), "run.vor", &bytes);
    let name = path.display();
    // The index says that there are spans, and a trace has what else there may be.
    let chrome = export(&path, "chrome", &[]);
    let damaged = format!(
        "vor: {name}: damaged in 2 places, {}; see `vor check`\n",
        skipped(lost)
    );
    assert_eq!((chrome.code, chrome.stderr), (3, damaged));
    let events: Value = serde_json::from_str(&chrome.stdout).unwrap();
    assert!(events.is_array());
    for to in ["csv", "metrics-csv"] {
        let refused = export(&path, to, &[]);
        assert_eq!(refused.refusal(), format!("vor: {name}: no frames"), "{to}");
    }
    let stacks = export(&path, "collapsed", &[]);
    let nothing = format!("vor: {name}: no spans: the program opened no scope");
    assert!(stacks.refusal().starts_with(&nothing), "{stacks:?}");
}

/// Writes a capture of a span with these arguments.
fn with_arguments(path: &Path, names: &[&str], values: &[u64]) {
    let mut draft = Draft::new(filled!(Catalog {
        sites: Arc::new(vec![site("work", ("src/shop.rs", 1), names)]),
        ..shop()
    }));
    let mut work = thread(0, &[(1_000, 500, 1)]);
    work.args.push(args(0, values));
    draft.batch(vec![work]);
    std::fs::write(path, draft.close()).unwrap();
}

#[test]
fn labels_are_arguments_that_are_no_measures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let out = folder.path().join("out.pb.gz");
    let out = out.to_str().unwrap();
    let label = |label| export(&path, "pprof", &["-o", out, "--label", label]);
    with_arguments(&path, &["id", "size", "off_cpu_ns"], &[7, 512, 100]);
    let name = path.display();
    assert_eq!((label("id").code, label("size").code), (0, 0));
    assert_eq!(
        label("off_cpu_ns").refusal(),
        format!("vor: {name}: --label: no argument is called `off_cpu_ns`; there are `id`, `size`")
    );
    with_arguments(&path, &["off_cpu_ns"], &[100]);
    assert_eq!(
        label("id").refusal(),
        format!("vor: {name}: --label id: no scope of this capture has arguments")
    );
}

#[test]
fn a_trace_has_what_the_scheduler_did() {
    let folder = tempfile::tempdir().unwrap();
    let mut draft = write_shop();
    draft.record(RecordRef::Scheduler(&scheduler()));
    let path = put(folder.path(), "run.vor", &draft.close());
    let out = folder.path().join("trace.pftrace");
    let exported = export(&path, "perfetto", &["-o", out.to_str().unwrap()]);
    assert_eq!((exported.code, exported.stderr.as_str()), (0, ""));
    let trace = std::fs::read(&out).unwrap();
    assert!(
        trace
            .windows(WOKEN.len())
            .any(|part| part == WOKEN.as_bytes())
    );
}

#[test]
fn a_firefox_profile_has_the_spans_and_a_marker_for_each_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "run.vor", &write_shop().close());
    let profile = export(&path, "firefox", &[]);
    assert_eq!((profile.code, profile.stderr.as_str()), (0, ""));
    for name in ["request", "parse", "render"] {
        assert!(profile.stdout.contains(&format!("\"{name}\"")), "{name}");
    }
    let profile: Value = serde_json::from_str(&profile.stdout).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let mut threads = list(&profile["threads"]).into_iter();
    let frames = threads.find(|thread| thread["name"] == "frames and metrics");
    // A schema says where the number of a frame is.
    let mut schemas = list(&profile["meta"]["markerSchema"]).into_iter();
    let schema = schemas.find(|schema| schema["fields"][0]["label"] == "index");
    let schema = schema.unwrap();
    let key = schema["fields"][0]["key"].as_str().unwrap();
    let mut markers = list(&frames.unwrap()["markers"]["data"]);
    markers.retain(|marker| marker["type"] == schema["name"]);
    let indices = markers
        .iter()
        .map(|marker| marker[key].as_f64().unwrap() as u64);
    let mut indices: Vec<u64> = indices.collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 10, 11, 12]);
}

/// An output without line breaks stays in the buffer of stdout until it is flushed.
#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error_also_for_the_last_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let write = |number: u32| {
        let mut draft = Draft::new(filled!(Catalog {
            sites: Arc::new(vec![site(
                &format!("work {number}"),
                ("src/shop.rs", 1),
                &[]
            )]),
            ..Catalog::default()
        }));
        draft.batch(vec![thread(0, &[(1_000, 500, 1)])]);
        put(folder.path(), "run.vor", &draft.close())
    };
    let command = |path: &Path| {
        let mut command = vor();
        command.args(["export", "--to", "pprof"]).arg(path);
        command
    };
    // The bytes of such a small profile depend on its names.
    let has_no_line_break = |path: &PathBuf| {
        let profile = command(path).output().unwrap().stdout;
        profile.len() < 1000 && !profile.contains(&b'\n')
    };
    let path = (0..200).map(write).find(has_no_line_break).unwrap();
    let full = || {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).open("/dev/full").unwrap()
    };
    let failed = Run::from(command(&path).stdout(full()).output().unwrap());
    assert_eq!(
        failed.refusal(),
        "vor: cannot write the profile: No space left on device (os error 28)"
    );
    let failed = Run::from(
        vor()
            .arg("stats")
            .arg(&path)
            .stdout(full())
            .output()
            .unwrap(),
    );
    assert_eq!(
        failed.refusal(),
        "vor: cannot write the output: No space left on device (os error 28)"
    );
}
