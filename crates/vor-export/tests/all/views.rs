//! Random trees of spans on several threads, exported and read back: every view has the same tree
//! with the same times.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use vor_capture::Error;
use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::timeline::ClockSnapshot;
use vor_capture::sink::FrameSink;
use vor_export::collapsed::CollapsedExporter;
use vor_export::samply::SamplyExporter;
use vor_export::speedscope::SpeedscopeExporter;
use vor_fixtures::random::seeds;
use vor_fixtures::views::{self, NASTY, Views};

use crate::full_disk::FullDisk;

const LABELS: [&str; 3] = ["main", NASTY, "thread 44"];
const SEEDS: usize = 20;

fn feed(exporter: &mut impl FrameSink, batches: &[SpanBatch]) {
    for batch in batches {
        exporter
            .accept_batch(batch)
            .expect("a writer that accepts everything");
    }
    exporter.finish().expect("a writer that accepts everything");
    exporter.finish().expect("a second end does nothing");
}

fn collapsed(batches: &[SpanBatch]) -> String {
    let mut exporter = CollapsedExporter::new(Vec::new());
    feed(&mut exporter, batches);
    String::from_utf8(exporter.into_inner()).unwrap()
}

fn speedscope(batches: &[SpanBatch]) -> Value {
    let mut exporter = SpeedscopeExporter::new(Vec::new());
    feed(&mut exporter, batches);
    serde_json::from_slice(&exporter.into_inner()).expect("valid JSON")
}

/// Compares one by one, so that a failure shows only the difference.
fn same_all<T: PartialEq + std::fmt::Debug>(
    found: impl IntoIterator<Item = T>,
    expected: impl IntoIterator<Item = T>,
) {
    let (mut found, mut expected) = (found.into_iter(), expected.into_iter());
    loop {
        let pair = (found.next(), expected.next());
        assert_eq!(pair.0, pair.1);
        if pair.0.is_none() {
            break;
        }
    }
}

/// Returns a name as `collapsed` writes it.
fn collapsed_name(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let name = name.replace(';', ":");
    if name.trim().is_empty() {
        return "?".into();
    }
    match name.strip_suffix(" 17") {
        Some(rest) => format!("{rest}_17"),
        None => name,
    }
}

#[test]
fn collapsed_stacks_have_the_self_times_of_all_stacks() {
    for seed in seeds(SEEDS) {
        let Views { batches, rows } = views::make(seed, 2_000);
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for ((thread, path), ns) in views::self_times(&rows) {
            // A thread's name never precedes the weight.
            let label = format!("{};", LABELS[thread as usize]);
            let mut frames = vec![collapsed_name(&label).trim_end_matches(':').to_owned()];
            frames.extend(path.iter().map(|&site| collapsed_name(&views::name(site))));
            if ns > 0 {
                *expected.entry(frames.join(";")).or_default() += ns;
            }
        }
        let text = collapsed(&batches);
        let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
        let found: Vec<(String, u64)> = lines
            .map(|(stack, ns)| (stack.to_owned(), ns.parse().unwrap()))
            .collect();
        let distinct: BTreeMap<_, _> = found.iter().cloned().collect();
        assert_eq!(found.len(), distinct.len(), "each stack has one line");
        same_all(distinct, expected);
    }
}

#[test]
fn names_have_no_special_characters_and_differ_from_weights() {
    let mut catalog = (*views::catalog()).clone();
    let names = ["row 17", "row 17; x", "row  2.5", "17", "a\tb"];
    catalog.sites = Arc::new(names.map(site).to_vec());
    let count = names.len() as u64;
    let batch = filled!(SpanBatch {
        catalog: Arc::new(catalog),
        threads: vec![filled!(ThreadBatch {
            start_ticks: (0..count).map(|i| 2_000 + 10 * i).collect(),
            duration_ticks: vec![7; names.len()],
            sites: (1..).map(SiteId).take(names.len()).collect()
        })],
    });
    let text = collapsed(&[batch]);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let expected = [
        "main;17 7",
        "main;a b 7",
        "main;row 17: x 7",
        "main;row _2.5 7",
        "main;row_17 7",
    ];
    assert_eq!(lines, expected);
}

