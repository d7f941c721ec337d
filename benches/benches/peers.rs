//! The cost of other profilers' scopes in the same run. Needs `--features peers`; `peers-fastant`
//! gives perfetto-recorder its fast clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use vor_benches::clock::two_ticks;
use vor_benches::peers::{self, Peer};

/// Scopes between two times that the recording is discarded.
const CHUNK: u64 = 1000;

fn vor_empty(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("empty");
        black_box(i);
    }
}

fn vor_two_args(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("two_args", index = i, bytes = 4096_u64);
        black_box(i);
    }
}

fn bench(group: &mut BenchmarkGroup<'_, WallTime>, peer: Peer) {
    for (kind, run) in [("empty", peer.empty), ("two_integers", peer.two_args)] {
        group.bench_function(format!("{}/{kind}", peer.name), |bencher| {
            bencher.iter_custom(|passes| {
                let mut passed = Duration::ZERO;
                let mut left = passes;
                while left > 0 {
                    let now = left.min(CHUNK);
                    let begin = Instant::now();
                    run(now as u32);
                    passed += begin.elapsed();
                    (peer.discard)();
                    left -= now;
                }
                passed
            });
        });
    }
}

fn all(criterion: &mut Criterion) {
    // Puffin's scopes are on for puffin, which must not get ours as well.
    vor::Config::new().puffin(false).enable();
    let mut group = criterion.benchmark_group("peers");
    // Tracy keeps its recording in memory, so the time is short.
    group
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    let nothing = || {};
    bench(
        &mut group,
        Peer {
            name: "two_clock_reads",
            empty: two_ticks,
            two_args: two_ticks,
            discard: nothing,
            has_recorded: || true,
            data: "",
        },
    );
    bench(
        &mut group,
        Peer {
            name: "vor",
            empty: vor_empty,
            two_args: vor_two_args,
            discard: vor::flush,
            has_recorded: || true,
            data: "drained, with no sink",
        },
    );
    for peer in peers::start() {
        bench(&mut group, peer);
    }
    peers::with_tracing_chrome(|peer| bench(&mut group, peer));
    group.finish();
    vor::disable();
}

criterion_group!(benches, all);
criterion_main!(benches);
