//! Rows of GPUs in frames, asked of a driver's library whose cards are known, fail, hang and get lost on demand.
#![cfg(all(feature = "cuda", target_os = "linux", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "the library is told what to do")]

#[cfg(feature = "tracing")]
#[path = "common/debug_events.rs"]
mod debug_events;
mod gpu_support;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpu_support::{build, child, role, run, vor_lines};
use vor_core::config::Config;
use vor_core::frame::FrameSnapshot;
use vor_core::sink::{FrameSink, Interest};
use vor_core::{Error, drain};

/// The driver's library under its name.
fn library() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    build("fake_nvml.rs", folder.path(), "libnvidia-ml.so.1");
    folder
}

/// Makes the command that runs `test` again with a driver that begins as `begin` says.
fn with_driver(test: &str, part: &str, folder: &Path, begin: &str) -> Command {
    let mut command = child(test, part);
    command.env("LD_LIBRARY_PATH", folder).env("VOR_TEST_NVML", begin);
    command
}

/// The driver's library, as its test functions see it.
struct Driver(libloading::Library);

impl Driver {
    fn new() -> Self {
        // SAFETY: it is the library that vor has loaded, or will load, whose beginning does nothing.
        Self(unsafe { libloading::Library::new("libnvidia-ml.so.1") }.unwrap())
    }

    fn tell(&self, command: &str) {
        let command = CString::new(command).unwrap();
        // SAFETY: the library exports it so.
        unsafe {
            let tell = self
                .0
                .get::<unsafe extern "C" fn(*const c_char)>(b"vor_test_nvml\0")
                .unwrap();
            tell(command.as_ptr());
        }
    }