fn site(name: &'static str) -> Option<Arc<SiteInfo>> {
    Some(Arc::new(filled!(SiteInfo { name: name.into() })))
}

#[test]
fn without_threads_equal_stacks_are_merged() {
    let Views { batches, rows } = views::make(1, 2_000);
    let mut exporter = CollapsedExporter::new(Vec::new()).without_threads();
    feed(&mut exporter, &batches);
    let text = String::from_utf8(exporter.into_inner()).unwrap();
    let total: u64 = text
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    let roots = rows.iter().filter(|row| row.1 == 0);
    assert_eq!(total, roots.map(|row| row.4 - row.3).sum::<u64>());
    assert!(!text.contains("main"));
}

#[test]
fn speedscope_profiles_have_every_span_at_its_depth() {
    for seed in seeds(SEEDS) {
        let Views { batches, rows } = views::make(seed, 2_000);
        let profile = speedscope(&batches);
        assert_eq!(profile["name"], "app \"x\"");
        let frames = profile["shared"]["frames"].as_array().unwrap();
        for (thread, label) in LABELS.iter().enumerate() {
            let view = &profile["profiles"][thread];
            assert_eq!(
                (&view["name"], &view["unit"]),
                (&(*label).into(), &"nanoseconds".into())
            );
            let mut found = Vec::new();
            let mut open = Vec::new();
            let mut now = 0;
            for event in view["events"].as_array().unwrap() {
                let (at, frame) = (
                    event["at"].as_u64().unwrap(),
                    event["frame"].as_u64().unwrap(),
                );
                assert!(at >= now, "events never go back");
                now = at;
                if event["type"] == "O" {
                    open.push(found.len());
                    found.push((open.len() - 1, frame, at, 0));
                } else {
                    let span = open.pop().unwrap();
                    assert_eq!(found[span].1, frame, "the innermost span ends first");
                    found[span].3 = at;
                }
            }
            assert!(open.is_empty());
            assert_eq!(view["endValue"], now);
            let of_thread = rows.iter().filter(|row| row.0 as usize == thread);
            let expected: Vec<_> = of_thread.collect();
            assert_eq!(found.len(), expected.len());
            for (found, &&(_, depth, site, start, end)) in found.iter().zip(&expected) {
                let frame = &frames[found.1 as usize];
                assert_eq!((found.0, found.2, found.3), (depth, start, end));
                assert_eq!(frame["name"], views::name(site));
                let declared = site < 7 && site != 3;
                assert_eq!(frame.get("file").is_some(), declared);
                assert_eq!(
                    frame["line"].as_u64(),
                    declared.then_some(u64::from(9 + site))
                );
            }
        }
    }
}

#[test]
fn damaged_spans_are_shortened_and_not_fatal() {
    for seed in 0..200 {
        let batches = [views::damaged(seed), views::damaged(seed + 1)];
        drop(collapsed(&batches));
        for view in speedscope(&batches)["profiles"].as_array().unwrap() {
            let (mut open, mut now) = (Vec::new(), 0);
            for event in view["events"].as_array().unwrap() {
                let at = event["at"].as_u64().unwrap();
                assert!(at >= now, "events never go back");
                now = at;
                if event["type"] == "O" {
                    open.push(&event["frame"]);
                } else {
                    assert_eq!(open.pop(), Some(&event["frame"]));
                }
            }
            assert!(open.is_empty());
        }
    }
}

