//! Records that are kept in memory, and what has them written.

#![cfg(all(unix, feature = "segments", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::robust_support::{Summary, captures, child, folder, read, role, vor_lines};
use vor::{DumpOn, Last};
use vor_capture::model::catalog::DumpInfo;
use vor_capture::reader::Capture;
use vor_fixtures::process::{run, run_to_success};
use vor_fixtures::test_name;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

fn dumps() -> PathBuf {
    folder().join("dumps")
}

fn keep(last: Last, dump_on: DumpOn) {
    vor::Config::new()
        .capture(format!("{}/", dumps().display()))
        .last(last)
        .dump_on(dump_on)
        .enable();
}

/// Returns why a capture was dumped.
fn why(path: &Path) -> Arc<DumpInfo> {
    let capture = Capture::open(path).unwrap();
    capture.catalog().dump.clone().unwrap()
}

/// Returns the dumps in the folder of a child, with their contents.
fn dumped(folder: &Path) -> Vec<(Arc<DumpInfo>, Summary)> {
    captures(&folder.join("dumps"))
        .iter()
        .map(|path| {
            let summary = read(path);
            assert!(summary.closed && summary.damage.is_empty(), "{summary:?}");
            (why(path), summary)
        })
        .collect()
}

fn the_dump(folder: &Path) -> (Arc<DumpInfo>, Summary) {
    let mut all = dumped(folder);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn frames(count: u64) {
    for i in 0..count {
        vor::profile_scope!("frame", i = i);
        for _ in 0..10 {
            vor::profile_scope!("inside");
        }
        vor::record_metric("value", i as f64);
        vor::message!("frame {i}");
        vor::frame_mark();
    }
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether a dump is complete.
fn is_whole(path: &Path) -> bool {
    Capture::open(path).is_ok_and(|capture| capture.info().closed)
}

fn in_child(test: &str, work: impl FnOnce()) -> Option<(tempfile::TempDir, Output)> {
    if role().is_some() {
        work();
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, "run", folder.path()));
    Some((folder, output))
}

#[test]
fn a_dump_holds_what_one_file_holds() {
    let Some((folder, output)) = in_child(test_name!(), || {
        let one = CaptureSink::create(&folder().join("one.vor"), CaptureOptions::default());
        vor::Config::new().sink("one file", one.unwrap()).enable();
        keep(Last::new(), DumpOn::new());
        frames(1_000);
        vor::profile_scope!("open");
        let path = vor::dump("the test asks").unwrap();
        assert_eq!(path.parent(), Some(&*dumps()));
    }) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let (why, dump) = the_dump(folder.path());
    assert_eq!(why.reason, "the test asks");
    assert_eq!((why.number, why.missed), (0, 0));
    let one = read(&folder.path().join("one.vor"));
    for name in ["frame", "inside"] {
        assert_eq!(dump.spans[name], one.spans[name]);
    }
    assert_eq!(dump.count("inside"), 10_000);
    assert_eq!(dump.messages, one.messages);
    assert_eq!(dump.frames.len(), 1_000);
    for ((dumped, spans), (frame, of_one)) in dump.frames.iter().zip(&one.frames) {
        assert_eq!(
            (
                dumped.index,
                dumped.start_ticks,
                dumped.end_ticks,
                dumped.span_count
            ),
            (
                frame.index,
                frame.start_ticks,
                frame.end_ticks,
                frame.span_count
            ),
        );
        assert_eq!(
            format!("{:?}", dumped.metrics),
            format!("{:?}", frame.metrics)
        );
        assert_eq!(spans, of_one);
    }
    assert_eq!(dump.open_at_close, 1);
    #[cfg(feature = "cli")]
    assert_info_says_why(&captures(&folder.path().join("dumps"))[0]);
}

#[cfg(feature = "cli")]
fn assert_info_says_why(path: &Path) {
    let mut info = std::process::Command::new(env!("CARGO_BIN_EXE_vor"));
    let output = run_to_success(info.arg("info").arg(path));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("dumped        at ") && text.contains(": the test asks"),
        "{text}"
    );
}

