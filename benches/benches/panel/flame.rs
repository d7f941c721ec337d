//! The flame chart with different numbers of spans, with all its rows in view.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use vor_viz::flame::FlameChart;
use vor_viz::store::Store;
use vor_viz::theme::Theme;
use vor_viz::view::View;

use crate::headless::Headless;
use crate::synthetic;

/// A name, a number of spans, and their number of frames.
pub const SIZES: [(&str, usize, usize); 4] = [
    ("1k", 1_000, 1),
    ("100k", 100_000, 32),
    ("1M", 1_000_000, 256),
    ("10M", 10_000_000, 2_560),
];

/// Rows per thread of the bench's programs: 8 threads fill the height at 16 pixels a row.
pub const DEPTH: usize = 7;

pub fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flame");
    group.sample_size(30);
    for (name, spans, frames) in SIZES {
        let mut blocks = synthetic::blocks(frames, spans, DEPTH);
        let held: u64 = blocks.iter().map(|block| block.frame.stored_spans).sum();
        group.throughput(Throughput::Elements(held));
        group.bench_function(BenchmarkId::new("ingest", name), |bencher| {
            bencher.iter_with_large_drop(|| filled(&blocks));
        });
        group.throughput(Throughput::Elements(1));
        let store = filled(&blocks);
        eprintln!(
            "{name}: {held} spans, {:.2} bytes each",
            store.span_bytes() as f64 / held as f64
        );
        for (zoom, share) in [("whole", 1.0), ("1 percent", 0.01)] {
            let mut headless = Headless::new();
            let mut view = View::default();
            let mut chart = FlameChart::default();
            let mut step = 0_u32;
            let mut pass = || {
                step += 1;
                view.begin_pass(&store);
                let all = view.axis();
                let length = all.len_ns() * share;
                // Panned by some pixels in each pass.
                let begin = all.begin_ns
                    + (all.len_ns() - length) * 0.4
                    + f64::from(step % 100) * length / 5_000.0;
                view.zoom_to(begin, begin + length);
                headless.pass(|ui| {
                    let theme = Theme::of(ui.visuals());
                    chart.show(ui, 1080.0, &store, &mut view, &theme, &|_, _| None);
                })
            };
            pass();
            group.bench_function(BenchmarkId::new(zoom, name), |bencher| {
                bencher.iter(|| black_box(pass()))
            });
            let mut cold = || {
                let mut headless = Headless::new();
                let mut chart = FlameChart::default();
                view.begin_pass(&store);
                headless.pass(|ui| {
                    let theme = Theme::of(ui.visuals());
                    chart.show(ui, 1080.0, &store, &mut view, &theme, &|_, _| None);
                })
            };
            if share == 1.0 {
                group.bench_function(BenchmarkId::new("first picture", name), |bencher| {
                    bencher.iter(|| black_box(cold()))
                });
            }
        }
        blocks.clear();
    }
    group.finish();
}

fn filled(blocks: &[vor_viz::store::FrameBlock]) -> Store {
    let mut store = Store::new(blocks.len(), usize::MAX);
    for block in blocks {
        store.push_block(block.clone());
    }
    store
}
