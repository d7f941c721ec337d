//! CPU time of spans against the thread's clock. That clock is read only outside the spans, because
//! reading it inside would refresh the numbers of the kernel.
//!
//! Every test here runs twice: with the source of CPU time of this system, and in a process of its
//! own with the thread's clock.

#![cfg(not(feature = "off"))]
#![allow(
    unsafe_code,
    reason = "signals, forks and affinities are the C library's"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use vor_fixtures::own_process;
use vor_fixtures::process::this_program;
use vor_recorder::__private::{
    cpu_source, init_cpu, off_cpu_ticks, off_cpu_ticks_at, off_of_span, user_sys_ns,
};
use vor_recorder::clock::cpu::{Source, thread_cpu_ns};
use vor_recorder::clock::ticks;

/// The difference that a span and the thread's clock may have: interrupts between the readings of a
/// test count for only one of them.
const BOUND_NS: u64 = 500_000;
/// Rounds of a comparison. A few are interrupted for longer, so more than half of them must agree.
const ROUNDS: usize = 9;

/// Ticks per nanosecond, measured with the system's clock over some time.
fn ticks_per_ns() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (began, from) = both_clocks();
        std::thread::sleep(Duration::from_millis(200));
        let (ended, to) = both_clocks();
        (to - from) as f64 / (ended - began).as_nanos() as f64
    })
}

/// Reads both clocks at one moment. A busy machine may take the thread off its processor between
/// the readings, for milliseconds; then it reads again.
fn both_clocks() -> (Instant, u64) {
    const MOST: Duration = Duration::from_micros(100);
    loop {
        let (before, ticks, after) = (Instant::now(), ticks(), Instant::now());
        if after - before <= MOST {
            return (before, ticks);
        }
    }
}

fn ns(ticks: u64) -> u64 {
    (ticks as f64 / ticks_per_ns()) as u64
}

/// Returns whether there is a source to test; prints a line if not.
fn has_source() -> bool {
    let _ = ticks_per_ns();
    let source = init_cpu();
    if source == Source::None {
        vor_fixtures::skip("CPU time", "this system does not report a thread's");
    } else if source == Source::Clock && std::env::var_os(FORCED).is_none() {
        vor_fixtures::skip(
            "CPU time by marks of switches",
            "the kernel writes none; the thread's clock is tested instead",
        );
    }
    source != Source::None
}

/// Keeps a processor busy; the duration is proportional to `steps` on an idle machine.
fn burn(steps: u64) -> u64 {
    (0..steps).fold(1, |x, step| black_box(x).wrapping_mul(step | 1))
}

#[derive(Debug)]
struct Span {
    length_ns: u64,
    off_ns: u64,
    /// The growth of the thread's clock around the span.
    clock_ns: u64,
}

impl Span {
    fn of(work: impl FnOnce()) -> Self {
        let clock = thread_cpu_ns().unwrap();
        let start = ticks();
        let before = off_cpu_ticks_at(start);
        work();
        let end = ticks();
        let after = off_cpu_ticks_at(end);
        let clock_ns = thread_cpu_ns().unwrap() - clock;
        Self {
            length_ns: ns(end - start),
            off_ns: ns(off_of_span(before, after, end - start)),
            clock_ns,
        }
    }

    fn cpu_ns(&self) -> u64 {
        self.length_ns - self.off_ns
    }

    fn agrees(&self) -> bool {
        self.cpu_ns().abs_diff(self.clock_ns) <= BOUND_NS
    }
}

/// Repeats a comparison; fails unless it holds in more than half of the rounds.
fn in_most_rounds(what: &str, mut round: impl FnMut() -> Result<(), String>) {
    let failed: Vec<String> = (0..ROUNDS).filter_map(|_| round().err()).collect();
    println!("{what}: {} of {ROUNDS} rounds agree", ROUNDS - failed.len());
    assert!(
        failed.len() <= ROUNDS / 2,
        "{what}, not in {} of {ROUNDS} rounds: {failed:#?}",
        failed.len()
    );
}

fn ensure(holds: bool, what: &impl std::fmt::Debug) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(format!("{what:?}"))
    }
}

const STEPS: u64 = 2_000_000;

#[test]
fn work_counts_and_waiting_does_not() {
    own_process!();
    if !has_source() {
        return;
    }
    in_most_rounds("a span of work and waiting", || {
        let wait = Duration::from_millis(20);
        // Off-CPU time without a switch is known after the next switch at the latest, so the wait
        // comes last.
        let span = Span::of(|| {
            black_box(burn(STEPS));
            std::thread::sleep(wait);
        });
        // The system counts the wait from the call on. On a busy machine, it may take the thread
        // off the processor some microseconds later; then this round does not agree.
        let has_waited = u128::from(span.off_ns) + 1_000 >= wait.as_nanos();
        ensure(
            has_waited && span.agrees() && span.clock_ns > 1_000_000,
            &span,
        )
    });
}

