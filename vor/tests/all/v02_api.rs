//! Programs written for vor 0.2.1: every public name, with its old signature and behaviour.
//!
//! Names that do not exist yet are missing here too: the panel under `viz`, `BrowserSink`, and the
//! GPU fields of `SystemSample`. The changelog lists the intended differences.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::robust_support::{child, read, role, run, vor_lines};
use vor_fixtures::{own_process, test_name};

/// The old signatures, as types: this fails to compile when the API changes.
#[test]
fn functions_have_their_old_signatures() {
    own_process!();
    let _: [fn(); 4] = [
        vor::enable,
        vor::frame_mark,
        vor::flush_recording,
        vor::calibrate,
    ];
    let _: fn(&str, f64) = vor::record_metric;
    let _: fn(&str, &str) = vor::record_metric_unit;
    let _: fn(u64, u64) = vor::record_io;
    let _: fn() -> vor::IoTick = vor::drain_io;
    let _: fn(&str) -> vor::ScopeGuard = vor::scope;
    let _: fn() -> u64 = vor::empty_span_ns;
    let _: fn() -> Option<u64> = vor::current_memory_bytes;
}

#[test]
fn io_is_read_and_zeroed() {
    own_process!();
    fn is_copy<T: Copy>(_: &T) {}
    // No frame is running, so these are exactly the numbers recorded here.
    vor::record_io(5, 6);
    vor::record_io(7, 8);
    let io = vor::drain_io();
    is_copy(&io);
    let vor::IoTick { elapsed_ns, bytes } = io;
    assert_eq!((elapsed_ns, bytes), (12_u64, 14_u64));
    let again = vor::drain_io();
    assert_eq!((again.elapsed_ns, again.bytes), (0, 0));
}

#[test]
fn frame_stats_answer_as_before() {
    own_process!();
    let mut stats: vor::FrameStats = vor::FrameStats::new();
    let empty: (u64, u64, f64) = (stats.count(), stats.p50_ns(), stats.mean_ns());
    assert_eq!(empty, (0, 0, 0.0));
    for ms in 1..=100 {
        stats.record_ns(ms * 1_000_000);
    }
    assert_eq!(stats.count(), 100);
    for (found, expected) in [
        (stats.p50_ns(), 50e6),
        (stats.p95_ns(), 95e6),
        (stats.p99_ns(), 99e6),
    ] {
        // The numbers have three significant digits.
        assert!(
            (found as f64 / expected - 1.0).abs() < 1e-3,
            "{found} for {expected}"
        );
    }
    assert!((stats.mean_ns() / 50.5e6 - 1.0).abs() < 1e-3);
    stats.clear();
    assert_eq!((stats.count(), stats.p99_ns()), (0, 0));
}

/// The fields that 0.2.1 had on every platform, with their types. No public function of 0.2.1
/// returned a sample.
fn system_fields(sample: vor::SystemSample) -> (u64, f64, u64, u64) {
    let copy = sample;
    (sample.frame_ns, sample.memory_mb, copy.io_ns, copy.io_bytes)
}

#[test]
fn a_system_sample_has_the_old_fields() {
    own_process!();
    let one = vor_recorder::os::system::ProcessSampler::new().sample();
    let (frame_ns, memory_mb, io_ns, io_bytes) =
        system_fields(vor::SystemSample::between(&one, &one, 1_000_000));
    assert_eq!((frame_ns, io_ns, io_bytes), (1_000_000, 0, 0));
    assert_eq!(memory_mb.is_nan(), one.memory_bytes.is_none());
}

#[test]
fn current_memory_is_reported() {
    own_process!();
    let bytes = vor::current_memory_bytes();
    assert_eq!(
        bytes.is_some(),
        cfg!(any(target_os = "linux", target_os = "macos"))
    );
    assert!(bytes.is_none_or(|bytes| bytes > 100_000));
}

#[test]
fn plain_structs_are_made_and_taken_apart() {
    let vor::MetricColumn { name, unit } = vor::MetricColumn {
        name: "loss".to_owned(),
        unit: String::new(),
    };
    assert_eq!((name.as_str(), unit.as_str()), ("loss", ""));
    let vor::Frame {
        system,
        user,
        flame,
    } = vor::Frame {
        system: vec![1.0],
        user: vec![(name, 2.0)],
        flame: None::<Vec<u8>>,
    };
    assert_eq!((system.len(), user.len(), flame), (1, 1, None));
    let _ = vor::ChromeTraceSink {
        path: PathBuf::from("trace.json"),
    };
}

