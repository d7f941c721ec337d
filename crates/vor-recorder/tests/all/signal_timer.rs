//! Timer handlers at 10 kHz interrupt threads at full speed: recorded and dropped records add up to
//! those made.
//!
//! With `VOR_SIGNAL_SECONDS=60`, each test runs for so many seconds instead of two.
#![cfg(all(target_os = "linux", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![allow(unsafe_code, reason = "signals and timers")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::signal_support::{ADDED, Adder, Delivered, HANDLER, OUTER, Operation, in_a_process};
use vor_fixtures::test_name;
use vor_recorder::hot::thread;
use vor_recorder::metrics::Histogram;
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, metrics};

const THREADS: usize = 3;
const PERIOD_NS: i64 = 100_000;
/// A test with fewer signals proves little.
const FEWEST_SIGNALS: u64 = 1_000;

static MADE: AtomicU64 = AtomicU64::new(0);
static SIGNALS: AtomicU64 = AtomicU64::new(0);
/// Threads that the handlers found with open scopes.
static SEEN: AtomicU64 = AtomicU64::new(0);
static IS_OVER: AtomicBool = AtomicBool::new(false);

static HISTOGRAM: Histogram = Histogram::new("recorded by both", "");

const MESSAGE: Operation = (|| message!("a message of {} words", 5), 1);

fn run(operations: &[Operation]) {
    let made: u64 = operations.iter().map(|(_, records)| records).sum();
    operations.iter().for_each(|(run, _)| run());
    MADE.fetch_add(made, Ordering::Relaxed);
}

extern "C" fn on_timer(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
    run(&HANDLER);
    run(&[MESSAGE]);
    metrics::record_io(1, 2);
    // The operations of the threads allocate nothing outside of vor, and inside vor the list is
    // empty.
    let seen = thread::open_scopes();
    let sites = || seen.iter().flat_map(|thread| &thread.scopes);
    assert!(sites().all(|scope| scope.site.0 != 0));
    SEEN.fetch_add(seen.len() as u64, Ordering::Relaxed);
}

/// Sends this thread a signal each period, until it is dropped.
struct Timer(libc::timer_t);

impl Timer {
    fn start() -> Self {
        // SAFETY: all zeros are a valid action: the default one, without flags or a mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_timer as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        let signal = libc::SIGRTMIN();
        // SAFETY: the action is complete.
        let failed = unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
        assert_eq!(failed, 0);
        // SAFETY: all zeros are a valid event; its fields are set below.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        // SAFETY: the call takes no arguments and cannot fail.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer = std::ptr::null_mut();
        // SAFETY: the event is complete, and `timer` is valid for writes.
        let failed = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) };
        assert_eq!(failed, 0);
        let period = libc::timespec {
            tv_sec: 0,
            tv_nsec: PERIOD_NS,
        };
        let times = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: the timer was made above.
        let failed = unsafe { libc::timer_settime(timer, 0, &times, std::ptr::null_mut()) };
        assert_eq!(failed, 0);
        Self(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: `start` made the timer, and only this call deletes it.
        unsafe { libc::timer_delete(self.0) };
    }
}

fn flat_out() {
    // Once without the timer, so that sites and thread-locals exist.
    run(&OUTER);
    run(&HANDLER);
    run(&[MESSAGE]);
    let timer = Timer::start();
    while !IS_OVER.load(Ordering::Relaxed) {
        for _ in 0..64 {
            run(&OUTER);
        }
        run(&[MESSAGE]);
        HISTOGRAM.record(7);
        metrics::record_metric("latest", 1.0);
    }
    drop(timer);
}

fn run_threads(config: Config) -> Delivered {
    let seconds = std::env::var("VOR_SIGNAL_SECONDS");
    let seconds = seconds.map_or(2, |text| {
        text.parse().expect("VOR_SIGNAL_SECONDS is a number")
    });
    let adder = Adder::enable(config);
    let threads: Vec<_> = (0..THREADS).map(|_| std::thread::spawn(flat_out)).collect();
    std::thread::sleep(Duration::from_secs(seconds));
    // A busy machine or an emulator may need longer.
    while SIGNALS.load(Ordering::Relaxed) <= FEWEST_SIGNALS {
        std::thread::sleep(Duration::from_millis(10));
    }
    IS_OVER.store(true, Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    adder.read()
}

fn check(delivered: &Delivered) {
    let made = MADE.load(Ordering::Relaxed);
    println!(
        "{} signals, {made} made, {} dropped, {} by handlers",
        SIGNALS.load(Ordering::Relaxed),
        delivered.dropped,
        delivered.of("handler")
    );
    assert_eq!(delivered.of("") + delivered.dropped, made, "{delivered:?}");
    assert!(SIGNALS.load(Ordering::Relaxed) > FEWEST_SIGNALS);
    assert!(delivered.of("handler") > 0 && SEEN.load(Ordering::Relaxed) > 0);
    let added = ADDED.load(Ordering::Relaxed) as f64;
    assert!(
        delivered.metrics.values().any(|sum| *sum == added),
        "{added}: {delivered:?}"
    );
}

#[test]
fn recorded_and_dropped_add_up_to_made() {
    in_a_process(test_name!(), || {
        check(&run_threads(Config::new()));
    });
}

#[test]
fn counted_and_dropped_add_up_to_made() {
    in_a_process(test_name!(), || {
        let mut delivered = run_threads(Config::new().count_scopes(true).print_stats(false));
        for row in drain::stats() {
            *delivered.records.entry(row.name.to_string()).or_default() += row.count;
        }
        check(&delivered);
    });
}
