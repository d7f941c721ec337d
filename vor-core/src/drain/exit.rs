//! What happens when the program ends without a word: the sinks are finished at a normal exit, and flushed at a panic.

#![cfg_attr(
    any(unix, windows),
    expect(unsafe_code, reason = "only the C library says when a process exits")
)]

use std::sync::Once;

#[cfg(any(unix, windows))]
use super::{lock_engine, pass, printing, signals};
#[cfg(any(unix, windows))]
use crate::{gpu, switch, thread};

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
            #[cfg(unix)]
            super::crash::note_panic();
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

/// Takes what is left, finishes every sink, and prints the table of counted scopes where there is one.
#[cfg(any(unix, windows))]
pub(super) fn finish() {
    if thread::is_busy() || switch::is_forked() {
        return;
    }
    thread::while_busy(|| {
        gpu::stop();
        if let Some(engine) = &mut *lock_engine() {
            signals::without_signals(|| {
                engine.keep_ended();
                pass(engine);
                engine.take_heap(true);
                engine.outputs.finish();
            });
        }
        printing::print();
    });
}