#[test]
fn a_custom_sink_flushes_when_its_guard_is_dropped() {
    own_process!();
    static FLUSHED: AtomicU32 = AtomicU32::new(0);
    struct Flushes;
    impl Drop for Flushes {
        fn drop(&mut self) {
            FLUSHED.fetch_add(1, Ordering::Relaxed);
        }
    }
    struct Mine;
    impl vor::Sink for Mine {
        fn install(self) -> vor::Guard {
            vor::Guard::new(Flushes)
        }
    }
    let guard = vor::Sink::install(Mine);
    assert_eq!(FLUSHED.load(Ordering::Relaxed), 0);
    drop(guard);
    assert_eq!(FLUSHED.load(Ordering::Relaxed), 1);
}

struct Renderer(u32);

trait Draws {
    fn draw(&mut self) -> u32;
}

#[vor::all_functions]
impl Renderer {
    fn sort(&mut self) {
        self.0 += 1;
    }

    #[vor::skip]
    fn unmeasured(&self) -> u32 {
        self.0
    }

    const fn constant() -> u32 {
        7
    }
}

#[vor::all_functions]
impl Draws for Renderer {
    fn draw(&mut self) -> u32 {
        self.unmeasured() + Self::constant()
    }
}

impl Renderer {
    #[vor::profile]
    fn method(&self) -> u32 {
        self.0
    }
}

#[vor::skip]
fn skipped_elsewhere() -> u32 {
    1
}

#[vor::profile]
const fn constant_function() -> u32 {
    2
}

#[vor::profile]
fn free() -> u32 {
    vor::profile_scope!("first block");
    vor::profile_scope!("second block");
    let ad_hoc: vor::ScopeGuard = vor::scope("ad hoc");
    drop(ad_hoc);
    skipped_elsewhere() + constant_function()
}

/// A program for 0.2.1; its settings come from the environment.
fn program() {
    vor::enable();
    vor::record_metric_unit("speed", "m/s");
    let mut renderer = Renderer(0);
    for step in 0..6 {
        assert_eq!(free(), 3);
        renderer.sort();
        assert_eq!(renderer.draw(), renderer.method() + 7);
        vor::record_metric("speed", 1.0);
        vor::record_metric("speed", f64::from(step));
        if step == 2 {
            vor::record_metric("once", -1.5);
        }
        vor::record_io(2_000_000, 3_000_000);
        vor::frame_mark();
    }
    vor::flush_recording();
}

/// Runs the program with variables. Returns the path of its capture, in a folder that lives as long
/// as the first value.
fn recorded(test: &str, variables: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let mut command = child(test, "program", folder.path());
    command
        .env("VOR_RECORD", &path)
        .envs(variables.iter().copied());
    let output = run(&mut command);
    assert!(output.status.success(), "{output:?}");
    let lines = vor_lines(&output);
    let is_metrics_only = !variables
        .iter()
        .any(|(name, _)| *name == "VOR_RECORD_FLAME");
    assert_eq!(lines.len(), usize::from(is_metrics_only), "{lines:?}");
    assert!(
        lines
            .iter()
            .all(|line| line.contains("set VOR_RECORD_SPANS=1")),
        "{lines:?}"
    );
    (folder, path)
}

/// Constant, like the function of 0.2.1.
const fn has_flames<R: Read>(reader: &vor::Reader<R>) -> bool {
    reader.flame_enabled()
}

/// Reads with the old interface. Returns the names and units of the columns, whether there are
/// flames, and the frames.
fn frames(path: &std::path::Path) -> (Vec<String>, bool, Vec<vor::Frame>) {
    let mut reader: vor::Reader<BufReader<File>> = vor::Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push(frame);
    }
    let columns: &[vor::MetricColumn] = reader.columns();
    let user: &[vor::MetricColumn] = reader.user_columns();
    let named = columns.iter().chain(user);
    let named = named.map(|column| format!("{} [{}]", column.name, column.unit));
    (named.collect(), has_flames(&reader), frames)
}

#[test]
fn a_metrics_only_run_reads_back() {
    let test = test_name!();
    if role().is_some() {
        return program();
    }
    let (_folder, path) = recorded(test, &[]);
    let (columns, has_flames, frames) = frames(&path);
    assert_eq!(
        columns[..4],
        [
            "frame_ms [ms]",
            "memory_mb [MB]",
            "io_ms [ms]",
            "io_MB [MB]"
        ]
    );
    assert_eq!(columns[columns.len() - 2..], ["speed [m/s]", "once []"]);
    assert!(!has_flames);
    assert_eq!(frames.len(), 6);
    for (step, frame) in frames.iter().enumerate() {
        assert!(frame.system[0] > 0.0);
        assert!(frame.system[1] > 0.1 || vor::current_memory_bytes().is_none());
        assert_eq!(frame.system[2..4], [2.0, 3.0]);
        let mut expected = vec![("speed".to_owned(), step as f64)];
        if step == 2 {
            expected.insert(0, ("once".to_owned(), -1.5));
        }
        assert_eq!(frame.user, expected, "the last write of a frame wins");
        assert_eq!(frame.flame, None);
    }
    // Any source of bytes gives the same.
    let bytes = std::fs::read(&path).unwrap();
    let mut reader = vor::Reader::new(&bytes[..]).unwrap();
    assert!(reader.next_frame().unwrap().is_some());
    assert!(vor::Reader::open(path.with_extension("missing")).is_err());
}

