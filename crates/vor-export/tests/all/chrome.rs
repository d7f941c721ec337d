//! Chrome traces through a strict JSON parser, span by span.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use vor_capture::filled;
use vor_capture::model::batch::{
    ArgValue, FlowPoint, FlowStage, Message, SpanArgs, SpanBatch, TaskEvent, TaskEventKind,
    ThreadBatch,
};
use vor_capture::model::catalog::{
    Catalog, Column, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, TreeBuilder};
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};
use vor_capture::sink::{FrameSink, Interest};
use vor_export::chrome::ChromeExporter;

use crate::full_disk::FullDisk;

const NASTY: &str = "quote\" back\\slash \n\t\r\u{1}\u{1f} <ä 🦀 \u{2028}>";
const START_NS: i64 = 1_700_000_000_123_456_789;

/// Three ticks are about one nanosecond. Thread 2 has the number of thread 1, which ended before.
fn catalog() -> Arc<Catalog> {
    let site = |name: &'static str, category: &'static str| {
        Some(Arc::new(filled!(SiteInfo {
            name: Cow::Borrowed(name),
            module_path: "app::codec".into(),
            category: category.into(),
            arg_names: vec!["a".into(), NASTY.into(), "c".into()]
        })))
    };
    let thread = |os_id, name: &str| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id,
            name: name.into(),
        })))
    };
    let column = |name: &str, unit: &str| {
        filled!(Column {
            metric: MetricColumn {
                name: name.into(),
                unit: unit.into(),
            },
            system: false,
        })
    };
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 3_000,
        unix_ns: START_NS,
        rate: (1 << RATE_BITS) / 3,
        wall_ns: START_NS,
    }));
    Arc::new(filled!(Catalog {
        process: Arc::new(filled!(ProcessInfo {
            pid: 42,
            name: "app \"x\"".into(),
            recorder: String::new(),
        })),
        timeline: Arc::new(timeline),
        sites: Arc::new(vec![site("step", ""), site(NASTY, "io"), None]),
        threads: Arc::new(vec![thread(42, "main"), thread(43, NASTY), thread(43, "")]),
        columns: Arc::new(vec![column("frame_ms", "ms"), column("loss", "")]),
        frame_sets: Arc::new(vec![String::new(), "physics".into()])
    }))
}

fn spans(thread: u32, spans: &[(u64, u64, u32)]) -> ThreadBatch {
    filled!(ThreadBatch {
        thread: ThreadId(thread),
        start_ticks: spans.iter().map(|span| span.0).collect(),
        duration_ticks: spans.iter().map(|span| span.1).collect(),
        sites: spans.iter().map(|span| SiteId(span.2)).collect()
    })
}

fn batch(threads: Vec<ThreadBatch>) -> SpanBatch {
    filled!(SpanBatch {
        catalog: catalog(),
        threads,
    })
}

fn events(json: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(json).expect("valid JSON") {
        Value::Array(events) => events,
        other => panic!("an array of events, not {other}"),
    }
}

fn of_phase<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == phase).collect()
}

/// Nanoseconds from the microseconds of an event, exactly as a viewer can compute them from a
/// double.
fn ns(value: &Value) -> i64 {
    (value.as_f64().expect("a number") * 1_000.0).round() as i64
}

fn export(batches: &[SpanBatch], frames: Vec<FrameSnapshot>) -> Vec<u8> {
    let mut exporter = ChromeExporter::new(Vec::new());
    assert_eq!(exporter.interest(), Interest::BATCHES);
    for batch in batches {
        exporter
            .accept_batch(batch)
            .expect("a writer that accepts everything");
    }
    for frame in frames {
        let frame = Arc::new(frame);
        exporter
            .accept_frame(&frame)
            .expect("a writer that accepts everything");
    }
    exporter.finish().expect("a writer that accepts everything");
    exporter.into_inner()
}