    fn calls(&self, function: &str) -> u64 {
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

    /// Returns how often `function` was called while the driver was asked for what changes quickly: between the first such question of card 0 and the last one of the last card.
    fn calls_in_fast_polls(&self, last_card: usize, function: &str) -> u64 {
        type Between = unsafe extern "C" fn(*const c_char, *const c_char, *const c_char) -> u64;
        let names = [
            "nvmlDeviceGetUtilizationRates 0",
            &format!("nvmlDeviceGetTotalEnergyConsumption {last_card}"),
            function,
        ];
        let [first, last, function] = names.map(|name| CString::new(name).unwrap());
        // SAFETY: as above.
        unsafe {
            let between = self.0.get::<Between>(b"vor_test_nvml_calls_between\0").unwrap();
            between(first.as_ptr(), last.as_ptr(), function.as_ptr())
        }
    }

    fn samples(&self) -> u64 {
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
struct Rows {
    values: BTreeMap<String, f64>,
    units: BTreeMap<String, String>,
    seconds: f64,
}

impl Rows {
    /// Returns the names that are a GPU's.
    fn gpu_names(&self) -> Vec<&str> {
        let is_gpus = |name: &&str| name.starts_with("gpu") || *name == "pcie";
        self.values.keys().map(String::as_str).filter(is_gpus).collect()
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }
}

#[derive(Clone, Default)]
struct Frames(Arc<Mutex<Vec<Rows>>>);

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
        let columns = frame.catalog.columns.iter().map(|column| &column.metric.name);
        let different: BTreeSet<_> = columns.clone().collect();
        assert_eq!(different.len(), columns.len(), "no column is declared twice");
        for value in &frame.metrics {
            let column = &frame.catalog.columns[value.column as usize];
            assert_eq!(column.system, column.metric.name != "loss");
            rows.units
                .insert(column.metric.name.clone(), column.metric.unit.clone());
            let known = rows.values.insert(column.metric.name.clone(), value.value);
            assert_eq!(known, None, "{} stands twice", column.metric.name);
        }
        self.0.lock().unwrap().push(rows);
        Ok(())
    }
}

impl Frames {
    /// Marks frames until one is as `wanted` says, and returns it.
    fn until(&self, wanted: impl Fn(&Rows) -> bool) -> Rows {
        let begin = Instant::now();
        loop {
            drain::frame_mark();
            drain::flush();
            let last = self.0.lock().unwrap().last().cloned().unwrap();
            if wanted(&last) {
                return last;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{last:?}");
            std::thread::sleep(Duration::from_millis(7));
        }
    }
}

/// What a child told to who looks for reasons, in two parts: how often it asks, which on a busy machine is up to that, and everything else.
fn debug_lines(output: &Output) -> (Vec<String>, Vec<String>) {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.starts_with("DEBUG vor"));
    lines
        .map(str::to_owned)
        .partition(|line| line.contains("asking the GPUs takes "))
}

fn begin() -> Frames {
    let frames = Frames::default();
    Config::new().sink("frames", frames.clone()).enable();
    frames
}

const ALL: [(&str, f64, &str); 13] = [
    ("gpu_util", 10.0, "%"),
    ("gpu_power", 100.0, "W"),
    ("gpu_mem", 1000.0, "MB"),
    ("gpu_clock", 1000.0, "MHz"),
    ("gpu_temp", 40.0, "°C"),
    ("gpu_mem_total", 80_000.0, "MB"),
    ("gpu_mem_own", 300.0, "MB"),
    ("gpu_power_limit", 700.0, "W"),
    ("gpu_throttle", 5.0, ""),
    ("gpu_throttle_power", 1.0, ""),
    ("gpu_throttle_thermal", 0.0, ""),
    ("gpu_encoder", 30.0, "%"),
    ("gpu_decoder", 50.0, "%"),
];

#[test]
fn a_card_says_all_that_it_has() {
    let test = "a_card_says_all_that_it_has";
    let Some(part) = role() else {
        let folder = library();
        for (part, begin) in [
            ("without counters", ""),
            ("with counters", "gpm on"),
            ("with counters and NVLink", "gpm on;nvlink on"),
        ] {
            let output = run(&mut with_driver(test, part, folder.path(), begin));
            assert_eq!(vor_lines(&output), Vec::<String>::new());
        }
        return;
    };
    let began = Instant::now();
    let frames = begin();
    let last = frames.until(|rows| {
        let counters = part == "without counters" || rows.get("gpu_sm").is_some();
        rows.get("pcie").is_some() && rows.get("gpu_energy").is_some() && counters
    });
    let mut expected = ALL.to_vec();
    if part == "without counters" {
        // The driver's unit is 1024 bytes.
        expected.extend([
            ("gpu_pcie_tx", 10.24, "MB/s"),
            ("gpu_pcie_rx", 20.48, "MB/s"),
            ("pcie", 30.72, "MB/s"),
        ]);
    } else {
        // That of the counters is 1024 * 1024 bytes.
        expected.extend([
            ("gpu_pcie_tx", 262.144, "MB/s"),
            ("gpu_pcie_rx", 524.288, "MB/s"),
            ("pcie", 786.432, "MB/s"),
        ]);
        expected.extend([
            ("gpu_sm", 62.5, "%"),
            ("gpu_sm_occupancy", 63.5, "%"),
            ("gpu_tensor", 65.5, "%"),
            ("gpu_dram", 70.5, "%"),
        ]);
    }
    if part == "with counters and NVLink" {
        expected.extend([
            ("gpu_nvlink_rx", 3145.728, "MB/s"),
            ("gpu_nvlink_tx", 5242.88, "MB/s"),
        ]);
    }
    for (name, value, unit) in &expected {
        let found = last.get(name).unwrap_or(f64::NAN);
        assert!((found - value).abs() < 1e-9, "{name}: {found}, not {value}");
        assert_eq!(last.units[*name], *unit);
    }
    let mut names: Vec<&str> = expected.iter().map(|(name, _, _)| *name).collect();
    names.push("gpu_energy");
    names.sort_unstable();
    assert_eq!(last.gpu_names(), names, "nothing but what the card has");
    assert_eq!(last.units["gpu_energy"], "J");
    let driver = Driver::new();
    assert!(driver.samples() <= 2, "samples are freed");
    let [fast, slow, turns] = ["UtilizationRates", "Temperature", "PcieThroughput"]
        .map(|name| driver.calls(&format!("nvmlDeviceGet{name}")));
    // Where the machine is busy, waking up takes so long that it is done more seldom.
    let seconds = began.elapsed().as_secs_f64();
    assert!(
        fast as f64 <= seconds * 10.0 + 1.0 && slow as f64 <= seconds + 1.0,
        "{fast} {slow} in {seconds} s"
    );
    assert!(slow < fast && turns <= fast, "{fast} {slow} {turns}");
    // Where PCIe is counted, nobody waits while the driver watches the bus.
    assert_eq!(turns == 0, part != "without counters", "{turns}");
}

/// Not all cards that count count PCIe, and some cards' counters stand still at times.
#[test]
fn what_is_not_counted_is_asked_for_or_absent() {
    let test = "what_is_not_counted_is_asked_for_or_absent";
    if role().is_none() {
        let folder = library();
        let begin = "gpm on;gpm lacks 20;gpm lacks 21";
        let output = run(&mut with_driver(test, "child", folder.path(), begin));
        assert_eq!(vor_lines(&output), Vec::<String>::new());
        return;
    }
    let frames = begin();
    let last = frames.until(|rows| rows.get("pcie").is_some() && rows.get("gpu_sm").is_some());
    assert_eq!((last.get("pcie"), last.get("gpu_sm")), (Some(30.72), Some(62.5)));
    let driver = Driver::new();
    driver.tell("gpm stuck");
    // The card says that a kernel ran.
    let last = frames.until(|rows| rows.get("gpu_sm").is_none());
    let counters = ["gpu_sm", "gpu_sm_occupancy", "gpu_tensor", "gpu_dram"];
    assert_eq!(counters.map(|name| last.get(name)), [None; 4]);
    assert_eq!(
        (last.get("pcie"), last.get("gpu_util")),
        (Some(30.72), Some(10.0))
    );
    driver.tell("gpm on");
    frames.until(|rows| rows.get("gpu_sm") == Some(62.5));
}

/// What the counters said last is not said again while they fail.
#[test]
fn counters_that_fail_are_absent_until_they_do_not() {
    let test = "counters_that_fail_are_absent_until_they_do_not";
    if role().is_none() {
        let folder = library();
        let lines = vor_lines(&run(&mut with_driver(test, "child", folder.path(), "gpm on")));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("could not answer"), "{lines:?}");
        return;
    }
    let frames = begin();
    let counted = |rows: &Rows| rows.get("pcie") == Some(786.432) && rows.get("gpu_sm") == Some(62.5);
    frames.until(counted);
    let driver = Driver::new();
    driver.tell("error nvmlGpmSampleGet 999");
    let rows = ["gpu_sm", "gpu_dram", "gpu_pcie_tx", "gpu_pcie_rx", "pcie"];
    let last = frames.until(|found| rows.iter().all(|name| found.get(name).is_none()));
    assert_eq!(last.get("gpu_temp"), Some(40.0));
    driver.tell("error nvmlGpmSampleGet 0");
    frames.until(counted);
}

