//! A program whose frames come one by one.

use crate::synthetic::{Random, catalog};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_viz::store::{FrameBlock, FrameEntry, RowBlock, Task, ThreadBlock};

/// The frames that a store keeps, and a span's least duration: some pixels, or none.
pub const WIDE: (usize, u64) = (24, 300_000);
pub const NARROW: (usize, u64) = (150, 0);

/// Makes the frames of a program on some threads, which also ends a span of many frames at times.
pub struct Program {
    pub random: Random,
    shortest_ns: u64,
    now_ns: i64,
    frames: u64,
    /// Since when each thread has no span of many frames.
    free_ns: [i64; 6],
}

impl Program {
    pub fn new(seed: u64, shortest_ns: u64) -> Self {
        Self {
            random: Random(seed),
            shortest_ns,
            now_ns: 1_000_000,
            frames: 0,
            free_ns: [1_000_000; 6],
        }
    }

    pub fn frame(&mut self) -> FrameBlock {
        let begin_ns = self.now_ns;
        let end_ns = begin_ns + 2_000_000 + self.random.below(2_000_000) as i64;
        self.now_ns = end_ns;
        self.frames += 1;
        // Threads come with time.
        let threads = (2 + self.frames / 40).min(6);
        let threads = (0..threads).map(|thread| self.thread(thread as usize, begin_ns, end_ns));
        let threads: Vec<ThreadBlock> = threads.collect();
        let spans = |thread: &ThreadBlock| thread.rows.iter().map(RowBlock::len).sum::<usize>();
        let stored_spans = threads.iter().map(spans).sum::<usize>() as u64;
        FrameBlock {
            frame: FrameEntry {
                number: self.frames,
                begin_ns,
                end_ns,
                span_count: stored_spans,
                stored_spans,
                ..FrameEntry::default()
            },
            catalog: catalog(),
            threads,
        }
    }

    fn thread(&mut self, thread: usize, begin_ns: i64, end_ns: i64) -> ThreadBlock {
        let mut rows = vec![RowBlock::default(); 2];
        let mut at = begin_ns;
        let steps = match self.shortest_ns {
            0 => [200, 20_000, 900_000],
            _ => [900_000; 3],
        };
        let step = steps[self.random.below(3) as usize];
        while at + 3 * step < end_ns {
            let begin = at + self.random.below(step as u64) as i64;
            let duration = 1 + 2 * self.shortest_ns + self.random.below(step as u64);
            let mut site = || SiteId(1 + self.random.below(23) as u32);
            rows[0].push(begin, duration, site());
            rows[1].push(begin, duration / 2, site());
            at = begin + duration as i64 + self.random.below(20 * step as u64) as i64;
        }
        let mut tasks = Vec::new();
        if self.random.below(30) == 0 {
            // All spans since some moment were inside this one.
            let free_ns = self.free_ns[thread];
            let begin = free_ns.max(end_ns - self.random.below(60_000_000) as i64);
            let mut outer = RowBlock::default();
            outer.push(begin, (end_ns - begin) as u64, SiteId(3));
            let inner = |row: &RowBlock| row.begin_ns.iter().all(|&inside| inside >= begin);
            if rows.iter().all(inner) {
                rows.insert(0, outer);
                self.free_ns[thread] = end_ns;
            }
            let duration_ns = 1 + self.random.below(30_000_000);
            tasks.push(Task {
                id: self.frames * 8 + thread as u64,
                site: SiteId(24),
                begin_ns: end_ns - duration_ns as i64,
                duration_ns,
            });
        }
        ThreadBlock {
            thread: ThreadId(thread as u32),
            rows: rows.into_iter().filter(|row| !row.is_empty()).collect(),
            tasks,
            ..ThreadBlock::default()
        }
    }
}
