//! The off-CPU time of a thread, in ticks: [`off_cpu_ticks`]. CPU time of a span = duration −
//! growth of its thread's off-CPU time.
//!
//! **The mark.** Reading a thread's CPU time from the system costs some hundred nanoseconds, so it
//! is read once per context switch rather than once per span. On Linux each thread shares a word
//! with the kernel (`rseq`). The thread sets a mark there, and the kernel clears it whenever it
//! takes the thread off its processor, moves it to another or delivers a signal. While the mark is
//! set, the thread has run all ticks since it was set. Once it is cleared, the thread *settles*: it
//! sets the mark again, reads the thread's clock and the counter, and adds the growth of the
//! counter beyond that of the clock. If there is no such word, or it fails its test (`source`),
//! every reading settles.
//!
//! **Errors of a reading.** The clock's nanoseconds become ticks by a separate rate (`rate`), since
//! the calibration at the start can be hundreds of parts per million off. Reading both takes half a
//! microsecond or more, within which the moment of each is unknown. So an exact, signed sum is
//! stored beside the reported one, which never falls. Errors of readings then even out instead of
//! adding up. A growth smaller than a context switch (`MIN_GROWTH_NS`) is not reported yet
//! (`account`).
//!
//! **Why off-CPU time can come late, and exceed a span.** The counter counts some time that the
//! thread's clock excludes, without clearing the mark, since the thread is not switched. This is
//! time that the hypervisor takes from a virtual machine (steal time, with
//! `CONFIG_PARAVIRT_TIME_ACCOUNTING`) and, with `CONFIG_IRQ_TIME_ACCOUNTING`, interrupts. The next
//! settling finds it in one piece. The open span then gets it, even if it passed before that span
//! began. Two prototypes had this effect: 1 negative span in 36 720, and one of 1.5 ms without a
//! cause.
//!
//! Hence two rules. A reading with the time ([`off_cpu_ticks_at`]) settles at least every
//! `MAX_MARK_AGE_NS`, so that lost time is found near its place. And a span gets at most
//! its duration ([`off_of_span`]), while the spans around it and the thread's sum get all.
//!
//! **Switches between two readings.** A span reads the time, and then the off-CPU time as of that
//! time. If the thread is switched in between, the result excludes that switch. So the switch
//! counts for the span whose duration contains it: an inner one, an outer one or none.

mod account;
mod source;
mod rate;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
mod rseq;
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
mod rseq_stub;
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
use rseq_stub as rseq;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod run_queue;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod run_queue_stub;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use run_queue_stub as run_queue;
mod thread_clock;

use std::cell::Cell;

use vor_capture::model::measures::Measures;

use crate::clock;
use crate::sync::global::compiler_fence;
use crate::sync::{Ordering, const_fn, global, thread_locals};

#[doc(hidden)]
pub use source::{Source, init, source};
pub use thread_clock::thread_cpu_ns;
#[doc(hidden)]
pub use thread_clock::user_sys_ns;

pub(crate) use account::Account;
use account::MIN_GROWTH_NS;
use rseq::Word;

/// Age above which a reading with the time does not trust a mark. Settling then takes 0.01 % of the
/// time, at a microsecond each.
const MAX_MARK_AGE_NS: u64 = 10_000_000;
/// Longest time that a thread takes from a reading of the counter to the start of its account,
/// unless it is switched out in between.
const MAX_BEGIN_NS: u64 = 50_000;
/// Replaces the time if the caller has not read it.
const NOT_READ: u64 = 0;

thread_locals! {
    static STATE: State = const { State::new() };
}

/// A thread's own CPU time.
struct State {
    /// The word of this thread's mark, from the first reading on.
    word: Cell<Word>,
    /// Tick from which the mark is too old.
    due_ticks: Cell<u64>,
    /// Whether the thread is settling: a signal handler that interrupts it does not settle.
    is_settling: Cell<bool>,
    account: Account,
}

/// The counter and the thread's clock, read together.
#[derive(Clone, Copy)]
struct Reading {
    ticks: u64,
    /// In the unit of [`thread_clock::read`].
    cpu: u64,
}