/// A driver that waits for its card in a loop takes processor time. No more than a thousandth of a processor is taken, and the rows are there nevertheless.
#[test]
fn what_takes_processor_time_is_asked_more_seldom() {
    let test = "what_takes_processor_time_is_asked_more_seldom";
    if role().is_none() {
        let folder = library();
        let begin = "spin nvmlDeviceGetPowerUsage 1;spin nvmlDeviceGetPcieThroughput 20";
        let output = run(&mut with_driver(test, "child", folder.path(), begin));
        assert_eq!(vor_lines(&output), Vec::<String>::new());
        if cfg!(feature = "tracing") {
            // What is asked once a second takes long by chance where the machine is busy.
            let (events, _) = debug_lines(&output);
            let seldom = events.iter().filter(|event| event.ends_with("not every 100.0ms"));
            assert_eq!(seldom.count(), 2, "{events:?}");
        }
        return;
    }
    #[cfg(feature = "tracing")]
    debug_events::each(|text| println!("\nDEBUG vor {text}"));
    let frames = begin();
    let driver = Driver::new();
    let [fast, turns] = ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetPcieThroughput"];
    frames.until(|rows| rows.get("gpu_power").is_some());
    let begin = Instant::now();
    let before = frames.0.lock().unwrap().len();
    let last = frames.until(|_| begin.elapsed() > Duration::from_secs(8));
    assert_eq!(
        (last.get("gpu_power"), last.get("gpu_util")),
        (Some(100.0), Some(10.0))
    );
    // Where the machine stalls, rows are missing.
    let frames = frames.0.lock().unwrap();
    let gaps = frames[before..]
        .iter()
        .filter(|rows| rows.get("gpu_power").is_none());
    assert!(gaps.count() * 10 < frames.len() - before);
    // Of 80 polls without a bound: less than one a second. Of the bus: one for each direction, the next after 100 seconds.
    let (fast, turns) = (driver.calls(fast), driver.calls(turns));
    assert!((3..=10).contains(&fast) && turns == 2, "{fast} {turns}");
}

