//! The depth of channels on the timeline, and the waits for messages and for room.

#![cfg(not(feature = "off"))]

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vor_capture::reader::{Event, Reader};
use vor_fixtures::own_process;
use vor_recorder::locks::channel::{self, RecvTimeoutError, SendError};
use vor_recorder::setup::{self, Config};
use vor_recorder::{drain, profile_scope};

use crate::locks_support::{LENGTH, Recording, assert_length, let_others_wait, named, read, start};

/// Returns a metric of each frame of a capture, as far as it has one.
pub(crate) fn metric(path: &Path, name: &str) -> Vec<Option<f64>> {
    drain::flush();
    let mut values = Vec::new();
    let mut reader = Reader::open(path).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Frame(recovered) = event {
            values.push(recovered.frame.metric(name));
        }
    }
    values
}

pub(crate) fn wait_names(recording: &Recording) -> Vec<&str> {
    let names = recording.waits().inspect(|wait| {
        assert_length(wait);
        assert!(wait.args.is_empty());
    });
    names.map(|wait| wait.name.as_str()).collect()
}

#[test]
fn each_frame_has_the_depth_at_its_mark() {
    own_process!();
    let (sender, receiver) = channel::named("jobs");
    // Messages from before the recording count.
    (0..3).for_each(|job| sender.send(job).unwrap());
    let (_folder, path) = start(Config::new());
    let depths = [3, 10, 10, 0, 7, 1_000, 999];
    let mut depth = 3;
    for next in depths {
        while depth < next {
            sender.send(depth).unwrap();
            depth += 1;
        }
        while depth > next {
            match depth % 3 {
                0 => assert!(receiver.recv().is_ok()),
                1 => assert!(receiver.try_recv().is_ok()),
                _ => assert!(receiver.recv_timeout(LENGTH).is_ok()),
            }
            depth -= 1;
        }
        drain::frame_mark();
    }
    // The other messages are gone with the receiver, and the metric with the last end.
    drop(receiver);
    drain::frame_mark();
    drop(sender);
    drain::frame_mark();
    let expected = depths.map(|depth| Some(f64::from(depth)));
    let expected: Vec<_> = expected.into_iter().chain([Some(0.0), None]).collect();
    assert_eq!(metric(&path, "depth: jobs"), expected);
    // As many as make the depths smaller.
    let before = [0].into_iter().chain(depths);
    let received = before
        .zip(depths)
        .map(|(before, depth): (u32, u32)| before.saturating_sub(depth));
    let expected = received.map(|count| Some(f64::from(count)));
    let expected: Vec<_> = expected.chain([Some(0.0), None]).collect();
    assert_eq!(metric(&path, "received: jobs"), expected);
}

#[test]
fn channels_of_one_name_have_the_sum_of_their_depths() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, receiver) = channel::named("jobs");
    let (bounded, bounded_receiver) = channel::sync_named("jobs", 5);
    (0..3).for_each(|job| sender.send(job).unwrap());
    (0..5).for_each(|job| bounded.send(job).unwrap());
    assert!(bounded.try_send(5).is_err());
    drain::frame_mark();
    drop((bounded, bounded_receiver));
    drain::frame_mark();
    assert_eq!(receiver.recv(), Ok(0));
    drain::frame_mark();
    let depths = [8.0, 3.0, 2.0].map(Some);
    assert_eq!(metric(&path, "depth: jobs"), depths);
}

#[test]
fn a_channel_without_a_name_has_that_of_its_place() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let line = line!() + 1;
    let (sender, receiver) = channel::channel();
    assert_eq!(
        receiver.recv_timeout(Duration::from_millis(1)),
        Err(RecvTimeoutError::Timeout)
    );
    sender.send(1).unwrap();
    let recording = read(&path);
    let names: Vec<_> = recording.waits().map(|wait| wait.name.as_str()).collect();
    assert_eq!(names, [format!("wait: {}:{line} to receive", file!())]);
    let depth = metric(&path, &format!("depth: {}:{line}", file!()));
    assert_eq!(depth, [Some(1.0)]);
}

/// Each message is counted, whichever thread sends it by whichever sender.
#[test]
fn no_message_of_many_threads_is_miscounted() {
    own_process!();
    const EACH: u64 = 20_000;
    let (_folder, path) = start(Config::new());
    let (sender, receiver) = channel::named("jobs");
    let begin = Barrier::new(7);
    std::thread::scope(|scope| {
        // Three threads share a sender, three have one each, and one receives.
        for at in 0..6 {
            let own = (at % 2 == 0).then(|| sender.clone());
            let (sender, begin) = (&sender, &begin);
            scope.spawn(move || {
                let sender = own.as_ref().unwrap_or(sender);
                begin.wait();
                for job in 0..EACH {
                    sender.send(job).unwrap();
                    // A thread leaves its lane, and comes back.
                    if job % 64 == 0 {
                        sender.clone().send(job).unwrap();
                    }
                }
            });
        }
        begin.wait();
        (0..EACH).for_each(|_| assert!(receiver.recv().is_ok()));
    });
    let sent = 6 * (EACH + EACH.div_ceil(64));
    drain::frame_mark();
    let rest = receiver.try_iter().count() as u64;
    assert_eq!(rest, sent - EACH);
    drain::frame_mark();
    let depths = metric(&path, "depth: jobs");
    assert_eq!(depths, [Some(rest as f64), Some(0.0)]);
}

