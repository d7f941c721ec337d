//! What happens when the program ends without a word: the sinks are finished at a normal exit, and flushed at a panic.

#![cfg_attr(
    any(unix, windows),
    expect(unsafe_code, reason = "only the C library says when a process exits")
)]

use std::sync::Once;

use crate::{switch, thread};

use super::{lock_engine, pass, signals};

/// Registers for the end of the process and for panics, once.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        at_exit();
        // The hook cannot be changed during a panic; whoever enables recording in the course of one goes without.
        if std::thread::panicking() {
            return;
        }
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            super::flush();
            previous(info);
        }));
    });
}

#[cfg(any(unix, windows))]
fn at_exit() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    unsafe extern "C" {
        fn atexit(callback: extern "C" fn()) -> core::ffi::c_int;
    }
    extern "C" fn finish() {
        // A panic must not cross into the C library, and there is no one left to tell.
        let _ = catch_unwind(AssertUnwindSafe(super::exit::finish));
    }
    // SAFETY: `atexit` is in every C library, and `finish` is a function without captures that does not unwind.
    unsafe { atexit(finish) };
}

#[cfg(not(any(unix, windows)))]
fn at_exit() {}

/// Takes what is left and finishes every sink.
pub(super) fn finish() {
    if thread::is_busy() || switch::is_forked() {
        return;
    }
    thread::while_busy(|| {
        if let Some(engine) = &mut *lock_engine() {
            signals::without_signals(|| {
                engine.keep_ended();
                pass(engine);
                engine.outputs.finish();
            });
        }
    });
}
