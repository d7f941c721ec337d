//! Models of a holder that changes its scopes while a waiter reads the innermost one, and of
//! threads that send by one lane of a channel.
//!
//! The holder holds the lock in the site 1 alone, so the waiter must find no other site.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use vor_capture::model::catalog::SiteId;

use super::channel::depth::{Alone, Depth, Lanes};
use super::holder::HolderWord;
use crate::hot::thread::{
    Holder, Innermost, ThreadState, ThreadToken, end_thread, own_token, push_record, read_holder,
    set_up,
};

/// The site of the scope in which the lock is held.
const HOLDING: u32 = 1;
/// The site of the scopes in which it is not.
const OTHER: u32 = 2;

/// The site of waits for the lock.
const WAIT: SiteId = SiteId(3);

/// Closes the innermost scope as the fast path does.
fn close(state: &ThreadState, place: u32) {
    assert!(state.begin_close(place));
    push_record(state, &[[7, 7]]);
    state.release(place);
}

/// Closes the innermost scope while the ring is full.
fn close_dropped(state: &ThreadState, place: u32) {
    assert!(state.begin_close(place));
    state.ring.count_drop();
    state.release(place);
}

/// Closes the innermost scope without a record.
fn abandon(state: &ThreadState, place: u32) {
    state.pop_open(place);
}

/// Reads the innermost scope of the thread with this token while the lock's word has the token.
fn check(word: &HolderWord, token: ThreadToken) {
    match read_holder(token, WAIT, || word.get() == token) {
        Holder::Thread { innermost, .. } => match innermost {
            Innermost::Scope(SiteId(site)) => assert_eq!(site, HOLDING),
            // Only the holder that has waited has no other scope.
            Innermost::NoScope | Innermost::NotHeld | Innermost::Unreadable => {}
        },
        holder => panic!("{holder:?}"),
    }
}

/// Runs a model of a thread that does `work` and of a waiter. The state is that of the waiter,
/// whose part it begins: so the waiter needs one preemption less, and the state is still used by
/// one thread alone.
fn model(begin: fn(&ThreadState), work: fn(&ThreadState, &HolderWord, ThreadToken)) {
    loom::model(move || {
        let state = set_up().unwrap();
        begin(state);
        let token = own_token();
        let word = Arc::new(HolderWord::new());
        let holder = {
            let word = Arc::clone(&word);
            thread::spawn(move || work(state, &word, token))
        };
        check(&word, token);
        holder.join().unwrap();
        end_thread();
    });
}

fn open_other(state: &ThreadState) {
    state.push_open(OTHER, 10);
}

/// Holds the lock in a scope that `close` closes, within another scope.
fn hold(state: &ThreadState, word: &HolderWord, token: ThreadToken, close: fn(&ThreadState, u32)) {
    let place = state.push_open(HOLDING, 20);
    word.set(token);
    word.clear();
    close(state, place);
}

#[test]
fn a_waiter_never_finds_the_scope_around_the_holder_s() {
    model(open_other, |state, word, token| {
        hold(state, word, token, close)
    });
}

#[test]
fn a_waiter_never_finds_the_scope_around_one_that_was_dropped() {
    model(open_other, |state, word, token| {
        hold(state, word, token, close_dropped)
    });
}

#[test]
fn a_waiter_never_finds_the_scope_around_one_that_leaves_no_record() {
    model(open_other, |state, word, token| {
        hold(state, word, token, abandon)
    });
}

#[test]
fn a_waiter_never_finds_a_scope_after_a_hold() {
    model(
        |_| {},
        |state, word, token| {
            let place = state.push_open(HOLDING, 20);
            word.set(token);
            word.clear();
            close(state, place);
            state.push_open(OTHER, 30);
        },
    );
}

#[test]
fn a_waiter_skips_the_wait_of_the_holder() {
    model(
        |_| {},
        |state, word, token| {
            let wait = state.push_open(WAIT.0, 20);
            word.set(token);
            close(state, wait);
            let place = state.push_open(HOLDING, 30);
            word.clear();
            close(state, place);
        },
    );
}

/// Two threads send by one lane, which each leaves in between, and a third reads the depth.
#[test]
fn a_lane_that_changes_hands_loses_no_message() {
    loom::model(|| {
        let depth = Arc::new(Depth::<Alone>::new());
        let send = |me: u64| {
            let depth = Arc::clone(&depth);
            thread::spawn(move || {
                depth.add_sent(me);
                depth.leave_sending(me);
                depth.add_sent(me);
            })
        };
        let senders = [send(1), send(2)];
        assert!(depth.read() <= 4);
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(depth.read(), 4);
    });
}

/// A message that is counted is in the channel, so its receiver does not wait.
#[test]
fn a_counted_message_is_there() {
    loom::model(|| {
        let depth = Arc::new(Depth::<Alone>::new());
        let channel = Arc::new(AtomicU64::new(0));
        let send = |me: u64| {
            let (depth, channel) = (Arc::clone(&depth), Arc::clone(&channel));
            thread::spawn(move || {
                channel.fetch_add(1, Ordering::Relaxed);
                depth.add_sent(me);
            })
        };
        let senders = [send(1), send(2)];
        let mut received = 0;
        for _ in 0..2 {
            if depth.has_message() {
                assert!(channel.load(Ordering::Relaxed) > received);
                received += 1;
                depth.add_received(3, 1);
            }
        }
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(depth.has_message(), received < 2);
    });
}

/// A message that is received before it is counted as sent does not make the depth negative.
#[test]
fn a_depth_is_never_negative() {
    loom::model(|| {
        let depth = Arc::new(Depth::<Alone>::new());
        let sender = {
            let depth = Arc::clone(&depth);
            thread::spawn(move || depth.add_sent(1))
        };
        depth.add_received(2, 1);
        assert!(depth.read() <= 1);
        sender.join().unwrap();
        assert_eq!(depth.read(), 0);
    });
}

/// Two threads receive by one lane, which one of them leaves, and a third reads the depth.
#[test]
fn no_message_of_several_receivers_is_lost() {
    loom::model(|| {
        let depth = Arc::new(Depth::<Lanes>::new());
        (0..3).for_each(|_| depth.add_sent(1));
        let receive = |me: u64| {
            let depth = Arc::clone(&depth);
            thread::spawn(move || {
                depth.add_received(me, 1);
                depth.leave_receiving(me);
            })
        };
        let receivers = [receive(2), receive(3)];
        assert!((1..=3).contains(&depth.read()));
        for receiver in receivers {
            receiver.join().unwrap();
        }
        assert_eq!(depth.read(), 1);
    });
}
