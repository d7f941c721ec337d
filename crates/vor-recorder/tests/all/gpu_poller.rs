//! The times at which GPUs are polled, and their rows when the driver fails, hangs or uses CPU
//! time, and when cards get lost.
#![cfg(all(feature = "cuda", target_os = "linux", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "a process is forked")]

use std::time::{Duration, Instant};

use crate::gpu_support::frames::{
    Driver, Frames, begin, debug_lines, has_poller, library, with_driver,
};
use vor_fixtures::process::{role, run_to_success as run, vor_lines};
use vor_fixtures::test_name;
use vor_recorder::drain;
use vor_recorder::setup;
use vor_recorder::setup::Config;

/// A driver that spins while it waits for its card uses CPU time. The poller uses at most a
/// thousandth of a processor, and the rows still arrive.
#[test]
fn queries_that_use_cpu_time_are_made_less_often() {
    let test = test_name!();
    if role().is_none() {
        let folder = library();
        let begin = "spin nvmlDeviceGetPowerUsage 1;spin nvmlDeviceGetPcieThroughput 20";
        let output = run(&mut with_driver(test, "child", folder.path(), begin));
        assert_eq!(vor_lines(&output), Vec::<String>::new());
        if cfg!(feature = "tracing") {
            // A poll of once a second may take long by chance on a busy machine, and under a
            // sanitizer all take longer, but not milliseconds.
            let (events, _) = debug_lines(&output);
            let seldom = events.iter().filter(|event| {
                event.contains("ms of CPU time") && event.ends_with("instead of 100.0ms")
            });
            assert_eq!(seldom.count(), 2, "{events:?}");
        }
        return;
    }
    #[cfg(feature = "tracing")]
    crate::debug_events::each(|text| println!("\nDEBUG vor {text}"));
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
    // Rows are missing where the machine stalls.
    let frames = frames.0.lock().unwrap();
    let gaps = frames[before..]
        .iter()
        .filter(|rows| rows.get("gpu_power").is_none());
    assert!(gaps.count() * 10 < frames.len() - before);
    // Less than one poll a second remains of 80 without a bound. The bus is polled once per
    // direction, and the next time after 100 seconds.
    let (fast, turns) = (driver.calls(fast), driver.calls(turns));
    assert!((3..=10).contains(&fast) && turns == 2, "{fast} {turns}");
}

/// The energy counter of an H100 takes 4 ms of CPU time. The other rows arrive as often as without
/// it, and frames have the energy that the power suggests between two readings.
#[test]
fn an_energy_counter_that_uses_cpu_time_delays_no_other_row() {
    let test = test_name!();
    if role().is_none() {
        let folder = library();
        let begin = "spin nvmlDeviceGetTotalEnergyConsumption 4";
        run(&mut with_driver(test, "child", folder.path(), begin));
        return;
    }
    let frames = begin();
    let driver = Driver::new();
    frames.until(|rows| rows.get("gpu_energy").is_some());
    let (begin, before) = (Instant::now(), frames.0.lock().unwrap().len());
    frames.until(|_| begin.elapsed() > Duration::from_secs(8));
    let [power, counter] = [
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
    ];
    let (power, counter) = (driver.calls(power), driver.calls(counter));
    // Here the power is read some 80 times, and under a sanitizer, where a poll takes a
    // millisecond, 6 times. With one account for both, they were read equally often.
    assert!(counter <= 3 && power >= 2 * counter, "{counter} {power}");
    let frames = frames.0.lock().unwrap();
    let joules: f64 = frames[before..]
        .iter()
        .filter_map(|rows| rows.get("gpu_energy"))
        .sum();
    let seconds: f64 = frames[before..].iter().map(|rows| rows.seconds).sum();
    assert!(
        (joules / seconds / 100.0 - 1.0).abs() < 0.05,
        "{joules} J in {seconds} s"
    );
}

