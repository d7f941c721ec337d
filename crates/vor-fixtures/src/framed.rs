//! Random programs in captures with frames: spans of several threads, cut at marks, with tasks and
//! drops.

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{Header, RecordRef};
use vor_capture::model::batch::{AsyncSpan, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::frame::FrameSnapshot;

use crate::captures::record_offsets;
use crate::even::begin_with;
use crate::mutation::mutate;
use crate::programs::{self, BEGIN, Shape};
use crate::random::Random;

/// The call sites of a program have these names, in turn, and every second one of them another
/// module.
const NAMES: [&str; 4] = ["load", "save", "draw", "poll"];

/// The spans that a thread ended, and its drops.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    pub spans: ThreadBatch,
    /// A number of spans, and how many were dropped before the next one ended.
    pub drops: Vec<(usize, u64)>,
}

impl Ended {
    /// Returns threads that have ended nothing.
    pub fn none(threads: usize) -> Vec<Self> {
        let ended = |thread| Self {
            spans: filled!(ThreadBatch {
                thread: ThreadId(thread)
            }),
            drops: Vec::new(),
        };
        (0..threads as u32).map(ended).collect()
    }
}

/// A capture with frames.
pub struct Framed {
    pub bytes: Vec<u8>,
    /// Offsets of the records, and the file's number of bytes.
    pub records: Vec<usize>,
    /// Tasks by the frame in which they ended.
    pub tasks: Vec<Vec<AsyncSpan>>,
    /// Dropped spans of all frames.
    pub dropped: u64,
}

/// The end of a capture, and whether its frames are marked.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    pub is_marked: bool,
    pub is_closed: bool,
}

/// Draws marks: some are anywhere, others are where a span ends, so that it ends exactly with its
/// frame. The first one is the begin, and the last one the end of all spans.
pub fn marks(random: &mut Random, threads: &[Ended], count: usize) -> Vec<u64> {
    let ends = threads
        .iter()
        .filter(|thread| !thread.spans.sites.is_empty());
    let ends: Vec<&ThreadBatch> = ends.map(|thread| &thread.spans).collect();
    let last = ends.iter().map(|spans| spans.end_ticks(spans.len() - 1));
    let last = last.max().unwrap_or(BEGIN + 1);
    let mut marks = vec![BEGIN, last];
    for _ in 0..count {
        let thread = ends[random.below(ends.len())];
        let end = thread.end_ticks(random.below(thread.len()));
        marks.push(if random.below(2) == 0 {
            end
        } else {
            BEGIN + 1 + random.below((last - BEGIN) as usize) as u64
        });
    }
    marks.sort_unstable();
    marks.dedup();
    marks
}

/// Records the spans of threads, a batch between two marks, with tasks at random.
pub fn record(
    random: &mut Random,
    (catalog, file_id): (&Arc<Catalog>, u64),
    threads: &[Ended],
    marks: &[u64],
    ending: Ending,
) -> Framed {
    let header = Header {
        file_id,
        pid: 42,
        flags: Header::KEEPS_SPANS,
        start_unix_ns: catalog.timeline.syncs()[0].unix_ns,
        start_ticks: BEGIN,
    };
    let (mut encoder, mut bytes) = begin_with(header, catalog);
    let sites = catalog.sites.iter().flatten().count();
    let mut done = vec![0; threads.len()];
    let mut tasks = Vec::new();
    let mut dropped = 0;
    for (index, pair) in marks.windows(2).enumerate() {
        let (start_ticks, mark) = (pair[0], pair[1]);
        let (mut span_count, mut dropped_spans) = (0, 0);
        let mut own_tasks = Vec::new();
        let batches = threads.iter().zip(&mut done).map(|(thread, done)| {
            let (from, spans) = (*done, &thread.spans);
            while *done < spans.len() && spans.end_ticks(*done) <= mark {
                *done += 1;
            }
            span_count += (*done - from) as u64;
            let drops = thread.drops.iter();
            let drops = drops.filter(|(before, _)| (from..*done).contains(before));
            let mut batch = filled!(ThreadBatch {
                thread: spans.thread,
                start_ticks: spans.start_ticks[from..*done].to_vec(),
                duration_ticks: spans.duration_ticks[from..*done].to_vec(),
                sites: spans.sites[from..*done].to_vec(),
                dropped_spans: drops.map(|(_, count)| count).sum()
            });
            dropped_spans += batch.dropped_spans;
            if random.below(3) == 0 {
                let end = start_ticks + 1 + random.below((mark - start_ticks) as usize) as u64;
                let begin = BEGIN + random.below((end - BEGIN) as usize) as u64;
                let task = filled!(AsyncSpan {
                    id: (index * threads.len()) as u64 + u64::from(spans.thread.0),
                    site: SiteId(1 + random.below(sites) as u32),
                    start_ticks: begin,
                    duration_ticks: end - begin,
                });
                batch.async_spans.push(task);
                own_tasks.push(task);
            }
            batch
        });
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(catalog),
            threads: batches.collect(),
        });
        encoder.encode(RecordRef::Batch(&batch), &mut bytes);
        if ending.is_marked {
            let frame = filled!(FrameSnapshot {
                catalog: Arc::clone(catalog),
                index: index as u64,
                start_ticks,
                end_ticks: mark,
                span_count,
                dropped_spans
            });
            encoder.encode(RecordRef::Frame(&frame), &mut bytes);
        }
        tasks.push(own_tasks);
        dropped += dropped_spans;
    }
    if ending.is_closed {
        encoder.close(catalog, &mut bytes);
    }
    Framed {
        records: record_offsets(&bytes),
        bytes,
        tasks,
        dropped,
    }
}

