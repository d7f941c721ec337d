//! The cost of metrics for the program that records them, beside a clock read.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use vor_benches::clock::bare_ticks;

static COUNTER: vor::Counter = vor::Counter::new("bench_counter", "");
static HISTOGRAM: vor::Histogram = vor::Histogram::new("bench_histogram", "ns");

fn metrics(criterion: &mut Criterion) {
    vor::Config::new().enable();
    let mut group = criterion.benchmark_group("metrics");
    group.bench_function("one_clock_read", |bencher| {
        bencher.iter(|| black_box(bare_ticks()))
    });
    group.bench_function("record_metric", |bencher| {
        bencher.iter(|| vor::record_metric(black_box("queue_depth"), black_box(1.0)));
    });
    // Many names, so that the look-up does not always find the name in the cache.
    let names: Vec<String> = (0..256).map(|i| format!("metric_{i}")).collect();
    let mut next = names.iter().cycle();
    group.bench_function("record_metric_of_256_names", |bencher| {
        bencher.iter(|| {
            if let Some(name) = next.next() {
                vor::record_metric(name, black_box(1.0));
            }
        });
    });
    group.bench_function("counter_add", |bencher| {
        bencher.iter(|| COUNTER.add(black_box(1)))
    });
    group.bench_function("histogram_record", |bencher| {
        bencher.iter(|| HISTOGRAM.record(black_box(170)))
    });
    group.bench_function("record_io", |bencher| {
        bencher.iter(|| vor::record_io(black_box(100), black_box(4096)))
    });
    group.finish();
    vor::disable();
}

criterion_group!(benches, metrics);
criterion_main!(benches);
