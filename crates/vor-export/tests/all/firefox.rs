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
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::sink::FrameSink;
use vor_export::firefox::FirefoxExporter;
use vor_fixtures::views::{self, NASTY, Views};

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
    let tid = ((1 << 30) - 1).to_string();
    let found = markers(&profile, &tid);
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
    let tid = ((1 << 30) - 1).to_string();
    let found = markers(&profile, &tid);
    assert_eq!(found[0].0, "left out of the profile");
    assert_eq!(found[0].3["count"], skipped as f64);
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