/// A query of PCIe takes the driver 20 ms. The poller makes none during the polls that run ten
/// times a second, so these run as often as without it.
#[test]
fn slow_queries_are_made_between_polls() {
    let test = test_name!();
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
    assert_eq!(
        driver.calls_in_fast_polls(2, "nvmlDeviceGetPcieThroughput"),
        0
    );
    // The same method finds all queries of these polls, while the thread goes on.
    let (before, found, after) = (
        driver.calls(fast),
        driver.calls_in_fast_polls(2, fast),
        driver.calls(fast),
    );
    assert!(
        found + 3 >= before && found <= after,
        "{before} {found} {after}"
    );
    // One direction of one card at a time.
    let turns = driver.calls("nvmlDeviceGetPcieThroughput");
    let polls = driver.calls(fast).div_ceil(3);
    assert!((6..=polls).contains(&turns), "{turns} in {polls} polls");
}

#[test]
fn a_driver_that_fails_is_reported_once_and_polled_again() {
    if role().is_none() {
        let folder = library();
        let test = test_name!();
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
    let last = frames.until(|rows| {
        rows.get("gpu_util").is_some() && driver.calls("nvmlDeviceGetPowerUsage") > 3
    });
    assert_eq!((last.get("gpu_power"), last.get("gpu_clock")), (None, None));
    driver.send("error nvmlDeviceGetPowerUsage 0");
    driver.send("error nvmlDeviceGetClockInfo 0");
    frames.until(|rows| {
        rows.get("gpu_power") == Some(100.0) && rows.get("gpu_clock") == Some(1000.0)
    });
}

/// A lost card is searched for every few seconds even if the driver is so slow that polls are rare.
#[test]
fn a_card_that_is_lost_has_no_rows_until_it_is_back() {
    if role().is_none() {
        let folder = library();
        let test = test_name!();
        let lines = vor_lines(&run(&mut with_driver(
            test,
            "child",
            folder.path(),
            "gpus 2;gpm on;spin nvmlDeviceGetPowerUsage 1",
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
    driver.send("lost 1");
    let last = frames.until(|rows| rows.get("gpu1_util").is_none());
    assert!(
        !last.gpu_names().iter().any(|name| name.starts_with("gpu1")),
        "{last:?}"
    );
    assert_eq!(last.get("gpu0_util"), Some(10.0));
    driver.send("found 1");
    let last =
        frames.until(|rows| rows.get("gpu1_util").is_some() && rows.get("gpu1_energy").is_some());
    // The energy used while the card was lost is in no frame.
    assert!(last.get("gpu1_energy").unwrap() < 60.0, "{last:?}");
}

#[test]
fn a_driver_that_hangs_delays_nothing() {
    if role().is_none() {
        let folder = library();
        let lines = vor_lines(&run(&mut with_driver(
            test_name!(),
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
    driver.send("delay nvmlDeviceGetPowerUsage 100000");
    let begin = Instant::now();
    frames.until(|rows| rows.gpu_names().is_empty());
    while begin.elapsed() < Duration::from_secs(7) {
        frames.until(|rows| rows.gpu_names().is_empty());
        std::thread::sleep(Duration::from_millis(50));
    }
    // The process ends even though its thread hangs.
}

#[test]
fn nothing_is_polled_without_a_sink_that_takes_metrics() {
    if role().is_none() {
        let folder = library();
        run(&mut with_driver(
            test_name!(),
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
    // Includes the counters of Hopper, whose samples cost the card some time.
    let calls = || driver.calls("nvmlDeviceGetUtilizationRates") + driver.calls("nvmlGpmSampleGet");
    settle();
    let after = calls();
    settle();
    assert_eq!(calls(), after);
    // The same thread serves a sink that is added later, unless recording is off.
    setup::disable();
    let _handle = drain::add_sink("frames", Frames::default());
    settle();
    assert_eq!(calls(), after);
    setup::enable();
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
        let test = test_name!();
        assert_eq!(
            vor_lines(&run(&mut with_driver(test, "child", folder.path(), ""))),
            Vec::<String>::new()
        );
        return;
    }
    let frames = begin();
    frames.until(|rows| rows.get("gpu_temp").is_some());
    // SAFETY: the child marks frames, as forked children may, and exits without returning to the
    // test.
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
        let is_right = seen.len() >= 10
            && seen.iter().all(|rows| rows.gpu_names().is_empty())
            && !has_poller();
        // SAFETY: the call ends the process.
        unsafe { libc::_exit(if is_right { 0 } else { 3 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for writes.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    frames.until(|rows| rows.get("gpu_util").is_some());
}
