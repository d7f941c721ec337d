//! Clients that are slow, wrong, many or gone cost the program nothing but a bounded memory.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vor_fixtures::own_process;
use vor_recorder::drain::{flush, frame_mark};
use vor_recorder::profile_scope;
use vor_recorder::sinks::live::{Choice, MAX_CLIENTS, QUEUE_BYTES, Question};

use crate::support::*;

#[test]
fn other_bytes_get_one_line() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let socket = listen(folder.path());
    for bytes in [
        &b"PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        b"POST / HTTP/1.1\r\n\r\nvor 1 dump\n",
        b"vor 9 stream\n",
        b"vor 1 shutdown\n",
        b"\xff\xfe\n",
        b"vor 1 stream spans=slow:99999999999999999999us\n",
    ] {
        let answer = raw(&socket, bytes);
        let shown = bytes.escape_ascii();
        assert!(answer.starts_with("error: "), "{shown}: {answer}");
        assert_eq!(answer.lines().count(), 1, "{shown}: {answer}");
    }
    // A line without an end is not a request, however long.
    let mut endless = UnixStream::connect(&socket).unwrap();
    let mut sent = 0;
    while sent < 1 << 20 && endless.write_all(&[b'x'; 4096]).is_ok() {
        sent += 4096;
    }
    assert!(sent < 1 << 20, "the program reads on and on");
    let mut random = vor_fixtures::random::Random(7);
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..random.below(300))
            .map(|_| random.next() as u8)
            .collect();
        let mut stream = UnixStream::connect(&socket).unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.write_all(b"\n");
        // A random line may be empty, and then gets a stream.
        let _ = stream.shutdown(Shutdown::Both);
    }
    wait_for("room", || ask(&socket, &Question::Status).is_ok());
    wait_for("all to be gone", || clients(&socket) == 0);
}

/// A client may leave after any byte of its request or of the stream.
#[test]
fn a_client_may_leave_at_any_byte() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let socket = listen(folder.path());
    {
        profile_scope!("something");
    }
    flush();
    let request = b"vor 1 stream spans=all\n";
    for length in 0..request.len() {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(&request[..length]).unwrap();
    }
    wait_for("room", || ask(&socket, &Question::Status).is_ok());
    let mut length = 1;
    loop {
        // Not too many at a time.
        wait_for("some to be gone", || clients(&socket) < 10);
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        stream.write_all(request).unwrap();
        let mut beginning = vec![0; length];
        if stream.read_exact(&mut beginning).is_err() {
            break;
        }
        assert_eq!(&beginning[..length.min(4)], &b"VOR1"[..length.min(4)]);
        length += 1 + length / 20;
    }
    assert!(length > 500, "the declarations have {length} bytes");
    wait_for("all to be gone", || clients(&socket) == 0);
}

/// A client that does not read loses batches, and its capture counts them.
#[test]
fn a_slow_client_is_bounded_and_counts_what_it_misses() {
    own_process!();
    const FRAMES: u64 = 60;
    const SPANS: u64 = 40_000;
    let folder = tempfile::tempdir().unwrap();
    let socket = listen(folder.path());
    let mut slow = client(&socket, Choice::All);
    let waiting = || -> usize {
        let lines = status_lines(&socket, "client");
        let words = lines[0].split(' ').collect::<Vec<_>>();
        words[1].parse().unwrap()
    };
    frame_mark();
    flush();
    let mut most = 0;
    for _ in 0..FRAMES {
        for _ in 0..SPANS / 2 {
            profile_scope!("outer");
            profile_scope!("inner");
        }
        frame_mark();
        flush();
        most = most.max(waiting());
    }
    // A batch has at most 8192 spans of a thread, of at most some 20 bytes.
    assert!(most > QUEUE_BYTES / 2, "{most}: the queue never filled");
    assert!(most < QUEUE_BYTES + (1 << 20), "{most}");
    let ender = slow.ender().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        slow.read_to_end(&mut bytes).unwrap();
        bytes
    });
    wait_for("the queue to empty", || waiting() == 0);
    // The next records count what was missed.
    for _ in 0..3 {
        {
            profile_scope!("last");
        }
        frame_mark();
        flush();
    }
    ender.end();
    let received = read(&reader.join().unwrap());
    assert!(received.is_closed);
    assert!(received.losses.is_empty(), "{:?}", received.losses);
    let spans = received.span_count();
    assert!(spans < FRAMES * SPANS, "nothing was given up");
    assert_eq!(spans + received.dropped, FRAMES * SPANS + 3);
    let (in_frames, dropped) = received
        .frames
        .values()
        .fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1));
    assert_eq!((in_frames, dropped), (spans, received.dropped));
    // The first mark and the last three are beside those of the loop.
    let frames = received.frames.len() as u64;
    assert_eq!(frames + received.merged_marks, FRAMES + 4);
}

/// Clients come and go a hundred times a second, and one reads a kilobyte a second: marks wait for
/// none of them.
#[test]
fn marks_do_not_wait_for_clients() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let socket = listen(folder.path());
    let longest_mark = |time: Duration| {
        let begun = Instant::now();
        let mut costs = Vec::new();
        while begun.elapsed() < time {
            for _ in 0..100 {
                profile_scope!("work");
            }
            let before = Instant::now();
            frame_mark();
            costs.push(before.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
        costs.sort();
        costs[costs.len() / 2]
    };
    let time = Duration::from_secs(2);
    let alone = longest_mark(time);
    let ends = AtomicBool::new(false);
    let (joined, watched) = std::thread::scope(|scope| {
        let joins = scope.spawn(|| {
            let mut joined = 0_u32;
            while !ends.load(Ordering::Relaxed) {
                drop(client(&socket, Choice::All));
                joined += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            joined
        });
        scope.spawn(|| {
            let mut slow = client(&socket, Choice::All);
            while !ends.load(Ordering::Relaxed) {
                let _ = slow.read(&mut [0; 10]);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let watched = longest_mark(time);
        ends.store(true, Ordering::Relaxed);
        (joins.join().unwrap(), watched)
    });
    println!("mark: {alone:?} alone, {watched:?} with {joined} joins");
    assert!(joined > 50, "{joined} joins");
    // The median of a mark is some microseconds; a mark that waits for a client takes 20 ms.
    assert!(
        watched < alone * 10 + Duration::from_millis(1),
        "{alone:?}, {watched:?}"
    );
}

#[test]
fn too_many_clients_are_told_so() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let socket = listen(folder.path());
    let streams: Vec<_> = (0..MAX_CLIENTS)
        .map(|_| client(&socket, Choice::Metrics))
        .collect();
    let address = format!("unix:{}", socket.display());
    let error = client_at(&address, Choice::All, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("too many clients"), "{error}");
    drop(streams);
    wait_for("room", || client_at(&address, Choice::All, None).is_ok());
}
