//! The cost of a lock that is free, beside that of the standard library: lock and unlock, with
//! recording off and on. Then the same with two threads that share a lock.
//!
//! The contestants of a round run within the same hundred microseconds, so a neighbour slows all of
//! them. The figures are medians over rounds.

#![expect(clippy::unwrap_used, reason = "nothing poisons these locks")]

use std::hint::black_box;
use std::sync::{Mutex, RwLock};

use vor::sync;
use vor_benches::rounds::{Loop, Times, contest};
use vor_benches::work::chain;

/// Rounds of each contest.
const ROUNDS: usize = 3_000;
/// Rounds of the contests of two threads.
const CONTENDED_ROUNDS: usize = 300;
/// Passes of a contestant in a round.
const ITERATIONS: u32 = 4_000;

/// Makes a loop around one pass.
fn timed<'a>(mut pass: impl FnMut() + 'a) -> Loop<'a> {
    Box::new(move |iterations| (0..iterations).for_each(|_| pass()))
}

fn print(state: &str, names: &[&str], times: &[Times]) {
    // Each pair is a lock of the standard library and ours.
    for (names, times) in names.chunks(2).zip(times.chunks(2)) {
        let ([std, _], [name, _]) = (times, names) else {
            continue;
        };
        println!("{state:<4} {name:<24} {:6.2} ns", std.median_ns());
        let [_, ours] = times else { continue };
        println!(
            "{state:<4} {:<24} {:6.2} ns, {:5.3} × std's, {:+.2} ns",
            names[1],
            ours.median_ns(),
            ours.ratio_to(std),
            ours.more_than_ns(std)
        );
    }
}

fn run(state: &str) {
    let (std_mutex, mutex) = (&Mutex::new(0_u64), &sync::Mutex::new(0_u64));
    let (std_lock, lock) = (&RwLock::new(0_u64), &sync::RwLock::new(0_u64));
    let names = [
        "std Mutex::lock",
        "vor Mutex::lock",
        "std Mutex::try_lock",
        "vor Mutex::try_lock",
        "std RwLock::read",
        "vor RwLock::read",
        "std RwLock::write",
        "vor RwLock::write",
    ];
    let mut loops = [
        timed(|| *black_box(std_mutex).lock().unwrap() += 1),
        timed(|| *black_box(mutex).lock().unwrap() += 1),
        timed(|| *black_box(std_mutex).try_lock().unwrap() += 1),
        timed(|| *black_box(mutex).try_lock().unwrap() += 1),
        timed(|| _ = black_box(*black_box(std_lock).read().unwrap())),
        timed(|| _ = black_box(*black_box(lock).read().unwrap())),
        timed(|| *black_box(std_lock).write().unwrap() += 1),
        timed(|| *black_box(lock).write().unwrap() += 1),
    ];
    let times = contest(ROUNDS, ITERATIONS, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);
}

/// Two threads that take turns: each adds 1 and works for a moment with the lock, and without it.
fn two_threads(add: &(impl Fn() + Sync)) -> Loop<'_> {
    Box::new(move |iterations| {
        let turns = || {
            for i in 0..iterations / 2 {
                add();
                black_box(chain(u64::from(i), 50));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(turns);
            turns();
        });
        vor::flush();
    })
}

fn run_contended(state: &str) {
    let (std_mutex, mutex) = (&Mutex::new(0_u64), &sync::Mutex::named("contended", 0_u64));
    let add_std = || {
        let mut count = std_mutex.lock().unwrap();
        *count = black_box(chain(*count, 50));
    };
    let add = || {
        let mut count = mutex.lock().unwrap();
        *count = black_box(chain(*count, 50));
    };
    let mut loops = [two_threads(&add_std), two_threads(&add)];
    let times = contest(CONTENDED_ROUNDS, ITERATIONS, &mut loops, ROUNDS, &mut || {});
    print(state, &["std, two threads", "vor, two threads"], &times);
}

fn main() {
    run("off");
    run_contended("off");
    vor::Config::new().enable();
    {
        vor::profile_scope!("a state for this thread");
    }
    run("on");
    run_contended("on");
}