#[test]
fn a_receiver_that_finds_no_message_waits() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, receiver) = channel::named("jobs");
    let producer = named("producer", move || {
        for job in 0..3 {
            let_others_wait();
            sender.send(job).unwrap();
        }
        let_others_wait();
    });
    let consumer = named("consumer", move || {
        profile_scope!("works");
        assert_eq!(receiver.recv(), Ok(0));
        assert_eq!(receiver.iter().next(), Some(1));
        assert_eq!(receiver.recv_timeout(LENGTH * 100), Ok(2));
        // The end of the last sender ends the wait.
        assert!(receiver.recv().is_err());
    });
    producer.join().unwrap();
    consumer.join().unwrap();
    let recording = read(&path);
    assert_eq!(wait_names(&recording), ["wait: jobs to receive"; 4]);
    assert!(recording.waits().all(|wait| wait.thread == "consumer"));
}

#[test]
fn a_sender_that_finds_no_room_waits() {
    own_process!();
    let (_folder, path) = start(Config::new());
    for bound in [0, 1] {
        let (sender, receiver) = channel::sync_named("jobs", bound);
        (0..bound).for_each(|job| sender.send(job).unwrap());
        let consumer = named("consumer", move || {
            let_others_wait();
            assert_eq!(receiver.recv(), Ok(0));
            let_others_wait();
        });
        sender.send(bound).unwrap();
        // The end of the receiver ends the wait.
        assert_eq!(sender.send(9), Err(SendError(9)));
        consumer.join().unwrap();
    }
    let recording = read(&path);
    assert_eq!(wait_names(&recording), ["wait: jobs to send"; 4]);
}

#[test]
fn nothing_is_recorded_without_blocking() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, receiver) = channel::channel();
    let (bounded, bounded_receiver) = channel::sync_channel(1);
    for job in 0..1_000 {
        sender.send(job).unwrap();
        bounded.send(job).unwrap();
        assert!(bounded.try_send(job).is_err());
        assert_eq!(
            receiver.recv_timeout(LENGTH),
            bounded_receiver.recv_timeout(LENGTH)
        );
        assert!(receiver.recv_timeout(Duration::ZERO).is_err() && receiver.try_recv().is_err());
        sender.send(job).unwrap();
        bounded.try_send(job).unwrap();
        assert_eq!(receiver.recv(), bounded_receiver.recv());
        assert_eq!(
            receiver
                .try_iter()
                .chain(bounded_receiver.try_iter())
                .next(),
            None
        );
    }
    setup::disable();
    assert!(receiver.recv_timeout(Duration::from_millis(1)).is_err());
    setup::enable();
    drop((sender, bounded));
    assert!(receiver.recv().is_err() && bounded_receiver.into_iter().next().is_none());
    let recording = read(&path);
    recording.assert_empty();
}

/// A channel that lives between two marks leaves nothing behind.
#[test]
fn a_short_lived_channel_is_no_metric() {
    own_process!();
    let (_folder, path) = start(Config::new());
    for answer in 0..10_000 {
        let (sender, receiver) = channel::named("answer");
        sender.send(answer).unwrap();
        assert_eq!(receiver.recv(), Ok(answer));
    }
    let before = vor_recorder::metrics::metric_count();
    drain::frame_mark();
    assert_eq!(metric(&path, "depth: answer"), [None]);
    assert_eq!(vor_recorder::metrics::metric_count(), before);
}

/// A mark may hold the last reference to a channel that ends meanwhile.
#[test]
fn channels_come_and_go_while_frames_are_marked() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for answer in 0..20_000 {
                    let (sender, receiver) = channel::named("answer");
                    sender.send(answer).unwrap();
                    let own = sender.clone();
                    drop(sender);
                    assert_eq!(receiver.recv(), Ok(answer));
                    own.send(answer).unwrap();
                }
                is_done.store(true, Ordering::Relaxed);
            });
        }
        while !is_done.load(Ordering::Relaxed) {
            drain::frame_mark();
        }
    });
    // Otherwise the last mark may be merged with earlier ones, and have their value.
    drain::flush();
    drain::frame_mark();
    let depths = metric(&path, "depth: answer");
    assert!(
        depths
            .iter()
            .flatten()
            .all(|depth| (0.0..=2.0).contains(depth)),
        "{depths:?}"
    );
    assert_eq!(depths.last(), Some(&None));
}
