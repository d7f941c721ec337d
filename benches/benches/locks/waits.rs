//! The CPU time of a wait for a lock that another thread holds, beside that of the standard
//! library.
//!
//! The holder tells the waiter to ask for the lock, lets it run, and unlocks:
//!
//! ```text
//! holder   lock ── go ── yields ───── [unlock] ── yields
//! waiter            └─▶ [lock: sleeps ........... has it] ── unlock ── done
//! ```
//!
//! Both read their own CPU clock around the parts in brackets, whose sum is the cost of the wait:
//! the system calls and, with vor, what is recorded. The time asleep does not count. A wait for
//! which the waiter had not asked before the unlock is left out.
//!
//! Both run on one processor, so that no interrupt of another one is part of the cost: in a virtual
//! machine that takes longer than the rest, and differs from wait to wait.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "affinities are the C library's")
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use vor::sync;
use vor_benches::rounds::median;

/// Rounds, in which the contestants take turns.
const ROUNDS: usize = 60;
/// Waits of a contestant in a round.
const WAITS: u64 = 200;
/// How often the holder yields. The waiter spins and sleeps within the first turn, if no other
/// program gets it.
const YIELDS: u32 = 4;

fn cpu_ns() -> u64 {
    // A system that does not report it has differences of 0.
    vor::thread_cpu_ns().unwrap_or(0)
}

/// Runs `work` with this thread, and those that it starts, on one processor.
#[cfg(target_os = "linux")]
fn on_one_processor(work: impl FnOnce()) {
    // SAFETY: the sets are plain memory of the stated size, for which all zeros are valid.
    unsafe {
        let size = size_of::<libc::cpu_set_t>();
        let (mut all, mut one): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut all), 0);
        let last = (0..1024).rev().find(|cpu| libc::CPU_ISSET(*cpu, &all));
        libc::CPU_SET(last.unwrap(), &mut one);
        assert_eq!(libc::sched_setaffinity(0, size, &raw const one), 0);
        work();
        assert_eq!(libc::sched_setaffinity(0, size, &raw const all), 0);
    }
}

#[cfg(not(target_os = "linux"))]
fn on_one_processor(work: impl FnOnce()) {
    work();
}

/// Returns the CPU time of each wait of a round.
macro_rules! waits {
    ($mutex:expr) => {{
        let [go, asked, done] = [const { AtomicU64::new(0) }; 3];
        let mutex = $mutex;
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut waits = Vec::new();
                for wait in 1..=WAITS {
                    while go.load(Ordering::Acquire) != wait {
                        std::thread::yield_now();
                    }
                    asked.store(wait, Ordering::Release);
                    let begin_ns = cpu_ns();
                    let guard = mutex.lock().unwrap();
                    let locked_ns = cpu_ns() - begin_ns;
                    drop(guard);
                    waits.push(locked_ns);
                    done.store(wait, Ordering::Release);
                }
                waits
            });
            let mut unlocks = Vec::new();
            for wait in 1..=WAITS {
                vor::profile_scope!("holder");
                let guard = mutex.lock().unwrap();
                go.store(wait, Ordering::Release);
                (0..YIELDS).for_each(|_| std::thread::yield_now());
                let sleeps = asked.load(Ordering::Acquire) == wait;
                let begin_ns = cpu_ns();
                drop(guard);
                let unlocked_ns = cpu_ns() - begin_ns;
                unlocks.push(sleeps.then_some(unlocked_ns));
                while done.load(Ordering::Acquire) != wait {
                    std::thread::yield_now();
                }
            }
            let waits = waiter.join().unwrap();
            let both = waits.into_iter().zip(unlocks);
            both.filter_map(|(locked_ns, unlocked_ns)| Some((locked_ns + unlocked_ns?) as f64))
                .collect::<Vec<_>>()
        })
    }};
}

pub(super) fn run(state: &str) {
    on_one_processor(|| run_here(state));
}

fn run_here(state: &str) {
    let (std_mutex, mutex) = (&Mutex::new(0_u64), &sync::Mutex::named("handed", 0_u64));
    let (mut theirs, mut ours, mut differences) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (std_waits, waits) = if round % 2 == 0 {
            let std_waits = waits!(std_mutex);
            (std_waits, waits!(mutex))
        } else {
            let waits = waits!(mutex);
            (waits!(std_mutex), waits)
        };
        differences.push(median(waits.clone()) - median(std_waits.clone()));
        theirs.extend(std_waits);
        ours.extend(waits);
        vor::flush();
    }
    let all = ROUNDS as u64 * WAITS;
    println!(
        "{state:<4} std, a wait {:6.0} ns of CPU time, {} of {all} slept",
        median(theirs.clone()),
        theirs.len(),
    );
    println!(
        "{state:<4} vor, a wait {:6.0} ns of CPU time, {} of {all} slept, {:+.0} ns",
        median(ours.clone()),
        ours.len(),
        median(differences),
    );
}
