//! Frames of an invented program, the same in every run.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{
    Catalog, Column, MetricColumn, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::MetricValue;
use vor_viz::store::{FrameBlock, FrameEntry, Message, RowBlock, Step, Store, Task, ThreadBlock};

/// Names of the call sites, ids from 1.
pub const SITES: [&str; 24] = [
    "frame",
    "update",
    "physics",
    "broad_phase",
    "narrow_phase",
    "solve",
    "animate",
    "skin",
    "cull",
    "sort",
    "draw",
    "submit",
    "upload",
    "audio",
    "mix",
    "decode",
    "stream",
    "network",
    "poll",
    "script",
    "gc",
    "ai",
    "path_find",
    "http request",
];

/// Names of the threads; the fifth has none.
pub const THREADS: [&str; 8] = [
    "main", "render", "physics", "audio", "", "worker 1", "worker 2", "io",
];

/// A small generator of numbers that look random (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// Returns the catalog of the frames' ids.
pub fn catalog() -> Arc<Catalog> {
    let sites = SITES.iter().enumerate().map(|(i, &name)| {
        let arg_names = if name == "decode" {
            vec!["clip".into(), "bytes".into()]
        } else {
            Vec::new()
        };
        Some(Arc::new(filled!(SiteInfo {
            name: name.into(),
            module_path: "engine".into(),
            file: "src/engine.rs".into(),
            line: 10 + 7 * i as u32,
            arg_names
        })))
    });
    let threads = THREADS.iter().enumerate().map(|(i, &name)| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id: 4100 + i as u64,
            name: name.to_owned(),
        })))
    });
    let column = |(name, unit): (&str, &str)| {
        filled!(Column {
            metric: MetricColumn {
                name: name.to_owned(),
                unit: unit.to_owned(),
            },
            system: true,
        })
    };
    let columns = [("frame_ms", "ms"), ("memory_mb", "MB"), ("loss", "")];
    Arc::new(filled!(Catalog {
        sites: Arc::new(sites.collect()),
        threads: Arc::new(threads.collect()),
        columns: Arc::new(columns.map(column).into())
    }))
}

/// Fills `begin_ns .. end_ns` with spans, one inside the other.
fn fill(rows: &mut [RowBlock], begin_ns: i64, end_ns: i64, most: usize, random: &mut Random) {
    let Some((row, below)) = rows.split_first_mut() else {
        return;
    };
    let length = end_ns - begin_ns;
    let count = most.max(1) as i64;
    let mut at = begin_ns;
    for i in 0..count {
        let slot_end = begin_ns + length * (i + 1) / count;
        let room = slot_end - at;
        if room < 4 {
            continue;
        }
        let begin = at + random.below(room as u64 / 6 + 1) as i64;
        let duration = (room / 2 + random.below(room as u64 / 3 + 1) as i64).min(slot_end - begin);
        row.push(begin, duration as u64, SiteId(1 + random.below(23) as u32));
        fill(
            below,
            begin + duration / 50,
            begin + duration - duration / 50,
            2,
            random,
        );
        at = slot_end;
    }
}

/// Makes `frames` frames of about 16 ms with about `spans` spans in total, on eight threads and up
/// to `depth` deep.
pub fn blocks(frames: usize, spans: usize, depth: usize) -> Vec<FrameBlock> {
    let catalog = catalog();
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut begin_ns = 0_i64;
    // A span at the top includes a whole tree of two branches per level.
    let tree = (1 << depth) - 1;
    let tops = spans.div_ceil(frames.max(1) * THREADS.len() * tree);
    let mut blocks = Vec::new();
    for number in 0..frames as u64 {
        let slow = number % 40 == 33;
        let end_ns = begin_ns
            + 14_000_000
            + random.below(4_000_000) as i64
            + if slow { 30_000_000 } else { 0 };
        let threads = (0..THREADS.len() as u32).map(|thread| {
            let mut rows = vec![RowBlock::default(); depth];
            fill(
                &mut rows,
                begin_ns + 1_000,
                end_ns - 1_000,
                tops,
                &mut random,
            );
            rows.retain(|row| !row.is_empty());
            ThreadBlock {
                thread: ThreadId(thread),
                rows,
                ..ThreadBlock::default()
            }
        });
        let threads: Vec<ThreadBlock> = threads.collect();
        let held =
            |thread: &ThreadBlock| thread.rows.iter().map(|row| row.len() as u64).sum::<u64>();
        let stored_spans = threads.iter().map(held).sum();
        let metric = |column, value| filled!(MetricValue { column, value });
        blocks.push(FrameBlock {
            frame: FrameEntry {
                number,
                begin_ns,
                end_ns,
                span_count: stored_spans,
                stored_spans,
                metrics: vec![
                    metric(0, (end_ns - begin_ns) as f64 / 1e6),
                    metric(1, 200.0 + number as f64 * 0.5),
                    metric(2, 2.0 / (1.0 + number as f64)),
                ],
                ..FrameEntry::default()
            },
            catalog: Arc::clone(&catalog),
            threads,
        });
        begin_ns = end_ns;
    }
    blocks
}

/// Moves a frame without tasks and messages by some time, as one that comes later.
pub fn shift(block: &mut FrameBlock, by_ns: i64) {
    block.frame.begin_ns += by_ns;
    block.frame.end_ns += by_ns;
    let rows = block.threads.iter_mut().flat_map(|thread| &mut thread.rows);
    let begins = rows.flat_map(|row| &mut row.begin_ns);
    begins.for_each(|begin_ns| *begin_ns += by_ns);
}

/// Returns a store of such frames.
pub fn store(frames: usize, spans: usize, depth: usize) -> Store {
    let mut store = Store::new(frames, usize::MAX);
    for block in blocks(frames, spans, depth) {
        store.push_block(block);
    }
    store
}

/// Returns a store of a few frames with everything that a chart shows: tasks, messages, arguments,
/// drops, lost records.
pub fn rich_store() -> Store {
    let mut store = Store::new(64, usize::MAX);
    for (number, mut block) in (0_u64..).zip(blocks(48, 48 * 8 * 40, 4)) {
        let begin_ns = block.frame.begin_ns;
        block.frame.dropped_spans = if number == 20 { 1234 } else { 0 };
        block.frame.lost_records = u64::from(number == 30);
        let main = &mut block.threads[0];
        if number % 8 == 0 {
            main.messages.push(Message {
                ns: begin_ns + 5_000_000,
                text: format!("level {number} loaded").into(),
            });
        }
        let io = &mut block.threads[7];
        for lane in 0..3 {
            io.tasks.push(Task {
                id: number * 3 + lane,
                site: SiteId(24),
                begin_ns: begin_ns + lane as i64 * 700_000,
                duration_ns: 9_000_000 - lane * 400_000,
            });
            io.steps.push(Step {
                task: number * 3 + lane,
                site: SiteId(17),
                ns: begin_ns + 4_000_000 + lane as i64 * 300_000,
            });
        }
        let row = &mut block.threads[3].rows[0];
        for i in 0..row.len() {
            row.sites[i] = SiteId(16);
            let args = [
                ArgValue::Str(format!("clip {i}").into()),
                ArgValue::U64(4096 * i as u64),
            ];
            row.args.push((i as u32, args.into()));
        }
        store.push_block(block);
    }
    store
}
