//! How long a thread was *not* on a processor, in ticks: [`off_cpu_ticks`]. A span's processor time
//! is its length less what this grew by meanwhile.
//!
//! **The mark.** Asking the system for a thread's processor time costs some hundred nanoseconds, so
//! it is asked once per switch and not once per span. On Linux each thread shares a word with the
//! kernel (`rseq`). The thread puts a mark there, and the kernel takes it away whenever it takes
//! the thread off its processor, moves it to another or hands it a signal. A mark that still stands
//! says that all ticks since it was set were this thread's. Where it is gone, the thread *settles*:
//! it sets the mark anew, reads the thread's clock and the counter, and adds what the counter went
//! on by and the clock did not. Where there is no such word, or where it fails its test (`choose`),
//! every question settles.
//!
//! **What a reading errs by.** The clock's nanoseconds become ticks by a rate of their own
//! (`rate`), since the calibration at the start can be hundreds of parts per million off. Reading
//! the two takes half a microsecond or more, within which the moments of both cannot be told. So
//! the sum is kept exactly, with sign, beside the one that is given out, which never falls: errors
//! of readings even out instead of adding up, and a sum that moved by less than a switch takes
//! (`LEAST_NS`) is not given out yet (`account`).
//!
//! **Why off-CPU time can come late, and exceed a span.** There is time that the counter counts,
//! the thread's clock leaves out, and the mark does not show, since the thread is not switched:
//! what the hypervisor takes from a virtual machine (steal time, with
//! `CONFIG_PARAVIRT_TIME_ACCOUNTING`) and, with `CONFIG_IRQ_TIME_ACCOUNTING`, interrupts. It is
//! found at the next settling, in one piece, by whichever span is open then, though it may have
//! passed before that span began. Two prototypes that showed 1 negative span in 36 720 and one of
//! 1.5 ms without a cause saw this. Hence two rules: who asks with the time ([`off_cpu_ticks_at`])
//! settles at least every `LONGEST_MARK_NS`, so that the time is found near to where it was lost;
//! and a span takes no more than its length ([`off_of_span`]), while the spans around it and the
//! thread's sum have it whole.
//!
//! **Switches between two readings.** A span reads the time and asks for the off-CPU time as of
//! that time. Where the thread was switched in between, the answer leaves that switch out, so it
//! counts for the span in whose length it is, be it an inner one, an outer one or none.

mod account;
mod choose;
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
mod no_rseq;
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
use no_rseq as rseq;
mod thread_clock;

use std::cell::Cell;

use crate::clock;
use crate::sync::Ordering;
use crate::sync::global::compiler_fence;

#[doc(hidden)]
pub use choose::{Source, init, source};
pub use thread_clock::thread_cpu_ns;
#[doc(hidden)]
pub use thread_clock::user_sys_ns;

pub(crate) use account::Account;
use account::LEAST_NS;
use rseq::Word;

/// How old a mark may get before who asks with the time settles all the same: 0.01 % of the time,
/// at a microsecond each.
const LONGEST_MARK_NS: u64 = 10_000_000;
/// In place of the time, by who has not read it.
const NOT_READ: u64 = 0;

thread_local! {
    static STATE: State = const { State::new() };
}

/// What a thread knows of its own processor time.
struct State {
    /// Where this thread's mark stands, from the first reading on.
    word: Cell<Word>,
    /// When a mark is too old.
    due_ticks: Cell<u64>,
    /// Whether it is being settled: a signal handler that interrupts that leaves it alone.
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

/// Returns how long this thread has not been on a processor, in ticks since it first asked. It
/// never falls.
///
/// While the thread was not switched out since the last call, that is two loads and a comparison.
/// The first call on a thread takes a microsecond, and the first of all, unless [`init`] was
/// called, some milliseconds. In the child of a fork the time since the parent's last call counts
/// as time on the processor.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn off_cpu_ticks() -> u64 {
    STATE.with(|state| {
        if state.word.get().stands() {
            state.account.given()
        } else {
            state.settle(NOT_READ)
        }
    })
}

/// As [`off_cpu_ticks`], as of a reading of the counter that this thread has just made. Marks do
/// not get old then, and where there are no marks the counter is not read again.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn off_cpu_ticks_at(now_ticks: u64) -> u64 {
    match settled_off_cpu_ticks_at(now_ticks) {
        Some(off_ticks) => off_ticks,
        None => STATE.with(|state| state.settle(now_ticks)),
    }
}

/// As [`off_cpu_ticks_at`], `None` where there is more to settle than a look tells, or than one
/// reading of the thread's clock where there are no marks.
///
/// That reading stands here because whatever returns behind a system call is predicted wrongly: in
/// a function of its own it takes some 10 ns more.
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
    // Behind the system call, over which registers would be kept in memory.
    STATE.with(|state| state.account.settle_at_once(reading, rate::now()))
}

