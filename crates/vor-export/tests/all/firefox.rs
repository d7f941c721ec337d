//! Profiles for the Firefox Profiler, read table by table.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, AsyncSpan, Message, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{
    Catalog, Column, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::sink::FrameSink;
use vor_export::firefox::FirefoxExporter;
use vor_fixtures::views::{self, NASTY, Views};

/// The number of the thread of frames and metrics.
const FRAMES_TID: u64 = (1 << 30) - 1;

fn export(
    mut exporter: FirefoxExporter<Vec<u8>>,
    batches: &[SpanBatch],
    frames: &[FrameSnapshot],
) -> Value {
    for batch in batches {
        exporter
            .accept_batch(batch)
            .expect("a writer that takes all");
    }
    for frame in frames {
        let frame = Arc::new(frame.clone());
        exporter
            .accept_frame(&frame)
            .expect("a writer that takes all");
    }
    exporter.finish().expect("a writer that takes all");
    exporter.finish().expect("a second end does nothing");
    serde_json::from_slice(&exporter.into_inner()).expect("valid JSON")
}

fn new() -> FirefoxExporter<Vec<u8>> {
    FirefoxExporter::new(Vec::new())
}

fn thread<'a>(profile: &'a Value, tid: &str) -> &'a Value {
    let threads = profile["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["tid"] == tid).unwrap()
}

fn text<'a>(thread: &'a Value, index: &Value) -> &'a str {
    let index = index.as_u64().unwrap() as usize;
    thread["stringArray"][index].as_str().unwrap()
}

fn at(column: &Value, index: usize) -> &Value {
    &column[index]
}

/// Returns the names of a stack, the outermost first.
fn stack(thread: &Value, index: &Value) -> Vec<String> {
    let mut names = Vec::new();
    let mut index = index.clone();
    while let Some(i) = index.as_u64() {
        let frame = at(&thread["stackTable"]["frame"], i as usize)
            .as_u64()
            .unwrap();
        let func = at(&thread["frameTable"]["func"], frame as usize)
            .as_u64()
            .unwrap();
        names.push(text(thread, at(&thread["funcTable"]["name"], func as usize)).to_owned());
        index = at(&thread["stackTable"]["prefix"], i as usize).clone();
    }
    names.reverse();
    names
}

fn ns(milliseconds: &Value) -> i64 {
    (milliseconds.as_f64().unwrap() * 1e6).round() as i64
}

#[test]
fn samples_have_the_self_times_of_all_stacks_at_their_times() {
    for seed in 0..10 {
        let Views { batches, rows } = views::make(seed, 2_000);
        let profile = export(new(), &batches, &[]);
        for (id, tid) in ["42", "43", "44"].into_iter().enumerate() {
            let mut expected: BTreeMap<Vec<String>, i64> = BTreeMap::new();
            let of_thread = |((thread, path), ns): (&(u32, Vec<u32>), &u64)| {
                (*thread as usize == id && *ns > 0).then(|| (path.clone(), *ns as i64))
            };
            for (path, ns) in views::self_times(&rows).iter().filter_map(of_thread) {
                let names = path.iter().map(|&site| views::name(site)).collect();
                *expected.entry(names).or_default() += ns;
            }
            let thread = thread(&profile, tid);
            let samples = &thread["samples"];
            assert_eq!(samples["weightType"], "tracing-ms");
            let mut found: BTreeMap<Vec<String>, i64> = BTreeMap::new();
            let (mut now, mut free_from) = (0, 0);
            for i in 0..samples["length"].as_u64().unwrap() as usize {
                now += ns(&samples["timeDeltas"][i]);
                assert!(now >= free_from, "pieces of time do not overlap");
                let weight = ns(&samples["weight"][i]);
                free_from = now + weight;
                if !samples["stack"][i].is_null() {
                    *found
                        .entry(stack(thread, &samples["stack"][i]))
                        .or_default() += weight;
                }
            }
            assert_eq!(found, expected);
            let last = rows
                .iter()
                .filter(|row| row.0 as usize == id)
                .map(|row| row.4);
            assert_eq!(now as u64, last.max().unwrap());
        }
        assert_eq!(thread(&profile, "42")["isMainThread"], true);
        assert_eq!(thread(&profile, "42")["name"], "app \"x\"");
        assert_eq!(thread(&profile, "43")["name"], NASTY);
        assert_eq!(thread(&profile, "44")["processName"], "app \"x\"");
    }
}

