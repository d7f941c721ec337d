//! Events of the scheduler in Perfetto traces: a simulated machine, whose threads' states the
//! trace must show.
//!
//! With `VOR_ORACLE_OUT`, the trace is written into that folder, beside the expected states as
//! lines of CSV. Perfetto's trace processor then makes its own tables of the states.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::catalog::{Catalog, MachineInfo, ProcessInfo};
use vor_capture::model::scheduler::{
    SchedulerBatch, SchedulerEvent, SchedulerEventKind, SchedulerTask, TaskState,
};
use vor_capture::model::timeline::{ClockSnapshot, ClockSync, RATE_BITS, Timeline};
use vor_capture::sink::FrameSink as _;
use vor_export::perfetto::PerfettoExporter;
use vor_fixtures::random::Random;
use vor_fixtures::wire::fields;

const CPUS: usize = 2;
/// Threads of the program, which are tasks 1 to 4; 0 is the idle task and 5 a foreign one.
const OWN: std::ops::RangeInclusive<u32> = 1..=4;
const IDLE: u32 = 0;
const FOREIGN: u32 = 5;
const FIRST_TID: u32 = 100;
const BEGIN: u64 = 1_000_000;

/// One tick is one nanosecond, and `CLOCK_BOOTTIME` is the tick.
fn catalog() -> Arc<Catalog> {
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: BEGIN,
        unix_ns: 1_700_000_000_000_000_000,
        rate: 1 << RATE_BITS,
        wall_ns: 1_700_000_000_000_000_000,
    }));
    let clocks = filled!(ClockSnapshot {
        ticks: BEGIN,
        monotonic_ns: BEGIN as i64,
        boottime_ns: BEGIN as i64,
    });
    Arc::new(filled!(Catalog {
        process: Arc::new(filled!(ProcessInfo {
            pid: 100,
            name: "made".into()
        })),
        machine: Arc::new(filled!(MachineInfo {
            clocks: Some(clocks)
        })),
        timeline: Arc::new(timeline),
    }))
}

fn tasks() -> Vec<SchedulerTask> {
    let task = |i: u32| {
        let is_own = OWN.contains(&i);
        let name = match i {
            IDLE => "swapper".to_owned(),
            FOREIGN => "other".to_owned(),
            _ => format!("thread-{i}"),
        };
        let tid = if i == IDLE { 0 } else { FIRST_TID + i };
        filled!(SchedulerTask { tid, is_own, name })
    };
    (IDLE..=FOREIGN).map(task).collect()
}