#[test]
fn every_span_is_there_with_its_time_place_and_name() {
    let mut random = vor_fixtures::Random(5);
    let mut draw = |below: u64| random.below(below as usize) as u64;
    let mut batches = Vec::new();
    let mut now = 3_000;
    for _ in 0..20 {
        let mut threads = Vec::new();
        for thread in 0..3 {
            let mut list = Vec::new();
            for _ in 0..300 {
                let (pause_bits, length_bits) = (draw(20), draw(30));
                now += 3 + draw(1 << pause_bits);
                list.push((now, draw(1 << length_bits), draw(5) as u32));
            }
            threads.push(spans(thread, &list));
        }
        batches.push(batch(threads));
    }
    let json = export(&batches, Vec::new());
    let events = events(&json);
    let found = of_phase(&events, "X");
    let catalog = catalog();
    let tids = [42, 43, (1 << 30) + 2];
    // The events of a thread are in order; the last ones of a batch follow with the next batch.
    let mut of_threads = tids.map(|tid| found.iter().filter(move |event| event["tid"] == tid));
    let mut i = 0;
    for thread in batches.iter().flat_map(|batch| &batch.threads) {
        for span in 0..thread.len() {
            let event = of_threads[thread.thread.0 as usize].next().unwrap();
            i += 1;
            let start = catalog.unix_ns(thread.start_ticks[span]);
            let end = catalog.unix_ns(thread.end_ticks(span));
            assert_eq!(ns(&event["ts"]), start - START_NS);
            assert_eq!(ns(&event["dur"]), end - start);
            assert_eq!(event["name"], catalog.site_name(thread.sites[span]));
            assert_eq!(event["pid"], 42);
            assert!(event.get("args").is_none());
            match thread.sites[span].0 {
                1 => assert_eq!(event["cat"], "app::codec"),
                2 => assert_eq!(event["cat"], "io"),
                _ => assert!(event.get("cat").is_none()),
            }
        }
    }
    assert_eq!(i, 20 * 3 * 300);
    assert_eq!(found.len(), i);

    let names: Vec<(&Value, &Value, &Value)> = of_phase(&events, "M")
        .into_iter()
        .map(|event| (&event["name"], &event["tid"], &event["args"]["name"]))
        .collect();
    assert_eq!(names.len(), 4);
    assert_eq!(*names[0].0, "process_name");
    assert_eq!(*names[0].2, "app \"x\"");
    for (thread, label) in [(0, "main"), (1, NASTY), (2, "thread 43")] {
        assert_eq!(*names[1 + thread].0, "thread_name");
        assert_eq!(*names[1 + thread].1, tids[thread]);
        assert_eq!(*names[1 + thread].2, label);
    }
}

#[test]
fn arguments_and_messages_with_any_contents_survive() {
    let lists = vec![
        vec![ArgValue::Bool(true), ArgValue::Str(NASTY.into())],
        vec![ArgValue::I64(i64::MIN), ArgValue::U64(i64::MAX as u64)],
        vec![ArgValue::U64(u64::MAX), ArgValue::F64(-0.1)],
        vec![ArgValue::F64(f64::NAN), ArgValue::F64(f64::INFINITY)],
        vec![ArgValue::F64(f64::MAX), ArgValue::F64(5e-324)],
        vec![ArgValue::F64(-f64::INFINITY), ArgValue::F64(2.0)],
        vec![ArgValue::Bool(false); 5],
        Vec::new(),
    ];
    let list: Vec<_> = (0..2 * lists.len() as u64)
        .map(|i| (3_000 + 6 * i, 3, 1))
        .collect();
    let mut thread = spans(0, &list);
    for (i, values) in lists.into_iter().enumerate() {
        thread.args.push(filled!(SpanArgs {
            span: 2 * i as u32,
            values,
        }));
    }
    thread.messages.push(filled!(Message {
        ticks: 3_000 + 3 * 5_001,
        text: NASTY.into(),
    }));
    let json = export(&[batch(vec![thread])], Vec::new());
    let events = events(&json);
    let found = of_phase(&events, "X");
    let args = |i: usize, key: &str| &found[2 * i]["args"][key];
    assert_eq!(*args(0, "a"), true);
    assert_eq!(*args(0, NASTY), NASTY);
    assert_eq!(*args(1, "a"), i64::MIN);
    assert_eq!(*args(1, NASTY), i64::MAX);
    assert_eq!(*args(2, "a"), u64::MAX.to_string());
    assert_eq!(*args(2, NASTY), -0.1);
    assert_eq!(*args(3, "a"), "NaN");
    assert_eq!(*args(3, NASTY), "inf");
    assert_eq!(*args(4, "a"), f64::MAX);
    assert_eq!(*args(4, NASTY), 5e-324);
    assert_eq!(*args(5, "a"), "-inf");
    assert_eq!(*args(5, NASTY), 2.0);
    assert_eq!(*args(6, "c"), false);
    assert_eq!(*args(6, "arg4"), false);
    assert!(
        found
            .iter()
            .skip(1)
            .step_by(2)
            .all(|span| span.get("args").is_none())
    );
    assert!(found[14].get("args").is_none());

    let messages = of_phase(&events, "i");
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["name"], NASTY);
    assert_eq!(messages[0]["s"], "t");
    assert_eq!(messages[0]["tid"], 42);
    // A third of 2^40 is rounded down, which loses the last nanosecond.
    assert_eq!(ns(&messages[0]["ts"]), 5_000);
}