/// A question about PCIe takes the driver 20 ms. None is asked among those that are asked ten times a second, which so are asked as often as without.
#[test]
fn what_takes_long_is_asked_between_polls() {
    let test = "what_takes_long_is_asked_between_polls";
    if role().is_none() {
        let folder = library();
        let begin = "gpus 3;note calls;delay nvmlDeviceGetPcieThroughput 20";
        run(&mut with_driver(test, "child", folder.path(), begin));
        return;
    }
    let frames = begin();
    let driver = Driver::new();
    let [fast, slow] = ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetTemperature"];
    frames.until(|rows| rows.get("gpu2_pcie").is_some() && driver.calls(slow) >= 6);
    assert_eq!(driver.calls_in_fast_polls(2, "nvmlDeviceGetPcieThroughput"), 0);
    // The same look finds all of what is asked then, while the thread goes on.
    let (before, found, after) = (
        driver.calls(fast),
        driver.calls_in_fast_polls(2, fast),
        driver.calls(fast),
    );
    assert!(found + 3 >= before && found <= after, "{before} {found} {after}");
    // One direction of one card at a time.
    let turns = driver.calls("nvmlDeviceGetPcieThroughput");
    let polls = driver.calls(fast).div_ceil(3);
    assert!((6..=polls).contains(&turns), "{turns} in {polls} polls");
}

#[test]
fn the_energy_of_frames_is_what_the_counter_says() {
    if role().is_none() {
        let folder = library();
        run(&mut with_driver(
            "the_energy_of_frames_is_what_the_counter_says",
            "child",
            folder.path(),
            "",
        ));
        return;
    }
    let frames = begin();
    frames.until(|rows| rows.get("gpu_energy").is_some());
    let from = frames.0.lock().unwrap().len();
    for frame in 0..60_u64 {
        // Shorter and longer than the time between two readings.
        std::thread::sleep(Duration::from_millis(if frame % 20 == 19 { 250 } else { 10 }));
        drain::frame_mark();
        drain::flush();
    }
    let frames = frames.0.lock().unwrap();
    let (mut joules, mut seconds) = (0.0, 0.0);
    for rows in &frames[from..] {
        let Some(energy) = rows.get("gpu_energy") else {
            continue;
        };
        assert!(energy >= 0.0);
        joules += energy;
        seconds += rows.seconds;
    }
    // The counter grows by 100 J a second; where the machine stalled, rows are missing and so are their seconds.
    assert!(
        seconds > 0.1 && (joules / seconds - 100.0).abs() < 25.0,
        "{joules} J in {seconds} s"
    );
}

#[test]
fn cards_are_those_that_cuda_sees() {
    let test = "cards_are_those_that_cuda_sees";
    let Some(part) = role() else {
        let folder = library();
        for (list, begin, part) in [
            (Some("5,GPU-00000002"), "gpus 8", "5 2"),
            (Some("3"), "gpus 8", "3"),
            (None, "gpus 8", "0 1 2 3 4 5 6 7"),
        ] {
            let mut command = with_driver(test, part, folder.path(), begin);
            command.envs(list.map(|list| ("CUDA_VISIBLE_DEVICES", list)));
            assert_eq!(vor_lines(&run(&mut command)), Vec::<String>::new());
        }
        return;
    };
    let cards: Vec<f64> = part.split(' ').map(|card| card.parse().unwrap()).collect();
    let name = |number: usize, row: &str| match cards.len() {
        1 => format!("gpu_{row}"),
        _ => format!("gpu{number}_{row}"),
    };
    let last_row = name(cards.len() - 1, "pcie_rx");
    let frames = begin();
    let last = frames.until(|rows| rows.get(&last_row).is_some());
    for (number, card) in cards.iter().enumerate() {
        for (row, value) in [
            ("util", 10.0),
            ("temp", 40.0),
            ("mem_own", 300.0),
            ("encoder", 30.0),
        ] {
            assert_eq!(
                last.get(&name(number, row)),
                Some(value + card),
                "{number}: {row}"
            );
        }
    }
    // The names of 0.2.1 are the first card's.
    assert_eq!(last.get("gpu_util"), Some(10.0 + cards[0]));
    assert_eq!(last.get(&format!("gpu{}_util", cards.len())), None);
}

