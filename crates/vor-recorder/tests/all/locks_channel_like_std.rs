//! Channels behave as those of the standard library: the same tests of both.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crate::like_std::like_std;

fn short() -> Duration {
    Duration::from_millis(20)
}

fn is_send<T: Send>(_: &T) {}
fn is_sync<T: Send + Sync>(_: &T) {}

like_std! {
    { use std::sync::mpsc as channel; }
    { use vor_recorder::locks::channel; }

    fn messages_come_in_their_order() {
        let (sender, receiver) = channel::channel();
        is_sync(&sender);
        is_send(&receiver);
        assert_eq!(receiver.try_recv(), Err(channel::TryRecvError::Empty));
        let producer = thread::spawn(move || (0..10_000).for_each(|i| sender.send(i).unwrap()));
        assert!(receiver.iter().eq(0..10_000));
        producer.join().unwrap();
        assert_eq!(receiver.try_recv(), Err(channel::TryRecvError::Disconnected));
        assert_eq!(receiver.recv(), Err(channel::RecvError));
        let timed = receiver.recv_timeout(short());
        assert_eq!(timed, Err(channel::RecvTimeoutError::Disconnected));
    }

    fn a_bounded_channel_blocks_when_it_is_full() {
        let (sender, receiver) = channel::sync_channel(2);
        is_sync(&sender);
        sender.send(1).unwrap();
        sender.try_send(2).unwrap();
        assert_eq!(sender.try_send(3), Err(channel::TrySendError::Full(3)));
        let begin = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                sender.send(4).unwrap();
                assert!(begin.elapsed() >= short());
            });
            thread::sleep(short());
            assert_eq!([(); 3].map(|()| receiver.recv()), [Ok(1), Ok(2), Ok(4)]);
        });
        drop(receiver);
        assert_eq!(sender.try_send(5), Err(channel::TrySendError::Disconnected(5)));
        assert_eq!(sender.send(6), Err(channel::SendError(6)));
    }

    fn a_channel_without_room_hands_over() {
        let (sender, receiver) = channel::sync_channel(0);
        assert_eq!(sender.try_send(0), Err(channel::TrySendError::Full(0)));
        thread::scope(|scope| {
            scope.spawn(|| (1..=100).for_each(|i| sender.send(i).unwrap()));
            assert!((1..=50).all(|i| receiver.recv() == Ok(i)));
            assert!((51..=100).all(|i| receiver.recv_timeout(short() * 100) == Ok(i)));
        });
        thread::scope(|scope| {
            scope.spawn(move || assert_eq!(receiver.recv(), Ok(7)));
            while sender.try_send(7).is_err() {
                thread::yield_now();
            }
        });
    }

    fn a_receiver_that_blocks_is_woken_when_all_senders_are_gone() {
        let (sender, receiver) = channel::channel::<u8>();
        let other = sender.clone();
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(short());
                drop(sender);
                drop(other);
            });
            assert_eq!(receiver.recv(), Err(channel::RecvError));
        });
        let (sender, receiver) = channel::sync_channel::<u8>(1);
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(short());
                drop(sender);
            });
            let timed = receiver.recv_timeout(short() * 1_000);
            assert_eq!(timed, Err(channel::RecvTimeoutError::Disconnected));
        });
    }

    fn a_sender_that_blocks_is_woken_when_the_receiver_is_gone() {
        for bound in [0, 1] {
            let (sender, receiver) = channel::sync_channel(bound);
            (0..bound).for_each(|i| sender.send(i).unwrap());
            thread::scope(|scope| {
                scope.spawn(move || {
                    thread::sleep(short());
                    drop(receiver);
                });
                assert_eq!(sender.send(9), Err(channel::SendError(9)));
            });
        }
        let (sender, receiver) = channel::channel();
        drop(receiver);
        assert_eq!(sender.send(1), Err(channel::SendError(1)));
    }

    fn messages_that_are_left_are_dropped_with_the_receiver() {
        let message = std::sync::Arc::new(());
        let (sender, receiver) = channel::channel();
        sender.send(message.clone()).unwrap();
        let (bounded, bounded_receiver) = channel::sync_channel(1);
        bounded.send(message.clone()).unwrap();
        assert_eq!(std::sync::Arc::strong_count(&message), 3);
        drop((receiver, bounded_receiver));
        assert_eq!(std::sync::Arc::strong_count(&message), 1);
    }

    fn a_wait_for_a_message_times_out() {
        let (sender, receiver) = channel::channel();
        let begin = Instant::now();
        assert_eq!(receiver.recv_timeout(short()), Err(channel::RecvTimeoutError::Timeout));
        assert!(begin.elapsed() >= short());
        let zero = Duration::ZERO;
        assert_eq!(receiver.recv_timeout(zero), Err(channel::RecvTimeoutError::Timeout));
        sender.send(1).unwrap();
        assert_eq!(receiver.recv_timeout(zero), Ok(1));
    }

    fn iterators_end_where_those_of_std_do() {
        let (sender, receiver) = channel::sync_channel(8);
        (0..4).for_each(|i| sender.send(i).unwrap());
        assert!(receiver.try_iter().eq(0..4));
        assert_eq!(receiver.try_iter().next(), None);
        (4..6).for_each(|i| sender.send(i).unwrap());
        assert!(receiver.iter().take(1).eq([4]));
        drop(sender);
        let mut seen = Vec::new();
        for message in &receiver {
            seen.push(message);
        }
        assert_eq!(seen, [5]);
        let (sender, receiver) = channel::channel();
        let other = sender.clone();
        thread::spawn(move || sender.send("a").unwrap()).join().unwrap();
        thread::spawn(move || other.send("b").unwrap()).join().unwrap();
        assert_eq!(receiver.into_iter().collect::<String>(), "ab");
    }

    fn ends_show_as_those_of_std_do() {
        let (sender, receiver) = channel::channel::<fn()>();
        assert_eq!(format!("{sender:?} {receiver:?}"), "Sender { .. } Receiver { .. }");
        assert!(format!("{:?}", receiver.iter()).starts_with("Iter {"));
        let (sender, receiver) = channel::sync_channel::<fn()>(1);
        assert_eq!(format!("{sender:?}"), "SyncSender { .. }");
        assert!(format!("{:?}", receiver.into_iter()).starts_with("IntoIter {"));
    }

    fn a_panic_of_a_sender_wakes_the_receiver() {
        let (sender, receiver) = channel::channel::<u8>();
        let panicked = thread::spawn(move || {
            let _sender = sender;
            thread::sleep(short());
            let _ = catch_unwind(AssertUnwindSafe(|| panic!("that is caught")));
            panic!("with the sender");
        });
        assert_eq!(receiver.recv(), Err(channel::RecvError));
        assert!(panicked.join().is_err());
    }
}