#[test]
fn every_thread_has_a_time_of_its_own() {
    own_process!();
    if !has_source() {
        return;
    }
    std::thread::scope(|scope| {
        for number in 1..=8 {
            scope.spawn(move || {
                in_most_rounds("a thread among eight", || {
                    let span = Span::of(|| {
                        for _ in 0..number {
                            black_box(burn(STEPS / 8));
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    });
                    ensure(span.agrees(), &span)
                });
            });
        }
    });
}

/// A busy machine can take a thread off its processor within its first span, before the thread's
/// clock was read for the first time.
#[test]
fn a_wait_before_the_first_reading_is_off_cpu_time() {
    own_process!();
    if !has_source() {
        return;
    }
    in_most_rounds("the first span of a thread", || {
        let first_span = || {
            let start = ticks();
            std::thread::sleep(Duration::from_millis(20));
            let before = off_cpu_ticks_at(start);
            black_box(burn(STEPS / 8));
            let end = ticks();
            ns(off_of_span(before, off_cpu_ticks_at(end), end - start))
        };
        let off_ns = std::thread::spawn(first_span).join().unwrap();
        ensure(off_ns >= 20_000_000 - BOUND_NS, &off_ns)
    });
}

/// The time never decreases, however often it is read. Spans side by side have no more of it than
/// the span around them.
#[test]
fn inner_spans_add_up_to_no_more_than_the_outer_span() {
    own_process!();
    if !has_source() {
        return;
    }
    let start = ticks();
    let before = off_cpu_ticks_at(start);
    let (mut inside, mut last) = (0, before);
    for round in 0..20_000_u64 {
        let start = ticks();
        let begin = off_cpu_ticks_at(start);
        black_box(burn(round % 64));
        if round % 1_000 == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        let end = ticks();
        let finish = off_cpu_ticks_at(end);
        let bare = off_cpu_ticks();
        assert!(
            last <= begin && begin <= finish && finish <= bare,
            "{round}"
        );
        last = bare;
        inside += off_of_span(begin, finish, end - start);
    }
    let end = ticks();
    let around = off_of_span(before, off_cpu_ticks_at(end), end - start);
    assert!(
        inside <= around && around <= end - start,
        "{inside} {around}"
    );
    // At least 20 waits of 50 µs.
    assert!(ns(inside) >= 900_000, "{inside}");
}

/// The user and kernel times of the system are current, even if nothing read the thread's clock for
/// a while.
#[test]
fn the_split_adds_up_to_the_clock() {
    own_process!();
    if !has_source() {
        return;
    }
    let sum = || user_sys_ns().map(|(user, sys)| user + sys).unwrap();
    in_most_rounds("program and kernel", || {
        let (clock, split) = (thread_cpu_ns().unwrap(), sum());
        black_box(burn(STEPS * 4));
        let (split, clock) = (sum() - split, thread_cpu_ns().unwrap() - clock);
        // Windows counts these in ticks of its timer.
        let bound_ns = if cfg!(windows) { 40_000_000 } else { BOUND_NS };
        ensure(
            split.abs_diff(clock) <= bound_ns && clock > 4_000_000,
            &(split, clock),
        )
    });
}

/// Set in the process that has no marks.
const FORCED: &str = "VOR_CPU_SOURCE";

#[test]
fn every_test_holds_without_marks() {
    if std::env::var_os(FORCED).is_some() {
        let expected = if has_source() {
            Source::Clock
        } else {
            Source::None
        };
        assert_eq!(cpu_source(), expected);
        return;
    }
    let mut child = this_program();
    match child.arg("cpu_time::").env(FORCED, "clock").output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        // An emulator of another processor may be unable to start a second program for that
        // processor.
        Err(error) => {
            assert_ne!(error.kind(), std::io::ErrorKind::NotFound);
            vor_fixtures::skip("CPU time by the thread's clock", &error.to_string());
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    /// Restricts the calling thread, and the threads that it starts, to one processor: the first
    /// one allowed.
    fn stay_on_one_processor() {
        // SAFETY: the set is plain memory of this frame, all zeros are an empty set, and both calls
        // affect only the calling thread.
        unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of_val(&allowed);
            assert_eq!(libc::sched_getaffinity(0, size, &raw mut allowed), 0);
            let first = (0..libc::CPU_SETSIZE as usize)
                .find(|&cpu| libc::CPU_ISSET(cpu, &allowed))
                .unwrap();
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(first, &mut one);
            assert_eq!(libc::sched_setaffinity(0, size, &raw const one), 0);
        }
    }

    #[test]
    fn spans_beside_a_competitor_add_up_to_the_clock() {
        own_process!();
        if !has_source() {
            return;
        }
        std::thread::spawn(beside_a_competitor).join().unwrap();
    }

    fn beside_a_competitor() {
        static STOP: AtomicBool = AtomicBool::new(false);
        stay_on_one_processor();
        let competitor = std::thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        in_most_rounds("beside a competitor", || {
            let (mut spans, mut beyond, mut longest_beyond_ns) = (0_u64, 0_u64, 0);
            let whole = Span::of(|| {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(300) {
                    for work in 0..200 {
                        let start = ticks();
                        let before = off_cpu_ticks_at(start);
                        black_box(burn(work));
                        let end = ticks();
                        let off = off_cpu_ticks_at(end) - before;
                        spans += 1;
                        if off > end - start {
                            beyond += 1;
                            longest_beyond_ns = longest_beyond_ns.max(ns(off - (end - start)));
                        }
                    }
                }
                std::thread::sleep(Duration::from_micros(50));
            });
            let seen = (&whole, spans, beyond, longest_beyond_ns);
            // Both threads always want the processor, so each gets about half of it.
            let shared = whole.off_ns > whole.length_ns / 10;
            // Only a span with a switch in it can have more off-CPU time than its duration; a
            // switch comes at most about once per millisecond.
            let few = beyond * 1_000_000 <= 2 * whole.length_ns;
            ensure(whole.agrees() && shared && few, &seen)
        });
        STOP.store(true, Ordering::Relaxed);
        competitor.join().unwrap();
    }

    /// A signal also removes the mark, and the time of its handler belongs to the thread.
    #[test]
    fn signals_take_no_time_away() {
        own_process!();
        static CAUGHT: AtomicU64 = AtomicU64::new(0);
        extern "C" fn on_alarm(_: libc::c_int) {
            CAUGHT.fetch_add(1, Ordering::Relaxed);
        }
        if !has_source() {
            return;
        }
        // SAFETY: the handler has the C signature and only adds to an atomic; nothing else in this
        // process uses the signal.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_alarm as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            assert_eq!(
                libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()),
                0
            );
        }
        let stormed = std::thread::spawn(|| {
            in_most_rounds("in a storm of signals", || {
                let caught = CAUGHT.load(Ordering::Relaxed);
                let span = Span::of(|| {
                    let mut last = off_cpu_ticks();
                    while CAUGHT.load(Ordering::Relaxed) < caught + 300 {
                        black_box(burn(500));
                        let now = off_cpu_ticks();
                        assert!(now >= last);
                        last = now;
                    }
                    std::thread::sleep(Duration::from_micros(50));
                });
                ensure(span.agrees(), &span)
            });
        });
        use std::os::unix::thread::JoinHandleExt;
        while !stormed.is_finished() {
            // SAFETY: the thread is not joined yet, so its handle is valid.
            unsafe { libc::pthread_kill(stormed.as_pthread_t(), libc::SIGALRM) };
            std::thread::sleep(Duration::from_micros(100));
        }
        stormed.join().unwrap();
        assert!(CAUGHT.load(Ordering::Relaxed) >= 300);
    }

    /// The child's clock begins at zero, and so must the time that it is compared with.
    #[test]
    fn the_child_of_a_fork_starts_again() {
        own_process!();
        if !has_source() {
            return;
        }
        let _ = off_cpu_ticks();
        black_box(burn(STEPS * 4));
        std::thread::sleep(Duration::from_millis(5));
        let before = off_cpu_ticks();
        assert!(ns(before) >= 4_000_000);
        // SAFETY: the child calls only this crate's readings of clocks, `nanosleep` and `_exit`;
        // `has_source` already set up everything that they allocate or lock.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let kept = off_cpu_ticks() == before;
            let agrees = |_: &usize| {
                let span = Span::of(|| {
                    black_box(burn(STEPS));
                    std::thread::sleep(Duration::from_millis(5));
                });
                span.agrees() && span.off_ns >= 4_000_000
            };
            let agrees = (0..ROUNDS).filter(agrees).count() > ROUNDS / 2;
            // SAFETY: ends the child without the exit handlers of the parent.
            unsafe { libc::_exit(if kept { 0 } else { 1 } + if agrees { 0 } else { 2 }) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: `status` is valid for writes, and the child belongs to this process.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "{status:#x}"
        );
    }
}