#[test]
fn without_a_card_there_are_no_rows_and_one_event_says_why() {
    let test = "without_a_card_there_are_no_rows_and_one_event_says_why";
    if role().is_none() {
        let folder = library();
        let nowhere = tempfile::tempdir().unwrap();
        for (place, begin, list, reason) in [
            (nowhere.path(), "", None, "libnvidia-ml.so.1"),
            (folder.path(), "error nvmlInit_v2 9", None, "driver"),
            (folder.path(), "error nvmlInit_v2 4", None, "permission"),
            (
                folder.path(),
                "error nvmlDeviceGetCount_v2 999",
                None,
                "cannot be counted",
            ),
            (folder.path(), "gpus 0", None, "0 are there and none is visible"),
            (
                folder.path(),
                "",
                Some("-1"),
                "1 are there and none is visible with CUDA_VISIBLE_DEVICES `-1`",
            ),
        ] {
            let mut command = with_driver(test, "child", place, begin);
            let output = run(command.envs(list.map(|list| ("CUDA_VISIBLE_DEVICES", list))));
            assert_eq!(vor_lines(&output), Vec::<String>::new());
            if cfg!(feature = "tracing") {
                let (_, events) = debug_lines(&output);
                assert_eq!(events.len(), 1, "{output:?}");
                assert!(
                    events[0].contains("there are no GPU rows: ") && events[0].contains(reason),
                    "{events:?}"
                );
            }
        }
        return;
    }
    #[cfg(feature = "tracing")]
    debug_events::each(|text| println!("\nDEBUG vor {text}"));
    let frames = begin();
    // The thread that asks has come and gone.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(500) {
        frames.until(|_| true);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!has_poller());
    assert!(
        frames
            .0
            .lock()
            .unwrap()
            .iter()
            .all(|rows| rows.gpu_names().is_empty())
    );
}

/// Whether the thread that asks is there.
fn has_poller() -> bool {
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(name).any(|name| name.trim() == "vor-gpu")
}

