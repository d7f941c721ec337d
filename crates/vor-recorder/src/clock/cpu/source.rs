//! Finds the source of CPU time on this system by a test.
//!
//! The mark of [`rseq`](super::rseq) is used if it stays set while the thread runs, is cleared
//! after the thread waited, and the thread's clock agrees with the counter meanwhile. On a kernel
//! or an emulator where one of these fails, the thread's clock is read each time.

use std::sync::OnceLock;
use std::time::Duration;

use super::rseq::Word;
use super::{NOT_READ, Reading, rate, read, thread_clock};
use crate::clock;
use crate::os::report;
use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

/// The source of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel clears a mark when it switches the thread; the thread's clock is read once per
    /// switch.
    Rseq,
    /// The thread's clock, read each time.
    Clock,
    /// None: the system does not report CPU time, and all time counts as CPU time.
    None,
}

/// The variable that forbids the mark if it is `clock`, for tests and in case the mark is ever
/// wrong.
const VARIABLE: &str = "VOR_CPU_SOURCE";

/// Number of waits after which the mark must be cleared.
const WAIT_COUNT: u32 = 3;
const WAIT: Duration = Duration::from_micros(100);
/// Duration over which the two clocks are compared.
const STRETCH_NS: u64 = 500_000;
/// Most comparisons: on a busy machine most of them are interrupted.
const STRETCHES: u32 = 20;

/// The source, once it is known: 0, or its number plus 1. Written once (release), read by any
/// thread (acquire): the rate is measured before it is stored.
static SOURCE: AtomicU32 = AtomicU32::new(0);

/// Returns the source of CPU time, and finds it at the first call.
#[inline]
pub fn source() -> Source {
    match SOURCE.load(Ordering::Acquire) {
        1 => Source::Rseq,
        2 => Source::Clock,
        3 => Source::None,
        _ => init(),
    }
}

/// Finds the source of CPU time, once. Takes some milliseconds.
#[cold]
pub fn init() -> Source {
    static CHOSEN: OnceLock<Source> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let source = choose();
        super::watch_forks();
        SOURCE.store(source as u32 + 1, Ordering::Release);
        source
    })
}

fn choose() -> Source {
    if thread_clock::read().is_none() {
        return Source::None;
    }
    rate::begin();
    let begun = read(Word::NONE, NOT_READ);
    std::thread::sleep(10 * WAIT);
    let ended = read(Word::NONE, NOT_READ);
    rate::measure();
    // A clock that also counts the time in which the thread waits does not measure CPU time.
    let waited = begun.zip(ended).is_some_and(|(begun, ended)| {
        let (passed, on) = between(begun, ended);
        on <= passed / 2
    });
    if !waited {
        return Source::None;
    }
    if !is_mark_forbidden() && is_mark_good() {
        Source::Rseq
    } else {
        Source::Clock
    }
}

fn is_mark_forbidden() -> bool {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return false;
    };
    if value != "clock" {
        let found = value.to_string_lossy();
        report::line(&format!(
            "{VARIABLE}: \"{found}\" is not \"clock\"; it is ignored"
        ));
    }
    value == "clock"
}

/// Returns the ticks between two readings, by the counter and by the thread's clock.
fn between(begun: Reading, ended: Reading) -> (u64, u64) {
    let on = ended.cpu.saturating_sub(begun.cpu);
    let on_ticks = if thread_clock::counts_ticks() {
        on
    } else {
        rate::ticks_of_ns(on)
    };
    (ended.ticks.saturating_sub(begun.ticks), on_ticks)
}

/// Tests the mark on this thread, and leaves none set.
fn is_mark_good() -> bool {
    let word = Word::of_this_thread();
    let good = !word.is_none() && is_cleared_by_waits(word) && stays_set_while_running(word);
    word.clear();
    good
}

fn is_cleared_by_waits(word: Word) -> bool {
    (0..WAIT_COUNT).all(|_| {
        word.set();
        std::thread::sleep(WAIT);
        !word.is_set()
    })
}

/// Returns whether in some stretch the mark is set at both ends and the clocks agree within 2 %.
fn stays_set_while_running(word: Word) -> bool {
    let stretch_ticks = rate::ticks_of_ns(STRETCH_NS);
    (0..STRETCHES).any(|_| {
        word.set();
        let Some(begun) = read(Word::NONE, NOT_READ) else {
            return false;
        };
        while clock::ticks().saturating_sub(begun.ticks) < stretch_ticks && word.is_set() {
            // Not a `Backoff`: it waits for no other thread, and a yield would clear the mark.
            std::hint::spin_loop();
        }
        let Some(ended) = read(Word::NONE, NOT_READ) else {
            return false;
        };
        let (passed, on) = between(begun, ended);
        word.is_set() && passed >= stretch_ticks && passed.abs_diff(on) <= passed / 50
    })
}
