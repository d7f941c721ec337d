//! Signals that end the process while a capture is being written: their handlers, and a thread that
//! does the work that a handler must not do.
//!
//! A handler's stack may have only a few kilobytes left, and the interrupted thread may hold any
//! lock. So a handler writes a byte into a pipe, on which the thread `vor-crash` sleeps, and waits
//! for at most [`CRASH_WAIT`] or [`END_WAIT`]. A signal that meanwhile comes to another thread
//! waits for the same work, so that it does not end the process earlier.
//!
//! **A crash** records the open scopes ([`crash`]). Then the previous handlers are restored, and
//! the previous handler of this signal is called. Without one the process ends as it would have
//! without vor. The handlers are restored because the previous one may abort. The frame of that
//! second signal would not fit beside the first on the signal stack.
//!
//! Another process may send the signal of a crash, and the system chooses the thread that takes it.
//! `vor-crash` and the thread that is writing the capture must continue, or there is no record. So
//! their handler returns, and `vor-crash` sends the signal again afterwards ([`POSTPONED`]).
//!
//! **A signal from outside** finishes the sinks that write files, as at an exit, and then has its
//! default effect. Its handler is installed only if the program leaves the signal to the system. So
//! it is not installed if the program handles or ignores the signal, nor in the first process of a
//! container, for which the default is to ignore it. A handler that the program installs later
//! replaces this one. Some such handlers then call the previous handler, as they would not have
//! called the system's. This handler sees that it is no longer installed, and does nothing.
//!
//! The thread that takes the signal should not continue, since the program would see an interrupted
//! call. But if it holds a lock that the end needs, it must continue: [`THREAD_CONTINUES`] records
//! this, and `vor-crash` then ends the process. `vor-crash` finds out by trying the locks. The
//! locks of a program's allocator are unknown, and `vor-crash` itself may wait for one of them. So
//! the thread continues as well when the end takes longer than [`END_WAIT`]; a second signal ends
//! the process.

#![expect(unsafe_code, reason = "handlers of signals are the C library's")]

use std::ffi::c_void;
use std::io;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use super::{crash, dumps, exit, fork, process_detach};
use crate::drain;
use crate::hot::{callsite, record_state, thread};
use crate::os::{report, signals};
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

const CRASH_SIGNALS: [libc::c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
];
const END_SIGNALS: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// How often a handler checks whether it may continue.
const PAUSE: Duration = Duration::from_millis(1);
/// How long the handler of a crash waits for the record of open scopes.
const CRASH_WAIT: Duration = Duration::from_secs(1);
/// How long the handler of a signal from outside waits for the sinks.
const END_WAIT: Duration = Duration::from_secs(2);
/// How long the thread waits for the engine at a crash.
const LOCK_BOUND: Duration = Duration::from_millis(100);
/// How long the thread waits for the engine and for readers of pipes.
const END_BOUND: Duration = Duration::from_millis(1_500);

/// The descriptor whose bytes wake the thread, plus 1; 0 if there is none. Written by
/// `start_thread` (release), read by handlers (acquire), which use the pipe that it made.
static PIPE: AtomicU64 = AtomicU64::new(0);
/// The process in which the thread was started. Exchanged by `install`, under the lock of the
/// settings.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// The signal of the crash. Written by its handler before the request, read by `vor-crash` after
/// it.
static SIGNAL: AtomicU32 = AtomicU32::new(0);
/// A signal that `vor-crash` sends again after the record of open scopes; 0 if there is none. Set
/// by a handler, and taken by it or by `vor-crash`, all sequentially consistent.
static POSTPONED: AtomicU32 = AtomicU32::new(0);
/// The thread `vor-crash`; 0 before it runs. Written by it and by `install`, and read by handlers.
static CRASH_THREAD: AtomicU64 = AtomicU64::new(0);
static CRASH: Request = Request::new();
static END: Request = Request::new();
/// Whether the thread that took the signal continues, so that `vor-crash` ends the process. Set by
/// the handler before it makes the request and by `vor-crash` (release), and by the handler at its
/// end (sequentially consistent). Read by the handler that waits (acquire), and by `vor-crash` at
/// its end (sequentially consistent).
static THREAD_CONTINUES: AtomicBool = AtomicBool::new(false);