#[test]
fn what_a_card_lacks_is_absent_and_not_asked_again() {
    let test = "what_a_card_lacks_is_absent_and_not_asked_again";
    // Each function, the rows that hang on it, and a row of the same pace that is asked later.
    let functions = [
        ("nvmlDeviceGetUtilizationRates", vec!["gpu_util"]),
        ("nvmlDeviceGetPowerUsage", vec!["gpu_power"]),
        ("nvmlDeviceGetMemoryInfo_v2", vec!["gpu_mem", "gpu_mem_total"]),
        ("nvmlDeviceGetClockInfo", vec!["gpu_clock"]),
        ("nvmlDeviceGetTotalEnergyConsumption", vec!["gpu_energy"]),
        ("nvmlDeviceGetTemperature", vec!["gpu_temp"]),
        ("nvmlDeviceGetEnforcedPowerLimit", vec!["gpu_power_limit"]),
        (
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            vec!["gpu_throttle", "gpu_throttle_power", "gpu_throttle_thermal"],
        ),
        ("nvmlDeviceGetEncoderUtilization", vec!["gpu_encoder"]),
        ("nvmlDeviceGetDecoderUtilization", vec!["gpu_decoder"]),
        ("nvmlDeviceGetComputeRunningProcesses_v3", vec!["gpu_mem_own"]),
        (
            "nvmlDeviceGetPcieThroughput",
            vec!["gpu_pcie_tx", "gpu_pcie_rx", "pcie"],
        ),
    ];
    // Every second one each time.
    let expected = |lacking: usize, is_lacking: bool| {
        let of = move |(number, (_, rows)): (usize, &(&str, Vec<&'static str>))| {
            let rows = rows.clone();
            if (number % 2 == lacking) == is_lacking {
                rows
            } else {
                Vec::new()
            }
        };
        functions.iter().enumerate().flat_map(of).collect::<Vec<_>>()
    };
    let Some(part) = role() else {
        let folder = library();
        for (lacking, code, why) in [
            (
                0,
                3,
                "the requested operation is not available on the target device",
            ),
            (1, 13, "a function couldn't be found in a shared library"),
        ] {
            let functions = functions.iter().skip(lacking).step_by(2);
            let begin: Vec<String> = functions
                .map(|(function, _)| format!("error {function} {code}"))
                .collect();
            let part = lacking.to_string();
            let output = run(&mut with_driver(test, &part, folder.path(), &begin.join(";")));
            assert_eq!(vor_lines(&output), Vec::<String>::new());
            if cfg!(feature = "tracing") {
                let (_, events) = debug_lines(&output);
                let told = events[0].split_once(": these rows are absent: ").unwrap();
                assert!(
                    told.0.contains("GPU-00000000-") && events.len() == 1,
                    "{events:?}"
                );
                let mut told: BTreeSet<&str> = told.1.split([',', '(', ')']).map(str::trim).collect();
                let reasons = [
                    why,
                    "the requested operation is not available on the target device",
                    "",
                ];
                assert!(told.contains(why), "{events:?}");
                told.retain(|told| !reasons.contains(told));
                let counters = [
                    "gpu_sm",
                    "gpu_sm_occupancy",
                    "gpu_tensor",
                    "gpu_dram",
                    "gpu_nvlink_tx",
                    "gpu_nvlink_rx",
                ];
                let expected: BTreeSet<&str> = expected(lacking, true).into_iter().chain(counters).collect();
                assert_eq!(told, expected);
            }
        }
        return;
    };
    #[cfg(feature = "tracing")]
    debug_events::each(|text| println!("\nDEBUG vor {text}"));
    let lacking: usize = part.parse().unwrap();
    let frames = begin();
    let driver = Driver::new();
    // Long enough for whatever is asked once a second to be asked again.
    let last = frames.until(|rows| {
        expected(lacking, false)
            .iter()
            .all(|name| rows.get(name).is_some())
            && driver.calls("nvmlDeviceGetTemperature") + driver.calls("nvmlDeviceGetEncoderUtilization") >= 3
    });
    for name in expected(lacking, true) {
        assert_eq!(last.get(name), None, "{name}");
    }
    for (_, (function, rows)) in functions
        .iter()
        .enumerate()
        .filter(|(number, _)| number % 2 == lacking)
    {
        // The two directions of PCIe are two questions.
        let most = if rows.contains(&"pcie") { 2 } else { 1 };
        assert!((1..=most).contains(&driver.calls(function)), "{function}");
    }
}

/// An old driver's library does not export what came later.
#[test]
fn functions_that_an_old_driver_does_not_have_are_absent_rows() {
    let test = "functions_that_an_old_driver_does_not_have_are_absent_rows";
    if role().is_none() {
        let folder = library();
        let path = folder.path().join("libnvidia-ml.so.1");
        let mut bytes = std::fs::read(&path).unwrap();
        for function in [
            b"nvmlDeviceGetMemoryInfo_v2\0".as_slice(),
            b"nvmlGpmQueryDeviceSupport\0",
        ] {
            // Under another name, so that whoever looks for it does not find it.
            let places: Vec<usize> = (0..bytes.len() - function.len())
                .filter(|at| bytes[*at..].starts_with(function))
                .collect();
            assert!(!places.is_empty());
            places.into_iter().for_each(|at| bytes[at] = b'x');
        }
        std::fs::write(&path, bytes).unwrap();
        let output = run(&mut with_driver(test, "child", folder.path(), "gpm on"));
        assert_eq!(vor_lines(&output), Vec::<String>::new());
        if cfg!(feature = "tracing") {
            let (_, events) = debug_lines(&output);
            assert_eq!(events.len(), 1, "{events:?}");
            for told in [
                "rows are absent: gpu_mem, gpu_mem_total (function symbol failed to load",
                "nvmlDeviceGetMemoryInfo_v2",
                "gpu_sm, gpu_sm_occupancy, gpu_tensor, gpu_dram, gpu_nvlink_tx, gpu_nvlink_rx (function symbol failed to load",
                "nvmlGpmQueryDeviceSupport",
            ] {
                assert!(events[0].contains(told), "{told}: {events:?}");
            }
        }
        return;
    }
    #[cfg(feature = "tracing")]
    debug_events::each(|text| println!("\nDEBUG vor {text}"));
    let frames = begin();
    let driver = Driver::new();
    let last =
        frames.until(|rows| rows.get("pcie").is_some() && driver.calls("nvmlDeviceGetTemperature") >= 3);
    let absent = ["gpu_mem", "gpu_mem_total", "gpu_sm", "gpu_dram"];
    assert!(absent.iter().all(|name| last.get(name).is_none()), "{last:?}");
    assert_eq!(
        (last.get("gpu_util"), last.get("gpu_mem_own")),
        (Some(10.0), Some(300.0))
    );
}

#[test]
fn a_driver_that_fails_is_told_of_once_and_asked_again() {
    if role().is_none() {
        let folder = library();
        let test = "a_driver_that_fails_is_told_of_once_and_asked_again";
        let begin = "error nvmlDeviceGetPowerUsage 999;error nvmlDeviceGetClockInfo 21";
        let lines = vor_lines(&run(&mut with_driver(test, "child", folder.path(), begin)));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].contains("GPU-00000000-") && lines[0].contains("could not answer"),
            "{lines:?}"
        );
        return;
    }
    let frames = begin();
    let driver = Driver::new();
    let last =
        frames.until(|rows| rows.get("gpu_util").is_some() && driver.calls("nvmlDeviceGetPowerUsage") > 3);
    assert_eq!((last.get("gpu_power"), last.get("gpu_clock")), (None, None));
    driver.tell("error nvmlDeviceGetPowerUsage 0");
    driver.tell("error nvmlDeviceGetClockInfo 0");
    frames.until(|rows| rows.get("gpu_power") == Some(100.0) && rows.get("gpu_clock") == Some(1000.0));
}

