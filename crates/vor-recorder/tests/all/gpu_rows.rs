//! Rows of GPUs in frames, from a test library in place of the driver's. Its cards are known, and
//! functions fail on demand.
#![cfg(all(feature = "cuda", target_os = "linux", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::gpu_support::frames::{
    Driver, Frames, Rows, begin, debug_lines, has_driver, has_poller, library, with_driver,
};
use vor_fixtures::process::{role, run_to_success as run, vor_lines};
use vor_fixtures::{skip, test_name};
use vor_recorder::drain;
use vor_recorder::setup::Config;

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
fn a_card_has_all_its_rows() {
    let test = test_name!();
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
        // The unit of the counters is 1024 * 1024 bytes.
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
    assert_eq!(last.gpu_names(), names, "only the rows of this card");
    assert_eq!(last.units["gpu_energy"], "J");
    let driver = Driver::new();
    assert!(driver.samples() <= 2, "samples are freed");
    let [fast, slow, turns] = ["UtilizationRates", "Temperature", "PcieThroughput"]
        .map(|name| driver.calls(&format!("nvmlDeviceGet{name}")));
    // On a busy machine, waking up takes so long that polls are less frequent.
    let seconds = began.elapsed().as_secs_f64();
    assert!(
        fast as f64 <= seconds * 10.0 + 1.0 && slow as f64 <= seconds + 1.0,
        "{fast} {slow} in {seconds} s"
    );
    assert!(slow < fast && turns <= fast, "{fast} {slow} {turns}");
    // Where the counters include PCIe, no call waits while the driver watches the bus.
    assert_eq!(turns == 0, part != "without counters", "{turns}");
}

/// Not all cards with counters count PCIe, and some counters stop at times.
#[test]
fn values_without_a_counter_are_queried_or_absent() {
    let test = test_name!();
    if role().is_none() {
        let folder = library();
        let begin = "gpm on;gpm lacks 20;gpm lacks 21";
        let output = run(&mut with_driver(test, "child", folder.path(), begin));
        assert_eq!(vor_lines(&output), Vec::<String>::new());
        return;
    }
    let frames = begin();
    let last = frames.until(|rows| rows.get("pcie").is_some() && rows.get("gpu_sm").is_some());
    assert_eq!(
        (last.get("pcie"), last.get("gpu_sm")),
        (Some(30.72), Some(62.5))
    );
    let driver = Driver::new();
    driver.send("gpm stuck");
    // The card reports that a kernel ran.
    let last = frames.until(|rows| rows.get("gpu_sm").is_none());
    let counters = ["gpu_sm", "gpu_sm_occupancy", "gpu_tensor", "gpu_dram"];
    assert_eq!(counters.map(|name| last.get(name)), [None; 4]);
    assert_eq!(
        (last.get("pcie"), last.get("gpu_util")),
        (Some(30.72), Some(10.0))
    );
    driver.send("gpm on");
    frames.until(|rows| rows.get("gpu_sm") == Some(62.5));
}

/// The last values of the counters are not repeated while they fail.
#[test]
fn counters_that_fail_are_absent_until_they_recover() {
    let test = test_name!();
    if role().is_none() {
        let folder = library();
        let lines = vor_lines(&run(&mut with_driver(
            test,
            "child",
            folder.path(),
            "gpm on",
        )));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("could not answer"), "{lines:?}");
        return;
    }
    let frames = begin();
    let counted =
        |rows: &Rows| rows.get("pcie") == Some(786.432) && rows.get("gpu_sm") == Some(62.5);
    frames.until(counted);
    let driver = Driver::new();
    driver.send("error nvmlGpmSampleGet 999");
    let rows = ["gpu_sm", "gpu_dram", "gpu_pcie_tx", "gpu_pcie_rx", "pcie"];
    let last = frames.until(|found| rows.iter().all(|name| found.get(name).is_none()));
    assert_eq!(last.get("gpu_temp"), Some(40.0));
    driver.send("error nvmlGpmSampleGet 0");
    frames.until(counted);
}