#[test]
fn metrics_frames_and_drops_become_counters_and_tracks() {
    let frame = |index: u64, loss: f64, dropped_spans: u64| {
        filled!(FrameSnapshot {
            catalog: catalog(),
            index,
            start_ticks: 3_000 + index * 30_000,
            end_ticks: 3_000 + (index + 1) * 30_000,
            metrics: [(0, 16.5), (1, loss), (9, 1.0)]
                .map(|(column, value)| filled!(MetricValue { column, value }))
                .to_vec(),
            dropped_spans
        })
    };
    let secondary = filled!(FrameSnapshot {
        frame_set: 1,
        metrics: Vec::new(),
        ..frame(7, 0.0, 0)
    });
    let frames = vec![
        frame(0, 0.25, 0),
        frame(1, f64::NAN, 3),
        frame(2, 1e300, 0),
        secondary,
    ];
    let json = export(&[], frames);
    let events = events(&json);
    let of = |name: &str, key: &str| -> Vec<(i64, f64)> {
        of_phase(&events, "C")
            .into_iter()
            .filter(|event| event["name"] == name)
            .map(|event| {
                (
                    ns(&event["ts"]),
                    event["args"][key].as_f64().expect("a number"),
                )
            })
            .collect()
    };
    assert_eq!(
        of("frame_ms", "ms"),
        [(0, 16.5), (9_999, 16.5), (19_999, 16.5)]
    );
    assert_eq!(of("loss", "value"), [(0, 0.25), (19_999, 1e300)]);
    assert_eq!(
        of("dropped_spans", "value"),
        [(9_999, 3.0), (19_999, 0.0), (69_999, 0.0)]
    );
    let begins: Vec<(&Value, &Value)> = of_phase(&events, "b")
        .into_iter()
        .map(|event| (&event["name"], &event["args"]["index"]))
        .collect();
    assert_eq!(begins.len(), 4);
    assert_eq!(
        (begins[2].0.as_str(), begins[2].1.as_u64()),
        (Some("frame"), Some(2))
    );
    assert_eq!(
        (begins[3].0.as_str(), begins[3].1.as_u64()),
        (Some("frame of physics"), Some(7))
    );
    assert_eq!(of_phase(&events, "e").len(), 4);
}

#[test]
fn the_parent_comes_first_among_spans_with_equal_times() {
    let mut thread = spans(
        0,
        &[
            (3_000, 30, 2),
            (3_001, 30, 3),
            (3_000, 33, 2),
            (3_000, 33, 1),
        ],
    );
    for (span, value) in [(0, 10), (2, 12), (3, 13)] {
        thread.args.push(filled!(SpanArgs {
            span,
            values: vec![ArgValue::I64(value)],
        }));
    }
    let json = export(&[batch(vec![thread])], Vec::new());
    let events = events(&json);
    let found: Vec<(&Value, Option<i64>)> = of_phase(&events, "X")
        .into_iter()
        .map(|event| {
            (
                &event["name"],
                event["args"].get("a").and_then(Value::as_i64),
            )
        })
        .collect();
    // The first span ends a nanosecond before the others, whose ticks are in the same nanoseconds.
    let found: Vec<(Option<&str>, Option<i64>)> = found
        .into_iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    assert_eq!(
        found,
        [
            (Some(NASTY), Some(10)),
            (Some("step"), Some(13)),
            (Some(NASTY), Some(12)),
            (Some("?"), None),
        ]
    );
}

