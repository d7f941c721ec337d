//! When GPUs are asked, and what becomes of their rows where the driver fails, hangs or takes
//! processor time, and where cards get lost.
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

/// A driver that waits for its card in a loop takes processor time. No more than a thousandth of a
/// processor is taken, and the rows are there nevertheless.
#[test]
fn what_takes_processor_time_is_asked_more_seldom() {
    let test = test_name!();
    if role().is_none() {
        let folder = library();
        let begin = "spin nvmlDeviceGetPowerUsage 1;spin nvmlDeviceGetPcieThroughput 20";
        let output = run(&mut with_driver(test, "child", folder.path(), begin));
        assert_eq!(vor_lines(&output), Vec::<String>::new());
        if cfg!(feature = "tracing") {
            // What is asked once a second takes long by chance where the machine is busy.
            let (events, _) = debug_lines(&output);
            let seldom = events
                .iter()
                .filter(|event| event.ends_with("not every 100.0ms"));
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
    // Where the machine stalls, rows are missing.
    let frames = frames.0.lock().unwrap();
    let gaps = frames[before..]
        .iter()
        .filter(|rows| rows.get("gpu_power").is_none());
    assert!(gaps.count() * 10 < frames.len() - before);
    // Of 80 polls without a bound: less than one a second. Of the bus: one for each direction, the
    // next after 100 seconds.
    let (fast, turns) = (driver.calls(fast), driver.calls(turns));
    assert!((3..=10).contains(&fast) && turns == 2, "{fast} {turns}");
}

/// A question about PCIe takes the driver 20 ms. None is asked among those that are asked ten times
/// a second, which so are asked as often as without.
#[test]
fn what_takes_long_is_asked_between_polls() {
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
    // The same look finds all of what is asked then, while the thread goes on.
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
fn a_driver_that_fails_is_told_of_once_and_asked_again() {
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
    driver.tell("error nvmlDeviceGetPowerUsage 0");
    driver.tell("error nvmlDeviceGetClockInfo 0");
    frames.until(|rows| {
        rows.get("gpu_power") == Some(100.0) && rows.get("gpu_clock") == Some(1000.0)
    });
}

#[test]
fn a_card_that_is_lost_has_no_rows_until_it_is_back() {
    if role().is_none() {
        let folder = library();
        let test = test_name!();
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
    let last =
        frames.until(|rows| rows.get("gpu1_util").is_some() && rows.get("gpu1_energy").is_some());
    // What was used while nobody looked is no frame's.
    assert!(last.get("gpu1_energy").unwrap() < 60.0, "{last:?}");
}

#[test]
fn a_driver_that_hangs_holds_nobody_up() {
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
    // The counters of Hopper among it, of which a sample costs the card something.
    let calls = || driver.calls("nvmlDeviceGetUtilizationRates") + driver.calls("nvmlGpmSampleGet");
    settle();
    let after = calls();
    settle();
    assert_eq!(calls(), after);
    // A sink that comes later is served again, by the same thread, unless recording is off.
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
    // SAFETY: the child marks frames, as forked children may, and leaves without going back into
    // the test.
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
        // SAFETY: it ends the process.
        unsafe { libc::_exit(if is_right { 0 } else { 3 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is a place for the result.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    frames.until(|rows| rows.get("gpu_util").is_some());
}
