//! `fork`: the child has one thread, no worker, and must not touch its parent's files.
//!
//! Before the fork all locks of the crate are taken, in the order in which they nest, so that none is held by a thread that the child does not have. In
//! the child the engine is forgotten, not dropped, since dropping would write its parent's buffers a second time; the next scope or
//! mark starts a recorder of the child's own ([`super::rearm_if_forked`]).

#[cfg(not(unix))]
pub(super) fn install() {}

#[cfg(unix)]
pub(super) use unix::install;

#[cfg(unix)]
#[expect(unsafe_code, reason = "only the C library says when a process forks")]
mod unix {
    use std::any::Any;
    use std::cell::RefCell;
    use std::sync::{MutexGuard, Once};

    use super::super::engine::{Engine, Mark};
    use super::super::{FRAME_SETS, MARKS, SETTINGS, lock_engine, locked, worker};
    use crate::{callsite, metrics, switch, thread};

    /// All locks, in the order in which they were taken.
    struct Held {
        _settings: Box<dyn Any>,
        engine: MutexGuard<'static, Option<Engine>>,
        marks: MutexGuard<'static, Vec<Mark>>,
        _others: [Box<dyn Any>; 6],
    }

    thread_local! {
        /// The locks, on the thread that forks, for the time of the fork.
        static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
    }

    pub(in super::super) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the three functions have the C signature, do not unwind, and live as long as the program.
            unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        });
    }

    unsafe extern "C" fn before() {
        // A fork from inside vor, by a sink, holds some of these locks already. Its child must not record.
        if thread::is_busy() {
            return;
        }
        thread::while_busy(|| {
            let held = Held {
                _settings: Box::new(locked(&SETTINGS)),
                engine: lock_engine(),
                marks: locked(&MARKS),
                _others: [
                    Box::new(locked(&FRAME_SETS)),
                    Box::new(metrics::lock_for_fork()),
                    Box::new(thread::lock_for_fork()),
                    Box::new(metrics::lock_blocks_for_fork()),
                    Box::new(worker::lock_for_fork()),
                    Box::new(callsite::lock()),
                ],
            };
            // A thread that is ending has no place for them; they are let go, and the child takes its chance.
            let _ = HELD.try_with(|place| place.replace(Some(held)));
        });
    }

    fn take() -> Option<Held> {
        HELD.try_with(|place| place.take()).ok().flatten()
    }

    unsafe extern "C" fn in_parent() {
        drop(take());
    }

    unsafe extern "C" fn in_child() {
        let Some(mut held) = take() else {
            switch::set_off_for_fork();
            return;
        };
        // Its sinks hold the parent's files and unwritten buffers.
        std::mem::forget(held.engine.take());
        std::mem::forget(std::mem::take(&mut *held.marks));
        drop(held);
        worker::forget();
        thread::forget_all();
        thread::forget_current();
        super::super::WAITING.store(0, crate::sync::Ordering::SeqCst);
        // What the parent recorded since its last mark is in the parent's next frame.
        thread::while_busy(metrics::forget);
        switch::set_forked(true);
    }
}
