//! Random trees of spans on several threads, in batches of any size, and the rows that every viewer
//! must find in them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, Message, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{
    Catalog, Column, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};

use crate::random::Random;

pub const NASTY: &str = "quote\" back\\slash \n\t\r\u{1}\u{1f} <ä 🦀 \u{2028}>; {x} 17";

/// The start of the recording, in ticks. A tick is a nanosecond.
pub const BEGIN: u64 = 1_000;

/// A span: thread, depth, call site, start and end in nanoseconds since the start of the recording.
pub type Row = (u32, usize, u32, u64, u64);

/// Batches, and their spans in pre-order, thread by thread.
pub struct Views {
    pub batches: Vec<SpanBatch>,
    pub rows: Vec<Row>,
}

pub fn catalog() -> Arc<Catalog> {
    let site = |(i, name): (usize, &'static str)| {
        Some(Arc::new(filled!(SiteInfo {
            name: Cow::Borrowed(name),
            file: if i == 2 {
                "".into()
            } else {
                format!("src/{i}.rs").into()
            },
            line: if i == 2 { 0 } else { 10 + i as u32 },
            category: if i % 2 == 0 { "".into() } else { "io".into() },
            arg_names: vec!["n".into(), NASTY.into()]
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
        ticks: BEGIN,
        unix_ns: 1_700_000_000_123_456_789,
        rate: 1 << RATE_BITS,
        wall_ns: 1_700_000_000_123_456_789,
    }));
    let names = ["step", NASTY, "decode", "größe", "encode", " "];
    let mut sites: Vec<_> = names.into_iter().enumerate().map(site).collect();
    sites.push(None);
    Arc::new(filled!(Catalog {
        process: Arc::new(filled!(ProcessInfo {
            pid: 42,
            name: "app \"x\"".into(),
            recorder: "0.3.0".into(),
        })),
        timeline: Arc::new(timeline),
        sites: Arc::new(sites),
        threads: Arc::new(vec![thread(42, "main"), thread(43, NASTY), thread(44, "")]),
        columns: Arc::new(vec![column("memory", "MB"), column("loss", "")]),
        frame_sets: Arc::new(vec![String::new(), "physics".into()])
    }))
}

/// Returns the name of a call site of [`catalog`].
pub fn name(site: u32) -> String {
    catalog().site_name(SiteId(site)).to_owned()
}

/// A thread during the construction of its trees.
struct Thread<'a> {
    random: &'a mut Random,
    thread: u32,
    now: u64,
    ended: ThreadBatch,
    rows: Vec<Row>,
}

impl Thread<'_> {
    fn tree(&mut self, depth: usize) {
        let start = self.now;
        let site = 1 + self.random.below(7) as u32;
        let row = self.rows.len();
        self.rows.push((self.thread, depth, site, start - BEGIN, 0));
        let children = if depth < 8 { self.random.below(4) } else { 0 };
        for _ in 0..children {
            self.now += self.random.below(50) as u64;
            self.tree(depth + 1);
            // A span that follows an empty one within its tick would enclose it.
            self.now += 1;
        }
        // A few spans are longer than a 32-bit number of nanoseconds.
        let most = if self.random.below(200) == 0 {
            5_000_000_000
        } else {
            400
        };
        self.now += self.random.below(most) as u64;
        self.rows[row].4 = self.now - BEGIN;
        if self.random.below(5) == 0 {
            let span = self.ended.len() as u32;
            let values = vec![ArgValue::U64(u64::from(span)), ArgValue::Str(NASTY.into())];
            self.ended.args.push(filled!(SpanArgs { span, values }));
        }
        self.ended.start_ticks.push(start);
        self.ended.duration_ticks.push(self.now - start);
        self.ended.sites.push(SiteId(site));
    }
}

/// Makes trees of about `spans` spans on three threads.
pub fn make(seed: u64, spans: usize) -> Views {
    let mut random = Random(seed);
    let mut rows = Vec::new();
    let mut threads = Vec::new();
    for thread in 0..3 {
        let mut growing = Thread {
            random: &mut random,
            thread,
            now: BEGIN + 5,
            ended: filled!(ThreadBatch {
                thread: ThreadId(thread)
            }),
            rows: Vec::new(),
        };
        while growing.ended.len() < spans / 3 {
            growing.tree(0);
            growing.now += 1 + growing.random.below(30) as u64;
        }
        let (mut ended, thread_rows, now) = (growing.ended, growing.rows, growing.now);
        ended.messages.push(filled!(Message {
            ticks: now,
            text: NASTY.into(),
        }));
        rows.extend(thread_rows);
        threads.push(ended);
    }
    let mut batches = Vec::new();
    while threads.iter().any(|thread| !thread.is_empty()) {
        let first = threads.iter_mut().map(|thread| {
            let count = random.below(2 * thread.len() / 3 + 2).min(thread.len());
            split_first(thread, count)
        });
        batches.push(filled!(SpanBatch {
            catalog: catalog(),
            threads: first.collect(),
        }));
    }
    Views { batches, rows }
}

/// Removes the first spans of a thread. With the last span, also removes everything else.
fn split_first(thread: &mut ThreadBatch, count: usize) -> ThreadBatch {
    if count == thread.len() {
        let rest = filled!(ThreadBatch {
            thread: thread.thread
        });
        return std::mem::replace(thread, rest);
    }
    let first_later = thread
        .args
        .partition_point(|args| (args.span as usize) < count);
    let mut args = thread.args.split_off(first_later);
    std::mem::swap(&mut args, &mut thread.args);
    for later in &mut thread.args {
        later.span -= count as u32;
    }
    filled!(ThreadBatch {
        thread: thread.thread,
        start_ticks: thread.start_ticks.drain(..count).collect(),
        duration_ticks: thread.duration_ticks.drain(..count).collect(),
        sites: thread.sites.drain(..count).collect(),
        args
    })
}

/// Returns the self time of each distinct stack of call sites, by thread.
pub fn self_times(rows: &[Row]) -> BTreeMap<(u32, Vec<u32>), u64> {
    let mut sums = BTreeMap::new();
    let mut path: Vec<u32> = Vec::new();
    for &(thread, depth, site, start, end) in rows {
        path.truncate(depth);
        if depth > 0 {
            *sums.get_mut(&(thread, path.clone())).unwrap() -= end - start;
        }
        path.push(site);
        *sums.entry((thread, path.clone())).or_default() += end - start;
    }
    sums
}

/// Makes spans that no program recorded, like those of a damaged capture.
pub fn damaged(seed: u64) -> SpanBatch {
    let mut random = Random(seed);
    let mut thread = filled!(ThreadBatch {
        thread: ThreadId(random.next() as u32)
    });
    for _ in 0..200 {
        let mut draw = || random.next() >> (random.below(60) as u32);
        let (start, duration, site) = (draw(), draw(), draw());
        thread.start_ticks.push(start);
        thread.duration_ticks.push(duration);
        thread.sites.push(SiteId(site as u32));
    }
    filled!(SpanBatch {
        catalog: catalog(),
        threads: vec![thread],
    })
}
