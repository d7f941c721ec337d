//! Signals that end a program: the capture is closed first, and the program sees no difference.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(
    unsafe_code,
    reason = "handlers of signals, and programs that wait for them"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use vor_capture::reader::{Event, Reader};
use vor_fixtures::random::seeds;
use vor_fixtures::test_name;

use crate::robust_support::{child, folder, read, role};

const ENDINGS: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// A child that has written "ready" to stdout.
struct Running {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

fn start(command: &mut Command) -> Running {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // A shell has programs in its background ignore some of these signals, and children inherit
    // that.
    let leave_to_the_system = || {
        for signal in ENDINGS {
            // SAFETY: the disposition is a constant of the system, and the call may be made between
            // a fork and the start of a program.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure only makes calls that are allowed there.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, leave_to_the_system) };
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.trim_end().ends_with("ready") {
        line.clear();
        assert_ne!(
            stdout.read_line(&mut line).unwrap(),
            0,
            "the child has ended"
        );
    }
    Running { child, stdout }
}

fn send(process: u32, signal: libc::c_int) {
    let process = libc::pid_t::try_from(process).unwrap();
    // SAFETY: the call touches no memory, and the process is a child that has not been waited for.
    let sent = unsafe { libc::kill(process, signal) };
    assert_eq!(sent, 0);
}

impl Running {
    fn send(&self, signal: libc::c_int) {
        send(self.child.id(), signal);
    }

    fn signal_child(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Waits for the end, which takes seconds at most. A child that hangs is killed and fails the
    /// test.
    fn end(mut self) -> (ExitStatus, String) {
        let until = Instant::now() + Duration::from_secs(120);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                self.child.kill().unwrap();
                panic!("the child has not ended");
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (status, rest)
    }
}

fn report_ready() {
    println!("ready");
}

/// Returns when the parent closes stdin or writes to it.
fn wait_for_parent() {
    let _ = std::io::stdin().read(&mut [0]).unwrap();
}

/// Has this thread take the signal when the parent gives the word: a signal to the process may be
/// delivered to any thread.
fn take_when_told(signal: libc::c_int) {
    // SAFETY: the call takes nothing and touches no memory.
    let thread = unsafe { libc::pthread_self() } as usize;
    std::thread::spawn(move || {
        wait_for_parent();
        // SAFETY: the thread runs until the process ends.
        let sent = unsafe { libc::pthread_kill(thread as libc::pthread_t, signal) };
        assert_eq!(sent, 0);
    });
}

fn dump_no_core() {
    let limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is valid and lives across the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &limit) }, 0);
}

fn record() {
    let config = vor::Config::from_env().capture(folder().join("run.vor"));
    let leaves_signals = role().is_some_and(|role| role == "config");
    let config = if leaves_signals {
        config.signals(false)
    } else {
        config
    };
    config.spans(true).enable();
    for _ in 0..1_000 {
        vor::profile_scope!("ended");
    }
}

/// Records, opens scopes on two threads, and waits in a call that a handler would interrupt.
fn record_and_pause() {
    dump_no_core();
    record();
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        vor::profile_scope!("waits");
        ready.send(()).unwrap();
        loop {
            std::thread::park();
        }
    });
    is_ready.recv().unwrap();
    vor::profile_scope!("outer");
    vor::profile_scope!("last thing");
    report_ready();
    // SAFETY: the call waits for a handler to have run, and touches no memory.
    unsafe { libc::pause() };
    // A program exits here where it takes the end of `pause` for a signal that it has handled.
    std::process::exit(9);
}

