//! Recording allocates nothing once a site, a name and a thread are known.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use vor_recorder::hot::scope::scope;
use vor_recorder::metrics::{Counter, Histogram, record_io, record_metric};
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, profile_phase, profile_scope};

thread_local! {
    /// Allocations of this thread.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that is ending is not one of those that are looked at.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNTER: Counter = Counter::new("steps", "");
static HISTOGRAM: Histogram = Histogram::new("sizes", "B");

const NAMES: [&str; 3] = [
    "first name",
    "second name",
    "a third name, made at run time",
];

fn record(n: u64) {
    profile_scope!("plain");
    profile_scope!("numbers", n = n, ratio = 0.5, yes = n.is_multiple_of(2));
    profile_scope!("text", text = NAMES[n as usize % 3], n = n);
    let _named = scope(NAMES[n as usize % 3]);
    let mut phases = profile_phase!("one");
    profile_phase!(phases, "two");
    message!("constant");
    message!("formatted: {n} and {}", NAMES[n as usize % 3]);
    record_metric("metric", n as f64);
    record_io(n, 1);
    COUNTER.add(n);
    HISTOGRAM.record(n % 1000);
}

#[test]
fn recording_allocates_nothing_once_everything_is_known() {
    Config::new().ring_kib(64).enable();
    let measured = std::thread::spawn(|| {
        // Of each parity and name, so that every site and every cache is there.
        (0..1000).for_each(record);
        let before = ALLOCATIONS.get();
        // Many times around the ring, so that full rings and wake-ups of the worker are among it.
        (0..100_000).for_each(record);
        let allocated = ALLOCATIONS.get() - before;
        // The counter does count.
        std::hint::black_box(vec![0_u8; 100]);
        (allocated, ALLOCATIONS.get() - before - allocated)
    });
    assert_eq!(measured.join().unwrap(), (0, 1));
    drain::flush();
}

#[cfg(all(feature = "cuda", target_os = "linux"))]
#[path = "gpu_support/mod.rs"]
mod gpu_support;

/// What is recorded and also told to a tool goes another way.
#[cfg(all(feature = "cuda", target_os = "linux"))]
#[test]
fn this_holds_with_an_nvtx_tool_attached() {
    let folder = tempfile::tempdir().unwrap();
    let tool = gpu_support::build("nvtx_tool.rs", folder.path(), "libtool.so");
    let mut command = gpu_support::child(
        "recording_allocates_nothing_once_everything_is_known",
        "child",
    );
    let output = gpu_support::run(command.env("NVTX_INJECTION64_PATH", tool));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "{output:?}"
    );
}
