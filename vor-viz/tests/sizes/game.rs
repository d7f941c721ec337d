//! A capture of a game that has everything that the viewer shows: pools of threads, waits for a
//! lock, for a processor and for a disk, tasks with steps, messages, flows, arguments, metrics,
//! slow frames and dropped spans.

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::RecordRef;
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, FlowPoint, FlowStage, Message, SpanArgs, SpanBatch, TaskEvent,
    TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{
    Catalog, Column, MetricColumn, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::model::measures::Measures;
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};
use vor_capture::model::waits;
use vor_fixtures::even;

/// The size of a game.
#[derive(Clone, Copy)]
pub struct Game {
    pub frames: u64,
    pub workers: u32,
    /// Metrics beside those of the system.
    pub metrics: u32,
    pub marks_frames: bool,
}

impl Default for Game {
    fn default() -> Self {
        Self {
            frames: 240,
            workers: 4,
            metrics: 4,
            marks_frames: true,
        }
    }
}

const SITES: [&str; 12] = [
    "frame",
    "update",
    "physics",
    "collide",
    "render",
    "draw",
    "job",
    "mix",
    "wait: cache",
    "request",
    "parse",
    "flush",
];
const FRAME: u32 = 1;
const UPDATE: u32 = 2;
const PHYSICS: u32 = 3;
const COLLIDE: u32 = 4;
const RENDER: u32 = 5;
const DRAW: u32 = 6;
const JOB: u32 = 7;
const MIX: u32 = 8;
const WAIT: u32 = 9;
const REQUEST: u32 = 10;
const PARSE: u32 = 11;
const FLUSH: u32 = 12;

/// The scopes that measure what their threads waited for.
const MEASURED: [&str; 5] = ["update", "physics", "render", "job", "flush"];

/// The threads before the workers.
const MAIN: u32 = 0;
const RENDERER: u32 = 1;
const AUDIO: u32 = 2;
const IO: u32 = 3;

const METRICS: [(&str, &str, bool); 5] = [
    ("frame_ms", "ms", true),
    ("memory_mb", "MB", true),
    ("disk_read_MB", "MB", true),
    ("disk_write_MB", "MB", true),
    ("entities", "", false),
];

impl Game {
    fn catalog(self) -> Arc<Catalog> {
        let mut timeline = Timeline::default();
        timeline.push(filled!(ClockSync {
            ticks: 0,
            unix_ns: 1_700_000_000_000_000_000,
            rate: 1 << RATE_BITS,
            wall_ns: 1_700_000_000_000_000_000,
        }));
        let site = |name: &'static str| {
            let is_wait = name.starts_with(waits::PREFIX);
            let mut info = filled!(SiteInfo {
                name: name.into(),
                file: "src/game.rs".into(),
                line: 40 + name.len() as u32,
            });
            if is_wait {
                info.category = waits::HELD.into();
                info.arg_names = waits::ARG_NAMES.map(Into::into).to_vec();
            } else if name == "draw" {
                info.arg_names = vec!["mesh".into()];
            } else if MEASURED.contains(&name) {
                info.arg_names = Measures::WAITS.arg_names().map(Into::into).collect();
            }
            Some(Arc::new(info))
        };
        let named = ["main", "render", "audio", "io"].map(str::to_owned);
        let workers = (1..=self.workers).map(|number| format!("worker-{number}"));
        let threads = named.into_iter().chain(workers).zip(100..);
        let thread =
            |(name, os_id): (String, u64)| Some(Arc::new(filled!(ThreadInfo { os_id, name })));
        let column = |name: &str, unit: &str, system| {
            filled!(Column {
                metric: MetricColumn {
                    name: name.into(),
                    unit: unit.into(),
                },
                system,
            })
        };
        let system = METRICS.map(|(name, unit, system)| column(name, unit, system));
        let own = (0..self.metrics).map(|i| column(&format!("queue{i}: jobs"), "jobs", false));
        Arc::new(filled!(Catalog {
            timeline: Arc::new(timeline),
            sites: Arc::new(SITES.map(site).to_vec()),
            threads: Arc::new(threads.map(thread).collect()),
            columns: Arc::new(system.into_iter().chain(own).collect()),
            frame_sets: Arc::new(vec![String::new()])
        }))
    }

    /// Returns the bytes of its capture.
    pub fn capture(self) -> Vec<u8> {
        let catalog = self.catalog();
        let (mut encoder, mut bytes) = even::begin(&catalog);
        let mut start_ticks = 10_000;
        for frame in 0..self.frames {
            let length = length_ns(frame);
            let threads = self.threads(frame, start_ticks, length);
            let batch = filled!(SpanBatch {
                catalog: Arc::clone(&catalog),
                threads,
            });
            encoder.encode(RecordRef::Batch(&batch), &mut bytes);
            if self.marks_frames {
                let mut snapshot = filled!(FrameSnapshot {
                    catalog: Arc::clone(&catalog),
                    index: frame,
                    start_ticks,
                    end_ticks: start_ticks + length,
                    dropped_spans: if frame == 130 { 12 } else { 0 },
                });
                snapshot.metrics = self.values(frame);
                snapshot.span_count = batch.threads.iter().map(|it| it.len() as u64).sum();
                encoder.encode(RecordRef::Frame(&snapshot), &mut bytes);
            }
            start_ticks += length;
        }
        encoder.close(&catalog, &mut bytes);
        bytes
    }

    fn threads(self, frame: u64, begin: u64, length: u64) -> Vec<ThreadBatch> {
        let at = |share: f64| begin + (share * length as f64) as u64;
        let is_slow = frame % 40 == 25;
        let mut main = Spans::new(MAIN);
        let physics = if is_slow { 0.62 } else { 0.34 };
        for i in 0..6 {
            let from = 0.06 + (physics - 0.08) * f64::from(i) / 6.0;
            main.add(at(from), at(from + (physics - 0.1) / 7.0), COLLIDE);
        }
        main.add_measured(at(0.05), at(physics), PHYSICS, (0.05, 0.04));
        if is_slow {
            let values = ["cache", "worker-1", "job"].map(|text| ArgValue::Str(text.into()));
            main.add_with(at(physics + 0.02), at(physics + 0.2), WAIT, values.to_vec());
        }
        let update = if is_slow { 0.9 } else { 0.48 };
        main.add_measured(at(0.02), at(update), UPDATE, (0.25, 0.04));
        main.add(at(0.0), at(0.96), FRAME);
        if frame % 20 == 3 {
            main.batch.messages.push(filled!(Message {
                ticks: at(0.5),
                text: format!("level {} loaded", frame / 20).into(),
            }));
        }
        main.batch.dropped_spans = if frame == 130 { 12 } else { 0 };
        let mut renderer = Spans::new(RENDERER);
        for mesh in 0..8 {
            let from = 0.12 + 0.09 * mesh as f64;
            let values = vec![ArgValue::U64(frame * 8 + mesh)];
            renderer.add_with(at(from), at(from + 0.06), DRAW, values);
        }
        let rendered = if is_slow { (0.7, 0.6) } else { (0.1, 0.1) };
        renderer.add_measured(at(0.1), at(0.9), RENDER, rendered);
        let mut audio = Spans::new(AUDIO);
        audio.add(at(0.3), at(0.38), MIX);
        let mut io = Spans::new(IO);
        if frame.is_multiple_of(3) {
            io.add_measured(at(0.5), at(0.7), FLUSH, (0.9, 0.0));
            io.add_task(frame, at(0.0), at(0.95), REQUEST, at(0.4));
            io.add_task(frame + 1_000, at(0.1), at(0.8), REQUEST, at(0.6));
        }
        let mut all = vec![main, renderer, audio, io];
        for worker in 0..self.workers {
            let mut spans = Spans::new(4 + worker);
            let from = 0.15 + 0.5 * f64::from(worker) / f64::from(self.workers.max(1));
            let worked = if is_slow && worker % 2 == 1 { 0.6 } else { 0.0 };
            spans.add_measured(at(from), at(from + 0.22), JOB, (worked, worked));
            let flow = frame * 1_000 + u64::from(worker);
            let point = |ticks, stage| filled!(FlowPoint { flow, ticks, stage });
            // A job comes from the update, before the physics begin.
            all[0].batch.flows.push(point(at(0.03), FlowStage::Begin));
            spans
                .batch
                .flows
                .push(point(at(from + 0.01), FlowStage::End));
            all.push(spans);
        }
        all.into_iter().map(|spans| spans.batch).collect()
    }

    fn values(self, frame: u64) -> Vec<MetricValue> {
        let t = frame as f64;
        let system = [
            length_ns(frame) as f64 / 1e6,
            420.0 + t / 3.0,
            if frame % 30 < 4 { 12.5 } else { 0.0 },
            (t / 9.0).sin().abs() * 3.0,
            (1_500 + frame * 7) as f64,
        ];
        let own = (0..self.metrics).map(|i| 4.0 + 4.0 * (t / (7.0 + f64::from(i % 17))).sin());
        let values = system.into_iter().chain(own);
        let value = |(column, value)| filled!(MetricValue { column, value });
        (0..).zip(values).map(value).collect()
    }
}