#[test]
fn the_energy_of_frames_equals_the_counter() {
    if role().is_none() {
        let folder = library();
        run(&mut with_driver(test_name!(), "child", folder.path(), ""));
        return;
    }
    let frames = begin();
    frames.until(|rows| rows.get("gpu_energy").is_some());
    let from = frames.0.lock().unwrap().len();
    for frame in 0..60_u64 {
        // Shorter and longer than the time between two polls.
        std::thread::sleep(Duration::from_millis(if frame % 20 == 19 {
            250
        } else {
            10
        }));
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
    // The counter grows by 100 J a second. Where the machine stalled, rows are missing, and so are
    // their seconds.
    assert!(
        seconds > 0.1 && (joules / seconds - 100.0).abs() < 25.0,
        "{joules} J in {seconds} s"
    );
}

#[test]
fn cards_are_the_ones_visible_to_cuda() {
    let test = test_name!();
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
    // The names of 0.2.1 belong to the first card.
    assert_eq!(last.get("gpu_util"), Some(10.0 + cards[0]));
    assert_eq!(last.get(&format!("gpu{}_util", cards.len())), None);
}

/// Runs the child of `test` with a driver in the folder `place`, and expects no row and one event
/// with the reason.
fn assert_no_rows(test: &str, place: &Path, begin: &str, list: Option<&str>, reason: &str) {
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

#[test]
fn without_a_card_there_are_no_rows_and_one_event_gives_the_reason() {
    let test = test_name!();
    if role().is_none() {
        let folder = library();
        let nowhere = tempfile::tempdir().unwrap();
        if has_driver() {
            skip("GPU rows without a driver", "a machine without one");
        } else {
            assert_no_rows(test, nowhere.path(), "", None, "libnvidia-ml.so.1");
        }
        let no_library = tempfile::tempdir().unwrap();
        std::fs::write(no_library.path().join("libnvidia-ml.so.1"), "no library").unwrap();
        for (place, begin, list, reason) in [
            (no_library.path(), "", None, "libnvidia-ml.so.1"),
            (folder.path(), "error nvmlInit_v2 9", None, "driver"),
            (folder.path(), "error nvmlInit_v2 4", None, "permission"),
            (
                folder.path(),
                "error nvmlDeviceGetCount_v2 999",
                None,
                "cannot be counted",
            ),
            (folder.path(), "gpus 0", None, "the driver finds no GPU"),
            (
                folder.path(),
                "",
                Some("-1"),
                "none of 1 GPUs is visible with CUDA_VISIBLE_DEVICES `-1`",
            ),
        ] {
            assert_no_rows(test, place, begin, list, reason);
        }
        return;
    }
    #[cfg(feature = "tracing")]
    crate::debug_events::each(|text| println!("\nDEBUG vor {text}"));
    let frames = begin();
    // The poller has started and ended.
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

#[test]
fn missing_functions_of_a_card_are_absent_and_not_queried_again() {
    let test = test_name!();
    // Each function, and the rows that depend on it.
    let functions = [
        ("nvmlDeviceGetUtilizationRates", vec!["gpu_util"]),
        ("nvmlDeviceGetPowerUsage", vec!["gpu_power"]),
        (
            "nvmlDeviceGetMemoryInfo_v2",
            vec!["gpu_mem", "gpu_mem_total"],
        ),
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
        (
            "nvmlDeviceGetComputeRunningProcesses_v3",
            vec!["gpu_mem_own"],
        ),
        (
            "nvmlDeviceGetPcieThroughput",
            vec!["gpu_pcie_tx", "gpu_pcie_rx", "pcie"],
        ),
    ];
    // Every second function is missing each time.
    let expected = |lacking: usize, is_lacking: bool| {
        let of = move |(number, (_, rows)): (usize, &(&str, Vec<&'static str>))| {
            let rows = rows.clone();
            if (number % 2 == lacking) == is_lacking {
                rows
            } else {
                Vec::new()
            }
        };
        functions
            .iter()
            .enumerate()
            .flat_map(of)
            .collect::<Vec<_>>()
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
            let output = run(&mut with_driver(
                test,
                &part,
                folder.path(),
                &begin.join(";"),
            ));
            assert_eq!(vor_lines(&output), Vec::<String>::new());
            if cfg!(feature = "tracing") {
                let (_, events) = debug_lines(&output);
                let told = events[0].split_once(": these rows are absent: ").unwrap();
                assert!(
                    told.0.contains("GPU-00000000-") && events.len() == 1,
                    "{events:?}"
                );
                let mut told: BTreeSet<&str> =
                    told.1.split([',', '(', ')']).map(str::trim).collect();
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
                let expected: BTreeSet<&str> = expected(lacking, true)
                    .into_iter()
                    .chain(counters)
                    .collect();
                assert_eq!(told, expected);
            }
        }
        return;
    };
    #[cfg(feature = "tracing")]
    crate::debug_events::each(|text| println!("\nDEBUG vor {text}"));
    let lacking: usize = part.parse().unwrap();
    let frames = begin();
    let driver = Driver::new();
    // Long enough for every query of once a second to be repeated.
    let last = frames.until(|rows| {
        expected(lacking, false)
            .iter()
            .all(|name| rows.get(name).is_some())
            && driver.calls("nvmlDeviceGetTemperature")
                + driver.calls("nvmlDeviceGetEncoderUtilization")
                >= 3
    });
    for name in expected(lacking, true) {
        assert_eq!(last.get(name), None, "{name}");
    }
    for (_, (function, rows)) in functions
        .iter()
        .enumerate()
        .filter(|(number, _)| number % 2 == lacking)
    {
        // The two directions of PCIe are two queries.
        let most = if rows.contains(&"pcie") { 2 } else { 1 };
        assert!((1..=most).contains(&driver.calls(function)), "{function}");
    }
}

/// An old driver's library does not export later functions.
#[test]
fn functions_missing_from_an_old_driver_are_absent_rows() {
    let test = test_name!();
    if role().is_none() {
        let folder = library();
        let path = folder.path().join("libnvidia-ml.so.1");
        let mut bytes = std::fs::read(&path).unwrap();
        for function in [
            b"nvmlDeviceGetMemoryInfo_v2\0".as_slice(),
            b"nvmlGpmQueryDeviceSupport\0",
        ] {
            // The function gets another name, so that a lookup does not find it.
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
                "gpu_sm, gpu_sm_occupancy, gpu_tensor, gpu_dram, gpu_nvlink_tx, gpu_nvlink_rx \
                (function symbol failed to load",
                "nvmlGpmQueryDeviceSupport",
            ] {
                assert!(events[0].contains(told), "{told}: {events:?}");
            }
        }
        return;
    }
    #[cfg(feature = "tracing")]
    crate::debug_events::each(|text| println!("\nDEBUG vor {text}"));
    let frames = begin();
    let driver = Driver::new();
    let last = frames
        .until(|rows| rows.get("pcie").is_some() && driver.calls("nvmlDeviceGetTemperature") >= 3);
    let absent = ["gpu_mem", "gpu_mem_total", "gpu_sm", "gpu_dram"];
    assert!(
        absent.iter().all(|name| last.get(name).is_none()),
        "{last:?}"
    );
    assert_eq!(
        (last.get("gpu_util"), last.get("gpu_mem_own")),
        (Some(10.0), Some(300.0))
    );
}

#[test]
fn rows_reach_a_capture_and_its_readers() {
    if role().is_some() {
        let path = std::env::var_os("VOR_TEST_CAPTURE").unwrap();
        let frames = Frames::default();
        vor_recorder::metrics::record_metric_unit("loss", "");
        Config::new()
            .capture(path)
            .sink("frames", frames.clone())
            .enable();
        vor_recorder::metrics::record_metric("loss", 0.5);
        frames.0.lock().unwrap().push(Rows::default());
        let begin = Instant::now();
        // The rows of the program and of the cards are declared as they first appear.
        while frames
            .0
            .lock()
            .unwrap()
            .last()
            .unwrap()
            .get("pcie")
            .is_none()
        {
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
    let mut command = with_driver(test_name!(), "child", folder.path(), "");
    let _: Output = run(command.env("VOR_TEST_CAPTURE", &path));
    let mut reader = vor_capture::reader::Reader::open(&path).unwrap();
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
        let at = columns
            .iter()
            .position(|column| column.name == name)
            .unwrap();
        assert_eq!(columns[at].unit, unit);
        assert!(
            (last.system[at] - value).abs() < 1e-9,
            "{name}: {}",
            last.system[at]
        );
    }
}
