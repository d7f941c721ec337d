//! Hooks that higher layers register, so that the path of a span does not import them.

use std::sync::OnceLock;

/// The functions of the drain.
#[derive(Debug)]
pub(crate) struct Drain {
    /// Wakes the worker from its long sleep. With `true`, wakes it from the sleep between two
    /// passes as well.
    pub(crate) wake: fn(bool),
    /// Starts the recorder in the child of a fork.
    pub(crate) rearm_if_forked: fn(),
}

/// Registered when the recorder starts. No thread records before that.
static DRAIN: OnceLock<Drain> = OnceLock::new();

/// Registered by the sink that maps a file for each thread. Read when a thread first records.
#[cfg(not(target_arch = "wasm32"))]
static THREAD_BEGINS: OnceLock<fn(u64)> = OnceLock::new();

/// Registers the drain; only the first call has an effect.
pub(crate) fn set_drain(drain: Drain) {
    DRAIN.get_or_init(|| drain);
}

/// Registers a function that each thread calls before it records for the first time, with its OS
/// thread id. Only the first call has an effect.
#[cfg(all(feature = "export", not(target_arch = "wasm32")))]
pub(crate) fn set_thread_begins(begins: fn(u64)) {
    THREAD_BEGINS.get_or_init(|| begins);
}

pub(super) fn wake(urgent: bool) {
    if let Some(drain) = DRAIN.get() {
        (drain.wake)(urgent);
    }
}

pub(super) fn rearm_if_forked() {
    if let Some(drain) = DRAIN.get() {
        (drain.rearm_if_forked)();
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn thread_begins(os_id: u64) {
    if let Some(begins) = THREAD_BEGINS.get() {
        begins(os_id);
    }
}
