//! Checks whether the locks that the end of a process takes are open.
//!
//! On Windows, a process that ends without the C library has one thread left when vor is notified
//! ([`os::detach`](crate::os::detach)). A lock that is held stays held for ever, and its data is
//! half changed. If all locks of the crate are open, the engine is whole, and the rings hold the
//! records since the last pass. Otherwise nothing more is written, and the captures are those of a
//! killed program.

#[cfg(any(unix, windows))]
pub(super) use ends::{abandon, is_possible};
#[cfg(unix)]
pub(super) use locks::{was_open, were_open};

/// The locks that the end takes besides those of the settings and the engine.
#[cfg(any(unix, windows))]
mod locks {
    use super::super::{FRAME_SETS, MARKS, worker};
    use crate::hot::{callsite, shared, thread};
    use crate::metrics::{self, gpu};
    use crate::os::detach::is_open;

    /// Each returns whether a lock is open. The allocator's is first, because the others may
    /// allocate.
    pub(super) const ARE_OPEN: [fn() -> bool; 9] = [
        crate::heap::is_open,
        || is_open(MARKS.try_lock()),
        || is_open(FRAME_SETS.try_lock()),
        worker::is_open,
        gpu::is_open,
        metrics::is_open,
        thread::is_open,
        callsite::is_open,
        shared::is_open,
    ];

    /// Returns whether each of these locks was open at some moment. If so, a thread that has been
    /// stopped since before holds none of them.
    #[cfg(unix)]
    pub(in super::super) fn were_open() -> bool {
        ARE_OPEN.into_iter().all(was_open)
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
    /// Other threads run on, and will release their locks.
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

    /// Returns whether all locks that the end takes are open. Must be called by the last thread, so
    /// that they stay open.
    pub(in super::super) fn is_possible() -> bool {
        let are_open = |locks: &[fn() -> bool]| locks.iter().all(|is_open| is_open());
        are_open(&super::locks::ARE_OPEN)
            && is_open(SETTINGS.try_lock())
            && is_open(ENGINE.try_lock())
    }

    /// Ensures that vor waits for no lock on this thread when destructors of its thread-locals run.
    pub(in super::super) fn abandon() {
        allocations::stay_internal();
        thread::abandon_state();
    }
}
