//! How long a thread was *not* on a processor, in ticks: [`off_cpu_ticks`]. A span's processor time is its length less what this grew by meanwhile.
//!
//! **The mark.** Asking the system for a thread's processor time costs some hundred nanoseconds, so it is asked once per switch and not once per span. On Linux each
//! thread shares a word with the kernel (`rseq`). The thread puts a mark there, and the kernel takes it away whenever it takes the thread off its processor, moves it to another or
//! hands it a signal. A mark that still stands says that all ticks since it was set were this thread's. Where it is gone, the thread *settles*: it sets
//! the mark anew, reads the thread's clock and the counter, and adds what the counter went on by and the clock did not. Where there is no such word, or where it fails its test
//! (`choose`), every question settles.
//!
//! **What a reading errs by.** The clock's nanoseconds become ticks by a rate of their own (`rate`), since the calibration at the start can be hundreds of parts per million off. Reading the two
//! takes half a microsecond or more, within which the moments of both cannot be told. So the sum is kept exactly, with sign, beside the one that is given out, which never falls: errors of readings
//! even out instead of adding up, and a sum that moved by less than a switch takes (`LEAST_NS`) is not given out yet.
//!
//! **Why off-CPU time can come late, and exceed a span.** There is time that the counter counts, the thread's clock leaves out, and the mark does not show, since the thread is not switched: what the hypervisor
//! takes from a virtual machine (steal time, with `CONFIG_PARAVIRT_TIME_ACCOUNTING`) and, with `CONFIG_IRQ_TIME_ACCOUNTING`, interrupts. It is found at the next settling, in one piece, by whichever
//! span is open then, though it may have passed before that span began. Two prototypes that showed 1 negative span in 36 720 and one of 1.5 ms without a cause saw this. Hence two rules: who asks with
//! the time ([`off_cpu_ticks_at`]) settles at least every `LONGEST_MARK_NS`, so that the time is found near to where it was lost; and a span takes no more than its length ([`off_of_span`]), while the spans around it
//! and the thread's sum have it whole.
//!
//! **Switches between two readings.** A span reads the time and asks for the off-CPU time as of that time. Where the thread was switched in between, the answer leaves that switch out, so it counts for the
//! span in whose length it is, be it an inner one, an outer one or none.

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
#[path = "no_rseq.rs"]
mod rseq;
mod thread_clock;

use std::cell::Cell;

use crate::clock;
use crate::sync::Ordering;
use crate::sync::global::{AtomicU32, AtomicU64, fence};

#[doc(hidden)]
pub use choose::{Source, init, source};
pub use thread_clock::thread_cpu_ns;
#[doc(hidden)]
pub use thread_clock::user_sys_ns;

use rseq::Word;

/// The least that is given out at a time: a thread that was switched out is away for longer, and readings of the two clocks jitter by less.
const LEAST_NS: u64 = 500;
/// By how much the exact sum may lie below the one given out: more than an interrupt between two readings takes. It bounds what an error of the rate can hide.
const MOST_DEBT_NS: u64 = 1_000_000;
/// How old a mark may get before who asks with the time settles all the same: 0.01 % of the time, at a microsecond each.
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
    /// Ticks off the processor as given out; they never fall.
    off_ticks: Cell<u64>,
    /// When a mark is too old.
    due_ticks: Cell<u64>,
    /// Ticks off the processor less those given out.
    pending_ticks: Cell<i64>,
    /// What is left of the thread's clock in fractions of a tick; see [`rate::split`].
    rest: Cell<u64>,
    /// The last pair of readings, where there is one.
    last: Cell<Option<Reading>>,
    shown: Shown,
}

/// The last pair of readings and what was given out then, for other threads. Written by its thread, with `version` odd meanwhile, and read by others.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Stored with release behind the others, and before them followed by a fence; loaded with acquire.
    version: AtomicU32,
    /// 0 before the first. Relaxed, as those below.
    ticks: AtomicU64,
    cpu: AtomicU64,
    off_ticks: AtomicU64,
}

/// The counter and the thread's clock, read together.
#[derive(Clone, Copy)]
struct Reading {
    ticks: u64,
    /// In the unit of [`thread_clock::read`].
    cpu: u64,
}

/// Returns how long this thread has not been on a processor, in ticks since it first asked. It never falls.
///
/// While the thread was not switched out since the last call, that is two loads and a comparison. The first call on a thread takes a microsecond, and the first of all,
/// unless [`init`] was called, some milliseconds. In the child of a fork the time since the parent's last call counts as time on the processor.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn off_cpu_ticks() -> u64 {
    STATE.with(|state| {
        if state.word.get().stands() {
            state.off_ticks.get()
        } else {
            state.settle(NOT_READ)
        }
    })
}

/// As [`off_cpu_ticks`], as of a reading of the counter that this thread has just made. Marks do not get old then, and where there are no marks the counter is not read again.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn off_cpu_ticks_at(now_ticks: u64) -> u64 {
    match settled_off_cpu_ticks_at(now_ticks) {
        Some(off_ticks) => off_ticks,
        None => STATE.with(|state| state.settle(now_ticks)),
    }
}

/// As [`off_cpu_ticks_at`], `None` where that would settle.
#[inline(always)]
pub(crate) fn settled_off_cpu_ticks_at(now_ticks: u64) -> Option<u64> {
    STATE.with(|state| {
        let is_settled = state.word.get().stands() && now_ticks < state.due_ticks.get();
        is_settled.then(|| state.off_ticks.get())
    })
}