#[test]
fn an_empty_recording_is_an_empty_view() {
    assert_eq!(collapsed(&[]), "");
    let profile = speedscope(&[]);
    assert_eq!(profile["profiles"].as_array().unwrap().len(), 1);
    assert_eq!(
        profile["profiles"][0]["events"].as_array().unwrap().len(),
        0
    );
}

#[test]
fn losses_are_reported() {
    let lossy = filled!(SpanBatch {
        catalog: views::catalog(),
        threads: vec![filled!(ThreadBatch { dropped_spans: 3 })],
    });
    assert_eq!(
        speedscope(std::slice::from_ref(&lossy))["name"],
        "app \"x\" (3 spans dropped)"
    );
    let mut exporter = CollapsedExporter::new(Vec::new());
    feed(&mut exporter, &[lossy]);
    assert_eq!(exporter.dropped_spans(), 3);
}

#[test]
fn nothing_follows_the_end() {
    fn rejects_more(mut exporter: impl FrameSink) {
        feed(&mut exporter, &[]);
        let late = views::make(1, 10).batches.remove(0);
        let error = exporter.accept_batch(&late).expect_err("a finished file");
        assert!(error.is_sink());
    }
    rejects_more(CollapsedExporter::new(Vec::new()));
    rejects_more(SpeedscopeExporter::new(Vec::new()));
}

#[test]
fn a_full_disk_is_an_error() {
    let views = views::make(1, 2_000);
    let end = |mut exporter: Box<dyn FrameSink>| -> Error {
        for batch in &views.batches {
            exporter
                .accept_batch(batch)
                .expect("nothing is written yet");
        }
        exporter.finish().expect_err("a full disk")
    };
    let error = end(Box::new(CollapsedExporter::new(FullDisk)));
    assert!(
        error.is_io()
            && error
                .to_string()
                .starts_with("cannot write the collapsed stacks: ")
    );
    let error = end(Box::new(SpeedscopeExporter::new(FullDisk)));
    assert!(
        error
            .to_string()
            .starts_with("cannot write the speedscope profile: ")
    );
}

#[test]
fn samply_gets_a_line_per_span_in_its_clock() {
    let Views { batches, rows } = views::make(3, 2_000);
    let clock = filled!(ClockSnapshot {
        ticks: views::BEGIN + 500,
        monotonic_ns: 7_000_500,
        ..ClockSnapshot::default()
    });
    let mut files: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let write = |_: &Catalog, thread: ThreadId, lines: &[u8]| {
        files.entry(thread.0).or_default().extend_from_slice(lines);
        Ok(())
    };
    let mut exporter = SamplyExporter::new(clock, write);
    feed(&mut exporter, &batches);
    exporter
        .accept_frame(&Arc::new(FrameSnapshot::default()))
        .expect("frames have no place");
    drop(exporter);
    let mut found = Vec::new();
    for (thread, text) in files {
        let text = String::from_utf8(text).unwrap();
        for line in text.lines() {
            let mut parts = line.splitn(3, ' ');
            let mut number = || parts.next().unwrap().parse::<u64>().unwrap();
            let times = (number(), number());
            let name = parts.next().unwrap().to_owned();
            let bare = name.split([" (n=", " (arg0="][usize::from(name.starts_with('?'))]);
            let bare = bare.into_iter().next().unwrap().to_owned();
            found.push((thread, times.0, times.1, bare));
        }
    }
    let row = |&(thread, _, site, start, end): &views::Row| {
        let name = views::name(site).replace(['\n', '\r'], " ");
        (thread, start + 7_000_000, end + 7_000_000, name)
    };
    let mut expected: Vec<_> = rows.iter().map(row).collect();
    for batch in batches.iter().flat_map(|batch| &batch.threads) {
        for message in &batch.messages {
            let ns = message.ticks - views::BEGIN + 7_000_000;
            expected.push((batch.thread.0, ns, ns, NASTY.replace(['\n', '\r'], " ")));
        }
    }
    expected.sort();
    found.sort();
    same_all(found, expected);
}
