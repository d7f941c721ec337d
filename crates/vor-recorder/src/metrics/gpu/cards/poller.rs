//! The thread that polls the cards, the only one that calls the driver.
//!
//! It starts when the rows are first wanted, sleeps while they are not, and ends if there is no
//! driver. It takes at most a thousandth of a CPU per card, with all its work: polls that cost more
//! are less frequent ([`RateLimiter`]). No other thread waits for it. If the driver hangs, the
//! thread hangs too, its values become stale and frames omit them, and one line reports it.

use std::sync::{Mutex, MutexGuard};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::cards::Cards;
use super::latest;
use super::rate_limiter::RateLimiter;
use crate::clock;
use crate::clock::cpu::thread_cpu_ns;
use crate::hot::thread;
use crate::os::report;
use crate::os::signals;
use crate::sync::global::{AtomicBool, AtomicU64};
use crate::sync::{Ordering, lock};

/// Whether a sink reads metrics and recording is on. Written by the worker, read by the poller.
/// Relaxed: it only shifts the time of a poll.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Set once, at the process's end or in the child of a fork. From then on the poller makes no
/// calls, and no poller starts. Sequentially consistent, like `CALL_START_TICKS`: either the end
/// sees the call, or the poller sees the end.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// Start tick of the running driver call; 0 if none is running. Written by the poller, read by the
/// functions that detect a hang or stop the poller.
static CALL_START_TICKS: AtomicU64 = AtomicU64::new(0);
/// Whether a hang was reported.
static HANG_REPORTED: AtomicBool = AtomicBool::new(false);

/// The poller's handle, for waking it. `None` until the rows are first wanted, `Some(None)` if it
/// could not be started.
static POLLER: Mutex<Option<Option<Thread>>> = Mutex::new(None);

/// The share of a CPU that the thread may take per card.
const SHARE: f64 = 0.001;
/// The parts of that share for polls once a second, for energy counters, and for polls of one card
/// in turn.
const SHARE_OF_SLOW: f64 = 0.3;
const SHARE_OF_ENERGY: f64 = 0.2;
const SHARE_OF_ROUND_ROBIN: f64 = 0.2;

const FAST: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_secs(1);
/// How often a lost card is searched for, if polls are as frequent.
const SEARCH: Duration = Duration::from_secs(5);
/// The time before the next fast poll that a poll in turn needs.
const ROUND_ROBIN_TIME: Duration = Duration::from_millis(30);
/// A call that takes longer means that the driver hangs.
const HANG_NS: u64 = 5_000_000_000;
/// The longest time that the end of the process waits for a running call.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);

fn poller() -> MutexGuard<'static, Option<Option<Thread>>> {
    lock(&POLLER)
}

/// Sets whether the rows are wanted. Called by the worker at each pass.
pub(crate) fn set_wanted(wanted: bool) {
    if WANTED.swap(wanted, Ordering::Relaxed) == wanted || !wanted || STOPPED.load(Ordering::SeqCst)
    {
        return;
    }
    let mut poller = poller();
    let started = poller.get_or_insert_with(|| {
        let builder = std::thread::Builder::new().name("vor-gpu".into());
        match signals::for_new_thread(|| builder.spawn(run)) {
            Ok(handle) => Some(handle.thread().clone()),
            Err(error) => {
                report::line(&format!(
                    "the thread for GPU rows cannot be started: {error}; there are none"
                ));
                None
            }
        }
    });
    if let Some(thread) = started {
        thread.unpark();
    }
}

