//! A process of the fleet: a server whose capture is generated from a seed, without a recording.
//!
//! Each frame is a request: `request` contains `parse`, several `query`, each with a `decode`, and
//! `render`. Durations have a long tail, like those of real work.

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{Encoder, Header, RecordRef};
use vor_capture::model::batch::{ArgValue, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{
    Catalog, Column, MachineInfo, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};
use vor_examples::Generator;

const HOSTS: usize = 5;
pub const VERSIONS: [&str; 2] = ["2.4.0", "2.5.0"];

/// The start of 2026-03-08 in UTC, the first of two days.
const FIRST_DAY_S: u64 = 1_772_928_000;
const DAY_S: u64 = 86_400;

const FRAMES: u64 = 40;

const REQUEST: u32 = 1;
const PARSE: u32 = 2;
const QUERY: u32 = 3;
const DECODE: u32 = 4;
const RENDER: u32 = 5;

/// The properties of a process.
#[derive(Clone, Debug)]
pub struct Process {
    pub host: String,
    pub version: &'static str,
    pid: u32,
    begin_s: u64,
    /// The extra time of `decode`, in percent.
    slow_percent: u64,
    seed: u64,
}

impl Process {
    /// Returns a process of a fleet with `captures` processes.
    pub fn of_fleet(number: usize, captures: usize) -> Self {
        let version = VERSIONS[number / HOSTS % 2];
        // Some processes run past the first midnight, and all end before the second.
        let since_first_day_s = (2 * DAY_S - 3600) * number as u64 / captures as u64;
        let is_slow = version == VERSIONS[1] && since_first_day_s >= DAY_S;
        Self {
            host: format!("web-{}", 1 + number % HOSTS),
            version,
            pid: 1000 + number as u32,
            begin_s: FIRST_DAY_S + since_first_day_s,
            slow_percent: if is_slow { 50 } else { 0 },
            seed: number as u64,
        }
    }

    /// Returns the bytes of the process's capture.
    pub fn capture(&self) -> Vec<u8> {
        let catalog = Arc::new(catalog(self));
        let start_ticks = catalog.timeline.syncs()[0].ticks;
        let mut encoder = Encoder::new(Header {
            file_id: self.seed,
            pid: self.pid,
            flags: Header::KEEPS_SPANS,
            start_unix_ns: catalog.timeline.syncs()[0].unix_ns,
            start_ticks,
        });
        let mut file = Vec::new();
        encoder.header(&mut file);
        for record in [
            RecordRef::Process(&catalog.process),
            RecordRef::Clock(&catalog.timeline.syncs()[0]),
            RecordRef::Sites {
                first: SiteId(1),
                sites: &catalog.sites,
            },
            RecordRef::Threads {
                first: ThreadId(0),
                threads: &catalog.threads,
            },
            RecordRef::Columns {
                first: 0,
                columns: &catalog.columns,
            },
            RecordRef::FrameSets {
                first: 0,
                names: &catalog.frame_sets,
            },
        ] {
            encoder.encode(record, &mut file);
        }
        let mut requests = Requests {
            generator: Generator::new(self.seed),
            now: start_ticks,
            slow_percent: self.slow_percent,
        };
        for index in 0..FRAMES {
            let begin = requests.now;
            let batch = filled!(SpanBatch {
                catalog: Arc::clone(&catalog),
                threads: vec![requests.serve(ThreadId(0)), requests.serve(ThreadId(1))],
            });
            // Seconds pass between requests, so that a capture covers a few minutes.
            requests.now += 5_000_000_000;
            encoder.encode(RecordRef::Batch(&batch), &mut file);
            let metric = |column, value| filled!(MetricValue { column, value });
            let frame = filled!(FrameSnapshot {
                catalog: Arc::clone(&catalog),
                index,
                start_ticks: begin,
                end_ticks: requests.now,
                metrics: vec![
                    metric(0, (requests.now - begin) as f64 / 1e6),
                    metric(1, requests.below(100) as f64),
                ],
                span_count: batch.span_count() as u64
            });
            encoder.encode(RecordRef::Frame(&frame), &mut file);
        }
        encoder.close(&catalog, &mut file);
        file
    }
}

/// Returns the catalog of a process's capture. A tick is a nanosecond.
pub fn catalog(process: &Process) -> Catalog {
    let begin_ns = process.begin_s as i64 * 1_000_000_000;
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 1_000_000,
        unix_ns: begin_ns,
        rate: 1 << RATE_BITS,
        wall_ns: begin_ns,
    }));
    let site = |(name, line, arg): (&'static str, u32, &'static str)| {
        let arg_names = (!arg.is_empty()).then_some(arg.into());
        Some(Arc::new(filled!(SiteInfo {
            name: name.into(),
            file: "src/server.rs".into(),
            line,
            arg_names: arg_names.into_iter().collect()
        })))
    };
    let thread = |name: &str| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id: u64::from(process.pid),
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
    let sites = [
        ("request", 10, "route"),
        ("parse", 22, ""),
        ("query", 31, "rows"),
        ("decode", 47, ""),
        ("render", 60, ""),
    ];
    filled!(Catalog {
        process: Arc::new(filled!(ProcessInfo {
            pid: process.pid,
            name: "server".into()
        })),
        machine: Arc::new(filled!(MachineInfo {
            host: process.host.clone()
        })),
        timeline: Arc::new(timeline),
        sites: Arc::new(sites.map(site).to_vec()),
        threads: Arc::new(["main", "worker"].map(thread).to_vec()),
        columns: Arc::new(vec![column("frame_ms", "ms"), column("queue", "")]),
        frame_sets: Arc::new(vec![String::new()]),
    })
}

