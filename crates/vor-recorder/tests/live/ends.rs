//! How a stream ends: with the process, by a signal, by a kill, and in the child of a fork.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use vor_fixtures::process;
use vor_fixtures::test_name;
use vor_recorder::drain::frame_mark;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;
use vor_recorder::sinks::live::{Choice, listening};

use crate::support::*;

fn start(test: &str, folder: &Path) -> (Child, PathBuf) {
    let child = process::child(test, folder.to_str().unwrap())
        .spawn()
        .unwrap();
    let socket = folder.join("s");
    wait_for("the socket", || socket.exists());
    (child, socket)
}

fn record_until_killed() {
    loop {
        {
            profile_scope!("work");
        }
        frame_mark();
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn signal(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: the call touches no memory; the child was not waited for, so the number is its own.
    #[expect(unsafe_code, reason = "the standard library sends SIGKILL only")]
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0);
}

/// With a capture, vor sees the signal, and closes the stream as well.
#[test]
fn a_signal_ends_the_stream_and_a_kill_tears_it() {
    if let Some(role) = process::role() {
        let folder = PathBuf::from(role);
        listen_with(&folder, Config::new().capture(folder.join("run.vor")));
        record_until_killed();
    }
    for (number, closes) in [(libc::SIGTERM, true), (libc::SIGKILL, false)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, socket) = start(test_name!(), folder.path());
        let mut stream = client(&socket, Choice::All);
        let mut bytes = vec![0; 8 << 10];
        stream.read_exact(&mut bytes).unwrap();
        signal(&child, number);
        stream.read_to_end(&mut bytes).unwrap();
        child.wait().unwrap();
        let received = read(&bytes);
        assert_eq!(received.is_closed, closes, "signal {number}");
        assert!(received.losses.is_empty(), "{:?}", received.losses);
        assert!(received.span_count() > 10, "{}", received.span_count());
        assert_eq!(socket.exists(), !closes, "signal {number}");
    }
}

/// A client that does not read cannot hold up the end of the process.
#[test]
fn a_client_that_does_not_read_delays_the_end_by_a_second_at_most() {
    if let Some(role) = process::role() {
        let folder = PathBuf::from(role);
        listen(&folder);
        wait_for("the test to go on", || folder.join("go").exists());
        for _ in 0..400_000 {
            profile_scope!("work");
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut child, socket) = start(test_name!(), folder.path());
    let streams: Vec<_> = (0..3).map(|_| client(&socket, Choice::All)).collect();
    let begun = Instant::now();
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    let took = begun.elapsed();
    assert!(
        took > Duration::from_millis(900),
        "{took:?}: the queues were not full"
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
    drop(streams);
}

/// The child of a fork has none of its parent's sockets: its parent's end is the clients' end.
#[test]
fn a_fork_closes_the_sockets() {
    if let Some(role) = process::role() {
        let folder = PathBuf::from(role);
        listen(&folder);
        wait_for("the test to go on", || folder.join("go").exists());
        {
            profile_scope!("parent");
        }
        // SAFETY: the child uses vor, which handles forks, and sleeps.
        #[expect(unsafe_code, reason = "the standard library does not fork")]
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let sockets = std::fs::read_dir("/proc/self/fd").unwrap().filter(|entry| {
                let target = entry.as_ref().unwrap().path().read_link();
                target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
            });
            let left = sockets.count();
            profile_scope!("child");
            let says = format!("{left} {:?}", listening());
            std::fs::write(folder.join("child"), says).unwrap();
            // It outlives its parent.
            std::thread::sleep(Duration::from_secs(5));
            std::process::exit(0);
        }
        wait_for("the child", || folder.join("child").exists());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut child, socket) = start(test_name!(), folder.path());
    let mut stream = client(&socket, Choice::All);
    let begun = Instant::now();
    std::fs::write(folder.path().join("go"), "").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "the child holds the connection"
    );
    assert!(child.wait().unwrap().success());
    let received = read(&bytes);
    assert!(received.is_closed);
    let names: Vec<_> = received.spans.keys().map(|key| key.1.as_str()).collect();
    assert_eq!(names, ["parent"]);
    wait_for("the child's word", || {
        std::fs::read_to_string(folder.path().join("child")).is_ok_and(|text| !text.is_empty())
    });
    let says = std::fs::read_to_string(folder.path().join("child")).unwrap();
    assert_eq!(says, "0 None");
}
