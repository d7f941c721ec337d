//! Whether the locks that the end of a process takes are open.
//!
//! On Windows a process that ends without the C library has one thread left when vor hears of it
//! ([`os::detach`](crate::os::detach)). There is nobody to wait for: a lock that is held stays held
//! for ever, and what it guards is half changed. Where all locks of the crate are open the engine
//! is whole, and the rings hold what ended since the last pass. Where one is not, nothing is
//! written any more, and the captures are those of a program that was killed.

#[cfg(any(unix, windows))]
pub(super) use ends::{abandon, is_possible};
#[cfg(unix)]
pub(super) use locks::{was_open, were_open};

/// The locks that the end takes beside those of the settings and the engine.
#[cfg(any(unix, windows))]
mod locks {
    use super::super::{FRAME_SETS, MARKS, worker};
    use crate::hot::{callsite, thread};
    use crate::os::detach::is_open;
    use crate::{gpu, metrics};

    /// Say whether nobody holds them. The allocator's first: the others may allocate.
    pub(super) const ARE_OPEN: [fn() -> bool; 8] = [
        crate::heap::is_open,
        || is_open(&MARKS),
        || is_open(&FRAME_SETS),
        worker::is_open,
        gpu::is_open,
        metrics::is_open,
        thread::is_open,
        callsite::is_open,
    ];

    /// Returns whether each of these locks was open at some moment, and the holder of the engine
    /// known. Then a thread that has been stopped all the while holds none of them, and the engine
    /// only if it knows that itself.
    #[cfg(unix)]
    pub(in super::super) fn were_open() -> bool {
        was_open(super::super::is_holder_known) && ARE_OPEN.into_iter().all(was_open)
    }

    /// Returns whether a lock was open at some moment since the call began.
    #[cfg(unix)]
    pub(in super::super) fn was_open(is_open: fn() -> bool) -> bool {
        const TRIES: u32 = 100;
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
        (0..TRIES).any(|_| {
            is_open() || {
                std::thread::sleep(PAUSE);
                false
            }
        })
    }
}

#[cfg(unix)]
mod ends {
    /// There are other threads, which will open what they have locked.
    pub(in super::super) const fn is_possible() -> bool {
        true
    }

    pub(in super::super) const fn abandon() {}
}

#[cfg(windows)]
mod ends {
    use super::super::{ENGINE, SETTINGS};
    use crate::allocations;
    use crate::hot::thread;
    use crate::os::detach::is_open;

    /// Returns whether all locks that the end takes are open. To be called by the last thread: they
    /// stay so.
    pub(in super::super) fn is_possible() -> bool {
        let are_open = |locks: &[fn() -> bool]| locks.iter().all(|is_open| is_open());
        are_open(&super::locks::ARE_OPEN) && is_open(&SETTINGS) && is_open(&ENGINE)
    }

    /// Sees to it that nothing of vor waits for a lock on this thread any more, when destructors of
    /// its thread-locals run.
    pub(in super::super) fn abandon() {
        allocations::stay_internal();
        thread::abandon_state();
    }
}
