//! The CPU time of a wait for a lock that another thread holds, beside that of the standard library.
//!
//! The holder tells the waiter to ask for the lock, keeps it for a while, and unlocks it:
//!
//! ```text
//! holder   lock ── go ── works for HOLD ──── [unlock]
//! waiter            └─▶ [lock: sleeps .............. has it] ── unlock ── done
//! ```
//!
//! Both read their own CPU clock around the parts in brackets, whose sum is the cost of the wait:
//! the system calls and, with vor, what is recorded. The time asleep does not count. A wait in which
//! the waiter was not switched out is left out.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vor::sync;
use vor_benches::rounds::median;

/// Rounds, in which the contestants take turns.
const ROUNDS: usize = 60;
/// Waits of a contestant in a round.
const WAITS: u64 = 200;
/// Longer than a thread spins before it sleeps.
const HOLD: Duration = Duration::from_micros(40);

/// Returns how often this thread got a processor.
fn switches() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let number = text.split_ascii_whitespace().nth(2);
    number.map_or(0, |number| number.parse().unwrap())
}

fn cpu_ns() -> u64 {
    vor::thread_cpu_ns().expect("this system reports the CPU time of a thread")
}

/// Returns the CPU time of each wait of a round.
macro_rules! waits {
    ($mutex:expr) => {{
        let (go, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let mutex = $mutex;
        let unlocked_ns: Vec<AtomicU64> = (0..WAITS).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut waits = Vec::new();
                for wait in 1..=WAITS {
                    let switches_before = switches();
                    while go.load(Ordering::Acquire) != wait {
                        std::hint::spin_loop();
                    }
                    let begin_ns = cpu_ns();
                    let guard = mutex.lock().unwrap();
                    let locked_ns = cpu_ns() - begin_ns;
                    drop(guard);
                    let slept = switches() != switches_before;
                    waits.push(slept.then_some(locked_ns));
                    done.store(wait, Ordering::Release);
                }
                waits
            });
            for wait in 1..=WAITS {
                vor::profile_scope!("holder");
                let guard = mutex.lock().unwrap();
                let begin = Instant::now();
                go.store(wait, Ordering::Release);
                while begin.elapsed() < HOLD {
                    std::hint::spin_loop();
                }
                let begin_ns = cpu_ns();
                drop(guard);
                let passed_ns = cpu_ns() - begin_ns;
                unlocked_ns[wait as usize - 1].store(passed_ns, Ordering::Relaxed);
                while done.load(Ordering::Acquire) != wait {
                    std::hint::spin_loop();
                }
            }
            let waits = waiter.join().unwrap();
            let both = waits.into_iter().zip(&unlocked_ns);
            both.filter_map(|(locked, unlocked)| {
                Some((locked? + unlocked.load(Ordering::Relaxed)) as f64)
            })
            .collect::<Vec<_>>()
        })
    }};
}

pub(super) fn run(state: &str) {
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