/// Returns name, begin and end in nanoseconds, and the fields by label.
type Found = (String, i64, Option<i64>, Value);

fn markers(profile: &Value, tid: &str) -> Vec<Found> {
    let thread = thread(profile, tid);
    let markers = &thread["markers"];
    let schemas = profile["meta"]["markerSchema"].as_array().unwrap();
    let one = |i: usize| {
        let data = &markers["data"][i];
        let schema = schemas.iter().find(|schema| schema["name"] == data["type"]);
        let schema = schema.expect("a declared type");
        let key = if schema.get("fields").is_some() {
            "fields"
        } else {
            "data"
        };
        let mut fields = serde_json::Map::new();
        for field in schema[key].as_array().unwrap() {
            let Some(name) = field["key"].as_str() else {
                continue;
            };
            let value = match field["format"].as_str().unwrap() {
                "unique-string" => text(thread, &data[name]).into(),
                _ => data[name].clone(),
            };
            fields.insert(field["label"].as_str().unwrap().to_owned(), value);
        }
        let end = (!markers["endTime"][i].is_null()).then(|| ns(&markers["endTime"][i]));
        let end = end.filter(|_| markers["phase"][i] == 1);
        let name = text(thread, &markers["name"][i]).to_owned();
        (
            name,
            ns(&markers["startTime"][i]),
            end,
            Value::Object(fields),
        )
    };
    (0..markers["length"].as_u64().unwrap() as usize)
        .map(one)
        .collect()
}

