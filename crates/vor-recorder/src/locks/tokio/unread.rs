//! The number of messages in a channel whose receivers all get each message.
//!
//! ```text
//! send      after it was sent ── sent + 1
//! receive   the receiver's position + 1, or + the messages that it missed
//! empty     the receiver's position = sent
//! depth     sent − the smallest position
//! ```
//!
//! A receiver that comes while a message is sent may begin one message too early, since it cannot
//! know whether it gets that message. Its position is right as soon as it finds the channel empty.

use std::sync::{Arc, Mutex, TryLockError, Weak};

use crate::locks::channel::depth::{Lanes, Received as _};
use crate::locks::channel::link::this_thread;
use crate::sync::global::AtomicU64;
use crate::sync::{Ordering, lock};

/// The messages of a channel, and its receivers.
#[derive(Debug)]
pub(super) struct Unread {
    /// Most messages that the channel holds.
    capacity: u64,
    /// Messages that were sent.
    sent: Lanes,
    receivers: Mutex<Vec<Weak<Position>>>,
    /// The depth that was read last. Relaxed.
    last: AtomicU64,
}

/// The number of messages before the next one of a receiver. Written by the receiver, read by
/// anyone, relaxed.
#[derive(Debug)]
pub(super) struct Position(AtomicU64);

impl Unread {
    /// Makes the counts of a channel that holds at most `capacity` messages.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity as u64,
            sent: Lanes::new(),
            receivers: Mutex::default(),
            last: AtomicU64::new(0),
        }
    }

    /// Returns the position of a receiver that subscribes after this call.
    pub(super) fn subscribe(&self) -> Arc<Position> {
        let position = Arc::new(Position(AtomicU64::new(self.sent())));
        let mut receivers = lock(&self.receivers);
        if receivers.len() == receivers.capacity() {
            receivers.retain(|receiver| receiver.strong_count() > 0);
        }
        receivers.push(Arc::downgrade(&position));
        position
    }

    /// Counts a message that this thread has sent.
    #[inline(always)]
    pub(super) fn add_sent(&self) {
        self.sent.add(this_thread(), 1);
    }

    /// This thread drops a sender.
    pub(super) fn leave_sending(&self) {
        self.sent.leave(this_thread());
    }

    /// Returns the number of messages that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.sum()
    }

    /// Returns the number of messages that the channel holds for some receiver.
    pub(super) fn depth(&self) -> u64 {
        // A mark does not wait: in the child of a fork, the owner of the lock does not exist.
        let mut receivers = match self.receivers.try_lock() {
            Ok(receivers) => receivers,
            Err(TryLockError::Poisoned(receivers)) => receivers.into_inner(),
            Err(TryLockError::WouldBlock) => return self.last.load(Ordering::Relaxed),
        };
        let sent = self.sent();
        let mut first = sent;
        receivers.retain(|receiver| {
            let Some(receiver) = receiver.upgrade() else {
                return false;
            };
            first = first.min(receiver.read());
            true
        });
        let depth = (sent - first).min(self.capacity);
        self.last.store(depth, Ordering::Relaxed);
        depth
    }
}

impl Position {
    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts messages that the receiver has received or missed.
    #[inline(always)]
    pub(super) fn advance(&self, messages: u64) {
        let next = self.read().wrapping_add(messages);
        self.0.store(next, Ordering::Relaxed);
    }

    /// The receiver has found the channel empty.
    pub(super) fn catch_up(&self, unread: &Unread) {
        // A message that was received may not be counted as sent yet.
        self.0
            .store(self.read().max(unread.sent()), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_receiver_has_the_depth() {
        let unread = Unread::new(4);
        assert_eq!(unread.depth(), 0);
        let send = |messages| (0..messages).for_each(|_| unread.add_sent());
        send(3);
        assert_eq!(unread.depth(), 0, "nobody receives");
        let (slow, fast) = (unread.subscribe(), unread.subscribe());
        send(2);
        fast.advance(2);
        assert_eq!(unread.depth(), 2);
        send(7);
        assert_eq!(unread.depth(), 4, "the channel holds no more");
        slow.advance(5);
        slow.advance(1);
        assert_eq!(unread.depth(), 4);
        drop(fast);
        assert_eq!(unread.depth(), 3);
        drop(slow);
        assert_eq!(unread.depth(), 0);
    }

    #[test]
    fn an_empty_channel_has_no_depth() {
        let unread = Unread::new(4);
        // A message on its way is counted after the receiver has subscribed.
        let early = unread.subscribe();
        unread.add_sent();
        assert_eq!(unread.depth(), 1);
        early.catch_up(&unread);
        assert_eq!(unread.depth(), 0);
        // A message that was received is counted afterwards.
        early.advance(1);
        early.catch_up(&unread);
        assert_eq!(unread.depth(), 0);
        unread.add_sent();
        assert_eq!(unread.depth(), 0);
        unread.add_sent();
        assert_eq!(unread.depth(), 1);
    }

    #[test]
    fn receivers_that_are_gone_take_no_memory() {
        let unread = Unread::new(4);
        let stays = unread.subscribe();
        (0..10_000).for_each(|_| drop(unread.subscribe()));
        assert!(lock(&unread.receivers).capacity() < 10);
        drop(stays);
    }
}
