//! Signals that vor must neither cause nor receive, and those by which a person asks something.
//!
//! A write beyond `RLIMIT_FSIZE` raises SIGXFSZ, and one into a pipe without a reader SIGPIPE. Both
//! end the program by default, which a write of vor must not do. So the signals are blocked around
//! the write, which then returns an error, and the sink is switched off. Ignoring them instead
//! would change the whole process and its children. A write into a full pipe must not block the
//! program either: [`wait_for_room`] waits for a limited time.

#[cfg(not(unix))]
pub(crate) fn without_signals<R>(write: impl FnOnce() -> R) -> R {
    write()
}

/// Runs `start`, which starts a thread that receives none of the program's signals.
#[cfg(not(unix))]
pub fn for_new_thread<R>(start: impl FnOnce() -> R) -> R {
    start()
}

/// A signal by which a person asks something of vor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserSignal {
    /// The table of counted scopes: SIGUSR1.
    Table,
    /// A dump of the records in memory: SIGUSR2.
    Dump,
}

/// No signal requests anything.
#[cfg(not(unix))]
pub(crate) fn listen(_: UserSignal) {}

/// No signal requests anything.
#[cfg(not(unix))]
pub(crate) fn take_request(_: UserSignal) -> bool {
    false
}

#[cfg(unix)]
pub use unix::for_new_thread;
#[cfg(unix)]
pub(crate) use unix::this_thread;
#[cfg(unix)]
pub(crate) use unix::{listen, take_request};
#[cfg(unix)]
pub(crate) use unix::{wait_for_room, without_signals};

#[cfg(unix)]
#[expect(unsafe_code, reason = "signal masks are the C library's")]
mod unix {
    use std::io;
    use std::mem::MaybeUninit;
    use std::time::Duration;

    use super::UserSignal;
    use crate::sync::Ordering;
    use crate::sync::global::AtomicBool;

    /// Whether a [`UserSignal`] has come. Set by its handler, cleared by
    /// [`take_request`], both relaxed: it orders nothing.
    static IS_TABLE_REQUESTED: AtomicBool = AtomicBool::new(false);
    static IS_DUMP_REQUESTED: AtomicBool = AtomicBool::new(false);

    impl UserSignal {
        fn signal(self) -> libc::c_int {
            match self {
                Self::Table => libc::SIGUSR1,
                Self::Dump => libc::SIGUSR2,
            }
        }