/// A scope with or without children: call site, ticks before it begins, and ticks at its end.
fn grow(
    random: &mut vor_fixtures::Random,
    now: &mut u64,
    depth: u64,
    spans: &mut Vec<(u64, u64, u32, u64)>,
) {
    *now += random.below(2) as u64;
    let (start, site) = (*now, 1 + random.below(3) as u32);
    let children = if depth < 6 { random.below(4) } else { 0 };
    for _ in 0..children {
        grow(random, now, depth + 1, spans);
    }
    // A span of 0 ns has no children in this format.
    *now += if children == 0 {
        6 + random.below(6) as u64
    } else {
        random.below(2) as u64
    };
    spans.push((start, *now - start, site, depth));
}

#[test]
fn parents_contain_children_that_begin_or_end_in_the_same_nanosecond() {
    for seed in 0..200 {
        let mut random = vor_fixtures::Random(seed);
        let (mut now, mut made) = (3_000, Vec::new());
        while made.len() < 100 {
            grow(&mut random, &mut now, 0, &mut made);
        }
        let mut batches = Vec::new();
        let mut rest = made.as_slice();
        while !rest.is_empty() {
            let (part, later) = rest.split_at(random.below(4).min(rest.len()));
            let part: Vec<_> = part.iter().map(|span| (span.0, span.1, span.2)).collect();
            batches.push(batch(vec![spans(0, &part)]));
            rest = later;
        }
        let json = export(&batches, vec![]);
        let written = events(&json);
        let mut written: Vec<_> = of_phase(&written, "X")
            .into_iter()
            .map(|span| {
                (
                    ns(&span["ts"]),
                    ns(&span["dur"]),
                    span["name"].as_str().unwrap(),
                )
            })
            .collect();
        // The order of viewers: by begin, longer spans first, otherwise the order of the file.
        written.sort_by_key(|span| (span.0, -span.1));
        let mut around: Vec<i64> = Vec::new();
        let found = written.into_iter().map(|(start, length, name)| {
            around.retain(|end| *end > start);
            around.push(start + length);
            (around.len() as u64 - 1, name.to_owned(), start, length)
        });
        let catalog = catalog();
        let at = |ticks| catalog.unix_ns(ticks) - START_NS;
        // The order of begins, parents first.
        made.reverse();
        made.sort_by_key(|span| span.0);
        let expected = made.iter().map(|&(start, length, site, depth)| {
            let name = catalog.site_name(SiteId(site)).to_owned();
            (depth, name, at(start), at(start + length) - at(start))
        });
        let (found, expected): (Vec<_>, Vec<_>) = (found.collect(), expected.collect());
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn a_span_from_before_the_recording_begins_with_it() {
    let batch = batch(vec![spans(0, &[(0, 1_500, 1), (1_500, 4_500, 1)])]);
    let json = export(&[batch], Vec::new());
    let events = events(&json);
    let times: Vec<(i64, i64)> = of_phase(&events, "X")
        .into_iter()
        .map(|event| (ns(&event["ts"]), ns(&event["dur"])))
        .collect();
    assert_eq!(times, [(0, 0), (0, 999)]);
}

#[test]
fn an_empty_trace_is_an_empty_array() {
    assert!(events(&export(&[], Vec::new())).is_empty());
}

#[test]
fn a_trace_that_was_flushed_but_not_finished_lacks_only_its_bracket() {
    let mut exporter = ChromeExporter::new(Vec::new());
    let batch = batch(vec![spans(0, &[(3_000, 30, 1)])]);
    exporter
        .accept_batch(&batch)
        .expect("a writer that accepts everything");
    exporter.flush().expect("a writer that accepts everything");
    let mut json = exporter.into_inner();
    json.push(b']');
    assert_eq!(of_phase(&events(&json), "X").len(), 1);
}

#[test]
fn a_trace_cut_off_between_any_two_events_lacks_only_its_bracket() {
    let mut thread = spans(0, &[(3_100, 30, 1), (3_000, 300, 2), (3_400, 30, 1)]);
    thread.args = vec![filled!(SpanArgs {
        span: 1,
        values: vec![ArgValue::Bool(true), ArgValue::Str(NASTY.into())],
    })];
    thread.messages = vec![filled!(Message {
        ticks: 3_050,
        text: NASTY.into(),
    })];
    thread.task_events = [
        TaskEventKind::Poll { duration_ticks: 9 },
        TaskEventKind::Step,
    ]
    .map(|kind| {
        filled!(TaskEvent {
            task: 7,
            site: SiteId(2),
            start_ticks: 3_060,
            kind,
        })
    })
    .into();
    thread.flows = vec![filled!(FlowPoint {
        ticks: 3_070,
        flow: 8,
        stage: FlowStage::Begin,
    })];
    let json = export(
        &[batch(vec![thread])],
        vec![filled!(FrameSnapshot {
            catalog: catalog(),
            start_ticks: 3_000,
            end_ticks: 4_000,
            metrics: vec![filled!(MetricValue {
                column: 0,
                value: 1.5,
            })]
        })],
    );
    let whole = events(&json);
    let ends: Vec<usize> = json
        .windows(2)
        .enumerate()
        .filter(|(_, two)| two == b",\n")
        .map(|(at, _)| at)
        .collect();
    assert_eq!(ends.len() + 1, whole.len());
    for (before, &end) in ends.iter().enumerate() {
        for rest in [&b"]"[..], b",\n{}]"] {
            let cut = events(&[&json[..end], rest].concat());
            assert_eq!(cut[..=before], whole[..=before]);
        }
    }
}

#[test]
fn arguments_of_late_spans_are_found() {
    let times = [
        (3_000, 30, 1),
        (3_100, 30, 1),
        (3_200, 30, 1),
        (3_300, 30, 1),
    ];
    let arg_of = |spans_with_args: &[u32]| {
        let mut thread = spans(0, &times);
        let args = spans_with_args.iter().map(|&span| {
            filled!(SpanArgs {
                span,
                values: vec![ArgValue::U64(span.into())],
            })
        });
        thread.args = args.collect();
        let json = export(&[batch(vec![thread])], Vec::new());
        let events = events(&json);
        let spans = of_phase(&events, "X");
        spans
            .iter()
            .map(|span| span["args"]["a"].as_u64())
            .collect::<Vec<_>>()
    };
    assert_eq!(arg_of(&[2, 3]), [None, None, Some(2), Some(3)]);
    assert_eq!(arg_of(&[1, 3]), [None, Some(1), None, Some(3)]);
}

#[test]
fn steps_are_points_of_their_task_and_an_open_task_ends_with_the_trace() {
    let kinds = [
        (3_000, TaskEventKind::Begin { given_id: 5 }),
        (3_300, TaskEventKind::Step),
        (
            3_600,
            TaskEventKind::Poll {
                duration_ticks: 300,
            },
        ),
    ];
    let mut thread = spans(0, &[]);
    thread.task_events = kinds
        .map(|(start_ticks, kind)| {
            filled!(TaskEvent {
                task: 7,
                site: SiteId(1),
                start_ticks,
                kind,
            })
        })
        .into();
    let json = export(&[batch(vec![thread])], Vec::new());
    let events = events(&json);
    let mut found: Vec<_> = events
        .iter()
        .filter(|event| event["cat"] == "task")
        .map(|event| {
            assert_eq!(event["id2"]["local"], "7");
            let phase = event["ph"].as_str().unwrap();
            let name = event["name"].as_str().unwrap();
            let is_unfinished = event["args"]["unfinished"] == true;
            (ns(&event["ts"]), phase, name, is_unfinished)
        })
        .collect();
    found.sort_unstable();
    let at = |ticks| catalog().unix_ns(ticks) - START_NS;
    let expected = [
        (at(3_000), "b", "step", false),
        (at(3_300), "n", "step", false),
        (at(3_600), "b", "poll", false),
        (at(3_900), "e", "poll", false),
        // The last event of any task is the end of the poll.
        (at(3_900), "e", "step", true),
    ];
    assert_eq!(found, expected);
}

#[test]
fn nothing_follows_the_end() {
    let mut exporter = ChromeExporter::new(Vec::new());
    exporter.finish().expect("a writer that accepts everything");
    exporter.finish().expect("a second end does nothing");
    let late = exporter.accept_batch(&batch(vec![spans(0, &[(3_000, 30, 1)])]));
    assert!(late.expect_err("a finished trace").is_sink());
    assert!(events(&exporter.into_inner()).is_empty());
}

#[test]
fn a_thread_that_gets_its_name_late_keeps_its_track() {
    let mut early = Catalog::clone(&catalog());
    early.threads = Arc::new(vec![Some(Arc::new(filled!(ThreadInfo {
        os_id: 42,
        name: String::new(),
    })))]);
    let mut first = batch(vec![spans(0, &[(3_000, 30, 1)])]);
    first.catalog = Arc::new(early);
    let second = batch(vec![spans(0, &[(4_000, 30, 2)])]);
    let json = export(&[first, second], Vec::new());
    let events = events(&json);
    let names: Vec<&Value> = of_phase(&events, "M")
        .into_iter()
        .filter(|event| event["name"] == "thread_name" && event["tid"] == 42)
        .map(|event| &event["args"]["name"])
        .collect();
    assert_eq!(names, ["thread 42", "main"]);
    let spans = of_phase(&events, "X");
    assert!(spans.len() == 2 && spans.iter().all(|span| span["tid"] == 42));
}

#[test]
fn a_full_disk_is_an_error() {
    let mut exporter = ChromeExporter::new(FullDisk);
    let many = batch(vec![spans(0, &vec![(3_000, 30, 1); 2_000])]);
    let error = exporter.accept_batch(&many).expect_err("a full disk");
    assert!(error.is_io());
    assert!(
        error
            .to_string()
            .starts_with("cannot write the Chrome trace: ")
    );
}

/// Nested spans of three threads, with arguments.
#[test]
fn nested_spans_have_their_recorded_times_and_depths() {
    let mut random = vor_fixtures::Random(77);
    let mut draw = |below: u64| random.below(below as usize) as u64;
    let catalog = catalog();
    let mut builder = TreeBuilder::new(1 << 20);
    let mut batches = Vec::new();
    for thread in 0..3 {
        let (mut now, mut open, mut ended) = (3_000, Vec::new(), Vec::new());
        let mut opened = false;
        for _ in 0..4_000 {
            // Scopes often open or close together, and a nanosecond or more lies between the end of
            // one and the start of the next.
            let opens = open.is_empty() || (draw(2) == 0 && open.len() < 30);
            now += draw(3) * draw(2_000) + draw(2) + if opens != opened { 6 } else { 0 };
            opened = opens;
            if opens {
                open.push(now);
            } else if let Some(start) = open.pop() {
                ended.push((start, now - start, 1 + draw(2) as u32));
            }
        }
        let mut list = spans(thread, &ended);
        list.args = (0..list.len() as u32)
            .step_by(5)
            .map(|span| {
                filled!(SpanArgs {
                    span,
                    values: vec![ArgValue::U64(u64::from(span)), ArgValue::Str(NASTY.into())],
                })
            })
            .collect();
        builder.add(&list);
        batches.push(batch(vec![list]));
    }
    let json = export(&batches, Vec::new());
    let mut expected = Vec::new();
    for tree in builder.finish().threads {
        let tid = [42, 43, (1 << 30) + 2][tree.thread.0 as usize];
        for span in &tree.spans {
            let start_ns = catalog.unix_ns(span.start_ticks);
            expected.push(serde_json::json!({
                "tid": tid,
                "ts": start_ns - START_NS,
                "dur": catalog.unix_ns(span.end_ticks()) - start_ns,
                "depth": span.depth,
                "name": catalog.site_name(span.site),
                "a": tree.args(span).first().map(|value| match value {
                    ArgValue::U64(value) => *value,
                    other => panic!("an unsigned argument, not {other:?}"),
                }),
            }));
        }
    }
    let key = |span: &Value| {
        let number = |key: &str| span[key].as_i64();
        (
            number("tid"),
            number("ts"),
            number("dur"),
            span["name"].to_string(),
            span["a"].as_u64(),
        )
    };
    let events = events(&json);
    let mut found: Vec<_> = of_phase(&events, "X")
        .into_iter()
        .map(|event| {
            key(&serde_json::json!({
                "tid": event["tid"],
                "ts": ns(&event["ts"]),
                "dur": ns(&event["dur"]),
                "name": event["name"],
                "a": event["args"]["a"],
            }))
        })
        .collect();
    let mut sorted: Vec<_> = expected.iter().map(key).collect();
    found.sort();
    sorted.sort();
    assert!(found.len() > 5_000);
    assert_eq!(found, sorted);
}
