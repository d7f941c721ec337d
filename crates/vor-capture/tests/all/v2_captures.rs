//! Captures of the predecessor, compared with the values that its own reader and puffin found in
//! them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

use std::path::{Path, PathBuf};

use serde_json::Value;
use vor_capture::format::v2::flame::{self, Flame};
use vor_capture::reader::{Capture, Reader};

const NAMES: [&str; 6] = [
    "metrics_only",
    "user_units",
    "flame",
    "every3_threads",
    "max5",
    "torn",
];

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../.ci/data/v2")
        .join(file)
}

fn expected(name: &str) -> Value {
    let text = std::fs::read_to_string(data(&format!("{name}.expected.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// Compares bit by bit: finite numbers are stored as their shortest text, others by name.
fn assert_number(expected: &Value, found: f64, what: &str) {
    let bits = match expected {
        Value::String(text) => match text.as_str() {
            "inf" => f64::INFINITY.to_bits(),
            "-inf" => f64::NEG_INFINITY.to_bits(),
            nan => u64::from_str_radix(nan.strip_prefix("nan:0x").unwrap(), 16).unwrap(),
        },
        number => number.as_f64().unwrap().to_bits(),
    };
    assert_eq!(found.to_bits(), bits, "{what}: {found} is not {expected}");
}

fn fnv1a64(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn scope_name(flame: &Flame, id: u32) -> &str {
    let scope = flame.scopes.iter().find(|scope| scope.id == Some(id));
    scope.map_or("<undeclared>", |scope| scope.name())
}

fn assert_flame(expected: &Value, bytes: &[u8], what: &str) {
    assert_eq!(expected["len"], bytes.len(), "{what}");
    assert_eq!(expected["fnv1a64"], fnv1a64(bytes), "{what}");
    let flame = flame::parse(bytes).unwrap();
    assert_eq!(expected["frame_index"], flame.frame_index, "{what}");
    assert_eq!(expected["range_ns"][0], flame.range_ns.0, "{what}");
    assert_eq!(expected["range_ns"][1], flame.range_ns.1, "{what}");
    assert_eq!(expected["n_scope_details"], flame.scopes.len(), "{what}");
    let threads = array(&expected["threads"]);
    assert_eq!(threads.len(), flame.threads.len(), "{what}");
    for (thread, found) in threads.iter().zip(&flame.threads) {
        assert_eq!(thread["name"], found.name, "{what}");
        assert_eq!(
            thread["start_time_ns"].as_i64(),
            found.start_time_ns,
            "{what}"
        );
        assert_eq!(thread["num_scopes"], found.spans.len(), "{what}");
        assert_eq!(array(&thread["scopes"]).len(), found.spans.len(), "{what}");
        let mut lines = String::new();
        for (scope, span) in array(&thread["scopes"]).iter().zip(&found.spans) {
            let name = scope_name(&flame, span.scope_id);
            let duration = span.end_ns - span.start_ns;
            assert_eq!(scope["name"], name, "{what}");
            assert_eq!(scope["depth"], span.depth, "{what}");
            assert_eq!(scope["start_ns"], span.start_ns, "{what}");
            assert_eq!(scope["duration_ns"], duration, "{what}");
            assert_eq!(
                scope.get("data").map_or("", |data| data.as_str().unwrap()),
                span.data
            );
            let (depth, start, data) = (span.depth, span.start_ns, &span.data);
            lines += &format!("{depth}\t{start}\t{duration}\t{name}\t{data}\n");
        }
        assert_eq!(
            thread["scopes_fnv1a64"],
            fnv1a64(lines.as_bytes()),
            "{what}"
        );
    }
}

#[test]
fn every_capture_reads_back_value_by_value() {
    for name in NAMES {
        let expected = expected(name);
        let mut reader = Reader::open(data(&format!("{name}.vor"))).unwrap();
        assert_eq!(expected["version"], 2);
        assert_eq!(expected["flame_enabled"], reader.flame_enabled(), "{name}");
        let columns = array(&expected["columns"]);
        assert_eq!(columns.len(), reader.columns().len(), "{name}");
        for (column, found) in columns.iter().zip(reader.columns()) {
            assert_eq!(column["name"], found.name, "{name}");
            assert_eq!(column["unit"], found.unit, "{name}");
        }
        let frames = array(&expected["frames"]);
        assert_eq!(expected["n_frames"], frames.len(), "{name}");
        for (i, frame) in frames.iter().enumerate() {
            let what = format!("{name}, frame {i}");
            let found = reader.next_frame().unwrap().expect(&what);
            let system = array(&frame["system"]);
            assert_eq!(system.len(), found.system.len(), "{what}");
            for (value, &found) in system.iter().zip(&found.system) {
                assert_number(value, found, &what);
            }
            let user = array(&frame["user"]);
            assert_eq!(user.len(), found.user.len(), "{what}");
            for (pair, (found_name, found_value)) in user.iter().zip(&found.user) {
                assert_eq!(pair[0], *found_name, "{what}");
                assert_number(&pair[1], *found_value, &what);
            }
            match (&frame["flame"], &found.flame) {
                (Value::Null, None) => {}
                (flame, Some(bytes)) if flame.is_object() => assert_flame(flame, bytes, &what),
                (flame, found) => panic!("{what}: flame {found:?} is not {flame}"),
            }
        }
        assert_eq!(reader.next_frame().unwrap(), None, "{name}");
        assert_eq!(reader.next_frame().unwrap(), None, "{name}: called again");
        let units = array(&expected["user_columns"]);
        assert_eq!(units.len(), reader.user_columns().len(), "{name}");
        for (column, found) in units.iter().zip(reader.user_columns()) {
            assert_eq!(column["name"], found.name, "{name}");
            assert_eq!(column["unit"], found.unit, "{name}");
        }
        assert_eq!(
            reader.damage().is_none(),
            name != "torn",
            "{name}: {:?}",
            reader.damage()
        );
    }
}

#[test]
fn a_torn_capture_names_its_unfinished_record() {
    let mut reader = Reader::open(data("torn.vor")).unwrap();
    while reader.next_frame().unwrap().is_some() {}
    let damage = reader.damage();
    assert_eq!(damage.count, 0);
    assert_eq!(damage.tail.as_ref().unwrap().bytes, 223);
}

/// A flame that repeats the previous one is not a new one.
fn fresh_flames(expected: &Value) -> Vec<Option<&Value>> {
    let mut last = None;
    let frames = array(&expected["frames"]).iter();
    let fresh = frames.map(|frame| {
        let flame = frame["flame"].is_object().then_some(&frame["flame"])?;
        let repeats = last == Some(&flame["frame_index"]);
        last = Some(&flame["frame_index"]);
        (!repeats).then_some(flame)
    });
    fresh.collect()
}

#[test]
fn captures_give_any_frame_with_its_trees() {
    for name in NAMES {
        let expected = expected(name);
        let flames = fresh_flames(&expected);
        let mut capture = Capture::open(data(&format!("{name}.vor"))).unwrap();
        let info = capture.info();
        assert_eq!(info.version, 2);
        assert_eq!(info.closed, name != "torn", "{name}");
        assert_eq!(capture.frame_count(), flames.len() as u64, "{name}");
        let spans: u64 = flames
            .iter()
            .flatten()
            .map(|flame| flame["num_scopes"].as_u64().unwrap())
            .sum();
        assert_eq!(info.spans, spans, "{name}");
        // Backwards, so that every frame is sought; then forwards.
        for i in (0..flames.len()).rev().chain(0..flames.len()) {
            let frame = capture.frame(i as u64).unwrap();
            let what = format!("{name}, frame {i}");
            assert_eq!(frame.index, i as u64, "{what}");
            let values = &expected["frames"][i];
            for (column, value) in array(&expected["columns"])
                .iter()
                .zip(array(&values["system"]))
            {
                assert_number(
                    value,
                    frame.metric(column["name"].as_str().unwrap()).unwrap(),
                    &what,
                );
            }
            for pair in array(&values["user"]) {
                assert_number(
                    &pair[1],
                    frame.metric(pair[0].as_str().unwrap()).unwrap(),
                    &what,
                );
            }
            let threads = flames[i].map_or(&[][..], |flame| array(&flame["threads"]));
            assert_eq!(frame.threads.len(), threads.len(), "{what}");
            for tree in &frame.threads {
                let name = capture.catalog().thread_name(tree.thread);
                let thread = threads
                    .iter()
                    .find(|thread| thread["name"] == name)
                    .expect(&what);
                let scopes = array(&thread["scopes"]);
                assert_eq!(scopes.len(), tree.spans.len(), "{what}");
                for (scope, span) in scopes.iter().zip(&tree.spans) {
                    assert_eq!(scope["name"], frame.catalog.site_name(span.site), "{what}");
                    assert_eq!(scope["depth"], span.depth, "{what}");
                    assert_eq!(scope["start_ns"], span.start_ticks, "{what}");
                    assert_eq!(scope["duration_ns"], span.duration_ticks, "{what}");
                    assert!(span.end_ticks() <= frame.end_ticks, "{what}");
                }
            }
            assert!(frame.start_ticks <= frame.end_ticks, "{what}");
        }
        let frames: Vec<_> = capture.frames(0..u64::MAX).map(Result::unwrap).collect();
        for pair in frames.windows(2) {
            assert_eq!(pair[0].end_ticks, pair[1].start_ticks, "{name}");
        }
    }
}

#[test]
fn flames_equal_those_that_puffin_reads() {
    for name in ["flame", "every3_threads", "max5", "torn"] {
        let mut reader = Reader::open(data(&format!("{name}.vor"))).unwrap();
        while let Some(frame) = reader.next_frame().unwrap() {
            let Some(bytes) = frame.flame else { continue };
            let ours = flame::parse(&bytes).unwrap();
            let theirs = puffin::FrameData::read_next(&mut bytes.as_slice())
                .unwrap()
                .unwrap();
            assert_eq!(ours.frame_index, theirs.meta().frame_index);
            assert_eq!(ours.range_ns, theirs.meta().range_ns);
            let spans: usize = ours.threads.iter().map(|thread| thread.spans.len()).sum();
            assert_eq!(spans, theirs.meta().num_scopes);
        }
    }
}
