//! The end of a program that does not finish its sinks itself. The sinks are finished at a normal
//! exit, and flushed at a panic.
//!
//! A normal exit runs the callbacks of the C library. On Windows `std::process::exit` skips them;
//! see [`detach`](crate::os::detach).

#![cfg_attr(
    any(unix, windows),
    expect(unsafe_code, reason = "only the C library reports the exit")
)]

use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

#[cfg(any(unix, windows))]
use vor_capture::sink::FrameSink;

use super::dumps;
#[cfg(any(unix, windows))]
use super::engine::Engine;
#[cfg(unix)]
use super::lock_engine_within;
#[cfg(any(unix, windows))]
use super::{heap, lock_engine, pass, printing, process_detach};
#[cfg(any(unix, windows))]
use crate::hot::shared;
use crate::hot::{record_state, thread};
#[cfg(any(unix, windows))]
use crate::metrics::gpu;
#[cfg(any(unix, windows))]
use crate::os::detach;
#[cfg(unix)]
use crate::os::file;
use crate::os::{report, signals};
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU64};

/// Whether the end has been handled. Set by the thread that handles it, with the engine locked.
#[cfg(any(unix, windows))]
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// How long the end waits in total for readers of pipes.
#[cfg(unix)]
const END_BOUND: Duration = Duration::from_secs(10);

/// Registers for the end of the process and for panics, once.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        at_exit();
        // The hook cannot be changed during a panic. If recording is enabled during one, there is
        // no hook.
        if std::thread::panicking() {
            return;
        }
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            dumps::request(dumps::Cause::Panic, || panic_reason(info));
            flush_at_panic();
            #[cfg(unix)]
            super::crash::note_panic();
            previous(info);
        }));
    });
}

/// Returns why a panic has its records dumped: where it happened.
fn panic_reason(info: &std::panic::PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let on = thread.name().map(|name| format!(" on thread `{name}`"));
    let place = info.location().map(|place| format!(" at {place}"));
    format!(
        "a panic{}{}",
        on.unwrap_or_default(),
        place.unwrap_or_default()
    )
}

/// How long a panic waits for the sinks.
const PANIC_BOUND: Duration = Duration::from_secs(2);

/// Flushes the sinks, or gives up after [`PANIC_BOUND`]. The panicking thread may hold a lock that
/// a sink of the program takes, so the sinks run on a thread of their own. That thread continues
/// once the panic has released the lock.
fn flush_at_panic() {
    if thread::is_busy() || record_state::is_forked() {
        super::flush();
        return;
    }
    let is_flushed = Arc::new(AtomicBool::new(false));
    let (flushed, panicking) = (Arc::clone(&is_flushed), std::thread::current());
    let builder = std::thread::Builder::new().name("vor-panic".into());
    let flush = move || {
        thread::stay_silent();
        super::flush_now();
        flushed.store(true, Ordering::SeqCst);
        panicking.unpark();
    };
    if signals::for_new_thread(|| builder.spawn(flush)).is_err() {
        super::flush();
        return;
    }
    let begun = Instant::now();
    while !is_flushed.load(Ordering::SeqCst) {
        let Some(left) = PANIC_BOUND.checked_sub(begun.elapsed()) else {
            report::line(
                "the records before this panic are not in the outputs yet: a sink does not end",
            );
            return;
        };
        std::thread::park_timeout(left);
    }
}

/// The end of the process, as far as the C library reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    NotYet,
    /// It ends, and its exit code is not known.
    Unreported,
    Code(i32),
}

/// The [`End`]: [`NOT_YET`], [`UNREPORTED`], or [`FIRST_CODE`] and the bits of the code. Written by
/// the thread that ends the process and read by it.
static END: AtomicU64 = AtomicU64::new(NOT_YET);
const NOT_YET: u64 = 0;
#[cfg(all(any(unix, windows), not(all(target_os = "linux", target_env = "gnu"))))]
const UNREPORTED: u64 = 1;
const FIRST_CODE: u64 = 2;

/// Returns how the process ends.
pub(crate) fn end() -> End {
    match END.load(Ordering::Relaxed) {
        NOT_YET => End::NotYet,
        code @ FIRST_CODE.. => End::Code(((code - FIRST_CODE) as u32).cast_signed()),
        _ => End::Unreported,
    }
}

/// Only this C library passes the exit code to its callbacks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn at_exit() {
    use core::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn on_exit(callback: extern "C" fn(c_int, *mut c_void), value: *mut c_void) -> c_int;
    }
    extern "C" fn callback(code: c_int, _: *mut c_void) {
        END.store(
            FIRST_CODE + u64::from(code.cast_unsigned()),
            Ordering::Relaxed,
        );
        finish_quietly();
    }
    // SAFETY: the C library of GNU has `on_exit`, and `callback` is a function without captures
    // that does not unwind and does not use the null pointer.
    unsafe { on_exit(callback, std::ptr::null_mut()) };
}

#[cfg(all(any(unix, windows), not(all(target_os = "linux", target_env = "gnu"))))]
fn at_exit() {
    unsafe extern "C" {
        fn atexit(callback: extern "C" fn()) -> core::ffi::c_int;
    }
    extern "C" fn callback() {
        END.store(UNREPORTED, Ordering::Relaxed);
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

/// Like [`finish`], for callers outside of Rust. A panic must not cross into them, and nothing is
/// left to report it to.
#[cfg(any(unix, windows))]
pub(super) fn finish_quietly() {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(finish));
}

/// Delivers the remaining records, finishes every sink, and prints the table of counted scopes if
/// there is one. The last thread of a process finishes only the sinks that need no other thread.
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

/// Delivers the remaining records to the sinks, and finishes them. Drop them without the engine's
/// lock.
#[cfg(any(unix, windows))]
#[must_use]
fn finish_sinks(engine: &mut Engine) -> Vec<Box<dyn FrameSink>> {
    engine.keep_ended();
    pass(engine);
    engine.take_heap(heap::SnapshotTime::Now);
    engine.end_scheduler();
    engine.outputs.finish();
    shared::end();
    engine.outputs.take_ended()
}

/// Delivers the remaining records, and lets a sink write what it keeps in memory. Runs on a thread
/// of vor's own, for a thread that crashed and may hold the engine.
#[cfg(unix)]
pub(super) fn pass_within(bound: Duration) {
    thread::while_busy(|| {
        if let Some(mut engine) = lock_engine_within(bound) {
            signals::without_signals(|| engine.as_mut().map(pass));
        }
    });
}

/// How long another thread may hold the engine before `finish_files` reports it.
#[cfg(unix)]
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// Delivers the remaining records and finishes the sinks that write files. Runs on a thread of
/// vor's own, for a signal that ends the process. Calls `when_held` if another thread holds the
/// engine for long: the stopped thread, or one that waits for a lock of the stopped thread. Does
/// nothing if the engine is still not available in time.
#[cfg(unix)]
pub(super) fn finish_files(bound: Duration, when_held: impl FnOnce()) {
    file::end_within(bound);
    let end = || {
        let engine = lock_engine_within(LOCK_TIMEOUT).or_else(|| {
            when_held();
            lock_engine_within(bound)
        });
        let Some(mut engine) = engine else {
            return;
        };
        // An exit that was already running has ended them.
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
    // A panic must not prevent the end of the process.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(end));
}