/// The newest records stay, whatever was recorded before, and the first frame counts what is there.
#[test]
fn only_the_newest_records_are_kept() {
    let Some((folder, output)) = in_child(test_name!(), || {
        keep(
            Last::new().size(vor_recorder::sinks::last::MIN_LAST_BYTES),
            DumpOn::nothing(),
        );
        for _ in 0..40 {
            for _ in 0..50 {
                frames(1);
                for i in 0..1_000_u64 {
                    // A random argument does not compress.
                    vor::profile_scope!("noise", of = i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                }
            }
            vor::flush();
        }
        vor::dump("full").unwrap();
    }) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let (_, dump) = the_dump(folder.path());
    let path = &captures(&folder.path().join("dumps"))[0];
    let bytes = std::fs::metadata(path).unwrap().len();
    assert!((500_000..1_500_000).contains(&bytes), "{bytes} bytes");
    let (first, last) = (dump.frames.first().unwrap(), dump.frames.last().unwrap());
    assert!(first.0.index > 1_000, "from frame {}", first.0.index);
    assert_eq!(last.0.index, 1_999);
    for (frame, spans) in &dump.frames {
        assert_eq!(
            frame.span_count as usize,
            spans.len(),
            "frame {}",
            frame.index
        );
    }
}

#[test]
fn records_older_than_the_limit_are_given_up() {
    let Some((folder, output)) = in_child(test_name!(), || {
        keep(Last::new().age(Duration::from_secs(1)), DumpOn::nothing());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2_500) {
            frames(1);
            std::thread::sleep(Duration::from_millis(5));
        }
        vor::dump("after a while").unwrap();
    }) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let path = &captures(&folder.path().join("dumps"))[0];
    let info = Capture::open(path).unwrap().info();
    let seconds = info.duration_ns as f64 / 1e9;
    // A chunk covers a thirty-second of the time, and the drain has its interval.
    assert!((0.8..1.3).contains(&seconds), "{seconds} s");
}

#[test]
fn a_signal_writes_a_dump_and_the_program_goes_on() {
    let Some((folder, output)) = in_child(test_name!(), || {
        keep(Last::new(), DumpOn::nothing());
        frames(100);
        for count in 1..=2 {
            let kill = std::process::Command::new("kill")
                .args(["-USR2", &std::process::id().to_string()])
                .status();
            assert!(kill.unwrap().success());
            wait_for("dump", || {
                let written = captures(&dumps());
                written.len() == count && written.iter().all(|path| is_whole(path))
            });
        }
    }) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let reasons: Vec<_> = dumped(folder.path())
        .iter()
        .map(|(why, summary)| (why.reason.clone(), why.number, summary.count("inside")))
        .collect();
    let signal = |number| ("SIGUSR2".to_owned(), number, 1_000);
    assert_eq!(reasons, [signal(0), signal(1)]);
    assert_eq!(vor_lines(&output).len(), 2, "{output:?}");
}

#[test]
fn a_signal_during_a_dump_is_served_after_it() {
    let Some((folder, output)) = in_child(test_name!(), || {
        keep(Last::new(), DumpOn::nothing());
        frames(30_000);
        vor::flush();
        let ask = || {
            let id = std::process::id().to_string();
            let kill = std::process::Command::new("kill")
                .args(["-USR2", &id])
                .status();
            assert!(kill.unwrap().success());
        };
        ask();
        wait_for("begin of a dump", || captures(&dumps()).len() == 1);
        ask();
        wait_for("second dump", || {
            let written = captures(&dumps());
            written.len() == 2 && written.iter().all(|path| is_whole(path))
        });
    }) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let numbers: Vec<_> = dumped(folder.path())
        .iter()
        .map(|(why, _)| (why.reason.clone(), why.number, why.missed))
        .collect();
    let signal = |number| ("SIGUSR2".to_owned(), number, 0);
    assert_eq!(numbers, [signal(0), signal(1)]);
}

#[test]
fn a_slow_frame_and_a_slow_scope_are_dumped_once_in_a_while() {
    let Some((folder, output)) = in_child(test_name!(), || {
        let dump_on = DumpOn::nothing()
            .slow_frame(Duration::from_secs(3_600))
            .slow_scope("query", Duration::from_millis(20));
        keep(Last::new(), dump_on);
        frames(10);
        for _ in 0..3 {
            {
                vor::profile_scope!("other");
                std::thread::sleep(Duration::from_millis(40));
            }
            {
                vor::profile_scope!("query");
                std::thread::sleep(Duration::from_millis(30));
            }
            vor::frame_mark();
            vor::flush();
        }
        wait_for("dump", || {
            captures(&dumps()).iter().any(|path| is_whole(path))
        });
        vor::dump("the end").unwrap();
    }) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let all = dumped(folder.path());
    assert_eq!(all.len(), 2, "{output:?}");
    let (first, second) = (&all[0].0, &all[1].0);
    assert!(first.reason.starts_with("`query` took "), "{first:?}");
    assert_eq!((first.number, first.missed), (0, 0));
    assert_eq!((second.number, second.missed), (1, 2), "two came too soon");
}

