//! The cost of a span's CPU time, and its accuracy. `VOR_CPU_SOURCE=clock` measures the thread's
//! clock in place of the marks.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use vor_benches::clock::{bare_ticks, thread_cpu_ns};
use vor_benches::work::chain;
use vor_recorder::__private::{
    init_cpu, off_cpu_ticks, off_cpu_ticks_at, off_of_span, user_sys_ns,
};

fn reads(criterion: &mut Criterion) {
    println!("source: {:?}", init_cpu());
    accuracy("alone", false);
    accuracy("beside a competitor", true);
    let mut group = criterion.benchmark_group("cpu_time");
    group.bench_function("two_clock_reads", |bencher| {
        bencher.iter(|| {
            let start = bare_ticks();
            bare_ticks().wrapping_sub(black_box(start))
        });
    });
    group.bench_function("two_clock_reads_and_off_cpu_times", |bencher| {
        bencher.iter(|| {
            let start = bare_ticks();
            let before = black_box(off_cpu_ticks_at(start));
            let end = bare_ticks();
            off_of_span(
                before,
                off_cpu_ticks_at(end),
                end.wrapping_sub(black_box(start)),
            )
        });
    });
    group.bench_function("two_clock_reads_and_thread_clock_reads", |bencher| {
        bencher.iter(|| {
            let start = bare_ticks();
            let before = black_box(thread_cpu_ns());
            let end = bare_ticks();
            (
                end.wrapping_sub(black_box(start)),
                thread_cpu_ns().wrapping_sub(before),
            )
        });
    });
    group.bench_function("off_cpu_time", |bencher| bencher.iter(off_cpu_ticks));
    group.bench_function("thread_clock_read", |bencher| bencher.iter(thread_cpu_ns));
    group.bench_function("program_and_kernel", |bencher| bencher.iter(user_sys_ns));
    group.finish();
}

/// Compares 3 s of spans of up to 6 µs with the thread's clock, both on one CPU where possible.
fn accuracy(name: &str, competitor: bool) {
    static STOP: AtomicBool = AtomicBool::new(false);
    let measured = std::thread::scope(|scope| {
        let measure = || {
            stay_on_one_processor();
            STOP.store(!competitor, Ordering::Relaxed);
            let compete = || {
                while !STOP.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            // The other thread stays on the CPU of the thread that starts it.
            let other = std::thread::spawn(compete);
            spans(name);
            STOP.store(true, Ordering::Relaxed);
            other.join()
        };
        scope.spawn(measure).join()
    });
    assert!(measured.is_ok());
}

fn spans(name: &str) {
    const LENGTH: Duration = Duration::from_secs(3);
    let _ = off_cpu_ticks();
    let begin = Instant::now();
    let (clock_began, start) = (thread_cpu_ns(), bare_ticks());
    let before = off_cpu_ticks_at(start);
    let (mut count, mut with_off, mut beyond, mut max_excess_ticks) = (0_u64, 0_u64, 0_u64, 0_u64);
    while begin.elapsed() < LENGTH {
        for i in 0..1000_u64 {
            let start = bare_ticks();
            let before = off_cpu_ticks_at(start);
            black_box(chain(i, (i % 64) as u32 * 48));
            let end = bare_ticks();
            let off = off_cpu_ticks_at(end) - before;
            let excess = off.saturating_sub(end.saturating_sub(start));
            count += 1;
            with_off += u64::from(off > 0);
            beyond += u64::from(excess > 0);
            max_excess_ticks = max_excess_ticks.max(excess);
        }
    }
    std::thread::sleep(Duration::from_micros(50));
    let end = bare_ticks();
    let off = off_cpu_ticks_at(end) - before;
    let clock_ns = thread_cpu_ns() - clock_began;
    let ns_per_tick = begin.elapsed().as_nanos() as f64 / (end - start) as f64;
    let cpu_ns = (end - start - off) as f64 * ns_per_tick;
    println!(
        "{name}: {count} spans, {with_off} of them not all the time on the processor; by the spans \
        {:.3} ms, by the thread's clock {:.3} ms; {beyond} spans cut to their length, by {:.1} µs \
        at most",
        cpu_ns / 1e6,
        clock_ns as f64 / 1e6,
        max_excess_ticks as f64 * ns_per_tick / 1e3,
    );
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "affinities are set by the C library")]
fn stay_on_one_processor() {
    // SAFETY: the set is plain memory of this frame, all zeros are an empty set, and the call
    // affects only the calling thread.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
    }
}

#[cfg(not(target_os = "linux"))]
fn stay_on_one_processor() {}

criterion_group!(benches, reads);
criterion_main!(benches);
