//! The capture holds the last scopes of a program, however it ends.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "crashes and handlers of signals")]

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use vor_capture::reader::{Event, Reader};
use vor_fixtures::test_name;

use crate::robust_support::{captures, child, folder, read, role, run};

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// Records, opens scopes on two threads, and calls `end` in one of them. The open scopes have never
/// ended before, so nothing in the file names them.
fn work_and(end: fn()) {
    vor::Config::new()
        .capture(folder().join("run.vor"))
        .enable();
    {
        vor::profile_scope!("ended");
    }
    vor::flush();
    let (ready, is_ready) = mpsc::channel();
    let helper = std::thread::Builder::new().name("helper".into());
    let helper = helper.spawn(move || {
        vor::profile_scope!("waits");
        ready.send(()).unwrap();
        loop {
            std::thread::park();
        }
    });
    is_ready.recv().unwrap();
    vor::profile_scope!("outer");
    vor::profile_scope!("last thing");
    end();
    drop(helper);
}

/// Returns the names of the open scopes per thread, for each note in order.
fn open_in(path: &Path) -> Vec<(String, Vec<String>)> {
    let mut reader = Reader::open(path).unwrap();
    let mut found = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::OpenScopes(open) = event {
            found.extend(open.threads);
        }
    }
    let catalog = reader.catalog().unwrap();
    let named = |(thread, scopes): (vor::capture::ThreadId, Vec<(vor::capture::SiteId, u64)>)| {
        let name =
            |(site, _): (vor::capture::SiteId, u64)| catalog.site(site).unwrap().name.to_string();
        let thread = catalog.thread(thread).unwrap().name.clone();
        (thread, scopes.into_iter().map(name).collect())
    };
    found.into_iter().map(named).collect()
}

fn check(folder: &Path, notes: usize) {
    let path = &captures(folder)[0];
    let summary = read(path);
    // The missing end record is the only damage.
    assert!(
        summary.damage.len() == 1 && summary.damage[0].contains("end record"),
        "{:?}",
        summary.damage
    );
    assert_eq!(summary.count("ended"), 1);
    let open = open_in(path);
    let mut times = BTreeMap::new();
    for (thread, scopes) in &open {
        let expected: &[&str] = match thread.as_str() {
            "helper" => &["waits"],
            _ => &["outer", "last thing"],
        };
        assert_eq!(scopes, expected, "{open:?}");
        *times.entry(thread).or_insert(0) += 1;
    }
    assert_eq!(times.len(), 2, "{open:?}");
    assert!(times.values().all(|times| *times == notes), "{open:?}");
}

/// Two threads crash, the second while the note of the first is being written. The note takes time
/// because many threads have many scopes open.
#[test]
fn a_second_crash_waits_for_the_note_of_the_first() {
    let test = test_name!();
    const THREADS: usize = 64;
    fn deeper(depth: usize, then: &dyn Fn()) {
        vor::profile_scope!("deep");
        if depth == 0 {
            then();
        } else {
            deeper(depth - 1, then);
        }
    }
    if role().is_some() {
        vor::Config::new()
            .capture(folder().join("run.vor"))
            .enable();
        let (ready, is_ready) = mpsc::channel();
        for _ in 0..THREADS {
            let ready = ready.clone();
            std::thread::spawn(move || {
                deeper(99, &|| {
                    ready.send(()).unwrap();
                    loop {
                        std::thread::park();
                    }
                });
            });
        }
        is_ready.iter().take(THREADS).for_each(drop);
        static HAS_CRASHED: AtomicBool = AtomicBool::new(false);
        std::thread::spawn(|| {
            while !HAS_CRASHED.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            // The note of the first crash has begun and takes longer than this sleep.
            std::thread::sleep(Duration::from_millis(1));
            // SAFETY: raising a signal touches no memory.
            unsafe { libc::raise(libc::SIGFPE) };
        });
        HAS_CRASHED.store(true, Ordering::SeqCst);
        std::process::abort();
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, "child", folder.path()));
    let signal = output.status.signal();
    assert!(
        [Some(SIGABRT), Some(libc::SIGFPE)].contains(&signal),
        "{output:?}"
    );
    let open = open_in(&captures(folder.path())[0]);
    let deep = |(_, scopes): &&(String, Vec<String>)| scopes.len() == 100;
    assert_eq!(open.iter().filter(deep).count(), THREADS);
}

fn crash(test: &str, end: fn(), signal: i32, notes: usize) {
    if role().is_some() {
        return work_and(end);
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, "child", folder.path()));
    assert_eq!(output.status.signal(), Some(signal), "{output:?}");
    check(folder.path(), notes);
}

#[test]
fn a_bad_access() {
    fn end() {
        // SAFETY: none; the invalid access is the subject of the test.
        unsafe { std::ptr::without_provenance_mut::<u32>(8).write_volatile(1) };
    }
    crash(test_name!(), end, SIGSEGV, 1);
}

#[test]
fn an_abort() {
    crash(test_name!(), || std::process::abort(), SIGABRT, 1);
}

#[test]
fn a_signal_from_outside() {
    fn end() {
        let own = std::process::id().to_string();
        // The runtime's handler takes the first signal for an access that will fault again, and
        // lets the next one end the process.
        for _ in 0..10 {
            let mut kill = std::process::Command::new("kill");
            assert!(kill.args(["-SEGV", &own]).status().unwrap().success());
        }
    }
    crash(test_name!(), end, SIGSEGV, 1);
}

