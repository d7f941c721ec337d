//! The end of a program that does not finish its sinks itself: they are finished at a normal exit,
//! and flushed at a panic.
//!
//! A normal exit runs the C library's list. On Windows `std::process::exit` passes that by; see
//! [`detach`](crate::os::detach).

#![cfg_attr(
    any(unix, windows),
    expect(unsafe_code, reason = "only the C library says when a process exits")
)]

use std::sync::Once;
#[cfg(unix)]
use std::time::Duration;

#[cfg(any(unix, windows))]
use vor_capture::sink::FrameSink;

#[cfg(any(unix, windows))]
use super::engine::Engine;
#[cfg(unix)]
use super::lock_engine_within;
#[cfg(any(unix, windows))]
use super::{heap, lock_engine, pass, printing, process_detach};
#[cfg(any(unix, windows))]
use crate::gpu;
#[cfg(any(unix, windows))]
use crate::hot::{record_state, thread};
#[cfg(unix)]
use crate::os::file;
#[cfg(any(unix, windows))]
use crate::os::{detach, signals};
#[cfg(any(unix, windows))]
use crate::sync::{Ordering, global::AtomicBool};

/// Whether the end has been dealt with. Set by who does, with the engine locked.
#[cfg(any(unix, windows))]
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// How long the end waits in all for readers of pipes.
#[cfg(unix)]
const END_BOUND: Duration = Duration::from_secs(10);

/// Registers for the end of the process and for panics, once.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        at_exit();
        // The hook cannot be changed during a panic; whoever enables recording in the course of one
        // goes without.
        if std::thread::panicking() {
            return;
        }
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            super::flush();
            #[cfg(unix)]
            super::crash::note_panic();
            previous(info);
        }));
    });
}

#[cfg(any(unix, windows))]
fn at_exit() {
    unsafe extern "C" {
        fn atexit(callback: extern "C" fn()) -> core::ffi::c_int;
    }
    extern "C" fn callback() {
        finish_quietly();
    }
    // SAFETY: `atexit` is in every C library, and `callback` is a function without captures that
    // does not unwind.
    unsafe { atexit(callback) };
    #[cfg(windows)]
    detach::watch(finish_quietly);
}

#[cfg(not(any(unix, windows)))]
fn at_exit() {}

/// As [`finish`], for callers outside of Rust: a panic must not cross into them, and nobody
/// is left to report it to.
#[cfg(any(unix, windows))]
pub(super) fn finish_quietly() {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(finish));
}

/// Takes what is left, finishes every sink, and prints the table of counted scopes where there is
/// one. Of a process's last thread, only those sinks are finished that need no other.
#[cfg(any(unix, windows))]
fn finish() {
    let is_alone = detach::is_last_thread();
    if is_alone && !process_detach::is_possible() {
        process_detach::abandon();
        return;
    }
    if thread::is_busy() || record_state::is_forked() || HAS_ENDED.load(Ordering::SeqCst) {
        return;
    }
    #[cfg(unix)]
    file::end_within(END_BOUND);
    thread::while_busy(|| {
        if !is_alone {
            gpu::stop();
        }
        let mut engine = lock_engine();
        if HAS_ENDED.swap(true, Ordering::SeqCst) {
            return;
        }
        signals::without_signals(|| {
            let ended = engine.as_mut().map(|engine| {
                if is_alone {
                    engine.outputs.keep_files_only();
                }
                finish_sinks(engine)
            });
            drop(engine);
            drop(ended);
        });
        printing::print();
    });
}

/// Hands the sinks what is left, and finishes them. They are to be dropped without the engine's
/// lock.
#[cfg(any(unix, windows))]
#[must_use]
fn finish_sinks(engine: &mut Engine) -> Vec<Box<dyn FrameSink>> {
    engine.keep_ended();
    pass(engine);
    engine.take_heap(heap::SnapshotTime::Now);
    engine.outputs.finish();
    engine.outputs.take_ended()
}

/// Takes what is left and finishes the sinks that write files: on a thread of vor's own, for a
/// signal that ends the process. Does without where the engine cannot be had in time.
#[cfg(unix)]
pub(super) fn finish_files(bound: Duration) {
    file::end_within(bound);
    let end = || {
        let Some(mut engine) = lock_engine_within(bound) else {
            return;
        };
        // An exit that was under way has ended them.
        if record_state::is_forked() || HAS_ENDED.swap(true, Ordering::SeqCst) {
            return;
        }
        signals::without_signals(|| {
            let ended = engine.as_mut().map(|engine| {
                engine.outputs.keep_files_only();
                finish_sinks(engine)
            });
            drop(engine);
            drop(ended);
        });
    };
    // A panic must not keep the process from its end.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(end));
}