/// A request to the thread that is made once per process.
struct Request(AtomicU8);

const NOT_MADE: u8 = 0;
const MADE: u8 = 1;
const DONE: u8 = 2;

impl Request {
    const fn new() -> Self {
        Self(AtomicU8::new(NOT_MADE))
    }

    /// Makes the request, and returns whether this is the first handler to do so.
    fn make(&self, byte: u8) -> bool {
        let pipe = PIPE.load(Ordering::Acquire);
        let made = (self.0).compare_exchange(NOT_MADE, MADE, Ordering::AcqRel, Ordering::Acquire);
        if made.is_err() {
            return false;
        }
        // SAFETY: the byte is readable, and a handler may call this.
        let write = |pipe| unsafe { libc::write(pipe, (&raw const byte).cast(), 1) } == 1;
        if pipe == 0 || !write((pipe - 1) as libc::c_int) {
            self.be_done();
        }
        true
    }

    /// Waits until the request is done or `is_enough`, at most for `most`.
    fn wait(&self, most: Duration, is_enough: impl Fn() -> bool) {
        // Count pauses rather than read a clock, which would advance while the process is stopped.
        let mut pauses = most.as_millis() / PAUSE.as_millis();
        while self.0.load(Ordering::Acquire) == MADE && !is_enough() && pauses > 0 {
            std::thread::sleep(PAUSE);
            pauses -= 1;
        }
    }

    fn be_done(&self) {
        self.0.store(DONE, Ordering::SeqCst);
    }

    fn is_done(&self) -> bool {
        self.0.load(Ordering::SeqCst) == DONE
    }

    fn forget(&self) {
        self.0.store(NOT_MADE, Ordering::Release);
    }
}

/// The byte that requests a record of open scopes; a request to end is the signal's number.
const NOTE: u8 = 0;

/// The previous actions, in the order of [`CRASH_SIGNALS`] and [`END_SIGNALS`]. Complete before the
/// first handler is installed, so that a handler can read all of them while another thread installs
/// more.
static PREVIOUS_ACTIONS: OnceLock<
    [Option<libc::sigaction>; CRASH_SIGNALS.len() + END_SIGNALS.len()],
> = OnceLock::new();

fn action_before(signal: libc::c_int) -> Option<libc::sigaction> {
    let index = CRASH_SIGNALS
        .iter()
        .chain(&END_SIGNALS)
        .position(|one| *one == signal)?;
    *PREVIOUS_ACTIONS.get()?.get(index)?
}

/// Starts the thread of this process, and installs the handlers at the first call.
pub(super) fn install() {
    if STARTED.swap(std::process::id(), Ordering::Relaxed) != std::process::id() {
        // The requests were the parent's if this is the child of a fork.
        CRASH.forget();
        END.forget();
        THREAD_CONTINUES.store(false, Ordering::Relaxed);
        POSTPONED.store(0, Ordering::Relaxed);
        // A thread of the child may have the address of the parent's.
        CRASH_THREAD.store(0, Ordering::Relaxed);
        start_thread();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        PREVIOUS_ACTIONS.get_or_init(|| {
            let mut actions = CRASH_SIGNALS
                .iter()
                .chain(&END_SIGNALS)
                .map(|signal| action_of(*signal));
            std::array::from_fn(|_| actions.next().flatten())
        });
        for signal in CRASH_SIGNALS {
            replace(signal, on_crash, &[]);
        }
        let is_first = std::process::id() == 1;
        for signal in END_SIGNALS {
            let before = action_before(signal).map(|action| action.sa_sigaction);
            if before == Some(libc::SIG_DFL) && !is_first {
                replace(signal, on_end, &END_SIGNALS);
            }
        }
    });
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// Returns a signal's current action. May be called in a handler.
fn action_of(signal: libc::c_int) -> Option<libc::sigaction> {
    // SAFETY: a `sigaction` is plain memory, for which all zeros are valid, and it lives across the
    // call, which only writes it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0).then_some(action)
    }
}

