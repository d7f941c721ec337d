//! The whole panel with twelve plots, with different numbers of spans.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use egui::{Event, Modifiers, PointerButton, pos2};
use vor_viz::bars::Thresholds;
use vor_viz::panel::Panel;
use vor_viz::plots::MetricRow;
use vor_viz::store::{Series, Store};

use crate::flame::{DEPTH, SIZES};
use crate::headless::Headless;
use crate::synthetic;

pub fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("whole");
    group.sample_size(30);
    for (name, spans, frames) in SIZES {
        let mut panel = panel_of(spans, frames);
        // All 56 rows of the flame chart and all twelve plots are in view.
        panel.chart_mut().set_row_height(9.0);
        panel.plots_mut().set_row_height(24.0);
        let mut headless = Headless::new();
        // Nine metrics in addition to the three of the frames.
        let names: Vec<String> = (0..9).map(|i| format!("metric {i}")).collect();
        let values: Vec<_> = (0..9)
            .map(|i| move |frame: usize| ((frame * (i + 3)) % 97) as f64)
            .collect();
        let mut step = 0_u32;
        let mut pass = || {
            step += 1;
            let view = panel.view_mut();
            let all = view.axis();
            // Zoomed out, except for a pixel or two that change from pass to pass.
            let less = all.len_ns() * f64::from(step % 8) / 2000.0;
            view.zoom_to(all.begin_ns, all.end_ns - less);
            let rows = names.iter().zip(&values).map(|(name, values)| MetricRow {
                name,
                unit: "ms",
                integer: false,
                description: "",
                values,
                series: Series::Unknown,
            });
            let rows: Vec<MetricRow<'_>> = rows.collect();
            headless.pass(|ui| panel.show(ui, &rows))
        };
        pass();
        group.bench_function(BenchmarkId::new("12 plots", name), |bencher| {
            bencher.iter(|| black_box(pass()))
        });
    }
    group.finish();
    live(criterion);
    pan(criterion);
}

/// Makes a panel of a number of spans in some frames.
fn panel_of(spans: usize, frames: usize) -> Panel {
    let mut store = Store::new(frames, usize::MAX);
    for block in synthetic::blocks(frames, spans, DEPTH) {
        store.push_block(block);
    }
    Panel::new(store, Thresholds::default())
}

/// The panel of a running program: a new frame comes before each pass, which is not timed, and the
/// oldest one goes.
fn live(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("live panel");
    group.sample_size(30);
    for (name, spans, frames) in SIZES {
        let mut store = Store::new(frames, usize::MAX);
        let mut blocks = synthetic::blocks(frames, spans, DEPTH);
        for block in &blocks {
            store.push_block(block.clone());
        }
        let length_ns = blocks.last().map_or(0, |block| block.frame.end_ns);
        let mut panel = Panel::new(store, Thresholds::default());
        panel.view_mut().follow(true);
        panel.chart_mut().set_row_height(9.0);
        let mut headless = Headless::new();
        let mut next = 0;
        let mut pass = || {
            let block = &mut blocks[next % frames];
            next += 1;
            block.frame.number += frames as u64;
            synthetic::shift(block, length_ns);
            panel.store_mut().push_block(block.clone());
            let begin = Instant::now();
            black_box(headless.pass(|ui| panel.show(ui, &[])));
            begin.elapsed()
        };
        pass();
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|passes| (0..passes).map(|_| pass()).sum::<Duration>());
        });
    }
    group.finish();
}

/// The panel while a pointer drags half of the time to and fro, by parts of a pixel.
fn pan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pan");
    group.sample_size(30);
    for (name, spans, frames) in SIZES {
        let mut panel = panel_of(spans, frames);
        panel.chart_mut().set_row_height(9.0);
        let mut headless = Headless::new();
        headless.pass(|ui| panel.show(ui, &[]));
        let all = panel.view().axis();
        let quarter_ns = all.len_ns() / 4.0;
        panel
            .view_mut()
            .zoom_to(all.begin_ns + quarter_ns, all.end_ns - quarter_ns);
        headless.pass(|ui| panel.show(ui, &[]));
        let mut step = 0_u32;
        let mut pass = || {
            // 3.3 points a pass: 100 passes to the right, and as many back.
            let away = (step + 100) % 200;
            let at = pos2(700.0 + 3.3 * away.abs_diff(100) as f32, 500.0);
            let press = Event::PointerButton {
                pos: at,
                button: PointerButton::Primary,
                pressed: true,
                modifiers: Modifiers::NONE,
            };
            let is_first = step == 0;
            step += 1;
            let events = [Event::PointerMoved(at)].into_iter();
            let events = events.chain(is_first.then_some(press)).collect();
            headless.pass_with(events, |ui| panel.show(ui, &[]))
        };
        // A press becomes a drag when the pointer has moved some points.
        (0..10).for_each(|_| _ = pass());
        group.bench_function(name, |bencher| bencher.iter(|| black_box(pass())));
    }
    group.finish();
}
