//! Signals that end the process, while a capture is being written: their handlers, and the thread
//! that does for them what a handler may not.
//!
//! The stack of a handler may have no more than a few kilobytes left, and the interrupted thread
//! may hold any lock. So a handler writes a byte into a pipe, on which the thread `vor-crash`
//! sleeps, and waits, for [`CRASH_WAIT`] or [`END_WAIT`] at most. A signal that comes to another
//! thread meanwhile waits for the same, so that it does not end the process before that is done.
//!
//! **A crash** has the open scopes noted ([`crash`]). Then the handlers that were there before are
//! put back, and the one of the signal is handed on to; without one the process ends as it would
//! have. They are put back because the one that is handed on to may abort, and the frame of that
//! second signal would not fit beside the first on the stack of handlers.
//!
//! **A signal from outside** has the sinks that write files finished, as at an exit, and then does
//! what it does by default. Its handler is installed only where the program leaves the signal to
//! the system: not where it has a handler or ignores the signal, nor in the first process of a
//! container, to which the default is to ignore it. A handler of the program's that comes later
//! replaces this one. Some then call the one that was there before, as they would not have called
//! the system's; this one finds that it is not installed any more, and does nothing.
//!
//! The thread that takes the signal must not go on, since the program would see that a call was
//! interrupted. Where it holds a lock that the end needs, it must: [`RUNS_ON`] says so, and
//! `vor-crash` then ends the process. The locks of a program's allocator are not known: where it
//! has one for all threads and the signal came while the thread held it, the time runs out.

#![expect(unsafe_code, reason = "handlers of signals are the C library's")]

use std::ffi::c_void;
use std::io;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use super::{crash, exit, fork, process_detach};
use crate::drain;
use crate::hot::{callsite, record_state, thread};
use crate::os::{report, signals};
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

const CRASHES: [libc::c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
];
const ENDS: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// How often a handler looks whether it may go on.
const PAUSE: Duration = Duration::from_millis(1);
/// How long the handler of a crash waits for the note.
const CRASH_WAIT: Duration = Duration::from_secs(1);
/// How long the handler of a signal from outside waits for the sinks, and how long the thread waits
/// for the engine and for readers of pipes.
const END_WAIT: Duration = Duration::from_secs(2);
const END_BOUND: Duration = Duration::from_millis(1_500);

/// Where a byte wakes the thread, as a file descriptor plus 1; 0 where there is none. Written by
/// `start_thread`, read by handlers.
static PIPE: AtomicU64 = AtomicU64::new(0);
/// The process in which the thread was started. Exchanged by `install`, under the lock of the
/// settings.
static STARTED: AtomicU32 = AtomicU32::new(0);

static CRASH: Request = Request::new();
static END: Request = Request::new();
/// Whether the thread that took the signal goes on, so that `vor-crash` ends the process. Set
/// before the request is made or by `vor-crash` (release), read by handlers that wait and by
/// `vor-crash` at its end (acquire).
static RUNS_ON: AtomicBool = AtomicBool::new(false);

/// A request to the thread that is made once per process.
struct Request(AtomicU8);

const NOT_MADE: u8 = 0;
const MADE: u8 = 1;
const DONE: u8 = 2;

impl Request {
    const fn new() -> Self {
        Self(AtomicU8::new(NOT_MADE))
    }

    /// Makes the request, and returns whether no other handler has.
    fn make(&self, byte: u8) -> bool {
        let pipe = PIPE.load(Ordering::Relaxed);
        let made = (self.0).compare_exchange(NOT_MADE, MADE, Ordering::AcqRel, Ordering::Acquire);
        if made.is_err() {
            return false;
        }
        // SAFETY: the byte is readable, and the call is allowed in a handler.
        let write = |pipe| unsafe { libc::write(pipe, (&raw const byte).cast(), 1) } == 1;
        if pipe == 0 || !write((pipe - 1) as libc::c_int) {
            self.be_done();
        }
        true
    }

    /// Waits until it is done or `is_enough`, but not for ever.
    fn wait(&self, most: Duration, is_enough: impl Fn() -> bool) {
        // Pauses are counted, and no clock is read: one goes on while the process is stopped.
        let mut pauses = most.as_millis() / PAUSE.as_millis();
        while self.0.load(Ordering::Acquire) == MADE && !is_enough() && pauses > 0 {
            std::thread::sleep(PAUSE);
            pauses -= 1;
        }
    }

    fn be_done(&self) {
        self.0.store(DONE, Ordering::Release);
    }

    fn forget(&self) {
        self.0.store(NOT_MADE, Ordering::Release);
    }
}

/// The byte that requests a note; a request of the end is the signal's number.
const NOTE: u8 = 0;

/// The actions that were there before, in the order of [`CRASHES`] and [`ENDS`]. Complete before
/// the first handler is installed: a handler reads all of them, whatever another thread is
/// installing meanwhile.
static BEFORE: OnceLock<[Option<libc::sigaction>; CRASHES.len() + ENDS.len()]> = OnceLock::new();

fn action_before(signal: libc::c_int) -> Option<libc::sigaction> {
    let index = CRASHES.iter().chain(&ENDS).position(|one| *one == signal)?;
    *BEFORE.get()?.get(index)?
}

