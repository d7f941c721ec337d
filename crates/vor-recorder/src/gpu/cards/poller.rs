//! The thread that asks the cards, and nobody else does.
//!
//! It begins when the rows are first wanted, sleeps while they are not, and ends where there is no
//! driver. It takes no more than a thousandth of a processor for each card, with all that it does:
//! what costs more is asked more seldom ([`Due`]). Nobody waits for it: where the driver hangs, the
//! thread hangs with it, what was learned grows old and is left out of frames, and one line says
//! so.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::cards::Cards;
use super::due::Due;
use super::latest;
use crate::clock;
use crate::clock::cpu::thread_cpu_ns;
use crate::hot::thread;
use crate::os::report;
use crate::os::signals;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU64};

/// Whether a sink reads metrics, and recording is on. Written by the worker, read by the poller,
/// relaxed: it only shifts when a poll comes.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Set once, at the process's end or in the child of a fork; the poller asks nothing any more, and
/// none begins. Sequentially consistent, as `ASKING_SINCE` is: of the end and a poll, one sees the
/// other.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// When the driver was asked what it has not answered yet, in ticks; 0 where it has. Written by the
/// poller, read by who looks for a hang or stops.
static ASKING_SINCE: AtomicU64 = AtomicU64::new(0);
/// Whether a hang was told.
static HANG_TOLD: AtomicBool = AtomicBool::new(false);

/// The poller, for waking it: nothing before the first time the rows are wanted, `Some(None)` where
/// it could not be started.
static POLLER: Mutex<Option<Option<Thread>>> = Mutex::new(None);

/// The share of a processor that the thread may take for each card.
const SHARE: f64 = 0.001;
/// What of it those questions may take that are asked once a second, and those of which each card
/// has its turn.
const SHARE_OF_SLOW: f64 = 0.3;
const SHARE_OF_TURNS: f64 = 0.2;

const FAST: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_secs(1);
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

/// Has nothing asked any more: the process ends, and the driver's library with it. Waits a moment
/// for an answer that is under way.
pub(crate) fn stop() {
    STOPPED.store(true, Ordering::SeqCst);
    let begin = Instant::now();
    while ASKING_SINCE.load(Ordering::SeqCst) != 0 && begin.elapsed() < STOP_WAITS {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Forgets the poller: in the child of a fork it is not there, and the driver's library does not
/// work there either.
#[cfg(unix)]
pub(crate) fn forget() {
    STOPPED.store(true, Ordering::SeqCst);
    latest::begin(0);
}

/// Tells once that the driver hangs. Called for each frame, by the worker.
pub(super) fn look(now_ticks: u64) {
    let since = ASKING_SINCE.load(Ordering::SeqCst);
    if since != 0
        && clock::approximate_ns(now_ticks.saturating_sub(since)) > HANG_NS
        && !HANG_TOLD.swap(true, Ordering::Relaxed)
    {
        report::line(
            "the GPU driver has not answered within 5 s; there are no GPU rows until it does",
        );
    }
}

fn run() {
    thread::stay_silent();
    let Some(mut cards) = asking(Cards::find).flatten() else {
        return;
    };
    let share = SHARE * cards.count() as f64;
    let now = Instant::now();
    let mut slow = Due::new(SLOW, share * SHARE_OF_SLOW, now);
    let mut turns = Due::new(FAST, share * SHARE_OF_TURNS, now);
    let mut fast = Due::new(FAST, share - slow.share() - turns.share(), now);
    let mut spent = Spent::new();
    let mut polls = 0_u32;
    let mut told = [false; 3];
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
        polls = polls.wrapping_add(1);
        cards.ask_fast(polls.is_multiple_of(LOST_EVERY));
        // Waking up for it is part of it. It earns what the others leave, which take less than they
        // may on most cards.
        fast.asked(spent.lap(), share - slow.taken() - turns.taken(), began);
        if slow.is_due(began) {
            cards.ask_slow();
            slow.asked(spent.lap(), slow.share(), began);
        }
        let now = Instant::now();
        if turns.is_due(now) && fast.next().saturating_duration_since(now) > TURN_NEEDS {
            cards.take_turn();
            turns.asked(spent.lap(), turns.share(), now);
        }
        // Nothing is asked between polls, and each card has its turn in both directions.
        let [slowly, turn] = [&slow, &turns].map(|due| due.interval().max(fast.interval()));
        latest::keep([fast.interval(), slowly, turn * 2 * cards.count() as u32]);
        for (due, told) in [&fast, &slow, &turns].into_iter().zip(&mut told) {
            if due.is_put_off() && !std::mem::replace(told, true) {
                report::detail(&format!(
                    "asking the GPUs takes {:.1?} of processor time each time, so it is done every {:.1?} and not every {:.1?}",
                    due.cost(),
                    due.interval(),
                    due.every()
                ));
            }
        }
    }
}

/// The processor time of this thread, lap by lap: nothing that it does is between two of them.
struct Spent {
    until_ns: Option<u64>,
}

impl Spent {
    fn new() -> Self {
        Self {
            until_ns: thread_cpu_ns(),
        }
    }

    /// Returns what was spent since the last lap; nothing where the system does not tell.
    fn lap(&mut self) -> Duration {
        let now_ns = thread_cpu_ns();
        let spent_ns = now_ns
            .zip(self.until_ns)
            .map_or(0, |(now_ns, until_ns)| now_ns.saturating_sub(until_ns));
        self.until_ns = now_ns;
        Duration::from_nanos(spent_ns)
    }
}

/// Asks the driver something, visibly for who waits for an answer. `None` where nothing is asked
/// any more.
pub(super) fn asking<R>(ask: impl FnOnce() -> R) -> Option<R> {
    ASKING_SINCE.store(clock::ticks().max(1), Ordering::SeqCst);
    let answer = (!STOPPED.load(Ordering::SeqCst)).then(ask);
    ASKING_SINCE.store(0, Ordering::SeqCst);
    answer
}
