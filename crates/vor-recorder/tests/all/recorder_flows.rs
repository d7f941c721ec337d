//! The numbers of flows in both traces of a recording: one number for all points of a flow, and
//! another for every other flow.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;

use serde_json::Value;
use vor_fixtures::own_process;
use vor_fixtures::wire::{fields, messages, one};
use vor_recorder::hot::flow::{FlowId, flow};
use vor_recorder::setup::Config;
use vor_recorder::sinks::Sink as _;
use vor_recorder::sinks::chrome::ChromeTraceSink;
use vor_recorder::sinks::perfetto::PerfettoSink;
use vor_recorder::{drain, profile_scope};

const FLOWS: usize = 50;
/// Flows that are open at the same time.
const TOGETHER: usize = 10;

/// A point of a flow in a trace: its time, its phase, and the number of its flow as text.
type Point = (u64, char, String);

/// Passes values to another thread and back. Every flow begins here, has two steps there, and ends
/// here.
fn run_flows() {
    let (to, from) = mpsc::channel::<FlowId>();
    let (back, answers) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        for flow in from {
            profile_scope!("handle");
            flow.step();
            flow.step();
            back.send(flow).unwrap();
        }
    });
    for _ in 0..FLOWS / TOGETHER {
        for _ in 0..TOGETHER {
            profile_scope!("send");
            to.send(flow()).unwrap();
        }
        for _ in 0..TOGETHER {
            let flow = answers.recv().unwrap();
            profile_scope!("answer");
            flow.end();
        }
    }
    drop(to);
    worker.join().unwrap();
}

fn points_of_chrome(path: &Path) -> Vec<Point> {
    let events: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let flows = events.iter().filter(|event| event["cat"] == "flow");
    let point = |event: &Value| {
        let ns = (event["ts"].as_f64().unwrap() * 1e3).round() as u64;
        let phase = event["ph"].as_str().unwrap().chars().next().unwrap();
        (ns, phase, event["id"].as_str().unwrap().to_owned())
    };
    flows.map(point).collect()
}

/// Returns the phases of each flow. `Trace.packet` is field 1. A packet has `track_event` in field
/// 11, and that has `legacy_event` in field 6. Its fields 2 and 6 are the phase and the number.
fn phases_of_perfetto(path: &Path) -> BTreeMap<u64, Vec<char>> {
    let trace = std::fs::read(path).unwrap();
    let mut phases: BTreeMap<u64, Vec<char>> = BTreeMap::new();
    for packet in messages(&fields(&trace), 1) {
        for event in messages(&packet, 11) {
            for legacy in messages(&event, 6) {
                let phase = u8::try_from(one(&legacy, 2)).unwrap();
                phases
                    .entry(one(&legacy, 6))
                    .or_default()
                    .push(phase.into());
            }
        }
    }
    phases
}

/// Checks the numbers alone: the times of a thread's packets are relative to each other, and
/// `.ci/oracle-perfetto` checks them with a trace processor.
fn check_perfetto(path: &Path) {
    let phases = phases_of_perfetto(path);
    assert_eq!(phases.len(), FLOWS, "every flow has its own number");
    for (id, mut phases) in phases {
        phases.sort_unstable();
        assert_eq!(phases, ['f', 's', 't', 't'], "flow {id}");
        assert_ne!(id, 0, "0 is no flow");
    }
}

fn check_chrome(path: &Path) {
    let mut points = points_of_chrome(path);
    assert_eq!(points.len(), 4 * FLOWS);
    // Two points of a thread may have the same time. Begins, steps and ends are in this order.
    let rank = |phase| "stf".find(phase).unwrap();
    points.sort_by_key(|(ns, phase, _)| (*ns, rank(*phase)));
    let mut phases: BTreeMap<&str, String> = BTreeMap::new();
    for (_, phase, id) in &points {
        phases.entry(id).or_default().push(*phase);
    }
    assert_eq!(phases.len(), FLOWS, "every flow has its own number");
    let kinds: BTreeSet<_> = phases.values().map(String::as_str).collect();
    assert_eq!(kinds, BTreeSet::from(["sttf"]));
    assert!(!phases.contains_key("0"), "0 is no flow");
    // The channel keeps the order, so the flows of a group are handled in the order in which they
    // began.
    let ids_of = |wanted| {
        let of_phase = points.iter().filter(move |(_, phase, _)| *phase == wanted);
        of_phase.map(|(_, _, id)| id.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(ids_of('s'), ids_of('f'));
    let steps = ids_of('t');
    let firsts: Vec<_> = steps.iter().step_by(2).copied().collect();
    assert_eq!(firsts, ids_of('s'));
}

#[test]
fn all_points_of_a_flow_have_its_number_in_both_traces() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let [chrome, perfetto] = ["trace.json", "trace.pftrace"].map(|name| folder.path().join(name));
    Config::new().enable();
    let guards = [
        ChromeTraceSink {
            path: chrome.clone(),
        }
        .install(),
        PerfettoSink::new(perfetto.clone()).install(),
    ];
    run_flows();
    drain::flush();
    drop(guards);
    check_chrome(&chrome);
    check_perfetto(&perfetto);
}
