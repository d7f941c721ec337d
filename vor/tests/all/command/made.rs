//! Captures of known content: frames of requests with random durations from a fixed seed, made
//! without a clock or a thread.

use std::path::Path;
use std::sync::Arc;

use vor::capture::{FrameSnapshot, SpanBatch};
use vor::sinks::FrameSink;
use vor_capture::filled;
use vor_capture::format::{Declared, Encoder, Header, RecordRef};
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{
    Catalog, MachineInfo, ProcessInfo, SiteId, SiteInfo, ThreadInfo,
};
use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};
use vor_capture::model::scope_modes::{ScopeMode, ScopeModeChange, ScopeModes};
use vor_capture::model::timeline::{ClockSync, Timeline};
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

/// A scope and its mean duration, without the scopes inside it.
pub struct ScopeSpec {
    pub name: &'static str,
    pub file: &'static str,
    pub line: u32,
    pub mean_ns: u64,
}

/// Makes a scope in the file `made.rs`.
pub const fn scope(name: &'static str, line: u32, mean_ns: u64) -> ScopeSpec {
    ScopeSpec {
        name,
        file: "made.rs",
        line,
        mean_ns,
    }
}

/// Numbers that look random and follow from the seed.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number with a mean of 1 and a long tail to the right.
    fn skewed(&mut self) -> f64 {
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        // An exponential distribution on top of a minimum.
        0.5 - 0.5 * (1.0 - uniform).ln()
    }
}

/// Writes a capture of `frames` frames with `requests` requests each. The first scope is the
/// request; the others follow each other inside it.
pub fn capture(path: &Path, scopes: &[ScopeSpec], frames: u64, requests: u64, seed: u64) {
    let catalog = catalog(scopes);
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    let mut random = Sequence(seed);
    let mut now = 1_000_000;
    for index in 0..frames {
        let start_ticks = now;
        let mut thread = ThreadBatch::default();
        for _ in 0..requests {
            let begin = now;
            let mut spend = |made: &ScopeSpec| (made.mean_ns as f64 * random.skewed()) as u64;
            now += spend(&scopes[0]);
            for (site, made) in (2..).zip(&scopes[1..]) {
                let length = spend(made);
                end(&mut thread, now, length, site);
                now += length;
            }
            end(&mut thread, begin, now - begin, 1);
            now += 100;
        }
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![thread],
        });
        sink.accept_batch(&batch).unwrap();
        let frame = filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index,
            start_ticks,
            end_ticks: now,
            span_count: batch.span_count() as u64
        });
        sink.accept_frame(&Arc::new(frame)).unwrap();
    }
    sink.finish().unwrap();
}

/// Writes a capture without frames, with these heap snapshots, one second apart. Each snapshot has
/// a number of 100-byte objects for each scope; the other scopes are inside the first.
pub fn heaps(path: &Path, scopes: &[ScopeSpec], mode: HeapMode, snapshots: &[&[u64]]) {
    let catalog = catalog(scopes);
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    let stack = |(site, &objects): (usize, &u64)| {
        let sites = if site == 0 { vec![0] } else { vec![0, site] };
        let scope = |at: usize| {
            filled!(HeapScope {
                site: SiteId(at as u32 + 1)
            })
        };
        filled!(HeapStack {
            scopes: sites.into_iter().map(scope).collect(),
            inuse_objects: objects,
            inuse_bytes: 100 * objects,
            bytes_error: if mode == HeapMode::Exact { 0.0 } else { 10.0 }
        })
    };
    for (second, objects) in (1..).zip(snapshots) {
        let mut heap = HeapSnapshot::default();
        (heap.mode, heap.ticks) = (mode, second * 1_000_000_000);
        heap.stacks = objects.iter().enumerate().map(stack).collect();
        sink.accept_heap(&heap, &catalog).unwrap();
    }
    sink.finish().unwrap();
}

/// Writes a capture of spans of one thread, with `per_frame` spans in each frame. Each span is its
/// begin, its duration and the number of its scope from 1 on; the spans are in the order of their
/// ends.
pub fn spans(path: &Path, scopes: &[ScopeSpec], spans: &[(u64, u64, u32)], per_frame: usize) {
    let catalog = catalog(scopes);
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    let mut start_ticks = 0;
    for (index, part) in (0..).zip(spans.chunks(per_frame)) {
        let mut thread = ThreadBatch::default();
        for &(begin, length, site) in part {
            end(&mut thread, begin, length, site);
        }
        let end_ticks = part.last().map_or(0, |span| span.0 + span.1);
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![thread],
        });
        sink.accept_batch(&batch).unwrap();
        let frame = filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index,
            start_ticks,
            end_ticks,
            span_count: part.len() as u64
        });
        sink.accept_frame(&Arc::new(frame)).unwrap();
        start_ticks = end_ticks;
    }
    sink.finish().unwrap();
}