#[cfg(feature = "puffin")]
#[test]
fn variables_choose_the_frames_with_flames() {
    let test = test_name!();
    if role().is_some() {
        return program();
    }
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [usize]);
    let cases: [Case<'_>; 6] = [
        (&[("VOR_RECORD_FLAME", "1")], &[0, 1, 2, 3, 4, 5]),
        (&[("VOR_RECORD_FLAME", "0")], &[]),
        (
            &[("VOR_RECORD_FLAME", "1"), ("VOR_RECORD_EVERY", "2")],
            &[0, 2, 4],
        ),
        (
            &[("VOR_RECORD_FLAME", "1"), ("VOR_RECORD_MAX_FRAMES", "2")],
            &[0, 1],
        ),
        (
            &[("VOR_RECORD_FLAME", "1"), ("VOR_RECORD_MAX_FRAMES", "0")],
            &[],
        ),
        // The largest values that 0.2.1 accepted.
        (
            &[
                ("VOR_RECORD_FLAME", "1"),
                ("VOR_RECORD_EVERY", "18446744073709551615"),
                ("VOR_RECORD_MAX_FRAMES", "18446744073709551615"),
            ],
            &[0],
        ),
    ];
    for (variables, expected) in cases {
        let (_folder, path) = recorded(test, variables);
        let (_, has_flames, frames) = frames(&path);
        assert_eq!(frames.len(), 6, "metrics continue: {variables:?}");
        assert_eq!(has_flames, variables[0].1 == "1");
        let with_flames: Vec<_> = (0..6).filter(|i| frames[*i].flame.is_some()).collect();
        assert_eq!(with_flames, expected, "{variables:?}");
        for i in with_flames {
            let flame = frames[i].flame.as_deref().unwrap();
            let data = puffin::FrameData::read_next(&mut &flame[..])
                .unwrap()
                .unwrap();
            // A frame has seven scopes.
            assert_eq!(data.meta().num_scopes, 7, "{variables:?}");
        }
    }
}

#[test]
fn scopes_have_their_old_names() {
    let test = test_name!();
    if role().is_some() {
        return program();
    }
    let (_folder, path) = recorded(test, &[("VOR_RECORD_FLAME", "1")]);
    let summary = read(&path);
    let names: Vec<_> = summary.spans.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "<Renderer as Draws>::draw",
            "Renderer::sort",
            "ad hoc",
            "first block",
            "free",
            "method",
            "second block"
        ]
    );
    assert!(summary.spans.values().all(|spans| spans.len() == 6));
}

#[test]
fn a_chrome_trace_is_whole_once_its_guard_is_dropped() {
    let test = test_name!();
    if role().is_some() {
        use vor::{ChromeTraceSink, Sink};
        let guard = ChromeTraceSink {
            path: crate::robust_support::folder().join("trace.json"),
        }
        .install();
        program();
        drop(guard);
        // Scopes after the end of the guard are not in the trace.
        free();
        vor::flush_recording();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, "program", folder.path()));
    assert!(output.status.success(), "{output:?}");
    let trace = std::fs::read(folder.path().join("trace.json")).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_slice(&trace).unwrap();
    let named = |name: &str| {
        let spans = events.iter().filter(|event| event["ph"] == "X");
        spans.filter(|event| event["name"] == name).count()
    };
    assert_eq!((named("free"), named("Renderer::sort")), (6, 6));
}

/// In its own process, because nothing may have been calibrated before.
#[test]
fn calibration_fills_in_the_cost_of_a_scope() {
    let test = test_name!();
    if role().is_some() {
        assert_eq!(vor::empty_span_ns(), 0);
        vor::calibrate();
        assert!(vor::empty_span_ns() > 0);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, "program", folder.path()));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn manifests_that_name_the_old_features_resolve() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .args(["--manifest-path", manifest])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let vor = packages
        .iter()
        .find(|package| package["name"] == "vor")
        .unwrap();
    for feature in ["viz", "mac", "web", "cuda"] {
        assert!(vor["features"][feature].is_array(), "{feature}");
    }
}
