//! The number of messages in a channel, from counts of those that were sent and received.
//!
//! Any number of threads send, also through one sender. Each sender adds to one of a few lanes:
//!
//! ```text
//! send    lane's owner is this thread, or none and now this one ── count + 1, a load and a store
//!         lane of another thread                                ── the count of all others + 1,
//!                                                                  an atomic addition
//! drop    lane's owner is this thread ── no owner
//! ```
//!
//! Where several threads receive, the receivers add to such lanes too. Where one thread at a time
//! receives, the count of received messages is a plain number.
//!
//! A message is counted after it was sent and after it was received. A reader may see a message
//! received that is not counted as sent yet, so it takes a negative depth for 0. It reads again if
//! a message was received meanwhile, for example because it lost its core. In a channel that is
//! never still, it misses the messages of the moment.

use crate::sync::{AtomicBool, AtomicU64, Ordering, array, const_fn};

/// Lanes of a channel. Senders beyond them share some.
#[cfg(not(loom))]
const LANES: usize = 4;
#[cfg(loom)]
const LANES: usize = 1;

/// How often a reader reads while messages are received.
const TRIES: u32 = 8;

/// A count to which its owner alone adds.
#[derive(Debug)]
struct Lane {
    /// The address of a thread-local of the owner, 0 without one. A thread stores only its own, in
    /// place of 0 (acquire), and 0 in place of its own (release). So the next owner goes on from
    /// the count of the last. A thread that ends may leave its address behind. The next thread with
    /// this address is the owner then, and its start is ordered after that end.
    owner: AtomicU64,
    /// Written by the owner, read by anyone, relaxed.
    count: AtomicU64,
}

/// A value at least 112 bytes before the next one, so that they do not share a cache line, or two
/// that the processor loads together. Unlike an alignment, it does not slow the allocation of a
/// channel down.
#[derive(Debug)]
#[repr(C)]
struct Apart<T> {
    value: T,
    _space: [u64; 14],
}

impl<T> Apart<T> {
    const fn new(value: T) -> Self {
        Self {
            value,
            _space: [0; 14],
        }
    }
}

/// Counts of messages to which any number of threads add.
#[derive(Debug)]
pub(in crate::locks) struct Lanes {
    lanes: [Apart<Lane>; LANES],
    /// Messages of threads that do not own the lane of their end. Relaxed.
    others: Apart<AtomicU64>,
}

/// A count of messages to which one thread at a time adds, and any thread reads. Relaxed.
#[derive(Debug)]
pub(in crate::locks) struct Alone(Apart<AtomicU64>);

/// The count of received messages.
pub(in crate::locks) trait Received: Send + Sync + 'static {
    fn new() -> Self;

    /// Counts messages that thread `me` has received by the receiver with this number.
    fn add(&self, receiver: usize, me: u64, messages: u64);

    /// Leaves the lane of a receiver to other threads.
    fn leave(&self, receiver: usize, me: u64);

    // Acquire: the numbers are read in the order of the calls.
    fn sum(&self) -> u64;
}

/// The counts of a channel's messages.
#[derive(Debug)]
pub(in crate::locks) struct Depth<R> {
    sent: Lanes,
    received: R,
    /// Whether the receivers are gone, and all messages with them. Relaxed.
    is_closed: AtomicBool,
}

impl Lane {
    const_fn! {
        const fn new() -> Self {
            Self { owner: AtomicU64::new(0), count: AtomicU64::new(0) }
        }
    }

    /// Adds messages, if the calling thread is the owner or there is none.
    #[inline(always)]
    fn add(&self, me: u64, messages: u64) -> bool {
        if self.owner.load(Ordering::Relaxed) != me && !self.claim(me) {
            return false;
        }
        add_alone(&self.count, messages);
        true
    }

    #[cold]
    #[inline(never)]
    fn claim(&self, me: u64) -> bool {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let claimed = self.owner.compare_exchange(0, me, acquire, relaxed);
        claimed.is_ok()
    }
}

impl Received for Lanes {
    fn new() -> Self {
        Self {
            lanes: array![Apart::new(Lane::new()); LANES],
            others: Apart::new(AtomicU64::new(0)),
        }
    }

    #[inline(always)]
    fn add(&self, end: usize, me: u64, messages: u64) {
        if !self.lanes[end % LANES].value.add(me, messages) {
            self.others.value.fetch_add(messages, Ordering::Relaxed);
        }
    }

    fn leave(&self, end: usize, me: u64) {
        let owner = &self.lanes[end % LANES].value.owner;
        if owner.load(Ordering::Relaxed) == me {
            owner.store(0, Ordering::Release);
        }
    }

    fn sum(&self) -> u64 {
        let in_lanes = self
            .lanes
            .iter()
            .map(|lane| lane.value.count.load(Ordering::Acquire));
        let others = self.others.value.load(Ordering::Acquire);
        in_lanes.fold(others, u64::wrapping_add)
    }
}

impl Received for Alone {
    fn new() -> Self {
        Self(Apart::new(AtomicU64::new(0)))
    }

    #[inline(always)]
    fn add(&self, _receiver: usize, _me: u64, messages: u64) {
        add_alone(&self.0.value, messages);
    }

    fn leave(&self, _receiver: usize, _me: u64) {}

    fn sum(&self) -> u64 {
        self.0.value.load(Ordering::Acquire)
    }
}

impl<R: Received> Depth<R> {
    pub(in crate::locks) fn new() -> Self {
        Self {
            sent: Lanes::new(),
            received: R::new(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Counts a message that thread `me` has sent by the sender with this number.
    #[inline(always)]
    pub(in crate::locks) fn add_sent(&self, sender: usize, me: u64) {
        self.sent.add(sender, me, 1);
    }

    /// Leaves the lane of a sender to other threads.
    pub(in crate::locks) fn leave_sending(&self, sender: usize, me: u64) {
        self.sent.leave(sender, me);
    }

    /// Counts messages that thread `me` has received by the receiver with this number.
    #[inline(always)]
    pub(in crate::locks) fn add_received(&self, receiver: usize, me: u64, messages: u64) {
        self.received.add(receiver, me, messages);
    }

    /// Leaves the lane of a receiver to other threads.
    pub(in crate::locks) fn leave_receiving(&self, receiver: usize, me: u64) {
        self.received.leave(receiver, me);
    }

    /// The receivers are gone, and the messages that they have not received.
    pub(in crate::locks) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Returns the number of messages that were sent and not received.
    pub(in crate::locks) fn read(&self) -> u64 {
        if self.is_closed.load(Ordering::Relaxed) {
            return 0;
        }
        let mut received = self.received.sum();
        let mut sent = 0;
        for _ in 0..TRIES {
            let before = received;
            sent = self.sent.sum();
            received = self.received.sum();
            // Nothing was received meanwhile, so this was the depth at some moment.
            if received == before {
                break;
            }
        }
        let depth = sent.wrapping_sub(received).cast_signed();
        u64::try_from(depth).unwrap_or(0)
    }
}

/// Adds to a number that no other thread writes at the same time.
#[inline(always)]
fn add_alone(count: &AtomicU64, messages: u64) {
    let next = count.load(Ordering::Relaxed).wrapping_add(messages);
    count.store(next, Ordering::Relaxed);
}
