//! Bad environments, two processes with one path, and processes that end without a flush.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Output;

use crate::robust_support::{captures, child, folder, read, role, run, vor_lines};
use vor_fixtures::test_name;

/// The work of most children: some frames with some spans, under the settings of the environment.
fn work(frames: u32, spans: u32) {
    vor::enable();
    for _ in 0..frames {
        for _ in 0..spans {
            vor::profile_scope!("work");
        }
        vor::frame_mark();
    }
}

/// Runs `test` again with variables set. Checks that the program itself runs as usual.
fn run_with(test: &str, folder: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = child(test, "child", folder);
    let output = run(command.envs(variables.iter().copied()));
    assert!(output.status.success(), "the program runs on: {output:?}");
    output
}

#[test]
fn a_path_that_cannot_be_written_is_one_line() {
    let test = test_name!();
    if role().is_some() {
        work(10, 10);
        vor::flush();
        println!("done {}", vor::is_enabled());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    let in_file = file.join("run.vor");
    // A folder holds segments, but this is a file.
    let as_folder = file.join("");
    let missing = folder.path().join("missing/run.vor");
    let paths = [
        (as_folder.to_str().unwrap(), "cannot write"),
        (missing.to_str().unwrap(), "No such file"),
        (in_file.to_str().unwrap(), "Not a directory"),
        ("/proc/version", ""),
        ("/dev/full", "No space left"),
        ("", "the path is empty"),
        ("tcp://localhost:1", "address"),
    ];
    for (path, reason) in paths {
        let output = run_with(
            test,
            folder.path(),
            &[("VOR_RECORD", path), ("VOR_RECORD_FLAME", "1")],
        );
        let lines = vor_lines(&output);
        assert_eq!(lines.len(), 1, "{path}: {lines:?}");
        assert!(
            lines[0].starts_with("vor: VOR_RECORD: "),
            "{path}: {lines:?}"
        );
        assert!(
            lines[0].contains(path) && lines[0].contains(reason),
            "{path}: {lines:?}"
        );
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("done true"),
            "{path}"
        );
        assert!(
            !String::from_utf8_lossy(&output.stderr).contains("panicked"),
            "{path}"
        );
    }
}