#[test]
fn a_panic_is_dumped_before_the_process_ends() {
    let Some((folder, output)) = in_child(test_name!(), || {
        keep(Last::new(), DumpOn::new());
        frames(10);
        let _scope = vor::scope("panics");
        // As with `panic = "abort"`: no destructor, no exit.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            hook(info);
            std::process::abort();
        }));
        panic!("on purpose");
    }) else {
        return;
    };
    assert_eq!(output.status.signal(), Some(6), "{output:?}");
    let all = dumped(folder.path());
    let (why, dump) = &all[0];
    assert!(why.reason.starts_with("a panic on thread `"), "{why:?}");
    assert!(why.reason.contains("dumps.rs:"), "{why:?}");
    assert_eq!((dump.count("inside"), dump.open_at_close), (100, 1));
    // The abort is a crash.
    assert_eq!(all[1].0.reason, "a crash: SIGABRT");
    assert_eq!(all.len(), 2);
}

#[test]
fn many_events_within_a_time_are_dumped() {
    let Some((folder, output)) = in_child(test_name!(), || {
        let dump_on = DumpOn::nothing()
            .count("retry", 3, Duration::from_secs(3_600))
            .count("ERROR", 2, Duration::from_millis(1));
        keep(Last::new(), dump_on);
        for name in ["retry", "retrying", "retry", "fine"] {
            drop(vor::scope(name));
            vor::message!("ERROR: one at a time");
            vor::flush();
            std::thread::sleep(Duration::from_millis(2));
        }
        vor::frame_mark();
        vor::flush();
        assert!(captures(&dumps()).is_empty());
        drop(vor::scope("retry"));
        vor::flush();
        wait_for("dump", || {
            captures(&dumps()).iter().any(|path| is_whole(path))
        });
        // Two at once, though too soon after the other dump.
        vor::message!("ERROR: the first");
        vor::message!("ERROR: the second");
        vor::flush();
        vor::dump("the end").unwrap();
    }) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let all = dumped(folder.path());
    let reasons: Vec<&str> = all.iter().map(|(why, _)| &*why.reason).collect();
    assert_eq!(reasons, ["`retry` came 3 times within 3600s", "the end"]);
    assert_eq!(all[1].0.missed, 1);
}

/// Records a little, and ends the process by `end` with a scope open.
fn record_and_end(end: impl FnOnce()) -> ! {
    keep(Last::new(), DumpOn::new().exit(true));
    frames(10);
    vor::profile_scope!("the last one");
    end();
    std::process::exit(3)
}

fn assert_dumped(test: &str, role: &str, reason: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, role, folder.path()));
    assert!(!output.status.success(), "{output:?}");
    let (why, dump) = the_dump(folder.path());
    let found = (&*why.reason, dump.count("inside"), dump.open_at_close);
    assert_eq!(found, (reason, 100, 1), "{role}");
}

#[test]
fn a_crash_and_an_end_are_dumped() {
    match role().as_deref() {
        Some("crash") => record_and_end(|| std::process::abort()),
        Some(_) => record_and_end(|| {}),
        None => {}
    }
    assert_dumped(test_name!(), "crash", "a crash: SIGABRT");
    assert_dumped(test_name!(), "exit", "the end of the program");
}

/// Only the C library of GNU reports the code.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn an_exit_code_other_than_0_is_dumped() {
    if let Some(code) = role() {
        keep(Last::new(), DumpOn::nothing().failure(true));
        frames(10);
        std::process::exit(code.parse().unwrap());
    }
    for code in [0, 1, 255] {
        let folder = tempfile::tempdir().unwrap();
        let role = code.to_string();
        let output = run(&mut child(test_name!(), &role, folder.path()));
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let reasons: Vec<String> = (dumped(folder.path()).iter())
            .map(|(why, _)| why.reason.clone())
            .collect();
        let expected = format!("the end of the program with exit code {code}");
        let expected = (code != 0).then_some(expected);
        assert_eq!(reasons, Vec::from_iter(expected));
    }
}

