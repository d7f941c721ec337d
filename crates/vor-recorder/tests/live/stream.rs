//! A stream is a capture: it has what a capture file of the same time has.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use vor_capture::reader::{Event, Reader};
use vor_fixtures::process;
use vor_fixtures::{own_process, test_name};
use vor_recorder::drain::{flush, frame_mark};
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;
use vor_recorder::sinks::live::Choice;

use crate::support::*;

const THREADS: usize = 4;
const SCOPES: usize = 5_000;

fn work(marks: bool) {
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn_scoped(scope, || {
                    for round in 0..SCOPES {
                        profile_scope!("outer", round = round);
                        profile_scope!("inner");
                    }
                })
                .unwrap();
        }
        for _ in 0..50 {
            std::thread::sleep(Duration::from_millis(1));
            if marks {
                frame_mark();
            }
        }
    });
}

/// The child records into a file and to a client that was there before it began, and ends.
#[test]
fn the_stream_of_a_whole_run_equals_its_capture() {
    if let Some(role) = process::role() {
        let folder = std::path::PathBuf::from(role);
        let config = Config::new().capture(folder.join("run.vor"));
        listen_with(&folder, config);
        wait_for("the test to go on", || folder.join("go").exists());
        work(true);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = process::child(test_name!(), folder.path().to_str().unwrap());
    let mut child = child.spawn().unwrap();
    let socket = folder.path().join("s");
    wait_for("the socket", || socket.exists());
    let mut stream = client(&socket, Choice::All);
    std::fs::write(folder.path().join("go"), "").unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(child.wait().unwrap().success());
    let received = read(&received);
    let file = read(&std::fs::read(folder.path().join("run.vor")).unwrap());
    assert_eq!(received.span_count(), (THREADS * SCOPES * 2) as u64);
    assert_eq!(received, file);
    assert!(received.is_closed && received.losses.is_empty());
    assert!(received.frames.len() >= 50, "{}", received.frames.len());
    assert!(!socket.exists(), "the socket is removed at the end");
}

/// A client that comes in the middle of a frame gets a capture whose frames are whole.
#[test]
fn a_client_that_comes_late_gets_the_rest() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let socket = listen(folder.path());
    frame_mark();
    for _ in 0..100 {
        profile_scope!("before");
    }
    flush();
    let mut stream = client(&socket, Choice::All);
    for _ in 0..10 {
        profile_scope!("after");
    }
    frame_mark();
    flush();
    let mut reader = Reader::new(&mut stream).unwrap();
    let mut spans = 0;
    let frame = loop {
        match reader.next_event().unwrap().expect("the program goes on") {
            Event::Batch(batch) => {
                spans += batch.span_count();
                let sites = batch.threads.iter().flat_map(|share| &share.sites);
                assert!(
                    sites
                        .into_iter()
                        .all(|site| batch.catalog.site_name(*site) == "after")
                );
            }
            Event::Frame(frame) => break frame,
            Event::Loss(loss) => panic!("{}", loss.reason),
            _ => {}
        }
    };
    assert_eq!((spans, frame.frame.span_count), (10, 10));
    assert_eq!(frame.lost_records, 0);
}

/// Receives what a workload of a slow and a fast frame gives to a client of this choice.
fn frames_of(choice: Choice, socket: &Path) -> (Contents, Contents) {
    let streams = [client(socket, choice), client(socket, Choice::All)];
    frame_mark();
    for _ in 0..3 {
        {
            profile_scope!("fast");
        }
        frame_mark();
        for _ in 0..2 {
            profile_scope!("slow");
            std::thread::sleep(Duration::from_millis(150));
        }
        frame_mark();
    }
    flush();
    let readers = streams.map(|mut stream| {
        let ender = stream.ender().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            bytes
        });
        (ender, reader)
    });
    let contents = readers.map(|(ender, reader)| {
        ender.end();
        let contents = read(&reader.join().unwrap());
        assert!(contents.is_closed && contents.losses.is_empty());
        contents
    });
    wait_for("the clients to leave", || clients(socket) == 0);
    let [chosen, all] = contents;
    (chosen, all)
}

#[test]
fn a_client_chooses_what_it_gets() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let socket = listen(folder.path());
    let (none, all) = frames_of(Choice::Metrics, &socket);
    assert_eq!(none.span_count(), 0);
    assert_eq!(none.frames.len(), all.frames.len());
    assert!(none.frames.values().all(|(spans, _)| *spans == 0));
    let (slow, all) = frames_of(Choice::Slow(Duration::from_millis(250)), &socket);
    assert_eq!(slow.frames.len(), all.frames.len());
    for (number, counts) in &slow.frames {
        let of_all = all.frames[number];
        assert!(counts.0 == 0 && of_all.0 < 2 || *counts == of_all && of_all.0 > 1);
    }
    let named = |name: &str| slow.spans.keys().filter(|key| key.1 == name).count();
    assert_eq!((named("slow"), named("fast")), (6, 0));
}

/// While nobody listens, no sink takes spans, and a client that has left leaves nothing behind.
#[test]
fn nothing_is_left_of_a_client() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let socket = listen(folder.path());
    let sinks = || status_lines(&socket, "sink").len();
    let open_files = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = (sinks(), open_files(), threads());
    for _ in 0..20 {
        let streams: Vec<_> = (0..5).map(|_| client(&socket, Choice::All)).collect();
        assert_eq!(clients(&socket), 5);
        {
            profile_scope!("seen");
        }
        drop(streams);
        wait_for("the clients to leave", || clients(&socket) == 0);
    }
    wait_for("everything to be freed", || {
        (sinks(), open_files(), threads()) == before
    });
}
