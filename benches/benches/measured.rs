//! The cost of a scope that measures more than its duration, for all scopes of the program. It is
//! measured beside two clock reads, in interleaved rounds.
//!
//! With `VOR_CPU_SOURCE=clock`, CPU time comes from the thread's clock, and the floor is two reads
//! of both clocks.
//!
//! A program cannot stop measuring, so the modes follow each other: durations only, then also CPU
//! time, then also waits, then also allocations. With waits, each switch of the thread costs a read
//! of the kernel's count.

use std::hint::black_box;

use vor_benches::clock::{bare_ticks, thread_cpu_ns, two_ticks};
use vor_benches::rounds::{Loop, contest, keep_quiet};
use vor_recorder::__private::init_cpu;
use vor_recorder::clock::cpu::Source;

#[global_allocator]
static ALLOCATOR: vor::heap::TrackingAllocator = vor::heap::TrackingAllocator::system();

const ROUNDS: usize = 400;
const SCOPES: u32 = 1000;
/// Rounds for scopes that call the system twice each, so that these rounds take as long as the
/// others.
const SLOW_ROUNDS: usize = 8_000;
const SLOW_SCOPES: u32 = 25;

fn both_clocks(passes: u32) {
    for _ in 0..passes {
        black_box((bare_ticks(), thread_cpu_ns()));
        black_box((bare_ticks(), thread_cpu_ns()));
    }
}

/// A scope that records only its duration, and two reads of the thread's clock.
fn scope_and_clock(passes: u32) {
    for _ in 0..passes {
        vor::profile_scope!("and the clock");
        black_box(thread_cpu_ns());
        black_box(thread_cpu_ns());
    }
}

fn empty(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("empty");
        black_box(i);
    }
}

fn two_args(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("two_args", index = i, bytes = 4096_u64);
        black_box(i);
    }
}

fn of_itself(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("measured", cpu);
        black_box(i);
    }
}

fn bare_object(passes: u32) {
    for i in 0..passes {
        black_box(bare_ticks());
        black_box(Box::new(i));
        black_box(bare_ticks());
    }
}

fn with_object(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("with object");
        black_box(Box::new(i));
    }
}

fn phases(passes: u32) {
    let mut phase = vor::profile_phase!("first");
    for i in 1..passes {
        vor::profile_phase!(phase, "next");
        black_box(i);
    }
}

fn measure(mode: &str) {
    let mut contestants: [Loop<'_>; 7] = [
        Box::new(two_ticks),
        Box::new(empty),
        Box::new(of_itself),
        Box::new(two_args),
        Box::new(phases),
        Box::new(bare_object),
        Box::new(with_object),
    ];
    let mut times = contest(ROUNDS, SCOPES, &mut contestants, 2, &mut vor::flush);
    let quiet = keep_quiet(&mut times);
    println!("{mode}, ns over two clock readings, medians of {quiet} quiet rounds of {ROUNDS}:");
    println!("  {:24} {:6.2}", "two clock readings", times[0].median_ns());
    println!(
        "  {:24} {:+6.2}",
        "over it with an object",
        times[6].more_than_ns(&times[5])
    );
    for (name, times_of) in [
        "empty scope",
        "profile_scope!(…, cpu)",
        "two integer arguments",
        "phase",
    ]
    .iter()
    .zip(&times[1..])
    {
        println!("  {name:24} {:+6.2}", times_of.more_than_ns(&times[0]));
    }
}

/// Measures scopes that each call the system twice.
fn measure_by_the_clock() {
    let mut contestants: [Loop<'_>; 3] = [
        Box::new(both_clocks),
        Box::new(scope_and_clock),
        Box::new(of_itself),
    ];
    let mut times = contest(
        SLOW_ROUNDS,
        SLOW_SCOPES,
        &mut contestants,
        80,
        &mut vor::flush,
    );
    let quiet = keep_quiet(&mut times);
    println!("CPU time by the thread's clock, medians of {quiet} quiet rounds of {SLOW_ROUNDS}:");
    for (name, times_of) in [
        "two readings of both clocks",
        "empty scope, two readings of the thread's clock",
        "profile_scope!(…, cpu)",
    ]
    .iter()
    .zip(&times)
    {
        println!(
            "  {name:48} {:7.2} ns, {:+6.2} over the second",
            times_of.median_ns(),
            times_of.more_than_ns(&times[1])
        );
    }
}

/// Measures what a switch costs beyond its CPU time: a read of the kernel's count of waits.
#[cfg(target_os = "linux")]
fn measure_a_switch() {
    use std::os::unix::fs::FileExt;

    let Ok(file) = std::fs::File::open("/proc/thread-self/schedstat") else {
        println!("the kernel has no count of waits");
        return;
    };
    let read = |passes: u32| {
        for _ in 0..passes {
            let _ = black_box(file.read_at(&mut [0; 64], 0));
        }
    };
    let mut contestants: [Loop<'_>; 2] = [Box::new(two_ticks), Box::new(read)];
    let mut times = contest(ROUNDS, SLOW_SCOPES, &mut contestants, 2, &mut vor::flush);
    let quiet = keep_quiet(&mut times);
    println!("a read of the kernel's count, median of {quiet} quiet rounds of {ROUNDS}:");
    println!("  {:24} {:6.0} ns", "per switch", times[1].median_ns());
}

fn main() {
    vor::Config::new().allocations(false).enable();
    if init_cpu() == Source::Clock {
        return measure_by_the_clock();
    }
    measure("lengths");
    vor::Config::new()
        .allocations(false)
        .cpu_time(true)
        .enable();
    measure("CPU time of all scopes");
    vor::Config::new().allocations(false).waits(true).enable();
    measure("CPU time and waits of all scopes");
    #[cfg(target_os = "linux")]
    measure_a_switch();
    vor::Config::new().cpu_time(true).allocations(true).enable();
    measure("CPU time, waits and allocations of all scopes");
}