#[test]
fn a_card_that_is_lost_has_no_rows_until_it_is_back() {
    if role().is_none() {
        let folder = library();
        let test = "a_card_that_is_lost_has_no_rows_until_it_is_back";
        let lines = vor_lines(&run(&mut with_driver(
            test,
            "child",
            folder.path(),
            "gpus 2;gpm on",
        )));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].contains("GPU-00000001-") && lines[0].contains("is lost"),
            "{lines:?}"
        );
        return;
    }
    let frames = begin();
    let driver = Driver::new();
    frames.until(|rows| rows.get("gpu1_temp").is_some() && rows.get("gpu1_pcie").is_some());
    driver.tell("lost 1");
    let last = frames.until(|rows| rows.get("gpu1_util").is_none());
    assert!(
        !last.gpu_names().iter().any(|name| name.starts_with("gpu1")),
        "{last:?}"
    );
    assert_eq!(last.get("gpu0_util"), Some(10.0));
    driver.tell("found 1");
    let last = frames.until(|rows| rows.get("gpu1_util").is_some() && rows.get("gpu1_energy").is_some());
    // What was used while nobody looked is no frame's.
    assert!(last.get("gpu1_energy").unwrap() < 60.0, "{last:?}");
}

#[test]
fn a_driver_that_hangs_holds_nobody_up() {
    if role().is_none() {
        let folder = library();
        let lines = vor_lines(&run(&mut with_driver(
            "a_driver_that_hangs_holds_nobody_up",
            "child",
            folder.path(),
            "",
        )));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("within 5 s"), "{lines:?}");
        return;
    }
    let frames = begin();
    let driver = Driver::new();
    frames.until(|rows| rows.get("gpu_util").is_some());
    driver.tell("delay nvmlDeviceGetPowerUsage 100000");
    let begin = Instant::now();
    frames.until(|rows| rows.gpu_names().is_empty());
    while begin.elapsed() < Duration::from_secs(7) {
        frames.until(|rows| rows.gpu_names().is_empty());
        std::thread::sleep(Duration::from_millis(50));
    }
    // And the process ends while its thread hangs.
}