/// Returns how many ticks of a span of `length_ticks` were off the processor, from what [`off_cpu_ticks`] said at its begin and its end; never more than its length.
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
            off_ticks: Cell::new(0),
            due_ticks: Cell::new(0),
            pending_ticks: Cell::new(0),
            rest: Cell::new(0),
            last: Cell::new(None),
            shown: Shown {
                version: AtomicU32::new(0),
                ticks: AtomicU64::new(0),
                cpu: AtomicU64::new(0),
                off_ticks: AtomicU64::new(0),
            },
        }
    }

    /// Sets the mark and takes account of all time up to now, or up to `now_ticks`, if that was read, where there is no mark.
    #[cold]
    #[inline(never)]
    // Of the C calling convention only that it cannot unwind is wanted.
    extern "C" fn settle(&self, now_ticks: u64) -> u64 {
        let before = self.off_ticks.get();
        let Some(last) = self.last.get() else {
            self.begin();
            return before;
        };
        let Some(reading) = read(self.word.get(), now_ticks) else {
            return before;
        };
        rate::review(reading.ticks);
        self.last.set(Some(reading));
        self.account(last, reading);
        self.shown.set(reading, self.off_ticks.get());
        let off = self.off_ticks.get();
        let since = reading.ticks.saturating_sub(now_ticks);
        if now_ticks == NOT_READ || since < rate::ticks_of_ns(LEAST_NS) {
            return off;
        }
        // Switched out since the caller read the counter: what is later than that is for who asks next.
        off.saturating_sub(since).max(before)
    }

    /// Takes the first reading of this thread, twice: the first time takes longer than others, and all that follow would be later by that.
    fn begin(&self) {
        match source() {
            Source::Rseq => self.word.set(Word::of_this_thread()),
            Source::Clock => {}
            Source::None => return,
        }
        for _ in 0..2 {
            self.last.set(read(self.word.get(), NOT_READ));
        }
        if let Some(reading) = self.last.get() {
            self.shown.set(reading, self.off_ticks.get());
        }
    }

    /// Adds the ticks between two readings that the thread's clock does not account for.
    fn account(&self, last: Reading, now: Reading) {
        self.due_ticks
            .set(now.ticks.saturating_add(rate::ticks_of_ns(LONGEST_MARK_NS)));
        let passed = now.ticks.saturating_sub(last.ticks);
        let on = self.ticks_of_cpu(now.cpu.saturating_sub(last.cpu));
        let clamped = |ticks: u64| i64::try_from(ticks).unwrap_or(i64::MAX);
        let off = clamped(passed).saturating_sub(clamped(on));
        let pending = self.pending_ticks.get().saturating_add(off);
        let least = clamped(rate::ticks_of_ns(LEAST_NS));
        let debt = clamped(rate::ticks_of_ns(MOST_DEBT_NS));
        if pending >= least {
            let given = self.off_ticks.get().saturating_add(pending.unsigned_abs());
            self.off_ticks.set(given);
            self.pending_ticks.set(0);
        } else {
            self.pending_ticks.set(pending.max(-debt));
        }
    }

    /// Returns a difference between readings of the thread's clock in ticks. What is less than a tick is kept for the next one: there may be a million a second.
    fn ticks_of_cpu(&self, cpu: u64) -> u64 {
        if thread_clock::counts_ticks() {
            return cpu;
        }
        let (ticks, rest) = rate::split(cpu, self.rest.get());
        self.rest.set(rest);
        ticks
    }

    /// Begins anew on what is another thread to the system, whose clock began at zero; what was given out stays.
    #[cfg(unix)]
    fn forget(&self) {
        self.word.replace(Word::NONE).clear();
        self.pending_ticks.set(0);
        self.last.set(None);
    }
}

impl Shown {
    fn set(&self, reading: Reading, off_ticks: u64) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.ticks.store(reading.ticks, Ordering::Relaxed);
        self.cpu.store(reading.cpu, Ordering::Relaxed);
        self.off_ticks.store(off_ticks, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// Returns what [`off_cpu_ticks`] would say now on the thread that writes this, whose number `os_id` is; to some microseconds. `None` where that thread has never asked, or the system does not
    /// tell the time of others.
    pub(crate) fn off_cpu_ticks(&self, os_id: u64) -> Option<u64> {
        let (last, off_ticks) = self.read()?;
        let ticks = clock::ticks();
        let on = thread_clock::read_of(os_id)?.saturating_sub(last.cpu);
        let on_ticks = if thread_clock::counts_ticks() {
            on
        } else {
            rate::split(on, 0).0
        };
        let passed = ticks.saturating_sub(last.ticks);
        Some(off_ticks.saturating_add(passed.saturating_sub(on_ticks)))
    }

    fn read(&self) -> Option<(Reading, u64)> {
        // A thread that settles takes a microsecond for that and does it some hundred times a second.
        for _ in 0..16 {
            let version = self.version.load(Ordering::Acquire);
            let reading = Reading {
                ticks: self.ticks.load(Ordering::Relaxed),
                cpu: self.cpu.load(Ordering::Relaxed),
            };
            let off_ticks = self.off_ticks.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return (reading.ticks != 0).then_some((reading, off_ticks));
            }
        }
        None
    }
}

/// Returns where this thread shows others what it knows of its processor time, for as long as it lives.
pub(crate) fn own_shown() -> *const Shown {
    STATE.with(|state| std::ptr::from_ref(&state.shown))
}

/// Reads the counter, and then the thread's clock.
///
/// A switch between the two does no harm: the clock stands still meanwhile, so the two agree as of before it, and the mark that it took away makes the next call settle again. An interrupt between
/// them, which the clock counts, makes the processor time too long and the off-CPU time too short until the next reading sets that right. In the other order it would be too long, and
/// what was given out cannot be taken back.
fn read(word: Word, now_ticks: u64) -> Option<Reading> {
    word.set();
    // With a mark, the counter is read behind it. A switch between a reading and the mark would go unseen.
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
