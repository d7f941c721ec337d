//! The cost of a scope for the measured program, beside the bare clock, which is the floor.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Bencher, Criterion, criterion_group, criterion_main};
use vor_benches::clock::bare_ticks;
use vor_benches::work::chain;

/// Passes between two flushes: their records fit into a ring, so that no sample measures drops.
const CHUNK: u64 = 10_000;

/// Times `pass`; drains the rings in between, untimed.
fn flushed(bencher: &mut Bencher<'_>, mut pass: impl FnMut(u64)) {
    bencher.iter_custom(|passes| {
        let mut passed = Duration::ZERO;
        let mut done = 0;
        while done < passes {
            let until = passes.min(done + CHUNK);
            let begin = Instant::now();
            for i in done..until {
                pass(i);
            }
            passed += begin.elapsed();
            done = until;
            vor::flush();
        }
        passed
    });
}

fn scopes(criterion: &mut Criterion) {
    let mut off = criterion.benchmark_group("scope_off");
    off.bench_function("empty_loop", |bencher| bencher.iter(|| black_box(0)));
    off.bench_function("scope", |bencher| {
        bencher.iter(|| {
            vor::profile_scope!("off");
            black_box(0)
        });
    });
    off.finish();

    vor::Config::new().enable();
    let mut on = criterion.benchmark_group("scope");
    on.bench_function("one_clock_read", |bencher| {
        flushed(bencher, |_| _ = black_box(bare_ticks()))
    });
    on.bench_function("two_clock_reads", |bencher| {
        flushed(bencher, |_| {
            black_box(bare_ticks());
            black_box(bare_ticks());
        });
    });
    on.bench_function("empty", |bencher| {
        flushed(bencher, |i| {
            vor::profile_scope!("empty");
            black_box(i);
        });
    });
    on.bench_function("nested_10_deep", |bencher| flushed(bencher, nested));
    on.bench_function("two_integer_arguments", |bencher| {
        flushed(bencher, |i| {
            vor::profile_scope!("two_args", index = i, bytes = 4096_u64);
            black_box(i);
        });
    });
    on.bench_function("text_argument", |bencher| {
        flushed(bencher, |i| {
            vor::profile_scope!("text_arg", codec = "lz4");
            black_box(i);
        });
    });
    on.bench_function("name_made_at_run_time", |bencher| {
        flushed(bencher, |i| {
            let _scope = vor::scope(black_box("made at run time"));
            black_box(i);
        });
    });
    on.bench_function("work_between_two_clock_reads", |bencher| {
        flushed(bencher, |i| {
            black_box(bare_ticks());
            black_box(chain(i, 105));
            black_box(bare_ticks());
        });
    });
    on.bench_function("work_in_a_scope", |bencher| {
        flushed(bencher, |i| {
            vor::profile_scope!("work");
            black_box(chain(i, 105));
        });
    });
    on.bench_function("processor_time", |bencher| {
        flushed(bencher, |i| {
            vor::profile_scope!("measured", cpu);
            black_box(i);
        });
    });
    on.bench_function("processor_time_nested_10_deep", |bencher| {
        flushed(bencher, measured)
    });
    on.bench_function("phase", |bencher| {
        let mut phases = vor::profile_phase!("first");
        flushed(bencher, |i| {
            vor::profile_phase!(phases, "next");
            black_box(i);
        });
    });
    on.finish();

    // The process cannot leave this mode, so it comes last.
    vor::Config::new()
        .count_scopes(true)
        .print_stats(false)
        .enable();
    let mut counted = criterion.benchmark_group("scope_counted");
    counted.bench_function("two_clock_reads", |bencher| {
        flushed(bencher, |_| {
            black_box(bare_ticks());
            black_box(bare_ticks());
        });
    });
    counted.bench_function("empty", |bencher| {
        flushed(bencher, |i| {
            vor::profile_scope!("empty");
            black_box(i);
        });
    });
    counted.bench_function("nested_10_deep", |bencher| flushed(bencher, nested));
    counted.bench_function("two_integer_arguments", |bencher| {
        flushed(bencher, |i| {
            vor::profile_scope!("two_args", index = i, bytes = 4096_u64);
            black_box(i);
        });
    });
    counted.bench_function("name_made_at_run_time", |bencher| {
        flushed(bencher, |i| {
            let _scope = vor::scope(black_box("made at run time"));
            black_box(i);
        });
    });
    counted.bench_function("work_in_a_scope", |bencher| {
        flushed(bencher, |i| {
            vor::profile_scope!("work");
            black_box(chain(i, 105));
        });
    });
    counted.bench_function("phase", |bencher| {
        let mut phases = vor::profile_phase!("first");
        flushed(bencher, |i| {
            vor::profile_phase!(phases, "next");
            black_box(i);
        });
    });
    counted.finish();
    vor::disable();
}

fn measured(i: u64) {
    vor::profile_scope!("measured 1", cpu);
    vor::profile_scope!("measured 2", cpu);
    vor::profile_scope!("measured 3", cpu);
    vor::profile_scope!("measured 4", cpu);
    vor::profile_scope!("measured 5", cpu);
    vor::profile_scope!("measured 6", cpu);
    vor::profile_scope!("measured 7", cpu);
    vor::profile_scope!("measured 8", cpu);
    vor::profile_scope!("measured 9", cpu);
    vor::profile_scope!("measured 10", cpu);
    black_box(i);
}

fn nested(i: u64) {
    vor::profile_scope!("1");
    vor::profile_scope!("2");
    vor::profile_scope!("3");
    vor::profile_scope!("4");
    vor::profile_scope!("5");
    vor::profile_scope!("6");
    vor::profile_scope!("7");
    vor::profile_scope!("8");
    vor::profile_scope!("9");
    vor::profile_scope!("10");
    black_box(i);
}

criterion_group!(benches, scopes);
criterion_main!(benches);