/// Draws the properties of a small program with recursion and drops.
pub fn shape(random: &mut Random) -> Shape {
    Shape {
        threads: 1 + random.below(4),
        spans: 20 + random.below(300),
        sites: 1 + random.below(8),
        max_depth: 1 + random.below(7),
        opens: 10 + random.below(40),
        ends: 30,
        max_batch: 1 + random.below(40),
        drops: [0, 60][random.below(2)],
        max_ticks: random.below(200),
        tick_ps: 1_300,
    }
}

/// Makes the capture of a random program. Several of its call sites share a name.
pub fn make(seed: u64) -> Framed {
    let mut random = Random(seed);
    let shape = shape(&mut random);
    let program = programs::run(random.next(), shape);
    let mut catalog = Catalog::clone(&programs::catalog(
        shape.threads,
        shape.sites,
        shape.tick_ps,
    ));
    // Ids differ from program to program, as from run to run.
    let turn = random.below(NAMES.len() * 2);
    let site = |i: usize| {
        let at = i + turn;
        Some(Arc::new(filled!(SiteInfo {
            name: NAMES[at % NAMES.len()].into(),
            module_path: ["app", "app::io", "lib"][at / NAMES.len() % 3].into()
        })))
    };
    catalog.sites = Arc::new((0..shape.sites).map(site).collect());
    let mut threads = Ended::none(shape.threads);
    for ended in program.batches.iter().flat_map(|batch| &batch.threads) {
        let all = &mut threads[ended.thread.0 as usize];
        if ended.dropped_spans > 0 {
            let before = all.spans.len();
            all.drops.push((before, ended.dropped_spans));
        }
        // A span without a duration at the first mark would be of no frame.
        let start_ticks = ended.start_ticks.iter().map(|ticks| ticks + 1);
        all.spans.start_ticks.extend(start_ticks);
        all.spans.duration_ticks.extend(&ended.duration_ticks);
        all.spans.sites.extend(&ended.sites);
    }
    let count = 1 + random.below(30);
    let marks = marks(&mut random, &threads, count);
    let ending = Ending {
        is_marked: random.below(8) > 0,
        is_closed: random.below(2) == 0,
    };
    record(
        &mut random,
        (&Arc::new(catalog), seed),
        &threads,
        &marks,
        ending,
    )
}

/// Makes the capture of a random program, and damages most of them: bytes are flipped, overwritten
/// or missing, records are missing, or the end is. No record of the capture itself is copied, since
/// that puts spans before earlier ones.
pub fn make_damaged(seed: u64) -> Vec<u8> {
    let made = make(seed);
    let mut random = Random(!seed);
    if random.below(5) == 0 {
        return made.bytes;
    }
    let donor = make(seed + 1_000_000).bytes;
    let first = made.records[0];
    let mut bytes = loop {
        let mutant = mutate(&mut random, &made.bytes, &made.records, &donor, first);
        if mutant.copied.is_none_or(|copied| copied.is_foreign) {
            break mutant.bytes;
        }
    };
    // Flips in other places.
    for _ in 0..random.below(3) {
        let at = first + random.below(bytes.len().saturating_sub(first));
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << random.below(8);
        }
    }
    bytes
}