/// Returns how many ticks of a span of `length_ticks` were off the processor, from what
/// [`off_cpu_ticks`] said at its begin and its end; never more than its length.
#[doc(hidden)]
#[inline]
#[must_use]
pub fn off_of_span(at_begin: u64, at_end: u64, length_ticks: u64) -> u64 {
    at_end.saturating_sub(at_begin).min(length_ticks)
}

impl State {
    const fn new() -> Self {
        Self {
            word: Cell::new(Word::NONE),
            due_ticks: Cell::new(0),
            is_settling: Cell::new(false),
            account: Account::new(),
        }
    }

    /// Returns what the mark tells, where it stands and is not too old.
    #[inline(always)]
    fn marked(&self, now_ticks: u64) -> Option<u64> {
        let is_settled = self.word.get().stands() && now_ticks < self.due_ticks.get();
        is_settled.then(|| self.account.given())
    }

    /// Returns whether this thread has begun its account, and has no mark.
    #[inline(always)]
    fn is_without_marks(&self) -> bool {
        self.word.get().is_none() && self.account.has_begun()
    }

    /// Sets the mark and takes account of all time up to now, or up to `now_ticks`, if that was
    /// read, where there is no mark.
    #[cold]
    #[inline(never)]
    // Of the C calling convention only that it cannot unwind is wanted.
    extern "C" fn settle(&self, now_ticks: u64) -> u64 {
        if self.is_settling.replace(true) {
            return self.account.given();
        }
        compiler_fence(Ordering::SeqCst);
        let off_ticks = self.settle_alone(now_ticks);
        compiler_fence(Ordering::SeqCst);
        self.is_settling.set(false);
        off_ticks
    }

    fn settle_alone(&self, now_ticks: u64) -> u64 {
        let before = self.account.given();
        if !self.account.has_begun() {
            self.begin();
            return before;
        }
        let word = self.word.get();
        let Some(reading) = read(word, now_ticks) else {
            return before;
        };
        rate::review(reading.ticks);
        let off = self.account.settle(reading, rate::now());
        if word.is_none() {
            return off;
        }
        self.due_ticks.set(
            reading
                .ticks
                .saturating_add(rate::ticks_of_ns(LONGEST_MARK_NS)),
        );
        let since = reading.ticks.saturating_sub(now_ticks);
        if now_ticks == NOT_READ || since < rate::ticks_of_ns(LEAST_NS) {
            return off;
        }
        // Switched out since the caller read the counter: what is later than that is for who asks
        // next.
        off.saturating_sub(since).max(before)
    }

    /// Takes the first reading of this thread, twice: the first time takes longer than others, and
    /// all that follow would be later by that.
    #[cold]
    fn begin(&self) {
        match source() {
            Source::Rseq => self.word.set(Word::of_this_thread()),
            Source::Clock => {}
            Source::None => return,
        }
        let _ = read(self.word.get(), NOT_READ);
        if let Some(reading) = read(self.word.get(), NOT_READ) {
            self.account.begin(reading, rate::now());
        }
    }

    /// Begins anew on what is another thread to the system, whose clock began at zero; what was
    /// given out stays.
    #[cfg(unix)]
    fn forget(&self) {
        self.word.replace(Word::NONE).clear();
        self.is_settling.set(false);
        self.account.end();
    }
}

/// Returns where this thread shows others what it knows of its processor time, for as long as it
/// lives.
pub(crate) fn own_account() -> *const Account {
    STATE.with(|state| std::ptr::from_ref(&state.account))
}

/// Reads the counter, and then the thread's clock.
///
/// A switch between the two does no harm: the clock stands still meanwhile, so the two agree as of
/// before it, and the mark that it took away makes the next call settle again. An interrupt between
/// them, which the clock counts, makes the processor time too long and the off-CPU time too short
/// until the next reading sets that right. In the other order it would be too long, and what was
/// given out cannot be taken back.
fn read(word: Word, now_ticks: u64) -> Option<Reading> {
    word.set();
    // With a mark, the counter is read behind it. A switch between a reading and the mark would go
    // unseen.
    let ticks = if now_ticks == NOT_READ || !word.is_none() {
        clock::ticks()
    } else {
        now_ticks
    };
    let cpu = thread_clock::read()?;
    Some(Reading { ticks, cpu })
}

/// Has the child of each fork begin anew.
#[cfg(unix)]
#[expect(unsafe_code, reason = "only the C library says when a process forks")]
fn watch_forks() {
    extern "C" fn in_child() {
        STATE.with(State::forget);
    }
    // SAFETY: the function has the C signature, does not unwind, and lives as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

#[cfg(not(unix))]
fn watch_forks() {}
