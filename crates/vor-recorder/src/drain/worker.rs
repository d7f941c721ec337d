//! The worker thread, and how it sleeps.
//!
//! While the program records, a pass begins a drain interval after the last one began, or
//! immediately when a ring reaches its high watermark. After a second without work the worker arms
//! the rings, so that the next push or mark wakes it, and sleeps for long stretches. A push that
//! races with the arming can go unnoticed, so the worker checks again one interval later before it
//! sleeps for long.

use std::sync::Mutex;
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::dumps;
#[cfg(unix)]
use super::fork;
use super::heap;
use super::printing;
use super::scheduler;
use super::watchdog::{self, Watchdog};
use super::{Pass, WAITING, begin_pass, step, with_engine};
use crate::hot::{record_state, thread};
use crate::metrics::gpu;
use crate::os::{report, signals};
use crate::sync::global::AtomicBool;
use crate::sync::{Ordering, lock};

/// The worker's handle, for waking it.
static WORKER: Mutex<Option<Thread>> = Mutex::new(None);
/// Set by the worker during its long sleep; read by pushes on their cold path and by marks. Relaxed
/// would suffice: the long sleep's end makes up for a lost wake-up.
static ASLEEP: AtomicBool = AtomicBool::new(false);
/// Set by the first push that finds a ring at its high watermark, cleared by the worker, so that
/// one wake-up is made rather than thousands.
static WOKEN: AtomicBool = AtomicBool::new(false);

/// Time without work before the worker's long sleep.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// Shortest sleep if no ring is filling; other threads then have the engine and the processor.
const MIN_SLEEP: Duration = Duration::from_millis(1);
/// Longest sleep.
const LONG_SLEEP: Duration = Duration::from_secs(5);
/// How long the worker leaves the engine to a thread that waits for it.
const YIELD_TIME: Duration = Duration::from_micros(100);

const NAME: &str = "vor-drain";

pub(super) fn spawn(interval: Duration) {
    let builder = std::thread::Builder::new().name(NAME.into());
    let spawned = signals::for_new_thread(|| builder.spawn(move || run(interval)));
    match spawned {
        Ok(handle) => *lock(&WORKER) = Some(handle.thread().clone()),
        Err(error) => report_missing(&error),
    }
}

/// Like [`spawn`], in the child of a fork.
#[cfg(unix)]
pub(super) fn spawn_after_fork(interval: Duration) {
    let start = move || {
        *lock(&WORKER) = Some(std::thread::current());
        run(interval);
    };
    if let Err(error) = signals::for_new_thread(|| fork::spawn(NAME, start)) {
        report_missing(&error);
    }
}

fn report_missing(error: &std::io::Error) {
    report::line(&format!(
        "the worker thread cannot be started: {error}; spans are taken at flush only"
    ));
}

/// Forgets the worker, in the child of a fork.
#[cfg(unix)]
pub(super) fn forget() {
    *lock(&WORKER) = None;
    ASLEEP.store(false, Ordering::Relaxed);
    WOKEN.store(false, Ordering::Relaxed);
}

#[cfg(unix)]
pub(super) fn lock_for_fork() -> impl std::any::Any {
    lock(&WORKER)
}

/// Returns whether no thread holds the lock; used at the end of a process.
#[cfg(any(unix, windows))]
pub(super) fn is_open() -> bool {
    crate::os::detach::is_open(WORKER.try_lock())
}

pub(super) fn wake(urgent: bool) {
    let due = ASLEEP.load(Ordering::SeqCst) || (urgent && !WOKEN.load(Ordering::Relaxed));
    if due
        && !WOKEN.swap(true, Ordering::SeqCst)
        && let Some(worker) = &*lock(&WORKER)
    {
        worker.unpark();
    }
}

/// Returns the duration of the long sleep, which a wake-up can end.
fn longest_sleep() -> Duration {
    let longest = dumps::longest_sleep(printing::longest_sleep(LONG_SLEEP));
    scheduler::longest_sleep(watchdog::longest_sleep(heap::longest_sleep(longest)))
}