#[test]
fn a_signal_that_ends_the_program_is_dumped() {
    if role().is_some() {
        record_and_end(|| {
            let id = std::process::id().to_string();
            let _ = std::process::Command::new("kill")
                .args(["-TERM", &id])
                .status();
            std::thread::sleep(Duration::from_secs(60));
        });
    }
    assert_dumped(test_name!(), "signal", "the end of the program");
}

#[test]
fn nothing_is_written_unless_asked_and_bad_settings_are_one_line() {
    if role().is_some() {
        vor::enable();
        frames(10);
        let refused = vor::dump("nothing is kept");
        println!("{refused:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let with = |set: &[(&str, &str)]| {
        let mut child = child(test_name!(), "run", folder.path());
        child.current_dir(folder.path()).envs(set.iter().copied());
        run_to_success(&mut child)
    };
    let path = format!("{}/none/", folder.path().display());
    let output = with(&[
        ("VOR_RECORD", &path),
        ("VOR_RECORD_SPANS", "1"),
        ("VOR_DUMP_ON", "exit"),
    ]);
    let lines = vor_lines(&output);
    assert_eq!(
        lines,
        ["vor: VOR_DUMP_ON: nothing is kept in memory; set VOR_RECORD_LAST, too"]
    );
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        printed.contains("no records are kept in memory; set VOR_RECORD_LAST"),
        "{printed}"
    );

    for (value, name) in [("0.5s", "VOR_RECORD_LAST"), ("frame", "VOR_DUMP_ON")] {
        let mut set = vec![("VOR_RECORD_LAST", "30s,8MB"), ("VOR_DUMP_ON", "nothing")];
        set.retain(|(key, _)| *key != name);
        set.push((name, value));
        let lines = vor_lines(&with(&set));
        let start = format!("vor: {name}: `{value}` is not ");
        assert!(
            lines.iter().any(|line| line.starts_with(&start)),
            "{lines:?}"
        );
    }
    // A file name gets the time and the process.
    let run_vor = folder.path().join("run.vor");
    let set = [
        ("VOR_RECORD", run_vor.to_str().unwrap()),
        ("VOR_RECORD_LAST", "30s"),
    ];
    let output = with(&set);
    assert_eq!(vor_lines(&output), [""; 0]);
    let is_named = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("run-")
    };
    let (written, here): (Vec<_>, Vec<_>) = captures(folder.path()).into_iter().partition(is_named);
    assert_eq!(written.len(), 1, "{written:?}");
    // Without a path, dumps are in the current folder.
    assert_eq!(here.len(), 1, "{here:?}");
    let name = written[0].file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("run-20") && name.ends_with(".vor"),
        "{name}"
    );
    assert_eq!(why(&written[0]).reason, "nothing is kept");
}

/// Two threads record on while dumps are written, and the memory keeps its records. Recorded and
/// dropped spans add up to those that were made.
#[test]
fn threads_record_on_while_a_dump_is_written() {
    let Some((folder, output)) = in_child(test_name!(), || {
        keep(Last::new().size(32_000_000), DumpOn::nothing());
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    let mut made = 0;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        // Where a dump takes long, as under a sanitizer, many would take minutes
                        // to read.
                        for _ in 0..20 {
                            vor::profile_scope!("busy");
                        }
                        made += 20;
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    made
                })
            })
            .collect();
        for number in 0..5 {
            std::thread::sleep(Duration::from_millis(100));
            vor::dump(&format!("number {number}")).unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        let made: u64 = joined.sum();
        vor::dump(&format!("made {made}")).unwrap();
    }) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let all = dumped(folder.path());
    assert_eq!(all.len(), 6);
    let (why, last) = &all[5];
    let made: u64 = why.reason.strip_prefix("made ").unwrap().parse().unwrap();
    assert_eq!(last.count("busy") as u64 + last.dropped_in_batches, made);
    let mut before = Vec::new();
    for (number, (why, dump)) in all[..5].iter().enumerate() {
        assert_eq!(why.reason, format!("number {number}"));
        let mut busy = dump.spans["busy"].clone();
        busy.sort_unstable();
        // Each dump begins with all of the one before it.
        assert!(before.iter().all(|span| busy.binary_search(span).is_ok()));
        assert!(busy.len() > before.len());
        before = busy;
    }
}
