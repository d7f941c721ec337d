//! The cost of the table of scopes, the icicle and the comparison in a pass of the UI, and the cost
//! of computing them.
//!
//! A pass is the UI and the tessellation, without the GPU. The store holds a million spans of 200
//! scopes on 4 threads, in stacks up to 8 deep; the table of many scopes has 10 000.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use egui::Visuals;
use vor_capture::filled;
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_viz::compare::{Compare, Side};
use vor_viz::icicle::{Icicle, StackOptions, Stacks};
use vor_viz::scopes::{Job, ScopeSums, ScopeTable};
use vor_viz::store::{
    Extent, FrameBlock, FrameEntry, RowBlock, Span, SpanPart, SpanVisitor, Store, ThreadBlock,
    TrackKind, Walk,
};
use vor_viz::theme::Theme;
use vor_viz::view::{Scope, View};

use crate::headless::Headless;

const FRAMES: u64 = 100;
const THREADS: u32 = 4;

/// Returns a store of about `spans` spans.
fn store(spans: u64, sites: u32) -> Store {
    let site = |i: u32| {
        let name = format!("module::part_{}::function_{i}", i % 17);
        Some(Arc::new(filled!(SiteInfo { name: name.into() })))
    };
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new((0..sites).map(site).collect())
    }));
    let mut store = Store::new(FRAMES as usize, usize::MAX);
    let mut random = 1_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    // A group is a chain of 4 spans with 4 leaves at its end.
    let groups = spans / FRAMES / u64::from(THREADS) / 8;
    for number in 0..FRAMES {
        let begin_ns = store.frames().back().map_or(0, |frame| frame.end_ns);
        let mut end_ns = begin_ns;
        let threads = (0..THREADS).map(|thread| {
            let mut rows = vec![RowBlock::default(); 5];
            let mut at = begin_ns;
            for _ in 0..groups {
                let first = (next() % u64::from(sites)) as u32;
                let inside: [u64; 4] = std::array::from_fn(|_| 50 + next() % 2_000);
                let length: u64 = inside.iter().sum::<u64>() + 40;
                for (depth, row) in rows.iter_mut().take(4).enumerate() {
                    let (more, id) = (4 - depth as u64, first + depth as u32 * 7);
                    row.push(at + depth as i64, length + 2 * more, SiteId(id % sites + 1));
                }
                let mut inner = at + 8;
                for (i, ns) in inside.iter().enumerate() {
                    rows[4].push(inner, *ns, SiteId((first + 31 + i as u32) % sites + 1));
                    inner += *ns as i64 + 5;
                }
                at += length as i64 + 100;
            }
            end_ns = end_ns.max(at);
            ThreadBlock {
                thread: ThreadId(thread),
                rows,
                ..ThreadBlock::default()
            }
        });
        let threads = threads.collect();
        store.push_block(FrameBlock {
            frame: FrameEntry {
                number,
                begin_ns,
                end_ns,
                ..FrameEntry::default()
            },
            catalog: Arc::clone(&catalog),
            threads,
        });
    }
    store
}

#[derive(Default)]
struct Nothing(u64);

impl SpanVisitor for Nothing {
    fn enter(&mut self, _: &Span, _: usize) {}

    fn leave(&mut self, _: &Span, _: usize, part: SpanPart) {
        self.0 = self.0.wrapping_add(part.ns ^ part.inside_ns);
    }
}

fn computing(c: &mut Criterion) {
    let store = store(1_000_000, 200);
    let all = Some(Scope::Frames(0, store.frames().len() - 1));
    let mut group = c.benchmark_group("per_span");
    group.sample_size(20);
    group.throughput(Throughput::Elements(store.stored_spans() as u64));
    group.bench_function("walk", |b| {
        b.iter(|| {
            let mut visitor = Nothing::default();
            for track in store
                .tracks()
                .iter()
                .filter(|track| track.id.kind() == TrackKind::Scopes)
            {
                let mut walk = Walk::new(track, -1, i64::MAX, Extent::Clipped);
                while walk.resume(track, 60_000, &mut visitor) {}
            }
            black_box(visitor.0)
        });
    });
    group.bench_function("scope_sums", |b| {
        b.iter(|| {
            let mut job: Job<ScopeSums> = Job::default();
            job.finish(&store, all, &Extent::Clipped);
            black_box(job.output().map(|rows| rows.spans))
        });
    });
    group.bench_function("stacks", |b| {
        b.iter(|| {
            let mut job: Job<Stacks> = Job::default();
            job.finish(&store, all, &StackOptions::default());
            black_box(job.output().map(|stacks| stacks.tree.nodes().len()))
        });
    });
    group.finish();
}

fn passes(c: &mut Criterion) {
    let mut headless = Headless::new();
    let theme = Theme::of(&Visuals::dark());
    let mut group = c.benchmark_group("pass");
    group.sample_size(50);
    for (name, data) in [
        ("1M_spans", store(1_000_000, 200)),
        ("10k_scopes", store(400_000, 10_000)),
    ] {
        let mut view = View::default();
        view.begin_pass(&data);
        let mut table = ScopeTable::default();
        table.finish(&data, &view);
        group.bench_function(format!("table/{name}"), |b| {
            b.iter(|| headless.pass(|ui| table.show(ui, &data, &mut view, &theme)));
        });
        table.select(SiteId(1), TrackKind::Scopes);
        group.bench_function(format!("table_details/{name}"), |b| {
            b.iter(|| headless.pass(|ui| table.show(ui, &data, &mut view, &theme)));
        });
        let mut icicle = Icicle::default();
        icicle.finish(&data, &view);
        group.bench_function(format!("icicle/{name}"), |b| {
            b.iter(|| headless.pass(|ui| icicle.show(ui, &data, &mut view, &theme)));
        });
        let mut compare = Compare::default();
        let side = |name, (first, last)| Side {
            name,
            store: &data,
            scope: Scope::Frames(first, last),
            spans: None,
            whole_frames: None,
        };
        let (left, right) = (side("left", (0, 49)), side("right", (50, 99)));
        compare.finish(&left, &right, Extent::Clipped);
        let mut extent = Extent::Clipped;
        group.bench_function(format!("compare/{name}"), |b| {
            b.iter(|| headless.pass(|ui| compare.show(ui, &left, &right, &mut extent, &theme)));
        });
        // Each pass begins another selection, so that each computes a slice.
        let mut working = ScopeTable::default();
        let mut last = 0;
        group.bench_function(format!("table_first_slice/{name}"), |b| {
            b.iter(|| {
                last = 90 + (last + 1) % 10;
                view.select(&data, 0, last);
                headless.pass(|ui| working.show(ui, &data, &mut view, &theme))
            });
        });
    }
    group.finish();
}

pub fn benches(criterion: &mut Criterion) {
    computing(criterion);
    passes(criterion);
}
