//! The thread that asks the cards, and nobody else does.
//!
//! It begins when the rows are first wanted, sleeps while they are not, and ends where there is no driver. Nobody waits for it: where the driver hangs, the thread hangs with
//! it, what was learned grows old and is left out of frames, and one line says so.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::cards::Cards;
use crate::drain::{report, signals};
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU64};
use crate::{clock, thread};

/// Whether a sink reads metrics, and recording is on. Written by the worker, read by the poller, relaxed: it only shifts when a poll comes.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Set once, at the process's end or in the child of a fork; the poller asks nothing any more, and none begins. Sequentially consistent, as `ASKING_SINCE` is: of
/// the end and a poll, one sees the other.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// When the driver was asked what it has not answered yet, in ticks; 0 where it has. Written by the poller, read by who looks for a hang or stops.
static ASKING_SINCE: AtomicU64 = AtomicU64::new(0);
/// Whether a hang was told.
static HANG_TOLD: AtomicBool = AtomicBool::new(false);

/// The poller, for waking it: nothing before the first time the rows are wanted, `Some(None)` where it could not be started.
static POLLER: Mutex<Option<Option<Thread>>> = Mutex::new(None);

const FAST: Duration = Duration::from_millis(100);
/// Fast polls to a slow one.
const SLOW_EVERY: u32 = 10;
/// Polls after which a card that was lost is looked for.
const LOST_EVERY: u32 = 50;
/// What a question that takes long needs of the time between two polls.
const TURN_NEEDS: Duration = Duration::from_millis(30);
/// The driver hangs when it has not answered for so long.
const HANG_NS: u64 = 5_000_000_000;
/// The longest that the end of the process waits for an answer that is under way.
const STOP_WAITS: Duration = Duration::from_millis(100);

fn poller() -> MutexGuard<'static, Option<Option<Thread>>> {
    POLLER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says whether the rows are wanted. Called by the worker at each pass.
pub(crate) fn want(wanted: bool) {
    if WANTED.swap(wanted, Ordering::Relaxed) == wanted || !wanted || STOPPED.load(Ordering::SeqCst) {
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

/// Has nothing asked any more: the process ends, and the driver's library with it. Waits a moment for an answer that is under way.
pub(crate) fn stop() {
    STOPPED.store(true, Ordering::SeqCst);
    let begin = Instant::now();
    while ASKING_SINCE.load(Ordering::SeqCst) != 0 && begin.elapsed() < STOP_WAITS {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Forgets the poller: in the child of a fork it is not there, and the driver's library does not work there either.
#[cfg(unix)]
pub(crate) fn forget() {
    STOPPED.store(true, Ordering::SeqCst);
    super::latest::begin(0);
}

/// Tells once that the driver hangs. Called for each frame, by the worker.
pub(super) fn look(now_ticks: u64) {
    let since = ASKING_SINCE.load(Ordering::SeqCst);
    if since != 0
        && clock::approximate_ns(now_ticks.saturating_sub(since)) > HANG_NS
        && !HANG_TOLD.swap(true, Ordering::Relaxed)
    {
        report::line(
            "the GPU driver was expected to answer within 5 s, and has not; there are no GPU rows until it does",
        );
    }
}

fn run() {
    thread::stay_busy();
    let Some(mut cards) = asking(Cards::find).flatten() else {
        return;
    };
    let (mut next, mut poll) = (Instant::now(), 0_u32);
    while !STOPPED.load(Ordering::SeqCst) {
        if !WANTED.load(Ordering::Relaxed) {
            std::thread::park();
            next = Instant::now();
            continue;
        }
        let is_slow = poll.is_multiple_of(SLOW_EVERY);
        cards.poll(is_slow, poll % LOST_EVERY == LOST_EVERY - 1);
        poll = poll.wrapping_add(1);
        next += FAST;
        if next.saturating_duration_since(Instant::now()) > TURN_NEEDS {
            cards.take_turn();
        }
        let now = Instant::now();
        if next <= now {
            // Polls that came too late are left out.
            next = now + FAST;
        }
        std::thread::park_timeout(next.saturating_duration_since(now));
    }
}

/// Asks the driver something, visibly for who waits for an answer. `None` where nothing is asked any more.
pub(super) fn asking<R>(ask: impl FnOnce() -> R) -> Option<R> {
    ASKING_SINCE.store(clock::ticks().max(1), Ordering::SeqCst);
    let answer = (!STOPPED.load(Ordering::SeqCst)).then(ask);
    ASKING_SINCE.store(0, Ordering::SeqCst);
    answer
}
