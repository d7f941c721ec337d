//! One program, several outputs: its views for flame graph tools and samply have the same spans as
//! its capture.
//!
//! With `VOR_ORACLE_OUT`, the files are written to that folder, beside the capture's spans as lines
//! of JSON. Another program can compare them with the viewers' results.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::{ThreadTree, TreeBuilder};
use vor_export::collapsed::CollapsedExporter;
#[cfg(feature = "firefox")]
use vor_export::firefox::FirefoxExporter;
#[cfg(feature = "pprof")]
use vor_export::pprof::PprofExporter;
use vor_export::speedscope::SpeedscopeExporter;
use vor_fixtures::own_process;
use vor_recorder::setup::Config;
use vor_recorder::sinks::Sink as _;
use vor_recorder::sinks::samply::SamplySink;
use vor_recorder::{drain, message, metrics, profile_scope};

use crate::nested_work::{inside_turn, on_threads};

const THREADS: u64 = 3;
const FRAMES: u64 = 10;
const TURNS: u64 = 40;

fn work() -> u64 {
    profile_scope!("work", turns = TURNS);
    (0..TURNS)
        .map(|turn| {
            profile_scope!("turn");
            inside_turn(turn)
        })
        .sum()
}

fn record(folder: &Path) {
    Config::new().capture(folder.join("run.vor")).enable();
    // Before the threads record, so that each maps its own file.
    let markers = SamplySink::new(folder.join("samply")).install();
    let create = |name: &str| File::create(folder.join(name)).unwrap();
    let mut sinks = vec![
        drain::add_sink("collapsed", CollapsedExporter::new(create("run.collapsed"))),
        drain::add_sink(
            "speedscope",
            SpeedscopeExporter::new(create("run.speedscope.json")),
        ),
    ];
    #[cfg(feature = "firefox")]
    sinks.push(drain::add_sink(
        "firefox",
        FirefoxExporter::new(create("run.firefox.json")),
    ));
    #[cfg(feature = "pprof")]
    sinks.push(drain::add_sink(
        "pprof",
        PprofExporter::new(create("run.pb.gz")),
    ));
    {
        // Around all frames, which a frame's own tree cannot show.
        profile_scope!("program");
        for frame in 0..FRAMES {
            on_threads(THREADS, work);
            message!("frame {frame}");
            metrics::record_metric("loss", 1.0 / (1.0 + frame as f64));
            drain::frame_mark();
        }
    }
    drain::flush();
    sinks.clear();
    drop(markers);
}

/// Returns all spans of the capture, as the trees that they would form in one frame, and their
/// catalog.
fn from_capture(path: &Path) -> (Arc<Catalog>, Vec<ThreadTree>) {
    let mut capture = vor_capture::reader::Capture::open(path).unwrap();
    let last = capture.frames(0..u64::MAX).last().unwrap().unwrap();
    let mut trees = TreeBuilder::new(usize::MAX);
    for batch in capture.batches().unwrap() {
        trees.add_batch(&batch.unwrap());
    }
    (Arc::clone(&last.catalog), trees.finish().threads)
}

#[test]
fn views_and_capture_agree() {
    own_process!();
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("VOR_ORACLE_OUT").map_or(temporary.path().to_owned(), Into::into);
    record(&folder);
    assert_eq!(drain::close_capture(), Some(folder.join("run.vor")));

    let (catalog, trees) = from_capture(&folder.join("run.vor"));
    let origin = catalog.timeline.syncs()[0].unix_ns;
    let (mut lines, mut names, mut count) = (String::new(), BTreeMap::<String, u64>::new(), 0);
    for tree in &trees {
        let thread = catalog.thread(tree.thread).unwrap();
        let mut markers = 0;
        for span in &tree.spans {
            let start = catalog.unix_ns(span.start_ticks);
            let dur = catalog.unix_ns(span.end_ticks()) - start;
            let name = catalog.site_name(span.site);
            let line = json!({
                "tid": thread.os_id, "thread": thread.name, "depth": span.depth, "name": name,
                "ts": start - origin, "dur": dur, "args": !tree.args(span).is_empty(),
            });
            writeln!(lines, "{line}").unwrap();
            *names.entry(name.to_owned()).or_default() += 1;
            markers += 1;
        }
        count += markers;
    }
    std::fs::write(folder.join("spans.jsonl"), lines).unwrap();
    assert_eq!(names["program"], 1);
    assert_eq!(names["work"], FRAMES * THREADS);
    assert_eq!(names["turn"], FRAMES * THREADS * TURNS);

    let collapsed = std::fs::read_to_string(folder.join("run.collapsed")).unwrap();
    assert!(
        collapsed
            .lines()
            .any(|line| line.contains(";program;work;turn;"))
    );
    let lines = collapsed.lines().map(|line| line.rsplit_once(' ').unwrap());
    let self_ns: i64 = lines.map(|(_, ns)| ns.parse::<i64>().unwrap()).sum();
    let roots = trees
        .iter()
        .flat_map(|tree| tree.spans.iter().filter(|span| span.depth == 0));
    let total_ns =
        roots.map(|span| catalog.unix_ns(span.end_ticks()) - catalog.unix_ns(span.start_ticks));
    assert_eq!(self_ns, total_ns.sum::<i64>());

    if cfg!(target_os = "linux") {
        check_markers(&folder.join("samply"), &catalog, &trees, count);
    }
}

/// Each thread has its own file. All spans in these files have the same distance from the wall
/// clock.
fn check_markers(folder: &Path, catalog: &Catalog, trees: &[ThreadTree], count: usize) {
    let mut distances = Vec::new();
    let mut found = 0;
    for tree in trees {
        let tid = catalog.thread(tree.thread).unwrap().os_id;
        let path = folder.join(format!("marker-{}-{tid}.txt", std::process::id()));
        let text = std::fs::read_to_string(path).unwrap();
        let mut starts = Vec::new();
        for line in text.lines() {
            let (start, rest) = line.split_once(' ').unwrap();
            let (end, name) = rest.split_once(' ').unwrap();
            let (start, end) = (start.parse::<i64>().unwrap(), end.parse::<i64>().unwrap());
            assert!(start <= end && !name.is_empty());
            if !name.starts_with("frame ") {
                starts.push(start);
            }
        }
        starts.sort_unstable();
        let mut expected: Vec<_> = tree
            .spans
            .iter()
            .map(|span| catalog.unix_ns(span.start_ticks))
            .collect();
        expected.sort_unstable();
        // The system may have reused the ID of a thread that ended.
        if starts.len() == expected.len() {
            distances.extend(
                starts
                    .iter()
                    .zip(&expected)
                    .map(|(start, unix)| unix - start),
            );
        }
        found += starts.len();
    }
    assert!(found >= count, "{found} markers of {count} spans");
    let (least, most) = (
        distances.iter().min().unwrap(),
        distances.iter().max().unwrap(),
    );
    // The rate of the timeline may change while it is younger than a second.
    assert!(most - least < 1_000_000, "{least} to {most}");
}