/// Returns the names of the scopes that were open when the capture was closed, sorted.
fn open_in(path: &Path) -> Vec<String> {
    let mut reader = Reader::open(path).unwrap();
    let mut open = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::OpenScopes(scopes) = event {
            open.extend(scopes.threads.into_iter().flat_map(|(_, scopes)| scopes));
        }
    }
    let catalog = reader.catalog().unwrap();
    let mut names: Vec<_> = open
        .into_iter()
        .map(|(site, _)| catalog.site(site).unwrap().name.to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn a_signal_that_ends_the_program_closes_the_capture_first() {
    let test = test_name!();
    if let Some(role) = role() {
        if let Some(signal) = role.strip_prefix("thread ") {
            take_when_told(signal.parse().unwrap());
        }
        return record_and_pause();
    }
    for (signal, to) in ENDINGS
        .into_iter()
        .flat_map(|signal| ["process", "thread"].map(|to| (signal, to)))
    {
        let folder = tempfile::tempdir().unwrap();
        let mut running = start(&mut child(test, &format!("{to} {signal}"), folder.path()));
        match to {
            "thread" => running.signal_child(),
            _ => running.send(signal),
        }
        let (status, _) = running.end();
        assert_eq!(status.signal(), Some(signal), "{status:?}");
        let path = folder.path().join("run.vor");
        let summary = read(&path);
        assert_eq!(summary.damage, [""; 0], "{signal}");
        assert!(summary.closed, "{signal}");
        assert_eq!(summary.count("ended"), 1_000, "{signal}");
        assert_eq!(open_in(&path), ["last thing", "outer", "waits"], "{signal}");
    }
}

/// The signal may arrive while its thread holds a lock of the recorder.
#[test]
fn every_ended_span_is_there_wherever_the_signal_interrupts() {
    let test = test_name!();
    if let Some(role) = role() {
        let progress = std::fs::File::create(folder().join("progress")).unwrap();
        vor::Config::new()
            .capture(folder().join("run.vor"))
            .inline_drain(role == "inline")
            .enable();
        let mut made = 0_u64;
        take_when_told(libc::SIGTERM);
        report_ready();
        loop {
            {
                vor::profile_scope!("work");
            }
            made += 1;
            vor::frame_mark();
            vor::record_metric("made", made as f64);
            match role.as_str() {
                "flushes" => vor::flush(),
                "threads" => drop(std::thread::spawn(|| {
                    vor::profile_scope!("in a thread");
                })),
                _ => {}
            }
            if made.is_multiple_of(16) {
                progress.write_all_at(&made.to_le_bytes(), 0).unwrap();
            }
        }
    }
    for role in ["marks", "inline", "flushes", "threads"] {
        for run in seeds(10) {
            let folder = tempfile::tempdir().unwrap();
            let mut running = start(&mut child(test, role, folder.path()));
            std::thread::sleep(Duration::from_micros(20_000 + 1_771 * run));
            let progress = std::fs::read(folder.path().join("progress")).unwrap();
            let made = progress.try_into().map_or(0, u64::from_le_bytes);
            running.signal_child();
            let (status, _) = running.end();
            assert_eq!(
                status.signal(),
                Some(libc::SIGTERM),
                "{role} {run}: {status:?}"
            );
            let summary = read(&folder.path().join("run.vor"));
            assert_eq!(summary.damage, [""; 0], "{role} {run}");
            assert!(summary.closed, "{role} {run}");
            let held = summary.count("work") as u64 + summary.dropped_in_batches;
            assert!(
                held >= made,
                "{role} {run}: {made} had ended, the file has {held}"
            );
        }
    }
}

extern "C" fn mine(_: libc::c_int) {
    // SAFETY: both calls are allowed in a handler.
    unsafe {
        libc::write(1, b"mine\n".as_ptr().cast(), 5);
        libc::_exit(7);
    }
}

static BEFORE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

/// Libraries that share signals do this: it calls the earlier handler, where there is one, and the
/// program goes on.
extern "C" fn polite(signal: libc::c_int) {
    match *BEFORE.get().unwrap() {
        libc::SIG_DFL | libc::SIG_IGN => {}
        // SAFETY: another part of the program installed the handler. vor's handler has two more
        // arguments, and uses neither them nor this one.
        before => unsafe {
            type Handler = extern "C" fn(libc::c_int, *const libc::siginfo_t, *const libc::c_void);
            let handler: Handler = std::mem::transmute(before);
            handler(signal, std::ptr::null(), std::ptr::null());
        },
    }
    // SAFETY: the call is allowed in a handler.
    unsafe { libc::write(1, b"polite\n".as_ptr().cast(), 7) };
}

fn handle(handler: usize) -> usize {
    // SAFETY: the handler has the C signature, or is one of the two constants of the system.
    unsafe { libc::signal(libc::SIGTERM, handler) }
}

#[test]
fn a_program_that_handles_the_signal_behaves_as_without_vor() {
    let test = test_name!();
    if let Some(role) = role() {
        let (what, when) = role.split_once(' ').unwrap();
        if when == "after" {
            record();
        }
        let before = match what {
            "mine" => handle(mine as *const () as usize),
            "polite" => handle(polite as *const () as usize),
            _ => handle(libc::SIG_IGN),
        };
        BEFORE.get_or_init(|| before);
        if when == "before" {
            record();
        }
        report_ready();
        wait_for_parent();
        return;
    }
    for what in ["mine", "polite", "ignored"] {
        for when in ["before", "after"] {
            let folder = tempfile::tempdir().unwrap();
            let mut running = start(&mut child(test, &format!("{what} {when}"), folder.path()));
            running.send(libc::SIGTERM);
            let expected = if what == "mine" {
                7
            } else {
                let mut line = String::new();
                if what == "polite" {
                    running.stdout.read_line(&mut line).unwrap();
                    assert_eq!(line, "polite\n", "{when}");
                }
                running.signal_child();
                0
            };
            let (status, rest) = running.end();
            assert_eq!(status.code(), Some(expected), "{what} {when}: {status:?}");
            assert_eq!(rest.contains("mine\n"), what == "mine", "{when}");
            let summary = read(&folder.path().join("run.vor"));
            assert_eq!(summary.closed, what != "mine", "{what} {when}");
        }
    }
}

#[test]
fn signal_handling_can_be_switched_off() {
    let test = test_name!();
    if role().is_some() {
        return record_and_pause();
    }
    for role in ["config", "variable"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = child(test, role, folder.path());
        if role == "variable" {
            command.env("VOR_SIGNALS", "0");
        }
        let running = start(&mut command);
        running.send(libc::SIGTERM);
        let (status, _) = running.end();
        assert_eq!(status.signal(), Some(libc::SIGTERM), "{role}: {status:?}");
        assert!(!read(&folder.path().join("run.vor")).closed, "{role}");
    }
}

/// The child of a fork that has not recorded does not touch its parent's capture, and ends by the
/// signal.
#[test]
fn a_forked_child_ends_by_the_signal_alone() {
    let test = test_name!();
    if role().is_some() {
        record();
        // SAFETY: the child calls nothing but `pause`.
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            loop {
                // SAFETY: the call waits for a handler to have run, and touches no memory.
                unsafe { libc::pause() };
            }
        }
        let mut status = 0;
        // SAFETY: the child belongs to this process, and `status` is valid for writes.
        unsafe {
            libc::kill(forked, libc::SIGTERM);
            libc::waitpid(forked, &raw mut status, 0);
        }
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTERM);
        for _ in 0..10 {
            vor::profile_scope!("after");
        }
        report_ready();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let running = start(&mut child(test, "child", folder.path()));
    let (status, _) = running.end();
    assert!(status.success(), "{status:?}");
    let summary = read(&folder.path().join("run.vor"));
    assert!(summary.closed);
    assert_eq!(
        (summary.count("ended"), summary.count("after")),
        (1_000, 10)
    );
}
