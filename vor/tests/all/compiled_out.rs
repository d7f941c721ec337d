//! With the feature `off`, a program runs as if vor were not there. It gets a message where it
//! requested a file.

#![cfg(all(unix, feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use vor::Sink;
use vor_fixtures::test_name;

use crate::robust_support::{child, folder, role, run, vor_lines};

static STEPS: vor::Counter = vor::Counter::new("steps", "");
static SIZES: vor::Histogram = vor::Histogram::new("sizes", "B");

struct Fails;

impl vor::sinks::FrameSink for Fails {
    fn accept_frame(&mut self, _: &Arc<vor::capture::FrameSnapshot>) -> Result<(), vor::Error> {
        panic!("there are no frames")
    }
}

#[vor::profile(args(n))]
fn measured(n: u64) -> u64 {
    vor::profile_scope!("inside", n = n);
    vor::profile_scope!("shown", @category = "io", @color = 0x12_34_56, n = n, text = "text",);
    vor::profile_function!();
    vor::profile_function!(n = n);
    vor::profile_scope!("one value", n);
    vor::profile_scope_if!(n > 5, "large", n = n);
    vor::profile_function_if!(n > 5);
    vor::profile_function_if!(n > 5, n = n);
    let _custom = vor::profile_scope_custom!("custom");
    drop(vor::profile_scope_custom!("custom", n = n));
    vor::profile_scope!("processor time", cpu);
    vor::profile_scope!("waits", waits);
    vor::profile_scope!("waits", waits, @color = 1, n = n);
    vor::profile_scope!("processor time", cpu, @category = "io", n = n);
    let mut phases = vor::profile_phase!("one");
    vor::profile_phase!(phases, "two");
    vor::message!("at {n}");
    let _named = vor::scope("named");
    STEPS.add(1);
    SIZES.record(n);
    vor::record_metric_unit("n", "");
    vor::record_metric("n", n as f64);
    vor::record_io(n, n);
    let () = phases;
    n
}

/// Calls everything and checks that nothing has an effect.
fn program() {
    let trace = vor::ChromeTraceSink {
        path: folder().join("trace.json"),
    }
    .install();
    vor::Config::new().sink("fails", Fails).stats(true).enable();
    vor::enable();
    let sink = vor::add_sink("fails", Fails);
    for n in 0..10 {
        assert_eq!(measured(n), n);
        vor::frame_mark();
        vor::frame_mark_named("physics");
    }
    vor::flush();
    drop((trace, sink));
    assert!(!vor::is_enabled());
    assert_eq!(vor::drain_io(), vor::IoTick::default());
    assert!(vor::stats().is_empty() && vor::open_scopes().is_empty());
    assert_eq!((vor::capture_path(), vor::close_capture()), (None, None));
    vor::calibrate();
}

#[test]
fn a_program_runs_as_without_vor() {
    let test = test_name!();
    if role().is_some() {
        return program();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let mut command = child(test, "program", folder.path());
    let output = run(command
        .env("VOR_RECORD", &path)
        .env("VOR_RECORD_SPANS", "1"));
    assert!(output.status.success(), "{output:?}");
    let lines = vor_lines(&output);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("trace.json") && lines[0].contains("compiled out"));
    assert!(lines[1].starts_with("vor: VOR_RECORD: ") && lines[1].contains("compiled out"));
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 0, "nothing is written");
}