/// Nanoseconds in each state, by thread and state as the trace processor writes it.
type States = BTreeMap<(u32, &'static str), u64>;

/// A machine that runs the threads at random.
struct Machine {
    now: u64,
    running: [u32; CPUS],
    /// The state of each thread, and since when; none before its first event.
    threads: BTreeMap<u32, (&'static str, u64)>,
    events: Vec<SchedulerEvent>,
    states: States,
}

impl Machine {
    fn enter(&mut self, thread: u32, state: &'static str) {
        if !OWN.contains(&thread) {
            return;
        }
        if let Some((before, since)) = self.threads.insert(thread, (state, self.now)) {
            *self.states.entry((thread, before)).or_default() += self.now - since;
        }
    }

    fn put(&mut self, cpu: usize, kind: SchedulerEventKind) {
        self.events
            .push(SchedulerEvent::new(self.now, cpu as u32, kind));
    }

    fn switch(&mut self, cpu: usize, state: u32, to: u32) {
        let from = std::mem::replace(&mut self.running[cpu], to);
        let is_own = OWN.contains(&from) || OWN.contains(&to);
        if is_own {
            // The kernel records a switch if one of the tasks is of the program.
            self.put(
                cpu,
                SchedulerEventKind::Switch {
                    from,
                    from_priority: 120,
                    from_state: TaskState(state),
                    to,
                    to_priority: 120,
                },
            );
        }
        self.enter(from, if state == 0 { "R" } else { "S" });
        self.enter(to, "Running");
    }

    fn step(&mut self, random: &mut Random) {
        self.now += 1 + random.next() % 5000;
        let cpu = random.below(CPUS);
        let from = self.running[cpu];
        let next = 1 + random.below(5) as u32;
        match self.threads.get(&next).map(|(state, _)| *state) {
            Some("S") => {
                let waking = SchedulerEventKind::Waking {
                    waker: from,
                    woken: next,
                    priority: 120,
                    target_cpu: cpu as u32,
                };
                self.put(cpu, waking);
                self.enter(next, "R");
            }
            Some("Running") => {}
            _ if next == FOREIGN && self.running.contains(&FOREIGN) => {}
            _ if next == from => {}
            // Runnable, foreign, or not seen yet.
            _ => {
                let sleeps = random.below(2) as u32;
                let to = if random.below(4) == 0 { IDLE } else { next };
                if to != from {
                    self.switch(cpu, sleeps, to);
                }
            }
        }
    }
}

fn simulate(seed: u64) -> Machine {
    let mut random = Random(seed);
    let mut machine = Machine {
        now: BEGIN,
        running: [IDLE; CPUS],
        threads: BTreeMap::new(),
        events: Vec::new(),
        states: States::new(),
    };
    for _ in 0..4000 {
        machine.step(&mut random);
    }
    // States without an end are none of the trace.
    machine
}

#[test]
fn a_simulated_machine_has_its_states() {
    let machine = simulate(7);
    assert!(machine.states.len() == 12, "{:?}", machine.states);
    let mut exporter = PerfettoExporter::new(Vec::new());
    for events in machine.events.chunks(1000) {
        let batch = filled!(SchedulerBatch {
            tasks: tasks(),
            events: events.to_vec()
        });
        exporter.accept_scheduler(&batch, &catalog()).unwrap();
    }
    exporter.finish().unwrap();
    let trace = exporter.into_inner();
    if let Some(folder) = std::env::var_os("VOR_ORACLE_OUT") {
        let folder = Path::new(&folder);
        std::fs::write(folder.join("scheduler.pftrace"), &trace).unwrap();
        let mut rows = String::new();
        for ((thread, state), ns) in &machine.states {
            writeln!(rows, "thread-{thread},{},{state},{ns}", FIRST_TID + thread).unwrap();
        }
        std::fs::write(folder.join("scheduler.csv"), rows).unwrap();
    }
    // Every event, in a bundle of its processor.
    let mut found: Vec<(u64, u64, Vec<u64>)> = Vec::new();
    for (_, packet) in fields(&trace) {
        for (_, bundle) in fields(packet.bytes()).into_iter().filter(|(n, _)| *n == 1) {
            let bundle = fields(bundle.bytes());
            let cpu = bundle.iter().find(|(n, _)| *n == 1).unwrap().1.number();
            for (_, event) in bundle.iter().filter(|(n, _)| *n == 2) {
                let event = fields(event.bytes());
                let (kind, content) = event.last().unwrap();
                let wanted: &[u64] = if *kind == 4 { &[2, 4, 6] } else { &[2, 5] };
                let content = fields(content.bytes());
                let of = |n: &u64| content.iter().find(|(m, _)| m == n).unwrap().1.number();
                let mut numbers = vec![*kind, event[1].1.number()];
                numbers.extend(wanted.iter().map(of));
                found.push((event[0].1.number(), cpu, numbers));
            }
        }
    }
    found.sort_unstable();
    let tid = |task: u32| u64::from(tasks()[task as usize].tid);
    // The work of other programs is unknown, so they are the idle task.
    let own = |task: u32| if OWN.contains(&task) { tid(task) } else { 0 };
    let mut expected: Vec<_> = machine
        .events
        .iter()
        .map(|event| {
            let numbers = match event.kind {
                SchedulerEventKind::Switch {
                    from,
                    from_state,
                    to,
                    ..
                } => {
                    vec![4, own(from), own(from), u64::from(from_state.0), own(to)]
                }
                SchedulerEventKind::Waking {
                    waker,
                    woken,
                    target_cpu,
                    ..
                } => {
                    vec![20, tid(waker), tid(woken), u64::from(target_cpu)]
                }
                _ => unreachable!(),
            };
            (event.ticks, u64::from(event.cpu), numbers)
        })
        .collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}