#[test]
fn arguments_messages_and_tasks_are_markers_with_typed_fields() {
    let mut batch = filled!(ThreadBatch {
        thread: ThreadId(1),
        start_ticks: vec![1_010, 1_020, 1_030],
        duration_ticks: vec![5; 3],
        sites: [1, 1, 7].map(SiteId).to_vec()
    });
    let values = [
        vec![ArgValue::I64(-5), ArgValue::Str(NASTY.into())],
        vec![ArgValue::F64(f64::NAN), ArgValue::Bool(true)],
        vec![ArgValue::U64(u64::MAX), ArgValue::F64(0.25)],
    ];
    for (span, values) in (0..).zip(values) {
        batch.args.push(filled!(SpanArgs { span, values }));
    }
    batch.messages.push(filled!(Message {
        ticks: 1_040,
        text: NASTY.into(),
    }));
    batch.async_spans.push(filled!(AsyncSpan {
        id: 9,
        site: SiteId(3),
        start_ticks: 1_001,
        duration_ticks: 60,
    }));
    let batch = filled!(SpanBatch {
        catalog: views::catalog(),
        threads: vec![batch],
    });
    let profile = export(new(), &[batch], &[]);
    let expected = [
        ("step", 10, Some(15), json!({"n": -5.0, NASTY: NASTY})),
        ("step", 20, Some(25), json!({"n": "NaN", NASTY: "true"})),
        (
            "?",
            30,
            Some(35),
            json!({"arg0": u64::MAX.to_string(), "arg1": 0.25}),
        ),
        ("message", 40, None, json!({"text": NASTY})),
        ("decode", 1, Some(61), json!({"task": 9.0})),
    ];
    let found = markers(&profile, "43");
    assert_eq!(found.len(), expected.len());
    for (name, start, end, fields) in expected {
        assert!(
            found.contains(&(name.into(), start, end, fields.clone())),
            "{fields}"
        );
    }
    let names: Vec<_> = profile["meta"]["markerSchema"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    let names: std::collections::BTreeSet<_> = names
        .iter()
        .map(|schema| schema["name"].to_string())
        .collect();
    assert_eq!(names.len(), 5, "types have names of their own");
}

fn frame(index: u64, memory: f64, loss: f64, dropped_spans: u64) -> FrameSnapshot {
    filled!(FrameSnapshot {
        catalog: views::catalog(),
        index,
        start_ticks: 1_000 + index * 100,
        end_ticks: 1_100 + index * 100,
        metrics: [(0, memory), (1, loss), (9, 1.0)]
            .map(|(column, value)| filled!(MetricValue { column, value }))
            .to_vec(),
        dropped_spans
    })
}

#[test]
fn frames_metrics_and_drops_are_markers_and_counters() {
    let frames = [
        frame(0, 16.0, 0.5, 0),
        frame(1, 12.0, f64::NAN, 3),
        frame(2, 12.5, 0.25, 0),
    ];
    let profile = export(new(), &[], &frames);
    let counter = &profile["counters"][0];
    assert_eq!(
        (&counter["name"], &counter["category"]),
        (&"memory".into(), &"Memory".into())
    );
    assert_eq!(counter["samples"]["count"], json!([16e6, -4e6, 0.5e6]));
    let found = markers(&profile, &FRAMES_TID.to_string());
    let of = |name: &str| -> Vec<(i64, Value)> {
        let named = found.iter().filter(|marker| marker.0 == name);
        named.map(|marker| (marker.1, marker.3.clone())).collect()
    };
    assert_eq!(of("frame").len(), 3);
    assert_eq!(of("frame")[2], (200, json!({"index": 2.0})));
    assert_eq!(
        of("loss"),
        [(0, json!({"value": 0.5})), (200, json!({"value": 0.25}))]
    );
    assert_eq!(of("dropped spans"), [(100, json!({"count": 3.0}))]);
}

#[test]
fn spans_beyond_the_bound_are_counted() {
    let Views { batches, rows } = views::make(5, 2_000);
    let mut exporter = new().max_spans(500);
    for batch in &batches {
        exporter
            .accept_batch(batch)
            .expect("a writer that takes all");
    }
    let skipped = exporter.skipped();
    // Each thread has a message too, and spans that were open at the bound are accepted beyond it.
    let all = rows.len() as u64 + 3;
    assert!(
        skipped <= all - 500 && skipped >= all - 500 - 20,
        "{skipped} of {all}"
    );
    exporter.finish().expect("a writer that takes all");
    let profile: Value = serde_json::from_slice(&exporter.into_inner()).unwrap();
    let found = markers(&profile, &FRAMES_TID.to_string());
    assert_eq!(found[0].0, "left out of the profile");
    assert_eq!(found[0].3["count"], skipped as f64);
}

/// Returns a batch of thread 0 with a span of each start and duration, in the order of their ends.
fn spans(catalog: &Arc<Catalog>, spans: &[(u64, u64)]) -> SpanBatch {
    let thread = filled!(ThreadBatch {
        start_ticks: spans.iter().map(|(start, _)| *start).collect(),
        duration_ticks: spans.iter().map(|(_, duration)| *duration).collect(),
        sites: vec![SiteId(1); spans.len()]
    });
    filled!(SpanBatch {
        catalog: Arc::clone(catalog),
        threads: vec![thread],
    })
}

#[test]
fn as_many_messages_tasks_and_frames_are_accepted_as_there_is_room() {
    let message = filled!(Message {
        ticks: 1_010,
        text: "message".into(),
    });
    let task = filled!(AsyncSpan {
        id: 1,
        site: SiteId(1),
        start_ticks: 1_010,
        duration_ticks: 5,
    });
    let batch = filled!(SpanBatch {
        catalog: views::catalog(),
        threads: vec![filled!(ThreadBatch {
            messages: vec![message; 3],
            async_spans: vec![task; 3]
        })],
    });
    for (room, expected) in [
        (2, [2, 0, 0]),
        (4, [3, 1, 0]),
        (6, [3, 3, 0]),
        (7, [3, 3, 1]),
    ] {
        let mut exporter = new().max_spans(room);
        exporter.accept_batch(&batch).unwrap();
        for index in 0..2 {
            let frame = frame(index, 1.0, 1.0, 0);
            exporter.accept_frame(&Arc::new(frame)).unwrap();
        }
        let accepted: u64 = expected.iter().sum();
        assert_eq!(exporter.skipped(), 8 - accepted);
        exporter.finish().unwrap();
        let profile: Value = serde_json::from_slice(&exporter.into_inner()).unwrap();
        let mut found = markers(&profile, "42");
        found.extend(markers(&profile, &FRAMES_TID.to_string()));
        let count = |name: &str| found.iter().filter(|marker| marker.0 == name).count() as u64;
        let task_name = views::name(1);
        assert_eq!(["message", &task_name, "frame"].map(count), expected);
    }
}

#[test]
fn beyond_the_bound_only_spans_that_were_open_then_are_accepted() {
    let catalog = views::catalog();
    // The first span is the last within the bound. The second one begins at its end, and the third
    // one is around both.
    let batch = spans(&catalog, &[(1_010, 10), (1_020, 10), (1_000, 40)]);
    let mut exporter = new().max_spans(1);
    exporter.accept_batch(&batch).unwrap();
    assert_eq!(exporter.skipped(), 1);
    exporter.finish().unwrap();
    let profile: Value = serde_json::from_slice(&exporter.into_inner()).unwrap();
    let thread = thread(&profile, "42");
    let samples = &thread["samples"];
    let weights = samples["weight"].as_array().unwrap().iter().map(ns);
    let depths = samples["stack"].as_array().unwrap().iter();
    let depths = depths.map(|index| stack(thread, index).len());
    let found: Vec<_> = weights.zip(depths).collect();
    assert_eq!(found, [(10, 1), (10, 2), (20, 1), (0, 0)]);
}

#[test]
fn a_long_span_has_its_whole_weight_after_short_ones() {
    let catalog = views::catalog();
    let short = (1_010, 10);
    let long = (2_000, 5_000_000_000);
    // It is three samples, which are two more than one: as many as the bound allows.
    let profile = export(new().max_spans(2), &[spans(&catalog, &[short, long])], &[]);
    let weights = &thread(&profile, "42")["samples"]["weight"];
    let sum: i64 = weights.as_array().unwrap().iter().map(ns).sum();
    assert_eq!(sum as u64, short.1 + long.1);
}

/// Returns the profile of threads with these numbers and names, in a process with the number 7.
fn profile_of_threads(threads: &[(u64, &str)]) -> Value {
    let info = |&(os_id, name): &(u64, &str)| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id,
            name: name.into(),
        })))
    };
    let catalog = Arc::new(filled!(Catalog {
        threads: Arc::new(threads.iter().map(info).collect()),
        process: Arc::new(filled!(ProcessInfo { pid: 7 }))
    }));
    let mut batch = spans(&catalog, &[(10, 5)]);
    let first = batch.threads.remove(0);
    batch.threads = (0..threads.len() as u32)
        .map(|id| {
            let mut thread = first.clone();
            thread.thread = ThreadId(id);
            thread
        })
        .collect();
    export(new(), &[batch], &[])
}