/// Writes a capture without frames, with a span of 1000 ns of each scope but those of a mode that
/// records none. Scopes have these modes from the begin on.
pub fn modes(path: &Path, scopes: &[ScopeSpec], modes: &[(u32, ScopeMode)]) {
    let mut changes = ScopeModes::default();
    for &(site, mode) in modes {
        changes.insert(filled!(ScopeModeChange {
            ticks: 1,
            site: SiteId(site),
            mode
        }));
    }
    let catalog = Arc::new(filled!(Catalog {
        scope_modes: Arc::new(changes),
        ..Catalog::clone(&catalog(scopes))
    }));
    let mut thread = ThreadBatch::default();
    for site in 1..=scopes.len() as u32 {
        if !modes
            .iter()
            .any(|(of, mode)| *of == site && mode.is_silent())
        {
            end(&mut thread, u64::from(site) * 10_000, 1000, site);
        }
    }
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    let threads = vec![thread];
    sink.accept_batch(&filled!(SpanBatch { catalog, threads }))
        .unwrap();
    sink.finish().unwrap();
}

/// Writes a capture of `frames` frames that a process wrote and did not close, with the identity of
/// its machine.
pub fn unclosed(path: &Path, process: ProcessInfo, machine: MachineInfo, frames: u64) {
    let catalog = Arc::new(filled!(Catalog {
        process: Arc::new(process),
        machine: Arc::new(machine),
        ..Catalog::clone(&catalog(&[scope("work", 1, 10)]))
    }));
    let open = path.with_extension("open");
    let mut sink = CaptureSink::create(&open, CaptureOptions::default()).unwrap();
    for index in 0..frames {
        let mut thread = ThreadBatch::default();
        end(&mut thread, 1_000 + index * 100, 50, 1);
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![thread],
        });
        sink.accept_batch(&batch).unwrap();
        let frame = filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index,
            start_ticks: 1_000 + index * 100,
            end_ticks: 1_100 + index * 100,
            span_count: 1
        });
        sink.accept_frame(&Arc::new(frame)).unwrap();
    }
    sink.commit().unwrap();
    std::fs::copy(&open, path).unwrap();
    sink.finish().unwrap();
}

/// Writes a capture of these records, behind the declarations of its catalog. Its bytes depend on
/// neither the time nor the machine. Returns where each of the records ends in the file.
pub fn records(
    path: &Path,
    catalog: &Catalog,
    records: &[RecordRef<'_>],
    is_closed: bool,
) -> Vec<usize> {
    let header = Header {
        file_id: 77,
        pid: 5,
        flags: Header::KEEPS_SPANS,
        start_unix_ns: 1_700_000_000_000_000_000,
        start_ticks: 1,
    };
    let (mut encoder, mut declared) = (Encoder::new(header), Declared::default());
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    declared.begin(catalog, &mut encoder, &mut bytes);
    if let Some(dump) = &catalog.dump {
        encoder.encode(RecordRef::Dump(dump), &mut bytes);
    }
    declared.put(catalog, &mut encoder, &mut bytes);
    let end_of = |record: &RecordRef<'_>| {
        encoder.encode(*record, &mut bytes);
        bytes.len()
    };
    let ends = records.iter().map(end_of).collect();
    if is_closed {
        encoder.close(catalog, &mut bytes);
    }
    std::fs::write(path, bytes).unwrap();
    ends
}

pub fn end(thread: &mut ThreadBatch, start_ticks: u64, duration_ticks: u64, site: u32) {
    thread.start_ticks.push(start_ticks);
    thread.duration_ticks.push(duration_ticks);
    thread.sites.push(SiteId(site));
}

pub fn catalog(scopes: &[ScopeSpec]) -> Arc<Catalog> {
    let mut timeline = Timeline::default();
    // One tick is one nanosecond.
    timeline.push(filled!(ClockSync {
        ticks: 1,
        unix_ns: 1_700_000_000_000_000_000,
        rate: 1 << 40,
        wall_ns: 1_700_000_000_000_000_000,
    }));
    let sites = scopes.iter().map(|made| {
        Some(Arc::new(filled!(SiteInfo {
            name: made.name.into(),
            file: made.file.into(),
            line: made.line
        })))
    });
    let main = filled!(ThreadInfo {
        os_id: 1,
        name: "main".into(),
    });
    Arc::new(filled!(Catalog {
        timeline: Arc::new(timeline),
        sites: Arc::new(sites.collect()),
        threads: Arc::new(vec![Some(Arc::new(main))]),
        frame_sets: Arc::new(vec![String::new()])
    }))
}
