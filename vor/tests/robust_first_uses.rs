//! A thread is inside vor whenever the C library may allocate for vor.
//!
//! glibc allocates past the global allocator when a thread uses a thread-local for the first time.
//! A signal handler that interrupts that, and reads the open scopes, would wait for itself if the
//! thread were not inside vor. This program has its own `malloc`, so it is not for sanitizers.

#![cfg(all(target_os = "linux", target_env = "gnu", not(feature = "off")))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    unsafe_code,
    reason = "the function takes the place of one of the C library"
)]

use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    /// Allocations of a thread that was not inside vor.
    static OUTSIDE: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "C" {
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_malloc(size: usize) -> *mut c_void;
}

/// Counts an allocation of a watched thread that is not inside vor: there, the list is empty.
/// Otherwise it has at least the scope of the main thread.
fn check() {
    if IS_WATCHED.replace(false) {
        let outside = u32::from(!vor::open_scopes().is_empty());
        OUTSIDE.set(OUTSIDE.get() + outside);
        IS_WATCHED.set(true);
    }
}

/// Takes the place of the C library's function.
#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    check();
    // SAFETY: the arguments are the caller's.
    unsafe { __libc_calloc(count, size) }
}

/// Takes the place of the C library's function.
#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    check();
    // SAFETY: the argument is the caller's.
    unsafe { __libc_malloc(size) }
}

/// Returns how often `work` has allocated outside of vor, on a thread of its own.
fn calls_outside(work: fn()) -> u32 {
    let thread = std::thread::spawn(move || {
        IS_WATCHED.set(true);
        work();
        IS_WATCHED.set(false);
        OUTSIDE.get()
    });
    thread.join().unwrap()
}

static COUNTER: vor::Counter = vor::Counter::new("counter", "");

fn generic<T: vor_recorder::hot::args::Arg>(value: T) {
    vor::profile_scope!("of any kind", value = value);
}

fn scope() {
    vor::profile_scope!("first");
}

#[test]
fn a_thread_is_inside_vor_whenever_vor_may_allocate() {
    vor::Config::new().enable();
    // For threads that have no scope of their own.
    vor::profile_scope!("open meanwhile");
    generic(1_u32);
    let operations: [(&str, fn()); 10] = [
        ("scope", scope),
        ("scope by name", || drop(vor::scope("by name"))),
        ("scope with text", || generic("text")),
        ("scope with a number", || generic(1.5)),
        ("phase", || drop(vor::profile_phase!("phase"))),
        ("message", || vor::message!("a message of {} words", 5)),
        ("metric", || vor::record_metric("first", 1.0)),
        ("counter", || COUNTER.add(1)),
        ("task", || drop(vor::async_span("task", 1))),
        ("flow", || vor::flow().end()),
    ];
    for (name, operation) in operations {
        assert_eq!(calls_outside(operation), 0, "{name}");
    }
    // The program's own allocations are found.
    assert!(calls_outside(|| drop(black_box(vec![1_u8; 100]))) > 0);
    thread_local!(static OWN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });
    assert!(calls_outside(|| OWN.with(|own| drop(own.take()))) > 0);
}
