//! The depth and the waits of the channels of crossbeam and flume, which have several receivers,
//! and the flows of messages of all channels.

#![cfg(not(feature = "off"))]

use std::sync::Barrier;
use std::time::{Duration, Instant};

use vor_capture::model::batch::FlowStage;
use vor_fixtures::own_process;
use vor_recorder::locks::channel;
use vor_recorder::setup::Config;
use vor_recorder::{__vor_channel as channel, drain, profile_scope};

use crate::locks_channel::{metric, wait_names};
use crate::locks_support::{LENGTH, arrows, arrows_to, let_others_wait, named, read, start};

/// Makes the tests of the channels of each crate, with `channels` as the name of its module.
macro_rules! of_each {
    ($($(#[$meta:meta])* fn $name:ident() $body:block)*) => {
        mod crossbeam {
            use super::*;
            use channel::crossbeam as channels;
            $($(#[$meta])* #[test] fn $name() { own_process!(); $body })*
        }
        mod flume {
            use super::*;
            use channel::flume as channels;
            $($(#[$meta])* #[test] fn $name() { own_process!(); $body })*
        }
    };
}

of_each! {
    fn each_frame_has_the_depth_at_its_mark() {
        let (sender, receiver) = channels::named("jobs");
        let other = receiver.clone();
        (0..3).for_each(|job| sender.send(job).unwrap());
        let (_folder, path) = start(Config::new());
        let depths = [3, 10, 0, 700, 699];
        let mut depth = 3;
        for next in depths {
            while depth < next {
                match depth % 3 {
                    0 => sender.send(depth).unwrap(),
                    1 => sender.try_send(depth).unwrap(),
                    _ => sender.clone().send_timeout(depth, LENGTH).unwrap(),
                }
                depth += 1;
            }
            while depth > next {
                match depth % 4 {
                    0 => assert!(receiver.recv().is_ok()),
                    1 => assert!(other.try_recv().is_ok()),
                    2 => assert!(receiver.recv_deadline(Instant::now() + LENGTH).is_ok()),
                    _ => assert!(other.clone().recv_timeout(LENGTH).is_ok()),
                }
                depth -= 1;
            }
            assert_eq!((sender.len(), receiver.len()), (next, next));
            drain::frame_mark();
        }
        // The messages are there until the last receiver is gone.
        drop(receiver);
        drain::frame_mark();
        drop(other);
        drain::frame_mark();
        drop(sender);
        drain::frame_mark();
        let depths = depths.map(|depth| Some(depth as f64));
        let expected: Vec<_> = depths.into_iter().chain([Some(699.0), Some(0.0), None]).collect();
        assert_eq!(metric(&path, "depth: jobs"), expected);
    }

    /// Each message is counted, whichever thread receives it by whichever receiver.
    fn no_message_of_many_receivers_is_miscounted() {
        const EACH: u64 = 10_000;
        let (_folder, path) = start(Config::new());
        let (sender, receiver) = channels::named("jobs");
        let begin = Barrier::new(6);
        std::thread::scope(|scope| {
            // Two threads send. Two share a receiver, and two have one each.
            for _ in 0..2 {
                scope.spawn(|| {
                    begin.wait();
                    (0..2 * EACH + 50).for_each(|job| sender.send(job).unwrap());
                });
            }
            for at in 0..4 {
                let own = (at % 2 == 0).then(|| receiver.clone());
                let (receiver, begin) = (&receiver, &begin);
                scope.spawn(move || {
                    let receiver = own.as_ref().unwrap_or(receiver);
                    begin.wait();
                    for job in 0..EACH {
                        // A thread leaves its lane, and comes back.
                        if job % 64 == 0 {
                            receiver.clone().recv().unwrap();
                        } else {
                            receiver.recv().unwrap();
                        }
                    }
                });
            }
        });
        drain::frame_mark();
        assert_eq!(receiver.try_iter().count(), 100);
        drain::frame_mark();
        assert_eq!(metric(&path, "depth: jobs"), [Some(100.0), Some(0.0)]);
    }

    fn a_receiver_that_finds_no_message_waits() {
        let (_folder, path) = start(Config::new());
        let (sender, receiver) = channels::named("jobs");
        let producer = named("producer", move || {
            for job in 0..4 {
                let_others_wait();
                sender.send(job).unwrap();
            }
            let_others_wait();
        });
        let consumer = named("consumer", move || {
            assert_eq!(receiver.recv(), Ok(0));
            assert_eq!(receiver.iter().next(), Some(1));
            assert_eq!(receiver.recv_timeout(LENGTH * 100), Ok(2));
            assert_eq!(receiver.recv_deadline(Instant::now() + LENGTH * 100), Ok(3));
            // The end of the last sender ends the wait.
            assert!(receiver.recv().is_err());
        });
        producer.join().unwrap();
        consumer.join().unwrap();
        let recording = read(&path);
        assert_eq!(wait_names(&recording), ["wait: jobs to receive"; 5]);
        assert!(recording.waits().all(|wait| wait.thread == "consumer"));
    }

    fn a_sender_that_finds_no_room_waits() {
        let (_folder, path) = start(Config::new());
        for bound in [0, 1] {
            let (sender, receiver) = channels::bounded_named("jobs", bound);
            (0..bound).for_each(|job| sender.send(job).unwrap());
            let consumer = named("consumer", move || {
                for job in 0..3 {
                    let_others_wait();
                    assert_eq!(receiver.recv(), Ok(job));
                }
                let_others_wait();
            });
            sender.send(bound).unwrap();
            sender.send_timeout(bound + 1, LENGTH * 100).unwrap();
            sender.send_deadline(bound + 2, Instant::now() + LENGTH * 100).unwrap();
            // The end of the receiver ends the wait.
            if bound == 0 {
                assert!(sender.send(9).is_err());
            }
            consumer.join().unwrap();
        }
        let recording = read(&path);
        assert_eq!(wait_names(&recording), ["wait: jobs to send"; 7]);
    }

    fn a_sender_that_finds_a_waiting_receiver_does_not_wait() {
        let (_folder, path) = start(Config::new());
        let (sender, receiver) = channels::bounded_named("jobs", 0);
        let consumer = named("consumer", move || {
            assert_eq!(receiver.recv(), Ok(0));
            assert_eq!(receiver.recv_timeout(LENGTH * 100), Ok(1));
        });
        for job in 0..2 {
            let_others_wait();
            sender.send(job).unwrap();
        }
        consumer.join().unwrap();
        assert_eq!(wait_names(&read(&path)), ["wait: jobs to receive"; 2]);
    }

    /// An inner end keeps a channel open whose own ends of that side are gone.
    fn an_end_waits_for_an_inner_end() {
        let (_folder, path) = start(Config::new());
        let (sender, receiver) = channels::bounded_named("jobs", 1);
        let (inner, job) = (sender.as_inner().clone(), sender.message(1));
        drop(sender);
        let producer = named("producer", move || {
            let_others_wait();
            inner.send(job).unwrap();
        });
        assert_eq!(receiver.recv(), Ok(1));
        producer.join().unwrap();
        let (sender, receiver) = channels::bounded_named("results", 1);
        sender.send(1).unwrap();
        let inner = receiver.as_inner().clone();
        drop(receiver);
        let consumer = named("consumer", move || {
            let_others_wait();
            inner.recv().unwrap();
            inner.recv().unwrap();
        });
        sender.send(2).unwrap();
        consumer.join().unwrap();
        let waits = ["wait: jobs to receive", "wait: results to send"];
        assert_eq!(wait_names(&read(&path)), waits);
    }

    fn nothing_is_recorded_without_blocking() {
        let (_folder, path) = start(Config::new());
        let (sender, receiver) = channels::bounded(1);
        for job in 0..1_000 {
            sender.send(job).unwrap();
            assert!(sender.try_send(job).is_err());
            assert!(sender.send_timeout(job, Duration::ZERO).is_err());
            assert!(sender.send_deadline(job, Instant::now()).is_err());
            assert_eq!(receiver.recv_timeout(LENGTH), Ok(job));
            assert!(receiver.recv_timeout(Duration::ZERO).is_err());
            assert!(receiver.recv_deadline(Instant::now()).is_err());
            assert!(receiver.try_recv().is_err() && receiver.try_iter().next().is_none());
        }
        drop(sender);
        assert!(receiver.recv().is_err());
        let (sender, receiver) = channels::bounded(1);
        sender.send(0).unwrap();
        drop(receiver);
        assert!(sender.send(1).is_err());
        let (sender, receiver) = channels::bounded(0);
        drop(receiver);
        assert!(sender.send(0).is_err());
        read(&path).assert_empty();
    }

    fn a_channel_without_a_name_has_that_of_its_place() {
        let (_folder, path) = start(Config::new());
        let line = line!() + 1;
        let (sender, receiver) = channels::unbounded();
        assert!(receiver.recv_timeout(Duration::from_millis(1)).is_err());
        sender.send(1).unwrap();
        let recording = read(&path);
        let names: Vec<_> = recording.waits().map(|wait| wait.name.as_str()).collect();
        assert_eq!(names, [format!("wait: {}:{line} to receive", file!())]);
        let depth = metric(&path, &format!("depth: {}:{line}", file!()));
        assert_eq!(depth, [Some(1.0)]);
    }

    /// Messages that other operations of the inner ends send and receive are counted.
    fn inner_ends_count_by_hand() {
        let (_folder, path) = start(Config::new());
        let (sender, receiver) = channels::named("jobs");
        for job in 0..3 {
            assert!(sender.sent(sender.as_inner().send(sender.message(job))).is_ok());
        }
        drain::frame_mark();
        assert_eq!(receiver.received(receiver.as_inner().recv()), Ok(0));
        assert_eq!(receiver.received(receiver.as_inner().try_recv()), Ok(1));
        drain::frame_mark();
        drop(receiver);
        let failed = sender.sent(sender.as_inner().send(sender.message(7)));
        assert_eq!(failed, Err(channels::SendError(7)));
        assert_eq!(metric(&path, "depth: jobs"), [Some(3.0), Some(1.0)]);
    }
}

/// Sends by one thread and receives by another, and checks the arrows between their scopes.
macro_rules! check_flows {
    ($($name:ident: $made:expr;)*) => {$(
        #[test]
        fn $name() {
            own_process!();
            let (_folder, path) = start(Config::new());
            let (sender, receiver) = $made;
            let consumer = named("consumer", move || {
                profile_scope!("work");
                // The first message is waited for.
                assert_eq!(receiver.recv(), Ok(1));
                {
                    profile_scope!("more work");
                    assert_eq!(receiver.iter().next(), Some(2));
                }
                assert_eq!(receiver.try_recv().ok(), None);
            });
            {
                profile_scope!("order");
                let_others_wait();
                sender.send(1).unwrap();
                sender.send(2).unwrap();
            }
            consumer.join().unwrap();
            assert!(sender.send(3).is_err());
            let recording = read(&path);
            let arrow = |to: &str| ("order".to_owned(), to.to_owned());
            assert_eq!(arrows(&recording), [arrow("work"), arrow("more work")]);
            // The arrow of the first message, and perhaps that of the second one, passes through
            // the wait that it ends.
            let wait = "wait: jobs to receive";
            let passed = arrows_to(&recording, FlowStage::Step);
            assert_eq!(passed[0], arrow(wait));
            assert!(passed.iter().all(|passed| *passed == arrow(wait)));
            assert!(recording.waits().any(|span| span.name == wait));
        }
    )*};
}

check_flows! {
    an_arrow_points_to_the_scope_that_receives: channel!("jobs", flows);
    an_arrow_of_a_bounded_channel: channel!("jobs", 64, flows);
    an_arrow_of_crossbeam: channel!("jobs", flows, of = crossbeam);
    an_arrow_of_bounded_crossbeam: channel!("jobs", 64, flows, of = crossbeam);
    an_arrow_of_flume: channel!("jobs", flows, of = flume);
    an_arrow_of_bounded_flume: channel!("jobs", 64, flows, of = flume);
}

/// A sender that waits for room begins the arrow in its own scope, and not in that of the wait.
#[test]
fn an_arrow_of_a_sender_that_waits_begins_in_its_scope() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, receiver) = channel!("jobs", 0, flows);
    let consumer = named("consumer", move || {
        let_others_wait();
        profile_scope!("work");
        assert_eq!(receiver.recv(), Ok(1));
    });
    {
        profile_scope!("order");
        sender.send(1).unwrap();
    }
    consumer.join().unwrap();
    let arrow = ("order".to_owned(), "work".to_owned());
    assert_eq!(arrows(&read(&path)), [arrow]);
}

/// Channels without flows record none, nor do those with flows while recording is off.
#[test]
fn channels_have_flows_only_if_they_are_asked_to() {
    own_process!();
    let (before, received) = channel!("before", flows);
    before.send(1).unwrap();
    let (_folder, path) = start(Config::new());
    assert_eq!(received.recv(), Ok(1));
    let (sender, receiver) = channel!("std");
    let (bounded, bounded_receiver) = channel!("std", 1);
    let (crossbeam, crossbeam_receiver) = channel!("crossbeam", of = crossbeam);
    let (flume, flume_receiver) = channel!("flume", 1, of = flume);
    sender.send(1).unwrap();
    bounded.send(1).unwrap();
    crossbeam.send(1).unwrap();
    flume.send(1).unwrap();
    assert_eq!((receiver.recv(), bounded_receiver.recv()), (Ok(1), Ok(1)));
    assert_eq!(
        (crossbeam_receiver.recv(), flume_receiver.recv()),
        (Ok(1), Ok(1))
    );
    let recording = read(&path);
    recording.assert_empty();
    assert!(recording.flows.is_empty());
}
