//! Recording allocates nothing once a site, a name and a thread are known.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_fixtures::memory::thread_allocations;
use vor_fixtures::own_process;
#[cfg(all(feature = "cuda", target_os = "linux"))]
use vor_fixtures::{process, test_name};
use vor_recorder::hot::scope::scope;
use vor_recorder::metrics::{Counter, Histogram, record_io, record_metric};
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, profile_phase, profile_scope};

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
    own_process!();
    Config::new().ring_kib(64).enable();
    let measured = std::thread::spawn(|| {
        // All parities and names, so that every site and every cache is filled.
        (0..1000).for_each(record);
        let before = thread_allocations();
        // Many times around the ring, so that full rings and wake-ups of the worker are included.
        (0..100_000).for_each(record);
        let allocated = thread_allocations() - before;
        // The counter works.
        std::hint::black_box(vec![0_u8; 100]);
        (allocated, thread_allocations() - before - allocated)
    });
    assert_eq!(measured.join().unwrap(), (0, 1));
    drain::flush();
}

/// Records that are also sent to a tool take another path.
#[cfg(all(feature = "cuda", target_os = "linux"))]
#[test]
fn this_holds_with_an_nvtx_tool_attached() {
    let folder = tempfile::tempdir().unwrap();
    let tool = vor_fixtures::libraries::build("nvtx_tool.rs", folder.path(), "libtool.so");
    let test = test_name!("recording_allocates_nothing_once_everything_is_known");
    let mut command = process::child(test, "child");
    let output = process::run_to_success(command.env("NVTX_INJECTION64_PATH", tool));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "{output:?}"
    );
}