        fn flag(self) -> &'static AtomicBool {
            match self {
                Self::Table => &IS_TABLE_REQUESTED,
                Self::Dump => &IS_DUMP_REQUESTED,
            }
        }
    }

    /// The signals that writes raise.
    const WRITE_SIGNALS: [libc::c_int; 2] = [libc::SIGXFSZ, libc::SIGPIPE];
    /// Faults of the thread itself. Blocking them would only suppress the handler that reports a
    /// crash.
    const FAULTS: [libc::c_int; 6] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
    ];

    fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initialises the set, and `sigaddset` only changes an initialised
        // set.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            set.assume_init()
        }
    }

    /// Blocks signals until it is dropped, also by a panic.
    struct MaskGuard(libc::sigset_t);

    impl MaskGuard {
        fn block(set: &libc::sigset_t) -> Self {
            let mut before = set_of(&[]);
            // SAFETY: both sets are initialised and live across the call, which changes nothing but
            // this thread's mask and `before`.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set, &mut before) };
            Self(before)
        }
    }

    impl Drop for MaskGuard {
        fn drop(&mut self) {
            // SAFETY: the set was filled by `block`; the call changes nothing but this thread's
            // mask.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }

    fn pending() -> [bool; 2] {
        let mut set = set_of(&[]);
        // SAFETY: the set is initialised and live across the calls.
        WRITE_SIGNALS.map(|signal| unsafe {
            libc::sigpending(&mut set) == 0 && libc::sigismember(&set, signal) == 1
        })
    }

    /// Runs a write that must not end the program. Signals that it raises are discarded.
    pub(crate) fn without_signals<R>(write: impl FnOnce() -> R) -> R {
        let _discarded = WriteSignals::block();
        write()
    }

    /// Blocks the signals of writes until it is dropped, and discards those raised meanwhile.
    struct WriteSignals {
        pending_before: [bool; 2],
        _mask: MaskGuard,
    }

    impl WriteSignals {
        // Out of line, here and in `drop`, because each of the many callers would get a copy of the
        // code.
        #[inline(never)]
        fn block() -> Self {
            let mask = MaskGuard::block(&set_of(&WRITE_SIGNALS));
            Self {
                pending_before: pending(),
                _mask: mask,
            }
        }
    }

    impl Drop for WriteSignals {
        #[inline(never)]
        fn drop(&mut self) {
            let signals = WRITE_SIGNALS.into_iter().zip(self.pending_before);
            for ((signal, was), is) in signals.zip(pending()) {
                if is && !was {
                    let mut taken = 0;
                    // SAFETY: the signal is blocked and pending, so the call takes it and returns
                    // immediately.
                    unsafe { libc::sigwait(&set_of(&[signal]), &mut taken) };
                }
            }
        }
    }

    /// Returns a number that is unique among the live threads. May be called in a signal handler,
    /// unlike a thread-local, whose first access may allocate.
    pub(crate) fn this_thread() -> u64 {
        // SAFETY: the call has no arguments and touches no memory.
        (unsafe { libc::pthread_self() }) as u64
    }

    /// Waits until a pipe has room, at most for `most`. Returns whether a write would now write
    /// something or fail.
    pub(crate) fn wait_for_room(file: libc::c_int, most: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd {
            fd: file,
            events: libc::POLLOUT,
            revents: 0,
        };
        let timeout_ms = most.as_millis().try_into().unwrap_or(libc::c_int::MAX);
        // SAFETY: `poll` is one structure that lives across the call, which a handler may make.
        match unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
            ready => Ok(ready > 0),
        }
    }

    /// Installs a handler of SIGUSR1 for the table of counted scopes, unless the program handles or
    /// ignores that signal. A handler that the program installs later replaces this one.
    pub(crate) fn listen(wanted: UserSignal) {
        extern "C" fn be_requested(signal: libc::c_int) {
            let come = match signal {
                libc::SIGUSR1 => UserSignal::Table,
                _ => UserSignal::Dump,
            };
            come.flag().store(true, Ordering::Relaxed);
        }
        let signal = wanted.signal();
        let mut present = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the call changes nothing, and `present` is a valid place for the result.
        let failed =
            unsafe { libc::sigaction(signal, std::ptr::null(), present.as_mut_ptr()) } != 0;
        // SAFETY: it was zeroed above, and all zeros are a valid action: the default one.
        let mut action = unsafe { present.assume_init() };
        if failed || action.sa_sigaction != libc::SIG_DFL {
            return;
        }
        action.sa_sigaction = be_requested as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // Blocking system calls of the program continue.
        action.sa_flags = libc::SA_RESTART;
        action.sa_mask = set_of(&[]);
        // SAFETY: the action is complete, and its handler only stores into an atomic, which is
        // allowed at any time.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }

    /// Returns whether this signal has come since the last call.
    pub(crate) fn take_request(signal: UserSignal) -> bool {
        let flag = signal.flag();
        flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::Relaxed)
    }

    /// Runs `start`, which starts a thread that receives none of the program's signals: their
    /// handlers expect a thread of the program.
    pub fn for_new_thread<R>(start: impl FnOnce() -> R) -> R {
        let mut all = set_of(&[]);
        // SAFETY: the set is initialised and live across the calls.
        unsafe {
            libc::sigfillset(&mut all);
            for fault in FAULTS {
                libc::sigdelset(&mut all, fault);
            }
        }
        let _mask = MaskGuard::block(&all);
        start()
    }
}
