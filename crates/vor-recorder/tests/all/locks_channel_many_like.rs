//! Channels behave as those of crossbeam and flume: the same tests of all of them.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::thread;
use std::time::{Duration, Instant};

use crate::like_std::like_std;

fn short() -> Duration {
    Duration::from_millis(20)
}

fn is_shared<T: Send + Sync + UnwindSafe + RefUnwindSafe>(_: &T) {}

macro_rules! like_both {
    ($($tests:tt)*) => {
        mod of_crossbeam {
            use super::*;

            like_std! {
                { use crossbeam_channel as channel; }
                { use vor_recorder::locks::channel::crossbeam as channel; }
                $($tests)*
            }
        }

        mod of_flume {
            use super::*;

            like_std! {
                { use ::flume as channel; }
                { use vor_recorder::locks::channel::flume as channel; }
                $($tests)*
            }
        }
    };
}

like_both! {
    fn messages_come_in_their_order() {
        let (sender, receiver) = channel::unbounded();
        assert_eq!(receiver.try_recv(), Err(channel::TryRecvError::Empty));
        let producer = thread::spawn(move || (0..10_000).for_each(|i| sender.send(i).unwrap()));
        assert!(receiver.iter().eq(0..10_000));
        producer.join().unwrap();
        assert_eq!(receiver.try_recv(), Err(channel::TryRecvError::Disconnected));
        assert!(receiver.recv().is_err());
        let timed = receiver.recv_timeout(short());
        assert_eq!(timed, Err(channel::RecvTimeoutError::Disconnected));
        let timed = receiver.recv_deadline(Instant::now() + short());
        assert_eq!(timed, Err(channel::RecvTimeoutError::Disconnected));
    }

    fn each_message_goes_to_one_receiver() {
        let (sender, receiver) = channel::bounded(7);
        let sum: u64 = thread::scope(|scope| {
            let receivers = [(); 3].map(|()| {
                let receiver = receiver.clone();
                scope.spawn(move || receiver.into_iter().sum::<u64>())
            });
            for from in 0..2 {
                let sender = sender.clone();
                let mut messages = from * 5_000..(from + 1) * 5_000;
                scope.spawn(move || messages.all(|message| sender.send(message).is_ok()));
            }
            drop(sender);
            receivers.map(|receiver| receiver.join().unwrap()).iter().sum()
        });
        assert_eq!(sum, (0..10_000).sum::<u64>());
    }

    fn messages_may_borrow() {
        let texts = [String::from("a"), String::from("b")];
        let (sender, receiver) = channel::unbounded::<&str>();
        thread::scope(|scope| {
            scope.spawn(|| texts.iter().for_each(|text| sender.send(text).unwrap()));
            assert_eq!((receiver.recv(), receiver.recv()), (Ok("a"), Ok("b")));
        });
    }

    fn a_bounded_channel_blocks_when_it_is_full() {
        let (sender, receiver) = channel::bounded(2);
        sender.send(1).unwrap();
        sender.try_send(2).unwrap();
        assert_eq!(sender.try_send(3), Err(channel::TrySendError::Full(3)));
        let begin = Instant::now();
        assert_eq!(
            sender.send_timeout(3, short()),
            Err(channel::SendTimeoutError::Timeout(3))
        );
        assert_eq!(
            sender.send_deadline(3, begin),
            Err(channel::SendTimeoutError::Timeout(3))
        );
        thread::scope(|scope| {
            scope.spawn(|| {
                sender.send(4).unwrap();
                sender.send_timeout(5, 1_000 * short()).unwrap();
                assert!(begin.elapsed() >= 2 * short());
            });
            thread::sleep(short());
            assert_eq!([(); 4].map(|()| receiver.recv()), [Ok(1), Ok(2), Ok(4), Ok(5)]);
        });
        drop(receiver);
        assert_eq!(sender.try_send(5), Err(channel::TrySendError::Disconnected(5)));
        assert_eq!(sender.send(6), Err(channel::SendError(6)));
        assert_eq!(
            sender.send_timeout(7, short()),
            Err(channel::SendTimeoutError::Disconnected(7))
        );
    }

    fn a_channel_without_room_hands_over() {
        let (sender, receiver) = channel::bounded(0);
        assert_eq!(sender.try_send(0), Err(channel::TrySendError::Full(0)));
        thread::scope(|scope| {
            scope.spawn(|| (1..=100).for_each(|i| sender.send(i).unwrap()));
            assert!((1..=50).all(|i| receiver.recv() == Ok(i)));
            assert!((51..=100).all(|i| receiver.recv_timeout(short() * 100) == Ok(i)));
        });
    }

    fn the_other_end_wakes_when_the_last_one_is_gone() {
        let (sender, receiver) = channel::unbounded::<u8>();
        let other = sender.clone();
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(short());
                drop((sender, other));
            });
            assert!(receiver.recv().is_err());
        });
        let (sender, receiver) = channel::bounded(0);
        let other = receiver.clone();
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(short());
                drop((receiver, other));
            });
            assert_eq!(sender.send(9), Err(channel::SendError(9)));
        });
    }

    fn ends_tell_the_state_of_the_channel() {
        let (sender, receiver) = channel::bounded(2);
        is_shared(&sender);
        is_shared(&receiver);
        assert!(sender.is_empty() && receiver.is_empty() && !sender.is_full());
        (0..2).for_each(|i| sender.send(i).unwrap());
        assert!(sender.is_full() && receiver.is_full() && !receiver.is_empty());
        assert_eq!((sender.len(), receiver.len()), (2, 2));
        assert_eq!((sender.capacity(), receiver.capacity()), (Some(2), Some(2)));
        let (other, _other_receiver) = channel::unbounded();
        assert_eq!(other.capacity(), None);
        assert!(sender.same_channel(&sender.clone()) && !sender.same_channel(&other));
        assert!(receiver.same_channel(&receiver.clone()));
        assert!(receiver.try_iter().eq(0..2));
        other.send(3).unwrap();
        let (show, shown) = channel::unbounded::<fn()>();
        let text = format!("{show:?} {shown:?}");
        assert!(text.starts_with("Sender") && text.contains(" Receiver"), "{text}");
    }

    fn a_wait_for_a_message_times_out() {
        let (sender, receiver) = channel::unbounded();
        let begin = Instant::now();
        assert_eq!(receiver.recv_timeout(short()), Err(channel::RecvTimeoutError::Timeout));
        let deadline = Instant::now() + short();
        assert_eq!(receiver.recv_deadline(deadline), Err(channel::RecvTimeoutError::Timeout));
        assert!(begin.elapsed() >= 2 * short());
        sender.send(1).unwrap();
        assert_eq!(receiver.recv_deadline(begin), Ok(1));
        drop(sender);
        assert_eq!((&receiver).into_iter().next(), None);
    }
}

mod of_flume_alone {
    use super::*;

    like_std! {
        { use ::flume as channel; }
        { use vor_recorder::locks::channel::flume as channel; }

        fn ends_are_counted_and_messages_drained() {
            let (sender, receiver) = channel::unbounded();
            let others = (sender.clone(), receiver.clone(), receiver.clone());
            assert_eq!((sender.sender_count(), receiver.sender_count()), (2, 2));
            assert_eq!((sender.receiver_count(), receiver.receiver_count()), (3, 3));
            (0..5).for_each(|i| sender.send(i).unwrap());
            is_shared(&sender);
            let drained = receiver.drain();
            assert_eq!((drained.len(), receiver.len()), (5, 0));
            assert!(drained.eq(0..5));
            assert!(!sender.is_disconnected() && !receiver.is_disconnected());
            drop((others, receiver));
            assert!(sender.is_disconnected());
        }
    }
}