#[test]
fn bad_values_are_one_line_each_and_ignored() {
    let test = test_name!();
    if role().is_some() {
        work(3, 10);
        // Neither the second call nor switching off and on reads the environment again.
        vor::enable();
        vor::disable();
        vor::enable();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let numbers = [
        "",
        "x",
        "-1",
        "nan",
        "inf",
        "1e400",
        "1.5x",
        "two\nlines",
        "0x10",
    ];
    let mut cases = Vec::new();
    for name in [
        "VOR_RING_KIB",
        "VOR_RECORD_EVERY",
        "VOR_RECORD_MAX_FRAMES",
        "VOR_RECORD_SLOW_FRAMES_MS",
        "VOR_RECORD_FRAMES_BEFORE",
    ] {
        cases.extend(numbers.map(|value| (name, value)));
    }
    cases.extend([
        ("VOR_RING_KIB", "3"),
        ("VOR_RING_KIB", "99999999999"),
        ("VOR_RECORD_EVERY", "0"),
        ("VOR_RECORD_EVERY", "2.5"),
        ("VOR_RECORD_FRAMES_BEFORE", "1001"),
        ("VOR_RECORD_FLAME", "yes"),
        ("VOR_RECORD_SPANS", "yes"),
    ]);
    for (i, (name, value)) in cases.into_iter().enumerate() {
        let path = folder.path().join(format!("run{i}.vor"));
        let output = run_with(
            test,
            folder.path(),
            &[
                ("VOR_RECORD", path.to_str().unwrap()),
                ("VOR_RECORD_FLAME", "0"),
                (name, value),
            ],
        );
        let lines = vor_lines(&output);
        assert_eq!(lines.len(), 1, "{name}={value:?}: {lines:?}");
        assert!(
            lines[0].starts_with(&format!("vor: {name}: ")) && lines[0].contains(" is not "),
            "{name}={value:?}: {lines:?}"
        );
        assert_eq!(read(&path).frames.len(), 3, "{name}={value:?}");
    }
}

#[test]
fn variables_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let test = test_name!();
    if role().is_some() {
        return work(3, 10);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder
        .path()
        .join(std::ffi::OsStr::from_bytes(b"run \xff\n.vor"));
    let no_text = std::ffi::OsStr::from_bytes(b"\xfe\xff");
    let mut command = child(test, "child", folder.path());
    let output = run(command
        .env("VOR_RECORD", &path)
        .env("VOR_RECORD_FLAME", no_text)
        .env("VOR_RECORD_EVERY", no_text));
    assert!(output.status.success(), "{output:?}");
    let lines = vor_lines(&output);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("vor: VOR_RECORD_EVERY: `"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("vor: VOR_RECORD_FLAME: `"),
        "{lines:?}"
    );
    assert_eq!(read(&path).frames.len(), 3);
}

#[test]
fn a_file_size_limit_ends_the_capture_and_not_the_program() {
    let test = test_name!();
    if let Some(role) = role() {
        limit_file_size(20_000);
        if role == "inline" {
            vor::Config::from_env().inline_drain(true).enable();
        }
        work(2_000, 50);
        vor::flush();
        println!("still here, {} failed", vor::failed_sinks());
        return;
    }
    for role in ["worker", "inline"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        let mut command = child(test, role, folder.path());
        let output = run(command
            .env("VOR_RECORD", &path)
            .env("VOR_RECORD_FLAME", "1"));
        assert_eq!(
            output.status.signal(),
            None,
            "{role}: the signal of the limit must not kill the program"
        );
        assert!(output.status.success(), "{role}: {output:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("still here, 1 failed"),
            "{role}: {output:?}"
        );
        let lines = vor_lines(&output);
        assert_eq!(lines.len(), 1, "{role}: {lines:?}");
        assert!(
            lines[0].contains("VOR_RECORD") && lines[0].contains("File too large"),
            "{role}: {lines:?}"
        );
        let summary = read(&path);
        assert!(
            summary.count("work") > 0 && !summary.closed,
            "{role}: what fitted can be read"
        );
        assert!(summary.damage.len() <= 1, "{role}: {:?}", summary.damage);
    }
}

/// The worker blocks all signals, but a flush and the end of a sink write on the program's own
/// thread.
#[test]
fn a_file_size_limit_ends_a_chrome_trace_and_not_the_program() {
    let test = test_name!();
    if let Some(role) = role() {
        use vor::Sink;
        let path = folder().join("trace.json");
        if role == "inline" {
            vor::Config::new().inline_drain(true).enable();
        }
        let trace = vor::ChromeTraceSink { path }.install();
        limit_file_size(20_000);
        for _ in 0..20 {
            work(1, 500);
            vor::flush();
        }
        drop(trace);
        println!("still here, {} failed", vor::failed_sinks());
        return;
    }
    for role in ["worker", "inline"] {
        let folder = tempfile::tempdir().unwrap();
        let output = run(&mut child(test, role, folder.path()));
        assert_eq!(output.status.signal(), None, "{role}: {output:?}");
        assert!(output.status.success(), "{role}: {output:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("still here, 1 failed"),
            "{role}: {output:?}"
        );
        let lines = vor_lines(&output);
        assert_eq!(lines.len(), 1, "{role}: {lines:?}");
        assert!(
            lines[0].contains("trace.json") && lines[0].contains("File too large"),
            "{role}: {lines:?}"
        );
    }
}

#[expect(unsafe_code, reason = "limits are set by the C library")]
fn limit_file_size(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: the struct is valid and lives across the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
}

#[test]
fn a_closed_stderr_is_no_panic() {
    let test = test_name!();
    if role().is_some() {
        work(3, 3);
        std::process::exit(7);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = child(test, "child", folder.path());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command
        .env("VOR_RECORD", "/dev/full")
        .env("VOR_RECORD_FLAME", "0")
        .env("VOR_RING_KIB", "none")
        .stderr(writer);
    let status = command
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(7));
}

#[test]
fn two_processes_with_one_path_write_two_files() {
    let test = test_name!();
    if role().is_some() {
        work(1, 100);
        vor::flush();
        println!("ready");
        // The parent closes stdin when both processes are ready.
        std::io::read_to_string(std::io::stdin()).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    fs::write(&path, "an earlier capture").unwrap();
    let start = || {
        let mut command = child(test, "child", folder.path());
        command
            .env("VOR_RECORD", &path)
            .env("VOR_RECORD_FLAME", "1");
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let mut process = command
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        wait_for(process.stdout.as_mut().unwrap(), "ready");
        process
    };
    let (first, second) = (start(), start());
    let pid = second.id();
    let outputs = [
        first.wait_with_output().unwrap(),
        second.wait_with_output().unwrap(),
    ];
    assert!(outputs.iter().all(|output| output.status.success()));
    let own = folder.path().join(format!("run.{pid}.vor"));
    let lines = vor_lines(&outputs[1]);
    assert!(
        lines.len() == 1 && lines[0].contains(own.to_str().unwrap()),
        "{lines:?}"
    );
    let kept = vor_lines(&outputs[0]);
    assert!(kept.len() == 1 && kept[0].contains("run.1.vor"), "{kept:?}");
    assert_eq!(
        fs::read(folder.path().join("run.1.vor")).unwrap(),
        b"an earlier capture"
    );
    for path in [path, own] {
        let summary = read(&path);
        assert_eq!(
            (summary.count("work"), summary.closed),
            (100, true),
            "{}",
            path.display()
        );
        assert!(summary.damage.is_empty());
    }
}

fn wait_for(stdout: &mut impl std::io::Read, text: &str) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&seen).contains(text) {
        assert_eq!(
            stdout.read(&mut byte).unwrap(),
            1,
            "{}",
            String::from_utf8_lossy(&seen)
        );
        seen.push(byte[0]);
    }
}