/// Stops all polls, because the driver's library ends with the process. Waits a moment for a
/// running call.
pub(crate) fn stop() {
    STOPPED.store(true, Ordering::SeqCst);
    let begin = Instant::now();
    while CALL_START_TICKS.load(Ordering::SeqCst) != 0 && begin.elapsed() < STOP_TIMEOUT {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Forgets the poller. The child of a fork does not have it, and the driver's library does not work
/// there either.
#[cfg(unix)]
pub(crate) fn forget() {
    STOPPED.store(true, Ordering::SeqCst);
    latest::reset(0);
}

/// Reports once that the driver hangs. Called for each frame, by the worker.
pub(super) fn check_hang(now_ticks: u64) {
    let since = CALL_START_TICKS.load(Ordering::SeqCst);
    if since != 0
        && clock::approximate_ns(now_ticks.saturating_sub(since)) > HANG_NS
        && !HANG_REPORTED.swap(true, Ordering::Relaxed)
    {
        report::line(
            "the GPU driver has not answered within 5 s; there are no GPU rows until it does",
        );
    }
}

fn run() {
    thread::stay_silent();
    let Some(mut cards) = call_driver(Cards::find).flatten() else {
        return;
    };
    let share = SHARE * cards.count() as f64;
    let now = Instant::now();
    let mut slow = RateLimiter::new(SLOW, share * SHARE_OF_SLOW, now);
    let mut energy = RateLimiter::new(FAST, share * SHARE_OF_ENERGY, now);
    let mut round_robin = RateLimiter::new(FAST, share * SHARE_OF_ROUND_ROBIN, now);
    let rest = share - slow.share() - energy.share() - round_robin.share();
    let mut fast = RateLimiter::new(FAST, rest, now);
    let mut stopwatch = CpuStopwatch::new();
    let mut searched = now;
    let mut reported = [false; 4];
    while !STOPPED.load(Ordering::SeqCst) {
        if !WANTED.load(Ordering::Relaxed) {
            std::thread::park();
            continue;
        }
        let began = Instant::now();
        if !fast.is_due(began) {
            std::thread::park_timeout(fast.next() - began);
            continue;
        }
        if began - searched >= SEARCH {
            searched = began;
            cards.find_lost();
        }
        cards.poll_fast();
        // The wake-up is part of this poll's cost. This poll earns the share that the others leave;
        // on most cards they use less than their share.
        let others = slow.used_share() + energy.used_share() + round_robin.used_share();
        fast.record(stopwatch.lap(), share - others, began);
        if energy.is_due(began) {
            cards.poll_energy();
            energy.record(stopwatch.lap(), energy.share(), began);
        } else {
            latest::estimate_energy();
        }
        if slow.is_due(began) {
            cards.poll_slow();
            slow.record(stopwatch.lap(), slow.share(), began);
        }
        let now = Instant::now();
        if round_robin.is_due(now) && fast.next().saturating_duration_since(now) > ROUND_ROBIN_TIME
        {
            cards.poll_turn();
            round_robin.record(stopwatch.lap(), round_robin.share(), now);
        }
        // Nothing is read between fast polls, and the cards take turns in both directions.
        let at_least_fast = |limiter: &RateLimiter| limiter.interval().max(fast.interval());
        let (slow_interval, turn) = (at_least_fast(&slow), at_least_fast(&round_robin));
        let intervals = [
            fast.interval(),
            slow_interval,
            turn * 2 * cards.count() as u32,
        ];
        latest::set_intervals(intervals);
        let limiters = [&fast, &slow, &energy, &round_robin];
        for (limiter, reported) in limiters.into_iter().zip(&mut reported) {
            if limiter.is_throttled() && !std::mem::replace(reported, true) {
                report::detail(&format!(
                    "a poll of the GPUs takes {:.1?} of CPU time, so its interval is {:.1?} \
                    instead of {:.1?}",
                    limiter.cost(),
                    limiter.interval(),
                    limiter.every()
                ));
            }
        }
    }
}

/// Measures the CPU time of this thread, lap by lap, without gaps between them.
struct CpuStopwatch {
    until_ns: Option<u64>,
}

impl CpuStopwatch {
    fn new() -> Self {
        Self {
            until_ns: thread_cpu_ns(),
        }
    }

    /// Returns the CPU time since the last lap; zero if the system does not report it.
    fn lap(&mut self) -> Duration {
        let now_ns = thread_cpu_ns();
        let spent_ns = now_ns
            .zip(self.until_ns)
            .map_or(0, |(now_ns, until_ns)| now_ns.saturating_sub(until_ns));
        self.until_ns = now_ns;
        Duration::from_nanos(spent_ns)
    }
}

/// Calls the driver, visibly for [`check_hang`] and [`stop`]. `None` after polls have stopped.
pub(super) fn call_driver<R>(call: impl FnOnce() -> R) -> Option<R> {
    CALL_START_TICKS.store(clock::ticks().max(1), Ordering::SeqCst);
    let answer = (!STOPPED.load(Ordering::SeqCst)).then(call);
    CALL_START_TICKS.store(0, Ordering::SeqCst);
    answer
}