/// Frames of about 8 ms, and every fortieth of 21 ms.
fn length_ns(frame: u64) -> u64 {
    let usual = 7_600_000 + frame * 7_919 % 900_000;
    if frame % 40 == 25 { 21_000_000 } else { usual }
}

/// The spans of a thread in a frame, by their ends.
struct Spans {
    batch: ThreadBatch,
}

impl Spans {
    fn new(thread: u32) -> Self {
        let thread = ThreadId(thread);
        Self {
            batch: filled!(ThreadBatch { thread }),
        }
    }

    fn add(&mut self, begin: u64, end: u64, site: u32) {
        self.batch.start_ticks.push(begin);
        self.batch.duration_ticks.push(end - begin);
        self.batch.sites.push(SiteId(site));
    }

    fn add_with(&mut self, begin: u64, end: u64, site: u32, values: Vec<ArgValue>) {
        let span = self.batch.sites.len() as u32;
        self.add(begin, end, site);
        self.batch.args.push(filled!(SpanArgs { span, values }));
    }

    /// Adds a span with the shares of its time in which its thread did not run, and in which it had
    /// no processor.
    fn add_measured(&mut self, begin: u64, end: u64, site: u32, (off_cpu, queued): (f64, f64)) {
        let part = |share: f64| (share * (end - begin) as f64) as u64;
        let switches = u64::from(off_cpu > 0.0) * 3;
        let values = [part(off_cpu), part(queued), switches];
        self.add_with(begin, end, site, values.map(ArgValue::U64).to_vec());
    }

    fn add_task(&mut self, id: u64, begin: u64, end: u64, site: u32, step: u64) {
        let event = |start_ticks, site, kind| {
            filled!(TaskEvent {
                task: id,
                site,
                start_ticks,
                kind,
            })
        };
        let given_id = 7_000 + id;
        let begun = event(begin, SiteId(site), TaskEventKind::Begin { given_id });
        let parsed = event(step, SiteId(PARSE), TaskEventKind::Step);
        self.batch.task_events.extend([begun, parsed]);
        self.batch.async_spans.push(filled!(AsyncSpan {
            id,
            site: SiteId(site),
            start_ticks: begin,
            duration_ticks: end - begin,
        }));
    }
}