#[test]
fn nothing_is_asked_while_nobody_reads_metrics() {
    if role().is_none() {
        let folder = library();
        run(&mut with_driver(
            "nothing_is_asked_while_nobody_reads_metrics",
            "child",
            folder.path(),
            "gpm on",
        ));
        return;
    }
    let settle = || {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(300) {
            drain::frame_mark();
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    Config::new().enable();
    settle();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!has_poller() && !maps.contains("libnvidia-ml"));
    let frames = Frames::default();
    let handle = drain::add_sink("frames", frames.clone());
    frames.until(|rows| rows.get("gpu_util").is_some() && rows.get("gpu_sm").is_some());
    assert!(has_poller());
    drop(handle);
    let driver = Driver::new();
    // The counters of Hopper among it, of which a sample costs the card something.
    let calls = || driver.calls("nvmlDeviceGetUtilizationRates") + driver.calls("nvmlGpmSampleGet");
    settle();
    let after = calls();
    settle();
    assert_eq!(calls(), after);
    // A sink that comes later is served again, by the same thread, unless recording is off.
    drain::disable();
    let _handle = drain::add_sink("frames", Frames::default());
    settle();
    assert_eq!(calls(), after);
    drain::enable();
    let begin = Instant::now();
    while calls() == after {
        settle();
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn a_forked_child_has_no_rows_and_its_parent_keeps_them() {
    if role().is_none() {
        let folder = library();
        let test = "a_forked_child_has_no_rows_and_its_parent_keeps_them";
        assert_eq!(
            vor_lines(&run(&mut with_driver(test, "child", folder.path(), ""))),
            Vec::<String>::new()
        );
        return;
    }
    let frames = begin();
    frames.until(|rows| rows.get("gpu_temp").is_some());
    // SAFETY: the child marks frames, as forked children may, and leaves without going back into the test.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let frames = Frames::default();
        Config::new().sink("frames", frames.clone()).enable();
        for _ in 0..20 {
            drain::frame_mark();
            drain::flush();
            std::thread::sleep(Duration::from_millis(10));
        }
        let seen = frames.0.lock().unwrap();
        let is_right =
            seen.len() >= 10 && seen.iter().all(|rows| rows.gpu_names().is_empty()) && !has_poller();
        // SAFETY: it ends the process.
        unsafe { libc::_exit(if is_right { 0 } else { 3 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is a place for the result.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    frames.until(|rows| rows.get("gpu_util").is_some());
}

#[test]
fn rows_reach_a_capture_and_its_readers() {
    if role().is_some() {
        let path = std::env::var_os("VOR_TEST_CAPTURE").unwrap();
        let frames = Frames::default();
        vor_core::metrics::record_metric_unit("loss", "");
        Config::new()
            .capture(path)
            .sink("frames", frames.clone())
            .enable();
        vor_core::metrics::record_metric("loss", 0.5);
        frames.0.lock().unwrap().push(Rows::default());
        let begin = Instant::now();
        // The program's own rows and the cards' are declared as they come.
        while frames.0.lock().unwrap().last().unwrap().get("pcie").is_none() {
            drain::frame_mark();
            drain::flush();
            std::thread::sleep(Duration::from_millis(5));
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
        drain::close_capture();
        return;
    }
    let folder = library();
    let path = folder.path().join("run.vor");
    let mut command = with_driver("rows_reach_a_capture_and_its_readers", "child", folder.path(), "");
    let _: Output = run(command.env("VOR_TEST_CAPTURE", &path));
    let mut reader = vor_core::reader::Reader::open(&path).unwrap();
    let (mut last, mut losses) = (None, 0);
    while let Some(frame) = reader.next_frame().unwrap() {
        losses += frame
            .user
            .iter()
            .filter(|(name, value)| name == "loss" && *value == 0.5)
            .count();
        last = Some(frame);
    }
    assert_eq!(losses, 1);
    let (last, columns) = (last.unwrap(), reader.columns());
    assert_eq!(reader.user_columns().len(), 1);
    for (name, value, unit) in ALL.into_iter().chain([("pcie", 30.72, "MB/s")]) {
        let at = columns.iter().position(|column| column.name == name).unwrap();
        assert_eq!(columns[at].unit, unit);
        assert!(
            (last.system[at] - value).abs() < 1e-9,
            "{name}: {}",
            last.system[at]
        );
    }
}
