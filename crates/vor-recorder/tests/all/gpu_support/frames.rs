//! Shared code of the tests of GPU rows: a driver under the test's control, and the GPU rows of
//! frames.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]
#![expect(unsafe_code, reason = "the test controls the library")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vor_capture::Error;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_recorder::drain;
use vor_recorder::setup::Config;

use vor_fixtures::libraries::build;
use vor_fixtures::process::child;

/// The driver's library under its real name.
pub fn library() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    build("fake_nvml.rs", folder.path(), "libnvidia-ml.so.1");
    folder
}

/// Returns a command that runs `test` again, with a driver in the state `begin`.
pub fn with_driver(test: &str, part: &str, folder: &Path, begin: &str) -> Command {
    let mut command = child(test, part);
    command
        .env("LD_LIBRARY_PATH", folder)
        .env("VOR_TEST_NVML", begin);
    command
}

/// Returns whether this machine has NVIDIA's driver where the linker finds it by itself.
pub fn has_driver() -> bool {
    // SAFETY: the initialisation of the driver's library has no requirements.
    unsafe { libloading::Library::new("libnvidia-ml.so.1") }.is_ok()
}

/// The test functions of the driver's library.
pub struct Driver(libloading::Library);

impl Driver {
    pub fn new() -> Self {
        // SAFETY: this is the library that vor has loaded or will load, and its initialisation does
        // nothing.
        Self(unsafe { libloading::Library::new("libnvidia-ml.so.1") }.unwrap())
    }

    pub fn send(&self, command: &str) {
        let command = CString::new(command).unwrap();
        // SAFETY: the library exports the function with this signature.
        unsafe {
            let send = self
                .0
                .get::<unsafe extern "C" fn(*const c_char)>(b"vor_test_nvml\0")
                .unwrap();
            send(command.as_ptr());
        }
    }

    pub fn calls(&self, function: &str) -> u64 {
        let function = CString::new(function).unwrap();
        // SAFETY: as above.
        unsafe {
            let calls = self
                .0
                .get::<unsafe extern "C" fn(*const c_char) -> u64>(b"vor_test_nvml_calls\0")
                .unwrap();
            calls(function.as_ptr())
        }
    }

    /// Returns the number of calls of `function` during fast polls: between the first fast query of
    /// card 0 and the last one of the last card.
    pub fn calls_in_fast_polls(&self, last_card: usize, function: &str) -> u64 {
        type Between = unsafe extern "C" fn(*const c_char, *const c_char, *const c_char) -> u64;
        let names = [
            "nvmlDeviceGetUtilizationRates 0",
            &format!("nvmlDeviceGetClockInfo {last_card}"),
            function,
        ];
        let [first, last, function] = names.map(|name| CString::new(name).unwrap());
        // SAFETY: as above.
        unsafe {
            let between = self
                .0
                .get::<Between>(b"vor_test_nvml_calls_between\0")
                .unwrap();
            between(first.as_ptr(), last.as_ptr(), function.as_ptr())
        }
    }

    pub fn samples(&self) -> u64 {
        // SAFETY: as above.
        unsafe {
            self.0
                .get::<unsafe extern "C" fn() -> u64>(b"vor_test_nvml_samples\0")
                .unwrap()()
        }
    }
}

/// A frame's values by the name of their column, and its seconds.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub values: BTreeMap<String, f64>,
    pub units: BTreeMap<String, String>,
    pub seconds: f64,
}

impl Rows {
    /// Returns the names of GPU rows.
    pub fn gpu_names(&self) -> Vec<&str> {
        let is_gpus = |name: &&str| name.starts_with("gpu") || *name == "pcie";
        self.values
            .keys()
            .map(String::as_str)
            .filter(is_gpus)
            .collect()
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }
}

#[derive(Clone, Default)]
pub struct Frames(pub Arc<Mutex<Vec<Rows>>>);

impl FrameSink for Frames {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        let mut rows = Rows {
            seconds: frame.duration_ns() as f64 / 1e9,
            ..Rows::default()
        };
        assert!(frame.metrics.is_sorted_by_key(|value| value.column));
        let columns = frame
            .catalog
            .columns
            .iter()
            .map(|column| &column.metric.name);
        let different: BTreeSet<_> = columns.clone().collect();
        assert_eq!(
            different.len(),
            columns.len(),
            "no column is declared twice"
        );
        for value in &frame.metrics {
            let column = &frame.catalog.columns[value.column as usize];
            assert_eq!(column.system, column.metric.name != "loss");
            rows.units
                .insert(column.metric.name.clone(), column.metric.unit.clone());
            let known = rows.values.insert(column.metric.name.clone(), value.value);
            assert_eq!(known, None, "{} is repeated", column.metric.name);
        }
        self.0.lock().unwrap().push(rows);
        Ok(())
    }
}

impl Frames {
    /// Marks frames until `wanted` accepts one, and returns it. The poller uses a thousandth of a
    /// CPU, so a machine that needs 6 ms for a poll, as a slow one does under a sanitizer, makes
    /// one in six seconds: a test that waits for ten polls has to wait for minutes there.
    pub fn until(&self, wanted: impl Fn(&Rows) -> bool) -> Rows {
        let begin = Instant::now();
        loop {
            drain::frame_mark();
            drain::flush();
            let last = self.0.lock().unwrap().last().cloned().unwrap();
            if wanted(&last) {
                return last;
            }
            assert!(begin.elapsed() < Duration::from_secs(300), "{last:?}");
            std::thread::sleep(Duration::from_millis(7));
        }
    }
}

/// Returns the debug lines of a child in two parts: the intervals of its polls, whose number
/// depends on how busy the machine is, and all other lines.
pub fn debug_lines(output: &Output) -> (Vec<String>, Vec<String>) {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.starts_with("DEBUG vor"));
    lines
        .map(str::to_owned)
        .partition(|line| line.contains("a poll of the GPUs takes "))
}

pub fn begin() -> Frames {
    let frames = Frames::default();
    Config::new().sink("frames", frames.clone()).enable();
    frames
}

/// Returns whether the poller's thread exists.
pub fn has_poller() -> bool {
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(name).any(|name| name.trim() == "vor-gpu")
}