/// A generator of requests, which follow each other.
struct Requests {
    generator: Generator,
    now: u64,
    slow_percent: u64,
}

impl Requests {
    fn serve(&mut self, thread: ThreadId) -> ThreadBatch {
        let mut spans = filled!(ThreadBatch { thread });
        let start = self.now;
        self.leaf(&mut spans, PARSE, 20_000);
        for _ in 0..1 + self.below(5) {
            let query = self.now;
            self.now += self.duration_ns(80_000);
            let usual_ns = self.duration_ns(60_000);
            let decode = self.now;
            self.now += usual_ns * (100 + self.slow_percent) / 100;
            self.end(&mut spans, DECODE, decode, None);
            let rows = ArgValue::U64(self.below(1000));
            self.end(&mut spans, QUERY, query, Some(rows));
        }
        self.leaf(&mut spans, RENDER, 200_000);
        let route = ["/", "/items", "/items?sort=\"price\""][self.below(3) as usize];
        self.end(
            &mut spans,
            REQUEST,
            start,
            Some(ArgValue::Str(route.into())),
        );
        spans
    }

    fn leaf(&mut self, spans: &mut ThreadBatch, site: u32, usual_ns: u64) {
        let start = self.now;
        self.now += self.duration_ns(usual_ns);
        self.end(spans, site, start, None);
    }

    fn end(&mut self, spans: &mut ThreadBatch, site: u32, start: u64, arg: Option<ArgValue>) {
        if let Some(value) = arg {
            spans.args.push(filled!(SpanArgs {
                span: spans.len() as u32,
                values: vec![value],
            }));
        }
        spans.start_ticks.push(start);
        spans.duration_ticks.push(self.now - start);
        spans.sites.push(SiteId(site));
        // The next span starts a little later.
        self.now += 50 + self.below(50);
    }

    /// Returns a duration around the usual one; one of 64 is several times as long.
    fn duration_ns(&mut self, usual_ns: u64) -> u64 {
        let common = usual_ns / 2 + self.below(usual_ns);
        match self.below(64) {
            0 => common * (2 + self.below(6)),
            _ => common,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.generator.bits() % limit
    }
}