#[test]
fn one_thread_is_the_main_thread() {
    let is_main = |threads: &[(u64, &str)]| {
        let profile = profile_of_threads(threads);
        threads
            .iter()
            .map(|(os_id, _)| thread(&profile, &os_id.to_string())["isMainThread"] == true)
            .collect::<Vec<_>>()
    };
    let numbered = [(9, "worker"), (7, "first"), (8, "main")];
    assert_eq!(is_main(&numbered), [false, true, false]);
    let named = [(9, "worker"), (8, "main"), (7, "first")];
    assert_eq!(is_main(&named), [false, true, false]);
}

#[test]
fn a_thread_has_its_own_number_unless_the_exporter_uses_it() {
    let own = |id: u64| FRAMES_TID + 1 + id;
    let known = FRAMES_TID - 1;
    let numbers = [0, known, FRAMES_TID, FRAMES_TID + 1, u64::MAX];
    let profile = profile_of_threads(&numbers.map(|os_id| (os_id, "worker")));
    let threads = profile["threads"].as_array().unwrap();
    let mut found: Vec<_> = threads
        .iter()
        .map(|thread| thread["tid"].as_str().unwrap().to_owned())
        .collect();
    found.sort_unstable();
    let mut expected =
        [FRAMES_TID, own(0), known, own(2), own(3), own(4)].map(|tid| tid.to_string());
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn the_viewer_shows_sixteen_threads_and_the_frames_initially() {
    let visible = |count: u64| {
        let threads: Vec<_> = (1..=count).map(|os_id| (os_id, "worker")).collect();
        let profile = profile_of_threads(&threads);
        profile["meta"]["initialVisibleThreads"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!([3, 16, 17, 40].map(visible), [4, 17, 17, 17]);
}

#[test]
fn categories_differ_in_colour_until_the_colours_repeat() {
    const COLORS: usize = 8;
    let site = |number: usize| {
        Some(Arc::new(filled!(SiteInfo {
            name: "site".into(),
            category: format!("category {number}").into()
        })))
    };
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new((0..COLORS + 2).map(site).collect())
    }));
    let starts: Vec<_> = (0..COLORS as u64 + 2).map(|i| (10 * i, 5)).collect();
    let mut batch = spans(&catalog, &starts);
    batch.threads[0].sites = (1..=COLORS as u32 + 2).map(SiteId).collect();
    let profile = export(new(), &[batch], &[]);
    let colors: Vec<_> = profile["meta"]["categories"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|category| category["name"].as_str().unwrap().starts_with("category"))
        .map(|category| category["color"].as_str().unwrap())
        .collect();
    assert_eq!(colors.len(), COLORS + 2);
    let distinct: std::collections::BTreeSet<_> = colors[..COLORS].iter().collect();
    assert_eq!(distinct.len(), COLORS);
    assert_eq!(colors[COLORS..], colors[..2]);
}

