//! Batches, frames and captures for the benches of the drain: generated ones of known shape, and
//! the totals of real ones.

use std::path::Path;
use std::sync::Arc;

use vor_capture::Error;
use vor_capture::filled;
use vor_capture::format::{Checkpoint, Decoder, Event, Header, PayloadDecoder, RawRecord, Record};
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, ProcessInfo, SiteId, SiteInfo, ThreadInfo};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_capture::model::timeline::{ClockSync, Timeline};

use crate::work::Sequence;

/// The call sites of generated spans.
const SITES: u64 = 32;

/// The shape of generated spans, whose ticks are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One after the other, 200 to 800 ns each, separated by the time of the clock reads.
    Flat,
    /// Trees of random shape, at most six deep.
    Trees,
}

impl Shape {
    /// Generates a batch of at least `count` spans of one thread, from `start_ticks` on.
    #[must_use]
    pub fn batch(self, count: usize, start_ticks: u64) -> SpanBatch {
        let mut generator = SpanGenerator {
            now: start_ticks,
            random: Sequence::new(7),
            thread: ThreadBatch::default(),
        };
        while generator.thread.len() < count {
            generator.now += 18 + generator.random.below(4);
            match self {
                Self::Flat => generator.leaf(),
                Self::Trees => generator.tree(1),
            }
        }
        filled!(SpanBatch {
            catalog: catalog(),
            threads: vec![generator.thread],
        })
    }
}

struct SpanGenerator {
    now: u64,
    random: Sequence,
    thread: ThreadBatch,
}

impl SpanGenerator {
    fn leaf(&mut self) {
        let start = self.now;
        self.now += 200 + self.random.below(600);
        self.end(start);
    }

    fn tree(&mut self, depth: u32) {
        let start = self.now;
        self.now += 20 + self.random.below(400);
        let children = if depth < 6 { self.random.below(4) } else { 0 };
        for _ in 0..children {
            self.tree(depth + 1);
            self.now += 20 + self.random.below(100);
        }
        self.end(start);
    }

    fn end(&mut self, start: u64) {
        let site = 1 + self.random.below(SITES) as u32;
        self.thread.start_ticks.push(start);
        self.thread.duration_ticks.push(self.now - start);
        self.thread.sites.push(SiteId(site));
    }
}

fn catalog() -> Arc<Catalog> {
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 1,
        unix_ns: 1_700_000_000_000_000_000,
        rate: 1 << 40,
        wall_ns: 1_700_000_000_000_000_000,
    }));
    let site = |i| {
        filled!(SiteInfo {
            name: format!("function_{i}").into(),
            file: "src/lib.rs".into(),
            line: 1
        })
    };
    Arc::new(filled!(Catalog {
        process: Arc::new(ProcessInfo::default()),
        timeline: Arc::new(timeline),
        sites: Arc::new((0..SITES).map(|i| Some(Arc::new(site(i)))).collect()),
        threads: Arc::new(vec![Some(Arc::new(filled!(ThreadInfo {
            os_id: 1,
            name: "main".into(),
        })))]),
        columns: Arc::default(),
        frame_sets: Arc::new(vec![String::new()])
    }))
}

/// Makes the frame that holds a batch, with its trees.
#[must_use]
pub fn frame_of(batch: &SpanBatch, trees: &mut TreeBuilder) -> FrameSnapshot {
    trees.add_batch(batch);
    let finished = trees.finish();
    let start_ticks = batch
        .threads
        .iter()
        .filter_map(|thread| thread.start_ticks.iter().min())
        .min();
    let last = |thread: &ThreadBatch| thread.len().checked_sub(1).map(|i| thread.end_ticks(i));
    filled!(FrameSnapshot {
        catalog: Arc::clone(&batch.catalog),
        start_ticks: start_ticks.copied().unwrap_or(0),
        end_ticks: batch.threads.iter().filter_map(last).max().unwrap_or(0),
        span_count: finished.span_count,
        threads: finished.threads
    })
}

/// The totals of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes of the file.
    pub bytes: u64,
    /// Spans in its batches.
    pub spans: u64,
    /// Spans counted as dropped in it.
    pub dropped_spans: u64,
    /// Frames of the main set.
    pub frames: u64,
    /// Marks of the main set that were merged into others.
    pub merged_marks: u64,
    /// Whether it ends with an index.
    pub is_closed: bool,
}

impl Totals {
    fn add(&mut self, raw: &RawRecord<'_>, payloads: &mut PayloadDecoder) -> Result<(), Error> {
        match raw.decode(payloads)? {
            Some(Record::Batch(threads)) => {
                for thread in &threads {
                    self.spans += thread.len() as u64;
                    self.dropped_spans += thread.dropped_spans;
                }
            }
            Some(Record::Frame(frame)) if frame.frame_set == 0 => {
                self.frames += 1;
                self.merged_marks += frame.merged_marks;
            }
            Some(Record::End { .. }) => self.is_closed = true,
            _ => {}
        }
        Ok(())
    }
}

/// Decodes a whole capture.
///
/// # Errors
///
/// The file cannot be read, is not a capture, or is damaged.
pub fn totals(path: &Path) -> Result<Totals, Box<dyn std::error::Error>> {
    decode(&std::fs::read(path)?)
}

/// Decodes a whole capture from memory.
///
/// # Errors
///
/// The bytes are not a capture, or are a damaged one.
pub fn decode(bytes: &[u8]) -> Result<Totals, Box<dyn std::error::Error>> {
    let mut totals = Totals {
        bytes: bytes.len() as u64,
        ..Totals::default()
    };
    let Some((header, len)) = Header::decode(bytes)? else {
        return Err("the capture ends within its header".into());
    };
    let mut decoder = Decoder::new(header, Checkpoint::first(len as u64));
    let mut payloads = PayloadDecoder::new();
    for chunk in bytes[len..].chunks(1 << 20) {
        decoder.push(chunk);
        while let Some(event) = decoder.next_event() {
            match event {
                Event::Record(raw) => totals.add(&raw, &mut payloads)?,
                Event::Damage(damage) => {
                    return Err(format!("byte {}: {damage}", damage.offset).into());
                }
                _ => {}
            }
        }
    }
    Ok(totals)
}