/// Returns whether `handler` is still installed for a signal. May be called in a handler.
fn is_installed(signal: libc::c_int, handler: Handler) -> bool {
    action_of(signal).is_some_and(|action| action.sa_sigaction == handler as *const () as usize)
}

/// Replaces the action that `PREVIOUS_ACTIONS` has for the signal with a handler, during which the
/// signals of `blocked` wait. An action that another thread has installed since is kept.
fn replace(signal: libc::c_int, handler: Handler, blocked: &[libc::c_int]) {
    let Some(before) = action_before(signal) else {
        return;
    };
    // SAFETY: a `sigaction` is plain memory, for which all zeros are valid. The handler has the
    // signature that SA_SIGINFO requires and lives as long as the program.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        for other in blocked {
            libc::sigaddset(&raw mut action.sa_mask, *other);
        }
        let mut replaced: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, &raw const action, &raw mut replaced) == 0
            && replaced.sa_sigaction != before.sa_sigaction
        {
            libc::sigaction(signal, &raw const replaced, std::ptr::null_mut());
        }
    }
}

/// Starts the thread that serves the requests of handlers.
fn start_thread() {
    PIPE.store(0, Ordering::Relaxed);
    let mut ends = [-1; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return;
    }
    let [requests, request] = ends;
    for end in ends {
        // SAFETY: the descriptor belongs to this function. Close-on-exec keeps it from other
        // programs.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let run = move || {
        thread::stay_silent();
        CRASH_THREAD.store(signals::this_thread(), Ordering::Relaxed);
        let mut byte = 0_u8;
        loop {
            // SAFETY: `byte` has room for the one requested byte.
            match unsafe { libc::read(requests, (&raw mut byte).cast(), 1) } {
                1 if byte == NOTE => {
                    crash::note_crash();
                    dump_at_crash();
                    CRASH.be_done();
                    send_postponed();
                }
                1 => end(libc::c_int::from(byte)),
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    };
    match signals::for_new_thread(|| fork::spawn("vor-crash", run)) {
        Ok(()) => PIPE.store(request as u64 + 1, Ordering::Release),
        Err(error) => report::line(&format!(
            "the thread for signals cannot be started: {error}; \
             open scopes are noted at panics only"
        )),
    }
}

/// Dumps the records that a sink keeps in memory, if it does so at a crash.
fn dump_at_crash() {
    dumps::request(dumps::Cause::Crash, || {
        match SIGNAL.load(Ordering::Relaxed) as libc::c_int {
            libc::SIGSEGV => "a crash: SIGSEGV",
            libc::SIGABRT => "a crash: SIGABRT",
            libc::SIGBUS => "a crash: SIGBUS",
            libc::SIGILL => "a crash: SIGILL",
            _ => "a crash: SIGFPE",
        }
        .to_owned()
    });
    if dumps::is_pending() {
        exit::pass_within(LOCK_BOUND);
    }
}

/// Finishes the sinks that write files, on `vor-crash`, and ends the process if the thread that
/// took the signal does not.
fn end(signal: libc::c_int) {
    // Spans that other threads record from now on would only delay the end.
    let were_open = process_detach::was_open(callsite::is_open) && {
        record_state::set(false);
        process_detach::were_open()
    };
    let let_continue = || THREAD_CONTINUES.store(true, Ordering::Release);
    if !were_open {
        let_continue();
    }
    exit::finish_files(END_BOUND, let_continue);
    END.be_done();
    // Sequentially consistent, like the accesses in `on_end`: one of the two ends the process.
    if THREAD_CONTINUES.load(Ordering::SeqCst) {
        // SAFETY: neither call touches memory.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
        }
    }
}

/// Restores the previous actions of those crash signals whose handler is still this module's.
fn restore_crash_handlers() {
    for signal in CRASH_SIGNALS {
        if let Some(before) = action_before(signal)
            && is_installed(signal, on_crash)
        {
            // SAFETY: the action lives across the call, which a handler may make.
            unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
        }
    }
}

/// The values of `si_code` for a signal that a process sent by `kill` or `sigqueue`: Linux's
/// asm-generic/siginfo.h, macOS's sys/signal.h.
const SENT: [libc::c_int; 2] = if cfg!(target_vendor = "apple") {
    [0x1_0001, 0x1_0002]
} else {
    [0, -1]
};

/// Returns whether a handler must return for the record of open scopes to be written, which it may
/// do, since the interrupted code did not cause the signal.
fn must_continue(signal: libc::c_int, info: *const libc::siginfo_t) -> bool {
    (crash::is_writing() || CRASH_THREAD.load(Ordering::Relaxed) == signals::this_thread())
        // A handler that the program installed later may call this one without `info`.
        && is_installed(signal, on_crash)
        // SAFETY: the system called the handler, so `info` lives as long as the call.
        && SENT.contains(&unsafe { (*info).si_code })
}

/// Has `vor-crash` send the signal again after the record of open scopes. Returns false if that was
/// written before.
fn postpone(signal: libc::c_int) -> bool {
    POSTPONED.store(signal as u32, Ordering::SeqCst);
    // If `vor-crash` looked before, the request is done.
    !(CRASH.is_done() && POSTPONED.swap(0, Ordering::SeqCst) != 0)
}

/// Sends the signal that a handler postponed to the previous handlers.
fn send_postponed() {
    let signal = POSTPONED.swap(0, Ordering::SeqCst);
    if signal != 0 {
        restore_crash_handlers();
        // SAFETY: neither call touches memory.
        unsafe { libc::kill(libc::getpid(), signal as libc::c_int) };
    }
}

/// Ends the process by a signal, inside the signal's handler. The signal is blocked until the
/// handler returns, and then has its default effect.
fn raise_default(signal: libc::c_int) {
    // SAFETY: a handler may make both calls, and they touch no memory.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

extern "C" fn on_crash(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // A child of a `vfork` shares the parent's memory.
    if crash::is_watching() {
        SIGNAL.store(signal as u32, Ordering::Relaxed);
        CRASH.make(NOTE);
        if must_continue(signal, info) && postpone(signal) {
            return;
        }
        CRASH.wait(CRASH_WAIT, || false);
    }
    restore_crash_handlers();
    match action_before(signal) {
        Some(before) if before.sa_sigaction == libc::SIG_IGN => {}
        Some(before) if before.sa_sigaction != libc::SIG_DFL => {
            // SAFETY: this is the handler that the program or its runtime had installed, called
            // with the system's arguments, as its flags require.
            unsafe {
                if before.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: Handler = std::mem::transmute(before.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    type Simple = extern "C" fn(libc::c_int);
                    std::mem::transmute::<usize, Simple>(before.sa_sigaction)(signal);
                }
            }
        }
        _ => raise_default(signal),
    }
}

extern "C" fn on_end(signal: libc::c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    if !is_installed(signal, on_end) {
        return;
    }
    if crash::is_watching() {
        if drain::has_engine() {
            THREAD_CONTINUES.store(true, Ordering::Release);
        }
        // Signal numbers have seven bits.
        let is_first = END.make(signal as u8);
        // A second signal ends the process after the wait.
        END.wait(END_WAIT, || {
            is_first && THREAD_CONTINUES.load(Ordering::Acquire)
        });
        if is_first {
            THREAD_CONTINUES.store(true, Ordering::SeqCst);
            if !END.is_done() {
                return;
            }
        }
    }
    raise_default(signal);
}