/// Returns the off-CPU time of this thread, in ticks since its first call. It never falls.
///
/// A call costs two loads and a comparison if the thread was not switched out since the last one.
/// The first call on a thread takes a microsecond. The first call of all takes some milliseconds,
/// unless [`init`] was called. In the child of a fork the time since the parent's last call counts
/// as CPU time.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn off_cpu_ticks() -> u64 {
    STATE.with(|state| {
        if state.word.get().is_set() {
            state.account.reported()
        } else {
            state.settle(NOT_READ)
        }
    })
}

/// Returns [`off_cpu_ticks`] as of a reading of the counter that this thread has just made. It does
/// not trust an old mark, and without marks it does not read the counter again.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn off_cpu_ticks_at(now_ticks: u64) -> u64 {
    match settled_off_cpu_ticks_at(now_ticks) {
        Some(off_ticks) => off_ticks,
        None => STATE.with(|state| state.settle(now_ticks)),
    }
}

/// Returns [`off_cpu_ticks_at`] if the mark gives it or, without marks, if one reading of the
/// thread's clock does. `None` if there is more to settle.
///
/// The reading is inlined here because the return of a function around a system call is
/// mispredicted: out of line it takes some 10 ns more.
#[inline(always)]
pub(crate) fn settled_off_cpu_ticks_at(now_ticks: u64) -> Option<u64> {
    if let Some(off_ticks) = STATE.with(|state| state.marked(now_ticks)) {
        return Some(off_ticks);
    }
    if !STATE.with(State::is_without_marks) || rate::is_due(now_ticks) {
        return None;
    }
    let reading = Reading {
        ticks: now_ticks,
        cpu: thread_clock::read()?,
    };
    // Read after the system call, which would spill its register.
    STATE.with(|state| state.account.try_settle(reading, rate::current()))
}

/// Returns whether the system reports for how long a thread waited for a processor.
pub(crate) fn has_run_queue() -> bool {
    const UNKNOWN: u8 = 0;
    const ABSENT: u8 = 1;
    const PRESENT: u8 = 2;
    static FOUND: global::AtomicU8 = global::AtomicU8::new(UNKNOWN);
    match FOUND.load(Ordering::Relaxed) {
        UNKNOWN => {
            // The question allocates, and an allocator may have scopes that ask it again.
            FOUND.store(ABSENT, Ordering::Relaxed);
            let is_reported = run_queue::is_reported();
            let found = if is_reported { PRESENT } else { ABSENT };
            FOUND.store(found, Ordering::Relaxed);
            is_reported
        }
        found => found == PRESENT,
    }
}

/// Returns these without those that the run queue reports.
pub(crate) const fn without_run_queue(measures: Measures) -> Measures {
    measures.without(Measures::WAIT.union(Measures::SWITCHES))
}

/// The kernel's counts for a thread that gets a processor, summed over the thread's life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queued {
    /// The time for which the thread was runnable and had no processor.
    pub(crate) ns: u64,
    /// How often the thread got a processor.
    pub(crate) switches: u64,
}

/// Returns what this thread queued so far, if its off-CPU time has not grown since the last
/// reading.
#[inline(always)]
pub(crate) fn known_queued(off_cpu_ticks: u64) -> Option<Queued> {
    run_queue::known(off_cpu_ticks)
}

/// Returns what this thread queued so far. Its off-CPU time is `off_cpu_ticks`. The first call on a
/// thread allocates; a call takes a microsecond.
pub(crate) fn queued(off_cpu_ticks: u64) -> Queued {
    run_queue::queued(off_cpu_ticks)
}

/// Returns the off-CPU ticks of a span, from those of its thread at its beginning and its end; at
/// most its duration.
#[doc(hidden)]
#[inline]
#[must_use]
pub fn off_of_span(at_begin: u64, at_end: u64, duration_ticks: u64) -> u64 {
    at_end.saturating_sub(at_begin).min(duration_ticks)
}

impl State {
    const_fn! {
        const fn new() -> Self {
            Self {
                word: Cell::new(Word::NONE),
                due_ticks: Cell::new(0),
                is_settling: Cell::new(false),
                account: Account::new(),
            }
        }
    }

    /// Returns the reported sum if the mark is set and not too old.
    #[inline(always)]
    fn marked(&self, now_ticks: u64) -> Option<u64> {
        let is_settled = self.word.get().is_set() && now_ticks < self.due_ticks.get();
        is_settled.then(|| self.account.reported())
    }

