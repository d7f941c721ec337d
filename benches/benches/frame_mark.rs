//! The cost of a mark, which must not depend on the number of spans since the last one. It is
//! measured with a capture, beside a clock read.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use vor_benches::clock::bare_ticks;

fn marks(criterion: &mut Criterion) {
    let Ok(folder) = tempfile::tempdir() else {
        return eprintln!("frame_mark: no temporary folder for the capture");
    };
    vor::Config::new()
        .capture(folder.path().join("run.vor"))
        .enable();
    let mut group = criterion.benchmark_group("frame_mark");
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(20)
        .measurement_time(Duration::from_secs(3));
    group.bench_function("one_clock_read", |bencher| {
        bencher.iter(|| black_box(bare_ticks()))
    });
    for spans in [0_u64, 1_000, 100_000, 1_000_000] {
        group.bench_with_input(
            BenchmarkId::new("after_spans", spans),
            &spans,
            |bencher, spans| {
                bencher.iter_custom(|marks| {
                    let mut passed = Duration::ZERO;
                    for _ in 0..marks {
                        for i in 0..*spans {
                            vor::profile_scope!("between_marks");
                            black_box(i);
                        }
                        let begin = Instant::now();
                        vor::frame_mark();
                        passed += begin.elapsed();
                    }
                    passed
                });
            },
        );
    }
    group.finish();
    vor::disable();
}

criterion_group!(benches, marks);
criterion_main!(benches);