fn run(interval: Duration) {
    thread::stay_silent();
    let mut last_active = Instant::now();
    let mut watchdog = Watchdog::default();
    loop {
        WOKEN.store(false, Ordering::SeqCst);
        let begun = Instant::now();
        let found = with_engine(|engine| {
            let until_ticks = begin_pass(engine);
            let pass = step(engine, until_ticks);
            gpu::set_wanted(record_state::is_on() && engine.outputs.read_metrics());
            pass
        });
        let Some(Pass {
            active,
            pressed,
            more,
        }) = found
        else {
            return;
        };
        printing::print_if_requested();
        if active {
            last_active = Instant::now();
        }
        watchdog.check();
        if pressed || more {
            // The lock is not fair: without a pause the worker would have it again before a waiting
            // thread is awake.
            if WAITING.load(Ordering::SeqCst) > 0 {
                std::thread::sleep(YIELD_TIME);
            }
            continue;
        }
        if last_active.elapsed() < IDLE_AFTER {
            let rest = interval.saturating_sub(begun.elapsed());
            std::thread::park_timeout(rest.max(MIN_SLEEP));
            continue;
        }
        ASLEEP.store(true, Ordering::SeqCst);
        let news = with_engine(|engine| {
            engine.arm();
            engine.has_news()
        });
        if news == Some(false) {
            std::thread::park_timeout(interval);
            if with_engine(|engine| engine.has_news()) == Some(false)
                && !WOKEN.load(Ordering::SeqCst)
            {
                std::thread::park_timeout(longest_sleep());
            }
        }
        ASLEEP.store(false, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom), not(feature = "off"), not(target_family = "wasm")))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use vor_capture::model::batch::SpanBatch;
    use vor_capture::model::frame::FrameSnapshot;
    use vor_capture::sink::{FrameSink, Interest};
    use vor_fixtures::own_process;

    use super::*;
    use crate::drain::{Options, add_sink, configure, frame_mark, lock_engine, start_for_tests};
    use crate::profile_scope;

    /// Adds up the spans of batches.
    #[derive(Clone, Default)]
    struct CountSink(Arc<AtomicU64>);

    impl FrameSink for CountSink {
        fn interest(&self) -> Interest {
            Interest::BATCHES
        }

        fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
            let spans = batch.span_count() as u64;
            self.0.fetch_add(spans, Ordering::Relaxed);
            Ok(())
        }

        fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
            Ok(())
        }
    }

    /// The interval is so long that only a wake-up makes the worker's second pass.
    #[test]
    fn a_ring_that_fills_wakes_the_worker() {
        own_process!();
        const BURSTS: u64 = 20;
        let options = Options {
            // The high watermark is a quarter of the 4096 slots.
            ring_kib: 64,
            inline: false,
            interval: Duration::from_secs(24 * 3600),
            max_spans_per_frame: 1 << 20,
            stats: false,
        };
        configure(options, |_, _| record_state::set(true));
        let count = CountSink::default();
        let _handle = add_sink("counts", count.clone());
        let taken = || count.0.load(Ordering::Relaxed);
        for burst in 1..=BURSTS {
            let before = taken();
            for _ in 0..3_000 {
                profile_scope!("burst");
            }
            // The worker's pass may begin before the end of the burst.
            let begun = Instant::now();
            while taken() < before + 1_000 {
                assert!(
                    begun.elapsed() < Duration::from_secs(60),
                    "burst {burst}: nothing wakes the worker"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn many_marks_call_the_worker_before_its_interval_is_over() {
        let _turn = start_for_tests();
        // While the test holds the engine, the worker only reaches the beginning of a pass, where
        // it clears `WOKEN` once.
        let engine = lock_engine();
        let is_called = (0..4000).any(|_| {
            frame_mark();
            WOKEN.load(Ordering::SeqCst)
        });
        drop(engine);
        assert!(is_called);
    }
}
