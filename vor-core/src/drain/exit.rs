//! What happens when the program ends without a word: the sinks are finished at a normal exit, and flushed at a panic.
//!
//! A normal exit runs the C library's list. On Windows `std::process::exit` passes that by; see [`alone`].

#![cfg_attr(
    any(unix, windows),
    expect(unsafe_code, reason = "only the C library says when a process exits")
)]

use std::sync::Once;

#[cfg(any(unix, windows))]
use super::{alone, lock_engine, pass, printing, signals};
#[cfg(any(unix, windows))]
use crate::sync::{Ordering, global::AtomicBool};
#[cfg(any(unix, windows))]
use crate::{gpu, switch, thread};

/// Whether the end has been dealt with. Set by who does; nothing hangs on it.
#[cfg(any(unix, windows))]
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

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
    unsafe extern "C" {
        fn atexit(callback: extern "C" fn()) -> core::ffi::c_int;
    }
    extern "C" fn callback() {
        finish_quietly();
    }
    // SAFETY: `atexit` is in every C library, and `callback` is a function without captures that does not unwind.
    unsafe { atexit(callback) };
    #[cfg(windows)]
    alone::watch();
}

#[cfg(not(any(unix, windows)))]
fn at_exit() {}

/// As [`finish`], for callers outside of Rust: a panic must not cross into them, and there is no one left to tell.
#[cfg(any(unix, windows))]
pub(super) fn finish_quietly() {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(finish));
}

/// Takes what is left, finishes every sink, and prints the table of counted scopes where there is one. Of a process's last thread, only those sinks are finished that
/// need no other.
#[cfg(any(unix, windows))]
fn finish() {
    let is_alone = alone::is_last_thread();
    if is_alone && !alone::is_possible() {
        alone::end_without_a_word();
        return;
    }
    if thread::is_busy() || switch::is_forked() || HAS_ENDED.swap(true, Ordering::SeqCst) {
        return;
    }
    thread::while_busy(|| {
        if !is_alone {
            gpu::stop();
        }
        if let Some(engine) = &mut *lock_engine() {
            signals::without_signals(|| {
                if is_alone {
                    engine.outputs.give_up_others();
                }
                engine.keep_ended();
                pass(engine);
                engine.take_heap(true);
                engine.outputs.finish();
            });
        }
        printing::print();
    });
}