/// Sends a signal to a thread of this process, as another process might.
#[cfg(target_os = "linux")]
fn send_to(thread: &str, signal: i32) {
    let is_it = |task: &std::path::PathBuf| {
        let name = std::fs::read_to_string(task.join("comm"));
        name.is_ok_and(|name| name.trim() == thread)
    };
    // A thread names itself when it starts.
    let mut tries = (0..1000).filter_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks.map(|task| task.unwrap().path()).find(is_it)
    });
    let task = tries.next().unwrap();
    let task: i32 = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // SAFETY: all zeros are valid information, which lives across the call.
    let sent = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        info.si_signo = signal;
        info.si_code = libc::SI_QUEUE;
        let own = libc::getpid();
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            own,
            task,
            signal,
            &raw const info,
        )
    };
    assert_eq!(sent, 0);
}

/// The runtime's handler takes the signal that comes again, and lets the next one end the process.
#[cfg(target_os = "linux")]
fn end_by_next_signal() {
    for _ in 0..10 {
        // SAFETY: raising a signal touches no memory.
        unsafe { libc::raise(SIGSEGV) };
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_to_the_thread_that_writes_the_note() {
    fn end() {
        send_to("vor-crash", SIGSEGV);
        end_by_next_signal();
    }
    crash(test_name!(), end, SIGSEGV, 1);
}

/// Nothing else sends a signal, so the process ends only if this one comes again.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_to_a_thread_of_vor_comes_again() {
    let test = test_name!();
    if role().is_some() {
        // SAFETY: the handler has the C signature and calls nothing that a handler may not.
        unsafe { libc::signal(SIGSEGV, mine as *const () as usize) };
        return work_and(|| {
            send_to("vor-crash", SIGSEGV);
            std::thread::sleep(Duration::from_secs(20));
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, "child", folder.path()));
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    check(folder.path(), 1);
}

/// The worker writes most of the time, so most of the signals interrupt it there.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_to_the_thread_that_writes_the_capture() {
    const ROUNDS: usize = 5;
    let test = test_name!();
    if role().is_some() {
        vor::Config::new()
            .capture(folder().join("run.vor"))
            .drain_interval(Duration::from_millis(1))
            .enable();
        std::thread::spawn(|| {
            loop {
                vor::profile_scope!("busy");
            }
        });
        vor::profile_scope!("last thing");
        std::thread::sleep(Duration::from_millis(100));
        send_to("vor-drain", SIGSEGV);
        end_by_next_signal();
    }
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let output = run(&mut child(test, "child", folder.path()));
        assert_eq!(output.status.signal(), Some(SIGSEGV), "{output:?}");
        let open = open_in(&captures(folder.path())[0]);
        let is_main = |(_, scopes): &(String, Vec<String>)| *scopes == ["last thing"];
        assert!(open.iter().any(is_main), "{open:?}");
    }
}

/// The stack is used up, and the handler runs on its own stack of about 8 KiB. The runtime's
/// handler, which was installed before, reports the overflow and aborts.
#[test]
fn a_stack_that_overflows() {
    fn deeper(n: u64) -> u64 {
        let here = std::hint::black_box([n; 64]);
        if here[0] == u64::MAX {
            return 0;
        }
        deeper(n + 1) + here[(n % 64) as usize]
    }
    fn end() {
        std::hint::black_box(deeper(0));
    }
    crash(test_name!(), end, SIGABRT, 1);
}

/// A caught panic writes a note, and the capture goes on after it as usual.
#[test]
fn a_panic_that_is_caught() {
    let test = test_name!();
    if role().is_some() {
        work_and(|| {
            let caught = std::panic::catch_unwind(|| panic!("caught"));
            assert!(caught.is_err());
        });
        for _ in 0..10 {
            {
                vor::profile_scope!("after");
            }
            vor::flush();
        }
        vor::close_capture();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, "child", folder.path()));
    assert!(output.status.success(), "{output:?}");
    let path = &captures(folder.path())[0];
    let summary = read(path);
    assert_eq!(summary.damage, Vec::<String>::new());
    assert!(summary.closed);
    assert_eq!(
        (summary.count("after"), summary.count("last thing")),
        (10, 1)
    );
    let open = open_in(path);
    let last = |(_, scopes): &(String, Vec<String>)| scopes.last().cloned().unwrap();
    // The note of the panic, and the scopes that the helper has open when the capture is closed.
    let last: Vec<_> = open.iter().map(last).collect();
    assert!(last.contains(&"last thing".to_owned()), "{open:?}");
    assert_eq!(
        last.iter().filter(|name| *name == "waits").count(),
        2,
        "{open:?}"
    );
}

static MINE: [u8; 5] = *b"mine\n";

extern "C" fn mine(_: i32) {
    // SAFETY: both calls are allowed in a handler, and the text is a static.
    unsafe {
        libc::write(1, MINE.as_ptr().cast(), MINE.len());
        libc::_exit(7);
    }
}

#[test]
fn the_earlier_handler_runs_last() {
    let test = test_name!();
    if role().is_some() {
        // SAFETY: the handler has the C signature and calls nothing that a handler may not.
        unsafe { libc::signal(libc::SIGSEGV, mine as *const () as usize) };
        return work_and(|| {
            // SAFETY: raising a signal touches no memory.
            unsafe { libc::raise(libc::SIGSEGV) };
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut child(test, "child", folder.path()));
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("mine"));
    check(folder.path(), 1);
}