/// Starts the thread of this process, and installs the handlers at the first call.
pub(super) fn install() {
    if STARTED.swap(std::process::id(), Ordering::Relaxed) != std::process::id() {
        // In the child of a fork, requests were the parent's.
        CRASH.forget();
        END.forget();
        RUNS_ON.store(false, Ordering::Relaxed);
        start_thread();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        BEFORE.get_or_init(|| {
            let mut actions = CRASHES.iter().chain(&ENDS).map(|signal| action_of(*signal));
            std::array::from_fn(|_| actions.next().flatten())
        });
        for signal in CRASHES {
            replace(signal, on_crash, &[]);
        }
        let is_first = std::process::id() == 1;
        for signal in ENDS {
            let before = action_before(signal).map(|action| action.sa_sigaction);
            if before == Some(libc::SIG_DFL) && !is_first {
                replace(signal, on_end, &ENDS);
            }
        }
    });
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// Returns what a signal does now. May be called in a handler.
fn action_of(signal: libc::c_int) -> Option<libc::sigaction> {
    // SAFETY: a `sigaction` is plain memory, of which all zeros are a good one, and lives across
    // the call, which only reads.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0).then_some(action)
    }
}

/// Returns whether a signal is still `handler`'s. May be called in a handler.
fn is_installed(signal: libc::c_int, handler: Handler) -> bool {
    action_of(signal).is_some_and(|action| action.sa_sigaction == handler as *const () as usize)
}

/// Installs a handler in the place of what `BEFORE` says of the signal, while which the signals of
/// `blocked` wait. What another thread has installed since stays.
fn replace(signal: libc::c_int, handler: Handler, blocked: &[libc::c_int]) {
    let Some(before) = action_before(signal) else {
        return;
    };
    // SAFETY: a `sigaction` is plain memory, of which all zeros are a good one; the handler has the
    // signature that SA_SIGINFO asks for and lives as long as the program.
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

/// Starts the thread that does what handlers ask for.
fn start_thread() {
    PIPE.store(0, Ordering::Relaxed);
    let mut ends = [-1; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return;
    }
    let [requests, request] = ends;
    for end in ends {
        // SAFETY: the descriptor is this function's; a child that another program becomes must not
        // have it.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let run = move || {
        thread::stay_silent();
        let mut byte = 0_u8;
        loop {
            // SAFETY: `byte` has room for the one byte that is asked for.
            match unsafe { libc::read(requests, (&raw mut byte).cast(), 1) } {
                1 if byte == NOTE => {
                    crash::append();
                    CRASH.be_done();
                }
                1 => end(libc::c_int::from(byte)),
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    };
    match signals::for_new_thread(|| fork::spawn("vor-crash", run)) {
        Ok(()) => PIPE.store(request as u64 + 1, Ordering::Relaxed),
        Err(error) => report::line(&format!(
            "the thread for signals cannot be started: {error}; \
             open scopes are noted at panics only"
        )),
    }
}

/// Finishes what writes files, on `vor-crash`, and ends the process where the thread that took the
/// signal does not.
fn end(signal: libc::c_int) {
    // Spans that other threads record from now on would only be in the way.
    let were_open = process_detach::was_open(callsite::is_open) && {
        record_state::set(false);
        process_detach::were_open()
    };
    if !were_open {
        RUNS_ON.store(true, Ordering::Release);
    }
    exit::finish_files(END_BOUND);
    END.be_done();
    if RUNS_ON.load(Ordering::Acquire) {
        // SAFETY: neither call touches memory.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
        }
    }
}

/// Puts back the actions that were there before, of those crashes whose handler is still this
/// module's.
fn step_aside() {
    for signal in CRASHES {
        if let Some(before) = action_before(signal)
            && is_installed(signal, on_crash)
        {
            // SAFETY: the action lives across the call, which is allowed in a handler.
            unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
        }
    }
}

/// Ends the process by a signal, in the signal's handler: until that returns the signal is blocked,
/// and then it does what it does by default.
fn raise_default(signal: libc::c_int) {
    // SAFETY: both calls are allowed in a handler, and touch no memory.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

extern "C" fn on_crash(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // In the child of a `vfork` the memory is the parent's.
    if crash::is_watching() {
        CRASH.make(NOTE);
        CRASH.wait(CRASH_WAIT, || false);
    }
    step_aside();
    match action_before(signal) {
        Some(before) if before.sa_sigaction == libc::SIG_IGN => {}
        Some(before) if before.sa_sigaction != libc::SIG_DFL => {
            // SAFETY: this is the handler that the program or its runtime had installed, called
            // with what the system gave, as its flags ask for.
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
            RUNS_ON.store(true, Ordering::Release);
        }
        // Numbers of signals have seven bits.
        let is_first = END.make(signal as u8);
        // A second signal does not wait for ever for a thread that runs on.
        let runs_on = || is_first && RUNS_ON.load(Ordering::Acquire);
        END.wait(END_WAIT, runs_on);
        if runs_on() {
            return;
        }
    }
    raise_default(signal);
}