thread_local! {
    /// Opens a scope when its thread ends.
    static AT_THREAD_END: OpensScope = const { OpensScope };
}

struct OpensScope;

impl Drop for OpensScope {
    fn drop(&mut self) {
        vor::profile_scope!("in a destructor");
        vor::profile_scope!("and inside it");
    }
}

fn panic_inside_a_scope() {
    vor::profile_scope!("panics");
    panic!("on purpose");
}

/// Ends in the way that `how` names, without a flush.
fn end(how: &str) {
    work(10, 100);
    match how {
        "return" => {}
        "exit" => {
            vor::profile_scope!("open at exit");
            std::process::exit(3);
        }
        "caught" => assert!(std::panic::catch_unwind(panic_inside_a_scope).is_err()),
        "uncaught" => panic_inside_a_scope(),
        "thread" => assert!(std::thread::spawn(panic_inside_a_scope).join().is_err()),
        "abort" => {
            // A panic while panicking aborts; spans that ended before the first one are in the
            // file.
            struct Again;
            impl Drop for Again {
                fn drop(&mut self) {
                    panic!("again");
                }
            }
            let _again = Again;
            panic_inside_a_scope();
        }
        // Both orders of the destructors: before and after the one of vor.
        "destructor" => {
            std::thread::spawn(|| {
                AT_THREAD_END.with(|_| {});
                vor::profile_scope!("in a thread");
            })
            .join()
            .unwrap();
            std::thread::spawn(|| {
                {
                    vor::profile_scope!("in a thread");
                }
                AT_THREAD_END.with(|_| {});
            })
            .join()
            .unwrap();
            std::thread::spawn(|| AT_THREAD_END.with(|_| {}))
                .join()
                .unwrap();
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_process_that_ends_without_a_flush_loses_nothing() {
    let test = test_name!();
    if let Some(role) = role() {
        return end(&role);
    }
    // How the process ends, whether the file is closed in order, and the spans expected beside the
    // work.
    type Case = (&'static str, bool, &'static [(&'static str, usize)]);
    let cases: [Case; 7] = [
        ("return", true, &[]),
        ("exit", true, &[("open at exit", 0)]),
        ("caught", true, &[("panics", 1)]),
        ("uncaught", true, &[("panics", 1)]),
        ("thread", true, &[("panics", 1)]),
        ("abort", false, &[]),
        (
            "destructor",
            true,
            &[
                ("in a thread", 2),
                ("in a destructor", 3),
                ("and inside it", 3),
            ],
        ),
    ];
    for (how, closed, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        let mut command = child(test, how, folder.path());
        let output = run(command
            .env("VOR_RECORD", &path)
            .env("VOR_RECORD_FLAME", "1"));
        assert_eq!(vor_lines(&output), [""; 0], "{how}");
        let summary = read(&path);
        assert_eq!(summary.count("work"), 1000, "{how}: {output:?}");
        assert_eq!(summary.frames.len(), 10, "{how}");
        assert_eq!(summary.closed, closed, "{how}: {output:?}");
        // Only the end record is missing, where the process could not write it.
        assert_eq!(
            summary.damage.len(),
            usize::from(!closed),
            "{how}: {:?}",
            summary.damage
        );
        for (name, count) in expected {
            assert_eq!(summary.count(name), *count, "{how}: {name}");
        }
        if how == "exit" {
            assert_eq!(output.status.code(), Some(3));
            assert_eq!(
                summary.open_at_close, 1,
                "a scope that is open at the end is reported"
            );
        }
    }
}

#[test]
fn a_thread_per_task_ten_thousand_times() {
    let test = test_name!();
    const TASKS: usize = 10_000;
    if role().is_some() {
        work(1, 1);
        for task in 0..TASKS {
            std::thread::spawn(move || {
                vor::profile_scope!("task", number = task);
                vor::profile_scope!("step");
            })
            .join()
            .unwrap();
        }
        if cfg!(target_os = "linux") {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let peak_kib = peak.unwrap().trim().trim_end_matches(" kB");
            fs::write(folder().join("peak"), peak_kib).unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let mut command = child(test, "child", folder.path());
    let output = run(command
        .env("VOR_RECORD", &path)
        .env("VOR_RECORD_FLAME", "1"));
    assert!(output.status.success(), "{output:?}");
    let summary = read(&path);
    assert_eq!(
        (summary.count("task"), summary.count("step")),
        (TASKS, TASKS)
    );
    assert_eq!(summary.dropped_in_batches, 0);
    let mut threads: Vec<_> = summary.spans["task"]
        .iter()
        .map(|(thread, _, _)| *thread)
        .collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), TASKS, "each task has its own thread");
    if cfg!(target_os = "linux") {
        let peak = fs::read_to_string(folder.path().join("peak")).unwrap();
        let peak_kib: u64 = peak.parse().unwrap();
        assert!(
            (1..64 * 1024).contains(&peak_kib),
            "rings of ended threads are reused: at most {peak_kib} KiB"
        );
    }
    assert_eq!(captures(folder.path()).len(), 1);
}
