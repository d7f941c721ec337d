//! Signals that vor must not cause or take, and the one by which it is asked for a table.
//!
//! A write beyond `RLIMIT_FSIZE` raises SIGXFSZ, and one into a pipe that nobody reads SIGPIPE;
//! both end the program unless it says otherwise. It is vor's write and not the program's, so the
//! program must not die of it: the signals are blocked around the write, which then returns an
//! error, and the sink is switched off. Ignoring them instead would change the whole process and
//! what it passes on to its children. A write into a pipe that is full must not hold the program up
//! either; [`wait_for_room`] waits as long as it may.

#[cfg(not(unix))]
pub(crate) fn without_signals<R>(write: impl FnOnce() -> R) -> R {
    write()
}

/// Runs `start` such that a thread started in it takes none of the program's signals.
#[cfg(not(unix))]
pub(crate) fn for_new_thread<R>(start: impl FnOnce() -> R) -> R {
    start()
}

/// Nobody can ask by a signal for the table of counted scopes.
#[cfg(not(unix))]
pub(crate) fn listen() {}

/// Nobody can ask by a signal for the table of counted scopes.
#[cfg(not(unix))]
pub(crate) fn is_table_asked_for() -> bool {
    false
}

#[cfg(unix)]
pub(crate) use unix::for_new_thread;
#[cfg(unix)]
pub(crate) use unix::this_thread;
#[cfg(unix)]
pub(crate) use unix::{is_table_asked_for, listen};
#[cfg(unix)]
pub(crate) use unix::{wait_for_room, without_signals};

#[cfg(unix)]
#[expect(unsafe_code, reason = "signal masks are the C library's")]
mod unix {
    use std::io;
    use std::mem::MaybeUninit;
    use std::time::Duration;

    use crate::sync::Ordering;
    use crate::sync::global::AtomicBool;

    /// Whether SIGUSR1 has come. Set by its handler, taken by [`is_table_asked_for`]; it guards
    /// nothing.
    static IS_ASKED_FOR: AtomicBool = AtomicBool::new(false);

    const OF_WRITES: [libc::c_int; 2] = [libc::SIGXFSZ, libc::SIGPIPE];
    /// Faults of the thread itself; blocking them would only hide the handler that reports a crash.
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
        // SAFETY: `sigemptyset` initialises the set that it is given, and `sigaddset` only changes
        // a set that is initialised.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            set.assume_init()
        }
    }

    /// Restores the thread's mask, also when what ran under it panics.
    struct Masked(libc::sigset_t);

    impl Masked {
        fn block(set: &libc::sigset_t) -> Self {
            let mut before = set_of(&[]);
            // SAFETY: both sets are initialised and live across the call, which changes nothing but
            // this thread's mask and `before`.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set, &mut before) };
            Self(before)
        }
    }

    impl Drop for Masked {
        fn drop(&mut self) {
            // SAFETY: the set was filled by `block`; the call changes nothing but this thread's
            // mask.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }

    fn pending() -> [bool; 2] {
        let mut set = set_of(&[]);
        // SAFETY: the set is initialised and live across the calls.
        OF_WRITES.map(|signal| unsafe {
            libc::sigpending(&mut set) == 0 && libc::sigismember(&set, signal) == 1
        })
    }

    /// Runs a write of which the program must not die. The signals that it raises are taken back.
    pub(crate) fn without_signals<R>(write: impl FnOnce() -> R) -> R {
        let masked = Masked::block(&set_of(&OF_WRITES));
        let before = pending();
        let result = write();
        for ((signal, was), is) in OF_WRITES.into_iter().zip(before).zip(pending()) {
            if is && !was {
                let mut taken = 0;
                // SAFETY: the signal is blocked and pending, so the call takes it and returns at
                // once.
                unsafe { libc::sigwait(&set_of(&[signal]), &mut taken) };
            }
        }
        drop(masked);
        result
    }

    /// Returns what tells this thread from others. May be called in a handler, where a thread-local
    /// may not be touched: the first touch may allocate.
    pub(crate) fn this_thread() -> u64 {
        // SAFETY: the call takes nothing and touches no memory.
        (unsafe { libc::pthread_self() }) as u64
    }

    /// Waits until a pipe has room, at most so long. Returns whether a write now takes something,
    /// or fails.
    pub(crate) fn wait_for_room(file: libc::c_int, most: Duration) -> io::Result<bool> {
        let mut asked = libc::pollfd {
            fd: file,
            events: libc::POLLOUT,
            revents: 0,
        };
        let most_ms = most.as_millis().try_into().unwrap_or(libc::c_int::MAX);
        // SAFETY: `asked` is one structure that lives across the call, which is allowed in a
        // handler.
        match unsafe { libc::poll(&raw mut asked, 1, most_ms) } {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
            ready => Ok(ready > 0),
        }
    }

    /// Takes SIGUSR1 for the table of counted scopes, unless the program has a use for it or
    /// ignores it. A handler that the program installs later replaces this one.
    pub(crate) fn listen() {
        extern "C" fn note(_: libc::c_int) {
            IS_ASKED_FOR.store(true, Ordering::Relaxed);
        }
        let mut present = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: nothing is changed, and `present` is a valid place for what is asked.
        let failed =
            unsafe { libc::sigaction(libc::SIGUSR1, std::ptr::null(), present.as_mut_ptr()) } != 0;
        // SAFETY: zeroed above, and all zero is an action: the default one.
        let mut action = unsafe { present.assume_init() };
        if failed || action.sa_sigaction != libc::SIG_DFL {
            return;
        }
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // Calls of the program that wait go on.
        action.sa_flags = libc::SA_RESTART;
        action.sa_mask = set_of(&[]);
        // SAFETY: the action is whole, and its handler does nothing but store into an atomic, which
        // is allowed at any moment.
        unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    }

    /// Returns whether the signal has come since the last call.
    pub(crate) fn is_table_asked_for() -> bool {
        IS_ASKED_FOR.load(Ordering::Relaxed) && IS_ASKED_FOR.swap(false, Ordering::Relaxed)
    }

    /// Runs `start` such that a thread started in it takes none of the program's signals: their
    /// handlers expect a thread of the program.
    pub(crate) fn for_new_thread<R>(start: impl FnOnce() -> R) -> R {
        let mut all = set_of(&[]);
        // SAFETY: the set is initialised and live across the calls.
        unsafe {
            libc::sigfillset(&mut all);
            for fault in FAULTS {
                libc::sigdelset(&mut all, fault);
            }
        }
        let _masked = Masked::block(&all);
        start()
    }
}
