//! The files that `CriterionProfiler` writes beside the reports of benchmarks.

#![cfg(feature = "criterion")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use criterion::Criterion;
use criterion::profiler::Profiler;

#[cfg(not(feature = "off"))]
use quick_xml::events::Event;

use crate::robust_support::{child, folder, role, run, vor_lines};
use vor_fixtures::test_name;

fn wait() {
    std::thread::sleep(Duration::from_micros(200));
}

/// Opens scopes with names of its own; those of another thread lie inside.
macro_rules! work {
    ($outer:literal, $inner:literal) => {{
        vor::profile_scope!($outer);
        wait();
        {
            vor::profile_scope!($inner, bytes = 3);
            wait();
        }
        std::thread::scope(|threads| {
            let other = threads.spawn(|| drop(vor::scope($inner)));
            other.join().unwrap();
        });
    }};
}

/// Runs this test again in a child that calls `part`. Returns the lines that vor wrote.
fn run_in_child(test: &str, part: fn(&Path)) -> Option<(tempfile::TempDir, Vec<String>)> {
    if role().is_some() {
        part(&folder());
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, "program", folder.path()));
    assert!(output.status.success(), "{output:?}");
    let lines = vor_lines(&output);
    Some((folder, lines))
}

fn files(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Checks that a capture is complete. Returns the names of its scopes and the number of its spans.
#[cfg(not(feature = "off"))]
fn names(path: &Path) -> (BTreeSet<String>, u64) {
    let mut names = BTreeSet::new();
    let mut capture = vor::capture::Capture::open(path).unwrap();
    let info = capture.info();
    assert!(
        info.closed && info.indexed && info.damage.is_none(),
        "{info:?}"
    );
    assert_eq!((info.frames, info.dropped_spans), (1, 0));
    let recovered = capture.recovered(0).unwrap();
    assert!(recovered.has_all_spans());
    let frame = capture.frame(0).unwrap();
    for span in frame.threads.iter().flat_map(|thread| &thread.spans) {
        names.insert(frame.catalog.site_name(span.site).to_owned());
    }
    assert_eq!(frame.span_count, info.spans);
    (names, info.spans)
}

/// Checks that the elements of a flame graph are closed in order. Returns the titles of its frames.
#[cfg(not(feature = "off"))]
fn titles(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut reader = quick_xml::Reader::from_str(&text);
    reader.config_mut().check_end_names = true;
    let (mut depth, mut roots, mut in_title) = (0, 0, false);
    let mut titles: Vec<String> = Vec::new();
    loop {
        let event = reader.read_event().unwrap();
        let piece = match &event {
            Event::Start(start) => {
                assert!(depth > 0 || start.name().as_ref() == b"svg");
                roots += usize::from(depth == 0);
                depth += 1;
                in_title = start.name().as_ref() == b"title";
                titles.extend(in_title.then(String::new));
                continue;
            }
            Event::End(_) => {
                (depth, in_title) = (depth - 1, false);
                continue;
            }
            Event::Text(text) => str::from_utf8(text).unwrap().to_owned(),
            Event::GeneralRef(name) => format!("&{};", str::from_utf8(name).unwrap()),
            Event::Eof => break,
            _ => continue,
        };
        if in_title {
            titles.last_mut().unwrap().push_str(&piece);
        }
    }
    assert_eq!((depth, roots), (0, 1));
    titles
}

#[cfg(not(feature = "off"))]
#[test]
fn each_benchmark_has_a_capture_and_a_flame_graph_of_its_own() {
    fn program(folder: &Path) {
        let mut criterion = Criterion::default()
            .with_profiler(vor::criterion::CriterionProfiler::new())
            .profile_time(Some(Duration::from_millis(1_100)))
            .output_directory(folder);
        assert!(!vor::is_enabled());
        criterion.bench_function("first", |bencher| {
            bencher.iter(|| work!("parse", "lex <a> & b"))
        });
        assert!(!vor::is_enabled(), "recording is off again");
        work!("between", "between them");
        vor::Config::new().enable();
        work!("before", "before it");
        let mut group = criterion.benchmark_group("group");
        group.bench_function("second", |bencher| {
            bencher.iter(|| work!("decode", "unpack"))
        });
        group.finish();
        assert!(vor::is_enabled(), "recording was on before");
    }
    let test = test_name!();
    let Some((folder, lines)) = run_in_child(test, program) else {
        return;
    };
    assert_eq!(lines, [""; 0]);
    let benchmarks = [
        (
            "first",
            "first",
            "parse",
            "lex <a> & b",
            "lex &lt;a&gt; &amp; b",
        ),
        ("group/second", "group/second", "decode", "unpack", "unpack"),
    ];
    for (path, title, outer, inner, escaped) in benchmarks {
        let folder = folder.path().join(path).join("profile");
        let expected = ["flamegraph.svg", "run.vor"].map(str::to_owned);
        assert_eq!(files(&folder), BTreeSet::from(expected));
        let (names, spans) = names(&folder.join("run.vor"));
        assert_eq!(names, BTreeSet::from([outer, inner].map(str::to_owned)));
        assert!(spans > 100 && spans.is_multiple_of(3), "{spans}");
        let titles = titles(&folder.join("flamegraph.svg"));
        let has = |start: &str| {
            titles
                .iter()
                .any(|title| title.starts_with(&format!("{start} (")))
        };
        assert!(has(outer) && has(escaped) && has("all"), "{titles:?}");
        assert!(
            !titles
                .iter()
                .any(|title| title.contains("between") || title.contains("before"))
        );
        let text = std::fs::read_to_string(folder.join("flamegraph.svg")).unwrap();
        assert!(text.contains(title), "the benchmark is named");
        let subtitle = format!("{spans} spans");
        assert!(text.contains(&subtitle) && !text.contains("dropped"));
    }
}

#[cfg(not(feature = "off"))]
#[test]
fn files_of_an_earlier_run_are_replaced() {
    fn program(folder: &Path) {
        let mut profiler = vor::criterion::CriterionProfiler::new();
        for round in 0..3 {
            std::fs::write(folder.join("run.partial.vor"), "of a run that was cut off").unwrap();
            profiler.start_profiling("again", folder);
            assert_eq!(folder.join("flamegraph.svg").exists(), round > 0);
            for _ in 0..=round {
                work!("outer", "inner");
            }
            profiler.stop_profiling("again", folder);
            assert_eq!(names(&folder.join("run.vor")).1, 3 * (round + 1));
        }
        // A capture without scopes writes no flame graph, and deletes the one of an earlier run.
        profiler.start_profiling("bare", folder);
        profiler.stop_profiling("bare", folder);
        assert_eq!(names(&folder.join("run.vor")).1, 0);
        // A benchmark that was not started cannot be stopped.
        profiler.stop_profiling("bare", folder);
    }
    let Some((folder, lines)) = run_in_child(test_name!(), program) else {
        return;
    };
    let expected = "vor: the benchmark bare opened no scope, so it has no flame graph";
    assert_eq!(lines, [expected]);
    assert_eq!(files(folder.path()), BTreeSet::from(["run.vor".to_owned()]));
}

#[cfg(not(feature = "off"))]
#[test]
fn an_unwritable_file_is_one_line_and_the_benchmark_goes_on() {
    fn program(folder: &Path) {
        let mut profiler = vor::criterion::CriterionProfiler::new();
        let mut bench = |id: &str, folder: &Path| {
            profiler.start_profiling(id, folder);
            work!("outer", "inner");
            profiler.stop_profiling(id, folder);
            assert!(!vor::is_enabled());
        };
        // A file takes the place of the folder, and folders take the places of the files.
        std::fs::write(folder.join("file"), "").unwrap();
        bench("no folder", &folder.join("file/profile"));
        std::fs::create_dir_all(folder.join("a/run.vor/full")).unwrap();
        bench("no capture", &folder.join("a"));
        std::fs::create_dir_all(folder.join("b/flamegraph.partial.svg")).unwrap();
        bench("no flame graph", &folder.join("b"));
        std::fs::create_dir_all(folder.join("c/run.partial.vor")).unwrap();
        bench("no partial capture", &folder.join("c"));
        bench("all is well", &folder.join("d"));
    }
    let test = test_name!();
    let Some((folder, lines)) = run_in_child(test, program) else {
        return;
    };
    let expected = [
        (
            "cannot create",
            "file/profile",
            "; the benchmark no folder is not recorded",
        ),
        ("cannot write", "a/run.vor", ", of the benchmark no capture"),
        (
            "cannot write",
            "b/flamegraph.svg",
            ", of the benchmark no flame graph",
        ),
        (
            "cannot remove",
            "c/run.partial.vor",
            "; the benchmark no partial capture is not recorded",
        ),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, (doing, path, end)) in lines.iter().zip(expected) {
        let path = folder.path().join(path);
        let start = format!("vor: {doing} {}: ", path.display());
        assert!(line.starts_with(&start) && line.ends_with(end), "{line}");
    }
    let only_the_folder = BTreeSet::from(["run.vor".to_owned()]);
    assert_eq!(files(&folder.path().join("a")), only_the_folder);
    assert_eq!(
        files(&folder.path().join("b")).len(),
        2,
        "the capture exists"
    );
    assert_eq!(names(&folder.path().join("d/run.vor")).1, 3);
    assert!(folder.path().join("d/flamegraph.svg").exists());
}

#[cfg(not(feature = "off"))]
#[test]
fn dropped_spans_are_reported() {
    /// Keeps the recorder from draining the ring.
    struct Slow;
    impl vor::sinks::FrameSink for Slow {
        fn interest(&self) -> vor::sinks::Interest {
            vor::sinks::Interest::BATCHES
        }

        fn accept_batch(&mut self, _: &vor::capture::SpanBatch) -> Result<(), vor::Error> {
            std::thread::sleep(Duration::from_millis(300));
            Ok(())
        }

        fn accept_frame(
            &mut self,
            _: &std::sync::Arc<vor::capture::FrameSnapshot>,
        ) -> Result<(), vor::Error> {
            Ok(())
        }
    }
    fn program(folder: &Path) {
        vor::Config::new().ring_kib(64).sink("slow", Slow).enable();
        let mut profiler = vor::criterion::CriterionProfiler::new();
        profiler.start_profiling("fast", folder);
        for _ in 0..100_000 {
            vor::profile_scope!("nothing");
        }
        profiler.stop_profiling("fast", folder);
        let info = vor::capture::Capture::open(folder.join("run.vor"))
            .unwrap()
            .info();
        let (spans, dropped) = (info.spans, info.dropped_spans);
        assert!(dropped > 0 && spans + dropped == 100_000, "{info:?}");
        let graph = std::fs::read_to_string(folder.join("flamegraph.svg")).unwrap();
        assert!(graph.contains(&format!("{spans} spans, {dropped} more dropped")));
    }
    let Some((_folder, lines)) = run_in_child(test_name!(), program) else {
        return;
    };
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0]
            .starts_with("vor: the benchmark fast opens scopes faster than they can be recorded: ")
            && lines[0].ends_with(" dropped"),
        "{lines:?}"
    );
}

#[cfg(feature = "off")]
#[test]
fn compiled_out_it_does_nothing_and_reports_it() {
    fn program(folder: &Path) {
        let mut criterion = Criterion::default()
            .with_profiler(vor::criterion::CriterionProfiler::new())
            .profile_time(Some(Duration::from_millis(1)))
            .output_directory(folder);
        criterion.bench_function("bare", |bencher| bencher.iter(|| work!("outer", "inner")));
        let mut profiler = vor::criterion::CriterionProfiler::new();
        profiler.start_profiling("by hand", folder);
        profiler.stop_profiling("by hand", folder);
    }
    let Some((folder, lines)) = run_in_child(test_name!(), program) else {
        return;
    };
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines
            .iter()
            .all(|line| line.ends_with("the feature `off` compiles vor out")),
        "{lines:?}"
    );
    assert!(
        !files(folder.path())
            .iter()
            .any(|file| file.ends_with(".vor"))
    );
}