    /// Returns whether this thread has begun its account without a mark.
    #[inline(always)]
    fn is_without_marks(&self) -> bool {
        self.word.get().is_none() && self.account.has_begun()
    }

    /// Sets the mark and accounts for all time up to now; without a mark, up to `now_ticks` if that
    /// was read.
    #[cold]
    #[inline(never)]
    // The C calling convention is only for its ban on unwinding.
    extern "C" fn settle(&self, now_ticks: u64) -> u64 {
        if self.is_settling.replace(true) {
            return self.account.reported();
        }
        compiler_fence(Ordering::SeqCst);
        let off_ticks = self.settle_alone(now_ticks);
        compiler_fence(Ordering::SeqCst);
        self.is_settling.set(false);
        off_ticks
    }

    fn settle_alone(&self, now_ticks: u64) -> u64 {
        let before = self.account.reported();
        if !self.account.has_begun() {
            self.begin(now_ticks);
            return before;
        }
        let word = self.word.get();
        let Some(reading) = read(word, now_ticks) else {
            return before;
        };
        rate::review(reading.ticks);
        let off = self.account.settle(reading, rate::current());
        if word.is_none() {
            return off;
        }
        self.due_ticks.set(
            reading
                .ticks
                .saturating_add(rate::ticks_of_ns(MAX_MARK_AGE_NS)),
        );
        let since = reading.ticks.saturating_sub(now_ticks);
        if now_ticks == NOT_READ || since < rate::ticks_of_ns(MIN_GROWTH_NS) {
            return off;
        }
        // The thread was switched out since the caller read the counter. The next call accounts for
        // the time after that reading.
        off.saturating_sub(since).max(before)
    }

    /// Makes the first reading of this thread, twice. The first one takes longer than others, which
    /// would make all later results too large. If the thread was switched out since `now_ticks`,
    /// that time is off-CPU time.
    #[cold]
    fn begin(&self, now_ticks: u64) {
        match source() {
            Source::Rseq => self.word.set(Word::of_this_thread()),
            Source::Clock => {}
            Source::None => return,
        }
        let _ = read(self.word.get(), NOT_READ);
        if let Some(reading) = read(self.word.get(), NOT_READ) {
            let since = reading.ticks.saturating_sub(now_ticks);
            let is_late = now_ticks != NOT_READ && since > rate::ticks_of_ns(MAX_BEGIN_NS);
            let off_ticks = if is_late { since } else { 0 };
            self.account.begin(reading, off_ticks, rate::current());
        }
    }

    /// Restarts in the child of a fork, which for the system is another thread with a clock that
    /// began at zero. The reported sum stays.
    #[cfg(unix)]
    fn restart(&self) {
        self.word.replace(Word::NONE).clear();
        self.is_settling.set(false);
        self.account.end();
    }
}

/// Returns a pointer to this thread's account, valid for as long as the thread lives.
pub(crate) fn own_account() -> *const Account {
    STATE.with(|state| std::ptr::from_ref(&state.account))
}

/// Reads the counter, and then the thread's clock.
///
/// A switch between the two does no harm. The clock stands still meanwhile, so the two agree as of
/// before it, and the cleared mark makes the next call settle again. An interrupt between them,
/// which the clock counts, makes the CPU time too long and the off-CPU time too short until the
/// next reading corrects that. In the other order the off-CPU time would be too long, and a
/// reported sum cannot be reduced.
fn read(word: Word, now_ticks: u64) -> Option<Reading> {
    word.set();
    // With a mark, the counter is read after it is set: a switch between a reading and the mark
    // would be missed.
    let ticks = if now_ticks == NOT_READ || !word.is_none() {
        clock::ticks()
    } else {
        now_ticks
    };
    let cpu = thread_clock::read()?;
    Some(Reading { ticks, cpu })
}

/// Restarts the account in the child of each fork.
#[cfg(unix)]
#[expect(unsafe_code, reason = "only the C library reports a fork")]
fn watch_forks() {
    extern "C" fn in_child() {
        STATE.with(State::restart);
        run_queue::restart();
    }
    // SAFETY: the function has the C signature, does not unwind, and lives as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

#[cfg(not(unix))]
fn watch_forks() {}
