//! The cost of a UI pass with tessellation, without the GPU: frame bars, metric rows, and the
//! overview of a capture.
//!
//! *Live* means that a frame arrives before each pass, so everything is computed again. *Paused*
//! means that nothing changes between passes.

use criterion::{BatchSize, Criterion};
use egui::Ui;
use vor_capture::filled;
use vor_capture::model::frame::MetricValue;
use vor_viz::bars::{self, Thresholds};
use vor_viz::overview::{self, OverviewData, OverviewMark};
use vor_viz::plots::{MetricRow, Plots};
use vor_viz::pyramid::MinMaxPyramid;
use vor_viz::replay::FrameNumbers;
use vor_viz::store::{FrameEntry, Series, Store};
use vor_viz::theme::Theme;
use vor_viz::view::View;

use crate::headless::Headless;
use crate::synthetic::Random;

const METRICS: u32 = 12;

/// Returns a number from 0 to 1.
fn share(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

struct Frames {
    store: Store,
    random: Random,
    end_ns: i64,
    number: u64,
}

impl Frames {
    fn new(count: usize) -> Self {
        let mut frames = Self {
            store: Store::new(count, usize::MAX),
            random: Random(7),
            end_ns: 0,
            number: 0,
        };
        (0..count).for_each(|_| frames.push());
        frames
    }

    fn push(&mut self) {
        let begin_ns = self.end_ns;
        self.end_ns += (12e6 + 9e6 * share(&mut self.random).powi(6)) as i64;
        let metrics = (0..METRICS).map(|column| {
            filled!(MetricValue {
                column,
                value: share(&mut self.random) * 100.0,
            })
        });
        self.store.push_frame(FrameEntry {
            number: self.number,
            begin_ns,
            end_ns: self.end_ns,
            dropped_spans: u64::from(self.number.is_multiple_of(500)),
            metrics: metrics.collect(),
            ..FrameEntry::default()
        });
        self.number += 1;
    }
}

fn bench_pair(
    criterion: &mut Criterion,
    name: &str,
    mut frames: Frames,
    mut show: impl FnMut(&mut Ui, &Store, &mut View, &Theme),
) {
    let mut headless = Headless::new();
    let mut view = View::default();
    let mut group = criterion.benchmark_group(name);
    let mut run = |store: &Store| {
        view.begin_pass(store);
        headless.pass(|ui| {
            let theme = Theme::of(ui.visuals());
            show(ui, store, &mut view, &theme);
        })
    };
    group.bench_function("paused", |bencher| bencher.iter(|| run(&frames.store)));
    group.bench_function("live", |bencher| {
        bencher.iter(|| {
            frames.push();
            run(&frames.store)
        });
    });
    group.finish();
}

fn bars(criterion: &mut Criterion) {
    for count in [1_000, 10_000, 100_000] {
        let frames = Frames::new(count);
        bench_pair(
            criterion,
            &format!("bars_{count}"),
            frames,
            |ui, store, view, theme| {
                bars::show(ui, 80.0, store, view, theme, Thresholds::default());
            },
        );
    }
}

fn plots(criterion: &mut Criterion) {
    for count in [300, 1_000, 10_000] {
        let names: Vec<String> = (0..METRICS).map(|i| format!("metric number {i}")).collect();
        let mut plots = Plots::default();
        let frames = Frames::new(count);
        bench_pair(
            criterion,
            &format!("plots_12x{count}"),
            frames,
            |ui, store, view, theme| {
                let read = |column: u32| {
                    move |index: usize| {
                        let frame = store.frames().get(index);
                        frame
                            .and_then(|frame| frame.metric(column))
                            .unwrap_or(f64::NAN)
                    }
                };
                let readers: Vec<_> = (0..METRICS).map(read).collect();
                let row = |(name, values)| MetricRow {
                    name,
                    unit: "ms",
                    integer: false,
                    description: "",
                    values,
                    series: Series::Unknown,
                };
                let values = readers.iter().map(|reader| reader as &dyn Fn(usize) -> f64);
                let rows: Vec<_> = names
                    .iter()
                    .map(String::as_str)
                    .zip(values)
                    .map(row)
                    .collect();
                plots.show(ui, store, view, theme, &rows);
            },
        );
    }
}

fn overview(criterion: &mut Criterion) {
    let mut random = Random(3);
    let mut durations_ms = MinMaxPyramid::new();
    (0..10_000_000)
        .for_each(|_| durations_ms.push((12.0 + 30.0 * share(&mut random).powi(8)) as f32));
    let marks: Vec<_> = (0..100_000)
        .map(|i| (i * 97, OverviewMark::Dropped))
        .collect();
    let data = OverviewData {
        durations_ms: &durations_ms,
        numbers: &FrameNumbers::default(),
        marks: &marks,
        loaded: 10_000_000,
        total: 10_000_000,
    };
    let mut headless = Headless::new();
    criterion.bench_function("overview_10M", |bencher| {
        bencher.iter(|| {
            headless.pass(|ui| {
                let theme = Theme::of(ui.visuals());
                let window = 4_000_000..4_010_000;
                overview::show(
                    ui,
                    48.0,
                    data,
                    window,
                    Some(4_000_005),
                    &theme,
                    Thresholds::default(),
                );
            })
        });
    });
    criterion.bench_function("empty_pass", |bencher| {
        bencher.iter(|| headless.pass(|_| {}))
    });
    criterion.bench_function("pyramid_push_100k", |bencher| {
        bencher.iter_batched(
            MinMaxPyramid::new,
            |mut pyramid| {
                (0..100_000).for_each(|i| pyramid.push(i as f32));
                pyramid
            },
            BatchSize::LargeInput,
        );
    });
}

pub fn benches(criterion: &mut Criterion) {
    bars(criterion);
    plots(criterion);
    overview(criterion);
}