#[test]
fn integers_that_a_double_does_not_have_are_text() {
    const EXACT: u64 = 1 << 53;
    let text = |value: ArgValue| json!(value.to_string());
    let values = [
        (ArgValue::U64(7), json!(7.0)),
        (ArgValue::U64(EXACT), json!(EXACT as f64)),
        (ArgValue::U64(EXACT + 1), text(ArgValue::U64(EXACT + 1))),
        (ArgValue::I64(-(EXACT as i64)), json!(-(EXACT as f64))),
        (
            ArgValue::I64(-(EXACT as i64) - 1),
            text(ArgValue::I64(-(EXACT as i64) - 1)),
        ),
        (ArgValue::I64(i64::MIN), text(ArgValue::I64(i64::MIN))),
    ];
    let mut batch = spans(&views::catalog(), &[(1_010, 10)]);
    batch.threads[0].args.push(filled!(SpanArgs {
        span: 0,
        values: values.iter().map(|(value, _)| value.clone()).collect(),
    }));
    let profile = export(new(), &[batch], &[]);
    let marker = &markers(&profile, "42")[0];
    let fields = marker.3.as_object().unwrap();
    let mut labels: Vec<_> = fields.keys().collect();
    assert_eq!(labels.len(), values.len());
    // The first arguments have names, and the others have numbers.
    let position = |label: &String| -> usize {
        let number = label
            .strip_prefix("arg")
            .map(|number| number.parse().unwrap());
        number.unwrap_or(usize::from(label != "n"))
    };
    labels.sort_by_key(|label| position(label));
    for (label, (value, expected)) in labels.into_iter().zip(&values) {
        assert_eq!(&fields[label], expected, "{value:?}");
    }
}

#[test]
fn memory_is_counted_in_bytes_whatever_its_unit() {
    let kibi = 1024.0_f64;
    let units = [
        ("B", 1.0),
        ("bytes", 1.0),
        ("byte", 1.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", kibi),
        ("MiB", kibi.powi(2)),
        ("GiB", kibi.powi(3)),
    ];
    let column = |(unit, _): (&str, f64)| {
        filled!(Column {
            metric: filled!(MetricColumn {
                name: "memory".into(),
                unit: unit.into(),
            })
        })
    };
    let metrics = |value| {
        (0..units.len() as u32)
            .map(|column| filled!(MetricValue { column, value }))
            .collect()
    };
    let catalog = Arc::new(filled!(Catalog {
        columns: Arc::new(units.map(column).to_vec())
    }));
    let frames = [3.0, 1.0].map(|value| {
        filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            metrics: metrics(value)
        })
    });
    let profile = export(new(), &[], &frames);
    let counters = profile["counters"].as_array().unwrap();
    assert_eq!(counters.len(), units.len());
    for (counter, (unit, bytes)) in counters.iter().zip(units) {
        let expected = json!([3.0 * bytes, -2.0 * bytes]);
        assert_eq!(counter["samples"]["count"], expected, "{unit}");
    }
}

#[test]
fn an_empty_profile_is_a_profile() {
    let profile = export(new(), &[], &[]);
    assert!(profile["meta"]["preprocessedProfileVersion"].is_u64());
    assert_eq!(profile["threads"].as_array().unwrap().len(), 1);
    let mut finished = new();
    finished.finish().expect("a writer that takes all");
    let late = views::make(1, 10).batches.remove(0);
    assert!(
        finished
            .accept_batch(&late)
            .expect_err("a finished file")
            .is_sink()
    );
}

#[test]
fn damaged_spans_are_not_fatal() {
    for seed in 0..20 {
        let profile = export(new().max_spans(1_000), &[views::damaged(seed)], &[]);
        assert_eq!(profile["threads"].as_array().unwrap().len(), 2);
    }
}
